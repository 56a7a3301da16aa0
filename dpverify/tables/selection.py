"""Selections: columns of a table with some records left out, by a public function of each record,
and their effect on claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpverify.grid import interval
from dpverify.privacy import Adjacency, Derivation, Domain, PrivacyClaim, rules
from dpverify.privacy.numbers import Floats
from dpverify.tables.cells import Numbers, any_missing
from dpverify.tables.types import Boolean, Category, ColumnType, Integer, Number

if TYPE_CHECKING:
    from dpverify.tables.table import Table


@dataclass(frozen=True, slots=True)
class Condition:
    """A public condition on one column: its number is among several, or between low and high."""

    column: str
    among: tuple[float, ...] = ()
    low: float = 0.0
    high: float = 0.0
    words: str = ""

    def holds(self, values: Floats) -> NDArray[np.bool_]:
        """Tell for each number whether it meets the condition; NaN does not."""
        if self.among:
            return np.isin(values, self.among)
        met: NDArray[np.bool_] = (values >= self.low) & (values <= self.high)
        return met


@dataclass(frozen=True, slots=True)
class Keep:
    """The function of each row that makes a selection: from the numbers of columns to the kept
    records.
    """

    columns: tuple[str, ...]
    conditions: tuple[Condition, ...]
    filling: float | None

    def __call__(self, numbers: Mapping[str, Floats]) -> Floats:
        """Return the kept records in order, shape (n, number of columns)."""
        n = len(next(iter(numbers.values())))
        kept = np.ones(n, bool)
        for one in self.conditions:
            kept &= one.holds(numbers[one.column])
        records = self._columns(numbers) if self.columns else np.zeros((n, 1))
        if not (isinstance(numbers, Numbers) and numbers.complete) and any_missing(records):
            kept &= ~np.isnan(records).any(axis=1)
        if kept.all():
            return records
        if self.filling is None:
            return records[kept]
        return np.where(kept[:, np.newaxis], records, self.filling)

    def _columns(self, numbers: Mapping[str, Floats]) -> Floats:
        """Return the columns beside each other, each contiguous; without a copy where they
        already are.
        """
        if isinstance(numbers, Numbers) and tuple(numbers) == self.columns:
            return numbers.rows.T
        return np.array([numbers[name] for name in self.columns]).T


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Selection:
    """Some columns of a table, of the records that public conditions keep.

    Each record is looked at alone. A record is left out if a condition does not hold, or if a cell
    of the selected columns or of a condition's is missing and its type says "leave out".
    ``records`` is as secret as the data; all else is public.
    """

    table: Table
    columns: tuple[str, ...]
    conditions: tuple[Condition, ...] = ()
    filling: float | None = None

    @property
    def types(self) -> dict[str, ColumnType]:
        """Declared types of the selected columns."""
        return {name: self.table.columns[name] for name in self.columns}

    @property
    def leaves_out(self) -> bool:
        """Tell whether a record can be left out: a public fact, decided by types and conditions
        alone."""
        several = bool(self.conditions) or any(kind.leaves_out for kind in self.types.values())
        return several and self.filling is None

    @property
    def why(self) -> str:
        """Description of the function of one record, in words."""
        read = ", ".join(f"{name} ({kind})" for name, kind in self.types.items())
        kept = "".join(f"; kept where {one.words}" for one in self.conditions)
        filled = "" if self.filling is None else f"; any other record as {self.filling!r}"
        return f"{read or 'each record as 0'}{kept}{filled}"

    @property
    def records(self) -> Any:
        """Kept records as mechanisms take them, shape (n, number of columns), or in chunks of
        such; as secret as the data.

        A category's value is its place in the declared list, a truth value is 0 or 1. Without
        columns each record is a single 0, to be counted.
        """
        keep = Keep(self.columns, self.conditions, self.filling)
        chunks = self.table.chunks
        if chunks is not None:
            return chunks.mapped(keep)
        return keep({name: self.table.numbers(name) for name in self.table.columns})

    def where(
        self,
        column: str,
        *,
        among: Iterable[Any] | None = None,
        between: tuple[float, float] | None = None,
    ) -> Selection:
        """Keep the records whose value of a column is one of public values, or between two public
        bounds.

        among: declared values of a Category or a Boolean, or whole numbers of an Integer.
        between: (low, high), both of which belong to the range.
        Raises TypeError or ValueError, from public facts alone.
        """
        kind = self.table.type_of(column)
        if (among is None) == (between is None):
            raise ValueError(
                f"where({column!r}): give among=[...] or between=(low, high), one of them."
            )
        made = _between(column, kind, between) if among is None else _among(column, kind, among)
        return replace(self, conditions=(*self.conditions, made))

    def by(self, column: str) -> dict[Any, Selection]:
        """Divide the records by a column's declared values: a selection for each value, all
        disjoint.

        Every declared value has a selection, whether it occurs or not. Raises TypeError unless
        the column is a Category or a Boolean.
        """
        kind = self.table.type_of(column)
        if self.filling is not None:
            raise ValueError(
                f"by={column!r}: of a filled selection every group would have all records; divide "
                "first."
            )
        if not isinstance(kind, (Category, Boolean)):
            raise TypeError(
                f"by={column!r}: the column is declared as {kind}, and which values occur is "
                "private; declare it as Category(...) with the values to group by."
            )
        return {value: self.where(column, among=[value]) for value in kind.values}

    def filled(self, value: float) -> Selection:
        """Count each record that would be left out as this public value in every column, so that
        none is left out.

        A query to which such a record adds nothing, as a sum for the value 0, is then paid for
        once under replace too. Raises TypeError or ValueError for what is no finite number.
        """
        return replace(self, filling=Number().number(value, "filled"))

    def adjacency_needed(self, adjacency: Adjacency) -> Adjacency:
        """Return the adjacency that a mechanism on these records needs for a claim under
        ``adjacency``.

        It is add-remove wherever a record can be left out: the number of kept records is private
        under either.
        """
        return Adjacency.ADD_REMOVE if self.leaves_out else adjacency

    def steps(self, adjacency: Adjacency) -> int:
        """Return the number of steps that a claim is paid for: 2 where a replaced record may be
        left out, else 1.
        """
        return 2 if self.leaves_out and adjacency is Adjacency.REPLACE else 1

    def carry(
        self, derivation: Derivation[PrivacyClaim], adjacency: Adjacency
    ) -> Derivation[PrivacyClaim]:
        """Derive the claim about the table, under ``adjacency``, of a mechanism that runs on
        these records.

        derivation: the mechanism's own, under ``adjacency_needed(adjacency)``. Raises ValueError
        for a mechanism that takes another number of columns, or is for another adjacency.
        """
        taken, width = derivation.conclusion.domain, max(1, len(self.columns))
        if isinstance(taken, Domain) and taken.columns != width:
            raise ValueError(
                f"The mechanism takes records of {taken.columns} columns, and the selection has "
                f"{width}; select as many as it takes."
            )
        domain, by = self.table.domain, self.why
        if self.leaves_out:
            return rules.of_kept_records(derivation, domain=domain, adjacency=adjacency, by=by)
        if derivation.conclusion.adjacency is not adjacency:
            raise ValueError(
                f"The mechanism's claim is under {derivation.conclusion.adjacency}, and "
                f"{adjacency} is asked for; build it for {adjacency}."
            )
        return rules.of_each_record(derivation, domain=domain, by=by)

    def __repr__(self) -> str:
        return f"Selection of {self.table.name!r}: {self.why}"


def _among(column: str, kind: ColumnType, among: Iterable[Any]) -> Condition:
    if isinstance(among, (str, bytes)) or not isinstance(among, Iterable):
        raise TypeError(
            f"where({column!r}): among={among!r} is no list of values; write among=[...]."
        )
    if not isinstance(kind, (Category, Boolean, Integer)):
        raise TypeError(
            f"where({column!r}): the column is declared as {kind}; give between=(low, high), for "
            "equality of real numbers depends on their rounding."
        )
    values = tuple(among)
    if not values:
        raise ValueError(f"where({column!r}): among is empty; give at least one declared value.")
    numbers = tuple(kind.number(value, column) for value in values)
    return Condition(column, among=numbers, words=f"{column} is among {values!r}")


def _between(column: str, kind: ColumnType, between: Any) -> Condition:
    if not isinstance(kind, Number):
        raise TypeError(f"where({column!r}): the column is declared as {kind}; give among=[...].")
    if not isinstance(between, (tuple, list)) or len(between) != 2:
        raise TypeError(
            f"where({column!r}): between={between!r} is no pair; write between=(low, high)."
        )
    low, high = interval(between[0], between[1], f"where({column!r}), between")
    return Condition(column, low=low, high=high, words=f"{column} is from {low!r} to {high!r}")
