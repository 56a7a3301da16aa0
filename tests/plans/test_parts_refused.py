"""Plans in plans: what their stages see, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify import PureDP, SeededBits
from dpverify.grid import UNIT, ClampedSum, Count, Query, Released, Transcripts
from dpverify.grid.linear import Integers
from dpverify.grid.splits import ByIndex
from dpverify.grid.transcript_queries import MovingSum
from dpverify.plans import (
    Adaptive,
    Blocks,
    DiscreteLaplace,
    Filtered,
    Gate,
    KeptCount,
    Law,
    Part,
    Plan,
    RoundedGaussian,
    Stage,
    Unless,
    stages_of,
)
from dpverify.plans.plan import derive
from dpverify.transformations import BasicFilter
from tests.plans.helpers import adaptive
from tests.plans.nested import ADD, DOMAIN, REPLACE, Rounds, answers, law, mean, twice
from tests.plans.parted import CORE, DATA, NEAR, asked, side

# --- what stages see ------------------------------------------------------------------------------


def moving(reads: tuple[str, ...], looks: str, name: str = "sum") -> Stage:
    def place(before: Transcripts) -> tuple[Integers, Integers]:
        return np.zeros((len(before), 1), np.int64), before[looks][:, 0] * 0 + 3

    query = MovingSum(NEAR, Fraction(2), REPLACE, Released(reads, place))
    return Stage(name, query, RoundedGaussian(UNIT))


@pytest.mark.parametrize(
    ("plan", "sees"),
    [
        ((answers("a"), answers("b"), moving(("a",), "a")), True),
        ((answers("a"), answers("b"), moving(("a",), "b")), False),
        ((answers("a"), Part("p", (moving(("a",), "a"),))), False),
        ((answers("a"), Part("p", (answers("b"), moving(("b",), "b")))), True),
        ((answers("a"), Part("p", (answers("b"), moving(("b",), "p/b")))), False),
        ((Part("p", (answers("a"),)), moving(("p/a",), "p/a")), True),
        ((Part("p", (answers("a"),)), moving(("p/a",), "a")), False),
        ((Part("p", (answers("a"),)), Part("q", (moving(("p/a",), "p/a"),))), False),
        ((moving(("later",), "later"), answers("later")), False),
    ],
)
def test_a_query_sees_the_stages_that_it_declares_in_its_own_part(plan: Plan, sees: bool) -> None:
    """Planted: a place that looks at another stage than it reads."""
    if sees:
        own = law(plan)
        assert np.isfinite(own.log_likelihood(own.sample(SeededBits(1), 9))).all()
        return
    with pytest.raises((KeyError, ValueError), match=r"'(a|b|later|p/a|p/b)'"):
        law(plan).sample(SeededBits(1), 9)


def test_an_adaptive_part_sees_the_stages_that_it_declares() -> None:
    plan: Plan = (
        answers("side"),
        answers("b"),
        Adaptive(asked((0,)), Released(("b",), side), asked),
    )
    with pytest.raises(KeyError, match="side"):
        law(plan).sample(SeededBits(1), 3)


@pytest.mark.parametrize("size", [1, 5])
def test_a_row_for_each_draw_is_needed(size: int) -> None:
    """Planted: numbers of one draw for all, by which the others would stay without the stage."""
    for wrong in (lambda b: np.zeros((size + 1, 1), int), lambda b: np.zeros(size, int)):
        plan: Plan = (answers("side"), Adaptive(asked((0,)), Released(("side",), wrong), asked))
        with pytest.raises(ValueError, match="give a row for each"):
            law(plan).sample(SeededBits(1), size)

    def place(before: Transcripts) -> tuple[Integers, Integers]:
        return np.zeros((size + 1, 1), np.int64), np.full(size + 1, 3)

    query = MovingSum(NEAR, Fraction(2), REPLACE, Released(("side",), place))
    more: Plan = (answers("side"), Stage("sum", query, RoundedGaussian(UNIT)))
    with pytest.raises(ValueError, match="a point and a radius for each"):
        law(more).sample(SeededBits(1), size)


# --- what is refused ------------------------------------------------------------------------------


def test_an_open_part_is_refused() -> None:
    """Planted: a mean whose released number may be too large, nested so that nobody asks."""
    assert derive((Part("p", CORE.plan),), ADD, DOMAIN).events
    for missing in (Unless, Gate):
        plan = tuple(e for e in CORE.plan if not isinstance(e, missing))
        with pytest.raises(ValueError, match="The claim of the part 'p' is open"):
            derive((Part("p", plan),), ADD, DOMAIN)
    outside: Plan = (Part("p", CORE.plan[:-1]), CORE.plan[-1])
    with pytest.raises(ValueError, match="is open"):
        derive(outside, ADD, DOMAIN)


def test_a_part_behind_a_filter_is_refused() -> None:
    part = Part("p", (Stage("kept", KeptCount(NEAR, 0), RoundedGaussian(3)),))
    blocks = Blocks("p", ByIndex(1), (part.plan,))
    built = Adaptive(part, Released((), lambda b: np.zeros((len(b), 0), int)), lambda row: part)
    for inner in (part, blocks, built):
        with pytest.raises(TypeError, match="'p' behind the filter 'core' is a plan of its own"):
            Filtered("core", BasicFilter(NEAR), (inner,))


X = answers("x")


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ((Part("p", (X,)), Part("p", (answers("y"),))), "two stages are named 'p'"),
        ((Part("p", (X,)), answers("p")), "two stages are named 'p'"),
        ((Part("p", (X, X)),), "two stages are named 'x'"),
        ((Part("p", (X,)), Blocks("p", ByIndex(1), ((X,),))), "two stages are named 'p'"),
        ((answers("a/b"),), "a slash is for stages of parts"),
        ((Part("p", (answers("a/b"),)),), "a slash is for stages of parts"),
        ((Part("a/b", (X,)),), "a slash is for stages of parts"),
        ((Part("a", (X,)), Part("a/b", (X,))), "a slash is for stages of parts"),
        ((Blocks("a/b", ByIndex(1), ((X,),)),), "a slash is for stages of parts"),
        (
            (adaptive(answers("a/b"), (), lambda b: np.zeros(len(b), int), lambda k: X),),
            "a slash is for stages of parts",
        ),
        ((Part("p", ()),), "nothing to compose"),
        ((Part("p", (Gate("x", 1, "few"), X)),), "not released before it"),
    ],
)
def test_names_are_unique_and_a_slash_is_for_stages_of_parts(plan: Plan, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        derive(plan, REPLACE, DOMAIN)


def test_one_name_may_stand_in_two_parts() -> None:
    assert derive(
        (Part("a", (X,)), Part("b", (X,)), X), REPLACE, DOMAIN
    ).conclusion.guarantee == PureDP(3)


BROKEN: dict[str, tuple[Callable[[], Any], str]] = {
    "another stage": (lambda: Part("p", (*twice(reason="p"), answers("more"))), "of another width"),
    "one stage less": (lambda: Part("p", twice(reason="p")[:1]), "of another width"),
    "more loss": (lambda: Part("p", twice(Fraction(1, 2), reason="p")), "declare the largest loss"),
    "another reason": (lambda: Part("p", twice(reason="q")), "of another width"),
    "no gate": (lambda: Part("p", twice(reason="p")[::2]), "of another width"),
    "another name": (lambda: Part("q", twice(reason="p")), "of another width"),
    "no part": (lambda: answers("p"), "of another width"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_part_that_breaks_what_it_declared_is_refused(name: str) -> None:
    build, message = BROKEN[name]
    declared = asked((0,))
    plan: Plan = (
        answers("side"),
        Adaptive(declared, Released(("side",), side), lambda row: build()),
    )
    with pytest.raises(ValueError, match=message):
        law(plan).sample(SeededBits(1), 9)
    kept: Plan = (answers("side"), Adaptive(declared, Released(("side",), side), asked))
    drawn = law(kept).sample(SeededBits(1), 9)
    with pytest.raises(ValueError, match=message):
        law(plan).log_likelihood(drawn)


def test_a_part_that_rests_on_other_lemmas_than_it_declared_is_refused() -> None:
    """Refuse it though it is as private, by another lemma, which nobody has looked at when the
    claim was read."""

    def part(query: Query) -> Part:
        return Part("p", (Stage("x", query, DiscreteLaplace(1)),))

    plan: Plan = (
        part(Count()),
        Adaptive(
            replace(part(Count()), name="q"),
            Released(("p/x",), lambda b: b["p/x"]),
            lambda row: replace(part(ClampedSum(-1, 1, 0, 0)), name="q"),
        ),
    )
    derive(plan, ADD, DOMAIN)
    with pytest.raises(ValueError, match="built on lemmas that it had not declared"):
        Law(plan, np.zeros((3, 1)), ADD, DOMAIN).sample(SeededBits(1), 2)


def test_what_is_built_is_a_stage_or_a_part() -> None:
    built: Any = Blocks("p", ByIndex(1), (twice(),))
    plan: Plan = (
        answers("side"),
        Adaptive(asked((0,)), Released(("side",), side), lambda row: built),
    )
    with pytest.raises(TypeError, match="was built as a Blocks"):
        law(plan).sample(SeededBits(1), 3)


def test_a_part_of_a_mechanism_keeps_the_claim_for_the_adjacency_of_the_whole() -> None:
    """Planted: a mean for a public number of records in a plan where it is private."""
    public = mean(adjacency=REPLACE)
    with pytest.raises(ValueError, match="without noise"):
        Rounds(adjacency=ADD, parts=(("a", public),))
    kept = Rounds(adjacency=REPLACE, parts=(("a", public),))
    assert kept.claim.guarantee == public.claim.guarantee


def test_queries_of_parts_are_what_they_are_outside() -> None:
    """Equal queries of two parts are asked once, and of one dataset."""
    query: Query = Count((0.0, 1.0))
    plan: Plan = (
        Part("a", (Stage("x", query, DiscreteLaplace(1)),)),
        Stage("x", query, DiscreteLaplace(1)),
    )
    own = law(plan, DATA)
    assert own.center(query).tolist() == [2]
    stages = stages_of(plan)
    assert [own.center_after(stage, [(0,)] * i).tolist() for i, stage in enumerate(stages)] == [
        [2],
        [2],
    ]
