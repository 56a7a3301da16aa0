"""Shared parts of the two files of tests of ``clipped_mean``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify import Adjacency, ClippedMean

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
Floats = NDArray[np.float64]
STRETCHED = ((2.0, 1.0), (0.0, 0.25))


def mean(d: int = 2, **parameters: Any) -> ClippedMean:
    base: dict[str, Any] = {
        "adjacency": ADD,
        "noise_multiplier": 1,
        "center": (0.0,) * d,
        "radius": 1,
    }
    return ClippedMean(**base | parameters)


def cloud(n: int, d: int, seed: int = 0, spread: float = 0.4) -> Floats:
    """Uniform on a sphere of radius ``spread`` about (0.3, 0, ..., 0): inside the unit ball."""
    points = np.random.default_rng(seed).normal(size=(n, d))
    points *= spread / np.linalg.norm(points, axis=1, keepdims=True)
    points[:, 0] += 0.3
    return points
