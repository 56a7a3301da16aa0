"""Gaussian noise of the textbook's scale, with a pure claim: no epsilon holds without a delta.

Its tails are too thin. DH20's Fact 2.1 drops the delta from the theorem that it quotes. The
noise has the variance 2 ln(1.25 / delta) / epsilon^2 of a count, at epsilon = 1 and delta = 1/2;
beyond t the odds of two neighbors are exp((t - 1/2) / variance), without bound. Here an event of
probability 0.07 on one side has a loss of 1.66.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify import Adjacency, PureDP, conjecture
from dpverify.audit import Exhibit, added
from dpverify.privacy import Domain, Source, SourceStatus
from dpverify.randomness import Bits, rounded_gaussian

CELL = 2**10
DEVIATION = math.sqrt(2 * math.log(1.25 / 0.5))


def gaussian_noise_is_pure(data: Sequence[Any], size: int, bits: Bits) -> Sequence[int]:
    """Return len(data) plus Gaussian noise, in cells of 2^-10."""
    noise = rounded_gaussian(bits, Fraction(round(DEVIATION * CELL)), size)
    noisy: list[int] = (len(data) * CELL + np.asarray(noise, dtype=np.int64)).tolist()
    return noisy


EXHIBIT = Exhibit(
    name="gaussian_noise_is_pure",
    function=gaussian_noise_is_pure,
    claim=conjecture(
        PureDP(1),
        adjacency=Adjacency.ADD_REMOVE,
        domain=Domain(columns=1),
        source=Source("DH20", "Fact 2.1", SourceStatus.REFUTED),
    ),
    pairs=(added("nobody against somebody", [], 170.0),),
    why="far out in the tail the odds of two normal laws grow without bound, so no epsilon "
    "holds without a delta",
    quick_trials=200_000,
)
