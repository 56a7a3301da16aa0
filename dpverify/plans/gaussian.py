"""Rounded Gaussian noise in a plan: the default for vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
import scipy

from dpverify.plans.noise import LogProbabilities, Noise, added_to, positive_scale, summed
from dpverify.privacy import Derivation, PrivacyClaim, Sensitivity, rules
from dpverify.privacy.numbers import Exact, settle, to_float
from dpverify.privacy.rules.making import require_made
from dpverify.privacy.tails import Tail
from dpverify.randomness import Bits, rounded_gaussian
from dpverify.randomness.bits import IntArray
from dpverify.randomness.enumeration import Atoms, Formal

_SMOOTH = 1e4  # from here on a cell's probability is its density to 1e-9
_FAR = 1e12
# least and largest deviation for which noise is drawn
_LEAST, _LARGEST = Fraction(1, 2**10), Fraction(2**45)
UNIT = Fraction(1 << 40)
"""Standard deviation of one-unit noise, on values that ``OneUnit`` has scaled."""


@dataclass(frozen=True, slots=True, init=False)
class RoundedGaussian(Noise):
    """Noise round(scale N(0, 1)), exactly, independently in every coordinate; in units of the
    query.

    Rounding an integer plus a real normal is post-processing of the Gaussian mechanism, so
    claims are exact Gaussian DP in every dimension.
    """

    tail = Tail.ROUNDED_GAUSSIAN
    scale: Fraction

    def __init__(self, scale: Exact) -> None:
        settle(self, scale=positive_scale(scale))

    def sample(self, bits: Bits, center: IntArray, size: int) -> IntArray:
        """Draw exactly around the center."""
        return added_to(center, bits.noise(self, size * center.shape[-1]), size)

    def draw(self, bits: Bits, size: int) -> IntArray:
        """Draw by ``dpverify.randomness.samplers.rounded_gaussian``."""
        return rounded_gaussian(bits, self.scale, size)

    def atoms(self, formal: Formal) -> Atoms:
        """Return the atoms of the stand-in."""
        return [(z, mass) for z in (-1, 0, 1) if (mass := formal.rounded_gaussian(z, self.scale))]

    def log_probability(self, outputs: IntArray, center: IntArray) -> LogProbabilities:
        """Compute log-probabilities, for witnesses only: float64, from exact integer distances."""
        sigma = min(to_float(self.scale), 1e300)
        if sigma > _SMOOTH:
            return summed(partial(_densities, sigma), outputs, center)
        return summed(partial(_cells, sigma), outputs, center)

    def claim(self, sensitivity: Derivation[Sensitivity]) -> Derivation[PrivacyClaim]:
        """Derive the claim by the rule of the rounded Gaussian."""
        require_made(sensitivity)  # before a look-alike is answered with the claim of its like
        return _claimed(sensitivity, self.scale, sensitivity.conclusion.domain.replacement)

    def undrawable(self) -> str:
        """Name the standard deviations for which Gaussian noise is drawn, where this one is not
        among them.
        """
        if _LEAST <= self.scale <= _LARGEST:
            return ""
        return (
            f"Gaussian noise of standard deviation {to_float(self.scale):.3g}, in released "
            "integers: it is drawn for standard deviations from 2^-10 to 2^45. Take another "
            "budget, or noise='laplace' where the mechanism offers it."
        )

    def rescaled(self, factor: Fraction) -> Noise:
        """Return the rounded Gaussian of scale * factor."""
        return RoundedGaussian(self.scale * factor)

    @property
    def standard_deviation(self) -> float:
        """Standard deviation sqrt(scale^2 + 1/12): rounding adds that of a uniform cell, up to
        a vanishing term.
        """
        return math.hypot(to_float(self.scale), math.sqrt(1 / 12))


@lru_cache(maxsize=256)
def _claimed(
    sensitivity: Derivation[Sensitivity], scale: Fraction, replacement: object
) -> Derivation[PrivacyClaim]:
    """Derive the claim once for all stages that move alike: the steps of a search, in each
    release.

    replacement: that of the domain, which equal domains need not share.
    """
    return rules.rounded_gaussian(sensitivity, scale)


def _densities(sigma: float, outputs: IntArray, center: IntArray) -> LogProbabilities:
    """Return the logarithm of the density of each number."""
    distance: LogProbabilities = np.abs(outputs - center).astype(np.float64)
    distance /= sigma
    np.minimum(distance, _FAR, out=distance)
    distance *= distance
    distance /= -2
    distance -= math.log(sigma * math.sqrt(2 * math.pi))
    return distance


def _cells(sigma: float, outputs: IntArray, center: IntArray) -> LogProbabilities:
    """Return the logarithm of the probability of each number.

    Where there are fewer distances than numbers, that of each distance is computed once.
    """
    distances = np.abs(outputs - center)
    most = distances.max(initial=0)
    if most >= distances.size or distances.dtype == object:
        return _at(sigma, distances.astype(np.float64))
    each = _at(sigma, np.arange(most + 1, dtype=np.float64))
    return np.asarray(each[distances])


def _at(sigma: float, distance: LogProbabilities) -> LogProbabilities:
    """Return the logarithm of the probability of a number at each distance."""
    near, far = (
        scipy.special.log_ndtr((0.5 - distance) / sigma),
        scipy.special.log_ndtr((-0.5 - distance) / sigma),
    )
    with np.errstate(divide="ignore"):
        cells: LogProbabilities = near + np.log1p(-np.exp(far - near))
    return cells
