"""Random neighbors in a box, and neighbors near given ones: what a search tries next."""

from __future__ import annotations

import math

import numpy as np

from dpverify.audit.neighbors.answers import query_pair
from dpverify.audit.neighbors.boxes import Box, Record
from dpverify.audit.neighbors.pairs import (
    Neighboring,
    NeighboringPair,
    QueryMoves,
    Steps,
    further,
)
from dpverify.audit.neighbors.templates import Change
from dpverify.privacy import Adjacency
from dpverify.privacy.adjacency import canonical_rows
from dpverify.privacy.numbers import Floats

_TRIES = 100
_LARGEST_POWER = 308


def random_pair(
    name: str, adjacency: Neighboring, box: Box, rng: np.random.Generator, steps: int = 1
) -> NeighboringPair:
    """Return neighbors, or datasets so many steps apart, that favor corners, ties, and gaps as
    wide as the move.

    Raises ValueError where the box has no two different neighbors.
    """
    if isinstance(adjacency, QueryMoves):
        relation = further(adjacency, steps, integers=box.integers)
        assert isinstance(relation, QueryMoves)
        return _random_answers(name, relation, box, rng)
    assert isinstance(adjacency, Adjacency)
    for _ in range(_TRIES):
        pair = _random_change(name, box, rng).pair(adjacency, box, steps)
        if pair is not None and canonical_rows(pair.left) != canonical_rows(pair.right):
            return pair
    raise ValueError(
        f"No two {adjacency} neighbors were found in {box}: allow more rows (rows=(0, 20))."
    )


def mutated(
    name: str, pair: NeighboringPair, box: Box, rng: np.random.Generator
) -> NeighboringPair | None:
    """Return neighbors that differ from ``pair`` in one respect; None where the change leads
    nowhere.
    """
    if isinstance(pair.adjacency, QueryMoves):
        return _mutated_answers(name, pair, pair.adjacency, box, rng)
    relation = pair.adjacency
    base, steps = (relation.base, relation.number) if isinstance(relation, Steps) else (relation, 1)
    assert isinstance(base, Adjacency)
    change = change_of(pair, box)
    if change is None:
        return None
    return _mutated_change(name, change, box, rng).pair(base, box, steps)


def _random_answers(
    name: str, adjacency: QueryMoves, box: Box, rng: np.random.Generator
) -> NeighboringPair:
    step = adjacency.step
    base = np.array([_random_answer(column, box, step, rng) for column in range(box.columns)])
    if rng.random() < 0.5:  # few different values: ties
        base = base[rng.integers(min(2, box.columns), size=box.columns)] if _alike(box) else base
    signs = rng.choice([-1.0, 0.0, 1.0], p=[0.4, 0.2, 0.4], size=box.columns)
    if rng.random() < 0.3:
        signs[:] = 1.0
    if not signs.any():
        signs[rng.integers(box.columns)] = 1.0
    moves = step * _at_most(signs, adjacency.at_once, rng)
    return query_pair(name, base, moves, adjacency, box)


def _alike(box: Box) -> bool:
    """Return whether a value of one column fits in every other."""
    return bool(np.all(box.lows == box.lows[0]) and np.all(box.highs == box.highs[0]))


def _random_answer(column: int, box: Box, step: float, rng: np.random.Generator) -> float:
    """Draw an answer: a corner, a multiple of the step from the middle, or any number of the
    box.
    """
    low, high, middle = box.lows[column], box.highs[column], box.middles[column]
    kind = rng.integers(4)
    if kind == 0:
        return float(rng.choice([low, high]))
    if kind == 1:
        return float(middle)
    if kind == 2:
        return float(np.clip(middle + step * rng.integers(-3, 4), low, high))
    return _uniform(low, high, box.integers, rng)


def _at_most(signs: Floats, at_once: int | None, rng: np.random.Generator) -> Floats:
    moving = np.flatnonzero(signs)
    if at_once is not None and len(moving) > at_once:
        signs = signs.copy()
        signs[rng.permutation(moving)[at_once:]] = 0.0
    return signs


def _mutated_answers(
    name: str, pair: NeighboringPair, adjacency: QueryMoves, box: Box, rng: np.random.Generator
) -> NeighboringPair | None:
    base, right = (np.array(side, dtype=np.float64) for side in (pair.left, pair.right))
    if len(base) != box.columns:
        return None
    step = adjacency.step
    signs = np.sign(right - base)
    one, other = rng.integers(box.columns, size=2)
    kind = rng.integers(6)
    if kind == 0:
        base[one] = _random_answer(int(one), box, step, rng)
    elif kind == 1:  # to a corner
        base[one] = rng.choice([box.lows[one], box.highs[one]])
    elif kind == 2:
        signs[one] = rng.choice([-1.0, 0.0, 1.0])
    elif kind == 3:  # one answer's move for all the others
        signs = np.where(np.arange(box.columns) == one, signs, signs[one] or 1.0)
    elif kind == 4:  # a tie, or a gap as wide as the move
        base[one] = base[other] + step * rng.integers(-2, 3)
        signs[one] = -signs[other]
    else:
        base = base + rng.normal() * (box.highs - box.lows) / 10
        base = np.round(base) if box.integers else base
    if not signs.any():
        return None
    return query_pair(name, base, step * _at_most(signs, adjacency.at_once, rng), adjacency, box)


