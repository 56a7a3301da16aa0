"""Search for the parameter of an exponential family: over a public range, by the median of the
records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

import numpy as np

from dpverify.estimation.family_estimates import FamilyEstimate
from dpverify.estimation.family_frames import LARGEST, kept_support
from dpverify.estimation.kept_sets import pair
from dpverify.estimation.stepped import SteppedMean
from dpverify.families import Family
from dpverify.families.given import frozen_family
from dpverify.grid.coordinates import SideCounts
from dpverify.plans.search import MOST_STEPS, Search
from dpverify.privacy.numbers import exact, settle, to_float

FINE = 16
"""Number of places of the search in a deviation of the statistic."""
_POINTS = 9  # places at which the search's unit is compared with a deviation
_TINY = 1e-120


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyMean(SteppedMean[FamilyEstimate]):
    """Mean of a family's statistic in an interval about the parameter that a noisy binary
    search for the median found.

    family, lowest, highest, kept: as in ``TruncatedMle``. No code of the family runs on data.
    """

    family: Annotated[Family, frozen_family(Family, "Poisson()")]
    lowest: float
    highest: float
    kept: Annotated[tuple[float, float], pair] | None = None

    def check_parameters(self) -> None:
        """Check that the family has the range, of not too many deviations, and that ``kept`` is
        an interval of records that it has.
        """
        for name in ("lowest", "highest"):
            settle(self, **{name: to_float(exact(getattr(self, name), name))})
        if not self.lowest < self.highest:
            raise ValueError(
                f"lowest = {self.lowest}, highest = {self.highest}: give the lower end of the "
                "range first."
            )
        ends = sorted(self.family.range())
        if not ends[0] < self.lowest < self.highest < ends[1] or not self._fits():
            raise ValueError(
                f"lowest = {self.lowest}, highest = {self.highest}: the {self.family.parameter} of "
                f"{type(self.family).__name__} is between {ends[0]:g} and {ends[1]:g}, both left "
                "out, and is searched in steps of a 16th of a deviation, up to 2^50 of them. Give "
                "a smaller public range inside."
            )
        if self.kept is not None and self.outside == "clip":
            raise ValueError(
                f"kept = {self.kept}: records of which only some were kept have another mean when "
                "they are clipped. Use outside='mask', or leave it out."
            )
        try:
            low, high = self.support()
        except (OverflowError, ValueError):
            raise ValueError(
                f"kept = {self.kept}: {type(self.family).__name__} has no statistic of an end; "
                "give an end nearer to its records, or an infinite one."
            ) from None
        if self.family.lattice and math.isfinite(high):
            low, high = math.ceil(max(low, -(2.0**60))), math.floor(high)
        if not low < high:
            raise ValueError(
                f"kept = {self.kept} holds none of the family's records, or a single count; give "
                "a longer interval."
            )

    def replacement(self) -> float:
        """Return the median in the middle of the range."""
        return self.edge(0)

    def search(self) -> Search:
        """Build the search for the family's coordinate, to a sixteenth of a deviation."""
        return Search("parameter", 1, _steps_of(self.family, *self.ends()))

    def sides(self, middle: int) -> SideCounts:
        """Build the query for the records above the median of a parameter."""
        return SideCounts((self.edge(middle),))

    # --- the range ------------------------------------------------------------------------------

    def _fits(self) -> bool:
        """Return whether the range's coordinates are numbers, few enough for a search, and
        squares of statistics are floats.
        """
        try:
            for parameter in (self.lowest, self.highest):
                ends = self.family.window(self.family.natural(float(parameter)))
                if not (max(map(abs, ends)) < 1 / _TINY and ends[1] - ends[0] > _TINY):
                    return False
            return _steps_of(self.family, *self.ends()) <= MOST_STEPS
        except (ValueError, OverflowError, ZeroDivisionError):
            return False

    def ends(self) -> tuple[float, float]:
        """Return the ends of the range in the family's coordinate."""
        ends = [self.family.coordinate(float(p)) for p in (self.lowest, self.highest)]
        return min(ends), max(ends)

    def coordinate_of(self, middle: int) -> float:
        """Return the family's coordinate at a middle of the search."""
        low, high = self.ends()
        return low + (high - low) * (middle / 2.0 ** (self.search().steps + 1) + 0.5)

    def theta_of(self, middle: int) -> float:
        """Return the natural parameter at a middle of the search."""
        return self.theta_at(middle, 0)

    def theta_at(self, middle: int, units: float) -> float:
        """Return the natural parameter so many units from a middle of the search, inside the
        range.

        A unit is one to two deviations of the statistic, where these are largest.
        """
        ends = self.ends()
        unit = (ends[1] - ends[0]) * FINE / 2.0 ** self.search().steps * 2
        v = self.coordinate_of(middle) + units * unit
        return self.family.natural(self.family.from_coordinate(min(max(v, ends[0]), ends[1])))

    def edge(self, middle: int) -> float:
        """Compute the median of the law that a middle of the search stands for."""
        t = self.family.middle(self.theta_of(middle))
        x = float(np.nan_to_num(np.array(self.family.record(np.array([t])), np.float64))[0])
        return min(max(x, -LARGEST), LARGEST)

    def support(self) -> tuple[float, float]:
        """Return the range of the statistic of records that were kept."""
        return kept_support(self.family, self.kept)


@lru_cache(maxsize=64)
def _steps_of(family: Family, low: float, high: float) -> int:
    """Count halvings of the coordinate's range down to a sixteenth of a deviation, where the
    deviation is largest of nine places.
    """
    unit, most = (high - low) / _POINTS, 0.0
    for k in range(_POINTS):
        v = low + (k + 0.5) * unit
        ends = [family.natural(family.from_coordinate(v + s * unit / 64)) for s in (-1, 1)]
        theta = family.natural(family.from_coordinate(v))
        law = family.limited(theta, *family.window(theta), "clip")
        most = max(most, math.sqrt(law.variance) * (ends[1] - ends[0]) / (unit / 32))
    return max(1, math.ceil(math.log2((high - low) * most * FINE)))
