"""``clipped_mean``: its error is the predicted one, in every direction, and stays within its
bound."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from dpverify import Abstained, Adjacency, ClippedMean, SeededBits
from dpverify import VectorMeanEstimate as Estimate
from dpverify.plans import Stage
from spec import clipped_mean as spec
from spec.theory import joint
from tests.mechanisms.clipped import ADD, REPLACE, STRETCHED, Floats, cloud, mean
from tests.mechanisms.helpers import OF_NORMAL_NOISE, estimates, fails_at_most, mean_square_fits

ROTATED = ((1.0, 2.0, 2.0), (2.0, 1.0, -2.0), (8.0, -8.0, 4.0))  # axes of length 1/3, 1/3, 1/12


def metric(mechanism: ClippedMean) -> Floats:
    """A, as it was given."""
    matrix = mechanism.matrix
    return np.eye(len(mechanism.center)) if matrix is None else np.array(matrix)


def real_mean(mechanism: ClippedMean, data: Floats) -> Floats:
    """Return the mean of the records clipped to, or inside, the real ellipsoid, in floats."""
    back, center = np.linalg.inv(metric(mechanism)), np.array(mechanism.center)
    mapped = (data - center) @ metric(mechanism).T
    length, radius = np.linalg.norm(mapped, axis=1), float(Fraction(mechanism.radius))
    if mechanism.outside == "mask":
        mapped = mapped[length <= radius]
    else:
        mapped = mapped * np.minimum(1, radius / np.maximum(length, radius / 2))[:, np.newaxis]
    truth: Floats = center + back @ mapped.mean(axis=0)
    return truth


def errors(mechanism: ClippedMean, data: Floats, seed: int) -> Floats:
    """Return A (estimate - mean) of 1000 releases, shape (1000, d)."""
    releases = estimates(mechanism, data, seed, OF_NORMAL_NOISE)
    assert all(isinstance(one, Estimate) for one in releases)
    return (np.array([one.value for one in releases]) - real_mean(mechanism, data)) @ metric(
        mechanism
    ).T


CASES: list[tuple[int, int, dict[str, Any]]] = [
    (400, 1, {}),
    (1000, 3, {}),
    (300, 50, {}),
    (1000, 3, {"outside": "mask", "matrix": ROTATED, "radius": 9}),
    (700, 2, {"outside": "mask", "adjacency": REPLACE}),
    (50, 1, {"adjacency": REPLACE}),
    (400, 50, {"adjacency": REPLACE}),
    (60, 3, {"adjacency": REPLACE, "matrix": ROTATED, "radius": 9}),
    (50_000, 2, {"noise_multiplier": 100, "matrix": STRETCHED, "count_weight": "1/3"}),
]


@pytest.mark.parametrize(("n", "d", "parameters"), CASES, ids=range(len(CASES)))
def test_the_error_is_the_predicted_one(n: int, d: int, parameters: dict[str, Any]) -> None:
    """Compare to first order in 1/n, the rest being below 2%; the chance of a false alarm is in
    the helper (a vector's length varies less than its coordinates). One record in ten is far
    outside."""
    right, data = mean(d, **parameters), cloud(n, d)
    data[: n // 10, 0] = 1e9
    inside = n - n // 10 if right.outside == "mask" else n
    offset = np.linalg.norm(metric(right) @ real_mean(right, data))
    predicted = float(spec.expected_error(right.parameters, inside, float(offset)))
    lengths = np.linalg.norm(errors(right, data, 1), axis=1)
    assert mean_square_fits(lengths.tolist(), predicted, OF_NORMAL_NOISE)
    wrong = dataclasses.replace(right, noise_multiplier=right.noise_multiplier * Fraction(13, 10))
    lengths = np.linalg.norm(errors(wrong, data, 2), axis=1)
    assert not mean_square_fits(lengths.tolist(), predicted, OF_NORMAL_NOISE)


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
@pytest.mark.parametrize("matrix", [None, STRETCHED])
def test_each_estimate_states_its_covariance(adjacency: Adjacency, matrix: Any) -> None:
    """Whiten the errors: in the stated metric the 1000 errors have covariance 1: an entry has sd
    0.045 (0.032 off the diagonal), and 0.25 is 5.6 sd: false alarm below 1e-6 for four cases of
    three entries. Noise x 1.3 is off by 0.69."""
    weight = "1/2" if adjacency is ADD else None
    mechanism, data = mean(adjacency=adjacency, matrix=matrix, count_weight=weight), cloud(2000, 2)
    releases = estimates(mechanism, data, 3, OF_NORMAL_NOISE)
    stated = np.mean([one.covariance for one in releases], axis=0)
    root = np.linalg.inv(np.linalg.cholesky(stated))
    errors = (np.array([one.value for one in releases]) - real_mean(mechanism, data)) @ root.T
    assert np.abs(errors.T @ errors / OF_NORMAL_NOISE - np.eye(2)).max() < 0.25
    one = releases[0]
    assert np.allclose(one.standard_deviation**2, np.diag(one.covariance))


@pytest.mark.parametrize("d", [1, 3, 20])
@pytest.mark.parametrize("outside", ["clip", "mask"])
@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_the_error_bound_fails_as_rarely_as_stated(
    adjacency: Adjacency, outside: str, d: int
) -> None:
    mechanism, data = mean(d, adjacency=adjacency, outside=outside), cloud(100, d)
    bound = float(spec.error_bound(mechanism.parameters, 100, Fraction(1, 20)))
    lengths = np.linalg.norm(errors(mechanism, data, 4), axis=1).tolist()
    assert fails_at_most(lengths, bound, 0.05)
    assert not fails_at_most(lengths, bound / 6, 0.05)


@pytest.mark.parametrize("d", [1, 2, 10])
def test_the_grid_is_as_fine_as_stated(d: int) -> None:
    """Compare without chance: the exact sum against clipping in floats."""
    mechanism = mean(d, adjacency=REPLACE, center=(0.1,) * d, radius="1/3", noise_multiplier=1)
    for seed in range(20):
        data = cloud(37, d, seed, spread=0.7)
        stage = mechanism.fixed_plan[-1]
        assert isinstance(stage, Stage)
        total: Floats = mechanism.law(data).center(stage.query).astype(np.float64)
        cells = total * (float(spec.scale(mechanism.parameters) / 2**40) / 37)
        grid_mean = 0.1 + cells * float(spec.public_map(mechanism.parameters).cell)
        most = float(spec.grid_error(mechanism.parameters))
        assert np.linalg.norm(grid_mean - real_mean(mechanism, data)) <= most < 1e-5 * math.sqrt(d)


COUNTED = [(ADD, "clip"), (ADD, "mask"), (REPLACE, "mask")]


@pytest.mark.parametrize(("adjacency", "outside"), COUNTED)
@pytest.mark.parametrize(("multiplier", "at_least"), [("1", 1), ("1/30", 1), ("7/2", 50)])
def test_minimum_n_is_the_least(
    adjacency: Adjacency, outside: str, multiplier: str, at_least: int
) -> None:
    mechanism = mean(
        adjacency=adjacency, outside=outside, noise_multiplier=multiplier, at_least=at_least
    )
    ratio = spec.released(mechanism.parameters)
    for beta in ("0.9", "1/2", "0.05", "1e-6", "1e-30"):
        least = mechanism.minimum_n(beta=beta)
        with mp.workdps(50):
            # 1e-12: the noise of a record's number is bounded to whole units of 2^-40
            allowed = mp.mpf(Fraction(beta).numerator) / Fraction(beta).denominator
            assert joint.abstains(ratio, least, at_least) <= allowed
            assert least == 0 or joint.abstains(ratio, least - 1, at_least) > allowed * (1 - 1e-9)
    few = [isinstance(one, Abstained) for one in estimates(mechanism, cloud(least, 2), 5, 100)]
    assert not any(few)  # at beta = 1e-30


@pytest.mark.parametrize("beta", [0, 1, -1, 2, "nan", None, True])
def test_minimum_n_needs_a_probability(beta: Any) -> None:
    for adjacency in (ADD, REPLACE):
        with pytest.raises((ValueError, TypeError), match="beta"):
            mean(adjacency=adjacency).minimum_n(beta=beta)


def test_abstaining_is_typed_and_as_frequent_as_stated() -> None:
    mechanism = mean(at_least=30)
    least = mechanism.minimum_n(beta="0.05")
    for n, rare in ((least, True), (least - 4, False)):
        releases = estimates(mechanism, cloud(n, 2), 6)
        assert {type(one) for one in releases} == {Abstained, Estimate}  # else P < 0.99^2000
        assert fails_at_most([float(isinstance(o, Abstained)) for o in releases], 1.0, 0.05) is rare
    stopped = mechanism.release(np.zeros((0, 2)), SeededBits(1))  # P(30 by noise) < 1e-50
    assert str(stopped) == "abstained: fewer than 30 records, by the released count"
