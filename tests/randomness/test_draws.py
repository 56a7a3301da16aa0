"""Draws by block inversion: their laws by chi-square, their ranges, sizes and refusals."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from dpverify.privacy.numbers import Floats
from dpverify.randomness import Bits, SeededBits
from dpverify.randomness.bits import IntArray
from dpverify.randomness.samplers import (
    discrete_gaussian,
    discrete_laplace,
    discrete_laplace_by_coins,
    rounded_gaussian,
)
from tests.randomness.helpers import NoBits, ScriptedBits

FALSE_ALARM = 1e-7
"""False-alarm probability of one chi-square test; its cells expect 20 draws or more."""
DRAWS = 200_000
Sampler = Callable[[Bits, Fraction, int], IntArray]


def unit(sampler: Sampler, scale: Fraction) -> Callable[[int, int], Any]:
    """Return the sampler's mass of the integers from a to b - 1, up to a constant for the discrete
    laws.
    """
    s = mp.mpf(scale.numerator) / scale.denominator
    if sampler is rounded_gaussian:
        below = cache(lambda x: mp.ncdf((x - mp.mpf(1) / 2) / s))
        return lambda a, b: below(b) - below(a)
    if sampler is discrete_gaussian:
        return lambda a, b: mp.fsum(mp.exp(-x * x / (2 * s * s)) for x in range(a, b))
    return lambda a, b: mp.fsum(mp.exp(-abs(x) / s) for x in range(a, b))


def chi_square(
    masses: Callable[[int, int], Any], scale: Fraction, *batches: IntArray
) -> list[float]:
    """Return the P-values of batches of integers in cells of width scale / 8 or more, tails
    pooled."""
    width = max(1, int(scale / 8))
    far = max(8, int(20 * scale)) // width
    edges = np.arange(-far, far + 2) * width - width // 2  # cell i: [edges[i], edges[i + 1])
    with mp.workdps(25):
        weights = np.array([float(masses(a, b)) for a, b in pairwise(edges.tolist())])
    return [_p_value(draws, edges, weights / weights.sum(), far * width) for draws in batches]


def _p_value(draws: IntArray, edges: IntArray, shares: Floats, end: int) -> float:
    expected = shares * len(draws)
    observed = np.histogram(draws, bins=edges)[0].astype(float)
    assert abs(draws).max() < end
    big = expected >= 20
    pooled = [expected[~big].sum(), observed[~big].sum()]
    statistic = float(((observed - expected)[big] ** 2 / expected[big]).sum())
    if pooled[0] >= 20:
        statistic += float((pooled[1] - pooled[0]) ** 2 / pooled[0])
    cells = int(big.sum()) + (pooled[0] >= 20)
    return float(stats.chi2.sf(statistic, cells - 1))


SAMPLERS: list[Sampler] = [discrete_laplace, discrete_gaussian, rounded_gaussian]
CHI_SQUARE_SCALES = [Fraction(text) for text in ("1/2", "1", "7/3", "40", "1000/7")]


@pytest.mark.parametrize("scale", CHI_SQUARE_SCALES, ids=str)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_draws_pass_chi_square(sampler: Sampler, scale: Fraction) -> None:
    # False alarm 1e-7 a batch, 2e-7 a test: a large one, and many that the second stage draws.
    large = sampler(SeededBits(31, scale.numerator), scale, DRAWS)
    bits = SeededBits(32, scale.numerator)
    small = np.concatenate([sampler(bits, scale, 4000) for _ in range(DRAWS // 4000)])
    assert min(chi_square(unit(sampler, scale), scale, large, small)) > FALSE_ALARM


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_scale_three_percent_too_large_fails_chi_square(sampler: Sampler) -> None:
    scale = Fraction(40)
    draws = sampler(SeededBits(33), scale * Fraction(103, 100), DRAWS)
    (p_value,) = chi_square(unit(sampler, scale), scale, draws)
    assert p_value < FALSE_ALARM


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(9, 4), Fraction(100)], ids=str)
def test_blocks_and_coins_are_equal_in_law(scale: Fraction) -> None:
    """Two samples of 50,000 in the same cells, each of at least 40 of them; false alarm 1e-7."""
    blocks = discrete_laplace(SeededBits(34), scale, 50_000)
    coins = discrete_laplace_by_coins(SeededBits(35), scale, 50_000)
    edges = np.unique(np.quantile(np.concatenate([blocks, coins]), np.linspace(0, 1, 60)[1:-1]))
    counts = [
        np.bincount(np.searchsorted(edges, z), minlength=len(edges) + 1) for z in (blocks, coins)
    ]
    table = np.array(counts)[:, np.sum(counts, axis=0) >= 40]
    assert stats.chi2_contingency(table).pvalue > FALSE_ALARM
    shifted = np.array([counts[0], np.roll(counts[1], 1)])
    assert stats.chi2_contingency(shifted[:, shifted.sum(axis=0) > 0]).pvalue < FALSE_ALARM


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("power", [-10, -3, 20, 45])
def test_the_ends_of_the_supported_scales(sampler: Sampler, power: int) -> None:
    scale = Fraction(2) ** power
    draws = sampler(SeededBits(36), scale, 20_000)
    assert draws.dtype == np.int64
    mean = float(np.abs(draws.astype(np.float64) / float(scale)).mean())
    if power < 0:
        # P(Z != 0) < 2 exp(-8) for the widest of them.
        assert np.count_nonzero(draws) < 60
    else:
        # The mean of 20,000 has a standard deviation of at most 0.0071; 6 of them, below 1e-8.
        true = 1.0 if sampler is discrete_laplace else float(np.sqrt(2 / np.pi))
        assert abs(mean - true) < 6 * 0.0071
        assert abs(int(np.sum(draws & 1)) - 10_000) < 6 * 71  # 20,000 fair coins, below 1e-8
        assert abs(int(np.sum(draws > 0)) - 10_000) < 6 * 71


@pytest.mark.parametrize("sampler", [discrete_gaussian, rounded_gaussian])
@pytest.mark.parametrize(
    "sigma", [Fraction(0), Fraction(-1), Fraction(1, 1025), Fraction(2**45 + 1)], ids=str
)
def test_an_unsupported_sigma_is_refused(sampler: Sampler, sigma: Fraction) -> None:
    with pytest.raises(ValueError, match=r"2\^-10 <= sigma <= 2\^45. Choose another unit"):
        sampler(NoBits(), sigma, 1)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_words_of_another_size_are_refused(sampler: Sampler) -> None:
    with pytest.raises(ValueError, match="word_bits = 8"):
        sampler(ScriptedBits([], word_bits=8), Fraction(1), 1)


@pytest.mark.parametrize("scale", [Fraction(1, 1025), Fraction(2**45 + 1), Fraction(2**70)])
def test_other_scales_of_laplace_are_drawn_by_coins(scale: Fraction) -> None:
    drawn, coins = (
        f(SeededBits(37), scale, 50) for f in (discrete_laplace, discrete_laplace_by_coins)
    )
    assert drawn.tolist() == coins.tolist()


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("size", [0, 1, 4096, 4097, 40_000])
def test_any_size(sampler: Sampler, size: int) -> None:
    assert sampler(SeededBits(38), Fraction(50), size).shape == (size,)
