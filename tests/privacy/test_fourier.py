"""Profiles by inverted transforms: enclosures hold whatever the floats choose, and only then."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import mpmath as mp
import pytest
from flint import acb, acb_mat, arb

from dpverify.privacy import (
    DiscreteLaplaceShift,
    GaussianDP,
    Guarantee,
    Profile,
    PureDP,
)
from dpverify.privacy.balls import Enclosure, working_precision
from dpverify.privacy.guarantees.parts import Parts
from dpverify.privacy.numerics import fourier
from dpverify.privacy.numerics.laws import Composition, closed, composition
from dpverify.privacy.numerics.tilting import Choice, Rough, Setting, chosen
from spec.theory import fourier as spec
from spec.theory.laws import real

from .test_composed_profiles import holds, laplace, response, together, width


@pytest.fixture(autouse=True)
def _fifty_digits() -> Iterator[None]:
    with mp.workdps(50):
        yield


@pytest.fixture(autouse=True)
def _own_tables() -> Iterator[None]:
    fourier._table.cache_clear()
    yield
    fourier._table.cache_clear()


Case = tuple[Parts, dict[Fraction, Any], Fraction]


def drawn(rng: random.Random, *, mu: Fraction | None = None) -> Case:
    """Parts with 53-bit parameters, the law of their atoms, and mu of the Gaussian part."""
    pure = [Fraction(rng.uniform(0.05, 0.9)) for _ in range(rng.randint(1, 4))]
    shifts = [(rng.randint(1, 6), Fraction(rng.uniform(2, 20))) for _ in range(rng.randint(0, 2))]
    mu = Fraction(rng.choice([0.1, 0.5, 1.5])) if mu is None else mu
    atoms = together([*map(response, pure), *(laplace(*shift) for shift in shifts)])
    parts: list[Guarantee] = [PureDP(e) for e in pure]
    parts += [DiscreteLaplaceShift(*shift) for shift in shifts]
    parts += [GaussianDP(mu)] if mu else []
    return Profile(parts).parts, atoms, mu


def inverted(parts: Parts, epsilon: Fraction) -> Enclosure:
    """Bound delta by the transform, even where another way would do."""
    enclosure = fourier.inverted(composition(parts), epsilon)
    assert enclosure is not None
    return enclosure


@cache
def cases(with_noise: bool = True) -> list[tuple[Case, Fraction, Any]]:
    """List compositions with an epsilon and the true delta there."""
    rng, examples = random.Random(5), []
    for _ in range(12):
        case = drawn(rng, mu=None if with_noise else Fraction(0))
        top = max(case[1])
        for share in (0.0, 0.3, 0.8):
            epsilon = Fraction(float(top) * share)
            examples.append((case, epsilon, spec.profile_at(case[1], case[2], epsilon)))
    return examples


@pytest.mark.parametrize("with_noise", [True, False])
def test_the_truth_is_enclosed_closely(with_noise: bool) -> None:
    """Atoms in lines of few are the hardest: the gap is largest beside an atom."""
    for (parts, _, _), epsilon, truth in cases(with_noise):
        enclosure = inverted(parts, epsilon)
        assert holds(enclosure, truth)
        assert width(enclosure) < (1e-9 if with_noise else 2e-2), (parts, epsilon)


def test_many_alike_are_the_power_of_one() -> None:
    alike = ((DiscreteLaplaceShift(3, "7.1"), 4), (GaussianDP("0.3"), 1), (PureDP("0.31"), 5))
    atoms = together([laplace(3, Fraction("7.1"))] * 4 + [response(Fraction("0.31"))] * 5)
    for epsilon in map(Fraction, ("0", "1.1", "2.9")):
        enclosure = inverted(alike, epsilon)
        assert holds(enclosure, spec.profile_at(atoms, Fraction("0.3"), epsilon))
        assert width(enclosure) < 1e-9


Change = Callable[[Choice], Choice]


def _with(**changes: Callable[[Any], Any]) -> Change:
    def changed(choice: Choice) -> Choice:
        setting = choice.setting
        mine = {k: f(getattr(setting, k)) for k, f in changes.items() if hasattr(setting, k)}
        return replace(choice, setting=replace(setting, **mine))

    return changed


_BAD: dict[str, Change] = {
    "a short period": _with(period=lambda p: p / 6, count=lambda n: n // 6 + 1),
    "few points": _with(count=lambda n: n // 3 + 1),
    "a small tilt": lambda c: replace(_with(tilt=lambda t: t / 8)(c), below=Fraction(0)),
    "a large tilt": lambda c: replace(_with(tilt=lambda t: 16 * t)(c), above=c.setting.tilt * 20),
    "much smoothing": _with(smoothing=lambda v: v + Fraction(1, 30)),
    "far aliases bounded badly": lambda c: replace(c, below=Fraction(0), above=2 * c.setting.tilt),
}


def enclosed(parts: Parts, epsilon: Fraction, bad: Change) -> Enclosure:
    """Enclose with a setting that the floats would not have chosen."""
    laws = composition(parts)
    choice = bad(chosen(Rough(laws), epsilon, 0.01))
    with working_precision(256):
        return fourier._enclosed(laws, epsilon, choice)


@pytest.mark.parametrize("name", _BAD)
def test_whatever_is_chosen_the_truth_is_enclosed(name: str) -> None:
    wide = 0
    for (parts, _, _), epsilon, truth in cases():
        enclosure = enclosed(parts, epsilon, _BAD[name])
        assert holds(enclosure, truth), (name, parts, epsilon)
        wide += width(enclosure) > 1e-7
    assert wide > 5 or "badly" in name, "else the setting was not a bad one"


def _no_aliases(laws: Composition, x: arb, choice: Any) -> arb:
    return arb(0)


def _one_eighth(*args: Any, true: Any = fourier._aliases) -> Any:
    return true(*args) / 8


def _later_rest(laws: Any, setting: Any, true: Any = fourier._rest) -> Any:
    return true(replace(laws, square=4 * laws.square), setting)


def _one_factor_less(laws: Any, setting: Any, precision: int, true: Any = fourier._table) -> Any:
    return true(replace(laws, parts=laws.parts[:-1]), setting, precision)


def _half_density(*args: Any, true: Any = fourier._sums) -> Any:
    profile, density = true(*args)
    return profile, density / 8


def _no_density(*args: Any, true: Any = fourier._sums) -> Any:
    profile, _ = true(*args)
    return profile, arb(0)


def _first_half(*args: Any, true: Any = fourier._table) -> Any:
    flat, weighted = true(*args)
    weighted = acb_mat(weighted)
    weighted[0, 0] *= 2
    return flat, weighted


def _skipped_early(factors: Any, setting: Any) -> Any:
    return [k > 2 for k in range(setting.count + 1)]


@pytest.mark.parametrize(
    ("bad", "name", "twin"),
    [
        ("few points", "_negligible", _skipped_early),
        ("a short period", "_aliases", _no_aliases),
        ("a short period", "_aliases", _one_eighth),
        ("few points", "_rest", _later_rest),
        ("much smoothing", "_sums", _no_density),
        ("much smoothing", "_sums", _half_density),
        ("few points", "_table", _first_half),
        ("few points", "_table", _one_factor_less),
    ],
)
def test_a_forgotten_bound_is_caught(
    bad: str, name: str, twin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fourier, name, twin)
    outside = 0
    for (parts, _, _), epsilon, truth in cases():
        outside += not holds(enclosed(parts, epsilon, _BAD[bad]), truth)
    assert outside


def test_the_sum_over_the_points_is_the_sum_over_the_aliases() -> None:
    """Spec: Poisson's formula, both sides to 25 digits."""
    mp.mp.dps, rng = 25, random.Random(3)  # the fixture resets it
    for _ in range(2):
        _, atoms, mu = drawn(rng, mu=Fraction(rng.choice([1, 2])))
        tilt, step, y = Fraction(rng.uniform(0.5, 3)), Fraction(rng.uniform(0.3, 1.5)), Fraction(1)
        period = 2 * mp.pi / real(step)
        aliases = mp.fsum(
            spec.profile_at(atoms, mu, 1 + j * period) * mp.exp(real(tilt) * (1 + j * period))
            for j in range(-60, 16)
        )
        total = spec.summed(atoms, mu, tilt, step, y)
        assert abs(total - aliases) <= total * mp.mpf(10) ** -9
        assert aliases > spec.profile_at(atoms, mu, 1) * mp.exp(real(tilt)) * (1 + mp.mpf(10) ** -9)


