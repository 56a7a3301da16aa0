"""False twins of the obligations about clipped means under a bounded second moment."""

from __future__ import annotations

from typing import Any

import mpmath as mp

from spec.theory import heavy_tails
from spec.theory.laws import real


def _masked(second_moment: Any, radius: Any, outliers: Any = 0) -> Any:
    """Return what leaving records out would move."""
    return real(second_moment) / real(radius) + 2 * real(radius) * real(outliers)


def _half(second_moment: Any, radius: Any, outliers: Any = 0) -> Any:
    return heavy_tails.clipping_bias(second_moment, 2 * real(radius), real(outliers) / 2)


def _one_side(second_moment: Any, radius: Any, outliers: Any = 0) -> Any:
    return heavy_tails.clipping_bias(second_moment, radius, real(outliers) / 2)


def _no_square(second_moment: Any, radius: Any, outliers: Any = 0) -> Any:
    return heavy_tails.clipping_bias(mp.sqrt(real(second_moment)), radius, outliers)


TWINS: dict[str, dict[str, Any]] = {
    "theory.heavy_tails:obligation_bias": {
        "half": _half,
        "of records left out": _masked,
        "outliers on one side": _one_side,
        "the deviation": _no_square,
    },
    "theory.heavy_tails:obligation_radius": {
        "twice": lambda *given: 2 * heavy_tails.best_radius(*given),
        "without outliers": lambda s, noise, share: heavy_tails.best_radius(s, noise),
        "the typical distance": lambda s, noise, share: mp.sqrt(real(s)),
    },
}
