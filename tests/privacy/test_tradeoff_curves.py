"""Trade-off curves: against their definition, the spec, and the best tests of explicit laws."""

from __future__ import annotations

import itertools
from collections.abc import Callable
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
    PerfectPrivacy,
    Profile,
    PureDP,
    ZeroConcentratedDP,
)
from dpverify.privacy.balls import Enclosure
from spec.theory import profiles as spec
from spec.theory.laws import real

from .test_grid_of_profiles import least

Curve = Callable[[Fraction], Any]

_DIGITS = 50
_ALPHAS = [Fraction(a) for a in ("1e-300", "1e-40", "1e-6", "0.01", "0.1", "0.2689", "1/3", "0.5")]
_ALPHAS += [Fraction(a) for a in ("0.7311", "0.9", "0.999", "0.9999999")]

# Every kind, with the largest epsilon at which its best lines may lie.
_KINDS: list[tuple[Guarantee, int]] = [
    (PureDP(1), 1),
    (PureDP("1e-3"), 1),
    (ApproxDP(2, "0.1"), 2),
    (ApproxDP("0.5", "1e-12"), 1),
    (GaussianDP("0.3"), 20),
    (GaussianDP(1), 60),
    (GaussianDP(3), 140),
    (ApproximateGaussianDP(1, "1e-6"), 60),
    (ApproximateGaussianDP("0.7", "0.01", "0.001"), 40),
    (ApproximateGaussianDP(2, 0, "1e-9"), 40),
    (BoundedRange("0.2"), 1),
    (BoundedRange(4), 4),
    (DiscreteLaplaceShift(1, 2), 1),
    (DiscreteLaplaceShift(6, "2.5"), 3),
    (DiscreteLaplaceShift(7, 2), 4),
    (Group(GaussianDP("0.5"), 3), 60),
]
_NAMES = [str(guarantee) for guarantee, _ in _KINDS]


def _holds(enclosure: Enclosure, truth: Any, slack: int) -> bool:
    """Inside, up to an error of the truth itself."""
    error = mp.mpf(10) ** -slack
    return bool(real(enclosure.lower) - error <= truth <= real(enclosure.upper) + error)


def _by_definition(guarantee: Guarantee, alpha: Fraction, top: int) -> Any:
    """Return the largest of the lines 1 - delta(e) - e^e alpha and their mirror images, by a
    search.

    Their heights are concave in e^e and in e^-e, so they rise and then fall.
    """

    def delta(epsilon: Any) -> Any:
        at = Fraction(int(mp.nint(epsilon * 2**90)), 2**90)
        return real(guarantee.delta_at(max(at, Fraction(0))).upper)

    def line(epsilon: Any) -> Any:
        return -(1 - delta(epsilon) - mp.exp(epsilon) * real(alpha))

    def mirrored(epsilon: Any) -> Any:
        return -(1 - delta(epsilon) - real(alpha)) * mp.exp(-epsilon)

    low, high = mp.mpf(0), mp.mpf(top)
    return max(mp.mpf(0), -least(line, low, high, 50), -least(mirrored, low, high, 50))


@pytest.mark.parametrize(("guarantee", "top"), _KINDS[:-1], ids=_NAMES[:-1])
def test_the_curve_is_the_largest_of_the_profile_s_lines(guarantee: Guarantee, top: int) -> None:
    with mp.workdps(_DIGITS):
        for alpha in _ALPHAS[2:]:
            tradeoff, largest = guarantee.tradeoff_at(alpha), _by_definition(guarantee, alpha, top)
            assert _holds(tradeoff, largest, 9), alpha
            assert real(tradeoff.upper) >= largest - mp.mpf(10) ** -30


def _follows(guarantee: Guarantee, truth: Curve) -> bool:
    with mp.workdps(_DIGITS):
        return all(_holds(guarantee.tradeoff_at(alpha), truth(alpha), 45) for alpha in _ALPHAS)


