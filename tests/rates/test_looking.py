"""Points are looked at with few releases first; what stays open, or is too wide for a slope,
takes more."""

from __future__ import annotations

import dataclasses
import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import norm

from dpverify.rates import Curve, Exponent, Point, Releases, Row, enough, fit, looks, measure
from dpverify.rates.looking import Look
from tests.rates.helpers import claim, point

_CURVE = Curve(function="expected_error", arguments=("parameters",))
_CURVED = claim(curve=_CURVE)
_SLOPED = claim(curve=_CURVE, exponent=Exponent(value=-1, tolerance=0.1))
_ERROR = 0.1 / 5.5 * math.sqrt(2) * math.log(5)
"""The standard error at which a slope over the values of ``claim`` has five and a half of them
within its tolerance."""


@pytest.mark.parametrize("repeats", [50, 99, 100, 200, 399, 400, 600, 10_000])
def test_looks_grow_to_four_times_the_releases_and_share_alpha(repeats: int) -> None:
    schedule = list(looks(repeats, 50))
    sizes = [look.repeats for look in schedule]
    assert sizes[0] == max(50, min(repeats, round(repeats / 8)))
    assert repeats in sizes
    assert repeats < 100 or any(abs(repeats / 2 - size) <= 0.5 for size in sizes)
    assert sizes[-1] == 4 * repeats
    assert all(1.19 * a <= b <= 1.5 * a for a, b in pairwise(sizes))
    assert sum(look.share for look in schedule) == pytest.approx(1)


@pytest.mark.parametrize("repeats", [50, 100, 200, 400, 600, 10_000])
def test_an_error_at_the_edge_is_rarely_shown(repeats: int) -> None:
    """A normal measured error at the edge is shown at some look with probability below 10%. Without
    chance: the walks are fixed. Planted: looks at 95% intervals show it more often.
    """
    schedule = list(looks(repeats, 50))
    assert _shown_at_the_edge(schedule, [look.shown for look in schedule]) < 0.095
    if len(schedule) == 11:
        assert _shown_at_the_edge(schedule, [0.05] * 11) > 0.11
    assert all(look.sure == (6.5 if 2 * look.repeats < repeats - 1 else 5.5) for look in schedule)


def _shown_at_the_edge(schedule: list[Look], alphas: list[float]) -> float:
    """Return the share of random walks that are above one of the looks' quantiles."""
    rng, walk, last = np.random.default_rng(7), np.zeros(100_000), 0
    shown = np.zeros(len(walk), dtype=bool)
    for look, alpha in zip(schedule, alphas, strict=True):
        walk += rng.normal(size=len(walk)) * math.sqrt(look.repeats - last)
        last = look.repeats
        shown |= walk > norm.isf(alpha / 2) * math.sqrt(last)
    return float(shown.mean())


def test_what_is_shown_at_first_is_shown_by_the_surer_interval() -> None:
    row = Row(point(0.1, 1.04, 0.02), predicted=1.0)
    surer = Row(point(0.1, 1.04, 0.03), predicted=1.0)
    assert enough(_CURVED, 1, row, None)
    assert not enough(_CURVED, 1, row, None, surer=surer)


@pytest.mark.parametrize(
    ("measured", "error", "settled"),
    [
        (1.0, 0.02, True),
        (1.04, 0.02, True),
        (1.08, 0.02, False),
        (1.09, 0.1, False),
        (3, 0.1, True),
    ],
)
def test_a_point_is_settled_when_its_curve_is_shown_or_refuted(
    measured: float, error: float, settled: bool
) -> None:
    row = Row(point(0.1, measured, error), predicted=1.0)
    assert enough(_CURVED, 1, row, None) is settled


