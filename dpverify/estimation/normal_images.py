"""Images on the grid of normal records of known deviations: units, balls, public sets, and the
mean that a sum over counted records implies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dpverify.estimation.clipped_response import Outside, Response, response_of
from dpverify.estimation.clipping import Numbers
from dpverify.estimation.column_grids import GRAIN, units_of
from dpverify.estimation.kept_response import back, cut_of
from dpverify.estimation.kept_sets import Kept, in_cells
from dpverify.estimation.median_centered import Reading, rationals_of
from dpverify.estimation.rationals import Rationals
from dpverify.grid import OUTER_BOX
from dpverify.grid.cells import floor_log2
from dpverify.grid.coordinates import Stretch
from dpverify.grid.linear import Integers
from dpverify.grid.masks import Row
from dpverify.grid.public_sets import PublicSet
from dpverify.plans import Abstained
from dpverify.privacy.numbers import Floats

_PER_DEVIATION = 16  # centers are multiples of at most a 16th of a deviation
_LARGEST = 2.0**100


@dataclass(frozen=True, slots=True)
class NormalImages:
    """Normal records as images: columns of known deviations in units of these; the expected
    squared length of a record is d.

    center, deviations: public, in the data's units. kept: the public set in which records were
    kept, with "mask".
    """

    center: Numbers
    deviations: Numbers
    outside: Outside
    kept: Kept | None

    def units(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Choose exponents and factors of columns."""
        return units_of(_squares(self.deviations), Fraction(len(self.deviations)))

    def deviation(self) -> float:
        """Compute the root mean square of the columns' deviations in images."""
        exponents, factors = self.units()
        own = np.ldexp(np.array(self.deviations), [-e for e in exponents])
        return float(np.sqrt(np.mean((own * factors) ** 2)))

    def shifts(self) -> tuple[int, ...]:
        """Choose the shifts: centers are multiples of 2^shift cells."""
        pairs = zip(self.deviations, self.units()[0], strict=True)
        return tuple(max(0, floor_log2(Fraction(s) / _PER_DEVIATION) - e) for s, e in pairs)

    def grains(self, length: float) -> int:
        """Return a number of deviations in grains, rounded down."""
        return max(1, math.floor(length * self.deviation() / GRAIN))

    def ball(self, center: Row, length: float) -> tuple[Stretch, int]:
        """Build the ball about a center in cells, of so many deviations."""
        return Stretch(center, *self.units()), self.grains(length)

    def public_set(self, stretch: Stretch) -> PublicSet | None:
        """Return the set in which images were kept."""
        if self.kept is None:
            return None
        origin = rationals_of(self.center).cells(stretch.exponents)
        return in_cells(self.kept, stretch, origin, self.deviation())

    def response(self, radius: int) -> Response:
        """Return the response of the mean to a ball of so many grains, where no set cuts it."""
        return response_of(len(self.deviations), radius * GRAIN / self.deviation(), self.outside)

    def reading(self, ratio: list[float], stretch: Stretch, radius: int) -> Reading | Abstained:
        """Find the mean for which the records that count in the ball have this mean."""
        offset, unit = np.clip(np.array(ratio), -_LARGEST, _LARGEST), self.deviation()
        kept = self.public_set(stretch)
        if kept is None:
            law = self.response(radius)
            far = law.back(float(np.linalg.norm(offset)) / unit)
            if far is None:
                return Abstained("the mean is too far from the released center")
            place, inverse = law.inverse(offset, far)
        else:
            cut, axis = cut_of(kept, radius * GRAIN / unit, unit, len(self.deviations))
            solution = back(cut, axis, offset / unit)
            if solution is None:
                return Abstained(
                    "no mean near the released center, of which enough records count, has these "
                    "records kept"
                )
            place, inverse = solution[0] * unit, solution[1]
        return Reading(place, inverse.rows(), inverse.times(offset), inverse)

    def centers(self, stretch: Stretch, radius: int, offsets: Floats) -> Integers:
        """Compute the next centers in their steps, from the means of what counts in the ball, shape
        (size, d), element by element.

        Where a public set cuts the ball, a center is the mean of the records that count, for a
        center need not be the mean of all.
        """
        lengths = _lengths(offsets)
        if self.kept is None:
            ratios = self.response(radius).ratios(lengths / self.deviation())
        else:
            ratios = radius * GRAIN / np.maximum(lengths, float(radius * GRAIN))
        steps = np.ldexp(1.0, self.shifts())
        cells = np.array(stretch.center) + offsets * ratios[:, np.newaxis] / np.array(
            stretch.factors
        )
        most = np.floor(OUTER_BOX / steps)
        centers: Integers = np.clip(np.rint(cells / steps), -most, most).astype(np.int64)
        return centers


def _lengths(offsets: Floats) -> Floats:
    """Compute the length of each row, column by column, which gives the same sum in every batch."""
    total = np.zeros(len(offsets))
    for column in offsets.T:
        total += np.square(column)
    return np.sqrt(total)


@lru_cache(maxsize=16)
def _squares(deviations: Numbers) -> Rationals:
    own = rationals_of(deviations)
    return Rationals(tuple(s * s for s in own.numerators), own.denominator**2)