@pytest.mark.parametrize("mu", ["0.01", "0.5", "1", "4"])
def test_the_gaussian_curve_is_the_spec_s(mu: str) -> None:
    square = Fraction(mu) ** 2

    def truth(alpha: Fraction) -> Any:
        return spec.gaussian_tradeoff(square, alpha)

    assert _follows(GaussianDP(mu), truth)
    nearly = GaussianDP(Fraction(mu) * (1 + Fraction(1, 10**12)))
    assert not _follows(nearly, truth), "a false twin must be caught"


@pytest.mark.parametrize(
    ("guarantee", "profile", "top"),
    [
        (PureDP(1), lambda e: spec.profile(Fraction(1), Fraction(0), e), 1),
        (ApproxDP(2, "0.1"), lambda e: spec.profile(Fraction(2), Fraction(1, 10), e), 2),
        (DiscreteLaplaceShift(6, 3), lambda e: spec.discrete_laplace_profile(6, Fraction(3), e), 2),
    ],
)
def test_the_spec_s_grid_of_lines_is_met_from_above(
    guarantee: Guarantee, profile: Curve, top: int
) -> None:
    with mp.workdps(30):
        once = cache(profile)
        for alpha in (Fraction(1, 50), Fraction(1, 5), Fraction(2, 3)):
            below, tradeoff = (
                spec.tradeoff(once, alpha, Fraction(top)),
                guarantee.tradeoff_at(alpha),
            )
            assert below <= real(tradeoff.upper) + mp.mpf(10) ** -25
            assert below >= real(tradeoff.lower) - mp.mpf(10) ** -3


def test_the_spec_s_grid_of_ranges_is_met_from_above() -> None:
    with mp.workdps(30):
        for length, epsilon in (("1", "0.3"), ("0.01", "0.001"), ("9", "8")):
            delta = BoundedRange(length).delta_at(epsilon)
            below = spec.bounded_range_profile(Fraction(length), Fraction(epsilon))
            assert below <= real(delta.upper) * (1 + mp.mpf(10) ** -25)
            assert below >= real(delta.lower) * (1 - mp.mpf(10) ** -6)


def _log_moment_bound(rho: Any, log: Any) -> Any:
    """Return the logarithm of the inf over Renyi orders a > 1 of (e^(a rho) x)^((a - 1) / a),
    a = e^u + 1, for x = e^log.

    The search leaves 1e-12 of u, and so 1e-24 of the curvature.
    """

    def exponent(u: Any) -> Any:
        a = mp.exp(u) + 1
        return (a - 1) / a * (a * rho + log)

    return least(exponent, mp.mpf(-60), mp.mpf(60), 68)


def _zcdp_curve(rho: Fraction, alpha: Fraction) -> Any:
    """Return the bound on both errors that all the orders give, the second one by a search for
    ln of the least beta with 1 - alpha <= F(beta).
    """
    r, a = real(rho), real(alpha)
    first = 1 - mp.exp(_log_moment_bound(r, mp.log(a)))

    def off(root: Any) -> Any:  # nearly linear in the root of -ln beta
        return mp.sqrt(-min(_log_moment_bound(r, -(root**2)), 0)) - mp.sqrt(-mp.log(1 - a))

    ends = (mp.sqrt(r), mp.mpf(29))
    root = mp.findroot(off, ends, solver="anderson", tol=mp.mpf("1e-36"))
    return max(mp.mpf(0), first, mp.exp(-(root**2)))


@pytest.mark.parametrize("rho", ["0.02", "0.5", "3"])
def test_the_zcdp_curve_is_the_best_over_all_orders(rho: str) -> None:
    with mp.workdps(30):
        for alpha in (Fraction(1, 10**6), Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)):
            tradeoff = ZeroConcentratedDP(rho).tradeoff_at(alpha)
            assert _holds(tradeoff, _zcdp_curve(Fraction(rho), alpha), 15), alpha


