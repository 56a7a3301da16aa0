"""``gaussian_mean``: the mean of normal records of known deviations, without a bound on where it is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from dpverify.estimation.clip_schedule import in_units
from dpverify.estimation.clipped_response import (
    Moment,
    Outside,
    Response,
    best_masked_bound,
    response_of,
)
from dpverify.estimation.clipping import Numbers
from dpverify.estimation.column_grids import GRAIN, units_of
from dpverify.estimation.handles import COUNT
from dpverify.estimation.median_centered import (
    NOISE,
    CenteredMean,
    Reading,
    positive_numbers,
    rationals_of,
)
from dpverify.estimation.normal_fits import best_mean_bound
from dpverify.estimation.rationals import Rationals
from dpverify.estimation.whitening import count_of, octave_of, octaves
from dpverify.grid import OUTER_BOX
from dpverify.grid.cells import floor_log2
from dpverify.grid.coordinates import ScaledMaskedSum, Stretch
from dpverify.grid.linear import Integers
from dpverify.grid.masks import Row, different_rows
from dpverify.grid.vector_queries import VectorQuery
from dpverify.plans import UNIT, Abstained, Handle, Plan, Released, Stage, Transcripts
from dpverify.plans.parameters import Share, one_of, positive, whole_from
from dpverify.plans.search import Prefix, Search
from dpverify.privacy.numbers import Exact, Floats, exact, settle, to_float

WARM = Handle("warm sum")
_WIDEST = 1 << 19  # deviations: the reach, unless it is given
_NARROWEST = 1 << 6  # of the largest deviation: less is no search
_RANGE = 1 << 39  # or cells of the finest column
_PER_DEVIATION = 16  # centers are multiples of at most this part of one
_TIMES = Fraction(
    27, 10
)  # standard deviations of a step's noise: with so many records the search rarely fails
_MOST_LEAST = 1 << 60
_WITHIN = 31 / 32  # units of columns are in proportion to within 3%


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianMean(CenteredMean):
    """The mean of normal records with known standard deviations, with no bound on where it is.

    Noisy binary searches find the medians of all columns; a clipped sum about them gives a center within a fraction of a
    deviation; a second one about that, of all records, clipped where noise and sampling together are least, is solved for
    the mean of the normal law whose clipped records have it. So clipping costs no bias, however much it is.

    Data: shape (n, d), d = len(center), in any unit. Output: ``VectorMeanEstimate``, or ``Abstained`` below ``at_least``
    records and where the mean is farther than sqrt(d) + 2 deviations from the released center. Claim:
    GaussianDP(1 / noise_multiplier) up to the grid's rounding, for both adjacencies and all data; no delta.
    Errors at (1, 1e-6) under replace, in deviations: d = 5: .090 at n = 1000, .039 at 4000; d = 50: .16 at 4000, .030 at
    64000 (sampling alone: .071, .035; .11, .028).
    center, reach: public; every median is searched within reach of the center; None: 2^19 of the largest deviation, but at
    most about 2^21 of the smallest (131 of the largest, where they differ by a factor of 16,000).
    deviations: public; the known standard deviation of each column, used to 3%; with equal ones exactly. Columns are independent.
    outside: "clip" for records as they are; "mask" counts those inside the balls alone: right also for records that were
    kept only near the center before, where clipping is biased; the error is up to half larger for few records or columns, hardly for many.
    truncated: public, with "mask": records were kept up to so many deviations of the center (in length, over all columns).
    search_share, warm_share: the parts of mu^2 for the searches and for the first sum.
    extra_steps: of the search, beyond one for each halving of reach down to the least deviation.
    at_least: abstain below this released (or public) number; by default 2.7 standard deviations of a search step's noise.
    Errors: TypeError or ValueError for parameters and for data of another shape.
    Source: OURS (clipped mean and the way back, by Stein's identity); ZZ25, Theorem 4.1 (by truncation); DRS22.
    """

    deviations: Numbers
    reach: Exact | None = None
    outside: Annotated[Outside, one_of("clip", "mask")] = "clip"
    truncated: Annotated[float, positive(as_given=True)] | None = None
    search_share: Share = Fraction(13, 100)
    warm_share: Share = Fraction(6, 100)
    extra_steps: Annotated[int, whole_from(0, "; give an integer >= 0.")] = 9
    at_least: Annotated[int, whole_from(1, most=_MOST_LEAST)] | None = None

    def check_parameters(self) -> None:
        """Positive deviations, one for each column; medians on the grid; shares that leave something."""
        given = positive_numbers(self.deviations, "deviations", self.columns())
        settle(self, deviations=given)
        if self.reach is None:
            cell = Fraction(2) ** min(self._units()[0])
            settle(self, reach=min(_WIDEST * Fraction(max(given)), _RANGE * cell))
            if self.far() < _NARROWEST * Fraction(max(given)):
                raise ValueError(
                    f"deviations from {min(given)} to {max(given)}: on the grid of the smallest the largest one's median is not "
                    "found far from the center. Give a reach, or columns in units that are more alike."
                )
        CenteredMean.check_parameters(self)
        self.refuse_far(self._units()[0])
        if self.truncated is not None and self.outside == "clip":
            raise ValueError(
                f"truncated = {self.truncated}: records that were kept near the center alone have another mean when they are "
                "clipped. Use outside='mask', or leave it out."
            )
        if self.search_share + self.warm_share >= 1:
            raise ValueError(
                f"search_share + warm_share = {self.search_share + self.warm_share} leaves nothing for the last sum; give "
                "shares that add up to less than 1."
            )

    def plan(self) -> Plan:
        """The search, a sum about the medians, a sum about what that gave."""
        search = self._search()
        found = search.elements(self.side_query(search, search.steps), NOISE)
        return (*found, Prefix().then(search, search.steps).part(self._warm), *self.summed())

    def before_sum(self) -> Prefix:
        """The center, in its columns' steps, and the quarter octave of the number of records."""
        search = self._search()
        reads = (*map(search.stage, range(search.steps)), WARM)
        middles = self._first_ball((1,) * self.columns())[0].center
        start = [c >> shift for c, shift in zip(middles, self._shifts(), strict=True)]
        counted = () if self.counts() else (COUNT,)
        return Prefix().also(
            Released((*reads, *counted), self._frames), (*start, octave_of(self.least()))
        )

    def ball(self, row: Row) -> tuple[Stretch, int]:
        """Columns in units of their deviations, about the released center; the radius of least error."""
        center = tuple(c << shift for c, shift in zip(row, self._shifts(), strict=False))
        return self._about(center, self._length(row[-1]))

    def sum_query(self, stretch: Stretch, radius: int) -> VectorQuery:
        """Of all records, clipped; or of those inside, with their number."""
        if self.outside == "clip":
            return CenteredMean.sum_query(self, stretch, radius)
        return ScaledMaskedSum(stretch, radius * GRAIN, radius * self.weight())

    def reading(self, ratio: list[float], radius: int) -> Reading | Abstained:
        """The mean whose limited records have this one."""
        offset, law = np.clip(np.array(ratio), -(2.0**100), 2.0**100), self._response(radius)
        far = law.back(float(np.linalg.norm(offset)) / self._deviation())
        if far is None:
            return Abstained("the mean is too far from the released center")
        at = law.at(far)
        return Reading(offset / at.ratio, _widened(offset, at), offset / at.slope)

    def expected_error(self, n: int) -> float:
        """For n records of the model, whose search succeeded, about the center that it found: the noise's root mean square length, in the
        data's units. Of ``truncated`` records it is a lower estimate.

        Infinite below ``at_least`` records.
        """
        if n < self.least():
            return math.inf
        radius = self._grains(self._length(octave_of(n)))
        at = self._response(radius).at(0.0)
        inside = at.inside if self.outside == "mask" else 1.0
        return self.length_of(self._units(), radius, n) / (at.ratio * inside)

    def least(self) -> int:
        """Below this number it abstains."""
        if self.at_least is not None:
            return self.at_least
        noise = self.step_scale(self._search().steps)
        return min(max(1, math.ceil(_TIMES * noise)), _MOST_LEAST)

    def needed(self) -> int:
        """All of these; an eighth of them inside the last ball."""
        return self.least() if self.outside == "clip" else -(-self.least() // 8)

    def joint(self) -> bool:
        """How many records are inside is always private."""
        return self.counts() or self.outside == "mask"

    def sum_share(self) -> Fraction:
        """What the search and the first sum leave."""
        return 1 - self.search_share - self.warm_share

    def weight(self) -> int:
        """An eighth of the radius, for means are near the center, where the number matters little; under replace all that is free."""
        return GRAIN // 8 if self.counts() else math.isqrt(3 * GRAIN**2)

    # --- units, radii -----------------------------------------------------------------------------

    def _search(self) -> Search:
        return self.side_search(Fraction(min(self.deviations)))

    def _units(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Exponents and factors of columns, in which the expected squared length of a record is d."""
        return units_of(_squares(self.deviations), Fraction(self.columns()))

    def _deviation(self) -> float:
        """The root mean square of the columns' deviations in the image."""
        own = np.ldexp(np.array(self.deviations), [-e for e in self._units()[0]])
        return float(np.sqrt(np.mean((own * self._units()[1]) ** 2)))

    def _shifts(self) -> tuple[int, ...]:
        """Centers are multiples of 2^shift cells."""
        pairs = zip(self.deviations, self._units()[0], strict=True)
        return tuple(max(0, floor_log2(Fraction(s) / _PER_DEVIATION) - e) for s, e in pairs)

    def _response(self, radius: int) -> Response:
        return response_of(self.columns(), radius * GRAIN / self._deviation(), self.outside)

    def _grains(self, length: float) -> int:
        """A number of deviations, rounded down."""
        return max(1, math.floor(length * self._deviation() / GRAIN))

    def _length(self, octave: int) -> float:
        """Of the last ball's radius, in deviations, for about so many records."""
        share = math.sqrt(self.sum_share())
        mu = share / min(max(to_float(exact(self.noise_multiplier, "noise")), 1e-100), 1e100)
        best = best_mean_bound if self.outside == "clip" else best_masked_bound
        return math.sqrt(best(self.columns(), count_of(octave), mu, 1 if self.counts() else 2))

    def _first_length(self) -> float:
        """Of the first ball's radius: all columns' medians together are off by about sqrt(d) deviations at most."""
        return math.sqrt((2 if self.outside == "clip" else 3) * self.columns())

    def _about(self, center: Row, length: float) -> tuple[Stretch, int]:
        """The ball about a center in cells, inside of the one that records were truncated to."""
        exponents, factors = self._units()
        if self.truncated is not None:
            origin = rationals_of(self.center).cells(exponents)
            moved = [
                math.ldexp(c - o, e) / s
                for c, o, e, s in zip(center, origin, exponents, self.deviations, strict=True)
            ]
            length = min(length, (float(self.truncated) - math.hypot(*moved)) * _WITHIN)
        return Stretch(center, exponents, factors), self._grains(length)

    # --- from what was released to the center -----------------------------------------------------

    def _warm(self, row: Row) -> Stage:
        return self.sum_stage(WARM, *self._first_ball(row), self.warm_share)

    def _first_ball(self, row: Row) -> tuple[Stretch, int]:
        medians = self.medians(self._search(), row).cells(self._units()[0])
        return self._about(medians, self._first_length())

    def _frames(self, before: Transcripts) -> Integers:
        """The center in its steps and the quarter octave of the number, shape (size, d + 1)."""
        search, d = self._search(), self.columns()
        nodes, which = different_rows(search.nodes(search.steps)(before), "nodes")
        frames = np.zeros((len(before), d + 1), np.int64)
        for place, node in enumerate(nodes):
            rows = np.flatnonzero(which == place)
            stretch, radius = self._first_ball(node)
            frames[rows] = self._moved(stretch, radius, before, rows)
        return frames

    def _moved(
        self, stretch: Stretch, radius: int, before: Transcripts, rows: NDArray[np.intp]
    ) -> Integers:
        """The frames of these draws, whose first ball this was."""
        d, least = self.columns(), self.least()
        per = radius * self.sum_scale(self.warm_share) / UNIT
        values = before[WARM][rows]
        own = in_units(values[:, -1], per / (radius * self.weight())) if self.joint() else None
        every = own if self.counts() else in_units(before[COUNT][rows, 0], Fraction(1))
        assert every is not None
        known = np.clip(every, least, 1e18)
        number = known if own is None or self.outside == "clip" else np.clip(own, least / 8, 1e18)
        offsets = in_units(values[:, :d], per) / number[:, np.newaxis]
        ratios = self._response(radius).ratios(_lengths(offsets) / self._deviation())
        steps = np.ldexp(1.0, self._shifts())
        cells = np.array(stretch.center) + offsets * ratios[:, np.newaxis] / np.array(
            stretch.factors
        )
        most = np.floor(OUTER_BOX / steps)
        centers = np.clip(np.rint(cells / steps), -most, most).astype(np.int64)
        return np.concatenate([centers, octaves(known)[:, np.newaxis]], axis=1)


def _widened(offset: Floats, at: Moment) -> Floats:
    """By what factor noise of the sum is larger in each column of the mean: 1 / slope along the offset, 1 / ratio across it; that
    columns then vary together is left out."""
    length = float(np.linalg.norm(offset))
    along = np.square(offset / length) if length > 0 else np.zeros(len(offset))
    found: Floats = np.sqrt((1 - along) / at.ratio**2 + along / at.slope**2)
    return found


def _lengths(offsets: Floats) -> Floats:
    """Of each row, column by column: the same sum in every batch."""
    total = np.zeros(len(offsets))
    for column in offsets.T:
        total += np.square(column)
    return np.sqrt(total)


@lru_cache(maxsize=16)
def _squares(deviations: Numbers) -> Rationals:
    own = rationals_of(deviations)
    return Rationals(tuple(s * s for s in own.numerators), own.denominator**2)
