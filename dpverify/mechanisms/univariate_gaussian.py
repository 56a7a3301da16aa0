"""``univariate_gaussian``: the mean and the standard deviation of normal records, without a guess
of either.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any

import numpy as np

from dpverify.estimation.budget_shares import ROOT_BITS, checked_shares
from dpverify.estimation.handles import COUNT
from dpverify.estimation.normal_law import (
    Box,
    Clips,
    Degenerate,
    NormalEstimate,
    errors_of,
    fit,
    moved_frames,
)
from dpverify.estimation.rationals import rounded_quotient
from dpverify.grid import OUTER_BOX, Count
from dpverify.grid.cells import floor_log2
from dpverify.grid.clipped_scalars import GRAIN, LEVELS, MOST_LEVEL, ClippedMoments, unit_of
from dpverify.grid.coordinates import SideCounts
from dpverify.grid.joint import least_counted
from dpverify.grid.linear import Integers
from dpverify.grid.masks import Row, rows_once
from dpverify.grid.rounding import rounded_ratios
from dpverify.grid.vector_queries import OneUnit
from dpverify.plans import (
    UNIT,
    Abstained,
    Handle,
    Mechanism,
    NoNoise,
    Plan,
    Released,
    RoundedGaussian,
    Stage,
    Transcripts,
)
from dpverify.plans.parameters import (
    MOST_LEAST,
    FewestReleased,
    Rational,
    positive,
    probability,
)
from dpverify.plans.search import Prefix, Search
from dpverify.privacy import Adjacency
from dpverify.privacy.numbers import Exact, exact, root_up, settle, to_float

WARM = Handle("warm moments")
MOMENTS = Handle("moments")
_NOISE = RoundedGaussian(UNIT)
_SHARES = tuple(Fraction(percent, 100) for percent in (8, 10, 12, 70))
_EXTRA_STEPS = 3  # steps of a search beyond its halvings, for thresholds near the median
_FINEST = 2  # cells on either side of a median that its search leaves
_HALF_NORMAL = Fraction("0.6745")  # half of all normal records are within so many deviations
_PARTS = 64  # the warm moments are rounded to 1/64
_RESOLUTION = 4  # least deviation that is told, in cells
_LARGEST_CENTER = 1 << 52
_PER_MULTIPLIER = 200  # records under replace, from which on a normal sample hardly ever abstains
_FEWEST = 20  # records whose sampling error alone leaves a fit
_WARM = Clips(3.0, 3.0)
LAST = Clips(1.5, 1945 / GRAIN)
_FAR, _NEAR = Box(2.0, 4.0), Box(1.0, 2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnivariateGaussian(Mechanism[NormalEstimate | Degenerate]):
    """The mean and the standard deviation of normal records, with no guess of either but the
    grid.

    Data: one column, shape (n,) or (n, 1). Output: ``NormalEstimate``; ``Degenerate`` where the
    deviation is below 4 cells; ``Abstained`` below ``at_least`` records and for records that no
    normal law near the released frame fits. Claim: GaussianDP(1 / noise_multiplier) up to the
    grid's rounding, for both adjacencies and all data; no delta. Errors, at (1, 1e-6) under
    replace, of the mean in deviations and of the deviation as a share: .038 and .030 at n = 1000,
    .009 and .0065 at 16000 (sampling alone: .032, .022; .008, .0056).

    Four steps: a noisy binary search for the median; another for the median of the distances from
    it; clipped first and second moments about these, which give a better center and unit; and
    clipped moments again, about those. The estimate is the normal law that has the last moments,
    also for records that are not normal: Cauchy records get the deviation 2.3, exponential ones
    the mean .88 and the deviation .80, two far clusters the middle between them.
    cell: the public grid's step, rounded down to a power of two; deviations from 4 cells to 2^38
    cells are found, and rounding adds (cell / deviation)^2 / 24 of itself to the deviation.
    center: public; records beyond 2^40 cells of it count as lying there.
    reach: the median is searched within this distance of the center, rounded up to a power of two
    of cells; None: all 2^40 cells. Half as many bits take half as many noisy steps.
    shares: the parts of mu^2 for the four steps, of sum 1.
    at_least: abstain below this released (or public) number; by default 200 noise multipliers
    under replace and 100 under add-remove, from 20 to 2^60. With half as many a search may fail,
    which the last fit shows in most but not in all cases.
    Errors: TypeError or ValueError for parameters and for data that are not a real column.
    Source: OURS; KV18 (the problem; estimates in two rounds), DRS22 (the Gaussian mechanism and
    its composition).
    """

    cell: Annotated[float, positive(as_given=True)]
    center: Exact = 0
    reach: Annotated[Exact, positive(as_given=True)] | None = None
    shares: tuple[Rational, ...] = _SHARES
    at_least: FewestReleased = None

    def check_parameters(self) -> None:
        """Check for shares of sum 1, and a center and a reach on the grid."""
        settle(self, shares=checked_shares(self.shares, len(_SHARES)))
        center = exact(self.center, "center")
        settle(self, center=center)
        if abs(center) > _LARGEST_CENTER * self._grid.cell:
            far = to_float(abs(center) / self._grid.cell)
            raise ValueError(
                f"center = {to_float(center)} is {far:.3g} cells from zero, beyond 2^52. Subtract "
                "a public constant from the data, or give a larger cell."
            )
        if self.reach is not None and exact(self.reach, "reach") > OUTER_BOX * self._grid.cell:
            raise ValueError(
                f"reach = {self.reach} is more than 2^40 cells. Give a larger cell, or leave it "
                "out for all of the grid."
            )

    def replacement(self) -> float:
        """Return the center, as a float."""
        return to_float(exact(self.center, "center"))

    def plan(self) -> Plan:
        """Release the public count under replace; both searches; the moments about their results,
        and the moments about what those tell.
        """
        public = () if self._counts() else (Stage(COUNT, Count(), NoNoise()),)
        sides, spreads = self._grid.sides, self._grid.spreads
        stages = sides.elements(self._side_query, _NOISE)
        stages += spreads.elements(self._spread_query, _NOISE, Prefix().then(sides, sides.steps))
        return (*public, *stages, self._moments(WARM), self._moments(MOMENTS))

    def estimate(self, transcript: Transcripts) -> NormalEstimate | Degenerate | Abstained:
        """Return the normal law that has the last moments, in the data's unit."""
        first, second, count = self._ratios(MOMENTS, transcript)
        if not count >= self._least():
            return Abstained(f"fewer than {self._least()} records, by the released count")
        middle, level = self._frame(MOMENTS, transcript)[0].tolist()
        sixteenths = unit_of(level)
        if abs(middle) + 2 * sixteenths // LEVELS > OUTER_BOX:
            return Abstained("the records reach beyond the 2^40 cells of the grid")
        laws = fit(np.array([[first], [second]]), LAST, _NEAR)
        mean, deviation, fits = (one.item() for one in laws)
        unit = Fraction(sixteenths, LEVELS) * self._grid.cell
        place = exact(self.center, "center") + middle * self._grid.cell
        resolution = _RESOLUTION * self._grid.cell
        if Fraction(deviation) * unit < resolution or (not fits and unit < 2 * resolution):
            value = to_float(place + Fraction(mean) * unit)
            return Degenerate(value, to_float(resolution), count)
        if not fits:
            return Abstained(
                "no normal law near the released center and unit has the released moments"
            )
        own = to_float(Fraction(deviation) * unit)
        slopes = LAST.slopes(*np.array([mean, deviation]))
        noise, relative = errors_of(slopes, self._noise_of(first, second, count))
        drawn, share = errors_of(slopes, LAST.covariance(mean, deviation) / count)
        scale = to_float(unit)
        return NormalEstimate(
            to_float(place + Fraction(mean) * unit),
            own,
            count,
            noise * scale,
            relative,
            drawn * scale,
            share,
        )

    def expected_error(self, n: int) -> float:
        """Predict the noise's part in the mean, in standard deviations of the records, for normal
        records, to first order.

        Infinite below ``at_least`` records.
        """
        return self._expected(n)[0]

    def expected_deviation_error(self, n: int) -> float:
        """Predict the noise's part in the standard deviation, as a share of it, like
        ``expected_error``.
        """
        return self._expected(n)[1]

    def minimum_n(self, *, beta: Exact = "1e-3") -> int:
        """Return the least n for which the released number of n records is below ``at_least``
        with probability at most ``beta``.
        """
        allowed = probability(beta, "beta")
        if not self._counts():
            return self._least()
        query = self._query(MOMENTS)
        per_record = query.weight * UNIT / self._scale(MOMENTS)
        return least_counted(self._least(), per_record, lambda k: _NOISE.falls_short(k, allowed))

    def fewest_records(self) -> int:
        """Return ``at_least``: fewer records, a public number under replace, are refused."""
        return 0 if self._counts() else self._least()

    # --- the grid, the searches, their noise -----------------------------------------------------

    def _counts(self) -> bool:
        return self.adjacency is Adjacency.ADD_REMOVE

    def _least(self) -> int:
        if self.at_least is not None:
            return self.at_least
        times = _PER_MULTIPLIER // (2 if self._counts() else 1)
        return min(max(_FEWEST, math.ceil(times * self.noise_multiplier)), MOST_LEAST)

    @property
    def _grid(self) -> _Grid:
        return _grid_of(self)

    def _quarters(self, node: int) -> int:
        """Return the threshold of a node of the first search, in quarters of a cell about the
        center.
        """
        grid = self._grid
        return grid.sides.middles((node,))[0] << (grid.bits + 2 - grid.sides.steps)

    def _level(self, node: int) -> int:
        """Return the level of a node of the second search, in sixteenths of an octave, from one
        cell on.
        """
        search = self._grid.spreads
        return min(search.middles((node,))[0] + (1 << search.steps), MOST_LEVEL)

    def _side_query(self, row: Row) -> OneUnit:
        grid = self._grid
        quarters = 4 * grid.origin + self._quarters(row[-1])
        query = SideCounts((_as_float(Fraction(quarters, 4), grid.cell),))
        return OneUnit(query, grid.scales[0])

    def _spread_query(self, row: Row) -> OneUnit:
        grid = self._grid
        middle = grid.origin + self._median(row[0])
        half = _HALF_NORMAL * unit_of(self._level(row[-1])) / LEVELS
        ends = (_as_float(middle + side * half, grid.cell) for side in (1, -1))
        return OneUnit(SideCounts(*((end,) for end in ends)), grid.scales[1])

    def _median(self, node: int) -> int:
        """Return the median that the first search found, in cells from the center, rounded down."""
        return self._quarters(node) >> 2

    # --- the moments, and the frames they are taken in -------------------------------------------

    def _query(self, name: Handle) -> ClippedMoments:
        return _query_of(self, name)

    def _scale(self, name: Handle) -> Fraction:
        """Return the noise scale of a stage's numbers, in the unit of these numbers."""
        return _scale_of(self, name)

    def _moments(self, name: Handle) -> Stage:
        return Stage(name, OneUnit(self._query(name), self._scale(name)), _NOISE)

    def _frame(self, name: Handle, before: Transcripts) -> Integers:
        """Return the center in cells from the public one, and the level of the unit, shape
        (size, 2).
        """
        nodes = [
            search.nodes(search.steps)(before)[:, 0]
            for search in (self._grid.sides, self._grid.spreads)
        ]
        pairs, which = rows_once(np.stack(nodes, axis=1))
        frames = np.array(
            [(self._median(side), self._level(spread)) for side, spread in pairs.tolist()], np.int64
        )[which]
        return frames if name == WARM else self._after_warm(frames, before)

    def _after_warm(self, frames: Integers, before: Transcripts) -> Integers:
        """Move the frames by the warm moments; they stay where the released number is not
        positive.
        """
        rows = np.concatenate([frames, self._rounded(before)], axis=1)
        unique, which = rows_once(rows)
        pairs, same = rows_once(unique[:, 2:])
        moves = moved_frames(pairs, _PARTS, _WARM, _FAR, LEVELS)
        by = np.stack(moves, axis=1)[same].tolist()
        later = [_moved(*row, *move) for row, move in zip(unique.tolist(), by, strict=True)]
        return np.array(later, np.int64)[which]

    def _rounded(self, before: Transcripts) -> Integers:
        """Return the warm moments, rounded to the nearest 1/64, shape (size, 2); -1 and -1 where
        there is no positive number.
        """
        values, query = before[WARM], self._query(WARM)
        per = _PARTS * (Fraction(query.weight) if self._counts() else self._scale(WARM) / UNIT)
        number = values[:, 2] if self._counts() else before[COUNT][:, 0]
        good = np.asarray(number > 0, np.bool_)
        below = np.where(good, number, 1)
        lead = rounded_ratios(values[:, 0], below, per / (query.linear * GRAIN))
        offset = Fraction(query.offset * _PARTS, GRAIN**2)
        trail = rounded_ratios(values[:, 1], below, per / (query.square * GRAIN**2), offset)
        turn, edge = round(_WARM.turn * _PARTS), round(_WARM.edge**2 * _PARTS)
        both = np.stack([np.clip(lead, -turn, turn), np.clip(trail, 0, edge)], axis=1)
        both[~good] = -1
        return np.asarray(both.astype(np.int64))

    def _ratios(self, name: Handle, transcript: Transcripts) -> tuple[float, float, float]:
        """Return the released moments of a record in units of the frame, and the number of
        records.
        """
        query, scale = self._query(name), self._scale(name) / UNIT
        values = [value * scale for value in transcript.numbers(name)]
        count = values[2] / query.weight if self._counts() else Fraction(transcript.number(COUNT))
        if count <= 0:
            return 0.0, 0.0, to_float(count)
        first = values[0] / (query.linear * GRAIN * count)
        second = (values[1] / count + query.square * query.offset) / (query.square * GRAIN**2)
        # Larger than any clipped moment, while its square is a float.
        most = 10**6
        return (
            to_float(min(max(first, Fraction(-most)), Fraction(most))),
            to_float(min(max(second, Fraction(-most)), Fraction(most))),
            to_float(count),
        )

    def _noise_of(self, first: float, second: float, count: float) -> Any:
        """Return the covariance of the noise in the last moments, shape (2, 2), to first order."""
        query, scale = self._query(MOMENTS), min(to_float(self._scale(MOMENTS)), 1e100)
        own = np.array([scale / (query.linear * GRAIN), scale / (query.square * GRAIN**2)]) / count
        covariance = np.diag(own**2)
        if self._counts():
            along = np.array([first, second - query.offset / GRAIN**2])
            covariance += np.outer(along, along) * (scale / (query.weight * count)) ** 2
        return covariance

    def _expected(self, n: int) -> tuple[float, float]:
        if n < self._least():
            return math.inf, math.inf
        zero, one = np.array([0.0, 1.0])
        first, second = LAST.moments(zero, one).tolist()
        return errors_of(LAST.slopes(zero, one), self._noise_of(first, second, float(n)))


