"""Intervals cover what they say, and no more than they say."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpverify.rates import Metric, RateClaim, looks, stages
from dpverify.rates.metrics import (
    FEWEST_REPEATS,
    Interval,
    alpha_of_few,
    mean_square,
    order_statistics,
)

ALPHA = 0.05
RUNS = 4000
# Misses of a true interval are binomial(4000, rate); each limit is passed with probability 1e-7.


def _at_most(rate: float) -> float:
    return float(stats.binom.isf(1e-7, RUNS, rate))


def _misses(law: Any, size: int, truth: float, interval: Any) -> tuple[int, int]:
    rng = np.random.default_rng(7)
    below = above = 0
    for _ in range(RUNS):
        bounds = interval(law(rng, size))
        below, above = below + (bounds.high < truth), above + (bounds.low > truth)
    return below, above


LAWS = {
    "laplace": (lambda rng, size: rng.laplace(size=size), 2.0),
    "normal": (lambda rng, size: rng.normal(size=size), 1.0),
}


@pytest.mark.parametrize("law", LAWS)
def test_a_mean_square_is_covered(law: str) -> None:
    """Asymptotic: of 1000 errors each end misses at most 1.3 times as often as stated (measured
    over 20,000 runs: 1.23 above for Laplace, 1.07 for normal errors). False alarm: 1e-7 an
    end."""
    draw, truth = LAWS[law]
    below, above = _misses(draw, 1000, truth, lambda e: mean_square(e, ALPHA))
    assert max(below, above) <= _at_most(1.3 * ALPHA / 2)


def test_without_the_transformation_it_is_not() -> None:
    """Planted: the plain t interval, of 200 Laplace errors; it misses above twice as often."""

    quantile = stats.t.isf(ALPHA / 2, 199) / math.sqrt(200)

    def plain(errors: Any) -> Any:
        squares = errors**2
        half = quantile * squares.std(ddof=1)
        return Interval(0.0, squares.mean() - half, squares.mean() + half)

    draw, truth = LAWS["laplace"]
    below, _ = _misses(draw, 200, truth, plain)
    assert below > _at_most(1.5 * ALPHA / 2)
    below, _ = _misses(draw, 200, truth, lambda e: mean_square(e, ALPHA))
    assert below <= _at_most(1.5 * ALPHA / 2)


def _upper_ends(squares: Any, alpha: float) -> Any:
    """Return the upper end of Hall's interval for the mean of each row, of all rows at once."""
    size = squares.shape[1]
    mean, deviation = squares.mean(axis=1), squares.std(axis=1, ddof=1)
    apart = (squares - mean[:, None]) / deviation[:, None]
    cubes = np.einsum("ij,ij,ij->i", apart, apart, apart) / size
    skewness, z = cubes / math.sqrt(size), -float(stats.t.isf(alpha / 2, size - 1))
    far = 3 / skewness * (np.cbrt(1 + skewness * (z - skewness / 6)) - 1)
    return mean - deviation / math.sqrt(size) * far


def _high_misses(degrees: int, size: int, alpha: float) -> float:
    """Return the probability that the upper end is below the mean of so many chi-squares that
    have an interval, by importance sampling from smaller ones.

    Only rows whose upper end is near that mean, or below it, are measured one by one.
    """
    rng, shape, rates = np.random.default_rng(11), degrees / 2, list[float]()
    spread = float(stats.norm.isf(alpha / 2)) / math.sqrt(shape * size)
    for share in (0.7, 0.85, 1.0):
        scale = 1 / (1 + share * spread)
        halves = rng.gamma(shape, scale, (3000, size))
        ratios = size * shape * math.log(scale) - halves.sum(axis=1) * (1 - 1 / scale)
        ends = _upper_ends(halves, alpha)
        near = np.flatnonzero(ends < 1.1 * shape)
        highs = np.array([Metric().measure(np.sqrt(halves[i]), alpha).high ** 2 for i in near])
        finite = np.isfinite(highs)
        assert np.allclose(highs[finite], ends[near][finite], rtol=1e-6)
        rates.append(float(np.exp(ratios[near[highs < shape]]).sum()) / len(halves))
    return max(rates)


@pytest.mark.parametrize(
    ("degrees", "size", "alpha"),
    [(5, 50, 1e-8), (36, 50, 1e-8), (2, 100, 1e-8), (3, 50, 5e-11)],
)
def test_few_errors_miss_above_no_more_often_than_many(
    degrees: int, size: int, alpha: float
) -> None:
    """Compare with 200 errors at the same alpha. Planted: no correction, with which 50 or 100 miss
    more often. Without chance: the draws are fixed.
    """
    many = _high_misses(degrees, 200, alpha)
    assert _high_misses(degrees, size, alpha_of_few(alpha, size)) < many
    assert _high_misses(degrees, size, alpha) > 1.3 * many
    assert alpha_of_few(alpha, 200) == alpha_of_few(alpha, 5000) == alpha


def test_without_a_word_on_their_law_at_least_200_errors_are_looked_at() -> None:
    """Fifty errors, of which one in 40 is four times as large, often show none of these."""
    assert RateClaim.__dataclass_fields__["fewest"].default == FEWEST_REPEATS == 200
    for repeats in (200, 400, 1000, 10_000):
        assert min(look.repeats for look in looks(repeats, 200)) >= 200
        assert min(size for size, _ in stages(repeats, 200)) >= 200


