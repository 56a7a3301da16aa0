"""Public vectors and matrices as parameters, sums of records clipped to a ball, and the way
back from them.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any

import numpy as np

from dpverify.grid.cells import floor_log2
from dpverify.grid.vector_queries import VectorSum
from dpverify.plans.parameters import positive
from dpverify.privacy.numbers import Floats, exact, to_float

Numbers = tuple[float, ...]
LARGEST_FLOAT = float(np.finfo(np.float64).max)
"""The largest finite float."""
_CELLS_PER_RADIUS = 20  # a cell is at most 2^-20 of the shortest semi-axis
_MATRIX_BITS = 12  # the public matrix is rounded to about so many bits
_LARGEST_ROOT = 20  # largest bit length of its Frobenius norm: the radius is then below 2^41 cells
_MOST = 1e300  # stands for every larger number in estimates
_FAR = 1e140  # its square is finite, and so are sums of such squares
_WORST_CONDITION = 1e12


def numbers_of(values: Any, name: str) -> Numbers:
    """Read a sequence or array of numbers as a tuple of floats; ``name`` is used in refusals.

    Raises TypeError for anything but a sequence, ValueError for an empty one and for numbers
    that are not finite floats.
    """
    listed = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(listed, (list, tuple)):
        given = values if isinstance(values, (str, int, float)) else f"a {type(values).__name__}"
        raise TypeError(f"{name} = {given}; give a sequence of numbers, one for each column.")
    if any(isinstance(entry, (list, tuple)) for entry in listed):
        raise TypeError(f"{name} has rows; give a flat list of numbers, one for each column.")
    if not listed:
        raise ValueError(f"{name} is empty; give one number for each column.")
    numbers = tuple(v if type(v) is float else to_float(exact(v, name)) for v in listed)
    if not all(map(math.isfinite, numbers)):
        raise ValueError(f"{name} has a number that is not a finite float; give finite numbers.")
    return numbers


PerColumn = Annotated[Numbers, numbers_of]
"""Public numbers, one for each column."""
PublicRadius = Annotated[
    float, positive(" is not positive; give a public radius > 0.", as_given=True)
]
"""A positive distance, kept as it was given."""


def square_matrix(matrix: Any, d: int) -> tuple[Numbers, ...]:
    """Read a public matrix of shape (d, d) as a tuple of rows of floats.

    Raises TypeError for anything without rows, ValueError for another shape, for numbers that
    are not finite and for zero.
    """
    listed = matrix.tolist() if hasattr(matrix, "tolist") else matrix
    if not isinstance(listed, (list, tuple)):
        raise TypeError(f"matrix = {matrix!r}; give {d} rows of {d} numbers.")
    rows = tuple(numbers_of(row, "matrix") for row in listed)
    if len(rows) != d or any(len(row) != d for row in rows):
        raise ValueError(f"matrix has another shape than ({d}, {d}); the center has {d} numbers.")
    if not any(entry for row in rows for entry in row):
        raise ValueError("matrix is zero; give an invertible matrix.")
    return rows


@lru_cache(maxsize=16)
def vector_sum(center: Numbers, radius: Fraction, matrix: tuple[Numbers, ...] | None) -> VectorSum:
    """Build the sum of records clipped to {x: |matrix (x - center)| <= radius}, with the public
    map in integers.

    Raises ValueError for a matrix that is singular, or nearly so, once it is rounded.
    The cell is the largest power of two that is at most 2^-20 of the radius over the matrix's
    Frobenius norm. The matrix is multiplied by the largest power of two for which its entries are
    below 2^13 and its norm is at most 2^20, and rounded.
    """
    entries = [Fraction(entry) for row in matrix or ((1.0,),) for entry in row]
    square = sum(entry**2 for entry in entries)
    exponent = floor_log2(radius**2 / square) // 2 - _CELLS_PER_RADIUS
    cell, unit, rows = Fraction(2) ** exponent, Fraction(1), None
    if matrix is not None:
        bits = _MATRIX_BITS - floor_log2(max(map(abs, entries)))
        unit = Fraction(2) ** min(bits, floor_log2(4**_LARGEST_ROOT / square) // 2)
        rows = tuple(tuple(round(Fraction(entry) * unit) for entry in row) for row in matrix)
        _refuse_singular(rows)
    cells = tuple(round(Fraction(c) / cell) for c in center)
    return VectorSum(cells, math.floor(radius * unit / cell), exponent, rows)


def _refuse_singular(rows: tuple[tuple[int, ...], ...]) -> None:
    """Refuse a singular matrix before anything is drawn, because estimates need the inverse.
    Only their accuracy depends on it.
    """
    if not np.linalg.cond(np.array(rows, dtype=np.float64)) < _WORST_CONDITION:
        raise ValueError(
            f"matrix is singular, or nearly, after rounding to {_MATRIX_BITS} bits of its largest "
            "entry; give an invertible matrix whose directions differ less, or change the units of "
            "some columns."
        )


@lru_cache(maxsize=16)
def inverse(matrix: tuple[tuple[int, ...], ...]) -> Floats:
    """Invert an integer matrix of shape (d, d) in floats, which suffices for processing
    released values.

    The array is kept for the next call and cannot be written to.
    """
    inverted: Floats = np.linalg.inv(np.array(matrix, dtype=np.float64))
    inverted.flags.writeable = False
    return inverted


def in_ball(offset: list[float], radius: int) -> Floats:
    """Move an offset of shape (d,) into the ball of this radius about 0, both in cells after
    the matrix.
    """
    clipped: Floats = np.clip(np.array(offset), -_FAR, _FAR)
    length = float(np.linalg.norm(clipped))
    return clipped if length <= radius else clipped * (radius / length)


def noise_length(total: VectorSum, noise: float, along: float) -> float:
    """Compute the root mean square length, in the data's units, of noise in the cells after the
    matrix.

    noise: its deviation in every direction. along: the deviation of further noise in the one
    direction that the way back lengthens most.
    """
    norms = math.sqrt(len(total.center)), 1.0
    if total.matrix is not None:
        back = inverse(total.matrix)
        norms = float(np.linalg.norm(back)), float(np.linalg.norm(back, 2))
    with np.errstate(all="ignore"):
        return float(np.ldexp(math.hypot(noise * norms[0], along * norms[1]), total.exponent))


def capped(value: Fraction) -> float:
    """Round to a float; 1e300 stands for every larger number, so that estimates stay finite."""
    return min(to_float(value), _MOST)


def finite(values: Floats) -> Floats:
    """Cut numbers at the largest floats; NaN becomes 0."""
    return np.asarray(np.clip(np.nan_to_num(values), -LARGEST_FLOAT, LARGEST_FLOAT))
