"""Sums of integer vectors in a ball, on exact rationals, with their sensitivities shown.

Write z(x) for the vector that a record x contributes. Two facts carry everything: z depends on
x alone, and |z| <= R for a clipped record, or for one inside the ball. Sums over neighbors
differ by one z (add-remove) or by a difference of two (replace), so by at most R, or 2R.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import permutations, product
from typing import Any

from dpverify.privacy import Adjacency, Norm, Premise, Sensitivity, Source, of_query, shows, states

from .obligations import neighbors, require
from .queries import nearest, of_each

Vector = tuple[int, ...]
Record = tuple[Fraction, ...]
_ALL = (Adjacency.REPLACE, Adjacency.ADD_REMOVE)
_SUMS = Source("OURS", "sums of integer vectors in a ball")
_UNIT = Source("OURS", "an integer query in a unit of its noise")


@dataclass(frozen=True, slots=True)
class Map:
    """Public part of a sum: C (cells - center) in a ball; all but ``cell`` in cells."""

    center: Vector
    radius: int
    cell: Fraction = Fraction(1)
    matrix: tuple[Vector, ...] | None = None
    box: int = 1 << 40


def to_cells(record: Record, cell: Fraction, center: Vector, box: int) -> Vector:
    """Return clamp(round(x / cell), -box, box) - center for each x, ties to even
    (Python's rule).
    """
    cells = (min(max(nearest(x, cell), -box), box) for x in record)
    return tuple(z - c for z, c in zip(cells, center, strict=True))


def squared_norm(vector: Vector) -> int:
    """Return the square of the Euclidean norm."""
    return sum(v * v for v in vector)


def squared_distance(left: Vector, right: Vector) -> int:
    """Return the square of the Euclidean distance."""
    return sum((a - b) ** 2 for a, b in zip(left, right, strict=True))


def image(record: Record, public: Map) -> Vector:
    """Return C (cells - center); C is the identity if there is no matrix."""
    cells = to_cells(record, public.cell, public.center, public.box)
    if public.matrix is None:
        return cells
    return tuple(sum(c * z for c, z in zip(row, cells, strict=True)) for row in public.matrix)


def clip_to_box(vector: Vector, radius: int) -> Vector:
    """Return the vector with every coordinate clamped to [-radius, radius]."""
    return tuple(min(max(v, -radius), radius) for v in vector)


def clip_to_ball(vector: Vector, radius: int) -> Vector:
    """Return the vector y if |y| <= R, otherwise z_i = sign(y_i) floor(|y_i| R / s) with s =
    ceil(|y|).

    |z| <= R: |z_i| <= |y_i| R / s, so |z| <= |y| R / s, and s >= |y|. The direction: y_i
    R / |y| and y_i R / s differ by |y_i| R (s - |y|) / (s |y|) < R / s < 1, and the floor takes
    less than one more, so every z_i is within two cells of y_i R / |y|, and not beyond it.
    """
    square = squared_norm(vector)
    if square <= radius * radius:
        return vector
    ceiling = math.isqrt(square - 1) + 1
    return tuple((1 if v > 0 else -1) * (abs(v) * radius // ceiling) for v in vector)


def total(vectors: Sequence[Vector], width: int) -> Vector:
    """Return the sum of the vectors, 0 if there are none."""
    return tuple(sum(vector[i] for vector in vectors) for i in range(width))


def width_of(public: Map) -> int:
    """Return the number of coordinates of an image."""
    return len(public.center if public.matrix is None else public.matrix)


def vector_sum(records: Sequence[Record], public: Map) -> Vector:
    """Return the sum of the clipped images."""
    clipped = of_each(lambda record: clip_to_ball(image(record, public), public.radius), records)
    return total(clipped, width_of(public))


def vector_sum_sensitivity(radius: int, adjacency: Adjacency) -> int:
    """Return the squared L2 sensitivity of ``vector_sum``.

    add-remove: |z| <= R. replace: |z - z'| <= |z| + |z'| <= 2R.
    """
    return 4 * radius**2 if adjacency is Adjacency.REPLACE else radius**2


def masked_sum(records: Sequence[Record], public: Map, weight: int) -> Vector:
    """Return the sum of the images inside the ball, then ``weight`` times the number of images
    inside.
    """
    images = of_each(lambda record: _within(image(record, public), public.radius), records)
    inside = [y for y in images if y is not None]
    return (*total(inside, width_of(public)), weight * len(inside))


def _within(image: Vector, radius: int) -> Vector | None:
    return image if squared_norm(image) <= radius**2 else None


def masked_sum_sensitivity(radius: int, weight: int, adjacency: Adjacency) -> int:
    """Return the squared L2 sensitivity: a record inside contributes (y, w) with |y| <= R, one
    outside nothing.

    add-remove: |(y, w)|^2 <= R^2 + w^2. replace: two inside give (y - y', 0), at most (2R)^2;
    one inside, one outside give (y, w) again; two outside give 0.
    """
    if adjacency is Adjacency.REPLACE:
        return max(4 * radius**2, radius**2 + weight**2)
    return radius**2 + weight**2


def free_weight(radius: int) -> int:
    """Return the largest weight at which the number inside costs nothing under replace.

    R^2 + w^2 <= 4 R^2 is w^2 <= 3 R^2, and the largest such integer is isqrt(3 R^2).
    """
    return math.isqrt(3 * radius**2)


def one_unit(value: Vector, scale: Fraction, unit: int) -> Vector:
    """Return round(v unit / scale) for each v, ties to even."""
    return tuple(round(v * unit / scale) for v in value)


def one_unit_sensitivity(square: int, scale: Fraction, width: int, unit: int) -> int:
    """Return floor((sqrt(v) u + sqrt(m))^2), the squared sensitivity in one unit: u =
    unit / scale, m = min(width, v), v = ``square``.

    Proof. Integer values a, b with |a - b|^2 <= v differ in at most v coordinates, for each of
    those adds at least 1; so in at most m. Where they agree, so do the rounded ones. Elsewhere
    rounding moves a_i u and b_i u by at most 1/2 each, so |round(a u) - round(b u)| <= u |a -
    b| + sqrt(m), by the triangle inequality. The left side is the norm of an integer vector:
    its square is an integer, and at most the floor. QED. v u^2 + m + sqrt(4 u^2 v m) is
    compared with integers exactly.
    """
    unit_square, moved = (unit / scale) ** 2, min(width, square)
    plain, under_root = square * unit_square + moved, 4 * unit_square * square * moved
    bound = math.floor(plain) + math.isqrt(math.floor(under_root))
    while (bound + 1 - plain) ** 2 <= under_root or bound + 1 <= plain:
        bound += 1
    return bound


# --- obligations --------------------------------------------------------------------------------

_WIDE = tuple(product(map(Fraction, range(-3, 4)), repeat=2))
_SMALL = tuple((Fraction(i, 2), Fraction(j)) for i in (-5, 1, 3) for j in (-2, 0, 2))
_MAPS = (
    Map((0, 0), 1),
    Map((0, 0), 2, Fraction(1, 2)),
    Map((1, -1), 2),
    Map((0, 0), 3, Fraction(1, 2), box=4),
    Map((0, 0), 3, matrix=((1, 1), (0, 1))),
    Map((0, 0), 4, matrix=((2, 1), (1, 3))),
    Map((0, 0), 2, matrix=((1, -2),)),
)
Query = Callable[[Sequence[Record]], Vector]


def _pairs(adjacency: Adjacency) -> Iterator[tuple[Sequence[Record], Sequence[Record]]]:
    """Yield every pair of neighbors of one record from the wide universe, or two from the small
    one.
    """
    yield from neighbors(_WIDE, 1, adjacency)
    yield from neighbors(_SMALL, 2, adjacency)


def _moves(query: Query, adjacency: Adjacency) -> list[int]:
    """Return the squared moves of the query over all pairs of ``_pairs``."""
    seen: dict[Sequence[Record], Vector] = {}
    for pair in _pairs(adjacency):
        for records in pair:
            if records not in seen:
                seen[records] = query(records)
    return [squared_distance(seen[left], seen[right]) for left, right in _pairs(adjacency)]


@states(_SUMS)
@shows("VectorSum", Norm.SQUARED_L2, value=of_query(vector_sum_sensitivity, "radius"))
def obligation_vector_sum(claimed: Callable[..., int] = vector_sum_sensitivity) -> int:
    """Check that the largest move over all neighbors of a small universe is exactly ``claimed``."""
    cases = 0
    for public, adjacency in product(_MAPS, _ALL):
        moves = _moves(partial(vector_sum, public=public), adjacency)
        cases += len(moves)
        largest = claimed(public.radius, adjacency)
        require(max(moves) == largest, f"{public}, {adjacency}: {max(moves)}, not {largest}")
    return cases


def _largest_masked_move(public: Map, weight: int, adjacency: Adjacency) -> tuple[int, int]:
    """Return the largest move, squared, of a masked sum, and the number of pairs that were
    tried.
    """
    moves = _moves(partial(masked_sum, public=public, weight=weight), adjacency)
    return max(moves), len(moves)


@states(_SUMS)
@shows("MaskedSum", Norm.SQUARED_L2, value=of_query(masked_sum_sensitivity, "radius", "weight"))
def obligation_masked_sum(claimed: Callable[..., int] = masked_sum_sensitivity) -> int:
    """Check that the largest move over all neighbors of a small universe is exactly ``claimed``.

    The maps have no matrix: then a record of norm R, its opposite and one outside are
    available.
    """
    cases = 0
    for public, adjacency in product(_MAPS[:3], _ALL):
        for weight in (1, free_weight(public.radius), 3 * public.radius):
            move, count = _largest_masked_move(public, weight, adjacency)
            cases += count
            largest = claimed(public.radius, weight, adjacency)
            require(move == largest, f"{public}, {weight}, {adjacency}: {move}, not {largest}")
    return cases


@states(_SUMS)
def obligation_free_count(claimed: Callable[[int], int] = free_weight) -> int:
    """Check that at this weight the number inside adds nothing to the sensitivity under replace,
    and that at the next weight it does.

    Neighbors attain exactly (2R)^2. Radii up to 2000 are checked by the integers' inequality.
    No random pair of records inside a ball of three dimensions is further apart, while one is
    as far.
    """
    cases = 0
    for public in _MAPS[:3]:
        weight, most = claimed(public.radius), 4 * public.radius**2
        move, count = _largest_masked_move(public, weight, Adjacency.REPLACE)
        require(move == most, f"{public}, weight {weight}: {move}, not {most}")
        move, more = _largest_masked_move(public, weight + 1, Adjacency.REPLACE)
        require(move > most, f"{public}: a weight of {weight + 1} is free as well")
        cases += count + more
    for radius in range(1, 2001):
        weight = claimed(radius)
        require(weight**2 <= 3 * radius**2 < (weight + 1) ** 2, f"radius {radius}: {weight}")
    return cases + 2000 + _random_pairs(claimed)


def _random_pairs(weight_at: Callable[[int], int]) -> int:
    rng, tries = random.Random(20), 3000
    for _ in range(tries):
        radius = rng.randint(1, 50)
        ball = [_inside(rng, radius) for _ in range(2)]
        ends = ((radius, 0, 0), (-radius, 0, 0))
        weight, most = weight_at(radius), 4 * radius**2
        require(squared_distance(*ball) <= most, f"{ball} in a ball of {radius}")
        require(squared_norm((*ball[0], weight)) <= most, f"{ball[0]}, weight {weight}")
        require(squared_distance(*ends) == most, f"{ends}")
    return tries


def _inside(rng: random.Random, radius: int) -> Vector:
    """Return a random vector clipped to the ball, so mostly near its surface."""
    far = tuple(rng.randint(-2 * radius, 2 * radius) for _ in range(3))
    return clip_to_ball(far, radius)


_SCALES = tuple((u, Fraction(s)) for u, s in ((1, "2"), (3, "2"), (2, "3"), (4, "1"), (1, "5/2")))


def _moved_in_one_unit(statement: Sensitivity) -> int:
    """Return the squared move in 2^-40 of a scale; the squared move of an integer vector is an
    integer.
    """
    given: Any = statement.query
    return one_unit_sensitivity(math.floor(given["moved"]), given["scale"], given["width"], 1 << 40)


@states(_UNIT)
@shows(
    "OneUnit",
    Norm.SQUARED_L2,
    value=_moved_in_one_unit,
    premises=lambda s: (Premise(Norm.SQUARED_L2, s.query["moved"]),),
)
def obligation_one_unit(claimed: Callable[..., int] = one_unit_sensitivity) -> int:
    """Check that no pair of small integer vectors moves further than ``claimed``, and that some
    move as far.

    The bound is attained where the unit makes ties (u = 1/2, 3/2): both roundings then go apart
    by 1/2. Sums of records in one unit are tried over neighbors too; that sums move as stated
    is shown anew.
    """
    cases = obligation_vector_sum() + obligation_masked_sum()
    for (unit, scale), width in product(_SCALES, (1, 2)):
        values = list(product(range(-3, 4), repeat=width))
        rounded = {value: one_unit(value, scale, unit) for value in values}
        least = unit << 40
        for left, right in permutations(values, 2):
            most = claimed(squared_distance(left, right), scale, width, unit)
            short = most - squared_distance(rounded[left], rounded[right])
            require(short >= 0, f"{left}, {right} in {unit} of {scale}: {most} is too little")
            least, cases = min(least, short), cases + 1
        if scale == 2:
            require(least == 0, f"{unit} of {scale}, width {width}: nothing moves as far")
    return cases + _sums_in_one_unit(claimed)


def _sum_in_one_unit(records: Sequence[Record], public: Map, scale: Fraction, unit: int) -> Vector:
    return one_unit(vector_sum(records, public), scale, unit)


def _sums_in_one_unit(claimed: Callable[..., int]) -> int:
    cases = 0
    for public, adjacency, (unit, scale) in product(_MAPS[:2], _ALL, _SCALES):
        moves = _moves(partial(_sum_in_one_unit, public=public, scale=scale, unit=unit), adjacency)
        most = claimed(vector_sum_sensitivity(public.radius, adjacency), scale, 2, unit)
        require(
            max(moves) <= most, f"{public}, {adjacency}, {unit} of {scale}: {max(moves)}, {most}"
        )
        cases += len(moves)
    return cases
