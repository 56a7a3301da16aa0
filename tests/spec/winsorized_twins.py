"""False twins and planted faults of the obligations about Winsorized means, boxes and ranges of
losses."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath as mp
import pytest

from dpverify.privacy import Adjacency, Norm
from spec import winsorized_mean
from spec.theory import boxes, quantiles

Plant = Callable[[pytest.MonkeyPatch], None]

TWINS: dict[str, dict[str, Any]] = {
    "theory.quantiles:obligation_range_is_gaussian": {
        "that of pure DP": lambda length: quantiles.gaussian_of_range(2 * length),
        "that of zCDP": lambda length: mp.mpf(length.numerator) / length.denominator / 2,
        "a hair less": lambda length: quantiles.gaussian_of_range(length) * mp.mpf("0.9999"),
    },
    "theory.boxes:obligation_box_sum": {
        "half": lambda *given: boxes.box_sensitivity(*given) // 2,
        "adjacencies swapped": lambda d, radius, norm, adjacency: boxes.box_sensitivity(
            d, radius, norm, next(a for a in Adjacency if a is not adjacency)
        ),
        "one column": lambda d, *given: boxes.box_sensitivity(1, *given),
        "L1 for both": lambda d, radius, norm, adjacency: boxes.box_sensitivity(
            d, radius, Norm.L1, adjacency
        ),
    },
    "winsorized_mean:obligation_loss": {
        "half": Fraction(1, 2),
        "a hair less": Fraction(9999, 10000),
        "a hair more": Fraction(10001, 10000),
    },
}


def _patched(name: str, change: Callable[..., Any]) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        right = getattr(winsorized_mean, name)
        patch.setattr(winsorized_mean, name, lambda *given: change(right, *given))

    return plant


FAULTS: dict[str, list[Plant]] = {
    "winsorized_mean:obligation_loss": [
        # the range of a choice taken once, not twice; each choice with the share of all of them
        _patched("quartile_scale", lambda right, p: right(p) / 2),
        _patched("length", lambda right, p: right(p) * 2 * len(p["lower"])),
        _patched("sum_scale", lambda right, p: right(p) / 4),
    ],
    "winsorized_mean:obligation_clipped": [
        _patched("times", lambda right, p: right(p) * Fraction(8, 10)),
        _patched("times", lambda right, p: right(p) * 2),
    ],
    "winsorized_mean:obligation_range": [
        # the middle half a cell off; a cell whatever the quartiles; a range that is 1.4 times
        # too long
        _patched("ranges", lambda right, p, q: right(p, (q[0] + 1, q[1], *q[2:]))),
        _patched("ranges", lambda right, p, q: right(p, (min(q[:2]), min(q[:2]), *q[2:]))),
        _patched("ranges", lambda right, p, q: right({**p, "clipped": p["clipped"] ** 2}, q)),
    ],
    "winsorized_mean:obligation_lower_bound_is_below_error": [
        _patched("lower_bound", lambda right, *given: 12 * right(*given)),
        _patched("lower_bound", lambda right, *given: right(*given) / 4),
    ],
}
