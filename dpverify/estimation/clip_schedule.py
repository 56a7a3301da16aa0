"""Public numbers of ``iterative_mean``, whose balls shrink, and what it keeps between its
steps.

Everything here is a function of public parameters and of what was released, so floats do no
harm; they are computed element by element, so that a transcript leads to the same ball in every
batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from dpverify.estimation.clipping import Numbers, inverse, vector_sum
from dpverify.estimation.rationals import Rationals
from dpverify.grid.cells import floor_log2
from dpverify.grid.vector_queries import VectorSum
from dpverify.grid.vectors import OUTER_BOX
from dpverify.privacy.numbers import Floats, to_float
from dpverify.randomness.bits import IntArray

PARTS = 16
"""Number of cells of which clip radii are multiples; also the number of parts of a record's
weight.
"""
_MORE = 1 + Fraction(1, 1 << 12)  # covers cutting to such a multiple, and rounding
_LONG = 1 << 1000  # close to the end of the floats
_LARGEST = 1e150  # its square is a float
_FINEST = 64  # rungs of the ladder reach down to 2^-64


def reach(radius: float, d: int, beta: Fraction) -> float:
    """Return the distance from the center that a record of a standard subgaussian law exceeds
    with probability at most ``beta``.

    radius: the largest distance of the law's mean from the center, in deviations. d: the number
    of columns. The distance is in deviations, as a float. The proof is in
    spec/iterative_mean.py (clip_radius).
    """
    level = -math.log(beta)
    spread = 2 * math.sqrt((d + 2 * radius**2) * level)
    return math.sqrt(d + radius**2 + spread + 2 * level)


@dataclass(frozen=True, slots=True)
class Ball:
    """Ball to which one step clips.

    radius: of the ball that holds the mean, in deviations. total: the query, about 0.
    per_deviation: cells, after the matrix, to a deviation. scale: the noise's standard
    deviation in cells.
    """

    radius: float
    total: VectorSum
    per_deviation: Fraction
    scale: Fraction

    @property
    def clipped(self) -> float:
        """The clip radius in deviations."""
        return to_float(self.total.radius / self.per_deviation)

    @property
    def rounding(self) -> float:
        """Lower bound on how far rounding records and center to cells moves a mean, in
        deviations: F sqrt(d) cells after the matrix, F its Frobenius norm; a cell is at most
        2^-20 of the clip radius over F.
        """
        return math.sqrt(len(self.total.center)) * self.clipped * 2.0**-19

    @property
    def noise(self) -> float:
        """The noise's standard deviation in deviations."""
        return min(to_float(self.scale / self.per_deviation), _LARGEST)


@lru_cache(maxsize=512)
def template(
    radius: Fraction, d: int, matrix: tuple[Numbers, ...] | None
) -> tuple[VectorSum, Fraction]:
    """Build the sum about 0 that clips at ``radius``, in whole parts of 16, and say how many
    cells a unit has.
    """
    wide = radius * _MORE
    total = vector_sum((0.0,) * d, wide, matrix)
    per_unit = Fraction(2) ** (floor_log2(Fraction(total.radius)) - floor_log2(wide))
    return replace(total, radius=total.radius // PARTS * PARTS), per_unit


def in_units(values: IntArray, per: Fraction) -> Floats:
    """Multiply released integers by ``per`` in floats, cut at 10^150 on either side; any shape.

    A number gives the same float in every batch, whatever the other numbers of the batch are.
    """
    factor = min(to_float(per), _LARGEST)
    with np.errstate(over="ignore"):
        if values.dtype != object:
            scaled = values.astype(np.float64) * factor
        else:
            flat = [float(v) * factor if abs(v) < _LONG else to_float(v * per) for v in values.flat]
            scaled = np.array(flat, np.float64).reshape(values.shape)
    return np.clip(scaled, -_LARGEST, _LARGEST)


def rungs_above(radii: Floats) -> IntArray:
    """Return, for each radius > 0, the ladder's first rung that is at least as high: 4
    significant bits, rounded up.
    """
    mantissas, exponents = np.frexp(np.maximum(radii, 2.0**-_FINEST))
    parts = np.ceil(mantissas * PARTS).astype(np.int64)  # integers from 8 to 16
    return np.asarray(1 + (exponents.astype(np.int64) + _FINEST) * (PARTS + 1) + parts)


def heights(rungs: IntArray) -> Floats:
    """Return the radii of rungs from 1 on; rung 0 stands for the first ball's radius, whatever
    that is.
    """
    exponents, parts = np.divmod(rungs - 1, PARTS + 1)
    return np.asarray(np.ldexp(parts / PARTS, exponents - _FINEST))


@dataclass(frozen=True, slots=True)
class Grid:
    """Grid to which centers are rounded: multiples of 2^exponent, at most ``most`` of them from
    0.
    """

    exponent: int
    most: int

    def multiples(self, center: Numbers) -> tuple[int, ...]:
        """Return the nearest point of the grid, in multiples of its step."""
        cells = Rationals.of(center).cells((self.exponent,) * len(center))
        return tuple(min(max(k, -self.most), self.most) for k in cells)

    def moved(self, multiples: IntArray, offsets: Floats) -> IntArray:
        """Move points, shape (size, d), by these offsets, in steps of the grid."""
        with np.errstate(over="ignore"):
            points = np.clip(np.rint(multiples + offsets), -self.most, self.most)
        return points.astype(np.int64)


def grid_of(coarseness: Fraction, smallest: Fraction, unit: Fraction, d: int, matrix: Any) -> Grid:
    """Choose the coarsest grid whose rounding moves no center by more than ``coarseness`` units
    after the matrix.

    A step of s moves a center by at most F sqrt(d) s / 2, F the matrix's Frobenius norm (1
    without a matrix). The grid ends where that of records does in the smallest ball, of clip
    radius ``smallest``.
    """
    norm = sum(Fraction(e) ** 2 for row in matrix or ((1.0,),) for e in row)
    exponent = floor_log2((2 * coarseness * unit) ** 2 / (norm * d)) // 2
    total, _ = template(smallest, d, matrix)
    return Grid(exponent, math.floor(OUTER_BOX * Fraction(2) ** (total.exponent - exponent)))


def mapped_back(ball: Ball, grid: Grid, means: Floats) -> Floats:
    """Map means of shape (size, d) from deviations after the matrix to steps of the grid of
    centers.
    """
    steps = ball.per_deviation * Fraction(2) ** (ball.total.exponent - grid.exponent)
    if ball.total.matrix is None:
        return np.asarray(means * to_float(steps))
    back = inverse(ball.total.matrix) * to_float(steps)
    total = np.zeros(means.shape)
    for j in range(means.shape[1]):  # column by column, which gives the same sum in every batch
        total += means[:, j : j + 1] * back[:, j]
    return total
