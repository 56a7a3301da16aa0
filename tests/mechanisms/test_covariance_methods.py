"""``gaussian_covariance``: records whitened by second moments, by CoinPress and recursively."""

from __future__ import annotations

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
    GaussianCovariance,
    GaussianDP,
    SeededBits,
)
from dpverify.estimation import spectral_rounds
from dpverify.estimation.whitening import count_of, octave_of
from spec.theory import preconditioning, whitening
from tests.mechanisms.helpers import some_edge_rows, typed_releases
from tests.randomness.helpers import NoBits

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
METHODS = ("spectral", "recursive")
Floats = NDArray[np.float64]


def covariance(d: int = 2, **parameters: Any) -> GaussianCovariance:
    base: dict[str, Any] = {
        "adjacency": ADD,
        "noise_multiplier": 1,
        "center": (0.0,) * d,
        "cell": 2**-8,
        "method": "spectral",
        "kappa": 1e4,
        "largest": 100,
    }
    return GaussianCovariance(**base | parameters)


def records(d: int, n: int, seed: int, kappa: float = 1e4) -> tuple[Floats, Floats]:
    """Return normal records with eigenvalues from 1 to kappa along random axes, and a root of
    their covariance."""
    rng = np.random.default_rng([seed, 5])
    axes = np.linalg.qr(rng.normal(size=(d, d)))[0]
    root = axes * np.sqrt(np.logspace(0, math.log10(kappa), d))
    return rng.normal(size=(n, d)) @ root.T, root


def apart(estimate: CovarianceEstimate, root: Floats) -> float:
    """Return the Frobenius norm of what the covariance is off, where the truth is the identity."""
    own = np.linalg.solve(root, estimate.factor)
    return float(np.linalg.norm(own @ own.T - np.eye(len(root))))


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"method": "signs"}, ValueError, "write 'sign', 'spectral' or 'recursive'"),
    ({"method": None}, ValueError, "write 'sign', 'spectral' or 'recursive'"),
    ({"kappa": None}, ValueError, "'spectral' needs public bounds: give kappa"),
    ({"largest": None}, ValueError, "'spectral' needs public bounds: give kappa"),
    ({"method": "recursive", "kappa": None}, ValueError, "'recursive' needs public bounds"),
    ({"method": "sign", "largest": None}, ValueError, "kappa = 10000.0, which method = 'sign'"),
    ({"method": "sign", "kappa": None}, ValueError, "rounds of signs, which need no scale"),
    ({"kappa": 0.99}, ValueError, "kappa = 0.99 is below 1"),
    ({"kappa": math.inf}, ValueError, "kappa"),
    ({"kappa": "much"}, ValueError, "kappa"),
    ({"largest": 0}, ValueError, "largest = 0 is not positive"),
    ({"largest": 2**-9}, ValueError, "0.5 cells; give one of 1 to 2.40 cells"),
    ({"largest": 1e300}, ValueError, "give one of 1 to 2.40 cells"),
    ({"rounds": 0}, ValueError, "for 2 columns and rounds = 0 leave method out"),
    ({"center": (0.0,)}, ValueError, "for 1 columns and rounds = 8 leave method out"),
    ({"cell": (1.0, 2.0)}, ValueError, "takes one cell for all columns"),
    ({"scale": 1}, ValueError, "finds no center. Give a public center"),
]


