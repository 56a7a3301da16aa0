"""Rounds of successive halving among pairs: many with few draws each, then the better half with
twice as many.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dpverify.audit.neighbors.boxes import Box
from dpverify.audit.neighbors.pairs import NeighboringPair
from dpverify.audit.neighbors.proposals import mutated
from dpverify.audit.neighbors.proxies import Point, promise
from dpverify.audit.neighbors.templates import apart
from dpverify.audit.outputs.laws import both_drawn
from dpverify.audit.subjects import Target

FEWEST_DRAWS = 50
"""Draws per side and pair in the first round, at least."""
_ERRORS = (0.5, 2.5)  # standard errors taken off a score, in the first and the last round
_CHILDREN = 0.25  # share of a round's pairs that are near the best of the round before
_MOST_DRAWS = 200_000  # a score of more draws is no better
_SHOWN = 8
_CHANGED = ", changed"


@dataclass(frozen=True, slots=True)
class Round:
    """One round: how many pairs were compared with how many draws per side, and the best of
    them.

    calls: all calls of the subject in this round. best: names and scores (see ``proxies.promise``).
    failed: pairs on which the subject raised an exception, by name.
    """

    pairs: int
    draws: int
    calls: int
    best: tuple[tuple[str, float], ...]
    failed: tuple[str, ...] = ()

    def __str__(self) -> str:
        name, score = self.best[0] if self.best else ("none", -np.inf)
        return f"{self.pairs} pairs, {self.draws} draws a side; best {score:+.3g}: {name}"


def rounds_of(pairs: int) -> int:
    """Return how many rounds of halving lead from so many pairs to one."""
    return math.ceil(math.log2(pairs))


class Contest:
    """Rounds of halving, and what they found so far.

    claimed: how many steps apart a pair is, and the points of what is claimed of it. What a
    pair gives away, and the error of that, are divided by its steps: so is the bound.
    """

    def __init__(
        self,
        target: Target,
        claimed: Callable[[NeighboringPair], tuple[int, Sequence[Point]]],
        box: Box | None,
        seed: int,
        best: NeighboringPair,
    ) -> None:
        self.target, self.claimed, self.box, self.seed = target, claimed, box, seed
        self.best = best
        self.rounds: list[Round] = []
        self.calls = 0
        self._rng = np.random.default_rng((seed, 1))

    def run(self, pairs: Sequence[NeighboringPair], budget: int) -> None:
        """Run rounds until one pair is left."""
        rounds = rounds_of(len(pairs))
        for number in range(1, rounds + 1):
            draws = min(budget // rounds // (2 * len(pairs)), _MOST_DRAWS)
            first, last = _ERRORS
            errors = last + (first - last) * (rounds - number) / max(1, rounds - 1)
            pairs = self._round(pairs, max(FEWEST_DRAWS, draws), errors)

    def _round(
        self, pairs: Sequence[NeighboringPair], draws: int, errors: float
    ) -> list[NeighboringPair]:
        """Score all pairs; return the better half of them, some replaced by pairs near the best."""
        before = self.calls
        scored: list[tuple[float, NeighboringPair]] = []
        failures: list[tuple[NeighboringPair, Exception]] = []
        for index, pair in enumerate(pairs):
            try:
                scored.append((self._score(pair, index, draws, errors), pair))
            except Exception as error:  # the subject fails on this pair; it may not on others
                failures.append((pair, error))
        if not scored:
            raise failures[0][1]
        scored.sort(key=lambda one: -one[0])
        self.best = scored[0][1]
        self.rounds.append(
            Round(
                len(pairs),
                draws,
                self.calls - before,
                tuple((pair.name, score) for score, pair in scored[:_SHOWN]),
                tuple(pair.name for pair, _ in failures),
            )
        )
        return self._next([pair for _, pair in scored])

    def _next(self, ranked: Sequence[NeighboringPair]) -> list[NeighboringPair]:
        """Return the better half of the pairs, separately for each number of steps: by chance
        few draws overrate a single step more than a share of many steps. The last of them make
        room for changes of the first.
        """
        classes: dict[int, list[NeighboringPair]] = {}
        for pair in ranked:
            classes.setdefault(self.claimed(pair)[0], []).append(pair)
        halves = [pairs[: (len(pairs) + 1) // 2] for pairs in classes.values()]
        return [pair for half in halves for pair in self._with_children(half)]

    def _score(self, pair: NeighboringPair, index: int, draws: int, errors: float) -> float:
        laws = self.target(pair.left), self.target(pair.right)
        address = (self.seed, len(self.rounds), index)
        self.calls += 2 * draws
        left, right = both_drawn(laws, [(*address, 0), (*address, 1)], draws)
        steps, points = self.claimed(pair)
        return promise(left, right, laws, points, errors) / steps

    def _with_children(self, kept: list[NeighboringPair]) -> list[NeighboringPair]:
        """Replace the last of the retained pairs by changes of the first."""
        room = int(len(kept) * _CHILDREN) if self.box is not None and len(kept) > 2 else 0
        for i in range(room):
            assert self.box is not None
            parent = kept[i % (1 + len(kept) // 4)]
            name = parent.name.removesuffix(apart(self.claimed(parent)[0])).removesuffix(_CHANGED)
            child = mutated(name + _CHANGED, parent, self.box, self._rng)
            if child is not None:
                kept[len(kept) - 1 - i] = child
        return kept


__all__ = ["FEWEST_DRAWS", "Contest", "Round", "rounds_of"]
