"""Families of normal vectors: the spec's numbers, closed forms, derivatives, draws; balls,
shells and clipping."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpverify.estimation.clipped_response import moment
from dpverify.families import (
    Ball,
    Box,
    Eigenvalues,
    ExponentialFamily,
    MultivariateNormal,
    NormalMean,
    NormalPrecision,
    Shell,
)
from dpverify.families.balls import Law, Limit
from dpverify.families.clipped_moments import clipped_spectrum, masked_spectrum
from dpverify.families.sets import pack, unpack
from dpverify.privacy.numbers import Floats
from spec.theory import gaussian_families as spec

LIMITS: tuple[Limit, ...] = ("inside", "root", "ratio")


def _law(d: int, offset: float, ratio: float, share: float) -> Law:
    """Variances from 1 to 1 / ratio, a mean of this length, and a ball of ``share`` times E Q."""
    variances = np.geomspace(1, 1 / ratio, d)
    way = np.random.default_rng(d).normal(size=d)
    bound = share * (float(variances.sum()) + offset**2)
    return Law(offset * way / np.linalg.norm(way) / math.sqrt(bound), variances / bound)


def _exact(law: Law, limit: Limit, *indices: int) -> float:
    with mp.workdps(30):
        means, variances = ([mp.mpf(float(v)) for v in part] for part in (law.means, law.variances))
        return float(spec.limited(means, variances, limit, indices))


@pytest.mark.parametrize(
    ("d", "offset", "ratio", "share"),
    [
        (1, 0.0, 1.0, 1.0),
        (1, 2.0, 1.0, 0.1),
        (2, 1.0, 1e4, 0.3),
        (3, 8.0, 1e4, 0.5),
        (5, 3.0, 1e4, 1.0),
        (20, 8.0, 1e4, 1.0),
        (50, 8.0, 1.0, 1.0),
        (50, 8.0, 1e4, 0.9),
    ],
)
def test_moments_inside_a_ball_are_the_spec_s(
    d: int, offset: float, ratio: float, share: float
) -> None:
    """Compare to 1e-10 of the probability, of every moment up to the fourth that has a name of
    its own."""
    law = _law(d, offset, ratio, share)
    integrals = law.limited("inside")
    size = math.exp(integrals.shift)
    last = d - 1
    moments = {
        (): integrals.total,
        (0,): integrals.first[0],
        (0, last): integrals.second[0, last],
    }
    if d <= 20:
        moments[0, 0, 0, 0] = integrals.fourth[0, 0, 0, 0]
        moments[0, last, last, 0] = integrals.fourth[0, last, last, 0]
    if d <= 5:
        moments[0, 0, last] = integrals.third[0, 0, last]
        moments[last, 0, last] = integrals.third[last, 0, last]
    mass = _exact(law, "inside")
    for indices, value in moments.items():
        exact = _exact(law, "inside", *indices)
        assert size * value == pytest.approx(exact, rel=1e-10, abs=1e-10 * mass), indices


@pytest.mark.parametrize("limit", LIMITS[1:])
def test_clipped_moments_are_the_spec_s(limit: Limit) -> None:
    law = _law(2, 1.0, 30.0, 0.4)
    integrals = law.limited(limit)
    size = math.exp(integrals.shift)
    assert size * integrals.total == pytest.approx(_exact(law, limit), rel=1e-7)
    assert size * integrals.second[0, 1] == pytest.approx(_exact(law, limit, 0, 1), rel=1e-7)


@pytest.mark.parametrize("d", [1, 2, 5, 50])
def test_about_the_mean_they_are_the_centered_ones(d: int) -> None:
    """Those of the file that has mean 0 alone, by other nodes; and one offset along an axis, by
    Poisson mixtures."""
    variances = np.geomspace(1, 1e-3, d)
    for share in (0.05, 1.0, 4.0):
        bound = share * float(variances.sum())
        law = Law(np.zeros(d), variances / bound)
        own, ratio = law.limited("inside"), law.limited("ratio")
        mass, inner = masked_spectrum(variances, bound)
        assert math.exp(own.shift) * own.total == pytest.approx(mass, rel=1e-11)
        assert np.allclose(math.exp(own.shift) * np.diag(own.second) * bound, inner, rtol=1e-11)
        clipped = clipped_spectrum(variances, bound)
        values = math.exp(ratio.shift) * np.diag(ratio.second) * bound
        assert np.allclose(values, clipped, rtol=1e-11)
    for radius, offset in ((0.7 * math.sqrt(d), 1.0), (math.sqrt(d) + 1, 8.0)):
        ball, theta = Ball((0.0,) * d, radius), offset * np.eye(d)[-1]
        inside, nearest = moment(d, radius, offset, "mask"), moment(d, radius, offset, "clip")
        family = NormalMean(d)
        truncated, clipped_ = family.truncated(theta, ball), family.clipped(theta, ball)
        assert math.exp(truncated.log_mass) == pytest.approx(inside.inside, rel=1e-9)
        assert truncated.mean[-1] == pytest.approx(inside.length, rel=1e-9)
        assert clipped_.mean[-1] == pytest.approx(nearest.length, rel=1e-9)
        for values, wanted in ((truncated.covariance, inside), (clipped_.jacobian, nearest)):
            slopes = [wanted.ratio] * (d - 1) + [wanted.slope]
            assert np.allclose(values, np.diag(slopes), rtol=1e-8, atol=1e-10)


# --- families ------------------------------------------------------------------------------------


def _covariance(d: int, ratio: float = 20.0) -> Floats:
    turn = np.linalg.qr(np.random.default_rng(d).normal(size=(d, d)))[0]
    return np.asarray((turn * np.geomspace(1, ratio, d)) @ turn.T)


def _worlds(d: int) -> list[tuple[ExponentialFamily, Floats]]:
    covariance, mean = _covariance(d), np.random.default_rng(d + 100).normal(size=d)
    known = NormalMean(d, tuple(map(tuple, covariance)))
    precise, full = NormalPrecision(d), MultivariateNormal(d)
    return [
        (NormalMean(d), mean),
        (known, known.natural(mean)),
        (precise, precise.natural(covariance)),
        (full, full.natural(mean, covariance)),
    ]


WORLDS = [(f, theta) for d in (1, 2, 3, 5) for f, theta in _worlds(d)]
IDS = [f"{type(f).__name__}-{f.d}-{i % 4}" for i, (f, _) in enumerate(WORLDS)]


def _slopes(function: Any, theta: Floats, step: float = 1e-5) -> Floats:
    columns = [
        (np.asarray(function(theta + one)) - np.asarray(function(theta - one))) / (2 * step)
        for one in step * np.eye(len(theta))
    ]
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize(("family", "theta"), WORLDS, ids=IDS)
def test_derivatives_and_the_way_back(family: ExponentialFamily, theta: Floats) -> None:
    """Compare derivatives of the log partition, of the mean, and of both truncated and clipped."""
    mean, fisher = family.mean(theta), family.fisher(theta)
    scale = float(np.abs(fisher).max())
    assert np.allclose(_slopes(family.log_partition, theta), mean, rtol=1e-6, atol=1e-7 * scale)
    assert np.allclose(_slopes(family.mean, theta), fisher, rtol=1e-6, atol=1e-6 * scale)
    assert np.allclose(family.mean_to_natural(mean), theta, rtol=1e-10, atol=1e-12)
    center = 0.3 * np.random.default_rng(7).normal(size=family.d)
    radius = 1.2 * math.sqrt(family.d if isinstance(family, NormalMean) else 20.0)
    for kept in (Ball(tuple(center), radius), Shell(tuple(center), radius / 2, radius)):
        moments = family.truncated(theta, kept)

        def partition(other: Floats, kept: Any = kept) -> float:
            return family.log_partition(other) + family.truncated(other, kept).log_mass

        def truncated(other: Floats, kept: Any = kept) -> Floats:
            return family.truncated(other, kept).mean

        assert np.allclose(_slopes(partition, theta), moments.mean, rtol=1e-6, atol=1e-7 * scale)
        assert np.allclose(
            _slopes(truncated, theta), moments.covariance, rtol=1e-6, atol=1e-6 * scale
        )
    ball = Ball(tuple(center), radius)
    moved = _slopes(lambda other: family.clipped(other, ball).mean, theta)
    jacobian = family.clipped(theta, ball).jacobian
    assert np.allclose(moved, jacobian, rtol=1e-6, atol=1e-6 * scale)


@pytest.mark.parametrize("d", [1, 2, 5, 20, 50])
def test_draws_have_these_moments(d: int) -> None:
    """20000 draws (4000 for d = 50) for each of three families: means of statistics, of those
    inside and of clipped ones, and shares inside.

    Along 20 fixed directions and the share: 5.5 deviations of normal numbers, two-sided below
    4e-8 each, so a false alarm has a probability of about 1e-5 in all; seeds are fixed.
    Eigenvalue ratios to 1e4, |mean| to 8.
    """
    rng, n = np.random.default_rng(d), 4000 if d == 50 else 20_000
    covariance = _covariance(d, 1e4 if d > 1 else 1.0)
    mean = rng.normal(size=d)
    mean *= (8 if d == 50 else 2) / np.linalg.norm(mean)
    precise, full = NormalPrecision(d), MultivariateNormal(d)
    radius = math.sqrt(float(np.trace(covariance)) + float(mean @ mean))
    worlds: list[tuple[ExponentialFamily, Floats, float]] = [
        (NormalMean(d), mean, math.sqrt(d + float(mean @ mean))),
        (precise, precise.natural(covariance), radius),
        (full, full.natural(mean, covariance), radius),
    ]
    for family, theta, reach in worlds:
        x = family.sample(theta, n, rng)
        y = x - (center := 0.1 * mean)
        lengths = np.linalg.norm(y, axis=1)
        inside = lengths <= reach
        ball = Ball(tuple(center), reach)
        nearest = center + y * np.minimum(1, reach / lengths)[:, np.newaxis]
        truncated = family.truncated(theta, ball)
        share = math.exp(truncated.log_mass)
        assert abs(inside.mean() - share) < 5.5 * math.sqrt(share * (1 - share) / n)
        ways = rng.normal(size=(family.p, 20))
        for t, wanted in (
            (family.statistic(x), family.mean(theta)),
            (family.statistic(x[inside]), truncated.mean),
            (family.statistic(nearest), family.clipped(theta, ball).mean),
        ):
            along = t @ ways
            off = along.mean(axis=0) - wanted @ ways
            assert (np.abs(off) < 5.5 * along.std(axis=0) / math.sqrt(len(t))).all()


@pytest.mark.parametrize(("family", "theta"), WORLDS[4:8], ids=IDS[4:8])
def test_truncated_moments_tend_to_untruncated_ones(
    family: ExponentialFamily, theta: Floats
) -> None:
    whole, last = family.mean(theta), math.inf
    for radius in (5.0, 10.0, 20.0, 60.0):
        ball = Ball((0.0,) * family.d, radius)
        moments, moved = family.truncated(theta, ball), family.clipped(theta, ball)
        off = max(float(np.abs(m - whole).max()) for m in (moments.mean, moved.mean))
        assert off <= max(last, 1e-12)
        last = off
    assert last < 1e-12
    assert np.allclose(moments.covariance, family.fisher(theta), rtol=1e-9, atol=1e-9)
    assert np.allclose(moved.jacobian, family.fisher(theta), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_the_mean_of_clipped_records_grows_with_the_mean(d: int) -> None:
    """Stein: its Jacobian is E of that of clipping, which is positive, at most the identity, and
    trace d P(inside) and more."""
    family, rng = NormalMean(d), np.random.default_rng(3)
    for _ in range(10):
        theta, radius = 3 * rng.normal(size=d), float(rng.uniform(0.2, 4))
        ball = Ball(tuple(rng.normal(size=d)), radius)
        jacobian = family.clipped(theta, ball).jacobian
        assert np.allclose(jacobian, jacobian.T, atol=1e-12)
        values = np.linalg.eigvalsh(jacobian)
        inside = math.exp(family.truncated(theta, ball).log_mass)
        assert values[0] > 0
        assert inside - 1e-12 <= values[0] <= values[-1] <= 1 + 1e-12 or d == 1


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4), st.integers(0, 10**6))
def test_equivariance(d: int, seed: int) -> None:
    """Records turned and moved, with the ball: truncated means turn and move along."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    shift, mean, center = (rng.normal(size=d) for _ in range(3))
    family = MultivariateNormal(d)
    root = rng.normal(size=(d, d)) + 2 * np.eye(d)
    covariance = root @ root.T + 0.1 * np.eye(d)
    radius = float(rng.uniform(1, 5))
    plain = family.truncated(family.natural(mean, covariance), Ball(tuple(center), radius))
    other = family.truncated(
        family.natural(turn @ mean + shift, turn @ covariance @ turn.T),
        Ball(tuple(turn @ center + shift), radius),
    )
    assert other.log_mass == pytest.approx(plain.log_mass, rel=1e-8, abs=1e-10)
    size = family.p - d
    assert np.allclose(other.mean[size:], turn @ plain.mean[size:] + shift, rtol=1e-8, atol=1e-8)
    squares = -2 * unpack(plain.mean[:size], d)
    cross = np.outer(shift, turn @ plain.mean[size:])
    wanted = turn @ squares @ turn.T + cross + cross.T + np.outer(shift, shift)
    assert np.allclose(-2 * unpack(other.mean[:size], d), wanted, rtol=1e-7, atol=1e-7)


