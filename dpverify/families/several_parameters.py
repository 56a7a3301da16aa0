"""Exponential families with several parameters, and their truncated and clipped statistics.

A family has densities exp(<theta, T(x)> - A(theta)) h(x). theta and T are vectors of p numbers,
records vectors of d. Nothing here is run on data: everything is a function of public numbers
and of what was released.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from dpverify.families.sets import Ball, Prior, Survival
from dpverify.privacy.numbers import Floats, whole

LEAST_MASS = 0.05
"""Least mass of a survival set under every parameter of a prior; below, truncated estimation is
refused.
"""


@dataclass(frozen=True, slots=True)
class Curvature:
    """Bounds of the curvature for a set of parameters.

    ``least`` <= Cov_theta(u . T) <= ``most`` for every unit vector u and theta of the set.
    interior: how far, in theta, the set is from the end of all parameters.
    """

    least: float
    most: float
    interior: float


@dataclass(frozen=True)
class Truncated:
    """Moments of the statistic of records in a set: log P(S), and E(T | S), shape (p,)."""

    log_mass: float
    mean: Floats
    later: Callable[[], Floats] = field(repr=False, compare=False)

    @cached_property
    def covariance(self) -> Floats:
        """Cov(T | S), shape (p, p): the derivative of ``mean`` by theta. Computed at first use."""
        return self.later()


@dataclass(frozen=True)
class Clipped:
    """Moments of the statistic of records moved to the nearest place of a set: E T(z), shape
    (p,).
    """

    mean: Floats
    later: Callable[[], Floats] = field(repr=False, compare=False)

    @cached_property
    def jacobian(self) -> Floats:
        """Cov(T(z), T(x)), shape (p, p): the derivative of ``mean`` by theta. Computed at first
        use.
        """
        return self.later()


@dataclass(frozen=True)
class ExponentialFamily(ABC):
    """An exponential family with several parameters.

    A user's own is a frozen dataclass with the abstract methods.

    d: number of columns of a record.
    degree: degree of the statistic as a polynomial of the record, None where it is none.
    monotone: whether ``clipped(theta, S).jacobian`` is known to be positive definite for every
    theta and ball.
    """

    d: int
    degree: ClassVar[int | None] = None
    monotone: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if whole(self.d, "d") < 1:
            raise ValueError(f"d = {self.d}; records have one number or more.")

    @property
    @abstractmethod
    def p(self) -> int:
        """Number of entries of the statistic."""

    @abstractmethod
    def statistic(self, x: Floats) -> Floats:
        """Compute T of public records: shape (n, d) to shape (n, p)."""

    def log_base(self, x: Floats) -> Floats:
        """Compute log h of records, up to a constant: shape (n, d) to shape (n,)."""
        return np.zeros(len(x))

    @abstractmethod
    def log_partition(self, theta: Floats) -> float:
        """Compute A(theta); infinite where theta is no parameter."""

    @abstractmethod
    def mean(self, theta: Floats) -> Floats:
        """Compute E T, the gradient of the log partition, shape (p,)."""

    @abstractmethod
    def fisher(self, theta: Floats) -> Floats:
        """Compute Cov T, the second derivative of the log partition, shape (p, p)."""

    @abstractmethod
    def mean_to_natural(self, tau: Floats) -> Floats:
        """Find the theta with the mean ``tau``; a vector that is no mean is first moved to one."""

    @abstractmethod
    def project(self, theta: Floats, prior: Prior) -> Floats:
        """Compute the nearest theta of a prior set.

        Raises TypeError for a kind of set that the family does not have.
        """

    @abstractmethod
    def bounds(self, prior: Prior) -> Curvature:
        """Bound the curvature over a prior set: 0 and infinite where there is no bound."""

    @abstractmethod
    def points(self, prior: Prior) -> list[Floats]:
        """List parameters of the prior, those at its ends among them.

        They serve where something is to be computed that no bound is known for.
        """

    @abstractmethod
    def survival(self, prior: Prior, mass: float = 0.99) -> Ball:
        """Return a ball that records are in with at least this probability for every theta of
        the prior.
        """

    @abstractmethod
    def least_mass(self, prior: Prior, survival: Survival) -> float:
        """Compute a lower bound on the probability of a set for every theta of the prior."""

    @abstractmethod
    def truncated(self, theta: Floats, survival: Survival) -> Truncated:
        """Compute the moments of the statistic of records in the set."""

    @abstractmethod
    def clipped(self, theta: Floats, survival: Survival) -> Clipped:
        """Compute the mean of the statistic of clipped records.

        Raises ValueError for a set that is not convex.
        """

    @abstractmethod
    def sample(self, theta: Floats, size: int, rng: np.random.Generator) -> Floats:
        """Draw records, shape (size, d)."""


def check_mass(mass: float) -> None:
    """Raise ValueError for a mass that a survival set must not have."""
    if not LEAST_MASS <= mass < 1:
        raise ValueError(
            f"mass = {mass!r}; give one from {LEAST_MASS} to 1: of fewer records inside nothing "
            "is told of the law."
        )


def mass_of(family: ExponentialFamily, prior: Prior, survival: Survival) -> float:
    """Compute ``least_mass``.

    Raises ValueError for a set that cannot be shown to hold 1 / 20 of the records.
    """
    mass = family.least_mass(prior, survival)
    if mass < LEAST_MASS * (1 - 1e-9):
        raise ValueError(
            f"{survival} holds as little as {mass:.3g} of the records under {prior}, as far as a "
            f"bound tells; give a larger set or a smaller prior: at least {LEAST_MASS}."
        )
    return mass
