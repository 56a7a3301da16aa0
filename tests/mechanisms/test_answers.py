"""Intervals of results hold at their level."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpverify import (
    Abstained,
    BernoulliMean,
    BoundedMean,
    RandomizedResponse,
    ReportsEstimate,
    RescaledMean,
    RobustMeanEstimate,
    SeededBits,
    VarianceEstimate,
)
from dpverify.estimation import answers
from dpverify.plans import DiscreteLaplace, RoundedGaussian
from dpverify.privacy.tails import Tail
from tests.mechanisms.interval_cases import ADD, CASES, REPLACE, SHARES, made

DRAWS = 300
LEAST = int(stats.binom.ppf(1e-6, DRAWS, 0.95))  # of covered draws, if 95% are
DEVIATIONS = (
    "standard_deviation",
    "deviation",
    "from_sum",
    "spread",
    "trace_spread",
    "along",
    "count_deviation",
)


def reduced(result: Any, factor: int = 2) -> Any:
    """Divide the noise that the result reports: a fault that coverage must show."""
    names = set(DEVIATIONS) & set(result.__dataclass_fields__)
    return replace(result, **{name: getattr(result, name) / factor for name in names})


def holds(result: Any, truth: Any, **how: Any) -> bool:
    """Return whether the interval holds the truth; for arrays and tuples the first number,
    unless simultaneous."""
    low, high = result.interval(0.95, **how)
    if isinstance(low, dict):
        low, high = low[0.0], high[0.0]
    inside = (np.asarray(low) <= truth) & (truth <= np.asarray(high))
    return bool(inside.all() if how.get("simultaneous") else inside.flat[0])


def drawn(mechanism: Any, data: Any, size: int = DRAWS) -> list[Any]:
    batch = mechanism.law(data).sample(SeededBits(3, 7), size)
    return [mechanism.estimate(batch[i]) for i in range(size)]


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(name, marks=pytest.mark.of_module(type(case[0]).__module__))
        for name, case in CASES.items()
    ],
)
def test_intervals_hold_at_their_level_and_half_as_much_noise_is_noticed(case: str) -> None:
    """Count covered draws: of 300 at least ``LEAST`` are covered, but for 1e-6 where 95% are;
    wrong deviations miss that.

    Half as wide intervals hold 78% at most (those of a Laplace law): they pass with probability
    below 1e-5. Those of a normal law hold 67%: of 150 they pass with probability 1.2e-6. Intervals
    of frequencies are 1.4 times as long as normal ones, and longer for few answers: a third of
    those holds 72% (864 of 1200 on other seeds), and passes with probability below 1e-9.
    """
    mechanism, data, known, how = CASES[case]
    normal = case in ("covariance", "robust", "normal law", "iterative")
    size = DRAWS // 2 if normal else DRAWS
    least = stats.binom.ppf(1e-6, size, 0.95)
    releases, truth = drawn(mechanism, data, size), known() if callable(known) else known
    assert not any(isinstance(result, Abstained) for result in releases)
    assert sum(holds(result, truth, **how) for result in releases) >= least
    factor = 3 if case == "frequencies" else 2
    assert sum(holds(reduced(result, factor), truth, **how) for result in releases) < least


@pytest.mark.parametrize(
    ("mechanism", "make", "truth"),
    [
        (
            made(BernoulliMean, adjacency=ADD, noise_multiplier=3),
            lambda rng: rng.random(200) < 0.9,
            0.9,
        ),
        (
            made(BernoulliMean, adjacency=REPLACE, noise_multiplier=1),
            lambda r: r.random(200) < 0.1,
            0.1,
        ),
        (
            made(BoundedMean, adjacency=ADD, noise_multiplier=3, lower=0, upper=1),
            lambda rng: rng.random(200) < 0.5,
            0.5,
        ),
        (
            made(RandomizedResponse, adjacency=REPLACE, noise_multiplier="1/4", categories=3),
            lambda rng: rng.choice(3, 200, p=SHARES),
            SHARES,
        ),
    ],
    ids=["share, add", "share, replace", "mean", "frequencies"],
)
def test_with_sampling_they_hold_for_the_population(mechanism: Any, make: Any, truth: Any) -> None:
    """Count with sampling; without it, where noise is small, intervals do not. False alarm: 1e-6
    where 95% are covered."""
    rng, covered, noise_alone = np.random.default_rng(11), 0, 0
    for i in range(DRAWS):
        result = mechanism.release(make(rng).astype(float), SeededBits(4, i))
        covered += holds(result, truth, sampling=True)
        noise_alone += holds(result, truth)
    assert covered >= LEAST
    assert noise_alone < covered


def test_an_interval_with_outliers_adds_the_certificate() -> None:
    """100 draws; the certificate and 95% fail more often than 20 times with probability below
    1e-7."""
    mechanism, data, _, _ = CASES["robust"]
    bad = np.concatenate([data[:3700], np.full((300, 2), [2.0, 6.0])])
    releases = drawn(mechanism, bad, 100)
    inside = 0
    for result in releases:
        low, high = result.outliers_interval(0.95)
        assert (high - low > result.interval(0.95)[1] - result.interval(0.95)[0]).all()
        inside += bool((low <= data[:3700].mean(axis=0)).all() and (high >= 0).all())
        assert result.outliers_interval(0.9985) is None
    assert inside >= 80
    assert replace(releases[0], certificate=None).outliers_interval() is None


def test_what_is_infinite_makes_no_deviation_and_no_end_nan() -> None:
    """All means of two columns whose numbers are 0, 1, with a square beyond the floats, or
    infinite; an interval is infinite on both sides where the value or its deviation is."""
    sizes, ends = (0.0, 1.0, 1e200, math.inf), ((-math.inf, 1.0), (math.inf, 1e308), (0.0, 1.0))
    for value, own, along, cut, count in product(
        ends, product(sizes, sizes), product((-math.inf, *sizes), (0.0, 1.0)), sizes, (0.0, 0.1)
    ):
        spread, moved = np.array(own), np.array(along)
        one = RobustMeanEstimate(
            np.array(value), 1.0, spread, moved, cut=cut, count_deviation=count, certificate=1.0
        )
        one = replace(one, deviations=(1e300, 1.0))
        deviation, low, high = one.standard_deviation, *one.interval()
        parts = spread, moved, np.full(2, cut)
        assert (np.isinf(deviation) == np.isinf(parts).any(axis=0)).all()
        assert not np.isnan(one.covariance).any()
        told = np.isfinite(value) & np.isfinite(deviation)
        assert (low[~told] == -math.inf).all()
        assert (high[~told] == math.inf).all()
        assert not np.isnan([low, high, *(one.outliers_interval() or ())]).any()


def test_a_mean_beyond_the_floats_has_a_deviation() -> None:
    """Half of the largest cells are released, for a radius of 1e300 and columns of 1e10."""
    made = RescaledMean(
        adjacency=ADD, noise_multiplier=1, matrix=(1e20, 1e20), radius=1e300, n_max=300, tail="1e-7"
    )
    batch = made.law(np.zeros((300, 2))).sample(SeededBits(9), 1)
    batch.values["mean"][:] = 2**61
    one = made.estimate(batch[0])
    assert not isinstance(one, Abstained)
    assert np.isinf(one.value).all()
    assert not np.isnan(one.standard_deviation).any()


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [Fraction(1, 5), Fraction(1), Fraction(7, 2), Fraction(400)])
@pytest.mark.parametrize("tail", [0.5, 0.05, 1e-9])
def test_whole_deviations_are_the_least_by_the_exact_tail(law: Any, scale: Any, tail: Any) -> None:
    exact = Tail.DISCRETE_LAPLACE if law == "laplace" else Tail.ROUNDED_GAUSSIAN
    noise = noise_of(law, scale)
    t = int(answers.whole_deviation(law, noise.standard_deviation, tail))
    assert 2 * float(exact.at_least(t + 1, scale)) <= tail * (1 + 1e-9)
    sooner = t - (1 if law == "laplace" or scale > 1 else 2)  # rounding is counted twice
    assert sooner < 0 or 2 * float(exact.at_least(sooner, scale)) > tail
    assert answers.whole_deviation(law, math.inf, tail) == math.inf
    assert answers.whole_deviation(law, 0.0, tail) == 0


def noise_of(law: str, scale: Fraction) -> Any:
    return DiscreteLaplace(scale) if law == "laplace" else RoundedGaussian(scale)


def test_the_bucket_of_most_votes_without_noise_lies_between_the_ends() -> None:
    """Draw 600 times the noise on two buckets of nearly as many groups: false alarm 1e-6 at 95%;
    alone, they often fail."""
    truth, covered, single = {2.0: 200, 8.0: 203, 32.0: 60}, 0, 0
    rng = np.random.default_rng(2)
    for _ in range(DRAWS):
        pairs = rng.geometric(1 - math.exp(-1 / 3), (2, 3))
        votes = {
            k: int(v + z) for (k, v), z in zip(truth.items(), pairs[0] - pairs[1], strict=True)
        }
        deviation = noise_of("laplace", Fraction(3)).standard_deviation
        most = max(votes, key=lambda name: votes[name])
        low, high = VarianceEstimate(most, votes, 463, 40, deviation).interval()
        covered += low <= 4.0 and high >= 16.0
        single += most == 8.0
        assert high <= 16.0  # 140 groups fewer are told apart
    assert covered >= LEAST > single


def test_buckets_have_edges() -> None:
    votes = {2.0: 90, 8.0: 10}
    assert VarianceEstimate(2.0, votes, 100, 5, 0.5).interval() == (1.0, 4.0)
    assert ReportsEstimate(2.0, votes, 100, 5, 0.5).interval() == (2.0, 2.0)
    assert VarianceEstimate(2.0, votes, 100, 5, 30.0).interval() == (0.0, math.inf)
    assert VarianceEstimate(0.0, {0.0: 90}, 100, 5, 0.5).interval() == (0.0, 0.0)