# --- priors --------------------------------------------------------------------------------------


def test_curvature_is_the_spec_s_and_bounds_the_fisher_information() -> None:
    for low, high, reach in ((0.5, 2.0, 0.7), (0.2, 5.0, 0.1)):
        prior = Eigenvalues(low, high, reach)
        full = MultivariateNormal(3)
        own = full.bounds(prior)
        exact = spec.curvature(mp.mpf(low), mp.mpf(high), mp.mpf(reach) / mp.mpf(low))
        assert (own.least, own.most, own.interior) == pytest.approx((*map(float, exact), low))
        alone = NormalPrecision(3).bounds(prior)
        assert (alone.least, alone.most) == pytest.approx((1 / high**2 / 2, 1 / low**2 / 2))
        for family in (full, NormalPrecision(3)):
            for theta in family.points(prior):
                values = np.linalg.eigvalsh(family.fisher(theta))
                bounds = family.bounds(prior)
                assert bounds.least * (1 - 1e-9) <= values[0]
                assert values[-1] <= bounds.most * (1 + 1e-9)
    center = tuple(pack(np.eye(2)))
    ball = NormalPrecision(2).bounds(Ball(center, 0.5))
    assert (ball.least, ball.most, ball.interior) == pytest.approx((1 / 4.5, 2.0, 0.5))
    assert NormalMean(2).bounds(Ball((0.0, 0.0), 3.0)).interior == math.inf


