"""Sums of steps between released edges, on exact rationals, with their sensitivities shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement, product
from typing import Any, NamedTuple

from dpverify.privacy import Adjacency, Norm, Source, of_query, shows, states

from .obligations import datasets, neighbors, require
from .queries import of_each
from .vectors import Vector, squared_distance

_STEPS = Source("OURS", "sums of steps between released edges")
_MOMENTS = Source("OURS", "two moments of steps between released edges")


def step(value: Any, edges: Sequence[Any], cells: int, outside: str) -> int | None:
    """Return z of one record; None where it counts nowhere."""
    at = sum(bool(edge <= value) for edge in edges)
    if outside == "clip":
        return at
    return at - 1 if 1 <= at <= cells + 1 else None


def step_sums(
    values: Sequence[Any], edges: Sequence[Any], cells: int, outside: str, weight: int
) -> Vector:
    """Return the sum of 2 z - cells, and the weight times the number of those that count."""
    places = of_each(lambda v: step(v, edges, cells, outside), values)
    seen = [z for z in places if z is not None]
    total = sum(2 * z - cells for z in seen)
    return (total, *([weight * len(seen)] if weight else []))


def moved_squared(cells: int, weight: int, outside: str, adjacency: Adjacency) -> int:
    """Return the largest move of a value, squared.

    Proof. A record adds (v, weight), |v| <= cells, or, masked, nothing. For one record more or
    less the move is cells^2 + weight^2. For a replaced record, both counted, the number stays,
    and the move is (2 cells)^2; with one of them masked it is as for one more or less. QED
    """
    one = cells**2 + weight**2
    if adjacency is Adjacency.ADD_REMOVE:
        return one
    return 4 * cells**2 if outside == "clip" else max(4 * cells**2, one)


@states(_STEPS)
@shows("StepSums", Norm.SQUARED_L2, value=of_query(moved_squared, "cells", "weight", "outside"))
def obligation_step_sums(claimed: Callable[..., int] = moved_squared) -> int:
    """Check that no neighbors of at most 3 records are further apart than ``claimed``, for all
    edges among five places; and that some are as far.
    """
    universe, cases = tuple(range(-1, 5)), 0
    for outside, cells, weight in product(("clip", "mask"), (1, 2), (0, 1, 2, 7)):
        count = cells + 2 * (outside == "mask")
        for adjacency in Adjacency:
            most, largest = claimed(cells, weight, outside, adjacency), 0
            pairs = list(neighbors(universe, 2, adjacency))
            for edges in combinations_with_replacement(range(5), count):
                sums = {
                    one: step_sums(one, edges, cells, outside, weight)
                    for one in datasets(universe, 2)
                }
                for ours, theirs in pairs:
                    largest = max(largest, squared_distance(sums[ours], sums[theirs]))
                    cases += 1
            case = f"{outside}, {cells}, {weight}, {adjacency}: {largest}, claimed {most}"
            require(largest == most, case)
    return cases


# --- two moments ----------------------------------------------------------------------------------


class Shape(NamedTuple):
    """Contribution of a record at s = 2 z - cells: linear clip(s, +-turn), square (s^2 - offset)
    and the weight.
    """

    turn: int
    linear: int
    square: int
    offset: int
    weight: int

    def of(self, s: int) -> Vector:
        """Return the contribution of one record; its last entry is 0 where the number is left
        out.
        """
        lead = min(max(s, -self.turn), self.turn)
        return self.linear * lead, self.square * (s * s - self.offset), self.weight


def step_moments(
    values: Sequence[Any], edges: Sequence[Any], cells: int, outside: str, shape: Shape
) -> Vector:
    """Return the sums over those that count, and their number with its weight if it has one."""
    places = of_each(lambda v: step(v, edges, cells, outside), values)
    each = [shape.of(2 * z - cells) for z in places if z is not None]
    return tuple(sum(v[j] for v in each) for j in range(2 + bool(shape.weight)))


def moments_moved_squared(
    cells: int,
    turn: int,
    linear: int,
    square: int,
    offset: int,
    weight: int,
    outside: str,
    adjacency: Adjacency,
) -> int:
    """Return the largest move of the moments, squared.

    Proof. A record adds v(s), or, masked, nothing. For one record more or less the move is
    |v(s)|^2 for some s, and attained there. For a replaced record, both counted, the number and
    the offset cancel; v is odd in its first part and even in its second, so let x >= |y|.
    Raising x to cells raises both differences, which are not negative: clip(x) >= clip(y) and
    x^2 >= y^2. So x = cells, and y is any step. With one counted and the other masked, it is as
    for one more or less. QED
    """
    shape = Shape(turn, linear, square, offset, weight)
    every = [shape.of(2 * z - cells) for z in range(cells + 1)]
    one = max(sum(part * part for part in v) for v in every)
    if adjacency is Adjacency.ADD_REMOVE:
        return one
    two = max(squared_distance(every[-1], v) for v in every)
    return two if outside == "clip" else max(two, one)


_SHAPES = (
    Shape(1, 1, 1, 0, 0),
    Shape(2, 3, 1, 1, 2),
    Shape(1, 5, 2, 4, 7),
    Shape(2, 0, 1, 2, 1),
    Shape(2, 2, 0, 0, 3),
)


@states(_MOMENTS)
@shows(
    "StepMoments",
    Norm.SQUARED_L2,
    value=of_query(
        moments_moved_squared,
        "cells",
        "turn",
        "linear",
        "square",
        "offset",
        "weight",
        "outside",
    ),
)
def obligation_step_moments(claimed: Callable[..., int] = moments_moved_squared) -> int:
    """Check that the largest move over all steps, and all pairs of them, is ``claimed``; that no
    neighbors of at most 2 records are further apart, for all edges among five places; and that
    some are as far, where all steps are there.
    """
    universe, cases = tuple(range(-1, 5)), 0
    for outside, cells, shape in product(("clip", "mask"), (2, 3, 9), _SHAPES):
        nothing: Vector = (0, 0, 0)
        every = [shape.of(2 * z - cells) for z in range(cells + 1)]
        for adjacency in Adjacency:
            most = claimed(cells, *shape, outside, adjacency)
            masked = [nothing] if outside == "mask" else []
            others = [nothing] if adjacency is Adjacency.ADD_REMOVE else [*every, *masked]
            largest = max(squared_distance(a, b) for a, b in product(every, others))
            case = f"{outside}, {cells}, {shape}, {adjacency}: {largest}, claimed {most}"
            require(largest == most, case)
            cases += len(every) * len(others)
            if cells > 2:
                continue
            pairs, reached = list(neighbors(universe, 2, adjacency)), 0
            for edges in combinations_with_replacement(range(5), cells + 2 * (outside == "mask")):
                sums = {
                    one: step_moments(one, edges, cells, outside, shape)
                    for one in datasets(universe, 2)
                }
                for ours, theirs in pairs:
                    reached = max(reached, squared_distance(sums[ours], sums[theirs]))
                    cases += 1
            require(reached == most, f"reached {reached}; {case}")
    return cases
