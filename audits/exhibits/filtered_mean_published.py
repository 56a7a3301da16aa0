"""Algorithm 1 with the filter as it was published: pruning does not help.

It removes whatever is far from half of the rows, which is the smaller cluster, all at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpverify import Adjacency, ApproxDP, conjecture
from dpverify.audit import Exhibit
from dpverify.privacy import Domain, Source, SourceStatus
from dpverify.randomness import Bits

from ._robust import as_published, clusters, pair, released

N = 101
GAMMA = 0.1


def filtered_mean_published(data: Any, size: int, bits: Bits) -> Sequence[Any]:
    """Run the published filter at gamma = 1/10 and add the noise of Algorithm 1; in cells of
    2^-10."""
    outputs: Sequence[Any] = released(data, size, bits, as_published, GAMMA)
    return outputs


EXHIBIT = Exhibit(
    name="filtered_mean_published",
    function=filtered_mean_published,
    claim=conjecture(
        ApproxDP(1, "1/101"),
        adjacency=Adjacency.REPLACE,
        domain=Domain(columns=2),
        source=Source("DH20", "Section 4, Algorithm 1", SourceStatus.REFUTED),
    ),
    pairs=(pair("two clusters", clusters(N, 2, 208.0, seed=0)),),
    why="pruning drops the smaller of two far clusters, and one record decides which that is",
)
