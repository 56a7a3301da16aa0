"""The public grid: its cells are powers of two, public bounds are floats, records are rounded
to cells exactly.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.records import Records
from dpverify.privacy.numbers import Exact, exact

_NORMAL = 1022
"""Largest exponent, of either sign, for which a power of two is sure to be a normal float."""


def power_of_two(cell: Exact) -> Fraction:
    """Return the cell as a rational. Raises ValueError unless it is a power of two."""
    value = exact(cell, "cell")
    parts = (value.numerator, value.denominator)
    if value <= 0 or any(part & (part - 1) for part in parts):
        raise ValueError(f"cell = {cell} is not a power of two; write for example '1/1024'.")
    return value


def floor_log2(value: Fraction) -> int:
    """Return the largest k with 2^k <= value, for a value above 0."""
    k = value.numerator.bit_length() - value.denominator.bit_length()
    return k if Fraction(2) ** k <= value else k - 1


def quantize(
    values: Records,
    lower: int | NDArray[np.int64],
    upper: int | NDArray[np.int64],
    exponent: int | NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return clamp(round(x / 2^exponent), lower, upper) for each x, exactly; |lower|,
    |upper| <= 2^53.

    ``exponent`` and the bounds are one for all, or one a column.
    """
    return float_cells(values, lower, upper, exponent).astype(np.int64)


def float_cells(
    values: Records,
    lower: int | NDArray[np.int64],
    upper: int | NDArray[np.int64],
    exponent: int | NDArray[np.int64],
) -> NDArray[np.float64]:
    """Give ``quantize``'s integers as the floats that they are, in a new array.

    Scaling up by a power of two is exact or gives an infinity, which clamps as x would; scaling
    down loses bits only below 2^-1022, far from any half. Where 2^-exponent is a normal float,
    the product with it equals ``ldexp``, because both round the same real number once, and is
    faster. The caller's floating-point error state must not turn either into an exception that
    depends on a record.
    """
    with np.errstate(all="ignore"):
        factors = np.ldexp(1.0, -exponent)
        normal = np.abs(exponent).max(initial=0) <= _NORMAL
        cells = values * factors if normal else np.ldexp(values, -exponent)
        np.rint(cells, out=cells)
        ends = np.asarray(lower, np.float64), np.asarray(upper, np.float64)
        return np.clip(cells, *ends, out=cells)


def interval(lower: Any, upper: Any, name: str) -> tuple[float, float]:
    """Return the bounds as floats. Raises unless they are finite numbers with lower < upper."""
    low, high = (_bound(bound, name) for bound in (lower, upper))
    if not low < high:
        how = "equal" if low == high else "reversed"
        raise ValueError(
            f"{name}: as float64 the bounds {lower} and {upper} are {how}; give the smaller one "
            "first, chosen without looking at the data."
        )
    return low, high


def _bound(bound: Any, name: str) -> float:
    if isinstance(bound, bool) or not isinstance(bound, (int, float, np.integer, np.floating)):
        raise TypeError(
            f"{name}: {bound!r} is a {type(bound).__name__}; a bound is a number, for example "
            "120.0, chosen without looking at the data."
        )
    try:
        value = float(bound)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise ValueError(f"{name}: the bound {bound} is not finite; give a finite public bound.")
    return value
