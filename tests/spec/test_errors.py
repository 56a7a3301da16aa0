"""Error bounds and expected errors, by summing exact probabilities over every outcome that counts.

The sums are float64 over at most a million outcomes and right to about 1e-12; nothing is sampled,
so no test here can fail by chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from dpverify.privacy import Adjacency
from spec import bounded_mean, noisy_count, randomized_response

Floats = NDArray[np.float64]
_MULTIPLIERS = [Fraction(text) for text in ("1/10", "1/2", "1", "10/3", "25")]
_BETAS = [Fraction(text) for text in ("1/2", "1/10", "1/1000", "1/1000000")]


def _noise(scale: Fraction) -> tuple[Floats, Floats]:
    """Values and masses of discrete Laplace noise, as far as float64 sees it."""
    reach = int(45 * scale) + 5
    values = np.arange(-reach, reach + 1, dtype=np.float64)
    weights = np.exp(-np.abs(values) / float(scale))
    return values, weights / weights.sum()


# --- the count ----------------------------------------------------------------------------------

ErrorBound = Callable[[Mapping[str, Any], Fraction], int]


def _count_bound_is_least(error_bound: ErrorBound) -> bool:
    """P(|error| >= t) is at most beta, and above beta at t - 1; at 40 digits."""
    with mp.workdps(40):
        for multiplier in _MULTIPLIERS:
            w = mp.exp(-mp.mpf(multiplier.denominator) / multiplier.numerator)
            weights = [w**z for z in range(int(100 * multiplier) + 20)]
            total = weights[0] + 2 * mp.fsum(weights[1:])
            for beta in _BETAS:
                t = error_bound({"noise_multiplier": multiplier}, beta)
                allowed = mp.mpf(beta.numerator) / beta.denominator * total
                if t < 1 or 2 * mp.fsum(weights[t:]) > allowed:
                    return False
                if t > 1 and 2 * mp.fsum(weights[t - 1 :]) <= allowed:
                    return False
    return True


def test_the_count_s_error_bound_holds_and_is_the_least() -> None:
    assert _count_bound_is_least(noisy_count.error_bound)


@pytest.mark.parametrize("shift", [-1, 1])
def test_an_error_bound_off_by_one_is_caught(shift: int) -> None:
    def shifted(parameters: Mapping[str, Any], beta: Fraction) -> int:
        return noisy_count.error_bound(parameters, beta) + shift

    assert not _count_bound_is_least(shifted)


@pytest.mark.parametrize("multiplier", _MULTIPLIERS)
def test_the_count_s_expected_error_is_its_noise_s_deviation(multiplier: Fraction) -> None:
    values, masses = _noise(multiplier)
    expected = math.sqrt(float(values**2 @ masses))
    actual = float(noisy_count.expected_error({"noise_multiplier": multiplier}))
    assert math.isclose(expected, actual, rel_tol=1e-10)


# --- the mean -----------------------------------------------------------------------------------


def _mean_parameters(adjacency: Adjacency, **changes: Any) -> dict[str, Any]:
    return {
        "adjacency": adjacency,
        "noise_multiplier": Fraction(1),
        "lower": -1.0,
        "upper": 3.5,
        "count_share": Fraction(1, 4),
        "at_least": 2,
        "cell": Fraction(1, 2),
        **changes,
    }


def _mean_errors(parameters: Mapping[str, Any], records: list[Fraction]) -> tuple[Floats, Floats]:
    """|clipped estimate - clamped mean| and its mass for each pair of count and sum noise.

    Written from the mechanism's description: clamp, round to cells about the middle, add noise,
    divide. Where there are too few records by the noisy count the error is infinite.
    """
    low, high = Fraction(parameters["lower"]), Fraction(parameters["upper"])
    cell, n = parameters["cell"], len(records)
    bounds = round(low / cell), round(high / cell)
    center = (bounds[0] + bounds[1]) // 2
    radius = max(bounds[1] - center, center - bounds[0])
    cells = [min(max(round(x / cell), bounds[0]), bounds[1]) - center for x in records]
    truth = float(sum(min(max(x, low), high) for x in records) / n)
    if parameters["adjacency"] is Adjacency.REPLACE:
        counts, count_masses = np.array([float(n)]), np.array([1.0])
        scale = parameters["noise_multiplier"] * (bounds[1] - bounds[0])
    else:
        share = parameters["count_share"]
        noise, count_masses = _noise(parameters["noise_multiplier"] / share)
        counts = n + noise
        scale = parameters["noise_multiplier"] * radius / (1 - share)
    sums, sum_masses = _noise(scale)
    enough = counts >= parameters["at_least"]
    divisors = np.where(enough, counts, 1.0)
    estimates = (center + (sum(cells) + sums[None, :]) / divisors[:, None]) * float(cell)
    errors = np.abs(np.clip(estimates, float(low), float(high)) - truth)
    errors[~enough] = np.inf
    return errors, count_masses[:, None] * sum_masses[None, :]


_RECORDS = {
    "all at the upper bound": [Fraction(99)] * 200,
    "all at the lower bound": [Fraction(-7)] * 200,
    "between the cells": [Fraction(1, 4)] * 200,
    "mixed": [Fraction(i % 13, 3) - 2 for i in range(200)],
}


def _failure(parameters: Mapping[str, Any], records: list[Fraction], bound: float) -> float:
    errors, masses = _mean_errors(parameters, records)
    return float(masses[errors > bound].sum())


@pytest.mark.parametrize("records", _RECORDS.values(), ids=_RECORDS)
@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_mean_s_error_bound_fails_no_more_often_than_beta(
    adjacency: Adjacency, records: list[Fraction]
) -> None:
    parameters = _mean_parameters(adjacency)
    for beta in (Fraction(1, 2), Fraction(1, 20), Fraction(1, 1000)):
        bound = float(bounded_mean.error_bound(parameters, len(records), beta))
        assert _failure(parameters, records, bound) <= float(beta) + 1e-10


@pytest.mark.parametrize("adjacency", Adjacency)
def test_a_much_smaller_error_bound_for_the_mean_is_caught(adjacency: Adjacency) -> None:
    # The union bound and the half cell cost less than a factor of 3 here.
    parameters, beta = _mean_parameters(adjacency), Fraction(1, 20)
    bound = float(bounded_mean.error_bound(parameters, 200, beta))
    worst = max(_failure(parameters, records, bound / 3) for records in _RECORDS.values())
    assert worst > float(beta)


def test_the_half_cell_is_needed() -> None:
    # Without noise to speak of all that is left is rounding: records at 1/4 in cells of 1/2.
    parameters = _mean_parameters(Adjacency.REPLACE, noise_multiplier=Fraction(1, 1000))
    bound = float(bounded_mean.error_bound(parameters, 200, Fraction(1, 1000)))
    half_cell = 0.25
    assert _failure(parameters, _RECORDS["between the cells"], bound) < 1e-12
    assert _failure(parameters, _RECORDS["between the cells"], bound - half_cell) > 0.9


def test_too_few_records_for_the_bound_are_refused() -> None:
    parameters = _mean_parameters(Adjacency.ADD_REMOVE)
    with pytest.raises(ValueError, match="n = 3 is within the count's noise"):
        bounded_mean.error_bound(parameters, 3, Fraction(1, 1000))


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("mean", [Fraction(3), Fraction(1), Fraction(-1, 2)])
def test_the_mean_s_expected_error_is_right_to_first_order(
    adjacency: Adjacency, mean: Fraction
) -> None:
    parameters = _mean_parameters(adjacency, noise_multiplier=Fraction(1, 2))
    n = 2000
    errors, masses = _mean_errors(parameters, [mean] * n)
    exact = math.sqrt(float((errors**2 * masses).sum()))
    stated = float(bounded_mean.expected_error(parameters, n, float(mean)))
    # The next order is the count's deviation over n, about 3 / 2000, squared or so.
    assert math.isclose(exact, stated, rel_tol=1e-3)


# --- randomized response ------------------------------------------------------------------------


def _response(k: int, multiplier: Fraction, n: int, ones: int) -> tuple[Floats, Floats]:
    """Errors and masses of one category's share, ``ones`` of n answers being it."""
    w = math.exp(-1 / float(multiplier))
    keep = 1 / (1 + (k - 1) * w)
    true = binom.pmf(np.arange(ones + 1), ones, keep)
    false = binom.pmf(np.arange(n - ones + 1), n - ones, w * keep)
    masses: Floats = np.convolve(true, false)
    estimates = (np.arange(n + 1) / n - w * keep) / (keep - w * keep)
    return estimates - ones / n, masses


