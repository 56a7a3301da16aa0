"""Noise: exact where it is huge, and its stated probabilities are those of the spec."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from dpverify import SeededBits
from dpverify.plans import DiscreteLaplace, KaryResponse, NoNoise, RoundedGaussian
from dpverify.randomness.rounded import RoundedLaplace
from spec.theory.laws import (
    DiscreteLaplaceLaw,
    KaryResponseLaw,
    least_tail,
    real,
    real_exponential,
)
from tests.randomness.helpers import NoBits, formal_exponential

SCALES = [Fraction(s) for s in ("1/1000", "1/7", "1", "10/3", "1000", "1000000000")]


@pytest.mark.parametrize("center", [2**62 - 1, -(2**62) + 1, 2**63 - 1, 2**70, 0])
@pytest.mark.parametrize(
    "scale", [Fraction(2**58), Fraction(2**61, 3), Fraction(2**80), Fraction(1)]
)
def test_noise_is_added_without_overflow(center: int, scale: Fraction) -> None:
    dtype: Any = np.int64 if abs(center) < 2**63 else object
    around = np.array([center, -center], dtype=dtype)
    shifted = DiscreteLaplace(scale).sample(SeededBits(71), around, 200)
    alone = DiscreteLaplace(scale).sample(SeededBits(71), np.zeros(2, dtype=np.int64), 200)
    expected = [[int(a) + center, int(b) - center] for a, b in alone]
    assert [[int(a), int(b)] for a, b in shifted] == expected


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_log_probabilities_are_those_of_the_spec(scale: Fraction) -> None:
    outputs = [-(10**6), -3, 0, 1, 2, 5, 10**12]
    log_masses = DiscreteLaplace(scale).log_probability(
        np.array(outputs).reshape(-1, 1), np.array([2])
    )
    with mp.workdps(50):
        for x, likelihood in zip(outputs, log_masses.tolist(), strict=True):
            law = DiscreteLaplaceLaw(2, scale)
            true = mp.log(law.probability((0,), real_exponential))
            true += (2 - abs(x - 2)) / real(scale)  # masses below mpmath's patience
            assert abs(likelihood - true) < 1e-12 * (1 + abs(true))


@pytest.mark.parametrize("scale", ["1/3", "2", "5/7", "30"])
@pytest.mark.parametrize(
    ("kind", "left"), [(DiscreteLaplace, Fraction(1, 1000)), (RoundedLaplace, Fraction(1, 4000))]
)
def test_atoms_end_where_so_much_of_the_mass_is_left(kind: Any, left: Fraction, scale: str) -> None:
    unit = 2 * Fraction(scale).numerator
    atoms = kind(Fraction(scale)).atoms(formal_exponential(Fraction(19, 20), unit))
    beyond = 1 - sum(mass for _, mass in atoms)
    assert beyond <= left
    assert beyond + sum(mass for _, mass in atoms[-2:]) > left


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_a_vector_of_noise_is_independent_in_every_coordinate(scale: Fraction) -> None:
    noise, center = DiscreteLaplace(scale), np.array([1, -4, 0])
    outputs = np.array([[1, -4, 0], [2, 3, -9]])
    together = noise.log_probability(outputs, center)
    alone = sum(noise.log_probability(outputs[:, [j]], center[[j]]) for j in range(3))
    assert np.allclose(together, alone, rtol=1e-13, atol=0)


@pytest.mark.parametrize("noise", [DiscreteLaplace(3), RoundedGaussian(3), RoundedGaussian(2**40)])
@pytest.mark.parametrize("width", [1, 3, 7, 8, 20])
def test_many_rows_have_the_probabilities_of_few(noise: Any, width: int) -> None:
    rng = np.random.default_rng(8)
    each = rng.integers(-9, 9, (20_000, width))
    outputs = each + rng.integers(-9, 9, each.shape)
    some = [slice(i, i + 40) for i in (0, 16_360, 19_960)]  # too few for blocks or columns
    for center in (each, each[:1], each[0]):
        together = noise.log_probability(outputs, center)
        for rows in some:
            own = center[rows] if len(center) == len(outputs) else center
            assert np.array_equal(together[rows], noise.log_probability(outputs[rows], own))


@pytest.mark.parametrize("sigma", [Fraction(1, 3), 2, 50])
def test_numbers_at_one_distance_have_the_probability_that_each_has_alone(sigma: Any) -> None:
    """Compare a batch, where each distance has one logarithm, with numbers that are alone."""
    noise, center = RoundedGaussian(sigma), np.array([7])
    outputs = np.random.default_rng(4).integers(-200, 200, (500, 1))
    alone = [noise.log_probability(outputs[[i]], center)[0] for i in range(len(outputs))]
    assert np.array_equal(noise.log_probability(outputs, center), alone)
    assert np.array_equal(noise.log_probability(outputs.astype(object), center), alone)
    far = np.array([[10**9], [7]])
    assert noise.log_probability(far, center)[1] == noise.log_probability(far[1:], center)[0]


@pytest.mark.parametrize("scale", SCALES[:5], ids=str)
@pytest.mark.parametrize("categories", [2, 3, 1000])
def test_log_probabilities_of_answers_are_those_of_the_spec(
    scale: Fraction, categories: int
) -> None:
    answers = (0, 1, 1)
    outputs = [(0, 1, 1), (0, 0, 1), (1, 0, 0), (1, 1, 1)]
    log_masses = KaryResponse(categories, scale).log_probability(
        np.array(outputs), np.array(answers)
    )
    with mp.workdps(50):
        for output, likelihood in zip(outputs, log_masses.tolist(), strict=True):
            law = KaryResponseLaw(answers, categories, scale)
            true = mp.log(law.probability(output, real_exponential))
            assert abs(likelihood - true) < 1e-12 * (1 + abs(true))


@pytest.mark.parametrize("scale", SCALES, ids=str)
@pytest.mark.parametrize("scales", [0, 1, 40])
def test_falling_short_is_judged_by_the_tail_of_the_spec(scale: Fraction, scales: int) -> None:
    """Judge on both sides of the exact tail, to 40 digits, for distances above and below 1."""
    noise = DiscreteLaplace(scale)
    for distance in (max(1, int(scales * scale)), -int(scales * scale)):
        with mp.workdps(400):
            true = DiscreteLaplaceLaw(0, scale).at_most(-distance, real_exponential)
            above, below = (
                Fraction(int(true * (1 + sign * mp.mpf(10) ** -40) * mp.mpf(10) ** 350), 10**350)
                for sign in (1, -1)
            )
        if 0 < below < above < 1:
            assert noise.falls_short(distance, above)
            assert not noise.falls_short(distance, below)


@pytest.mark.parametrize("scale", SCALES[1:], ids=str)
@pytest.mark.parametrize("beta", ["0.3", "1e-3", "1e-30"])
def test_the_least_tail_of_the_spec_is_least(scale: Fraction, beta: str) -> None:
    allowed = Fraction(beta)
    t = least_tail(DiscreteLaplaceLaw(0, scale), allowed)
    noise = DiscreteLaplace(scale)
    assert noise.falls_short(t, allowed / 2)
    assert t == 1 or not noise.falls_short(t - 1, allowed / 2)


def test_no_noise_is_no_noise() -> None:
    center = np.array([3, -1])
    assert NoNoise().sample(NoBits(), center, 2).tolist() == [[3, -1], [3, -1]]
    likelihoods = NoNoise().log_probability(np.array([[3, -1], [3, 0]]), center)
    assert likelihoods.tolist() == [0.0, -np.inf]
    assert NoNoise().standard_deviation == 0.0
    assert NoNoise().falls_short(1, Fraction(1, 10**9))
    assert not NoNoise().falls_short(0, Fraction(1, 2))


def test_moving_and_rescaling() -> None:
    old, new = np.array([0, 2]), np.array([1, 1])
    outputs = np.array([[0, 2], [2, 0]])
    assert DiscreteLaplace(1).move(outputs, old, new).tolist() == [[1, 1], [3, -1]]
    assert KaryResponse(3, 1).move(outputs, old, new).tolist() == [[1, 1], [0, 2]]
    assert DiscreteLaplace(3).rescaled(Fraction(1, 2)) == DiscreteLaplace("1.5")
    assert KaryResponse(4, 3).rescaled(Fraction(1, 2)) == KaryResponse(4, "1.5")
    assert NoNoise().rescaled(Fraction(1, 2)) is None
