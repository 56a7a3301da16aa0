"""A filtered mean with noise for one corrupt record in n: Algorithm 2, as coded.

Less noise than Algorithm 1, so that records of length 2 refute it: one of them decides whether the
filter stops at once or drops nearly half of the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpverify import Adjacency, ApproxDP, conjecture
from dpverify.audit import Exhibit
from dpverify.privacy import Domain, Source, SourceStatus
from dpverify.randomness import Bits

from ._robust import as_coded, at_the_stopping_rule, clusters, pair, released

N = 2001
GAMMA = 1 / N


def clean_mean(data: Any, size: int, bits: Bits) -> Sequence[Any]:
    """Run the coded filter at gamma = 1/n and add the noise of Algorithm 2; in cells of 2^-10."""
    outputs: Sequence[Any] = released(data, size, bits, as_coded, GAMMA)
    return outputs


EXHIBIT = Exhibit(
    name="clean_mean",
    function=clean_mean,
    claim=conjecture(
        ApproxDP(1, "1/2001"),
        adjacency=Adjacency.REPLACE,
        domain=Domain(columns=2),
        source=Source("DH20", "Section 4, Algorithm 2", SourceStatus.REFUTED),
    ),
    pairs=(
        pair("two clusters", clusters(N, 2, 11.2, seed=0)),
        pair("the stopping rule", at_the_stopping_rule(N, 2, GAMMA)),
    ),
    why="one record decides which cluster is kept, and whether the filter stops at once",
)
