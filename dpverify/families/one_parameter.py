"""Exponential families with one parameter, and their clipped and truncated statistics.

A family has densities exp(theta t - A(theta)) h(t) of its statistic t = T(x), which increases
in the record x. Nothing here is run on data: records are compared with ``record(t)``.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from dpverify.grid.steps import Outside
from dpverify.privacy.numbers import Floats

_PANELS, _NODES = 12, 24  # Gauss and Legendre's rule on equal parts of an interval
_CELLS = 1 << 14  # cells of the window, for drawing


@dataclass(frozen=True, slots=True)
class Limited:
    """Moments of a statistic clipped to an interval, or of that of records inside alone.

    slope: the derivative of the mean by the natural parameter.
    inside: the share of records in the interval.
    """

    mean: float
    variance: float
    slope: float
    inside: float


@dataclass(frozen=True)
class Family(ABC):
    """An exponential family with one parameter.

    A user's own is a frozen dataclass with the abstract methods.

    parameter: the name that textbooks use.
    lattice: whether the statistic is an integer, with masses in place of densities.
    """

    parameter: ClassVar[str] = "parameter"
    lattice: ClassVar[bool] = False

    @abstractmethod
    def log_base(self, t: Floats) -> Floats:
        """Compute log h(t), of any shape; -inf outside of the support."""

    @abstractmethod
    def support(self) -> tuple[float, float]:
        """Give the ends of the statistic's range."""

    @abstractmethod
    def record(self, t: Floats) -> Floats:
        """Compute the records with these statistics, increasing in t.

        Defined also for t beyond the support's ends by less than a unit.
        """

    @abstractmethod
    def statistic(self, x: float) -> float:
        """Compute T of a public number."""

    @abstractmethod
    def natural(self, parameter: float) -> float:
        """Compute theta of a parameter."""

    @abstractmethod
    def textbook(self, theta: float) -> float:
        """Compute the parameter of a theta."""

    @abstractmethod
    def range(self) -> tuple[float, float]:
        """Give the open interval of parameters, in the order of theta."""

    @abstractmethod
    def window(self, theta: float) -> tuple[float, float]:
        """Give an interval that the statistic leaves with probability below 1e-15."""

    def log_density(self, theta: float, t: Floats) -> Floats:
        """Compute log h(t) + theta t, up to a constant.

        Override it where these two nearly cancel.
        """
        return np.asarray(self.log_base(t) + theta * t)

    def coordinate(self, parameter: float) -> float:
        """Map the parameter to a coordinate in which a search for it is even.

        The coordinate increases in theta, and a unit is about a constant number of deviations
        of T.
        """
        return parameter

    def from_coordinate(self, v: float) -> float:
        """Map a coordinate back to its parameter."""
        return v

    def middle(self, theta: float) -> float:
        """Compute about the median of the statistic, increasing in theta: by default the mean."""
        return self.limited(theta, *self.window(theta), "clip").mean

    def limited(self, theta: float, low: float, high: float, outside: Outside) -> Limited:
        """Compute the moments of the statistic clipped to [low, high], or of those inside.

        With no records inside, the mean is the end that is nearer.
        """
        t, mass = self._masses(theta, low, high)
        inside = (t >= low) & (t <= high)
        share = float(mass[inside].sum())
        kept = np.clip(t, low, high)
        if outside == "mask":
            if share < 1e-300:
                near = low if float(mass @ t) < low else high
                return Limited(near, 0.0, 0.0, 0.0)
            mean = float(mass[inside] @ t[inside]) / share
            variance = float(mass[inside] @ (t[inside] - mean) ** 2) / share
            return Limited(mean, variance, variance, share)
        mean, whole = float(mass @ kept), float(mass @ t)
        variance = float(mass @ (kept - mean) ** 2)
        slope = float(mass @ ((kept - mean) * (t - whole)))
        return Limited(mean, variance, slope, share)

    def log_partition(self, theta: float) -> float:
        """Compute A(theta), up to what numerical integration leaves."""
        t, weights = self._nodes(theta, *self.window(theta))
        logs = self.log_base(t) + theta * t
        top = float(logs.max())
        return top + float(np.log(np.exp(logs - top) @ weights))

    def sample(self, theta: float, size: int, rng: np.random.Generator) -> Floats:
        """Draw records of the law.

        From a density, each cell of the window is drawn with the mass of its middle.
        """
        low, high = self.window(theta)
        cell = 0.0 if self.lattice else (high - low) / _CELLS
        t: Floats = np.asarray(low + cell * (np.arange(_CELLS) + 0.5), np.float64)
        if self.lattice:
            t = np.asarray(np.ceil(low) + np.arange(np.floor(high) - np.ceil(low) + 1), np.float64)
        logs = self.log_density(theta, t)
        below = np.cumsum(np.exp(logs - logs.max()))
        which = np.searchsorted(below, rng.random(size) * below[-1], side="right")
        drawn = t[np.minimum(which, len(t) - 1)]
        return self.record(drawn + cell * (rng.random(size) - 0.5) if cell else drawn)

    def _masses(self, theta: float, low: float, high: float) -> tuple[Floats, Floats]:
        """Return points and their masses, of sum 1; no panel has an end of the interval inside."""
        t, weights = self._nodes(theta, low, high)
        logs = self.log_density(theta, t)
        mass = np.exp(logs - logs.max()) * weights
        return t, mass / mass.sum()

    def _nodes(self, theta: float, low: float, high: float) -> tuple[Floats, Floats]:
        first, last = self.window(theta)
        if self.lattice:
            t = np.arange(np.ceil(first), np.floor(last) + 1)
            return t, np.ones(len(t))
        ends = [first, *sorted(min(max(end, first), last) for end in (low, high)), last]
        parts = [(a, b - a) for a, b in itertools.pairwise(ends) if a < b]
        points, weights = _composite_nodes()
        return (
            np.concatenate([start + length * points for start, length in parts]),
            np.concatenate([length * weights for _, length in parts]),
        )


@lru_cache(maxsize=1)
def gauss_nodes() -> tuple[Floats, Floats]:
    """Give the points and weights of Gauss and Legendre's rule on [-1, 1]."""
    points, weights = np.polynomial.legendre.leggauss(_NODES)
    return points, weights


@lru_cache(maxsize=1)
def _composite_nodes() -> tuple[Floats, Floats]:
    """Give the points and weights of the rule on equal panels of [0, 1]."""
    points, weights = gauss_nodes()
    middles = (np.arange(_PANELS) + 0.5) / _PANELS
    return (
        np.asarray((middles[:, np.newaxis] + points / (2 * _PANELS)).ravel()),
        np.tile(weights / (2 * _PANELS), _PANELS),
    )
