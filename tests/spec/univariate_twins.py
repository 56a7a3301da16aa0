"""False twins of the obligations about clipped moments and the normal law that has them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from dpverify.privacy import Adjacency
from spec import univariate_gaussian as univariate
from spec.theory import clipped_scalars as clipped


def _one_coordinate(*given: Any) -> int:
    """The diameter of the first moment alone."""
    turn, _, linear, *_, adjacency = given
    times = 2 if adjacency is Adjacency.REPLACE else 1
    return int((times * linear * turn) ** 2)


def _ends_only(*given: Any) -> int:
    """Compute as if records at 0 and at the ends were the furthest apart."""
    turn, edge, linear, square, *_, adjacency = given
    if adjacency is Adjacency.ADD_REMOVE:
        return clipped.moved_squared(*given)
    sides = ((linear * turn) ** 2 + (square * edge**2) ** 2, (2 * linear * turn) ** 2)
    return int(max(sides))


def _swapped(*given: Any) -> tuple[Any, Any]:
    mean, deviation, turn, edge = given
    return clipped.moments(mean, deviation, edge, turn)


def _transposed(*given: Any) -> Any:
    return clipped.slopes(*given).T


def _unclipped(first: Any, second: Any, clips: Any, box: Any) -> Any:
    """The mean and variance as if nothing were clipped."""
    variance = second - first**2
    return (first, variance**0.5) if variance > 0 else None


TWINS: dict[str, dict[str, Any]] = {
    "theory.clipped_scalars:obligation_clipped_moments": {
        "one less": lambda *given: clipped.moved_squared(*given) - 1,
        "one more": lambda *given: clipped.moved_squared(*given) + 1,
        "one coordinate": _one_coordinate,
        "the ends alone": _ends_only,
        "the number is free": lambda t, e, a, b, c, w, adj: clipped.moved_squared(
            t, e, a, b, c, 0, adj
        ),
    },
    "theory.clipped_scalars:obligation_units": {
        "to whole cells": lambda level: Fraction(int(clipped.unit_of(level))),
        "rounded up": lambda level: clipped.unit_of(level) + Fraction(1, 16),
    },
    "theory.clipped_scalars:obligation_moments": {"clips swapped": _swapped},
    "theory.clipped_scalars:obligation_slopes": {"transposed": _transposed},
    "theory.clipped_scalars:obligation_fit": {"unclipped": _unclipped},
    "univariate_gaussian:obligation_loss": {
        "a little less": Fraction(999, 1000),
        "a little more": Fraction(1001, 1000),
    },
    "univariate_gaussian:obligation_searches_find": {"half as many": 100, "thrice as many": 600},
}


def _patched(name: str, change: Callable[..., Any]) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(patch: pytest.MonkeyPatch) -> None:
        right = getattr(univariate, name)
        patch.setattr(univariate, name, lambda *given: change(right, *given))

    return plant


FAULTS: dict[str, list[Callable[[pytest.MonkeyPatch], None]]] = {
    "univariate_gaussian:obligation_loss": [
        _patched("moved", lambda right, *given: right(*given) // 2),
        _patched("step_scale", lambda right, *given: right(*given) / 2),
    ],
    "univariate_gaussian:obligation_lower_bound_is_below_error": [
        _patched("lower_bound", lambda right, *given: 8 * right(*given)),
        _patched("lower_bound", lambda right, *given: right(*given) / 4),
    ],
}
