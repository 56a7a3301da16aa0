"""Intervals in which a location-scale family's moments are released, and the laws that these
moments determine.

Everything here follows from public numbers and from what was released.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dpverify.estimation.clip_schedule import in_units
from dpverify.estimation.location_scale_maps import LARGEST, records_at, shortest
from dpverify.estimation.whitening import count_of, octaves
from dpverify.families import LocationScaleFamily
from dpverify.families.fitting import Near, fitted
from dpverify.families.location_scale import Interval, Moments
from dpverify.grid.linear import Integers
from dpverify.grid.rounding import rounded_ratios
from dpverify.grid.step_moments import StepMoments
from dpverify.grid.steps import Outside
from dpverify.privacy import Adjacency
from dpverify.privacy.numbers import Floats, to_float

CELLS = 1 << 12
"""Number of cells in an interval."""
PARTS = 64
"""Parts of a unit to which the warm moments are rounded."""
_WARM = 3.0  # half of the warm interval, in deviations
# lengths of half of the last interval, in deviations
_RUNGS = tuple(2.0 ** (k / 4) for k in range(4, 13))
_SIXTEENTHS = 16  # parts of a scale, and of an octave, to which the warm law is rounded
# In scales, and as a factor: where a law is solved for. No two laws of the second box have the same
# clipped moments.
_FAR_BOX = {"clip": (2.0, 4.0), "mask": (8.0, 8.0)}
_NEAR_BOX = {"clip": (1.0, 2.0), "mask": (8.0, 8.0)}
_TINY = 1e-12
_FARTHEST = Fraction(10**6)  # largest moment
_MOST = 1e18  # largest number of records


class Shape(NamedTuple):
    """Parameters that ``StepMoments`` takes for an interval in cells."""

    turn: int
    linear: int
    square: int
    offset: int
    weight: int


def _shape(turn: Fraction, linear: int, square: int, offset: Fraction, weight: Fraction) -> Shape:
    """Build a shape from shares of half of the interval: where the first moment turns, both
    moments' factors, what is taken off the square, and the number's weight.
    """
    off, heavy = int(offset * CELLS**2), int(weight * CELLS**2)
    return Shape(int(turn * CELLS), linear * CELLS, square, off, heavy)


SHAPES = {
    ("clip", Adjacency.REPLACE): _shape(Fraction(5, 8), 4, 5, Fraction(0), Fraction(0)),
    ("clip", Adjacency.ADD_REMOVE): _shape(Fraction(3, 4), 2, 3, Fraction(1, 2), Fraction(5, 4)),
    ("mask", Adjacency.REPLACE): _shape(Fraction(1), 1, 2, Fraction(1, 4), Fraction(1)),
    ("mask", Adjacency.ADD_REMOVE): _shape(Fraction(1), 1, 2, Fraction(1, 2), Fraction(1)),
}
"""Shapes for moments of s / cells, s from -cells to cells."""


class Law(NamedTuple):
    """Location and scale of a law."""

    location: float
    scale: float


@dataclass(frozen=True, slots=True)
class Frames:
    """Intervals for a family, for the set of its records that was ``kept``, and for the
    ``noise`` of the last moments, which is in their unit.
    """

    family: LocationScaleFamily
    outside: Outside
    kept: tuple[float, float] | None
    shape: Shape
    noise: float

    def support(self) -> tuple[float, float]:
        """Return the range of t of records that were kept."""
        if self.kept is None:
            return -math.inf, math.inf
        low, high = (self.family.statistic(end) if math.isfinite(end) else end for end in self.kept)
        return low, high

    def about(self, law: Law, far: float) -> Interval:
        """Choose the interval within ``far`` deviations of the law's mean, inside of what was kept
        where that is long enough.
        """
        own, (least, most) = self.family.constants(), self.support()
        middle, reach = law.location + law.scale * own.mean, far * law.scale * own.deviation
        low, high = max(middle - reach, least), min(middle + reach, most)
        if not low < high:  # all of the interval lies outside of the kept set
            low, high = (least, min(most, least + reach))
            if middle >= least:
                low, high = max(least, most - reach), most
        if high - low < (room := shortest(low, high, law.scale)):
            low = min(low, LARGEST)
            high = low + room
        return Interval(low, high, self.shape.turn / CELLS, self.outside)

    def warm(self, start: Law) -> Interval:
        """Choose the interval of the warm moments, about the law that the searches found."""
        return self.about(start, _WARM)

    def best(self, law: Law, octave: int) -> Interval:
        """Choose the interval of the ladder's best length for this law and number of records."""
        return self.about(law, _rung_of(self, self._standard(law), octave))

    def after(self, start: Law, first: int, second: int) -> Law:
        """Find the law whose warm moments, in 1/64, these are; the start where no law near has
        them, and for a second moment below 0.
        """
        by, octaves = _move_of(self, self._standard(start), first, second)
        return Law(
            start.location + start.scale * by / _SIXTEENTHS,
            start.scale * 2.0 ** (octaves / _SIXTEENTHS),
        )

    def solved(self, means: Floats, where: Interval, near: Law) -> Law | None:
        """Find the law near one that has these moments in an interval; None where none has."""
        fit = fitted(self.family, means, where, Near(*near, *_NEAR_BOX[self.outside]))
        return None if fit is None else Law(*fit)

    def share(self, at: Moments, law: Law) -> float:
        """Return the share of the records, kept if some are, that count for these moments."""
        if self.outside == "clip":
            return 1.0
        low, high = self.support()
        first, last = (law.location + law.scale * y for y in self.family.window())
        ends = Interval(max(low, first), min(high, last), 1.0, "mask")
        if ends.high - ends.low < shortest(ends.low, ends.high, law.scale):
            return 0.0
        whole = self.family.moments(*law, ends).inside
        return at.inside / whole if whole > 0 else 0.0

    def errors(self, at: Moments, inside: float) -> tuple[Floats, Floats]:
        """Compute the covariances of location and ln(scale), in scales, by noise and by
        sampling, for so many records that count.
        """
        one, noise = self.shape, self.noise
        own = np.array([noise / (one.linear * CELLS), noise / (one.square * CELLS**2)]) / inside
        noisy = np.diag(own**2)
        if one.weight:
            along = at.means - np.array([0.0, one.offset / CELLS**2])
            noisy += np.outer(along, along) * (noise / (one.weight * inside)) ** 2
        back = np.linalg.inv(at.slopes)
        return back @ noisy @ back.T, back @ at.covariance @ back.T / inside

    def edges(self, where: Interval) -> tuple[float, ...]:
        """Compute the records between cells; for a mask also the ends, which are the ends of
        the kept set where the interval ends with that.
        """
        return _edges_of(self, where)

    def _standard(self, law: Law) -> Law:
        """Return a law of standard location and scale for which everything else is as for this
        one; where only some records were kept, return the law itself.
        """
        return Law(0.0, 1.0) if self.kept is None else law


