"""Sums of z z^T for integer vectors in a ball, on exact rationals, with their sensitivities shown.

A value has 169 (z z^T)_ii for each i, then 239 (z z^T)_ij for i < j, then, with a weight w,
169 w for each record that counts. Facts: z depends on its record alone, |z| <= R, and
239^2 < 2 * 169^2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

from dpverify.privacy import Adjacency, Norm, Source, of_query, shows, states

from .caches import cache
from .obligations import datasets, neighbors, require
from .queries import of_each
from .vectors import (
    Map,
    Record,
    Vector,
    clip_to_ball,
    squared_distance,
    squared_norm,
    to_cells,
    total,
)

DIAGONAL, OFF_DIAGONAL = 169, 239
_MOMENTS = Source("OURS", "sums of outer products of vectors in a ball")


def onto_sphere(vector: Vector, radius: int) -> Vector:
    """Return z_i = sign(y_i) floor(|y_i| R / s), s = ceil(|y|), for every y but 0, which stays.

    |z| <= R for |z_i| <= |y_i| R / s and s >= |y|. And |z_i| > |y_i| R / |y| - 1 - R / |y|, so
    that |z| is nearly R where |y| is large.
    """
    square = squared_norm(vector)
    if square == 0:
        return vector
    ceiling = math.isqrt(square - 1) + 1
    return tuple((1 if v > 0 else -1) * (abs(v) * radius // ceiling) for v in vector)


def filled(vector: Vector, radius: int, reach: int) -> Vector:
    """Return z_i = sign(y_i) floor(|y_i| R / max(r, ceil|y|)): a vector of length r fills the
    ball, a longer one is clipped.

    |z| <= R for |z_i| <= |y_i| R / max(r, |y|). Clipping to a ball is the case r = R;
    projection onto the sphere is r = 1.
    """
    square = squared_norm(vector)
    length = max(reach, math.isqrt(square - 1) + 1 if square else 0)
    return tuple((1 if v > 0 else -1) * (abs(v) * radius // length) for v in vector)


def kept(vector: Vector, radius: int, how: str, reach: int | None = None) -> Vector | None:
    """Return the vector that an image contributes; None for an image that does not count."""
    if how == "sphere":
        return onto_sphere(vector, radius)
    if how == "mask" and squared_norm(vector) > (radius if reach is None else reach) ** 2:
        return None
    if reach is not None:
        return filled(vector, radius, reach)
    return clip_to_ball(vector, radius)


def image(record: Record, public: Map, constant: int = 0) -> Vector:
    """Return C (cells - center), or C (cells - center, constant); C is the identity if there is no
    matrix.
    """
    cells = to_cells(record, public.cell, public.center, public.box)
    cells += (constant,) if constant else ()
    if public.matrix is None:
        return cells
    return tuple(sum(c * z for c, z in zip(row, cells, strict=True)) for row in public.matrix)


def _terms(
    records: Sequence[Record], public: Map, how: str, constant: int, reach: int | None
) -> list[Vector | None]:
    return of_each(lambda r: kept(image(r, public, constant), public.radius, how, reach), records)


def second_moments(
    records: Sequence[Record],
    public: Map,
    how: str,
    weight: int = 0,
    constant: int = 0,
    reach: int | None = None,
) -> Vector:
    """Return the packed second moments, exactly, and the weighted number."""
    terms = _terms(records, public, how, constant, reach)
    inside = [z for z in terms if z is not None]
    width = len(public.matrix) if public.matrix is not None else len(public.center)
    diagonal = [DIAGONAL * sum(z[i] ** 2 for z in inside) for i in range(width)]
    above = [
        OFF_DIAGONAL * sum(z[i] * z[j] for z in inside)
        for i in range(width)
        for j in range(i + 1, width)
    ]
    return (*diagonal, *above, *([DIAGONAL * weight * len(inside)] if weight else []))


def first_moments(
    records: Sequence[Record],
    public: Map,
    how: str,
    constant: int = 0,
    reach: int | None = None,
) -> Vector:
    """Return the sum of the vectors that images contribute."""
    terms = _terms(records, public, how, constant, reach)
    width = len(public.matrix) if public.matrix is not None else len(public.center)
    return total([z for z in terms if z is not None], width)


def first_squared(radius: int, adjacency: Adjacency) -> int:
    """Return the largest move of the first moments, squared: by one vector of the ball, or from
    one to its opposite.
    """
    return radius**2 * (4 if adjacency is Adjacency.REPLACE else 1)


def length_sides(
    records: Sequence[Record], public: Map, threshold: int, constant: int = 0
) -> Vector:
    """Return the number of images longer than the threshold, minus the number of shorter ones.

    A record counts -1, 0 or 1, and always 1 for a negative threshold.
    """
    squares = of_each(lambda record: squared_norm(image(record, public, constant)), records)
    limit = threshold**2 if threshold >= 0 else -1
    return (sum(square > limit for square in squares) - sum(square < limit for square in squares),)


def sides_squared(adjacency: Adjacency) -> int:
    """Return the largest move of ``length_sides``, squared: from 1 to -1 under replace, from 1 to
    nothing otherwise.
    """
    return 4 if adjacency is Adjacency.REPLACE else 1


def moved_squared(radius: int, weight: int, how: str, adjacency: Adjacency) -> int:
    """Return the largest move of the second moments, squared.

    Proof. Write v(z) for the contribution of z, without the number. <v(z), v(y)> = 169^2
    (sum_i z_i^2 y_i^2) + 239^2 (sum_{i<j} z_i z_j y_i y_j) = 169^2 <z, y>^2 - e P, e = 2 *
    169^2 - 239^2 = 1, P = sum_{i<j} z_i z_j y_i y_j. So |v(z)|^2 = 169^2 |z|^4 -
    (something not negative) <= 169^2 R^4. One record more or less contributes v(z) and 169 w,
    hence 169^2 (R^4 + w^2). For a replaced record
        |v(z) - v(y)|^2 = sum_i 169^2 (z_i^2 - y_i^2)^2 + sum_{i<j} 239^2 (z_i z_j - y_i y_j)^2
            <= 169^2 |z z^T - y y^T|_F^2 = 169^2 (|z|^4 + |y|^4 - 2 <z, y>^2) <= 169^2 * 2 R^4,
    with equality for orthogonal axes of length R; the number does not move if both count. With
    "mask" one of them may not count, which is the first case. QED
    """
    one = radius**4 + weight**2
    if adjacency is Adjacency.ADD_REMOVE:
        return DIAGONAL**2 * one
    both = 2 * radius**4
    return DIAGONAL**2 * (max(both, one) if how == "mask" else both)


# --- obligations --------------------------------------------------------------------------------

_WIDE = tuple(product(map(Fraction, range(-3, 4)), repeat=2))
_SMALL = tuple((Fraction(i), Fraction(j)) for i in (-5, 0, 3) for j in (-4, 0, 5))
_MAPS = (
    (Map((0, 0), 1), 0),
    (Map((0, 0), 2), 0),
    (Map((1, -1), 3), 0),
    (Map((0, 0), 2, Fraction(1, 2), box=4), 0),
    (Map((0, 0), 4, matrix=((2, 0), (0, 3))), 0),
    (Map((0, 0), 3, matrix=((1, 1), (1, -1))), 0),
    (Map((0, 0), 2, matrix=((1, 0, 0), (0, 1, 0), (0, 0, 2))), 1),
)
Query = Callable[[Sequence[Record]], Vector]


_UNIVERSES = ((_WIDE, 1), (_SMALL, 2))
"""Records, and the most of them in a dataset."""
Places = tuple[int, ...]
"""Places in a universe, in place of records: fractions are slow to look up."""


def _values(query: Query) -> list[dict[Places, Vector]]:
    """Return the values of the query on all datasets of either universe."""
    return [
        {at: query([universe[i] for i in at]) for at in datasets(range(len(universe)), size)}
        for universe, size in _UNIVERSES
    ]


@cache
def _pairs(records: int, size: int, adjacency: Adjacency) -> list[tuple[Places, Places]]:
    """Return the different neighbors, one of two pairs that are each other's mirror image."""
    every = neighbors(range(records), size, adjacency)
    return sorted({(min(pair), max(pair)) for pair in every if pair[0] != pair[1]})


