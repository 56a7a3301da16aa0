"""A filter that keeps each record on its own: whole mechanisms on all small graphs of friends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import pytest

from dpverify.privacy import Adjacency, PerfectPrivacy
from dpverify.privacy.balls import ball
from spec.theory import graphs

from . import laws, premises
from .friendships import (
    SIGNS,
    STRANGERS,
    Answer,
    Released,
    World,
    behind,
    few,
    judged,
    noisy,
    steps_of,
    worlds,
)
from .graph import Law, judge

ADD_REMOVE, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
ONE = Fraction(1)
Rule = Callable[[int, int, int], Fraction]
"""A keep-probability from the number of friends and the number of records."""


def _moves(world: World, rule: Rule) -> graphs.Moves:
    return graphs.moves(graphs.Pair(world.rows, world.left, world.right), rule)


def _stability(every: Sequence[World], rule: Rule) -> tuple[Fraction, bool]:
    """Measure how far keep-probabilities move in all, and whether all sets on the way are
    friendly."""
    largest, all_friendly = Fraction(0), True
    for world in every:
        moves = _moves(world, rule)
        for chances in graphs.hybrids(moves):
            may = sum(1 << i for i, chance in enumerate(chances) if chance)
            all_friendly = all_friendly and world.friendly(may)
        largest = max(largest, graphs.distance(moves))
    return largest, all_friendly


def _filtered(rule: Rule, noise: Callable[[int], Law], answer: Answer) -> Released:
    def law(world: World, side: int) -> Law:
        at = world.sides.index(side)
        moves = _moves(world, rule)
        chances = {i: ball(moves[i][at]) for i in graphs.members(side)}
        return noisy(behind(world, chances, lambda kept: answer(world, kept)), noise)

    return law


@pytest.mark.parametrize(
    ("adjacency", "exact", "share"),
    [(ADD_REMOVE, False, 0.6), (ADD_REMOVE, True, 0.7), (REPLACE, True, 0.65)],
)
def test_friendly_lift(adjacency: Adjacency, exact: bool, share: float) -> None:
    """Enumerate the basic filter on at most four records, then a noisy sum of signs of what it
    kept."""
    every = worlds(adjacency, 4)
    moved, all_friendly = _stability(every, graphs.basic_rule)
    assert all_friendly
    assert moved == (Fraction(5, 3) if adjacency is ADD_REMOVE else Fraction(5, 2))

    def noise(value: int) -> Law:
        return laws.laplace(value, ONE, -4, 4)

    steps = steps_of(every, SIGNS)
    once = max(abs(one - other) for one, other in steps)
    inner = premises.discrete_laplace(once, ONE, premises.friendly(), exact=exact)
    assert judge(noise, steps, inner, few(1)).holds
    claim = premises.friendly_lift(inner, moved, adjacency)
    verdict = judged(every, _filtered(graphs.basic_rule, noise, SIGNS), claim, few(3))
    assert verdict.holds
    assert verdict.share > share


def test_friendly_lift_twin_few_strangers() -> None:
    """Catch a claim for a record without strangers: the pairs of strangers stay as many.

    The filter keeps records that have one, so its lift is false.
    """
    every = worlds(ADD_REMOVE, 4)
    steps = steps_of(every, STRANGERS, strangers=0)
    assert all(one == other for one, other in steps)
    moved, _ = _stability(every, graphs.basic_rule)
    law = _filtered(graphs.basic_rule, laws.point, STRANGERS)
    with pytest.raises(ValueError, match="prove both for the same neighbors"):
        premises.friendly_lift(PerfectPrivacy(), moved, ADD_REMOVE, strangers=0)
    assert judged(every, law, PerfectPrivacy(), few(1)).surely > 0.3
    assert moved == Fraction(5, 3)


def test_friendly_lift_twin_sets_that_are_not_friendly() -> None:
    """Catch a filter by the share of friends: it moves little, and keeps strangers."""

    def share(degree: int, n: int, larger: int) -> Fraction:
        return Fraction(degree, n)

    every = worlds(ADD_REMOVE, 4)
    moved, all_friendly = _stability(every, share)
    assert moved <= 2
    assert not all_friendly
    law = _filtered(share, lambda value: laws.point(0), SIGNS)
    claim = premises.friendly_lift(PerfectPrivacy(), moved, ADD_REMOVE)
    assert judged(every, law, claim, few(1)).surely > 0.3