def test_chernoff_and_smoothing_bounds_hold_and_nothing_smaller_does() -> None:
    """Spec: the two inequalities on a grid; with a smaller constant they fail."""
    law = response(Fraction(1, 2))
    tightest = mp.mpf(0)
    for s in map(Fraction, ("0", "0.1", "1", "5", "40")):
        moment = mp.fsum(p * mp.exp(real(s * x)) for x, p in law.items())
        for y in (Fraction(i, 20) for i in range(-20, 20)):
            ratio = spec.profile_at(law, Fraction(0), y) / spec.chernoff(moment, s, y)
            assert ratio <= 1
            tightest = max(tightest, ratio)
    assert tightest > mp.mpf("0.85")
    for sigma in map(Fraction, ("0.01", "0.3", "2")):
        ratios = []
        for y in (sigma * Fraction(i, 10) for i in range(-50, 51)):
            c, bound = spec.excess(sigma, y), spec.smoothing_bound(sigma, y)
            assert 0 <= c <= bound
            ratios.append(c / bound)
        assert max(ratios) > mp.exp(-(real(sigma) ** 2) / 8) * mp.mpf("0.99")


def _period(step: Fraction) -> Fraction:
    """About 2 pi over a step."""
    return Fraction(710, 113) / step


def test_what_is_skipped_is_negligible() -> None:
    """Against the products themselves, and it does skip."""
    rng, skipped = random.Random(2), 0
    parts = Profile([PureDP(Fraction(rng.uniform(0.02, 0.3))) for _ in range(250)]).parts
    setting = Setting(Fraction(3, 2), _period(Fraction(1, 4)), 400, Fraction(0))
    with working_precision(128):
        factors = [closed(part, n, arb(3) / 2)[0] for part, n in parts]
        negligible = fourier._negligible(factors, setting)
        for k in range(0, 401, 7):
            product = acb(1)
            for factor in factors:
                product *= factor.at(fourier._step(setting) * k)
            assert product.abs_upper() < arb(2) ** -64 or not negligible[k]
            skipped += int(negligible[k])
    assert skipped > 5
    assert not negligible[0]


