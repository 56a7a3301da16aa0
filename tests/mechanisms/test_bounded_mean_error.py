"""``bounded_mean``: its error is the predicted one, falls as 1/n, and stays within its bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify import Adjacency, BoundedMean, MeanEstimate
from spec import bounded_mean as spec
from tests.mechanisms.helpers import (
    RELEASES,
    estimates,
    fails_at_most,
    mean_square_fits,
    slope,
)

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
LOWER, UPPER = 120.0, 200.0


def heights(adjacency: Adjacency, **parameters: Any) -> BoundedMean:
    base: dict[str, Any] = {"noise_multiplier": 1, "lower": LOWER, "upper": UPPER}
    return BoundedMean(adjacency=adjacency, **base | parameters)


def column(n: int, mean: float) -> np.ndarray:
    """n records of this clamped mean; one in ten lies beyond a bound by as much as can be."""
    data = np.full(n, mean)
    far = n // 10 if n >= 10 else 0
    data[:far] = 1e308
    inside = (mean * n - UPPER * far) / (n - far)
    data[far:] = inside
    return data


def errors(mechanism: BoundedMean, n: int, mean: float, seed: int, size: int) -> list[float]:
    releases = estimates(mechanism, column(n, mean), seed, size)
    assert all(isinstance(estimate, MeanEstimate) for estimate in releases)
    return [estimate.value - mean for estimate in releases]


CASES = [
    (ADD, 1000, 160.0, "1/4"),
    (ADD, 1000, 175.0, "1/4"),
    (ADD, 3000, 140.0, "1/2"),
    (REPLACE, 50, 160.0, "1/4"),
    (REPLACE, 1000, 190.0, "1/4"),
]


@pytest.mark.parametrize(("adjacency", "n", "mean", "share"), CASES)
def test_the_error_is_the_predicted_one(
    adjacency: Adjacency, n: int, mean: float, share: str
) -> None:
    """Compare to first order in 1/n: at these n the rest is below 1% of the mean square."""
    right = heights(adjacency, count_share=share)
    wrong = replace(right, noise_multiplier=right.noise_multiplier * Fraction(13, 10))
    predicted = float(spec.expected_error(right.parameters, n, mean))
    offsets = errors(right, n, mean, 1, RELEASES)
    assert mean_square_fits(offsets, predicted)
    assert not mean_square_fits(errors(wrong, n, mean, 2, RELEASES), predicted)
    # The bias is of second order: the mean of 2000 has sd predicted / 44, and 6 sd have probability
    # below 1e-8 (normal).
    assert abs(float(np.mean(offsets))) < 6 * predicted / math.sqrt(RELEASES)


def test_each_estimate_states_its_deviation() -> None:
    """The stated deviation is the prediction at the released values, so close to it at n = 10^4."""
    mechanism, n, mean = heights(ADD), 10_000, 175.0
    predicted = float(spec.expected_error(mechanism.parameters, n, mean))
    stated = [result.standard_deviation for result in estimates(mechanism, column(n, mean), 3, 200)]
    # A relative 2% is 30 sd of the released count's noise, and 60 of the sum's.
    assert max(abs(deviation / predicted - 1) for deviation in stated) < 0.02


SIZES = (100, 1000, 10_000, 100_000)


def rms_at(adjacency: Adjacency, multiplier: Callable[[int], Fraction]) -> Callable[[int], float]:
    def rms(n: int) -> float:
        mechanism = heights(adjacency, noise_multiplier=multiplier(n))
        return float(np.sqrt(np.mean(np.square(errors(mechanism, n, 165.0, n, 1500)))))

    return rms


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_the_error_falls_as_one_over_n(adjacency: Adjacency) -> None:
    # The logarithm of an RMS of 1500 has sd 0.029 (kurtosis 6), so the slope over three decades has
    # sd 0.029 / 5.15 = 0.0056: 0.05 is 8.8 sd, a false alarm has probability below 1e-10 (normal).
    rate = slope(SIZES, rms_at(adjacency, lambda n: Fraction(1, 2)))
    assert abs(rate + 1) < 0.05


def test_another_rate_is_noticed() -> None:
    # Planted: noise that grows as n^0.1.
    grows = rms_at(REPLACE, lambda n: Fraction(n**0.1) / 2)
    assert abs(slope(SIZES, grows) + 1) > 0.05


@pytest.mark.parametrize(("adjacency", "n"), [(ADD, 300), (REPLACE, 100)])
def test_the_error_bound_fails_as_rarely_as_stated(adjacency: Adjacency, n: int) -> None:
    mechanism, beta, mean = heights(adjacency), Fraction(1, 20), 190.0
    bound = float(spec.error_bound(mechanism.parameters, n, beta))
    offsets = errors(mechanism, n, mean, 4, RELEASES)
    assert fails_at_most(offsets, bound, float(beta))
    assert not fails_at_most(offsets, bound / 3, float(beta))


def test_the_error_bound_speaks_only_of_data_that_are_enough() -> None:
    mechanism = heights(ADD, at_least=20)
    with pytest.raises(ValueError, match="within the count's noise"):
        spec.error_bound(mechanism.parameters, 25, Fraction(1, 20))


def test_abstention_is_as_frequent_as_minimum_n_says() -> None:
    """Count abstentions: at minimum_n at most beta, with ten records fewer far more."""
    mechanism = heights(ADD, at_least=30)
    least = mechanism.minimum_n(beta="0.05")

    def abstained(n: int, seed: int) -> list[float]:
        return [
            float(not isinstance(e, MeanEstimate)) for e in estimates(mechanism, [160.0] * n, seed)
        ]

    assert fails_at_most(abstained(least, 5), 1.0, 0.05)
    assert not fails_at_most(abstained(least - 3, 6), 1.0, 0.05)
