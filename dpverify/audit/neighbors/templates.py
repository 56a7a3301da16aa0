"""Standard neighboring pairs, made from a box and an adjacency alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from dpverify.audit.neighbors.answers import query_pairs
from dpverify.audit.neighbors.boxes import Box, Record
from dpverify.audit.neighbors.pairs import (
    Neighboring,
    NeighboringPair,
    QueryMoves,
    further,
)
from dpverify.privacy import Adjacency
from dpverify.privacy.adjacency import Dataset
from dpverify.privacy.numbers import Floats

_FEW = 7
EXTREMES = (1e308, -1e308, 1e154, -1e154, 1.0, 5e-324, -5e-324, -0.0)
NOT_FINITE = (math.nan, math.inf, -math.inf)
INTEGER_ENDS = (2**63 - 1, 2**31 - 1, 2**53, 2**32 - 1, 2**15 - 1, 2**16 - 1, 127, 255)
"""The last integers of types; sums beyond wrap around, or round."""
_MOST_CORNERS = 6


def templates(
    adjacency: Neighboring,
    box: Box,
    *,
    thresholds: Sequence[float] = (),
    minimum_n: int | None = None,
    steps: int = 1,
) -> Iterator[NeighboringPair]:
    """Yield neighboring pairs in ``box``, one of each kind of attack first, then the others,
    without repetition.

    Datasets: a record enters an empty one; a far outlier; a record that crosses a threshold; a
    record that decides a majority; all equal; an insertion that shifts everything; numbers of
    records up to the most, and around ``minimum_n``; NaN where the box allows it, the extremes
    of float64, or the ends of integer types. Query vectors: all answers move at once, one
    against the others, one alone; from ties, from corners, from steps as wide as the move.

    thresholds: where the mechanism may treat records differently; by default 0 and the middle.
    steps: how many steps apart the pairs are: so many records, all alike, enter or change, or
    answers move so many times as far. A claim promises ``guarantee.for_group(steps)`` for them.
    Raises ValueError for query vectors without bounds, where a move would be lost.
    """
    check_bounds(adjacency, box)
    seen: set[tuple[str, str]] = set()
    for pair in _all(adjacency, box, thresholds, minimum_n, steps):
        sides = _identity(pair.left), _identity(pair.right)
        if sides[0] != sides[1] and sides not in seen:
            seen.add(sides)
            yield pair


def check_bounds(adjacency: Neighboring, box: Box) -> None:
    """Refuse an adjacency for which no neighbors can be made, and vectors without bounds."""
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
    adjacency: Neighboring,
    box: Box,
    thresholds: Sequence[float],
    minimum_n: int | None,
    steps: int,
) -> Iterator[NeighboringPair]:
    if isinstance(adjacency, QueryMoves):
        relation = further(adjacency, steps, integers=box.integers)
        assert isinstance(relation, QueryMoves)
        yield from query_pairs(relation, box, apart(steps))
    elif isinstance(adjacency, Adjacency):
        for change in in_turn(_families(box, thresholds, minimum_n)):
            pair = change.pair(adjacency, box, steps)
            if pair is not None:
                yield pair


def apart(steps: int) -> str:
    """Return the suffix of a pair's name that says how many steps apart it is."""
    return "" if steps == 1 else f", {steps} steps apart"


Item = TypeVar("Item")


def in_turn(families: Iterable[Iterable[Item]]) -> Iterator[Item]:
    """Yield the first item of each family, then the second of each, as long as there are any."""
    going = [iter(family) for family in families]
    while going:
        left = []
        for family in going:
            for item in family:
                left.append(family)
                yield item
                break
        going = left


def _identity(data: Dataset) -> str:
    """Return a text that tells two datasets apart as they are given: -0.0 is not 0.0, which
    must not matter.
    """
    return repr(data.tolist() if isinstance(data, np.ndarray) else data)


