"""Few records: mechanisms that search a box or shrink a ball lose the mean; those that ask who
agrees do not.

d = 400 columns of deviation 1 / j about 1, (1, 1e-6)-DP under add-remove; a box of 100 each way
is public where one is needed. From n = 500 to 5000 the errors of all but ``RescaledMean`` fall
by a factor of hundreds.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

from dpverify import (
    Abstained,
    Adjacency,
    ApproxDP,
    CoordinatewiseMean,
    GaussianDP,
    IterativeMean,
    RescaledMean,
    SeededBits,
    VarianceAwareMean,
)
from dpverify.plans import Mechanism
from spec import coordinatewise_mean, iterative_mean, rescaled_mean
from spec.theory import centered
from tests.mechanisms.centered import normal

D, REACH = 400, 100
DEVIATIONS = (1 / np.arange(1.0, D + 1)).tolist()
BUDGET = ApproxDP(1, "1e-6")
MULTIPLIER = Fraction("4.2247")  # GaussianDP(1 / 4.2247) implies the budget
FEW, MANY = 500, 5000
_BOX: dict[str, Any] = {
    "adjacency": Adjacency.ADD_REMOVE,
    "center": (0.0,) * D,
    "noise_multiplier": MULTIPLIER,
}


@cache
def rescaled(n: int) -> RescaledMean:
    return RescaledMean.for_budget(
        BUDGET,
        adjacency=Adjacency.ADD_REMOVE,
        covariance=[s**2 for s in DEVIATIONS],
        n_max=n,
    )


BASELINES: dict[str, Mechanism[Any]] = {
    "coordinatewise": CoordinatewiseMean(**_BOX, reach=REACH, deviations=DEVIATIONS),
    "known deviations": VarianceAwareMean(**_BOX, reach=REACH, deviations=DEVIATIONS),
    "unknown deviations": VarianceAwareMean(**_BOX, reach=REACH, least_deviation="1e-3"),
    "shrinking ball": IterativeMean.for_budget(
        BUDGET,
        adjacency=Adjacency.ADD_REMOVE,
        center=(0.0,) * D,
        radius=REACH * math.isqrt(D),
        deviation=1.0,
    ),
}


def error(mechanism: Mechanism[Any], n: int, seed: int) -> float:
    """Return the error of one release; infinite if it abstains."""
    data = normal(n, DEVIATIONS, mean=1.0, seed=seed)
    result = mechanism.release(data, SeededBits(seed))
    return math.inf if isinstance(result, Abstained) else float(np.linalg.norm(result.value - 1.0))


def wrong_side(r: float) -> float:
    """Return the probability that a search goes to the wrong side of a threshold that all
    records are on one side of, r noise deviations: of sums s of values N(r, 1) it takes the
    first beyond 2 or the third."""
    x = np.linspace(-2, 2, 2001)
    first = norm.pdf(x - r)
    second = np.array([np.trapezoid(first * norm.pdf(y - x - r), x) for y in x])
    late = np.trapezoid(first * norm.cdf(-2 - x - r), x) + np.trapezoid(
        second * norm.cdf(-x - r), x
    )
    return float(norm.cdf(-2 - r) + late)


def test_everything_keeps_the_same_budget() -> None:
    assert GaussianDP(1 / MULTIPLIER**2).implies(BUDGET)
    assert rescaled(FEW).claim.guarantee == BUDGET == BASELINES["shrinking ball"].claim.guarantee


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("seed", range(3))
def test_with_few_records_the_baselines_err_by_the_range(name: str, seed: int) -> None:
    """Seeds are fixed. With others it could fail so rarely: a column that goes wrong at a
    threshold 49 or more from all of its records has its median so far off; about 50 of 400 do,
    12 or fewer with a probability below 1e-10 (the last test but one). Estimates are within 41
    of the medians, 16 expected norms, so 13 such columns make an error of 49 sqrt(13) - 41 = 135
    but for noise of length 1. If deviations are unknown a wrong median makes a large one, and
    noise to match: 950 to 1700 were seen. Of the shrinking ball the last noise is 390 long to
    first order; 300 to 370 were seen."""
    assert error(BASELINES[name], FEW, seed) > REACH


@pytest.mark.parametrize("seed", range(3))
def test_with_few_records_a_rescaled_mean_is_right(seed: int) -> None:
    """Release with few records: the spec's bound, 25 times below the range, fails with
    probability 5e-4 for every law of this proxy, if the ladder stays on the stated radius. Seeds
    are fixed; the errors are near 0.3."""
    mechanism = rescaled(FEW)
    covariance = [s**2 for s in DEVIATIONS]
    bound = rescaled_mean.error_bound(mechanism.parameters, FEW, Fraction(1, 10**4), covariance)
    assert error(mechanism, FEW, seed) < float(bound) < REACH / 25


def test_the_search_is_too_noisy_for_few_records_by_its_own_spec() -> None:
    """Compute the probabilities of the first test; there is no chance in it."""
    parameters = BASELINES["coordinatewise"].parameters
    steps = coordinatewise_mean.steps(parameters)
    r = FEW / float(centered.step_scale(parameters, steps))
    assert binom.cdf(12, D - 1, wrong_side(r)) < 1e-10
    ball = BASELINES["shrinking ball"].parameters
    assert float(iterative_mean.noise_error(ball, FEW)) > 3.9 * REACH
    missed = [float(centered.chance_of_missing(parameters, n, steps, steps)) for n in (FEW, MANY)]
    assert missed[0] == 1
    assert missed[1] < 1e-6


@pytest.mark.parametrize("name", BASELINES)
def test_with_many_records_the_baselines_are_right(name: str) -> None:
    """Show that the number of records is what fails them. Of known deviations a median is missed
    with a probability below 1e-6 (the test above), and the noise is at most 0.6 long but in
    rarer cases; seeds are fixed."""
    assert error(BASELINES[name], MANY, 0) < REACH / 100
