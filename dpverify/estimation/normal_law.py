"""Normal laws by their clipped moments: what these are, which law has given ones, and results that tell one.

z is a record in units of a public frame, normal of mean t and deviation s; its clipped moments are E clip(z, +-T) and
E min(z^2, C^2). Everything here is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from dpverify.estimation.answers import Result, deviations, tail_of
from dpverify.privacy.numbers import Exact, Floats

_STEPS = 100
_LONGEST = 0.5  # of a step, in deviations and in the logarithm of one
_SMALL = 1e-12
_NODES = np.linspace(-9.0, 9.0, 2401)
_MASSES = np.exp(-_NODES * _NODES / 2) / np.exp(-_NODES * _NODES / 2).sum()


@dataclass(frozen=True, slots=True)
class Clips:
    """Where the moments are clipped: the first beyond ``turn``, the second beyond ``edge``, in units of the frame."""

    turn: float
    edge: float

    def moments(self, mean: float, deviation: float) -> Floats:
        """Compute the two clipped moments of a normal law, shape (2,)."""
        low, inside, high = _parts(mean, deviation, self.turn)
        first = self.turn * (high - low) + _first(mean, deviation, self.turn, inside)
        low, inside, high = _parts(mean, deviation, self.edge)
        return np.array(
            [first, self.edge**2 * (high + low) + _second(mean, deviation, self.edge, inside)]
        )

    def slopes(self, mean: float, deviation: float) -> Floats:
        """Compute how the moments move with the mean and with the logarithm of the deviation, shape (2, 2).

        By Stein: the mean moves E f(z) by E f'(z), the logarithm of s by s^2 E f''(z).
        """
        a, b = (-self.turn - mean) / deviation, (self.turn - mean) / deviation
        c, d = (-self.edge - mean) / deviation, (self.edge - mean) / deviation
        inside = float(ndtr(d) - ndtr(c))
        ends = self.edge * (_density(d) + _density(c)) / deviation
        return np.array(
            [
                [float(ndtr(b) - ndtr(a)), deviation * (_density(a) - _density(b))],
                [
                    2 * _first(mean, deviation, self.edge, inside),
                    2 * deviation**2 * (inside - ends),
                ],
            ]
        )

    def covariance(self, mean: float, deviation: float) -> Floats:
        """Compute the covariance of a record's two clipped moments, shape (2, 2), by a sum over 2401 places."""
        z = mean + deviation * _NODES
        both = np.stack([np.clip(z, -self.turn, self.turn), np.minimum(z * z, self.edge**2)])
        both = both - (both @ _MASSES)[:, np.newaxis]
        return np.asarray((both * _MASSES) @ both.T)


@dataclass(frozen=True, slots=True)
class Box:
    """The normal laws that a frame may belong to: means up to ``mean`` from its center, deviations within a factor of its unit."""

    mean: float
    factor: float

    def nearest(self, mean: float, log: float) -> tuple[float, float]:
        """Clamp a mean and the logarithm of a deviation to the box."""
        far = math.log(self.factor)
        return min(max(mean, -self.mean), self.mean), min(max(log, -far), far)


def fit(moments: Floats, clips: Clips, box: Box) -> tuple[float, float, bool]:
    """Compute the mean and deviation with these clipped moments, by Newton's method in the box, and whether they have them.

    Where no law in the box has them, the last iterate.
    """
    mean, log = box.nearest(float(moments[0]), 0.0)
    for _ in range(_STEPS):
        deviation = math.exp(log)
        off = moments - clips.moments(mean, deviation)
        (a, b), (c, d) = clips.slopes(mean, deviation).tolist()
        det = a * d - b * c
        if not abs(det) > _SMALL:
            return mean, deviation, False
        step = ((d * off[0] - b * off[1]) / det, (a * off[1] - c * off[0]) / det)
        size = max(map(abs, step))
        if size < _SMALL:
            return mean, deviation, True
        scaled = min(1.0, _LONGEST / size)
        before = mean, log
        mean, log = box.nearest(float(mean + scaled * step[0]), float(log + scaled * step[1]))
        if (mean, log) == before:  # held by the box
            break
    return mean, math.exp(log), False


