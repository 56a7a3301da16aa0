"""The family of normal vectors of known covariance, whose mean is unknown.

Records are truncated to balls and shells, or clipped to balls. Moments are computed in
``normal_moments``. Source: OURS.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import scipy

from dpverify.families.balls import Law
from dpverify.families.normal_moments import Inside, Nearest, definite, finite, radii
from dpverify.families.sets import Ball, Box, Eigenvalues, Prior, Survival
from dpverify.families.several_parameters import (
    Clipped,
    Curvature,
    ExponentialFamily,
    Truncated,
    check_mass,
)
from dpverify.privacy.numbers import Floats, settle

_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class NormalMean(ExponentialFamily):
    """The family of normal records of known covariance, by default the identity.

    T is the whitened record, theta the whitened mean.

    covariance: shape (d, d), positive definite. Balls and shells are about T, so ellipsoids of
    records.
    """

    covariance: tuple[tuple[float, ...], ...] | None = None
    _factor: Floats = field(init=False, repr=False, compare=False)
    degree: ClassVar[int | None] = 1
    monotone: ClassVar[bool] = True  # by Stein's identity: the Jacobian is the mean of clipping's

    def __post_init__(self) -> None:
        ExponentialFamily.__post_init__(self)
        matrix = np.eye(self.d) if self.covariance is None else np.asarray(self.covariance, float)
        if matrix.shape != (self.d, self.d) or not definite(matrix):
            raise ValueError(
                f"covariance of shape {matrix.shape}; give a symmetric positive definite matrix "
                f"of shape ({self.d}, {self.d})."
            )
        if self.covariance is not None:
            rows = tuple(tuple(float(v) for v in row) for row in matrix)
            settle(self, covariance=rows)
        settle(self, _factor=np.linalg.cholesky(matrix))

    @property
    def p(self) -> int:
        """Number of parameters: d."""
        return self.d

    def natural(self, mean: Floats) -> Floats:
        """Compute theta of a mean."""
        return np.asarray(np.linalg.solve(self._factor, mean))

    def textbook(self, theta: Floats) -> Floats:
        """Compute the mean of a theta."""
        return np.asarray(self._factor @ theta)

    def statistic(self, x: Floats) -> Floats:
        """Whiten the records."""
        return np.asarray(np.linalg.solve(self._factor, np.asarray(x).T).T)

    def log_partition(self, theta: Floats) -> float:
        """Compute |theta|^2 / 2."""
        return float(theta @ theta) / 2

    def mean(self, theta: Floats) -> Floats:
        """Return E T, which is theta."""
        return np.array(theta, np.float64)

    def fisher(self, theta: Floats) -> Floats:
        """Return Cov T, which is the identity."""
        return np.eye(self.d)

    def mean_to_natural(self, tau: Floats) -> Floats:
        """Return tau, which is theta."""
        return finite(tau)

    def project(self, theta: Floats, prior: Prior) -> Floats:
        """Project onto a ball or a box."""
        return self._known(prior).nearest(theta)

    def bounds(self, prior: Prior) -> Curvature:
        """Return bounds of 1: the covariance of T is the identity everywhere."""
        self._known(prior)
        return Curvature(1.0, 1.0, math.inf)

    def points(self, prior: Prior) -> list[Floats]:
        """List means along one axis through a ball, or one diagonal of a box.

        There means are nearest to and farthest from any center.
        """
        middle, reach = self._span(prior)
        way = (
            np.eye(self.d)[0] * reach
            if isinstance(prior, Ball)
            else np.array(prior.highest) - middle
        )
        return [middle + sign * share * way for share in _SHARES for sign in (1, -1)][1:]

    def survival(self, prior: Prior, mass: float = 0.99) -> Ball:
        """Return the ball about the prior's center, of the exact radius."""
        check_mass(mass)
        middle, reach = self._span(prior)

        def missed(log: float) -> float:
            return _log_mass(self.d, reach, math.exp(log)) - math.log(mass)

        low, high = math.log(1e-12), math.log(reach + math.sqrt(self.d) + 40)
        return Ball(
            tuple(middle), math.exp(float(scipy.optimize.brentq(missed, low, high, xtol=1e-13)))
        )

    def least_mass(self, prior: Prior, survival: Survival) -> float:
        """Bound the mass of a set from below, over the prior.

        The bound is exact for a ball about the prior's center; a shell's is bounded by those of
        its balls.
        """
        middle, reach = self._span(prior)
        off = float(np.linalg.norm(middle - np.array(survival.center)))
        inner, outer = radii(survival)
        most = math.exp(_log_mass(self.d, max(0.0, off - reach), inner)) if inner else 0.0
        return max(0.0, math.exp(_log_mass(self.d, off + reach, outer)) - most)

    def truncated(self, theta: Floats, survival: Survival) -> Truncated:
        """Compute moments of truncated records: see ``Truncated``."""
        return Inside.of(theta, np.eye(self.d), survival).part("mean")

    def clipped(self, theta: Floats, survival: Survival) -> Clipped:
        """Compute moments of clipped records: see ``Clipped``."""
        return Nearest.of(theta, np.eye(self.d), survival).part("mean")

    def sample(self, theta: Floats, size: int, rng: np.random.Generator) -> Floats:
        """Draw records."""
        return np.asarray((theta + rng.standard_normal((size, self.d))) @ self._factor.T)

    def _known(self, prior: Prior) -> Ball | Box:
        if isinstance(prior, Eigenvalues):
            raise TypeError("a mean has no eigenvalues; give a Ball or a Box of whitened means.")
        return prior

    def _span(self, prior: Prior) -> tuple[Floats, float]:
        """Return the center of the prior, and how far from it a mean is at most."""
        known = self._known(prior)
        if isinstance(known, Ball):
            return np.array(known.center), known.radius
        low, high = np.array(known.lowest), np.array(known.highest)
        if not np.isfinite(np.concatenate([low, high])).all():
            raise ValueError(f"{known}; a survival set needs a bounded prior.")
        return (low + high) / 2, float(np.linalg.norm(high - low)) / 2


def _log_mass(d: int, offset: float, radius: float) -> float:
    """Compute the logarithm of P(|y| <= radius) for y of unit covariance and a mean of this
    length.
    """
    means = np.zeros(d)
    means[0] = offset / radius
    limited = Law(means, np.full(d, radius**-2)).limited("inside")
    return min(0.0, limited.shift + math.log(max(limited.total, 1e-300)))
