"""Laplace noise in proportion to a scale that follows the data, and is not released."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpverify.grid import Query
from dpverify.grid.smooth import SmoothMedians
from dpverify.plans.noise import LogProbabilities, Noise, positive_scale
from dpverify.privacy import Derivation, PrivacyClaim, Sensitivity, rules
from dpverify.privacy.numbers import Exact, settle, to_float
from dpverify.randomness import Bits, RoundedLaplace
from dpverify.randomness.bits import IntArray

_LEAST_RATE, _MOST_RATE = 1e-300, 1e300


@dataclass(frozen=True, slots=True, init=False)
class SmoothNoise(Noise):
    """Noise number + round(scale S / unit Z), Z standard Laplace, for every row (number, S) of
    the query's value.

    A stage of it has no public standard deviation, for S follows the data.
    """

    scale: Fraction
    unit: int
    count: int

    def __init__(self, scale: Exact, unit: int, count: int) -> None:
        settle(self, scale=positive_scale(scale))
        settle(self, unit=unit)
        settle(self, count=count)

    def sample(self, bits: Bits, center: IntArray, size: int) -> IntArray:
        """Draw exactly (dpverify.randomness.rounded), shape (size, count)."""
        columns = []
        for number, law in zip(center[:, 0].tolist(), self._laws(center), strict=True):
            noise = bits.noise(law, size)
            if max(abs(int(noise.max(initial=0))), abs(int(noise.min(initial=0)))) >= 1 << 61:
                noise = noise.astype(object)
            columns.append(noise + number)
        return np.stack(columns, axis=1)

    def log_probability(self, outputs: IntArray, center: IntArray) -> LogProbabilities:
        """Compute log-probabilities, for witnesses only: float64, from exact integer distances."""
        total = np.zeros(len(outputs))
        for j, law in enumerate(self._laws(center)):
            distance = np.abs(outputs[:, j] - int(center[j, 0])).astype(np.float64)
            there = distance == 0
            rate = min(max(to_float(1 / law.scale), _LEAST_RATE), _MOST_RATE)
            # for z beyond 0 the mass is e^(-(z - 1/2) rate) (1 - e^-rate) / 2
            distance -= 0.5
            distance *= rate
            np.subtract(np.log(-np.expm1(-rate) / 2), distance, out=distance)
            distance[there] = np.log(-np.expm1(-rate / 2))
            total += distance
        return total

    def claim(self, sensitivity: Derivation[Sensitivity]) -> Derivation[PrivacyClaim]:
        """Derive the claim by the rules of smooth Laplace noise, and of the composition of all
        columns.
        """
        each = rules.smooth_laplace(sensitivity, self.scale)
        return rules.adaptive_compose([each] * self.count)

    def check(self, query: Query) -> None:
        """Check that the query gives numbers with a smooth scale each, in this noise's unit."""
        own = isinstance(query, SmoothMedians) and (query.unit, len(query.columns))
        if own != (self.unit, self.count):
            raise ValueError(
                f"Noise for {self.count} numbers with scales in 1/{self.unit} of a cell needs "
                f"SmoothMedians of just these, not {query}."
            )

    def rescaled(self, factor: Fraction) -> Noise:
        """Return the same noise of scale * factor."""
        return SmoothNoise(self.scale * factor, self.unit, self.count)

    def dropped(self) -> Noise:
        """Return noise of a scale so small that only the numbers themselves are left."""
        return self.rescaled(Fraction(1, 10**9) / self.scale)

    @property
    def is_added(self) -> bool:
        """False: noise is added to the numbers alone, not to the scales that are also in the
        value.
        """
        return False

    def _laws(self, center: NDArray[np.int64]) -> list[RoundedLaplace]:
        return [RoundedLaplace(self.scale * Fraction(int(s), self.unit)) for s in center[:, 1]]
