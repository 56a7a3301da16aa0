"""``gaussian_mean``: the mean of normal records of known deviations or covariance, without a bound
on where it is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from dpverify.estimation.clip_schedule import in_units
from dpverify.estimation.clipped_response import Outside, best_masked_bound
from dpverify.estimation.clipping import Numbers
from dpverify.estimation.column_grids import GRAIN
from dpverify.estimation.cutting import solved_excess
from dpverify.estimation.handles import COUNT
from dpverify.estimation.kept_sets import Kept, check_columns, check_mass, kept_set
from dpverify.estimation.known_covariance import (
    Rows,
    Whitening,
    covariance_matrix,
    diagonal,
    whitening_of,
)
from dpverify.estimation.median_centered import NOISE, CenteredMean, Reading, positive_numbers
from dpverify.estimation.normal_fits import best_mean_bound
from dpverify.estimation.normal_images import NormalImages
from dpverify.estimation.results import VectorMeanEstimate
from dpverify.estimation.whitening import count_of, octave_of, octaves
from dpverify.grid.coordinates import ScaledMaskedSum, Stretch
from dpverify.grid.linear import Integers
from dpverify.grid.masks import Row, different_rows
from dpverify.grid.vector_queries import VectorQuery
from dpverify.plans import UNIT, Abstained, Handle, Plan, Released, Stage, Transcripts
from dpverify.plans.parameters import MOST_LEAST, FewestReleased, Share, one_of, whole_from
from dpverify.plans.search import Prefix, Search
from dpverify.privacy.numbers import Exact, Floats, exact, settle, to_float

WARM = Handle("warm sum")
_WIDEST = 1 << 19  # default reach, in largest deviations
_NARROWEST = 1 << 6  # least reach, in largest deviations: with less there is nothing to search
_RANGE = 1 << 39  # largest default reach, in cells of the finest column
_TIMES = Fraction(27, 10)  # standard deviations of a step's noise, so that a search rarely fails


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianMean(CenteredMean):
    """The mean of normal records with known standard deviations or covariance, with no bound on
    where it is.

    Noisy binary searches find the medians of all columns; a clipped sum about them gives a center
    within a fraction of a deviation; a second one about that center, of all records, is clipped
    where noise and sampling together are least. Its result is solved for the mean of the normal
    law whose clipped records have the released mean, so clipping costs no bias, however strong.
    With a ``covariance`` all this is done on whitened records, by a public integer map.

    Data: shape (n, d), d = len(center), in any unit. Output: ``VectorMeanEstimate``, or
    ``Abstained`` below ``at_least`` records and where the mean is farther than sqrt(d) + 2
    deviations from the released center. Claim: GaussianDP(1 / noise_multiplier) up to the grid's
    rounding, for both adjacencies and all data; no delta. Errors at (1, 1e-6) under replace, in
    deviations: d = 5: .090 at n = 1000, .039 at 4000; d = 50: .16 at 4000, .030 at 64000
    (sampling alone: .071, .035; .11, .028).
    center, reach: public; every median is searched within reach of the center. By default the
    reach is 2^19 of the largest deviation, but at most about 2^21 of the smallest (131 of the
    largest, where they differ by a factor of 16,000). With a covariance the reach is in
    deviations, of whitened columns, 2^19 by default.
    deviations: public; the known standard deviation of each column, used to 3%, or exactly where
    all are equal. Columns are independent.
    covariance: public, in place of deviations; positive definite, shape (d, d), used to 1/64.
    Records beyond 2^21 deviations of a column from the center are clamped.
    outside: "clip" for records as they are; "mask" counts only the records inside the balls; the
    error is up to half larger for few records or columns, hardly for many. Only "mask" is right
    for records of which some are missing, where clipping is biased.
    kept: public, with "mask": the set in which records were kept before: ``HalfSpace(normal,
    bound)`` in the data's units, ``InsideBall(radius)`` or ``OutsideBall(radius)`` in deviations
    about the center, or, for one column, two ends, either of which may be infinite. The estimate
    is then the maximum likelihood one under that truncation; ``Abstained`` where under it less
    than a 20th of all records count.
    search_share, warm_share: the parts of mu^2 for the searches and for the first sum.
    extra_steps: steps of the search beyond one for each halving of reach down to the least
    deviation.
    at_least: abstain below this released (or public) number; by default 2.7 standard deviations
    of a search step's noise.
    Errors: TypeError or ValueError for parameters and for data of another shape.
    Source: OURS (clipped mean and the way back, by Stein's identity); ZZ25, Theorem 4.1 (by
    truncation); DRS22.
    """

    deviations: Numbers | None = None
    covariance: Annotated[Rows, covariance_matrix] | None = None
    reach: Exact | None = None
    outside: Annotated[Outside, one_of("clip", "mask")] = "clip"
    kept: Annotated[Kept, kept_set] | None = None
    search_share: Share = Fraction(13, 100)
    warm_share: Share = Fraction(6, 100)
    extra_steps: Annotated[int, whole_from(0, "; give an integer >= 0.")] = 9
    at_least: FewestReleased = None

    def check_parameters(self) -> None:
        """Check that deviations or a covariance are given, medians are on the grid, the kept set
        holds enough, and the shares leave something.
        """
        check_columns(self.kept, self.columns())
        if self.kept is not None and self.outside == "clip":
            raise ValueError(
                f"kept = {self.kept}: records of which only some were kept have another mean when "
                "they are clipped. Use outside='mask', or leave it out."
            )
        if (self.deviations is None) == (self.covariance is None):
            raise TypeError(
                "give deviations, the known standard deviation of each of some independent "
                "columns, or a covariance, and not both."
            )
        if self.deviations is not None:
            settle(
                self,
                deviations=positive_numbers(self.deviations, "deviations", self.columns()),
            )
        if (public := self._whitening()) is not None:
            settle(self, reach=self._whitened(public).far() * self._shortest())
            return
        self._check_reach()
        CenteredMean.check_parameters(self)
        self.refuse_far(self._images().units()[0])
        if self.kept is not None:
            check_mass(self.kept, self.center, self._deviations(), self.far())
        if self.search_share + self.warm_share >= 1:
            raise ValueError(
                f"search_share + warm_share = {self.search_share + self.warm_share} leaves nothing "
                "for the last sum; give shares that add up to less than 1."
            )

    def plan(self) -> Plan:
        """Release the search, a sum about the medians, and a sum about the center that follows
        from it; where there is a whitening, of whitened records.
        """
        if (public := self._whitening()) is not None:
            return public.plan(self._whitened(public).fixed_plan)
        search = self._search()
        stages = search.elements(self.side_query(search, search.steps), NOISE)
        return (*stages, Prefix().then(search, search.steps).part(self._warm), *self.summed())

    def estimate(self, transcript: Transcripts) -> VectorMeanEstimate | Abstained:
        """Return the mean under which the counted records have the released one; mapped back
        where records were whitened.
        """
        if (public := self._whitening()) is None:
            return self.told(transcript)
        estimate = self._whitened(public).told(transcript, jointly=True)
        return estimate if isinstance(estimate, Abstained) else public.moved_back(estimate)

    def before_sum(self) -> Prefix:
        """Return what the last sum depends on: the center, in its columns' steps, and the quarter
        octave of the number of records.
        """
        search = self._search()
        reads = (*map(search.stage, range(search.steps)), WARM)
        middles = self._first_ball((1,) * self.columns())[0].center
        start = [c >> shift for c, shift in zip(middles, self._images().shifts(), strict=True)]
        counted = () if self.counts() else (COUNT,)
        return Prefix().also(
            Released((*reads, *counted), self._frames), (*start, octave_of(self.least()))
        )

    def ball(self, row: Row) -> tuple[Stretch, int]:
        """Return the columns in units of their deviations about the released center, and the
        radius of least error.
        """
        center = tuple(c << shift for c, shift in zip(row, self._images().shifts(), strict=False))
        return self._images().ball(center, self._length(row[-1]))

    def sum_query(self, stretch: Stretch, radius: int) -> VectorQuery:
        """Build the query for the sum of all records, clipped; with a mask, of those inside the
        ball and the public set, with their number.
        """
        if self.outside == "clip":
            return CenteredMean.sum_query(self, stretch, radius)
        kept = self._images().public_set(stretch)
        return ScaledMaskedSum(stretch, radius * GRAIN, radius * self.weight(), kept=kept)

    def reading(self, ratio: list[float], stretch: Stretch, radius: int) -> Reading | Abstained:
        """Find the mean whose clipped or masked records have the released mean."""
        return self._images().reading(ratio, stretch, radius)

    def cut(self, row: Row, reading: Reading, radius: int, count: float) -> float | Floats:
        """Compute what clipping adds to the error of the mean of all records, in every column
        alike.

        Zero for records of which some were not ``kept``: their mean is not what is estimated.
        """
        if self.kept is not None:
            return 0.0
        length = radius * GRAIN / self._deviation()
        excess = solved_excess(self.columns(), length, self.outside)
        if self.outside == "mask":
            excess *= self._images().response(radius).at(0.0).inside
        return np.full(self.columns(), self._deviation() * math.sqrt(excess / count))

    def expected_error(self, n: int) -> float:
        """Predict the noise's root mean square length, in the data's units, for n records of the
        model, where the search succeeded, about the center that it found.

        Where some records were not ``kept``, this is a lower estimate. Infinite below
        ``at_least`` records.
        """
        if (public := self._whitening()) is not None:
            return public.length() * self._whitened(public).expected_error(n)
        if n < self.least():
            return math.inf
        radius = self._images().grains(self._length(octave_of(n)))
        at = self._images().response(radius).at(0.0)
        inside = at.inside if self.outside == "mask" else 1.0
        return self.length_of(self._images().units(), radius, n) / (at.ratio * inside)

    def least(self) -> int:
        """Return the number of records below which the mechanism abstains."""
        if self.at_least is not None:
            return self.at_least
        if (public := self._whitening()) is not None:
            return self._whitened(public).least()
        noise = self.step_scale(self._search().steps)
        return min(max(1, math.ceil(_TIMES * noise)), MOST_LEAST)

    def needed(self) -> int:
        """Return the number that the last ball has to hold: all of ``least`` records, or an
        eighth of them with a mask.
        """
        return self.least() if self.outside == "clip" else -(-self.least() // 8)

    def joint(self) -> bool:
        """Tell whether the number is released with the sum: with a mask the number inside is
        always private.
        """
        return self.counts() or self.outside == "mask"

    def sum_share(self) -> Fraction:
        """Return the share of mu^2 that the search and the first sum leave."""
        return 1 - self.search_share - self.warm_share

    def weight(self) -> int:
        """Return the weight of the count: an eighth of the radius, since means are near the
        center, where the number matters little; under replace all that costs nothing.
        """
        return GRAIN // 8 if self.counts() else math.isqrt(3 * GRAIN**2)

    # --- whitened records -------------------------------------------------------------------------

    def _whitening(self) -> Whitening | None:
        """Return the map to columns of deviation 1: for a covariance, and for unequal deviations
        where 3% would bend a public set; else None.
        """
        if self.covariance is not None:
            return whitening_of(self.covariance, self.center)
        given = self._deviations()
        if self.kept is None or len(set(given)) == 1:
            return None
        return whitening_of(diagonal(given), self.center)

    def _whitened(self, public: Whitening) -> GaussianMean:
        """Build the mechanism for the whitened images."""
        return _of_images(self, public)

    def _shortest(self) -> Fraction:
        """Return the unit of the reach: the least deviation, or 1 for whitened deviations."""
        return Fraction(1) if self.deviations is None else Fraction(min(self.deviations))

    def _deviations(self) -> Numbers:
        assert self.deviations is not None
        return self.deviations

    # --- units, radii -----------------------------------------------------------------------------

    def _search(self) -> Search:
        return self.side_search(Fraction(min(self._deviations())))

    def _images(self) -> NormalImages:
        """Build the records' images on the grid."""
        return NormalImages(self.center, self._deviations(), self.outside, self.kept)

    def _deviation(self) -> float:
        """Return the root mean square of the columns' deviations in the image."""
        return self._images().deviation()

    def _length(self, octave: int) -> float:
        """Return the last ball's radius, in deviations, for about this many records."""
        share = math.sqrt(self.sum_share())
        mu = share / min(max(to_float(exact(self.noise_multiplier, "noise")), 1e-100), 1e100)
        best = best_mean_bound if self.outside == "clip" else best_masked_bound
        return math.sqrt(best(self.columns(), count_of(octave), mu, 1 if self.counts() else 2))

    def _first_length(self) -> float:
        """Return the first ball's radius, in deviations: all columns' medians together are off by
        at most about sqrt(d).
        """
        return math.sqrt((2 if self.outside == "clip" else 3) * self.columns())

    def _check_reach(self) -> None:
        """Settle the reach; refuse deviations for which none is on the grid."""
        if self.reach is not None:
            return
        given, cell = self._deviations(), Fraction(2) ** min(self._images().units()[0])
        settle(self, reach=min(_WIDEST * Fraction(max(given)), _RANGE * cell))
        if self.far() < _NARROWEST * Fraction(max(given)):
            raise ValueError(
                f"deviations from {min(given)} to {max(given)}: on the grid of the smallest the "
                "largest one's median is not found far from the center. Give a reach, or columns "
                "in units that are more alike."
            )

    # --- from what was released to the center -----------------------------------------------------

    def _warm(self, row: Row) -> Stage:
        return self.sum_stage(WARM, *self._first_ball(row), self.warm_share)

    def _first_ball(self, row: Row) -> tuple[Stretch, int]:
        medians = self.medians(self._search(), row).cells(self._images().units()[0])
        return self._images().ball(medians, self._first_length())

    def _frames(self, before: Transcripts) -> Integers:
        """Return the center in its steps and the quarter octave of the number, shape
        (size, d + 1).
        """
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
        """Return the frames of the draws that had this first ball."""
        d, least = self.columns(), self.least()
        per = radius * self.sum_scale(self.warm_share) / UNIT
        values = before[WARM][rows]
        own = in_units(values[:, -1], per / (radius * self.weight())) if self.joint() else None
        every = own if self.counts() else in_units(before[COUNT][rows, 0], Fraction(1))
        assert every is not None
        known = np.clip(every, least, 1e18)
        number = known if own is None or self.outside == "clip" else np.clip(own, least / 8, 1e18)
        offsets = in_units(values[:, :d], per) / number[:, np.newaxis]
        centers = self._images().centers(stretch, radius, offsets)
        return np.concatenate([centers, octaves(known)[:, np.newaxis]], axis=1)


@lru_cache(maxsize=64)
def _of_images(mechanism: GaussianMean, public: Whitening) -> GaussianMean:
    """Build the mechanism for columns of deviation 1 about 0."""
    d, reach = mechanism.columns(), mechanism.reach
    own: dict[str, Any] = mechanism.parameters | {
        "budget": None,
        "center": (0.0,) * d,
        "deviations": (1.0,) * d,
        "covariance": None,
        "kept": public.kept(mechanism.kept),
        "reach": None if reach is None else exact(reach, "reach") / mechanism._shortest(),
    }
    return GaussianMean(**own)