_LARGEST = float(np.finfo(np.float64).max)


def _as_float(cells: Fraction, cell: Fraction) -> float:
    """Return the float nearest to this many cells; beyond all floats, the largest one."""
    return min(max(to_float(cells * cell), -_LARGEST), _LARGEST)


def _moved(
    middle: int, level: int, first: int, second: int, sixteenths: int, levels: int
) -> tuple[int, int]:
    """Return the frame moved by sixteenths of its unit and by levels; the same frame where there
    are no moments.
    """
    if second < 0:
        return middle, level
    middle += (sixteenths * unit_of(level)) >> 8  # in sixteenths of sixteenths of a cell
    level += levels
    return min(max(middle, -OUTER_BOX), OUTER_BOX), min(max(level, 0), MOST_LEVEL)


@dataclass(frozen=True, slots=True)
class _Grid:
    """The cell, its logarithm, the center in cells, r with a reach of 2^r cells, both searches, and
    the noise scales of their steps, in records.
    """

    cell: Fraction
    exponent: int
    origin: int
    bits: int
    sides: Search
    spreads: Search
    scales: tuple[Fraction, Fraction]


@lru_cache(maxsize=64)
def _grid_of(mechanism: UnivariateGaussian) -> _Grid:
    """Build the grid, with the least r from 2 on for which reach <= 2^r cells.

    The first search halves the reach down to ``_FINEST`` cells. The second halves the octaves of
    deviations, more than the reach has, down to a quarter of one. Both take extra steps, which a
    neighbor moves by 1 or 2.
    """
    exponent = floor_log2(exact(mechanism.cell, "cell"))
    cell = Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)
    bits = OUTER_BOX.bit_length() - 1
    if mechanism.reach is not None:
        cells = math.ceil(exact(mechanism.reach, "reach") / cell)
        bits = max(2, (cells - 1).bit_length())
    sides = Search("side", 1, bits - _FINEST.bit_length() + 1 + _EXTRA_STEPS)
    spreads = Search("spread", 1, (bits + 1).bit_length() + 3)
    own = exact(mechanism.center, "center") / cell
    origin = rounded_quotient(own.numerator, own.denominator)
    squares = (
        (1 if mechanism._counts() else 4) * search.steps / share
        for search, share in zip((sides, spreads), mechanism.shares, strict=False)
    )
    first, second = (mechanism.noise_multiplier * root_up(one, ROOT_BITS) for one in squares)
    return _Grid(cell, exponent, origin, bits, sides, spreads, (first, second))


