"""Neighboring pairs: the datasets, or vectors of query answers, that an audit compares."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dpverify.privacy import Adjacency, Exact, exact
from dpverify.privacy.adjacency import Dataset, comparable_rows
from dpverify.privacy.numbers import render, settle, whole


@runtime_checkable
class Neighboring(Protocol):
    """A relation between datasets that an audit can check: ``Adjacency``, ``QueryMoves``,
    ``Steps`` of one.
    """

    def why_not_neighbors(self, left: Dataset, right: Dataset) -> str | None:
        """Return None for neighbors; otherwise the reason, naming what breaks the relation."""

    def __str__(self) -> str: ...


@dataclass(frozen=True, slots=True)
class QueryMoves:
    """Relation of two vectors of query answers: every answer moves by at most ``by``.

    by: what one record can change in one answer, an exact number: 1 for counts.
    at_once: at most so many answers move (1 for the bins of a histogram); None: all of them may.

    Answers are compared as the exact numbers that floats stand for. A NaN or an infinity is a
    neighbor of itself only. Raises TypeError or ValueError for other parameters.
    """

    by: Exact = 1
    at_once: int | None = None

    def __post_init__(self) -> None:
        by = exact(self.by, "by")
        if by <= 0:
            raise ValueError(f"by = {self.by}; an answer that cannot move needs no noise.")
        settle(self, by=by)
        if self.at_once is not None and whole(self.at_once, "at_once") < 1:
            raise ValueError(
                f"at_once = {self.at_once}; at least one answer moves (None: all of them may)."
            )

    def __str__(self) -> str:
        number = "all" if self.at_once is None else f"at most {self.at_once}"
        return f"{number} answers move by at most {render(self.distance)}"

    @property
    def distance(self) -> Fraction:
        """Largest move of one answer: ``by`` as a fraction."""
        return exact(self.by, "by")

    @property
    def step(self) -> float:
        """The largest float that is not larger than ``by``."""
        nearest = float(self.distance)
        return math.nextafter(nearest, 0.0) if Fraction(nearest) > self.distance else nearest

    def why_not_neighbors(self, left: Dataset, right: Dataset) -> str | None:
        """Return None for neighbors; otherwise the reason, naming the answer that breaks the
        relation.

        Raises TypeError for what is not a vector of numbers.
        """
        a, b = _answers(left), _answers(right)
        if len(a) != len(b):
            return f"{len(a)} against {len(b)} answers; a query vector keeps its length"
        moving = []
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            if x == y:
                continue
            if isinstance(x, str) or isinstance(y, str) or abs(x - y) > self.distance:
                most = render(self.distance)
                return f"answer {i} moves from {_shown(x)} to {_shown(y)}, by more than {most}"
            moving.append(i)
        if self.at_once is not None and len(moving) > self.at_once:
            where = ", ".join(map(str, moving[: self.at_once + 1]))
            return f"answers {where} all move; at most {self.at_once} may"
        return None


@dataclass(frozen=True, slots=True)
class Steps:
    """Relation of two datasets: at most ``number`` steps of ``base`` lead from one to the
    other.

    A claim promises ``guarantee.for_group(number)`` for them. Raises TypeError or ValueError
    for another relation, or fewer than 2 steps.
    """

    base: Adjacency
    number: int

    def __post_init__(self) -> None:
        if not isinstance(self.base, Adjacency):
            raise TypeError(
                f"base = {self.base!r}; write Adjacency.ADD_REMOVE or Adjacency.REPLACE. Query "
                "answers several steps apart are QueryMoves(by=steps)."
            )
        if whole(self.number, "number") < 2:
            raise ValueError(f"number = {self.number}; of a single step write {self.base}.")

    def __str__(self) -> str:
        return f"{self.base}, up to {self.number} steps"

    def why_not_neighbors(self, left: Dataset, right: Dataset) -> str | None:
        """Return None where so many steps suffice; otherwise the reason."""
        a, b = comparable_rows(left, right)
        if self.base is Adjacency.ADD_REMOVE:
            if steps_of_edits(a, b, self.number) is not None:
                return None
            return f"more than {self.number} records have to be removed or added"
        if len(a) != len(b):
            return f"{len(a)} against {len(b)} records; replacing keeps their number"
        differing = sum(x != y for x, y in zip(a, b, strict=True))
        if differing <= self.number:
            return None
        return f"{differing} records differ, which is more than {self.number}"


def steps_of_edits(a: Sequence[Any], b: Sequence[Any], most: int) -> int | None:
    """Return how many records must be removed and added at least to turn a into b; None if more
    than ``most``.

    The furthest places that d edits reach, on every diagonal (Myers 1986).
    """
    reach = {1: 0}
    for edits in range(most + 1):
        for diagonal in range(-edits, edits + 1, 2):
            added = diagonal == -edits or (
                diagonal != edits and reach[diagonal - 1] < reach[diagonal + 1]
            )
            x = reach[diagonal + 1] if added else reach[diagonal - 1] + 1
            while x < len(a) and 0 <= x - diagonal < len(b) and a[x] == b[x - diagonal]:
                x += 1
            reach[diagonal] = x
            if x >= len(a) and x - diagonal >= len(b):
                return edits
    return None


def further(adjacency: Neighboring, steps: int, *, integers: bool = False) -> Neighboring:
    """Return the relation of datasets that are up to so many steps of this relation apart.

    integers: whether answers are whole, as they are after each step. Raises TypeError for a
    user's own relation.
    """
    if steps == 1:
        return adjacency
    if isinstance(adjacency, QueryMoves):
        by = Fraction(math.floor(adjacency.distance)) if integers else adjacency.distance
        return QueryMoves(steps * by, adjacency.at_once)
    if isinstance(adjacency, Adjacency):
        return Steps(adjacency, steps)
    raise TypeError(f"{adjacency} says nothing of several steps; search with steps=(1,).")


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighboringPair:
    """Two datasets (sequences of records, arrays of rows, or query answers) that are neighbors.

    Raises ValueError, naming the record or the answer, when they are not.
    """

    name: str
    left: Dataset
    right: Dataset
    adjacency: Neighboring

    def __post_init__(self) -> None:
        if isinstance(self.adjacency, type) or not isinstance(self.adjacency, Neighboring):
            raise TypeError(
                f"adjacency = {self.adjacency!r}; write Adjacency.ADD_REMOVE or Adjacency.REPLACE, "
                "or QueryMoves() for vectors of query answers."
            )
        reason = self.adjacency.why_not_neighbors(self.left, self.right)
        if reason is not None:
            raise ValueError(f"The pair {self.name!r} is not {self.adjacency} neighbors: {reason}.")


def added(name: str, base: Dataset, record: Any, *, at: int = 0) -> NeighboringPair:
    """Return ``base`` with ``record`` inserted before position ``at``, against ``base``
    (add-remove).

    at: from 0 to the number of records, or counted from the end if it is negative.

    An array or a data frame gives arrays, any other sequence lists; NeighboringPair takes two data
    frames as they are. Raises ValueError for a place that is not there, or a record of another
    shape than the array's rows.
    """
    rows = _rows(base)
    if not -len(rows) <= whole(at, "at") <= len(rows):
        raise ValueError(
            f"at = {at}: give a place from 0 to {len(rows)}, the number of records of base."
        )
    left = _spliced(rows, record, at, at)
    return NeighboringPair(name=name, left=left, right=rows, adjacency=Adjacency.ADD_REMOVE)


def replaced(name: str, base: Dataset, record: Any, *, at: int = 0) -> NeighboringPair:
    """Return ``base`` against ``base`` with the record at ``at`` replaced by ``record`` (replace).

    A negative ``at`` counts from the end. Arrays and errors as in ``added``; ValueError where
    there is no such record, or it is ``record`` itself, so that nothing would differ.
    """
    rows = _rows(base)
    place = at + len(rows) if at < 0 else at
    if not 0 <= place < len(rows):
        raise ValueError(
            f"at = {at}: there are {len(rows)} records; give the place of one of them."
        )
    right = _spliced(rows, record, place, place + 1)
    if _is_the_same(rows, right, place):
        raise ValueError(
            f"Record {place} of base is {record!r:.80} already, so both datasets are equal and "
            "tell nothing; give another record."
        )
    return NeighboringPair(name=name, left=rows, right=right, adjacency=Adjacency.REPLACE)


def _is_the_same(left: Any, right: Any, place: int) -> bool:
    """Return whether a record is the same on both sides, to the last bit and in its type."""
    if isinstance(left, np.ndarray) and not left.dtype.hasobject:
        same_type: bool = left.dtype == right.dtype
        return same_type and left[place].tobytes() == right[place].tobytes()
    old, new = left[place], right[place]
    if old is new:
        return True
    plain = isinstance(old, (bool, int, float, str, bytes, tuple))
    return plain and type(old) is type(new) and repr(old) == repr(new)


def _rows(base: Any) -> Any:
    """Return a copy of the rows: an array for an array or a data frame, a list for any other
    sequence.
    """
    data = base.to_numpy() if hasattr(base, "to_numpy") else base
    if isinstance(data, (str, bytes)) or not isinstance(data, (np.ndarray, Iterable)):
        raise TypeError(f"base = {base!r:.80}; give a list of records, or an array of rows.")
    return data.copy() if isinstance(data, np.ndarray) else list(data)


def _spliced(rows: Any, record: Any, start: int, stop: int) -> Any:
    """Return the rows with ``record`` in place of rows[start:stop]; an array's type is widened
    where necessary.
    """
    if isinstance(rows, list):
        return [*rows[:start], record, *rows[stop:]]
    if rows.dtype.hasobject or rows.dtype.names:
        row = np.empty((1, *rows.shape[1:]), dtype=rows.dtype)
        row[0] = record
    else:
        row = np.asarray(record)[np.newaxis]
    if row.shape[1:] != rows.shape[1:]:
        raise ValueError(
            f"The record {record!r} has shape {row.shape[1:]}, but a row of the array has "
            f"{rows.shape[1:]}; give one number for each column."
        )
    return np.concatenate([rows[:start], row, rows[stop:]])


def moved(
    name: str,
    answers: Sequence[float],
    moves: Sequence[float],
    adjacency: QueryMoves | None = None,
) -> NeighboringPair:
    """Return query answers against the same moved by ``moves``, one for each (by default
    ``QueryMoves()``).

    Both sides are of one type: integers if all that is given are, else floats, and then sums
    are rounded towards the old answer where a float cannot hold them.
    Raises ValueError when a move is larger than the adjacency allows, or one is missing.
    """
    for given, called in ((answers, "answers"), (moves, "moves")):
        if not hasattr(given, "__len__"):
            raise TypeError(f"{called} = {given!r:.80}; give a list with a number for each query.")
    if len(answers) != len(moves):
        raise ValueError(f"{len(moves)} moves for {len(answers)} answers; give one for each.")
    left: list[float]
    right: list[float]
    if all(isinstance(one, Integral) for one in [*answers, *moves]):
        left = [int(answer) for answer in answers]
        right = [int(answer) + int(move) for answer, move in zip(answers, moves, strict=True)]
    else:
        left = [float(answer) for answer in answers]
        right = [stepped(answer, move) for answer, move in zip(left, moves, strict=True)]
    relation = QueryMoves() if adjacency is None else adjacency
    return NeighboringPair(name=name, left=left, right=right, adjacency=relation)


def stepped(start: float, step: float) -> float:
    """Return start + step, rounded towards ``start``: a float that is no further away than
    ``step``.
    """
    end = float(start) + float(step)
    if math.isfinite(end) and abs(Fraction(end) - Fraction(start)) > abs(Fraction(step)):
        end = math.nextafter(end, start)
    return end


def _answers(vector: Dataset) -> list[Fraction | str]:
    """Return the answers as exact numbers; a NaN or an infinity by its name."""
    rows: Any = vector.tolist() if hasattr(vector, "tolist") else vector
    if isinstance(rows, (str, bytes)) or not isinstance(rows, Sequence):
        raise TypeError(f"A query vector is a sequence of numbers, not a {type(vector).__name__}.")
    return [_answer(i, row) for i, row in enumerate(rows)]


def _answer(i: int, given: Any) -> Fraction | str:
    number = given.tolist() if hasattr(given, "tolist") else given
    if not hasattr(number, "as_integer_ratio"):
        raise TypeError(
            f"Answer {i} is {number!r}; a query vector is a sequence of numbers. For datasets of "
            "records write Adjacency.ADD_REMOVE or Adjacency.REPLACE."
        )
    return Fraction(*number.as_integer_ratio()) if math.isfinite(number) else str(float(number))


def _shown(answer: Fraction | str) -> str:
    """Write an answer with all digits that tell floats apart."""
    if isinstance(answer, str) or answer.denominator == 1:
        return str(answer)
    return f"{float(answer):.17g}"