def _moves(values: Sequence[Mapping[Places, Vector]], adjacency: Adjacency) -> Iterator[int]:
    """Yield how far values of neighbors are apart, squared."""
    for own, (universe, size) in zip(values, _UNIVERSES, strict=True):
        for left, right in _pairs(len(universe), size, adjacency):
            yield squared_distance(own[left], own[right])


@states(_MOMENTS)
@shows("SecondMoments", Norm.SQUARED_L2, value=of_query(moved_squared, "radius", "weight", "how"))
def obligation_second_moments(claimed: Callable[..., int] = moved_squared) -> int:
    """Check that no neighbors of a small universe are further apart than ``claimed``; and for
    every ``how``, with axes in the universe, some are as far.
    """
    cases = 0
    ways = (("sphere", None), ("clip", None), ("mask", None), ("clip", 2), ("mask", 2), ("clip", 9))
    for how, reach in ways:
        attained = set[Any]()
        for public, constant in _MAPS:
            for weight in (0, 1, public.radius**2, 2 * public.radius**2):
                own: dict[str, Any] = {"weight": weight, "constant": constant, "reach": reach}
                values = _values(partial(second_moments, public=public, how=how, **own))
                for adjacency in Adjacency:
                    moves = list(_moves(values, adjacency))
                    far, most = max(moves), claimed(public.radius, weight, how, adjacency)
                    case = f"{public}, {how}, {reach}, {weight}, {adjacency}: {far} > {most}"
                    require(far <= most, case)
                    cases += len(moves)
                    if far == most:
                        attained.add((weight // public.radius**2, adjacency))
        missing = set(product((0, 1, 2), Adjacency)) - attained
        case = f"{how}, {reach}: nothing moves as far: {sorted(map(str, missing))}"
        require(not missing or reach == 9, case)
    return cases


@states(_MOMENTS)
def obligation_onto_sphere(claimed: Callable[[Vector, int], Vector] = onto_sphere) -> int:
    """Check on small vectors of one to three numbers that images are never beyond the ball, only 0
    goes to 0, and images are within two cells a coordinate, and 1 + R / |y| below, of the point
    on the sphere.
    """
    cases = 0
    for d, far in ((1, 40), (2, 9), (3, 4)):
        for vector, radius in product(product(range(-far, far + 1), repeat=d), (1, 5, 64)):
            z, square = claimed(vector, radius), squared_norm(vector)
            require(squared_norm(z) <= radius**2, f"{vector}, R = {radius}: {z} is outside")
            if not square:
                require(z == vector, f"0 became {z}")
                continue
            for y, one in zip(vector, z, strict=True):
                # |y| R / |v| - 1 - R / |v| < |z| <= |y| R / |v|, times |v| to avoid roots:
                most = (abs(one)) ** 2 * square <= (abs(y) * radius) ** 2
                reach = abs(y) * radius - radius
                near = reach < 0 or (abs(one) + 1) ** 2 * square > reach**2
                require(most and near and one * y >= 0, f"{vector}, R = {radius}: {z}")
            cases += 1
    return cases


@states(_MOMENTS)
@shows("FirstMoments", Norm.SQUARED_L2, value=of_query(first_squared, "radius"))
def obligation_first_moments(claimed: Callable[[int, Adjacency], int] = first_squared) -> int:
    """Check that no neighbors of a small universe are further apart than ``claimed``; and for
    every way some are as far.
    """
    cases = 0
    ways = (("sphere", None), ("clip", None), ("mask", None), ("clip", 2), ("mask", 2))
    for how, reach in ways:
        attained = set[Adjacency]()
        for public, constant in _MAPS:
            own: dict[str, Any] = {"how": how, "constant": constant, "reach": reach}
            values = _values(partial(first_moments, public=public, **own))
            for adjacency in Adjacency:
                moves = list(_moves(values, adjacency))
                far, most = max(moves), claimed(public.radius, adjacency)
                require(far <= most, f"{public}, {how}, {reach}, {adjacency}: {far} > {most}")
                cases += len(moves)
                if far == most:
                    attained.add(adjacency)
        require(attained == {*Adjacency}, f"{how}, {reach}: nothing moves as far: {attained}")
    return cases


@states(_MOMENTS)
@shows("LengthSides", Norm.SQUARED_L2, value=of_query(sides_squared))
def obligation_length_sides(claimed: Callable[[Adjacency], int] = sides_squared) -> int:
    """Check that no neighbors of a small universe are further apart than ``claimed``; and for
    every map some are as far.
    """
    cases = 0
    for (public, constant), adjacency in product(_MAPS, Adjacency):
        largest, most = 0, claimed(adjacency)
        for threshold in (1, 2, 3):
            query = partial(length_sides, public=public, threshold=threshold, constant=constant)
            moves = list(_moves(_values(query), adjacency))
            largest, cases = max(largest, *moves), cases + len(moves)
        require(largest == most, f"{public}, {adjacency}: {largest}, not {most}")
    return cases


@states(_MOMENTS)
def obligation_filled(claimed: Callable[[Vector, int, int], Vector] = filled) -> int:
    """Check on small vectors that images are never beyond the ball, and within a cell of y R / r
    up to a length of r; clipping and the sphere are the cases r = R and r = 1.
    """
    cases = 0
    for d, far in ((1, 40), (2, 9)):
        for vector, radius in product(product(range(-far, far + 1), repeat=d), (1, 5, 64)):
            require(claimed(vector, radius, radius) == clip_to_ball(vector, radius), f"{vector}")
            require(claimed(vector, radius, 1) == onto_sphere(vector, radius), f"{vector}")
            for reach in (2, 7, 50):
                z = claimed(vector, radius, reach)
                require(squared_norm(z) <= radius**2, f"{vector}, {radius}, {reach}: {z}")
                if squared_norm(vector) <= reach**2:
                    off = [
                        Fraction(v * radius, reach) - one for v, one in zip(vector, z, strict=True)
                    ]
                    require(all(abs(one) < 1 for one in off), f"{vector}, {radius}, {reach}: {z}")
                cases += 1
    return cases
