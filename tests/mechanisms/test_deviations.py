"""Reported deviations cover what clipping, cuts and noise do together to estimates of normal
records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpverify import (
    Abstained,
    Adjacency,
    GaussianCovariance,
    GaussianMean,
    RobustMean,
    SeededBits,
    SignCovariance,
    VarianceAwareMean,
)

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
DATASETS, D = 40, 3
FALSE_ALARM = 1e-6


def made(kind: Any, **parameters: Any) -> Any:
    """Build a mechanism, its parameters in any form that is read."""
    return kind(**parameters)


def of_mean(result: Any, data: Any) -> Any:
    """Divide the distances from the mean of all records by the reported deviations."""
    return (result.value - data.mean(axis=0)) / result.standard_deviation


def of_covariance(result: Any, data: Any) -> Any:
    """Divide the errors of the variances, about the known center, by the reported deviations."""
    return np.diag((result.value - data.T @ data / len(data)) / result.standard_deviation)


def of_location(result: Any, data: Any) -> Any:
    """Divide the distances of the location from the mean of all records."""
    return (result.location - data.mean(axis=0)) / result.location_deviation


def normal(run: int, n: int) -> Any:
    """Draw standard normal records."""
    return np.random.default_rng([n, run]).normal(size=(n, D))


def with_outliers(run: int, n: int) -> Any:
    """Draw standard normal records, and as a last tenth records 6 deviations away in one column."""
    data = normal(run, n)
    data[-n // 10 :, 0] += 6
    return data


def of_inliers(result: Any, data: Any) -> Any:
    """Divide the distances from the mean of the first nine tenths, of a result with a slab."""
    assert result.slabs == 1
    return of_mean(result, data[: -len(data) // 10])


ZERO, ONE = [0.0] * D, [1.0] * D
ROBUST: dict[str, Any] = {"deviations": ONE, "n_max": 1500, "tail": "1e-7"}
KNOWN: dict[str, Any] = {"center": ZERO, "deviations": ONE}
WHITENED: dict[str, Any] = {"center": ZERO, "covariance": np.eye(D).tolist(), "outside": "mask"}
SEARCHED: dict[str, Any] = {"center": [0.3] * D, "scale": 1, "cell": 2**-10}
Case = tuple[Any, int, Callable[[int, int], Any], Callable[[Any, Any], Any]]
CASES: dict[str, Case] = {
    "robust, a ball": (
        made(
            RobustMean, adjacency=ADD, noise_multiplier="1/2", radius=5, record_radius=3, **ROBUST
        ),
        1500,
        normal,
        of_mean,
    ),
    "robust, drawn in": (
        made(
            RobustMean,
            adjacency=REPLACE,
            noise_multiplier="1/2",
            radius=5,
            record_radius=4,
            drawn="3/8",
            **ROBUST,
        ),
        1500,
        normal,
        of_mean,
    ),
    "robust, a slab": (
        made(
            RobustMean,
            adjacency=REPLACE,
            noise_multiplier="1/8",
            radius=6,
            record_radius=8,
            **ROBUST,
        ),
        1500,
        with_outliers,
        of_inliers,
    ),
    "variance-aware": (
        made(VarianceAwareMean, adjacency=REPLACE, noise_multiplier=4, reach=20, **KNOWN),
        1000,
        normal,
        of_mean,
    ),
    "gaussian": (
        made(GaussianMean, adjacency=ADD, noise_multiplier=1, **KNOWN),
        400,
        normal,
        of_mean,
    ),
    "gaussian, whitened and masked": (
        made(GaussianMean, adjacency=REPLACE, noise_multiplier=1, **WHITENED),
        400,
        normal,
        of_mean,
    ),
    "covariance": (
        made(GaussianCovariance, adjacency=REPLACE, noise_multiplier=1, center=ZERO, cell=2**-10),
        1500,
        normal,
        of_covariance,
    ),
    "location, by signs": (
        made(GaussianCovariance, adjacency=ADD, noise_multiplier=1, **SEARCHED),
        2000,
        normal,
        of_location,
    ),
    "location, clipped": (
        made(
            GaussianCovariance,
            adjacency=REPLACE,
            noise_multiplier=1,
            mean_share="1/5",
            **SEARCHED,
        ),
        2000,
        normal,
        of_location,
    ),
    "location of a shape": (
        made(SignCovariance, adjacency=REPLACE, noise_multiplier=1, **SEARCHED),
        2000,
        normal,
        of_location,
    ),
}


PLAIN = (
    "robust, a ball",
    "robust, drawn in",
    "robust, a slab",
    "variance-aware",
    "location, by signs",
    "location of a shape",
)
"""Where clipping and cuts add more than noise; the other mechanisms choose a ball for which they
do not."""


@pytest.mark.parametrize("case", CASES)
def test_deviations_cover_clipping_and_cuts(case: str) -> None:
    """The mean square of 120 ratios of error and deviation, of 40 datasets, is 1; without
    ``cut`` it is more.

    It is taken for that of independent normal numbers: outside of the limits with probability 2e-6.
    """
    mechanism, n, draw, ratios = CASES[case]
    scores, without = [], []
    for run in range(DATASETS):
        data = draw(run, n)
        one = mechanism.release(data, SeededBits(run))
        assert not isinstance(one, Abstained)
        none: dict[str, Any] = {name: 0.0 for name in ("cut", "trace_cut") if hasattr(one, name)}
        if hasattr(one, "location_cut"):
            none["location_cut"] = np.zeros(D)
        scores.append(ratios(one, data))
        without.append(ratios(replace(one, **none), data))
    number = DATASETS * D
    low, high = (stats.chi2.ppf(tail, number) / number for tail in (FALSE_ALARM, 1 - FALSE_ALARM))
    square, less = np.mean(np.square(scores)), np.mean(np.square(without))
    assert low < square < high
    assert less > high if case in PLAIN else less > square
