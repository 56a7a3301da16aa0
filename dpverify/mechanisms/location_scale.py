"""``location_scale``: both parameters of a location-scale family, from clipped or truncated
records.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from dpverify.estimation.budget_shares import ROOT_BITS, checked_shares
from dpverify.estimation.clip_schedule import in_units
from dpverify.estimation.family_estimates import LocationScaleEstimate
from dpverify.estimation.handles import COUNT
from dpverify.estimation.kept_sets import pair
from dpverify.estimation.location_scale_maps import (
    LARGEST as _LARGEST,
)
from dpverify.estimation.location_scale_maps import (
    check_law,
    check_records,
    records_at,
    shortest,
    textbook_of,
)
from dpverify.estimation.whitening import count_of, octave_of, octaves
from dpverify.families import LocationScaleFamily
from dpverify.families.fitting import Near, fitted
from dpverify.families.given import frozen_family
from dpverify.families.location_scale import Interval, Moments
from dpverify.grid import Count
from dpverify.grid.coordinates import SideCounts
from dpverify.grid.joint import least_counted
from dpverify.grid.linear import Integers
from dpverify.grid.masks import Row
from dpverify.grid.rounding import rounded_quotients
from dpverify.grid.step_moments import StepMoments
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
from dpverify.plans.parameters import one_of, probability, whole_from
from dpverify.plans.search import MOST_STEPS, Prefix, Search
from dpverify.privacy import Adjacency
from dpverify.privacy.numbers import Exact, Floats, root_up, settle, to_float

WARM = Handle("warm moments")
MOMENTS = Handle("moments")
CELLS = 1 << 12
_NOISE = RoundedGaussian(UNIT)
_SHARES = tuple(Fraction(percent, 100) for percent in (8, 10, 12, 70))
_FINEST = 2  # places of the first search in the distance that the smallest scale has
_PER_OCTAVE = 4  # places of the second
_EXTRA_STEPS = 3  # of the first search, for thresholds near what is searched; of the second 1
_WARM = 3.0  # half of the warm interval, in deviations
_RUNGS = tuple(2.0 ** (k / 4) for k in range(4, 13))  # of half the last one
_PARTS = 64  # the warm moments are rounded to 1/64
_SIXTEENTHS = 16  # of a scale, and of an octave, to which the warm law is rounded
# In scales, and as a factor: where a law is solved for. No two laws of the second box have the same
# clipped moments.
_FAR_BOX = {"clip": (2.0, 4.0), "mask": (8.0, 8.0)}
_NEAR_BOX = {"clip": (1.0, 2.0), "mask": (8.0, 8.0)}
_PER_MULTIPLIER = 200  # records under replace, from which on a normal sample hardly ever abstains
_MOST_LEAST = 1 << 60
_FEWEST = 20
_MOST_SCALE, _FINE = 2.0**400, 2.0**-40


class _Shape(NamedTuple):
    """Where the first moment turns, as a share of half of the interval; factors of both moments;
    what is taken off the square, and the weight of the number, as shares of the interval.
    """

    turn: Fraction
    linear: int
    square: int
    offset: Fraction
    weight: Fraction


_SHAPES = {
    ("clip", Adjacency.REPLACE): _Shape(Fraction(5, 8), 4, 5, Fraction(0), Fraction(0)),
    ("clip", Adjacency.ADD_REMOVE): _Shape(Fraction(3, 4), 2, 3, Fraction(1, 2), Fraction(5, 4)),
    ("mask", Adjacency.REPLACE): _Shape(Fraction(1), 1, 2, Fraction(1, 4), Fraction(1)),
    ("mask", Adjacency.ADD_REMOVE): _Shape(Fraction(1), 1, 2, Fraction(1, 2), Fraction(1)),
}


class Law(NamedTuple):
    """A location and a scale."""

    location: float
    scale: float


def _two_ranges(value: Any, name: str) -> tuple[tuple[float, float], tuple[float, float]]:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise TypeError(
            f"{name} = {value!r}; give a public range for each parameter, for example ((-20, 20), (0.01, 10))."
        )
    first, second = (pair(one, name) for one in value)
    return first, second


@dataclass(frozen=True, slots=True, kw_only=True)
class LocationScale(Mechanism[LocationScaleEstimate]):
    """Both parameters of a location-scale family: normal, log-normal, logistic, log-logistic,
    Weibull, or a family of your own.

    Four steps: a noisy binary search for the median; another for the median distance from it; the
    sums of a step s and of its square in an interval about these, which give a better law; and the
    same in an interval that this law makes best for the number of records. The estimate is the law
    whose clipped or truncated moments are the released ones: of truncated normal records this is
    the maximum likelihood estimate.

    Data: one column, shape (n,) or (n, 1). Output: ``LocationScaleEstimate``; ``Abstained`` below
    ``at_least`` records and for moments that no law near the searched one has. Claim: GaussianDP(1
    / noise_multiplier) up to the grid's rounding, for both adjacencies and all data, whatever
    their law; no delta. No code of the family runs on data: records are compared with released
    numbers.
    family: of ``dpverify.families``, or your own ``LocationScaleFamily``.
    ranges: a public range for each of the family's two parameters, as wide as you like: the
    searches' steps grow with their logarithms. An estimate may be a little outside.
    outside: "clip" for records as they are; "mask" for those of which only some were ``kept``,
    where clipping is biased.
    kept: with "mask", the public interval of records that were kept, for example (0, 250_000); a
    record at its upper end counts as cut.
    shares: of mu^2 for the four steps, of sum 1.
    at_least: abstain below this released (or public) number, with a mask of records inside; by
    default 200 noise multipliers under replace and 100 under add-remove, from 20 to 2^60.
    Errors: TypeError or ValueError for parameters and for data that are not a real column.
    Source: OURS (clipped moments in one release); ZZ25, Theorem 3.1 (truncated maximum
    likelihood); KV18 (the problem).
    """

    family: Annotated[LocationScaleFamily, frozen_family(LocationScaleFamily, "LogNormalFamily()")]
    ranges: Annotated[tuple[tuple[float, float], tuple[float, float]], _two_ranges]
    outside: Annotated[Literal["clip", "mask"], one_of("clip", "mask")] = "clip"
    kept: Annotated[tuple[float, float], pair] | None = None
    shares: tuple[Fraction, ...] = _SHARES
    at_least: Annotated[int, whole_from(1, most=_MOST_LEAST)] | None = None

    def check_parameters(self) -> None:
        """Ranges that the family has, of not too many places; a set of records that it has."""
        settle(self, shares=checked_shares(self.shares, len(_SHARES)))
        check_law(self.family)
        if self._range() is None:
            names = " and ".join(self.family.parameters)
            raise ValueError(
                f"ranges = {self.ranges}: not all of these are a {names} of {type(self.family).__name__} with a scale from 2^-400 to "
                "2^400, searched in up to 2^50 places, each above 2^-40 of the largest location. Give smaller public ranges."
            )
        check_records(self.family, *self._ends()[:2])
        if self.kept is None:
            return
        if self.outside == "clip":
            raise ValueError(
                f"kept = {self.kept}: records of which only some were kept have other moments when they are clipped. Use "
                "outside='mask', or leave it out."
            )
        low, high = self._support()
        if not low < high:
            raise ValueError(
                f"kept = {self.kept} holds none of the family's records; give a longer interval."
            )

    def replacement(self) -> float:
        """The median in the middle of the ranges."""
        return self._edge(self._median(0))

    def plan(self) -> Plan:
        """The public number under replace; both searches; the moments where these ended, and about
        the law that these tell.
        """
        public = () if self.counts() else (Stage(COUNT, Count(), NoNoise()),)
        sides, spreads = self._searches()
        found = sides.elements(self._side_query, _NOISE)
        found += spreads.elements(self._spread_query, _NOISE, Prefix().then(sides, sides.steps))
        return (*public, *found, self._moments(WARM), self._moments(MOMENTS))

    @np.errstate(all="ignore")  # what overflows is no law's, and becomes an outcome
    def estimate(self, transcript: Transcripts) -> LocationScaleEstimate | Abstained:
        """The law that has the last moments, as the family's parameters."""
        means, inside = self._released(transcript)
        if not inside >= self.least():
            return Abstained(f"fewer than {self.least()} records, by the released number")
        row: Row = tuple(self._rows(MOMENTS, transcript)[0].tolist())
        near, where = _frame_of(self, row)
        law = fitted(self.family, means, where, Near(*near, *_NEAR_BOX[self.outside]))
        if law is None:
            return Abstained("no law near the searched one has the released moments")
        at = self.family.moments(*law, where)
        if not abs(np.linalg.det(at.slopes)) > 0:
            return Abstained("no law near the searched one has the released moments")
        noise, drawn = self._errors(at, inside)
        value, steep = textbook_of(self.family, *law)
        spread, sampling = (_deviations(steep @ part @ steep.T) for part in (noise, drawn))
        if not all(map(math.isfinite, (*value, *spread, *sampling))):
            return Abstained("the law with the released moments has parameters beyond the floats")
        return LocationScaleEstimate(
            type(self.family).__name__,
            self.family.parameters,
            value,
            *law,
            inside,
            spread,
            sampling,
        )

    def expected_error(
        self, n: int, *, parameters: Sequence[float] | None = None, which: int = 0
    ) -> float:
        """Of a parameter, the first or the second (``which`` = 1): the noise's part for n records,
        kept if some are, of the law with these.

        To first order, where the searches found the law. Infinite below ``at_least``.
        """
        if parameters is None or which not in (0, 1):
            raise ValueError(
                "The noise follows the law; give parameters=, a guess of both, and which=0 or 1."
            )
        law = Law(*self.family.standard(*parameters))
        where = self._best(law, octave_of(n))
        at = self.family.moments(*law, where)
        inside = n * self._share(at, law)
        if not inside >= self.least():
            return math.inf
        _, steep = textbook_of(self.family, *law)
        return _deviations(steep @ self._errors(at, inside)[0] @ steep.T)[which]

    def minimum_n(self, *, beta: Exact = "1e-3") -> int:
        """The least n such that the released number of n records, all inside, is below
        ``at_least`` with probability at most ``beta``.
        """
        allowed = probability(beta, "beta")
        if not self.counts():
            return self.least()
        per_record = self._query(MOMENTS).weight * UNIT / self._scale(MOMENTS)
        return least_counted(self.least(), per_record, lambda k: _NOISE.falls_short(k, allowed))

    def fewest_records(self) -> int:
        """Under replace: ``at_least``, decided on the public number of records."""
        return 0 if self.counts() else self.least()

    def counts(self) -> bool:
        """Whether the number of records is private."""
        return self.adjacency is Adjacency.ADD_REMOVE

    def least(self) -> int:
        """Below this number of records it abstains."""
        if self.at_least is not None:
            return self.at_least
        times = _PER_MULTIPLIER // (2 if self.counts() else 1)
        return min(max(_FEWEST, math.ceil(times * self.noise_multiplier)), _MOST_LEAST)

    # --- ranges and searches --------------------------------------------------------------------

    def _range(self) -> tuple[float, float, float, float] | None:
        """The ends of medians and of logarithms of scales; None where they do not fit."""
        return _range_of(self.family, self.ranges)

    def _ends(self) -> tuple[float, float, float, float]:
        return self._range() or (0.0, 1.0, 0.0, 1.0)

    def _searches(self) -> tuple[Search, Search]:
        low, high, least, most = self._ends()
        return _searches_of(low, high, least, most, self.family.constants().distance)

    def _median(self, middle: int) -> float:
        """The t where the first search looks."""
        low, high, *_ = self._ends()
        return low + (high - low) * (middle / 2.0 ** (self._searches()[0].steps + 1) + 0.5)

    def _scale_at(self, middle: int) -> float:
        """The scale where the second looks."""
        *_, least, most = self._ends()
        return math.exp(
            least + (most - least) * (middle / 2.0 ** (self._searches()[1].steps + 1) + 0.5)
        )

    def _edge(self, t: float) -> float:
        return float(records_at(self.family, np.array([t]))[0])

    def _side_query(self, row: Row) -> OneUnit:
        sides = self._searches()[0]
        query = SideCounts((self._edge(self._median(sides.middles(row[-1:])[0])),))
        return OneUnit(query, self._step_scale(sides, 0))

    def _spread_query(self, row: Row) -> OneUnit:
        sides, spreads = self._searches()
        middle = self._median(sides.middles(row[:1])[0])
        far = self._scale_at(spreads.middles(row[-1:])[0]) * self.family.constants().distance
        low, high = sorted(self._edge(middle + side * far) for side in (-1, 1))
        return OneUnit(SideCounts((high,), (low,)), self._step_scale(spreads, 1))

    def _step_scale(self, search: Search, place: int) -> Fraction:
        """The noise of one of its steps, in records: one moves a step by 1, or by 2."""
        square = (1 if self.counts() else 4) * search.steps / self.shares[place]
        return self.noise_multiplier * root_up(square, ROOT_BITS)

    # --- moments, and the intervals they are taken in --------------------------------------------

    def _query(self, name: Handle) -> StepMoments:
        return _query_of(self, name)

    def _scale(self, name: Handle) -> Fraction:
        """The noise of a stage's numbers, in their unit."""
        moved = self._query(name).moved(self.adjacency)
        return self.noise_multiplier * root_up(
            moved / self.shares[2 if name == WARM else 3], ROOT_BITS
        )

    def _moments(self, name: Handle) -> Stage:
        return Stage(name, OneUnit(self._query(name), self._scale(name)), _NOISE)

    def _support(self) -> tuple[float, float]:
        """Of t of records that were kept."""
        if self.kept is None:
            return -math.inf, math.inf
        low, high = (self.family.statistic(end) if math.isfinite(end) else end for end in self.kept)
        return low, high

    def _rows(self, name: Handle, before: Transcripts) -> Integers:
        """Where both searches ended; for the last moments the warm ones in 1/64 and the quarter
        octave of the number, too.
        """
        ends = []
        for search in self._searches():
            nodes = search.nodes(search.steps)(before)[:, 0].tolist()
            ends.append(np.array([search.middles((node,))[0] for node in nodes], np.int64))
        if name == MOMENTS:
            ends += self._warm_parts(before)
        return np.stack(ends, axis=1)

    def _warm_parts(self, before: Transcripts) -> list[Integers]:
        """Both moments to the nearest 1/64, in the range that they can have; -128 of fewer than
        half of ``at_least`` records.
        """
        query, values = self._query(WARM), before[WARM].astype(object)
        per = self._scale(WARM) / UNIT
        if query.weight:
            number, top, base = values[:, 2], query.weight, 1
        else:
            number, top, base = before[COUNT][:, 0].astype(object), per.numerator, per.denominator
        numbers = before[WARM][:, 2] if query.weight else before[COUNT][:, 0]
        known = in_units(numbers, per / query.weight if query.weight else Fraction(1))
        good = np.asarray(number > 0, np.bool_) & (2 * known >= self.least())
        below = np.where(good, number, 1) * base
        first = rounded_quotients(values[:, 0] * (top * _PARTS), below * (query.linear * CELLS))
        own = values[:, 1] * (top * _PARTS) + below * (query.square * query.offset * _PARTS)
        second = rounded_quotients(own, below * (query.square * CELLS**2))
        turn = query.turn * _PARTS // CELLS
        both = np.stack([np.clip(first, -turn, turn), np.clip(second, 0, _PARTS)])
        both[:, ~good] = -2 * _PARTS
        counts = np.clip(known, self.least(), 1e18)
        return [*both.astype(np.int64), octaves(counts)]

    def _edges(self, name: Handle, before: Transcripts) -> tuple[Floats, Integers]:
        rows, which = np.unique(self._rows(name, before), axis=0, return_inverse=True)
        edges = [_edges_of(self, tuple(row)) for row in rows.tolist()]
        return np.array(edges), which.reshape(-1)

    def _released(self, transcript: Transcripts) -> tuple[Floats, float]:
        """The last moments of a record, and the number of records that count."""
        query, per = self._query(MOMENTS), self._scale(MOMENTS) / UNIT
        values = [value * per for value in transcript.numbers(MOMENTS)]
        count = values[2] / query.weight if query.weight else Fraction(transcript.number(COUNT))
        if count <= 0:
            return np.zeros(2), to_float(count)
        first = values[0] / (query.linear * CELLS * count)
        second = (values[1] / count + query.square * query.offset) / (query.square * CELLS**2)
        means = [
            to_float(min(max(one, Fraction(-(10**6))), Fraction(10**6))) for one in (first, second)
        ]
        return np.array(means), to_float(count)

    def _errors(self, at: Moments, inside: float) -> tuple[Floats, Floats]:
        """The covariances of location and ln(scale), in scales, by noise and by sampling, for so
        many records that count.
        """
        query, scale = self._query(MOMENTS), min(to_float(self._scale(MOMENTS)), 1e100)
        own = np.array([scale / (query.linear * CELLS), scale / (query.square * CELLS**2)]) / inside
        noise = np.diag(own**2)
        if query.weight:
            along = at.means - np.array([0.0, query.offset / CELLS**2])
            noise += np.outer(along, along) * (scale / (query.weight * inside)) ** 2
        back = np.linalg.inv(at.slopes)
        return back @ noise @ back.T, back @ at.covariance @ back.T / inside

    def _share(self, at: Moments, law: Law) -> float:
        """Of the records, kept if some are, those that count."""
        if self.outside == "clip":
            return 1.0
        low, high = self._support()
        first, last = (law.location + law.scale * y for y in self.family.window())
        ends = Interval(max(low, first), min(high, last), 1.0, "mask")
        if ends.high - ends.low < shortest(ends.low, ends.high, law.scale):
            return 0.0
        whole = self.family.moments(*law, ends).inside
        return at.inside / whole if whole > 0 else 0.0

    def _about(self, law: Law, far: float) -> Interval:
        """The interval within ``far`` deviations of the law's mean, inside of what was kept."""
        own, (least, most) = self.family.constants(), self._support()
        middle, reach = law.location + law.scale * own.mean, far * law.scale * own.deviation
        low, high = max(middle - reach, least), min(middle + reach, most)
        if not low < high:  # all of it lies outside of what was kept
            low, high = (least, min(most, least + reach))
            if middle >= least:
                low, high = max(least, most - reach), most
        if high - low < (room := shortest(low, high, law.scale)):
            low = min(low, _LARGEST)
            high = low + room
        turn = _SHAPES[self.outside, self.adjacency].turn
        return Interval(low, high, float(turn), self.outside)

    def _best(self, law: Law, octave: int) -> Interval:
        """Of the lengths of the ladder the best for this law and number of records."""
        return self._about(law, _rung_of(self, self._standard(law), octave))

    def _standard(self, law: Law) -> Law:
        """A law for which everything is as for this one but for its location and scale: where some
        were kept, itself.
        """
        return Law(0.0, 1.0) if self.kept is None else law


