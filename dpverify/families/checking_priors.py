"""A check of the assumptions of truncated estimation over a prior.

The report says which of them a family with several parameters breaks, and where.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpverify.families.matching import least_curvature
from dpverify.families.sets import Ball, Prior, Shell, Survival
from dpverify.families.several_parameters import Curvature, ExponentialFamily, mass_of
from dpverify.grid.steps import Outside
from dpverify.privacy.numbers import Floats

_MOST_RATIO = 1e12  # largest ratio of curvatures over a prior: beyond, floats see a singular matrix
_PAIRS, _DRAWS = 200, 4000
_SLOPE = 1e-4  # step of differences, in deviations of a coordinate of theta
_CLOSE = 1e-5  # tolerance, in deviations of the statistic
_DEVIATIONS = 7.0  # a drawn mean is beyond with probability below 3e-12 for each number


@dataclass(frozen=True, slots=True)
class PriorReport:
    """Report of ``check_prior``.

    mass: a lower bound on the probability of the survival set under the prior.
    strength: the least eigenvalue of the derivative of the limited statistic's mean by theta,
    over points of the prior; errors of released moments are divided by it.
    broken: the assumptions among S1 to S4 that do not hold, each with where.

    Both ``mass`` and ``strength`` are None without a survival set, or where they cannot be
    computed.
    """

    curvature: Curvature
    degree: int | None
    mass: float | None
    strength: float | None
    broken: dict[str, str]

    def __str__(self) -> str:
        own = self.curvature
        parts = [f"curvature from {own.least:.3g} to {own.most:.3g}, degree {self.degree}"]
        if self.mass is not None and self.strength is not None:
            parts.append(f"mass at least {self.mass:.3g}, strength {self.strength:.3g}")
        return "; ".join(
            (*parts, *(f"{name} fails {where}" for name, where in self.broken.items()))
        )


def check_prior(
    family: ExponentialFamily,
    prior: Prior,
    survival: Survival | None = None,
    outside: Outside = "mask",
) -> PriorReport:
    """Check numerically the four assumptions of truncated estimation over a prior.

    survival: a set to truncate to, or None.

    S1: the covariance of T is bounded from both sides.
    S2: the prior is inside of all parameters.
    S3: the law of a record is log-concave, also that of records in the set.
    S4: T is a polynomial of the record.

    Where S3 fails nothing but the computed ``strength`` says how well moments tell theta.
    Raises ValueError for a set that cannot be shown to hold 1 / 20 of the records, and where
    the family's methods contradict each other.

    Source: ZZ25, the assumptions of Theorem 3.1.
    """
    curvature = family.bounds(prior)
    broken = _broken(curvature, family.degree, prior)
    mass = None if survival is None else mass_of(family, prior, survival)
    if "S1" in broken or "S2" in broken:
        return PriorReport(curvature, family.degree, mass, None, broken)
    points = family.points(prior)
    for theta in points[:: max(1, len(points) // 4)]:
        wrong = _contradiction(family, theta) or _limited_contradiction(family, theta, survival)
        if wrong:
            where = np.round(theta, 4).tolist()
            raise ValueError(f"{type(family).__name__}, at theta {where}: {wrong}.")
    bent = _bent(family, points[0])
    if bent:
        broken["S3"] = bent
    elif isinstance(survival, Shell):
        broken["S3"] = f"in the hole of {survival}: the set is not convex"
    strength = None if survival is None else least_curvature(family, prior, survival, outside)
    return PriorReport(curvature, family.degree, mass, strength, broken)


def _broken(curvature: Curvature, degree: int | None, prior: Prior) -> dict[str, str]:
    """Return which of S1, S2 and S4 fail, by what the family says of itself."""
    broken = {}
    least, most = curvature.least, curvature.most
    if not 0 < least <= most < math.inf:
        broken["S1"] = f"over {prior}: curvature from {least:.3g} to {most:.3g}"
    elif most > _MOST_RATIO * least:
        far = most / least
        broken["S1"] = f"over {prior}: curvatures a factor {far:.3g} apart are singular in floats"
    if not curvature.interior > 0:
        broken["S2"] = f"at the end of {prior}, which is the end of all parameters"
    if degree is None:
        broken["S4"] = "everywhere: the statistic is no polynomial"
    return broken


def _contradiction(family: ExponentialFamily, theta: Floats) -> str:
    """Return how a family's methods contradict each other; empty if they do not.

    Log partition, mean, Fisher information, matching and draws are compared.
    """
    mean, fisher = family.mean(theta), family.fisher(theta)
    unit = 1 / np.sqrt(np.diag(fisher))  # unit of theta, and one over the unit of T
    if _off(_slopes(family.log_partition, theta, unit), mean, unit):
        return "the mean is not the gradient of the log partition"
    if _off(_slopes(family.mean, theta, unit), fisher, unit, unit):
        return "the Fisher information is not the derivative of the mean"
    if _off(family.mean_to_natural(mean), theta, 1 / unit):
        return "mean_to_natural(mean(theta)) is not theta"
    drawn = family.statistic(family.sample(theta, _DRAWS, np.random.default_rng(1)))
    far = np.abs(drawn.mean(axis=0) - mean) / np.sqrt(np.diag(fisher) / _DRAWS)
    if (far > _DEVIATIONS).any():
        return f"the statistic of {_DRAWS} draws has another mean"
    if family.degree is not None and not _is_polynomial(family, theta, family.degree):
        return f"the statistic is no polynomial of degree {family.degree}"
    return ""


def _limited_contradiction(
    family: ExponentialFamily, theta: Floats, survival: Survival | None
) -> str:
    """Return how truncated and clipped moments contradict their derivatives; empty if they do
    not.
    """
    if survival is None:
        return ""

    def truncated(other: Floats) -> float:
        return family.log_partition(other) + family.truncated(other, survival).log_mass

    def inside(other: Floats) -> Floats:
        return family.truncated(other, survival).mean

    own, unit = family.truncated(theta, survival), 1 / np.sqrt(np.diag(family.fisher(theta)))
    if _off(_slopes(truncated, theta, unit), own.mean, unit):
        return "the truncated mean is not the gradient of log partition plus log mass"
    if _off(_slopes(inside, theta, unit), own.covariance, unit, unit):
        return "the truncated covariance is not the derivative of the truncated mean"
    if not isinstance(survival, Ball):
        return ""
    moved = _slopes(lambda other: family.clipped(other, survival).mean, theta, unit)
    if _off(moved, family.clipped(theta, survival).jacobian, unit, unit):
        return "the clipped Jacobian is not the derivative of the clipped mean"
    return ""


def _slopes(function: Callable[[Floats], Floats | float], theta: Floats, unit: Floats) -> Floats:
    """Difference a function of theta along every axis, over a small part of ``unit``.

    The axis of theta is the last of the result's axes.
    """
    steps = np.diag(_SLOPE * unit)
    slopes = [
        (np.asarray(function(theta + one)) - np.asarray(function(theta - one))) / (2 * step)
        for one, step in zip(steps, _SLOPE * unit, strict=True)
    ]
    return np.stack(slopes, axis=-1)


def _off(actual: Floats, wanted: Floats, *units: Floats) -> bool:
    """Return whether two arrays differ, each axis in its unit."""
    apart = np.abs(actual - wanted)
    for axis, unit in enumerate(units):
        apart = apart * np.expand_dims(unit, [k for k in range(apart.ndim) if k != axis])
    return bool(apart.max() > _CLOSE)


def _bent(family: ExponentialFamily, theta: Floats) -> str:
    """Return where the law of a record is not log-concave, at midpoints between drawn records."""
    x = family.sample(theta, 2 * _PAIRS, np.random.default_rng(2))
    first, second = x[:_PAIRS], x[_PAIRS:]
    middle = (first + second) / 2
    logs = [
        family.statistic(part) @ theta + family.log_base(part) for part in (first, middle, second)
    ]
    below = logs[1] < (logs[0] + logs[2]) / 2 - 1e-9 * (1 + np.abs(logs[1]))
    if not below.any():
        return ""
    where = np.round(middle[int(np.argmax(below))], 4).tolist()
    return f"at theta {np.round(theta, 4).tolist()}, about the record {where}"


def _is_polynomial(family: ExponentialFamily, theta: Floats, degree: int) -> bool:
    """Return whether differences of this order and one more vanish along lines between drawn
    records.
    """
    ends = family.sample(theta, 8, np.random.default_rng(3)).reshape(4, 2, family.d)
    shares = np.linspace(0, 1, degree + 2)[:, np.newaxis]
    for first, last in ends:
        t = family.statistic(first + shares * (last - first))
        rest = np.diff(t, degree + 1, axis=0)
        if np.abs(rest).max() > 1e-9 * max(1e-3, float(np.abs(t).max())):
            return False
    return True
