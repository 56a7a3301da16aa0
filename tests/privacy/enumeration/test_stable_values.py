"""Propose-test-release: whole mechanisms on small graphs, distances by a search of the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from dpverify.privacy import Adjacency, ApproxDP, Guarantee

from . import laws, premises
from .graph import Law, Mechanism, edges, grid, judge

ADD_REMOVE, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
ONE = Fraction(1)
RECORDS, MOST = (0, 1, 2), 4
Point = tuple[int, ...]
Value = Callable[[Point], Any]


def most_common(data: Point) -> int:
    """Name the most common record, of several the least."""
    return max(RECORDS, key=lambda record: (data.count(record), -record))


def has_two(data: Point) -> bool:
    """Tell whether there is a 2."""
    return 2 in data


@cache
def distances(value: Value, adjacency: Adjacency) -> dict[Point, int]:
    """Search the graph, from the edges between different values inward; MOST + 1 where there is no
    way."""
    pairs = edges(adjacency, RECORDS, MOST)
    steps_away = {node: MOST + 1 for pair in pairs for node in pair}
    steps_away |= {a: 1 for a, b in pairs if value(a) != value(b)}
    for _ in range(MOST):
        for a, b in pairs:
            steps_away[a] = min(steps_away[a], steps_away[b] + 1)
    return steps_away


@cache
def _tested(value: Any, distance: int, threshold: int, noisy: bool) -> Law:
    """Release the value with its noisy distance from the threshold on; what is below is one
    outcome."""
    if not noisy:
        return laws.point((value, distance) if distance >= threshold else None)
    raw = laws.laplace(distance, ONE, threshold - 1, threshold + MOST)
    return {None if far == threshold - 1 else (value, far): mass for far, mass in raw.items()}


def _mechanism(
    values: Sequence[Value],
    adjacency: Adjacency,
    threshold: int,
    *,
    noisy: bool = True,
    far: Callable[[Value, Point], int] | None = None,
) -> Mechanism:
    away = far or (lambda value, data: distances(value, adjacency)[data])

    @cache
    def of(shown: tuple[tuple[Any, int], ...]) -> Law:
        return laws.together([_tested(*one, threshold, noisy) for one in shown])

    return lambda data: of(tuple((value(data), away(value, data)) for value in values))


def _claim(values: int, adjacency: Adjacency, threshold: int = 3) -> Guarantee:
    return premises.propose_test_release(values, adjacency, scale=ONE, threshold=threshold)


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("values", [(has_two,), (has_two, most_common)], ids=len)
def test_propose_test_release(values: Sequence[Value], adjacency: Adjacency) -> None:
    """Enumerate all datasets of at most four records; some pair has all of epsilon, some all of
    delta."""
    pairs = edges(adjacency, RECORDS, MOST)
    verdict = judge(
        _mechanism(values, adjacency, 3), pairs, _claim(len(values), adjacency), grid(1, 2, 9)
    )
    assert verdict.holds
    assert verdict.share > 1 - 1e-12


def test_propose_test_release_twin_no_noise() -> None:
    """Catch a test without noise: where it passes depends on a single record."""
    pairs = edges(REPLACE, RECORDS, MOST)
    law = _mechanism([has_two], REPLACE, 3, noisy=False)
    assert judge(law, pairs, _claim(1, REPLACE), grid(1, 9)).surely > 0.9


def test_propose_test_release_twin_no_delta() -> None:
    """Catch a threshold of 1 / epsilon, at which noise passes by itself, at the delta of one that
    has a delta in it."""
    pairs = edges(REPLACE, RECORDS, MOST)
    claim = _claim(1, REPLACE, 13)
    assert isinstance(claim, ApproxDP)
    assert claim.delta < Fraction(1, 10**5)
    law = _mechanism([has_two], REPLACE, 2)
    assert judge(law, pairs, claim, grid(1, 9)).surely > 0.1


def test_propose_test_release_twin_steps_in_value() -> None:
    """Catch a distance that counts 2s in place of records to change: it is 2 next to another
    value."""

    def far(value: Value, data: Point) -> int:
        return 2 + data.count(2)

    pairs = edges(REPLACE, RECORDS, MOST)
    law = _mechanism([has_two], REPLACE, 3, far=far)
    assert judge(law, pairs, _claim(1, REPLACE), grid(1, 9)).surely > 0.1
