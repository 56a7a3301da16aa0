"""Exact largest moves of a weighted mean when only the friendship graph of the records is known.

Records are the vertices of a graph, friends are within one radius, and nothing else is known of
their positions. Vertices may be blocks: so many records with the same friends.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, combinations
from math import lcm

from dpverify.privacy import Adjacency, Source, states

from . import graphs
from .obligations import require

Weight = Callable[[int, int], int]
"""The weight of a record of this degree, itself included, among n."""


@dataclass(frozen=True, slots=True)
class Sides:
    """Neighbors: how many records each vertex has on the left and on the right.

    ``rows`` are those of ``graphs``; bit i of row i: the records of block i are friends among
    themselves. Each record is its own friend in any case. The vertices from ``others`` on are those
    that are removed, or replaced.
    """

    rows: graphs.Rows
    left: tuple[int, ...]
    right: tuple[int, ...]

    @property
    def others(self) -> int:
        """Number of vertices that both sides have."""
        return sum(x == y for x, y in zip(self.left, self.right, strict=True))

    def degrees(self, sizes: Sequence[int]) -> list[int]:
        """Return the degree of one record of each vertex, among so many."""
        if max(sizes) <= 1:
            present = sum(size << i for i, size in enumerate(sizes))
            return [((row | 1 << i) & present).bit_count() for i, row in enumerate(self.rows)]
        counts = []
        for i, row in enumerate(self.rows):
            own = sizes[i] if row >> i & 1 else min(1, sizes[i])
            counts.append(own + sum(m for k, m in enumerate(sizes) if k != i and row >> k & 1))
        return counts

    def weights(self, sizes: Sequence[int], weight: Weight) -> list[int]:
        """Return the weight of one record of each vertex, 0 where there is none."""
        n = sum(sizes)
        pairs = zip(self.degrees(sizes), sizes, strict=True)
        return [weight(degree, n) if size else 0 for degree, size in pairs]


def sides_of(pair: graphs.Pair) -> Sides:
    """Return a graph as sides, each record a vertex."""
    vertices = range(len(pair.rows))
    left, right = (tuple(side >> i & 1 for i in vertices) for side in (pair.left, pair.right))
    return Sides(pair.rows, left, right)


def _joined(
    adjacency: Adjacency, sizes: Sequence[int], edges: Sequence[tuple[int, int]], own: int
) -> Sides:
    """Return blocks, then the one or two records that one side lacks."""
    last = 1 + (adjacency is Adjacency.REPLACE)
    rows = [own & 1 << i for i in range(len(sizes) + last)]
    for i, k in edges:
        rows[i] |= 1 << k
        rows[k] |= 1 << i
    lacking = ((1,), (0,)) if last == 1 else ((1, 0), (0, 1))
    left, right = ((*sizes, *tail) for tail in lacking)
    return Sides(tuple(rows), left, right)


def strangers_of_one(adjacency: Adjacency, n: int, strangers: int) -> Sides:
    """Return a clique of n - 1, and a record that is no friend of so many of them.

    The record is removed, or replaced by a friend of all but as many others.
    """
    if adjacency is Adjacency.ADD_REMOVE:
        return _joined(adjacency, (n - 1 - strangers, strangers), [(0, 1), (0, 2)], 3)
    sizes = (n - 1 - 2 * strangers, strangers, strangers)
    return _joined(adjacency, sizes, [(0, 1), (0, 2), (1, 2), (0, 3), (0, 4), (1, 4), (2, 3)], 7)


def random_blocks(
    adjacency: Adjacency, seed: int, n: int, blocks: int, count: int
) -> Iterator[Sides]:
    """Yield random sizes and friends, n records on the larger side; dense graphs more often than
    others.
    """
    rng = random.Random(seed)
    vertices = blocks + 1 + (adjacency is Adjacency.REPLACE)
    for _ in range(count):
        sizes = random_sizes(rng, n - 1, blocks)
        density = rng.choice((0.5, 0.8, 0.95))
        edges = [e for e in combinations(range(vertices), 2) if rng.random() < density]
        own = sum(1 << i for i in range(blocks) if rng.random() < 0.9)
        yield _joined(adjacency, sizes, edges, own)


def random_sizes(rng: random.Random, total: int, blocks: int) -> list[int]:
    """Return random sizes, at least 1 each, and uneven."""
    sizes = [1] * blocks
    left = total - blocks
    for i in range(blocks - 1):
        part = int(left * rng.random() ** rng.choice((1, 2, 4)))
        sizes[i] += part
        left -= part
    sizes[-1] += left
    rng.shuffle(sizes)
    return sizes


def largest_sum(rows: graphs.Rows, weights: Sequence[int], top: int) -> int:
    """Return the largest sum of weights[i] f_i over all maps f of the vertices to 0, ..., top that
    have friends within 1 of each other.

    Maps are extended vertex by vertex. One is given up where it would not exceed the largest sum
    so far even with ``top`` at each vertex left of positive weight, and 0 at the others.
    """
    friends = [[k for k in range(i) if row >> k & 1] for i, row in enumerate(rows)]
    left = [*accumulate((top * max(w, 0) for w in reversed(weights)), initial=0)][::-1]
    chosen, best = [0] * len(rows), 0  # the map to 0 has the sum 0

    def extend(i: int, total: int) -> None:
        nonlocal best
        if total + left[i] <= best:
            return
        if i == len(rows):
            best = total
            return
        near = [chosen[k] for k in friends[i]]
        values = range(max(0, max(near, default=1) - 1), min(top, min(near, default=top) + 1) + 1)
        for value in reversed(values) if weights[i] > 0 else values:
            chosen[i] = value
            extend(i + 1, total + weights[i] * value)

    extend(0, 0)
    return best


@states(Source("OURS", "the farthest that a mean of records can move, given their friends"))
def farthest(rows: graphs.Rows, masses: Sequence[Fraction], top: int) -> Fraction:
    """Return the largest |sum of masses[i] x_i|, in radii, over all records x_i with friends
    within a radius, in every dimension and norm.

    The masses add up to 0. Vertices with mass on them are within ``top`` radii of each other,
    by way of common friends: 2 where any two have one.

    Proof. |z| is the largest value at z of a linear function of norm 1. That makes numbers f_i
    of the records with friends within 1 of each other, and numbers are records: one dimension
    suffices. For theta uniform in [0, 1) the mean of floor(f_i + theta) is f_i, and floor keeps
    numbers within 1 within 1, so some integers do as well as f. Shift them so that the least
    one with mass is 0, and clamp all to 0, ..., top: what has mass stays, and friends stay
    within 1. QED.
    """
    scale = lcm(*(mass.denominator for mass in masses))
    whole = [int(mass * scale) for mass in masses]
    require(sum(whole) == 0, f"the masses {masses} do not add up to 0")
    return Fraction(largest_sum(rows, whole, top), scale)


def mean_moves(sides: Sides, weight: Weight) -> Fraction:
    """Return the largest distance of the weighted means of the two sides, neither without
    weight.
    """
    masses = [Fraction(0)] * len(sides.rows)
    for sizes, sign in ((sides.left, 1), (sides.right, -1)):
        weights = sides.weights(sizes, weight)
        total = sum(w * m for w, m in zip(weights, sizes, strict=True))
        for i, (w, m) in enumerate(zip(weights, sizes, strict=True)):
            masses[i] += Fraction(sign * w * m, total)
    return farthest(sides.rows, masses, 2 if len(sides.rows) == sides.others + 1 else 4)
