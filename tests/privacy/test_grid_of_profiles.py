"""Every family over a grid of budgets: the calibrated guarantee is safe, tight, and enclosed.

For each (epsilon, delta) the weakest guarantee of a family is calibrated. Its profile at
epsilon, by the spec's means at hundreds of digits, must not be above delta; that of a parameter
larger by 1e-9 must be above it; and the library's enclosures must hold the spec's values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import mpmath as mp
import pytest

from dpverify.privacy import (
    ApproxDP,
    ApproximateGaussianDP,
    BoundedRange,
    DiscreteLaplaceShift,
    GaussianDP,
    Group,
    Guarantee,
    PureDP,
    ZeroConcentratedDP,
    calibrate,
)
from dpverify.privacy.balls import Enclosure
from spec.theory import profiles as spec
from spec.theory import rules as spec_rules
from spec.theory.laws import real

Truth = Callable[
    [Fraction, Fraction, Fraction], Any
]  # of the parameter, the budget's delta, epsilon
Point = tuple[Fraction, Fraction]

_HAIR = 1 + Fraction(1, 10**9)
_TABLED = 1 + Fraction(1, 1 << 20)  # what calibration promises for groups
_EPSILONS = [Fraction(e) for e in ("1e-6", "1e-5", "1e-3", "0.02", "0.1", "0.3", "1", "2", "5")]
_EPSILONS += [Fraction(e) for e in ("10", "30", "100")]
_DELTAS = [Fraction(1, 10**n) for n in (3, 5, 6, 9, 12, 20, 40, 75, 110, 150, 190, 230, 270, 300)]
_GRID = [(epsilon, delta) for epsilon in _EPSILONS for delta in _DELTAS]


@dataclass(frozen=True)
class Family:
    """Guarantees of one parameter beside a budget's delta, and their profile by other means."""

    make: Callable[[Fraction, Fraction], Guarantee]
    truth: Truth
    digits: int = 400
    slack: int = 90  # the truth is known to this many digits
    every: int = 1  # takes one point in so many
    hair: Fraction = _HAIR  # a parameter larger by this factor must be unsafe


def least(function: Callable[[Any], Any], low: Any, high: Any, steps: int = 90) -> Any:
    """Return the least value of a function that falls, then rises, by golden section."""
    golden = (mp.sqrt(5) - 1) / 2
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = function(left), function(right)
    best = min(function(low), function(high), at_left, at_right)
    for _ in range(steps):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = function(right)
        best = min(best, at_left, at_right)
    return best


def _gaussian_at(mu: Fraction, epsilon: Any) -> Any:
    """Compute the spec's profile, for any real epsilon."""
    m, root = real(mu), mp.sqrt(2)
    p = mp.erfc((epsilon / m - m / 2) / root) / 2
    return p - mp.exp(epsilon) * mp.erfc((epsilon / m + m / 2) / root) / 2


def _changed_gaussian(mu: Fraction, budget: Fraction, epsilon: Fraction) -> Any:
    """Return the least of the profile at t, delta and (1 + e^t) tv over t from 0 to epsilon.

    Its slope is e^t (tv - Phi(-t / mu - mu / 2)), which rises with the bracket: it is 0 once at
    most. Bisection leaves 2^-40 epsilon, and so 2^-80 of the curvature.
    """
    delta, tv = real(budget) / 4, real(budget) / 8
    m, low, high = real(mu), mp.mpf(0), real(epsilon)
    for _ in range(40):
        middle = (low + high) / 2
        falls = mp.erfc((middle / m + m / 2) / mp.sqrt(2)) / 2 > tv
        low, high = (middle, high) if falls else (low, middle)
    return min(_gaussian_at(mu, at) + delta + (1 + mp.exp(at)) * tv for at in (low, high))


def _range(epsilon0: Fraction, budget: Fraction, epsilon: Fraction) -> Any:
    """Return the worst pair of losses t and t - epsilon0: its profile is (1 - e^(t - epsilon0))
    (1 - e^(epsilon - t)) / (1 - e^-epsilon0).

    Both factors have concave logarithms, and change places about the middle: t is there.
    """
    if epsilon >= epsilon0:
        return mp.mpf(0)
    e0, e = real(epsilon0), real(epsilon)
    return -(mp.expm1((e - e0) / 2) ** 2) / mp.expm1(-e0)


