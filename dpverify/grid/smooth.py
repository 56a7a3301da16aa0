"""Medians of columns, each with a smooth bound on how far a record can move it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.cells import quantize
from dpverify.grid.queries import UNCLIPPED, Query
from dpverify.grid.records import Records
from dpverify.grid.transcripts import NOTHING, Transcripts
from dpverify.grid.views import View
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.hypotheses import Quantity
from dpverify.privacy.numbers import exact, settle
from dpverify.privacy.rules import sensitivity_lemma

_FARTHEST_CELL, _OUTER_BOX = 1 << 50, 1 << 40
_STEEPEST, _FLATTEST = Fraction(1, 2), 1 - Fraction(1, 1 << 12)
_GUARD_BITS = 3
_WORD_LIMIT = 1 << 62

Columns = tuple[tuple[int, int, int], ...]
"""Bounds (lower, upper, exponent) of every column, in cells of 2^exponent."""


@dataclass(frozen=True, slots=True)
class SmoothMedians(Query):
    """Record of rank ceil(n / 2) and a scale for every column, in cells and in 2^-q cells.

    Records z in cells of 2^exponent are clamped to lower..upper and sorted, with z_j = lower
    for j < 1 and upper for j > n. The scale is the larger of one cell and of W_k
    (z_(m+t) - z_(m+t-k-1)) over k >= 0 and t = 0..k+1, m the rank, W the weights. They fall
    from W_0 = 2^q, by a factor of ``decay`` at the most from one to the next, and end where one
    cell is more than the rest could give. Needs at least one record. Raises ValueError for
    bounds without room between them or more than 2^50 cells from zero, and for a decay outside
    [1/2, 1 - 2^-12].
    """

    is_table = True
    columns: Columns
    decay: Fraction
    clipped: bool = True

    def __post_init__(self) -> None:
        settle(self, decay=exact(self.decay, "decay"))
        if not _STEEPEST <= self.decay <= _FLATTEST:
            raise ValueError(
                f"decay = {self.decay} is outside [1/2, 1 - 2^-12]: the scale would not be worth "
                "its noise. Give a fraction such as 19/20, or a larger budget."
            )
        for lower, upper, _ in self.columns:
            if not lower < upper:
                raise ValueError(f"bounds {lower} and {upper} (in cells) leave no room between.")
            if max(abs(lower), abs(upper)) > _FARTHEST_CELL:
                raise ValueError(
                    f"The bounds are {max(abs(lower), abs(upper))} cells from zero, beyond the "
                    "2^50 of the public grid. Subtract a public constant from the data, or give "
                    "fewer cells."
                )

    @property
    def weights(self) -> tuple[int, ...]:
        """Weights W_0, W_1, ...; the first is the number of units of the scales in a cell."""
        return weights_of(self.longest, self.decay)

    @property
    def longest(self) -> int:
        """Largest number of cells between the bounds of a column."""
        return max(upper - lower for lower, upper, _ in self.columns)

    @property
    def unit(self) -> int:
        """Unit 2^q of the scale: one cell."""
        return self.weights[0]

    @property
    def width(self) -> int:
        """Number of released integers: one for each column."""
        return len(self.columns)

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> NDArray[Any]:
        """Return the median and its scale for each column, shape (columns, 2)."""
        cells = self.cells(view.records)
        reach = min(len(self.weights), cells.shape[1] + 1)
        around = self.around(cells, reach)
        return np.stack([around[:, reach], self.scales(around)], axis=1)

    def cells(self, records: Records) -> NDArray[np.int64]:
        """Return every column's clamped cells in increasing order, shape (columns, n)."""
        cells = np.empty((len(self.columns), len(records)), np.int64)
        for j, (lower, upper, exponent) in enumerate(self.columns):
            if not self.clipped:
                lower, upper = -_OUTER_BOX, _OUTER_BOX
            cells[j] = np.sort(quantize(records[:, j], lower, upper, exponent))
        return cells

    def around(self, cells: NDArray[np.int64], reach: int) -> NDArray[np.int64]:
        """Return z_(m - reach), ..., z_(m + reach): the median is in the middle."""
        ends = np.array([column[:2] for column in self.columns], np.int64)
        sides = [np.repeat(ends[:, [side]], reach, axis=1) for side in (0, 1)]
        padded = np.concatenate([sides[0], cells, sides[1]], axis=1)
        start = (cells.shape[1] + 1) // 2 - 1
        return padded[:, start : start + 2 * reach + 1]

    def scales(self, around: NDArray[np.int64]) -> NDArray[Any]:
        """Return the largest of the weighted distances, and a cell at the least.

        Distances that cannot exceed the largest one so far are left out.
        """
        reach = around.shape[1] // 2
        most = self.longest if self.clipped else 2 * _FARTHEST_CELL
        large = self.unit * most >= _WORD_LIMIT
        scale = np.full(len(around), self.unit, dtype=object if large else np.int64)
        for k, weight in enumerate(self.weights[:reach]):
            if weight * most <= scale.min():
                break
            ends = around[:, reach + k + 1] - around[:, reach - k - 1]
            open_ = np.flatnonzero(np.asarray(weight * ends.astype(scale.dtype) > scale, np.bool_))
            if len(open_):
                rows = around[open_]
                moved = rows[:, reach : reach + k + 2] - rows[:, reach - k - 1 : reach + 1]
                widest = moved.max(axis=1).astype(scale.dtype)
                scale[open_] = np.maximum(scale[open_], weight * widest)
        return scale

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the sensitivity for replace: a median moves by at most either scale, and
        scales by a factor of 1 / decay.

        It is not stated under add-remove, where the number of records, and so the rank, is
        private.
        """
        if not self.clipped:
            raise ValueError(UNCLIPPED)
        if adjacency is not Adjacency.REPLACE:
            raise ValueError(
                f"adjacency = {adjacency}: the median's rank needs the number of records, which "
                "has to be public. Use Adjacency.REPLACE."
            )
        if domain.columns < len(self.columns):
            raise ValueError(f"{domain}, for {len(self.columns)} medians; give more columns.")
        return sensitivity_lemma(
            Quantity.of(f"each of {len(self.columns)} medians", "SmoothMedians", decay=self.decay),
            norm=Norm.SMOOTH,
            value=1 / self.decay,
            adjacency=adjacency,
            domain=domain,
            obligation="theory/smooth.py:obligation_smooth",
            source=Source("NRS07", "smooth sensitivity of the median", note="on a public grid"),
        )

    def unclipped(self) -> Query:
        """Return the same query on records that are clamped to the outer box of the grid only."""
        return replace(self, clipped=False)


@lru_cache(maxsize=64)
def weights_of(most: int, decay: Fraction) -> tuple[int, ...]:
    """Return 2^q, then each the last one times ``decay``, rounded up, while W ``most`` is above
    2^q.

    Rounded up they do not fall below 1 / (1 - decay), which 2^q keeps below 1 / (8 most) of a cell.
    """
    flat = -(-decay.denominator // (decay.denominator - decay.numerator))
    unit = 1 << ((most * flat).bit_length() + _GUARD_BITS)
    weights: list[int] = [unit]
    while (weight := -(-weights[-1] * decay.numerator // decay.denominator)) * most > unit:
        weights.append(weight)
    return tuple(weights)
