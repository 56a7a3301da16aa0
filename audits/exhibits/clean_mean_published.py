"""Algorithm 2 with the filter as it was published: its clusters must be further apart, no more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpverify import Adjacency, ApproxDP, conjecture
from dpverify.audit import Exhibit
from dpverify.privacy import Domain, Source, SourceStatus
from dpverify.randomness import Bits

from ._robust import as_published, clusters, pair, released

N = 301
GAMMA = 1 / N


def clean_mean_published(data: Any, size: int, bits: Bits) -> Sequence[Any]:
    """Run the published filter at gamma = 1/n and add the noise of Algorithm 2; in cells of
    2^-10."""
    outputs: Sequence[Any] = released(data, size, bits, as_published, GAMMA)
    return outputs


EXHIBIT = Exhibit(
    name="clean_mean_published",
    function=clean_mean_published,
    claim=conjecture(
        ApproxDP(1, "1/301"),
        adjacency=Adjacency.REPLACE,
        domain=Domain(columns=2),
        source=Source("DH20", "Section 4, Algorithm 2", SourceStatus.REFUTED),
    ),
    pairs=(pair("two clusters", clusters(N, 2, 208.0, seed=0)),),
    why="pruning drops the smaller of two far clusters, and one record decides which that is",
)
