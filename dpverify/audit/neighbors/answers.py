"""Standard pairs of query answers: where the answers are, and which of them move."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from dpverify.audit.neighbors.boxes import Box
from dpverify.audit.neighbors.pairs import NeighboringPair, QueryMoves, stepped
from dpverify.privacy.numbers import Floats


def query_pairs(adjacency: QueryMoves, box: Box, ending: str = "") -> Iterator[NeighboringPair]:
    """Yield answers against the same answers moved: every move from every base. ending: suffix
    of the pairs' names.
    """
    step, moves = adjacency.step, list(_moves(box.columns))
    bases = list(_bases(box, step))
    for shift, (at, (base_name, base)) in itertools.product(range(len(moves)), enumerate(bases)):
        # so all bases, and all moves, come early
        move_name, signs = moves[(at + shift) % len(moves)]
        if adjacency.at_once is None or np.count_nonzero(signs) <= adjacency.at_once:
            name = f"{base_name}; {move_name}{ending}"
            yield query_pair(name, base, signs * step, adjacency, box)


def query_pair(
    name: str, base: Floats, moves: Floats, adjacency: QueryMoves, box: Box
) -> NeighboringPair:
    """Return answers and the same moved, both inside the box: answers that would leave it start
    further inside.
    """
    if box.integers:
        base, moves = np.floor(base), np.trunc(moves)
    inside = np.clip(base, box.lows, box.highs)
    left: list[float] = []
    right: list[float] = []
    for start, move, low, high in zip(inside, moves, box.lows, box.highs, strict=True):
        end = min(max(stepped(start, move), low), high)
        if abs(end - start) < abs(move):  # the answer ends at the bound
            start = min(max(stepped(end, -move), low), high)
        left.append(int(start) if box.integers else float(start))
        right.append(int(end) if box.integers else float(end))
    return NeighboringPair(name=name, left=left, right=right, adjacency=adjacency)


def _bases(box: Box, step: float) -> Iterator[tuple[str, Floats]]:
    """Yield starting answers, before one of them, or all, move."""
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
    """Yield moves: -1, 0 or 1 for every answer."""
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


__all__ = ["query_pair", "query_pairs"]
