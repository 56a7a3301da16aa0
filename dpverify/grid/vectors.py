"""Records as integer vectors: to cells, and into a box, a ball or an ellipsoid, each on its own.

Every map here is a function of one record and public numbers. It is computed in integers, so it is
the same in every batch, order, memory layout and number of threads; where floats help to divide,
integer remainders correct them. What the maps are, on rationals, is in spec/theory/vectors.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import fmpz_mat
from numpy.typing import ArrayLike, NDArray

from dpverify.grid.cells import quantize
from dpverify.grid.linear import (
    WORD,
    Integers,
    ceiling_norms,
    check_word_budget,
    integers,
    largest,
    matmul,
    norms_at_most,
)
from dpverify.grid.records import Records
from dpverify.privacy.numbers import settle, whole

Vector = tuple[int, ...]
Matrix = tuple[Vector, ...]

OUTER_BOX = 1 << 40
"""Largest distance of the public grid from zero, in cells."""
_DIVISIBLE = 1 << 61
_MOST_EXPONENT = 1200
_CACHED = 1 << 15  # numbers that are mapped at a time: what is in between stays in the cache
_BLOCK = 1 << 20  # at most so many, where a large matrix is worth more rows


def to_cells(records: Records, exponent: int | Vector, center: ArrayLike) -> NDArray[np.int64]:
    """Return round(x / 2^exponent), ties to even, clamped to the outer box, minus the center
    (cells).

    exponent: one for all columns, or one for each. Shapes (n, d) and (d,), to (n, d); the
    records are finite and the center is in the outer box. Every magnitude of a result is at
    most 2^41.
    """
    own = np.array(exponent) if isinstance(exponent, tuple) else exponent
    cells = quantize(records, -OUTER_BOX, OUTER_BOX, own)
    cells -= np.asarray(center, np.int64)
    return cells


def clip_to_box(cells: ArrayLike, radius: int) -> NDArray[np.int64]:
    """Clamp each coordinate to [-radius, radius], shape (n, d)."""
    most = checked_radius(radius)
    return np.clip(integers(cells), -most, most).astype(np.int64)


def inside_ball(cells: ArrayLike, radius: int) -> NDArray[np.bool_]:
    """Return which rows have a norm of at most the radius, shape (n,): decided in integers."""
    square = checked_radius(radius) ** 2
    return norms_at_most(cells, square)


def clip_to_ball(cells: ArrayLike, radius: int, reach: int | None = None) -> NDArray[np.int64]:
    """Return rows inside the ball as they are; shrink any other toward 0, to a norm of at most
    the radius.

    A row y outside becomes z_i = sign(y_i) floor(|y_i| R / s), s = ceil(|y|). As s >= |y|,
    |z| <= R; as s < |y| + 1, every z_i is within two cells of y_i R / |y|. With a ``reach`` r,
    rows up to r long are what fills the ball: s = max(r, ceil(|y|)) for every row.
    """
    rows = _negatable(integers(cells))
    if reach is not None:
        return _shrunk(rows, checked_radius(radius), reach).astype(np.int64, copy=False)
    inside = inside_ball(rows, radius)
    if inside.all():
        return rows.astype(np.int64)
    outside = np.flatnonzero(~inside)
    result = rows.copy()
    result[outside] = _shrunk(rows[outside], int(radius))
    return result.astype(np.int64, copy=False)


def onto_sphere(cells: ArrayLike, radius: int) -> NDArray[np.int64]:
    """Move every row but 0 to the sphere, from below, shape (n, d); 0 stays 0.

    A row y becomes z_i = sign(y_i) floor(|y_i| R / s), s = ceil(|y|): as s >= |y|, |z| <= R.
    Where |y| is many cells long, |z| is nearly R.
    """
    rows, most = _negatable(integers(cells)), checked_radius(radius)
    if rows.all():
        return _shrunk(rows, most).astype(np.int64, copy=False)
    moved = (rows != 0).any(axis=1)
    result = np.zeros(rows.shape, np.int64)
    result[moved] = _shrunk(rows[moved], most)
    return result


def clip_to_ellipsoid(cells: ArrayLike, matrix: ArrayLike, radius: int) -> NDArray[np.int64]:
    """Return C y clipped to the ball, for each row y: what is released of {y : |C y| <= R},
    shape (n, m).

    C is public and of shape (m, d).
    """
    rows = _negatable(integers(cells))
    result = np.zeros((len(rows), len(integers(matrix))), np.int64)
    for some, image in images(rows, matrix):
        result[some] = clip_to_ball(image, radius)
    return result


def images(rows: Integers, matrix: ArrayLike) -> Iterator[tuple[NDArray[np.intp], Integers]]:
    """Yield C y for each row y, exactly: rows by their indices, with their images.

    A row whose image may leave 62 bits is mapped in Python integers; separately, so that it
    does not slow down the others.
    """
    transposed = integers(matrix).T
    most = (WORD - 1) // max(1, len(transposed) * largest(transposed))
    if largest(rows) <= most:
        yield np.arange(len(rows)), matmul(rows, transposed)
        return
    tame = (np.abs(rows) <= most).all(axis=1)
    for some in (np.flatnonzero(tame), np.flatnonzero(~tame)):
        if len(some) == len(rows):
            yield some, matmul(rows, transposed)
        elif len(some):
            yield some, matmul(rows[some], transposed)


@dataclass(frozen=True, slots=True)
class IntegerMap:
    """A map of records to integer vectors: y = C (cells - center), cells of 2^exponent; without
    ``matrix``, C = I.

    exponent: one for all columns, or one for each. With a ``constant`` h other than 0, y = C
    (cells - center, h): the matrix has a last column for it.
    Raises TypeError or ValueError for a map that is not of integers, or too long for exact
    arithmetic.
    """

    center: Vector
    exponent: int | Vector
    matrix: Matrix | None = None
    constant: int = 0

    def __post_init__(self) -> None:
        settle(self, center=checked_center(self.center))
        settle(self, exponent=checked_exponents(self.exponent, len(self.center)))
        settle(self, constant=whole(self.constant, "constant"))
        check_word_budget(self.constant, "constant")
        if self.matrix is not None:
            settle(self, matrix=checked_matrix(self.matrix, self.columns + bool(self.constant)))
        elif self.constant:
            raise ValueError(
                f"constant = {self.constant} without a matrix; give a matrix with a column for it."
            )

    @property
    def columns(self) -> int:
        """Number of numbers in a record."""
        return len(self.center)

    @property
    def width(self) -> int:
        """Number of integers in an image."""
        return len(self.center if self.matrix is None else self.matrix)

    @property
    def reach(self) -> int:
        """Bound on the distance of an image's coordinate from zero."""
        sides = [OUTER_BOX + abs(coordinate) for coordinate in self.center]
        sides += [abs(self.constant)] if self.constant else []
        rows = self.matrix or ()
        sums = (sum(abs(e) * side for e, side in zip(row, sides, strict=True)) for row in rows)
        return max(sums, default=max(sides))

    def images(self, records: Records) -> Iterator[Integers]:
        """Yield every record's image, in no particular order, some records at a time.

        Raises ValueError for records of another number of columns.
        """
        if records.shape[1] != self.columns:
            raise ValueError(
                f"records of {records.shape[1]} columns, for a center of {self.columns} "
                "coordinates; give one coordinate a column."
            )
        public = None if self.matrix is None else np.array(self.matrix, np.int64)
        step = max(1, min(_BLOCK // self.columns, max(_CACHED // self.columns, 4 * self.columns)))
        for start in range(0, len(records), step):
            cells = to_cells(records[start : start + step], self.exponent, self.center)
            if self.constant:
                cells = np.pad(cells, ((0, 0), (0, 1)), constant_values=self.constant)
            if public is None:
                yield cells
            else:
                yield from (image for _, image in images(cells, public))


def checked_radius(radius: int) -> int:
    """Return the radius. Raises unless it is an integer from 1 to 2^41 cells."""
    if whole(radius, "radius") < 1:
        raise ValueError(
            f"radius = {radius} cells; give a radius of at least one cell, or a smaller cell (a "
            "smaller exponent): 2^20 cells to a radius are plenty."
        )
    check_word_budget(radius, "radius")
    return int(radius)


def checked_exponent(exponent: int) -> int:
    """Return the exponent. Raises unless it is an integer within the range of float64."""
    if abs(whole(exponent, "exponent")) > _MOST_EXPONENT:
        raise ValueError(
            f"exponent = {exponent}: no float64 is of the size of such a cell; give the logarithm "
            "to base 2 of the cell, for example -20."
        )
    return int(exponent)


def checked_exponents(exponent: Any, columns: int) -> int | Vector:
    """Return the exponent, or one for each column. Raises as ``checked_exponent`` does, and for
    another number of them.
    """
    if not isinstance(exponent, tuple):
        return checked_exponent(exponent)
    if len(exponent) != columns:
        raise ValueError(f"{len(exponent)} exponents for {columns} columns; give one for each.")
    return tuple(map(checked_exponent, exponent))


def checked_center(center: Any) -> Vector:
    """Return the center as a tuple. Raises unless its coordinates are integers in the outer box."""
    vector = _vector(center, "center")
    far = max(map(abs, vector), default=0)
    if not vector or far > OUTER_BOX:
        raise ValueError(
            f"center: {len(vector)} coordinates, up to {far} cells from zero; give one coordinate "
            "a column, within the 2^40 of the public grid. Subtract a public constant from the "
            "data, or use a larger cell (a larger exponent)."
        )
    return vector


def checked_matrix(rows: Any, columns: int) -> Matrix:
    """Return the matrix as tuples. Raises unless it is of integers and of so many columns."""
    matrix = tuple(_vector(row, "matrix") for row in rows)
    lengths = sorted({len(row) for row in matrix})
    if lengths != [columns]:
        raise ValueError(
            f"matrix: rows of {lengths} entries, for a center of {columns}; give at least one row, "
            "and rows of one entry a column."
        )
    check_word_budget(max(abs(entry) for row in matrix for entry in row), "matrix")
    return matrix


def check_rank(matrix: Matrix, columns: int) -> None:
    """Raise ValueError unless the matrix is of full rank."""
    rank = fmpz_mat(matrix).rank()
    if rank < min(len(matrix), columns):
        raise ValueError(
            f"matrix: of rank {rank}, with {len(matrix)} rows and {columns} columns, so it is "
            "singular. Give a matrix of full rank, with more bits if rounding took it away."
        )


def _vector(values: Any, name: str) -> Vector:
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise TypeError(f"{name}: a {type(values).__name__} where a tuple of integers belongs.")
    return tuple(whole(value, name) for value in values)


def _negatable(rows: Integers) -> Integers:
    """Return rows that can be negated, as Python integers where needed: -2^63 has no opposite
    in int64.
    """
    return rows.astype(object) if largest(rows) >= WORD else rows


def _shrunk(rows: Integers, radius: int, reach: int = 1) -> Integers:
    """Return rows times radius / max(reach, ceil(norm)), toward 0: into the ball.

    ``clip_to_ball`` proves that quotients are inside, yet their norms are checked. If one were
    too large, its row would move on toward 0 by a cell in every coordinate at a time; that
    ends, for 0 is inside.
    """
    norms, _ = ceiling_norms(rows)
    lengths = np.maximum(norms if reach < WORD else norms.astype(object), reach)
    shrunk = _quotients(rows, radius, lengths)
    while not (inside := inside_ball(shrunk, radius)).all():
        shrunk[~inside] -= np.sign(shrunk[~inside])
    return shrunk


def _quotients(rows: Integers, radius: int, lengths: Integers) -> Integers:
    """Return y radius / length, toward 0, row by row, where no |y| exceeds its row's length.

    The float is off by less than 2^-10, for the quotient is at most the radius, 2^41, and four
    roundings are 2^-51 of it. So its whole part is right unless it is so near to an integer. There
    the whole part of its size is off by at most one, the remainder lies between -length and
    2 length, and modulo 2^64 it is known exactly.
    """
    if rows.dtype == object or largest(lengths) >= _DIVISIBLE:
        sizes = np.abs(rows.astype(object))
        exact: Integers = np.sign(rows) * (sizes * radius // lengths.astype(object)[:, np.newaxis])
        return exact
    floats = rows * (radius / lengths.astype(np.int64)[:, np.newaxis])
    whole_parts = np.trunc(floats)
    quotients = whole_parts.astype(np.int64)
    floats -= whole_parts
    np.abs(floats, out=floats)
    floats -= 0.5
    np.abs(floats, out=floats)
    close = np.nonzero(floats > 0.5 - 2.0**-9)
    if len(close[0]):
        own, divisors = rows[close], lengths[close[0]].astype(np.int64)
        sizes, about = np.abs(own), np.abs(quotients[close])
        remainders = (sizes.view(np.uint64) * np.uint64(radius)).view(np.int64) - about * divisors
        about += (remainders >= divisors).astype(np.int64) - (remainders < 0)
        quotients[close] = np.sign(own) * about
    return quotients
