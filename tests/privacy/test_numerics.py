"""Chords, lattices, mixtures, moments, searches: each is on its side of an independent
computation, and a planted fault in each is seen."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import mpmath as mp
import pytest
from flint import arb, arb_poly

from dpverify.privacy import (
    ApproxDP,
    BoundedRange,
    DiscreteLaplaceShift,
    GaussianDP,
    Guarantee,
    Profile,
    PureDP,
    SmoothLaplace,
    ZeroConcentratedDP,
)
from dpverify.privacy.balls import Enclosure, working_precision
from dpverify.privacy.guarantees.parts import Parts
from dpverify.privacy.numerics import (
    chords,
    composing,
    fourier,
    lattice,
    laws,
    meshes,
    moments,
    rounding,
    searching,
)
from dpverify.privacy.numerics.chords import chords_above
from dpverify.privacy.numerics.lattice import Atoms
from spec.theory import fourier as fourier_spec
from spec.theory import profiles as spec
from spec.theory.laws import real

from .test_composed_profiles import delta_of, holds, laplace, response, together, width


@pytest.fixture(autouse=True)
def _fifty_digits() -> Iterator[None]:
    with mp.workdps(50):
        yield


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    clear()
    yield
    clear()


def clear() -> None:
    """Clear all that was computed with a planted fault, and all from before it."""
    for module in (laws, lattice, fourier, composing, moments, rounding):
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


def number(value: arb) -> Any:
    """Convert the middle of a ball at mpmath's working precision."""
    mantissa, exponent = value.mid().man_exp()
    return mp.ldexp(mp.mpf(int(mantissa)), int(exponent))


# --- chords -------------------------------------------------------------------------------------


def profile_of(made: Atoms, epsilons: Sequence[Fraction]) -> list[Any]:
    """Compute the profile of the masses at several epsilons, without further rounding.

    A loss l counts with p (1 - e^(epsilon - l)); each e^-l is computed once for all epsilons.
    """
    losses = []
    for i, mass in enumerate(made.masses.coeffs()):
        if not mass.is_zero():
            loss, p = made.lowest + i * made.step, number(mass)
            losses.append((loss, p, p * mp.exp(-real(loss))))
    deltas, kept, subtracted = dict[Fraction, Any](), number(made.infinite), mp.mpf(0)
    for epsilon in sorted(epsilons, reverse=True):
        while losses and losses[-1][0] > epsilon:  # losses rise
            _, p, shrunk = losses.pop()
            kept, subtracted = kept + p, subtracted + shrunk
        deltas[epsilon] = kept - mp.exp(real(epsilon)) * subtracted
    return [deltas[epsilon] for epsilon in epsilons]


_FAMILIES: list[Guarantee] = [ZeroConcentratedDP("0.1"), ZeroConcentratedDP(3), BoundedRange("0.8")]
_FAMILIES += [SmoothLaplace("0.3", "1.1"), SmoothLaplace(1, 2), GaussianDP("0.7")]
_FAMILIES += [DiscreteLaplaceShift(31, "97.3")]
_SHARES = [Fraction(i, 17) for i in (0, 1, 2, 5, 9, 17, 30, 60)]


def _are_above(part: Guarantee, made: Atoms) -> bool:
    """Compare at epsilons of either sign, by the symmetry of the profile; a bound may be met
    below its hull, near 0."""
    epsilons, good = [sign * share for share in _SHARES for sign in (1, -1)], []
    for epsilon, above in zip(epsilons, profile_of(made, epsilons), strict=True):
        at = abs(epsilon)
        there, shrink = part.delta_at(at).upper, min(mp.mpf(1), mp.exp(real(epsilon)))
        if isinstance(part, (SmoothLaplace, ZeroConcentratedDP)):
            there = min(there, _hulled(part, at))
        truth = 1 - shrink * (1 - real(there)) if epsilon < 0 else real(there)
        good.append(above >= truth - mp.mpf(10) ** -40)
    return all(good)


@cache
def _hulled(part: Guarantee, at: Fraction) -> Fraction:
    """Return what (e, delta)-DP implies below e, at the best of many e: less than the bound
    itself near 0."""
    deltas = []
    for e in (at + Fraction(i, 20) for i in range(134)):
        known = ApproxDP(e, part.delta_at(e).upper) if e else None
        deltas.append(known.delta_at(at).lower if known else part.delta_at(at).lower)
    return min(deltas) * Fraction(99, 100)