def test_what_no_proof_covers_is_refused() -> None:
    """Aliases bounded from the wrong side of the tilt; turns that the precision does not know."""
    parts, _, _ = cases()[0][0]
    laws = composition(parts)
    choice = chosen(Rough(laws), Fraction(1), 0.01)
    wrong = replace(choice, below=choice.above)
    with working_precision(128), pytest.raises(ArithmeticError, match="wrong sides"):
        fourier._enclosed(laws, Fraction(1), wrong)
    with working_precision(128):
        factors = [closed(PureDP(Fraction(1, 8)), 32, arb(1))[0]] * 8
        step = Fraction(314159265358979323846, 10**20) * 8 * 2**140
        negligible = fourier._negligible(
            factors, Setting(Fraction(1), _period(step), 3, Fraction(0))
        )
    assert not negligible.any()


def test_huge_shifts_need_no_atoms() -> None:
    """A hundred of two kinds, with more atoms than any table holds."""
    parts: list[tuple[Guarantee, int]] = [(DiscreteLaplaceShift(10**9, Fraction(10**11)), 40)]
    parts += [(DiscreteLaplaceShift(10**9 + 7, Fraction(10**11)), 40)]
    delta = Profile(parts).delta_at("0.5")
    coarse = Profile([(DiscreteLaplaceShift(10, 1000), 80)]).delta_at("0.5")
    assert width(delta) < 1e-3
    assert abs(delta.upper - coarse.upper) < coarse.upper / 100


@pytest.mark.parametrize("size", ["1e-300", "1e-40", "1e5"])
def test_extreme_parameters_are_enclosed(size: str) -> None:
    unit = Fraction(size)
    parts = Profile([PureDP(unit), PureDP(unit * 3 / 7), PureDP(unit * Fraction(0.37))]).parts
    atoms = together(response(part.largest_loss or Fraction(0)) for part, _ in parts)
    for share in (Fraction(0), Fraction(1, 3), Fraction(179, 100)):
        epsilon = share * unit
        truth = mp.fsum(p * -mp.expm1(real(epsilon - x)) for x, p in atoms.items() if x > epsilon)
        assert holds(Profile([p for p, _ in parts]).delta_at(epsilon), truth)


def test_beyond_every_loss_delta_is_zero() -> None:
    parts = [PureDP(Fraction(0.1)), PureDP(Fraction(0.3))]
    total = Fraction(0.1) + Fraction(0.3)
    assert Profile(parts).delta_at(total) == Enclosure(Fraction(0), Fraction(0))
    just_below = Profile(parts).delta_at(total * (1 - Fraction(1, 2**30)))
    assert 0 <= just_below.lower <= just_below.upper < Fraction(1, 2**29)
