"""Sums in a ball about a point that was released before: one sensitivity, wherever the ball lies.

The point and the radius are computed from the transcript, so they are the same for both
neighbors. Which records are inside is decided by each record, the point and the radius alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

from dpverify.privacy import Adjacency, Norm, Sensitivity, Source, shows, states

from .gaussian_laws import UNIT
from .obligations import neighbors, require
from .vectors import Vector, clip_to_ball, masked_sum_sensitivity, squared_distance, squared_norm

_MOVING = Source("OURS", "a masked sum about a released point")
_DRAWN_IN = Source("OURS", "a sum about a released point, drawn in to a ball")


def weight(radius: int) -> int:
    """Return the weight of one record in the released number, in cells: R / 8, rounded down, at
    least 1.
    """
    return max(1, radius // 8)


def sum_about(images: Mapping[Vector, int], point: Vector, radius: int) -> Vector:
    """Return the sum of y - point over the images y within the radius of the point, then weight
    times their number.

    ``images`` gives each image with how often it occurs.
    """
    inside = {y: k for y, k in images.items() if squared_distance(y, point) <= radius**2}
    moved = (sum(k * (y[i] - c) for y, k in inside.items()) for i, c in enumerate(point))
    return (*moved, weight(radius) * sum(inside.values()))


def drawn_in_sum(images: Mapping[Vector, int], point: Vector, radius: int) -> Vector:
    """Return the sum of clip(y - point) over the images y within two radii of the point, then
    weight times their number.

    The clip draws images outside of the radius in to it.
    """
    moved = {tuple(v - c for v, c in zip(y, point, strict=True)): k for y, k in images.items()}
    near = {z: k for z, k in moved.items() if squared_norm(z) <= 4 * radius**2}
    drawn = [(clip_to_ball(z, radius), k) for z, k in near.items()]
    total = (sum(k * z[i] for z, k in drawn) for i in range(len(point)))
    return (*total, weight(radius) * sum(near.values()))


@states(_MOVING)
def reach(radius: int, adjacency: Adjacency) -> int:
    """Return D^2, the squared sensitivity of the sum: R^2 + w^2, or (2 R)^2 under replace.

    It is ``masked_sum_sensitivity`` for y - point in place of y. Replace: w <= R, so R^2 +
    w^2 <= 4 R^2.
    """
    return 4 * radius**2 if adjacency is Adjacency.REPLACE else radius**2 + weight(radius) ** 2


def noise(radius: int, adjacency: Adjacency, spread: Fraction) -> Fraction:
    """Return the standard deviation of the noise in cells: spread D, D rounded up to 2^-20."""
    return spread * root_up(reach(radius, adjacency))


def root_up(square: int) -> Fraction:
    """Return the square root of a positive integer, rounded up to 2^-20."""
    return Fraction(math.isqrt(square * 4**20 - 1) + 1, 2**20)


def in_unit(value: Sequence[int | Fraction], deviation: Fraction) -> Vector:
    """Return the value in 2^-40 of the noise, ties to even."""
    return tuple(round(UNIT * v / deviation) for v in value)


@states(_MOVING)
def unit_sensitivity(spread: Fraction, width: int) -> int:
    """Return (2^40 / s + sqrt(width))^2, rounded up: the squared L2 sensitivity of a value that
    moves by at most D, in 2^-40 of the noise s D.

    Before rounding it moves by at most 2^40 / s. Rounding moves both values by 1/2 at most in
    each coordinate, so their distance by at most sqrt(width). QED. With a = 2^40 / s, the
    number is a^2 + width + sqrt(4 a^2 width), compared with integers exactly.
    """
    plain, under_root = (UNIT / spread) ** 2 + width, 4 * (UNIT / spread) ** 2 * width
    bound = math.ceil(plain) + math.isqrt(math.floor(under_root))
    while bound < plain or (bound - plain) ** 2 < under_root:
        bound += 1
    return bound


def stated_for_unit(statement: Sensitivity) -> int | None:
    """Return the sensitivity of a query whose unit is made for one adjacency, or None under the
    other.
    """
    same = statement.query["unit"] == str(statement.adjacency)
    return stated_in_unit(statement) if same else None


def stated_in_unit(statement: Sensitivity) -> int:
    """Return ``unit_sensitivity`` of a statement's spread and width."""
    given: Any = statement.query
    return unit_sensitivity(given["spread"], given["width"])