@pytest.mark.parametrize(("size", "level"), [(200, 0.5), (1000, 0.95)])
def test_a_quantile_is_covered_for_every_law(size: int, level: float) -> None:
    """Exact for continuous errors, conservative for integers. False alarm: 1e-7 an end."""
    truth = float(stats.norm.ppf((1 + level) / 2))
    for law, quantile in (
        (lambda rng, n: np.abs(rng.normal(size=n)), truth),
        (lambda rng, n: np.floor(10 * np.abs(rng.normal(size=n))), math.floor(10 * truth)),
    ):
        below, above = _misses(law, size, quantile, lambda e: order_statistics(e, level, ALPHA))
        assert max(below, above) <= _at_most(ALPHA / 2)


def test_a_quantile_s_ends_are_order_statistics_of_the_binomial() -> None:
    errors = np.arange(1.0, 101.0)
    interval = order_statistics(errors, 0.5, 0.05)
    assert (interval.low, interval.high) == (40.0, 61.0)
    assert stats.binom.cdf(39, 100, 0.5) <= 0.025 < stats.binom.cdf(40, 100, 0.5)
    assert stats.binom.sf(60, 100, 0.5) <= 0.025 < stats.binom.sf(59, 100, 0.5)


def test_ends_that_no_order_statistic_reaches() -> None:
    errors = np.arange(1.0, 201.0)
    assert order_statistics(errors, 0.999, 0.05).high == math.inf
    assert order_statistics(errors, 0.001, 0.05).low == 0.0


def test_a_single_value_of_a_lattice_is_no_interval() -> None:
    """Measure integers: the quantile can be certain; a slope through certain points is one
    through roundings."""
    errors = np.repeat([3.0, 4.0, 6.0], 1000)
    interval = order_statistics(errors, 0.5, 0.05)
    assert (interval.low, interval.value, interval.high) == (3.0, 4.0, 6.0)
    same = order_statistics(np.full(300, 2.0), 0.5, 0.05)
    assert (same.low, same.value, same.high) == (0.0, 2.0, math.inf)


def test_an_abstention_makes_a_root_mean_square_infinite_but_not_a_median() -> None:
    errors = np.append(np.ones(300), math.inf)
    assert Metric("rms").measure(errors, 0.05).low == math.inf
    assert Metric("median").measure(errors, 0.05).value == 1.0


def test_errors_that_a_few_carry_have_no_interval() -> None:
    """Compute without chance: 999 squares of 1, and one below or above 5% of the sum
    (999 / 19 = 52.6)."""
    errors = np.append(np.ones(999), math.sqrt(52))
    interval = Metric("rms").measure(errors, 1e-9)
    assert 0 < interval.low < interval.value < interval.high < math.inf
    errors[-1] = math.sqrt(53)
    interval = Metric("rms").measure(errors, 1e-9)
    assert (interval.low, interval.high) == (0.0, math.inf)
    assert math.isclose(interval.value, math.sqrt(1052 / 1000))


def test_errors_without_spread_have_no_interval() -> None:
    with pytest.raises(ValueError, match="All 300 errors are 2"):
        Metric("rms").measure(np.full(300, 2.0), 0.05)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mean",), "no metric 'mean'; take one of rms, median, quantile"),
        (("quantile", 1.0), "level = 1.0 is outside"),
        (("rms", 0.9), "has no level"),
        (("median", 0.5, "t"), "has no level"),
        (("quantile", 0.9, "t"), "give one of them"),
    ],
)
def test_bad_metrics_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Metric(*arguments)


def test_a_level_is_read_from_the_setting() -> None:
    """The quantile that is exceeded with probability exp(-t)."""
    metric = Metric("quantile", tail="t")
    errors = np.arange(1.0, 1001.0)
    for t, level in ((math.log(2), 0.5), (math.log(10), 0.9), (3.0, 1 - math.exp(-3))):
        own = metric.at({"t": t, "n": 5})
        assert own.level == pytest.approx(level)
        assert own.measure(errors, 0.05) == Metric("quantile", own.level).measure(errors, 0.05)
        assert own.measure(errors, 0.05).value == math.ceil(own.level * 1000)
    assert Metric("rms").at({}) == Metric("rms")
    assert str(metric) == "1 - exp(-t) quantile"
    for setting in ({}, {"t": 0}, {"t": -1.0}):
        with pytest.raises(ValueError, match="is no positive number of the setting"):
            metric.at(setting)
    with pytest.raises(ValueError, match=r"take .at\(setting\)"):
        metric.measure(errors, 0.05)


@pytest.mark.parametrize("share", [0.01, 0.3])
def test_a_share_of_misses_is_covered(share: float) -> None:
    """Clopper and Pearson: each end misses at most as often as stated; abstentions, being
    infinite, are misses."""

    def errors(rng: Any, size: int) -> Any:
        return np.where(rng.random(size) < share, math.inf, 1.0)

    misses = Metric("misses", beyond=4.0)
    below, above = _misses(errors, 200, share, lambda e: misses.measure(e, ALPHA))
    assert max(below, above) <= _at_most(ALPHA / 2)


def test_a_share_of_misses_at_its_ends() -> None:
    misses = Metric("misses", beyond=4.0)
    none, all_ = (misses.measure(np.full(100, e), ALPHA) for e in (4.0, 4.5))
    assert (none.value, none.low) == (0.0, 0.0)
    assert (all_.value, all_.high) == (1.0, 1.0)
    assert none.high == pytest.approx(1 - 0.025**0.01)
    assert str(misses) == "share above 4"


@pytest.mark.parametrize("given", [{"kind": "misses"}, {"kind": "rms", "beyond": 4.0}])
def test_misses_alone_have_a_number_to_be_beyond(given: Any) -> None:
    with pytest.raises(ValueError, match="beyond"):
        Metric(**given)