@pytest.mark.parametrize("part", _FAMILIES, ids=str)
def test_chords_are_above_and_close(part: Guarantee) -> None:
    coarse, fine = (chords_above(part, mesh) for mesh in (Fraction(1, 7), Fraction(1, 60)))
    assert _are_above(part, coarse)
    assert _are_above(part, fine)
    for epsilon, above in zip(_SHARES, profile_of(fine, _SHARES), strict=True):
        assert above <= real(part.delta_at(epsilon).upper) + mp.mpf("0.006")


def test_chords_from_the_wrong_side_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values a little below the profile, masses rounded down, and a profile that ends too soon."""
    part, mesh = ZeroConcentratedDP("0.1"), Fraction(1, 200)
    true, masses = chords._above, chords._masses
    for name, twin in (
        ("_above", lambda part, e: true(part, e + mesh)),
        ("_masses", lambda *given: [mass * (1 - arb("1e-4")) for mass in masses(*given)]),
        ("reach_of", lambda part: 0.01),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(chords, name, twin)
            made = chords_above(part, mesh)
            if name == "reach_of":  # then the rest is an infinite loss, which is a bound as well
                assert _are_above(part, made)
                made = replace(made, infinite=arb(0))
            said = zip(_SHARES, profile_of(made, _SHARES), strict=True)
            assert any(above < real(part.delta_at(e).lower) for e, above in said), name


def test_a_conversion_at_any_order_is_a_bound() -> None:
    """The order is found in floats; the value is near the best one, by the spec."""
    for rho, epsilon in itertools.product(("1e-6", "0.1", "30"), ("0", "1e-3", "1", "40")):
        with working_precision(200):
            delta = number(chords._converted(Fraction(rho), Fraction(epsilon)))
        truth = spec.zcdp_profile(Fraction(rho), Fraction(epsilon))
        assert (
            truth * (1 - mp.mpf(10) ** -30)
            <= delta
            <= truth * (1 + mp.mpf(10) ** -9) + mp.mpf(10) ** -30
        )


# --- lattices -----------------------------------------------------------------------------------


def _on_lattice(parts: Parts, epsilon: Fraction) -> Enclosure:
    enclosure = lattice.on_lattice(parts, meshes.lattice_of(parts), epsilon)
    assert enclosure is not None
    return enclosure


def _lattices_hold() -> bool:
    rng, good = random.Random(4), []
    for _ in range(15):
        unit = Fraction(rng.randint(1, 9), rng.randint(20, 90))
        pure = [(unit * rng.randint(1, 9), rng.randint(1, 3)) for _ in range(2)]
        shift, scale = rng.randint(1, 5), 1 / (unit * rng.randint(1, 3))
        atoms = together([*(response(e) for e, n in pure for _ in range(n)), laplace(shift, scale)])
        parts: list[Any] = [(PureDP(e), n) for e, n in pure]
        composed = Profile([*parts, DiscreteLaplaceShift(shift, scale)]).parts
        for share in (Fraction(0), Fraction(1, 3), Fraction(77, 100)):
            epsilon = max(atoms) * share
            enclosure = _on_lattice(composed, epsilon)
            good.append(holds(enclosure, delta_of(atoms, epsilon)) and width(enclosure) < 1e-12)
    return all(good)


def test_a_lattice_holds_the_exact_convolution() -> None:
    assert _lattices_hold()


def _shifted_power(one: Any, times: int, true: Any = lattice._power) -> Any:
    power, start = true(one, times)
    return power, start + (times > 2)


def _dropped(masses: Any, true: Any = lattice._trimmed) -> Any:
    kept, cut = true(masses)
    return arb_poly(kept.coeffs()[:-1]) if kept.length() > 3 else kept, cut


@pytest.mark.parametrize(("name", "twin"), [("_power", _shifted_power)])
def test_a_lattice_that_is_off_by_one_is_caught(
    name: str, twin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lattice, name, twin)
    assert not _lattices_hold()


def test_what_is_left_out_of_a_lattice_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is cut, the truth is enclosed; it is not if the mass that is gone is forgotten."""
    atoms = together([response(Fraction(1, 5))] * 9)
    parts, epsilon = ((PureDP("0.2"), 9),), Fraction(3, 10)
    truth = delta_of(atoms, epsilon)
    monkeypatch.setattr(lattice, "_trimmed", _dropped)
    enclosure = _on_lattice(parts, epsilon)
    assert holds(enclosure, truth)
    assert width(enclosure) > 1e-3
    whole = lattice._table(parts, meshes.lattice_of(parts))
    assert whole is not None
    forgotten = replace(whole, lost=arb(0))
    monkeypatch.setattr(lattice, "_table", lambda parts, step: forgotten)
    assert not holds(_on_lattice(parts, epsilon), truth)


