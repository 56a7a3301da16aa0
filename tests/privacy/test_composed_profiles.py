"""Compositions: the two sides of ``Profile`` hold closed sums, exact products, and explicit
adaptive mechanisms between them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import cache
from math import comb
from typing import Any

import mpmath as mp
import pytest

from dpverify.privacy import (
    ApproxDP,
    ApproximateGaussianDP,
    BoundedRange,
    DiscreteLaplaceShift,
    GaussianDP,
    Guarantee,
    PerfectPrivacy,
    Profile,
    PureDP,
    ZeroConcentratedDP,
)
from dpverify.privacy.balls import Enclosure
from dpverify.privacy.numerics import composing
from spec.theory import profiles as spec
from spec.theory import rules as spec_rules
from spec.theory.laws import real

from .finite import Pair, adaptive_product

Atoms = dict[Any, Any]  # masses by loss; losses are exact


def _clear() -> None:
    """Clear every cache in which another test may have planted a fault."""
    for cached in (composing.attained, composing._dominated, composing._simply):
        cached.cache_clear()


@pytest.fixture(autouse=True)
def _fifty_digits() -> Iterator[None]:
    with mp.workdps(50):
        yield
    _clear()


def holds(enclosure: Enclosure, truth: Any) -> bool:
    """Between the two ends, up to the truth's own rounding."""
    error = abs(truth) * mp.mpf(10) ** -35
    return bool(real(enclosure.lower) - error <= truth <= real(enclosure.upper) + error)


def width(enclosure: Enclosure) -> float:
    return float((enclosure.upper - enclosure.lower) / enclosure.upper)


def together(laws: Iterable[Atoms]) -> Atoms:
    joint: Atoms = {Fraction(0): mp.mpf(1)}
    for law in laws:
        before, joint = joint, {}
        for (x, p), (y, q) in itertools.product(before.items(), law.items()):
            joint[x + y] = joint.get(x + y, mp.mpf(0)) + p * q
    return joint


def delta_of(atoms: Atoms, epsilon: Fraction) -> Any:
    return mp.fsum(p * -mp.expm1(real(epsilon - x)) for x, p in atoms.items() if x > epsilon)


def response(epsilon: Fraction) -> Atoms:
    yes = 1 / (1 + mp.exp(real(-epsilon)))
    return {epsilon: yes, -epsilon: 1 - yes}


def laplace(shift: int, scale: Fraction) -> Atoms:
    q = mp.exp(-1 / real(scale))
    law = {(shift - 2 * z) / scale: (1 - q) / (1 + q) * q**z for z in range(1, shift)}
    return law | {shift / scale: 1 / (1 + q), -shift / scale: q**shift / (1 + q)}


@pytest.mark.parametrize(
    ("each", "times", "epsilons"),
    [
        ("0.1", 20, ["0", "0.5", "1", "1.9", "1.999999"]),
        ("1", 3, ["0", "0.999", "2.5"]),
        ("0.1", 4000, ["0", "20", "60", "100", "200", "230"]),
        ("3/7", 300, ["0", "30", "100", "128.5"]),
    ],
)
def test_copies_of_pure_dp_follow_the_binomial_sum(
    each: str, times: int, epsilons: list[str]
) -> None:
    """Kairouz, Oh, Viswanath 2015: sum of C(k, i) (e^((k - i) e0) - e^epsilon e^(i e0))^+."""
    e0 = Fraction(each)
    for epsilon in map(Fraction, epsilons):
        terms = (
            comb(times, i) * mp.exp(real((times - i) * e0)) * -mp.expm1(real(epsilon - x))
            for i in range(times + 1)
            if (x := (times - 2 * i) * e0) > epsilon
        )
        truth = mp.fsum(terms) / (1 + mp.exp(real(e0))) ** times
        profile = Profile([(PureDP(e0), times)])
        delta = profile.delta_at(epsilon)
        assert holds(delta, truth), epsilon
        assert width(delta) < 1e-6 if truth > mp.mpf("1e-40") else delta.upper < Fraction(1, 10**40)
        assert profile.at_most(epsilon, delta.upper)
        assert not profile.at_most(epsilon, delta.lower * (1 - Fraction(1, 10**6)))
    assert truth < mp.mpf("1e-250") or times < 4000


@pytest.mark.parametrize(("shift", "scale", "times"), [(2, "3", 6), (2, "0.7", 15), (5, "11", 4)])
def test_copies_of_a_laplace_shift_follow_the_exact_convolution(
    shift: int, scale: str, times: int
) -> None:
    atoms = together([laplace(shift, Fraction(scale))] * times)
    for epsilon in (times * shift / Fraction(scale) * i / 40 for i in (0, 1, 7, 20, 33, 39)):
        delta = Profile([(DiscreteLaplaceShift(shift, scale), times)]).delta_at(epsilon)
        assert holds(delta, delta_of(atoms, epsilon)), epsilon
        assert width(delta) < 1e-9


