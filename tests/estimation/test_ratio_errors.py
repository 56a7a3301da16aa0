"""Expected errors of noisy sums over noisy numbers, beside draws of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpverify.estimation.ratio_errors import noisy_integers, ratio_square
from dpverify.mechanisms.robust_mean import RobustMean
from dpverify.privacy import Adjacency, ApproxDP
from dpverify.randomness import SeededBits


@pytest.mark.parametrize(
    ("noise", "part", "offset", "least"),
    [(1.0, 0.0, 0.0, 0.25), (0.3, 0.1, 2.0, 0.2), (2.0, 0.4, 5.0, 0.2), (1.0, 0.8, 2.0, 0.2)],
)
def test_a_ratio_s_error_is_that_of_draws(
    noise: float, part: float, offset: float, least: float
) -> None:
    """Compare with the mean of 400,000 draws, to 6 standard errors: a false alarm of 2e-9 each."""
    rng = np.random.default_rng(5)
    sums, numbers, centers = rng.normal(size=(3, 400_000))
    left = 1 + part * numbers
    off = offset * centers
    errors = np.where(left >= least, off + (noise * sums - off) / np.where(left, left, 1), off)
    squares = errors**2
    wanted = ratio_square(noise, part, offset, least)
    assert abs(squares.mean() - wanted) < 6 * squares.std() / math.sqrt(len(squares))


def test_the_ends_of_the_floats_are_infinite_or_nothing() -> None:
    assert ratio_square(1e200, 0.1, 1.0, 0.2) == math.inf
    assert ratio_square(1.0, 1e140, 0.0, 1e-140) < math.inf
    assert ratio_square(0.0, 0.3, 0.0, 0.2) == 0


@pytest.mark.parametrize(("mean", "deviation", "least"), [(500, 40.0, 10), (50, 40.0, 10)])
def test_shares_of_integers_average_over_normal_noise(
    mean: int, deviation: float, least: int
) -> None:
    """Compare 1 / x^2, as an error depends on the agreement; where few are left, to 15%."""
    known = dict(noisy_integers(mean, deviation, least))
    assert sum(known.values()) == pytest.approx(1)
    assert min(known) >= least
    x = mean + deviation * np.linspace(-8, 8, 4001)
    chances = np.where(x >= least, np.exp(-(((x - mean) / deviation) ** 2) / 2), 0.0)
    wanted = float(chances @ x**-2.0) / float(chances.sum())
    average = sum(share / one**2 for one, share in known.items())
    assert average == pytest.approx(wanted, rel=1e-3 if mean > 100 else 0.15)


@pytest.mark.parametrize(("d", "n", "directions"), [(10, 500, 3), (50, 500, 0)])
def test_errors_are_as_large_as_expected(d: int, n: int, directions: int) -> None:
    """Measure the noise's part of 2000 means of the same normal records: its mean square is 0.9 to
    1.3 of the predicted one, give or take 5 standard errors, which is a false alarm of 1e-6.
    Planted: with the noise of the sum alone it was 2.1 for 10 columns."""
    mechanism = RobustMean.for_budget(
        ApproxDP(1, "1e-6"),
        adjacency=Adjacency.ADD_REMOVE,
        deviations=(1.0,) * d,
        n_max=n,
        directions=directions,
    )
    data = np.random.default_rng(3).normal(size=(n, d))
    batch = mechanism.law(data).sample(SeededBits(3), 2000)
    values = [getattr(mechanism.estimate(batch[i]), "value", None) for i in range(len(batch))]
    off = np.array([value for value in values if value is not None]) - data.mean(axis=0)
    ratio = np.square(off).sum(axis=1) / mechanism.expected_error(n) ** 2
    room = 5 * ratio.std() / math.sqrt(len(ratio))
    assert 0.9 - room < ratio.mean() < 1.3 + room
    assert room < 0.4
