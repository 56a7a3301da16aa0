"""Shared parts of the tests of means about private medians."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify import Adjacency, CoordinatewiseMean, VarianceAwareMean

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
Floats = NDArray[np.float64]


def aware(d: int = 2, **parameters: Any) -> VarianceAwareMean:
    base: dict[str, Any] = {
        "adjacency": ADD,
        "noise_multiplier": 1,
        "center": (0.0,) * d,
        "reach": 8,
        "deviations": None if "least_deviation" in parameters else (1.0,) * d,
    }
    return VarianceAwareMean(**base | parameters)


def plain(d: int = 2, **parameters: Any) -> CoordinatewiseMean:
    base: dict[str, Any] = {
        "adjacency": ADD,
        "noise_multiplier": 1,
        "center": (0.0,) * d,
        "reach": 8,
        "deviations": (1.0,) * d,
    }
    return CoordinatewiseMean(**base | parameters)


def normal(n: int, deviations: Any, mean: Any = 3.0, seed: int = 0) -> Floats:
    """Independent normal columns, shape (n, d)."""
    deviations = np.asarray(deviations, dtype=np.float64)
    records: Floats = (
        mean + np.random.default_rng(seed).normal(size=(n, len(deviations))) * deviations
    )
    return records
