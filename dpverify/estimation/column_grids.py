"""Public grids for columns: intervals divided into cells, and the unit in which a column of
some spread is summed.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any

from dpverify.estimation.clipping import Numbers, numbers_of
from dpverify.estimation.rationals import Rationals
from dpverify.grid import interval
from dpverify.grid.cells import floor_log2
from dpverify.grid.coordinates import Stretch
from dpverify.plans.parameters import Converter, positive, rational, whole_from
from dpverify.privacy.numbers import exact

GRAIN = 1 << 10
"""Radii and weights are multiples of integers this large, so that their noise is in proportion."""
TYPICAL = 1 << 14
"""The root mean square of the norms that are expected, in grains."""
_MOST_CELLS = 1 << 24

Grids = tuple[tuple[int, int, int], ...]
"""Bounds in cells, and the exponent of the cell, for every column."""


def clipped_share(example: str) -> Converter:
    """Make a converter to the share of normal records that may be clipped, which has a finite
    clip radius.
    """
    return rational(
        lambda value: Fraction(1, 10**100) <= value < 1,
        f" is outside [1e-100, 1); try '{example}'.",
    )


def _public_cell(value: Any, name: str) -> Any:
    """Read the step of a grid as it was given, or one for each column; raises TypeError or
    ValueError for others.
    """
    if isinstance(value, (int, float, Fraction, str)):
        return positive(as_given=True)(value, name)
    cells = numbers_of(value, name)
    for one in cells:
        positive()(one, name)
    return cells


PublicCell = Annotated[Any, _public_cell]
"""The step of a grid of records: a positive number, or one for each column."""


def exponents_of(cell: Any, columns: int) -> tuple[int, ...]:
    """Return the exponent of each column's cell: the largest power of two that is not above the
    cell. Raises ValueError.
    """
    if not isinstance(cell, tuple):
        return (floor_log2(exact(cell, "cell")),) * columns
    if len(cell) != columns:
        raise ValueError(
            f"cell: {len(cell)} numbers for {columns} columns; give one, or one for each."
        )
    return tuple(floor_log2(Fraction(one)) for one in cell)


Cells = Annotated[
    int, whole_from(2, " is outside 2..2^24; leave it out for 2^20.", most=_MOST_CELLS)
]
"""Into how many cells a column's interval is divided, or up to twice as many."""


def check_bounds(lower: Numbers, upper: Numbers, cells: int) -> None:
    """Refuse, with ValueError, bounds that are not one of each for every column, in order,
    within 2^25 cells of zero.
    """
    if len(lower) != len(upper):
        raise ValueError(
            f"{len(lower)} lower and {len(upper)} upper bounds; give one of each for every column."
        )
    for j, ends in enumerate(zip(lower, upper, strict=True)):
        interval(*ends, f"lower and upper of column {j}")
    for j, (low, high, _) in enumerate(grids_of(lower, upper, cells)):
        if max(abs(low), abs(high)) > 2 * _MOST_CELLS:
            raise ValueError(
                f"The bounds of column {j} are {max(abs(low), abs(high))} cells from zero, beyond "
                "2^25: they are too near each other for that. Subtract a public constant from the "
                "data, or give fewer cells."
            )


@lru_cache(maxsize=16)
def grids_of(lower: Numbers, upper: Numbers, cells: int) -> Grids:
    """Round bounds to the nearest cell, a cell being the largest power of two of which they
    hold ``cells``.
    """
    grids = []
    for low, high in zip(map(Fraction, lower), map(Fraction, upper), strict=True):
        exponent = floor_log2((high - low) / cells)
        cell = Fraction(2) ** exponent
        grids.append((round(low / cell), round(high / cell), exponent))
    return tuple(grids)


def middle_of(lower: Numbers, upper: Numbers) -> tuple[float, ...]:
    """Compute the middle of every column's bounds."""
    return tuple(a / 2 + b / 2 for a, b in zip(lower, upper, strict=True))


@lru_cache(maxsize=16)
def units_of(weights: Rationals, energy: Fraction) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Choose exponents and factors that map x_j to x_j / (g sqrt(weight_j)), g sqrt(2^48) =
    sqrt(energy).

    The energy is the expected squared norm of x_j / sqrt(weight_j); it becomes 2^24 squared.
    The cell 2^e is the largest with 2^e / (g sqrt(weight)) <= 64, and the factor is that
    number, rounded down.
    """
    below = energy.denominator * weights.denominator * (TYPICAL * GRAIN) ** 2
    known: dict[int, tuple[int, int]] = {}
    for weight in weights.numerators:
        if weight not in known:
            # numerator and denominator of the square of g sqrt(weight)
            unit = energy.numerator * weight, below
            exponent = floor_log2(Fraction(4096 * unit[0], unit[1])) // 2
            square = (unit[1] << max(2 * exponent, 0)) // (unit[0] << max(-2 * exponent, 0))
            known[weight] = exponent, math.isqrt(square)
    exponents, factors = zip(*(known[weight] for weight in weights.numerators), strict=True)
    return exponents, factors


@lru_cache(maxsize=16)
def stretch_to(medians: Rationals, weights: Rationals, energy: Fraction) -> Stretch:
    """Build the map of records about the medians, rounded to cells, with the units of
    ``units_of``.
    """
    exponents, factors = units_of(weights, energy)
    return Stretch(medians.cells(exponents), exponents, factors)
