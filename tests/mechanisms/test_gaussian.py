"""``gaussian``: a mean and a covariance without bounds; its accuracy, its outcomes, what it
refuses."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpverify import (
    Abstained,
    Adjacency,
    ApproxDP,
    Concentrated,
    CovarianceEstimate,
    Gaussian,
    GaussianDP,
    SeededBits,
)
from dpverify.plans.plan import stages_of
from tests.mechanisms.helpers import some_edge_rows, typed_releases
from tests.randomness.helpers import NoBits

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
Floats = NDArray[np.float64]


def gaussian(d: int = 2, **parameters: Any) -> Gaussian:
    base: dict[str, Any] = {"adjacency": ADD, "noise_multiplier": 1, "d": d, "cell": 2**-8}
    return Gaussian(**base | parameters)


def normal(d: int, n: int, seed: int, kappa: float = 1e6, far: float = 1e5) -> Any:
    """Return normal records with eigenvalues from 1 to kappa, turned, about a mean that is far
    away; its root and the mean."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    root = turn * np.sqrt(np.logspace(0, math.log10(kappa), d))
    mean = far * rng.normal(size=d)
    return rng.normal(size=(n, d)) @ root.T + mean, root, mean


def entropy(root: Floats, mean: Floats, covariance: Floats, location: Floats) -> float:
    """sqrt(KL / 2), a bound on the total variation between the truth and the fit."""
    own = np.linalg.solve(root, np.linalg.cholesky(covariance))
    inverse = np.linalg.inv(own @ own.T)
    far = np.linalg.solve(root, location - mean)
    sign, logarithm = np.linalg.slogdet(own @ own.T)
    assert sign > 0
    divergence = (np.trace(inverse) + far @ inverse @ far - len(root) + logarithm) / 2
    return math.sqrt(max(divergence, 0) / 2)


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"d": 1}, ValueError, "d = 1; give an integer from 2 to 1023"),
    ({"d": 2000}, ValueError, "d = 2000"),
    ({"d": 2.5}, TypeError, "integer"),
    ({"cell": 0}, ValueError, "cell = 0 is not positive"),
    ({"cell": (1.0, 1.0, 1.0)}, ValueError, "cell: 3 numbers for 2 columns"),
    ({"cell": (1.0, -1.0)}, ValueError, "cell = -1.0 is not positive"),
    ({"cell": 1e300}, ValueError, "take another unit"),
    ({"cell": (2.0**-300, 2.0**300)}, ValueError, r"more than 2\^200 apart"),
    ({"bound": 0}, ValueError, "bound = 0 is not positive"),
    ({"bound": 2.0**40}, ValueError, r"not from 1 to 2\^40 cells"),
    ({"kappa": 0.5}, ValueError, "kappa = 0.5 is below 1"),
    ({"kappa": -1}, ValueError, "kappa = -1 is not positive"),
    ({"rounds": 0}, ValueError, "rounds = 0; give an integer from 1 to 20"),
    ({"mean_share": "9/10"}, ValueError, "add up to less than 1"),
    ({"center_share": 0}, ValueError, r"outside \(0, 1\)"),
    ({"center_steps": 51}, ValueError, "center_steps = 51"),
    ({"at_least": 0}, ValueError, "at_least = 0"),
    ({"noise_multiplier": 0}, ValueError, "noise_multiplier = 0 is not positive"),
]


