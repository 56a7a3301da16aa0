"""The families of normal vectors of unknown precision, with or without a mean.

Records are truncated to balls and shells, or clipped to balls. Moments are computed in
``normal_moments``. Source: OURS.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy

from dpverify.families.normal_moments import Inside, Nearest, definite, finite, from_center, radii
from dpverify.families.sets import (
    Ball,
    Eigenvalues,
    Prior,
    Survival,
    pack,
    places,
    unpack,
)
from dpverify.families.several_parameters import (
    Clipped,
    Curvature,
    ExponentialFamily,
    Truncated,
    check_mass,
)
from dpverify.privacy.numbers import Floats

_TINY = 1e-12  # least eigenvalue of a projected covariance, in units of its largest one


@dataclass(frozen=True)
class _Precise(ExponentialFamily):
    """Base of the families with an unknown precision."""

    degree: ClassVar[int | None] = 2
    has_mean: ClassVar[bool] = False

    @property
    def p(self) -> int:
        """Number of parameters: d (d + 1) / 2, and d for the mean."""
        return self._size + self.d * self.has_mean

    @property
    def _size(self) -> int:
        return self.d * (self.d + 1) // 2

    def statistic(self, x: Floats) -> Floats:
        """Compute -x x^T / 2, packed, and x where the mean is unknown."""
        x = np.asarray(x, np.float64)
        squares = -pack(x[:, :, np.newaxis] * x[:, np.newaxis]) / 2
        return np.concatenate([squares, x], axis=1) if self.has_mean else squares

    def split(self, theta: Floats) -> tuple[Floats, Floats]:
        """Give the precision, shape (d, d), and precision times mean, shape (d,)."""
        own = np.asarray(theta, np.float64)
        if own.shape != (self.p,):
            raise ValueError(f"theta of shape {own.shape}; {self!r} has {self.p} parameters.")
        along = own[self._size :] if self.has_mean else np.zeros(self.d)
        return unpack(own[: self._size], self.d), along

    def joined(self, precision: Floats, along: Floats) -> Floats:
        """Give theta of a precision and precision times mean."""
        own = pack(precision)
        return np.concatenate([own, along]) if self.has_mean else own

    def law(self, theta: Floats) -> tuple[Floats, Floats]:
        """Compute mean and covariance.

        Raises ValueError where the precision is not positive definite.
        """
        precision, along = self.split(theta)
        if not definite(precision):
            raise ValueError("the precision of theta is not positive definite.")
        covariance = np.linalg.inv(precision)
        covariance = (covariance + covariance.T) / 2
        return np.asarray(covariance @ along), np.asarray(covariance)

    def log_partition(self, theta: Floats) -> float:
        """Compute -log det P / 2 + h^T P^-1 h / 2 for the precision P and h = P mean.

        The rest of the log partition is in h(x).
        """
        precision, along = self.split(theta)
        if not definite(precision):
            return math.inf
        factor = np.linalg.cholesky(precision)
        white = np.linalg.solve(factor, along)
        return float(white @ white) / 2 - float(np.log(np.diag(factor)).sum())

    def mean(self, theta: Floats) -> Floats:
        """Compute E T: -(Sigma + mean mean^T) / 2, packed, and the mean."""
        center, covariance = self.law(theta)
        return self.joined(-(covariance + np.outer(center, center)) / 2, center)

    def fisher(self, theta: Floats) -> Floats:
        """Compute Cov T.

        About the mean and along the eigenvectors all products of two coordinates are
        uncorrelated.
        """
        center, covariance = self.law(theta)
        values, vectors = np.linalg.eigh(covariance)
        rows, columns, _ = places(self.d)
        own = np.concatenate([2 * values[rows] * values[columns], values])
        move = from_center(vectors, center)[: self.p]
        return np.asarray((move * own) @ move.T)

    def mean_to_natural(self, tau: Floats) -> Floats:
        """Match moments: the covariance's eigenvalues are raised to 1e-12 of the largest."""
        squares, center = self.split(finite(tau))
        values, vectors = np.linalg.eigh(-2 * squares - np.outer(center, center))
        least = _TINY * float(np.abs(values).max()) or 1.0
        precision = (vectors / np.maximum(values, least)) @ vectors.T
        return self.joined(precision, precision @ center)

    def project(self, theta: Floats, prior: Prior) -> Floats:
        """Project onto a ball about a theta; or clip eigenvalues, and the length of precision
        times mean.
        """
        if isinstance(prior, Ball):
            return prior.nearest(theta)
        precision, along = self.split(theta)
        known = self._known(prior)
        share = min(1.0, known.reach / max(float(np.linalg.norm(along)), 1e-300))
        return self.joined(known.clipped(precision), along * share)

    def bounds(self, prior: Prior) -> Curvature:
        """Bound tr(U Sigma U Sigma) / 2 + |Sigma^(1/2) (w - U mean)|^2 over |U|^2 + |w|^2 = 1.

        The bounds are by the eigenvalues of Sigma. With s an end of those and m the longest
        mean they are the eigenvalues of s ((s / 2 + m^2, m), (m, 1)); without a mean s^2 / 2.
        They are attained where the precision is a multiple of the identity.
        """
        low, high, far = self._span(prior)
        if not self.has_mean:
            ends = [s * s / 2 for s in (1 / high, 1 / low if low else math.inf)]
            return Curvature(ends[0], ends[1], low)
        if not low or not math.isfinite(far + high):
            return Curvature(0.0, math.inf, low)
        (least, _), (_, most) = (_ends(1 / end, far) for end in (high, low))
        return Curvature(least, most, low)

    def points(self, prior: Prior) -> list[Floats]:
        """List diagonal precisions of two eigenvalues, one of them at an end of the prior.

        With a mean, there are at most three of these.
        """
        low, high, _ = self._span(prior)
        if not 0 < low < high < math.inf:
            raise ValueError(
                f"{prior} has precisions near 0 or without bound; there is no end to compute at."
            )
        levels = np.geomspace(low, high, 5).tolist()
        pairs = [(low, one) for one in levels[1:]] + [(levels[2], high)]
        number = sorted({0, 1, self.d // 2, self.d - 1, self.d})
        spectra = {(a,) * k + (b,) * (self.d - k) for k in number for a, b in pairs}
        reach = 0.0 if isinstance(prior, Ball) else self._known(prior).reach
        ways = [np.zeros(self.d)]
        if self.has_mean and reach:
            ways += [reach * np.eye(self.d)[0], reach * np.eye(self.d)[-1]]
        thetas = [
            self.joined(np.diag(spectrum), way) for spectrum in sorted(spectra) for way in ways
        ]
        return [self.project(theta, prior) for theta in thetas]

    def survival(self, prior: Prior, mass: float = 0.99) -> Ball:
        """Return a ball about 0 that holds a share ``mass`` of the records under every theta.

        Its radius is that of the widest spherical law of the prior, plus the length of the
        longest mean.
        """
        check_mass(mass)
        low, _, far = self._span(prior)
        if not low or not math.isfinite(far):
            raise ValueError(
                f"{prior} has laws of any width; no ball holds all. Give a prior with a least "
                "precision."
            )
        wide = math.sqrt(2 * float(scipy.special.gammaincinv(self.d / 2, mass)) / low)
        return Ball((0.0,) * self.d, far + wide)

    def least_mass(self, prior: Prior, survival: Survival) -> float:
        """Bound the mass of a set from below, over the prior.

        That is the mass, under the widest spherical law, of a ball about 0 smaller by the
        longest mean, less the mass of a shell's inner ball under the narrowest. The bound is
        exact for a ball about 0 of laws without a mean: its probability falls with the
        covariance. An inner ball has most probability about the mean of a narrow law
        (Anderson).
        """
        low, high, far = self._span(prior)
        inner, outer = radii(survival)
        room = outer - far - float(np.linalg.norm(survival.center))
        least = float(scipy.special.gammainc(self.d / 2, low * room**2 / 2)) if room > 0 else 0.0
        hole = float(scipy.special.gammainc(self.d / 2, high * inner**2 / 2)) if inner else 0.0
        return max(0.0, least - hole)

    def truncated(self, theta: Floats, survival: Survival) -> Truncated:
        """Compute moments of truncated records: see ``Truncated``."""
        return Inside.of(*self.law(theta), survival).part("both" if self.has_mean else "precision")

    def clipped(self, theta: Floats, survival: Survival) -> Clipped:
        """Compute moments of clipped records: see ``Clipped``."""
        return Nearest.of(*self.law(theta), survival).part("both" if self.has_mean else "precision")

    def sample(self, theta: Floats, size: int, rng: np.random.Generator) -> Floats:
        """Draw records."""
        center, covariance = self.law(theta)
        drawn = rng.standard_normal((size, self.d)) @ np.linalg.cholesky(covariance).T
        return np.asarray(center + drawn)

    def _known(self, prior: Prior) -> Eigenvalues:
        if not isinstance(prior, Eigenvalues):
            raise TypeError(f"{type(prior).__name__} of precisions; give Eigenvalues or a Ball.")
        return prior

    def _span(self, prior: Prior) -> tuple[float, float, float]:
        """Enclose the prior: least and largest eigenvalue of the precision, and the longest
        mean.
        """
        if isinstance(prior, Ball):
            precision, along = self.split(np.array(prior.center))
            values = np.linalg.eigvalsh(precision)
            low, high = max(0.0, float(values[0]) - prior.radius), float(values[-1]) + prior.radius
            reach = float(np.linalg.norm(along)) + prior.radius
        else:
            known = self._known(prior)
            low, high, reach = known.lowest, known.highest, known.reach
        if not self.has_mean or not reach:
            return low, high, 0.0
        return low, high, reach / low if low else math.inf


@dataclass(frozen=True)
class NormalPrecision(_Precise):
    """The family of normal records of mean 0.

    theta is the precision, the inverse covariance, packed; T = -x x^T / 2.
    """

    def natural(self, covariance: Floats) -> Floats:
        """Give theta of a covariance."""
        return pack(np.asarray(np.linalg.inv(covariance)))

    def textbook(self, theta: Floats) -> Floats:
        """Give the covariance."""
        return self.law(theta)[1]


@dataclass(frozen=True)
class MultivariateNormal(_Precise):
    """The family of normal records of unknown mean and covariance.

    theta is the precision, packed, and precision times mean; T = (-x x^T / 2, x).
    """

    has_mean: ClassVar[bool] = True

    def natural(self, mean: Floats, covariance: Floats) -> Floats:
        """Give theta of a mean and a covariance."""
        precision = np.asarray(np.linalg.inv(covariance))
        return self.joined(precision, precision @ mean)

    def textbook(self, theta: Floats) -> tuple[Floats, Floats]:
        """Give mean and covariance."""
        return self.law(theta)


def _ends(s: float, far: float) -> tuple[float, float]:
    """Compute the eigenvalues of s ((s / 2 + far^2, far), (far, 1)); their product is s^3 / 2."""
    trace = s * (s / 2 + far**2 + 1)
    high = trace * (1 + math.sqrt(max(1 - 2 * s**3 / trace / trace, 0.0))) / 2
    return s**3 / 2 / high, high
