"""A check of location-scale families: their methods agree, and moments tell laws apart.

The moments are those of clipped records.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from dpverify.families.location_scale import Interval, LocationScaleFamily

_PLACES = 257  # number of places in the window
_MEANS, _FACTORS = 9, 7  # grid of the box in which laws are told apart
_LENGTHS = tuple(2.0 ** (k / 4) for k in range(4, 13))  # half lengths, in deviations
_TURNS = (0.625, 0.75)
_AT_WINDOW = 25  # least fall of the log density at an end of the window
_BENT = 1e-7


@dataclass(frozen=True, slots=True)
class LocationScaleReport:
    """Report of ``check_location_scale``; privacy never depends on it.

    log_concave: whether the standard density is, at 257 places.
    flattest: the least determinant of the derivative of the two clipped moments by location and
    scale, over intervals and nearby laws.
    one_law: whether all principal minors are positive there: then no two of these laws have the
    same moments.
    """

    log_concave: bool
    flattest: float
    one_law: bool

    def __str__(self) -> str:
        shape = "log-concave" if self.log_concave else "not log-concave"
        told = "are told apart" if self.one_law else "may have the same moments"
        return f"{shape}; nearby laws {told} (least determinant {self.flattest:.2g})"


def check_location_scale(
    family: LocationScaleFamily, first: tuple[float, float], second: tuple[float, float]
) -> LocationScaleReport:
    """Check a family numerically over a range of each of its two parameters.

    Raises ValueError where maps are not inverse to each other or not increasing, and for a window
    that cuts much of the law off. Checked on grids, which can miss a break between their places.
    Source: OURS; Gale and Nikaido (1965), for one_law.
    """
    for one in itertools.product(first, second):
        _refuse_misfits(family, *one)
    low, high = family.window()
    y = np.linspace(low, high, _PLACES)
    logs = family.log_density(y)
    if max(logs[0], logs[-1]) > logs.max() - _AT_WINDOW:
        raise ValueError(
            f"{type(family).__name__}: the window {low:.6g} to {high:.6g} cuts much of the law "
            "off; give a longer one."
        )
    bends = np.diff(logs, 2)
    own, minors = family.constants(), []
    for far, turn in itertools.product(_LENGTHS, _TURNS):
        reach = far * own.deviation
        where = Interval(own.mean - reach, own.mean + reach, turn, "clip")
        for m, log in itertools.product(
            np.linspace(-1, 1, _MEANS), np.linspace(-math.log(2), math.log(2), _FACTORS)
        ):
            slopes = family.moments(float(m), math.exp(float(log)), where).slopes
            minors.append((slopes[0, 0], slopes[1, 1], float(np.linalg.det(slopes))))
    least = np.min(minors, axis=0)
    return LocationScaleReport(
        bool((bends <= _BENT * (1 + np.abs(logs[1:-1]))).all()),
        float(least[2]),
        bool((least > 0).all()),
    )


def _refuse_misfits(family: LocationScaleFamily, first: float, second: float) -> None:
    name = type(family).__name__
    location, scale = family.standard(first, second)
    back = family.textbook(location, scale)
    if not np.allclose(back, (first, second), rtol=1e-9, atol=1e-12):
        raise ValueError(
            f"{name}: textbook(standard({first:.6g}, {second:.6g})) = {back}; the two maps have "
            "to be inverse."
        )
    low, high = family.window()
    t = location + scale * np.linspace(max(low, -5.0), min(high, 5.0), 65)
    with np.errstate(over="ignore", under="ignore"):
        records = np.asarray(family.record(t), np.float64)
    if not (np.diff(records) >= 0).all():
        raise ValueError(f"{name}: record(t) does not increase.")
    inner = (np.abs(records) > 1e-300) & (np.abs(records) < 1e300)
    again = np.array([family.statistic(x) for x in records[inner].tolist()])
    if not np.allclose(again, t[inner], rtol=1e-9, atol=1e-9 * scale):
        raise ValueError(f"{name}: statistic(record(t)) is not t.")
