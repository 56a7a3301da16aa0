"""``sign_covariance``: its errors, its intervals, and what has no shape."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify import Adjacency, Concentrated, SeededBits, ShapeEstimate, result_from
from spec import sign_covariance as spec
from tests.mechanisms.helpers import fails_at_most
from tests.mechanisms.sign_shapes import ADD, REPLACE, Floats, apart, law_of, shape

# --- errors: medians of 10 or 20 fixed seeds, which a change of code moves, not chance ------------

ERRORS: list[tuple[int, int, float, dict[str, Any], dict[str, Any]]] = [
    # d, n, at most, law, mechanism: (.1296 is mu of 30% of (1, 1e-6))
    (10, 4000, 0.20, {}, {"adjacency": REPLACE}),
    (10, 4000, 0.20, {"df": 1.0}, {}),
    (10, 4000, 0.20, {"kappa": 1.0}, {}),
    (10, 8000, 0.19, {}, {"noise_multiplier": Fraction(10000, 1296)}),
    (5, 4000, 0.14, {"kappa": 1e12}, {"noise_multiplier": 2}),
]


@pytest.mark.parametrize("case", ERRORS, ids=range(len(ERRORS)))
def test_errors_are_as_predicted_whatever_the_law(case: Any) -> None:
    """Measure at condition numbers to 10^12 and without moments: the median within 12% of the
    spec's root mean square."""
    d, n, most, law, parameters = case
    mechanism = shape(d, **parameters)
    distances = []
    for seed in range(10 if d > 5 else 20):  # of fewer columns an error varies more
        data, root = law_of(d, n, seed, **law)
        result = mechanism.release(data, SeededBits(seed))
        assert isinstance(result, ShapeEstimate)
        distances.append(apart(result, root))
    predicted = float(spec.expected_error(mechanism.parameters, n))
    assert abs(np.median(distances) / predicted - 1) < 0.12
    assert np.median(distances) < most
    assert mechanism.expected_error(n) == pytest.approx(
        float(spec.noise_error(mechanism.parameters, n)), rel=1e-9
    )


def test_an_unknown_center_is_found_with_the_shape() -> None:
    """8 draws of one dataset, a center 10^6 away.

    The location's noise has the deviation that is said, but for 1e-6 (chi square, 40 degrees).
    With half of it the check fails.
    """
    d, n, mu = 5, 8000, Fraction(10000, 1296)
    mechanism = shape(d, scale=1e6, noise_multiplier=mu, cell=2**-6)
    quiet = shape(d, scale=1e6, noise_multiplier=mu / 1000, cell=2**-6, at_least=1)
    errors, squares = [], 0.0
    for seed in range(1):
        data, root = law_of(d, n, seed)
        exact = quiet.release(data + 1e6, SeededBits(seed))
        assert isinstance(exact, ShapeEstimate)
        batch = mechanism.law(data + 1e6).sample(SeededBits(seed), 8)
        for i in range(8):
            estimate = mechanism.estimate(batch[i])
            assert isinstance(estimate, ShapeEstimate)
            errors.append(apart(estimate, root))
            off = np.linalg.solve(root, estimate.location - exact.location)
            squares += float((off**2).sum()) / sum(v**2 for v in mechanism.location_errors(n)[:2])
    assert np.median(errors) < 0.13
    assert 0.25 < squares / 40 < 2.5


def test_intervals_hold_for_what_there_is_without_noise() -> None:
    """Each entry on its own in 120 draws: 95%, but for 1e-6; and half as wide ones do not hold."""
    data, _ = law_of(3, 3000, kappa=10)
    mechanism, quiet = shape(3, noise_multiplier=8), shape(3, noise_multiplier="1/1000")
    exact = quiet.release(data, SeededBits(0))
    batch = mechanism.law(data).sample(SeededBits(3), 120)
    releases = [mechanism.estimate(batch[i]) for i in range(120)]
    assert all(isinstance(one, ShapeEstimate) for one in releases)
    assert isinstance(exact, ShapeEstimate)
    for i, j in ((0, 0), (0, 1), (1, 2)):
        sure: Any = releases
        off = [(one.value - exact.value)[i, j] / one.standard_deviation[i, j] for one in sure]
        assert fails_at_most(off, 1.96, 0.06)  # 0.05 to first order
        assert not fails_at_most(off, 0.98, 0.06)
    low, high = sure[0].interval(0.9)
    assert (low < high).all()
    turned = [
        (one.correlation - exact.correlation)[0, 1] / one.correlation_deviation[0, 1]
        for one in sure
    ]
    assert fails_at_most(turned, 1.96, 0.06)


@pytest.mark.parametrize("scale", [None, 1])
def test_the_error_bound_fails_as_rarely_as_stated(scale: Any) -> None:
    """2000 draws; more than 1/20 of them exceed it with probability below 1e-6, and three fifths
    of it fail."""
    mechanism = shape(3, rounds=1, at_least=1, adjacency=REPLACE, scale=scale)
    law = mechanism.law(law_of(3, 50)[0])
    values = law.sample(SeededBits(6), 2000)["round 1"].astype(np.float64)
    exact = law.center_after(mechanism.fixed_plan[1], ((50,),)).astype(np.float64)  # type: ignore[arg-type]
    k = mechanism.size()
    off = (values - exact) * float(mechanism._deviation(0)) / 2.0**40 / 50
    off[:, k:] *= 169 / 239 * math.sqrt(2)
    lengths = np.linalg.norm(off, axis=1)
    bound = float(spec.error_bound(mechanism.parameters, 50, Fraction(1, 20)))
    assert fails_at_most(lengths, bound, 0.05)
    assert not fails_at_most(lengths, 0.6 * bound, 0.05)