@pytest.mark.parametrize("mass", [0.05, 0.5, 0.99])
def test_survival_sets_hold_their_mass_over_the_prior(mass: float) -> None:
    """Exactly, for means in a ball and for precisions alone; more than that where a mean comes
    with them."""
    worlds: list[tuple[ExponentialFamily, Any, bool]] = [
        (NormalMean(3), Ball((1.0, 2.0, 3.0), 2.0), True),
        (NormalMean(2), Box((0.0, 0.0), (1.0, 3.0)), True),
        (NormalPrecision(3), Eigenvalues(0.3, 4.0), True),
        (NormalPrecision(2), Ball(tuple(pack(np.eye(2))), 0.4), True),
        (MultivariateNormal(2), Eigenvalues(0.5, 2.0, 0.5), False),
        (MultivariateNormal(2), Ball((1.0, 1.0, 0.0, 0.0, 0.0), 0.4), False),
    ]
    for family, prior, exact in worlds:
        ball = family.survival(prior, mass)
        least = family.least_mass(prior, ball)
        assert least == pytest.approx(mass, rel=1e-8)
        points = family.points(prior)
        seen = [math.exp(family.truncated(theta, ball).log_mass) for theta in points]
        assert min(seen) >= mass * (1 - 1e-8)
        if exact and not isinstance(prior, Ball):
            assert min(seen) == pytest.approx(mass, rel=1e-6)
        shell = Shell(ball.center, ball.radius / 3, ball.radius)
        bound = family.least_mass(prior, shell)
        for theta in points:
            share = math.exp(family.truncated(theta, shell).log_mass) if bound else 1.0
            assert share >= bound * (1 - 1e-8)