def _gaussian_beside(atoms: Atoms, mu: Fraction, epsilon: Fraction) -> Any:
    """Return the sum over the atoms' losses x of mass * delta_mu(epsilon - x)."""
    return mp.fsum(p * spec.gaussian_profile(mu**2, epsilon - x) for x, p in atoms.items())


@pytest.mark.parametrize(("mu", "each", "times"), [("0.5", "0.1", 6), ("1", "0.35", 9)])
def test_gaussian_noise_beside_randomized_responses(mu: str, each: str, times: int) -> None:
    atoms = together([response(Fraction(each))] * times)
    profile = Profile([GaussianDP(mu), (PureDP(each), times)])
    for epsilon in map(Fraction, ("0", "0.3", "1.01", "2.7")):
        delta = profile.delta_at(epsilon)
        assert holds(delta, _gaussian_beside(atoms, Fraction(mu), epsilon)), epsilon
        assert width(delta) < 1e-3
        assert not profile.at_most(epsilon, delta.lower * Fraction(999, 1000))


@cache
def _ranges_at(length: Fraction, epsilon: Fraction, times: int, steps: int = 24) -> Any:
    """Return the worst of adaptive stages with losses t and t - length each, t on a grid."""
    if times == 1:
        there = BoundedRange(length).delta_at(abs(epsilon)).lower
        return real(there) if epsilon >= 0 else 1 - mp.exp(real(epsilon)) * (1 - real(there))
    best, whole = mp.mpf(0), mp.exp(real(length))
    for t in (length * i / steps for i in range(steps + 1)):
        high = (whole - mp.exp(real(t))) / (whole - 1)
        parts = ((high, t), (1 - high, t - length))
        sums = (p * _ranges_at(length, epsilon - x, times - 1, steps) for p, x in parts)
        best = max(best, mp.fsum(sums))
    return best


def test_many_kinds_with_families_are_enclosed() -> None:
    """Thirty ranges and a zCDP part among others: between a mechanism of theirs and the moments."""
    parts: list[Guarantee] = [BoundedRange(Fraction(40 + i, 1000)) for i in range(30)]
    parts += [PureDP(Fraction(20 + i, 997)) for i in range(5)]
    parts += [ZeroConcentratedDP("0.01"), GaussianDP("0.2")]
    profile = Profile(parts)
    rho = profile.concentrated
    assert rho is not None
    attained = Profile(composing._attaining(profile.parts))
    for epsilon in map(Fraction, ("0.5", "1.5", "2.5")):
        delta, lower = profile.delta_at(epsilon), attained.delta_at(epsilon)
        assert lower.lower <= delta.lower * (1 + Fraction(1, 10**6))
        assert delta.lower <= delta.upper <= ZeroConcentratedDP(rho).delta_at(epsilon).upper
        assert profile.at_most(epsilon, delta.upper)
        assert not profile.at_most(epsilon, delta.lower * Fraction(99, 100))


@pytest.mark.parametrize(("length", "times"), [("0.5", 2), ("2", 2), ("0.4", 3)])
def test_bounded_ranges_against_every_adaptive_strategy(length: str, times: int) -> None:
    for share in ("0", "1/24", "1/4", "5/6", "5/4"):
        epsilon = Fraction(share) * Fraction(length)
        delta = Profile([(BoundedRange(length), times)]).delta_at(epsilon)
        reached = _ranges_at(Fraction(length), epsilon, times)
        assert reached <= real(delta.upper), epsilon
        assert real(delta.lower) <= reached * (1 + mp.mpf(1) / 100), "a grid of 24 steps"
        assert real(delta.upper) <= 2 * reached + mp.mpf(1) / 50, "and not far above"


def test_two_hundred_mechanisms_of_five_kinds_are_enclosed_closely() -> None:
    parts: list[tuple[Guarantee, int]] = [(PureDP("0.05"), 60), (PureDP("0.013"), 50)]
    parts += [(DiscreteLaplaceShift(2, 40), 40), (GaussianDP("0.1"), 30)]
    parts += [(ApproxDP("0.02", "1e-45"), 10), (ApproximateGaussianDP("0.05", "1e-45"), 10)]
    profile = Profile(parts)
    for delta in ("1e-6", "1e-40"):
        enclosure = profile.epsilon_at(delta)
        assert enclosure.upper - enclosure.lower <= enclosure.upper / 10**4
        for epsilon in (enclosure.lower, enclosure.upper):
            assert width(profile.delta_at(epsilon)) <= 1e-9