def _random_change(name: str, box: Box, rng: np.random.Generator) -> Change:
    """Draw a dataset of few different records, and one record that enters or changes."""
    size = int(rng.choice(_sizes(box)))
    kinds = [_random_record(box, rng) for _ in range(int(rng.integers(1, 4)))]
    base = [kinds[i] for i in rng.integers(len(kinds), size=size)]
    if rng.random() < 0.2:
        base = [_random_record(box, rng) for _ in range(size)]
    record, old = _random_record(box, rng), kinds[0]
    return Change(name, base, record, old, int(rng.integers(size + 1)))


def _sizes(box: Box) -> list[int]:
    fewest, most = box.sizes
    largest = most - 1
    return sorted({min(size, largest) for size in (fewest, 0, 1, 2, 3, 5, 10, largest)})


def _random_record(box: Box, rng: np.random.Generator) -> Record:
    if box.nonfinite == "replace" and rng.random() < 0.05:
        return box.record([float(rng.choice([math.nan, math.inf, -math.inf]))] * box.columns)
    if rng.random() < 0.3:
        return box.record((box.lows, box.middles, box.highs)[rng.integers(3)])
    return box.record([_random_number(column, box, rng) for column in range(box.columns)])


def _random_number(column: int, box: Box, rng: np.random.Generator) -> float:
    low, high, middle = box.lows[column], box.highs[column], box.middles[column]
    if rng.random() < 0.5:
        return float(rng.choice([low, middle, high]))
    if box.bounded:
        return _uniform(low, high, box.integers, rng)
    power = float(rng.choice([0, 1, 3, 10, 100, _LARGEST_POWER]))
    number = float(rng.choice([-1.0, 1.0]) * 10.0 ** rng.uniform(0, power) * rng.random())
    return float(np.clip(np.round(number) if box.integers else number, low, high))


def _uniform(low: float, high: float, integers: bool, rng: np.random.Generator) -> float:
    part = rng.random()
    number = low * (1 - part) + high * part  # high - low may be beyond float64
    return float(np.round(number) if integers else np.clip(number, low, high))


def change_of(pair: NeighboringPair, box: Box) -> Change | None:
    """Return the change that a pair of datasets is; None where the two are equal, of other
    columns, or several steps apart by different records.
    """
    left, right = _records(pair.left, box), _records(pair.right, box)
    if left is None or right is None:
        return None
    long, short = (left, right) if len(left) >= len(right) else (right, left)
    rows, others = canonical_rows(long), canonical_rows(short)
    at = next((i for i, row in enumerate(others) if row != rows[i]), len(others))
    steps = pair.adjacency.number if isinstance(pair.adjacency, Steps) else 1
    if at == len(rows) or any(row != rows[at] for row in rows[at : at + steps]):
        return None
    base = [*long[:at], *long[at + steps :]]
    same = len(short) == len(long)
    if canonical_rows(base) != [*others[:at], *others[at + steps * same :]]:
        return None
    old = short[at] if same else box.record(box.middles)
    return Change(pair.name, base, long[at], old, at)


def _records(data: object, box: Box) -> list[Record] | None:
    try:
        rows = np.asarray(data, dtype=object if box.integers else np.float64)
    except (TypeError, ValueError):
        return None
    if rows.size != len(rows) * box.columns:
        return None
    return [box.record(row) for row in rows.reshape(-1, box.columns)]


def _mutated_change(name: str, change: Change, box: Box, rng: np.random.Generator) -> Change:
    """Vary a change: another record, another place, other or more records around it."""
    base, record, old, at = list(change.base), change.record, change.old, change.at
    kind = rng.integers(6)
    if kind == 0:
        record = _random_record(box, rng)
    elif kind == 1:
        old = _random_record(box, rng)
    elif kind == 2:
        base = [_random_record(box, rng)] * len(base)
    elif kind == 3 and base:
        base[int(rng.integers(len(base)))] = _random_record(box, rng)
    elif kind == 4:
        size = int(rng.choice(_sizes(box)))
        filler = base or [_random_record(box, rng)]
        base = [filler[i % len(filler)] for i in range(size)]
        at = min(at, size)
    else:
        at = int(rng.integers(len(base) + 1))
    return Change(name, base, record, old, at)


__all__ = ["change_of", "mutated", "random_pair"]
