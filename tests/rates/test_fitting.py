"""Slopes of synthetic power laws: covered, and a wrong exponent is refuted."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from dpverify.rates import Curve, Exponent, Finding, Row, fit, table_of
from tests.rates.helpers import claim, point

VALUES = (10.0, 30.0, 100.0, 300.0, 1000.0)
RUNS = 4000


def _points(
    rng: np.random.Generator, exponent: float, stated: float = 1.0
) -> list[tuple[float, float, float]]:
    """(value, measured, stated standard error); errors of 1% to 5%."""
    errors = rng.uniform(0.01, 0.05, len(VALUES))
    noise = rng.normal(size=len(VALUES)) * errors
    return [
        (v, 3 * v**exponent * math.exp(z), stated * e)
        for v, z, e in zip(VALUES, noise, errors, strict=True)
    ]


def _missed(stated: float) -> tuple[int, int]:
    rng, shown, surely = np.random.default_rng(3), 0, 0
    for _ in range(RUNS):
        slope = fit([point(*p) for p in _points(rng, -1.0, stated)])
        shown += not slope.low <= -1 <= slope.high
        surely += not slope.surely_low <= -1 <= slope.surely_high
    return shown, surely


def test_the_slope_s_interval_covers_as_often_as_stated() -> None:
    """Misses are binomial(4000, 0.05): both limits are passed with probability 1e-6; and of level
    1 - 2e-7 none is seen but with probability 1e-3."""
    shown, surely = _missed(1.0)
    assert stats.binom.ppf(1e-6, RUNS, 0.05) <= shown <= stats.binom.isf(1e-6, RUNS, 0.05)
    assert surely == 0


def test_errors_stated_too_small_are_noticed() -> None:
    shown, _ = _missed(0.7)
    assert shown > stats.binom.isf(1e-6, RUNS, 0.05)


def test_an_exact_power_law_has_its_exponent_and_no_misfit() -> None:
    slope = fit([point(v, 5 * v**0.5, 0.02) for v in VALUES])
    assert math.isclose(slope.value, 0.5, abs_tol=1e-12)
    assert math.isclose(slope.robust, 0.5, abs_tol=1e-12)
    assert slope.misfit < 1e-20


def test_an_outlier_moves_the_slope_and_not_the_robust_one() -> None:
    points = [point(v, v**-1.0 * (3 if v == 1000 else 1), 0.02) for v in VALUES]
    slope = fit(points)
    assert slope.value > -0.85
    assert abs(slope.robust + 1) < 0.15
    assert slope.misfit > 100


def test_points_count_by_their_precision() -> None:
    points = [point(v, 1 / v, 0.001) for v in VALUES[:3]]
    slope = fit([*points, point(1000.0, 1.0, 1.0)])
    assert abs(slope.value + 1) < 0.01


@pytest.mark.parametrize(
    ("true", "finding"),
    [
        (-1.0, Finding.SHOWN),
        (-1.12, Finding.OPEN),
        (-0.7, Finding.REFUTED),
        (-1.3, Finding.REFUTED),
    ],
)
def test_a_wrong_exponent_is_refuted(true: float, finding: Finding) -> None:
    """Refute without chance: the points lie on their line. Claimed: -1 to 0.1; the 95% interval
    is 0.013 to either side, the sure one 0.034."""
    made = claim(values=VALUES, exponent=Exponent(value=-1, tolerance=0.1))
    rows = [Row(point(v, v**true, 0.02)) for v in VALUES]
    (comparison,) = table_of(made, rows).comparisons
    assert comparison.finding is finding


def test_the_slope_is_of_the_regime_alone() -> None:
    made = claim(values=VALUES, exponent=Exponent(value=-0.5, tolerance=0.05, start=100))
    rows = [Row(point(v, v**-0.5 * (9 if v < 100 else 1), 0.01)) for v in VALUES]
    table = table_of(made, rows)
    assert table.slope is not None
    assert math.isclose(table.slope.value, -0.5)
    assert table.findings(Finding.SHOWN)


def test_a_point_without_an_interval_leaves_all_that_leans_on_it_open() -> None:
    """Measured 9 times what is claimed, by few errors: neither shown nor refuted, and the slope
    too."""
    curve = Curve(function="f", arguments=())
    made = claim(values=VALUES, exponent=Exponent(value=-1, tolerance=0.1), curve=curve)
    rows = [Row(point(v, 1 / v, 0.001), predicted=1 / v) for v in VALUES]
    wild = replace(rows[2].point, measured=0.09, low=0.0, high=math.inf, surely_low=0.0,
                   surely_high=math.inf)  # fmt: skip
    rows[2] = replace(rows[2], point=wild)
    table = table_of(made, rows)
    assert table.slope is None
    assert not table.findings(Finding.REFUTED)
    assert len(table.findings(Finding.SHOWN)) == 4
    opened = table.findings(Finding.OPEN)
    names = [what.split(" (")[0] for what in opened]
    assert names == ["f to 1.1 at epsilon = 100", "exponent -1 to 0.1"]
    assert all("no interval: one error has over 5%" in what for what in opened)


def test_what_has_no_logarithm_is_refused() -> None:
    points = [point(v, 1.0, 0.1) for v in VALUES[:2]]
    with pytest.raises(ValueError, match="at least 3"):
        fit(points)
    with pytest.raises(ValueError, match="which has no length in logarithms"):
        fit([*points, point(50.0, math.inf, 0.1)])
    with pytest.raises(ValueError, match=r"0\.2\.\.0\.2, which has no length"):
        fit([*points, point(50.0, 0.2, 0.0)])