def _group_of_three(mu: Fraction, budget: Fraction, epsilon: Fraction) -> Any:
    """Falls in the step wherever it is below 1, so the largest step is the best one."""
    step = epsilon / 3
    return spec_rules.group_profile(spec.gaussian_profile(mu**2, step), step, 3)


FAMILIES = {
    "gaussian": Family(
        lambda mu, _: GaussianDP(mu),
        lambda mu, _, e: spec.gaussian_profile(mu**2, e),
        digits=150,
    ),
    "zcdp": Family(
        lambda rho, _: ZeroConcentratedDP(rho),
        lambda rho, _, e: spec.zcdp_profile(rho, e),
        digits=45,
        slack=28,
        every=2,
    ),
    "pure": Family(lambda e0, _: PureDP(e0), lambda e0, _, e: spec.profile(e0, Fraction(0), e)),
    "approx": Family(
        lambda e0, d: ApproxDP(e0, d / 2), lambda e0, d, e: spec.profile(e0, d / 2, e)
    ),
    "agaussian": Family(
        lambda mu, d: ApproximateGaussianDP(mu, d / 2),
        lambda mu, d, e: spec.approximate_gaussian_profile(mu**2, d / 2, Fraction(0), e),
        digits=150,
    ),
    "agaussian with tv": Family(
        lambda mu, d: ApproximateGaussianDP(mu, d / 4, d / 8),
        _changed_gaussian,
        digits=60,
        slack=18,
        every=3,
    ),
    "range": Family(lambda e0, _: BoundedRange(e0), _range, digits=100, slack=40, every=2),
    "laplace-shift": Family(
        lambda p, _: DiscreteLaplaceShift(5, 1 / p),
        lambda p, _, e: spec.discrete_laplace_profile(5, 1 / p, e),
    ),
    "group": Family(
        lambda mu, _: Group(GaussianDP(mu), 3), _group_of_three, digits=150, every=21, hair=_TABLED
    ),
}
_NAMES = list(FAMILIES)


def points_of(family: Family) -> list[Point]:
    return _GRID[:: family.every]


def calibrated(family: Family, point: Point) -> Fraction:
    """Return the largest parameter whose guarantee still implies the budget."""
    tried: dict[Guarantee, Fraction] = {}

    def make(parameter: Fraction) -> Guarantee:
        guarantee = family.make(parameter, point[1])
        tried[guarantee] = parameter
        return guarantee

    return tried[calibrate(make, ApproxDP(*point))]


_once = cache(calibrated)


def is_safe(family: Family, parameter: Fraction, point: Point) -> bool:
    """Return whether the true profile at epsilon is at most delta, without any tolerance."""
    epsilon, delta = point
    with mp.workdps(family.digits):
        return bool(family.truth(parameter, delta, epsilon) <= real(delta))


def unsafe(family: Family, parameters: dict[Point, Fraction]) -> list[Point]:
    """Return the points whose parameter exceeds the budget."""
    return [point for point, p in parameters.items() if not is_safe(family, p, point)]


def encloses(enclosure: Enclosure, truth: Any, slack: int) -> bool:
    """Return whether the truth, known to ``slack`` digits, is inside a narrow enclosure."""
    about = abs(truth) * mp.mpf(10) ** -slack + mp.mpf(10) ** -390
    holds = real(enclosure.lower) - about <= truth <= real(enclosure.upper) + about
    return bool(holds and enclosure.upper - enclosure.lower <= enclosure.upper / 10**9)


def _wrong(
    family: Family, points: Iterable[Point], seen: Callable[[Enclosure], Enclosure]
) -> list[tuple[Point, Fraction]]:
    """List the points where an enclosure of the calibrated guarantee, read by ``seen``, misses
    the truth."""
    wrong = []
    for point in points:
        parameter = _once(family, point)
        guarantee = family.make(parameter, point[1])
        with mp.workdps(family.digits):
            for epsilon in (point[0], point[0] * (1 - Fraction(1, 10**60)), point[0] / 3):
                enclosure = seen(guarantee.delta_at(epsilon))
                truth = min(family.truth(parameter, point[1], epsilon), mp.mpf(1))
                if not encloses(enclosure, truth, family.slack):
                    wrong.append((point, epsilon))
    return wrong


def test_the_grid_has_more_than_a_thousand_points() -> None:
    assert sum(len(points_of(family)) for family in FAMILIES.values()) > 1000
    assert {e for e, _ in _GRID} >= {Fraction(1, 10**6), Fraction(100)}
    assert {d for _, d in _GRID} >= {Fraction(1, 1000), Fraction(1, 10**300)}


