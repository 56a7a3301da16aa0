"""Sums of first and second moments of records between public bounds, with their sensitivity as a
lemma."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.cells import float_cells, quantize
from dpverify.grid.linear import EXACT, WORD, Integers, column_sums, float_moments, second_moments
from dpverify.grid.queries import UNCLIPPED, Query
from dpverify.grid.records import Records
from dpverify.grid.transcripts import NOTHING, Transcripts
from dpverify.grid.vector_queries import VectorQuery
from dpverify.grid.vectors import OUTER_BOX, Vector, checked_exponents, checked_radius, clip_to_ball
from dpverify.grid.views import View
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.hypotheses import Quantity
from dpverify.privacy.numbers import settle, whole
from dpverify.privacy.rules import sensitivity_lemma

MOST_CELLS = 1 << 26
"""The largest number of cells between a column's bounds."""
MOST_SIDE = 1 << 20
"""The largest magnitude of a coordinate of z."""
_BLOCK = 1 << 16  # numbers that are mapped at a time: what is in between stays in the cache


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxMoments(VectorQuery):
    """The sum over records of (h, z)(h, z)^T, its upper triangle row by row.

    A record's z has a coordinate from -side to side for each column: the lower bound goes to -side,
    the upper one to side, what is beyond counts as the bound. z is then clipped to the ball of
    ``radius``; a radius of at least sqrt(d) side clips nothing.
    low, high: the bounds in cells of 2^exponents, one for each column. constant: h. Entries on
    the diagonal count ``diagonal`` times, those above it ``above`` times; the first, h^2 times
    the number of records, is left out unless ``counted``. So are the squares and the products of
    the last ``targets`` columns among themselves. norm: the norm of the sensitivity, L1 (for
    Laplace noise) or squared L2.
    """

    adds_up = True
    low: Vector
    high: Vector
    exponents: Vector
    side: int
    radius: int
    constant: int
    diagonal: int = 1
    above: int = 1
    counted: bool = True
    targets: int = 0
    clipped: bool = True
    norm: Norm = Norm.SQUARED_L2

    def __post_init__(self) -> None:
        for name in ("side", "radius", "constant", "diagonal", "above"):
            settle(self, **{name: checked_radius(whole(getattr(self, name), name))})
        settle(self, targets=whole(self.targets, "targets"))
        ends = list(zip(self.low, self.high, strict=True))
        settle(self, exponents=checked_exponents(self.exponents, len(ends)))
        if not ends or not all(0 < b - a <= MOST_CELLS for a, b in ends):
            raise ValueError("bounds: give at least one column, and from 1 to 2^26 cells to each.")
        if max(max(-a, b, a, -b) for a, b in ends) > OUTER_BOX or self.side > MOST_SIDE:
            raise ValueError("bounds are beyond 2^40 cells from zero, or side is beyond 2^20.")
        if not 0 <= self.targets < len(ends):
            raise ValueError(f"targets = {self.targets}; give fewer than the {len(ends)} columns.")
        if self.norm not in (Norm.L1, Norm.SQUARED_L2):
            raise ValueError(f"norm = {self.norm}; moments have one in L1 or squared L2.")
        if self.above**2 > 2 * self.diagonal**2:
            raise ValueError("above must be at most sqrt(2) times diagonal; see ``sensitivity``.")

    @property
    def width(self) -> int:
        """Number of entries on and above the diagonal, without the first unless ``counted``, and
        without those of targets among themselves.
        """
        rows, t = len(self.low) + 1, self.targets
        return (rows * (rows + 1) - t * (t + 1)) // 2 - (not self.counted)

    @property
    def in_any_order(self) -> bool:
        """True: a sum of integers does not depend on the order."""
        return True

    def largest(self, rows: int) -> int:
        """Return a bound for every entry of so many records."""
        far = max(self.side, self.constant) if self.clipped else self.side << 42
        return rows * max(self.diagonal, self.above) * far**2

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> NDArray[Any]:
        """Return the moments, shape (width,), exact for every n."""
        rows, h = len(self.low) + 1, self.constant
        total: Integers = np.zeros((rows, rows), self._kind(len(view)))
        for square, sums in self._sums(view.records):
            total[1:, 1:] += square
            total[0, 1:] += sums
        total[0, 1:] *= h
        total[0, 0] = len(view) * h**2
        weights, upper = _layout(rows, self.diagonal, self.above, self.targets)
        return np.asarray((total * weights.astype(total.dtype))[upper][int(not self.counted) :])

    def _kind(self, rows: int) -> Any:
        """Return int64 where every entry of so many records, with its weight, is below 2^62:
        then so is what leads to it. Otherwise return object.
        """
        return np.int64 if self.largest(rows) < WORD else object

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the sensitivity, ``moved_squared`` or ``moved``; spec/theory/box_moments.py
        proves them.
        """
        if not self.clipped:
            raise ValueError(UNCLIPPED)
        d = len(self.low)
        if domain.columns != d:
            raise ValueError(f"{domain}, for {d} columns with bounds; give bounds for each column.")
        own = {
            name: getattr(self, name)
            for name in ("side", "radius", "constant", "diagonal", "above", "counted", "targets")
        }
        return sensitivity_lemma(
            Quantity.of(
                f"the first and second moments of {d} columns between public bounds, in units of "
                f"{self.side}, in a ball of {self.radius}{_without(self.targets)}",
                "BoxMoments",
                columns=d,
                **own,
            ),
            norm=self.norm,
            value=(moved if self.norm is Norm.L1 else moved_squared)(d, adjacency=adjacency, **own),
            adjacency=adjacency,
            domain=domain,
            obligation="theory/box_moments.py:obligation_box_moments",
            source=Source("OURS", "first and second moments of records in a box"),
        )

    def unclipped(self) -> Query:
        """Return the same sum without bounds, clamped to the outer box of the grid only."""
        return replace(self, clipped=False)

    def _sums(self, records: Records) -> Iterator[tuple[Integers, Integers]]:
        """Sum z z^T and z over some records at a time."""
        if records.shape[1] != len(self.low):
            raise ValueError(f"records of {records.shape[1]} columns, for {len(self.low)} bounds.")
        # number of blocks, none much smaller than others
        count = max(1, round(records.size / _BLOCK))
        step = max(1, min(-(-len(records) // count), EXACT // self.side**2))
        scales = self._scales()
        for start in range(0, len(records), step):
            block = records[start : start + step]
            if self.clipped:
                yield float_moments(self._images(block, scales), self.side)
            else:
                wild = self._unclipped_images(block)
                yield second_moments(wild), column_sums(wild)

    def _scales(self) -> _Scales:
        low, high, exponents = map(_alike, (self.low, self.high, self.exponents))
        middle, spans = (low + high) / 2, high - low
        if np.any(spans & (spans - 1)):
            return _Scales(low, high, exponents, middle, 2 * self.side, spans)
        return _Scales(low, high, exponents, middle, 2 * self.side / spans, None)

    def _images(self, records: Records, scales: _Scales) -> NDArray[np.float64]:
        """Map records to z, integers that are held as floats.

        z = round(side (2 c - low - high) / (high - low)), ties to even, of a record's cell c
        between the bounds. In floats this is exact: c less the middle is a half-integer up to
        2^25, the numerator is an integer up to 2^46, and its quotient by an integer up to 2^26
        is a half-integer or at least 2^-27 from each, while a division of floats is off by at
        most 2^-33 for a quotient up to 2^20. By powers of two the quotient is exact.
        """
        z = float_cells(records, scales.low, scales.high, scales.exponents)
        if np.any(scales.middle):
            z -= scales.middle
        z *= scales.factor
        if scales.divisor is not None:
            z /= scales.divisor
        np.rint(z, out=z)
        if self._holds_box:
            return z
        return clip_to_ball(z.astype(np.int64), self.radius).astype(np.float64)

    def _unclipped_images(self, records: Records) -> Integers:
        low, high, exponents = map(_alike, (self.low, self.high, self.exponents))
        wild = quantize(records, -OUTER_BOX, OUTER_BOX, exponents).astype(object)
        return np.asarray(self.side * (2 * wild - low - high) // (high - low))

    @property
    def _holds_box(self) -> bool:
        return self.radius**2 >= len(self.low) * self.side**2


@dataclass(frozen=True, slots=True)
class _Scales:
    """Numbers of the map to z: one for all columns, or one for each; the divisor only where it
    is no power of two.
    """

    low: Any
    high: Any
    exponents: Any
    middle: Any
    factor: Any
    divisor: Any


def released_places(rows: int, targets: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the places of the upper triangle, row by row, without targets among themselves."""
    i, j = np.triu_indices(rows)
    kept = i < rows - targets
    return i[kept], j[kept]


