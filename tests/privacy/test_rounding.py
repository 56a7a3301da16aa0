"""Losses rounded to a lattice: apart they dominate, toward zero they are a mechanism's; a
planted fault in either is seen."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import mpmath as mp
import pytest
from flint import arb

from dpverify.privacy import (
    BoundedRange,
    DiscreteLaplaceShift,
    GaussianDP,
    Guarantee,
    Profile,
    PureDP,
)
from dpverify.privacy.balls import Enclosure, working_precision
from dpverify.privacy.guarantees.parts import Parts
from dpverify.privacy.numerics import lattice, meshes, rounding
from dpverify.privacy.numerics.lattice import Atoms
from spec.theory import fourier as fourier_spec
from spec.theory import rounding as spec
from spec.theory.laws import real

from .test_composed_profiles import holds, laplace, response, together
from .test_numerics import clear, number

Law = dict[Fraction, Any]
_TINY = mp.mpf(10) ** -40


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    with mp.workdps(50):
        clear()
        yield
        clear()


def law_of(atoms: Atoms) -> Law:
    """Losses with P's masses."""
    masses = enumerate(atoms.masses.coeffs())
    return {atoms.lowest + i * atoms.step: number(mass) for i, mass in masses if mass > 0}


def made(way: Any, part: Guarantee, mesh: Fraction) -> Law:
    with working_precision(256):
        return law_of(way(part, mesh))


def reached(parts: Parts, epsilon: Fraction) -> Enclosure:
    enclosure = rounding.reached(parts, epsilon)
    assert enclosure is not None
    return enclosure


def _truth(part: Guarantee) -> Law:
    if isinstance(part, DiscreteLaplaceShift):
        return laplace(part.shift, part.scale)
    assert isinstance(part, PureDP)
    return response(part.epsilon)


def _same(law: Law, truth: Law) -> bool:
    return all(abs(law.get(x, mp.mpf(0)) - truth.get(x, mp.mpf(0))) < _TINY for x in {*law, *truth})


_ATOMIC: list[Guarantee] = [PureDP("0.31"), PureDP(7), DiscreteLaplaceShift(1, "0.4")]
_ATOMIC += [DiscreteLaplaceShift(5, "7.1"), DiscreteLaplaceShift(40, 13)]
_MESHES = [Fraction(1, 7), Fraction(3, 1000), Fraction(31, 100), Fraction(11)]


@pytest.mark.parametrize("part", _ATOMIC, ids=str)
def test_a_law_is_rounded_as_the_spec_says(part: Guarantee) -> None:
    """Mass by mass; and the spec's own claims: P's and Q's masses kept, profiles above and below
    at every x."""
    truth = _truth(part)
    grid = [max(truth) * Fraction(i, 9) for i in range(-11, 12)]
    for mesh in _MESHES:
        apart, toward = spec.apart(truth, mesh), spec.toward_zero(truth, mesh)
        assert _same(made(rounding._apart, part, mesh), apart)
        if isinstance(part, PureDP):  # to half the mesh
            toward = spec.toward_zero(truth, mesh / 2)
        assert _same(made(rounding._toward_zero, part, mesh), toward)
        for law in (apart, toward):
            assert abs(mp.fsum(law.values()) - 1) < _TINY
            assert abs(mp.fsum(p * mp.exp(real(-x)) for x, p in law.items()) - 1) < _TINY
        for x in grid:
            low, there, high = (spec.profile_at(law, x) for law in (toward, truth, apart))
            assert low - _TINY <= there <= high + _TINY


@pytest.mark.parametrize("mu", ["0.01", "0.5", "4"])
def test_gaussian_noise_toward_zero_stays_below(mu: str) -> None:
    """Against its profile in closed form, close where the mesh is fine; symmetric, with masses
    of 1."""
    part = GaussianDP(mu)
    for share in (Fraction(1, 3), Fraction(1, 40)):
        mesh = Fraction(mu) * share
        law = made(rounding._toward_zero, part, mesh)
        assert abs(mp.fsum(law.values()) - 1) < _TINY
        for loss, p in law.items():
            assert abs(law[-loss] - p * mp.exp(real(-loss))) < _TINY
        for x in (Fraction(mu) * Fraction(i, 4) for i in range(13)):
            delta, there = spec.profile_at(law, x), real(part.delta_at(x).upper)
            assert delta <= there + _TINY
            assert share > 0.1 or delta >= there * mp.mpf("0.8")


