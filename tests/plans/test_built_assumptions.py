"""Assumptions of stages that are built from a transcript on the numbers released there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify.grid import Count
from dpverify.grid.nearness import Nearness
from dpverify.grid.retained import below_kept
from dpverify.plans import (
    UNIT,
    Adaptive,
    Gate,
    KeptCount,
    KeptMean,
    Law,
    Plan,
    RoundedGaussian,
    Stage,
    Transcripts,
    Unless,
)
from dpverify.plans.plan import derive
from dpverify.privacy import Adjacency, Domain
from dpverify.privacy.adjacency import Friendly
from dpverify.randomness import SeededBits
from dpverify.randomness.bits import IntArray
from dpverify.transformations.means import GaussianCoreMean, WeightedCoreMean
from tests.plans.helpers import adaptive

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
NEAR, FAR = Nearness(4, 0, (1.0,)), Nearness(8, 0, (1.0,))
DOMAIN = Domain(columns=1)
FRIENDS = Friendly(NEAR.predicate)


# --- what is built --------------------------------------------------------------------------------


def kept_plan(build: Callable[[int], Stage], under: Any = None) -> Plan:
    below = below_kept("kept", NEAR)

    def number(batch: Transcripts) -> IntArray:
        counts: IntArray = batch.values["kept"][:, 0]
        return counts

    return (
        Stage("kept", KeptCount(NEAR, 30), RoundedGaussian(3)),
        Gate("kept", 1, "too few"),
        adaptive(build(1), ("kept",), number, build, (below,) if under is None else under),
        Unless(below, Fraction(1, 1000)),
    )


def mean(released: int) -> Stage:
    return Stage("mean", KeptMean(NEAR, Fraction(5), released), RoundedGaussian(UNIT))


def friends_law(plan: Plan) -> Law:
    return Law(plan, np.zeros((60, 1)), FRIENDS, DOMAIN)


def test_a_stage_is_built_from_the_number_that_was_released_and_from_no_larger_one() -> None:
    friends_law(kept_plan(mean)).sample(SeededBits(1), 20)
    friends_law(kept_plan(lambda r: mean(max(1, r - 1)))).sample(SeededBits(1), 20)
    generous = kept_plan(lambda r: mean(r + 1 if r > 1 else 1))
    derive(generous, FRIENDS, DOMAIN)  # as declared, for the number 1, it says what is true
    with pytest.raises(ValueError, match="does not follow from what was released"):
        friends_law(generous).sample(SeededBits(1), 20)


def test_a_stage_that_declares_no_assumption_may_make_none() -> None:
    with pytest.raises(ValueError, match="It declares nothing of the kind"):
        derive(kept_plan(mean, ()), FRIENDS, DOMAIN)
    with pytest.raises(ValueError, match="It declares nothing of the kind"):
        derive(kept_plan(mean, (below_kept("kept", FAR),)), FRIENDS, DOMAIN)


def test_a_built_stage_may_assume_nothing_of_another_stage() -> None:
    def elsewhere(released: int) -> Stage:
        stage = mean(released)
        query: Any = stage.query
        other = dataclasses.replace(query, stage="more" if released > 1 else "kept")
        return dataclasses.replace(stage, query=other)

    more = Stage("more", KeptCount(NEAR, 0), RoundedGaussian(3))
    plan = (more, *kept_plan(elsewhere))
    derive(plan, FRIENDS, DOMAIN)
    with pytest.raises(ValueError, match="built on an assumption that it had not declared"):
        friends_law(plan).sample(SeededBits(1), 20)


NEAR_CORE = WeightedCoreMean(ADD, NEAR, Fraction(1), 2000, Fraction(1, 10**6))
CORES = (NEAR_CORE, dataclasses.replace(NEAR_CORE, nearness=FAR))
SIDE = Stage("side", Count((0.0, 1.0)), RoundedGaussian(9))


def parity(batch: Transcripts) -> IntArray:
    parities: IntArray = batch.values["side"][:, 0] % 2
    return parities


def again(batch: Transcripts) -> IntArray:
    return parity(batch)


def agreement(key: int) -> Stage:
    return Stage("agreement", CORES[key].agreement, NEAR_CORE.noise)


def weighted(key: int) -> Stage:
    return Stage("mean", CORES[key].query, RoundedGaussian(UNIT))


def run(first: Any, second: Any) -> Law:
    """Return the law of an agreement and a mean, each plain or adaptive, after a number of its
    own."""
    _, gate, _, unless = NEAR_CORE.plan
    plan: Plan = (SIDE, first, gate, second, unless)
    derive(plan, ADD, DOMAIN)
    law = Law(plan, np.zeros((200, 1)), ADD, DOMAIN)
    law.sample(SeededBits(2), 40)
    return law


def built(build: Any, key: Any = parity) -> Adaptive:
    return adaptive(build(0), ("side",), key, build)


@pytest.mark.parametrize("key", [parity, again], ids=["one key", "another key"])
def test_an_agreement_and_a_mean_that_are_built_fit_each_other(key: Any) -> None:
    """Both are built for the predicate that the transcript decides; one for another is refused."""
    run(built(agreement), built(weighted, key))
    run(built(lambda key: agreement(0)), weighted(0))
    run(agreement(0), built(lambda key: weighted(0), key))
    for first, second in (
        (built(agreement), built(lambda key: weighted(0), key)),
        (built(lambda key: agreement(0)), built(weighted, key)),
        (agreement(0), built(weighted, key)),
        (built(agreement), weighted(0)),
        (built(lambda key: agreement(key and 1)), weighted(0)),
    ):
        with pytest.raises(ValueError, match="built on an assumption that it had not declared"):
            run(first, second)


def test_a_key_that_answers_otherwise_the_second_time_is_seen() -> None:
    """The agreement is built for far friends, the mean for near ones, by one function that sees
    more later."""

    def sees_more(batch: Transcripts) -> IntArray:
        later = "agreement" in batch.values
        return np.full(len(batch), 0 if later else 1, np.int64)

    for size in (1, 2000):
        first = adaptive(agreement(0), (), sees_more, agreement)
        second = adaptive(weighted(0), ("agreement",), sees_more, weighted)
        _, gate, _, unless = NEAR_CORE.plan
        law = Law((SIDE, first, gate, second, unless), np.zeros((200, 1)), ADD, DOMAIN)
        with pytest.raises(ValueError, match="built on an assumption that it had not declared"):
            law.sample(SeededBits(2), size)


def test_an_agreement_that_is_built_is_as_rarely_too_large_as_declared() -> None:
    def early(key: int) -> Stage:
        query: Any = agreement(key).query
        return dataclasses.replace(
            agreement(key), query=dataclasses.replace(query, shift=0 if key else query.shift)
        )

    with pytest.raises(ValueError, match="give a larger shift"):
        run(built(early), built(weighted))


def test_rows_that_are_built_are_the_rows_that_a_filter_is_built_for() -> None:
    """Counting another set of records as the rows would let the filter be built for too few."""
    core = GaussianCoreMean(ADD, NEAR, Fraction(1, 2), 2000, Fraction(1, 10**6))
    rows, gate, filtered, unless = core.plan
    assert isinstance(rows, Stage)
    some = dataclasses.replace(rows, query=Count((0.0, 1.0)))
    data = np.zeros((300, 1))
    for build, message in (
        (lambda key: rows, ""),
        (lambda key: some, "built on an assumption that it had not declared"),
    ):
        first = adaptive(rows, ("side",), parity, build)
        law = Law((SIDE, first, gate, filtered, unless), data, ADD, DOMAIN)
        if not message:
            law.sample(SeededBits(3), 5)
            continue
        with pytest.raises(ValueError, match=message):
            law.sample(SeededBits(3), 5)
    with pytest.raises(ValueError, match="the stage releases"):
        derive((some, gate, filtered, unless), ADD, DOMAIN)


def test_what_is_declared_of_a_released_number_is_paid_for_though_no_stage_needs_it() -> None:
    """Declared: a filter for all rows of the domain. Built: one for fewer."""
    core = GaussianCoreMean(ADD, NEAR, Fraction(1, 2), 2000, Fraction(1, 10**6))
    rows, gate, filtered, _ = core.plan
    assert isinstance(filtered, Adaptive)
    few = Domain(columns=1, most_rows=1)
    assert not filtered.declared.derivation(ADD, few).conclusion.hypotheses
    claim = derive((rows, gate, filtered), ADD, few).conclusion
    assert claim.hypotheses == {*filtered.under}


@pytest.mark.parametrize("kind", [float, object])
def test_keys_that_are_no_integers_are_refused(kind: Any) -> None:
    """Else halves become zeros, and rows are dropped or run twice."""

    def halves(batch: Transcripts) -> IntArray:
        return (np.arange(len(batch)) / 2).astype(kind)

    plan: Plan = (SIDE, adaptive(agreement(0), (), halves, lambda key: agreement(0)))
    with pytest.raises(TypeError, match="give integers"):
        Law(plan, np.zeros((9, 1)), ADD, DOMAIN).sample(SeededBits(1), 4)


def test_what_is_built_is_a_stage() -> None:
    plan: Plan = (SIDE, adaptive(agreement(0), ("side",), parity, lambda key: built(agreement)))  # type: ignore[arg-type,return-value]
    with pytest.raises(TypeError, match="was built as a Adaptive; build a Stage"):
        Law(plan, np.zeros((9, 1)), ADD, DOMAIN).sample(SeededBits(1), 4)
