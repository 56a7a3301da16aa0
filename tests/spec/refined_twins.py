"""False twins and planted faults of the refined mean's obligations."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from dpverify.privacy import Adjacency
from spec import refined_mean
from spec.theory import transcript_sums, two_balls

Plant = Callable[[pytest.MonkeyPatch], None]


def _other(adjacency: Adjacency) -> Adjacency:
    add, replace = Adjacency.ADD_REMOVE, Adjacency.REPLACE
    return replace if adjacency is add else add


REACHES: dict[str, Any] = {
    "half": lambda radius, adjacency: transcript_sums.reach(radius, adjacency) // 4,
    "double": lambda radius, adjacency: 4 * transcript_sums.reach(radius, adjacency),
    "adjacencies swapped": lambda radius, adjacency: transcript_sums.reach(
        radius, _other(adjacency)
    ),
    "the number is free": lambda radius, adjacency: (
        4 * radius**2 if adjacency is Adjacency.REPLACE else radius**2
    ),
}
TWINS: dict[str, dict[str, Any]] = {
    "theory.transcript_sums:obligation_transcript_sum": REACHES,
    "theory.transcript_sums:obligation_drawn_in_sum": REACHES,
    "theory.two_balls:obligation_two_ball_sum": {
        "half": lambda small, radius, d, adjacency: (
            two_balls.reach(small, radius, d, adjacency) / 4
        ),
        "a hundredth more": lambda small, radius, d, adjacency: (
            two_balls.reach(small, radius, d, adjacency) * Fraction(101, 100)
        ),
        "the inner sum alone": lambda small, radius, d, adjacency: Fraction(
            transcript_sums.reach(small, adjacency)
        ),
        "adjacencies swapped": lambda small, radius, d, adjacency: two_balls.reach(
            small, radius, d, _other(adjacency)
        ),
    },
    "theory.two_balls:obligation_noise": {
        "the inner sum's own": lambda small, radius: (
            radius**2,
            2 * radius * small**2 / (radius + small),
        ),
        "nothing lost": lambda small, radius: (small**2, small**2),
    },
    "theory.two_balls:obligation_shrinking": {
        "the trace, however few directions": lambda weights: sum(weights, Fraction(0)),
        "twice as much": lambda weights: 2 * two_balls.shrinkage(weights),
        "nothing": lambda weights: Fraction(0),
    },
    "refined_mean:obligation_loss": {"nine tenths": Fraction(9, 10), "double": Fraction(2)},
}


def scaled(where: Any, name: str, factor: int | Fraction) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        right = getattr(where, name)
        factors = factor.numerator, factor.denominator
        patch.setattr(where, name, lambda *given: right(*given) * factors[0] / factors[1])

    return plant


FAULTS: dict[str, list[Plant]] = {
    "theory.two_balls:obligation_two_ball_sum": [
        lambda patch: patch.setattr(two_balls, "clip_to_ball", lambda vector, radius: vector),
        lambda patch: patch.setattr(two_balls, "weight", lambda radius: 1 + radius),
        lambda patch: patch.setattr(two_balls, "tilted_reach", lambda small, radius, d: 0),
    ],
    "theory.transcript_sums:obligation_drawn_in_sum": [
        lambda patch: patch.setattr(transcript_sums, "clip_to_ball", lambda vector, radius: vector),
        lambda patch: patch.setattr(transcript_sums, "weight", lambda radius: 1 + radius),
    ],
    "theory.transcript_sums:obligation_transcript_sum": [
        lambda patch: patch.setattr(
            transcript_sums, "unit_sensitivity", lambda spread, width: int((2**40 / spread) ** 2)
        ),
        lambda patch: patch.setattr(transcript_sums, "weight", lambda radius: 1 + radius),
    ],
    "refined_mean:obligation_lower_bound_is_below_error": [
        scaled(refined_mean, "lower_bound", 70),
        scaled(refined_mean, "lower_bound", Fraction(1, 60)),
        scaled(refined_mean, "expected_error", Fraction(1, 70)),
    ],
}