@dataclass(frozen=True, slots=True)
class Change:
    """One record of a dataset: ``record`` enters, or stands where ``old`` was, at position
    ``at``.
    """

    name: str
    base: Sequence[Record]
    record: Record
    old: Record
    at: int = 0

    def pair(self, adjacency: Adjacency, box: Box, steps: int = 1) -> NeighboringPair | None:
        """Return the neighbors, or None where they are not in the box.

        steps: how many times the record enters, or stands where ``old`` was, side by side.
        """
        long = [*self.base[: self.at], *[self.record] * steps, *self.base[self.at :]]
        other = list(self.base)
        if adjacency is Adjacency.REPLACE:
            other[self.at : self.at] = [self.old] * steps
        fewest, most = box.sizes
        if min(len(long), len(other)) < fewest or max(len(long), len(other)) > most:
            return None
        if not all(box.contains(row) for row in itertools.chain(long, other)):
            return None
        left, right = box.dataset(long), box.dataset(other)
        relation, name = further(adjacency, steps), self.name + apart(steps)
        return NeighboringPair(name=name, left=left, right=right, adjacency=relation)


def _families(
    box: Box, thresholds: Sequence[float], minimum_n: int | None
) -> Iterator[Iterator[Change]]:
    low, middle, high = (box.record(one) for one in (box.lows, box.middles, box.highs))
    few = max(0, min(max(_FEW, box.sizes[0]), box.sizes[1] - 1))
    ends = (("low", low), ("high", high))
    yield _ends(ends, middle, few)
    yield _crossings(box, thresholds, few)
    yield _orders(low, high, few)
    yield _not_finite(box, [middle] * few, middle)
    yield _extremes(box, [middle] * few, middle)
    yield _corners(box, [middle] * few)
    yield _sizes(box, middle, ends, minimum_n)


def _ends(ends: Sequence[tuple[str, Record]], middle: Record, few: int) -> Iterator[Change]:
    others = [end for _, end in reversed(ends)]
    for (name, end), other in zip(ends, others, strict=True):
        yield Change(f"somebody at the {name} end, or nobody", [], end, other)
        yield Change(f"a far outlier at the {name} end", [middle] * few, end, middle)
        yield Change(
            f"the others at the {name} end, one opposite", [end] * few, other, end, few // 2
        )
        yield Change(f"one more of the same, at the {name} end", [end] * few, end, other, few)
        tie = [end, other] * (few // 2) + [middle] * (few % 2)
        yield Change(f"the {name} end gets the majority", tie, end, other, few // 2)
        yield Change(f"the {name} end gets a tie", [*tie, other], end, other)


def _crossings(box: Box, thresholds: Sequence[float], few: int) -> Iterator[Change]:
    """Yield moves by the smallest step across a threshold, and onto the threshold itself, in
    every column.
    """
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
    """Yield changes of order: an insertion at the front moves every record of an alternating
    dataset to the other parity.
    """
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
    """Yield records with one column at its end and the others in the middle, and with opposite
    ends in turn.
    """
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


def _not_finite(box: Box, base: Sequence[Record], middle: Record) -> Iterator[Change]:
    """Yield records of NaN, of infinities, and of both with a number beside, where the box
    allows them.
    """
    if box.nonfinite != "replace" or box.integers:
        return
    for value in NOT_FINITE:
        record = box.record([value] * box.columns)
        yield Change(f"a record of {value!r}", base, record, middle)
        yield Change(f"a record of {value!r} alone", [], record, middle)
        if box.columns > 1:
            once = box.record(_with(box.middles, box.columns - 1, value))
            yield Change(f"a record with a {value!r} at its end", base, once, middle)


def _extremes(box: Box, base: Sequence[Record], middle: Record) -> Iterator[Change]:
    """Yield records where floats are odd, or integers end; those outside the box are left out."""
    if box.integers:
        for end in INTEGER_ENDS:
            for value, step in (
                (end, 1),
                (-end - 1, -1),
            ):  # of a signed type; of an unsigned one the first
                record, one = (box.record([number] * box.columns) for number in (value, step))
                yield Change(f"a step beyond {value}", [record], one, middle)
                yield Change(f"a record of {value}", base, record, middle)
        return
    for odd in EXTREMES:
        record = box.record([odd] * box.columns)
        yield Change(f"a record of {odd!r}", base, record, middle)
        yield Change(f"a record of {odd!r} alone", [], record, middle)


def _with(numbers: Floats, column: int, value: float) -> Floats:
    changed = numbers.copy()
    changed[column] = value
    return changed


__all__ = [
    "EXTREMES",
    "INTEGER_ENDS",
    "NOT_FINITE",
    "Change",
    "apart",
    "check_bounds",
    "in_turn",
    "templates",
]