# --- mixtures and moments -----------------------------------------------------------------------


def _beside(part: Guarantee, atoms: dict[Any, Any], epsilon: Fraction) -> Any:
    """Return the mean of the part's profile at epsilon - l, by symmetry at either sign."""
    total = mp.mpf(0)
    for x, p in atoms.items():
        y = epsilon - x
        there = real(part.delta_at(abs(y)).upper)
        total += p * (there if y >= 0 else 1 - mp.exp(real(y)) * (1 - there))
    return total


@pytest.mark.parametrize(
    "part",
    [GaussianDP("0.001"), GaussianDP(2), BoundedRange(3), ZeroConcentratedDP("0.2")],
    ids=str,
)
def test_one_part_beside_atoms_is_their_mixture(part: Guarantee) -> None:
    atoms = together([response(Fraction(1, 2)), laplace(3, Fraction("2.1"))])
    parts = Profile([part, PureDP("0.5"), DiscreteLaplaceShift(3, "2.1")]).parts
    for epsilon in map(Fraction, ("0", "0.3", "1.2", "3")):
        enclosure = moments.mixed(parts, epsilon)
        truth = _beside(part, atoms, epsilon)
        assert enclosure is not None
        assert abs(real(enclosure.upper) - truth) <= truth * mp.mpf(10) ** -25
        if isinstance(part, ZeroConcentratedDP):  # its chords say more than its profile near 0
            continue
        other = rounding.above(parts, epsilon, 120.0)
        assert truth <= real(other) <= truth * mp.mpf("1.03") + mp.mpf(10) ** -40


def _interval_moment(length: Any, t: Any) -> Any:
    """E e^(tL) of the worst two losses y and y - length, by a search over y."""

    def at(y: Any) -> Any:
        high = (mp.exp(length) - mp.exp(y)) / mp.expm1(length)
        return high * mp.exp(t * y) + (1 - high) * mp.exp(t * (y - length))

    return max(at(length * i / 400) for i in range(401))


def test_the_moment_of_a_range_is_that_of_its_worst_interval() -> None:
    for length, t in itertools.product(("0.1", "2", "5"), ("0.01", "1", "25")):
        with working_precision(200):
            moment = number(moments._moment(BoundedRange(length), 1, arb(t)))
        worst = _interval_moment(mp.mpf(length), mp.mpf(t))
        stated = fourier_spec.range_moment(Fraction(length), Fraction(t))
        assert abs(moment / stated - 1) < mp.mpf(10) ** -30
        assert worst <= moment <= worst * mp.mpf("1.02")


def test_moments_of_a_composition_stay_above_gaussian_noise() -> None:
    """rho-zCDP beside randomized response: never below the Gaussian that attains rho; near the
    total rho's."""
    parts: Parts = ((PureDP("0.2"), 9), (ZeroConcentratedDP("0.2"), 1))
    attained = Profile([(PureDP("0.2"), 9), GaussianDP.of_square("0.4")])
    for epsilon in map(Fraction, ("0", "1", "4", "9")):
        bound = moments.chernoff(parts, epsilon)
        assert attained.delta_at(epsilon).lower <= bound
        total = ZeroConcentratedDP(Fraction("0.2") + 9 * Fraction("0.02"))
        assert bound <= total.delta_at(epsilon).upper * Fraction(10**6 + 1, 10**6)


# --- both sides together ------------------------------------------------------------------------

_MIXED: list[list[Any]] = [
    [BoundedRange("0.1"), GaussianDP("0.03")],
    [(BoundedRange("0.4"), 2), PureDP("0.3")],
    [(BoundedRange("0.1"), 20), GaussianDP("0.2"), PureDP(Fraction(0.1))],
    [ZeroConcentratedDP("0.1"), *(PureDP(Fraction(31 + i, 997)) for i in range(8))],
    [ZeroConcentratedDP("0.05"), GaussianDP("0.3"), BoundedRange("0.2")],
    [SmoothLaplace("0.3", "1.1"), GaussianDP("0.5")],
    [SmoothLaplace(1, 2), ZeroConcentratedDP("0.05"), BoundedRange("0.4")],
    [(SmoothLaplace("0.1", "1.01"), 10)],
]