@pytest.mark.parametrize("rho", ["1e-6", "0.5", "8"])
def test_the_zcdp_curve_is_below_gaussian_noise_which_has_it(rho: str) -> None:
    attained = GaussianDP.of_square(2 * Fraction(rho))
    for alpha in _ALPHAS:
        lower = ZeroConcentratedDP(rho).tradeoff_at(alpha).lower
        assert lower <= attained.tradeoff_at(alpha).upper


@pytest.mark.parametrize(("guarantee", "top"), _KINDS, ids=_NAMES)
def test_curves_are_decreasing_convex_and_below_guessing(guarantee: Guarantee, top: int) -> None:
    nodes = [Fraction(0), *(Fraction(i, 24) for i in range(1, 24)), Fraction(1)]
    tradeoffs = [guarantee.tradeoff_at(alpha) for alpha in nodes]
    for alpha, value in zip(nodes, tradeoffs, strict=True):
        assert 0 <= value.lower <= value.upper <= 1 - alpha
        assert value.upper - value.lower <= Fraction(1, 10**25)
    for before, here, after in zip(tradeoffs, tradeoffs[1:], tradeoffs[2:], strict=False):
        assert after.lower <= here.upper
        assert 2 * here.lower <= before.upper + after.upper


@pytest.mark.parametrize(("guarantee", "top"), _KINDS, ids=_NAMES)
def test_curves_are_symmetric(guarantee: Guarantee, top: int) -> None:
    for alpha in (Fraction(1, 10**6), Fraction(1, 50), Fraction(1, 7), Fraction(2, 5)):
        once = guarantee.tradeoff_at(alpha)
        if once.lower > 0:
            tiny = Fraction(1, 10**25)
            assert guarantee.tradeoff_at(once.upper).lower <= alpha + tiny
            assert guarantee.tradeoff_at(once.lower).upper >= alpha - tiny


@pytest.mark.parametrize(("guarantee", "top"), [*_KINDS, (PerfectPrivacy(), 0)])
def test_at_the_ends_a_test_that_never_errs_on_one_side(guarantee: Guarantee, top: int) -> None:
    assert guarantee.tradeoff_at(1) == Enclosure(Fraction(0), Fraction(0))
    end, close = guarantee.tradeoff_at(0), guarantee.tradeoff_at(Fraction(1, 10**300))
    floor = guarantee.delta_at(top).lower
    assert end.lower <= 1 - floor + Fraction(1, 10**25)
    assert end.upper >= 1 - guarantee.delta_at(top).upper
    assert end.lower - Fraction(1, 10**9) <= close.upper
    assert close.lower <= end.upper


def test_a_changed_law_caps_the_curve_at_tiny_alpha() -> None:
    """Cap the curve: with tv the best line at alpha = 0 is not at infinity: its slope is finite."""
    guarantee = ApproximateGaussianDP(1, "1e-6", "1e-4")
    least_delta = min(guarantee.delta_at(Fraction(e, 8)).lower for e in range(80))
    assert abs(1 - guarantee.tradeoff_at(0).lower - least_delta) < Fraction(1, 10**6)
    assert guarantee.tradeoff_at(0).lower <= 1 - guarantee.delta_floor
    for alpha in ("1e-300", "1e-30", "1e-12"):
        tradeoff = guarantee.tradeoff_at(alpha)
        assert tradeoff.upper <= guarantee.tradeoff_at(0).upper
        assert tradeoff.lower >= guarantee.tradeoff_at(0).lower - 10**6 * Fraction(alpha)


def _best_test(p: dict[Any, Any], q: dict[Any, Any], alpha: Any) -> Any:
    """Return the least type II error by Neyman and Pearson: reject where Q / P is largest,
    first."""
    error, missed = real(alpha), mp.mpf(1)
    for outcome in sorted(p, key=lambda o: q[o] / p[o], reverse=True):
        share = min(mp.mpf(1), error / p[outcome])
        error, missed = error - share * p[outcome], missed - share * q[outcome]
    return max(missed, mp.mpf(0))