_TINY = 1e-12


@lru_cache(maxsize=64)
def _range_of(
    family: LocationScaleFamily, ranges: tuple[tuple[float, float], tuple[float, float]]
) -> tuple[float, float, float, float] | None:
    try:
        laws = [family.standard(first, second) for first in ranges[0] for second in ranges[1]]
    except (ValueError, OverflowError, ZeroDivisionError):
        return None
    places, scales = zip(*laws, strict=True)
    low, high, least, most = min(places), max(places), min(scales), max(scales)
    if not all(map(math.isfinite, (low, high, least, most))):
        return None
    fits = low < high and 1 / _MOST_SCALE <= least < most <= _MOST_SCALE
    if not fits or least < _FINE * max(abs(low), abs(high)):
        return None
    own = family.constants()
    ends = [place + scale * own.median for place in (low, high) for scale in (least, most)]
    found = min(ends), max(ends), math.log(least), math.log(most)
    places_of = math.log2((found[1] - found[0]) / (least * own.distance))
    if places_of + math.log2(_FINEST) + _EXTRA_STEPS > MOST_STEPS - 1:
        return None
    return found


@lru_cache(maxsize=64)
def _searches_of(
    low: float, high: float, least: float, most: float, distance: float
) -> tuple[Search, Search]:
    """Down to halves of the distance that the smallest scale has, and to quarter octaves of
    scales, with extra steps.
    """
    sides = max(1, math.ceil(math.log2(_FINEST * (high - low) / (math.exp(least) * distance))))
    spreads = max(1, math.ceil(math.log2(_PER_OCTAVE * (most - least) / math.log(2))))
    return Search("side", 1, sides + _EXTRA_STEPS), Search("spread", 1, spreads + 1)


