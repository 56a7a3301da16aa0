"""Laws of integer vectors under rounded Gaussian noise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, states

from .laws import Outcome, real
from .profiles import gaussian_profile

UNIT = Fraction(2**40)
"""Standard deviation of one-unit noise."""


@states(Source("DRS22", "Gaussian noise on a query of known L2 sensitivity is mu-GDP"))
@dataclass(frozen=True)
class RoundedGaussianLaw:
    """Law of center + round(scale N(0, 1)) in every coordinate, independently."""

    center: Outcome
    scale: Fraction

    def probability(self, outcome: Outcome, e: Any) -> Any:
        """Return the product of the coordinates' masses, e.rounded_gaussian(z, scale)."""
        if len(outcome) != len(self.center):
            return Fraction(0)
        result: Any = Fraction(1)
        for x, c in zip(outcome, self.center, strict=True):
            result = result * e.rounded_gaussian(x - c, self.scale)
        return result

    def largest_loss(self, other: RoundedGaussianLaw) -> Fraction | None:
        """Return 0 for the same center, else None (infinite): the loss grows with the distance."""
        return Fraction(0) if self.center == other.center else None

    def profile(self, other: RoundedGaussianLaw, epsilon: Fraction) -> Any:
        """Return the profile of the noise before it is rounded, mu^2 = |c - c'|^2 / scale^2.

        It is an upper bound, since rounding is post-processing; within 1e-20 for noise as wide
        as one-unit noise.
        """
        square = self.mu_squared(other)
        return gaussian_profile(square, epsilon) if square else mp.mpf(0)

    def mu_squared(self, other: RoundedGaussianLaw) -> Fraction:
        """Return the squared distance of the centers in standard deviations."""
        if self.scale != other.scale or len(self.center) != len(other.center):
            raise ValueError("the noise must be the same on neighbors")
        if self.center == other.center:
            return Fraction(0)
        moved = sum((a - b) ** 2 for a, b in zip(self.center, other.center, strict=True))
        return moved / self.scale**2

    def most_outcomes(self) -> tuple[Iterable[Outcome], Any]:
        """Return, for one number, all outcomes but a mass below 2e-15
        (8 standard deviations away), and that mass.
        """
        (center,) = self.center
        reach = ceil(8 * self.scale)
        near = ((x,) for x in range(center - reach, center + reach + 1))
        return near, mp.erfc(real((reach + Fraction(1, 2)) / self.scale) / mp.sqrt(2))

    def facts(self) -> tuple[Any, ...]:
        """Return the name of the law, center and scale."""
        return ("RoundedGaussian", self.center, self.scale)


def one_unit(value: tuple[int, ...], scale: Fraction) -> Outcome:
    """Return the value divided by the public noise scale, rounded to multiples of 2^-40
    (ties to even).
    """
    return tuple(round(Fraction(v) * UNIT / scale) for v in value)


def most_gaussian(epsilon: int, delta: Any) -> Fraction:
    """Return mu^2 of the largest mu whose GDP is (epsilon, delta)-DP, rounded up to 2^-20."""
    low, high = mp.mpf(0), mp.mpf(8)
    for _ in range(60):
        mu = (low + high) / 2
        lost = mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)
        low, high = (mu, high) if lost < delta else (low, mu)
    return Fraction(int(mp.ceil(high**2 * 2**20)), 2**20)
