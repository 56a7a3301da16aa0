"""Hypothesis strategies for neighboring datasets: what they draw, how it shrinks, and that they
find bugs."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis.errors import NoSuchExample

from dpverify import Adjacency, strategies
from dpverify.audit import Box, NeighboringPair, QueryMoves
from dpverify.audit.neighbors.pairs import Neighboring, Steps
from dpverify.privacy import Domain
from dpverify.privacy.adjacency import Friendly
from dpverify.strategies import neighboring_datasets

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
OF_RECORDS: list[Neighboring] = [ADD, REPLACE, Steps(ADD, 3), Steps(REPLACE, 3)]
DOMAINS: list[Domain | Box] = [
    Domain(1),
    Domain(3, "replace"),
    Domain(2, most_rows=3),
    Box(low=0, high=1),
    Box(low=(0, 5), high=(1, 5), columns=2, rows=(1, 4)),
    Box(integers=True),
    Box(low=2**60 + 1, integers=True, columns=2),
    Box(columns=40, nonfinite="replace"),
]
VECTORS: list[tuple[QueryMoves, Box]] = [
    (QueryMoves(by="0.1"), Box(low=-10, high=10, columns=5)),
    (QueryMoves(by="2.5", at_once=2), Box(low=0, high=9, columns=20, integers=True)),
    (QueryMoves(), Box(low=2**60 + 1, high=2**60 + 2000, columns=2, integers=True)),
    (QueryMoves(), Box(low=5, high=5.5)),
]
CASES: list[tuple[Neighboring, Domain | Box]] = [
    *((adjacency, domain) for adjacency in OF_RECORDS for domain in DOMAINS),
    *VECTORS,
]
FEW = settings(max_examples=6, database=None, phases=[Phase.generate])
THOROUGH = settings(FEW, suppress_health_check=[*HealthCheck])


def _sides(pair: NeighboringPair) -> list[list[Any]]:
    """Return both datasets as lists of rows of numbers."""
    return [
        [list(row) if np.ndim(row) else [row] for row in side] for side in (pair.left, pair.right)
    ]


def _is_drawn(strategy: Any, holds: Callable[[NeighboringPair], bool], tries: int = 4000) -> bool:
    few = settings(THOROUGH, max_examples=tries)
    try:
        find(strategy, holds, settings=few)
    except NoSuchExample:
        return False
    return True


@pytest.mark.parametrize(("adjacency", "domain"), CASES, ids=str)
def test_neighbors_of_the_domain(adjacency: Neighboring, domain: Domain | Box) -> None:
    """Draw pairs, each of which verifies that its sides are neighbors; the test of strategies
    sees more than one."""
    seen = list[str]()
    box = domain if isinstance(domain, Box) else Box(
        columns=domain.columns, nonfinite=domain.nonfinite, rows=(0, domain.most_rows or 20)
    )  # fmt: skip

    @FEW
    @given(neighboring_datasets(adjacency, domain))
    def check(pair: NeighboringPair) -> None:
        assert pair.adjacency == adjacency
        seen.append(repr((pair.left, pair.right)))
        if isinstance(adjacency, QueryMoves):
            assert box.contains(pair.left)
            assert box.contains(pair.right)
            return
        for side in _sides(pair):
            assert box.sizes[0] <= len(side) <= box.sizes[1]
            assert all(box.contains(row) for row in side)

    check()
    assert len({*seen}) >= 2


NASTY: dict[str, Callable[[list[list[float]]], bool]] = {
    "empty": lambda side: not side,
    "one record": lambda side: len(side) == 1,
    "five that are equal": lambda side: len(side) == 5 and side.count(side[0]) == 5,
    "1e308": lambda side: [1e308] in side,
    "the largest": lambda side: [-sys.float_info.max] in side,
    "subnormal": lambda side: any(0 < abs(x) < sys.float_info.min for (x,) in side),
    "-0.0": lambda side: any(x == 0 and math.copysign(1, x) < 0 for (x,) in side),
    "not a number": lambda side: any(math.isnan(x) for (x,) in side),
    "infinite": lambda side: [-math.inf] in side,
}


@pytest.mark.parametrize("kind", NASTY)
def test_nasty_datasets_are_drawn(kind: str) -> None:
    def has(pair: NeighboringPair) -> bool:
        return any(map(NASTY[kind], _sides(pair)))

    assert _is_drawn(neighboring_datasets(ADD, Domain(1, "replace")), has)
    if kind in ("1e308", "the largest", "not a number", "infinite"):  # outside of this box
        assert not _is_drawn(neighboring_datasets(ADD, Box(low=-1, high=1)), has, 50)


def test_ends_of_integers_are_drawn_exactly() -> None:
    def contains(end: int) -> Callable[[NeighboringPair], bool]:
        return lambda pair: end in pair.left

    for end in (2**63 - 1, -(2**63), 2**31 - 1):
        assert _is_drawn(neighboring_datasets(ADD, Box(integers=True)), contains(end))
    odd = 2**60 + 1  # no float
    bounded = neighboring_datasets(ADD, Box(low=odd, high=odd + 4, integers=True))
    assert _is_drawn(bounded, contains(odd))
    assert not _is_drawn(bounded, contains(odd - 1), 50)


def test_both_orders_and_all_places_are_drawn() -> None:
    def longer(side: str, other: str) -> Callable[[NeighboringPair], bool]:
        return lambda pair: len(getattr(pair, side)) > len(getattr(pair, other))

    def differs(at: int) -> Callable[[NeighboringPair], bool]:
        return lambda pair: bool(pair.left[at] != pair.right[at])

    for sides in (("left", "right"), ("right", "left")):
        assert _is_drawn(neighboring_datasets(ADD, Domain(1)), longer(*sides))
    replaced = neighboring_datasets(REPLACE, Box(low=0, high=1, rows=(3, 3)))
    assert all(_is_drawn(replaced, differs(at)) for at in range(3))


def test_failing_examples_are_small() -> None:
    more = find(neighboring_datasets(ADD, Domain(1)), lambda pair: len(pair.left) >= 3)
    assert more.left == [0.0, 0.0, 0.0]
    assert len(more.right) == 2
    changed = find(
        neighboring_datasets(REPLACE, Domain(2)), lambda pair: bool(np.any(pair.left != pair.right))
    )
    assert np.array_equal(changed.left, [[0.0, 0.0]])
    assert sorted(changed.right[0].tolist()) == [0.0, 1.0]
    moving = find(
        neighboring_datasets(*VECTORS[0]), lambda pair: list(pair.left) != list(pair.right)
    )
    assert sum(x != y for x, y in zip(moving.left, moving.right, strict=True)) == 1


def test_a_wrong_sensitivity_is_found() -> None:
    """A sum that says 1 of records in [-1, 1]: under replace it moves by 2; a right one is left
    alone."""

    def property_of(bound: float) -> Callable[[], None]:
        @settings(FEW, max_examples=40)
        @given(neighboring_datasets(REPLACE, Box(low=-1, high=1)))
        def moves_by_at_most(pair: NeighboringPair) -> None:
            assert abs(math.fsum(pair.left) - math.fsum(pair.right)) <= bound

        return moves_by_at_most

    property_of(2)()
    with pytest.raises(AssertionError):
        property_of(1)()


@pytest.mark.parametrize(
    ("adjacency", "domain", "error", "said"),
    [
        (ADD, Box(rows=(3, 3)), ValueError, r"write rows=\(3, 4\) or more"),
        (QueryMoves(), Domain(2), ValueError, "needs bounds"),
        (QueryMoves("0.5"), Box(low=0, high=9, integers=True), ValueError, "moves by at least 1"),
        (Friendly("near"), Domain(1), TypeError, "neighbors are made for"),
        (ADD, 3, TypeError, "write Domain"),
    ],
)
def test_what_has_no_neighbors_is_refused(
    adjacency: Any, domain: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        neighboring_datasets(adjacency, domain)


def test_hypothesis_is_needed_only_when_a_strategy_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    again = importlib.reload(strategies)
    with pytest.raises(ImportError, match="run `pip install hypothesis`"):
        again.neighboring_datasets(REPLACE, Domain(1))