@lru_cache(maxsize=128)
def _query_of(mechanism: LocationScale, name: Handle) -> StepMoments:
    shape = _SHAPES[mechanism.outside, mechanism.adjacency]
    sides, spreads = mechanism._searches()
    before = (*map(sides.stage, range(sides.steps)), *map(spreads.stage, range(spreads.steps)))
    if name == MOMENTS:
        before += (WARM,) if mechanism.counts() else (COUNT, WARM)
    return StepMoments(
        cells=CELLS,
        edges=Released(before, lambda transcripts: mechanism._edges(name, transcripts)),
        outside=mechanism.outside,
        turn=int(shape.turn * CELLS),
        linear=shape.linear * CELLS,
        square=shape.square,
        offset=int(shape.offset * CELLS**2),
        weight=int(shape.weight * CELLS**2),
    )


@lru_cache(maxsize=1 << 12)
@np.errstate(all="ignore")
def _frame_of(mechanism: LocationScale, row: Row) -> tuple[Law, Interval]:
    """The law that is known before a release, and the interval of the release; a row of two is
    before the warm one.
    """
    own = mechanism.family.constants()
    scale = mechanism._scale_at(row[1])
    start = Law(mechanism._median(row[0]) - scale * own.median, scale)
    where = mechanism._about(start, _WARM)
    if len(row) == 2:
        return start, where
    first, second, octave = row[2:]
    by, octaves_ = _warm_move(mechanism, mechanism._standard(start), first, second)
    law = Law(
        start.location + start.scale * by / _SIXTEENTHS,
        start.scale * 2.0 ** (octaves_ / _SIXTEENTHS),
    )
    return law, mechanism._best(law, octave)