@pytest.mark.parametrize("scale", [1e-55, 1e-20, 1e20, 1e55])
def test_units_do_not_matter(scale: float) -> None:
    """Records times ``scale``: masses stay, means of squares and of records scale, and so do
    bounds."""
    family, radius = MultivariateNormal(2), 1.5
    mean, covariance = np.array([0.3, -0.2]), _covariance(2)
    plain = family.truncated(family.natural(mean, covariance), Ball((0.1, 0.2), radius))
    theta = family.natural(scale * mean, scale**2 * covariance)
    other = family.truncated(theta, Ball((0.1 * scale, 0.2 * scale), radius * scale))
    assert other.log_mass == pytest.approx(plain.log_mass, rel=1e-10)
    units = np.array([scale**2] * 3 + [scale] * 2)
    assert np.allclose(other.mean / units, plain.mean, rtol=1e-9)
    wanted = np.outer(units, units) * plain.covariance
    assert np.allclose(other.covariance, wanted, rtol=1e-7)
    bounds = NormalPrecision(2).bounds(Eigenvalues(0.5 * scale, 2 * scale))
    assert bounds.most == pytest.approx(2 / scale**2)
    wide = family.bounds(Eigenvalues(2.0**-200, 2.0**200, 2.0**200))
    assert 0 <= wide.least < wide.most < math.inf


