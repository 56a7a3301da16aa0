"""What auditors are compared on, and DP-Sniper's method: scores are likelihood ratios, bounds
hold."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.benchmarks.peer_methods import LEAST, Sniper, _event
from tests.benchmarks.peer_subjects import Subject, subjects

DRAWS = 20_000
SUBJECTS = [one for one in subjects() if one.name != "NoisyHist2"]  # e^10 is too rare to average


@pytest.mark.parametrize("one", SUBJECTS, ids=lambda one: one.name)
def test_a_score_is_the_likelihood_ratio(one: Subject) -> None:
    """The mean of P / Q under Q is what P has where Q is positive: 1, or less of outputs that
    one side alone has. Means of 20,000 are 6 standard errors off with probability below 1e-6 (of
    a few rare outputs: below 1e-4)."""
    rng = np.random.default_rng(1)
    sides = [one.outputs(data, DRAWS, rng) for data in (one.pair.left, one.pair.right)]
    assert sides[0].shape == sides[1].shape
    for side, sign in zip(sides, (-1, 1), strict=True):
        ratios = np.exp(sign * one.score(side))
        mean, error = ratios.mean(), 6 * ratios.std() / math.sqrt(DRAWS) + 1e-3
        assert mean < 1 + error
        assert mean > 1 - error or math.isinf(one.truth)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_event_of_dp_sniper_has_its_probability(sign: int) -> None:
    for other in (
        np.arange(1000.0),
        np.repeat([0.0, 1.0], [990, 10]),
        np.zeros(1000),
        np.repeat([0.0, 1.0], 500),
    ):
        assert abs(_event(sign, other).share(other) - LEAST) < 1e-12


def test_bounds_by_the_method_of_dp_sniper_hold_and_tell() -> None:
    """Laplace noise at epsilon 1 in the second of three columns: a bound above 1 has probability
    1e-3 at most, 6 of 200 at a tenth of them below 1e-2."""
    rng = np.random.default_rng(0)
    sides = [rng.laplace(size=(40_000, 3)), rng.laplace(size=(40_000, 3))]
    sides[0][:, 1] += 1
    assert 0.5 < Sniper().bound(sides[0], sides[1], 1e-3, 0.0, 0) <= 1
    assert 0.5 < Sniper().bound(sides[1], sides[0], 1e-3, 0.0, 0) <= 1
    null = rng.normal(size=(200, 2, 1000, 1))
    same = [Sniper().bound(left, right, 0.01, 0.0, seed) for seed, (left, right) in enumerate(null)]
    assert sum(bound > 0 for bound in same) <= 6


def test_values_that_stand_for_no_number_are_flags() -> None:
    outputs = np.array([[-3.0, -1.0, 4.0], [-3.0, 2.0, -3.0]])
    expected = [[-3, 0, 4, 0, 1, 0], [-3, 2, -3, 0, 0, 0]]
    assert expected == Sniper((-1.0,))._features(outputs).tolist()
    assert outputs.tolist() == Sniper()._features(outputs).tolist()