@pytest.mark.parametrize(
    ("slope", "error", "settled"),
    [
        (None, 0.66, True),
        (None, 0.67, False),
        (-1.0, 0.99, True),
        (-1.05, 0.51, False),
        (-0.95, 0.49, True),
        (-1.2, 0.01, False),
    ],
)
def test_a_slope_near_the_end_of_what_is_claimed_takes_more_releases(
    slope: float | None, error: float, settled: bool
) -> None:
    wide = dataclasses.replace(_CURVE, margin=2.0)
    made = dataclasses.replace(_SLOPED, curve=wide)
    row = Row(point(0.1, 1.0, error * _ERROR), predicted=1.0)
    assert enough(made, 0, row, slope) is settled
    assert enough(made, 2, row, slope) is settled


def test_the_middle_of_three_points_needs_no_precision_for_the_slope() -> None:
    made = dataclasses.replace(_SLOPED, curve=dataclasses.replace(_CURVE, margin=8.0))
    row = Row(point(0.1, 1.0, 9 * _ERROR), predicted=1.0)
    assert enough(made, 1, row, -1.0)
    assert not enough(made, 0, row, -1.0)


def test_first_looks_are_surer_of_the_slope() -> None:
    made = dataclasses.replace(_SLOPED, curve=dataclasses.replace(_CURVE, margin=8.0))
    row = Row(point(0.1, 1.0, 0.9 * _ERROR), predicted=1.0)
    assert enough(made, 0, row, -1.0)
    assert not enough(made, 0, row, -1.0, sure=6.5)


@pytest.mark.parametrize("values", [(0.1, 0.5, 2.5), (0.1, 0.2, 3.0), (0.1, 0.2, 0.5, 1, 4)])
def test_points_that_are_just_enough_make_a_slope_that_is(values: tuple[float, ...]) -> None:
    """Planted: points half as precise make a slope that is not."""
    wide = dataclasses.replace(_CURVE, margin=99.0)
    made = dataclasses.replace(_SLOPED, values=values, curve=wide)

    def widest(index: int) -> float:
        """Return the largest standard error of the logarithm, of at most 1, that is enough."""
        low, high = 0.0, 1.0
        for _ in range(30):
            middle = (low + high) / 2
            row = Row(point(values[index], 1.0, middle), predicted=1.0)
            low, high = (middle, high) if enough(made, index, row, -1.0) else (low, middle)
        return low

    errors = [widest(index) for index in range(len(values))]
    points = [point(v, 1.0, e) for v, e in zip(values, errors, strict=True)]
    worse = [point(v, 1.0, 2 * e) for v, e in zip(values, errors, strict=True)]
    assert _deviation(points) <= 0.1 / 5.5 * 1.02 < _deviation(worse)


def _deviation(points: list[Point]) -> float:
    """Return the standard error of the slope through these points."""
    slope = fit(points)
    return (slope.high - slope.low) / (2 * 1.96)


def test_an_interval_without_length_is_not_enough_for_a_slope() -> None:
    at = dataclasses.replace(point(0.1, 1.0, 0.001), low=0.0)
    bound = claim(upper=_CURVE, exponent=Exponent(value=-1, tolerance=0.1))
    assert not enough(bound, 1, Row(at, upper=2.0), None)


def test_values_outside_the_regime_need_no_precision_for_the_slope() -> None:
    made = dataclasses.replace(
        _SLOPED,
        values=(*_SLOPED.values, 10),
        curve=dataclasses.replace(_CURVE, margin=4.0),
        exponent=Exponent(value=-1, tolerance=0.01, end=1.0),
    )
    row = Row(point(10, 1.0, 0.1), predicted=1.0)
    assert enough(made, 3, row, None)
    assert not enough(made, 0, row, None)


def test_more_releases_go_on_where_fewer_ended() -> None:
    """The first errors of more are those of fewer: nothing is drawn twice, and the end is the
    same."""
    releases = Releases(_CURVED, 0, seed=4)
    few = releases.point(1000, 1e-9)
    many = releases.point(3000, 1e-9)
    assert releases.point(1000, 1e-9) == few
    assert few == measure(_CURVED, 0, repeats=1000, alpha=1e-9, seed=4)
    assert (few.repeats, many.repeats) == (1000, 3000)
    assert many.high / many.low < few.high / few.low
