"""Known location-scale families: normal, logistic and Gumbel laws, and their exponentials.

Records of the latter have logarithms of these laws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpverify.families.location_scale import LocationScaleFamily
from dpverify.privacy.numbers import Floats

_LARGEST = 1.7e308


class _Logarithms(LocationScaleFamily):
    """Base of families of records whose logarithms have the law."""

    def record(self, t: Floats) -> Floats:
        """Return the exponential of t."""
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(np.minimum(np.exp(t), _LARGEST))

    def statistic(self, x: float) -> float:
        """Return the logarithm of the record."""
        return math.log(x) if x > 0 else -math.inf


@dataclass(frozen=True)
class NormalFamily(LocationScaleFamily):
    """Normal records, with unknown mean and deviation."""

    parameters: ClassVar[tuple[str, str]] = ("mean", "deviation")

    def log_density(self, y: Floats) -> Floats:
        """Return -y^2 / 2."""
        return np.asarray(-y * y / 2)

    def window(self) -> tuple[float, float]:
        """Return nine deviations to both sides."""
        return -9.0, 9.0


@dataclass(frozen=True)
class LogNormalFamily(_Logarithms, NormalFamily):
    """Records whose logarithms are normal, with unknown mean and deviation of these."""

    parameters: ClassVar[tuple[str, str]] = ("mean of logarithms", "deviation of logarithms")


@dataclass(frozen=True)
class LogisticFamily(LocationScaleFamily):
    """Logistic records: P(x <= t) = 1 / (1 + exp(-(t - location) / scale))."""

    def log_density(self, y: Floats) -> Floats:
        """Return -|y| - 2 ln(1 + e^-|y|)."""
        far = np.abs(y)
        return np.asarray(-far - 2 * np.log1p(np.exp(-far)))

    def window(self) -> tuple[float, float]:
        """Return -36 to 36: beyond there is less than 1e-15."""
        return -36.0, 36.0


@dataclass(frozen=True)
class LogLogisticFamily(_Logarithms, LogisticFamily):
    """Records whose logarithms are logistic.

    The parameters are the median and the power, 1 over the logarithms' scale.
    """

    parameters: ClassVar[tuple[str, str]] = ("median", "power")

    def textbook(self, location: float, scale: float) -> tuple[float, float]:
        """Return the median and the power."""
        return math.exp(location), 1 / scale

    def standard(self, first: float, second: float) -> tuple[float, float]:
        """Return location and scale of the logarithms."""
        return math.log(first), 1 / second


@dataclass(frozen=True)
class WeibullFamily(_Logarithms):
    """Weibull records with unknown scale and power: P(x > t) = exp(-(t / scale)^power).

    Their logarithms have Gumbel's law of least values.
    """

    parameters: ClassVar[tuple[str, str]] = ("scale", "power")

    def log_density(self, y: Floats) -> Floats:
        """Return y - e^y."""
        return np.asarray(y - np.exp(y))

    def window(self) -> tuple[float, float]:
        """Return a window of y, outside which e^y, an exponential number, is below 1e-15 or
        above 36.
        """
        return -36.0, math.log(36.0)

    def textbook(self, location: float, scale: float) -> tuple[float, float]:
        """Return the scale and the power."""
        return math.exp(location), 1 / scale

    def standard(self, first: float, second: float) -> tuple[float, float]:
        """Return location and scale of the logarithms."""
        return math.log(first), 1 / second