@pytest.mark.parametrize(("change", "kind", "message"), BAD, ids=range(len(BAD)))
def test_bad_parameters_are_refused(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        covariance(**change)


def test_a_largest_deviation_is_refused_where_no_image_shows_it() -> None:
    """Refuse it also without rounds, where it was infinite in image cells."""
    with pytest.raises(ValueError, match=r"give one of 1 to 2.40 cells"):
        covariance(rounds=0, method="sign", kappa=None, largest=1e308, cell=5e-324)


@pytest.mark.parametrize("method", METHODS)
def test_no_bit_is_drawn_for_refused_data(method: str) -> None:
    mechanism = covariance(adjacency=REPLACE, method=method)
    with pytest.raises(ValueError, match="Record 1 is not finite"):
        mechanism.release([(0, 0), (1.0, np.inf), (0, 0)], NoBits())
    least = mechanism.fewest_records()
    with pytest.raises(ValueError, match=f"needs at least {least}"):
        mechanism.release(np.zeros((least - 1, 2)), NoBits())
    assert mechanism.minimum_n() == least
    assert covariance(method=method).fewest_records() == 0
    assert covariance(method=method).minimum_n() > covariance(method=method).least()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
@pytest.mark.parametrize("budget", [GaussianDP(1), ApproxDP(1, "1e-6")])
def test_a_budget_is_met_and_hardly_missed(method: str, adjacency: Adjacency, budget: Any) -> None:
    """Rounds, search, moments and count compose exactly; rounding costs less than 2^-16 of the
    multiplier."""
    given: dict[str, Any] = {"center": (0.0,) * 5, "cell": 1e-3, "kappa": 50, "largest": 3}
    mechanism = GaussianCovariance.for_budget(budget, adjacency=adjacency, method=method, **given)
    assert mechanism.claim.guarantee == budget
    plain = GaussianDP(1) if isinstance(budget, GaussianDP) else GaussianDP("0.236704")
    multiplier = 1 / float(plain.mu_squared) ** 0.5
    assert float(mechanism.noise_multiplier) == pytest.approx(multiplier, rel=2e-5)
    names = [stage.name for stage in mechanism.fixed_plan]  # type: ignore[union-attr]
    assert names[:9] == ["count", *(f"round {t}" for t in range(1, 9))]


WORLDS: list[dict[str, Any]] = [
    {},
    {"adjacency": REPLACE, "at_least": 1},
    {"at_least": 1, "rounds": 12},
    {"at_least": 1, "rounds": 1, "kappa": 1},
    {"at_least": 1, "kappa": 1e308, "largest": 2**32},
    {"at_least": 1, "largest": 2**-8, "adjacency": REPLACE, "rounds": 3},
    {"at_least": 1, "cell": 5e-324, "largest": 1e-320, "rounds": 4},
    {"at_least": 1, "cell": 1e300, "largest": 1e308, "rounds": 4},
    {"at_least": 1, "noise_multiplier": "1e-900", "rounds": 3},
    {"at_least": 1, "noise_multiplier": "1e-9", "adjacency": REPLACE, "rounds": 3},
    {"at_least": 1, "noise_multiplier": "1e2000", "rounds": 3},
    {"at_least": 1, "precision": 2, "rounds": 3},
    {"at_least": 1 << 60},
]


@pytest.mark.parametrize(
    ("method", "world"),
    [
        *(("spectral", world) for world in range(len(WORLDS))),
        *(("recursive", world) for world in range(0, len(WORLDS), 2)),
    ],
)
def test_every_dataset_has_a_typed_release(method: str, world: int) -> None:
    mechanism = covariance(method=method, **WORLDS[world])
    normal = np.random.default_rng(0).normal(size=(100, 2))
    for release in typed_releases(mechanism, [*some_edge_rows(world), [(1.0, 2.0)] * 90, normal]):
        assert isinstance(release, (Abstained, Concentrated, CovarianceEstimate))
        if isinstance(release, CovarianceEstimate):
            assert np.isfinite(release.value).all()


FOLLOWED: list[tuple[int, dict[str, Any]]] = [
    (2, {"noise_multiplier": 3, "at_least": 1, "rounds": 4}),
    (2, {"adjacency": REPLACE, "at_least": 1, "rounds": 4, "noise_multiplier": "1/3"}),
    (3, {"at_least": 1, "rounds": 3, "noise_multiplier": "1/20", "kappa": 300}),
    (3, {"at_least": 20_000, "rounds": 4, "precision": 9}),
    (2, {"at_least": 1, "rounds": 3, "kappa": "3/2", "noise_multiplier": "1/100"}),
]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("d", "parameters"), FOLLOWED, ids=range(len(FOLLOWED)))
def test_every_transcript_leads_to_the_spec_s_maps(
    method: str, d: int, parameters: dict[str, Any]
) -> None:
    """Compare maps of a batch, and of each draw alone; no chance in it but the noise of a fixed
    seed."""
    mechanism = covariance(d, method=method, **parameters)
    batch = mechanism.law(records(d, 3000, 1)[0]).sample(SeededBits(7), 4)
    rounds = mechanism.spectral()
    after = getattr(preconditioning, f"{method}_map_after")
    seen = set()
    for t in range(mechanism.rounds + 1):
        spheres, which = rounds.spheres(t)(batch)
        for i in range(len(batch)):
            one = batch.select(np.array([i]))
            ((sphere,), _) = rounds.spheres(t)(one)
            assert sphere == spheres[which[i]]
            count = max(float(mechanism._counts()(one)[0]), float(mechanism.least()))
            public = preconditioning.Public(
                d,
                Fraction(count),
                rounds.noise,
                Fraction(str(mechanism.kappa)),
                Fraction(100) * 2**24,
                mechanism.precision,
            )
            outcomes = [tuple(one[f"round {s + 1}"][0].tolist()) for s in range(t)]
            state = after(outcomes, public)
            assert sphere.row == state[0]
            assert sphere.long == pytest.approx(float(state[1]), rel=1e-11)
            reach = preconditioning.reach_in_cells(public, state)
            assert sphere.reach(rounds._reach(sphere))[-1] == pytest.approx(reach, rel=1e-11)
            seen.add(sphere)
    assert len(seen) > 1 or method == "recursive"


