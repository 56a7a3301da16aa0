"""Mechanisms, their data, and the truth that intervals of their results have to hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpverify import (
    Adjacency,
    BernoulliMean,
    BoundedMean,
    ClippedMean,
    CoordinatewiseMean,
    GaussianCovariance,
    Histogram,
    IterativeMean,
    NoisyCount,
    RandomizedResponse,
    RefinedMean,
    RescaledMean,
    RobustMean,
    SeededBits,
    SignCovariance,
    StabilityHistogram,
    UnivariateGaussian,
    WinsorizedMean,
)

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE


def made(kind: Any, **parameters: Any) -> Any:
    """Return a mechanism, its parameters in any form that is read."""
    return kind(**parameters)


RNG = np.random.default_rng(5)
COLUMN = np.clip(RNG.normal(0.7, 0.2, 400), -1, 1)
ONES = (np.arange(400) < 330).astype(float)
VECTORS = RNG.uniform([-0.3, -0.5, -0.6], [0.7, 0.5, 0.4], (500, 3))
CATEGORIES = np.repeat([0.0, 1.0, 2.0], [200, 150, 50])
SHARES = np.array([0.5, 0.375, 0.125])
MANY = RNG.normal(size=(4000, 2)) * [1.0, 3.0]
BALL: dict[str, Any] = {"center": [0.0] * 3, "radius": 2}
NORMAL: dict[str, Any] = {"n_max": 4000, "tail": "1e-7"}
SHAPE: dict[str, Any] = {"matrix": [1.0, 9.0], "radius": 9} | NORMAL

SIGNS = np.random.default_rng(5).normal(size=(2000, 2)) * [1.0, 3.0]
NORMAL_COLUMN = np.random.default_rng(6).normal(3, 1, 4000)
LITTLE: dict[str, Any] = {"adjacency": ADD, "noise_multiplier": "1/1000", "cell": 2**-8}


def normal_mean() -> Any:
    """Return the mean of the normal law with hardly any noise."""
    return made(UnivariateGaussian, **LITTLE).release(NORMAL_COLUMN, SeededBits(0)).value


def sign_shape() -> Any:
    """Return the first entry of the shape with hardly any noise."""
    quiet = made(SignCovariance, center=(0.0, 0.0), **LITTLE)
    return quiet.release(SIGNS, SeededBits(0)).value[0, 0]


CASES: dict[str, tuple[Any, Any, Any, dict[str, Any]]] = {
    "count": (made(NoisyCount, adjacency=ADD, noise_multiplier=3), COLUMN, 400, {}),
    "mean, add": (
        made(BoundedMean, adjacency=ADD, noise_multiplier=8, lower=-1, upper=2),
        COLUMN,
        COLUMN.mean(),
        {},
    ),
    "mean, replace": (
        made(BoundedMean, adjacency=REPLACE, noise_multiplier=8, lower=-1, upper=1),
        COLUMN,
        COLUMN.mean(),
        {},
    ),
    "share, add": (made(BernoulliMean, adjacency=ADD, noise_multiplier=20), ONES, ONES.mean(), {}),
    "share, replace": (
        made(BernoulliMean, adjacency=REPLACE, noise_multiplier=9),
        ONES,
        ONES.mean(),
        {},
    ),
    "clipped": (
        made(ClippedMean, adjacency=ADD, noise_multiplier=40, **BALL),
        VECTORS,
        VECTORS.mean(axis=0),
        {},
    ),
    "clipped, all columns": (
        made(
            ClippedMean,
            adjacency=ADD,
            noise_multiplier=40,
            matrix=[[1, 0, 0], [1, 2, 0], [0, 1, 1]],
            **BALL,
        ),
        VECTORS / 2,
        VECTORS.mean(axis=0) / 2,
        {"simultaneous": True},
    ),
    "iterative": (
        made(IterativeMean, adjacency=ADD, noise_multiplier=9, deviation=0.3, steps=2, **BALL),
        VECTORS,
        VECTORS.mean(axis=0),
        {},
    ),
    "coordinatewise": (
        made(
            CoordinatewiseMean,
            adjacency=ADD,
            noise_multiplier=5,
            center=[0.0] * 3,
            reach=1,
            deviations=[0.3] * 3,
        ),
        VECTORS,
        VECTORS.mean(axis=0),
        {},
    ),
    "winsorized, laplace": (
        made(
            WinsorizedMean,
            adjacency=REPLACE,
            noise_multiplier="1/8",
            lower=[-9.0] * 3,
            upper=[9.0] * 3,
            noise="laplace",
        ),
        VECTORS,
        VECTORS.mean(axis=0),
        {},
    ),
    "rescaled": (
        made(RescaledMean, adjacency=ADD, noise_multiplier=2, **SHAPE),
        MANY,
        MANY.mean(axis=0),
        {},
    ),
    "refined": (
        made(
            RefinedMean,
            adjacency=ADD,
            noise_multiplier=8,
            center_multiplier=4,
            record_radius=6,
            **SHAPE,
        ),
        MANY,
        MANY.mean(axis=0),
        {},
    ),
    "robust": (
        made(
            RobustMean,
            adjacency=ADD,
            noise_multiplier=2,
            deviations=[1.0, 3.0],
            radius=9,
            record_radius=6,
            directions=1,
            **NORMAL,
        ),
        MANY,
        MANY.mean(axis=0),
        {},
    ),
    "frequencies": (
        made(RandomizedResponse, adjacency=REPLACE, noise_multiplier=2, categories=3),
        CATEGORIES,
        SHARES,
        {},
    ),
    "histogram": (
        made(StabilityHistogram, adjacency=ADD, noise_multiplier=5, width=1, delta="1e-6"),
        np.full(400, 0.5),
        400,
        {},
    ),
    "bins": (
        made(Histogram, adjacency=ADD, noise_multiplier=5, axes=(3,)),
        CATEGORIES,
        [200, 150, 50],
        {},
    ),
    "bins for ranges": (
        made(
            Histogram,
            adjacency=REPLACE,
            noise_multiplier=5,
            axes=((0.0, 1.0, 1.5, 2.0),),
            strategy="circulant",
            noise="gaussian",
        ),
        CATEGORIES,
        [200, 150, 50],
        {},
    ),
    "shape": (
        made(
            SignCovariance,
            adjacency=ADD,
            noise_multiplier=8,
            center=[0.0] * 2,
            cell=2**-8,
            rounds=3,
        ),
        SIGNS,
        sign_shape,
        {},
    ),
    "covariance": (
        made(
            GaussianCovariance,
            adjacency=ADD,
            noise_multiplier=8,
            center=[0.0] * 2,
            cell=2**-8,
            rounds=3,
        ),
        SIGNS,
        (SIGNS[:, 0] ** 2).mean(),
        {},
    ),
    "normal law": (
        made(UnivariateGaussian, adjacency=ADD, noise_multiplier=2, cell=2**-8),
        NORMAL_COLUMN,
        normal_mean,
        {},
    ),
    "histogram, gaussian": (
        made(
            StabilityHistogram,
            adjacency=ADD,
            noise_multiplier=5,
            width=1,
            delta="1e-6",
            noise="gaussian",
        ),
        np.full(400, 0.5),
        400,
        {},
    ),
}
