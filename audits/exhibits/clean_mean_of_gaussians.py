"""Algorithm 2 on what it was made for: a sample of N(0, I), one record of it drawn again.

Nobody attacks. With so few records the covariance is never near I, so the filter drops good
ones, and which ones depends on every record; a third of such pairs violate the claim, this one
the most of 150.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpverify import Adjacency, ApproxDP, conjecture
from dpverify.audit import Exhibit
from dpverify.privacy import Domain, Source, SourceStatus
from dpverify.randomness import Bits

from ._robust import as_coded, pair, released, resampled

N = 200
GAMMA = 1 / N


def clean_mean_of_gaussians(data: Any, size: int, bits: Bits) -> Sequence[Any]:
    """Run the coded filter at gamma = 1/n and add the noise of Algorithm 2; in cells of 2^-10."""
    outputs: Sequence[Any] = released(data, size, bits, as_coded, GAMMA)
    return outputs


EXHIBIT = Exhibit(
    name="clean_mean_of_gaussians",
    function=clean_mean_of_gaussians,
    claim=conjecture(
        ApproxDP(1, "1/200"),
        adjacency=Adjacency.REPLACE,
        domain=Domain(columns=10),
        source=Source("DH20", "Section 4, Algorithm 2", SourceStatus.REFUTED),
    ),
    pairs=(pair("one record drawn again", resampled(N, 10, seed=137)),),
    why="on a Gaussian sample the filter drops good records, and one record changes which",
)
