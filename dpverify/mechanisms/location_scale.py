"""``location_scale``: both parameters of a location-scale family, from clipped or truncated
records.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Literal

import numpy as np

from dpverify.estimation.budget_shares import ROOT_BITS, checked_shares
from dpverify.estimation.family_estimates import LocationScaleEstimate
from dpverify.estimation.handles import COUNT
from dpverify.estimation.kept_sets import pair
from dpverify.estimation.location_scale_frames import (
    CELLS,
    SHAPES,
    Frames,
    Law,
    Shape,
    moments_of,
    rounded_moments,
)
from dpverify.estimation.location_scale_maps import (
    check_law,
    check_records,
    records_at,
    textbook_of,
)
from dpverify.estimation.location_scale_search import Searched, searched_of
from dpverify.estimation.whitening import octave_of
from dpverify.families import LocationScaleFamily
from dpverify.families.given import frozen_family
from dpverify.families.location_scale import Interval
from dpverify.grid import Count
from dpverify.grid.coordinates import SideCounts
from dpverify.grid.joint import least_counted
from dpverify.grid.linear import Integers
from dpverify.grid.masks import Row, different, rows_once
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
from dpverify.plans.parameters import (
    MOST_LEAST,
    FewestReleased,
    Rational,
    one_of,
    probability,
)
from dpverify.plans.search import Prefix, Search
from dpverify.privacy import Adjacency
from dpverify.privacy.numbers import Exact, Floats, root_up, settle, to_float

WARM = Handle("warm moments")
MOMENTS = Handle("moments")
_NOISE = RoundedGaussian(UNIT)
_SHARES = tuple(Fraction(percent, 100) for percent in (8, 10, 12, 70))
_PER_MULTIPLIER = 200  # records under replace, from which on a normal sample hardly ever abstains
_FEWEST = 20


def _two_ranges(value: Any, name: str) -> tuple[tuple[float, float], tuple[float, float]]:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise TypeError(
            f"{name} = {value!r}; give a public range for each parameter, for example ((-20, 20), "
            "(0.01, 10))."
        )
    first, second = (pair(one, name) for one in value)
    return first, second


@dataclass(frozen=True, slots=True, kw_only=True)
class LocationScale(Mechanism[LocationScaleEstimate]):
    """Both parameters of a location-scale family: normal, log-normal, logistic, log-logistic,
    Weibull, or a family of your own.

    Four steps: a noisy binary search for the median; another for the median distance from it; the
    sums of a step s and of its square in an interval about these, which give a better law; and
    the same sums in the interval that is best under this law for the number of records. The
    estimate is the law whose clipped or truncated moments are the released ones: of truncated
    normal records this is the maximum likelihood estimate.

    Data: one column, shape (n,) or (n, 1). Output: ``LocationScaleEstimate``; ``Abstained`` below
    ``at_least`` records and for moments that no law near the searched one has.
    Claim: GaussianDP(1 / noise_multiplier) up to the grid's rounding, for both adjacencies and
    all data, whatever their law; no delta. No code of the family runs on data: records are
    compared with released numbers.
    family: of ``dpverify.families``, or your own ``LocationScaleFamily``.
    ranges: a public range for each of the family's two parameters, as wide as you like: the
    searches' steps grow with their logarithms. An estimate may be a little outside.
    outside: "clip" for records as they are; "mask" for records of which only some were ``kept``,
    where clipping is biased.
    kept: with "mask", the public interval of records that were kept, for example (0, 250_000); a
    record at its upper end counts as cut.
    shares: the parts of mu^2 for the four steps, of sum 1.
    at_least: abstain below this released (or public) number, with a mask the number of records
    inside; by default 200 noise multipliers under replace and 100 under add-remove, from 20 to
    2^60.
    Errors: TypeError or ValueError for parameters and for data that are not a real column.
    Source: OURS (clipped moments in one release); ZZ25, Theorem 3.1 (truncated maximum
    likelihood); KV18 (the problem).
    """

    family: Annotated[LocationScaleFamily, frozen_family(LocationScaleFamily, "LogNormalFamily()")]
    ranges: Annotated[tuple[tuple[float, float], tuple[float, float]], _two_ranges]
    outside: Annotated[Literal["clip", "mask"], one_of("clip", "mask")] = "clip"
    kept: Annotated[tuple[float, float], pair] | None = None
    shares: tuple[Rational, ...] = _SHARES
    at_least: FewestReleased = None

    def check_parameters(self) -> None:
        """Check that the family has the ranges, that they are of not too many places, and that it
        has the kept records.
        """
        settle(self, shares=checked_shares(self.shares, len(_SHARES)))
        check_law(self.family)
        if (searched := searched_of(self.family, self.ranges)) is None:
            names = " and ".join(self.family.parameters)
            raise ValueError(
                f"ranges = {self.ranges}: not all of these are a {names} of "
                f"{type(self.family).__name__} with a scale from 2^-400 to 2^400, searched in up "
                "to 2^50 places, each above 2^-40 of the largest location. Give smaller public "
                "ranges."
            )
        check_records(self.family, searched.low, searched.high)
        if self.kept is None:
            return
        if self.outside == "clip":
            raise ValueError(
                f"kept = {self.kept}: records of which only some were kept have other moments when "
                "they are clipped. Use outside='mask', or leave it out."
            )
        low, high = self._frames().support()
        if not low < high:
            raise ValueError(
                f"kept = {self.kept} holds none of the family's records; give a longer interval."
            )

    def replacement(self) -> float:
        """Return the median in the middle of the ranges."""
        return self._edge(self._searched().median(0))

    def plan(self) -> Plan:
        """Release the public number under replace; both searches; the moments where these ended,
        and the moments about the law that those tell.
        """
        public = () if self.counts() else (Stage(COUNT, Count(), NoNoise()),)
        sides, spreads = self._searched().searches()
        stages = sides.elements(self._side_query, _NOISE)
        stages += spreads.elements(self._spread_query, _NOISE, Prefix().then(sides, sides.steps))
        return (*public, *stages, self._moments(WARM), self._moments(MOMENTS))

    @np.errstate(all="ignore")  # numbers that overflow belong to no law, and lead to an outcome
    def estimate(self, transcript: Transcripts) -> LocationScaleEstimate | Abstained:
        """Return the law that has the last moments, as the family's parameters."""
        means, inside = self._released(transcript)
        if not inside >= self.least():
            return Abstained(f"fewer than {self.least()} records, by the released number")
        row: Row = tuple(self._rows(MOMENTS, transcript)[0].tolist())
        near, where = self._frame(row)
        law = self._frames().solved(means, where, near)
        if law is None:
            return Abstained("no law near the searched one has the released moments")
        at = self.family.moments(*law, where)
        if not abs(np.linalg.det(at.slopes)) > 0:
            return Abstained("no law near the searched one has the released moments")
        noise, drawn = self._frames().errors(at, inside)
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

    @np.errstate(all="ignore")
    def expected_error(
        self, n: int, *, parameters: Sequence[float] | None = None, which: int = 0
    ) -> float:
        """Predict the noise's part in a parameter, the first or the second (``which`` = 1), for n
        records of the law with these ``parameters``; with ``kept``, for n records inside it.

        To first order, where the searches found the law. Infinite below ``at_least``.
        """
        if parameters is None or which not in (0, 1):
            raise ValueError(
                "The noise follows the law; give parameters=, a guess of both, and which=0 or 1."
            )
        law, frames = Law(*self.family.standard(*parameters)), self._frames()
        at = self.family.moments(*law, frames.best(law, octave_of(n)))
        inside = n * frames.share(at, law)
        if not (inside >= self.least() and abs(np.linalg.det(at.slopes)) > 0):
            return math.inf
        _, steep = textbook_of(self.family, *law)
        deviation = _deviations(steep @ frames.errors(at, inside)[0] @ steep.T)[which]
        return deviation if math.isfinite(deviation) else math.inf

    def minimum_n(self, *, beta: Exact = "1e-3") -> int:
        """Return the least n for which the released number of n records, all inside, is below
        ``at_least`` with probability at most ``beta``.
        """
        allowed = probability(beta, "beta")
        if not self.counts():
            return self.least()
        per_record = self._query(MOMENTS).weight * UNIT / self._scale(MOMENTS)
        return least_counted(self.least(), per_record, lambda k: _NOISE.falls_short(k, allowed))

    def fewest_records(self) -> int:
        """Return ``at_least``: fewer records, a public number under replace, are refused."""
        return 0 if self.counts() else self.least()

    def counts(self) -> bool:
        """Tell whether the number of records is private."""
        return self.adjacency is Adjacency.ADD_REMOVE

    def least(self) -> int:
        """Return the number of records below which the mechanism abstains."""
        if self.at_least is not None:
            return self.at_least
        times = _PER_MULTIPLIER // (2 if self.counts() else 1)
        return min(max(_FEWEST, math.ceil(times * self.noise_multiplier)), MOST_LEAST)

    # --- searches -------------------------------------------------------------------------------

    def _searched(self) -> Searched:
        searched = searched_of(self.family, self.ranges)
        assert searched is not None  # check_parameters refuses None
        return searched

    def _edge(self, t: float) -> float:
        return float(records_at(self.family, np.array([t]))[0])

    def _side_query(self, row: Row) -> OneUnit:
        searched = self._searched()
        sides, _ = searched.searches()
        query = SideCounts((self._edge(searched.median(sides.middles(row[-1:])[0])),))
        return OneUnit(query, self._step_scale(sides, 0))

    def _spread_query(self, row: Row) -> OneUnit:
        searched = self._searched()
        sides, spreads = searched.searches()
        middle = searched.median(sides.middles(row[:1])[0])
        far = searched.scale(spreads.middles(row[-1:])[0]) * searched.distance
        low, high = sorted(self._edge(middle + side * far) for side in (-1, 1))
        return OneUnit(SideCounts((high,), (low,)), self._step_scale(spreads, 1))

    def _step_scale(self, search: Search, place: int) -> Fraction:
        """Return a search step's noise scale, in records; a neighbor moves a step by 1 or 2."""
        square = (1 if self.counts() else 4) * search.steps / self.shares[place]
        return self.noise_multiplier * root_up(square, ROOT_BITS)

    # --- moments, and the intervals they are taken in --------------------------------------------

    def _shape(self) -> Shape:
        return SHAPES[self.outside, self.adjacency]

    def _query(self, name: Handle) -> StepMoments:
        return _query_of(self, name)

    def _scale(self, name: Handle) -> Fraction:
        """Return the noise scale of a stage's numbers, in the unit of these numbers."""
        moved = self._query(name).moved(self.adjacency)
        return self.noise_multiplier * root_up(
            moved / self.shares[2 if name == WARM else 3], ROOT_BITS
        )

    def _moments(self, name: Handle) -> Stage:
        return Stage(name, OneUnit(self._query(name), self._scale(name)), _NOISE)

    def _frames(self) -> Frames:
        return _frames_of(self)

    def _frame(self, row: Row) -> tuple[Law, Interval]:
        """Return the law that is known before a release, and the interval of the release; a row
        of two numbers is from before the warm release.
        """
        searched, frames = self._searched(), self._frames()
        scale = searched.scale(row[1])
        start = Law(searched.median(row[0]) - scale * self.family.constants().median, scale)
        if len(row) == 2:
            return start, frames.warm(start)
        law = frames.after(start, *row[2:4])
        return law, frames.best(law, row[4])

    def _rows(self, name: Handle, before: Transcripts) -> Integers:
        """Return the places where both searches ended; for the last moments, the warm ones in
        1/64 and the quarter octave of the number, too.
        """
        ends = []
        for search in self._searched().searches():
            nodes, which = different(search.nodes(search.steps)(before)[:, 0])
            ends.append(np.array(search.middles(nodes.tolist()), np.int64)[which])
        if name == MOMENTS:
            query, per = self._query(WARM), self._scale(WARM) / UNIT
            public = None if query.weight else before[COUNT][:, 0]
            ends += rounded_moments(query, per, before[WARM], public, self.least())
        return np.stack(ends, axis=1)

    def _edges(self, name: Handle, before: Transcripts) -> tuple[Floats, Integers]:
        rows, which = rows_once(self._rows(name, before))
        edges = [self._frames().edges(self._frame(tuple(row))[1]) for row in rows.tolist()]
        return np.array(edges), which

    def _released(self, transcript: Transcripts) -> tuple[Floats, float]:
        """Return the last moments of a record, and the number of records that count."""
        query, per = self._query(MOMENTS), self._scale(MOMENTS) / UNIT
        sums = [value * per for value in transcript.numbers(MOMENTS)]
        return moments_of(query, sums, None if query.weight else transcript.number(COUNT))


@lru_cache(maxsize=128)
def _query_of(mechanism: LocationScale, name: Handle) -> StepMoments:
    sides, spreads = mechanism._searched().searches()
    before = (*map(sides.stage, range(sides.steps)), *map(spreads.stage, range(spreads.steps)))
    if name == MOMENTS:
        before += (WARM,) if mechanism.counts() else (COUNT, WARM)
    return StepMoments(
        cells=CELLS,
        edges=Released(before, lambda transcripts: mechanism._edges(name, transcripts)),
        outside=mechanism.outside,
        **mechanism._shape()._asdict(),
    )


@lru_cache(maxsize=128)
def _frames_of(mechanism: LocationScale) -> Frames:
    noise = min(to_float(mechanism._scale(MOMENTS)), 1e100)
    shape = mechanism._shape()
    return Frames(mechanism.family, mechanism.outside, mechanism.kept, shape, noise)


def _deviations(covariance: Floats) -> tuple[float, float]:
    first, second = np.sqrt(np.maximum(np.diag(covariance), 0)).tolist()
    return first, second
