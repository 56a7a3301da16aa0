"""Neighbors that anybody should try: from a box and an adjacency alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dpverify.audit.neighbors.boxes import Box, Record
from dpverify.audit.neighbors.pairs import Neighboring, NeighboringPair, QueryMoves, stepped
from dpverify.privacy import Adjacency
from dpverify.privacy.adjacency import Dataset
from dpverify.privacy.numbers import Floats

_FEW = 7
_EXTREMES = (1e308, -1e308, 1e154, -1e154, 1.0, 5e-324, -5e-324, -0.0)
_NOT_FINITE = (math.nan, math.inf, -math.inf)
_MOST_CORNERS = 6


def templates(
    adjacency: Neighboring,
    box: Box,
    *,
    thresholds: Sequence[float] = (),
    minimum_n: int | None = None,
) -> Iterator[NeighboringPair]:
    """Neighboring pairs in ``box``, the most general attacks first, none of them twice.

    Datasets: somebody enters an empty one; a far outlier; a record that crosses a threshold; a
    majority that is decided; all equal; an insertion that shifts everything; numbers of records up to
    the most, and around ``minimum_n``; the extremes of float64, and NaN where the box allows it.
    Query vectors: all answers move at once, one against the others, one alone; from ties, from
    corners, from steps as wide as the move.

    thresholds: where the mechanism may treat records differently; by default 0 and the middle.
    Raises ValueError for query vectors without bounds, where a move would be lost.
    """
    check_bounds(adjacency, box)
    seen: set[tuple[str, str]] = set()
    for pair in _all(adjacency, box, thresholds, minimum_n):
        sides = _identity(pair.left), _identity(pair.right)
        if sides[0] != sides[1] and sides not in seen:
            seen.add(sides)
            yield pair


def check_bounds(adjacency: Neighboring, box: Box) -> None:
    """Refuse an adjacency that nobody can make neighbors for, and vectors without bounds."""
    if isinstance(adjacency, QueryMoves):
        if not box.bounded:
            raise ValueError(
                "A box of query answers needs bounds: next to 1e308 a move is lost. Give low and "
                "high, for example Box(low=-10, high=10, columns=5)."
            )
        if not (box.lows < box.highs).any():
            raise ValueError(f"low = {box.low} is high: no answer can move. Give a box with room.")
        if box.integers and adjacency.distance < 1:
            raise ValueError(f"by = {adjacency.by}; an integer answer moves by at least 1.")
    elif not isinstance(adjacency, Adjacency):
        raise TypeError(
            f"adjacency = {adjacency!r}; neighbors are made for Adjacency.ADD_REMOVE, "
            "Adjacency.REPLACE and QueryMoves(). Give pairs of your own for any other."
        )


def _all(
    adjacency: Neighboring, box: Box, thresholds: Sequence[float], minimum_n: int | None
) -> Iterator[NeighboringPair]:
    if isinstance(adjacency, QueryMoves):
        yield from _query_pairs(adjacency, box)
    elif isinstance(adjacency, Adjacency):
        for change in _changes(box, thresholds, minimum_n):
            pair = change.pair(adjacency, box)
            if pair is not None:
                yield pair


def _identity(data: Dataset) -> str:
    """What tells two datasets apart as they are given: -0.0 is not 0.0, which must not matter."""
    return repr(np.asarray(data, dtype=np.float64).tolist())


@dataclass(frozen=True, slots=True)
class Change:
    """One record of a dataset: ``record`` enters, or stands where ``old`` was, at position ``at``."""

    name: str
    base: Sequence[Record]
    record: Record
    old: Record
    at: int = 0

    def pair(self, adjacency: Adjacency, box: Box) -> NeighboringPair | None:
        """The neighbors, or None where they are not in the box."""
        long = [*self.base[: self.at], self.record, *self.base[self.at :]]
        other = list(self.base)
        if adjacency is Adjacency.REPLACE:
            other.insert(self.at, self.old)
        fewest, most = box.sizes
        if min(len(long), len(other)) < fewest or max(len(long), len(other)) > most:
            return None
        if not all(box.contains(row) for row in itertools.chain(long, other)):
            return None
        left, right = box.dataset(long), box.dataset(other)
        return NeighboringPair(name=self.name, left=left, right=right, adjacency=adjacency)


def _changes(box: Box, thresholds: Sequence[float], minimum_n: int | None) -> Iterator[Change]:
    low, middle, high = (box.record(one) for one in (box.lows, box.middles, box.highs))
    few = max(0, min(max(_FEW, box.sizes[0]), box.sizes[1] - 1))
    ends = (("low", low), ("high", high))
    for (name, end), other in zip(ends, (high, low), strict=True):
        yield Change(f"somebody at the {name} end, or nobody", [], end, other)
        yield Change(f"a far outlier at the {name} end", [middle] * few, end, middle)
        yield Change(
            f"the others at the {name} end, one opposite", [end] * few, other, end, few // 2
        )
        yield Change(f"one more of the same, at the {name} end", [end] * few, end, other, few)
        tie = [low, high] * (few // 2) + [middle] * (few % 2)
        yield Change(f"the {name} end gets the majority", tie, end, other, few // 2)
        yield Change(f"the {name} end gets a tie", [*tie, other], end, other)
    yield from _crossings(box, thresholds, few)
    yield from _orders(low, high, few)
    yield from _sizes(box, middle, ends, minimum_n)
    yield from _corners(box, [middle] * few)
    yield from _extremes(box, [middle] * few, middle)


def _crossings(box: Box, thresholds: Sequence[float], few: int) -> Iterator[Change]:
    """By the smallest step, and onto the threshold itself, in every column."""
    for column in range(min(box.columns, _MOST_CORNERS)):
        halfway = float(box.lows[column] / 2 + box.highs[column] / 2)
        for threshold in dict.fromkeys([*thresholds, 0.0, halfway]):
            below, at, above = (
                box.record(_with(box.middles, column, value))
                for value in _around(threshold, box.integers)
            )
            name = f"threshold {threshold:g} in column {column}"
            yield Change(f"one reaches {name}", [below] * few, at, below)
            yield Change(f"one leaves {name}", [at] * few, above, at)
            yield Change(f"one jumps over {name}", [above] * few, below, above, few)


def _around(threshold: float, integers: bool) -> tuple[float, float, float]:
    if integers:
        middle = float(math.floor(threshold))
        return middle - 1, middle, middle + 1
    return math.nextafter(threshold, -math.inf), threshold, math.nextafter(threshold, math.inf)


def _orders(low: Record, high: Record, few: int) -> Iterator[Change]:
    """An insertion at the front moves every record of an alternating dataset to the other parity."""
    alternating = ([low, high] * few)[:few]
    for at, where in ((0, "front"), (few // 2, "middle"), (few, "end")):
        yield Change(f"everything after the {where} shifts by a place", alternating, high, low, at)
        yield Change(f"into sorted records, {where}", sorted(alternating), low, high, at)


def _sizes(
    box: Box, middle: Record, ends: Iterable[tuple[str, Record]], minimum_n: int | None
) -> Iterator[Change]:
    sizes = [1, 2, 3, box.sizes[0], box.sizes[1] - 1]
    sizes += [] if minimum_n is None else [minimum_n + step for step in (-2, -1, 0, 1)]
    for size in dict.fromkeys(size for size in sizes if size > 0):
        for name, end in ends:
            yield Change(
                f"one at the {name} end, beside {size}", [middle] * size, end, middle, size
            )


def _corners(box: Box, base: Sequence[Record]) -> Iterator[Change]:
    """One column at its end, the others in the middle; and opposite ends in turn."""
    if box.columns == 1:
        return
    for column in range(min(box.columns, _MOST_CORNERS)):
        for name, bounds in (("low", box.lows), ("high", box.highs)):
            record = box.record(_with(box.middles, column, bounds[column]))
            old = box.record(box.middles)
            yield Change(f"column {column} at its {name} end", base, record, old)
    turns = np.arange(box.columns) % 2 == 0
    one = box.record(np.where(turns, box.lows, box.highs))
    other = box.record(np.where(turns, box.highs, box.lows))
    yield Change("from a corner to the opposite one", base, one, other)


def _extremes(box: Box, base: Sequence[Record], middle: Record) -> Iterator[Change]:
    """Where floats are odd; those outside the box are left out."""
    odd = _EXTREMES + (_NOT_FINITE if box.nonfinite == "replace" else ())
    for value in odd:
        record = box.record([value] * box.columns)
        yield Change(f"a record of {value!r}", base, record, middle)
        yield Change(f"a record of {value!r} alone", [], record, middle)


def _with(numbers: Floats, column: int, value: float) -> Floats:
    changed = numbers.copy()
    changed[column] = value
    return changed


def _query_pairs(adjacency: QueryMoves, box: Box) -> Iterator[NeighboringPair]:
    step = adjacency.step
    for (base_name, base), (move_name, signs) in itertools.product(
        _bases(box, step), _moves(box.columns)
    ):
        if adjacency.at_once is None or np.count_nonzero(signs) <= adjacency.at_once:
            name = f"{base_name}; {move_name}"
            yield query_pair(name, base, signs * step, adjacency, box)


def query_pair(
    name: str, base: Floats, moves: Floats, adjacency: QueryMoves, box: Box
) -> NeighboringPair:
    """Answers and the same moved, both inside the box: whoever would leave it starts further inside."""
    if box.integers:
        base, moves = np.floor(base), np.trunc(moves)
    inside = np.clip(base, box.lows, box.highs)
    left, right = [], []
    for start, move, low, high in zip(inside, moves, box.lows, box.highs, strict=True):
        end = min(max(stepped(start, move), low), high)
        if abs(end - start) < abs(move):  # against the wall: it ends there
            start = min(max(stepped(end, -move), low), high)
        left.append(float(start))
        right.append(float(end))
    return NeighboringPair(name=name, left=left, right=right, adjacency=adjacency)


def _bases(box: Box, step: float) -> Iterator[tuple[str, Floats]]:
    """Where the answers are before one of them, or all, move."""
    places = np.arange(box.columns)
    first, half = places == 0, places < (box.columns + 1) // 2
    yield "all equal", box.middles
    yield "one above, the others far below", np.where(first, box.highs, box.lows)
    yield "one below, the others far above", np.where(first, box.lows, box.highs)
    yield "half below, half above", np.where(half, box.lows, box.highs)
    yield "half above, half below", np.where(half, box.highs, box.lows)
    yield "all at the low end", box.lows
    yield "all at the high end", box.highs
    centered = places - (box.columns - 1) / 2
    yield "steps of the move", box.middles + step * centered
    yield "steps of twice the move", box.middles + 2 * step * centered
    pairs = (places + 1) // 2 - box.columns // 4
    yield "ties in twos, twice the move apart", box.middles + 2 * step * pairs
    yield "half a move below, half above", box.middles + np.where(half, -step / 2, step / 2)
    yield "half a move below, half above, twice", box.middles + np.where(half, -step, step)


def _moves(columns: int) -> Iterator[tuple[str, Floats]]:
    """-1, 0 or 1 for every answer."""
    places = np.arange(columns)
    first, half = places == 0, places < (columns + 1) // 2
    yield "all go up", np.ones(columns)
    yield "one goes up", np.where(first, 1.0, 0.0)
    yield "one goes down", np.where(first, -1.0, 0.0)
    if columns > 1:
        yield "all go down", -np.ones(columns)
        yield "one goes up, the others down", np.where(first, 1.0, -1.0)
        yield "one goes down, the others up", np.where(first, -1.0, 1.0)
        yield "half go up, half down", np.where(half, 1.0, -1.0)
        yield "every other goes up, the rest down", np.where(places % 2 == 0, 1.0, -1.0)
        last = places == columns - 1
        yield "all go up but the last, which goes down", np.where(last, -1.0, 1.0)


__all__ = ["Change", "check_bounds", "query_pair", "templates"]
