"""Declared types of columns: which cells are values, which are missing, and what a missing cell
counts as.

A type is declared and never guessed: a guess from the values would be a release of them. Reading
a cell looks at that cell alone and at the declared type.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from dpverify.grid import interval
from dpverify.privacy.numbers import Floats, settle
from dpverify.privacy.sealed import sealed
from dpverify.tables.cells import Cells, numbers, spelled, texts, without_signs

LEAVE_OUT: Literal["leave out"] = "leave out"
_WHOLE = 2**53
_BOUNDS = "low and high"


class ColumnType(ABC):
    """A declared type. Every cell is a value of it, as a number, or missing.

    missing: the public value of the type that a missing cell counts as; or "leave out", which
    leaves the record out of every selection that has the column.
    """

    __slots__ = ()
    missing: Any

    @abstractmethod
    def encode(self, cells: Cells, out: Floats | None = None) -> Floats:
        """Return each cell's number, NaN where it is missing, in ``out`` or in a new array."""

    @abstractmethod
    def number(self, value: Any, column: str) -> float:
        """Return the number of a public value. Raises TypeError or ValueError, naming the
        column.
        """

    @property
    def leaves_out(self) -> bool:
        """Tell whether a record whose cell is missing is left out."""
        return isinstance(self.missing, str) and self.missing == LEAVE_OUT

    @property
    def fill(self) -> float:
        """Number that a missing cell counts as; NaN where its record is left out."""
        return float("nan") if self.leaves_out else self.number(self.missing, "missing")

    def _missing_text(self) -> str:
        return "left out" if self.leaves_out else f"counts as {self.missing!r}"


@sealed
@dataclass(frozen=True, slots=True)
class Number(ColumnType):
    """Real numbers, clamped to public bounds where these are given.

    Text that spells a number counts as this number. NaN, infinities, and whatever is no number
    are missing.
    low, high: public bounds, chosen without looking at the data; a value beyond one counts as the
    bound. Without bounds values are as they are.
    missing: a public number, within the bounds; or "leave out".
    Raises TypeError or ValueError for others.
    """

    low: float | None = None
    high: float | None = None
    missing: float | Literal["leave out"] = LEAVE_OUT
    _what: ClassVar[str] = "number"

    def __post_init__(self) -> None:
        if (self.low is None) != (self.high is None):
            raise ValueError(
                f"{_BOUNDS}: {self.low} and {self.high}; give both bounds, chosen without looking "
                "at the data, or neither."
            )
        if self.low is not None:
            low, high = interval(self.low, self.high, _BOUNDS)
            settle(self, low=low, high=high)
        if not self.leaves_out:
            settle(self, missing=self.number(self.missing, "missing"))

    def encode(self, cells: Cells, out: Floats | None = None) -> Floats:
        """Return each cell's number, moved to the nearer bound if it is beyond, NaN where it is
        missing.
        """
        if self.low is None or self.high is None:
            return numbers(cells, out)
        if isinstance(cells, np.ndarray) and _all_between(cells, self.low, self.high):
            return without_signs(cells, out)  # no cell is missing or beyond a bound
        values = numbers(cells, out)
        return np.clip(values, self.low, self.high, out=values)

    def number(self, value: Any, column: str) -> float:
        """Return a public number as a float within the bounds. Raises TypeError or ValueError."""
        number = numbers([value])[0]
        if isinstance(value, (str, bytes, bool, np.bool_)) or np.isnan(number):
            raise TypeError(f"{column}: {value!r} is no finite number; give one, for example 0.0.")
        if self.low is not None and self.high is not None and not self.low <= number <= self.high:
            raise ValueError(
                f"{column}: {value!r} is outside [{self.low}, {self.high}]; give a number within "
                "the bounds."
            )
        return float(number)

    def __str__(self) -> str:
        within = "" if self.low is None else f" from {self.low!r} to {self.high!r}"
        return f"{self._what}{within}, missing: {self._missing_text()}"


def _all_between(cells: Floats, low: float, high: float) -> bool:
    """Tell whether all cells are between low and high; with a NaN, which makes the least and the
    largest NaN, they are not.
    """
    return bool(cells.size and cells.min() >= low and cells.max() <= high)


@sealed
@dataclass(frozen=True, slots=True)
class Integer(Number):
    """Whole numbers, as for ``Number``; a number that is not whole is missing.

    low, high: whole public bounds of at most 2^53 in size. missing: a whole number within them, or
    "leave out".
    """

    _what: ClassVar[str] = "whole number"

    def __post_init__(self) -> None:
        Number.__post_init__(self)
        for bound in () if self.low is None or self.high is None else (self.low, self.high):
            if not bound.is_integer() or abs(bound) > _WHOLE:
                raise ValueError(
                    f"{_BOUNDS}: {bound} is not a whole number of at most 2^53; give one, or "
                    "declare a Number."
                )

    def encode(self, cells: Cells, out: Floats | None = None) -> Floats:
        """Return each whole number, moved to the nearer bound if it is beyond, NaN where a cell
        is missing.
        """
        values = numbers(cells, out)
        values[np.floor(values) != values] = np.nan
        return values if self.low is None else np.clip(values, self.low, self.high, out=values)

    def number(self, value: Any, column: str) -> float:
        """Return a whole number as a float within the bounds. Raises TypeError or ValueError."""
        number = Number.number(self, value, column)
        if not number.is_integer():
            raise ValueError(f"{column}: {value!r} is not whole; give a whole number.")
        return number