@lru_cache(maxsize=128)
def _query_of(mechanism: UnivariateGaussian, name: Handle) -> ClippedMoments:
    """Build the query for clipped moments.

    The last ones are of clip(z, 1.5) and 0.72 (min(z^2, 1.9^2) - 1.4), with weight 1/2; the warm
    ones of clip(z, 3) and 0.55 (min(z^2, 3^2) - 3), with weight 1. The offset and the weight are
    for add-remove; under replace neither moves anything.
    """
    grid, counts = mechanism._grid, mechanism._counts()
    clips = _WARM if name == WARM else LAST
    linear, square, offset, weight = (
        (20 * GRAIN, 11, 3 * GRAIN**2, 20 * GRAIN**2)
        if name == WARM
        else (25 * GRAIN, 18, 7 * GRAIN**2 // 5, 25 * GRAIN**2 // 2)
    )
    if not counts:
        offset = weight = 0
    before = (*map(grid.sides.stage, range(grid.sides.steps)),)
    before += (*map(grid.spreads.stage, range(grid.spreads.steps)),)
    if name == MOMENTS:
        before += (WARM,) if counts else (COUNT, WARM)
    return ClippedMoments(
        grid.exponent,
        grid.origin,
        round(clips.turn * GRAIN),
        round(clips.edge * GRAIN),
        linear,
        square,
        offset,
        weight,
        Released(before, lambda transcripts: mechanism._frame(name, transcripts)),
    )


@lru_cache(maxsize=128)
def _scale_of(mechanism: UnivariateGaussian, name: Handle) -> Fraction:
    moved = mechanism._query(name).moved(mechanism.adjacency)
    share = mechanism.shares[2 if name == WARM else 3]
    return mechanism.noise_multiplier * root_up(moved / share, ROOT_BITS)
