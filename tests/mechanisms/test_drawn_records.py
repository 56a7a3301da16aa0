"""``robust_mean``: records that are drawn in to a share of the ball, for less noise on moments and
the sum."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from dpverify import Adjacency, ApproxDP, RobustMean, SeededBits
from dpverify import RobustMeanEstimate as Estimate
from dpverify.estimation.cutting import best_drawn, drawn_response
from dpverify.grid.region_queries import WHOLE, drawn_in, reach_of
from dpverify.grid.vectors import clip_to_ball
from spec import robust_mean as spec
from spec.theory import drawn_normals
from spec.theory.vectors import clip_to_ball as spec_clip
from tests.mechanisms.test_robust_mean import HALVES, robust

REPLACE = Adjacency.REPLACE


def test_records_are_drawn_in_as_the_spec_says() -> None:
    """Each to the ball's own reach, to the last cell; with a share of 1 nobody is."""
    rng = np.random.default_rng(1)
    moved = rng.integers(-40, 41, (3, 20, 2))
    radii = np.array([60, 7, 60])
    drawn = drawn_in(moved, radii, Fraction(2, 3))
    for rows, radius, own in zip(moved.tolist(), radii.tolist(), drawn.tolist(), strict=True):
        reach = reach_of(radius, Fraction(2, 3))
        assert reach == max(1, 2 * radius // 3)
        assert [tuple(row) for row in own] == [spec_clip(tuple(row), reach) for row in rows]
    assert (np.abs(drawn[1]) <= 4).all()
    assert (drawn_in(moved, radii, WHOLE) == moved).all()
    assert reach_of(1, Fraction(1, 100)) == 1
    wide = np.array([[[2**41, -(2**41)]]])
    assert (
        drawn_in(wide, np.array([2**42]), Fraction(1, 2))[0] == clip_to_ball(wide[0], 2**41)
    ).all()


@pytest.mark.parametrize("d", [1, 2, 10, 100])
def test_the_response_is_the_spec_s(d: int) -> None:
    radius = math.sqrt(d) + 2
    for share, off in product((0.2, 0.6, 0.99), (0.0, 1e-9, 1.5)):
        own = drawn_response(d, radius, share * radius, off)[0]
        assert abs(own / float(drawn_normals.response(d, radius, share * radius, off)) - 1) < 1e-9
    assert drawn_response(d, 1e-6, 1e-7) == (1.0, 1.0)  # nobody is in such a ball


@pytest.mark.parametrize("off", [0.0, 1.2])
def test_a_record_s_variance_is_that_of_samples(off: float) -> None:
    """10^5 normal records of 5 columns, to four standard errors. Fixed seed: this does not vary."""
    rows = np.random.default_rng(2).normal(size=(100_000, 5))
    rows[:, 0] += off
    lengths = np.linalg.norm(rows, axis=1)
    inside = rows[lengths <= 3] * np.minimum(1, 2 / lengths[lengths <= 3])[:, np.newaxis]
    squares = np.square(inside - inside.mean(axis=0)).mean(axis=1)
    error = squares.std() / math.sqrt(len(inside))
    assert abs(squares.mean() - drawn_response(5, 3.0, 2.0, off)[1]) < 4 * error


def test_the_response_far_from_a_center_is_that_of_a_single_point() -> None:
    """Beside such a distance records of deviation 1 are one point, at any scale of floats."""
    for off in (1e4, 1e90, 1e200, math.inf):
        ratio, own = drawn_response(3, 2 * off, 2 * off, off)
        assert abs(ratio - 1) < 1e-3
        assert own < 2
    assert abs(drawn_response(3, 2e50, 5e49, 1e50)[0] - 0.5) < 1e-3
    assert drawn_response(3, 1e308, 5e307) == (1.0, 1.0)


def test_where_the_center_is_noisy_intervals_cover_too() -> None:
    """The center is half a deviation off in each of ten columns, so that more records are drawn in
    than about their mean. As if none were, 0.88 of the means would be within two deviations.
    Fixed seeds."""
    own = {"drawn": "1/2", "adjacency": REPLACE, "shares": ("1/5", "4/5"), "directions": 0}
    made = robust(
        deviations=(1.0,) * 10,
        radius=7,
        record_radius=5,
        n_max=600,
        noise_multiplier=3,
        **own,
    )
    covered = []
    for run in range(120):
        rows = np.random.default_rng([4, run]).normal(size=(600, 10))
        one = made.release(rows, SeededBits(run))
        assert isinstance(one, Estimate)
        low, high = one.interval("0.9545")
        covered.append(((low <= rows.mean(axis=0)) & (rows.mean(axis=0) <= high)).mean())
    assert np.mean(covered) > 0.93


@pytest.mark.parametrize("drawn", [Fraction(1), Fraction(1, 2), Fraction(1, 64)])
@pytest.mark.parametrize("radius", [1e308, 1e200, 1.0, 1e-200])
def test_radii_at_the_ends_of_the_floats_give_a_number(radius: float, drawn: Fraction) -> None:
    """All records are one, whose mean is found; no interval is nan, or endless for long radii."""
    own = {"drawn": drawn, "radius": radius, "record_radius": radius, "adjacency": REPLACE}
    one = robust(**own).release(np.zeros((300, 2)), SeededBits(1))
    assert isinstance(one, Estimate)
    low, high = one.interval()
    assert (np.isfinite(one.value) & (low <= 0) & (high >= 0)).all()
    assert np.isfinite(high - low).all()


def test_the_best_share_draws_in_more_where_noise_is_more() -> None:
    shares = [best_drawn(10, 5.0, 1000, noise) for noise in (0, 2, 10, 100)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == 1
    assert shares[-1] < Fraction(2, 3)


def test_the_error_is_less_where_records_are_drawn_in_and_as_expected() -> None:
    """Distances from the records' mean, of 60 releases of 2000 normal records of 10 columns. Fixed
    seeds."""
    rows = np.random.default_rng(3).normal(5.0, 1.0, (2000, 10))
    errors, expected = [], []
    for drawn in (WHOLE, Fraction(9, 16)):
        own = {"drawn": drawn, "adjacency": REPLACE, "shares": HALVES, "directions": 0}
        made = robust(
            deviations=(1.0,) * 10,
            radius=7,
            record_radius=5,
            n_max=2000,
            noise_multiplier=3,
            **own,
        )
        batch = made.law(rows).sample(SeededBits(0), 60)
        releases = [made.estimate(batch[i]) for i in range(60)]
        assert all(isinstance(one, Estimate) for one in releases)
        squares = [np.square(one.value - rows.mean(axis=0)).sum() for one in releases]  # type: ignore[union-attr]
        errors.append(math.sqrt(float(np.mean(squares))))
        expected.append(made.expected_error(2000))
        stated = float(spec.expected_error(made.parameters, 2000))
        assert abs(stated / expected[-1] - 1) < 0.02
    assert errors[1] < 0.75 * errors[0]
    for error, stated in zip(errors, expected, strict=True):
        assert 0.9 < error / stated < 1.2


def test_who_is_drawn_in_is_chosen_for_normal_inliers_alone() -> None:
    budget, own = ApproxDP(1, "1e-6"), {"deviations": (1.0,) * 50, "n_max": 10_000}

    def made(**other: object) -> RobustMean:
        return RobustMean.for_budget(budget, adjacency=REPLACE, **own, **other)  # type: ignore[arg-type]

    assert made().drawn == Fraction(13, 16)
    assert made(drawn="3/4").drawn == Fraction(3, 4)
    assert made(directions=0).drawn == 1
    assert made(record_radius=9.0).drawn == 1


@pytest.mark.parametrize("drawn", [0, -1, "5/4", "1/65", 1e-300])
def test_no_share_of_a_radius_is_refused(drawn: object) -> None:
    with pytest.raises(ValueError, match="from 1/64 to 1"):
        robust(drawn=drawn)
