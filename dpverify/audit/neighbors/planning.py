"""Plan of a search: which pairs are tried first, how many steps apart, and the claim tested on
each.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from dpverify.audit.certificates import fewest_draws, tested_points
from dpverify.audit.neighbors.boxes import Box
from dpverify.audit.neighbors.contest import FEWEST_DRAWS, rounds_of
from dpverify.audit.neighbors.pairs import Neighboring, NeighboringPair, QueryMoves, Steps
from dpverify.audit.neighbors.proposals import random_pair
from dpverify.audit.neighbors.templates import apart, check_bounds, in_turn, templates
from dpverify.audit.subjects import claimed_of
from dpverify.privacy import Group, Guarantee
from dpverify.privacy.numbers import whole

_SEARCHING = 0.4  # share of all calls for the search, where pairs have to be found
_CHOOSING = 0.06  # share of all calls for the search, where pairs are given
_MOST_PAIRS = 256
# Draws per side and pair in the first round, unless there are too many templates for that.
_USUAL_DRAWS = 100
_RANDOM, _FURTHER = 0.45, 0.15  # shares of the pairs that the calls are enough for
_NEAR = 4  # random neighbors for each random pair further apart
_STEPS = (8, 4, 2)
"""Numbers of steps tried besides single ones: the first for which the calls are enough."""
_AMPLE = 4  # times the draws that show an event which is certain on one side and never on the other


class Plan:
    """Pairs that are tried, how many steps apart, and the claim tested on each. Refuses bad
    plans before any draw.
    """

    def __init__(
        self,
        subject: Any,
        claim: Any,
        domain: Box | None,
        adjacency: Neighboring | None,
        given: tuple[NeighboringPair, ...],
        steps: Sequence[int] | None,
        calls: int,
        alpha: float,
    ) -> None:
        self.box, self.given, self.claim = domain, given, claim
        self.budget = int(calls * (_CHOOSING if domain is None else _SEARCHING))
        if domain is None and not given:
            raise ValueError("There is nothing to search; give a domain (a Box), or pairs.")
        if adjacency is None:
            adjacency = given[0].adjacency if given else getattr(subject, "adjacency", None)
        if adjacency is None:
            raise TypeError(
                "adjacency is missing: it says which datasets of the domain are neighbors. Write "
                "adjacency=Adjacency.ADD_REMOVE or Adjacency.REPLACE."
            )
        if any(pair.adjacency != adjacency for pair in given):
            raise ValueError(
                f"A pair is of another adjacency than {adjacency}; search one at a time."
            )
        self.adjacency = adjacency
        if domain is not None:
            if not isinstance(domain, Box):
                raise TypeError(
                    f"domain = {domain!r}; write Box(low=0, high=1), with what the data may be."
                )
            check_bounds(adjacency, domain)
            self.near = list(templates(adjacency, domain))
        tried = [*given, *(self.near if domain is not None else ())]
        if domain is not None and not tried:  # a box too small for templates
            tried = [random_pair("random", adjacency, domain, np.random.default_rng(0))]
        self.guarantee, _ = claimed_of(subject, claim, tried)
        certifying = (calls - self.budget) * 3 // 10
        self.steps: tuple[int, ...] = (1,)
        if domain is not None:
            wanted = _chosen_steps(steps, self.guarantee, certifying, alpha)
            self.steps = tuple(k for k in wanted if k == 1 or self._fits(k))
            if steps is not None and self.steps != wanted:
                raise ValueError(
                    f"steps = {steps!r}: {domain} has no room for so many; allow more rows "
                    "(rows=(0, 20)), or fewer steps."
                )

    def _fits(self, steps: int) -> bool:
        """Return whether the box has room for so many steps."""
        assert self.box is not None
        return next(templates(self.adjacency, self.box, steps=steps), None) is not None

    def first_round(self, seed: int) -> list[NeighboringPair]:
        """Return the pairs given, then every template before any is repeated further apart,
        some that are further apart, and random ones.
        """
        if self.box is None:
            return list(self.given)
        box, adjacency = self.box, self.adjacency
        places = _places(self.budget, _USUAL_DRAWS) - len(self.given)
        rng = np.random.default_rng((seed, 0))
        number = max(1, int(places * _RANDOM)) if places > 0 else 0
        far = [k for k in self.steps for _ in range(_NEAR if k == 1 else 1)]
        random = [
            random_pair(f"random {i}{apart(k)}", adjacency, box, rng, k)
            for i, k in zip(range(number), itertools.cycle(far), strict=False)
        ]
        usual = [
            self.near if k == 1 else list(templates(adjacency, box, steps=k)) for k in self.steps
        ]
        others = list(in_turn(usual[1:]))
        further = min(len(others), int(places * _FURTHER))
        most = _places(self.budget, FEWEST_DRAWS, exactly=True) - len(self.given) - number - further
        near = max(1, min(max(places - number - further, len(usual[0])), most))
        more = others[: max(further, places - number - near)]
        return [*self.given, *usual[0][:near], *more, *random]

    def steps_of(self, pair: NeighboringPair) -> int:
        """Return how many steps lead from one side of the pair to the other."""
        relation = pair.adjacency
        if isinstance(relation, Steps):
            return relation.number
        if isinstance(relation, QueryMoves) and isinstance(self.adjacency, QueryMoves):
            return math.ceil(relation.distance / self.adjacency.distance)
        return 1

    def claim_of(self, pair: NeighboringPair) -> Any:
        """Return the claim for this pair."""
        far = self.steps_of(pair)
        return self.claim if far == 1 else self.guarantee.for_group(far)

    def claimed_of(self, pair: NeighboringPair) -> tuple[int, Sequence[tuple[float, float]]]:
        """Return how many steps apart the pair is, and the points at which its claim is tested."""
        far = self.steps_of(pair)
        return far, _points(self.guarantee, far)


@lru_cache(maxsize=64)
def _points(guarantee: Guarantee, steps: int) -> Sequence[tuple[float, float]]:
    return tested_points(guarantee.for_group(steps) if steps > 1 else guarantee)


def _chosen_steps(
    given: Sequence[int] | None, guarantee: Guarantee, certifying: int, alpha: float
) -> tuple[int, ...]:
    """Return the steps asked for; by default 1, and the largest of a few numbers for which so
    many draws per side are ample.
    """
    if given is not None:
        steps = tuple(dict.fromkeys(whole(k, "steps") for k in given))
        if not steps or min(steps) < 1:
            raise ValueError(f"steps = {given!r}; give numbers from 1 on, such as steps=(1, 8).")
        return steps
    for k in _STEPS:
        try:
            group = guarantee.for_group(k)
            closed = not isinstance(group, Group)
            if closed and _AMPLE * fewest_draws(group, alpha / 2) <= certifying:
                return (1, k)
        # the claim promises a group of that size nothing, or nothing that draws can show
        except ValueError:
            continue
    return (1,)


def _places(budget: int, draws: int, *, exactly: bool = False) -> int:
    """Return with how many pairs a search can begin, so that each gets so many draws per side:
    a power of two, unless it is to be the most.
    """
    places = 2
    while places < _MOST_PAIRS and 4 * places * rounds_of(2 * places) * draws <= budget:
        places *= 2
    while exactly and 2 * (places + 1) * rounds_of(places + 1) * draws <= budget:
        places += 1
    return places


__all__ = ["Plan"]
