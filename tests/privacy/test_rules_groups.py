"""Group privacy, from add-remove to replace, and advanced composition.

Chains of laws, each of which keeps a guarantee against the next, from their first to their last.
The checks are functions of the rule, so that a false twin of it can be seen to fail them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from fractions import Fraction
from functools import cache, partial
from itertools import accumulate, pairwise
from math import comb
from typing import Any

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpverify import privacy as dp
from dpverify.privacy import Adjacency, Guarantee, parse_guarantee, rules
from dpverify.privacy.adjacency import Friendly, Groups
from spec.theory import rules as spec_rules
from spec.theory.laws import real

from . import noise_laws as laws
from .makers import conjectured, fractions, guarantee_of, numbers_of, proved
from .noise_laws import DIGITS, Case, holds, measure

_steady = settings(derandomize=True, deadline=None, max_examples=60)
_SIZE = fractions("1/1000", 2)
_EPSILONS = [Fraction(i, 4) for i in (0, 1, 2, 4, 6, 8, 12, 16, 24)]
_ORDERS = [Fraction(text) for text in ("1.001", "1.5", "2", "3", "6")]
_Approximate = dp.ApproximateGaussianDP
Grouped = Callable[[Guarantee, int], Guarantee]
Chain = tuple[Guarantee, list[Any]]


def _group(guarantee: Guarantee, size: int) -> Guarantee:
    made = rules.group_privacy(conjectured(guarantee), size).conclusion
    assert made.adjacency == Groups(Adjacency.ADD_REMOVE, size)
    return made.guarantee


def _replaced(guarantee: Guarantee) -> Guarantee:
    made = rules.change_adjacency(conjectured(guarantee), to=Adjacency.REPLACE).conclusion
    assert made.adjacency is Adjacency.REPLACE
    return made.guarantee


@_steady
@given(_SIZE, st.integers(2, 6), fractions("1/1000000000", "1/1000000"))
def test_the_parameters_of_a_group_are_the_spec_s(x: Fraction, size: int, delta: Fraction) -> None:
    for steps, made in ((size, partial(_group, size=size)), (2, _replaced)):
        with mp.workdps(DIGITS):
            whole, most = spec_rules.group(x, delta, steps)
            above, group_delta = numbers_of(made(dp.ApproxDP(x, delta)))
            assert most <= real(group_delta) <= most * (1 + mp.mpf(10) ** -12)
            assert steps > 2 or spec_rules.replace_from_add_remove(x, delta) == (whole, most)
        assert made(dp.PureDP(x)) == dp.PureDP(whole) == dp.PureDP(above)
        root = spec_rules.group_root(x, steps)
        assert made(dp.ZeroConcentratedDP(x)) == dp.ZeroConcentratedDP(root)
        assert made(dp.GaussianDP.of_square(x)) == dp.GaussianDP.of_square(root)


@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize("events", [("0", "0"), ("1e-6", "0"), ("1e-6", "1e-7")])
def test_a_group_s_profile_is_the_spec_s_at_its_best_step(size: int, events: Any) -> None:
    base = _Approximate("1/2", *events)
    for epsilon in (Fraction(1, 2), Fraction(3), Fraction(20), Fraction(100)):
        steps = [epsilon / size * i / 120 for i in range(121)]
        with mp.workdps(DIGITS):
            ones = [real(base.delta_at(step).upper) for step in steps]
            sums = map(spec_rules.group_profile, ones, steps, [size] * 121)
            least, delta = min(1, *sums), real(_group(base, size).delta_at(epsilon).upper)
            assert least * 0.9 <= delta <= least * (1 + mp.mpf(10) ** -9), epsilon


# --- chains -------------------------------------------------------------------------------------


def _told(chance: Any, delta: Any, tv: Any) -> Any:
    """Return the most that P may give where Q gives ``chance``, for agaussian(0.5, delta, tv)."""
    q = chance + tv
    normal = mp.mpf(1) / 2 + mp.sqrt(2) * mp.erfinv(2 * q - 1)
    return delta + tv + (mp.erfc(-normal / mp.sqrt(2)) / 2 if q else 0)


def _coins(power: Callable[[Any], Any], last: Any) -> list[Any]:
    """Return three steps, each from the most that a chance can be to the next."""
    chances = [*accumulate(range(3), lambda chance, _: power(chance), initial=last)]
    return [{1: chance, 0: 1 - chance} for chance in reversed(chances)]


def _up(value: Any) -> Fraction:
    return Fraction(str(value)) * (1 + Fraction(1, 10**30))


def _random_chains(rng: random.Random) -> list[Chain]:
    """Draw chains with the least parameters that every step has."""
    scores = [{o: Fraction(rng.randint(-9, 9), 9) for o in range(3)} for _ in range(3)]
    chain = [laws.weighted(score) for score in scores]
    links = [measure((), pair, [Fraction(1)], _ORDERS) for pair in pairwise(chain)]
    ratios = [abs(mp.log(p[o] / q[o])) for p, q in pairwise(chain) for o in p]
    rho = max(value / real(order) for link in links for order, value in link.renyi.items())
    changes = [[b[o] - a[o] for o in a] for a, b in pairwise(scores)]
    delta = _up(max(link.sticks[Fraction(1)] for link in links))
    return [
        (dp.PureDP(_up(max(ratios))), chain),
        (dp.ApproxDP(1, delta) if delta < Fraction(1, 4) else dp.PureDP(2), chain),
        (dp.ZeroConcentratedDP(_up(rho * mp.mpf("1.01"))), chain),
        (dp.BoundedRange(max(max(change) - min(change) for change in changes)), chain),
    ]


@cache
def _chains() -> list[Chain]:
    rng, window, chains = random.Random(20250301), range(-40, 44), list[Chain]()
    gauss, laplace = laws.rounded_gaussian_tail(Fraction(4)), laws.laplace_tail(Fraction(2))
    with mp.workdps(DIGITS):
        for text in ("0.01 0 0", "0.01 0 0.001", "0.001 0.001 0.01", "0 0.001 0"):
            delta, tv, last = (real(Fraction(number)) for number in text.split())
            base = _Approximate("1/2", *text.split()[:2])
            chains.append((base, _coins(partial(_told, delta=delta, tv=tv), last)))
            if delta:
                told = partial(lambda q, d: mp.e * q + d, d=delta)
                chains.append((dp.ApproxDP(1, base.delta), _coins(told, last)))
        shifted = [laws.binned(laplace, i, range(-2, 7)) for i in range(4)]
        coins = [laws.weighted({0: Fraction(i, 2), 1: Fraction(0)}) for i in range(4)]
        normal = [laws.binned(gauss, 2 * i, range(-18, 25)) for i in range(4)]
        both = [laws.joint([(a, a), (b, b)])[0] for a, b in zip(coins, normal, strict=True)]
        squares = [{z: -2 * Fraction(z - i) ** 2 / 9 for z in window} for i in range(4)]
        chains += [
            (dp.DiscreteLaplaceShift(1, 2), shifted),
            (dp.Profile([dp.PureDP("1/2"), dp.GaussianDP("1/2")]), both),
            (dp.ZeroConcentratedDP("2/9"), [laws.weighted(square) for square in squares]),
            (dp.GaussianDP("1/2"), normal),
        ]
        return chains + [chain for _ in range(15) for chain in _random_chains(rng)]


def _measured(facts: tuple[Any, ...], pair: Any) -> Case:
    orders = _ORDERS if len(pair[0]) < 10 else _ORDERS[2:4]  # attained at whole orders
    some = orders if isinstance(facts[0], (dp.ZeroConcentratedDP, dp.PureDP)) else []
    return measure(facts, pair, _EPSILONS, some, losses=isinstance(facts[0], dp.BoundedRange))


@cache
def _ends() -> list[Case]:
    return [_measured((base, len(c) - 1), (c[0], c[-1])) for base, c in _chains()]


def _for(kind: type[Guarantee], change: Callable[[Any, int], Guarantee]) -> Grouped:
    return lambda base, size: change(base, size) if isinstance(base, kind) else _group(base, size)


_TWINS: dict[str, Grouped] = {
    "unchanged": lambda g, k: g,
    "one step too few": lambda g, k: _group(g, k - 1) if k > 2 else g,
    "pure like deviations": _for(dp.PureDP, lambda g, k: dp.PureDP(g.epsilon * k * 7 / 10)),
    "delta as it was": _for(dp.ApproxDP, lambda g, k: dp.ApproxDP(k * g.epsilon, g.delta)),
    "delta times k": _for(dp.ApproxDP, lambda g, k: dp.ApproxDP(k * g.epsilon, k * g.delta)),
    "rho times k": _for(dp.ZeroConcentratedDP, lambda g, k: dp.ZeroConcentratedDP(k * g.rho)),
    "mu^2 times k": _for(dp.GaussianDP, lambda g, k: dp.GaussianDP.of_square(k * g.mu_squared)),
    "range as it was": _for(dp.BoundedRange, lambda g, k: g),
    "shift as it was": _for(dp.DiscreteLaplaceShift, lambda g, k: g),
    "events add up": _for(_Approximate, lambda g, k: _Approximate(k / 2, k * g.delta, k * g.tv)),
    "composed with itself": lambda g, k: rules.compose(*[conjectured(g)] * k).conclusion.guarantee,
}


def test_groups_keep_what_the_rule_promises() -> None:
    links = [_measured((base,), pair) for base, chain in _chains() for pair in pairwise(chain)]
    assert holds(lambda base: base, links)
    assert holds(_group, _ends())
    assert all(_replaced(base) == _group(base, 2) for base, _ in _chains())


@pytest.mark.parametrize("twin", _TWINS.values(), ids=_TWINS)
def test_false_twins_of_group_privacy_are_caught(twin: Grouped) -> None:
    assert not holds(twin, _ends())


# --- advanced composition -----------------------------------------------------------------------


def _advanced(parts: list[Guarantee], slack: Fraction) -> Guarantee:
    made = rules.advanced_compose(map(conjectured, parts), slack=slack)
    return made.conclusion.guarantee


@_steady
@given(fractions("1/1000", 5), fractions(0, "1/100"), st.integers(3, 50))
def test_advanced_composition_has_the_spec_s_numbers_rounded_up(
    epsilon: Fraction, delta: Fraction, stages: int
) -> None:
    slack, less = Fraction(1, stages**5), [guarantee_of(epsilon / 3, delta / 5)] * (stages - 2)
    parts = [guarantee_of(epsilon / 2, delta), dp.PureDP(epsilon), *less]
    above, total = numbers_of(_advanced(parts, slack))
    with mp.workdps(DIGITS):
        loss, expected = spec_rules.advanced_composition(epsilon, delta, stages, slack)
        assert loss <= real(above) <= loss * (1 + mp.mpf(10) ** -12)
    assert total == expected


@cache
def _repeated(row: str) -> Case:
    """Randomized response that tells with probability delta, by how many answers are true."""
    k, epsilon, delta, slack = map(Fraction, row.split())
    n = int(k)
    with mp.workdps(DIGITS):
        yes, none = 1 / (1 + mp.exp(-real(epsilon))), real(1 - delta) ** n
        masses = [none * comb(n, j) * yes**j * (1 - yes) ** (n - j) for j in range(n + 1)]
        p = dict(enumerate(masses)) | {"left!": 1 - none}
        q = dict(enumerate(reversed(masses))) | {"right!": 1 - none}
    epsilons = [n * epsilon * i / 32 for i in range(65)]
    return measure(([guarantee_of(epsilon, delta)] * n, slack), (p, q), epsilons)


def _cases() -> list[Case]:
    return [_repeated(row) for row in ("200 1 0 0.1", "10 0.1 0.01 1e-6", "100 0.1 0 1e-6")]


def _without(term: str) -> Callable[[list[Guarantee], Fraction], Guarantee]:
    def twin(parts: list[Guarantee], slack: Fraction) -> Guarantee:
        (epsilon, delta), k = numbers_of(parts[0]), len(parts)
        with mp.workdps(DIGITS):
            e, log = real(epsilon), -mp.log(real(slack))
            terms = {"root": mp.sqrt(2 * k * log) * e, "growth": k * e * mp.expm1(e)}
            above = _up(sum(value for name, value in terms.items() if name != term))
        total = (k * delta if term != "k delta" else 0) + (slack if term != "slack" else 0)
        return guarantee_of(above, Fraction(total))

    return twin


def test_many_stages_keep_what_advanced_composition_promises() -> None:
    assert holds(_advanced, _cases())
    for parts, slack in (case.facts for case in _cases()):
        above, total = numbers_of(_advanced(parts, slack))
        better = rules.adaptive_compose(map(conjectured, parts), by_profiles=True).conclusion
        assert better.guarantee.delta_at(above).upper <= total


@pytest.mark.parametrize("term", ["root", "growth", "k delta", "slack"])
def test_advanced_composition_without_one_of_its_terms_is_caught(term: str) -> None:
    assert holds(_without("nothing"), _cases())
    assert not holds(_without(term), _cases())


def _advance(claim: Any, slack: Any) -> Any:
    return rules.advanced_compose([claim], slack=slack)


_GROUP, _CHANGE = rules.group_privacy, rules.change_adjacency
_ADD_REMOVE, _REPLACE, _CLOSE = Adjacency.ADD_REMOVE, Adjacency.REPLACE, Friendly("close")


@pytest.mark.parametrize(
    ("rule", "text", "about", "given", "message"),
    [
        (_GROUP, "pure(1)", _CLOSE, 2, "friendly add-remove (close) has no groups"),
        (_GROUP, "pure(1)", Groups(_REPLACE, 2), 2, "groups of 2, replace has no groups"),
        (_GROUP, "pure(1)", _REPLACE, 0, "size = 0; a group has at least 1 record"),
        (_GROUP, "pure(1)", _REPLACE, "2", "size = '2' is a str; give an integer"),
        (_GROUP, "approx(1000, 0.3)", _REPLACE, 2, "approx(1000, 0.3) says nothing of a group"),
        (_CHANGE, "pure(1)", _REPLACE, _ADD_REMOVE, "A claim under replace (pure(1) under replace"),
        (_CHANGE, "pure(1)", _CLOSE, _REPLACE, "A claim under friendly add-remove (close)"),
        (_CHANGE, "pure(1)", _ADD_REMOVE, _CLOSE, "write Adjacency.REPLACE"),
        (_advance, "zcdp(1)", _REPLACE, "1e-6", "and zcdp(1) is not; use compose(...)"),
        (_advance, "pure(1)", _REPLACE, 0, "slack = 0: advanced composition needs a positive"),
        (_advance, "pure(1)", _REPLACE, 1, "slack = 1 is outside [0, 1)"),
        (_advance, "approx(1, 0.5)", _REPLACE, "0.5", "k delta + slack = 1 and epsilon = 1: there"),
        (_advance, "perfect", _REPLACE, "0.5", "epsilon = 0: there is nothing to promise"),
    ],
)
def test_what_the_rules_are_not_about_is_refused(
    rule: Any, text: str, about: Any, given: Any, message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        rule(conjectured(parse_guarantee(text), adjacency=about), given)


def test_a_conclusion_is_as_weak_as_its_weakest_premise() -> None:
    word = conjectured(dp.PureDP(1))
    refuted = rules.refuted(word, "a pair")
    for claim, name in ((proved(), "proved"), (word, "conjectured"), (refuted, "refuted")):
        both = [proved(3), claim]
        for made in (
            _GROUP(claim, 3),
            _CHANGE(claim, to=_REPLACE),
            rules.adaptive_compose(both),
            rules.adaptive_compose(both, by_profiles=True),
            rules.advanced_compose(both, slack="1e-6"),
            rules.parallel(both, by="value"),
            rules.parallel(both, by="value", adjacency=_REPLACE),
        ):
            assert str(made.status) == str(made.conclusion.status) == name
        assert _GROUP(claim, 1) is _CHANGE(claim, to=_ADD_REMOVE) is claim
