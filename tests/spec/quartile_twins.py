"""False twins and planted faults of the obligations about quartiles and propose-test-release."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import pytest

from spec import interquartile_range, stability_histogram
from spec.theory import quartiles

Plant = Callable[[pytest.MonkeyPatch], None]


def _longer(cells: Sequence[int], lower: int, upper: int, low: int, high: int) -> int:
    return quartiles.distance(cells, lower, upper, 0, high)


def _no_bounds(cells: Sequence[int], lower: int, upper: int, low: int, high: int) -> int:
    return quartiles.distance(cells, min(cells), max(cells), low, high)


def _one_less(cells: Sequence[int], lower: int, upper: int, low: int, high: int) -> int:
    return max(1, quartiles.distance(cells, lower, upper, low, high) - 1)


def _one_more(cells: Sequence[int], lower: int, upper: int, low: int, high: int) -> int:
    return quartiles.distance(cells, lower, upper, low, high) + 1


def _one_quartile(
    right: Any, cells: Sequence[int], lower: int, upper: int, k: int
) -> tuple[int, int]:
    """Move the lower quartile by all replaced records."""
    p, q = quartiles.ranks(len(cells))
    ordered, n = sorted(cells), len(cells)
    last = ordered[q - 1]
    most = last - (ordered[p - k - 1] if p > k else lower)
    return max(0, last - (ordered[p + k - 1] if p + k <= n else last)), most


def _next_bins(right: Any, *given: Any) -> Any:
    return tuple((key + 1, far) for key, far in right(*given))


TWINS: dict[str, dict[str, Any]] = {
    "theory.quartiles:obligation_stable": {"one bin": 1, "three bins": 3},
    "interquartile_range:obligation_delta": {
        "one lower": lambda p: interquartile_range.threshold_of(p) - 1,
        "one higher": lambda p: interquartile_range.threshold_of(p) + 1,
        "no delta": lambda p: 2,
    },
    "interquartile_range:obligation_loss": {
        "half": Fraction(1, 2),
        "nine tenths": Fraction(9, 10),
        "double": Fraction(2),
    },
    "interquartile_range:obligation_lower_bound_is_below_error": {"three times": 3},
}


def _patched(module: Any, name: str, change: Callable[..., Any]) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        right = getattr(module, name)
        patch.setattr(module, name, lambda *given: change(right, *given))

    return plant


def _far(false: Callable[..., int]) -> Plant:
    """Plant a false distance where the obligation's default names the right one."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        claimed, _, steps = quartiles.obligation_stable.__defaults__ or ()
        patch.setattr(quartiles.obligation_stable, "__defaults__", (claimed, false, steps))

    return plant


FAULTS: dict[str, list[Plant]] = {
    "theory.quartiles:obligation_stable": [
        _far(_longer),
        _far(_no_bounds),
        _far(_one_less),
        _far(_one_more),
        _patched(quartiles, "reach", _one_quartile),
    ],
    "interquartile_range:obligation_loss": [
        _patched(interquartile_range, "scale", lambda right, p: right(p) / 2),
    ],
    "interquartile_range:obligation_lower_bound_is_below_error": [
        _patched(stability_histogram, "lower_bound", lambda right, *given: 6 * right(*given)),
        _patched(interquartile_range, "error_bound", lambda right, *given: right(*given) // 6),
    ],
    "interquartile_range:obligation_right": [
        _patched(interquartile_range, "counts", _next_bins),
        _patched(interquartile_range, "abstains", lambda right, *given: right(*given) * 1.001),
    ],
}
