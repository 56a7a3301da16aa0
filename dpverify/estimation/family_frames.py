"""Intervals of a family's statistic, in cells: records beyond them are clipped, or left out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpverify.estimation.stepped import CELLS
from dpverify.families import Family, Limited
from dpverify.grid.steps import Outside

RUNGS = tuple(2.0 ** (k / 4) for k in range(-4, 17))
"""Half lengths of intervals, in deviations of the statistic."""
LARGEST = 1.7e308
"""Largest absolute value of an edge."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Interval of the statistic: its cells begin at ``low``; records from ``first`` to ``last``
    count for a mask.
    """

    low: float
    length: float
    first: float
    last: float

    def low_side(self, family: Family) -> float:
        """Return how far the mean of the counts in a cell is below the cell's middle: half a
        count, because the count between two cells goes up.
        """
        return 0.5 if family.lattice and self.length > CELLS else 0.0

    def mean_at(self, family: Family, share: float) -> float:
        """Return the mean of the statistic for which the cells' mean is this share of the
        interval.
        """
        return self.low + self.length * share - self.low_side(family)

    def law(self, family: Family, theta: float, outside: Outside) -> Limited:
        """Compute the moments of the statistic, clipped to the interval or inside."""
        if outside == "clip":
            return family.limited(theta, self.low, self.low + self.length, outside)
        return family.limited(theta, self.first, self.last, outside)


def frame_about(
    family: Family, support: tuple[float, float], mean: float, half_length: float
) -> Frame:
    """Choose the interval of this half length about a mean, inside the range of the records.

    On a lattice its length is a whole power of two and its start a whole number, so that each
    cell contains a whole number of counts.
    """
    least, most = support
    low, high = max(mean - half_length, least), min(mean + half_length, most)
    if not low < high:  # all of the interval lies outside of the kept set
        low, high = least, min(most, least + half_length)
        if mean >= least:
            low, high = max(least, most - half_length), most
    if not family.lattice:
        return Frame(low, high - low, low, high)
    first = max(math.floor(low), math.ceil(least)) if math.isfinite(least) else math.floor(low)
    length = 2.0 ** max(1, math.ceil(math.log2(max(math.ceil(high) - first, 1))))
    return Frame(first, length, first, min(first + length, math.floor(min(most, 2.0**60))))


def best_frame(
    family: Family,
    support: tuple[float, float],
    theta: float,
    outside: Outside,
    number: float,
    noise: Callable[[float], float],
) -> Frame:
    """Choose, from the ladder's lengths, the interval with the least error of theta, to first
    order, for this number of records.

    noise: the deviation of the noise in the sum of statistics over the interval, by where in it
    their mean is (0 to 1).
    """
    whole = family.limited(theta, *family.window(theta), "clip")
    deviation = math.sqrt(whole.variance)

    def error(frame: Frame) -> float:
        at = frame.law(family, theta, outside)
        inside = number * at.inside if outside == "mask" else number
        if not at.slope > 0 or not inside > 0:
            return math.inf
        noisy = noise((at.mean - frame.low) / frame.length) * frame.length / inside
        return math.hypot(noisy, math.sqrt(at.variance / inside)) / at.slope

    frames = [frame_about(family, support, whole.mean, rung * deviation) for rung in RUNGS]
    return min(frames, key=error)


@lru_cache(maxsize=1 << 10)
def law_in(family: Family, frame: Frame, theta: float, outside: Outside) -> Limited:
    """Compute these moments once: at ends between which parameters are searched, for example."""
    return frame.law(family, theta, outside)


@lru_cache(maxsize=256)
def edges_in(family: Family, frame: Frame, outside: Outside) -> tuple[float, ...]:
    """Compute the records between cells, whose middles are k / CELLS of the interval; for masks
    its two ends as well.

    They are plain floats: comparing records with objects, or with an array of another kind,
    would run the family's code.
    """
    cell = frame.length / CELLS
    t = np.asarray(frame.low + cell * (np.arange(CELLS) + 0.5), np.float64)
    if outside == "mask":
        half = min(cell, 1.0) / 2 if family.lattice else 0.0
        first, last = frame.first - half, frame.last + half
        t = np.r_[first, np.clip(t, first, last), last]
    records = np.nan_to_num(np.array(family.record(t), np.float64))
    return tuple(np.clip(np.maximum.accumulate(records), -LARGEST, LARGEST).tolist())


def kept_support(family: Family, kept: tuple[float, float] | None) -> tuple[float, float]:
    """Return the range of the statistic of records that were kept. Raises ValueError or
    OverflowError for ends without a statistic.
    """
    low, high = family.support()
    if kept is None:
        return low, high
    first, last = (family.statistic(end) if math.isfinite(end) else end for end in kept)
    return max(low, first), min(high, last)


def steepness(family: Family, theta: float) -> float:
    """Compute the derivative of the textbook's parameter by the natural one, by central
    differences.

    A step is small against the standard error of theta for one record, and against theta itself
    where a law of hardly any variance (the rarest counts) shows nothing of theta; so no
    exponential of theta overflows.
    """
    law = family.limited(theta, *family.window(theta), "clip")
    step = 1e-5 * min(1 / math.sqrt(law.variance), max(1.0, abs(theta)))
    return abs(family.textbook(theta + step) - family.textbook(theta - step)) / (2 * step)
