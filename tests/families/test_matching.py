"""The map from moments of truncated or clipped records to theta: exact and noisy moments,
refusals, error bounds."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from dpverify.families import (
    Ball,
    Box,
    Eigenvalues,
    ExponentialFamily,
    MultivariateNormal,
    NormalMean,
    NormalPrecision,
    NotMonotone,
    Shell,
    Solved,
    Unsolved,
    check_prior,
    clipped_match,
    least_curvature,
    newton,
    truncated_mle,
)
from dpverify.families.clipped_moments import masked_inverse
from dpverify.families.sets import pack
from dpverify.privacy.numbers import Floats

PRIOR = Eigenvalues(0.4, 3.0, 0.5)


def _covariance(d: int, low: float = 0.5, high: float = 2.0) -> Floats:
    turn = np.linalg.qr(np.random.default_rng(d).normal(size=(d, d)))[0]
    values = np.geomspace(low, high, d) if d > 1 else np.ones(1)
    return np.asarray((turn * values) @ turn.T)


def _worlds(d: int) -> list[tuple[ExponentialFamily, Any, Floats]]:
    rng = np.random.default_rng(d + 50)
    mean = 0.2 * rng.normal(size=d) / math.sqrt(d)
    known, precise, full = NormalMean(d), NormalPrecision(d), MultivariateNormal(d)
    identity = full.natural(0 * mean, np.eye(d))
    return [
        (known, Ball((0.0,) * d, 2.0), mean),
        (known, Box((-1.0,) * d, (1.0,) * d), mean),
        (precise, PRIOR, precise.natural(_covariance(d))),
        (precise, Ball(tuple(pack(np.eye(d))), 0.6), precise.natural(_covariance(d, 0.9, 1.1))),
        (full, PRIOR, full.natural(mean, _covariance(d))),
        (full, Ball(tuple(identity), 0.5), full.natural(mean, _covariance(d, 0.9, 1.1))),
    ]


WORLDS = [world for d in (1, 2, 4) for world in _worlds(d)]
IDS = [f"{type(f).__name__}-{type(prior).__name__}-{f.d}" for f, prior, _ in WORLDS]


@pytest.mark.parametrize(("family", "prior", "theta"), WORLDS, ids=IDS)
def test_exact_moments_lead_back(family: ExponentialFamily, prior: Any, theta: Floats) -> None:
    ball = family.survival(prior, 0.4)
    shell = Shell(ball.center, ball.radius / 20, ball.radius)
    assert np.allclose(family.project(theta, prior), theta)
    for kept in (ball, shell):
        solution = truncated_mle(family, prior, kept, family.truncated(theta, kept).mean)
        assert isinstance(solution, Solved)
        assert not solution.at_edge
        assert np.allclose(solution.theta, theta, rtol=1e-6, atol=1e-6)
    back = clipped_match(family, prior, ball, family.clipped(theta, ball).mean)
    assert isinstance(back, Solved)
    assert np.allclose(back.theta, theta, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(("family", "prior", "theta"), WORLDS, ids=IDS)
def test_noisy_moments_lead_to_the_least_place_of_the_prior(
    family: ExponentialFamily, prior: Any, theta: Floats
) -> None:
    """Find the place to which a step against the gradient leads back by projection; no other
    parameter is better. Also far from all moments."""
    ball, rng = family.survival(prior, 0.4), np.random.default_rng(5)
    center = family.truncated(theta, ball).mean
    edges = 0
    for size in (0.02, 0.3, 30.0):
        noisy = center + size * rng.normal(size=family.p)
        solution = truncated_mle(family, prior, ball, noisy)
        assert isinstance(solution, Solved), (size, solution)
        edges += solution.at_edge
        at = family.truncated(solution.theta, ball)
        for step in (1e-3, 0.1):
            moved = family.project(solution.theta - step * (at.mean - noisy), prior)
            assert np.allclose(moved, solution.theta, rtol=0, atol=1e-5 * max(1, size)), size
        value = family.log_partition(solution.theta) + at.log_mass - solution.theta @ noisy
        for _ in range(10):
            other = family.project(solution.theta + 0.1 * rng.normal(size=family.p), prior)
            log = family.log_partition(other) + family.truncated(other, ball).log_mass
            assert log - other @ noisy >= value - 1e-9 * max(1.0, size)
    assert edges


@pytest.mark.parametrize(
    ("world", "size"), [("MultivariateNormal-Eigenvalues-4", 30.0), ("NormalMean-Ball-4", 1000.0)]
)
def test_moments_far_from_all_have_an_estimate_at_the_edge(world: str, size: float) -> None:
    """There the gradient is long, and its product with a step is known to no more than some
    rounding of the place at the edge."""
    family, prior, theta = WORLDS[IDS.index(world)]
    ball, rng = family.survival(prior, 0.4), np.random.default_rng(77)
    center = family.truncated(theta, ball).mean
    for _ in range(8):
        noisy = center + size * rng.normal(size=family.p)
        solution = truncated_mle(family, prior, ball, noisy)
        assert isinstance(solution, Solved), solution
        assert solution.at_edge
        slope = noisy - family.truncated(solution.theta, ball).mean
        moved = family.project(solution.theta + 1e-3 * slope / size, prior)
        assert np.allclose(moved, solution.theta, rtol=0, atol=1e-7)


def test_matrices_by_eigenvalues_are_those_by_all_parameters() -> None:
    """A ball that holds the prior of eigenvalues takes the general path; and without limits the
    masked inverse that releases use."""
    d = 4
    family, rng = NormalPrecision(d), np.random.default_rng(8)
    kept = family.survival(PRIOR, 0.3)
    theta = family.natural(_covariance(d, 0.9, 1.1))
    released = family.truncated(theta, kept).mean + 0.01 * rng.normal(size=family.p)
    own = truncated_mle(family, PRIOR, kept, released)
    other = truncated_mle(family, Ball(tuple(pack(np.eye(d))), 0.6), kept, released)
    assert isinstance(own, Solved)
    assert isinstance(other, Solved)
    assert np.allclose(own.theta, other.theta, atol=1e-8)
    values, vectors = np.linalg.eigh(-2 * family.split(released)[0])
    variances = masked_inverse(values, kept.radius**2).variances
    assert np.allclose(family.textbook(own.theta), (vectors * variances) @ vectors.T, atol=1e-8)


@pytest.mark.parametrize("outside", ["mask", "clip"])
def test_errors_are_bounded_by_the_least_curvature(outside: Any) -> None:
    """|estimate - theta| <= |released - expected| / least: 80 noisy releases; and some come
    within a factor of five.

    The least is computed over points of the prior, and both parameters lie in it.
    """
    prior = Eigenvalues(0.7, 1.5)
    family, rng, closest = NormalPrecision(2), np.random.default_rng(9), 0.0
    kept = family.survival(prior, 0.5)
    least = least_curvature(family, prior, kept, outside)
    assert least > 0
    for _ in range(80):
        theta = family.project(np.array([1.0, 1.0, 0.0]) + 0.4 * rng.normal(size=3), prior)
        if outside == "mask":
            expected = family.truncated(theta, kept).mean
        else:
            expected = family.clipped(theta, kept).mean
        noise = 0.02 * rng.normal(size=3)
        match = truncated_mle if outside == "mask" else clipped_match
        solution = match(family, prior, kept, expected + noise)
        if isinstance(solution, Solved):
            ratio = float(np.linalg.norm(solution.theta - theta) * least / np.linalg.norm(noise))
            assert ratio <= 1 + 1e-6
            closest = max(closest, ratio)
    assert closest > 0.2


def test_clipping_that_does_not_tell_the_precision_is_refused() -> None:
    """A ball of .05 of the records of least precision, eigenvalues a factor ten apart: the
    symmetrised Jacobian has a negative eigenvalue; counting records inside alone is still
    possible, and so is clipping to a larger ball."""
    family, prior = NormalPrecision(2), Eigenvalues(0.5, 5.0)
    narrow, wide = family.survival(prior, 0.05), family.survival(prior, 0.5)
    released = family.clipped(family.natural(np.eye(2)), narrow).mean
    with pytest.raises(NotMonotone, match="Use truncated_mle") as refused:
        clipped_match(family, prior, narrow, released)
    assert refused.value.least == least_curvature(family, prior, narrow, "clip") < 0
    assert least_curvature(family, prior, narrow, "mask") > 0
    inside = family.truncated(family.natural(np.eye(2)), narrow).mean
    assert isinstance(truncated_mle(family, prior, narrow, inside), Solved)
    released = family.clipped(family.natural(np.eye(2)), wide).mean
    assert isinstance(clipped_match(family, prior, wide, released), Solved)


def test_what_is_not_found_is_said() -> None:
    family, prior = NormalPrecision(2), Eigenvalues(0.5, 2.0)
    kept = family.survival(prior, 0.5)
    for matrix, why in (
        (5 * kept.radius**2 * np.eye(2), "no covariance has these moments"),
        (0.01 * np.eye(2), "outside of the prior"),
    ):
        outcome = clipped_match(family, prior, kept, -pack(matrix) / 2)
        assert isinstance(outcome, Unsolved)
        assert why in outcome.why
    mean = NormalMean(2)
    ball = Ball((0.0, 0.0), 2.0)
    far = clipped_match(mean, ball, ball, np.array([3.0, 0.0]))
    assert isinstance(far, Unsolved)


def test_newton_that_does_not_end_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newton, "STEPS", 1)
    family, prior = NormalPrecision(2), Eigenvalues(0.1, 20.0)
    kept = family.survival(prior, 0.05)
    theta = family.natural(np.diag([0.2, 1.0]))
    for way in (prior, Ball(tuple(pack(4 * np.eye(2))), 3.5)):
        outcome = truncated_mle(
            family, way, Ball((0.0, 0.0), 1.5), family.truncated(theta, kept).mean
        )
        assert isinstance(outcome, Unsolved)
        assert "did not converge" in outcome.why


def test_a_search_over_the_prior_that_does_not_end_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eigenvalues a factor 10000 apart, three of them, at the prior's end: with 50 inner steps
    the place is none, and is not given for one."""
    family, rng = MultivariateNormal(3), np.random.default_rng(0)
    prior = Eigenvalues(0.01, 100.0, 0.01)
    kept = family.survival(prior, 0.3)
    center = family.mean(family.natural(np.zeros(3), np.diag([90.0, 1.0, 0.02])))
    released = center * (1 + 0.3 * rng.normal(size=family.p)) + 0.5 * rng.normal(size=family.p)
    solution = truncated_mle(family, prior, kept, released)
    assert isinstance(solution, Solved)
    assert solution.at_edge
    monkeypatch.setattr(newton, "INNER", 50)
    cut = truncated_mle(family, prior, kept, released)
    assert isinstance(cut, Unsolved)
    assert "did not converge" in cut.why


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda f, prior: truncated_mle(f, prior, Ball((0.0, 0.0), 0.1), np.zeros(3)),
            "as far as a bound tells",
        ),
        (
            lambda f, prior: truncated_mle(f, prior, f.survival(prior), np.zeros(4)),
            "give 3 finite numbers",
        ),
        (
            lambda f, prior: clipped_match(f, prior, f.survival(prior), np.full(3, math.nan)),
            "give 3 finite numbers",
        ),
        (
            lambda f, prior: clipped_match(f, prior, Shell((0.0, 0.0), 0.1, 9.0), np.zeros(3)),
            "not convex",
        ),
        (
            lambda f, prior: check_prior(f, prior, Ball((0.0, 0.0), 0.1)),
            "as far as a bound tells",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(NormalPrecision(2), Eigenvalues(0.5, 2.0))


# --- assumptions ---------------------------------------------------------------------------------


def test_assumptions_that_hold() -> None:
    for family, prior, degree in (
        (NormalMean(3), Ball((0.0,) * 3, 4.0), 1),
        (NormalMean(2, ((2.0, 0.5), (0.5, 1.0))), Box((0.0, 0.0), (1.0, 2.0)), 1),
        (NormalPrecision(3), PRIOR, 2),
        (MultivariateNormal(2), PRIOR, 2),
    ):
        for outside in ("mask", "clip"):
            report = check_prior(family, prior, family.survival(prior, 0.9), outside)
            assert not report.broken, str(report)
            assert report.degree == degree
            assert report.mass == pytest.approx(0.9)
            assert report.strength is not None
            assert report.strength > 0
            if not isinstance(
                family, MultivariateNormal
            ):  # of which bounds are wider than the prior
                assert report.strength <= 1.05 * report.curvature.least


def test_assumptions_that_are_broken_and_where() -> None:
    precise, full = NormalPrecision(2), MultivariateNormal(2)
    singular = check_prior(precise, Eigenvalues(0.0, 1.0))
    assert set(singular.broken) == {"S1", "S2"}
    assert singular.curvature.most == math.inf
    assert "end of all parameters" in str(singular)
    nearly = check_prior(precise, Eigenvalues(1e-5, 1e5))
    assert set(nearly.broken) == {"S1"}
    assert "singular in floats" in nearly.broken["S1"]
    unbounded = check_prior(full, Eigenvalues(0.5, math.inf, 1.0))
    assert set(unbounded.broken) == {"S1"}
    assert unbounded.curvature.least == 0
    anywhere = check_prior(full, Eigenvalues(0.5, 2.0, math.inf))
    assert set(anywhere.broken) == {"S1"}
    reaching = check_prior(precise, Ball((1.0, 1.0, 0.0), 1.2))
    assert set(reaching.broken) == {"S1", "S2"}
    hole = check_prior(precise, Eigenvalues(0.5, 2.0), Shell((0.0, 0.0), 0.3, 4.0))
    assert set(hole.broken) == {"S3"}
    assert "in the hole" in hole.broken["S3"]
    assert hole.strength is not None
    assert hole.strength > 0


def test_a_family_that_contradicts_itself_is_refused() -> None:
    class Shifted(NormalMean):
        def mean(self, theta: Floats) -> Floats:
            return NormalMean.mean(self, theta) + 0.1

    class Wide(NormalMean):
        def fisher(self, theta: Floats) -> Floats:
            return 2 * NormalMean.fisher(self, theta)

    class Elsewhere(NormalMean):
        def mean_to_natural(self, tau: Floats) -> Floats:
            return 2 * tau

    class Drawn(NormalMean):
        def sample(self, theta: Floats, size: int, rng: np.random.Generator) -> Floats:
            return NormalMean.sample(self, theta + 1, size, rng)

    class Cubed(NormalMean):
        degree = 0

    class Loose(NormalMean):
        def truncated(self, theta: Floats, survival: Any) -> Any:
            moments = NormalMean.truncated(self, theta, survival)
            return dataclasses.replace(moments, mean=moments.mean + 0.01)

    class Unmoved(NormalMean):
        def clipped(self, theta: Floats, survival: Any) -> Any:
            moments = NormalMean.clipped(self, theta, survival)
            return type(moments)(moments.mean, lambda: np.eye(2))

    class Bent(NormalMean):
        def log_base(self, x: Floats) -> Floats:
            return np.asarray((x**2).sum(axis=1))

    ball = Ball((0.0, 0.0), 2.0)
    for family, message in (
        (Shifted(2), "not the gradient of the log partition"),
        (Wide(2), "not the derivative of the mean"),
        (Elsewhere(2), "is not theta"),
        (Drawn(2), "has another mean"),
        (Cubed(2), "no polynomial of degree 0"),
        (Loose(2), "the truncated mean"),
        (Unmoved(2), "the clipped Jacobian"),
    ):
        with pytest.raises(ValueError, match=message):
            check_prior(family, ball, Ball((0.0, 0.0), 4.0))
    assert "S3" in check_prior(Bent(2), ball).broken


@pytest.mark.parametrize("outside", ["mask", "clip"])
def test_the_least_curvature_by_eigenvalues_is_that_by_all_parameters(outside: Any) -> None:
    for d, mass in ((1, 0.3), (2, 0.05), (3, 0.3), (5, 0.9)):
        family, prior = NormalPrecision(d), Eigenvalues(0.5, 5.0)
        kept, curvatures = family.survival(prior, mass), []
        for theta in family.points(prior):
            if outside == "mask":
                slope = family.truncated(theta, kept).covariance
            else:
                slope = family.clipped(theta, kept).jacobian
            curvatures.append(float(np.linalg.eigvalsh((slope + slope.T) / 2)[0]))
        own = least_curvature(family, prior, kept, outside)
        assert own == pytest.approx(min(curvatures), rel=1e-6, abs=1e-10)
    shell = Shell((0.0, 0.0), 0.2, 3.0)
    with pytest.raises(ValueError, match="not convex"):
        least_curvature(NormalPrecision(2), Eigenvalues(0.5, 2.0), shell, "clip")
