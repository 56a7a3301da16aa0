"""A family of several parameters of one's own: the gamma laws with both parameters unknown, by
quadrature."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import gammaincinv, gammaln, polygamma, psi

from dpverify.families import (
    Ball,
    Box,
    Clipped,
    Curvature,
    ExponentialFamily,
    Solved,
    Truncated,
    check_prior,
    clipped_match,
    least_curvature,
    truncated_mle,
)
from dpverify.privacy.numbers import Floats

_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(200)


@dataclass(frozen=True)
class Gamma(ExponentialFamily):
    """Positive numbers of density x^(k - 1) exp(-a x) a^k / Gamma(k): theta = (k, -a), T = (log
    x, x), h = 1 / x."""

    @property
    def p(self) -> int:
        return 2

    def statistic(self, x: Floats) -> Floats:
        return np.concatenate([np.log(x), x], axis=1)

    def log_base(self, x: Floats) -> Floats:
        return -np.log(x[:, 0])

    def log_partition(self, theta: Floats) -> float:
        k, a = theta[0], -theta[1]
        return float(gammaln(k) - k * math.log(a)) if k > 0 and a > 0 else math.inf

    def mean(self, theta: Floats) -> Floats:
        k, a = theta[0], -theta[1]
        return np.array([psi(k) - math.log(a), k / a])

    def fisher(self, theta: Floats) -> Floats:
        k, a = theta[0], -theta[1]
        return np.array([[polygamma(1, k), 1 / a], [1 / a, k / a**2]])

    def mean_to_natural(self, tau: Floats) -> Floats:
        gap = max(
            math.log(max(tau[1], 1e-300)) - tau[0], 1e-9
        )  # log E x - E log x, which is log k - psi(k)
        k = math.exp(brentq(lambda v: v - float(psi(math.exp(v))) - gap, -20, 25, xtol=1e-15))
        return np.array([k, -k / max(tau[1], 1e-300)])

    def project(self, theta: Floats, prior: Any) -> Floats:
        return np.asarray(prior.nearest(theta))

    def bounds(self, prior: Any) -> Curvature:
        values = np.concatenate([np.linalg.eigvalsh(self.fisher(t)) for t in self.points(prior)])
        return Curvature(
            float(values.min()), float(values.max()), min(prior.lowest[0], -prior.highest[1])
        )

    def points(self, prior: Any) -> list[Floats]:
        grids = [np.linspace(*ends, 4) for ends in zip(prior.lowest, prior.highest, strict=True)]
        return [np.array([k, b]) for k in grids[0] for b in grids[1]]

    def survival(self, prior: Any, mass: float = 0.99) -> Ball:
        most = max(float(gammaincinv(t[0], mass)) / -t[1] for t in self.points(prior))
        return Ball((most / 2,), most / 2)

    def least_mass(self, prior: Any, survival: Any) -> float:
        return min(math.exp(self.truncated(t, survival).log_mass) for t in self.points(prior))

    def truncated(self, theta: Floats, survival: Any) -> Truncated:
        t, mass = self._between(theta, *self._ends(survival))
        mean = t @ mass / mass.sum()
        apart = t - mean[:, np.newaxis]
        return Truncated(math.log(mass.sum()), mean, lambda: (apart * mass) @ apart.T / mass.sum())

    def clipped(self, theta: Floats, survival: Any) -> Clipped:
        low, high = self._ends(survival)
        far = float(gammaincinv(theta[0], 1 - 1e-15)) / -theta[1]
        parts = [self._between(theta, low, high), self._between(theta, high, max(far, high * 1.01))]
        t, mass = (np.concatenate([part[i] for part in parts], axis=-1) for i in (0, 1))
        z = np.minimum(t, np.array([[math.log(high)], [high]]))
        mean, whole = z @ mass, self.mean(theta)
        apart, free = z - mean[:, np.newaxis], t - whole[:, np.newaxis]
        return Clipped(mean, lambda: (apart * mass) @ free.T)

    def sample(self, theta: Floats, size: int, rng: np.random.Generator) -> Floats:
        return rng.gamma(theta[0], -1 / theta[1], (size, 1))

    def _ends(self, survival: Any) -> tuple[float, float]:
        return max(0.0, survival.center[0] - survival.radius), survival.center[0] + survival.radius

    def _between(self, theta: Floats, low: float, high: float) -> tuple[Floats, Floats]:
        """Places of T between two records, and their masses: Gauss's rule for the sixth root of
        the record."""
        roots = [low ** (1 / 6), high ** (1 / 6)]
        half = (roots[1] - roots[0]) / 2
        r = roots[0] + half * (_POINTS + 1)
        t = np.stack([6 * np.log(r), r**6])
        return t, np.exp(theta @ t - self.log_partition(theta)) * 6 / r * half * _WEIGHTS


PRIOR = Box((1.5, -3.0), (5.0, -0.5))


def test_it_is_checked_like_others() -> None:
    family = Gamma(1)
    kept = family.survival(PRIOR, 0.9)
    for outside in ("mask", "clip"):
        report = check_prior(family, PRIOR, kept, outside)
        assert set(report.broken) == {"S4"}
        assert report.strength is not None
        assert report.strength > 0
    peaked = check_prior(family, Box((0.2, -3.0), (0.9, -0.5)))
    assert set(peaked.broken) == {"S3", "S4"}
    assert "about the record" in peaked.broken["S3"]


def test_both_parameters_are_found_from_cut_and_from_clipped_records() -> None:
    """Exact moments lead back; those of 40000 draws to within 6 predicted deviations, by the
    truncated law's own information."""
    family, theta = Gamma(1), np.array([2.5, -1.5])
    kept = family.survival(PRIOR, 0.5)
    truncated = family.truncated(theta, kept)
    solution = truncated_mle(family, PRIOR, kept, truncated.mean)
    assert isinstance(solution, Solved)
    assert np.allclose(solution.theta, theta, atol=1e-7)
    back = clipped_match(family, PRIOR, kept, family.clipped(theta, kept).mean)
    assert isinstance(back, Solved)
    assert np.allclose(back.theta, theta, atol=1e-7)
    assert least_curvature(family, PRIOR, kept, "clip") > 0
    x = family.sample(theta, 40_000, np.random.default_rng(4))
    inside = x[x[:, 0] <= kept.center[0] + kept.radius]
    solution = truncated_mle(family, PRIOR, kept, family.statistic(inside).mean(axis=0))
    assert isinstance(solution, Solved)
    spread = np.sqrt(np.diag(np.linalg.inv(truncated.covariance)) / len(inside))
    assert (np.abs(solution.theta - theta) < 6 * spread).all()


def test_a_record_at_the_edge_of_the_prior_is_reported() -> None:
    family = Gamma(1)
    kept = family.survival(PRIOR, 0.9)
    outside = family.truncated(np.array([8.0, -1.0]), kept).mean
    solution = truncated_mle(family, PRIOR, kept, outside)
    assert isinstance(solution, Solved)
    assert solution.at_edge
    assert solution.theta[0] == pytest.approx(5.0)