def apart_in_unit(moved: Fraction, deviation: Fraction) -> int:
    """Return the largest squared distance, in 2^-40 of the noise, of some pairs of numbers that
    are ``moved`` apart.
    """
    starts = (deviation * Fraction(k, 6) / UNIT for k in range(-3, 4))
    pairs = (in_unit((z, z + moved), deviation) for z in starts)
    return max((a - b) ** 2 for a, b in pairs)


# --- obligations --------------------------------------------------------------------------------

_RADII = (1, 2, 7, 8, 100, 2**20 + 1)
_POINTS = ((0,), (-3,), (2**41,), (0, 0), (1, -(2**41)))
_ALL = (Adjacency.REPLACE, Adjacency.ADD_REMOVE)


def _universe(point: Vector, radius: int) -> list[Vector]:
    """Return the point, both ends, one cell beyond, and far away; in the plane a pair off the axes
    as well.
    """
    steps: list[Vector] = [(0,), (radius,), (-radius,), (radius + 1,), (-2 * radius,), (2**42,)]
    if len(point) > 1:
        steps = [
            (0, 0),
            (radius, 0),
            (-radius, 0),
            (0, radius),
            (radius, 1),
            (radius // 2, -1),
            (-radius, -radius),
        ]
    return [tuple(c + z for c, z in zip(point, step, strict=True)) for step in steps]


Sum = Callable[[Mapping[Vector, int], Vector, int], Vector]


def _moves(
    point: Vector, radius: int, adjacency: Adjacency, total: Sum
) -> Iterator[tuple[Vector, Vector, int]]:
    """Yield the sums of neighbors of at most two records, and their squared distance."""
    for left, right in neighbors(_universe(point, radius), 2, adjacency):
        sums = tuple(total(Counter(side), point, radius) for side in (left, right))
        yield sums[0], sums[1], squared_distance(*sums)


@states(_MOVING)
@shows("MovingSum", Norm.SQUARED_L2, value=stated_for_unit)
def obligation_transcript_sum(
    claimed: Callable[[int, Adjacency], int] = reach,
) -> int:
    """Check that for every point and radius the largest move of ``sum_about`` over neighbors of at
    most two records is ``claimed``, as for a masked sum.

    No move in the unit of the noise is above ``unit_sensitivity``, while some move is as far,
    up to rounding.
    """
    return _shown_to_move(sum_about, claimed)


@states(_DRAWN_IN)
@shows("DrawnInSum", Norm.SQUARED_L2, value=stated_for_unit)
def obligation_drawn_in_sum(
    claimed: Callable[[int, Adjacency], int] = reach,
) -> int:
    """Check that the largest move of ``drawn_in_sum`` is ``claimed`` too: a record counts by a
    vector of the ball and by a number, or not at all.
    """
    return _shown_to_move(drawn_in_sum, claimed)


def _shown_to_move(total: Sum, claimed: Callable[[int, Adjacency], int]) -> int:
    cases = 0
    for point, radius, adjacency in product(_POINTS, _RADII, _ALL):
        where = f"about {point} within {radius}, {adjacency}"
        moves = Counter(_moves(point, radius, adjacency, total))
        most = claimed(radius, adjacency)
        farthest = max(square for *_, square in moves)
        require(farthest == most, f"{where}: the sum moves by {farthest} squared, not {most}")
        masked = masked_sum_sensitivity(radius, weight(radius), adjacency)
        require(most == masked, f"{where}: {most}, and a masked sum {masked}")
        for spread in (Fraction(1, 3), Fraction(7), Fraction(10**6 + 1, 3)):
            deviation, largest = noise(radius, adjacency, spread), 0
            stated = unit_sensitivity(spread, len(point) + 1)
            for (left, right, _), times in moves.items():
                moved = squared_distance(in_unit(left, deviation), in_unit(right, deviation))
                require(moved <= stated, f"{where}, spread {spread}: {moved} > {stated}")
                largest, cases = max(largest, moved), cases + times
            short = UNIT / spread * (1 - Fraction(1, 2**20)) - 2
            require(largest >= short**2, f"{where}, spread {spread}: at most {largest}")
            require(stated <= (UNIT / spread + 2) ** 2 + 1, f"spread {spread}: {stated}")
    return cases
