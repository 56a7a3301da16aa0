"""Exponential families with one scale: laws whose statistic is gamma distributed, what clipping
and masking do to its mean, and the way back.

T(x) / s has the gamma law of a known shape a: exponential, Weibull, Rayleigh, Maxwell,
half-normal, chi, gamma, Pareto and Laplace with known shapes. Everything here is
post-processing, or public.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

import numpy as np
import scipy

from dpverify.estimation.answers import Result, deviations, tail_of
from dpverify.grid.steps import Outside
from dpverify.privacy.numbers import Exact, Floats, whole

_FAR = 64.0  # scales are searched within this factor of a released one
_LARGEST = 1.7e308


@dataclass(frozen=True, slots=True)
class ScaleFamily:
    """Exponential family with one scale. gamma: the shape a of the statistic T = y^power, of a
    record y or of its distance from a center; power 0: T = ln(y / origin). factor: T = factor *
    parameter^(power or -1) in the mean of a unit shape, so that (s / factor)^(1 / power) is the
    parameter that textbooks name.
    """

    name: str
    parameter: str
    gamma: float
    power: float
    factor: float = 1.0
    origin: float = 1.0

    def inverse(self, t: Floats) -> Floats:
        """Compute the records (or distances) of these statistics t >= 0, increasing and finite."""
        with np.errstate(over="ignore", under="ignore"):
            values = self.origin * np.exp(t) if not self.power else np.power(t, 1 / self.power)
        return np.asarray(np.minimum(np.maximum.accumulate(values), _LARGEST))

    def statistic(self, y: float) -> float:
        """Compute T of a positive number, public."""
        return math.log(y / self.origin) if not self.power else y**self.power

    def to_parameter(self, scale: float) -> float:
        """Return the textbook's parameter for a scale of the statistic."""
        if not self.power:
            return 1 / scale
        log = math.log(scale / self.factor) / self.power
        return math.exp(min(max(log, -700.0), 700.0))

    def exponent(self) -> float:
        """Return the power of the scale that the parameter goes with."""
        return 1 / self.power if self.power else -1.0

    def density_sample(self, scale: float, size: int, rng: np.random.Generator) -> Floats:
        """Draw records (or distances) of the law."""
        return self.inverse_of_any(rng.gamma(self.gamma, scale, size))

    def inverse_of_any(self, t: Floats) -> Floats:
        """Compute ``inverse`` of numbers in any order."""
        order = np.argsort(t, kind="stable")
        values = np.empty_like(t)
        values[order] = self.inverse(t[order])
        return values


NAMES = (
    "exponential",
    "weibull",
    "gamma",
    "rayleigh",
    "maxwell",
    "half_normal",
    "chi",
    "pareto",
    "laplace",
)
SHAPED: MappingProxyType[str, str] = MappingProxyType(
    {
        "weibull": "the power k",
        "gamma": "the shape",
        "chi": "the degrees of freedom",
        "pareto": "the least number",
    }
)
"""Families that need a shape, and the shape's meaning."""
FOLDED = ("half_normal", "laplace")
"""Families of distances from a center."""


def family_of(name: str, shape: float | None) -> ScaleFamily:
    """Build the family of this name and shape."""
    known = 1.0 if shape is None else shape
    made: dict[str, Callable[[], ScaleFamily]] = {
        "exponential": lambda: ScaleFamily(name, "scale", 1.0, 1.0),
        "weibull": lambda: ScaleFamily(name, "scale", 1.0, known),
        "gamma": lambda: ScaleFamily(name, "scale", known, 1.0),
        "rayleigh": lambda: ScaleFamily(name, "sigma", 1.0, 2.0, 2.0),
        "maxwell": lambda: ScaleFamily(name, "sigma", 1.5, 2.0, 2.0),
        "half_normal": lambda: ScaleFamily(name, "sigma", 0.5, 2.0, 2.0),
        "chi": lambda: ScaleFamily(name, "sigma", known / 2, 2.0, 2.0),
        "pareto": lambda: ScaleFamily(name, "exponent", 1.0, 0.0, origin=known),
        "laplace": lambda: ScaleFamily(name, "scale", 1.0, 1.0),
    }
    return made[name]()


