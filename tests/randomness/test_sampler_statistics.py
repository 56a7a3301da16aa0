"""The samplers at the scales and sizes of real use, where enumeration does not reach."""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from dpverify.randomness import SeededBits, discrete_laplace, randomized_response
from dpverify.randomness.bits import IntArray

DRAWS = 200_000
FALSE_ALARM = 1e-6
"""Of one chi-square test, over the choice of the seed; every cell expects 20 draws or more, so the
chi-square law is close even in the tail (the test statistic's own discreteness is far smaller)."""


def cumulative(edge: int, scale: Fraction) -> float:
    """P(Z <= edge), to float accuracy, from mpmath and not from the code under test."""
    with mp.workdps(40):
        w = mp.exp(-mp.mpf(scale.denominator) / scale.numerator)
        below = w ** abs(edge) / (1 + w) if edge < 0 else 1 - w ** (edge + 1) / (1 + w)
        return float(below)


def edges_for(scale: Fraction) -> list[int]:
    """Integers that cut the line into cells of at least 1e-4 of the mass each (20 draws)."""
    width = max(1, int(scale / 3))
    edges = [i * width for i in range(-40, 41)]
    kept = [edges[0]]
    for edge in edges[1:]:
        if cumulative(edge, scale) - cumulative(kept[-1], scale) >= 1e-4:
            kept.append(edge)
    while cumulative(kept[0], scale) < 1e-4:
        kept.pop(0)
    while 1 - cumulative(kept[-1], scale) < 1e-4:
        kept.pop()
    return kept


def fits(draws: IntArray, scale: Fraction) -> bool:
    """Return whether the draws pass a chi-square test of the discrete Laplace law of this scale."""
    edges = edges_for(scale)
    cells = np.searchsorted(np.array(edges), draws.astype(np.int64), side="left")
    observed = np.bincount(cells, minlength=len(edges) + 1)
    bounds = [0.0, *(cumulative(edge, scale) for edge in edges), 1.0]
    expected = np.diff(bounds) * len(draws)
    assert expected.min() >= 20
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return bool(statistic < stats.chi2.isf(FALSE_ALARM, len(expected) - 1))


STATISTICAL_SCALES = [Fraction(s) for s in ("1/3", "1", "5/2", "40/3", "1000", "1000000")]


@pytest.mark.parametrize("scale", STATISTICAL_SCALES, ids=str)
def test_discrete_laplace_passes_chi_square(scale: Fraction) -> None:
    # False alarm 1e-6 for each scale.
    draws = discrete_laplace(SeededBits(20, scale.numerator), scale, DRAWS)
    assert fits(draws, scale)


@pytest.mark.parametrize("scale", STATISTICAL_SCALES, ids=str)
def test_a_scale_five_percent_too_large_is_rejected(scale: Fraction) -> None:
    draws = discrete_laplace(SeededBits(21, scale.numerator), scale * Fraction(21, 20), DRAWS)
    assert not fits(draws, scale)


def response_fits(shown: IntArray, answers: list[int], categories: int, scale: Fraction) -> bool:
    """Return whether the counts of (answer, report) pass a chi-square test of the response law."""
    w = float(np.exp(-1 / float(scale)))
    statistic, cells = 0.0, 0
    for column, answer in enumerate(answers):
        observed = np.bincount(shown[:, column], minlength=categories)
        weights = np.full(categories, w)
        weights[answer] = 1.0
        expected = len(shown) * weights / weights.sum()
        assert expected.min() >= 20
        statistic += float(((observed - expected) ** 2 / expected).sum())
        cells += categories - 1
    return bool(statistic < stats.chi2.isf(FALSE_ALARM, cells))


@pytest.mark.parametrize("scale", [Fraction(1, 4), Fraction(2, 3), Fraction(1)], ids=str)
def test_randomized_response_passes_chi_square(scale: Fraction) -> None:
    # False alarm 1e-6; the same test rejects a scale that is 5% too large.
    answers, size = [0, 3, 3, 1], DRAWS // 2
    shown = randomized_response(SeededBits(22), np.array(answers), 4, scale, size)
    wrong = randomized_response(
        SeededBits(23), np.array(answers), 4, scale * Fraction(21, 20), size
    )
    assert response_fits(shown, answers, 4, scale)
    assert not response_fits(wrong, answers, 4, scale)


@pytest.mark.parametrize(
    "scale", [Fraction(2**70, 3), Fraction(2**62), Fraction(10**300), Fraction(2**64 - 1, 2)]
)
def test_huge_scales_are_exact_integers_of_the_right_size(scale: Fraction) -> None:
    draws = discrete_laplace(SeededBits(24), scale, 2000)
    assert draws.dtype == object
    assert all(type(z) is int for z in draws)
    # |Z| / scale is exponential to within 1/scale. Its mean over 2000 draws has sd 0.0224: a false
    # alarm at 6 sd has probability below 1e-6 (gamma tail).
    mean = float(sum(Fraction(abs(z)) for z in draws.tolist()) / len(draws) / scale)
    assert abs(mean - 1) < 6 * 0.0224
    # The low bits are as random as the high ones: 2000 fair coins, 6 sd, below 1e-8.
    assert abs(sum(z % 2 for z in draws.tolist()) - 1000) < 6 * 22.4


@pytest.mark.parametrize("scale", [Fraction(1, 10**6), Fraction(1, 2**70), Fraction(3, 10**9)])
def test_tiny_scales_give_zero(scale: Fraction) -> None:
    # P(Z != 0) < 2 exp(-10^8 / 3): no chance at all.
    draws = discrete_laplace(SeededBits(25), scale, 1000)
    assert draws.tolist() == [0] * 1000


def test_a_tiny_scale_keeps_every_answer() -> None:
    # P(some answer changes) < 200 exp(-10^6).
    answers = np.arange(100) % 2
    shown = randomized_response(SeededBits(26), answers, 2, Fraction(1, 10**6), 2)
    assert shown.tolist() == [answers.tolist()] * 2
