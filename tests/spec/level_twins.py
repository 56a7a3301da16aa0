"""False twins and planted faults of the obligations about columns of large variance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import pytest

from dpverify.privacy import Adjacency
from spec import large_variances
from spec.theory import levels

Plant = Callable[[pytest.MonkeyPatch], None]


def _last_place(places: Sequence[int], d: int, here: Sequence[int]) -> tuple[dict[int, int], int]:
    """A column that is reported again has the level of the later report."""
    again = {p % d: here[p // d] for p in places if p < d * len(here)}
    return again, levels.identified(places, d, here)[1]


TWINS: dict[str, dict[str, Any]] = {
    "theory.levels:obligation_level_counts": {
        "always one": lambda adjacency: (1, False),
        "one way": lambda adjacency: (levels.answer_moves(adjacency)[0], True),
        "adjacencies swapped": lambda adjacency: (
            1 if adjacency is Adjacency.REPLACE else 2,
            False,
        ),
    },
    "theory.levels:obligation_identified": {
        "the last place counts": _last_place,
        "a level further": lambda *given: (
            levels.identified(*given)[0],
            levels.identified(*given)[1] - 1,
        ),
    },
    "large_variances:obligation_shares": {
        "more above": (Fraction(3, 4), Fraction(1, 20)),
        "a smaller margin": (Fraction(3, 5), Fraction(1, 5)),
    },
    "large_variances:obligation_noise": {
        "half": lambda parameters: large_variances.noise_missed(parameters) / 20,
        "nothing": lambda parameters: 0,
        "fifty times": lambda parameters: 50 * large_variances.noise_missed(parameters),
    },
    "large_variances:obligation_start": {
        "the highest": lambda votes: min(max([0, *votes[::2]]), 40),
        "without a floor": lambda votes: large_variances.top_of(votes) or -1024,
    },
}


def _patched(where: Any, name: str, wrong: Callable[..., Any]) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        right = getattr(where, name)
        patch.setattr(where, name, lambda *given: wrong(right, *given))

    return plant


FAULTS: dict[str, list[Plant]] = {
    "large_variances:obligation_transcripts": [
        _patched(
            levels, "identified", lambda right, places, *rest: right((), *rest)
        ),  # none hidden
        _patched(levels, "counts", lambda right, *given: right(*given)[:-1]),
        _patched(levels, "counts", lambda right, table, *rest: right(table[:0], *rest)),
    ],
    "large_variances:obligation_lower_bound_is_below_error": [
        _patched(large_variances, "lower_bound", lambda right, *given: 10**6 * right(*given)),
        _patched(large_variances, "lower_bound", lambda right, *given: right(*given) / 10**4),
    ],
}