@lru_cache(maxsize=1 << 12)
def _warm_move(mechanism: LocationScale, start: Law, first: int, second: int) -> tuple[int, int]:
    """Where the law with the warm moments is, in sixteenths of the first scale and of an octave
    from it; none where none near has them.
    """
    if second < 0:
        return 0, 0
    near = Near(*start, *_FAR_BOX[mechanism.outside])
    where, means = mechanism._about(start, _WARM), np.array([first / _PARTS, second / _PARTS])
    found = fitted(mechanism.family, means, where, near)
    if found is None:
        return 0, 0
    by = round(_SIXTEENTHS * (found[0] - start.location) / start.scale)
    return by, round(_SIXTEENTHS * math.log2(found[1] / start.scale))


@lru_cache(maxsize=1 << 10)
def _rung_of(mechanism: LocationScale, law: Law, octave: int) -> float:
    """The length with the least determinant of the errors' covariance, for this law and number."""
    n = count_of(octave)

    def error(far: float) -> float:
        at = mechanism.family.moments(*law, mechanism._about(law, far))
        inside = n * mechanism._share(at, law)
        if not (inside > 0 and abs(np.linalg.det(at.slopes)) > _TINY):
            return math.inf
        return float(np.linalg.det(sum(mechanism._errors(at, inside))))

    return float(min(_RUNGS, key=error))


@lru_cache(maxsize=64)
def _edges_of(mechanism: LocationScale, row: Row) -> tuple[float, ...]:
    """The records between cells; for a mask the ends as well, which are those that were kept where
    the interval ends with these.
    """
    _, where = _frame_of(mechanism, row)
    cell = (where.high - where.low) / CELLS
    t = np.asarray(where.low + cell * (np.arange(CELLS) + 0.5), np.float64)
    records = records_at(mechanism.family, t)
    if mechanism.outside == "mask":
        ends = [mechanism._edge(where.low), mechanism._edge(where.high)]
        if mechanism.kept is not None:
            least, most = mechanism._support()
            ends[0] = mechanism.kept[0] if where.low == least else ends[0]
            ends[1] = mechanism.kept[1] if where.high == most else ends[1]
        records = np.r_[ends[0], np.clip(records, ends[0], ends[1]), ends[1]]
    return tuple(np.clip(np.maximum.accumulate(records), -_LARGEST, _LARGEST).tolist())


def _deviations(covariance: Floats) -> tuple[float, float]:
    first, second = np.sqrt(np.maximum(np.diag(covariance), 0)).tolist()
    return first, second
