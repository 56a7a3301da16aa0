"""False twins and planted faults of the obligations about many quantiles at once."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from dpverify.privacy import Adjacency
from spec import private_quantiles
from spec.theory import quantile_blocks, quantiles

Plant = Callable[[pytest.MonkeyPatch], None]


def _in_order(cells: Any, parts: int) -> tuple[int, ...]:
    """The records of a cell spread evenly, so that one more moves the others."""
    positions = []
    for cell in sorted({*cells}):
        count = list(cells).count(cell)
        positions += [cell * parts + k * parts // count for k in range(count)]
    return tuple(positions)


TWINS: dict[str, dict[str, Any]] = {
    "theory.quantile_blocks:obligation_spread": {
        "evenly": _in_order,
        "in the first part": lambda cells, parts: tuple(cell * parts for cell in sorted(cells)),
        "in the next cell, too": lambda cells, parts: tuple(
            cell * parts + k for k, cell in enumerate(sorted(cells))
        ),
    },
    "theory.quantile_blocks:obligation_block_scores": {
        "one under both": lambda quantiles, adjacency: Fraction(1),
        "two under both": lambda quantiles, adjacency: Fraction(2),
        "one for each block": lambda quantiles, adjacency: Fraction(
            len(quantiles) * (1 + (adjacency is Adjacency.REPLACE))
        ),
    },
    "private_quantiles:obligation_range": {
        "a little less": Fraction(99, 100),
        "double": Fraction(2),
    },
    "private_quantiles:obligation_error": {"a fifth": Fraction(1, 5)},
}


def _patched(where: Any, name: str, change: Callable[..., Any]) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        right = getattr(where, name)
        patch.setattr(where, name, lambda *given: change(right, *given))

    return plant


FAULTS: dict[str, list[Plant]] = {
    "private_quantiles:obligation_lower_bound_is_below_error": [
        _patched(private_quantiles, "lower_bound", lambda right, *given: 70 * right(*given)),
        _patched(private_quantiles, "lower_bound", lambda right, *given: right(*given) / 30),
    ],
    "private_quantiles:obligation_support": [
        _patched(quantiles.QuantileLaw, "total", lambda right, *given: right(*given) - 1),
        _patched(
            quantile_blocks.BlockChoicesLaw,
            "probability",
            lambda right, law, outcome, e: right(law, outcome, e) if outcome[0] else Fraction(0),
        ),
    ],
}
