"""Where to invert a transform: a tilt, a step, how many points. Floats choose, and prove nothing: the
bounds of ``inversion`` hold for every choice, and are close for a good one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpverify.privacy.guarantees.concentrated import ZeroConcentratedDP
from dpverify.privacy.guarantees.gaussian import GaussianDP
from dpverify.privacy.guarantees.noise import DiscreteLaplaceShift
from dpverify.privacy.guarantees.parts import Parts
from dpverify.privacy.numbers import to_float

Floats = NDArray[np.float64]

BITS = 40
"""Aliases and the rest of the sum are to be below 2^-40 of the value."""
_MOST_POINTS = 1 << 18
_ENOUGH = 1 << 13
"""Without smoothing, if so many points will do."""
_FARTHEST = 900.0  # largest |log2 tilt|


@dataclass(frozen=True, slots=True)
class Setting:
    """What the floats chose: a tilt, a step, how many, and the square of the smoothing noise.

    bits: of the masses that stand above families without a transform; 0 where there are none.
    """

    tilt: Fraction
    step: Fraction
    count: int
    smoothing: Fraction
    bits: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """A setting for one epsilon, and where Chernoff's bound is taken for the aliases."""

    setting: Setting
    below: Fraction
    above: Fraction


def square_of(parts: Parts) -> Fraction:
    """mu^2 of the Gaussian parts together."""
    return sum((p.mu_squared * n for p, n in parts if isinstance(p, GaussianDP)), Fraction(0))


class _Rough:
    """log M in floats, to choose by: zCDP as Gaussian noise, a bounded range as pure DP."""

    def __init__(self, parts: Parts) -> None:
        self.square = to_float(square_of(parts))
        rho = sum((p.rho * n for p, n in parts if isinstance(p, ZeroConcentratedDP)), Fraction(0))
        self.like_noise = self.square + 2 * to_float(rho)
        rows = [
            (to_float(1 / p.scale), p.shift, n)
            if isinstance(p, DiscreteLaplaceShift)
            else (
                to_float(p.largest_loss or Fraction(0)),
                1,
                n,
            )
            for p, n in parts
            if not isinstance(p, (GaussianDP, ZeroConcentratedDP))
        ]
        self.unit, self.reach, self.times = np.array(rows, float).reshape(-1, 3).T

    def moment(self, tilts: Floats, extra: float = 0.0) -> Floats:
        """log M at each tilt, Gaussian noise of square ``extra`` included."""
        t = tilts[:, None]
        log_ratio = -self.unit * (1 + 2 * t)
        with np.errstate(all="ignore"):
            far = np.exp(self.reach * log_ratio)
            inner = np.expm1(-self.unit) / np.expm1(log_ratio)
            middle = inner * np.exp(log_ratio) * -np.expm1((self.reach - 1) * log_ratio)
            totals = np.log1p(far + middle) - np.log1p(np.exp(-self.unit))
            each = (t * self.reach * self.unit + totals) * self.times
            total: Floats = each.sum(axis=1) + (self.like_noise + extra) * tilts * (tilts + 1) / 2
            return total


def chosen(parts: Parts, epsilon: Fraction, smoothing: float) -> Choice:
    """A tilt near the saddle point, a period that leaves the aliases small, enough points."""
    rough, x = _Rough(parts), to_float(epsilon)
    tilt = _saddle(rough, x)
    extra = smoothing**2 / (tilt * (tilt + 1))
    found = _setting(rough, x, tilt, 0.0) if rough.square else None
    if found is None or found.setting.count > _ENOUGH:
        found = _setting(rough, x, tilt, extra)
    if found.setting.count > _MOST_POINTS:
        raise ArithmeticError("too many points")
    return found


def _objective(rough: _Rough, x: float, tilts: Floats, extra: float = 0.0) -> Floats:
    """log of M(t) e^(-tx) / (t (t + 1)), which is about delta(x) near its least value."""
    value: Floats = rough.moment(tilts, extra) - tilts * x - np.log(tilts) - np.log1p(tilts)
    return value


def _saddle(rough: _Rough, x: float) -> float:
    """Where the objective is least, to an eighth of an octave, so that tables are met again."""
    low, high = -_FARTHEST, _FARTHEST
    while high - low > 1 / 16:
        tilts = np.exp2(np.linspace(low, high, 33))
        values = np.nan_to_num(_objective(rough, x, tilts), nan=np.inf)
        best = int(np.argmin(values))
        step = (high - low) / 32
        low, high = low + max(best - 1, 0) * step, low + min(best + 1, 32) * step
    return math.exp2(round(4 * (low + high)) / 8)


def _setting(rough: _Rough, x: float, tilt: float, extra: float) -> Choice:
    """For a given tilt and smoothing."""
    near = _objective(rough, x, tilt * np.array([0.9, 1.0, 1.1]), extra)
    deviation = math.sqrt(max(near[0] - 2 * near[1] + near[2], 0.01)) / (0.1 * tilt)
    margin = (BITS + 4) * math.log(2)
    wanted = near[1] - math.log(deviation) - 1 - margin
    sides = []
    for tilts in (
        np.append(tilt * (1 - np.geomspace(1e-3, 0.999, 48)), 0.0),
        tilt * (1 + np.geomspace(1e-3, 1e6, 96)),
    ):
        above = rough.moment(tilts, extra) - tilts * x - wanted
        periods = np.nan_to_num(np.maximum(above, 1e-3) / np.abs(tilts - tilt), nan=np.inf)
        best = int(np.argmin(periods))
        sides.append((Fraction(float(tilts[best])), float(periods[best])))
    if not math.isfinite(sides[0][1] + sides[1][1] + tilt * deviation):
        raise ArithmeticError("outside of what floats can choose")
    period = math.exp2(math.ceil(4 * math.log2(max(sides[0][1], sides[1][1]))) / 4)
    step = Fraction(2 * math.pi / period)
    count = math.sqrt(2 * margin / (rough.square + extra)) * period / (2 * math.pi)
    setting = Setting(Fraction(tilt), step, math.ceil(count), Fraction(extra))
    return Choice(setting, sides[0][0], sides[1][0])
