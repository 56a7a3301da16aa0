"""A majority of runs that are near the truth: ZZ25's Corollary B.4, as mathematics."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from math import comb
from typing import Any

from dpverify.privacy import Source, SourceStatus, states

from .obligations import require

_BOOST = Source(
    "ZZ25",
    "Corollary B.4, a majority of runs",
    SourceStatus.CHANGED_CONSTANTS,
    note="more than half of them, and 3 alpha; runs fail with probability exp(-2 k (1/2 - q)^2)",
)
Point = tuple[int, ...]
"""Point on a grid."""


def squared(one: Point, other: Point) -> int:
    """Compute the squared Euclidean distance."""
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


@states(_BOOST)
def chosen(points: Sequence[Point], alpha: int) -> list[int]:
    """Choose the points that may be given out: those with more than half of all points within 2
    alpha, themselves among them.

    If more than half are within alpha of the truth, each of these is within 2 alpha of all of
    these, so there is one to give out; and one that is given out is within 2 alpha of some of
    these, for two sets of more than half meet: within 3 alpha of the truth. QED The choice is a
    function of released points, so it costs no privacy.
    """
    near = [sum(squared(one, other) <= (2 * alpha) ** 2 for other in points) for one in points]
    return [i for i, count in enumerate(near) if 2 * count > len(points)]


@states(_BOOST)
def failure(runs: int, each: Fraction) -> float:
    """Bound the probability that half of the runs or more fail, independently, each with
    probability at most ``each`` < 1/2: exp(-2 k (1/2 - q)^2) (Hoeffding). So k =
    ln(1 / beta) / (2 (1/2 - q)^2) of them will do.
    """
    return math.exp(-2 * runs * float(Fraction(1, 2) - each) ** 2)


# --- obligations --------------------------------------------------------------------------------


@states(_BOOST)
def obligation_majority(claimed: Callable[[Sequence[Point], int], list[int]] = chosen) -> int:
    """Check on all lists of 1 to 4 points of a line, and of 3 of a plane, with more than half
    within alpha of the origin, that there is a point to return, that every such point is within
    3 alpha, and that some is that far.
    """
    cases = 0
    line = [(x,) for x in (-9, -7, -6, -4, -2, 0, 1, 2, 4, 6, 7)]
    plane = list(product((-2, -1, 0, 1, 3), repeat=2))
    worlds = ((line, 1, 2), (line, 2, 2), (line, 3, 2), (line, 4, 2), (plane, 3, 1))
    for universe, count, alpha in worlds:
        origin, farthest = (0,) * len(universe[0]), 0
        for points in product(universe, repeat=count):
            if 2 * sum(squared(one, origin) <= alpha**2 for one in points) <= count:
                continue
            given = claimed(points, alpha)
            require(bool(given), f"{points}: none")
            for i in given:
                far = squared(points[i], origin)
                require(far <= (3 * alpha) ** 2, f"{points}: {points[i]} is given out")
                farthest = max(farthest, far)
            cases += 1
        require(count < 3 or farthest == (3 * alpha) ** 2, f"the farthest is {farthest}")
    return cases


@states(_BOOST)
def obligation_failure(claimed: Callable[[int, Fraction], float] = failure) -> int:
    """Check that the exact binomial tail is at most ``claimed``, and at least a ninth of its
    square: twice the exponent would be false.
    """
    cases = 0
    for runs, each in product((1, 5, 20, 61), (Fraction(1, 4), Fraction(1, 3), Fraction(9, 20))):
        tail = sum(
            (
                comb(runs, j) * each**j * (1 - each) ** (runs - j)
                for j in range(-(-runs // 2), runs + 1)
            ),
            Fraction(0),
        )
        bound: Any = claimed(runs, each)
        case = f"{runs} runs, {each}: {float(tail)}, {bound}"
        require(tail <= bound, case)
        require(float(tail) >= bound**2 / 9, case)
        cases += 1
    return cases
