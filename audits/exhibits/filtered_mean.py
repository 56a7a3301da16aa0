"""A filtered mean with noise for a sensitivity that holds on good data only: Algorithm 1, as coded.

Of two clusters the filter keeps the larger. One record decides which that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpverify import Adjacency, ApproxDP, conjecture
from dpverify.audit import Exhibit
from dpverify.privacy import Domain, Source, SourceStatus
from dpverify.randomness import Bits

from ._robust import as_coded, clusters, one_outlier, pair, released

N = 101
GAMMA = 0.1


def filtered_mean(data: Any, size: int, bits: Bits) -> Sequence[Any]:
    """Run the coded filter at gamma = 1/10 and add the noise of Algorithm 1; in cells of 2^-10."""
    outputs: Sequence[Any] = released(data, size, bits, as_coded, GAMMA)
    return outputs


EXHIBIT = Exhibit(
    name="filtered_mean",
    function=filtered_mean,
    claim=conjecture(
        ApproxDP(1, "1/101"),
        adjacency=Adjacency.REPLACE,
        domain=Domain(columns=1),
        source=Source("DH20", "Section 4, Algorithm 1", SourceStatus.REFUTED),
    ),
    pairs=(
        pair("two clusters", clusters(N, 1, 208.0, seed=0)),
        pair("one outlier", one_outlier(N, 1, 1e6, seed=0)),
    ),
    why="of two clusters of nearly equal size one record decides which is kept, however far "
    "apart they are",
)