@dataclass(frozen=True, slots=True)
class Limited:
    """Gamma law of this shape, limited to [0, u]: clipped to it, or masked outside. b is u over
    the scale.
    """

    shape: float
    outside: Outside

    def mean(self, b: float) -> float:
        """Compute the mean over u, falling in b: of clipped statistics from 1 to 0, of masked
        ones from a / (a + 1).
        """
        a = self.shape
        inner = a / b * float(scipy.special.gammainc(a + 1, b))
        if self.outside == "clip":
            return inner + float(scipy.special.gammaincc(a, b))
        inside = float(scipy.special.gammainc(a, b))
        return inner / inside if inside > 0 else a / (a + 1)

    def square(self, b: float) -> float:
        """Compute the mean of squares over u^2."""
        a = self.shape
        inner = a * (a + 1) / b**2 * float(scipy.special.gammainc(a + 2, b))
        if self.outside == "clip":
            return inner + float(scipy.special.gammaincc(a, b))
        inside = float(scipy.special.gammainc(a, b))
        return inner / inside if inside > 0 else a / (a + 2)

    def inside(self, b: float) -> float:
        """Compute the share of records that count."""
        return 1.0 if self.outside == "clip" else float(scipy.special.gammainc(self.shape, b))

    def slope(self, b: float) -> float:
        """Compute the derivative of the mean by ln b, by central differences, with its sign
        reversed.
        """
        step = 1e-4
        return (self.mean(b * math.exp(-step)) - self.mean(b * math.exp(step))) / (2 * step)

    def back(self, mean: float, near: float) -> float | None:
        """Find the b that has this mean, within a factor of 64 of ``near``; None where there is
        none.
        """
        low, high = near / _FAR, near * _FAR
        if not self.mean(high) < mean < self.mean(low):
            return None
        return math.exp(
            scipy.optimize.brentq(
                lambda log: self.mean(math.exp(log)) - mean, math.log(low), math.log(high)
            )
        )

    def relative_errors(self, b: float, n: float, noise: float) -> tuple[float, float]:
        """Return the relative error of the scale by noise, and by sampling n records, to first
        order.

        noise: the standard deviation in the sum of statistics over u.
        """
        counted = max(n * self.inside(b), 1e-300)
        slope = max(self.slope(b), 1e-300)
        variance = max(self.square(b) - self.mean(b) ** 2, 0.0)
        return noise / counted / slope, math.sqrt(variance / counted) / slope


@lru_cache(maxsize=256)
def best_cut(shape: float, outside: Outside, n: float, noise: float) -> float:
    """Choose u over the scale, from a ladder with eight rungs an octave, for which both errors
    together are least.
    """
    law = Limited(shape, outside)
    rungs = [max(shape, 1.0) * 2 ** (k / 8) for k in range(-8, 49)]
    return min(rungs, key=lambda b: math.hypot(*law.relative_errors(b, n, noise)))


@lru_cache(maxsize=64)
def median_of(shape: float) -> float:
    """Compute the median of the gamma law of scale 1."""
    return float(scipy.special.gammaincinv(shape, 0.5))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ScaleEstimate(Result):
    """A private parameter of a scale family.

    ``value`` is the parameter that ``parameter`` names ("scale", "sigma", "exponent"),
    ``scale`` the mean of T(x) over the gamma law's shape; ``shape`` the shape of the family,
    where it has one; ``center`` what records are distances from; ``count`` the (noisy or
    public) number of records. ``spread`` is the standard deviation of the noise in the
    logarithm of ``value``, ``sampling`` that of independent records; both to first order.
    """

    family: str
    parameter: str
    value: float
    scale: float
    count: float
    spread: float = field(repr=False)
    sampling: float = field(repr=False)
    shape: float | None = field(default=None, repr=False)
    center: float | None = field(default=None, repr=False)

    def interval(self, level: Exact = 0.95, *, sampling: bool = False) -> tuple[float, float]:
        """Compute (low, high), to first order in the logarithm.

        With this probability the interval contains the estimate without noise, or with
        ``sampling`` the parameter of the law that the records are independent draws from.
        Raises TypeError or ValueError for a level outside (0, 1).
        """
        far = deviations("gaussian", tail_of(level))
        reach = min(far * math.hypot(self.spread, self.sampling * sampling), 700.0)
        return self.value * math.exp(-reach), self.value * math.exp(reach)

    def sample(self, size: int, rng: np.random.Generator | None = None) -> Floats:
        """Draw records of the fit, of shape (size,): public, and free of charge."""
        own = np.random.default_rng() if rng is None else rng
        known = family_of(self.family, self.shape)
        draws = known.density_sample(self.scale, whole(size, "size"), own)
        if self.center is None:
            return draws
        return np.asarray(self.center + draws * own.choice([-1.0, 1.0], len(draws)))

    def __str__(self) -> str:
        return f"{self.family}, {self.parameter} {self.value:.6g}, of {self.count:.6g} records"
