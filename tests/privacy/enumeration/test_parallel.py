"""Separate blocks of the records, side by side: whole mechanisms on small graphs of datasets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import permutations, product
from typing import Any

import pytest

from dpverify.privacy import Adjacency, Guarantee, Norm
from dpverify.privacy.balls import ball

from . import laws, premises
from .graph import Law, Mechanism, edges, grid, judge, moved

ADD_REMOVE, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
ONE = Fraction(1)
Row = tuple[int, int]
"""A key and a value."""
Labels = Iterator[tuple[Fraction, Sequence[int]]]
BITS: tuple[Row, ...] = ((0, 0), (0, 1))
SIGNED: tuple[Row, ...] = tuple(product((0, 1), (-1, 1)))


def by_index(data: Sequence[Row]) -> Labels:
    """Send the first record to one block, all others to the other one."""
    yield Fraction(1), [int(i >= 1) for i in range(len(data))]


def by_value(data: Sequence[Row]) -> Labels:
    """Send a record where its key says."""
    yield Fraction(1), [key for key, _ in data]


def by_label(data: Sequence[Row]) -> Labels:
    """Send each record to block 0 one time out of five, on its own."""
    for labels in product((0, 1), repeat=len(data)):
        yield Fraction(4 ** sum(labels), 5 ** len(data)), labels


def balanced(data: Sequence[Row]) -> Labels:
    """Send half of the records, at random, to block 0."""
    every = {*permutations([int(i >= len(data) // 2) for i in range(len(data))])}
    for labels in sorted(every):
        yield Fraction(1, len(every)), labels


def _blocks(labels_of: Callable[[Any], Labels], *, sized: bool) -> Mechanism:
    """Release each block's noisy sum; ``sized``: and its number of records."""

    def block(values: Sequence[int]) -> Law:
        return laws.mapped(
            laws.laplace(sum(values), ONE, -4, 4),
            lambda o: laws.point((len(values) if sized else 0, o)),
        )

    @cache
    def of(data: tuple[Row, ...]) -> Law:
        parts = []
        for chance, labels in labels_of(data):
            values = [
                [v for (_, v), at in zip(data, labels, strict=True) if at == i] for i in (0, 1)
            ]
            parts.append((ball(chance), laws.together([block(own) for own in values])))
        return laws.mixed(parts)

    return lambda data: of(tuple(sorted(data)) if labels_of is not by_index else data)


def _chained(labels_of: Callable[[Any], Labels], told: Callable[[Any, int], int]) -> Mechanism:
    """Two blocks' noisy sums; what the second adds to its own, and its noise, follow from what
    ``told`` says of the first."""

    def second(values: Sequence[int], seen: int) -> Law:
        scale = ONE if seen % 2 else 2 * ONE
        return laws.laplace(sum(values) + 2 * (seen % 3), scale, -4, 8)

    @cache
    def of(data: tuple[Row, ...]) -> Law:
        parts = []
        for chance, labels in labels_of(data):
            values = [
                [v for (_, v), at in zip(data, labels, strict=True) if at == i] for i in (0, 1)
            ]
            first = laws.laplace(sum(values[0]), ONE, -4, 4)
            law = laws.then(first, lambda o, v=values: second(v[1], told(v[0], o)))  # type: ignore[misc]
            parts.append((ball(chance), law))
        return laws.mixed(parts)

    return lambda data: of(tuple(sorted(data)) if labels_of is not by_index else data)


def _released(values: Sequence[int], seen: int) -> int:
    return seen


def _unreleased(values: Sequence[int], seen: int) -> int:
    """Return the sum itself: that is no chain, but a second look at the first block."""
    return sum(values)


def _one_block(universe: tuple[Row, ...], adjacency: Adjacency) -> Guarantee:
    """Claim of a block, from how far its own sum moves, what holds of it alone; and judge it."""
    pairs = edges(adjacency, tuple(sorted({value for _, value in universe})), 2)
    move = moved(lambda data: (sum(data),), pairs, Norm.L1)
    made = premises.discrete_laplace(move, ONE, adjacency)
    assert judge(lambda data: laws.laplace(sum(data), ONE, -4, 4), pairs, made, grid(move)).holds
    return made


_WORLDS: list[tuple[Any, Any, Any, Adjacency, Adjacency, int, float]] = [
    (by_index, "index", BITS, REPLACE, REPLACE, 3, 1 - 1e-12),
    (by_label, "independent_label", BITS, REPLACE, REPLACE, 2, 0.9),
    (by_label, "independent_label", BITS, ADD_REMOVE, ADD_REMOVE, 3, 0.6),
    (by_value, "value", SIGNED, ADD_REMOVE, ADD_REMOVE, 3, 1 - 1e-12),
    (by_value, "value", SIGNED, ADD_REMOVE, REPLACE, 2, 0.7),
]


@pytest.mark.parametrize(("labels", "by", "universe", "about", "to", "most", "share"), _WORLDS)
def test_parallel(
    labels: Any, by: Any, universe: Any, about: Adjacency, to: Adjacency, most: int, share: float
) -> None:
    """Enumerate two blocks of at most three records: by position, by a label, by value."""
    part = _one_block(universe, about)
    claim = premises.parallel([part, part], by, about, to)
    pairs = edges(to, universe, most)
    verdict = judge(_blocks(labels, sized=about is REPLACE), pairs, claim, grid(1, "5/3", 2, 3))
    assert verdict.holds
    assert verdict.share > share


@pytest.mark.parametrize(("labels", "by", "universe", "about", "to", "most", "share"), _WORLDS)
def test_chained(
    labels: Any, by: Any, universe: Any, about: Adjacency, to: Adjacency, most: int, share: float
) -> None:
    """Blocks whose noise and center follow from what an earlier one released. Twin: from what it
    did not release."""
    part = _one_block(universe, about)
    claim = premises.parallel([part, part], by, about, to, chained=True)
    pairs, at = edges(to, universe, most), grid(1, "5/3", 2, 3)
    verdict = judge(_chained(labels, _released), pairs, claim, at)
    assert verdict.holds
    assert verdict.share > share / 2
    assert judge(_chained(labels, _unreleased), pairs, claim, at).surely > 0.01


_FALSE_BLOCKS: dict[str, tuple[Any, Any, Adjacency, int, float]] = {
    "by index under add-remove": (by_index, BITS, ADD_REMOVE, 3, 0.1),
    "balanced labels": (balanced, BITS, ADD_REMOVE, 4, 0.01),
    "by value under replace": (by_value, SIGNED, REPLACE, 2, 0.1),
}


@pytest.mark.parametrize("twin", _FALSE_BLOCKS)
def test_parallel_twins(twin: str) -> None:
    """Catch each side condition dropped: the claim of one block does not hold of the whole.

    A label must be drawn for each record on its own: labels of which exactly half are 0 change with
    the number of records.
    """
    labels, universe, adjacency, most, excess = _FALSE_BLOCKS[twin]
    part = _one_block(universe, ADD_REMOVE)
    law = _blocks(labels, sized=False)
    verdict = judge(law, edges(adjacency, universe, most), part, grid(1))
    assert verdict.surely > excess
