"""Friendship of two records: a symmetric predicate of the pair alone, decided in integers."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.cells import floor_log2, quantize
from dpverify.grid.degrees import degrees
from dpverify.grid.linear import Integers
from dpverify.grid.records import Records
from dpverify.grid.vectors import (
    OUTER_BOX,
    Matrix,
    checked_exponent,
    checked_matrix,
    checked_radius,
    images,
)
from dpverify.privacy.numbers import settle, whole

_BLOCK = 1 << 20  # numbers that are mapped at a time
_MATRIX_BITS = 20
_FLOAT_BITS = 53
_CELLS_PER_RADIUS = 20


@dataclass(frozen=True, slots=True)
class Nearness:
    """Records as integer vectors y, which are friends where |y - y'| <= ``radius``.

    scales: y = round(fl(x * scales) / 2^exponent), each coordinate on its own: the product is
    rounded to a float64, by IEEE 754 the same in every batch. Or matrix: y = round(C
    z / 2^shift) with an integer matrix C and z = round(x / 2^exponent). Each coordinate of z
    and of y is clamped to the outer box of 2^40 cells. ``radius`` is in cells of y.
    """

    radius: int
    exponent: int
    scales: tuple[float, ...] = ()
    matrix: Matrix | None = None
    shift: int = 0
    _digest: str = field(default="", init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        settle(self, radius=checked_radius(self.radius), exponent=checked_exponent(self.exponent))
        if self.matrix is not None:
            matrix: Any = checked_matrix(self.matrix, len(self.matrix[0]))
            settle(self, matrix=matrix)
            if not 0 <= whole(self.shift, "shift") <= 60:
                raise ValueError(f"shift = {self.shift}; images are divided by 2^0 to 2^60.")
        elif not self.scales or not all(0 < scale < math.inf for scale in self.scales):
            raise ValueError("scales: give a positive finite number for each column.")
        settle(self, _digest=self._digested())

    def __hash__(self) -> int:
        """Hash the digest: a matrix is long, and a map is looked up again and again."""
        return hash(self.predicate)

    @property
    def width(self) -> int:
        """Number of coordinates of y."""
        return len(self.scales) if self.matrix is None else len(self.matrix)

    @property
    def predicate(self) -> str:
        """Name of the predicate in claims: equal for equal predicates, and for no others."""
        how = "by column" if self.matrix is None else "by a public matrix"
        cells = f"{self.radius} cells of 2^{self.exponent}"
        return f"distance at most {cells}, scaled {how} {self._digest}"

    def images(self, records: Records) -> Integers:
        """Return y for each record, in order, shape (n, width), int64."""
        mapped = np.empty((len(records), self.width), np.int64)
        step = max(1, _BLOCK // self.width)
        for start in range(0, len(records), step):
            mapped[start : start + step] = self._images(records[start : start + step])
        return mapped

    def degrees(
        self, mapped: Integers, progress: Callable[[int, int], None] | None = None
    ) -> Integers:
        """Return how many records are friends of each, itself included, from their images;
        shape (n,).
        """
        return degrees(mapped, self.radius, progress)

    def _digested(self) -> str:
        """Return the digest of the public numbers that records are scaled by."""
        if self.matrix is None:
            numbers = np.array(self.scales, "<f8").tobytes()
        else:
            numbers = np.array([[self.shift] * len(self.matrix[0]), *self.matrix], "<i8").tobytes()
        return hashlib.sha256(numbers + b"%d" % self.width).hexdigest()[:16]

    def _images(self, records: Records) -> Integers:
        if self.matrix is None:
            with np.errstate(all="ignore"):  # an infinity is clamped
                scaled = records * np.array(self.scales)
            return quantize(scaled, -OUTER_BOX, OUTER_BOX, self.exponent)
        cells = quantize(records, -OUTER_BOX, OUTER_BOX, self.exponent)
        mapped = np.empty((len(cells), self.width), np.int64)
        half = (1 << self.shift) >> 1
        for some, image in images(cells, np.array(self.matrix, np.int64)):
            moved = (image + half) >> self.shift
            mapped[some] = np.clip(moved, -OUTER_BOX, OUTER_BOX).astype(np.int64)
        return mapped


def by_column(scales: tuple[float, ...], radius: Fraction) -> Nearness:
    """Define friends by |scales * (x - x')| <= radius; a cell is at most 2^-20 of the radius."""
    exponent = _exponent(radius)
    return Nearness(math.floor(radius / Fraction(2) ** exponent), exponent, scales)


def by_matrix(rows: tuple[tuple[float, ...], ...], radius: Fraction) -> Nearness:
    """Define friends by |C (x - x')| <= radius, C the matrix rounded to 20 bits of its largest row.

    A cell of y is at most 2^-20 of the radius, one of x such that no image is off by more than one
    cell of y.
    """
    longest = _longest_square(np.array(rows, np.float64))
    bits = _MATRIX_BITS - _ceil_log2_root(longest)
    unit = Fraction(2) ** bits
    # a power of two times a float is exact, or too small for any integer but 0
    matrix = tuple(map(tuple, np.rint(np.ldexp(rows, bits)).astype(np.int64).tolist()))
    cell = Fraction(2) ** _exponent(radius)
    # |C dx| <= longest row * sqrt(d) cells of x / 2: sqrt(d) cells are one cell of y at most
    fine = cell / (Fraction(2) ** _ceil_log2_root(longest) * (math.isqrt(len(rows[0])) + 1))
    exponent = floor_log2(fine)
    shift = floor_log2(cell * unit) - exponent
    return Nearness(math.floor(radius / cell), exponent, (), matrix, shift)


def _exponent(radius: Fraction) -> int:
    return floor_log2(radius) - _CELLS_PER_RADIUS


def _longest_square(rows: NDArray[np.float64]) -> Fraction:
    """Return the largest sum of squares of a row, exactly: floats are integers over a common
    power of two.
    """
    mantissas, exponents = np.frexp(rows)
    least = int(exponents[rows != 0].min(initial=0))
    shifts = np.where(rows != 0, exponents - least, 0).astype(object)
    whole_numbers = np.ldexp(mantissas, _FLOAT_BITS).astype(np.int64).astype(object) << shifts
    squares: list[int] = (whole_numbers**2).sum(axis=1).tolist()
    return Fraction(max(squares)) * Fraction(4) ** (least - _FLOAT_BITS)


def _ceil_log2_root(square: Fraction) -> int:
    """Return the least k with square <= 4^k."""
    k = floor_log2(square) // 2
    while Fraction(4) ** k < square:
        k += 1
    return k
