"""``Box``: the public region in which neighbors are looked for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpverify.privacy import Domain
from dpverify.privacy.adjacency import Dataset, Nonfinite
from dpverify.privacy.calls import fitting
from dpverify.privacy.numbers import Floats, settle, whole

Bound = float | Sequence[float] | None
Record = float | int | tuple[float | int, ...]
"""A number where there is one column, else a tuple with one number a column; integers where a
box has these.
"""
_MOST_ROWS = 20  # where a box says nothing: so many records are cheap to draw again and again
_SHOWN = 4
LARGEST = float(np.finfo(np.float64).max)
_LEAST, _MOST = -(2**63), 2**63 - 1  # integers of 64 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """The datasets, or vectors of query answers, among which neighbors are looked for.

    low, high: public bounds of every column, or one number for each; None: any finite float64.
    columns: numbers in a record; the length of a vector of query answers.
    rows: the fewest and the most records of a dataset; None: from none to as many as the search
    usually takes. Vectors have none.
    integers: all numbers are integers, as are categories or counts; without bounds, those of 64
    bits.
    nonfinite: "replace" where NaN and infinite records are in the mechanism's domain.

    A ``Domain`` says what a claim covers and has no bounds; a box is the part where one looks.
    Raises TypeError or ValueError for bounds that enclose nothing.
    """

    low: Bound = None
    high: Bound = None
    columns: int = 1
    rows: tuple[int, int] | None = None
    integers: bool = False
    nonfinite: Nonfinite = "refuse"

    def __post_init__(self) -> None:
        if whole(self.columns, "columns") < 1:
            raise ValueError(f"columns = {self.columns}; there is at least one.")
        if self.nonfinite not in ("refuse", "replace"):
            raise ValueError(f"nonfinite = {self.nonfinite!r}; write 'refuse' or 'replace'.")
        for name in ("low", "high"):
            self._check_bound(name, getattr(self, name))
        if not np.all(self.lows <= self.highs):
            raise ValueError(
                f"low = {self.low} is above high = {self.high} in a column; give the smaller one "
                "as low."
            )
        if self.rows is not None:
            self._check_rows(self.rows)

    def _check_rows(self, rows: Any) -> None:
        if not isinstance(rows, tuple) or len(rows) != 2:
            raise TypeError(f"rows = {rows!r}; give the fewest and the most, such as (0, 20).")
        if not 0 <= whole(rows[0], "rows[0]") <= whole(rows[1], "rows[1]") or rows[1] < 1:
            raise ValueError(f"rows = {rows}; give the fewest and the most, such as (0, 20).")

    def _check_bound(self, name: str, bound: Bound) -> None:
        if bound is None:
            return
        given: Any = bound.tolist() if isinstance(bound, np.ndarray | np.generic) else bound
        listed = isinstance(given, Sequence) and not isinstance(given, str)
        numbers = tuple(given) if listed else (given,) * self.columns
        settle(self, **{name: numbers if listed else given})
        if len(numbers) != self.columns:
            raise ValueError(
                f"{name} has {len(numbers)} numbers for {self.columns} columns; give one number, "
                "or one for each column."
            )
        if not all(math.isfinite(_as_float(number, name)) for number in numbers):
            raise ValueError(
                f"{name} = {bound} is not finite as a float64; write {name}=None for no bound."
            )
        if self.integers and any(number != int(number) for number in numbers):
            raise ValueError(f"{name} = {bound}; integers are bounded by integers.")

    @property
    def bounded(self) -> bool:
        """True if both bounds are given."""
        return self.low is not None and self.high is not None

    @property
    def sizes(self) -> tuple[int, int]:
        """The fewest and the most records of a dataset; up to 20 where the box does not say."""
        return self.sizes_up_to(_MOST_ROWS)

    def sizes_up_to(self, most: int) -> tuple[int, int]:
        """Return the fewest and the most records of a dataset; up to ``most`` where the box
        does not say.
        """
        return (0, most) if self.rows is None else self.rows

    @property
    def domain(self) -> Domain:
        """The domain of a claim about such records, without bounds: a claim covers more than a
        box.
        """
        return Domain(self.columns, self.nonfinite)

    @property
    def lows(self) -> Floats:
        """The lower bound of each column, shape (columns,)."""
        return self._bounds(self.low, float(_LEAST) if self.integers else -LARGEST)

    @property
    def highs(self) -> Floats:
        """The upper bound of each column, shape (columns,); for integers without one, the last
        float below 2^63.
        """
        return self._bounds(self.high, np.nextafter(2.0**63, 0) if self.integers else LARGEST)

    @property
    def middles(self) -> Floats:
        """Middle of each column, shape (columns,): 0 where the column contains it, else halfway."""
        halfway = self.lows / 2 + self.highs / 2
        middles = np.where((self.lows <= 0) & (self.highs >= 0), 0.0, halfway)
        return np.floor(middles) if self.integers else middles

    def _bounds(self, bound: Bound, otherwise: float) -> Floats:
        given = otherwise if bound is None else bound
        return np.full(self.columns, given, np.float64)

    def __str__(self) -> str:
        kind = "integer" if self.integers else "float64"
        few = "" if self.rows is None else f", {self.rows[0]} to {self.rows[1]} of them"
        odd = ", finite or not" if self.nonfinite == "replace" else ""
        low, high = (
            _shown(self.low, "-", self.integers),
            _shown(self.high, "", self.integers),
        )
        columns = "1 column" if self.columns == 1 else f"{self.columns} columns"
        return f"{kind} records of {columns} from {low} to {high}{odd}{few}"

    def contains(self, record: Any) -> bool:
        """Return whether a record lies in the box (a NaN or an infinity: where they are
        allowed); for integers, exactly.
        """
        if self.integers:
            return self._contains_integers(record if isinstance(record, Sequence) else [record])
        numbers = np.asarray(record, dtype=np.float64).reshape(-1)
        if len(numbers) != self.columns or (self.integers and np.any(numbers != np.round(numbers))):
            return False
        if not np.isfinite(numbers).all():
            return self.nonfinite == "replace"
        return bool(np.all((self.lows <= numbers) & (numbers <= self.highs)))

    def _contains_integers(self, numbers: Any) -> bool:
        plain = [*np.asarray(numbers, dtype=object).ravel()]
        if len(plain) != self.columns or any(number != number // 1 for number in plain):
            return False
        low = [_LEAST] * self.columns if self.low is None else self.lows.tolist()
        high = [_MOST] * self.columns if self.high is None else self.highs.tolist()
        return all(a <= number <= b for a, number, b in zip(low, plain, high, strict=True))

    def record(self, numbers: Sequence[float] | Floats) -> Record:
        """Return a record of these numbers, as integers where the box has integers."""
        kind = int if self.integers else float
        values = tuple(kind(number) for number in numbers)
        return values[0] if self.columns == 1 else values

    def dataset(self, records: Sequence[Record]) -> Dataset:
        """Return a list of numbers where there is one column, else an array of shape (n,
        columns).
        """
        if self.columns == 1:
            return list(records)
        kind = np.int64 if self.integers else np.float64
        return np.array(records, dtype=kind).reshape(-1, self.columns)


Box.__init__ = fitting("Box", lambda _: "Box(low=0, high=1)")(Box.__init__)  # type: ignore[method-assign]


def _as_float(number: Any, name: str) -> float:
    """Convert a bound to a float; infinite where no float is so large. Raises TypeError for
    anything but a number.
    """
    if isinstance(number, bool) or not hasattr(number, "__float__"):
        raise TypeError(f"{name} = {number!r} is no number; write {name}=None for no bound.")
    try:
        return float(number)
    except OverflowError:
        return math.inf


def _shown(bound: Bound, sign: str, integers: bool) -> str:
    """Return a bound in few words; for a missing one, the end of the type."""
    if bound is None:
        return f"{sign}2^63" if integers else f"{sign}1.8e308"
    if isinstance(bound, Sequence) and len(bound) > _SHOWN:
        return f"({', '.join(f'{number:g}' for number in bound[:_SHOWN])}, ...)"
    return str(bound)