def test_a_huge_shift_is_rounded_without_its_atoms() -> None:
    """Round it as one of the same losses with few atoms, up to what those are apart."""
    huge, small = DiscreteLaplaceShift(3 * 10**7, 10**8), DiscreteLaplaceShift(300, 1000)
    for way, sign in ((rounding._apart, 1), (rounding._toward_zero, -1)):
        law = made(way, huge, Fraction(1, 50))
        for x in (Fraction(i, 25) for i in range(8)):
            delta, there = spec.profile_at(law, x), real(small.delta_at(x).upper)
            assert sign * (delta - there) >= -mp.mpf("1e-3") * there - _TINY
            assert abs(delta - there) < mp.mpf("0.01")


# --- together -----------------------------------------------------------------------------------


def _cases() -> Iterator[tuple[Parts, Law, Fraction]]:
    """Parts with atoms and Gaussian noise, the law of the atoms, mu."""
    rng = random.Random(7)
    for _ in range(8):
        pure = [Fraction(rng.uniform(0.02, 1.5)) for _ in range(rng.randint(1, 4))]
        shift, scale = rng.randint(1, 6), Fraction(rng.uniform(2, 20))
        mu = Fraction(rng.choice([0.1, 0.5, 1.5]))
        parts = Profile([*map(PureDP, pure), DiscreteLaplaceShift(shift, scale), GaussianDP(mu)])
        yield parts.parts, together([*map(response, pure), laplace(shift, scale)]), mu
    far = [Fraction(0.3), Fraction(400), Fraction(90)]  # farther apart than the lattice is long
    parts = Profile([*map(PureDP, far), GaussianDP("0.02")])
    yield parts.parts, together(map(response, far)), Fraction("0.02")


@cache
def _truths() -> list[tuple[Parts, Fraction, Any]]:
    """Compute the profile of every case at four epsilons, once for all tests."""
    return [
        (parts, epsilon, fourier_spec.profile_at(atoms, mu, epsilon))
        for parts, atoms, mu in _cases()
        for epsilon in (max(atoms) * Fraction(share) for share in ("0", "0.3", "0.8", "0.99"))
    ]


def _both_sides_hold() -> bool:
    """Stop at the first case in which a side fails."""
    for parts, epsilon, truth in _truths():
        low, high = reached(parts, epsilon), rounding.above(parts, epsilon, meshes.FINENESS)
        close = real(high) <= truth * mp.mpf("1.05") and real(low.upper) >= truth * 0.9
        if not (close and holds(Enclosure(low.lower, high), truth)):
            return False
    return True


def test_both_sides_hold_and_are_close() -> None:
    assert _both_sides_hold()


