"""Released counts of public bins: bins, ranges of bins, and statistics that cost nothing
further.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from math import prod
from numbers import Real
from typing import Any

import numpy as np

from dpverify.estimation.answers import (
    NoiseLaw,
    Result,
    deviations_of_sum,
    laplace_scale,
    tail_of,
    whole_deviation,
)
from dpverify.estimation.range_answers import range_variances, solved
from dpverify.estimation.range_strategies import Kind, strategies_of
from dpverify.grid.bin_counts import Axis, bins_of
from dpverify.grid.strategies import Strategy
from dpverify.privacy.numbers import Exact, Floats, as_written


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RangeEstimate(Result):
    """A private number of records in a range of bins, with the standard deviation of its (public)
    noise.

    The noise is a weighted sum of independent noises of law ``noise``. ``value`` is unbiased.
    single: the deviation of each noise, where the noises are whole numbers of records; 0 where
    they are so fine that rounding does not matter.
    """

    value: float
    standard_deviation: float
    noise: NoiseLaw = field(default="gaussian", repr=False)
    single: float = field(default=0.0, repr=False)

    def interval(self, level: Exact = 0.95) -> tuple[float, float]:
        """Return (low, high), an interval that contains the number of records.

        For Laplace noises the interval is as wide as for a single one or for a normal law of
        this deviation, whichever is wider; for whole numbers it is half a record wider. Raises
        TypeError or ValueError for a level outside (0, 1).
        """
        reach = float(_reach(self.noise, tail_of(level), self.standard_deviation, self.single))
        return self.value - reach, self.value + reach


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BinsEstimate(Result):
    """Private counts of public bins, with the standard deviations of their (public) noise.

    released: the integers that were released, products of the counts with a public matrix of
    kind ``strategy`` for each of ``axes``; after them ``weight`` times the number of records in
    no bin, unless that is 0. ``deviation`` is the standard deviation of the noise in each of
    them. ``value`` has the shape of the axes: the least-squares counts, unbiased, which may be
    negative. ``range`` answers with sums of bins, so the answers for ranges that add up add up,
    too.
    """

    released: tuple[int, ...]
    axes: tuple[tuple[float, ...] | int, ...]
    strategy: Kind
    deviation: float
    noise: NoiseLaw = "gaussian"
    weight: int = 0

    def __post_init__(self) -> None:
        rows = prod(one.rows for one in self._strategies())
        if len(self.released) != rows + bool(self.weight):
            raise ValueError(f"released has {len(self.released)} integers, and these axes {rows}.")

    @property
    def value(self) -> Floats:
        """The counts, in the shape of the axes."""
        strategies = self._strategies()
        shape = [one.rows for one in strategies]
        counts = np.array(self.released[: prod(shape)], np.float64).reshape(shape)
        for axis, strategy in enumerate(strategies):
            moved = np.moveaxis(counts, axis, -1)
            flat = solved(strategy, moved.reshape(-1, strategy.rows))
            counts = np.moveaxis(flat.reshape(*moved.shape[:-1], strategy.bins), -1, axis)
        return np.ascontiguousarray(counts)

    @property
    def standard_deviation(self) -> Floats:
        """The standard deviation of the noise in each count, in the shape of the axes."""
        deviations = np.ones(())
        for one in self._strategies():
            at = np.arange(one.bins)
            deviations = np.multiply.outer(deviations, np.sqrt(range_variances(one, at, at + 1)))
        return np.asarray(deviations * self.deviation)

    @property
    def outside(self) -> float | None:
        """The number of records in no bin, unbiased; None where it was not released."""
        return self.released[-1] / self.weight if self.weight else None

    def interval(self, level: Exact = 0.95, *, simultaneous: bool = False) -> tuple[Floats, Floats]:
        """Return (low, high), in the shape of the axes: intervals that contain the counts, each
        at this level.

        simultaneous: at this level for all bins together, by Bonferroni's bound. Raises TypeError
        or ValueError for a level outside (0, 1).
        """
        value = self.value
        each = tail_of(level, value.size if simultaneous else 1)
        if self.strategy == "identity":
            reach = np.asarray(whole_deviation(self.noise, self.deviation, each))
        else:
            reach = _reach(self.noise, each, self.standard_deviation, self._single())
        return value - reach, value + reach

    def range(self, *ends: float | tuple[float, float]) -> RangeEstimate:
        """Estimate the number of records from one edge to before another.

        For one axis give two ends, ``result.range(18, 65)``; for several axes give a pair for
        each, ``result.range((18, 65), (0, 2))``. Ends are edges of the axis; for categories
        they are the numbers 0, 1, ..., k, so that (0, 2) are the categories 0 and 1. A range up
        to the last edge contains that edge, too. Raises ValueError for other ends.
        """
        pairs = self._pairs(ends)
        counts, variance = self.value, 1.0
        for one, axis, pair in zip(self._strategies(), self.axes, pairs, strict=True):
            start, end = (_edge(axis, end) for end in pair)
            if start > end:
                raise ValueError(f"range{ends}: give the lower end first.")
            counts = counts[start:end].sum(axis=0)
            variance *= float(range_variances(one, np.array([start]), np.array([end]))[0])
        deviation = self.deviation * math.sqrt(variance)
        return RangeEstimate(float(counts), deviation, self.noise, self._single())

    def cumulative(self) -> Floats:
        """Add up the counts of one axis: how many records are below each edge, from 0 on, shape
        (bins + 1,)."""
        self._require_one("cumulative()")
        return np.concatenate([[0.0], np.cumsum(self.value)])

    def quantile(self, at: Exact) -> float:
        """Estimate a quantile of the records in the bins, from how many are below each edge.

        These numbers are made to increase: each becomes the average of the largest number up to
        its edge and the least from its edge on. Records are assumed to be spread evenly in a
        bin. Raises ValueError unless the one axis has edges, and where the released counts add
        up to nothing.
        """
        self._require_one("quantile()")
        (axis,), share = self.axes, float(as_written(at, "at"))
        if isinstance(axis, int) or not 0 <= share <= 1:
            raise ValueError(f"quantile({at}): give a share from 0 to 1, of bins between edges.")
        below = self.cumulative()
        if not below[-1] > 0:
            raise ValueError("The released counts add up to nothing, so there is no quantile.")
        rising = np.maximum.accumulate(below) + np.minimum.accumulate(below[::-1])[::-1]
        return float(np.interp(share * below[-1], np.clip(rising / 2, 0.0, below[-1]), axis))

    def nonnegative(self) -> Floats:
        """Return the counts with 0 in place of negative ones, for display.

        Each is at least as near to the truth, but no longer unbiased: an empty bin shows 0.35 to
        0.4 deviations on average, so that sums over many rare bins are too large. For totals take
        ``value``, or ``consistent``.
        """
        return np.maximum(0.0, self.value)

    def consistent(self, total: float) -> Floats:
        """Compute the nearest counts (least squares) that are at least 0 and add up to ``total``.

        total: a released or public number of records. Where the true counts add up to ``total``,
        these are together at least as near to them as what was released. They are biased: a rare
        bin is more often lowered to 0 than raised, and the others share the difference evenly.
        """
        if not (isinstance(total, Real) and math.isfinite(total) and total >= 0):
            raise ValueError(
                f"total = {total!r}; give a released or public number of records, at least 0."
            )
        counts = self.value
        return np.reshape(on_simplex(counts.reshape(-1), float(total)), counts.shape)

    def _single(self) -> float:
        return 0.0 if self.strategy == "circulant" else self.deviation

    def _strategies(self) -> tuple[Strategy, ...]:
        return strategies_of(self.axes, self.strategy, self.noise)

    def _pairs(self, ends: tuple[float | tuple[float, float], ...]) -> list[tuple[float, float]]:
        """Read the ends of a range, a pair for each axis."""
        numbers = [end for end in ends if not isinstance(end, tuple)]
        if len(self.axes) == 1 and len(numbers) == len(ends) == 2:
            return [(numbers[0], numbers[1])]
        pairs = [end for end in ends if isinstance(end, tuple) and len(end) == 2]
        if not len(pairs) == len(ends) == len(self.axes):
            raise ValueError(
                f"range{ends}: give (low, high) for each of {len(self.axes)} axes, each end an "
                "edge."
            )
        return pairs

    def _require_one(self, what: str) -> None:
        if len(self.axes) > 1:
            raise ValueError(f"{what} is of one axis, and there are {len(self.axes)}.")


def on_simplex(counts: Floats, total: float) -> Floats:
    """Project onto {x >= 0, sum x = total} by subtracting the one level that leaves this sum."""
    if not len(counts):
        return counts
    falling = np.sort(counts)[::-1]
    levels = (np.cumsum(falling) - total) / np.arange(1, len(falling) + 1)
    kept = int(np.flatnonzero(falling - levels >= 0)[-1]) if (falling >= levels).any() else 0
    return np.asarray(np.maximum(counts - levels[kept], 0.0))


def _edge(axis: Axis, end: float) -> int:
    """Return the number of bins before an edge. Raises ValueError if the number is no edge."""
    edges = range(bins_of(axis) + 1) if isinstance(axis, int) else axis
    if isinstance(end, bool) or not isinstance(end, Real) or end not in edges:
        known = f"0, 1, ..., {axis}" if isinstance(axis, int) else f"{list(axis)!s:.120}"
        raise ValueError(f"{end!r} is no edge: a range of bins ends at {known}.")
    return edges.index(end)


def _reach(noise: NoiseLaw, tail: float, deviation: Any, single: float) -> Floats:
    """Return the number that a weighted sum of noises of this deviation exceeds, in magnitude,
    with this probability.

    single: the deviation of one noise, if the noises are integers. Such a noise has atoms, so
    exceeding a multiple of the deviation may be as likely as exceeding half a record less.
    Integer Laplace noise of scale s has tails e^(-t / s), though its deviation is less than
    sqrt(2) s.
    """
    times = deviations_of_sum(noise, tail)
    if noise == "laplace":
        times *= math.sqrt(2) * laplace_scale(single) / single if single else 1.0
    return np.asarray(np.where(deviation > 0, times * deviation + (0.5 if single else 0.0), 0.0))