_RESPONSES = [(2, Fraction(1), 50), (2, Fraction(10), 400), (5, Fraction(1, 2), 120)]


@pytest.mark.parametrize(("k", "multiplier", "n"), _RESPONSES)
@pytest.mark.parametrize("beta", _BETAS)
def test_the_response_s_error_bound_fails_no_more_often_than_beta(
    k: int, multiplier: Fraction, n: int, beta: Fraction
) -> None:
    parameters = {"categories": k, "noise_multiplier": multiplier}
    bound = float(randomized_response.error_bound(parameters, n, beta))
    for ones in (0, 1, n // 3, n // 2, n):
        errors, masses = _response(k, multiplier, n, ones)
        assert float(masses[np.abs(errors) >= bound].sum()) <= float(beta) + 1e-12


@pytest.mark.parametrize(("k", "multiplier", "n"), _RESPONSES)
def test_a_third_of_the_response_s_error_bound_is_caught(
    k: int, multiplier: Fraction, n: int
) -> None:
    beta = Fraction(1, 10)
    parameters = {"categories": k, "noise_multiplier": multiplier}
    bound = float(randomized_response.error_bound(parameters, n, beta)) / 3
    errors, masses = _response(k, multiplier, n, n // 2)
    assert float(masses[np.abs(errors) >= bound].sum()) > float(beta)


@pytest.mark.parametrize(("k", "multiplier", "n"), _RESPONSES)
def test_the_response_s_expected_error_is_exact(k: int, multiplier: Fraction, n: int) -> None:
    parameters = {"categories": k, "noise_multiplier": multiplier}
    for ones in (0, 1, n // 3, n):
        errors, masses = _response(k, multiplier, n, ones)
        assert abs(float(errors @ masses)) < 1e-10, "the estimate is unbiased"
        exact = math.sqrt(float(errors**2 @ masses))
        stated = float(randomized_response.expected_error(parameters, n, ones / n))
        assert math.isclose(exact, stated, rel_tol=1e-9)
