"""Known exponential families with one parameter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy

from dpverify.families.one_parameter import Family
from dpverify.privacy.numbers import Floats, exact, settle, to_float

_LARGEST = 1.7e308


def _positive(family: Family, name: str, least: float, most: float) -> None:
    """Keep a public shape as a float; raises TypeError or ValueError outside [least, most]."""
    number = to_float(exact(getattr(family, name), name))
    if not least <= number <= most:
        raise ValueError(f"{name} = {number}; give one from {least:g} to {most:g}.")
    settle(family, **{name: number})


@dataclass(frozen=True)
class Normal(Family):
    """Normal records of known deviation: T = x, theta = mean / deviation^2."""

    deviation: float = 1.0
    parameter: ClassVar[str] = "mean"

    def __post_init__(self) -> None:
        _positive(self, "deviation", 2.0**-400, 2.0**400)

    def log_base(self, t: Floats) -> Floats:
        """Return the log density of the standard law, unnormalized."""
        return np.asarray(-((t / self.deviation) ** 2) / 2)

    def log_density(self, theta: float, t: Floats) -> Floats:
        """Compute the log density by the distance from the mean, which does not cancel."""
        return np.asarray(-(((t - self.textbook(theta)) / self.deviation) ** 2) / 2)

    def support(self) -> tuple[float, float]:
        """Return the whole line."""
        return -math.inf, math.inf

    def record(self, t: Floats) -> Floats:
        """Return T itself."""
        return t

    def statistic(self, x: float) -> float:
        """Return the record."""
        return x

    def natural(self, parameter: float) -> float:
        """Return mean over variance."""
        return parameter / self.deviation / self.deviation

    def textbook(self, theta: float) -> float:
        """Return the mean."""
        return theta * self.deviation * self.deviation

    def range(self) -> tuple[float, float]:
        """Return the whole line: any mean."""
        return -math.inf, math.inf

    def window(self, theta: float) -> tuple[float, float]:
        """Return nine deviations to both sides of the mean."""
        mean = self.textbook(theta)
        return mean - 9 * self.deviation, mean + 9 * self.deviation

    def coordinate(self, parameter: float) -> float:
        """Return the mean in deviations."""
        return parameter / self.deviation

    def from_coordinate(self, v: float) -> float:
        """Return the mean."""
        return v * self.deviation

    def middle(self, theta: float) -> float:
        """Return the mean."""
        return self.textbook(theta)


@dataclass(frozen=True)
class LogNormal(Normal):
    """Records whose logarithms are normal of known deviation: T = ln x.

    The parameter is the mean of T.
    """

    parameter: ClassVar[str] = "mean of logarithms"

    def record(self, t: Floats) -> Floats:
        """Return the exponential of T."""
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(np.minimum(np.exp(t), _LARGEST))

    def statistic(self, x: float) -> float:
        """Return the logarithm of the record."""
        return math.log(x) if x > 0 else -math.inf


@dataclass(frozen=True)
class Poisson(Family):
    """Counts of a Poisson law: T = x, theta = ln(rate), for rates up to 1e8."""

    parameter: ClassVar[str] = "rate"
    lattice: ClassVar[bool] = True

    def log_base(self, t: Floats) -> Floats:
        """Return the logarithm of 1 / t!."""
        return np.asarray(np.where(t < 0, -np.inf, -scipy.special.gammaln(np.maximum(t, 0) + 1)))

    def support(self) -> tuple[float, float]:
        """Return the numbers that are not negative."""
        return 0.0, math.inf

    def record(self, t: Floats) -> Floats:
        """Return T itself."""
        return t

    def statistic(self, x: float) -> float:
        """Return the record."""
        return x

    def natural(self, parameter: float) -> float:
        """Return the rate's logarithm."""
        return math.log(parameter)

    def textbook(self, theta: float) -> float:
        """Return the rate."""
        return math.exp(theta)

    def range(self) -> tuple[float, float]:
        """Return positive rates, not so large that sums over counts take long."""
        return 0.0, 1e8

    def window(self, theta: float) -> tuple[float, float]:
        """Return nine deviations and some to both sides."""
        rate = self.textbook(theta)
        far = 9 * math.sqrt(rate) + 30
        return max(0.0, rate - far), rate + far

    def coordinate(self, parameter: float) -> float:
        """Map the rate to 2 sqrt(rate), where the deviation is 1."""
        return 2 * math.sqrt(parameter)

    def from_coordinate(self, v: float) -> float:
        """Return the rate."""
        return v * v / 4

    def middle(self, theta: float) -> float:
        """Return the rate less 1/3: between counts, where a search for the median count ends."""
        return self.textbook(theta) - 1 / 3


@dataclass(frozen=True)
class ContinuousPoisson(Poisson):
    """Positive numbers of density proportional to rate^x / Gamma(x + 1).

    The mean is not the rate: 1.2388 at rate 1.
    """

    lattice: ClassVar[bool] = False

    def middle(self, theta: float) -> float:
        """Return a little less than the mean."""
        mean = Family.middle(self, theta)
        return mean - 0.3 * min(mean, 0.5)


