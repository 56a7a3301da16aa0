"""False twins and planted faults of the obligations about sparse vectors."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from dpverify.privacy import Adjacency
from spec import sparse_vector
from spec.theory import above_threshold

Plant = Callable[[pytest.MonkeyPatch], None]

TWINS: dict[str, dict[str, Any]] = {
    "theory.above_threshold:obligation_stacked": {
        "one way always": lambda adjacency: (1, True),
        "never one way": lambda adjacency: (1, False),
        "adjacencies swapped": lambda adjacency: (1, adjacency is Adjacency.REPLACE),
        "two": lambda adjacency: (2, adjacency is Adjacency.ADD_REMOVE),
    },
    "theory.above_threshold:obligation_profile": {
        "of one move": lambda moved, scale, epsilon: above_threshold.bound(
            moved, 2 * scale, epsilon
        ),
        "of three moves": lambda moved, scale, epsilon: above_threshold.bound(
            3 * moved, 2 * scale, epsilon
        ),
    },
    "theory.above_threshold:obligation_loss": {
        "half": Fraction(1, 2),
        "a little less": Fraction(98, 100),
        "a little more": Fraction(102, 100),
    },
    "theory.above_threshold:obligation_range": {
        "a little less": Fraction(97, 100),
        "a little more": Fraction(103, 100),
    },
}


def _patched(where: Any, name: str, change: Callable[..., Any]) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        right = getattr(where, name)
        patch.setattr(where, name, lambda *given: change(right, *given))

    return plant


FAULTS: dict[str, list[Plant]] = {
    "theory.above_threshold:obligation_mass": [
        # a stretch without its last level; then noise on the queries of half the scale
        _patched(
            above_threshold,
            "_series",
            lambda right, terms, low, high, e: right(
                terms, low, high if None in (low, high) else high - 1, e
            ),
        ),
        _patched(
            above_threshold,
            "_survivals",
            lambda right, gaps, scale, own, e: right(gaps, scale, own / 2, e),
        ),
    ],
    "sparse_vector:obligation_error": [
        _patched(sparse_vector, "error_bound", lambda right, *given: right(*given) // 4),
        _patched(sparse_vector, "error_bound", lambda right, *given: 12 * right(*given)),
    ],
    "sparse_vector:obligation_lower_bound_is_below_error": [
        _patched(sparse_vector, "lower_bound", lambda right, *given: 30 * right(*given)),
        _patched(sparse_vector, "lower_bound", lambda right, *given: right(*given) / 30),
    ],
    "sparse_vector:obligation_transcripts": [
        # a round starts where the last one stopped, and reports the same query again
        _patched(
            sparse_vector,
            "AboveThresholdLaw",
            lambda right, answers, threshold, scale, own, start, by_range: right(
                answers, threshold, scale, own, max(start - 1, 0), by_range
            ),
        )
    ],
}
