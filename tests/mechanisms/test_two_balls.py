"""``refined_mean`` with two balls: when there are two, what shrinking keeps, errors of normal and
of skewed records, deviations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify import Adjacency, ApproxDP, RefinedMean, SeededBits, VectorMeanEstimate
from dpverify.estimation.two_balls import (
    NormalRecords,
    TwoBalls,
    combined,
    directions,
    left_of_noise,
    shrinkage,
)
from dpverify.grid.shapes import shape_of, tail_radius
from spec import refined_mean as spec
from spec.theory import two_balls
from tests.mechanisms.helpers import law_on, view_of

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
BUDGET = ApproxDP(1, "1e-6")
D, N = 30, 4000
DEVIATIONS = np.arange(1, D + 1) ** -0.5


def made(**own: Any) -> RefinedMean:
    given = {"covariance": (DEVIATIONS**2).tolist(), "n_max": N, "adjacency": ADD, **own}
    return RefinedMean.for_budget(BUDGET, **given)


def test_there_are_two_where_directions_are_many_and_noise_is_below_the_sampling_error() -> None:
    two = made()
    assert two.inner_ratio is not None
    assert Fraction(1, 2) < two.inner_ratio < 1
    assert two.claim.guarantee == BUDGET
    one = made(inner_ratio=None)
    assert one.inner_ratio is None
    assert one.record_radius < two.record_radius
    assert two.expected_error(N) < 0.92 * one.expected_error(N)
    few = made(covariance=(1.0, 1.0, 1.0), n_max=50_000)
    noisy = made(n_max=700)
    for mechanism in (few, noisy):
        assert mechanism.inner_ratio is None
    assert noisy.parameters == made(n_max=700, inner_ratio=None).parameters
    turned = np.linalg.qr(np.random.default_rng(1).normal(size=(D, D)))[0]
    full = turned @ np.diag(DEVIATIONS**2) @ turned.T
    other = made(covariance=((full + full.T) / 2).tolist())
    assert other.inner_ratio == two.inner_ratio
    assert other.expected_error(N) == pytest.approx(two.expected_error(N), rel=1e-6)


@pytest.mark.parametrize("bad", [0, 1, "3/2", -1])
def test_a_ratio_is_between_0_and_1(bad: Any) -> None:
    with pytest.raises(ValueError, match="inner_ratio"):
        made(inner_ratio=bad)


def test_directions_and_what_is_left_are_the_specs() -> None:
    for weights in ((1.0,), (1.0, 4.0, 9.0), (16.0, 16.0, 16.0, 16.0, 1.0), (2.0,) * 50):
        shape = shape_of(weights)[1]
        roots = [Fraction(w) if w == 2 else Fraction(math.isqrt(int(w))) for w in weights]
        many, effective = directions(shape)
        assert many == pytest.approx(float(sum(roots) / max(roots)))
        assert effective == pytest.approx(float(sum(roots) ** 2 / sum(r**2 for r in roots)))
        right = float(two_balls.shrinkage(roots) / sum(roots))
        assert shrinkage(many) == pytest.approx(right)
        for signal in (0, 0.3, 20):
            said = left_of_noise(signal, shape)
            assert said == pytest.approx(float(two_balls.left_of_noise(roots, signal)), rel=1e-4)
    assert left_of_noise(math.inf, shape) == 1


@pytest.mark.parametrize("power", [0, 0.5, 1])
def test_the_rest_of_normal_records_is_as_predicted(power: float) -> None:
    """100,000 records of a fixed seed about a point that is off by N(0, center^2): E|S|^2 over the
    noise, by what one record adds, as code and spec predict. With directions of equal weight the
    laws are exact, otherwise to within a quarter, of which what is left of the noise depends on
    less."""
    values = np.arange(1.0, D + 1) ** -power
    small, large, center, n, multiplier = np.sqrt(values.sum()) * 1.15, 9.0, 0.05, 3000, 2.0
    said = NormalRecords(n, values, center, multiplier).signal(small, large)
    right = two_balls.signal([*values], n, small, large, center, multiplier)
    assert said == pytest.approx(float(right), rel=1e-4)
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(100_000, D)) * np.sqrt(values)
    off = rows + center * rng.normal(size=rows.shape)
    lengths = np.linalg.norm(off, axis=1)
    more = np.minimum(lengths, large) - np.minimum(lengths, small)
    added = off * (more / lengths)[:, np.newaxis]
    own = n * (values * added**2).sum(axis=1).mean()
    along = (added * off).mean(axis=0) / (values + center**2)
    own += (n * center) ** 2 * (values * along**2).sum()
    noise = (multiplier * large) ** 2 * (large - small) / (large + small) * values.sum()
    assert own / noise == pytest.approx(said, rel=0.25 if power else 0.06)


@pytest.mark.parametrize("far", [0.0, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("small", [0.3, 0.7, 0.98])
def test_the_error_is_never_above_that_of_the_outer_ball(far: float, small: float) -> None:
    """A model of the released numbers: 20,000 draws of the noise, with the rest at 0, and one and
    several deviations in the first or in all coordinates. The mean square is at most that of the
    outer ball's noise, to within six standard errors (false alarm 1e-9), and at 0 less by most of
    what the outer ball adds."""
    rng = np.random.default_rng(3)
    shape = shape_of(tuple((DEVIATIONS**4).tolist()))[1]
    nearness = shape.nearness(Fraction(1))
    cell = 2.0**nearness.exponent
    weights = DEVIATIONS**2 * cell**2  # of M^(1/2), of squared cells
    large = 1000.0
    tilt = 1 / math.sqrt((1 - small**2) * large**2)
    own = small * large * math.sqrt(2 / (1 + small))
    balls = TwoBalls(small * large, large, tilt, own)
    assert balls.own == pytest.approx(small * large)
    assert math.hypot(balls.own, (1 + balls.regression) * balls.rest) == pytest.approx(large)
    for everywhere in (False, True):
        more = np.full(D, far * balls.rest)
        more[1:] *= everywhere
        squares = []
        for _ in range(2000):
            noise = rng.normal(size=(2, D)) * own
            inner = -more + noise[0]  # the outer sum is 0
            rest = 2 * balls.small * balls.tilt * (more - balls.slope * -more) + noise[1]
            total = combined(shape, nearness, balls, inner, rest)[0]
            squares.append((weights * total**2).sum() / (weights.sum() * large**2))
        error = np.std(squares) / math.sqrt(len(squares))
        assert np.mean(squares) <= 1 + 6 * error
        if far == 0:
            assert np.mean(squares) < small**2 + 0.3 * (1 - small**2) + 6 * error


def errors(
    mechanisms: Sequence[RefinedMean], kind: str, runs: int, deviations: Any = DEVIATIONS
) -> list[tuple[Any, Any]]:
    """Return, for each mechanism, squared distances from the records' mean of n_max records, and
    shares of coordinates within two deviations.

    All release from one view of the records, whose friends are counted once.
    """
    n, d = mechanisms[0].n_max, len(deviations)
    away, inside = np.empty((2, len(mechanisms), runs))
    for run in range(runs):
        rng = np.random.default_rng([4, run])
        normal = kind == "normal"
        rows = rng.normal(size=(n, d)) if normal else rng.exponential(size=(n, d))
        rows = rows * deviations
        view = view_of(mechanisms[0], rows)
        for i, mechanism in enumerate(mechanisms):
            release = mechanism.release(law_on(mechanism, view), SeededBits(run))
            assert isinstance(release, VectorMeanEstimate)
            off = release.value - rows.mean(axis=0)
            away[i, run] = (off**2).sum()
            inside[i, run] = (np.abs(off) <= 2 * release.standard_deviation).mean()
    return [*zip(away, inside, strict=True)]


def test_normal_records_have_less_error_and_skewed_ones_no_more_than_before() -> None:
    """60 releases each. The root mean square is below .95 of that with one ball; for exponential
    records, whose loss by the ball is a good part of it, below 1.02 times; deviations of normal
    records cover at least 94% of coordinates."""
    both = made(), made(inner_ratio=None)
    (away, inside), (before, _) = errors(both, "normal", 60)
    assert math.sqrt(away.mean() / before.mean()) < 0.95
    assert inside.mean() > 0.94
    skewed = [away.mean() for away, _ in errors(both, "exponential", 60)]
    assert math.sqrt(skewed[0] / skewed[1]) < 1.02


@pytest.mark.parametrize(
    ("epsilon", "d", "n", "power", "runs"),
    [(1, 30, 4000, 1, 60), (20, 30, 5000, 1, 30), (1, 5, 1500, 0, 150)],
)
def test_the_error_is_the_expected_one(epsilon: int, d: int, n: int, power: int, runs: int) -> None:
    """Both plans' mean squares over the expected ones are 1 within six standard errors (false alarm
    1e-8) and 6%, the model's own; one ball is the default where it is better by more than that.

    Without the finite rest of n normal records, the center's part of it and the number's noise
    the second and the third ratio for two balls would be 1.6 and 2.4."""
    deviations: Any = np.arange(1, d + 1) ** (-power / 2)
    outer, inner = (tail_radius(deviations, rare) for rare in (0.5 / math.sqrt(n), 0.5))
    given: dict[str, Any] = {
        "adjacency": ADD,
        "covariance": (deviations**2).tolist(),
        "n_max": n,
    }
    budget, own = ApproxDP(epsilon, "1e-6"), {"record_radius": outer, "inner_ratio": inner / outer}
    two, one = (RefinedMean.for_budget(budget, **given, **o) for o in (own, {"inner_ratio": None}))
    measured = errors((two, one), "normal", runs, deviations)
    for mechanism, (away, _) in zip((two, one), measured, strict=True):
        expected = float(spec.expected_error(mechanism.parameters, n))
        error = away.std() / away.mean() / math.sqrt(runs)
        assert abs(away.mean() / expected**2 - 1) < 6 * error + 0.06
        assert mechanism.expected_error(n) == pytest.approx(expected, rel=0.003)
    better = two.expected_error(n) < one.expected_error(n)
    assert (RefinedMean.for_budget(budget, **given).inner_ratio is not None) is better
    assert better is (epsilon == 1 and d == 30)


def test_lengths_beyond_floats_have_an_interval() -> None:
    """Squares of such deviations are infinite: all of the rest is kept, and 0 of it is cut."""
    large, n = 1e307, 20_000
    outer, inner = (
        tail_radius(np.full(20, math.sqrt(large)), rare) for rare in (0.5 / math.sqrt(n), 0.5)
    )
    mechanism = RefinedMean.for_budget(
        BUDGET,
        adjacency=ADD,
        covariance=[large] * 20,
        n_max=n,
        record_radius=outer,
        inner_ratio=inner / outer,
    )
    rows = np.random.default_rng(0).normal(size=(n, 20)) * math.sqrt(large)
    release = mechanism.release(rows, SeededBits(1))
    assert isinstance(release, VectorMeanEstimate)
    assert not np.isnan(release.standard_deviation).any()
    assert not np.isnan(release.cut).any()
    assert mechanism.expected_error(n) < math.inf


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_every_dataset_has_a_release(adjacency: Adjacency) -> None:
    for ratio in ("1e-9", "1/2", "0.999999999"):
        mechanism = RefinedMean(
            adjacency=adjacency,
            noise_multiplier=Fraction(1, 2),
            center_multiplier=Fraction(1, 2),
            matrix=(1.0,) * 5,
            radius=6,
            record_radius=4,
            inner_ratio=ratio,
            n_max=300,
            tail=Fraction(1, 10**7),
        )
        for data in (np.zeros((0, 5)), np.full((300, 5), 1e308), np.zeros((300, 5))):
            release = mechanism.release(data, SeededBits(1))
            if isinstance(release, VectorMeanEstimate):
                assert not np.isnan(release.value).any()
                assert not np.isnan(release.standard_deviation).any()
