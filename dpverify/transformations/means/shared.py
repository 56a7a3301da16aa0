"""Parts that both plans need: the released number of kept records, and their mean."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import scipy

from dpverify.grid.nearness import Nearness
from dpverify.grid.retained import KEPT, below_kept
from dpverify.plans import (
    Adaptive,
    Gate,
    Handle,
    KeptCount,
    Noise,
    Plan,
    Released,
    Stage,
    Unless,
)
from dpverify.privacy.calibration import least_integer
from dpverify.privacy.numbers import root_down, to_float

MEAN = Handle("mean")
TOO_FEW = "too few records that agree"


@lru_cache(maxsize=1 << 10)
def least_shift(noise: Noise, rare: Fraction) -> int:
    """Return the least t >= 1 with P(noise <= -t) <= rare; the noise is symmetric."""
    normal = noise.standard_deviation * -float(scipy.special.ndtri(to_float(rare))) + 0.5
    about = math.ceil(normal) if math.isfinite(normal) else 1
    return least_integer(lambda t: noise.falls_short(t, rare), above=0, about=about)


def least(holds: Callable[[int], bool], about: int = 1) -> int:
    """Return the least t >= 1 from which on ``holds`` is true, soon if it is ``about``."""
    return least_integer(holds, above=0, about=about)


def kept_plan(
    nearness: Nearness, noise: Noise, shift: int, tail: Fraction, mean: Callable[[int], Stage]
) -> Plan:
    """Plan the number of kept records minus ``shift`` with noise; where it is positive, their
    mean.
    """
    below, released = below_kept(KEPT, nearness), Released((KEPT,), lambda before: before[KEPT])
    return (
        Stage(KEPT, KeptCount(nearness, shift), noise),
        Gate(KEPT, 1, TOO_FEW),
        Adaptive(mean(1), released, lambda row: mean(*row), (below,)),
        Unless(below, tail),
    )


def spread_for(mu_squared: Fraction, width: int) -> Fraction:
    """Return about the least spread with (1 / spread + sqrt(width) 2^-40)^2 <= mu^2.

    It is as short a rational. Raises ValueError where the rounding alone takes more.
    """
    root = root_down(mu_squared, 60)
    left = root - Fraction(math.isqrt(width) + 1, 1 << 40) * (1 + Fraction(1, 2**30))
    if left <= 0:
        raise ValueError(
            f"a budget of mu = {float(root):.3g} leaves nothing for {width} columns; give a larger "
            "budget (a smaller noise_multiplier)."
        )
    return Fraction(math.ceil(2**40 / left), 2**40)
