"""A check of the assumptions under which truncated estimation is known to work.

The report says which of them a family with one parameter breaks, and where.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from numbers import Real

import numpy as np

from dpverify.families.one_parameter import Family
from dpverify.privacy.numbers import Floats

_PARAMETERS, _PLACES = 33, 65
_MOST_DEGREE = 6
_TOO_FLAT, _TOO_STEEP = 1e-12, 1e12  # ratios to the middle one of the range's variances
_AT_WINDOW = 12  # least fall of the log density at an end of the window
_SLOPE = 1e-3  # step of differences of the log partition, in deviations of theta


@dataclass(frozen=True, slots=True)
class FamilyReport:
    """Report of ``check_family`` for a range of parameters.

    curvature: the least and the largest variance of the statistic over the range.
    interior: distance, in the natural parameter, of the range from the end of all parameters.
    degree: degree of the statistic as a polynomial of the record; None where it is none up to
    6.
    broken: the assumptions among S1 to S4 that do not hold, each with where; privacy never
    depends on them.
    """

    curvature: tuple[float, float]
    interior: float
    degree: int | None
    broken: dict[str, str]

    def __str__(self) -> str:
        low, high = self.curvature
        text = f"variance of T from {low:.3g} to {high:.3g}, degree {self.degree}"
        return "; ".join((text, *(f"{name} fails {where}" for name, where in self.broken.items())))


def check_family(family: Family, lowest: float, highest: float) -> FamilyReport:
    """Check numerically the four assumptions of truncated estimation for a range of parameters.

    lowest, highest: the ends of the range.

    S1: the variance of T is bounded from both sides.
    S2: the range is inside of all parameters.
    S3: the law of a record is log-concave.
    S4: T is a polynomial of the record.

    The checks are on grids of 33 parameters and 65 places, which can miss a break between them;
    a break that is reported is one. Raises ValueError for a range that the family does not
    have, and where the family's methods contradict each other.

    Source: ZZ25, the assumptions of Theorem 3.1.
    """
    _refuse_types(family, lowest=lowest, highest=highest)
    coordinates = [family.coordinate(p) for p in (lowest, highest)]
    if not coordinates[0] < coordinates[1]:
        lowest, highest = highest, lowest
        coordinates.reverse()
    parameters = [
        family.from_coordinate(v)
        for v in np.linspace(coordinates[0], coordinates[1], _PARAMETERS).tolist()
    ]
    thetas = [family.natural(p) for p in parameters]
    _refuse_misfits(family, parameters, thetas)
    for parameter, theta in zip(parameters[::8], thetas[::8], strict=True):
        wrong = _contradiction(family, parameter, theta)
        if wrong:
            raise ValueError(
                f"{type(family).__name__}, at {family.parameter} {parameter:.6g}: {wrong}."
            )
    broken: dict[str, str] = {}
    variances = [_variance(family, theta) for theta in thetas]
    usual = sorted(variances)[_PARAMETERS // 2]
    for parameter, variance in zip(parameters, variances, strict=True):
        if not _TOO_FLAT * usual < variance < _TOO_STEEP * usual:
            broken.setdefault(
                "S1", f"at {family.parameter} {parameter:.6g}: variance {variance:.3g}"
            )
    ends = [_natural_end(family, end) for end in family.range()]
    interior = min(thetas[0] - ends[0], ends[1] - thetas[-1])
    if not interior > 0:
        broken["S2"] = "at an end of the range, which is the end of all parameters"
    bent = _bent(family, thetas, parameters)
    if bent:
        broken["S3"] = bent
    degree = _degree(family, thetas[len(thetas) // 2])
    if degree is None:
        broken["S4"] = f"everywhere: the statistic is no polynomial of degree up to {_MOST_DEGREE}"
    return FamilyReport((min(variances), max(variances)), interior, degree, broken)


def _refuse_types(family: object, **ends: object) -> None:
    if not isinstance(family, Family):
        raise TypeError(f"family = {family!r:.80}; give a Family, for example Poisson().")
    for name, end in ends.items():
        if not isinstance(end, Real):
            raise TypeError(f"{name} = {end!r:.80} is no number; give an end of the range.")


def _refuse_misfits(family: Family, parameters: list[float], thetas: list[float]) -> None:
    """Refuse maps that are not inverse to each other, or do not increase."""
    for parameter, theta in zip(parameters, thetas, strict=True):
        back = family.textbook(theta)
        if not math.isclose(back, parameter, rel_tol=1e-9, abs_tol=1e-12):
            raise ValueError(
                f"{type(family).__name__}: textbook(natural({parameter:.6g})) = {back:.6g}; the "
                "two maps have to be inverse."
            )
        again = family.from_coordinate(family.coordinate(parameter))
        if not math.isclose(again, parameter, rel_tol=1e-9, abs_tol=1e-12):
            raise ValueError(
                f"{type(family).__name__}: from_coordinate(coordinate({parameter:.6g})) = "
                f"{again:.6g}; the two maps have to be inverse."
            )
    if not all(a < b for a, b in itertools.pairwise(thetas)):
        raise ValueError(
            f"{type(family).__name__}: natural parameters do not increase with the coordinate; "
            "let coordinate increase in theta."
        )
    middles = [family.middle(theta) for theta in thetas]
    if not all(a <= b for a, b in itertools.pairwise(middles)):
        raise ValueError(f"{type(family).__name__}: middle(theta) does not increase with theta.")
    theta = thetas[len(thetas) // 2]
    t = np.array(_places(family, theta))
    records = family.record(t)
    if not (np.diff(records) > 0).all():
        raise ValueError(
            f"{type(family).__name__}: record(t) does not increase; write the statistic so that "
            "it increases with the record, for example its negative."
        )
    back_ = np.array([family.statistic(x) for x in records.tolist()])
    if not np.allclose(back_, t, rtol=1e-9, atol=1e-9 * float(np.ptp(t))):
        raise ValueError(f"{type(family).__name__}: statistic(record(t)) is not t.")


def _contradiction(family: Family, parameter: float, theta: float) -> str:
    """Return how a family's methods contradict each other; empty if they do not.

    Density, moments, log partition, window, support and median are compared. The parameter's
    name is not checked: a natural parameter three times too large is another family of the same
    form.
    """
    low, high = family.window(theta)
    law, ends = family.limited(theta, low, high, "clip"), family.support()
    spread = math.sqrt(law.variance)
    if not ends[0] <= low < law.mean < high <= ends[1]:
        return (
            f"mean {law.mean:.6g}, window {low:.6g} to {high:.6g}, support {ends[0]:.6g} to "
            f"{ends[1]:.6g}"
        )
    t, mass = family._masses(theta, low, high)
    inner = [end for end, edge in zip((low, high), ends, strict=True) if end != edge]
    if inner and not family.lattice:
        seen = family.log_density(theta, np.array([*inner, float(t[int(np.argmax(mass))])]))
        if (seen[:-1] > seen[-1] - _AT_WINDOW).any():
            return f"the window {low:.6g} to {high:.6g} cuts much of the law off"
    step = min(
        _SLOPE / spread, max(abs(theta), 1.0) / 10
    )  # at small rates a long step leaves the floats
    parts = [family.log_partition(theta + s * step) for s in (1, -1)]
    slope = (parts[0] - parts[1]) / (2 * step)
    if abs(slope - law.mean) > spread / 100 + 1e-12 * abs(parts[0]) / step:
        return (
            f"the mean is {law.mean:.6g}, and the slope of the log partition (of log_base) is "
            f"{slope:.6g}"
        )
    middle, far = family.middle(theta), 1.0 if family.lattice else 0.0
    if mass[t <= middle + far].sum() < 1 / 4 or mass[t < middle - far].sum() > 3 / 4:
        return f"middle(theta) = {middle:.6g} is far from the median"
    return ""


def _places(family: Family, theta: float) -> list[float]:
    """Return places in the window; whole numbers on a lattice."""
    low, high = family.window(theta)
    if family.lattice:
        return [
            float(k) for k in range(math.ceil(low), min(math.floor(high), math.ceil(low) + 200) + 1)
        ]
    inner = (high - low) / (_PLACES + 1)
    return [low + inner * k for k in range(1, _PLACES + 1)]


def _variance(family: Family, theta: float) -> float:
    return family.limited(theta, *family.window(theta), "clip").variance


def _natural_end(family: Family, parameter: float) -> float:
    """Return the natural parameter at an end of all; infinite where it cannot be computed."""
    first = parameter == family.range()[0]
    try:
        return family.natural(parameter)
    except (ValueError, ZeroDivisionError, OverflowError):
        return -math.inf if first else math.inf


def _bent(family: Family, thetas: list[float], parameters: list[float]) -> str:
    """Return where the law of a record is not log-concave, if it is found to be so."""
    for theta, parameter in zip(thetas[::8], parameters[::8], strict=True):
        t = np.array(_places(family, theta))
        logs = _log_density(family, t, theta)
        x = family.record(t)
        slopes = np.diff(logs) / np.diff(x)
        rising = np.diff(slopes) > 1e-7 * (1 + np.abs(slopes[1:]))
        if rising.any():
            where = float(x[1 + int(np.argmax(rising))])
            return f"at {family.parameter} {parameter:.6g}, about the record {where:.4g}"
    return ""


def _log_density(family: Family, t: Floats, theta: float) -> Floats:
    """Return the log density of the record: that of T, and the logarithm of T's slope, by
    differences.
    """
    logs = family.log_density(theta, t)
    if family.lattice:
        return np.asarray(logs)
    step = 1e-6 * (t[1] - t[0])
    stretch = (family.record(t + step) - family.record(t - step)) / (2 * step)
    return np.asarray(logs - np.log(stretch))


def _degree(family: Family, theta: float) -> int | None:
    """Return the least degree of a polynomial that agrees with T to nine digits."""
    low, high = family.window(theta)
    first, last = family.record(np.array([low + (high - low) / 100, high])).tolist()
    x = np.linspace(first, min(last, 1e100), 40)
    t = np.array([family.statistic(one) for one in x.tolist()])
    for degree in range(1, _MOST_DEGREE + 1):
        fit = np.polynomial.Polynomial.fit(x, t, degree)
        if np.abs(fit(x) - t).max() <= 1e-9 * np.abs(t).max():
            return degree
    return None
