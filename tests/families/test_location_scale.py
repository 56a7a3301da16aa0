"""Location-scale families: their constants and moments against scipy, their maps, solving, and
what the check of one says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpverify.families import (
    LocationScaleFamily,
    LogisticFamily,
    LogLogisticFamily,
    LogNormalFamily,
    NormalFamily,
    WeibullFamily,
    check_location_scale,
)
from dpverify.families.fitting import Near, fitted
from dpverify.families.location_scale import Interval

LAWS: list[tuple[LocationScaleFamily, Any, tuple[float, float]]] = [
    (NormalFamily(), stats.norm, (3.0, 2.0)),
    (LogNormalFamily(), stats.norm, (3.0, 2.0)),
    (LogisticFamily(), stats.logistic, (3.0, 2.0)),
    (LogLogisticFamily(), stats.logistic, (20.0, 1.5)),
    (WeibullFamily(), stats.gumbel_l, (20.0, 1.5)),
]
IDS = [type(one[0]).__name__ for one in LAWS]


@pytest.mark.parametrize(("family", "law", "_"), LAWS, ids=IDS)
def test_constants_are_scipy_s(family: LocationScaleFamily, law: Any, _: Any) -> None:
    constants = family.constants()
    assert constants.mean == pytest.approx(law.mean(), abs=1e-3)
    assert constants.deviation == pytest.approx(law.std(), abs=1e-3)
    assert constants.median == pytest.approx(law.median(), abs=1e-3)
    ends = constants.median - constants.distance, constants.median + constants.distance
    assert law.cdf(ends[1]) - law.cdf(ends[0]) == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize(("family", "law", "_"), LAWS, ids=IDS)
@pytest.mark.parametrize("outside", ["clip", "mask"])
@pytest.mark.parametrize("turn", [0.625, 1.0])
def test_moments_are_scipy_s_and_slopes_differences(
    family: LocationScaleFamily, law: Any, _: Any, outside: Any, turn: float
) -> None:
    where = Interval(-1.3, 2.4, turn, outside)
    m, s, h = 0.3, 0.8, 1e-5
    moments = family.moments(m, s, where)
    own = law(m, s)
    bends = 0.55 + 1.85 * np.array([-1, -turn, turn, 1])
    low, high = own.cdf(-1.3), own.sf(2.4)
    assert moments.inside == pytest.approx(1 - low - high, abs=1e-10)

    def mean(f: Any) -> float:
        inner = sum(
            own.expect(lambda t: f((t - 0.55) / 1.85), lb=a, ub=b)
            for a, b in pairwise(bends.tolist())
            if a < b
        )
        if outside == "mask":
            return float(inner / (1 - low - high))
        return float(inner + f(-1.0) * low + f(1.0) * high)

    def lead(x: Any) -> Any:
        return np.clip(x, -turn, turn)

    first, second = mean(lead), mean(lambda x: x * x)
    assert moments.means == pytest.approx([first, second], abs=1e-8)
    cross = mean(lambda x: lead(x) * x * x) - first * second
    assert moments.covariance[0, 1] == pytest.approx(cross, abs=1e-8)
    up, down = (family.moments(m + sign * h * s, s, where).means for sign in (1, -1))
    assert moments.slopes[:, 0] == pytest.approx((up - down) / (2 * h), abs=1e-8)
    up, down = (family.moments(m, s * math.exp(sign * h), where).means for sign in (1, -1))
    assert moments.slopes[:, 1] == pytest.approx((up - down) / (2 * h), abs=1e-8)


@pytest.mark.parametrize(("family", "law", "truth"), LAWS, ids=IDS)
def test_maps_go_back_and_samples_have_the_law(
    family: LocationScaleFamily, law: Any, truth: tuple[float, float]
) -> None:
    """The test of Kolmogorov and Smirnov at level 1e-6, of a fixed seed."""
    own = family.standard(*truth)
    assert family.textbook(*own) == pytest.approx(truth)
    records = family.sample(*own, 5000, np.random.default_rng(0))
    t = np.array([family.statistic(x) for x in records.tolist()])
    assert stats.kstest(t, law(*own).cdf).pvalue > 1e-6
    assert stats.kstest(t, law(own[0] + own[1] / 5, own[1]).cdf).pvalue < 1e-6


def test_textbook_parameters_are_the_textbook_s() -> None:
    """Weibull of scale 20 and power 1.5; log-logistic of median 20 and power 1.5."""
    for family, law in (
        (WeibullFamily(), stats.weibull_min(1.5, scale=20)),
        (LogLogisticFamily(), stats.fisk(1.5, scale=20)),
    ):
        assert isinstance(family, LocationScaleFamily)
        records = family.sample(*family.standard(20.0, 1.5), 5000, np.random.default_rng(1))
        assert stats.kstest(records, law.cdf).pvalue > 1e-6


@pytest.mark.parametrize("family", [NormalFamily(), LogisticFamily(), WeibullFamily()])
@pytest.mark.parametrize("where", [Interval(-2, 2, 0.625, "clip"), Interval(-2, 1, 1.0, "mask")])
def test_a_law_is_found_from_its_moments_and_none_from_others(
    family: LocationScaleFamily, where: Interval
) -> None:
    near = Near(0.0, 1.0, 1.0, 2.0)
    for law in ((0.0, 1.0), (0.7, 1.4), (-0.9, 0.6)):
        fit = fitted(family, family.moments(*law, where).means, where, near)
        assert fit == pytest.approx(law, abs=1e-7)
    for means in ((0.0, 1.5), (0.0, -0.1), (2.0, 0.5), (0.5, 0.2)):
        assert fitted(family, np.array(means), where, near) is None


@pytest.mark.parametrize(("family", "law", "truth"), LAWS, ids=IDS)
def test_named_families_fit_together(
    family: LocationScaleFamily, law: Any, truth: tuple[float, float]
) -> None:
    ends = [(one / 3, one * 3) for one in truth]
    report = check_location_scale(family, *ends)
    assert report.log_concave
    assert report.one_law
    assert "log-concave; nearby laws are told apart" in str(report)


@dataclass(frozen=True)
class Changed(NormalFamily):
    """A normal family with one thing wrong."""

    wrong: str

    def log_density(self, y: Any) -> Any:
        if self.wrong == "two humps":
            return np.logaddexp(-((y - 3) ** 2) * 2, -((y + 3) ** 2) * 2)
        return NormalFamily.log_density(self, y)

    def window(self) -> tuple[float, float]:
        return (-4.0, 4.0) if self.wrong == "a short window" else (-9.0, 9.0)

    def record(self, t: Any) -> Any:
        return -t if self.wrong == "decreasing" else t

    def statistic(self, x: float) -> float:
        return 2 * x if self.wrong == "another statistic" else x

    def textbook(self, location: float, scale: float) -> tuple[float, float]:
        return location, scale**2 if self.wrong == "a variance" else scale


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("a short window", "cuts much of the law off"),
        ("decreasing", "does not increase"),
        ("another statistic", "is not t"),
        ("a variance", "have to be inverse"),
    ],
)
def test_what_does_not_fit_is_refused(wrong: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_location_scale(Changed(wrong), (-3.0, 3.0), (0.5, 2.0))


def test_two_humps_are_seen() -> None:
    report = check_location_scale(Changed("two humps"), (-3.0, 3.0), (0.5, 2.0))
    assert not report.log_concave
    assert "not log-concave" in str(report)
