"""Made-up points and claims for the tests of rates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from dpverify import Adjacency, NoisyCount
from dpverify.rates import Empirical, Instance, Point, RateClaim


def point(value: float, measured: float, error: float, repeats: int = 10_000) -> Point:
    """Return a point whose logarithm has this standard error (normal ends)."""
    shown, surely = math.exp(1.96 * error), math.exp(5.2 * error)
    return Point(
        value=value,
        n=100,
        d=1,
        measured=measured,
        low=measured / shown,
        high=measured * shown,
        surely_low=measured / surely,
        surely_high=measured * surely,
        alpha=2e-7,
        repeats=repeats,
        seed=1,
    )


def count(setting: Mapping[str, Any]) -> NoisyCount:
    """Return a count of epsilon."""
    multiplier = 1 / Fraction(setting["epsilon"])
    return NoisyCount(adjacency=Adjacency.ADD_REMOVE, noise_multiplier=multiplier)


def claim(**changed: Any) -> RateClaim:
    """Claim the count's error against epsilon; nothing is claimed but what is given."""
    base: dict[str, Any] = {
        "name": "error",
        "mechanism": count,
        "variable": "epsilon",
        "values": (Fraction(1, 50), Fraction(1, 10), Fraction(1, 2)),
        "setting": {"n": 20},
        "instance": Instance(kind="uniform", parameters={"low": 0.0, "high": 1.0}),
        "target": Empirical(lambda mechanism, data: len(data)),
        "error": lambda estimate, truth: abs(estimate.value - truth),
        "source": "made up",
    }
    return RateClaim(**base | changed)