class _Listed(ColumnType):
    """A type with a public list of values. A cell's number is its value's place in the list."""

    __slots__ = ()

    @abstractmethod
    def places(self) -> dict[str | float, float]:
        """Return the place of each text and of each number that stands for a value."""

    def encode(self, cells: Cells, out: Floats | None = None) -> Floats:
        """Return the place of each cell's value in the public list, NaN where it is missing."""
        places = self.places()
        codes = _look_up(numbers(cells), places, out)
        if isinstance(cells, list):
            for i, text in enumerate(texts(cells)):
                if text is not None and text in places:
                    codes[i] = places[text]
        return codes


def _look_up(values: Floats, places: dict[str | float, float], out: Floats | None) -> Floats:
    codes = np.empty(len(values)) if out is None else out
    codes[:] = np.nan
    for key, place in places.items():
        if isinstance(key, float):
            codes[values == key] = place
    return codes


@sealed
@dataclass(frozen=True, slots=True, init=False)
class Category(_Listed):
    """Values from a public list of texts or whole numbers; whatever is not listed is missing.

    Text is compared without blanks around it. A text that spells a number and the number are the
    same value, since a single record may decide how a column is stored.
    missing: one of the values, or "leave out".
    Raises TypeError or ValueError for values that are no such list.
    """

    values: tuple[str | int, ...]
    missing: str | int

    def __init__(self, *values: str | int, missing: str | int = LEAVE_OUT) -> None:
        settle(self, values=values, missing=missing)
        keys = [_key(value) for value in values]
        if not keys or len(set(keys)) < len(keys):
            raise ValueError(
                f"values {values}: give at least one, and each once; '1' and 1 are the same value."
            )
        if not self.leaves_out:
            self.number(missing, "missing")

    def places(self) -> dict[str | float, float]:
        """Return the place of each listed text and number."""
        return {_key(value): float(place) for place, value in enumerate(self.values)}

    def number(self, value: Any, column: str) -> float:
        """Return the place of a listed value. Raises ValueError for any other."""
        place = None if isinstance(value, bool) else self.places().get(_key(value))
        if place is None:
            raise ValueError(
                f"{column}: {value!r} is not among the declared values {self.values}; give one of "
                "these."
            )
        return place

    def __str__(self) -> str:
        return f"one of {self.values!r}, missing: {self._missing_text()}"


def _key(value: Any) -> str | float:
    """Return a key that two values share if no cell could tell them apart."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise TypeError(
            f"{value!r} is a {type(value).__name__}; a category's values are texts or whole "
            "numbers, one after the other: Category('a', 'b'). Boolean() is the type of truth "
            "values."
        )
    if isinstance(value, int):
        if abs(value) > _WHOLE:
            raise ValueError(
                f"{value} is beyond 2^53, where columns stored as floats lose whole numbers."
            )
        return float(value)
    (text,) = texts([value])
    if not text or text == LEAVE_OUT or text.lower() in ("true", "false"):
        raise ValueError(
            f"{value!r} cannot be a category's value: an empty text is missing, and for true and "
            "false there is Boolean()."
        )
    number = spelled(text)
    return text if number is None else number + 0.0


@sealed
@dataclass(frozen=True, slots=True)
class Boolean(_Listed):
    """Truth values: True and False, 1 and 0, and the words true and false in any case; whatever
    else is missing.

    missing: True or False, or "leave out".
    """

    missing: bool | Literal["leave out"] = LEAVE_OUT
    values: ClassVar[tuple[bool, ...]] = (False, True)

    def __post_init__(self) -> None:
        if not self.leaves_out:
            self.number(self.missing, "missing")

    def places(self) -> dict[str | float, float]:
        """Return 1 for the number 1 and 0 for the number 0."""
        return {0.0: 0.0, 1.0: 1.0}

    def number(self, value: Any, column: str) -> float:
        """Return 1 for True and 0 for False. Raises ValueError for anything else."""
        if not isinstance(value, bool):
            raise ValueError(f"{column}: {value!r} is neither True nor False.")
        return float(value)

    def __str__(self) -> str:
        return f"truth value, missing: {self._missing_text()}"


DECLARED = (Number, Integer, Category, Boolean)
"""The types that a table takes."""
