"""Families with one parameter: printed figures, the spec's moments, samples, a user's own, which
assumptions hold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from dpverify.families import (
    ContinuousBernoulli,
    ContinuousPoisson,
    Family,
    LogNormal,
    Normal,
    Pareto,
    Poisson,
    Weibull,
    check_family,
)
from spec.theory import families as spec

WORLDS: list[tuple[Family, float]] = [
    (Poisson(), 3.3),
    (Poisson(), 2000.0),
    (ContinuousPoisson(), 5.0),
    (ContinuousBernoulli(), 0.7),
    (ContinuousBernoulli(), 0.5),
    (LogNormal(0.7), 11.0),
    (Weibull(2.5), 27.0),
    (Weibull(), 1e-3),
    (Pareto(1000.0), 2.5),
    (Normal(3.0), 7.0),
]
IDS = [f"{type(family).__name__}-{p}" for family, p in WORLDS]


@pytest.mark.parametrize(("family", "parameter"), WORLDS, ids=IDS)
def test_maps_and_moments_are_the_spec_s(family: Family, parameter: float) -> None:
    theta, other = family.natural(parameter), spec.known(family)
    assert family.textbook(theta) == pytest.approx(parameter)
    assert other.natural(parameter) == pytest.approx(theta)
    assert other.coordinate(parameter) == pytest.approx(family.coordinate(parameter))
    assert family.from_coordinate(family.coordinate(parameter)) == pytest.approx(parameter)
    assert other.middle(theta) == pytest.approx(family.middle(theta), abs=1e-8)
    whole = family.limited(theta, *family.window(theta), "clip")
    assert whole.slope == pytest.approx(whole.variance, rel=1e-6)
    far = math.sqrt(whole.variance)
    for a, b in ((-1.0, 1.0), (-0.5, 2.0), (0.2, 1.3)):
        ends = whole.mean + a * far, whole.mean + b * far
        if family.lattice:
            ends = math.floor(ends[0]), math.ceil(ends[1])
        for outside in ("clip", "mask"):
            moments: Any = family.limited(theta, *ends, outside)
            exact = spec.limited(other, theta, *ends, outside)
            for name in ("mean", "variance", "slope", "inside"):
                assert getattr(moments, name) == pytest.approx(getattr(exact, name), rel=1e-6), name


@pytest.mark.parametrize(("family", "parameter"), WORLDS, ids=IDS)
def test_the_mean_is_the_slope_of_the_log_partition(family: Family, parameter: float) -> None:
    theta = family.natural(parameter)
    whole = family.limited(theta, *family.window(theta), "clip")
    step = 1e-3 / math.sqrt(whole.variance)
    slope = (family.log_partition(theta + step) - family.log_partition(theta - step)) / (2 * step)
    assert slope == pytest.approx(whole.mean, rel=1e-5, abs=1e-5)


def test_printed_figures() -> None:
    """The continuous Poisson law's mean at rate 1 is not 1; variances as printed with it (a
    Volterra function is its partition function)."""
    for rate, mean, variance in (
        (0.05, None, 0.092),
        (1, 1.2388, 0.862),
        (3, None, 2.863),
        (10, None, 9.9988),
    ):
        family = ContinuousPoisson()
        moments = family.limited(math.log(rate), *family.window(math.log(rate)), "clip")
        assert mean is None or moments.mean == pytest.approx(mean, abs=5e-5)
        assert moments.variance == pytest.approx(variance, abs=5e-4)
    total = mp.quad(lambda x: 3**x / mp.gamma(x + 1), [0, 3, 10, 40])
    assert ContinuousPoisson().log_partition(math.log(3)) == pytest.approx(float(mp.log(total)))
    uniform = ContinuousBernoulli().limited(0.0, 0.0, 1.0, "clip")
    assert (uniform.mean, uniform.variance) == pytest.approx((0.5, 1 / 12))


@pytest.mark.parametrize(
    ("family", "parameter", "law"),
    [
        (Poisson(), 3.3, stats.poisson(3.3)),
        (LogNormal(0.7), 2.0, stats.lognorm(0.7, scale=math.exp(2.0))),
        (Weibull(2.5), 27.0, stats.weibull_min(2.5, scale=27.0)),
        (Pareto(10.0), 2.5, stats.pareto(2.5, scale=10.0)),
        (Normal(3.0), -7.0, stats.norm(-7.0, 3.0)),
        (ContinuousBernoulli(), 0.9, stats.truncexpon(math.log(9), scale=-1 / math.log(9), loc=0)),
    ],
    ids=["poisson", "lognormal", "weibull", "pareto", "normal", "bernoulli"],
)
def test_samples_have_the_textbook_s_law(family: Family, parameter: float, law: Any) -> None:
    """20000 draws against scipy's distribution function, at 9 places: off by .025 with
    probability below 1e-9 (Hoeffding, 18 sides)."""
    drawn = family.sample(family.natural(parameter), 20_000, np.random.default_rng(5))
    if isinstance(family, ContinuousBernoulli):
        odds = math.log(9)
        expected: Any = lambda x: math.expm1(odds * x) / math.expm1(odds)  # noqa: E731
    else:
        expected = law.cdf
    for share in np.linspace(0.1, 0.9, 9):
        x = float(np.quantile(drawn, share))
        assert abs(float(np.mean(drawn <= x)) - expected(x)) < 0.025


@pytest.mark.parametrize(
    ("family", "parameter"),
    [(ContinuousPoisson(), 0.05), (Pareto(10.0), 2.5), (Weibull(2.5), 27.0), (Normal(3.0), -7.0)],
    ids=["continuous poisson", "pareto", "weibull", "normal"],
)
def test_samples_have_the_law_s_mean(family: Family, parameter: float) -> None:
    """400,000 statistics: their mean is within 5 of its deviations with probability above
    1 - 6e-7; one between coarse nodes was off by 8."""
    theta = family.natural(parameter)
    law = family.limited(theta, *family.window(theta), "clip")
    drawn = family.sample(theta, 400_000, np.random.default_rng(12))
    t = [family.statistic(x) for x in drawn.tolist()]
    assert abs(np.mean(t) - law.mean) < 5 * math.sqrt(law.variance / len(t))
    assert np.var(t) == pytest.approx(law.variance, rel=0.03)


def test_assumptions_that_a_family_keeps_or_breaks() -> None:
    for family, low, high, degree in (
        (Poisson(), 0.1, 1e4, 1),
        (Normal(2.0), -30, 40, 1),
        (Weibull(2.0), 0.1, 10, 2),
        (ContinuousBernoulli(), 0.01, 0.99, 1),
        (ContinuousPoisson(), 0.05, 100, 1),
    ):
        report = check_family(family, low, high)
        assert not report.broken, str(report)
        assert report.degree == degree
        assert report.interior > 0
    bent = check_family(Weibull(0.7), 0.1, 10)
    assert set(bent.broken) == {"S3", "S4"}
    assert "about the record" in bent.broken["S3"]
    assert "S3 fails" in str(bent)
    assert bent.curvature == pytest.approx((0.1**1.4, 10**1.4))
    assert set(check_family(Pareto(3.0), 0.5, 5).broken) == {"S3", "S4"}


@dataclass(frozen=True)
class Beta(Family):
    """Beta records whose second parameter is known: T = ln x, theta = a - 1 in x, a in T."""

    second: float = 2.0
    parameter = "a"

    def log_base(self, t: Any) -> Any:
        with np.errstate(divide="ignore"):
            return np.where(
                t >= 0, -np.inf, (self.second - 1) * np.log(-np.expm1(np.minimum(t, -1e-300)))
            )

    def support(self) -> tuple[float, float]:
        return -math.inf, 0.0

    def record(self, t: Any) -> Any:
        return np.exp(t)

    def statistic(self, x: float) -> float:
        return math.log(x) if x > 0 else -math.inf

    def natural(self, parameter: float) -> float:
        return parameter

    def textbook(self, theta: float) -> float:
        return theta

    def range(self) -> tuple[float, float]:
        return 0.0, math.inf

    def window(self, theta: float) -> tuple[float, float]:
        return -40 / theta, 0.0

    def coordinate(self, parameter: float) -> float:
        return math.log(parameter)

    def from_coordinate(self, v: float) -> float:
        return math.exp(v)


def test_a_family_of_one_s_own() -> None:
    """Fit a user's family: its mean of logarithms is psi(a) - psi(a + 2) = -1 / a - 1 / (a + 1)."""
    family = Beta()
    moments = family.limited(3.0, *family.window(3.0), "clip")
    assert moments.mean == pytest.approx(-1 / 3 - 1 / 4, rel=1e-9)
    report = check_family(family, 1.5, 20.0)
    assert "S4" in report.broken
    assert "S1" not in report.broken


