"""Means about privately found medians: parameters, the search for the medians, and the clipped sum."""

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
from dpverify.plans import UNIT, Abstained, Mechanism, NoNoise, Plan, RoundedGaussian, Stage
from dpverify.plans.parameters import AtLeast, Share, probability, whole_from
from dpverify.plans.search import Prefix, Search
from dpverify.privacy import Adjacency
from dpverify.privacy.numbers import Exact, exact, root_down, settle, to_float

NOISE = RoundedGaussian(UNIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class CenteredMean(Mechanism[VectorMeanEstimate]):
    """A mean of records clipped to a ball about privately found medians; its kinds say which ball.

    center, reach, search_share, extra_steps, at_least: see the kinds.
    """

    center: PerColumn
    reach: Exact
    search_share: Share = Fraction(1, 4)
    extra_steps: Annotated[int, whole_from(0, "; give an integer >= 0.")] = 4
    at_least: AtLeast = 1

    def check_parameters(self) -> None:
        """A positive reach that stays within the floats."""
        reach = exact(self.reach, "reach")
        if reach <= 0:
            raise ValueError(f"reach = {self.reach} is not positive; give a public distance > 0.")
        if reach + max(map(abs, map(Fraction, self.center))) > Fraction(LARGEST_FLOAT):
            raise ValueError(
                f"reach = {self.reach}: center and reach together leave the floats; give a smaller "
                "reach."
            )
        settle(self, reach=reach)

    def columns(self) -> int:
        """The dimension."""
        return len(self.center)

    def replacement(self) -> float | tuple[float, ...]:
        """The public center."""
        return self.center

    @abstractmethod
    def ball(self, row: Row) -> tuple[Stretch, int]:
        """The map of records, and the radius in grains, by what was released before the sum."""

    @abstractmethod
    def before_sum(self) -> Prefix:
        """What ``ball`` is built from."""

    @abstractmethod
    def sum_share(self) -> Fraction:
        """The part of mu^2 that is left for the sum."""

    def summed(self) -> Plan:
        """The last stages: the sum, with the count in the same value unless the count is public."""

        def build(row: Row) -> Stage:
            stretch, radius = self.ball(row)
            total = ScaledSum(stretch, radius * GRAIN)
            query = WithCount(total, radius * self._weight()) if counted else total
            return Stage(name, OneUnit(query, radius * self._scale()), NOISE)

        counted = self.adjacency is Adjacency.ADD_REMOVE
        name = "sum and count" if counted else "sum"
        last = self.before_sum().part(build)
        return (last,) if counted else (Stage(COUNT, Count(), NoNoise()), last)

    def estimate(self, transcript: Transcripts) -> VectorMeanEstimate | Abstained:
        """center + noisy sum / noisy count, moved into the ball first."""
        stretch, radius = self.ball(self.before_sum().row(transcript))
        scale, noise = radius * self._scale(), Fraction(0)
        if self.adjacency is Adjacency.ADD_REMOVE:
            *total, counted = transcript.numbers(SUM_AND_COUNT)
            count = counted * scale / (UNIT * radius * self._weight())
            noise = scale / (radius * self._weight())
        else:
            total, count = list(transcript.numbers(SUM)), Fraction(transcript.number(COUNT))
        if count < self.at_least:
            return Abstained(f"fewer than {self.at_least} records, by the released count")
        per_unit = scale / (UNIT * count)
        cells = [Fraction(2) ** exponent for exponent in stretch.exponents]
        middle = [to_float(c * cell) for c, cell in zip(stretch.center, cells, strict=True)]
        with np.errstate(all="ignore"):
            unit = np.ldexp(1.0 / np.array(stretch.factors), stretch.exponents)
            along = in_ball([to_float(value * per_unit) for value in total], radius * GRAIN) * unit
            value = np.clip(np.array(middle) + along, -LARGEST_FLOAT, LARGEST_FLOAT)
            spread = unit * to_float(scale / count)
            from_count = along * to_float(noise / count)
        own = to_float(noise)
        return VectorMeanEstimate(value, to_float(count), spread, from_count, count_deviation=own)

    def length_of(
        self, units: tuple[tuple[int, ...], tuple[int, ...]], radius: int, n: int
    ) -> float:
        """The root mean square length of the noise of n records that are symmetric about their medians, which were found.

        units: exponents and factors of the columns. radius: of the ball, in grains. The count's noise does not enter, for
        the mean is then the center. Infinite below ``at_least`` records.
        """
        if n < self.at_least:
            return math.inf
        with np.errstate(all="ignore"):
            unit = np.ldexp(1.0 / np.array(units[1]), units[0])
            return float(np.linalg.norm(unit)) * to_float(radius * self._scale() / n)

    def minimum_n(self, *, beta: Exact = "1e-3") -> int:
        """The least n such that n records abstain with probability at most ``beta``."""
        allowed = probability(beta, "beta")
        if self.adjacency is Adjacency.REPLACE:
            return self.at_least
        per_record = self._weight() * UNIT / self._scale()
        return least_counted(self.at_least, per_record, lambda d: NOISE.falls_short(d, allowed))

    def fewest_records(self) -> int:
        """Under replace: ``at_least``, decided on the public number of records."""
        return 0 if self.adjacency is Adjacency.ADD_REMOVE else self.at_least

    def step_scale(self, steps: int) -> Fraction:
        """The noise of one of so many steps, in records: one moves d counts by 1, or by 2."""
        moved = self.columns() * (4 if self.adjacency is Adjacency.REPLACE else 1)
        return self.noise_multiplier * root_down(moved * steps / self.search_share, ROOT_BITS)

    def side_search(self, least: Fraction) -> Search:
        """Steps down to an interval of half-width ``least``, and the extra ones."""
        halvings = max(1, -floor_log2(least / exact(self.reach, "reach")))
        return Search("side", self.columns(), halvings + self.extra_steps)

    def side_query(self, search: Search, steps: int) -> Callable[[Row], OneUnit]:
        """Of the nodes of the search for medians; ``steps`` share the budget."""
        scale = self.step_scale(steps)

        def query(row: Row) -> OneUnit:
            return OneUnit(_sides(self.medians(search, row)), scale)

        return query

    def medians(self, search: Search, row: Row) -> Rationals:
        """The middles of the nodes' intervals, in the data's units."""
        unit = exact(self.reach, "reach") / 2**search.steps
        return _moved(self.center, unit, search.steps, row[: self.columns()])

    def refuse_far(self, exponents: Sequence[int]) -> None:
        """Before anything is drawn: every possible center must lie on the grid."""
        reach = exact(self.reach, "reach")
        for c, exponent in {*zip(self.center, exponents, strict=True)}:
            if abs(Fraction(c)) + reach > OUTER_BOX * Fraction(2) ** exponent:
                raise ValueError(
                    f"A median may be {to_float(abs(Fraction(c)) + reach)} from zero, too far for the "
                    "deviations: the grid ends at 2^40 cells. Subtract a public constant from the "
                    "data, or give a smaller reach."
                )

    def _weight(self) -> int:
        """Of one record in the joint release, for a radius of one grain."""
        return max(1, math.isqrt(math.isqrt(GRAIN**4 // (4 * self.columns()))))

    def _scale(self) -> Fraction:
        """The noise of the sum for a radius of one grain."""
        replaced = self.adjacency is Adjacency.REPLACE
        moved = 4 * GRAIN**2 if replaced else GRAIN**2 + self._weight() ** 2
        return self.noise_multiplier * root_down(moved / self.sum_share(), ROOT_BITS)


def positive_numbers(values: Any, name: str, count: int) -> Numbers:
    """Read ``count`` positive finite numbers as floats; raises TypeError or ValueError for others."""
    found = numbers_of(values, name)
    if len(found) != count:
        raise ValueError(f"{name}: {len(found)} numbers for {count} columns; give one for each.")
    if min(found) <= 0:
        raise ValueError(
            f"{name}: {min(found)} is not positive; give a public guess above 0, and leave out a "
            "column that is known to be constant."
        )
    return found


@lru_cache(maxsize=16)
def rationals_of(values: Numbers) -> Rationals:
    """Bring public floats over one denominator."""
    return Rationals.of(values)


@lru_cache(maxsize=16)
def _moved(center: Numbers, unit: Fraction, steps: int, nodes: Row) -> Rationals:
    """Move the center; a start is the same for every step and every noise, so it is computed once."""
    by = Rationals(tuple(Search("side", len(nodes), steps).middles(nodes)), 1)
    return rationals_of(center).plus(by.times(unit))


@lru_cache(maxsize=16)
def _sides(medians: Rationals) -> SideCounts:
    return SideCounts(medians.floats())
