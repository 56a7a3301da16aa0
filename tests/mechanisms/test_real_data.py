"""Means of real data stay within stated errors; by a public scale alone, with no range for the
mean.

An estimate is off by its noise, normal with a public covariance of one large eigenvalue at most,
and by what the method leans to the bulk of the data: LEAN of these data at most, measured over
200 releases (digits: nothing, for all are friends and inside). With eigenvalues a >= b >= ... of
that covariance the noise exceeds sqrt(a q + b r) with probability at most p if a chi-square of
one degree exceeds q with p / 2, and one of d - 1 degrees r. So the bounds below give a false
alarm with probability at most 1e-6 a case, up to the linearization of a quotient by a noisy
number; the tests compute it from what was released.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy.stats import chi2

from dpverify import Abstained, Adjacency, ApproxDP, RefinedMean, RescaledMean, SeededBits
from tests.benchmarks.errors import distance, seed_of
from tests.benchmarks.real_data import DATASETS, Floats, Public, diamonds_file

BUDGET = ApproxDP(1, "1e-6")
DRAWS = 10
ALARM = 1e-6
Kinds = type[RescaledMean] | type[RefinedMean]
Mean = RescaledMean | RefinedMean
CASES: list[tuple[str, Kinds, Adjacency, float, float]] = [
    # data, method, adjacency, LEAN, bound
    ("digits", RescaledMean, Adjacency.ADD_REMOVE, 0.0, 5.7),
    ("digits", RescaledMean, Adjacency.REPLACE, 0.0, 12.0),
    ("digits", RefinedMean, Adjacency.ADD_REMOVE, 0.0, 5.5),
    ("digits", RefinedMean, Adjacency.REPLACE, 0.0, 12.5),
    ("diamonds", RescaledMean, Adjacency.ADD_REMOVE, 0.006, 0.07),
    ("diamonds", RefinedMean, Adjacency.ADD_REMOVE, 0.006, 0.05),
]
NAMES = [f"{data}-{kind.__name__}-{adjacency}" for data, kind, adjacency, _, _ in CASES]


def loaded(name: str) -> tuple[Floats, Public]:
    """Digits; every fifth diamond, where plotnine is installed."""
    if name == "diamonds" and diamonds_file() is None:
        pytest.skip("needs plotnine: pip install 'dpverify[data]'")
    dataset = DATASETS[name]()
    assert dataset is not None
    data, public = dataset
    if name == "diamonds":
        return data[::5], dataclasses.replace(public, n_max=10_000)
    return data, public


def worst(mechanism: Mean, data: Floats, lean: float) -> tuple[float, float]:
    """Return the largest error of ten releases, and the least bound that they may be held to."""
    seed = seed_of("real data", repr(type(mechanism)), str(mechanism.adjacency), len(data))
    drawn = mechanism.law(data).sample(SeededBits(seed), DRAWS)
    errors, bounds = [], []
    for i in range(DRAWS):
        estimate = mechanism.estimate(drawn[i])
        if isinstance(estimate, Abstained):
            return math.inf, math.inf
        values = np.linalg.eigvalsh(estimate.covariance)
        rare = ALARM / DRAWS / 2
        square = values[-1] * chi2.isf(rare, 1) + values[-2] * chi2.isf(rare, len(values) - 1)
        bounds.append(lean + math.sqrt(square))
        errors.append(distance(estimate.value, data.mean(axis=0)))
    return max(errors), max(bounds)


@pytest.mark.parametrize(("name", "kind", "adjacency", "lean", "bound"), CASES, ids=NAMES)
def test_errors_stay_within_a_bound(
    name: str, kind: Kinds, adjacency: Adjacency, lean: float, bound: float
) -> None:
    """False alarm: at most 1e-6 a case (see above)."""
    data, public = loaded(name)
    mechanism = kind.calibrated_for(BUDGET, adjacency=adjacency, **public.spread)
    error, least = worst(mechanism, data, lean)
    assert least <= bound  # else the bound is too tight for the noise that was released
    assert error <= bound


@pytest.mark.parametrize(("name", "kind", "adjacency", "lean", "bound"), CASES, ids=NAMES)
def test_the_bound_is_not_loose(
    name: str, kind: Kinds, adjacency: Adjacency, lean: float, bound: float
) -> None:
    """Planted: four times the noise in every stage. It must break every bound; the seed is
    fixed."""
    data, public = loaded(name)
    mechanism = kind.calibrated_for(BUDGET, adjacency=adjacency, **public.spread)
    more = {
        field: 4 * getattr(mechanism, field)
        for field in ("noise_multiplier", "center_multiplier")
        if hasattr(mechanism, field)
    }
    error, _ = worst(dataclasses.replace(mechanism, budget=None, **more), data, lean)
    assert error > bound


def test_the_centers_are_not_where_the_bound_comes_from() -> None:
    """Moved by a million, data give estimates that are as good: no range is used. False alarm:
    1e-6."""
    data, public = loaded("digits")
    mechanism = RefinedMean.for_budget(BUDGET, adjacency=Adjacency.ADD_REMOVE, **public.spread)
    error, least = worst(mechanism, data + 1e6, 0.0)
    assert error <= least <= 5.5