@pytest.mark.parametrize("name", _NAMES)
def test_no_calibrated_guarantee_exceeds_its_budget_and_a_billionth_more_would(name: str) -> None:
    family = FAMILIES[name]
    parameters = {point: _once(family, point) for point in points_of(family)}
    assert unsafe(family, parameters) == []
    pushed = {point: parameter * family.hair for point, parameter in parameters.items()}
    assert unsafe(family, pushed) == points_of(family)


@pytest.mark.parametrize("name", _NAMES)
def test_the_enclosures_hold_the_spec_s_profile(name: str) -> None:
    assert _wrong(FAMILIES[name], points_of(FAMILIES[name])[::4], lambda curve: curve) == []


def _pushed_down(enclosure: Enclosure) -> Enclosure:
    share = 1 - Fraction(1, 10**16)
    return Enclosure(enclosure.lower * share, enclosure.upper * share)


def _wide(enclosure: Enclosure) -> Enclosure:
    return Enclosure(Fraction(0), enclosure.upper)


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("twin", [_pushed_down, _wide])
def test_a_false_or_an_empty_enclosure_is_caught(
    name: str, twin: Callable[[Enclosure], Enclosure]
) -> None:
    assert _wrong(FAMILIES[name], points_of(FAMILIES[name])[::17], twin)


@pytest.mark.parametrize("name", ["gaussian", "zcdp", "agaussian"])
def test_a_calibration_by_the_lower_end_of_a_rough_enclosure_is_caught(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    family = FAMILIES[name]
    kind = type(family.make(Fraction(1), Fraction(0)))
    true = kind.delta_at

    def rough(guarantee: Guarantee, epsilon: Any) -> Enclosure:
        enclosure = true(guarantee, epsilon)
        return Enclosure(enclosure.lower, enclosure.upper * (1 - Fraction(1, 10**9)))

    monkeypatch.setattr(kind, "delta_at", rough)
    parameters = {point: calibrated(family, point) for point in points_of(family)[::9]}
    assert len(unsafe(family, parameters)) > len(parameters) // 2


@pytest.mark.parametrize("name", _NAMES)
def test_epsilon_is_enclosed_from_both_ends(name: str) -> None:
    family = FAMILIES[name]
    for point in points_of(family)[::5]:
        parameter = _once(family, point)
        enclosure = family.make(parameter, point[1]).epsilon_at(point[1])
        assert enclosure.lower <= point[0] * _HAIR
        assert enclosure.upper <= enclosure.lower * _HAIR or enclosure.lower == 0, point
        assert is_safe(family, parameter, (enclosure.upper, point[1])), point
        assert not is_safe(family, parameter, (enclosure.lower, point[1])), point


@pytest.mark.parametrize("base", [(1, "1e-6"), (1, 0, "1e-9"), ("0.2", "1e-12", "1e-9")])
def test_a_group_s_profile_never_rises_and_its_epsilon_is_found(base: tuple[Any, ...]) -> None:
    group = Group(ApproximateGaussianDP(*base), 2)
    deltas = [group.delta_at(epsilon).upper for epsilon in (0, 1, 3, 8, 15, 30, 60, 200, 9000)]
    assert deltas == sorted(deltas, reverse=True)
    assert deltas[-1] == group.delta_floor < Fraction(1, 1000)
    assert group.delta_at(group.epsilon_at("1e-3").upper).upper <= Fraction(1, 1000)


@pytest.mark.parametrize("size", ["1e-300", "1e-20", "1e5", "1e300"])
@pytest.mark.parametrize("name", _NAMES)
def test_extreme_parameters_have_profiles_and_curves(name: str, size: str) -> None:
    guarantee = FAMILIES[name].make(Fraction(size), Fraction(1, 10**300))
    for at in ("1e-300", "1e-9", "0.5", 1 - Fraction(1, 10**300)):
        delta, beta = guarantee.delta_at(1 / Fraction(at)), guarantee.tradeoff_at(at)
        assert 0 <= delta.lower <= delta.upper <= 1
        assert 0 <= beta.lower <= min(beta.upper, 1 - Fraction(at))
        if name == "group" and Fraction(size) > 1:
            continue  # a group takes steps of at most 2^14 / its size, far less than is needed here
        if guarantee.delta_floor < Fraction(at):
            assert guarantee.delta_at(guarantee.epsilon_at(at).upper).upper <= Fraction(at)