def test_projections() -> None:
    family = MultivariateNormal(2)
    prior = Eigenvalues(0.5, 2.0, 1.0)
    theta = family.joined(np.array([[3.0, 0.0], [0.0, -1.0]]), np.array([3.0, 4.0]))
    wanted = family.joined(np.diag([2.0, 0.5]), np.array([0.6, 0.8]))
    assert np.allclose(family.project(theta, prior), wanted)
    inside = family.joined(np.eye(2), np.array([0.1, 0.0]))
    assert np.array_equal(family.project(inside, prior), inside)
    ball = Ball(tuple(inside), 0.5)
    assert np.linalg.norm(family.project(theta, ball) - inside) == pytest.approx(0.5)
    box = Box((-1.0, 0.0), (1.0, math.inf))
    assert NormalMean(2).project(np.array([-3.0, 7.0]), box).tolist() == [-1.0, 7.0]
    with pytest.raises(TypeError, match="a mean has no eigenvalues"):
        NormalMean(2).project(np.zeros(2), prior)
    with pytest.raises(TypeError, match="give Eigenvalues or a Ball"):
        family.project(theta, box)
    assert np.linalg.norm(pack(_covariance(4))) == pytest.approx(np.linalg.norm(_covariance(4)))
    assert np.array_equal(unpack(pack(_covariance(4)), 4).T, unpack(pack(_covariance(4)), 4))


def test_a_moment_that_no_law_has_is_moved_to_one() -> None:
    family = MultivariateNormal(2)
    for matrix in (np.diag([-1.0, 2.0]), np.zeros((2, 2)), -np.eye(2)):
        tau = family.joined(-matrix / 2, np.array([0.3, 0.1]))
        theta = family.mean_to_natural(tau)
        assert np.isfinite(theta).all()
        assert np.linalg.eigvalsh(family.split(theta)[0])[0] > 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NormalMean(0), "one number or more"),
        (lambda: NormalMean(2, ((1.0, 2.0), (2.0, 1.0))), "positive definite"),
        (lambda: Ball((0.0,), -1.0), "give a positive radius"),
        (lambda: Ball((0.0,), 1e-200), "lengths from 2"),
        (lambda: Ball((1e300,), 1.0), "lengths from 2"),
        (lambda: Eigenvalues(1e-200, 1.0), "but for 0 and infinity"),
        (lambda: Eigenvalues(math.nan, 1.0), "but for 0 and infinity"),
        (lambda: Eigenvalues(0.5, 1.0, -1.0), "not negative"),
        (lambda: Ball((math.nan,), 1.0), "none of them nan"),
        (lambda: Box((0.0, 1.0), (1.0, 1.0)), "lowest below highest"),
        (lambda: Eigenvalues(2.0, 1.0), "0 <= lowest < highest"),
        (lambda: Shell((0.0,), 2.0, 1.0), "0 < inner < outer"),
        (lambda: NormalPrecision(2).survival(Eigenvalues(0.5, 2.0), 0.04), "give one from 0.05"),
        (lambda: NormalPrecision(2).survival(Eigenvalues(0.0, 2.0)), "laws of any width"),
        (lambda: NormalMean(1).survival(Box((0.0,), (math.inf,))), "needs a bounded prior"),
        (lambda: NormalPrecision(2).mean(np.array([1.0, -1.0, 0.0])), "not positive definite"),
        (lambda: NormalPrecision(2).mean(np.ones(4)), "has 3 parameters"),
        (lambda: NormalMean(2).truncated(np.zeros(2), Ball((0.0,), 1.0)), "a center of 1 numbers"),
        (lambda: NormalMean(1).clipped(np.zeros(1), Shell((0.0,), 1.0, 2.0)), "is not convex"),
        (lambda: NormalMean(1).mean_to_natural(np.array([math.nan])), "not finite"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("offset", [0.5, 20.0, 200.0, 1000.0])
@pytest.mark.parametrize("radius", [1e-3, 1.0, 10.0])
def test_far_from_the_mean_nothing_is_lost(offset: float, radius: float) -> None:
    """Along the line, by complementary error functions of 400 digits: down to probabilities of
    exp(-500000)."""
    ball, theta = Ball((0.0,), radius), np.array([offset])
    moments = NormalMean(1).truncated(theta, ball)
    with mp.workdps(400):
        low, high = -radius - mp.mpf(offset), radius - mp.mpf(offset)
        mass = (mp.erfc(-high / mp.sqrt(2)) - mp.erfc(-low / mp.sqrt(2))) / 2
        mean = offset + (mp.npdf(low) - mp.npdf(high)) / mass
        assert moments.log_mass == pytest.approx(float(mp.log(mass)), rel=1e-11)
        assert moments.mean[0] == pytest.approx(float(mean), rel=1e-7 if radius < 1 else 1e-11)
    assert NormalMean(1).clipped(theta, ball).mean[0] <= radius * (1 + 1e-12)
