"""Rules about rare events: outputs hidden and shown, hidden coins, and what is refused.

(epsilon, delta) is tried exactly, with 2 for e; whole profiles are tried at 60 digits.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Hashable, Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpverify.privacy import (
    Adjacency,
    ApproxDP,
    ApproximateGaussianDP,
    BoundedRange,
    Domain,
    Guarantee,
    Profile,
    PureDP,
    Status,
    rules,
    sources_of,
)
from spec.theory import rules as spec_rules
from spec.theory.laws import real

from . import noise_laws as laws
from .finite import BASE, Law, Pair, random_pair, satisfies, slack, tight_pair
from .makers import fractions, guarantee_of, numbers_of
from .noise_laws import (
    DIGITS,
    HIDDEN,
    ROUNDING,
    Case,
    RealPair,
    assuming,
    event,
    holds,
    measure,
    reveal,
)

_steady = settings(derandomize=True, deadline=None, max_examples=150)
_CHANCES = fractions(0, "1/3") | st.sampled_from([Fraction(1, 2**1000), Fraction(1, 10**6)])
_EXTREMES = st.sampled_from([Fraction(1, 2**10), Fraction(2**45)])
_ZERO, _ONE = Fraction(0), Fraction(1)


def _shown(guarantee: Guarantee, chance: Fraction) -> Guarantee:
    return rules.add_delta_event(assuming(guarantee), event(chance)).conclusion.guarantee


def _coins(guarantee: Guarantee, chance: Fraction) -> Guarantee:
    hidden = event(chance, in_output=False)
    return rules.add_total_variation_event(assuming(guarantee, HIDDEN), hidden).conclusion.guarantee


@_steady
@given(fractions("1/1000", 20) | _EXTREMES, _CHANCES, _CHANCES)
def test_an_event_of_the_output_adds_its_probability(
    epsilon: Fraction, delta: Fraction, chance: Fraction
) -> None:
    made = _shown(guarantee_of(epsilon, delta), chance)
    assert numbers_of(made) == (epsilon, spec_rules.delta_event(epsilon, delta, chance))
    assert _shown(made, Fraction(1, 4)) == ApproxDP(epsilon, delta + chance + Fraction(1, 4))
    gaussian = _shown(ApproximateGaussianDP(epsilon, delta, "0.2"), chance)
    assert gaussian == ApproximateGaussianDP(epsilon, delta + chance, "0.2")


@_steady
@given(fractions("1/1000", 20), _CHANCES, _CHANCES)
def test_a_hidden_event_costs_what_the_spec_says(
    epsilon: Fraction, delta: Fraction, chance: Fraction
) -> None:
    made = Profile([_coins(guarantee_of(epsilon, delta), chance)])
    with mp.workdps(DIGITS):
        truth = spec_rules.total_variation_event(epsilon, delta, chance)
        bound = real(made.with_events(epsilon).upper)
        assert truth * (1 - real(ROUNDING)) <= bound <= truth * (1 + mp.mpf("1e-12"))
        # A smaller epsilon may do better, and what holds there holds here.
        assert real(made.delta_at(epsilon).upper) <= bound
    gaussian = _coins(ApproximateGaussianDP(epsilon, delta, "0.2"), chance)
    assert gaussian == ApproximateGaussianDP(epsilon, delta, Fraction("0.2") + chance)


# --- (epsilon, delta), exactly ------------------------------------------------------------------

Cost = Callable[[int, Fraction, Fraction], Fraction]
"""epsilon, delta without the event, and its probability to the delta with it; BASE stands for e."""
Exact = tuple[tuple[int, Fraction, Fraction], Pair]
"""Argument of a cost, and laws that have the event."""


def _shown_cost(epsilon: int, delta: Fraction, chance: Fraction) -> Fraction:
    return numbers_of(_shown(guarantee_of(Fraction(epsilon), delta), chance))[1]


def _coins_cost(epsilon: int, delta: Fraction, chance: Fraction) -> Fraction:
    made = _coins(guarantee_of(Fraction(epsilon), delta), chance)
    assert isinstance(made, Profile)
    assert made.parts == ((PureDP(epsilon), 1),)
    return made.delta + (1 + BASE**epsilon) * made.tv


def _mixed(law: Law, chance: Fraction, other: Law) -> Law:
    terms = {o: (law.get(o, _ZERO), other.get(o, _ZERO)) for o in {*law, *other}}
    return {o: (1 - chance) * mine + chance * theirs for o, (mine, theirs) in terms.items()}


def _without(law: Law, told: set[Hashable]) -> Law:
    kept: Law = {outcome: mass for outcome, mass in law.items() if outcome not in told}
    return {**kept, "hidden": sum((law.get(outcome, _ZERO) for outcome in told), _ZERO)}


def _tight() -> Iterator[tuple[Exact, Exact]]:
    """List attained cases: outputs that say which neighbor it is; unlikely answers turned
    likely."""
    for epsilon, delta, chance in ((1, _ZERO, "1/10"), (2, Fraction(1, 5), "1/7"), (3, _ZERO, "1")):
        p, q = tight_pair(epsilon, delta)
        share = Fraction(chance) * p["right?"]
        told = _mixed(p, share, {"left.": _ONE}), _mixed(q, share, {"right.": _ONE})
        p["right?"], p["left?"] = p["right?"] - share, p["left?"] + share
        q["left?"], q["right?"] = q["left?"] - share, q["right?"] + share
        yield ((epsilon, (1 - share) * delta, share), told), ((epsilon, delta, share), (p, q))


_TOLD, _TURNED = (list(cases) for cases in zip(*_tight(), strict=True))


@cache
def _outputs() -> list[Exact]:
    """Return random laws, and delta when the outputs of an event are shown as one."""
    rng, cases = random.Random(20250701), [*_TOLD]
    for _ in range(300):
        (p, q), epsilon = random_pair(rng, far=True), rng.randint(1, 3)
        told = set(rng.sample(sorted({*p, *q}, key=str), rng.randint(1, len({*p, *q}) - 1)))
        hidden = _without(p, told), _without(q, told)
        delta, chance = slack(hidden, epsilon), max(law["hidden"] for law in hidden)
        if delta + chance < 1:
            cases.append(((epsilon, delta, chance), (p, q)))
    return cases


@cache
def _hidden_coins() -> list[Exact]:
    """Return random laws mixed with others, and delta of the laws without the others."""
    rng, cases = random.Random(20250702), [*_TURNED]
    for _ in range(300):
        pair, other, epsilon = random_pair(rng), random_pair(rng), rng.randint(1, 3)
        chance = Fraction(rng.randint(1, 20), 100)
        mixed = _mixed(pair[0], chance, other[0]), _mixed(pair[1], chance, other[1])
        cases.append(((epsilon, slack(pair, epsilon), chance), mixed))
    return cases


def _suffices(cost: Cost, cases: list[Exact]) -> bool:
    return all(satisfies(pair, Fraction(facts[0]), cost(*facts)) for facts, pair in cases)


def _is_attained(cost: Cost, cases: list[Exact]) -> bool:
    return all(slack(pair, facts[0]) == cost(*facts) for facts, pair in cases)


def test_outputs_that_are_shown_after_all_cost_their_probability() -> None:
    assert len(_outputs()) > 100
    assert _suffices(_shown_cost, _outputs())
    assert _is_attained(_shown_cost, _TOLD)


def test_hidden_coins_cost_their_probability_and_e_epsilon_times_it() -> None:
    assert _suffices(_coins_cost, _hidden_coins())
    assert _is_attained(_coins_cost, _TURNED)


def test_a_hidden_event_is_not_priced_as_an_event_of_the_output() -> None:
    assert not _suffices(_shown_cost, _TURNED)
    message = (
        "an event of probability at most 0.1: an overflow (hidden in the coins). Only an event "
        "that the output decides costs its probability alone. Use add_total_variation_event, at 1"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        rules.add_delta_event(assuming(PureDP(1), HIDDEN), event("0.1", in_output=False))


_FALSE_COSTS: dict[str, Cost] = {
    "event forgotten": lambda epsilon, delta, chance: delta,
    "old delta forgotten": lambda epsilon, delta, chance: chance,
    "the larger": lambda epsilon, delta, chance: max(delta, chance),
    "as if independent": lambda epsilon, delta, chance: delta + chance - delta * chance,
    "over e^epsilon": lambda epsilon, delta, chance: delta + chance / BASE**epsilon,
    "a hair less": lambda epsilon, delta, chance: delta + chance * (1 - BASE**-30),
}
_FALSE_COIN_COSTS: dict[str, Cost] = {
    **_FALSE_COSTS,
    "without e^epsilon": lambda epsilon, delta, chance: delta + 2 * chance,
    "e^epsilon alone": lambda epsilon, delta, chance: delta + BASE**epsilon * chance,
    "epsilon for e^epsilon": lambda epsilon, delta, chance: delta + (1 + epsilon) * chance,
    "a hair": lambda epsilon, delta, chance: _coins_cost(epsilon, delta, chance * (1 - BASE**-30)),
}


@pytest.mark.parametrize("name", _FALSE_COIN_COSTS)
def test_false_twins_of_the_event_rules_are_caught(name: str) -> None:
    assert name not in _FALSE_COSTS or not _suffices(_FALSE_COSTS[name], _outputs())
    assert not _suffices(_FALSE_COIN_COSTS[name], _hidden_coins())


# --- whole profiles -----------------------------------------------------------------------------

_GRID = [Fraction(i, 4) for i in (0, 1, 2, 3, 4, 6, 8, 12)]


def _turn(pair: RealPair) -> tuple[RealPair, Fraction]:
    """Turn an outcome that speaks for one side into one that speaks for the other; return the
    share, too."""
    p, q = ({**law} for law in pair)
    with mp.workdps(DIGITS):
        _, low, *_, high, _ = sorted(p, key=lambda outcome: p[outcome] / q[outcome])
        share = min(p[low], q[high]) / 3
        p[low], p[high] = p[low] - share, p[high] + share
        q[low], q[high] = q[low] + share, q[high] - share
    return (p, q), laws.as_fraction(share)


@cache
def _profiles() -> tuple[list[Case], list[Case]]:
    """Outputs revealed and outputs turned: one event, then another, and one kind after the
    other."""
    revealed, turned = [], []
    for guarantee, pair in laws.mechanisms():
        once, chance = reveal(pair)
        revealed.append(measure((guarantee, chance), once, _GRID))
        twice, another = reveal(once)
        revealed.append(measure((_shown(guarantee, chance), another), twice, _GRID))
        once, share = _turn(pair)
        turned.append(measure((guarantee, share), once, _GRID))
        twice, another = _turn(once)
        turned.append(measure((_coins(guarantee, share), another), twice, _GRID))
        both, chance = reveal(once)
        revealed.append(measure((_coins(guarantee, share), chance), both, _GRID))
    return revealed, turned


def test_whole_profiles_keep_what_the_event_rules_promise() -> None:
    revealed, turned = _profiles()
    assert holds(_shown, revealed)
    assert holds(_coins, turned)
    for twin in (lambda g, chance: g, lambda g, chance: _shown(g, chance / 2)):
        assert not holds(twin, revealed)
    for twin in (_shown, lambda g, chance: _coins(g, chance * Fraction(999, 1000))):
        assert not holds(twin, turned)


# --- side conditions ----------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [rules.add_delta_event, rules.add_total_variation_event])
def test_event_rules_rest_on_a_claim_and_an_event_about_one_world(rule: Any) -> None:
    claim, rare = assuming(PureDP(1)), event("1e-9")
    made = rule(claim, rare)
    assert made.premises == (claim, rare)
    assert made.status is made.conclusion.status is Status.CONJECTURED
    assert made.lemmas == (rare,)
    assert sources_of(rule)
    for guarantee, _ in laws.mechanisms():
        assert rule(assuming(guarantee), event(0)).conclusion.guarantee == guarantee
    for other, message in (
        (event(0, adjacency=Adjacency.REPLACE), "one is under add-remove (pure(1) under"),
        (event(0, domain=Domain(columns=2)), "one is for finite float64 records of 1 column, the"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            rule(claim, other)
    with pytest.raises(TypeError, match="compose first, then take the group"):
        rule(assuming(ApproximateGaussianDP(1, "0.1").for_group(2)), rare)


def test_events_that_leave_nothing_to_promise_are_refused() -> None:
    for rule, guarantee, total in (
        (_shown, ApproxDP(1, "0.5"), "the deltas add up to 1: together they promise nothing."),
        (_shown, ApproximateGaussianDP(1, "0.75", 0), "the deltas add up to 1.25"),
        (_shown, Profile([BoundedRange(1)], delta="0.5"), "the deltas add up to 1, the changes of"),
        (_coins, ApproximateGaussianDP(1, 0, "0.5"), "add up to 1: together they promise nothing."),
        (
            _coins,
            Profile([BoundedRange(1)], tv="0.5"),
            "the changes of the law to 1: together they",
        ),
    ):
        with pytest.raises(ValueError, match=re.escape(total)):
            rule(guarantee, Fraction(1, 2))


def test_bounds_on_events_that_are_none_are_refused() -> None:
    for chance in (1, "-1e-9", 1.5):
        with pytest.raises(
            ValueError, match=re.escape(f"{chance} is outside [0, 1); give a small")
        ):
            event(chance)
    with pytest.raises(ValueError, match="probability = nan is not finite"):
        event(float("nan"))
    with pytest.raises(TypeError, match="probability = True is a truth value"):
        event(True)
    with pytest.raises(ValueError, match=re.escape("name it as 'path/in/spec.py:obligation_name'")):
        event(0, obligation="theory/x.py:shown")