@dataclass(frozen=True)
class ContinuousBernoulli(Family):
    """Numbers from 0 to 1 of density proportional to p^x (1 - p)^(1 - x).

    T = x, theta = ln(p / (1 - p)).
    """

    parameter: ClassVar[str] = "p"

    def log_base(self, t: Floats) -> Floats:
        """Return 0 on the support: the base law is uniform."""
        return np.asarray(np.where((t < 0) | (t > 1), -np.inf, 0.0))

    def support(self) -> tuple[float, float]:
        """Return the interval from 0 to 1."""
        return 0.0, 1.0

    def record(self, t: Floats) -> Floats:
        """Return T itself."""
        return t

    def statistic(self, x: float) -> float:
        """Return the record."""
        return x

    def natural(self, parameter: float) -> float:
        """Return the log odds."""
        return math.log(parameter) - math.log1p(-parameter)

    def textbook(self, theta: float) -> float:
        """Return p, the share that has these log odds."""
        return float(scipy.special.expit(theta))

    def range(self) -> tuple[float, float]:
        """Return 0 to 1, but for what rounds to its ends."""
        return 2.0**-40, 1 - 2.0**-40

    def window(self, theta: float) -> tuple[float, float]:
        """Return the whole support."""
        return 0.0, 1.0

    def coordinate(self, parameter: float) -> float:
        """Return the log odds: a unit is at most .29 deviations."""
        return self.natural(parameter)

    def from_coordinate(self, v: float) -> float:
        """Return p."""
        return self.textbook(v)

    def middle(self, theta: float) -> float:
        """Return the median: half of the mass of exp(theta x)."""
        if abs(theta) < 1e-3:
            return 0.5 + theta / 8
        if theta > 0:  # ln((1 + e^theta) / 2) / theta without overflow
            return 1 + (math.log1p(math.exp(-theta)) - math.log(2)) / theta
        return (math.log1p(math.exp(theta)) - math.log(2)) / theta


@dataclass(frozen=True)
class Weibull(Family):
    """Weibull records of known power: T = x^power, theta = -scale^-power.

    They are exponential for power 1, Rayleigh for 2.
    """

    power: float = 1.0
    parameter: ClassVar[str] = "scale"

    def __post_init__(self) -> None:
        _positive(self, "power", 1 / 16, 8)

    def log_base(self, t: Floats) -> Floats:
        """Return 0 on the support: T has the exponential law."""
        return np.asarray(np.where(t < 0, -np.inf, 0.0))

    def support(self) -> tuple[float, float]:
        """Return the numbers that are not negative."""
        return 0.0, math.inf

    def record(self, t: Floats) -> Floats:
        """Return the root of T; for a negative number minus that of its size."""
        with np.errstate(over="ignore", under="ignore"):
            records = np.sign(t) * np.power(np.abs(t), 1 / self.power)
        return np.asarray(np.clip(records, -_LARGEST, _LARGEST))

    def statistic(self, x: float) -> float:
        """Return the power of the record."""
        return math.copysign(abs(x) ** self.power, x)

    def natural(self, parameter: float) -> float:
        """Return minus the power of the inverse scale."""
        return -float(parameter**-self.power)

    def textbook(self, theta: float) -> float:
        """Return the scale."""
        return float((-theta) ** (-1 / self.power))

    def range(self) -> tuple[float, float]:
        """Return the positive numbers."""
        return 0.0, math.inf

    def window(self, theta: float) -> tuple[float, float]:
        """Return 0 to 36 scales of T: beyond there is less than 1e-15."""
        return 0.0, 36 / -theta

    def coordinate(self, parameter: float) -> float:
        """Return the logarithm of T's scale."""
        return self.power * math.log(parameter)

    def from_coordinate(self, v: float) -> float:
        """Return the scale."""
        return math.exp(v / self.power)

    def middle(self, theta: float) -> float:
        """Return the median of T."""
        return math.log(2) / -theta


@dataclass(frozen=True)
class Pareto(Family):
    """Pareto records from a known least number on: T = ln(x / least), theta = -exponent."""

    least: float = 1.0
    parameter: ClassVar[str] = "exponent"

    def __post_init__(self) -> None:
        _positive(self, "least", 2.0**-400, 2.0**400)

    def log_base(self, t: Floats) -> Floats:
        """Return 0 on the support: T has the exponential law."""
        return np.asarray(np.where(t < 0, -np.inf, 0.0))

    def support(self) -> tuple[float, float]:
        """Return the numbers that are not negative."""
        return 0.0, math.inf

    def record(self, t: Floats) -> Floats:
        """Return the least number times the exponential of T."""
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(np.minimum(self.least * np.exp(t), _LARGEST))

    def statistic(self, x: float) -> float:
        """Return the logarithm of the record over the least number."""
        return math.log(x / self.least) if x > 0 else -math.inf

    def natural(self, parameter: float) -> float:
        """Return minus the exponent."""
        return -parameter

    def textbook(self, theta: float) -> float:
        """Return the exponent."""
        return -theta

    def range(self) -> tuple[float, float]:
        """Return the positive numbers, falling in theta."""
        return math.inf, 0.0

    def window(self, theta: float) -> tuple[float, float]:
        """Return 0 to 36 means: beyond there is less than 1e-15."""
        return 0.0, 36 / -theta

    def coordinate(self, parameter: float) -> float:
        """Return minus the logarithm of the exponent."""
        return -math.log(parameter)

    def from_coordinate(self, v: float) -> float:
        """Return the exponent."""
        return math.exp(-v)

    def middle(self, theta: float) -> float:
        """Return the median of T."""
        return math.log(2) / -theta
