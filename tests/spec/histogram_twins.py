"""False twins and planted faults of the obligations about pairs, squares and the fullest bins of
histograms."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath as mp
import pytest

from spec import histogram_gaussian
from spec.theory import pairs

Plant = Callable[[pytest.MonkeyPatch], None]


def _scaled(name: str, factor: Any) -> Callable[..., Any]:
    right = getattr(pairs, name)
    return lambda *given: factor * right(*given)


def _without_noise(things: int, share: Any, other: Any, scale: Any) -> Any:
    """Compute as if counts were shown exactly."""
    return pairs.overtakes(things, share, other, Fraction(1, 1000))


def _one_noise(things: int, share: Any, other: Any, scale: Any) -> Any:
    """Compute as if the fuller bin had no noise, and half of the other's."""
    return pairs.overtakes(things, share, other, scale / 3)


TWINS: dict[str, dict[str, Any]] = {
    "theory.pairs:obligation_pair_octaves": {"none": 0, "two keys": 2},
    "theory.pairs:obligation_clamped_squares": {
        "half of the range": lambda low, high: ((high - low) // 2) ** 2,
        "one less": lambda low, high: (high - low) ** 2 - 1,
        "from zero": lambda low, high: max(low**2, high**2),
    },
    "theory.pairs:obligation_argmax": {
        "no noise": _without_noise,
        "one noise": _one_noise,
        "a hundredth": _scaled("overtakes", mp.mpf("0.01")),
        "a thousand times": _scaled("overtakes", 1000),
    },
    "theory.pairs:obligation_sinks": {
        "one threshold lower": lambda n, p, t, s: pairs.sinks(n, p, t - 1, s) / 2,
        "a thousand times": _scaled("sinks", 1000),
    },
    "histogram_gaussian:obligation_loss": {
        "a little less": Fraction(999, 1000),
        "a little more": Fraction(1001, 1000),
    },
    "histogram_gaussian:obligation_fullest": {
        "fuller": lambda k: (
            histogram_gaussian._SHARES[k][0] + 0.01,
            histogram_gaussian._SHARES[k][1],
        ),
        "emptier": lambda k: (
            histogram_gaussian._SHARES[k][0],
            histogram_gaussian._SHARES[k][1] - 0.01,
        ),
        "far off": lambda k: (mp.mpf("0.1"), mp.mpf("0.9")),
    },
}


def _attribute(name: str, value: Any) -> Plant:
    return lambda patch: patch.setattr(histogram_gaussian, name, value)


def _times(name: str, factor: Any) -> Plant:
    right = getattr(histogram_gaussian, name)
    return _attribute(name, lambda *given: factor * right(*given))


FAULTS: dict[str, list[Plant]] = {
    "histogram_gaussian:obligation_loss": [
        _attribute("threshold", lambda parameters, place: 2),
        _times("scale", Fraction(1, 2)),
    ],
    "histogram_gaussian:obligation_lower_bound_is_below_error": [
        _times("lower_bound", 1000),
        _times("lower_bound", mp.mpf(1) / 1000),
    ],
}
