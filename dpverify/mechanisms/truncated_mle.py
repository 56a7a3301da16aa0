"""``truncated_mle``: the parameter of any exponential family with one, from clipped or truncated records."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
from scipy.optimize import brentq

from dpverify.estimation.family_estimates import FamilyEstimate
from dpverify.estimation.family_frames import (
    LARGEST,
    Frame,
    best_frame,
    edges_in,
    kept_support,
    steepness,
)
from dpverify.estimation.kept_sets import pair
from dpverify.estimation.stepped import CELLS, SteppedMean
from dpverify.estimation.whitening import count_of, octave_of
from dpverify.families import Family
from dpverify.grid.coordinates import SideCounts
from dpverify.plans import Abstained
from dpverify.plans.search import MOST_STEPS, Search
from dpverify.privacy.numbers import exact, settle, to_float

_FINE = 16  # places of the search in a deviation of the statistic
_POINTS = 9  # at which the search's unit is compared with a deviation
_NEAR = 8  # deviations from where the search ended, in which the parameter is solved for
_TINY = 1e-120


def _known_family(value: Any, name: str) -> Family:
    if not isinstance(value, Family):
        raise TypeError(
            f"{name} = {value!r}; give a dpverify.families.Family, for example Poisson(), or an instance of your own class."
        )
    fields = {one.name for one in dataclasses.fields(value)}
    try:
        plain = {*vars(value)} <= fields and hash(value) is not None
    except TypeError:
        plain = False
    if not plain:
        raise TypeError(
            f"{name}: a {type(value).__name__} that is not all in hashable fields of a frozen dataclass; families that are equal have "
            "to be the same, so write @dataclass(frozen=True) and its numbers as fields."
        )
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedMle(SteppedMean[FamilyEstimate]):
    """The parameter of an exponential family with one: Poisson, log-normal, continuous Bernoulli, or a family of your own.

    A noisy binary search finds the median of the records, as the parameter whose law has it. Then the mean of the family's statistic T is
    released once, of records clipped to an interval about the mean under that parameter, or of those inside alone, and solved for the parameter
    for which the clipped or truncated law has that mean: of truncated records this is the maximum likelihood estimate. How long the interval
    is balances noise and sampling for the number of records.

    Data: one column, shape (n,) or (n, 1). Output: ``FamilyEstimate``; ``Abstained`` below ``at_least`` records and for a mean
    that no parameter near the searched one has. Claim: GaussianDP(1 / noise_multiplier) up to the grid's rounding, for both adjacencies and
    all data, whatever their law; no delta. No code of the family runs on data: records are compared with released numbers.
    family: of ``dpverify.families``, or your own ``Family``; ``check_family`` says which assumptions of the theory it keeps.
    lowest, highest: a public range of the parameter; the search's steps grow with its logarithm. The estimate is inside.
    outside: "clip" for records as they are; "mask" for those of which only some were ``kept``, where clipping is biased.
    kept: with "mask", the public interval of records that were kept, for example (0, 250_000).
    search_share: of mu^2, for the median. at_least: abstain below this released (or public) number; by default 60 noise multipliers
    under replace and 30 under add-remove.
    Errors: TypeError or ValueError for parameters and for data that are not a real column.
    Source: ZZ25, Algorithm 3.1 and Theorem 3.1 (truncated maximum likelihood; here by one release); OURS (clipped moments).
    """

    family: Annotated[Family, _known_family]
    lowest: float
    highest: float
    kept: Annotated[tuple[float, float], pair] | None = None

    def check_parameters(self) -> None:
        """A range that the family has, of not too many deviations; an interval of records that it has."""
        for name in ("lowest", "highest"):
            settle(self, **{name: to_float(exact(getattr(self, name), name))})
        if not self.lowest < self.highest:
            raise ValueError(
                f"lowest = {self.lowest}, highest = {self.highest}: give the lower end of the range first."
            )
        ends = sorted(self.family.range())
        if not ends[0] < self.lowest < self.highest < ends[1] or not self._fits():
            raise ValueError(
                f"lowest = {self.lowest}, highest = {self.highest}: the {self.family.parameter} of {type(self.family).__name__} is "
                f"between {ends[0]:g} and {ends[1]:g}, both left out, and is searched in steps of a 16th of a deviation, up to "
                "2^50 of them. Give a smaller public range inside."
            )
        if self.kept is not None and self.outside == "clip":
            raise ValueError(
                f"kept = {self.kept}: records of which only some were kept have another mean when they are clipped. Use "
                "outside='mask', or leave it out."
            )
        try:
            low, high = self._support()
        except (OverflowError, ValueError):
            raise ValueError(
                f"kept = {self.kept}: {type(self.family).__name__} has no statistic of an end; give an end nearer to its records, or an "
                "infinite one."
            ) from None
        if self.family.lattice and math.isfinite(high):
            low, high = math.ceil(max(low, -(2.0**60))), math.floor(high)
        if not low < high:
            raise ValueError(
                f"kept = {self.kept} holds none of the family's records, or a single count; give a longer interval."
            )

    def replacement(self) -> float:
        """The median in the middle of the range."""
        return self._edge(0)

    def search(self) -> Search:
        """Over the family's coordinate, to a sixteenth of a deviation."""
        return Search("parameter", 1, _steps_of(self.family, *self._coordinates()))

    def sides(self, middle: int) -> SideCounts:
        """Records above the median of a parameter."""
        return SideCounts((self._edge(middle),))

    def count_weight(self) -> int:
        """Half of the range of a record under add-remove; under replace all that is free, if it is needed."""
        if self.counts():
            return CELLS // 2
        return CELLS * 7 // 4 if self.outside == "mask" else 0

    def edges_of(self, middle: int, octave: int) -> tuple[float, ...]:
        """Between cells, whose middles are k / CELLS of the interval."""
        frame = frame_of(self, self.theta_of(middle), octave)
        return edges_in(self.family, frame, self.outside)

    def reading(
        self, mean: float, middle: int, octave: int, count: float, inside: float
    ) -> FamilyEstimate | Abstained:
        """The parameter for which the family has the released mean."""
        frame = frame_of(self, self.theta_of(middle), octave)
        released = frame.mean_at(self.family, mean)
        found = self._solved(frame, released, middle)
        if found is None:
            return Abstained("no parameter near the searched one has the released mean")
        at = frame.law(self.family, found, self.outside)
        if not at.slope > 0:
            return Abstained("no parameter near the searched one has the released mean")
        steep = steepness(self.family, found) / at.slope
        noise = self.noise_at(mean) * frame.length / inside
        value = self.family.textbook(found)
        return FamilyEstimate(
            type(self.family).__name__,
            self.family.parameter,
            min(max(value, self.lowest), self.highest),
            found,
            count,
            noise * steep,
            math.sqrt(at.variance / inside) * steep,
            float(self.lowest),
            float(self.highest),
        )

    def expected_error(self, n: int, *, parameter: float | None = None) -> float:
        """Of the parameter: the noise's part, for n records of the family with this parameter. Infinite below ``at_least``."""
        if parameter is None:
            raise ValueError("The noise follows the parameter; give parameter=, a guess of it.")
        if not self.lowest <= parameter <= self.highest:
            raise ValueError(
                f"parameter = {parameter} is outside of {self.lowest}..{self.highest}."
            )
        if n < self.least():
            return math.inf
        theta = self.family.natural(parameter)
        frame = frame_of(self, theta, octave_of(n))
        at = frame.law(self.family, theta, self.outside)
        inside = n * at.inside if self.outside == "mask" else n
        noise = self.noise_at((at.mean - frame.low) / frame.length) * frame.length / inside
        return noise * steepness(self.family, theta) / at.slope

    # --- the range ------------------------------------------------------------------------------

    def _fits(self) -> bool:
        """Whether the range's coordinates are numbers, few enough for a search, and squares of statistics are floats."""
        try:
            for parameter in (self.lowest, self.highest):
                ends = self.family.window(self.family.natural(float(parameter)))
                if not (max(map(abs, ends)) < 1 / _TINY and ends[1] - ends[0] > _TINY):
                    return False
            return _steps_of(self.family, *self._coordinates()) <= MOST_STEPS
        except (ValueError, OverflowError, ZeroDivisionError):
            return False

    def _coordinates(self) -> tuple[float, float]:
        ends = [self.family.coordinate(float(p)) for p in (self.lowest, self.highest)]
        return min(ends), max(ends)

    def coordinate_of(self, middle: int) -> float:
        """The family's coordinate at a middle of the search."""
        low, high = self._coordinates()
        return low + (high - low) * (middle / 2.0 ** (self.search().steps + 1) + 0.5)

    def theta_of(self, middle: int) -> float:
        """The natural parameter there."""
        return self.family.natural(self.family.from_coordinate(self.coordinate_of(middle)))

    def _edge(self, middle: int) -> float:
        t = self.family.middle(self.theta_of(middle))
        x = float(self.family.record(np.array([t]))[0])
        return min(max(x, -LARGEST), LARGEST)

    def _support(self) -> tuple[float, float]:
        """Of the statistic of records that were kept."""
        return kept_support(self.family, self.kept)

    def _solved(self, frame: Frame, released: float, middle: int) -> float | None:
        """The natural parameter whose law has this mean: near where the search ended, or at the end of the range."""
        family, outside = self.family, self.outside
        ends, here = self._coordinates(), self.coordinate_of(middle)
        far = _NEAR * (ends[1] - ends[0]) * _FINE / 2.0 ** self.search().steps * 2
        low, high = max(ends[0], here - far), min(ends[1], here + far)

        def mean(v: float) -> float:
            theta = family.natural(family.from_coordinate(v))
            return frame.law(family, theta, outside).mean - released

        if mean(low) >= 0:
            return family.natural(family.from_coordinate(low)) if low == ends[0] else None
        if mean(high) <= 0:
            return family.natural(family.from_coordinate(high)) if high == ends[1] else None
        return family.natural(family.from_coordinate(float(brentq(mean, low, high))))


@lru_cache(maxsize=64)
def _steps_of(family: Family, low: float, high: float) -> int:
    """Halvings of the coordinate's range down to a sixteenth of a deviation, where the deviation is largest of nine places."""
    unit, most = (high - low) / _POINTS, 0.0
    for k in range(_POINTS):
        v = low + (k + 0.5) * unit
        ends = [family.natural(family.from_coordinate(v + s * unit / 64)) for s in (-1, 1)]
        theta = family.natural(family.from_coordinate(v))
        law = family.limited(theta, *family.window(theta), "clip")
        most = max(most, math.sqrt(law.variance) * (ends[1] - ends[0]) / (unit / 32))
    return max(1, math.ceil(math.log2((high - low) * most * _FINE)))


@lru_cache(maxsize=1 << 10)
def frame_of(mechanism: TruncatedMle, theta: float, octave: int) -> Frame:
    """Choose the interval for this parameter and 2^(octave / 4) records."""
    number = float(count_of(octave))
    return best_frame(
        mechanism.family, mechanism._support(), theta, mechanism.outside, number, mechanism.noise_at
    )
