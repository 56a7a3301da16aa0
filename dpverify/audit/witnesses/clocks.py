"""Columns that never fall, or never rise, from call to call: clocks and counters.

Whatever is learned from their values concerns past calls: a score that mixes one in drifts away
from its threshold. So scores are learned, and taken, with 0 there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dpverify.audit.outputs.draws import Draws
from dpverify.audit.witnesses.features import Candidate
from dpverify.privacy.numbers import Floats

_FEWEST = 50  # rows in which others rise and fall
_MOVES = 0.5  # least share of the rows in which a clock has moved on


def clocks_of(own: Draws, other: Draws) -> list[int]:
    """Return the columns that are clocks on both sides, in the order of the calls."""
    width = min(own.numbers.shape[1], other.numbers.shape[1])
    if width < 2 or min(len(own), len(other)) < _FEWEST:
        return []
    monotone = np.ones((2, width), dtype=np.bool_)  # rising, falling
    for side in (own, other):
        before, after = side.numbers[:-1, :width], side.numbers[1:, :width]
        monotone &= (before != after).mean(axis=0) > _MOVES
        monotone[0] &= (before <= after).all(axis=0)
        monotone[1] &= (before >= after).all(axis=0)
    return [int(j) for j in np.flatnonzero(monotone.any(axis=0))]


def without(draws: Draws, columns: list[int]) -> Draws:
    """Return the same draws with 0 in these columns, without ``raw``."""
    numbers = draws.numbers.copy()
    numbers[:, [j for j in columns if j < numbers.shape[1]]] = 0.0
    return Draws(draws.coded, numbers, kinds=draws.kinds, marks=draws.marks)


def unclocked(candidates: list[Candidate], columns: list[int]) -> list[Candidate]:
    """Return candidates learned without these columns, so that their scores leave them out as
    well.
    """
    last: list[tuple[Draws, Draws]] = []  # scores of one batch share what is made of it

    def bare(draws: Draws) -> Draws:
        if not last or last[0][0] is not draws:
            last[:] = [(draws, without(draws, columns))]
        return last[0][1]

    def scored(score: Callable[[Draws], Floats]) -> Callable[[Draws], Floats]:
        return lambda draws: score(bare(draws))

    return [replace(one, score=scored(one.score), again=None) for one in candidates]
