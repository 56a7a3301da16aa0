"""The rule about conversion: whatever pair of laws had the first guarantee has the second."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import mpmath as mp
import pytest

from dpverify.privacy import ApproxDP, Guarantee, PureDP, rules
from spec.theory import rules as spec_rules
from spec.theory.laws import real

from .finite import Law, Pair, random_pair
from .makers import conjectured, numbers_of

_SEED = 20250103
Converts = Callable[[Guarantee, Guarantee], bool]
_DIGITS = 60
_ROUNDING = mp.mpf(10) ** -50


def _convert_rule(shown: Guarantee, to: Guarantee) -> bool:
    try:
        converted = rules.convert(conjectured(shown), to)
    except ValueError:
        return False
    assert converted.conclusion.guarantee == to
    return True


def _reached(pair: Pair, epsilon: Fraction) -> Any:
    """Return the least delta of a pair at e^epsilon, for the real e."""
    p, q = pair
    factor = mp.exp(real(epsilon))
    return max(spec_rules.hockey_stick(p, q, factor), spec_rules.hockey_stick(q, p, factor))


@cache
def _converted() -> list[tuple[Guarantee, Pair, ApproxDP]]:
    """Pairs of laws, what they satisfy, and what one might want to say of them instead."""
    rng, cases = random.Random(_SEED), list[tuple[Guarantee, Pair, ApproxDP]]()
    for i in range(300):
        delta = Fraction(rng.randint(0, 4), 20)
        epsilon = Fraction(rng.randint(1, 30), 10)
        with mp.workdps(_DIGITS):
            share = Fraction(str(1 / (1 + mp.exp(-real(epsilon)))))
            pair = random_pair(rng) if i % 2 else _told(share, delta)
            # What holds is rounded up by 1e-30, far above the rounding of 60 digits.
            held = Fraction(str(_reached(pair, epsilon))) + Fraction(1, 10**30)
        target = epsilon * Fraction(rng.randint(0, 12), 10)
        wanted = Fraction(rng.randint(0, 99), 100) ** 2
        if 0 < held < 1 and target > 0:
            cases.append((ApproxDP(epsilon, held), pair, ApproxDP(target, wanted)))
    return cases


def _told(share: Fraction, delta: Fraction) -> Pair:
    yes, no = (1 - delta) * share, (1 - delta) * (1 - share)
    p: Law = {"left!": delta, "left?": yes, "right?": no}
    q: Law = {"right!": delta, "left?": no, "right?": yes}
    return p, q


def _conversion_holds(converts: Converts) -> bool:
    with mp.workdps(_DIGITS):
        return all(
            _reached(pair, to.epsilon) <= real(to.delta) + _ROUNDING
            for shown, pair, to in _converted()
            if converts(shown, to)
        )


def test_a_converted_claim_holds_of_every_pair_that_had_the_first() -> None:
    accepted = [shown for shown, _, to in _converted() if _convert_rule(shown, to)]
    assert len(_converted()) // 5 < len(accepted) < len(_converted()) * 4 // 5
    assert _conversion_holds(_convert_rule)


def _by_half_the_profile(shown: Guarantee, to: Guarantee) -> bool:
    epsilon, delta = numbers_of(to)
    return shown.delta_at(epsilon).upper <= 2 * delta


def _by_a_profile_without_delta(shown: Guarantee, to: Guarantee) -> bool:
    epsilon, delta = numbers_of(to)
    return PureDP(numbers_of(shown)[0]).delta_at(epsilon).upper <= delta


def _by_epsilon_alone(shown: Guarantee, to: Guarantee) -> bool:
    return numbers_of(shown)[0] <= numbers_of(to)[0]


def _by_delta_alone(shown: Guarantee, to: Guarantee) -> bool:
    return numbers_of(shown)[1] <= numbers_of(to)[1]


@pytest.mark.parametrize(
    "twin",
    [_by_half_the_profile, _by_a_profile_without_delta, _by_epsilon_alone, _by_delta_alone],
)
def test_false_twins_of_conversion_are_caught(twin: Converts) -> None:
    assert not _conversion_holds(twin)