def _unsplit(part: Any, mesh: Fraction, true: Any = rounding._apart) -> Any:
    """Move all of a loss between two points to the lower one."""
    rounded = true(part, mesh)
    law = lattice.law_of(part) if meshes.has_atoms(part) else []
    masses = [arb(0)] * rounded.masses.length()
    for loss, mass in law:
        masses[int((loss - rounded.lowest) // mesh)] += mass
    return replace(rounded, masses=type(rounded.masses)(masses)) if law else rounded


def _away_from_zero(
    part: Any, mesh: Fraction, nodes: int, true: Any = rounding._toward_zero
) -> Any:
    if isinstance(part, PureDP):
        return true(PureDP(part.epsilon + mesh / 2), mesh)
    rounded = true(part, mesh, nodes)
    return replace(rounded, lowest=rounded.lowest + mesh)


def _near_only(parts: Parts, fineness: float, true: Any = rounding._split) -> Any:
    near, far = true(parts, fineness)
    return near, far[:1]


def _nothing_beyond(part: Any, loss: Fraction, true: Any = rounding._beyond) -> Any:
    return true(part, loss) * (loss < 1)


@pytest.mark.parametrize(
    ("name", "twin"),
    [
        ("_apart", _unsplit),
        ("_toward_zero", _away_from_zero),
        ("_split", _near_only),
        ("_beyond", lambda part, loss: arb(1) if loss < 1 else arb(0)),
    ],
)
def test_wrong_roundings_are_caught(name: str, twin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounding, name, twin)
    assert not _both_sides_hold()


def test_what_the_lattice_cuts_off_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count with coarse cuts: both sides still hold; without their mass the upper one does not."""
    parts = ((PureDP(Fraction(0.21)), 9), (GaussianDP("0.1"), 1))
    atoms, epsilon = together([response(Fraction(0.21))] * 9), Fraction(1, 5)
    truth = fourier_spec.profile_at(atoms, Fraction("0.1"), epsilon)
    monkeypatch.setattr(lattice, "_CUT", arb("1e-3"))
    assert truth <= real(rounding.above(parts, epsilon, 120.0)) <= truth * mp.mpf("1.2")
    assert real(reached(parts, epsilon).lower) <= truth
    full = rounding._raised(parts, 120.0)
    assert full is not None
    assert full.table.lost > arb("1e-4")
    monkeypatch.setattr(
        rounding, "_raised", lambda *given: replace(full, table=replace(full.table, lost=arb(0)))
    )
    assert real(rounding.above(parts, epsilon, 120.0)) < truth


# --- bounded ranges, whose pair has a density ----------------------------------------------------


def _density_of_range(length: Fraction, mu: Fraction, epsilon: Fraction) -> Any:
    """delta of the pair with density in proportion to e^(x / 2), beside Gaussian noise, by
    quadrature."""
    top, x = real(length), real(epsilon)
    total = mp.quad(lambda y: mp.exp(y / 2), [-top, top])
    if not mu:
        return mp.quad(lambda y: mp.exp(y / 2) * -mp.expm1(x - y), [max(x, -top), top]) / total
    noise: dict[Fraction, Any] = {Fraction(0): mp.mpf(1)}

    def integrand(y: Any) -> Any:
        return mp.exp(y / 2) * fourier_spec.profile_at(noise, mu, x - y)

    return mp.quad(integrand, mp.linspace(-top, top, 9)) / total


@pytest.mark.parametrize(("length", "mu"), [("0.1", "0.03"), ("2", "0.5"), ("0.7", "3")])
def test_a_range_beside_noise_is_an_integral(length: str, mu: str) -> None:
    """Against quadrature; and alone that pair has the profile of a bounded range."""
    part = BoundedRange(length)
    parts = Profile([part, GaussianDP(mu)]).parts
    with mp.workdps(25):
        for share in map(Fraction, ("0", "0.4", "0.9", "1.5")):
            epsilon = share * Fraction(length)
            bound = real(rounding.above(parts, epsilon, meshes.FINENESS))
            with mp.workdps(15):  # a bound is above by more than 1e-12 of it
                truth = _density_of_range(Fraction(length), Fraction(mu), epsilon)
            assert truth * (1 + mp.mpf(10) ** -12) <= bound <= truth * mp.mpf("1.01")
            alone = _density_of_range(Fraction(length), Fraction(0), min(epsilon, Fraction(length)))
            assert abs(alone - real(part.delta_at(epsilon).upper)) < mp.mpf(10) ** -20


def _convolved(length: Fraction, times: int, epsilon: Fraction) -> Any:
    """delta of so many such pairs: uniform losses under the tilt -1/2, so Irwin and Hall's density.

    Density of L: e^(x / 2) / (4 sinh(length / 2)) on [-length, length]; of the sum e^(x / 2)
    (length / (2 sinh(length / 2)))^times times the density of a sum of uniform variables on
    [-length, length].
    """
    a, x, n = real(length), real(epsilon), times

    def density(y: Any) -> Any:
        u = (y + n * a) / (2 * a)
        terms = (
            (-1) ** k * mp.binomial(n, k) * (u - k) ** (n - 1) for k in range(int(mp.floor(u)) + 1)
        )
        return mp.fsum(terms) / mp.factorial(n - 1) / (2 * a)

    nodes = [x, *(y for k in range(n + 1) if (y := (2 * k - n) * a) > x)]
    value = mp.quad(lambda y: density(y) * mp.exp(y / 2) * -mp.expm1(x - y), nodes)
    return value * (a / (2 * mp.sinh(a / 2))) ** n


@pytest.mark.parametrize(
    ("length", "times", "epsilon"),
    [("0.1", 7, "0.05"), ("0.1", 9, "0.3"), ("1.5", 6, "4"), ("3", 6, "0"), ("0.1", 15, "0.5")],
)
def test_several_ranges_are_a_sum_of_uniform_losses(length: str, times: int, epsilon: str) -> None:
    with mp.workdps(25):
        truth = _convolved(Fraction(length), times, Fraction(epsilon))
    bound = real(
        rounding.above(((BoundedRange(length), times),), Fraction(epsilon), meshes.FINENESS)
    )
    assert truth <= bound <= truth * mp.mpf("1.01")


def test_parts_that_no_lattice_holds_are_refused() -> None:
    """More steps than fit, and floats that are nothing: a delta of at most 1, or nothing."""
    with working_precision(256), pytest.raises(ArithmeticError, match="on a lattice of"):
        rounding._apart(PureDP(10**9), Fraction(1, 10**9))
    tiny: Parts = ((PureDP(Fraction(1, 10**400)), 1),)
    assert rounding.above(tiny, Fraction(0), 120.0) == 1
    assert rounding.reached(tiny, Fraction(0)) is None
