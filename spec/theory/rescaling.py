"""Records after the map M^(-1/4), as integer vectors, and the pairs of them that are friends."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, states

from .filters import Image
from .laws import real
from .queries import largest_power, nearest

OUTER_BOX = 2**40
"""Bound, in cells, to which coordinates are clamped."""
_FINE = 2**20
"""Cells in a radius, and units in the longest row of an integer matrix, at least half as many."""
_MAP = Source("DJYZZ24", "Algorithm 1, the predicate of Mahalanobis type", note="on integers")


@states(_MAP)
@dataclass(frozen=True, slots=True)
class Rescaling:
    """Public map of records to cells: y = round(fl(x s) / cell) by column; or C round(x / fine)
    divided by ``unit``, to the nearest.

    Friends are at most ``radius`` cells apart. s: floats; a product is rounded to a float as
    IEEE 754 says. fine: the cell of x where there is a matrix.
    """

    radius: int
    cell: Fraction
    scales: tuple[float, ...] = ()
    matrix: tuple[Image, ...] = ()
    fine: Fraction = Fraction(1)
    unit: int = 1

    @property
    def width(self) -> int:
        """Number of coordinates of a record."""
        return len(self.scales) or len(self.matrix)

    def image(self, record: Any) -> Image:
        """Return the record on the grid."""
        row = record if isinstance(record, tuple) else (record,)
        if self.scales:
            products = (float(x) * s for x, s in zip(row, self.scales, strict=True))
            return tuple(_cells(product, self.cell) for product in products)
        z = [_cells(float(x), self.fine) for x in row]
        sums = (sum(c * v for c, v in zip(line, z, strict=True)) for line in self.matrix)
        return tuple(_clamped((2 * total + self.unit) // (2 * self.unit)) for total in sums)

    def are_friends(self, y: Image, z: Image) -> bool:
        """Return whether two images are friends, by their exact distance."""
        return sum((a - b) ** 2 for a, b in zip(y, z, strict=True)) <= self.radius**2

    def degrees(self, images: Sequence[Image]) -> list[int]:
        """Return the number of friends of each image, itself included; places that coincide are
        examined once.
        """
        counts = Counter(images)
        known = {
            y: sum(count for z, count in counts.items() if self.are_friends(y, z)) for y in counts
        }
        return [known[y] for y in images]


def rescaling(matrix: Any, radius: Any) -> Rescaling:
    """Return the map for the parameters: M as a diagonal or a matrix, and lambda.

    The cell is the largest power of two that is at most 2^-20 lambda. By column s = 1 /
    fl(sqrt(fl(sqrt(M)))). A matrix M^(-1/4) with rows of norm at most 2^k, k least, is
    multiplied by 2^(20 - k) and rounded; the cell of x is the largest power of two that is at
    most cell / (2^k (floor(sqrt(d)) + 1)).
    """
    given = Fraction(radius)
    cell = largest_power(lambda c: c * _FINE <= given)
    cells = math.floor(given / cell)
    if not isinstance(matrix[0], tuple):
        return Rescaling(cells, cell, tuple(1 / math.sqrt(math.sqrt(m)) for m in matrix))
    root = quarter_root(matrix)
    d = len(matrix)
    longest = max(sum(root[i, k] ** 2 for k in range(d)) for i in range(d))
    length = largest_power(lambda p: real(p / 2) ** 2 < longest)
    scale = real(_FINE / length)
    integers = tuple(tuple(int(mp.nint(root[i, k] * scale)) for k in range(d)) for i in range(d))
    fine = largest_power(lambda c: c * length * (math.isqrt(d) + 1) <= cell)
    unit = cell * _FINE / length / fine
    return Rescaling(cells, cell, (), integers, fine, int(unit))


def quarter_root(matrix: Any) -> Any:
    """Return M^(-1/4), at the working precision; for a singular M the pseudoinverse's fourth root.

    Eigenvalues below 1e-10 of the largest count as zero: floats of a singular matrix are not
    exactly 0.
    """
    values, vectors = mp.eigsy(mp.matrix([[mp.mpf(entry) for entry in row] for row in matrix]))
    zero = mp.mpf("1e-10") * max(values)
    powers = mp.diag([value ** mp.mpf("-0.25") if value > zero else mp.mpf(0) for value in values])
    return vectors * powers * vectors.T


def spectrum(matrix: Any) -> list[Any]:
    """Return the eigenvalues of M, none below zero (where floats of a singular matrix may be)."""
    if not isinstance(matrix[0], tuple):
        known = {entry: mp.mpf(entry) for entry in {*matrix}}
        return [known[entry] for entry in matrix]
    eigenvalues = mp.eigsy(
        mp.matrix([[mp.mpf(entry) for entry in row] for row in matrix]), eigvals_only=True
    )
    return [max(value, mp.mpf(0)) for value in eigenvalues]


def image_spectrum(matrix: Any, covariance: Any) -> list[Any]:
    """Compute the eigenvalues of M^(-1/4) S M^(-1/4), S the covariance; none is below zero."""
    if not isinstance(matrix[0], tuple) and not isinstance(covariance[0], tuple | list):
        return [mp.mpf(s) / mp.sqrt(m) for s, m in zip(covariance, matrix, strict=True)]
    full, root = (
        mp.diag([mp.mpf(entry) for entry in given])
        if not isinstance(given[0], tuple | list)
        else mp.matrix([[mp.mpf(entry) for entry in row] for row in given])
        for given in (covariance, matrix)
    )
    turned = quarter_root([[root[i, k] for k in range(root.cols)] for i in range(root.rows)])
    eigenvalues = mp.eigsy(turned * full * turned, eigvals_only=True)
    return [max(value, mp.mpf(0)) for value in eigenvalues]


def _cells(value: float, cell: Fraction) -> int:
    if not math.isfinite(value):
        return OUTER_BOX if value > 0 else -OUTER_BOX
    return _clamped(nearest(Fraction(value), cell))


def _clamped(value: int) -> int:
    return min(max(value, -OUTER_BOX), OUTER_BOX)
