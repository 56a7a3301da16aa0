"""Sums of weighted bits, on exact integers, with their sensitivities shown.

For a positive weight a bit of 1 contributes the weight; for a negative one a bit of 0
contributes its magnitude. The vector is clipped to the ball of radius R. Without weights bits
contribute c or -c. With a weight w of the number, the last entry is w n.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

from dpverify.privacy import Adjacency, Norm, Source, of_query, shows, states

from .obligations import datasets, neighbors, require
from .vectors import Vector, clip_to_ball, squared_distance

_ORTHANT = Source("OURS", "sums of vectors in an orthant of a ball")


def bits(record: Sequence[Fraction]) -> tuple[int, ...]:
    """Return, for each number, 1 if it is above 1/2 and 0 otherwise."""
    return tuple(int(x > Fraction(1, 2)) for x in record)


def sign_of(radius: int, d: int, adjacency: Adjacency) -> int:
    """Return the largest c with 4 d c^2 <= 2 R^2 (replace: all d signs may change), or d
    c^2 <= R^2.
    """
    square = Fraction(radius**2, 2 * d if adjacency is Adjacency.REPLACE else d)
    return math.isqrt(math.floor(square))


def image(
    record: Sequence[Fraction], weights: Sequence[int], radius: int, adjacency: Adjacency
) -> Vector:
    """Return the vector that a record contributes."""
    own = bits(record)
    if not any(weights):
        c = sign_of(radius, len(own), adjacency)
        return tuple(c if b else -c for b in own)
    vector = [
        (w if b else 0) if w > 0 else (0 if b else -w) for w, b in zip(weights, own, strict=True)
    ]
    return clip_to_ball(tuple(vector), radius)


def bit_sums(
    records: Sequence[Sequence[Fraction]],
    weights: Sequence[int],
    radius: int,
    adjacency: Adjacency,
    weight: int = 0,
) -> Vector:
    """Return the sum of the records' images, exactly, and the weighted number."""
    images = [image(record, weights, radius, adjacency) for record in records]
    total = [sum(z[j] for z in images) for j in range(len(weights))]
    return (*total, *([weight * len(records)] if weight else []))


def moved_squared(radius: int, weight: int, adjacency: Adjacency) -> int:
    """Return the largest move of a value, squared.

    Proof. Let u, v be vectors of an orthant with norms at most R. Then |u - v|^2 = |u|^2 +
    |v|^2 - 2 <u, v> <= 2 R^2, for <u, v> >= 0. Clipping toward 0 keeps a vector in its orthant,
    and all records have the same orthant, that of the weights' row. Of the signs at most d
    change, each by 2 c. For one record more or less the move is |u|^2 <= R^2, or d c^2 <= R^2;
    and w^2. QED
    """
    if adjacency is Adjacency.ADD_REMOVE:
        return radius**2 + weight**2
    return 2 * radius**2


_BITS = tuple(tuple(map(Fraction, one)) for one in product((0, 1), repeat=2))
_WIDER = tuple(tuple(map(Fraction, one)) for one in product((0, 1), repeat=3))
_ROWS: tuple[tuple[Any, ...], ...] = (
    ((0, 0), (5, 5), (5, -5), (3, 4), (1, 9), (-7, -7), (100, -1), (0, 5), (-9, 0)),
    ((0, 0, 0), (4, 4, 4), (4, -3, 2), (50, 50, 50), (4, 0, -3)),
)


@states(_ORTHANT)
@shows("BitSums", Norm.SQUARED_L2, value=of_query(moved_squared, "radius", "weight"))
def obligation_bit_sums(claimed: Callable[[int, int, Adjacency], int] = moved_squared) -> int:
    """Check that no neighbors of up to 3 records are further apart than ``claimed``, for any
    weights; and that some are as far.
    """
    cases = 0
    worlds = ((_BITS, _ROWS[0], (5, 4, 10)), (_WIDER, _ROWS[1], (4, 6)))
    for adjacency, weight in product(Adjacency, (0, 1, 7)):
        attained = False
        for universe, rows, radii in worlds:
            for row, radius in product(rows, radii):
                values = {  # by places, which are looked up faster than fractions
                    at: bit_sums([universe[i] for i in at], row, radius, adjacency, weight)
                    for at in datasets(range(len(universe)), 2)
                }
                most = claimed(radius, weight, adjacency)
                moves = [
                    squared_distance(values[a], values[b])
                    for size in (1, 2)
                    for a, b in neighbors(range(len(universe)), size, adjacency)
                ]
                case = f"{row}, {radius}, {weight}, {adjacency}: {max(moves)} > {most}"
                require(max(moves) <= most, case)
                cases += len(moves)
                attained |= max(moves) == most
        require(attained, f"{adjacency}, {weight}: nothing moves as far")
    return cases