@lru_cache(maxsize=1 << 12)
@np.errstate(all="ignore")
def _move_of(frames: Frames, start: Law, first: int, second: int) -> tuple[int, int]:
    """Compute where the law with the warm moments is, in sixteenths of the first scale and of
    an octave from it.
    """
    if second < 0:
        return 0, 0
    near = Near(*start, *_FAR_BOX[frames.outside])
    means = np.array([first / PARTS, second / PARTS])
    fit = fitted(frames.family, means, frames.warm(start), near)
    if fit is None:
        return 0, 0
    by = round(_SIXTEENTHS * (fit[0] - start.location) / start.scale)
    return by, round(_SIXTEENTHS * math.log2(fit[1] / start.scale))


@lru_cache(maxsize=1 << 10)
@np.errstate(all="ignore")
def _rung_of(frames: Frames, law: Law, octave: int) -> float:
    """Return the length with the least determinant of the errors' covariance, for this law and
    number.
    """
    n = count_of(octave)

    def error(far: float) -> float:
        at = frames.family.moments(*law, frames.about(law, far))
        inside = n * frames.share(at, law)
        if not (inside > 0 and abs(np.linalg.det(at.slopes)) > _TINY):
            return math.inf
        return float(np.linalg.det(sum(frames.errors(at, inside))))

    return float(min(_RUNGS, key=error))


@lru_cache(maxsize=64)
def _edges_of(frames: Frames, where: Interval) -> tuple[float, ...]:
    cell = (where.high - where.low) / CELLS
    t = np.asarray(where.low + cell * (np.arange(CELLS) + 0.5), np.float64)
    records = records_at(frames.family, t)
    if frames.outside == "mask":
        first, last = records_at(frames.family, np.array([where.low, where.high])).tolist()
        if frames.kept is not None:
            least, most = frames.support()
            first = frames.kept[0] if where.low == least else first
            last = frames.kept[1] if where.high == most else last
        records = np.r_[first, np.clip(records, first, last), last]
    return tuple(np.clip(np.maximum.accumulate(records), -LARGEST, LARGEST).tolist())


# --- moments from released sums: exact, whatever was released -------------------------------------


def rounded_moments(
    query: StepMoments, per: Fraction, values: Integers, public: Integers | None, least: int
) -> list[Integers]:
    """Compute both moments of each row to the nearest 1/64, in the range that they can have, and
    the quarter octave of the number of records; -128 for fewer than half of ``least`` of these.

    per: the unit of a released value, in the query's unit. public: the numbers of records,
    where they are not released.
    """
    numbers = values[:, 2] if public is None else public
    known = in_units(numbers, per / query.weight if public is None else Fraction(1))
    good = np.asarray(numbers > 0, np.bool_) & (2 * known >= least)
    below = np.where(good, numbers, 1)
    own = PARTS * (Fraction(query.weight) if public is None else per)
    first = rounded_ratios(values[:, 0], below, own / (query.linear * query.cells))
    offset = Fraction(query.offset * PARTS, query.cells**2)
    second = rounded_ratios(values[:, 1], below, own / (query.square * query.cells**2), offset)
    turn = query.turn * PARTS // query.cells
    both = np.stack([np.clip(first, -turn, turn), np.clip(second, 0, PARTS)])
    both[:, ~good] = -2 * PARTS
    return [*both.astype(np.int64), octaves(np.clip(known, least, _MOST))]


def moments_of(
    query: StepMoments, sums: list[Fraction], public: int | None
) -> tuple[Floats, float]:
    """Compute both moments of a record, and the number of records that count, from sums in the
    query's unit.
    """
    count = sums[2] / query.weight if public is None else Fraction(public)
    if count <= 0:
        return np.zeros(2), to_float(count)
    first = sums[0] / (query.linear * query.cells * count)
    second = (sums[1] / count + query.square * query.offset) / (query.square * query.cells**2)
    means = [to_float(min(max(one, -_FARTHEST), _FARTHEST)) for one in (first, second)]
    return np.array(means), to_float(count)
