"""Faults planted in what obligations declare that they show, where it is not the statement that
they take."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from spec import degree_weights, soft_core
from spec.theory import above_threshold, regions, smooth, tables

Plant = Callable[[pytest.MonkeyPatch], None]


def _patched(where: Any, name: str, change: Callable[[Any], Any]) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        right = getattr(where, name)
        patch.setattr(where, name, lambda *given: change(right(*given)))

    return plant


def _half(value: int) -> int:
    return value // 2


FAULTS: dict[str, list[Plant]] = {
    "theory.above_threshold:obligation_stacked": [
        _patched(above_threshold, "moves_together", lambda most: most - 1),
        _patched(above_threshold, "moves_together", lambda most: most + 1),
    ],
    "theory.tables:obligation_quantile_scores": [
        _patched(tables, "scores_sensitivity", lambda most: most - 1),
        _patched(tables, "scores_sensitivity", lambda most: most + 1),
    ],
    "theory.regions:obligation_inner_moments": [_patched(regions, "unit_sensitivity", _half)],
    "theory.regions:obligation_slab_sum": [_patched(regions, "unit_sensitivity", _half)],
    "theory.regions:obligation_slice_sum": [_patched(regions, "unit_sensitivity", _half)],
    "theory.smooth:obligation_smooth": [
        _patched(smooth, "scale_growth", lambda growth: growth * Fraction(99, 100)),
        _patched(smooth, "scale_growth", lambda growth: growth * Fraction(102, 100)),
    ],
    "degree_weights:obligation_reach": [_patched(degree_weights, "unit_sensitivity", _half)],
    "soft_core:obligation_reach": [_patched(soft_core, "unit_sensitivity", _half)],
}
