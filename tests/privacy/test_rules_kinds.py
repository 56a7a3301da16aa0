"""Composition of zCDP, GDP, approximate GDP and mixed kinds, through profiles too.

Explicit laws, with adaptive second stages, against what the rules say of the parts. Every check is
a function of the rule, so that a false twin of the rule can be seen to fail it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache, partial
from typing import Any

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpverify import privacy as dp
from dpverify.privacy import Guarantee, parse_guarantee, rules
from spec.theory import rules as spec_rules
from spec.theory.laws import real

from . import noise_laws as laws
from .finite import adaptive_product
from .makers import conjectured, fractions, proved
from .noise_laws import DIGITS, Case, attains, holds, measure

_ZERO, _SMALL = Fraction(0), Fraction(1, 100)
_EPSILONS = [Fraction(i, 4) for i in (0, 1, 2, 3, 4, 6, 8, 10, 12, 16)]
_ORDERS = [Fraction(text) for text in ("1.01", "2", "3")]
_EVENT = fractions(0, "1/10")
Parts = Sequence[Guarantee]
Compose = Callable[[Parts], Guarantee]


def parts_of(text: str) -> list[Guarantee]:
    return [parse_guarantee(part) for part in text.split(" + ")]


def _compose(parts: Parts, *, by_profiles: bool = False) -> Guarantee:
    derivations = [conjectured(part) for part in parts]
    return rules.adaptive_compose(derivations, by_profiles=by_profiles).conclusion.guarantee


def _gaussian(mu_squared: Fraction, delta: Fraction, tv: Fraction) -> Guarantee:
    if delta or tv:
        return dp.ApproximateGaussianDP.of_square(mu_squared, delta, tv)
    return dp.GaussianDP.of_square(mu_squared)


# --- numbers ------------------------------------------------------------------------------------


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.lists(st.tuples(fractions("1/1000", 100), _EVENT, _EVENT), min_size=2, max_size=6))
def test_rho_and_the_gaussian_parameters_add_up_as_the_spec_says(
    values: list[tuple[Fraction, Fraction, Fraction]],
) -> None:
    squares = [value[0] for value in values]
    total = spec_rules.add_up(squares)
    assert _compose([dp.ZeroConcentratedDP(x) for x in squares]) == dp.ZeroConcentratedDP(total)
    plain = [dp.GaussianDP.of_square(x) for x in squares]
    assert _compose([*plain, dp.PerfectPrivacy()]) == dp.GaussianDP.of_square(total)
    added = spec_rules.compose_approximate_gaussian(values)
    assert _compose([_gaussian(*value) for value in values]) == _gaussian(*added)


def test_mixed_kinds_become_a_profile_of_all_their_parts() -> None:
    parts = parts_of("pure(1) + approx(2, 1e-3) + zcdp(1) + range(1)")
    others = parts_of("gaussian(1) + agaussian(2, 1e-4, 1e-5) + perfect")
    expected = parse_guarantee(
        "profile(pure(1), pure(2), zcdp(1), range(1), gaussian(sqrt(5)), delta 0.0011, tv 1e-5)"
    )
    assert _compose([*parts, *others]) == _compose([_compose(parts), *others]) == expected
    assert _compose([_compose([*others, parts[0]]), *parts[1:]]) == expected
    assert str(_compose(parts_of("pure(1) + pure(1)"), by_profiles=True)) == "profile(2 * pure(1))"
    assert str(_compose(parts_of("perfect + perfect"), by_profiles=True)) == "perfect"


# --- explicit laws ------------------------------------------------------------------------------


def rounded(moved: int, cuts: Sequence[int] = range(-18, 25)) -> Any:
    """mu = moved / 4; how fine the cuts are decides how much is lost."""
    tail = laws.rounded_gaussian_tail(Fraction(4))
    return laws.binned(tail, 0, cuts), laws.binned(tail, moved, cuts)


def discrete(moved: int) -> Any:
    """rho = 2 moved^2 / 9, attained at whole orders."""
    weights = [{z: -2 * Fraction(z - c) ** 2 / 9 for z in range(-28, 30)} for c in (0, moved)]
    return laws.weighted(weights[0]), laws.weighted(weights[1])


def response(epsilon: Fraction) -> Any:
    return laws.weighted({0: epsilon, 1: _ZERO}), laws.weighted({0: _ZERO, 1: epsilon})


def ranged(length: Fraction, top: Fraction) -> Any:
    """Return the two losses ``top`` and ``top`` - length."""
    with mp.workdps(DIGITS):
        e, t = real(length), real(top)
        yes = (mp.exp(e) - mp.exp(t)) / mp.expm1(e)
        return {0: yes, 1: 1 - yes}, {0: yes * mp.exp(-t), 1: (1 - yes) * mp.exp(e - t)}


def eventful(pair: Any, delta: Fraction, tv: Fraction) -> Any:
    """Reveal the side with probability delta; then move tv of each law away from where the other
    has most."""
    with mp.workdps(DIGITS):
        p, q = ({o: m * real(1 - delta) for o, m in law.items()} for law in pair)
        rising = sorted(p, key=lambda o: p[o] / q[o])
        for law, order, told in ((p, rising, "left!"), (q, rising[::-1], "right!")):
            left = real(tv)
            for o in order:
                law[o], left = law[o] - min(left, law[o]), left - min(left, law[o])
            law[told] = real(delta + tv)
    return p, q


def then(first: Any, *seconds: Any) -> Any:
    """The second stage is one of these or its mirror image, by what came first."""
    every = [*seconds, *((q, p) for p, q in seconds)]
    order = {o: i for i, o in enumerate(sorted({*first[0], *first[1]}, key=str))}
    with mp.workdps(DIGITS):
        return adaptive_product(first, lambda o: every[order[o] % len(every)])


def _random_cases() -> list[Case]:
    """Three-way choices of the least rho at the orders measured; Gaussians in random bins."""
    rng, cases, up = random.Random(20250201), list[Case](), 1 + Fraction(1, 10**30)
    for _ in range(20):
        chances = [{o: Fraction(rng.randint(-9, 9), 9) for o in range(3)} for _ in range(8)]
        drawn: Any = [laws.weighted(one) for one in chances]
        pairs = list(zip(drawn[::2], drawn[1::2], strict=True))
        divergences = [measure((), pair, (), _ORDERS).renyi for pair in pairs]
        with mp.workdps(DIGITS):
            rhos = [
                Fraction(str(max(r / real(a) for a, r in one.items()))) * up for one in divergences
            ]
        parts = [dp.ZeroConcentratedDP(rhos[0]), dp.ZeroConcentratedDP(max(rhos[1:]))]
        cases.append(measure((parts,), then(*pairs), _EPSILONS, _ORDERS))
        told = [rounded(moved, sorted(rng.sample(range(-9, 13), 3))) for moved in (2, 4, 4, 3)]
        cases.append(measure((parts_of("gaussian(0.5) + gaussian(1)"),), then(*told), _EPSILONS))
    return cases


@cache
def _tight() -> list[Case]:
    """Return two stages that both spare (nearly) nothing, so that the composition does not
    either."""
    half, coin = rounded(2), response(Fraction(1))
    pairs = {
        "gaussian(0.5) + gaussian(1)": then(half, rounded(4)),
        "pure(1) + gaussian(0.5)": then(coin, half),
        "approx(1, 0.02) + gaussian(0.5)": then(eventful(coin, 2 * _SMALL, _ZERO), half),
    }
    return [measure((parts_of(text),), pair, _EPSILONS[:6]) for text, pair in pairs.items()]


@cache
def _cases() -> list[Case]:
    half, coin, tail = rounded(2), response(Fraction(1)), laws.laplace_tail(Fraction(2))
    told, moved = eventful(half, _SMALL, _ZERO), eventful(half, _ZERO, _SMALL)
    both = eventful(half, _SMALL, _SMALL)
    choices = [ranged(Fraction(2), Fraction(i, 4)) for i in (2, 4, 6)]
    shifted = laws.binned(tail, 0, range(4)), laws.binned(tail, 3, range(4))
    pairs = {
        "zcdp(2/9) + zcdp(8/9)": then(discrete(1), discrete(2)),
        "zcdp(0.5) + zcdp(0.5) + zcdp(0.5)": then(then(coin, coin), coin),
        "zcdp(0.5) + gaussian(0.5)": then(coin, half),
        "agaussian(0.5, 0.01, 0) + agaussian(0.5, 0.01, 0)": then(told, told),
        "agaussian(0.5, 0, 0.01) + agaussian(0.5, 0, 0.01)": then(moved, moved),
        "agaussian(0.5, 0.01, 0.01) + agaussian(0.5, 0.01, 0.01)": then(both, half, told, both),
        "agaussian(0.5, 0.01, 0.01) + gaussian(1)": then(both, rounded(4), half),
        "agaussian(0.5, 0, 0.01) + pure(1)": then(moved, coin),
        "range(2) + range(2)": then(choices[1], *choices),
        "laplace-shift(3, 2) + pure(1) + range(2)": then(then(shifted, coin), *choices),
    }
    orders = [() if "gaussian" in text else _ORDERS for text in pairs]
    measured = zip(pairs.items(), orders, strict=True)
    cases = [measure((parts_of(text),), pair, _EPSILONS, some) for (text, pair), some in measured]
    return [*cases, *_tight(), *_random_cases()]


# --- composition and its twins ------------------------------------------------------------------


def _rho(change: Callable[[list[Fraction]], Fraction]) -> Compose:
    def twin(parts: Parts) -> Guarantee:
        rhos = [part.rho for part in parts if isinstance(part, dp.ZeroConcentratedDP)]
        return dp.ZeroConcentratedDP(change(rhos)) if len(rhos) == len(parts) else _compose(parts)

    return twin


def _gauss(change: Callable[[Any, Any, Any], tuple[Any, Any, Any]]) -> Compose:
    """Build a twin from the columns of mu^2, delta and tv."""

    def twin(parts: Parts) -> Guarantee:
        guarantees: list[Any] = [part.gaussian for part in parts if "gaussian" in str(part)]
        rows = [(part.mu_squared, part.delta, part.tv) for part in guarantees]
        same = len(rows) == len(parts)
        return _gaussian(*change(*zip(*rows, strict=True))) if same else _compose(parts)

    return twin


def _as(kind: type[Guarantee], other: Callable[[Any], Guarantee]) -> Compose:
    return lambda parts: _compose([other(p) if isinstance(p, kind) else p for p in parts])


_TWINS: dict[str, Compose] = {
    "the last part forgotten": lambda parts: _compose(parts[:-1]),
    "the largest rho": _rho(max),
    "half of rho": _rho(lambda rhos: sum(rhos, _ZERO) / 2),
    "squares of rho": _rho(lambda rhos: sum((rho**2 for rho in rhos), _ZERO)),
    "the largest mu": _gauss(lambda m, d, t: (max(m), sum(d), sum(t))),
    "half of mu^2": _gauss(lambda m, d, t: (sum(m) / 2, sum(d), sum(t))),
    "no delta": _gauss(lambda m, d, t: (sum(m), 0, sum(t))),
    "the largest delta": _gauss(lambda m, d, t: (sum(m), max(d), sum(t))),
    "no tv": _gauss(lambda m, d, t: (sum(m), sum(d), 0)),
    "the largest tv": _gauss(lambda m, d, t: (sum(m), sum(d), max(t))),
    "tv priced as delta": _gauss(lambda m, d, t: (sum(m), sum(d) + sum(t), 0)),
    "delta of a mix dropped": _as(dp.ApproxDP, lambda p: dp.PureDP(p.epsilon)),
    "tv of a mix dropped": _as(dp.ApproximateGaussianDP, lambda p: dp.GaussianDP("0.5")),
    "pure as Gaussian": _as(dp.PureDP, lambda p: dp.GaussianDP(p.epsilon)),
    "zCDP as Gaussian": _as(dp.ZeroConcentratedDP, lambda p: dp.GaussianDP.of_square(2 * p.rho)),
    "range as pure of half": _as(dp.BoundedRange, lambda p: dp.PureDP(p.epsilon / 2)),
    "a shift as one": _as(dp.DiscreteLaplaceShift, lambda p: dp.DiscreteLaplaceShift(1, p.scale)),
}


def test_joint_outputs_of_all_kinds_keep_what_composition_promises() -> None:
    assert holds(_compose, _cases())
    assert holds(lambda parts: _compose(parts, by_profiles=True), _cases())


@pytest.mark.parametrize("twin", _TWINS.values(), ids=_TWINS)
def test_false_twins_of_composition_are_caught(twin: Compose) -> None:
    assert not holds(twin, _cases())


@pytest.mark.parametrize(
    "twin",
    [
        _gauss(lambda m, d, t: (Fraction(9, 4), sum(d), sum(t))),  # mu itself adds up
        _as(dp.PureDP, lambda p: dp.ZeroConcentratedDP(p.epsilon**2 / 2)),
        _as(dp.ApproxDP, lambda p: dp.ApproxDP(p.epsilon, 3 * p.delta)),
    ],
    ids=["mu adds up", "pure as zCDP", "three times delta"],
)
def test_composition_wastes_nothing_and_wasteful_twins_are_caught(twin: Compose) -> None:
    assert holds(twin, _tight())
    for rule, tight in ((_compose, True), (twin, False)):
        close = [attains(rule(*case.facts), case, within="0.03") for case in _tight()]
        assert all(close) is tight


# --- side conditions ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        ("pure(1)", "group(2, agaussian(1, 1e-6, 0))", "group(2, agaussian(1, 1e-6, 0)) has no"),
        ("group(2, profile(pure(1)))", "pure(1)", "compose first, then take the group"),
        ("agaussian(1, 0.5, 0.2)", "agaussian(1, 0.5, 0.2)", "add up to 1, the changes of the law"),
        ("agaussian(1, 0.2, 0.5)", "agaussian(1, 0.2, 0.5)", "the changes of the law to 1: tog"),
        ("approx(1, 0.5)", "agaussian(1, 0.5, 0)", "the deltas add up to 1"),
    ],
)
@pytest.mark.parametrize("by_profiles", [False, True])
def test_what_has_no_composition_is_refused(
    one: str, other: str, by_profiles: bool, message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        _compose(parts_of(f"{one} + {other}"), by_profiles=by_profiles)


@pytest.mark.parametrize(
    "rule",
    [
        rules.adaptive_compose,
        partial(rules.adaptive_compose, by_profiles=True),
        partial(rules.advanced_compose, slack="1e-6"),
        partial(rules.parallel, by="independent_label"),
    ],
)
def test_only_claims_about_the_same_world_are_put_together(rule: Any) -> None:
    wide, other = proved(domain=dp.Domain(columns=2)), proved(adjacency=dp.Adjacency.REPLACE)
    for parts, message in (
        ([], "There is nothing to compose"),
        ([proved(), dp.PureDP(1)], "PureDP is not the derivation of a claim"),
        ([proved(), other], "do not compose: one is under add-remove .*under replace"),
        ([wide, proved()], "do not compose: one is for .* 2 columns, the other for .* 1 column"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            rule(parts)
