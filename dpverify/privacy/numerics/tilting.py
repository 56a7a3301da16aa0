"""Choice of where to invert a transform: a tilt, a period, the number of points.

Floats choose, and prove nothing: the bounds of ``fourier`` hold for every choice, and are
close for a good one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpverify.privacy.guarantees.approximate import PureDP
from dpverify.privacy.guarantees.noise import DiscreteLaplaceShift
from dpverify.privacy.numbers import Floats, to_float
from dpverify.privacy.numerics.laws import Composition

BITS = 40
"""Precision: aliases and the rest of the sum are to be below 2^-40 of the value; beside
smoothing noise below 2^-20.
"""
_MOST_POINTS = 1 << 15
_ENOUGH = 1 << 13
"""Number of points up to which no smoothing is used."""
_FARTHEST = 900.0  # largest |log2 tilt|
_CUT, _CUT_OF_SMOOTHED = (BITS + 4) * math.log(2), 24 * math.log(2)


@dataclass(frozen=True, slots=True)
class Setting:
    """Choices of the floats: a tilt, a period, a number of points, the smoothing noise's square."""

    tilt: Fraction
    period: Fraction
    count: int
    smoothing: Fraction


@dataclass(frozen=True, slots=True)
class Choice:
    """A setting for one epsilon, and the points where Chernoff's bound is taken for the aliases."""

    setting: Setting
    below: Fraction
    above: Fraction


class Rough:
    """Values of log M in floats, to choose by."""

    def __init__(self, laws: Composition) -> None:
        self.laws, self.square = laws, to_float(laws.square)
        rows = []
        for part, times in laws.parts:
            if isinstance(part, PureDP):
                rows.append((to_float(part.epsilon), 1, times))
            elif isinstance(part, DiscreteLaplaceShift):
                rows.append((to_float(1 / part.scale), part.shift, times))
        self.unit, self.reach, self.times = np.array(rows, float).reshape(-1, 3).T

    def moment(self, tilts: Floats, extra: float = 0.0) -> Floats:
        """Return log M at each tilt, Gaussian noise of square ``extra`` included."""
        t = tilts[:, None]
        log_ratio = -self.unit * (1 + 2 * t)
        with np.errstate(all="ignore"):
            far = np.exp(self.reach * log_ratio)
            inner = np.expm1(-self.unit) / np.expm1(log_ratio)
            middle = inner * np.exp(log_ratio) * -np.expm1((self.reach - 1) * log_ratio)
            totals = np.log1p(far + middle) - np.log1p(np.exp(-self.unit))
            each = (t * self.reach * self.unit + totals) * self.times
            total: Floats = each.sum(axis=1) + (self.square + extra) * tilts * (tilts + 1) / 2
            return total


@np.errstate(all="ignore")
def least(objective: Callable[[Floats], Floats], fine: float) -> float:
    """Return log2 of where a function of the tilt with one valley is least, to within ``fine``."""
    low, high = -_FARTHEST, _FARTHEST
    while high - low > fine:
        values = np.nan_to_num(objective(np.exp2(np.linspace(low, high, 33))), nan=np.inf)
        best, step = int(np.argmin(values)), (high - low) / 32
        low, high = low + max(best - 1, 0) * step, low + min(best + 1, 32) * step
    return (low + high) / 2


@np.errstate(all="ignore")
def chosen(rough: Rough, epsilon: Fraction, smoothing: float) -> Choice:
    """Choose a tilt near the saddle point, a period, and enough points.

    The period leaves the aliases small.
    """
    x = to_float(epsilon)
    # Rounded to half an octave, so that cached tables are used again.
    tilt = math.exp2(round(2 * least(lambda t: _objective(rough, x, t), 1 / 16)) / 2)
    extra = smoothing**2 / (tilt * (tilt + 1))
    choice = None
    if rough.square:
        choice = _setting(rough, x, tilt, 0.0)
    if choice is None or choice.setting.count > _ENOUGH:
        choice = _setting(rough, x, tilt, extra)
    if choice.setting.count > _MOST_POINTS:
        raise ArithmeticError("too many points")
    return choice


def _objective(rough: Rough, x: float, tilts: Floats, extra: float = 0.0) -> Floats:
    """Return log of M(t) e^(-tx) / (t (t + 1)), which is about delta(x) near its least value."""
    value: Floats = rough.moment(tilts, extra) - tilts * x - np.log(tilts) - np.log1p(tilts)
    return value


def _setting(rough: Rough, x: float, tilt: float, extra: float) -> Choice:
    """Make the choice for a given tilt and smoothing.

    All but the sides is what suits the epsilon whose saddle is this tilt.
    """
    near = _objective(rough, 0.0, tilt * np.array([0.9, 1.0, 1.1]), extra)
    deviation = math.sqrt(max(near[0] - 2 * near[1] + near[2], 0.01)) / (0.1 * tilt)
    center = (near[2] - near[0]) / (0.2 * tilt)
    periods = [period for _, period in _sides(rough, center, tilt, extra, deviation)]
    below, above = (side for side, _ in _sides(rough, x, tilt, extra, deviation))
    if not math.isfinite(sum(periods) + tilt * deviation):
        raise ArithmeticError("outside of what floats can choose")
    period = Fraction(math.exp2(math.ceil(2 * math.log2(max(periods))) / 2))  # to half an octave
    width = math.sqrt(2 * _cut(extra) / (rough.square + extra))
    count = math.ceil(width * to_float(period) / (2 * math.pi))
    return Choice(Setting(Fraction(tilt), period, count, Fraction(extra)), below, above)


def _cut(extra: float) -> float:
    return _CUT_OF_SMOOTHED if extra else _CUT


def _sides(
    rough: Rough, x: float, tilt: float, extra: float, deviation: float
) -> list[tuple[Fraction, float]]:
    """Return, below and above the tilt, where Chernoff's bound is taken, and the period that it
    needs.
    """
    near = _objective(rough, x, np.array([tilt]), extra)[0]
    wanted = near - math.log(deviation) - 1 - _cut(extra)
    sides = []
    for tilts in (
        np.append(tilt * (1 - np.geomspace(1e-3, 0.999, 48)), 0.0),
        tilt * (1 + np.geomspace(1e-3, 1e6, 96)),
    ):
        above = rough.moment(tilts, extra) - tilts * x - wanted
        periods = np.nan_to_num(np.maximum(above, 1e-3) / np.abs(tilts - tilt), nan=np.inf)
        best = int(np.argmin(periods))
        sides.append((Fraction(float(tilts[best])), float(periods[best])))
    return sides