def test_principal_components_are_told_apart_or_refused() -> None:
    data, root = law_of(4, 4000, kappa=1e4)
    estimate = shape(4).release(data, SeededBits(1))
    assert isinstance(estimate, ShapeEstimate)
    first = estimate.principal_components(2)
    truth = np.linalg.svd(root)[0][:, :2]
    assert np.linalg.norm(first.axes @ truth) == pytest.approx(math.sqrt(2), abs=1e-2)
    assert first.shares.sum() < 1
    assert 0 < first.angle < 0.1
    assert np.allclose(estimate.precision @ estimate.value, np.eye(4), atol=1e-6)
    assert estimate.principal_components(4).angle == 0
    for k in (0, 5):
        with pytest.raises(ValueError, match="give a number of axes from 1 to 4"):
            estimate.principal_components(k)
    even = shape(4).release(law_of(4, 4000, kappa=1.0)[0], SeededBits(1))
    assert isinstance(even, ShapeEstimate)
    with pytest.raises(ValueError, match="which noise and sampling do not tell apart"):
        even.principal_components(2)


def _sparse(rng: Any, n: int) -> Floats:
    data = rng.normal(size=(n, 5))
    data[rng.random(n) < 0.9, 3] = 0.0
    data[:, 3] *= 0  # a constant column
    return np.asarray(data)


DEGENERATE: dict[str, Any] = {
    "half are copies": lambda rng, n: np.where(
        rng.random((n, 1)) < 0.5, np.arange(1.0, 6.0), rng.normal(size=(n, 5))
    ),
    "a constant column": _sparse,
    "a column twice": lambda rng, n: rng.normal(size=(n, 4))[:, [0, 1, 2, 3, 0]],
    "on the axes": lambda rng, n: np.eye(5)[rng.choice([0, 0, 0, 1, 2, 3, 4], n)],
}


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_what_has_no_shape_is_typed(name: str, adjacency: Adjacency) -> None:
    data = DEGENERATE[name](np.random.default_rng(3), 3000)
    outcome = shape(5, adjacency=adjacency).release(data, SeededBits(2))
    assert isinstance(outcome, Concentrated)
    assert np.isfinite(outcome.directions).all()
    assert result_from(outcome.to_dict()) == outcome
    if name == "a constant column":
        assert 3 in outcome.columns


@pytest.mark.parametrize("rounds", [6, 8, 10, 20])
@pytest.mark.parametrize("n", [3000, 30_000])
def test_no_rounds_stretch_a_constant_column_until_nothing_is_left(n: int, rounds: int) -> None:
    """Two of five: they are named, and the others keep their signs. Fixed seeds."""
    data = np.random.default_rng(0).normal(size=(n, 5))
    data[:, [1, 3]] = 0.0
    outcome = shape(5, rounds=rounds).release(data, SeededBits(0))
    assert isinstance(outcome, Concentrated)
    assert set(outcome.columns) <= {1, 3}
    assert outcome.value.tolist()[:2] == [0, 0]
    assert outcome.value.max() < 2.5  # 5 / 3 each, and noise


def test_a_column_that_is_nearly_always_empty_has_no_shape_however_many_rounds() -> None:
    """1 record in 80 has a number there: no more rounds make its share of the signs even. 12
    fixed seeds."""
    rng = np.random.default_rng(0)
    data = rng.normal(size=(1800, 9))
    data[rng.random(1800) < 79 / 80, 0] = 0.0
    mechanism = shape(9, rounds=12, noise_multiplier=4)
    for seed in range(12):
        outcome = mechanism.release(data, SeededBits(seed))
        assert isinstance(outcome, Concentrated)
        assert set(outcome.columns) == {0}


def test_one_round_tells_what_it_cannot_see() -> None:
    """10 fixed seeds each: at a condition number of 10^8 no shape; an even one, from few
    records, is found."""
    mechanism = shape(5, rounds=1)
    for seed in range(10):
        assert isinstance(
            mechanism.release(law_of(5, 8000, seed)[0], SeededBits(seed)), Concentrated
        )
        data, root = law_of(5, 3 * mechanism.minimum_n(), seed, kappa=1.0)
        estimate = mechanism.release(data, SeededBits(seed))
        assert isinstance(estimate, ShapeEstimate)
        assert apart(estimate, root) < 1


def test_a_scale_reaches_as_far_as_the_center_is_off() -> None:
    """A center 10^6 smallest deviations off: at scale 10^6 a shape; at a deviation there is none
    within 8 rounds."""
    data, root = law_of(10, 16_000, 3)
    for scale, kind in ((1e6, ShapeEstimate), (1e2, Concentrated)):
        mechanism = shape(10, scale=scale, noise_multiplier=Fraction(10000, 1296), cell=2**-6)
        release = mechanism.release(data + 1e6 / math.sqrt(10), SeededBits(3))
        assert isinstance(release, kind)
        assert not isinstance(release, ShapeEstimate) or apart(release, root) < 0.15