def test_bounds_are_the_spec_s() -> None:
    for d, n, noise in ((2, 100.0, 1.0), (10, 2.0**14, 8.0), (50, 1e9, 1e3)):
        expected = preconditioning.slack(d, n, Fraction(noise))
        own = spectral_rounds.slack(d, n, noise)
        for one, other in zip(own, expected, strict=True):
            assert one == pytest.approx(0.1 * float(other), rel=1e-12)
    for kappa, eta, nu in (
        (7.9, 0.0, 0.0),
        (8.5, 0.0, 0.0),
        (1e4, 0.1, 0.1),
        (50.0, 0.2, 0.1),
        (1e9, 0.5, 0.5),
    ):
        exact = [Fraction(x) for x in (kappa, eta, nu)]
        stated, bound = preconditioning.shortened(*exact), spectral_rounds.shortened(kappa, eta, nu)
        assert (bound is None) == (stated is None)
        if bound is not None and stated is not None:
            assert bound == pytest.approx([float(x) for x in stated], rel=1e-9)
        low = spectral_rounds.smallest(kappa, eta, nu)
        assert low == pytest.approx(float(preconditioning.smallest(*exact)), abs=1e-15)
    for count in (1, 2, 3, 4, 5, 1000, 2**20 - 1, 2**20, 123456789):
        octave = octave_of(count)
        assert octave == whitening.octave(Fraction(count))
        assert count_of(octave) <= count


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_errors_are_near_those_of_signs(adjacency: Adjacency) -> None:
    """Medians over 3 seeds, on the same data: within 6% and 12%; near the 0.086 that signs have."""
    mechanisms = {
        "sign": covariance(10, adjacency=adjacency, method="sign", kappa=None, largest=None),
        "spectral": covariance(10, adjacency=adjacency, rounds=8),
        "recursive": covariance(10, adjacency=adjacency, method="recursive", rounds=16),
    }
    errors: dict[str, list[float]] = {method: [] for method in mechanisms}
    for seed in range(3):
        data, root = records(10, 16_000, seed)
        for method, mechanism in mechanisms.items():
            result = mechanism.release(data, SeededBits(seed))
            assert isinstance(result, CovarianceEstimate)
            errors[method].append(apart(result, root))
    median = {method: np.median(result) for method, result in errors.items()}
    assert median["spectral"] < min(1.06 * median["sign"], 0.1)
    assert median["recursive"] < min(1.12 * median["sign"], 0.1)


def test_too_few_rounds_leave_directions_that_noise_hides() -> None:
    """Look along the reported directions: in all of them records vary little. Which of those
    noise hides is chance: the shortest may not be among them."""
    data, root = records(10, 16_000, 3, kappa=1e8)
    for method, rounds in (("spectral", 1), ("recursive", 3)):
        mechanism = covariance(10, method=method, rounds=rounds, kappa=1e8, largest=1e4)
        outcome = mechanism.release(data, SeededBits(1))
        assert isinstance(outcome, Concentrated)
        basis = np.linalg.qr(outcome.directions.T)[0]
        assert np.linalg.norm(basis.T @ root, 2) < 1e4 / 50  # of a largest deviation of 10^4


def test_bounds_that_are_far_off_cost_rounds_alone() -> None:
    """Ten times as large a deviation, a thousand times the ratio; at a fixed seed."""
    data, root = records(5, 16_000, 4, kappa=100)
    for method, rounds in (("spectral", 8), ("recursive", 20)):
        mechanism = covariance(5, method=method, rounds=rounds, kappa=1e5, largest=100)
        estimate = mechanism.release(data, SeededBits(2))
        assert isinstance(estimate, CovarianceEstimate)
        assert apart(estimate, root) < 0.08
