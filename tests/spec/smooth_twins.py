"""False twins and planted faults of the obligations about smooth sensitivity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import mpmath as mp
import pytest

from spec import smooth_median
from spec.theory import smooth

Plant = Callable[[pytest.MonkeyPatch], None]


def _local(cells: Sequence[int], lower: int, upper: int, table: Sequence[int]) -> int:
    return smooth.smooth_scale(cells, lower, upper, table[:1])


def _no_ends(cells: Sequence[int], lower: int, upper: int, table: Sequence[int]) -> int:
    return smooth.smooth_scale(cells, cells[0], cells[-1], table)


def _half(cells: Sequence[int], lower: int, upper: int, table: Sequence[int]) -> int:
    return -(-smooth.smooth_scale(cells, lower, upper, table) // 2)


def _steep(cells: Sequence[int], lower: int, upper: int, table: Sequence[int]) -> int:
    return smooth.smooth_scale(cells, lower, upper, table[::2])


def _all_of_it(cells: Sequence[int], lower: int, upper: int, table: Sequence[int]) -> int:
    return table[0] * (upper - lower)


def _profile_of(change: Callable[..., tuple[Any, Any, Any]]) -> Callable[..., Any]:
    return lambda *given: smooth.profile(*change(*given))


TWINS: dict[str, dict[str, Any]] = {
    "theory.smooth:obligation_smooth": {
        "local sensitivity": _local,
        "no bounds beyond the records": _no_ends,
        "half": _half,
        "weights fall too fast": _steep,
        "the global sensitivity": _all_of_it,
    },
    "theory.smooth:obligation_profile": {
        "the shift alone": lambda x, g, e: max(0, 1 - mp.exp((float(e) - float(x)) / 2)),
        "the dilation alone": _profile_of(lambda x, g, e: (x / 10**6, g, e)),
        "a hair less shift": _profile_of(lambda x, g, e: (x * Fraction(999, 1000), g, e)),
        "a hair less growth": _profile_of(
            lambda x, g, e: (x, 1 + (g - 1) * Fraction(999, 1000), e)
        ),
        "more": _profile_of(lambda x, g, e: (x * Fraction(11, 10), g, e)),
    },
    "smooth_median:obligation_profile": {
        "nine tenths": Fraction(9, 10),
        "a tenth more": Fraction(11, 10),
    },
}


def _patched(module: Any, name: str, change: Callable[..., Any]) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        right = getattr(module, name)
        patch.setattr(module, name, lambda *given: change(right, *given))

    return plant


FAULTS: dict[str, list[Plant]] = {
    "smooth_median:obligation_profile": [
        # a scale that is four fifths of what it should be; weights of a smaller decay
        _patched(smooth, "smooth_scale", lambda right, *given: right(*given) * 4 // 5),
        _patched(smooth, "weights", lambda right, most, decay: right(most, decay)[::2]),
    ],
    "smooth_median:obligation_error": [
        _patched(
            smooth_median, "error_bound", lambda right, *given: [b / 3 for b in right(*given)]
        ),
        _patched(
            smooth_median, "error_bound", lambda right, *given: [b * 9 for b in right(*given)]
        ),
        _patched(smooth_median, "expected_error", lambda right, *given: right(*given) * 1.01),
    ],
    "smooth_median:obligation_lower_bound_is_below_error": [
        _patched(smooth_median, "lower_bound", lambda right, *given: 400 * right(*given)),
        _patched(smooth_median, "lower_bound", lambda right, *given: right(*given) / 400),
    ],
}