def _laplace_laws(shift: int, scale: Fraction) -> tuple[dict[int, Any], dict[int, Any]]:
    """Centers 0 and ``shift``, the tails beyond them lumped into the end points."""
    ratio = mp.exp(-1 / real(scale))
    p = {z: (1 - ratio) / (1 + ratio) * ratio**z for z in range(1, shift)}
    p[0], p[shift] = 1 / (1 + ratio), ratio**shift / (1 + ratio)
    return p, {shift - z: mass for z, mass in p.items()}


@pytest.mark.parametrize(("shift", "scale"), [(1, "0.3"), (2, "1"), (5, "7/3"), (40, "9")])
def test_the_laplace_curve_is_that_of_the_best_tests(shift: int, scale: str) -> None:
    with mp.workdps(_DIGITS):
        p, q = _laplace_laws(shift, Fraction(scale))
        for there, right in ((shift, True), (shift + 1, False)):
            noise = DiscreteLaplaceShift(there, scale)
            assert _follows(noise, lambda a: _best_test(p, q, a)) == right


def _responses(epsilons: list[str]) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Return the laws of several randomized responses together."""
    yes = [1 / (1 + mp.exp(-real(Fraction(e)))) for e in epsilons]
    p, q = {}, {}
    for answers in itertools.product((0, 1), repeat=len(yes)):
        p[answers] = mp.fprod(y if a else 1 - y for a, y in zip(answers, yes, strict=True))
        q[answers] = mp.fprod(1 - y if a else y for a, y in zip(answers, yes, strict=True))
    return p, q


@pytest.mark.parametrize("epsilons", [["1", "1"], ["0.5", "0.25", "1"], ["3/7", "0.0317", "2"]])
def test_a_composed_curve_is_that_of_the_explicit_product(epsilons: list[str]) -> None:
    profile = Profile([PureDP(e) for e in epsilons])
    with mp.workdps(_DIGITS):
        p, q = _responses(epsilons)
        for alpha in _ALPHAS[1:]:
            tradeoff = profile.tradeoff_at(alpha)
            assert _holds(tradeoff, _best_test(p, q, alpha), 45), alpha
            assert tradeoff.upper - tradeoff.lower <= Fraction(2, 1000)


def test_a_composed_curve_is_below_its_parts_and_above_their_guarantees() -> None:
    parts = [GaussianDP(1), PureDP("0.5"), DiscreteLaplaceShift(2, 4)]
    profile, eventful = Profile(parts), Profile(parts, "1e-3", "1e-4")
    mu = profile.gaussian
    assert mu is not None
    for alpha in (Fraction(1, 100), Fraction(1, 5), Fraction(3, 5)):
        tradeoff = profile.tradeoff_at(alpha)
        assert all(tradeoff.lower <= part.tradeoff_at(alpha).upper for part in parts)
        assert tradeoff.upper >= GaussianDP.of_square(mu.mu_squared).tradeoff_at(alpha).lower
        assert tradeoff.upper - tradeoff.lower < Fraction(1, 1000)
        lowered = eventful.tradeoff_at(alpha)
        assert lowered.upper < tradeoff.lower - Fraction(1, 5000)


@pytest.mark.parametrize("part", [GaussianDP(1), ZeroConcentratedDP("0.1"), BoundedRange(1)])
def test_a_composition_of_one_has_the_curve_of_the_one(part: Guarantee) -> None:
    for alpha in _ALPHAS:
        assert Profile([part]).tradeoff_at(alpha) == part.tradeoff_at(alpha)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_a_group_s_curve_of_noise_is_that_of_the_larger_shift(size: int) -> None:
    for base, alpha in itertools.product((GaussianDP("0.4"), DiscreteLaplaceShift(2, 3)), _ALPHAS):
        tradeoff = Group(base, size).tradeoff_at(alpha)
        exact = base.for_group(size).tradeoff_at(alpha)
        assert tradeoff.lower <= exact.upper
        assert tradeoff.upper >= exact.lower
        assert tradeoff.upper - tradeoff.lower <= Fraction(1, 10**40)