def test_events_add_up_and_a_changed_law_costs_both_sides() -> None:
    parts = [PureDP("0.5"), PureDP("0.3")]
    plain, delta, tv = Profile(parts), Fraction(1, 1000), Fraction(1, 10**4)
    eventful = Profile([ApproxDP("0.5", delta), PureDP("0.3")], 0, tv)
    assert (eventful.delta, eventful.tv, eventful.parts) == (delta, tv, plain.parts)
    grid = [Fraction(i, 20) for i in range(30)]
    sums = [
        real(plain.delta_at(e).upper) + real(delta) + (1 + mp.exp(real(e))) * real(tv) for e in grid
    ]
    for i, epsilon in enumerate(grid):
        bound = real(eventful.delta_at(epsilon).upper)
        assert bound <= min(sums[: i + 1]) * (1 + mp.mpf(10) ** -20)
        assert bound >= min(sums[: i + 1]) * mp.mpf("0.99")
    assert eventful.delta_at(10**9).upper == eventful.delta_floor < Fraction(1, 500)
    ends = eventful.epsilon_at("0.05")
    assert eventful.delta_at(ends.upper).upper <= Fraction(1, 20)
    assert eventful.delta_at(ends.lower).upper >= Fraction(1, 20) - Fraction(1, 10**9)
    with pytest.raises(ValueError, match="its delta stays above"):
        eventful.epsilon_at(delta)


def test_gaussian_and_concentrated_parts_are_merged() -> None:
    assert Profile([GaussianDP(3), (GaussianDP(2), 4)]) == Profile([GaussianDP(5)])
    assert Profile([(ZeroConcentratedDP("0.1"), 3)]) == Profile([ZeroConcentratedDP("0.3")])
    nested = Profile([(Profile([PureDP(1), GaussianDP(1)], "1e-3"), 4), PerfectPrivacy()])
    assert nested == Profile([(PureDP(1), 4), GaussianDP(2)], "4e-3")


def test_a_concentrated_part_lies_between_gaussian_noise_and_the_total_rho() -> None:
    rho, pure = Fraction(1, 5), Profile([PureDP("0.2"), (PureDP("0.1"), 3)])
    profile = Profile([ZeroConcentratedDP(rho), pure])
    attained = Profile([GaussianDP.of_square(2 * rho), pure])
    total = ZeroConcentratedDP(rho + Fraction(4, 200) + Fraction(3, 200))
    for epsilon in ("0", "0.5", "1.5", "3", "6"):
        delta, gaussian = profile.delta_at(epsilon), attained.delta_at(epsilon)
        assert delta.lower <= gaussian.upper
        assert gaussian.lower <= delta.upper <= total.delta_at(epsilon).upper


@pytest.mark.parametrize("part", [PureDP(1), ZeroConcentratedDP("0.1"), BoundedRange(2)])
def test_a_composition_of_one_is_the_one(part: Guarantee) -> None:
    for epsilon in ("0", "0.1", "0.9", "4"):
        assert Profile([part, PerfectPrivacy()]).delta_at(epsilon) == part.delta_at(epsilon)


def test_explicit_adaptive_mechanisms_stay_below_the_composition() -> None:
    rng, factors = random.Random(11), [Fraction(f) for f in ("1", "1.2", "2", "3.5", "6")]
    tight = 0
    for _ in range(25):
        odds = [Fraction(rng.randint(11, 40), 10) for _ in range(2)]  # at most e^epsilon
        epsilons = [Fraction(int(mp.ceil(mp.log(real(o)) * 200)), 200) for o in odds]
        sides: list[Pair] = [
            ({0: o / (1 + o), 1: 1 / (1 + o)}, {0: 1 / (1 + o), 1: o / (1 + o)}) for o in odds
        ]
        leaks = {o: Fraction(rng.randint(0, 9), 1000) for o in (0, 1)}
        turned = {o: rng.random() < 0.5 for o in (0, 1)}

        seconds: dict[Any, Pair] = {}
        for first, leak in leaks.items():  # the direction depends on the first, and the leak
            p, q = sides[1][::-1] if turned[first] else sides[1]
            p, q = ({o: (1 - leak) * m for o, m in law.items()} for law in (p, q))
            seconds[first] = ({**p, "p": leak}, {**q, "q": leak})
        joint = adaptive_product(sides[0], seconds.__getitem__)
        profile = Profile([PureDP(epsilons[0]), ApproxDP(epsilons[1], max(leaks.values()))])
        for factor in factors:
            delta = profile.delta_at(Fraction(int(mp.log(real(factor)) * 2**60), 2**60))
            reached = max(spec_rules.hockey_stick(*pair, factor) for pair in (joint, joint[::-1]))
            assert reached <= delta.upper
            tight += reached > delta.upper * Fraction(9, 10)
    assert tight > 20
