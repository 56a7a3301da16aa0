"""Rules about claims: composition and post-processing, by brute force.

Pairs of finite laws with exact fractions; the claim of each part is read off the part, the rule
says what follows, and the explicit joint law either has it or not.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpverify.privacy import ApproxDP, Guarantee, PerfectPrivacy, PureDP, rules
from spec.theory import rules as spec_rules

from .finite import Law, Pair, adaptive_product, pushed, random_pair, satisfies, slack, tight_pair
from .makers import conjectured, fractions, guarantee_of, numbers_of

_steady = settings(derandomize=True, deadline=None, max_examples=100)
_SEED = 20250102
_ZERO = Fraction(0)
_TOLD: tuple[Hashable, ...] = ("left!", "left?", "right?", "right!")


# --- adaptive composition -----------------------------------------------------------------------

Compose = Callable[[Sequence[Guarantee]], Guarantee]
Composed = tuple[list[Guarantee], Pair]


def _compose_rule(guarantees: Sequence[Guarantee]) -> Guarantee:
    parts = [conjectured(guarantee) for guarantee in guarantees]
    return rules.adaptive_compose(parts).conclusion.guarantee


@_steady
@given(
    st.lists(
        st.tuples(
            fractions("1/1000", 100),
            fractions(0, "1/10"),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_the_rule_s_numbers_are_the_spec_s(parts: list[tuple[Fraction, Fraction]]) -> None:
    composed = _compose_rule([guarantee_of(*part) for part in parts])
    assert spec_rules.compose(parts) == numbers_of(composed)


def _random_adaptive_pair(rng: random.Random) -> Composed | None:
    """Return a first stage, and for each of its outcomes a second one; claims as tight as they
    hold."""
    first = random_pair(rng, far=True)
    outcomes = sorted({*first[0], *first[1]}, key=str)
    second = {o: random_pair(rng, far=True) for o in outcomes}
    one, two = rng.randint(1, 3), rng.randint(1, 3)
    delta_one = slack(first, one)
    delta_two = max(slack(pair, two) for pair in second.values())
    if delta_one + delta_two >= 1:
        return None
    stages = [guarantee_of(Fraction(one), delta_one), guarantee_of(Fraction(two), delta_two)]
    return stages, adaptive_product(first, second.__getitem__)


@cache
def _composed() -> list[Composed]:
    rng = random.Random(_SEED)
    drawn = [_random_adaptive_pair(rng) for _ in range(400)]
    cases = [case for case in drawn if case is not None]
    for one, two in ((1, 1), (2, 3), (3, 1)):
        for delta in (_ZERO, Fraction(1, 10)):
            then = tight_pair(two, delta / 2)
            joint = adaptive_product(tight_pair(one, delta), dict.fromkeys(_TOLD, then).__getitem__)
            stages = [guarantee_of(Fraction(one), delta), guarantee_of(Fraction(two), delta / 2)]
            cases.append((stages, joint))
    three = adaptive_product(cases[-2][1], lambda o: tight_pair(1, _ZERO))
    cases.append(([*cases[-2][0], PureDP(1)], three))
    return cases


def _composition_holds(compose: Compose) -> bool:
    return all(satisfies(joint, *numbers_of(compose(parts))) for parts, joint in _composed())


def test_the_cases_have_every_kind_of_part() -> None:
    kinds = {type(part) for parts, _ in _composed() for part in parts}
    assert kinds == {PureDP, ApproxDP}
    assert len(_composed()) > 200
    adaptive = [joint for _, joint in _composed() if len(joint[0]) > 4]
    assert len(adaptive) > 100


def test_joint_outputs_keep_what_composition_promises() -> None:
    assert _composition_holds(_compose_rule)


def _larger(parts: Sequence[Guarantee]) -> Guarantee:
    epsilons, deltas = zip(*map(numbers_of, parts), strict=True)
    return guarantee_of(max(epsilons), sum(deltas, _ZERO))


def _deltas_forgotten(parts: Sequence[Guarantee]) -> Guarantee:
    return PureDP(sum((numbers_of(part)[0] for part in parts), _ZERO))


def _largest_delta(parts: Sequence[Guarantee]) -> Guarantee:
    epsilons, deltas = zip(*map(numbers_of, parts), strict=True)
    return guarantee_of(sum(epsilons, _ZERO), max(deltas))


def _deltas_multiplied(parts: Sequence[Guarantee]) -> Guarantee:
    epsilon, delta = _ZERO, Fraction(1)
    for part in parts:
        epsilon, delta = epsilon + numbers_of(part)[0], delta * numbers_of(part)[1]
    return guarantee_of(epsilon, delta)


def _last_forgotten(parts: Sequence[Guarantee]) -> Guarantee:
    return _compose_rule(parts[:-1])


@pytest.mark.parametrize(
    "twin", [_larger, _deltas_forgotten, _largest_delta, _deltas_multiplied, _last_forgotten]
)
def test_false_twins_of_composition_are_caught(twin: Compose) -> None:
    assert not _composition_holds(twin)


def test_a_second_stage_that_breaks_its_declaration_is_caught() -> None:
    # The promise is for every first outcome: one careless branch, and the sum does not hold.
    first, careful, careless = (tight_pair(epsilon, _ZERO) for epsilon in (1, 1, 4))
    joint = adaptive_product(first, lambda o: careless if o == "left?" else careful)
    claimed = numbers_of(_compose_rule([PureDP(1), PureDP(1)]))
    assert satisfies(adaptive_product(first, lambda o: careful), *claimed)
    assert not satisfies(joint, *claimed)


# --- post-processing ----------------------------------------------------------------------------

PostProcess = Callable[[Guarantee], Guarantee]
Kernel = Callable[[Hashable], Law]


def _post_process_rule(guarantee: Guarantee) -> Guarantee:
    return rules.post_process(conjectured(guarantee), "a map").conclusion.guarantee


def _random_kernel(rng: random.Random, outcomes: set[Hashable]) -> Kernel:
    """Draw a kernel to fewer outcomes, at random for half of them; sometimes one to one."""
    images = rng.randint(1, 5)
    table: dict[Hashable, Law] = {}
    for i, outcome in enumerate(sorted(outcomes, key=str)):
        share = Fraction(rng.randint(0, 4), 4) if rng.random() < 0.5 else Fraction(1)
        table[outcome] = {i: Fraction(1)}
        if images < 5:
            table[outcome] = {rng.randint(1, images): share, "dull": 1 - share}
    return table.__getitem__


@cache
def _processed() -> list[tuple[Guarantee, Pair]]:
    """Return the guarantee of a pair, and the pair after a map that sees the output only."""
    rng, cases = random.Random(_SEED + 1), list[tuple[Guarantee, Pair]]()
    for _ in range(300):
        pair, epsilon = random_pair(rng, far=True), rng.randint(1, 3)
        delta = slack(pair, epsilon)
        if delta < 1:
            kernel = _random_kernel(rng, {*pair[0], *pair[1]})
            after = pushed(pair[0], kernel), pushed(pair[1], kernel)
            cases.append((guarantee_of(Fraction(epsilon), delta), after))
    for epsilon in (1, 2):
        cases.append((PureDP(epsilon), tight_pair(epsilon, _ZERO)))
    return cases


def _processing_holds(rule: PostProcess) -> bool:
    return all(satisfies(after, *numbers_of(rule(before))) for before, after in _processed())


def test_functions_of_the_output_keep_theguarantee_of() -> None:
    assert _processing_holds(_post_process_rule)


def _half(guarantee: Guarantee) -> Guarantee:
    epsilon, delta = numbers_of(guarantee)
    return guarantee_of(epsilon / 2 if not delta else epsilon, delta)


def _without_delta(guarantee: Guarantee) -> Guarantee:
    return PureDP(numbers_of(guarantee)[0])


def _forgets_everything(guarantee: Guarantee) -> Guarantee:
    return PerfectPrivacy()


@pytest.mark.parametrize("twin", [_half, _without_delta, _forgets_everything])
def test_false_twins_of_post_processing_are_caught(twin: PostProcess) -> None:
    assert not _processing_holds(twin)


def test_a_map_that_reads_the_data_is_not_post_processing() -> None:
    p, q = tight_pair(1, _ZERO)
    claimed = numbers_of(_post_process_rule(PureDP(1)))

    def keep(outcome: Hashable) -> Law:
        return {outcome: Fraction(1)}

    def tell(outcome: Hashable) -> Law:
        return {"left?": Fraction(1)}

    assert satisfies((pushed(p, keep), pushed(q, keep)), *claimed)
    assert not satisfies((pushed(p, tell), pushed(q, keep)), *claimed)
