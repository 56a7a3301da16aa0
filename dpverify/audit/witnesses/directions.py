"""Scores of vectors: directions in which two sides differ, and what is quadratic in them.

Numbers are centered, scaled and cut at 30 scales first, so that nothing overflows and single wild
values do not decide. In many columns only differences above the noise are kept (the soft threshold
sqrt(2 ln width) of Donoho and Johnstone 1994).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpverify.audit.outputs.draws import Draws
from dpverify.audit.witnesses.features import Score, by_rows, tame
from dpverify.privacy.numbers import Floats

_CUT = 30.0
_FOR_SCALES = 200_000  # numbers per side
_LEAST_SCALE = 1e-290
_LEAST_VARIANCE = 1e-12
_EVIDENT = 1e4  # standard errors, where there is no error
TELLING = 3.0
"""Least number of standard errors by which an entry among others must differ to count."""


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """Scaling of numbers by center and scale, both of shape (width,), from draws of both sides."""

    center: Floats
    scale: Floats

    @classmethod
    def of(cls, own: Floats, other: Floats) -> Scaling:
        """Estimate the median, and half the distance of the 16% and 84% quantiles, from some of
        the rows.
        """
        most = max(100, _FOR_SCALES // max(1, own.shape[1]))
        rows = np.concatenate([own[:most], other[:most]])
        if not rows.size:
            return cls(np.zeros(own.shape[1]), np.ones(own.shape[1]))
        with np.errstate(all="ignore"):
            ordered = np.sort(rows, axis=0)
            low, center, high = (ordered[round(q * (len(rows) - 1))] for q in (0.16, 0.5, 0.84))
            scale = high / 2 - low / 2
            away = np.abs(tame(ordered - center))
            far = away.sum(axis=0) / np.maximum(1, np.count_nonzero(away, axis=0))
        scale = np.where(scale > _LEAST_SCALE, scale, tame(far))
        return cls(center, np.where(scale > _LEAST_SCALE, scale, 1.0))

    def apply(self, numbers: Floats) -> Floats:
        """Scale the numbers, which keep their shape."""
        with np.errstate(all="ignore"):
            scaled = numbers - self.center
            scaled /= self.scale
            tamed = tame(scaled)
            return np.clip(tamed, -_CUT, _CUT, out=tamed)


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Moments of two samples of scaled vectors, from which their laws are judged. All of shape
    (width,).

    t, t_variance: differences of means and of variances, in standard errors.
    variance: within the sides, pooled.
    """

    means: tuple[Floats, Floats]
    variances: tuple[Floats, Floats]
    variance: Floats
    t: Floats
    t_variance: Floats

    @classmethod
    def of(cls, own: Floats, other: Floats) -> Moments:
        """Compute the moments of two samples, of shape (size, width) each, sizes at least 1."""
        sides = own, other
        m = own.mean(axis=0), other.mean(axis=0)
        squares = [(side - mean) ** 2 for side, mean in zip(sides, m, strict=True)]
        v = squares[0].mean(axis=0), squares[1].mean(axis=0)
        spread = [(square - of) ** 2 for square, of in zip(squares, v, strict=True)]
        sizes = len(own), len(other)
        error = np.sqrt(v[0] / sizes[0] + v[1] / sizes[1])
        error_variance = np.sqrt(
            spread[0].mean(axis=0) / sizes[0] + spread[1].mean(axis=0) / sizes[1]
        )
        pooled = (v[0] * sizes[0] + v[1] * sizes[1]) / sum(sizes)
        t, t_variance = _errors(m[0] - m[1], error), _errors(v[0] - v[1], error_variance)
        return cls(m, v, np.maximum(pooled, _LEAST_VARIANCE), t, t_variance)

    @property
    def noise(self) -> float:
        """Size, about, of the largest of so many t without any difference."""
        return math.sqrt(2 * math.log(max(2, len(self.t))))

    def differ(self) -> NDArray[np.bool_]:
        """Return in which columns the means or the variances differ beyond noise; of a single
        one it is less that counts.
        """
        limit = max(TELLING, self.noise) if len(self.t) > 1 else self.noise
        differing: NDArray[np.bool_] = (np.abs(self.t) > limit) | (np.abs(self.t_variance) > limit)
        return differing

    def kept(self) -> Floats:
        """Return the difference of means without what may be noise."""
        difference = self.means[0] - self.means[1]
        sizes = np.abs(self.t)
        share = np.maximum(0.0, 1 - self.noise / np.maximum(sizes, self.noise))
        return np.asarray(difference * share)


