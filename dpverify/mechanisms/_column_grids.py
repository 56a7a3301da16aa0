"""A public interval for every column, divided into cells: what mechanisms of quantiles share."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpverify.grid import interval
from dpverify.grid.cells import floor_log2
from dpverify.mechanisms.clipped_mean import Numbers, _numbers
from dpverify.privacy.numbers import whole

_MOST_CELLS = 1 << 24

Grids = tuple[tuple[int, int, int], ...]
"""For every column the bounds in cells and the cell's exponent."""


def checked_bounds(lower: Any, upper: Any) -> tuple[Numbers, Numbers]:
    """As floats, one of each for every column, in order; TypeError or ValueError otherwise."""
    lows, highs = _numbers(lower, "lower"), _numbers(upper, "upper")
    if len(lows) != len(highs):
        raise ValueError(
            f"{len(lows)} lower and {len(highs)} upper bounds; give one of each for every column."
        )
    for j, ends in enumerate(zip(lows, highs, strict=True)):
        interval(*ends, f"lower and upper of column {j}")
    return lows, highs


def checked_cells(lower: Numbers, upper: Numbers, cells: object) -> int:
    """A whole number of cells for which no bound is more than 2^25 of them from zero."""
    count = whole(cells, "cells")
    if not 2 <= count <= _MOST_CELLS:
        raise ValueError(f"cells = {count} is outside 2..2^24; leave it out for 2^20.")
    for j, (low, high, _) in enumerate(grids_of(lower, upper, count)):
        if max(abs(low), abs(high)) > 2 * _MOST_CELLS:
            raise ValueError(
                f"The bounds of column {j} are {max(abs(low), abs(high))} cells from zero, beyond "
                "2^25: they are too near each other for that. Subtract a public constant from the "
                "data, or give fewer cells."
            )
    return count


@lru_cache(maxsize=16)
def grids_of(lower: Numbers, upper: Numbers, cells: int) -> Grids:
    """The bounds rounded to the nearest cell; the largest power of two of which they hold ``cells``."""
    found = []
    for low, high in zip(map(Fraction, lower), map(Fraction, upper), strict=True):
        exponent = floor_log2((high - low) / cells)
        cell = Fraction(2) ** exponent
        found.append((round(low / cell), round(high / cell), exponent))
    return tuple(found)


def middle_of(lower: Numbers, upper: Numbers) -> tuple[float, ...]:
    """The middle of every column's bounds."""
    return tuple(a / 2 + b / 2 for a, b in zip(lower, upper, strict=True))
