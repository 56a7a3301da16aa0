"""All small graphs of records and their neighbors: the records that a filter keeps on one side and
the other.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import prod
from typing import Any

from dpverify.privacy import Adjacency

from .filters import basic_probability, kept_sets

Rows = tuple[int, ...]
"""Row i has bit k where vertices i and k are friends, bit i where i is its own friend."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Neighbors in a graph of records: the vertices (bits) that each of them has."""

    rows: Rows
    left: int
    right: int

    @property
    def both(self) -> int:
        """Vertices that no neighbor lacks."""
        return self.left & self.right

    @property
    def larger(self) -> int:
        """Number of records; under add-remove, of the larger dataset."""
        return max(self.left.bit_count(), self.right.bit_count())


def pair_of(rows: Rows, adjacency: Adjacency) -> Pair:
    """Return the pair in which the last vertex is removed; or replaces the one before it."""
    last = 1 << (len(rows) - 1)
    if adjacency is Adjacency.ADD_REMOVE:
        return Pair(rows, 2 * last - 1, last - 1)
    return Pair(rows, last - 1, 2 * last - 1 - last // 2)


def pairs(adjacency: Adjacency, n: int, loops: Iterable[int] | None = None) -> Iterator[Pair]:
    """Yield all neighbors of n records (the larger side) with the last one removed or replaced.

    Every labeled graph is tried, so after relabeling any record is the last one. ``loops``:
    patterns of records that are their own friends, as bits; by default the two patterns none
    and all. Whether the two records that replace each other are friends does not matter; here
    they are not.
    """
    vertices = n + (adjacency is Adjacency.REPLACE)
    edges = list(combinations(range(vertices), 2))
    if adjacency is Adjacency.REPLACE:
        edges.pop()
    for own in (0, 2**vertices - 1) if loops is None else loops:
        for chosen in range(2 ** len(edges)):
            rows = [own & 1 << i for i in range(vertices)]
            for bit, (i, k) in enumerate(edges):
                if chosen >> bit & 1:
                    rows[i] |= 1 << k
                    rows[k] |= 1 << i
            yield pair_of(tuple(rows), adjacency)


def random_pairs(adjacency: Adjacency, seed: int, sizes: Iterable[int]) -> Iterator[Pair]:
    """Yield one pair of each size, of random density, all records their own friends."""
    rng = random.Random(seed)
    for n in sizes:
        vertices, density = n + (adjacency is Adjacency.REPLACE), rng.choice((0.5, 0.7, 0.9, 0.97))
        rows = [1 << i for i in range(vertices)]
        for i, k in combinations(range(vertices), 2):
            if rng.random() < density:
                rows[i] |= 1 << k
                rows[k] |= 1 << i
        yield pair_of(tuple(rows), adjacency)


def clique(adjacency: Adjacency, n: int) -> Pair:
    """Return n records that are all friends, except for the one that is removed, or replaces
    another: it has none.
    """
    friends = n - (adjacency is Adjacency.ADD_REMOVE)
    return pair_of((*[2**friends - 1] * friends, 2**friends), adjacency)


def ring(adjacency: Adjacency, n: int) -> Pair:
    """Return n - 1 records in a ring, each friends with the nearest n / 2, itself included: half
    of all n.

    The last one has no friends and is removed, or replaced by a friend of all. n = 2 modulo 4.
    """
    others, reach = n - 1, (n // 2 - 1) // 2
    rows = [sum(1 << (i + k) % others for k in range(-reach, reach + 1)) for i in range(others)]
    if adjacency is Adjacency.ADD_REMOVE:
        return pair_of((*rows, 1 << others), adjacency)
    rows = [row | 1 << n for row in rows]
    return pair_of((*rows, 1 << others, 2**others - 1 | 1 << n), adjacency)


def members(vertices: int) -> list[int]:
    """Return the vertices of these bits."""
    return [i for i in range(vertices.bit_length()) if vertices >> i & 1]


def degree(rows: Rows, i: int, among: int) -> int:
    """Return the number of friends of vertex i among these."""
    return (rows[i] & among).bit_count()


def margin(rows: Rows, i: int, among: int) -> int:
    """Return the margin 2 deg - n of vertex i among these vertices."""
    return 2 * degree(rows, i, among) - among.bit_count()


def replaced(pair: Pair) -> list[tuple[int, int]]:
    """Return the records that one side lacks, with their side."""
    return [(i, side) for side in (pair.left, pair.right) for i in members(side & ~pair.both)]


def are_friendly(rows: Rows, kept: int, among: int) -> bool:
    """Return whether any two of the kept vertices have a common friend among those."""
    chosen = members(kept)
    return all(rows[i] & rows[k] & among for i in chosen for k in chosen if i <= k)


# --- moves --------------------------------------------------------------------------------------

Rule = Callable[[int, int, int], Fraction]
"""A keep-probability from the degree, the number of records and that of the larger neighbor."""
Moves = tuple[tuple[Fraction, Fraction], ...]
"""Every vertex's keep-probability on the left and on the right, 0 where it is no record."""


def basic_rule(degree: int, n: int, larger: int) -> Fraction:
    """Return ``basic_probability``, for which the neighbor plays no part."""
    return basic_probability(degree, n)


def moves(pair: Pair, rule: Rule = basic_rule) -> Moves:
    """Return the moves of all vertices."""

    def side(among: int) -> list[Fraction]:
        n = among.bit_count()
        return [
            rule(degree(pair.rows, i, among), n, pair.larger) if among >> i & 1 else Fraction(0)
            for i in range(len(pair.rows))
        ]

    return tuple(zip(side(pair.left), side(pair.right), strict=True))


def distance(moves: Moves) -> Fraction:
    """Return the total move of the keep-probabilities."""
    return sum((abs(p - q) for p, q in moves if p != q), Fraction(0))


def supports(moves: Moves) -> tuple[int, int]:
    """Return the vertices that may be kept on the left, and on the right."""
    bits = [(bool(p) << i, bool(q) << i) for i, (p, q) in enumerate(moves)]
    return sum(left for left, _ in bits), sum(right for _, right in bits)


def hybrids(moves: Moves) -> Iterator[tuple[Fraction, ...]]:
    """Yield the keep-probabilities on the way from left to right, one changed at a time: first
    those that fall, then those that rise.
    """
    now = [p for p, _ in moves]
    yield tuple(now)
    for falls in (True, False):
        for i, (p, q) in enumerate(moves):
            if p != q and (q < p) is falls:
                now[i] = q
                yield tuple(now)


def growth(moves: Iterable[tuple[Any, Any]], factor: Any) -> Any:
    """Return R with F(S) + d/a <= R (F'(S) + d/a) for the laws F, F' of filter and mechanism,
    where the mechanism is friendly (epsilon, d)-DP, factor = e^epsilon, a = factor - 1.

    It is the product over records of (1 + p a) / (1 + q a) if p > q, else of the same with
    1 - p, 1 - q (proof: rules.friendly_lift).
    """
    a = factor - 1
    return prod(
        (1 + p * a) / (1 + q * a) if p > q else (1 + (1 - p) * a) / (1 + (1 - q) * a)
        for p, q in moves
    )


def worst_ratio(moves: Moves, factor: Fraction) -> Fraction:
    """Return E g(kept) on the left over the same on the right, for the g that gives away most, by
    summation over all kept sets.

    That g has a factor for each kept record that the left keeps more often, and for each
    dropped one that it keeps less often.
    """
    fall = {i for i, (p, q) in enumerate(moves) if p > q}
    rise = {i for i, (p, q) in enumerate(moves) if p < q}

    def average(side: int) -> Fraction:
        laws = kept_sets([move[side] for move in moves])
        return sum(
            (
                weight * factor ** (len(fall & {*kept}) + len(rise - {*kept}))
                for kept, weight in laws
            ),
            Fraction(0),
        )

    return average(0) / average(1)
