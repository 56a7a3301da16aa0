"""Sums of steps between released edges, on exact rationals, with their sensitivities shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

from dpverify.privacy import Adjacency, Norm, Source, of_query, shows, states

from .obligations import neighbors, require
from .vectors import Vector, squared_distance

_STEPS = Source("OURS", "sums of steps between released edges")


def step(value: Any, edges: Sequence[Any], cells: int, outside: str) -> int | None:
    """z of one record; None where it counts nowhere."""
    at = sum(bool(edge <= value) for edge in edges)
    if outside == "clip":
        return at
    return at - 1 if 1 <= at <= cells + 1 else None


def step_sums(
    values: Sequence[Any], edges: Sequence[Any], cells: int, outside: str, weight: int
) -> Vector:
    """The sum of 2 z - cells, and the weight times the number of those that count."""
    seen = [z for v in values if (z := step(v, edges, cells, outside)) is not None]
    total = sum(2 * z - cells for z in seen)
    return (total, *([weight * len(seen)] if weight else []))


def moved_squared(cells: int, weight: int, outside: str, adjacency: Adjacency) -> int:
    """How far a value moves at most, squared.

    Proof. A record adds (v, weight), |v| <= cells, or, masked, nothing. One in or out: cells^2 + weight^2. One for another, both counted:
    the number stays, (2 cells)^2; one of them masked: as in or out. QED
    """
    one = cells**2 + weight**2
    if adjacency is Adjacency.ADD_REMOVE:
        return one
    return 4 * cells**2 if outside == "clip" else max(4 * cells**2, one)


@states(_STEPS)
@shows("StepSums", Norm.SQUARED_L2, value=of_query(moved_squared, "cells", "weight", "outside"))
def obligation_step_sums(claimed: Callable[..., int] = moved_squared) -> int:
    """No neighbors of at most 3 records are further apart than ``claimed``, for all edges among five places; and some are as far."""
    universe, cases = tuple(map(Fraction, range(-1, 5))), 0
    for outside, cells, weight in product(("clip", "mask"), (1, 2), (0, 1, 2, 7)):
        count = cells + 2 * (outside == "mask")
        for adjacency in Adjacency:
            most, largest = claimed(cells, weight, outside, adjacency), 0
            pairs = list(neighbors(universe, 2, adjacency))
            for edges in combinations_with_replacement(range(5), count):
                for pair in pairs:
                    ours, theirs = (step_sums(one, edges, cells, outside, weight) for one in pair)
                    largest, cases = max(largest, squared_distance(ours, theirs)), cases + 1
            case = f"{outside}, {cells}, {weight}, {adjacency}: {largest}, claimed {most}"
            require(largest == most, case)
    return cases
