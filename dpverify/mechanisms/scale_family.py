"""``scale_family``: the scale of exponential, Weibull, gamma, Pareto and like records, without a
guess of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Literal

import numpy as np

from dpverify.estimation.scale_families import (
    FOLDED,
    NAMES,
    SHAPED,
    Limited,
    ScaleEstimate,
    best_cut,
    family_of,
    median_of,
)
from dpverify.estimation.scale_families import (
    ScaleFamily as Family,
)
from dpverify.estimation.stepped import CELLS, SteppedMean
from dpverify.estimation.whitening import count_of, octave_of
from dpverify.grid.coordinates import SideCounts
from dpverify.grid.linear import Integers
from dpverify.grid.steps import StepSums
from dpverify.plans import Abstained, Released
from dpverify.plans.parameters import one_of, positive, whole_from
from dpverify.plans.search import Search
from dpverify.privacy.numbers import Floats, exact, settle, to_float

# Middles of the search in an octave of the statistic: finer than the scale has to be known, since
# steps near the median decide little.
PER_OCTAVE = 64
_LARGEST = 1.7e308
_MOST_EXPONENT = 800


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleFamily(SteppedMean[ScaleEstimate]):
    """The one unknown scale of an exponential family of positive numbers, with no bound on it.

    A noisy binary search finds the median of the records to a fraction of an octave of the
    family's statistic T. Then the mean of T is released once, of records clipped to an interval
    that follows from that median, or (with a mask) of the records inside alone. It is solved for
    the scale for which the family has that mean. The interval's length balances noise and
    sampling for the number of records.

    Data: one column, shape (n,) or (n, 1). Output: ``ScaleEstimate``; ``Abstained`` below
    ``at_least`` records and for a mean that the family does not have near the released scale.
    Claim: GaussianDP(1 / noise_multiplier) up to the grid's rounding, for both adjacencies and
    all data; no delta.
    family: "exponential" (scale), "weibull" (scale; shape: the power k), "gamma" (scale; shape),
    "rayleigh", "maxwell" (sigma), "chi" (sigma; shape: degrees of freedom), "pareto" (exponent;
    shape: the least number), "laplace" (scale) and "half_normal" (sigma) about ``center``.
    outside: "clip" for records as they are; "mask" for records that were cut off at ``cap``
    before, where clipping would be biased.
    cap: public; with "mask" nothing beyond it counts. Records below the support count as its end,
    or, masked, not at all.
    unit: a public size of a record. octaves: medians are found whose statistic is within this
    many octaves (rounded up to a power of two) of the unit's statistic (of 1, for "pareto"); half
    as many cost one noisy step less.
    search_share: the part of mu^2 for the median.
    at_least: abstain below this released (or public) number; by default 60 noise multipliers
    under replace and 30 under add-remove.
    Errors: TypeError or ValueError for parameters and for data that are not a real column.
    Source: OURS (clipped and masked moments of exponential families in one release); ZZ25
    (estimation by truncation); DRS22.
    """

    family: Annotated[
        Literal[
            "exponential",
            "weibull",
            "gamma",
            "rayleigh",
            "maxwell",
            "half_normal",
            "chi",
            "pareto",
            "laplace",
        ],
        one_of(*NAMES),
    ]
    shape: Annotated[float, positive(as_given=True)] | None = None
    center: float = 0.0
    cap: Annotated[float, positive(as_given=True)] | None = None
    unit: Annotated[float, positive(as_given=True)] = 1.0
    octaves: Annotated[int, whole_from(1, most=64)] = 64

    def check_parameters(self) -> None:
        """Check that numbers are floats, that a shape is given for the families that have one and
        no other, and a cap for masks.
        """
        for name in ("shape", "center", "cap", "unit"):
            given = getattr(self, name)
            if given is not None:
                settle(self, **{name: to_float(exact(given, name))})
        self._check_shape()
        self._check_sizes()

    def _check_shape(self) -> None:
        if (self.shape is None) is (self.family in SHAPED):
            need = (
                f"give shape = {SHAPED[self.family]}" if self.family in SHAPED else "leave it out"
            )
            raise ValueError(f"shape = {self.shape} for {self.family!r}; {need}.")
        if (
            self.shape is not None
            and not self._least_shape() <= self.shape <= _LARGEST_SHAPE[self.family]
        ):
            raise ValueError(
                f"shape = {self.shape}; give one from {self._least_shape():g} to "
                f"{_LARGEST_SHAPE[self.family]:g}."
            )

    def _check_sizes(self) -> None:
        if self.cap is not None and self.outside == "clip":
            raise ValueError(
                f"cap = {self.cap}: records that were cut off before have another mean when they "
                "are clipped. Use outside='mask', or leave the cap out."
            )
        if self.cap is not None and not self._reaches(self.cap):
            raise ValueError(
                f"cap = {self.cap}: its statistic is not from 2^-800 to 2^800; give a cap above "
                "the support's end, or the data in another unit."
            )
        if not -(2.0**900) <= self.center <= 2.0**900:
            raise ValueError(f"center = {self.center}; give a finite number up to 2^900 in size.")
        if self.center and self.family not in FOLDED:
            raise ValueError(
                f"center = {self.center} for {self.family!r}, which is not about a center; "
                "subtract it from the data."
            )
        if not 2.0**-400 <= self.unit <= 2.0**400:
            raise ValueError(f"unit = {self.unit}; give one from 2^-400 to 2^400.")
        if self._family().power and not self._reaches(self.unit):
            raise ValueError(
                f"unit = {self.unit}: its power of {self._family().power:g} is outside "
                "2^-800..2^800; give the data in another unit."
            )

    def replacement(self) -> float:
        """Return the center, or the unit."""
        return self.center if self.family in FOLDED else float(self.unit)

    def search(self) -> Search:
        """Return the search over octaves of the statistic."""
        bits = PER_OCTAVE.bit_length() - 1 + (self.octaves - 1).bit_length()
        return Search("scale", 1, bits)

    def sides(self, middle: int) -> SideCounts:
        """Build the query for records above a scale's median, or further than that from the
        center.
        """
        far = float(self._family().inverse(np.array([self._statistic_of(middle)]))[0])
        if self.family not in FOLDED:
            return SideCounts((far,))
        high, low = (min(max(self.center + side * far, -_LARGEST), _LARGEST) for side in (1, -1))
        return SideCounts((high,), (low,))

    def step_query(self, edges: Released[tuple[Floats, Integers]]) -> StepSums:
        """Build the query for sums of steps of the records, or of distances for families about a
        center.
        """
        center = self.center if self.family in FOLDED else None
        return replace(SteppedMean.step_query(self, edges), center=center)

    def count_weight(self) -> int:
        """Return the weight of the count. Means of these laws are about a fifth of the interval,
        so under add-remove the number's noise matters as much as the sum's.
        """
        if self.counts():
            return CELLS * 3 // 4
        return CELLS * 7 // 4 if self.outside == "mask" else 0  # 7/4 is below the root of 3

    def edges_of(self, middle: int, octave: int) -> tuple[float, ...]:
        """Return the edges of cells whose middles are multiples of 1 / CELLS of the interval."""
        return _edges_of(self, middle, octave)

    def reading(
        self, mean: float, middle: int, octave: int, count: float, inside: float
    ) -> ScaleEstimate | Abstained:
        """Find the scale for which the family has the released mean."""
        top = self._top(middle, octave)
        near, law = top / self._released_scale(middle), self._law()
        b = law.back(mean, near)
        if b is None:
            return Abstained("no scale near the released one has the released mean")
        known = self._family()
        noise, sampling = law.relative_errors(b, inside / law.inside(b), self.noise_at(mean))
        power = abs(known.exponent())
        scale = top / b
        return ScaleEstimate(
            self.family,
            known.parameter,
            known.to_parameter(scale),
            scale,
            count,
            noise * power,
            sampling * power,
            None if self.shape is None else float(self.shape),
            float(self.center) if self.family in FOLDED else None,
        )

    def expected_error(self, n: int) -> float:
        """Predict the noise's part in the logarithm of the statistic's scale, for n records of
        the family. Infinite below ``at_least``.
        """
        if n < self.least():
            return math.inf
        cut = self._cut(octave=octave_of(n))
        law = self._law()
        return law.relative_errors(cut, n, self.noise_at(law.mean(cut)))[0]

    def _reaches(self, y: float) -> bool:
        """Tell whether the statistic of a public number is positive and no extreme float."""
        known = self._family()
        if not known.power:
            return y > known.origin
        return y > 0 and abs(known.power * math.log2(y)) <= _MOST_EXPONENT

    def _least_shape(self) -> float:
        return 2.0**-400 if self.family == "pareto" else 1 / 16

    def _family(self) -> Family:
        return family_of(self.family, None if self.shape is None else float(self.shape))

    def _law(self) -> Limited:
        return Limited(self._family().gamma, self.outside)

    def _statistic_of(self, middle: int) -> float:
        """Return the statistic at a middle of the search."""
        start = 1.0 if not self._family().power else self._family().statistic(float(self.unit))
        return float(start * 2.0 ** (middle / PER_OCTAVE))

    def _released_scale(self, middle: int) -> float:
        """Return the scale whose median is at this middle."""
        return self._statistic_of(middle) / median_of(self._family().gamma)

    def _cut(self, octave: int) -> float:
        """Return the end of the interval over the scale."""
        n = count_of(octave)
        return best_cut(self._family().gamma, self.outside, n, self.noise_at(0.3))

    def _top(self, middle: int, octave: int) -> float:
        """Return the end of the interval, at most the cap's statistic."""
        top = self._released_scale(middle) * self._cut(octave)
        if self.cap is None:
            return top
        return min(top, max(self._family().statistic(float(self.cap)), 1e-300))


@lru_cache(maxsize=64)
def _edges_of(mechanism: ScaleFamily, middle: int, octave: int) -> tuple[float, ...]:
    """Return the edges of cells whose middles are multiples of 1 / CELLS of the interval; for
    masks its two ends as well.
    """
    known, top = mechanism._family(), mechanism._top(middle, octave)
    t = top * (np.arange(CELLS) + 0.5) / CELLS
    if mechanism.outside == "mask":
        t = np.r_[0.0, t, top]
    return tuple(known.inverse(t).tolist())


_LARGEST_SHAPE = {"weibull": 8.0, "gamma": 1e3, "chi": 1e3, "pareto": 2.0**400}
