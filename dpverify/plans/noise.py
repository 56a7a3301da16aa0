"""Noise of a stage: its sampler, its log-probabilities, and the rule that makes its claim.

All three stand side by side so that they cannot drift apart: what is sampled is what is claimed.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpverify.grid import Query
from dpverify.grid.linear import largest
from dpverify.privacy import Derivation, PrivacyClaim, Sensitivity, rules
from dpverify.privacy.balls import is_at_most
from dpverify.privacy.numbers import Exact, exact, settle, to_float
from dpverify.privacy.sealed import guard
from dpverify.privacy.tails import Tail
from dpverify.randomness import Bits, discrete_laplace, randomized_response
from dpverify.randomness.bits import IntArray
from dpverify.randomness.enumeration import Atoms, Formal

LogProbabilities = NDArray[np.float64]


class Noise(ABC):
    """Randomness added to an integer query value, independent in every coordinate."""

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        guard(cls, "__init__")  # checked once for each object, because a plan rests on it

    @abstractmethod
    def sample(self, bits: Bits, center: IntArray, size: int) -> IntArray:
        """Draw ``size`` independent noisy values, shape (size, width); center: shape (width,),
        or where noise is added also (size, width), one for each.
        """

    def draw(self, bits: Bits, size: int) -> IntArray:
        """Draw ``size`` independent values of the noise itself (where there is one to add)."""
        raise TypeError(f"{type(self).__name__} is not a noise that is added.")

    def atoms(self, formal: Formal) -> Atoms:
        """Return the noise's values with exact masses under stand-in numbers, for enumeration."""
        raise TypeError(f"{type(self).__name__} is not a noise that is added.")

    @abstractmethod
    def log_probability(self, outputs: IntArray, center: IntArray) -> LogProbabilities:
        """Compute the natural logarithm of each row's probability, shape (size,); -inf where
        impossible.
        """

    @abstractmethod
    def claim(self, sensitivity: Derivation[Sensitivity]) -> Derivation[PrivacyClaim]:
        """Derive what the rules say of a query of this sensitivity under this noise."""

    def check(self, query: Query) -> None:
        """Refuse a query that this noise is not made for, before any data."""
        if not isinstance(query, Query):
            raise TypeError(f"{query!r} is not a query; a stage is a query and a noise.")

    def undrawable(self) -> str:
        """Return why no noise of this scale is drawn; the empty text where it is drawn."""
        return ""

    def rescaled(self, factor: Fraction) -> Noise | None:
        """Return the same law with its scale multiplied, for planting a fault; None without a
        scale.
        """
        return None

    def move(self, outputs: IntArray, old: IntArray, new: IntArray) -> IntArray:
        """Move the same noise to another query value, for planting a fault."""
        return outputs - old + new

    def dropped(self) -> Noise:
        """Return the same release without randomness, for planting a fault."""
        return NoNoise()

    tail: ClassVar[Tail | None] = None
    """Law of the noise as the kernel names it, where the kernel knows the law's tails; such a
    noise has a ``scale``.
    """

    def falls_short(self, distance: int, beta: Fraction) -> bool:
        """Return whether P(noise <= -distance) <= beta in one coordinate; never wrongly yes."""
        tail = self.tail
        if tail is None:
            return beta >= 1
        return is_at_most(lambda: tail.at_least(distance, self._scale), beta)

    @property
    def _scale(self) -> Fraction:
        scale: Fraction = getattr(self, "scale", Fraction(0))
        return scale

    @property
    def is_added(self) -> bool:
        """True if what is released is the query's value plus a noise, of as many numbers."""
        return True

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of one coordinate, in units of the query; for people, not for
        claims.
        """
        return 0.0


@dataclass(frozen=True, slots=True)
class NoNoise(Noise):
    """Release of the value itself: only for queries that no neighbor can change."""

    tail = Tail.NONE
    scale = Fraction(1)

    def sample(self, bits: Bits, center: IntArray, size: int) -> IntArray:
        """Return the center, ``size`` times."""
        return np.broadcast_to(center, (size, center.shape[-1])).copy()

    def log_probability(self, outputs: IntArray, center: IntArray) -> LogProbabilities:
        """Return 0 at the center, -inf elsewhere."""
        return np.where((outputs == center).all(axis=1), 0.0, -np.inf)

    def claim(self, sensitivity: Derivation[Sensitivity]) -> Derivation[PrivacyClaim]:
        """Derive the claim by the rule of a public value."""
        return rules.public_value(sensitivity)


@dataclass(frozen=True, slots=True, init=False)
class DiscreteLaplace(Noise):
    """Integer noise of mass proportional to exp(-|z| / scale), in units of the query."""

    tail = Tail.DISCRETE_LAPLACE
    scale: Fraction

    def __init__(self, scale: Exact) -> None:
        settle(self, scale=positive_scale(scale))

    def sample(self, bits: Bits, center: IntArray, size: int) -> IntArray:
        """Draw exactly around the center."""
        return added_to(center, bits.noise(self, size * center.shape[-1]), size)

    def draw(self, bits: Bits, size: int) -> IntArray:
        """Draw by ``dpverify.randomness.samplers.discrete_laplace``."""
        return discrete_laplace(bits, self.scale, size)

    def atoms(self, formal: Formal) -> Atoms:
        """Return (1 - w) / (1 + w) w^|z| up to where 1/1000 of the mass is left; w stands for
        e^-1/scale.
        """
        w = formal(1 / self.scale)
        masses = [(1 - w) / (1 + w)]
        while 2000 * masses[-1] * w > 1 - w:  # the two tails beyond have a mass above 1/1000
            masses.append(masses[-1] * w)
        sides = [(sign * z, mass) for z, mass in enumerate(masses) if z for sign in (1, -1)]
        return [(0, masses[0]), *sides]

    def log_probability(self, outputs: IntArray, center: IntArray) -> LogProbabilities:
        """Compute log-probabilities, for witnesses only: float64, from exact integer distances."""
        decay = max(_rate(self.scale), _SLOWEST)
        normalizer = center.shape[-1] * math.log(math.tanh(decay / 2))
        distance = summed(_distances, outputs, center)
        return np.asarray(normalizer - distance * decay)

    def claim(self, sensitivity: Derivation[Sensitivity]) -> Derivation[PrivacyClaim]:
        """Derive the claim by the rule of discrete Laplace noise."""
        return rules.discrete_laplace(sensitivity, self.scale)

    def rescaled(self, factor: Fraction) -> Noise:
        """Return discrete Laplace noise of scale * factor."""
        return DiscreteLaplace(self.scale * factor)

    @property
    def standard_deviation(self) -> float:
        """Standard deviation sqrt(2 q) / (1 - q), q = exp(-1 / scale)."""
        rate = _rate(self.scale)
        if rate < _SLOW:  # sqrt(2) scale (1 - rate^2 / 24 + ...); a quotient would be 0 / 0
            return math.sqrt(2) * to_float(self.scale)
        return math.sqrt(2) * math.exp(-rate / 2) / -math.expm1(-rate)


@dataclass(frozen=True, slots=True, init=False)
class KaryResponse(Noise):
    """Randomized response: each category kept with weight 1, every other one with weight exp(-1
    / scale).
    """

    categories: int
    scale: Fraction

    def __init__(self, categories: int, scale: Exact) -> None:
        settle(self, categories=categories)
        settle(self, scale=positive_scale(scale))

    def sample(self, bits: Bits, center: IntArray, size: int) -> IntArray:
        """Draw exactly (dpverify.randomness.samplers.randomized_response)."""
        return randomized_response(bits, center, self.categories, self.scale, size)

    def log_probability(self, outputs: IntArray, center: IntArray) -> LogProbabilities:
        """Compute log-probabilities, for witnesses only: float64, from the exact number of
        changed answers.
        """
        changed = summed(_changes, outputs, center)
        decay = _rate(self.scale)
        normalizer = math.log1p((self.categories - 1) * math.exp(-decay))
        possible = ((outputs >= 0) & (outputs < self.categories)).all(axis=1)
        return np.where(possible, -decay * changed - len(center) * normalizer, -np.inf)

    def claim(self, sensitivity: Derivation[Sensitivity]) -> Derivation[PrivacyClaim]:
        """Derive the claim by the rule of randomized response."""
        return rules.randomized_response(sensitivity, self.scale)

    def rescaled(self, factor: Fraction) -> Noise:
        """Return randomized response of scale * factor."""
        return KaryResponse(self.categories, self.scale * factor)

    def move(self, outputs: IntArray, old: IntArray, new: IntArray) -> IntArray:
        """Apply the same cyclic shifts to other answers."""
        moved: IntArray = (outputs - old + new) % self.categories
        return moved


def positive_scale(scale: Exact) -> Fraction:
    """Return the scale as a rational. Raises ValueError unless it is positive."""
    value = exact(scale, "scale")
    if value <= 0:
        raise ValueError(f"scale = {scale} is not positive; noise needs a scale above 0.")
    return value


def _distances(outputs: IntArray, center: IntArray) -> LogProbabilities:
    """Return how far each output is from its center."""
    distance: LogProbabilities = np.abs(outputs - center).astype(np.float64)
    return distance


def _changes(outputs: IntArray, center: IntArray) -> LogProbabilities:
    """Return 1 for each output that is not its center."""
    changed: LogProbabilities = (outputs != center).astype(np.float64)
    return changed


_SLOW, _SLOWEST = 1e-7, 1e-300
_CACHED = 1 << 14  # numbers
_SEVERAL, _SHORT = 8, 64  # columns from which on numpy adds them in another order; rows


@lru_cache(maxsize=256)
def _rate(scale: Fraction) -> float:
    """Return 1 / scale as a float, for witnesses and error bars only; capped where e^-rate is
    nil.
    """
    return float(min(1 / scale, Fraction(10**300)))


def summed(
    terms: Callable[[IntArray, IntArray], LogProbabilities], outputs: IntArray, center: IntArray
) -> LogProbabilities:
    """Return the sum of each row of terms, one for each output and its center, some rows at a
    time.

    terms: computed entry by entry, of a whole table or of a column. center: one for all rows, or
    one for each. The processor's cache holds all that is computed of the rows at a time.
    """
    size, width = outputs.shape
    step = max(1, _CACHED // max(1, width))
    if size <= step:
        return _row_sums(terms, outputs, center)
    sums: LogProbabilities = np.empty(size)
    alike = center.ndim == 1 or len(center) == 1
    for start in range(0, size, step):
        rows = slice(start, start + step)
        sums[rows] = _row_sums(terms, outputs[rows], center if alike else center[rows])
    return sums


def _row_sums(
    terms: Callable[[IntArray, IntArray], LogProbabilities], outputs: IntArray, center: IntArray
) -> LogProbabilities:
    """Return what ``summed`` does. A few columns are added one by one, as numpy adds them, which
    would take ten times as long.
    """
    size, width = outputs.shape
    if size < _SHORT or not 0 < width < _SEVERAL:
        return np.asarray(terms(outputs, center).sum(axis=1))
    total = terms(outputs[:, 0], center[..., 0])
    for j in range(1, width):
        total += terms(outputs[:, j], center[..., j])
    return total


def added_to(center: IntArray, noise: IntArray, size: int) -> IntArray:
    """Add every row of noise to the center, or to its own, shape (size, width), exactly."""
    noise = noise.reshape(size, center.shape[-1])
    if largest(noise) + largest(center) >= 1 << 62:
        noise = noise.astype(object)
    total: IntArray = noise + center
    return total
