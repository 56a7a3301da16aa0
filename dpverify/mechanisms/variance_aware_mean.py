"""``variance_aware_mean``: the mean of columns of unlike spreads, each with noise to match."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
import scipy

from dpverify.estimation.budget_shares import ROOT_BITS
from dpverify.estimation.clipping import Numbers
from dpverify.estimation.column_grids import GRAIN, TYPICAL, stretch_to, units_of
from dpverify.estimation.cutting import clipped_deviation
from dpverify.estimation.median_centered import (
    NOISE,
    CenteredMean,
    Reading,
    positive_numbers,
    rationals_of,
)
from dpverify.estimation.rationals import Rationals
from dpverify.grid import OneUnit
from dpverify.grid.coordinates import NormCounts, SideCounts, Stretch
from dpverify.grid.masks import Row
from dpverify.plans import UNIT, Handle, Plan, Released, Stage, Transcripts
from dpverify.plans.parameters import Share, whole_from
from dpverify.plans.search import Prefix, Search
from dpverify.privacy import Adjacency
from dpverify.privacy.numbers import Exact, Floats, exact, root_down, settle, to_float
from dpverify.randomness.bits import IntArray

_HALF_NORMAL = Fraction("0.6745")  # half of all normal records are within so many deviations
NORMS = Handle("norms")
_FINEST = 1 << 21  # center and reach, in least deviations: then every possible grid holds them
_SURELY = 3  # standard deviations of the noise that the records beyond the radius are allowed


def _root_of_two(sixteenths: int) -> Fraction:
    """Return 2^(sixteenths / 16), rounded down to a multiple of 2^-14."""
    value = TYPICAL**16 << sixteenths if sixteenths >= 0 else TYPICAL**16 >> -sixteenths
    for _ in range(4):
        value = math.isqrt(value)
    return Fraction(value, TYPICAL)


RADII = tuple(_root_of_two(i) for i in (*range(-16, 17), 24, 32, 48, 64))
"""Close to 1, where the norms of normal records lie, in steps of 4%; farther out in larger ones."""


def _checked_radii(radii: Any, name: str) -> tuple[Fraction, ...]:
    """Read increasing multiples."""
    if not isinstance(radii, (list, tuple)):
        raise TypeError(f"{name} = {radii!r}; give a sequence of multiples, say (1, '3/2', 2, 4).")
    exact_radii = tuple(exact(radius, name) for radius in radii)
    edges = [math.floor(radius * TYPICAL) for radius in exact_radii]
    rising = all(low < high for low, high in zip([0, *edges], edges, strict=False))
    if not exact_radii or not rising or exact_radii[-1] > 64:
        raise ValueError(
            f"{name} = {radii}; give at least one, in increasing order, from 2^-14 to 64, say "
            "(1, '3/2', 2, 4)."
        )
    return exact_radii


@lru_cache(maxsize=64)
def _in_grains(radii: tuple[Exact, ...]) -> tuple[int, ...]:
    return tuple(math.floor(Fraction(radius) * TYPICAL) for radius in radii)


@lru_cache(maxsize=64)
def _doublings(least: Fraction, reach: Fraction) -> int:
    """Find the least power of two k, at least 2, for which least 2^k is beyond the reach."""
    doublings = 2
    while least * 2**doublings <= reach:
        doublings *= 2
    return doublings


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceAwareMean(CenteredMean):
    """The mean of vectors with noise that follows each column's spread, about privately found
    medians.

    Four steps: noisy binary searches for the medians of all columns at once; if the deviations
    are not given, likewise for the medians of |x_j - median_j|; noisy numbers of records by their
    norm, where column j counts in units of sqrt(s_j), which give the radius that few records
    exceed; the noisy sum of the records clipped to that ball.

    Data: shape (n, d), d = len(center), in any unit. Output: ``VectorMeanEstimate``, or
    ``Abstained`` when the released count is below ``at_least``.
    Claim: GaussianDP(1 / noise_multiplier) up to the grid's rounding, for both adjacencies.
    Error: for normal records of standard deviations s_j under replace about
    sqrt(sum s_j^2 / n) + 2 sum s_j / (n mu), as long as n is some times sqrt(d) / mu; with fewer
    the medians are missed, and the error is that of the reach.
    center, reach: public; every median is searched within reach of the center.
    deviations: a public guess of each column's standard deviation; exact factors do not matter.
    If None, they are searched from ``least_deviation`` (public, in the data's units) to the
    reach.
    search_share, norm_share: the parts of mu^2 for the searches and for the norms.
    extra_steps: steps of the search for medians beyond one for each halving of reach down to the
    least deviation; they repeat steps that decide nothing. The search for deviations has half as
    many.
    radii: candidates, as multiples of the root mean square norm to expect from the deviations.
    one_in: one record in this many, and what noise may hide, may be clipped.
    at_least: abstain below this released count.
    Errors: TypeError or ValueError for parameters and for data of another shape.
    Source: ALNP23 (PLAN); DRS22 (the Gaussian mechanism and its composition).
    """

    deviations: Numbers | None = None
    least_deviation: Exact | None = None
    norm_share: Share = Fraction(1, 20)
    radii: Annotated[tuple[Exact, ...], _checked_radii] = RADII
    one_in: Annotated[int, whole_from(2, "; give an integer of at least 2, say 1000.")] = 1000

    def check_parameters(self) -> None:
        """Check for positive deviations or a least one, and shares that are below 1 together."""
        CenteredMean.check_parameters(self)
        if self.search_share + self.norm_share >= 1:
            raise ValueError(
                f"search_share + norm_share = {self.search_share + self.norm_share} leaves nothing "
                "for the sum; give shares that add up to less than 1."
            )
        if (self.deviations is None) is (self.least_deviation is None):
            raise ValueError(
                "Give either deviations, one for each column, or least_deviation, to search from "
                "there on."
            )
        if self.deviations is not None:
            given = positive_numbers(self.deviations, "deviations", self.columns())
            settle(self, deviations=given)
            weights = rationals_of(given)
            self.refuse_far(units_of(weights, weights.total())[0])
        else:
            self._check_least()

    def plan(self) -> Plan:
        """Release the searches, the norms and the sum; each stage is built from the
        earlier ones.
        """
        sides, spreads = self._sides(), self._spreads()
        steps = sides.steps + (0 if spreads is None else spreads.steps)
        stages = sides.elements(self.side_query(sides, steps), NOISE)
        if spreads is not None:
            query = self._spread_query(steps)
            stages += spreads.elements(query, NOISE, Prefix().then(sides, sides.steps))
        return (*stages, self._searched().part(self._norms), *self.summed())

    def before_sum(self) -> Prefix:
        """Return the nodes of the searches, and which radius is chosen."""
        return self._searched().also(Released((NORMS,), self._chosen), (0,))

    def ball(self, row: Row) -> tuple[Stretch, int]:
        """Return the map of column j to units of sqrt(deviation_j), and the chosen radius."""
        return self._stretch(row[:-1]), self._edges()[row[-1]]

    def cut(self, row: Row, reading: Reading, radius: int, count: float) -> float | Floats:
        """Compute what clipping adds to the error, for columns of the deviations that were given
        or found.
        """
        spreads, length = np.array(self._deviations(row[:-1]).floats()), TYPICAL * GRAIN
        return length * clipped_deviation(spreads, radius / TYPICAL, count, reading.offset / length)

    def expected_error(self, n: int, *, deviations: Numbers | None = None) -> float:
        """Predict the root mean square length of the noise, in the data's units, for n
        independent normal columns of these deviations, whose medians and spreads were found.

        deviations: by default the declared ones. The radius is the one that few norms exceed,
        where the squared norms are taken to be chi-square of as many degrees as have their
        variance. Infinite below ``at_least`` records. With too few records for the searches the
        error is that of the reach, which this prediction leaves out. Raises ValueError without
        deviations.
        """
        if deviations is None and self.deviations is None:
            raise ValueError(
                "The noise follows the columns' spreads; give deviations=, a guess of them."
            )
        spreads = self.deviations if deviations is None else deviations
        weights = rationals_of(positive_numbers(spreads, "deviations", self.columns()))
        share = np.array(spreads) / math.fsum(spreads or ())
        half = 1 / (2 * float(share @ share))  # half of the degrees of freedom
        hidden, last = _SURELY * to_float(self._norm_scale()), len(self.radii) - 1
        place = next(
            place
            for place, radius in enumerate(self.radii)
            if place == last
            or n * scipy.special.gammaincc(half, half * float(radius) ** 2)
            <= n / self.one_in + hidden * math.sqrt(last + 1 - place)
        )
        return self.length_of(units_of(weights, weights.total()), self._edges()[place], n)

    def sum_share(self) -> Fraction:
        """Return the share of mu^2 that the searches and the norms leave."""
        return 1 - self.search_share - self.norm_share

    def _check_least(self) -> None:
        least, reach = exact(self.least_deviation or 0, "least_deviation"), self.far()
        if least <= 0:
            raise ValueError(
                f"least_deviation = {self.least_deviation} is not positive; give the least spread "
                "that matters to you, in the data's units."
            )
        farthest = reach + rationals_of(self.center).farthest()
        if not least <= reach <= farthest <= least * _FINEST:
            raise ValueError(
                f"least_deviation = {self.least_deviation}: center and reach together are "
                f"{to_float(farthest / least)} times that; give a number from 1 to 2^21, by a "
                "smaller reach or a larger least deviation."
            )
        settle(self, least_deviation=least)

    def _sides(self) -> Search:
        given = self.deviations
        least = exact(self.least_deviation or 0, "least") if given is None else min(given)
        return self.side_search(Fraction(least))

    def _spreads(self) -> Search | None:
        """Return the search over factors of two from the least deviation to the reach; None for
        given deviations.
        """
        if self.least_deviation is None:
            return None
        halvings = self._doublings().bit_length() - 1
        return Search("spread", self.columns(), halvings + self.extra_steps // 2)

    def _doublings(self) -> int:
        """Return the number of doublings that the search is over: a power of two, of which the
        last goes beyond the reach.
        """
        return _doublings(exact(self.least_deviation or 0, "least_deviation"), self.far())

    def _spread_query(self, steps: int) -> Callable[[Row], OneUnit]:
        sides, scale = self._sides(), self.step_scale(steps)

        def query(row: Row) -> OneUnit:
            halves = self._deviations(row).times(_HALF_NORMAL)
            middles = self.medians(sides, row)
            ends = (middles.plus(halves, sign).floats() for sign in (1, -1))
            return OneUnit(SideCounts(*ends), scale)

        return query

    def _deviations(self, row: Row) -> Rationals:
        """Return the given deviations, or least 2^k (1 + f), with k the whole and f the
        fractional part of the doublings, but at most the reach.
        """
        spreads = self._spreads()
        if spreads is None:
            return rationals_of(self.deviations or ())
        least, reach = exact(self.least_deviation or 0, "least_deviation"), self.far()
        doublings = self._doublings()
        whole_range = 1 << spreads.steps
        middles = spreads.middles(row[self.columns() : 2 * self.columns()])
        parts = (divmod((m + whole_range) * doublings, 2 * whole_range) for m in middles)
        raised = Rationals(tuple((2 * whole_range + r) << k for k, r in parts), 2 * whole_range)
        return raised.times(least).at_most(reach)

    def _searched(self) -> Prefix:
        sides, spreads = self._sides(), self._spreads()
        prefix = Prefix().then(sides, sides.steps)
        return prefix if spreads is None else prefix.then(spreads, spreads.steps)

    def _stretch(self, row: Row) -> Stretch:
        weights = self._deviations(row)
        return stretch_to(self.medians(self._sides(), row), weights, weights.total())

    def _norms(self, row: Row) -> Stage:
        edges = tuple(radius * GRAIN for radius in self._edges())
        return Stage(
            NORMS, OneUnit(NormCounts(self._stretch(row), edges), self._norm_scale()), NOISE
        )

    def _norm_scale(self) -> Fraction:
        moved = 2 if self.adjacency is Adjacency.REPLACE else 1
        return self.noise_multiplier * root_down(moved / self.norm_share, ROOT_BITS)

    def _edges(self) -> tuple[int, ...]:
        """Return the radii in grains."""
        return _in_grains(self.radii)

    def _chosen(self, before: Transcripts) -> IntArray:
        """Choose the first radius that few records exceed, shape (size, 1); the last one if there
        is none.

        Few are one in ``one_in`` of all records, and three standard deviations of the noise in
        their number, which is the noise of all places beyond.
        """
        counts = before[NORMS]
        last = len(self.radii) - 1
        few = sum(counts.T) // self.one_in
        chosen, beyond = np.full(len(before), last, np.int64), counts[:, last + 1]
        for place in range(last - 1, -1, -1):
            beyond = beyond + counts[:, place + 1]
            hidden = math.isqrt(_SURELY**2 * (last + 1 - place) * int(UNIT) ** 2)
            chosen[np.asarray(beyond <= few + hidden, np.bool_)] = place
        return chosen[:, np.newaxis]
