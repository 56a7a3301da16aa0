"""Adjacencies: which datasets are neighbors, and over which records a claim holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpverify.privacy.numbers import exact, settle, to_float, whole
from dpverify.privacy.sealed import sealed

Dataset = Sequence[Any] | NDArray[Any]
Nonfinite = Literal["refuse", "replace"]
_NAN = object()  # equal to itself, as NaN is not, and to nothing else


class Adjacency(Enum):
    """The relation that makes two datasets (sequences of records) neighbors.

    REPLACE: equal length, at most one position differs; the number of rows is public.
    ADD_REMOVE: one is the other with one row deleted, at any position; the number of rows is
    private.
    """

    REPLACE = "replace"
    ADD_REMOVE = "add-remove"

    def __str__(self) -> str:
        return self.value

    def are_neighbors(self, left: Dataset, right: Dataset) -> bool:
        """Return whether two datasets are neighbors, in time linear in their size."""
        return self.why_not_neighbors(left, right) is None

    def why_not_neighbors(self, left: Dataset, right: Dataset) -> str | None:
        """Return None for neighbors; otherwise the reason, with the record that breaks the
        relation.

        Rows are compared after canonicalization: -0.0 equals 0.0, and every NaN equals every
        NaN.
        """
        a, b = comparable_rows(left, right)
        if self is Adjacency.REPLACE:
            return _why_not_replaced(a, b)
        return _why_not_added(a, b)


@sealed
@dataclass(frozen=True, slots=True)
class Friendly:
    """Two friendly datasets, one of which is the other without one row.

    A dataset is friendly under a symmetric predicate where any two records have a common
    friend, a record of the dataset or any other. The adjacency is internal: only the rules for
    filters make an ordinary claim of one about it.

    strangers: the row that one dataset lacks is no friend of at most so many others; None: of
    any number.
    exchange: one dataset may also be the other with one row replaced by another, where the two
    rows have a common friend too.
    """

    predicate: str
    strangers: int | None = None
    exchange: bool = False

    def __str__(self) -> str:
        known = "" if self.strangers is None else f", at most {self.strangers} strangers"
        steps = "add-remove or replace" if self.exchange else "add-remove"
        return f"friendly {steps} ({self.predicate}{known})"

    def includes(self, other: Friendly) -> bool:
        """Return whether all neighbors of the other kind are neighbors of this one."""
        few = self.strangers is None or (
            other.strangers is not None and other.strangers <= self.strangers
        )
        return self.predicate == other.predicate and few and self.exchange >= other.exchange


@sealed
@dataclass(frozen=True, slots=True)
class Groups:
    """Two datasets between which ``size`` steps of ``base`` lead. For reading, not for release."""

    base: Adjacency
    size: int

    def __str__(self) -> str:
        return f"groups of {self.size}, {self.base}"


AnyAdjacency = Adjacency | Friendly | Groups
"""An adjacency that a statement can be about; mechanisms are about an ``Adjacency``."""


def _why_not_replaced(a: list[Any], b: list[Any]) -> str | None:
    if len(a) != len(b):
        return f"{len(a)} against {len(b)} records; replace needs equal numbers of records"
    differing = [i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y]
    if len(differing) > 1:
        return f"records {differing[0]} and {differing[1]} both differ; replace allows one"
    return None


def _why_not_added(a: list[Any], b: list[Any]) -> str | None:
    if abs(len(a) - len(b)) != 1:
        return f"{len(a)} against {len(b)} records; add-remove needs exactly one more on one side"
    long, short = (a, b) if len(a) > len(b) else (b, a)
    first = next((i for i, row in enumerate(short) if row != long[i]), len(short))
    for i in range(first, len(short)):
        if short[i] != long[i + 1]:
            return (
                f"after record {first} is deleted from the longer dataset, record {i} still "
                "differs; add-remove allows one deletion"
            )
    return None


def comparable_rows(left: Dataset, right: Dataset) -> tuple[list[Any], list[Any]]:
    """Return the rows of both datasets as values that are equal where ``canonical_rows`` are.

    Matrices of float64, and lists of rows of floats, take a short way.
    """
    matrices = [_matrix(data) for data in (left, right)]
    if any(matrix is None for matrix in matrices):
        return canonical_rows(left), canonical_rows(right)
    one, other = map(_as_bytes, matrices)
    return one, other


def _matrix(data: Any) -> NDArray[np.float64] | None:
    """Return rows of equally many numbers, all of them floats, as a matrix; None for others."""
    if isinstance(data, np.ndarray):
        return data if data.ndim == 2 and data.dtype == np.float64 else None
    if not isinstance(data, list) or not set(map(type, data)) <= {list, tuple}:
        return None
    if len(set(map(len, data))) != 1 or set(map(type, chain.from_iterable(data))) != {float}:
        return None
    return np.array(data)


def _as_bytes(matrix: Any) -> list[bytes]:
    canonical = np.where(np.isnan(matrix), np.nan, matrix + 0.0)  # one NaN, and no -0.0
    columns = canonical.shape[1]
    if not columns:
        return [b""] * len(canonical)
    rows: list[bytes] = np.ascontiguousarray(canonical).view(f"V{8 * columns}").ravel().tolist()
    return rows


def canonical_rows(data: Dataset) -> list[Any]:
    """Return the rows as comparable values: tuples of Python numbers without -0.0, with one NaN.

    Raises TypeError for what is not a sequence of records (a mapping, a string, a set).
    """
    rows: Any = data.to_numpy() if hasattr(data, "to_numpy") else data
    rows = rows.tolist() if hasattr(rows, "tolist") else rows
    if isinstance(rows, (str, bytes)) or not isinstance(rows, Sequence):
        raise TypeError(
            f"A dataset is a sequence of records or an array of rows, not a {type(data).__name__}."
        )
    if rows and set(map(type, rows)) == {float}:  # most are: one pass, and no call for each
        plain = np.array(rows) + 0.0  # -0.0 + 0.0 is +0.0
        if not np.isnan(plain).any():
            same: list[Any] = plain.tolist()
            return same
    return [_canonical(row) for row in rows]


def _canonical(row: Any) -> Any:
    if type(row) is float:  # most are; the rest of the cases are slower
        return row + 0.0 if row == row else _NAN  # -0.0 + 0.0 is +0.0
    row = row.tolist() if hasattr(row, "tolist") else row
    if isinstance(row, (list, tuple)):
        return tuple(map(_canonical, row))
    if isinstance(row, float):
        return _NAN if math.isnan(row) else row + 0.0
    return row


def _as_float(number: float) -> float:
    """Return the replacement as float64, now and not when a record is replaced."""
    if type(number) is float and math.isfinite(number):
        return number + 0.0  # -0.0 is 0
    value = to_float(exact(number, "replacement"))
    if not math.isfinite(value):
        raise ValueError(
            f"replacement = {number} is not finite as a float64; give a smaller number."
        )
    return value


@sealed
@dataclass(frozen=True, slots=True)
class Domain:
    """The datasets that a claim covers: float64 records of ``columns`` numbers.

    There are any number of records, or up to ``most_rows``.

    nonfinite="refuse": records are finite. A record that is not is a caller error which names
    its row; that refusal reveals the row, so such data are outside the domain.
    nonfinite="replace": a record with a NaN or an infinity counts as ``replacement`` (public: a
    number for every column, or one each), and so does an entry of a list that is no row of real
    numbers. The domain is every array and every list. The value of ``replacement`` says nothing
    about which datasets are covered, so it does not take part in comparisons.
    most_rows: a claim that rests on a bound on the number of rows says nothing about larger
    datasets. They are refused, which reveals that they are larger.
    """

    columns: int
    nonfinite: Nonfinite = "refuse"
    replacement: float | tuple[float, ...] = field(default=0.0, compare=False)
    most_rows: int | None = None

    def __post_init__(self) -> None:
        if whole(self.columns, "columns") < 1:
            raise ValueError(f"columns = {self.columns}; a record has at least one column.")
        if self.most_rows is not None and whole(self.most_rows, "most_rows") < 1:
            raise ValueError(
                f"most_rows = {self.most_rows}; give the largest number of rows, at least 1, or "
                "leave it out."
            )
        if self.nonfinite not in ("refuse", "replace"):
            raise ValueError(
                f"nonfinite = {self.nonfinite!r}; write 'refuse' (a NaN is a caller error) or "
                "'replace' (it counts as a fixed public record)."
            )
        if not isinstance(self.replacement, tuple):
            settle(self, replacement=_as_float(self.replacement))
        elif len(self.replacement) != self.columns:
            raise ValueError(
                f"replacement has {len(self.replacement)} numbers for {self.columns} columns; give "
                "one number, or one for each column."
            )
        else:
            numbers = tuple(_as_float(number) for number in self.replacement)
            settle(self, replacement=numbers)

    def __str__(self) -> str:
        columns = "1 column" if self.columns == 1 else f"{self.columns} columns"
        few = "" if self.most_rows is None else f", at most {self.most_rows} of them"
        if self.nonfinite == "refuse":
            return f"finite float64 records of {columns}{few}"
        return f"float64 records of {columns}, finite or not{few}"


@sealed
@dataclass(frozen=True, slots=True)
class TableDomain:
    """Tables of named columns, with any number of rows and cells of any kind.

    Claims about one table compose, whatever columns they are about; claims about tables of
    other names, columns or types do not.

    name: the table's.
    columns: each column's name and the declared type by which its cells are read, as exact
    text.
    """

    name: str
    columns: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        given: Any = self.columns
        made = type(given) is tuple and all(type(c) is tuple and len(c) == 2 for c in given)
        if not made or any(type(text) is not str for text in (self.name, *sum(given, ()))):
            raise TypeError(
                "A table has a name, and a tuple of pairs: each column's name and its type, all "
                "texts."
            )
        names = [name for name, _ in self.columns]
        if len(set(names)) != len(names) or not names:
            raise ValueError(f"columns {names}: give at least one, and each name once.")

    @property
    def most_rows(self) -> int | None:
        """Bound on the number of rows: always None, for a claim about tables covers any number."""
        return None

    def __str__(self) -> str:
        columns = ", ".join(f"{name} ({kind})" for name, kind in self.columns)
        return f"rows of the table {self.name!r}: {columns}"


AnyDomain = Domain | TableDomain
"""A domain that a claim can be about; mechanisms, queries and events are about a ``Domain``."""
