"""The values of a query, read without rounding: floats, integers and fractions are rational
numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Rational
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]
"""Array of float64, or of Python integers and fractions (dtype object)."""
_EXACT_INTEGERS = 1 << 53  # every integer up to here is a float64
_NO_NUMBER = "no number"


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A query's value, read without rounding.

    problem: why there is none, "" if there is. foreign: whether that is because it is no number
    at all.
    """

    numbers: Numbers
    problem: str = ""
    foreign: bool = False

    def equals(self, other: Value) -> bool:
        """Return whether both say the same."""
        same = self.problem == other.problem and self.numbers.shape == other.numbers.shape
        return same and exactly(self.numbers) == exactly(other.numbers)


def read(output: Any) -> Value:
    """Read a number, an array or nested lists of them as a value."""
    if hasattr(output, "to_numpy"):
        output = output.to_numpy()
    if isinstance(output, np.ma.MaskedArray):
        return nothing("a masked array", foreign=True)
    plain = isinstance(output, np.ndarray | np.generic)
    try:
        array = np.asarray(output) if plain else np.asarray(output, dtype=object)
    except ValueError:
        return nothing("ragged", foreign=True)
    if array.dtype.kind == "f" and array.dtype.itemsize <= 8:
        numbers = array.astype(np.float64)  # a copy, since the query may change its own array
        finite = np.isfinite(numbers).all()
        return Value(numbers) if finite else nothing(_nonfinite(numbers))
    if array.dtype.kind in "biu" and _all_exact(array):
        return Value(array.astype(np.float64))
    entries = []
    for entry in array.ravel().tolist():
        number = _rational(entry)
        if isinstance(number, str):
            return nothing(number, foreign=number.startswith(_NO_NUMBER))
        entries.append(number)
    if all(isinstance(number, int) and abs(number) <= _EXACT_INTEGERS for number in entries):
        return Value(np.array(entries, np.float64).reshape(array.shape))
    exactly = np.empty(len(entries), object)
    exactly[:] = entries
    return Value(exactly.reshape(array.shape))


def exactly(numbers: Numbers) -> list[int | Fraction]:
    """Return the entries in order, as integers and fractions."""
    return [
        (int(x) if x.is_integer() else Fraction(x)) if isinstance(x, float) else x
        for x in numbers.ravel().tolist()
    ]


def nothing(problem: str, *, foreign: bool = False) -> Value:
    """Return a value without numbers, and why there are none."""
    return Value(np.zeros(0), problem, foreign)


def _all_exact(whole: Numbers) -> bool:
    ends = (int(whole.min()), int(whole.max())) if whole.size else (0, 0)
    return ends[0] >= -_EXACT_INTEGERS and ends[1] <= _EXACT_INTEGERS


def _nonfinite(numbers: Numbers) -> str:
    return "NaN" if np.isnan(numbers).any() else "infinite"


def _rational(entry: Any) -> int | Fraction | str:
    """Return the number, or what is wrong with it."""
    if type(entry) is int:  # the classes of numbers take longer to ask
        return entry
    if isinstance(entry, bool | np.bool_ | Integral):
        return int(entry)
    if isinstance(entry, Rational):
        return Fraction(int(entry.numerator), int(entry.denominator))
    if not isinstance(entry, float | Decimal | np.floating):
        return f"{_NO_NUMBER} but a {type(entry).__name__}"
    if not (entry.is_finite() if isinstance(entry, Decimal) else bool(np.isfinite(entry))):
        return "infinite" if entry == entry else "NaN"
    numerator, denominator = entry.as_integer_ratio()
    return Fraction(int(numerator), int(denominator)) if denominator != 1 else int(numerator)