def _errors(difference: Floats, error: Floats) -> Floats:
    with np.errstate(all="ignore"):
        ratio = np.where(difference == 0, 0.0, difference / error)
    return np.asarray(np.clip(np.nan_to_num(ratio), -_EVIDENT, _EVIDENT))


def linear(scaling: Scaling, weights: Floats, start: float = 0.0) -> Score:
    """Return a score: start + sum of weights times scaled numbers."""
    used = np.flatnonzero(weights)
    part = Scaling(scaling.center[used], scaling.scale[used])
    w = weights[used]

    def score(draws: Draws) -> Floats:
        numbers = draws.columns(len(weights))
        narrowed = numbers if len(used) == len(weights) else numbers[:, used]
        return start + by_rows(narrowed, lambda rows: part.apply(rows) @ w)

    return score


def plain_linear(weights: Floats) -> Score:
    """Return a score: the sum of weights times numbers, as they are."""
    return lambda draws: by_rows(draws.columns(len(weights)), lambda rows: rows @ weights)


def evident_steps(own: Floats, other: Floats) -> Score | None:
    """Return a score for sums that run on: the projection on the evident differences of the
    steps from number to number, each of which may have noise of its own; None without any. own,
    other: shape (size, width), as they are.
    """
    steps = [tame(np.diff(tame(side), axis=1)) for side in (own, other)]
    scaling = Scaling.of(*steps)
    moments = Moments.of(*(scaling.apply(side) for side in steps))
    weights, width = moments.kept() / moments.variance, own.shape[1]
    if not np.any(weights):
        return None

    def score(draws: Draws) -> Floats:
        return by_rows(
            draws.columns(width), lambda rows: scaling.apply(tame(np.diff(rows, axis=1))) @ weights
        )

    return score


def whitened(own: Floats, other: Floats, difference: Floats) -> Floats:
    """Return the inverse of the pooled covariance times the difference (Fisher 1936).

    Correlations are shrunk by width / size: to zero where there are as many columns as draws.
    """
    sides = [side - side.mean(axis=0) for side in (own, other)]
    size, width = len(own) + len(other), own.shape[1]
    covariance = (sides[0].T @ sides[0] + sides[1].T @ sides[1]) / size
    variances = np.maximum(np.diag(covariance), _LEAST_VARIANCE)
    shrunk = covariance * (1 - min(1.0, width / size))
    np.fill_diagonal(shrunk, variances * (1 + 1e-6))
    return np.asarray(np.linalg.solve(shrunk, difference))


def distance(score: Score, own: Draws, other: Draws) -> Score:
    """Return how far a score is from its mean, which tells spreads apart."""
    middle = float(np.mean(np.concatenate([score(own), score(other)])))
    return lambda draws: np.abs(score(draws) - middle)


def diagonal_quadratic(scaling: Scaling, moments: Moments) -> Score:
    """Return the log-ratio of Gaussians of independent columns, of those that differ beyond
    noise.
    """
    used = np.flatnonzero(moments.differ())
    part = Scaling(scaling.center[used], scaling.scale[used])
    m = [mean[used] for mean in moments.means]
    v = [np.maximum(variance[used], 1e-4) for variance in moments.variances]
    start = float(np.sum(np.log(v[1] / v[0]))) / 2

    def ratio(rows: Floats) -> Floats:
        z = part.apply(rows)
        terms = (z - m[1]) ** 2 / v[1] - (z - m[0]) ** 2 / v[0]
        return np.asarray(start + terms.sum(axis=1) / 2)

    width = len(moments.t)
    return lambda draws: by_rows(draws.columns(width)[:, used], ratio)


def full_quadratic(scaling: Scaling, own: Floats, other: Floats) -> Score:
    """Return the log-ratio of Gaussians with covariances of their own; scaled numbers of both
    sides.
    """
    means, inverses, logs = [], [], []
    for side in (own, other):
        covariance = np.atleast_2d(np.cov(side, rowvar=False, bias=True))
        ridge = np.maximum(np.diag(covariance), 1e-4) * 1e-3
        covariance = covariance + np.diag(ridge)
        means.append(side.mean(axis=0))
        inverses.append(np.asarray(np.linalg.inv(covariance), dtype=np.float64))
        logs.append(float(np.linalg.slogdet(covariance)[1]))

    def ratio(rows: Floats) -> Floats:
        z = scaling.apply(rows)
        terms = [_form(z - mean, inverse) for mean, inverse in zip(means, inverses, strict=True)]
        return np.asarray((terms[1] - terms[0] + logs[1] - logs[0]) / 2)

    width = len(scaling.center)
    return lambda draws: by_rows(draws.columns(width), ratio)


def _form(rows: Floats, inverse: Floats) -> Floats:
    return np.asarray(np.einsum("ij,ij->i", rows @ inverse, rows))
