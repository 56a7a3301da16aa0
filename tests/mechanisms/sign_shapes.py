"""``SignCovariance`` with parameters that tests share, its laws, and distances of shapes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify import Adjacency, ShapeEstimate, SignCovariance

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
Floats = NDArray[np.float64]


def shape(d: int = 2, **parameters: Any) -> SignCovariance:
    base: dict[str, Any] = {
        "adjacency": ADD,
        "noise_multiplier": 1,
        "center": (0.0,) * d,
        "cell": 2**-8,
    }
    return SignCovariance(**base | parameters)


def law_of(d: int, n: int, seed: int = 0, kappa: float = 1e8, df: float = math.inf) -> Any:
    """Return records of an elliptical law with eigenvalues from 1 to kappa, turned; and a root
    of its scatter."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    root = turn * np.sqrt(np.logspace(0, math.log10(kappa), d))
    records = rng.normal(size=(n, d))
    if df < math.inf:
        records /= np.sqrt(rng.chisquare(df, (n, 1)) / df)
    return records @ root.T, root


def apart(estimate: ShapeEstimate, root: Floats) -> float:
    """Return the Frobenius norm of what the shape is off, where the truth is the identity."""
    own = np.linalg.solve(root, estimate.factor)
    whole = own @ own.T
    return float(np.linalg.norm(whole * len(root) / np.trace(whole) - np.eye(len(root))))