def test_moments_that_are_those_of_another_law_are_refused() -> None:
    """Density, window, support and median against each other."""

    class Shifted(Beta):
        def log_density(self, theta: float, t: Any) -> Any:
            return self.log_base(t) + (theta + 2) * t

    class Narrow(Beta):
        def window(self, theta: float) -> tuple[float, float]:
            low, high = Beta.window(self, theta)
            return low / 10, high

    class Elsewhere(Beta):
        def support(self) -> tuple[float, float]:
            return (1.0, 2.0)

    class Apart(Beta):
        def middle(self, theta: float) -> float:
            return Beta.middle(self, theta) - 3

    class Down(Beta):
        def middle(self, theta: float) -> float:
            return -Beta.middle(self, theta)

    class Moved(Beta):
        def from_coordinate(self, v: float) -> float:
            return Beta.from_coordinate(self, v) + 1

    for family, message in (
        (Shifted(), "the slope of the log partition"),
        (Narrow(), "cuts much of the law off"),
        (Elsewhere(), "support 1 to 2"),
        (Apart(), "far from the median"),
        (Down(), "middle.theta. does not increase"),
        (Moved(), "from_coordinate.coordinate"),
    ):
        with pytest.raises(ValueError, match=message):
            check_family(family, 1.5, 20.0)


def test_a_family_that_contradicts_itself_is_refused() -> None:
    class Wrong(Beta):
        def textbook(self, theta: float) -> float:
            return theta + 1

    class Falling(Beta):
        def record(self, t: Any) -> Any:
            return np.exp(-t)

    class Other(Beta):
        def statistic(self, x: float) -> float:
            return 2 * Beta.statistic(self, x)

    class Backwards(Beta):
        def coordinate(self, parameter: float) -> float:
            return -math.log(parameter)

        def from_coordinate(self, v: float) -> float:
            return math.exp(-v)

    for family, message in (
        (Wrong(), "have to be inverse"),
        (Falling(), "does not increase"),
        (Other(), "is not t"),
        (Backwards(), "let coordinate increase"),
    ):
        with pytest.raises(ValueError, match=message):
            check_family(family, 1.5, 20.0)


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: Normal(0.0), ValueError, "deviation = 0.0; give one from"),
        (lambda: Weibull(100.0), ValueError, "power = 100.0"),
        (lambda: Pareto(-1.0), ValueError, "least = -1.0"),
        (
            lambda: LogNormal("x"),  # type: ignore[arg-type]
            (TypeError, ValueError),
            "deviation",
        ),
    ],
)
def test_bad_shapes_are_refused(make: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        make()
