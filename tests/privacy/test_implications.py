"""``implies``: never wrongly yes, by the one pair of laws that a guarantee allows at worst."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import mpmath as mp
import pytest

from dpverify.privacy import ApproxDP, Exact, Guarantee, PerfectPrivacy, PureDP, rules
from spec.theory.laws import real
from spec.theory.rules import hockey_stick

from .makers import conjectured, numbers_of

Implies = Callable[[Guarantee, Guarantee], bool]
Law = dict[str, Any]

# A "yes" is checked against the truth itself, so the truth needs more digits than the smallest
# delta here has zeros (300) and than e^epsilon - 1 loses at the smallest epsilon (324).
_DIGITS = 700
_ROUNDING = mp.mpf(10) ** -650
# A "no" may be owed to the width of an enclosure, about 1e-59 of the profile.
_WIDTH = mp.mpf(10) ** -55


@cache
def _exponential(epsilon: Fraction) -> Any:
    with mp.workdps(_DIGITS):
        return mp.exp(real(epsilon))


def _worst_pair(guarantee: Guarantee) -> tuple[Law, Law]:
    """Return two laws with the guarantee and no privacy to spare: randomized response that now
    and then says outright which side it is on."""
    epsilon, delta = numbers_of(guarantee)[0], real(numbers_of(guarantee)[1])
    no = 1 / (1 + _exponential(epsilon))
    yes = 1 - no
    p = {"left!": delta, "left?": (1 - delta) * yes, "right?": (1 - delta) * no}
    q = {"right!": delta, "left?": (1 - delta) * no, "right?": (1 - delta) * yes}
    return p, q


def _excess(guarantee: Guarantee, other: Guarantee) -> Any:
    """Return by how much the worst pair of ``guarantee`` exceeds the delta of ``other``, at its
    epsilon."""
    epsilon, delta = numbers_of(other)
    p, q = _worst_pair(guarantee)
    return hockey_stick(p, q, _exponential(epsilon)) - real(delta)


def _is_never_wrongly_yes(implies: Implies, pairs: list[tuple[Guarantee, Guarantee]]) -> bool:
    with mp.workdps(_DIGITS):
        return all(not implies(a, b) or _excess(a, b) <= _ROUNDING for a, b in pairs)


def _says_yes_when_clear(implies: Implies, pairs: list[tuple[Guarantee, Guarantee]]) -> bool:
    with mp.workdps(_DIGITS):
        clear = [(a, b) for a, b in pairs if _excess(a, b) < -_WIDTH * real(numbers_of(b)[1])]
        assert len(clear) > len(pairs) // 10, "too few clear cases for the check to mean anything"
        return all(implies(a, b) for a, b in clear)


def _guarantees() -> list[Guarantee]:
    epsilons: list[Exact] = [5e-324, "1e-9", "1/3", "0.999", 1, "1.001", 3, 40, 700]
    deltas: list[Exact] = [0, "1e-300", "1e-6", "0.2", "0.46", "0.47", "0.999"]
    pure: list[Guarantee] = [PureDP(epsilon) for epsilon in epsilons]
    return pure + [ApproxDP(epsilon, delta) for epsilon in epsilons for delta in deltas]


def _near_misses() -> list[tuple[Guarantee, Guarantee]]:
    """Return random guarantees, each against one that is right on its profile, a hair below or
    above."""
    rng, pairs = random.Random(20250101), list[tuple[Guarantee, Guarantee]]()
    for _ in range(300):
        claimed = Fraction(rng.randint(1, 4000), 1000)
        delta = rng.choice([Fraction(0), Fraction(rng.randint(1, 900), 1000)])
        epsilon = claimed * Fraction(rng.randint(1, 1200), 1000)
        given = ApproxDP(claimed, delta) if delta else PureDP(claimed)
        edge = given.delta_at(epsilon)
        hair = Fraction(1, 10**50)
        for target in (edge.lower, edge.upper, edge.lower - hair, edge.upper + hair):
            if 0 <= target < 1:
                pairs.append((given, ApproxDP(epsilon, target)))
    return pairs


_EVERY_PAIR = [(a, b) for a in _guarantees() for b in _guarantees()]


@pytest.mark.parametrize("pairs", [_EVERY_PAIR, _near_misses()], ids=["grid", "near misses"])
def test_implication_is_never_wrongly_yes(pairs: list[tuple[Guarantee, Guarantee]]) -> None:
    assert _is_never_wrongly_yes(Guarantee.implies, pairs)
    assert _says_yes_when_clear(Guarantee.implies, pairs)


def _by_epsilon_alone(a: Guarantee, b: Guarantee) -> bool:
    return numbers_of(a)[0] <= numbers_of(b)[0]


def _by_delta_alone(a: Guarantee, b: Guarantee) -> bool:
    return numbers_of(a)[1] <= numbers_of(b)[1]


def _by_the_lower_end(a: Guarantee, b: Guarantee) -> bool:
    epsilon, delta = numbers_of(b)
    return a.delta_at(epsilon).lower <= delta + Fraction(1, 10**50)


def _by_half_the_profile(a: Guarantee, b: Guarantee) -> bool:
    epsilon, delta = numbers_of(b)
    return a.delta_at(epsilon).upper <= 2 * delta


@pytest.mark.parametrize(
    "twin", [_by_epsilon_alone, _by_delta_alone, _by_the_lower_end, _by_half_the_profile]
)
def test_false_implications_are_caught(twin: Implies) -> None:
    assert not _is_never_wrongly_yes(twin, _EVERY_PAIR + _near_misses())


def test_a_timid_implication_is_caught() -> None:
    def only_itself(a: Guarantee, b: Guarantee) -> bool:
        return a == b

    assert _is_never_wrongly_yes(only_itself, _EVERY_PAIR)
    assert not _says_yes_when_clear(only_itself, _EVERY_PAIR)


def test_every_guarantee_implies_itself() -> None:
    every = [PerfectPrivacy(), PureDP(1e308), ApproxDP(1e308, 5e-324), *_guarantees()]
    assert [str(guarantee) for guarantee in every if not guarantee.implies(guarantee)] == []


def test_pure_guarantees_are_ordered_by_epsilon() -> None:
    epsilons: list[Exact] = [5e-324, "1e-300", "0.1", 0.1, 1, 1 + Fraction(1, 10**100), 700, 1e308]
    for i, low in enumerate(epsilons):
        for j, high in enumerate(epsilons):
            assert PureDP(low).implies(PureDP(high)) == (i <= j), (low, high)


def test_approximate_guarantees_with_one_epsilon_are_ordered_by_delta() -> None:
    deltas: list[Exact] = [0, 5e-324, "1e-300", "1e-6", 1e-6, "0.5", 1 - Fraction(1, 10**100)]
    # The float 1e-6 is a little less than a millionth.
    ordered = sorted(deltas, key=lambda delta: ApproxDP(1, delta).delta)
    for i, low in enumerate(ordered):
        for j, high in enumerate(ordered):
            assert ApproxDP(1, low).implies(ApproxDP(1, high)) == (i <= j), (low, high)


def test_perfect_privacy_implies_everything_and_nothing_else_implies_it() -> None:
    assert all(PerfectPrivacy().implies(other) for other in _guarantees())
    assert PerfectPrivacy().implies(PerfectPrivacy())
    assert not any(other.implies(PerfectPrivacy()) for other in _guarantees())


def test_conversion_goes_both_ways_where_the_guarantees_are_the_same() -> None:
    pure, approximate = PureDP(1), ApproxDP(1, 0)
    there = rules.convert(conjectured(pure), approximate)
    assert there.conclusion.guarantee == approximate
    back = rules.convert(there, pure)
    assert back.conclusion.guarantee == pure


def test_conversion_to_a_smaller_epsilon_costs_the_profile_and_does_not_come_back() -> None:
    edge = PureDP(1).delta_at("0.5")
    smaller = ApproxDP("0.5", edge.upper)
    converted = rules.convert(conjectured(PureDP(1)), smaller)
    assert converted.conclusion.guarantee == smaller
    with pytest.raises(ValueError, match=r"does not imply pure\(1\)"):
        rules.convert(converted, PureDP(1))
    with pytest.raises(ValueError, match="more noise or a larger budget is needed"):
        rules.convert(conjectured(PureDP(1)), ApproxDP("0.5", edge.lower - Fraction(1, 10**50)))
