"""Transcripts of a plan's released values, and how later queries, parts and estimates read them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.linear import Integers

Rows = NDArray[np.intp]
_Value = TypeVar("_Value", covariant=True)
_Found = TypeVar("_Found")
_ALL = np.zeros(0, np.intp)  # indices of draws, where it is always all of them


class Handle(str):
    """The name of a stage, by which its released value is read.

    A stage of a part is read from outside as ``stage.under(part)``; inside the part its own
    name does.
    """

    __slots__ = ()

    def under(self, part: str) -> Handle:
        """Name the same stage as it is seen from outside of a part of this name."""
        return Handle(f"{part}/{self}")


@dataclass(frozen=True, slots=True)
class Transcripts:
    """A batch of draws of a plan; a single release is a batch of one.

    values: by stage, shape (size, width), or (size,) with a tuple of varying length as each
    entry; row i means something only if the stage is among the first reached[i] of the plan.
    stopped_by: for each draw the place in ``reasons`` of the gate that stopped it, or -1.
    known: quantities of these draws that were computed while they were sampled, by key, for
    later scores; None: nothing is remembered. Exact answers about the records are among them, so
    that they stay in this process: copies and pickles remember nothing.
    """

    values: dict[str, Integers]
    reached: NDArray[np.intp]
    stopped_by: NDArray[np.intp]
    reasons: tuple[str, ...] = ()
    known: dict[Hashable, Any] | None = field(default=None, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.reached)

    def __reduce__(self) -> tuple[Any, ...]:
        return Transcripts, (self.values, self.reached, self.stopped_by, self.reasons)

    @overload
    def __getitem__(self, which: str) -> Integers: ...
    @overload
    def __getitem__(self, which: int) -> Transcripts: ...
    def __getitem__(self, which: str | int) -> Integers | Transcripts:
        """Return what a stage released in all draws, or one draw."""
        if isinstance(which, str):
            return self.values[which]
        place = range(len(self))[which]
        one = slice(place, place + 1)
        values = {name: column[one] for name, column in self.values.items()}
        return Transcripts(values, self.reached[one], self.stopped_by[one], self.reasons)

    def select(self, rows: Rows) -> Transcripts:
        """Return the same batch with only these draws."""
        values = {name: column[rows] for name, column in self.values.items()}
        return Transcripts(values, self.reached[rows], self.stopped_by[rows], self.reasons)

    def seen(self, rows: Rows, part: str, names: Iterable[str] | None = None) -> Transcripts:
        """Return these draws as the inside of a part sees them: its own stages, under their own
        names.

        part: the path of the part with a slash at its end; "" for the whole plan. names: only
        these stages.
        """
        if names is None:
            own = [name[len(part) :] for name in self.values if name.startswith(part)]
        else:
            own = [name for name in names if part + name in self.values]
        every = len(rows) == len(self.reached)  # then they are in order, and nothing is copied
        about, some = ("seen", part, *own), None if every else rows
        return self.once((self.values,), about, rows, lambda: self._seen(some, part, own))

    def _seen(self, rows: Rows | None, part: str, own: Iterable[str]) -> Transcripts:
        """Return ``seen`` of stages that there are; rows: None for all draws."""
        columns = ((name, self.values[part + name]) for name in own)
        values = {name: column if rows is None else column[rows] for name, column in columns}
        if rows is None:  # then columns are shared, and so is what was computed from them
            return Transcripts(values, self.reached, self.stopped_by, self.reasons, self.known)
        known = None if self.known is None else dict[Hashable, Any]()
        return Transcripts(values, self.reached[rows], self.stopped_by[rows], self.reasons, known)

    def once(
        self,
        asked: tuple[object, ...],
        about: Hashable,
        rows: Rows,
        compute: Callable[[], _Found],
    ) -> _Found:
        """Return what was computed for these draws, or compute it; always anew unless the batch
        remembers.

        asked: the objects that decide the answer with the draws, themselves and not their
        equals; about: which of their answers.
        """
        if self.known is None:
            return compute()
        ends = (int(rows[0]), int(rows[-1])) if len(rows) else ()
        answers = self.known.setdefault((*map(id, asked), about, len(rows), ends), [])
        for _, draws, answer in answers:
            if draws is rows or np.array_equal(draws, rows):
                known: _Found = answer
                return known
        value = compute()
        if isinstance(value, np.ndarray):  # shared by all who ask from now on, so read-only
            value = value.view()
            value.flags.writeable = False
        # they live as long as the answer, so no other object has their ids
        answers.append((asked, rows, value))
        return value

    def within(self, part: str) -> Transcripts:
        """Return what the part of this name released, as the part itself would have released it."""
        start, names = f"{part}/", list(self.values)
        own = [name for name in names if name.startswith(start)]
        before = names.index(own[0]) if own else len(names)
        inside = {name[len(start) :]: self.values[name] for name in own}
        reached = np.clip(self.reached - before, 0, len(own))
        later = self.reached > before + len(
            own
        )  # a gate that comes after the part has stopped these
        stopped_by = np.where(later, -1, self.stopped_by)
        return Transcripts(inside, reached, stopped_by, self.reasons)

    @property
    def released(self) -> dict[str, tuple[int, ...]]:
        """The released values of a single draw by stage, in order, up to where a gate stopped
        it.
        """
        names = list(self.values)[: int(self._only(self.reached))]
        return {name: self.numbers(name) for name in names}

    @property
    def stopped(self) -> str | None:
        """The reason of the gate that stopped a single draw; None if it went to its end."""
        gate = int(self._only(self.stopped_by))
        return self.reasons[gate] if gate >= 0 else None

    def numbers(self, stage: str) -> tuple[int, ...]:
        """Return what a stage released in a single draw."""
        row = self._only(self.values[stage])
        plain = isinstance(row, np.ndarray) and row.dtype == np.int64
        return tuple(row.tolist() if plain else map(int, row))

    def number(self, stage: str) -> int:
        """Return the one number that a stage of width 1 released in a single draw."""
        (value,) = self.numbers(stage)
        return value

    def _only(self, column: NDArray[Any]) -> Any:
        if len(column) != 1:
            raise ValueError(f"a batch of {len(column)} draws; select one first, as batch[0].")
        return column[0]


def transcript(released: Mapping[str, Iterable[int]], stopped: str | None = None) -> Transcripts:
    """Return the batch of one draw that released these integers by stage, in order."""
    values = {name: np.array([tuple(row)], object) for name, row in released.items()}
    reasons = () if stopped is None else (stopped,)
    return Transcripts(values, np.array([len(values)]), np.array([len(reasons) - 1]), reasons)


NOTHING = Transcripts({}, np.zeros(1, np.intp), np.full(1, -1, np.intp))
"""One draw in which nothing has been released yet."""


@dataclass(frozen=True, slots=True)
class Released(Generic[_Value]):
    """A public quantity that follows from what earlier stages released.

    reads: the stages it follows from; it is shown no others. of: from a batch to the quantity,
    an array (or several) with one row for each draw; a draw's row follows from that draw alone.
    """

    reads: tuple[str, ...]
    of: Callable[[Transcripts], _Value]

    def __call__(self, before: Transcripts) -> _Value:
        """Return the quantity that follows from what was released before."""
        read = (before.values[name] for name in self.reads if name in before.values)
        return before.once((self, *read), "read", _ALL, lambda: self.of(before))


def joined(*parts: Released[Integers]) -> Released[Integers]:
    """Return the integers of all parts side by side, shape (size, total)."""
    reads = tuple(dict.fromkeys(chain.from_iterable(part.reads for part in parts)))

    def of(before: Transcripts) -> Integers:
        numbers: Integers = np.concatenate([part(before) for part in parts], axis=1)
        return numbers

    return parts[0] if len(parts) == 1 else Released(reads, of)


def of_each_tuple(
    column: NDArray[Any], what: Callable[[tuple[int, ...]], int], kind: type
) -> NDArray[Any]:
    """Return ``what`` of each entry of a column of tuples, as numbers of this kind, shape (size,).

    Draws of a batch may share one tuple, which is evaluated once.
    """
    if column.ndim > 1:  # a single draw that was written down as a row
        return np.array([what(tuple(row)) for row in column], kind)
    distinct, which = each_tuple_once(column)
    return np.array(list(map(what, distinct)), kind)[which]


def each_tuple_once(column: NDArray[Any]) -> tuple[list[Any], NDArray[np.intp]]:
    """Return the different entries of a column of tuples, and which of them each one is.

    Draws are matched by the identity of their tuples, which take long to compare.
    """
    alike = np.fromiter(map(id, column), np.int64, len(column))
    _, first, which = np.unique(alike, return_index=True, return_inverse=True)
    shared = column[first].tolist()
    place: dict[Any, int] = {}
    places = np.array([place.setdefault(one, len(place)) for one in shared], np.intp)
    return list(place), places[which]
