"""Maps that whiten records, and quantities computed from them: by mpmath and exact integers.

A row is a matrix C, row by row. Images of records of covariance u^2 C^-1 C^-T are u cells long
in every direction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, states

from .caches import lru_cache
from .obligations import require
from .signs import DIGITS, MOST_BITS, START_BITS, STEP_BITS, Row

FARTHEST = (1 << 62) - 1
BOX = 1 << 40
_KENT_TYLER = Source("KT91", "the Cauchy M-estimator of location and scatter", note="as signs")


def place(middle: Fraction) -> int:
    """Return 2^(37 + 32 middle) image cells, the mantissa rounded to 2^-40, at most 2^62."""
    octaves = 32 * middle
    whole = math.floor(octaves)
    with mp.workdps(DIGITS):
        mantissa = int(mp.nint(mp.mpf(2) ** (40 + _real(octaves - whole))))
    return min((mantissa << (37 + whole)) >> 40, FARTHEST)


def octave(count: Fraction) -> int:
    """Return 4 log2 of a count of at least 1, rounded down."""
    k = 4 * (math.floor(count).bit_length() - 1)
    while count**4 >= Fraction(2) ** (k + 1):
        k += 1
    return k


def count_of(k: int) -> Any:
    """Return the least count of a quarter octave."""
    return mp.mpf(2) ** (mp.mpf(k) / 4)


def reach(long: Any, length: Any) -> int:
    """Return so many deviations in whole image cells, from 1 to 2^62."""
    return min(max(int(mp.nint(long * length)), 1), FARTHEST)


def stepped(step: Any, public: Row, d: int) -> tuple[Row, int]:
    """Return round(2^26 S) C over a power of two, and the power by which an image is longer than S
    makes it.

    The power leaves the least singular value of the first d columns between .7 and 1.4 times
    2^16, unless an entry would have more than 40 bits.
    """
    with mp.workdps(DIGITS):
        inner = step.cols
        columns = len(public) // inner
        whole = [
            [int(mp.nint(2**STEP_BITS * step[i, k])) for k in range(inner)]
            for i in range(step.rows)
        ]
        product = [
            [sum(row[k] * public[k * columns + j] for k in range(inner)) for j in range(columns)]
            for row in whole
        ]
        least = min(mp.svd_r(mp.matrix([row[:d] for row in product]), compute_uv=False))
        bits = max(abs(v) for row in product for v in row).bit_length() - MOST_BITS
        long = int(mp.floor(mp.log(least / mp.mpf("0.7"), 2))) if least > 0 else -MOST_BITS
        bits = max(bits, long - START_BITS)
        shortened = (round(v * Fraction(2) ** -bits) for row in product for v in row)
        return tuple(shortened), STEP_BITS - bits


@lru_cache(maxsize=1024)
def about_location(public: Row, d: int, constant: int) -> tuple[Row, tuple[int, ...]]:
    """Return, from a map of (record, constant) to d + 1 numbers, a map of records to d numbers,
    and the cells by which the center is moved.

    |C z|^2 = |C_x (x - l)|^2 + const, l the least-squares solution of C_x l = -C_h constant:
    the normal equations say that C_x (x - l) and C_x l + C_h constant are orthogonal. The d
    rows are an orthonormal basis of the images of C_x, by Gram and Schmidt.
    """
    with mp.workdps(DIGITS):
        own = [[public[i * (d + 1) + j] for j in range(d)] for i in range(d + 1)]
        matrix = mp.matrix(own)
        basis: list[Any] = []
        for j in range(d):
            column = matrix[:, j]
            for one in basis:
                column = column - one * (one.T * column)[0]
            basis.append(column / mp.norm(column))
        step = mp.matrix([[one[i] for i in range(d + 1)] for one in basis])
        last = mp.matrix([public[i * (d + 1) + d] for i in range(d + 1)])
        by = mp.lu_solve(step * matrix, step * last * -constant)
        row, _ = stepped(step, tuple(v for r in own for v in r), d)
        return row, whole_cells(by)


def whole_cells(values: Any) -> tuple[int, ...]:
    """Return the values in whole cells within the outer box."""
    return tuple(int(mp.nint(min(max(v, -BOX), BOX))) for v in values)


def solved(public: Row, d: int, images: Sequence[Any]) -> Any:
    """Return the preimages of these images under a square map."""
    matrix = mp.matrix([list(public[i * d : (i + 1) * d]) for i in range(d)])
    return mp.lu_solve(matrix, mp.matrix(list(images)))


def _real(value: Fraction) -> Any:
    return mp.mpf(value.numerator) / value.denominator


# --- obligations --------------------------------------------------------------------------------

_MAPS: tuple[tuple[Row, int, int], ...] = (
    ((1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 16), 2, 5),
    ((70000, 3000, -9990, 500, 90000, 12345, -7777, 4000, 66000), 2, 10**6),
    ((1 << 20, 1 << 18, 1 << 17, -(1 << 17)), 1, 10**5),
)


@states(_KENT_TYLER)
def obligation_about_location(
    claimed: Callable[[Row, int, int], tuple[Row, tuple[int, ...]]] = about_location,
) -> int:
    """Check for points on a grid that squared lengths after the new map, about the moved center,
    are those after the old one, up to one constant and one factor, and to within the rounding
    of map and center: one part in 2^13, and a cell.
    """
    cases = 0
    for public, d, constant in _MAPS:
        row, moved = claimed(public, d, constant)
        points = [tuple(9999 * (k * (j + 2) % 7 - 3) for j in range(d)) for k in range(7)]
        ours = [_square(row, d, [x - m for x, m in zip(p, moved, strict=True)]) for p in points]
        theirs = [_square(public, d + 1, [*p, constant]) for p in points]
        far, near = ours.index(max(ours)), ours.index(min(ours))
        factor = Fraction(theirs[far] - theirs[near], ours[far] - ours[near])
        least = theirs[near] - factor * ours[near]
        scale = max(ours)
        for a, b in zip(ours, theirs, strict=True):
            off = abs(factor * a + least - b)
            require(off <= factor * scale / 2**12, f"{public}, {d}: off by {float(off)}")
            cases += 1
    return cases


def _square(row: Row, columns: int, point: Sequence[int]) -> int:
    images = (
        sum(c * x for c, x in zip(row[i : i + columns], point, strict=True))
        for i in range(0, len(row), columns)
    )
    return sum(v * v for v in images)


@states(Source("OURS", "a search over lengths"))
def obligation_place(claimed: Callable[[Fraction], int] = place) -> int:
    """Check that places increase, and are within 2^-39 of 2^(37 + 32 m); an eighth of an octave is
    2^-8 of the range of 64.
    """
    cases, before = 0, 0
    for k in range(-255, 200):
        middle = Fraction(k, 256)
        here = claimed(middle)
        exact = mp.mpf(2) ** (37 + 32 * _real(middle))
        require(before < here or here == FARTHEST, f"{middle}: {here} after {before}")
        require(here == FARTHEST or abs(here / exact - 1) < 2**-20 + 1 / exact, f"{middle}: {here}")
        before, cases = here, cases + 1
    return cases
