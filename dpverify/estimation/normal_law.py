"""Clipped moments of normal laws: their values, the law that has given ones, and results that
report a law.

z is a record in units of a public frame, normal of mean t and deviation s; its clipped moments
are E clip(z, +-T) and E min(z^2, C^2). Everything here is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import scipy
from numpy.typing import NDArray

from dpverify.estimation.answers import NoiseLaw, Result, deviations, tail_of
from dpverify.grid.linear import Integers
from dpverify.privacy.numbers import Exact, Floats

_STEPS = 100
_LONGEST = 0.5  # longest step, in deviations and in the logarithm of one
_SMALL = 1e-12
_NODES = np.linspace(-9.0, 9.0, 2401)
_MASSES = np.exp(-_NODES * _NODES / 2) / np.exp(-_NODES * _NODES / 2).sum()


@dataclass(frozen=True, slots=True)
class Clips:
    """Edges at which the moments are clipped: the first beyond ``turn``, the second beyond
    ``edge``, in units of the frame.
    """

    turn: float
    edge: float

    def moments(self, mean: Floats, deviation: Floats) -> Floats:
        """Compute the two clipped moments of normal laws, shape (2, laws); of one law from two
        numbers, shape (2,).
        """
        return self._moments(*self._ends(mean, deviation))

    def slopes(self, mean: Floats, deviation: Floats) -> Floats:
        """Compute the derivatives of the moments by the mean and by the logarithm of the
        deviation, shape (2, 2, laws) or (2, 2).

        By Stein, the derivative of E f(z) by the mean is E f'(z), and that by the logarithm of
        s is s^2 E f''(z).
        """
        return self._slopes(*self._ends(mean, deviation))

    def with_slopes(self, mean: Floats, deviation: Floats) -> tuple[Floats, Floats]:
        """Compute the moments and their derivatives, from the same masses and densities."""
        ends = self._ends(mean, deviation)
        return self._moments(*ends), self._slopes(*ends)

    def _ends(self, mean: Floats, deviation: Floats) -> tuple[_Ends, _Ends]:
        return _Ends(mean, deviation, self.turn), _Ends(mean, deviation, self.edge)

    def _moments(self, turn: _Ends, edge: _Ends) -> Floats:
        first = self.turn * (turn.above - turn.below) + turn.first()
        second = self.edge**2 * (edge.above + edge.below) + edge.second()
        return np.array([first, second])

    def _slopes(self, turn: _Ends, edge: _Ends) -> Floats:
        deviation = turn.deviation
        ends = self.edge * (edge.high + edge.low) / deviation
        return np.array(
            [
                [turn.inside, deviation * (turn.low - turn.high)],
                [2 * edge.first(), 2 * deviation**2 * (edge.inside - ends)],
            ]
        )

    def covariance(self, mean: float, deviation: float) -> Floats:
        """Compute the covariance of a record's two clipped moments, shape (2, 2), by a sum over
        2401 places.
        """
        z = mean + deviation * _NODES
        both = np.stack([np.clip(z, -self.turn, self.turn), np.minimum(z * z, self.edge**2)])
        both = both - (both @ _MASSES)[:, np.newaxis]
        return np.asarray((both * _MASSES) @ both.T)


@dataclass(frozen=True, slots=True)
class Box:
    """Normal laws that a frame may belong to: means up to ``mean`` from its center, deviations
    within a factor of its unit.
    """

    mean: float
    factor: float

    def nearest(self, mean: Floats, log: Floats) -> tuple[Floats, Floats]:
        """Clamp means and logarithms of deviations to the box."""
        far = math.log(self.factor)
        return np.clip(mean, -self.mean, self.mean), np.clip(log, -far, far)


def fit(moments: Floats, clips: Clips, box: Box) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Compute means and deviations with these clipped moments, by Newton's method in the box,
    and whether they have them.

    moments: shape (2, laws). Where no law in the box has them, the last iterate is returned.
    """
    mean, log = box.nearest(moments[0].astype(np.float64), np.zeros(moments.shape[1]))
    fits, open_ = np.zeros(len(mean), np.bool_), np.arange(len(mean))
    for _ in range(_STEPS):
        own, logs = mean[open_], log[open_]
        there, ((a, b), (c, d)) = clips.with_slopes(own, np.exp(logs))
        off = moments[:, open_] - there
        det = a * d - b * c
        told = np.abs(det) > _SMALL
        safe = np.where(told, det, 1.0)
        steps = (d * off[0] - b * off[1]) / safe, (a * off[1] - c * off[0]) / safe
        size = np.maximum(*map(np.abs, steps))
        done = told & (size < _SMALL)
        fits[open_[done]] = True
        scaled = np.minimum(1.0, _LONGEST / np.maximum(size, _SMALL))
        later = box.nearest(own + scaled * steps[0], logs + scaled * steps[1])
        moves = told & ~done
        mean[open_[moves]], log[open_[moves]] = later[0][moves], later[1][moves]
        held = (later[0] == own) & (later[1] == logs)
        open_ = open_[moves & ~held]
        if not len(open_):
            break
    return mean, np.exp(log), fits


