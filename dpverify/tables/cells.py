"""Single cells as numbers and as texts, whatever they hold, each by itself.

The same value gives the same number however it is stored, since other cells of its column may
decide its storage: a missing value makes pandas store integers as floats, a word makes every
number of a file a text, a complex number makes an array complex. So text counts as the number
that it spells, a truth value and its word as 0 or 1, and a complex number without an imaginary
part as a real one.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpverify.grid.records import numbers_of
from dpverify.privacy.numbers import Floats

Cells = list[Any] | Floats
"""The cells of one column: any objects, or floats of which a NaN is missing."""

_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_TRUTH = {"true": 1.0, "false": 0.0}
_BLANK = " \t\r\n"


class Numbers(dict[str, Floats]):
    """The numbers of columns by name, the rows of one array. complete: whether none of them is
    NaN.
    """

    def __init__(self, names: Sequence[str], rows: Floats, complete: bool) -> None:
        super().__init__(zip(names, rows, strict=True))
        self.rows, self.complete = rows, complete


def numbers(cells: Cells, out: Floats | None = None) -> Floats:
    """Convert cells to the nearest float64, and to NaN where a cell is no finite real number.

    out: an array for the numbers; by default a new one.
    """
    if not isinstance(cells, np.ndarray):
        listed = numbers_of([_bare(cell) for cell in cells])
        return listed if out is None else np.add(listed, 0.0, out=out)
    values = without_signs(cells, out)
    finite = np.isfinite(values)
    if not finite.all():
        values[~finite] = np.nan
    return values


def without_signs(cells: Floats, out: Floats | None = None) -> Floats:
    """Copy numbers, with 0 for -0.0."""
    return np.asarray(np.add(cells, 0.0, out=out))


def any_missing(values: Floats) -> bool:
    """Tell whether a number is NaN. Then the least of all is NaN."""
    return bool(np.isnan(values.min(initial=0.0)))


def texts(cells: list[Any]) -> list[str | None]:
    """Return the text of each cell that is a text, without blanks around it; None for all
    others.
    """
    return [_text(cell) for cell in cells]


def spelled(text: str) -> float | None:
    """Return the number that a text spells in decimal digits, 1 for true and 0 for false; None
    for any other text.
    """
    return float(text) if _NUMBER.fullmatch(text) else _TRUTH.get(text.lower())


def _text(cell: Any) -> str | None:
    """Read text or UTF-8 bytes. Only the cell's type is asked, never the cell, which may run
    foreign code.
    """
    kind = type(cell)
    if kind is str:
        return str(cell).strip(_BLANK)
    if issubclass(kind, str):
        return str.__str__(cell).strip(_BLANK)
    if issubclass(kind, bytes):
        try:
            return bytes.__getitem__(cell, slice(None)).decode("utf-8").strip(_BLANK)
        except UnicodeDecodeError:
            return None
    return None


def _bare(cell: Any) -> Any:
    """Return the number that a text spells, or the real part of a complex number without an
    imaginary part; else the cell.
    """
    kind = type(cell)
    if kind is float or kind is int:
        return cell
    text = _text(cell)
    if text is not None:
        return spelled(text)
    if issubclass(kind, (complex, np.complexfloating)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return float(cell.real) if cell.imag == 0 else None
        except Exception:  # a subclass may raise anything, and its message may show the record
            return None
    return cell