@pytest.mark.parametrize(("change", "kind", "message"), BAD, ids=range(len(BAD)))
def test_bad_parameters_are_refused(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        gaussian(**change)


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_no_bit_is_drawn_for_refused_data(adjacency: Adjacency) -> None:
    mechanism = gaussian(adjacency=adjacency)
    with pytest.raises(ValueError, match="Record 1 is not finite"):
        mechanism.release([(0, 0), (1.0, np.inf), (0, 0)], NoBits())
    with pytest.raises(ValueError, match="3 columns"):
        mechanism.release([(1.0, 2.0, 3.0)], NoBits())
    if adjacency is REPLACE:
        with pytest.raises(ValueError, match=r"have 2 records.*needs at least"):
            mechanism.release(np.zeros((2, 2)), NoBits())


WORLDS: list[dict[str, Any]] = [
    {},
    {"adjacency": REPLACE, "at_least": 1},
    {"at_least": 1, "rounds": 1},
    {"at_least": 1, "cell": (1.0, 2.0**-30)},
    {"at_least": 1, "cell": 2.0**-900},
    {"at_least": 1, "cell": 2.0**900, "rounds": 2},
    {"at_least": 1, "noise_multiplier": "1e-900", "rounds": 2},
    {"at_least": 1, "noise_multiplier": "1e-9", "adjacency": REPLACE},
    {"at_least": 1, "noise_multiplier": "1e2000"},
    {"at_least": 1, "bound": 1.0, "kappa": 1.0},
]


@pytest.mark.parametrize("world", range(len(WORLDS)))
def test_every_dataset_has_a_typed_release(world: int) -> None:
    mechanism = gaussian(**WORLDS[world])
    normal = np.random.default_rng(0).normal(size=(100, 2))
    for fit in typed_releases(mechanism, [*some_edge_rows(world), [(1.0, 2.0)] * 90, normal]):
        if isinstance(fit, CovarianceEstimate):
            assert fit.location_deviation is not None
            for numbers in (fit.value, fit.factor, fit.location, fit.location_deviation):
                assert np.isfinite(numbers).all()


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_error_is_little_above_that_without_privacy(adjacency: Adjacency) -> None:
    """Medians of 8 runs at kappa 1e6: a bound of 1.35 on the ratio, where some 60 runs of other
    seeds had 1.05 to 1.15 with a deviation of about .1 each; so the median of 8 is above 1.35
    with probability below 1e-7."""
    mechanism = Gaussian.for_budget(GaussianDP(1), adjacency=adjacency, d=5, cell=2**-7)
    ratios = []
    for seed in range(8):
        records, root, mean = normal(5, 4000, 700 + seed)
        estimate = mechanism.release(records, SeededBits(seed))
        assert isinstance(estimate, CovarianceEstimate)
        assert estimate.looks_normal
        plain = np.cov(records.T, bias=True), records.mean(axis=0)
        mine = entropy(root, mean, estimate.value, estimate.location)
        ratios.append(mine / entropy(root, mean, *plain))
    assert np.median(ratios) < 1.35


def test_columns_may_have_units_of_their_own() -> None:
    """Scaling columns by powers of two, with their cells, scales the result and nothing else, to
    the bit."""
    records, _, _ = normal(3, 2000, 5, kappa=100.0, far=10.0)
    factors = np.array([2.0**20, 1.0, 2.0**-30])
    cells = 2.0**-8 * factors
    plain = gaussian(3, cell=(2.0**-8,) * 3).release(records, SeededBits(1))
    scaled = gaussian(3, cell=tuple(cells.tolist())).release(records * factors, SeededBits(1))
    assert isinstance(plain, CovarianceEstimate)
    assert isinstance(scaled, CovarianceEstimate)
    assert scaled.location.tolist() == (plain.location * factors).tolist()
    np.testing.assert_allclose(
        scaled.value, plain.value * np.outer(factors, factors), rtol=1e-12, atol=0
    )


def test_order_of_records_changes_nothing() -> None:
    records, _, _ = normal(3, 1000, 6)
    mechanism = gaussian(3, noise_multiplier="1/2")
    turned = records[np.random.default_rng(0).permutation(len(records))]
    assert mechanism.release(records, SeededBits(2)) == mechanism.release(turned, SeededBits(2))


def test_too_few_or_concentrated_records_are_outcomes() -> None:
    few = gaussian().release(np.zeros((0, 2)), SeededBits(0))
    assert isinstance(few, Abstained)
    assert "fewer than" in few.reason
    rng = np.random.default_rng(1)
    copies = np.concatenate([np.full((3000, 3), 7.0), rng.normal(size=(600, 3))])
    outcome = gaussian(3, noise_multiplier="1/10").release(copies, SeededBits(0))
    assert isinstance(outcome, Concentrated)
    constant = np.column_stack([rng.normal(size=(4000, 2)), np.full(4000, 3.0)])
    outcome = gaussian(3, noise_multiplier="1/10").release(constant, SeededBits(0))
    assert isinstance(outcome, Concentrated)
    assert 2 in outcome.columns


def test_far_from_normal_is_said() -> None:
    rng = np.random.default_rng(2)
    mechanism = gaussian(3, noise_multiplier="1/2")
    exponential = mechanism.release(rng.exponential(size=(8000, 3)) + 5, SeededBits(3))
    heavy = mechanism.release(rng.standard_t(3, size=(8000, 3)), SeededBits(3))
    for estimate in (exponential, heavy):
        assert isinstance(estimate, CovarianceEstimate)
        assert estimate.looks_normal is False
        assert (estimate.beyond or 0) > 0.13


def test_claims_are_the_multiplier_s() -> None:
    for adjacency in Adjacency:
        mechanism = gaussian(3, adjacency=adjacency, noise_multiplier=2)
        mu = float(mechanism.claim.guarantee.mu_squared) ** 0.5  # type: ignore[attr-defined]
        assert 0.5 * (1 - 1e-4) < mu < 0.5 * (1 + 1e-4)
    budget = ApproxDP(1, "1e-6")
    assert gaussian_for(budget).claim.guarantee == budget


def gaussian_for(budget: Any) -> Gaussian:
    return Gaussian.for_budget(budget, adjacency=REPLACE, d=2, cell=2**-7)


def test_bounds_save_steps_and_rounds() -> None:
    free, known = gaussian(2), gaussian(2, bound=100.0, kappa=16.0)
    names = [[stage.name for stage in stages_of(m.fixed_plan)] for m in (free, known)]
    assert len(names[1]) < len(names[0]) - 15
    assert known.rounds_needed() == 3
    assert free.rounds_needed() == 8


def test_what_noise_does_is_told_before() -> None:
    mechanism = gaussian(4, noise_multiplier=Fraction(3))
    n = mechanism.minimum_n() + 3000
    errors = [mechanism.expected_error(k) for k in (n, 2 * n, 8 * n)]
    assert errors[0] > errors[1] > errors[2] > 0
    assert mechanism.records_for(errors[1]) <= 2 * n
    assert math.isinf(mechanism.expected_error(3))


def test_samples_of_the_fit_are_free_and_have_its_moments() -> None:
    records, _, _ = normal(2, 3000, 8, kappa=9.0, far=3.0)
    estimate = gaussian(2).release(records, SeededBits(0))
    assert isinstance(estimate, CovarianceEstimate)
    drawn = estimate.sample(200_000, np.random.default_rng(0))
    # 200,000 draws: a relative deviation of .0032 for variances; ten of them
    np.testing.assert_allclose(np.cov(drawn.T), estimate.value, atol=0.032 * estimate.value.max())
    np.testing.assert_allclose(estimate.deviations**2, np.diag(estimate.value))
    assert estimate.log_determinant == pytest.approx(np.linalg.slogdet(estimate.value)[1])
    assert 0 < estimate.total_variation < 0.2


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_least_number_of_records_grows_as_the_rate_says(adjacency: Adjacency) -> None:
    """Compare its growth with d^(3/2) sqrt(rounds) / mu, where rounds grow with log kappa up to
    eight; a bound on the mean hardly enters it."""

    def least(**parameters: Any) -> int:
        own: dict[str, Any] = {"d": 20, "cell": 2**-7, "noise_multiplier": Fraction(4)}
        return Gaussian(adjacency=adjacency, **own | parameters).minimum_n()

    by_d = [least(d=d) for d in (20, 40, 80)]
    slopes = [math.log2(b / a) for a, b in itertools.pairwise(by_d)]
    assert all(1.35 < slope < 1.55 for slope in slopes)
    assert least(noise_multiplier=32) / least() == pytest.approx(8, rel=0.01)
    by_kappa = [least(kappa=kappa) for kappa in (1, 2**4, 2**8, 2**16, 2**24, 1e30)]
    assert by_kappa == sorted(by_kappa)
    assert by_kappa[-1] == least()  # without a bound eight rounds
    early = [
        Gaussian(adjacency=adjacency, noise_multiplier=Fraction(4), d=20, cell=2**-7, kappa=k)
        for k in (2**8, 2**24)
    ]
    few, many = (one.rounds_needed() for one in early)
    assert by_kappa[4] / by_kappa[2] == pytest.approx(math.sqrt((many - 1) / (few - 1)), rel=0.02)
    assert least(d=4, bound=2.0) == least(d=4, bound=2.0**32)
