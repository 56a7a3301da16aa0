"""Answers of every mechanism, and what it says before a release: one case for each class."""

from __future__ import annotations

import inspect
import json
import math
from typing import Any

import numpy as np
import pytest

import dpverify
from dpverify import Adjacency, ApproxDP, SeededBits, result_from
from dpverify.families import NormalFamily, Poisson
from dpverify.grid import Count
from dpverify.plans import Mechanism

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
N, D = 16_000, 2
RNG = np.random.default_rng(11)
COLUMN, COUNTS = RNG.normal(size=N), RNG.poisson(5.0, N)
VECTORS, BITS = RNG.normal(size=(N, D)), RNG.random((N, D)) < 0.2
CENTER: dict[str, Any] = {"center": (0.0,) * D}
REACH: dict[str, Any] = CENTER | {"reach": 16}
BOUNDS: dict[str, Any] = {"lower": -5, "upper": 5}
BOXES: dict[str, Any] = {"lower": (-5.0,) * D, "upper": (5.0,) * D}
FRIENDS: dict[str, Any] = {"covariance": (1.0,) * D, "n_max": N}
VOTES: dict[str, Any] = {"d": D, "delta": "1e-7"}
ASSUMED: dict[str, Any] = {"deviations": (1.0,) * D}
# data, adjacency, other parameters, what is assumed of the data for an error
Case = tuple[Any, Adjacency, dict[str, Any], dict[str, Any]]
CASES: dict[str, Case] = {
    "BernoulliMean": (BITS[:, 0], ADD, {}, {}),
    "BoundedMean": (COLUMN, ADD, BOUNDS, {}),
    "BoundedSum": (COLUMN, ADD, BOUNDS, {}),
    "ClippedMean": (VECTORS, ADD, CENTER | {"radius": 4}, {}),
    "CoordinatewiseMean": (VECTORS, ADD, REACH | ASSUMED, {}),
    "Gaussian": (VECTORS, ADD, {"d": D, "cell": 2**-10}, {}),
    "GaussianCovariance": (VECTORS, ADD, CENTER | {"cell": 2**-10}, {}),
    "GaussianMean": (VECTORS, ADD, REACH | ASSUMED, {}),
    "Histogram": (COLUMN, ADD, {"axes": ((-2.0, 0.0, 2.0),)}, {}),
    "HistogramGaussian": (COLUMN, REPLACE, {"cell": 2**-10, "delta": "1e-6"}, {}),
    "InterquartileRange": (COLUMN, REPLACE, {"lower": 2**-8, "upper": 256, "delta": "1e-6"}, {}),
    "IterativeMean": (VECTORS, ADD, CENTER | {"radius": 100}, {}),
    "KthLargestVariance": (VECTORS, ADD, VOTES | {"k": 2}, {}),
    "LargeVariances": (VECTORS, ADD, VOTES | {"reports": 1, "n_max": N}, {}),
    "LocationScale": (
        COLUMN,
        REPLACE,
        {"family": NormalFamily(), "ranges": ((-8.0, 8.0), (0.5, 4.0))},
        {"parameters": (0.0, 1.0), "which": 0},
    ),
    "MomentMatrix": (VECTORS, ADD, BOXES, {}),
    "NoisyCount": (COLUMN, ADD, {}, {}),
    "NumberOfReports": (VECTORS, ADD, VOTES, {}),
    "PartitionedProduct": (BITS, REPLACE, {"d": D}, {}),
    "PrivateQuantile": (COLUMN, ADD, BOUNDS, {}),
    "PrivateQuantiles": (COLUMN, ADD, BOUNDS | {"levels": ("1/4", "3/4")}, {}),
    "ProductDistribution": (BITS, ADD, {"d": D}, {}),
    "RandomizedResponse": (np.minimum(COUNTS, 9), REPLACE, {"categories": 10}, {}),
    "RefinedMean": (VECTORS, ADD, FRIENDS, {}),
    "RescaledMean": (VECTORS, ADD, FRIENDS, {}),
    "RobustMean": (VECTORS, ADD, ASSUMED | {"n_max": N}, {}),
    "ScaleFamily": (np.abs(COLUMN), ADD, {"family": "exponential", "octaves": 16}, {}),
    "SignCovariance": (VECTORS, ADD, CENTER | {"cell": 2**-10}, {}),
    "SmoothMedian": (VECTORS, REPLACE, BOXES, {}),
    "SparseVector": (COLUMN, ADD, {"queries": (Count((0.0, 1.0)),), "threshold": 500}, {}),
    "StabilityHistogram": (COLUMN, ADD, {"width": 1, "delta": "1e-6"}, {}),
    "SumOfVariances": (VECTORS, ADD, VOTES, {}),
    "TruncatedMle": (
        COUNTS,
        ADD,
        {"family": Poisson(), "lowest": 2.0, "highest": 8.0},
        {"parameter": 5.0},
    ),
    "UnivariateGaussian": (COLUMN, ADD, {"cell": 2**-10}, {}),
    "UnknownCovarianceMean": (VECTORS, ADD, {"d": D, "n_max": N}, ASSUMED),
    "VarianceAwareMean": (VECTORS, ADD, REACH | {"least_deviation": "1/8"}, ASSUMED),
    "WinsorizedMean": (VECTORS, REPLACE, BOXES, ASSUMED),
}
# answers whose interval is documented as None: quantiles, which queries, levels without noise
WITHOUT_INTERVAL = {
    "LargeVariances",
    "PrivateQuantile",
    "PrivateQuantiles",
    "SmoothMedian",
    "SparseVector",
}
# their error is the same for any number of records
STEADY = {"BoundedSum", "Histogram", "NoisyCount", "SparseVector"}

EVERY = [
    pytest.param(name, marks=pytest.mark.of_module(getattr(dpverify, name).__module__))
    for name in CASES
]


def made(name: str) -> Any:
    """Return the mechanism of this class with the least noise for (1, 1e-6)."""
    _, adjacency, parameters, _ = CASES[name]
    kind: Any = getattr(dpverify, name)
    return kind.for_budget(ApproxDP(1, "1e-6"), adjacency=adjacency, **parameters)


def test_every_class_has_a_case() -> None:
    every = {getattr(dpverify, name) for name in dpverify.__all__}
    kinds = {k for k in every if isinstance(k, type) and issubclass(k, Mechanism)}
    assert {k.__name__ for k in kinds if not inspect.isabstract(k)} == CASES.keys()


@pytest.mark.parametrize("name", EVERY)
def test_an_answer_has_a_value_an_interval_and_a_text_and_loads_back(name: str) -> None:
    result = made(name).release(CASES[name][0], SeededBits(5))
    assert result.value is not None
    assert (result.interval(0.95) is None) is (name in WITHOUT_INTERVAL)
    assert result_from(json.loads(json.dumps(result.to_dict(), allow_nan=False))) == result
    assert repr(result).startswith(f"{type(result).__name__}(")
    assert "\n" not in repr(result)


@pytest.mark.parametrize("name", EVERY)
def test_an_error_and_the_records_for_it_are_told_before(name: str) -> None:
    mechanism, assumed = made(name), CASES[name][3]
    told = [mechanism.expected_error(n, **assumed) for n in (4 * N, 16 * N, 256 * N)]
    assert all(0 < error < math.inf for error in told)
    assert told == sorted(told, reverse=True)
    enough = mechanism.records_for(told[0], **assumed)
    assert (enough == 0) if name in STEADY else (1 < enough <= 4 * N)
    assert mechanism.expected_error(enough, **assumed) <= told[0]
