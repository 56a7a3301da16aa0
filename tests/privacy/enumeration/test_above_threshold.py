"""The first of many noisy counts above a noisy threshold: whole mechanisms on small graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache

import pytest
from flint import arb

from dpverify.privacy import Adjacency, BoundedRange, Norm
from dpverify.privacy.balls import ball

from . import laws, premises
from .graph import ROUNDING, Law, Mechanism, edges, grid, judge, left_out, moved, span

ADD_REMOVE, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
ONE = Fraction(1)
REACH = 75
"""How many scales of the threshold's noise are listed: what is left out has a mass below 1e-32."""
Answers = tuple[int, ...]
ASKED: tuple[tuple[int, int], ...] = ((1, -1), (1, -1), (1, -1), (0, -1))
"""Records that each of four queries counts, and the public number that it adds."""


@cache
def _at_least(m: int, scale: Fraction) -> arb:
    """Enclose P(Y >= m) for discrete Laplace noise Y."""
    q = ball(-1 / scale).exp()
    return q**m / (1 + q) if m > 0 else 1 - q ** (1 - m) / (1 + q)


@cache
def report(answers: Answers, scale: Fraction, query_scale: Fraction) -> Law:
    """Make the law of the first answer above the threshold 0, by the threshold's noise and
    theirs."""
    reach = int(REACH * scale)
    noise = laws.laplace(0, scale, -reach - 1, reach + 1)
    masses = [arb(0)] * (len(answers) + 1)
    for z in range(-reach, reach + 1):
        alive = noise[z]
        for i, answer in enumerate(answers):
            above = _at_least(z - answer, query_scale)
            masses[i] += alive * above
            alive *= 1 - above
        masses[-1] += alive
    return dict(enumerate(masses))


def counts(data: Sequence[int]) -> Answers:
    """Answer the queries: a 1 in place of a 0 makes three rise and the last one fall."""
    return tuple(offset + sum(row == what for row in data) for what, offset in ASKED)


def _reported(
    query: Callable[[Sequence[int]], Answers], scale: Fraction, own: Fraction
) -> Mechanism:
    return lambda data: report(query(data), scale, own)


def _moves(adjacency: Adjacency) -> tuple[Norm, int]:
    """Measure how far the answers move: all one way where a record is added."""
    norm = Norm.ONE_WAY if adjacency is ADD_REMOVE else Norm.L_INFINITY
    return norm, moved(counts, edges(adjacency, (0, 1, 2), 3), norm)


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("scale", [ONE / 2, ONE])
def test_above_threshold(adjacency: Adjacency, scale: Fraction) -> None:
    """Enumerate four counts of at most three records, with the least noise that the rule takes."""
    pairs, (norm, value) = edges(adjacency, (0, 1, 2), 3), _moves(adjacency)
    assert value == 1
    own = scale if adjacency is ADD_REMOVE else 2 * scale
    law = _reported(counts, scale, own)
    assert max(float(left_out(law(data)).upper()) for data, _ in pairs) < ROUNDING
    claim = premises.above_threshold(value, adjacency, norm, scale=scale, query_scale=own)
    verdict = judge(law, pairs, claim, grid(2 / scale))
    assert verdict.holds
    assert verdict.share > (0.4 if scale < 1 else 0.2)


@pytest.mark.parametrize(("scale", "own"), [(ONE / 2, ONE / 2), (ONE, ONE / 2), (ONE / 2, ONE)])
def test_above_threshold_by_range(scale: Fraction, own: Fraction) -> None:
    """Enumerate queries that move one way: all losses lie in one interval, whatever their noise."""
    pairs, (norm, value) = edges(ADD_REMOVE, (0, 1, 2), 3), _moves(ADD_REMOVE)
    law = _reported(counts, scale, own)
    claim = premises.above_threshold(
        value, ADD_REMOVE, norm, scale=scale, query_scale=own, by_range=True
    )
    length = 1 / scale + 2 / own
    assert claim == BoundedRange(length)
    verdict = judge(law, pairs, claim, grid(length))
    assert verdict.holds
    assert verdict.share > 0.45
    assert 0.5 < span(law, pairs) / length <= 1


def test_above_threshold_twin_two_ways() -> None:
    """Catch the noise of queries that move one way, where some fall and others rise."""
    pairs, (_, value) = edges(REPLACE, (0, 1, 2), 3), _moves(REPLACE)
    scale = ONE / 2
    claim = premises.above_threshold(
        value, ADD_REMOVE, Norm.ONE_WAY, scale=scale, query_scale=scale
    )
    verdict = judge(_reported(counts, scale, scale), pairs, claim, grid(2 / scale))
    assert verdict.surely > 0.3
