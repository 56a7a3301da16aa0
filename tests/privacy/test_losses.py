"""Privacy loss distributions on a grid: an upper bound is never below the exact profile, a lower one
never above it, at nodes and between, whatever is done to them.

Small random laws with rational masses are composed exactly; few bits make every rounding visible.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import mpmath as mp
import pytest
from flint import arb, fmpz, fmpz_poly

from dpverify.privacy import (
    BoundedRange,
    DiscreteLaplaceShift,
    GaussianDP,
    Guarantee,
    PureDP,
    ZeroConcentratedDP,
    discretize,
    losses,
)
from dpverify.privacy.balls import ball, working_precision
from dpverify.privacy.losses import Losses, ProfileTable
from spec.theory.laws import real

Exact = dict[Fraction, Fraction]  # P's masses of finite losses; the rest of P is an infinite loss

_BITS = 44
_TINY = mp.mpf(10) ** -45  # of the reference, at 60 digits
_EPSILONS = [Fraction(e, 100) for e in (-300, -100, -35, -10, 0, 5, 10, 30, 77, 100, 131, 200, 800)]


@pytest.fixture(autouse=True)
def _sixty_digits() -> Any:
    with mp.workdps(60):
        yield


def finite_part(law: Exact, epsilon: Fraction) -> Any:
    """The sum over losses of mass * (1 - e^(epsilon - loss))^+."""
    above = [(loss, mass) for loss, mass in law.items() if loss > epsilon]
    return mp.fsum(real(mass) * -mp.expm1(real(epsilon - loss)) for loss, mass in above)


def exact_profile(law: Exact, epsilon: Fraction) -> Any:
    """What P has nowhere finite, and the sum."""
    return 1 - real(sum(law.values(), Fraction(0))) + finite_part(law, epsilon)


def profile_of(made: Losses, epsilon: Fraction) -> Any:
    """What the integers say, without further rounding."""
    unit = Fraction(1, 1 << made.bits)
    law = {
        (made.lowest + i) * made.mesh: int(mass) * unit
        for i, mass in enumerate(made.masses.coeffs())
    }
    return real(int(made.infinite) * unit) + finite_part(law, epsilon)


def is_on_its_side(made: Losses, law: Exact) -> bool:
    """At every epsilon, of either sign; the table as well."""
    sign = 1 if made.upper else -1
    table = ProfileTable(made)
    for epsilon in _EPSILONS:
        truth, said = exact_profile(law, epsilon), profile_of(made, epsilon)
        if sign * (said - truth) < -_TINY:
            return False
        if epsilon >= 0 and sign * (real(table.at(epsilon)) - said) < -_TINY:
            return False
    return True


def is_close(made: Losses, law: Exact, gap: float) -> bool:
    return all(abs(profile_of(made, e) - exact_profile(law, e)) <= gap for e in _EPSILONS)


def random_law(rng: random.Random, mesh: Fraction, *, whole: bool = True) -> Exact:
    places = rng.sample(range(-9, 14), rng.randint(1, 7))
    weights = {place * mesh: Fraction(rng.randint(1, 10**6)) for place in places}
    total = sum(weights.values()) * (1 if whole else 1 + Fraction(1, rng.randint(2, 10**5)))
    return {loss: weight / total for loss, weight in weights.items()}


def made_of(law: Exact, mesh: Fraction, upper: bool) -> Losses:
    with working_precision(_BITS + 96):
        masses = {int(loss / mesh): ball(mass) for loss, mass in law.items()}
        made = losses.from_masses(mesh, masses, bits=_BITS, upper=upper)
        rest = losses.rounded(ball(1 - sum(law.values(), Fraction(0))), _BITS, upper)
    return Losses(mesh, _BITS, upper, made.lowest, made.masses, rest if upper else fmpz(0))


def together(laws: list[Exact]) -> Exact:
    joint: Exact = {Fraction(0): Fraction(1)}
    for law in laws:
        before, joint = joint, {}
        for (x, p), (y, q) in itertools.product(before.items(), law.items()):
            joint[x + y] = joint.get(x + y, Fraction(0)) + p * q
    return joint


def _atoms_are_sound(upper: bool) -> bool:
    rng = random.Random(1)
    meshes = [Fraction(rng.randint(1, 9), rng.randint(10, 30)) for _ in range(25)]
    laws = [(random_law(rng, mesh, whole=not upper), mesh) for mesh in meshes]
    return all(is_on_its_side(made_of(law, mesh, upper), law) for law, mesh in laws)


def _another_mesh_is_sound(upper: bool) -> bool:
    rng, good = random.Random(2), []
    for _ in range(25):
        mesh, other = (Fraction(rng.randint(1, 9), rng.randint(10, 30)) for _ in range(2))
        law = random_law(rng, mesh)
        good.append(is_on_its_side(losses.regrid(made_of(law, mesh, upper), other), law))
    return all(good)


def _products_are_sound(upper: bool) -> bool:
    rng, good = random.Random(3), []
    for _ in range(12):
        mesh = Fraction(rng.randint(1, 9), 31)
        laws = [random_law(rng, mesh, whole=not upper) for _ in range(3)]
        made = losses.product_of([made_of(law, mesh, upper) for law in laws])
        good.append(is_on_its_side(made, together(laws)) and is_close(made, together(laws), 1e-6))
    return all(good)


def _powers_are_sound(upper: bool) -> bool:
    mesh = Fraction(3, 40)
    law = {-mesh: Fraction(2, 7), 2 * mesh: Fraction(1, 3), 4 * mesh: Fraction(8, 21)}
    if upper:
        law[4 * mesh] /= 2  # the other half is an infinite loss
    made = ((losses.power(made_of(law, mesh, upper), n), n) for n in (1, 2, 3, 5, 8))
    return all(is_on_its_side(one, together([law] * n)) for one, n in made)


_CHECKS = [_atoms_are_sound, _another_mesh_is_sound, _products_are_sound, _powers_are_sound]
Check = Callable[[bool], bool]


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("check", _CHECKS)
def test_every_operation_keeps_to_its_side(check: Check, upper: bool) -> None:
    assert check(upper)


def _turned(name: str) -> Callable[..., Any]:
    """The function with the side it rounds to turned around."""
    true, at = getattr(losses, name), {"rounded": 2, "_times": 3, "product": 0}[name]

    def product(a: Losses, b: Losses) -> Losses:
        made: Losses = true(replace(a, upper=not a.upper), replace(b, upper=not b.upper))
        return replace(made, upper=a.upper)

    def other(*given: Any) -> Any:
        return true(*given[:at], not given[at], *given[at + 1 :])

    return other if at else product


def _moved(made: Losses, mesh: Fraction, *, up: int, regrid: Any = losses.regrid) -> Losses:
    """To the multiple of the mesh below, or the one above that."""
    below: Losses = regrid(replace(made, upper=False), mesh)
    return replace(below, upper=made.upper, lowest=below.lowest + up)


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("name", ["rounded", "_times", "product"])
def test_a_flipped_rounding_is_caught(
    name: str, upper: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(losses, name, _turned(name))
    assert not _products_are_sound(upper)


def test_losses_moved_to_the_wrong_side_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "regrid", partial(_moved, up=0))
    assert not _another_mesh_is_sound(True)
    assert _another_mesh_is_sound(False)
    monkeypatch.setattr(losses, "regrid", partial(_moved, up=1))
    assert not _another_mesh_is_sound(False)


@pytest.mark.parametrize("upper", [True, False])
def test_a_power_is_the_product_repeated_and_order_does_not_matter(upper: bool) -> None:
    rng, mesh = random.Random(5), Fraction(1, 11)
    laws = [random_law(rng, mesh) for _ in range(4)]
    one = made_of(laws[0], mesh, upper)
    repeated = one
    for _ in range(6):
        repeated = losses.product(repeated, one)
    slack = 2.0 ** (30 - _BITS)  # a few cuts of at most 2^20 units, and roundings
    for epsilon in _EPSILONS:
        gap = profile_of(losses.power(one, 7), epsilon) - profile_of(repeated, epsilon)
        assert abs(gap) <= slack
    joint = together(laws)
    for order in list(itertools.permutations(laws))[::3]:
        made = losses.product_of(made_of(law, mesh, upper) for law in order)
        assert is_on_its_side(made, joint)
        assert is_close(made, joint, slack)


@pytest.mark.parametrize("upper", [True, False])
def test_noise_at_the_ends_is_cut_to_the_safe_side(upper: bool) -> None:
    units = [3, 0, 1 << 19, 1 << 30, 5, 1 << 31, 7, 1 << 19, 1]
    made = Losses(Fraction(1, 5), _BITS, upper, -4, fmpz_poly(units), fmpz(0))
    cut = losses._trimmed(made)
    assert (cut.lowest, cut.highest) == (-1, 1)
    for epsilon in _EPSILONS:
        gap = profile_of(cut, epsilon) - profile_of(made, epsilon)
        assert (gap >= -_TINY) if upper else (gap <= _TINY)
        assert abs(gap) <= 2.0 ** (21 - _BITS)
    kept = int(cut.masses(1) + cut.infinite)
    assert kept == sum(units) if upper else kept < sum(units)


@pytest.mark.parametrize("upper", [True, False])
def test_corners_are_met_and_joined_by_lines(upper: bool) -> None:
    mesh = Fraction(1, 7)
    with working_precision(_BITS + 96):
        values = {k: GaussianDP(1).delta_ball(k * mesh) for k in (0, 1, 2, 3, 4, 5, 8)}
        values[20] = values[8] if upper else arb(0)
        made = losses.from_corners(mesh, values, bits=_BITS, upper=upper)
    sign, table = (1 if upper else -1), ProfileTable(made)
    for k, value in values.items():
        there = mp.mpf(str(value.mid().str(40, radius=False)))
        assert 0 <= sign * (real(table.node(k)) - there) <= 2.0 ** (8 - _BITS)
    for k, share in itertools.product(range(20), (0.2, 0.9)):
        epsilon = (k + Fraction(share)) * mesh
        way = mp.expm1(real(epsilon - k * mesh)) / mp.expm1(real(mesh))
        chord = real(table.node(k)) * (1 - way) + real(table.node(k + 1)) * way
        assert abs(real(table.at(epsilon)) - chord) < mp.mpf(10) ** -30
        mirrored = 1 - mp.exp(real(-epsilon)) * (1 - profile_of(made, epsilon))
        assert abs(profile_of(made, -epsilon) - mirrored) <= 2.0 ** (8 - _BITS), "symmetric"


_PARTS: list[Guarantee] = [PureDP("0.3"), DiscreteLaplaceShift(3, "2.1"), GaussianDP("0.7")]
_PARTS += [BoundedRange("0.8"), ZeroConcentratedDP("0.1"), DiscreteLaplaceShift(9999, 10**4)]


def _is_enclosed(part: Guarantee) -> bool:
    """At epsilons of either sign, by the symmetry of the profile; and not too widely."""
    made = [
        discretize.composed(((part, 1),), bits=192, upper=u, fineness=20) for u in (True, False)
    ]
    good = []
    for epsilon in (Fraction(i, 17) for i in (-30, -4, -1, 0, 1, 2, 9, 17, 40)):
        there, shrink = part.delta_at(abs(epsilon)), min(mp.mpf(1), mp.exp(real(epsilon)))
        low, high = (1 - shrink * (1 - real(end)) for end in (there.lower, there.upper))
        above, below = (profile_of(side, epsilon) for side in made)
        slack = mp.mpf(10) ** -40
        good.append(below - slack <= low and high <= above + slack)
        good.append(epsilon < 0 or above - high <= 0.002)
    return all(good)


@pytest.mark.parametrize("part", _PARTS, ids=str)
def test_a_part_is_enclosed_at_every_epsilon(part: Guarantee) -> None:
    assert _is_enclosed(part)


def test_chords_above_the_profile_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discretize, "_chord_error", lambda five, g: arb(0))
    assert not _is_enclosed(GaussianDP("0.7"))


@pytest.mark.parametrize("part", _PARTS[2:], ids=str)
def test_a_mesh_that_is_too_coarse_or_too_fine_gives_something_on_the_same_side(
    part: Guarantee,
) -> None:
    for mesh, upper in itertools.product((Fraction(50), Fraction(1, 10**9)), (True, False)):
        with working_precision(192 + 96):
            made = discretize._discretized(part, mesh, 192, upper)
        for epsilon in (Fraction(0), Fraction(1, 5), Fraction(2)):
            found, there = profile_of(made, epsilon), part.delta_at(epsilon)
            assert found >= real(there.upper) if upper else found <= real(there.lower)


def test_the_error_of_a_chord_is_never_underrated() -> None:
    rng = random.Random(6)
    for _ in range(200):
        lines = [(rng.uniform(0, 1), rng.uniform(0, 2)) for _ in range(6)]

        def convex(x: float, lines: list[tuple[float, float]] = lines) -> float:
            return max(height - slope * x for height, slope in lines)

        g = rng.uniform(1.01, 2)
        five = [arb(convex(x)) for x in (1 / g, 1, g, g * g, g**3)]
        error = float(discretize._chord_error(five, arb(g)).upper())
        for share in (i / 40 for i in range(41)):
            chord = convex(1) * (1 - share) + convex(g * g) * share
            assert chord - convex(1 + share * (g * g - 1)) <= error + 1e-9