@pytest.mark.parametrize("parts", _MIXED, ids=lambda parts: str(Profile(parts)))
def test_a_mechanism_with_these_guarantees_stays_below(parts: list[Any]) -> None:
    """Lower end, mechanism, upper end; a profile falls, is convex in e^epsilon, and what a
    search finds holds."""
    profile = Profile(parts)
    mechanism = Profile(composing._attaining(profile.parts))
    for epsilon in map(Fraction, ("0", "0.3", "1", "2.5", "50")):
        enclosure, there = profile.delta_at(epsilon), mechanism.delta_at(epsilon)
        assert there.lower <= enclosure.upper
        assert enclosure.lower <= enclosure.upper
        assert profile.at_most(epsilon, enclosure.upper)
    for goal in map(Fraction, ("1e-3", "1e-9")):
        enclosure = profile.epsilon_at(goal)
        assert profile.delta_at(enclosure.upper).upper <= goal
        assert not enclosure.lower or profile.delta_at(enclosure.lower).lower > goal
    for alpha in map(Fraction, ("1e-9", "0.05", "0.6", "0.999")):
        curve, there = profile.tradeoff_at(alpha), mechanism.tradeoff_at(alpha)
        assert curve.lower <= there.upper
        assert curve.lower <= curve.upper <= 1 - alpha
        for epsilon in map(
            Fraction, ("0", "0.2", "1")
        ):  # any line of the true profile is below the curve
            line = (
                1
                - mechanism.delta_at(epsilon).upper
                - Fraction(float(mp.exp(real(epsilon)))) * alpha
            )
            assert there.upper >= line - Fraction(1, 10**12)


@pytest.mark.parametrize(("mu", "each"), [("0.5", "0.1"), ("2", "0.01")])
def test_a_curve_of_a_composition_is_that_of_its_atoms(mu: str, each: str) -> None:
    """Gaussian noise alone, split in two parts that are merged by hand, has its own closed
    curve."""
    noise = GaussianDP(mu)
    parts: Parts = ((noise, 1), (PureDP(each), 1))
    for alpha in map(Fraction, ("1e-12", "0.01", "0.5", "0.97")):
        tradeoff, alone = searching.tradeoff(parts, alpha), noise.tradeoff_at(alpha)
        both = GaussianDP.of_square(noise.mu_squared + Fraction(PureDP(each).gaussian.mu_squared))
        assert both.tradeoff_at(alpha).lower <= tradeoff.upper
        assert tradeoff.lower <= alone.upper
        assert tradeoff.upper - tradeoff.lower <= Fraction(1, 10**5)


def test_the_largest_value_of_a_concave_function_is_not_underrated() -> None:
    """Between two of six points, for concave functions of straight pieces."""
    rng, exceeded = random.Random(8), 0
    for _ in range(300):
        lines = [(Fraction(rng.random()), Fraction(rng.uniform(-2, 2))) for _ in range(5)]
        g = sorted(Fraction(rng.random()) for _ in range(4))
        values = [min(h + s * x for h, s in lines) for x in g]
        bound = searching._below_lines(values, values, [Enclosure(x, x) for x in g])
        steps = [g[1] + (g[2] - g[1]) * Fraction(i, 50) for i in range(51)]
        most = max(min(h + s * x for h, s in lines) for x in steps)
        assert most <= bound
        exceeded += most > max(values[1], values[2])
    assert exceeded > 5


def _doubled(parts: Parts, true: Any = composing._attaining) -> Parts:
    return tuple((part, 2 * n) for part, n in true(parts))


@pytest.mark.parametrize(
    ("where", "name", "twin"),
    [
        (composing, "_attaining", _doubled),
        (composing, "mixed", lambda parts, e: Enclosure(Fraction(0), Fraction(0))),
        (composing, "chernoff", lambda parts, e: Fraction(0)),
    ],
)
def test_a_side_that_is_wrong_is_seen(
    where: Any, name: str, twin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Notice it: what a mechanism reaches is no longer between the ends."""
    parts, epsilon = Profile([BoundedRange("0.4"), PureDP("0.5")]).parts, Fraction(1, 4)
    atoms = together([response(Fraction(1, 5)), response(Fraction(1, 2))])
    truth = delta_of(atoms, epsilon)
    assert (
        real(composing.below(parts, epsilon)) <= truth * (1 + mp.mpf(10) ** -30)
        or name != "_attaining"
    )
    assert truth <= real(composing.above(parts, epsilon))
    clear()
    monkeypatch.setattr(where, name, twin)
    low, high = composing.attained(parts, epsilon).lower, composing.above(parts, epsilon)
    assert not real(low) <= truth * (1 + mp.mpf(10) ** -30) or not truth <= real(high)
