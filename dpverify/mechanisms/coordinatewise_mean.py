"""``coordinatewise_mean``: the mean about medians found column by column, with the same noise in
every column.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

from flint import arb

from dpverify.estimation.clipping import Numbers
from dpverify.estimation.column_grids import TYPICAL, clipped_share, stretch_to, units_of
from dpverify.estimation.median_centered import (
    NOISE,
    CenteredMean,
    positive_numbers,
    rationals_of,
)
from dpverify.estimation.rationals import Rationals
from dpverify.grid.coordinates import Stretch
from dpverify.grid.masks import Row
from dpverify.plans import Plan
from dpverify.plans.parameters import Rational
from dpverify.plans.search import Prefix, Search
from dpverify.privacy.balls import ball, enclose
from dpverify.privacy.numbers import settle


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatewiseMean(CenteredMean):
    """The mean of vectors by folklore: a range for every column, a ball, spherical Gaussian
    noise.

    Two steps: noisy binary searches for the medians of all columns at once; the noisy sum of the
    records clipped to a ball about them, of radius 2 sqrt(t) + sqrt(2 s^2 ln(1 / clipped)), with
    t the sum of the variances and s the largest deviation.

    Data: shape (n, d), d = len(center), in any unit. Output: ``VectorMeanEstimate``, or
    ``Abstained`` when the released count is below ``at_least``.
    Claim: GaussianDP(1 / noise_multiplier) up to the grid's rounding, for both adjacencies.
    Error: for normal records about sqrt(t / n) + 4 sqrt(d t) / (n mu) under replace, as long as n
    is some times sqrt(d) / mu; with fewer the medians are missed, and the error is that of the
    reach. This is a baseline: ``VarianceAwareMean`` adds less noise wherever columns differ.
    center, reach: public; every median is searched within reach of the center.
    deviations: a public guess of each column's standard deviation; too small a guess clips
    records.
    clipped: the largest share of normal records that the ball may clip.
    search_share: the part of mu^2 for the searches.
    extra_steps: steps of the search for medians beyond one for each halving of reach down to the
    least deviation; they repeat steps that decide nothing.
    at_least: abstain below this released count.
    Errors: TypeError or ValueError for parameters and for data of another shape.
    Source: DRS22 (the Gaussian mechanism and its composition); the search is OURS.
    """

    deviations: Numbers
    clipped: Annotated[Rational, clipped_share("1e-6")] = Fraction(1, 10**6)

    def check_parameters(self) -> None:
        """Check for positive deviations, one for each column, that leave all medians on
        the grid.
        """
        CenteredMean.check_parameters(self)
        given = positive_numbers(self.deviations, "deviations", self.columns())
        settle(self, deviations=given)
        self.refuse_far(units_of(self._weights(), self._trace())[0])

    def plan(self) -> Plan:
        """Search for the medians, then release the clipped sum."""
        search = self._search()
        return (*search.elements(self.side_query(search, search.steps), NOISE), *self.summed())

    def before_sum(self) -> Prefix:
        """Return the nodes of the search, on which the sum depends."""
        search = self._search()
        return Prefix().then(search, search.steps)

    def ball(self, row: Row) -> tuple[Stretch, int]:
        """Return the map to one unit for all columns, and the public radius."""
        medians = self.medians(self._search(), row)
        return stretch_to(medians, self._weights(), self._trace()), self._radius()

    def expected_error(self, n: int) -> float:
        """Predict the root mean square length of the noise, in the data's units, for n records
        that are symmetric about their medians, where the searches found these.

        Infinite below ``at_least`` records. With too few records for the searches the error is
        that of the reach, which this prediction leaves out.
        """
        return self.length_of(units_of(self._weights(), self._trace()), self._radius(), n)

    def sum_share(self) -> Fraction:
        """Return the share of mu^2 that the search leaves."""
        return 1 - self.search_share

    def _trace(self) -> Fraction:
        return rationals_of(self.deviations).squares()

    def _weights(self) -> Rationals:
        return Rationals((1,) * self.columns(), 1)

    def _search(self) -> Search:
        return self.side_search(Fraction(min(self.deviations)))

    def _radius(self) -> int:
        """Return the clip radius in grains, rounded down; sqrt(t) is ``TYPICAL`` grains."""
        part = Fraction(max(self.deviations)) ** 2 / self._trace()

        def multiple() -> arb:
            return 2 + (-2 * ball(part) * ball(self.clipped).log()).sqrt()

        return math.floor(enclose(multiple).lower * TYPICAL)