@lru_cache(maxsize=1 << 16)
def moved_frame(
    first: int, second: int, parts: int, clips: Clips, box: Box, levels: int
) -> tuple[int, int]:
    """Compute how far a frame moves for moments in 1/parts: in sixteenths of its unit, and in levels of its unit.

    To the law in the box that has them; where none has, to the mean and the deviation that they would be without clipping.
    """
    moments = np.array([first, second]) / parts
    mean, deviation, fits = fit(moments, clips, box)
    if not fits:
        variance = float(moments[1] - moments[0] ** 2)
        mean, log = box.nearest(float(moments[0]), math.log(max(variance, box.factor**-2)) / 2)
        deviation = math.exp(log)
    return round(16 * mean), round(levels * math.log2(deviation))


def errors_of(slopes: Floats, covariance: Floats) -> tuple[float, float]:
    """Give the deviations of mean and logarithm that belong to a covariance of the moments, to first order."""
    back = np.linalg.inv(slopes)
    squares = np.diag(back @ covariance @ back.T)
    return math.sqrt(squares[0]), math.sqrt(squares[1])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NormalEstimate(Result):
    """A private mean and a private standard deviation of normal records.

    ``value`` is the mean and ``deviation`` the standard deviation, in the data's unit; ``count`` the (noisy or public) number
    of records. ``spread`` is the standard deviation of the noise in the mean, in the data's unit, and ``relative_spread``
    of the noise in the deviation, as a share of it; ``sampling`` and ``relative_sampling`` are those of
    independent normal records. All four to first order.
    """

    value: float
    deviation: float
    count: float
    spread: float = field(repr=False)
    relative_spread: float = field(repr=False)
    sampling: float = field(repr=False)
    relative_sampling: float = field(repr=False)

    def interval(self, level: Exact = 0.95, *, sampling: bool = False) -> tuple[float, float]:
        """Compute (low, high) around the mean, to first order in the noise.

        With this probability it holds the estimate without noise; sampling: the mean of the normal law that the records are
        independent draws from. Raises TypeError or ValueError for a level outside (0, 1).
        """
        far = deviations("gaussian", tail_of(level))
        reach = far * math.hypot(self.spread, self.sampling * sampling)
        return self.value - reach, self.value + reach

    def deviation_interval(
        self, level: Exact = 0.95, *, sampling: bool = False
    ) -> tuple[float, float]:
        """Compute (low, high) around the standard deviation, as ``interval`` does, to first order in its logarithm."""
        far = deviations("gaussian", tail_of(level))
        reach = far * math.hypot(self.relative_spread, self.relative_sampling * sampling)
        return self.deviation * math.exp(-reach), self.deviation * math.exp(min(reach, 700.0))

    def __str__(self) -> str:
        return f"{self.value:.6g} (deviation {self.deviation:.3g}), of {self.count:.6g} records"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Degenerate(Result):
    """About half of the records or more lie within a few cells of one place: the deviation is below what the grid shows.

    ``value`` is that place, ``resolution`` the least deviation that would have been told, both in the data's unit; ``count`` the
    (noisy or public) number of records.
    """

    value: float
    resolution: float
    count: float

    def interval(self, level: Exact = 0.95) -> None:
        """None: there is no law to tell how far off the place is."""
        tail_of(level)

    def __str__(self) -> str:
        return f"{self.value:.6g}, with a deviation below {self.resolution:.3g}"


def _density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _parts(mean: float, deviation: float, edge: float) -> tuple[float, float, float]:
    """The masses below -edge, between, and above edge."""
    a, b = (-edge - mean) / deviation, (edge - mean) / deviation
    return float(ndtr(a)), float(ndtr(b) - ndtr(a)), float(ndtr(-b))


def _first(mean: float, deviation: float, edge: float, inside: float) -> float:
    """E z over the records between -edge and edge."""
    a, b = (-edge - mean) / deviation, (edge - mean) / deviation
    return mean * inside + deviation * (_density(a) - _density(b))


def _second(mean: float, deviation: float, edge: float, inside: float) -> float:
    """E z^2 over these."""
    a, b = (-edge - mean) / deviation, (edge - mean) / deviation
    ends = a * _density(a) - b * _density(b)
    cross = 2 * mean * deviation * (_density(a) - _density(b))
    return mean**2 * inside + cross + deviation**2 * (inside + ends)
