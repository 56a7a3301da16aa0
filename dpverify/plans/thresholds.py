"""Histograms over keys that nobody lists: noise on every count that occurs, small ones withheld."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.special import ndtr

from dpverify.grid.tables import as_table
from dpverify.plans.gaussian import RoundedGaussian
from dpverify.plans.noise import DiscreteLaplace, LogProbabilities, Noise, positive_scale
from dpverify.privacy import Derivation, PrivacyClaim, Sensitivity, rules
from dpverify.privacy.numbers import Exact
from dpverify.randomness import Bits
from dpverify.randomness.bits import IntArray


class _Thresholded(Noise):
    """(key, count + noise) for every key that occurs and has count + noise >= threshold.

    A draw is the tuple key, count, key, count, ... in increasing order of keys; a batch is an array of
    such tuples, shape (size,), dtype object.
    """

    __slots__ = ()
    threshold: int

    @property
    @abstractmethod
    def added(self) -> Noise:
        """The noise on a count."""

    def sample(self, bits: Bits, center: IntArray, size: int) -> IntArray:
        """Independent noise on every key that occurs."""
        keys, counts = center[:, 0].tolist(), center[:, 1]
        drawn = np.empty(size, dtype=object)
        if not keys:
            drawn[:] = [()] * size
            return drawn
        noisy = self.added.sample(bits, counts, size)
        passed = np.asarray(noisy >= self.threshold, dtype=np.bool_)
        for i in range(size):
            shown = np.flatnonzero(passed[i])
            drawn[i] = tuple(int(v) for j in shown for v in (keys[j], noisy[i, j]))
        return drawn

    def log_probability(self, outputs: IntArray, center: IntArray) -> LogProbabilities:
        """For witnesses only: float64. -inf for a key that does not occur or a count below."""
        table = as_table(center)
        withheld = {key: self._log_withheld(count) for key, count in table.items()}
        silent = sum(withheld.values())
        found = np.full(len(outputs), silent)
        shown = [dict(zip(row[::2], row[1::2], strict=True)) for row in outputs]
        for key in {key for row in shown for key in row}:
            rows = np.array([i for i, row in enumerate(shown) if key in row])
            values = np.array([shown[i][key] for i in rows], dtype=np.int64)
            if key not in table:
                found[rows] = -np.inf
                continue
            count = np.array([table[key]])
            own = self.added.log_probability(values[:, np.newaxis], count)
            found[rows] += np.where(values >= self.threshold, own, -np.inf) - withheld[key]
        return found

    def _log_withheld(self, count: int) -> float:
        """ln P(count + noise < threshold)."""
        return float(np.log(max(self.below(self.threshold - count), 5e-324)))

    @abstractmethod
    def below(self, distance: int) -> float:
        """P(noise < distance), for witnesses."""

    def dropped(self) -> Noise:
        """Exact counts, the threshold kept."""
        return ExactCounts(self.threshold)


@dataclass(frozen=True, slots=True, init=False)
class ThresholdedLaplace(_Thresholded):
    """Discrete Laplace noise of ``scale`` on every count."""

    scale: Fraction
    threshold: int

    def __init__(self, scale: Exact, threshold: int) -> None:
        object.__setattr__(self, "scale", positive_scale(scale))
        object.__setattr__(self, "threshold", threshold)

    @property
    def added(self) -> Noise:
        """Discrete Laplace."""
        return DiscreteLaplace(self.scale)

    def below(self, distance: int) -> float:
        """1 - q^distance / (1 + q) from 1 on, q = e^(-1 / scale); q^(1 - distance) / (1 + q) below."""
        rate = float(min(1 / self.scale, Fraction(10**4)))
        tail = np.exp(-rate * max(distance, 1 - distance)) / (1 + np.exp(-rate))
        return float(1 - tail if distance >= 1 else tail)

    def claim(self, sensitivity: Derivation[Sensitivity]) -> Derivation[PrivacyClaim]:
        """Rule: stability histogram."""
        return rules.stability_histogram(sensitivity, scale=self.scale, threshold=self.threshold)

    def rescaled(self, factor: Fraction) -> Noise:
        """The same threshold under noise of scale * factor."""
        return ThresholdedLaplace(self.scale * factor, self.threshold)


@dataclass(frozen=True, slots=True, init=False)
class ThresholdedGaussian(_Thresholded):
    """round(scale N(0, 1)) on every count."""

    scale: Fraction
    threshold: int

    def __init__(self, scale: Exact, threshold: int) -> None:
        object.__setattr__(self, "scale", positive_scale(scale))
        object.__setattr__(self, "threshold", threshold)

    @property
    def added(self) -> Noise:
        """Rounded Gaussian."""
        return RoundedGaussian(self.scale)

    def below(self, distance: int) -> float:
        """Phi((distance - 1/2) / scale)."""
        return float(ndtr((distance - 0.5) / float(self.scale)))

    def claim(self, sensitivity: Derivation[Sensitivity]) -> Derivation[PrivacyClaim]:
        """Rule: Gaussian stability histogram."""
        return rules.gaussian_stability_histogram(
            sensitivity, sigma=self.scale, threshold=self.threshold
        )

    def rescaled(self, factor: Fraction) -> Noise:
        """The same threshold under noise of scale * factor."""
        return ThresholdedGaussian(self.scale * factor, self.threshold)


@dataclass(frozen=True, slots=True)
class ExactCounts(_Thresholded):
    """No noise: what a planted fault releases."""

    threshold: int

    @property
    def added(self) -> Noise:
        """None."""
        raise TypeError("exact counts have no noise")

    def sample(self, bits: Bits, center: IntArray, size: int) -> IntArray:
        """The counts that reach the threshold."""
        drawn = np.empty(size, dtype=object)
        rows: list[Any] = center[center[:, 1] >= self.threshold].ravel().tolist()
        drawn[:] = [tuple(rows)] * size
        return drawn

    def log_probability(self, outputs: IntArray, center: IntArray) -> LogProbabilities:
        """0 for the one possible output."""
        (only,) = self.sample(None, center, 1)  # type: ignore[arg-type]
        return np.array([0.0 if row == only else -np.inf for row in outputs])

    def below(self, distance: int) -> float:
        """Certain or impossible."""
        return float(distance > 0)

    def claim(self, sensitivity: Derivation[Sensitivity]) -> Derivation[PrivacyClaim]:
        """There is none."""
        raise ValueError("exact counts promise nothing")


def least_threshold(holds: Callable[[int], bool]) -> int:
    """The least threshold >= 2 for which a monotone condition holds."""
    low, high = 1, 2
    while not holds(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