def _without(targets: int) -> str:
    return f", without those of the last {targets} among themselves" if targets else ""


@lru_cache(maxsize=16)
def _layout(rows: int, diagonal: int, above: int, targets: int) -> tuple[Integers, Any]:
    """Give each entry's weight, and the places of what is released, row by row."""
    weights = np.full((rows, rows), above, object)
    np.fill_diagonal(weights, diagonal)
    return weights, released_places(rows, targets)


def _alike(each: Vector) -> Any:
    """Give one number where it is the same for all columns, for which numpy is faster, else all."""
    return each[0] if len({*each}) == 1 else np.array(each, np.int64)


def moved_squared(
    columns: int,
    side: int,
    radius: int,
    constant: int,
    diagonal: int,
    above: int,
    counted: bool,
    targets: int,
    adjacency: Adjacency,
) -> int:
    """Compute the squared L2 sensitivity. Proof: spec/theory/box_moments.py."""
    square, own = (min(radius**2, k * side**2) for k in (columns, columns - targets))
    uneven = 2 * diagonal**2 - above**2  # what follows is twice the squares, until it is halved
    fourths = own * min(side**2, own)
    rest = above**2 * (2 * square * own - own**2 + 2 * constant**2 * square)
    if adjacency is Adjacency.ADD_REMOVE:
        return -(-(uneven * fourths + rest) // 2) + counted * diagonal**2 * constant**4
    if columns == 1:
        return (diagonal * square) ** 2 + 4 * above**2 * constant**2 * square
    moved = -(-(uneven * min((columns - targets) * side**4, 2 * fourths)) // 2) + rest
    mirrored = min(radius**2, targets * side**2)
    bent = abs(mirrored - constant**2)
    opposite = min(own, bent)
    return moved + above**2 * (opposite * (2 * bent - opposite) + 2 * constant**2 * mirrored)


def moved(
    columns: int,
    side: int,
    radius: int,
    constant: int,
    diagonal: int,
    above: int,
    counted: bool,
    targets: int,
    adjacency: Adjacency,
) -> int:
    """Compute the L1 sensitivity. Proof: spec/theory/box_moments.py."""
    k = columns - targets
    square, own = (min(radius**2, c * side**2) for c in (columns, k))
    length, along = math.isqrt(columns * square), math.isqrt(k * own)
    uneven = 2 * diagonal - above  # what follows is twice the sum, until it is halved
    one = uneven * own + above * (2 * length * along - along**2 + 2 * constant * length)
    if adjacency is Adjacency.ADD_REMOVE:
        return -(-one // 2) + counted * diagonal * constant**2
    bent, slope = uneven + k * above, uneven * side + above * (k * side + constant)

    def most(slope: int) -> int:
        """Return the largest value for a sum of differences of features, from 0 to 2 k side."""
        if slope <= 2 * side * bent:
            return -(-(k * max(slope, 0) ** 2) // (2 * bent))
        return 2 * k * side * (slope - side * bent)

    apart = 2 * above * targets * side * (k * side + constant)
    turned = above * targets * side
    return min(one, max(most(slope - turned) + apart, most(slope + turned)))
