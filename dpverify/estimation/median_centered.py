"""Means about privately found medians: parameters, the search for the medians, and the clipped
sum.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any

import numpy as np

from dpverify.estimation.budget_shares import ROOT_BITS
from dpverify.estimation.clipped_response import Inverse
from dpverify.estimation.clipping import LARGEST_FLOAT, Numbers, PerColumn, in_ball, numbers_of
from dpverify.estimation.column_grids import GRAIN
from dpverify.estimation.handles import COUNT, SUM, SUM_AND_COUNT
from dpverify.estimation.rationals import Rationals
from dpverify.estimation.results import VectorMeanEstimate
from dpverify.grid import OUTER_BOX, Count, OneUnit, Transcripts
from dpverify.grid.cells import floor_log2
from dpverify.grid.coordinates import ScaledSum, SideCounts, Stretch
from dpverify.grid.joint import WithCount, least_counted
from dpverify.grid.masks import Row
from dpverify.grid.vector_queries import VectorQuery
from dpverify.plans import (
    UNIT,
    Abstained,
    Handle,
    Mechanism,
    NoNoise,
    Plan,
    RoundedGaussian,
    Stage,
)
from dpverify.plans.parameters import AtLeast, Share, probability, whole_from
from dpverify.plans.search import Prefix, Search
from dpverify.privacy import Adjacency
from dpverify.privacy.numbers import Exact, Floats, exact, quotient, root_down, settle, to_float

NOISE = RoundedGaussian(UNIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class CenteredMean(Mechanism[VectorMeanEstimate]):
    """A mean of records clipped to a ball about privately found medians; its kinds say which ball.

    center, reach, search_share, extra_steps, at_least: see the kinds.
    """

    center: PerColumn
    reach: Exact | None
    search_share: Share = Fraction(1, 4)
    extra_steps: Annotated[int, whole_from(0, "; give an integer >= 0.")] = 4
    at_least: AtLeast | None = 1

    def check_parameters(self) -> None:
        """Check that the reach is positive and stays within the floats."""
        reach = self.far()
        if reach <= 0:
            raise ValueError(f"reach = {self.reach} is not positive; give a public distance > 0.")
        if reach + max(map(abs, map(Fraction, self.center))) > Fraction(LARGEST_FLOAT):
            raise ValueError(
                f"reach = {self.reach}: center and reach together leave the floats; give a smaller "
                "reach."
            )
        settle(self, reach=reach)

    def columns(self) -> int:
        """Return the dimension."""
        return len(self.center)

    def replacement(self) -> float | tuple[float, ...]:
        """Return the public center."""
        return self.center

    @abstractmethod
    def ball(self, row: Row) -> tuple[Stretch, int]:
        """Return the map of records, and the radius in grains, by what was released before the
        sum.
        """

    @abstractmethod
    def before_sum(self) -> Prefix:
        """Return the prefix from which ``ball`` is built."""

    @abstractmethod
    def sum_share(self) -> Fraction:
        """Return the part of mu^2 that is left for the sum."""

    def summed(self) -> Plan:
        """Build the last stages: the sum, with the count in the same value unless the count is
        public.
        """
        name = SUM_AND_COUNT if self.joint() else SUM
        last = self.before_sum().part(lambda row: self.sum_stage(name, *self.ball(row)))
        return (last,) if self.counts() else (Stage(COUNT, Count(), NoNoise()), last)

    def sum_stage(
        self, name: Handle, stretch: Stretch, radius: int, share: Fraction | None = None
    ) -> Stage:
        """Build the sum in a ball of so many grains, with this share of mu^2 (by default the
        last sum's).
        """
        query = self.sum_query(stretch, radius)
        return Stage(name, OneUnit(query, radius * self.sum_scale(share)), NOISE)

    def sum_query(self, stretch: Stretch, radius: int) -> VectorQuery:
        """Build the query for the sum of all records, clipped; with their number where that is
        private.
        """
        total = ScaledSum(stretch, radius * GRAIN)
        return WithCount(total, radius * self.weight()) if self.joint() else total

    def estimate(self, transcript: Transcripts) -> VectorMeanEstimate | Abstained:
        """Return center + noisy sum / noisy count, as ``reading`` takes it."""
        return self.told(transcript)

    def told(
        self, transcript: Transcripts, *, jointly: bool = False
    ) -> VectorMeanEstimate | Abstained:
        """Return the estimate; with ``jointly``, also how columns vary together where the
        reading says it.
        """
        before = self.before_sum().row(transcript)
        stretch, radius = self.ball(before)
        scale, noise = radius * self.sum_scale(), Fraction(0)
        if self.joint():
            *total, counted = transcript.numbers(SUM_AND_COUNT)
            count = counted * scale / (UNIT * radius * self.weight())
            noise = scale / (radius * self.weight())
        else:
            total, count = list(transcript.numbers(SUM)), Fraction(transcript.number(COUNT))
        if (few := self.too_few(count)) is not None:
            return few
        per_unit = scale / (UNIT * count)
        up, below = per_unit.numerator, per_unit.denominator
        reading = self.reading([quotient(v * up, below) for v in total], stretch, radius)
        if isinstance(reading, Abstained):
            return reading
        with np.errstate(all="ignore"):
            middle = np.ldexp(np.array(stretch.center, np.float64), stretch.exponents)
            unit = np.ldexp(1.0 / np.array(stretch.factors), stretch.exponents)
            value = np.clip(middle + reading.offset * unit, -LARGEST_FLOAT, LARGEST_FLOAT)
            if jointly and reading.inverse is not None:
                spread = unit[:, np.newaxis] * (to_float(scale / count) * reading.inverse.matrix())
            else:
                spread = unit * (to_float(scale / count) * reading.widened)
            from_count = reading.along * unit * to_float(noise / count)
            own = self.cut(before, reading, radius, to_float(count))
            cut = unit * own if np.any(own) else 0.0
        return VectorMeanEstimate(
            value, to_float(count), spread, from_count, count_deviation=to_float(noise), cut=cut
        )

    def too_few(self, count: Fraction) -> Abstained | None:
        """Return the outcome for this (noisy or public) number of records that the sum rests
        on, if there are too few.
        """
        if count < self.needed():
            return Abstained(f"fewer than {self.needed()} records, by the released count")
        return None

    def reading(self, ratio: list[float], stretch: Stretch, radius: int) -> Reading | Abstained:
        """Read the mean from noisy sum / noisy count: the ratio itself, moved into the ball."""
        offset = in_ball(ratio, radius * GRAIN)
        return Reading(offset, 1.0, offset)

    def cut(self, row: Row, reading: Reading, radius: int, count: float) -> float | Floats:
        """Compute the deviation of what clipping adds to the error of normal records, in images.

        row: what was released before the sum, as for ``ball``; radius: of the ball, in grains;
        count: how many records the sum rests on. Zero unless a kind of mean computes it.
        """
        return 0.0

    def length_of(
        self, units: tuple[tuple[int, ...], tuple[int, ...]], radius: int, n: int
    ) -> float:
        """Return the root mean square length of the noise of n records that are symmetric about
        their medians, which were found.

        units: exponents and factors of the columns. radius: of the ball, in grains. The count's
        noise does not enter, for the mean is then the center. Infinite below ``at_least``
        records.
        """
        if n < self.least():
            return math.inf
        with np.errstate(all="ignore"):
            unit = np.ldexp(1.0 / np.array(units[1]), units[0])
            return float(np.linalg.norm(unit)) * to_float(radius * self.sum_scale() / n)

    def minimum_n(self, *, beta: Exact = "1e-3") -> int:
        """Return the least n such that n records, with medians within reach, abstain for their
        number with probability at most ``beta``.

        Where only records in a ball count, this assumes that an eighth of them are inside.
        """
        allowed = probability(beta, "beta")
        if not self.counts():
            return self.least()
        per_record = self.weight() * UNIT / self.sum_scale()
        return least_counted(self.least(), per_record, lambda d: NOISE.falls_short(d, allowed))

    def fewest_records(self) -> int:
        """Return ``at_least`` under replace, where it is decided on the public number of
        records; else 0.
        """
        return 0 if self.counts() else self.least()

    def counts(self) -> bool:
        """Return whether the number of records is private, and released with the sum."""
        return self.adjacency is Adjacency.ADD_REMOVE

    def joint(self) -> bool:
        """Return whether the sum is released with the number of records that it rests on."""
        return self.counts()

    def far(self) -> Fraction:
        """Return the reach."""
        if self.reach is None:
            raise TypeError("reach = None; give a public distance > 0 from the center.")
        return exact(self.reach, "reach")

    def least(self) -> int:
        """Return the number of records below which the mechanism abstains."""
        return self.at_least or 1

    def needed(self) -> int:
        """Return how many records the last sum has to rest on."""
        return self.least()

    def step_scale(self, steps: int) -> Fraction:
        """Return the noise of one of so many steps, in records: one record moves d counts by 1,
        or by 2.
        """
        moved = self.columns() * (4 if self.adjacency is Adjacency.REPLACE else 1)
        return self.noise_multiplier * root_down(moved * steps / self.search_share, ROOT_BITS)

    def side_search(self, least: Fraction) -> Search:
        """Build the search: steps down to an interval of half-width ``least``, and the extra
        ones.
        """
        halvings = max(1, -floor_log2(least / self.far()))
        return Search("side", self.columns(), halvings + self.extra_steps)

    def side_query(self, search: Search, steps: int) -> Callable[[Row], OneUnit]:
        """Build the query for the nodes of the search for medians; ``steps`` share the budget."""
        scale = self.step_scale(steps)

        def query(row: Row) -> OneUnit:
            return OneUnit(_sides(self.medians(search, row)), scale)

        return query

    def medians(self, search: Search, row: Row) -> Rationals:
        """Return the middles of the nodes' intervals, in the data's units."""
        unit = self.far() / 2**search.steps
        return _moved(self.center, unit, search.steps, row[: self.columns()])

    def refuse_far(self, exponents: Sequence[int]) -> None:
        """Refuse, before anything is drawn, a reach with centers outside the grid, because
        every possible center must lie on it.
        """
        reach = self.far()
        for c, exponent in {*zip(self.center, exponents, strict=True)}:
            if abs(Fraction(c)) + reach > OUTER_BOX * Fraction(2) ** exponent:
                raise ValueError(
                    f"A median may be {to_float(abs(Fraction(c)) + reach)} from zero, too far for "
                    "the deviations: the grid ends at 2^40 cells. Subtract a public constant from "
                    "the data, or give a smaller reach."
                )

    def weight(self) -> int:
        """Return the weight of one record in the joint release, for a radius of one grain."""
        return max(1, math.isqrt(math.isqrt(GRAIN**4 // (4 * self.columns()))))

    def sum_scale(self, share: Fraction | None = None) -> Fraction:
        """Return the noise of a sum with this share of mu^2 (by default the last sum's), for a
        radius of one grain.
        """
        # under replace a weight is free
        moved = GRAIN**2 + self.weight() ** 2 if self.counts() else 4 * GRAIN**2
        own = self.sum_share() if share is None else share
        return self.noise_multiplier * root_down(moved / own, ROOT_BITS)


@dataclass(frozen=True, slots=True)
class Reading:
    """A reading of the mean from a noisy sum over a noisy count, in the image of the map.

    offset: of the mean from the ball's center, shape (d,). widened: by what factor the sum's
    noise is larger there, in all columns alike or of each, shape (d,). along: the derivative of
    the mean by the logarithm of the count, up to the sign. inverse: its derivative by the sum's
    mean, where that is known.
    """

    offset: Floats
    widened: float | Floats
    along: Floats
    inverse: Inverse | None = None


def positive_numbers(values: Any, name: str, count: int) -> Numbers:
    """Read ``count`` positive finite numbers as floats; raises TypeError or ValueError for
    others.
    """
    numbers = numbers_of(values, name)
    if len(numbers) != count:
        raise ValueError(f"{name}: {len(numbers)} numbers for {count} columns; give one for each.")
    if min(numbers) <= 0:
        raise ValueError(
            f"{name}: {min(numbers)} is not positive; give a public guess above 0, and leave out a "
            "column that is known to be constant."
        )
    return numbers


@lru_cache(maxsize=16)
def rationals_of(values: Numbers) -> Rationals:
    """Bring public floats over one denominator."""
    return Rationals.of(values)


@lru_cache(maxsize=16)
def _moved(center: Numbers, unit: Fraction, steps: int, nodes: Row) -> Rationals:
    """Move the center; a start is the same for every step and every noise, so it is computed
    once.
    """
    by = Rationals(tuple(Search("side", len(nodes), steps).middles(nodes)), 1)
    return rationals_of(center).plus(by.times(unit))


@lru_cache(maxsize=16)
def _sides(medians: Rationals) -> SideCounts:
    return SideCounts(medians.floats())