def moved_frames(
    pairs: Integers, parts: int, clips: Clips, box: Box, levels: int
) -> tuple[Integers, Integers]:
    """Compute how far frames move for moments in 1/parts: in sixteenths of their unit, and in
    levels of it.

    pairs: shape (frames, 2). Frames move to the law in the box that has these moments or, where
    none has, to the mean and the deviation that they would be without clipping.
    """
    moments = pairs.T / parts
    mean, deviation, fits = fit(moments, clips, box)
    variance = np.maximum(moments[1] - moments[0] ** 2, box.factor**-2)
    rough = box.nearest(moments[0], np.log(variance) / 2)
    mean = np.where(fits, mean, rough[0])
    deviation = np.where(fits, deviation, np.exp(rough[1]))
    whole = np.rint(16 * mean), np.rint(levels * np.log2(deviation))
    return whole[0].astype(np.int64), whole[1].astype(np.int64)


def errors_of(slopes: Floats, covariance: Floats) -> tuple[float, float]:
    """Return the deviations of mean and logarithm that belong to a covariance of the moments,
    to first order.
    """
    back = np.linalg.inv(slopes)
    squares = np.diag(back @ covariance @ back.T)
    return math.sqrt(squares[0]), math.sqrt(squares[1])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NormalEstimate(Result):
    """A private mean and a private standard deviation of normal records.

    ``value`` is the mean and ``deviation`` the standard deviation, in the data's unit;
    ``count`` the (noisy or public) number of records. ``spread`` is the standard deviation of
    the noise in the mean, in the data's unit, and ``relative_spread`` of the noise in the
    deviation, as a share of it; ``sampling`` and ``relative_sampling`` are those of independent
    normal records. All four are to first order. noise: the law of the noise.
    """

    value: float
    deviation: float
    count: float
    spread: float = field(repr=False)
    relative_spread: float = field(repr=False)
    sampling: float = field(repr=False)
    relative_sampling: float = field(repr=False)
    noise: NoiseLaw = field(default="gaussian", repr=False)

    def interval(self, level: Exact = 0.95, *, sampling: bool = False) -> tuple[float, float]:
        """Compute (low, high) around the mean, to first order in the noise.

        With this probability the interval contains the estimate without noise, or with
        ``sampling`` the mean of the normal law that the records are independent draws from.
        Raises TypeError or ValueError for a level outside (0, 1).
        """
        reach = self._reach(tail_of(level), self.spread, self.sampling * sampling)
        return self.value - reach, self.value + reach

    def deviation_interval(
        self, level: Exact = 0.95, *, sampling: bool = False
    ) -> tuple[float, float]:
        """Compute (low, high) around the standard deviation, as ``interval`` does, to first
        order in its logarithm.
        """
        sampled = self.relative_sampling * sampling
        reach = self._reach(tail_of(level), self.relative_spread, sampled)
        return self.deviation * math.exp(-reach), self.deviation * math.exp(min(reach, 700.0))

    def _reach(self, tail: float, noise: float, sampling: float) -> float:
        """Compute how many deviations both parameters are off together; where the noise has a
        heavier tail, each gets half of the probability.
        """
        if self.noise == "gaussian":
            return deviations("gaussian", tail) * math.hypot(noise, sampling)
        each = tail / 2 if sampling else tail
        return deviations(self.noise, each) * noise + deviations("gaussian", each) * sampling

    def __str__(self) -> str:
        far = abs(self.value) / self.spread if self.spread > 0 else 1.0
        digits = min(max(math.ceil(math.log10(min(max(far, 1.0), 1e17))) + 2, 3), 17)
        return (
            f"{self.value:.{digits}g} (deviation {self.deviation:.3g}), of {self.count:.6g} records"
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Degenerate(Result):
    """Result for data of which about half or more lie within a few cells of one place: the
    deviation is below what the grid shows.

    ``value`` is that place, ``resolution`` the least deviation that would have been told, both
    in the data's unit; ``count`` the (noisy or public) number of records.
    """

    value: float
    resolution: float
    count: float

    def interval(self, level: Exact = 0.95) -> None:
        """Return None: there is no law to tell how far off the place is."""
        tail_of(level)

    def __str__(self) -> str:
        return f"{self.value:.6g}, with a deviation below {self.resolution:.3g}"


def _density(x: Floats) -> Floats:
    return np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


class _Ends:
    """Normal laws between -edge and edge: the masses ``below``, ``inside`` and ``above``, and the
    densities of z / deviation at the ``low`` and the ``high`` end.
    """

    def __init__(self, mean: Floats, deviation: Floats, edge: float) -> None:
        self.mean, self.deviation = mean, deviation
        self._a, self._b = a, b = (-edge - mean) / deviation, (edge - mean) / deviation
        self.below, self.above = scipy.special.ndtr(a), scipy.special.ndtr(-b)
        self.inside = scipy.special.ndtr(b) - self.below
        self.low, self.high = _density(a), _density(b)

    def first(self) -> Floats:
        """Compute E z over the records inside."""
        return self.mean * self.inside + self.deviation * (self.low - self.high)

    def second(self) -> Floats:
        """Compute E z^2 over the records inside."""
        ends = self._a * self.low - self._b * self.high
        cross = 2 * self.mean * self.deviation * (self.low - self.high)
        return self.mean**2 * self.inside + cross + self.deviation**2 * (self.inside + ends)
