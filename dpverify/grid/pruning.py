"""Pruning of pairs of rows to those that need a look: boxes that are halved, and shells about a
point. Exact.

Rows are float64 vectors (z, 1, -N) of integers, N = |z|^2 at most 2^51: the product of one with
(2 z', -N', 1) is -E^2 for the distance E of z and z', at most 2^53 and without rounding
(``degrees``). Whatever is left out here is decided: pairs with E^2 > ``maybe`` are not friends,
pairs with E^2 <= ``sure`` are. Which point, which box, how many rows in a leaf: no choice shows
in a count.

Boxes (``leaves``). A box has an interval for each coordinate, which holds those of all its
rows. A row outside has a gap g_j to the interval, an integer with |g_j| <= |z_j - z'_j| for
each row z' in the box, so the sum of g_j^2 is at most E^2, and at most 2^53: each square, each
sum of some of them, and the difference of two such sums are integers that float64 holds. A row
whose sum is beyond ``maybe`` is no friend of any row in the box.

Shells (``ranges``). For distances D and D' of two rows from one point, |D - D'| <= E <= D + D'.
With rho >= D an integer, a = floor(sqrt(sure)) and b = ceil(sqrt(maybe)),

    D'^2 <= (a - rho)^2, rho <= a  implies  E <= a,      D'^2 > (b + rho)^2  implies  E > b.

A bound beyond 2^53 may round on its way to float64, but not below 2^53, so that nothing is
beyond it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dpverify.privacy.numbers import Floats

Indices = NDArray[np.intp]

_LEAF = 512
"""Number of rows in a box that is not halved: 90 rows are compared with one in the time that a
test of the box takes.
"""
_MANY = 1 << 12  # number of rows from which on boxes are tried
_FEW_FRIENDS = 1 / 8
"""Share of pairs that may be friends below which boxes are tried: else most are within the
radius of each other.
"""
_SAMPLE = (
    128  # rows that are looked at for a point in their middle, and for how many friends they have
)


def against(vectors: Floats) -> Floats:
    """Turn (z, 1, -N) into (2 z, -N, 1), whose product with another row is minus a squared
    distance.
    """
    turned = vectors * 2.0
    turned[:, -2], turned[:, -1] = vectors[:, -1], 1.0
    return turned


def squares_from(point: Floats, vectors: Floats) -> Floats:
    """Compute the squared distance of each row from a point (z, 1, -N), shape (n,)."""
    return np.asarray(-(vectors @ against(point[np.newaxis])[0]))


def parts(
    vectors: Floats, rows: Indices, beyond: Indices, maybe: float
) -> Iterator[tuple[Indices, Indices, Floats]]:
    """Cut rows into parts, with the others that each must be compared with and a point in its
    middle.

    As for ``leaves``, where there are many rows and few friends; else all rows are one part,
    about zero.
    """
    if len(rows) >= _MANY and _share(vectors[rows], maybe) < _FEW_FRIENDS:
        for leaf, others in leaves(vectors, rows, beyond, maybe):
            yield leaf, others, middle(vectors[leaf])
    else:
        zero = np.zeros(vectors.shape[1])
        zero[-2] = 1.0
        yield rows, beyond, zero


def _share(vectors: Floats, maybe: float) -> float:
    """Estimate the share of pairs that may be friends, from pairs of a few rows."""
    some = vectors[np.linspace(0, len(vectors) - 1, _SAMPLE).astype(np.intp)]
    return float((against(some) @ some.T >= -maybe).mean())


def middle(vectors: Floats) -> Floats:
    """Choose a row near the middle of the rows: the one of a few that is next to their median."""
    few = vectors[np.linspace(0, len(vectors) - 1, min(_SAMPLE, len(vectors))).astype(np.intp)]
    median = np.sort(few, axis=0)[len(few) // 2]
    chosen: Floats = few[((few - median)[:, :-2] ** 2).sum(axis=1).argmin()]
    return chosen


def ranges(squares: Floats, rho: int, sure: float, maybe: float) -> tuple[int, int]:
    """Find which rows at these rising squared distances from a point are decided, given rows
    within rho of it.

    Returns (i, j): the first i are friends of all rows within rho, those from j on are friends
    of none.
    """
    a, b = math.isqrt(int(max(sure, 0))), ceiling_root(maybe)
    inner = float((a - rho) ** 2) if sure >= 0 and rho <= a else -1.0
    bounds = np.searchsorted(squares, (inner, float((b + rho) ** 2)), "right")
    return int(bounds[0]), int(bounds[1])


def ceiling_root(square: float) -> int:
    """Compute the least integer whose square is at least an integer."""
    return math.isqrt(int(square) - 1) + 1 if square else 0


def leaves(
    vectors: Floats, rows: Indices, beyond: Indices, maybe: float
) -> Iterator[tuple[Indices, Indices]]:
    """Halve rows until few are left, and name for each such leaf the rows that it must be
    compared with.

    Yields (leaf, others): every pair of ``rows``, and every pair of one of them with one of
    ``beyond``, that may be friends is in one leaf, or once in a leaf and its others. Equal rows
    stay in one leaf.
    """
    columns = vectors.shape[1] - 2
    box = np.array([[-np.inf] * columns, [np.inf] * columns])
    todo = [(rows, beyond, np.zeros(len(beyond)), box)]
    while todo:
        here, others, gaps, box = todo.pop()
        low, high = _ends(vectors, here)
        widest = int((high - low).argmax())
        if len(here) <= _LEAF or low[widest] == high[widest]:
            yield here, others
            continue
        halves = np.argpartition(vectors[here, widest], len(here) // 2)
        left, right = (here[np.sort(half)] for half in np.split(halves, [len(here) // 2]))
        joined = np.concatenate([others, right]), np.concatenate([gaps, np.zeros(len(right))])
        todo.append((right, *_inside(vectors, right, (others, gaps), widest, box, maybe)))
        todo.append((left, *_inside(vectors, left, joined, widest, box, maybe)))


def _ends(vectors: Floats, rows: Indices) -> tuple[Floats, Floats]:
    """Find the least and the largest number of each coordinate."""
    some = vectors[rows, :-2]
    return some.min(axis=0), some.max(axis=0)


def _inside(
    vectors: Floats,
    half: Indices,
    outside: tuple[Indices, Floats],
    column: int,
    box: Floats,
    maybe: float,
) -> tuple[Indices, Floats, Floats]:
    """Leave out the rows that the half's box is too far from; return the others, their gaps and
    the box.
    """
    own = vectors[half, column]
    smaller = box.copy()
    smaller[:, column] = own.min(), own.max()
    others, gaps = outside
    at = vectors[others, column]
    moved = gaps + (_gap(at, smaller[:, column]) ** 2 - _gap(at, box[:, column]) ** 2)
    kept = moved <= maybe
    return others[kept], moved[kept], smaller


def _gap(values: Floats, interval: Floats) -> Floats:
    """Return how far values are outside of an interval; 0 inside."""
    return np.asarray(np.maximum(np.maximum(interval[0] - values, values - interval[1]), 0.0))
