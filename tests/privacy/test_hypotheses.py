"""Hypotheses: who hands them on, who refuses them, and what takes them away."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from dpverify.audit import NeighboringPair, audit
from dpverify.grid import ingest
from dpverify.privacy import Adjacency, ApproxDP, Domain, GaussianDP, Norm, PureDP, rules
from dpverify.privacy.adjacency import Friendly
from dpverify.privacy.hypotheses import (
    Absent,
    Compared,
    Passed,
    Quantity,
    Relation,
    Seen,
    Side,
    of_block,
)

from .makers import COLUMN, NEAR, conjectured, lemma, proved
from .noise_laws import HIDDEN, OVERFLOW, assuming, event

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
COUNT = Quantity.of("the count", "Tested")
AT_MOST = Compared("number", Relation.AT_MOST, Side.SMALLER, COUNT)
GATED = Passed("number", 3)
OPEN = assuming(GaussianDP(1))
HAIR = Fraction(1, 10**12)


def closed(**changes: Any) -> Any:
    return conjectured(GaussianDP(1), **changes)


# --- handed on ------------------------------------------------------------------------------------


def test_rules_about_one_pair_take_the_union() -> None:
    other = conjectured(GaussianDP(1), hypotheses=(AT_MOST,))
    both = {OVERFLOW, AT_MOST}
    for derivation in (
        rules.compose(OPEN, other, closed()),
        rules.compose(OPEN, other, by_profiles=True),
        rules.post_process(rules.compose(OPEN, other), "rounding"),
        rules.refuted(rules.compose(OPEN, other), "a pair"),
    ):
        assert derivation.conclusion.hypotheses == both
    moved = lemma(1, hypotheses=(AT_MOST,))
    for noisy in (rules.discrete_laplace(moved, 1), rules.rounded_gaussian(moved, 1)):
        assert noisy.conclusion.hypotheses == {AT_MOST}
    nested = rules.sensitivity_lemma(
        Quantity.of("twice", "Twice"),
        norm=Norm.L1,
        value=2,
        adjacency=ADD,
        domain=COLUMN,
        obligation="theory/queries.py:obligation_count",
        source=moved.source,
        premises=(moved,),
    )
    assert nested.conclusion.hypotheses == {AT_MOST}


def test_blocks_by_position_take_the_union_each_about_its_block() -> None:
    parts = [
        conjectured(PureDP(1), adjacency=REPLACE, hypotheses=(one,)) for one in (OVERFLOW, AT_MOST)
    ]
    claim = rules.parallel(parts, by="index").conclusion
    assert claim.hypotheses == {of_block(OVERFLOW, 0), of_block(AT_MOST, 1)}
    assert "the released 'number of block 1'" in str(claim)


def test_an_open_claim_is_not_printed_as_proved() -> None:
    shown = rules.discrete_laplace(lemma(1, hypotheses=(AT_MOST,)), 1).conclusion
    assert "[proved]" not in str(shown)
    assert str(shown).endswith(
        "[open, if the released 'number' is at most the smaller of the neighbors' values of the "
        "count]"
    )
    assert str(proved().conclusion).endswith("[proved]")


# --- refused --------------------------------------------------------------------------------------

REFUSING: dict[str, Callable[[Any], Any]] = {
    "groups": lambda claim: rules.group_privacy(claim, 2),
    "groups of one": lambda claim: rules.group_privacy(claim, 1),
    "another adjacency": lambda claim: rules.change_adjacency(claim, REPLACE),
    "each record": lambda claim: rules.of_each_record(claim, domain=COLUMN, by="a function"),
    "kept records": lambda claim: rules.of_kept_records(
        claim, domain=COLUMN, adjacency=REPLACE, by="a function"
    ),
    "a conversion": lambda claim: rules.convert(claim, ApproxDP(9, "1e-3")),
    "parts by value": lambda claim: rules.parallel([claim, claim], by="value"),
    "parts by value, replaced": lambda claim: rules.parallel(
        [claim, claim], by="value", adjacency=REPLACE
    ),
    "parts by label": lambda claim: rules.parallel([claim, claim], by="independent_label"),
}


@pytest.mark.parametrize("name", REFUSING)
def test_rules_that_change_the_pair_refuse_an_open_claim(name: str) -> None:
    rule = REFUSING[name]
    rule(closed())
    with pytest.raises(ValueError, match="needs a statement without hypotheses, but this one"):
        rule(OPEN)


def test_a_lift_refuses_what_is_open_behind_the_filter() -> None:
    stable = lemma(2, norm=Norm.KEEP)
    rules.friendly_lift(conjectured(PureDP(1), adjacency=NEAR), stable)
    behind: Any = conjectured(PureDP(1), adjacency=NEAR, hypotheses=(AT_MOST,))
    with pytest.raises(ValueError, match="friendly_lift needs a statement without hypotheses"):
        rules.friendly_lift(behind, stable)
    with pytest.raises(ValueError, match="friendly_lift needs a statement without hypotheses"):
        rules.friendly_lift(
            conjectured(PureDP(1), adjacency=NEAR),
            lemma(2, norm=Norm.KEEP, hypotheses=(AT_MOST,)),
        )


def test_an_open_claim_is_not_audited() -> None:
    pair = NeighboringPair(name="one", left=[0.0], right=[], adjacency=ADD)
    with pytest.raises(ValueError, match="The claim is open: gaussian"):
        audit(lambda data: len(data), claim=OPEN, pairs=[pair], seed=1)


# --- taken away -----------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [rules.add_delta_event, rules.add_total_variation_event])
def test_a_rare_event_discharges_its_hypothesis_and_no_other(rule: Any) -> None:
    both = conjectured(GaussianDP(1), hypotheses=(OVERFLOW, AT_MOST))
    assert rule(both, event("1e-9")).conclusion.hypotheses == {AT_MOST}
    for needless in (closed(), conjectured(GaussianDP(1), hypotheses=(AT_MOST,))):
        with pytest.raises(ValueError, match="the claim does not rest on its absence"):
            rule(needless, event("1e-9"))
    twice = rule(both, event("1e-9"))
    with pytest.raises(ValueError, match="it rests on the released 'number' is at most"):
        rule(twice, event("1e-9"))


def test_an_event_s_own_hypotheses_come_in_addition() -> None:
    moved = lemma(1, shift=40, hypotheses=(HIDDEN,))
    released = rules.discrete_laplace(moved, 1)
    rare = rules.released_event(AT_MOST, released, probability="1e-9")
    alone = conjectured(GaussianDP(1), hypotheses=(AT_MOST,))
    paid = rules.add_delta_event(rules.compose(released, alone), rare)
    assert paid.conclusion.hypotheses == {HIDDEN}
    with pytest.raises(ValueError, match="which is no part of the claim"):
        rules.add_delta_event(alone, rare)
    quiet = rules.discrete_laplace(moved, "1/2")
    with pytest.raises(ValueError, match="which is no part of the claim"):
        rules.add_delta_event(rules.compose(quiet, alone), rare)


def test_what_the_coins_decide_is_bounded_under_no_hypotheses() -> None:
    """Left: "a", certainly. Right: "a" or "b", each as often; the event happens where "b" does.

    Under "not b" the event never happens, and without it both give "a": the claim at no cost. But
    under "not b" the laws have masses of 1 and 1/2.
    """
    released = rules.discrete_laplace(lemma(1, shift=40, hypotheses=(HIDDEN,)), 1)
    rare = rules.released_event(AT_MOST, released, probability="1e-9")
    claim = rules.compose(released, conjectured(GaussianDP(1), hypotheses=(AT_MOST,)))
    with pytest.raises(ValueError, match="needs a bound under no hypotheses"):
        rules.add_total_variation_event(claim, rare)


def test_a_gate_takes_away_what_it_sees_to() -> None:
    gated = conjectured(GaussianDP(1), hypotheses=(GATED, AT_MOST))
    assert rules.passed_gate(gated, "number", 3).conclusion.hypotheses == {AT_MOST}
    assert rules.passed_gate(gated, "number", 9).conclusion.hypotheses == {AT_MOST}
    for other in (("number", 2), ("another", 3)):
        assert rules.passed_gate(gated, *other) is gated


def test_more_may_be_assumed_at_no_cost() -> None:
    assert rules.assume(closed(), OVERFLOW).conclusion.hypotheses == {OVERFLOW}
    assert rules.assume(OPEN, AT_MOST).conclusion.guarantee == GaussianDP(1)
    with pytest.raises(TypeError, match="is not a hypothesis"):
        rules.assume(OPEN, "the number is small")  # type: ignore[arg-type]


def instance(value: int, slack: int = 0, **changes: Any) -> Compared:
    kept = {"stage": "number", "relation": Relation.AT_MOST, "side": Side.SMALLER,
            "quantity": COUNT}  # fmt: skip
    return Compared(**{**kept, **changes}, slack=slack, value=value)


def test_what_holds_at_each_number_holds_at_the_released_one() -> None:
    at_17 = conjectured(GaussianDP(1), hypotheses=(instance(17), OVERFLOW))
    claim = rules.for_each_release(at_17, (AT_MOST,)).conclusion
    assert claim.hypotheses == {AT_MOST, OVERFLOW}
    assert rules.for_each_release(OPEN, ()) is OPEN
    assert rules.for_each_release(OPEN, (AT_MOST,)).conclusion.hypotheses == {AT_MOST, OVERFLOW}
    for other in (
        instance(17, stage="another"),
        instance(17, relation=Relation.AT_LEAST),
        instance(17, side=Side.LARGER),
        instance(17, quantity=Quantity.of("the count", "Tested", predicate="near")),
    ):
        with pytest.raises(ValueError, match="It declares nothing of the kind"):
            rules.for_each_release(conjectured(GaussianDP(1), hypotheses=(other,)), (AT_MOST,))


def test_a_number_s_hypothesis_is_no_event() -> None:
    """Refuse it: no bound on what is released says anything of a number that somebody has typed
    in."""
    with pytest.raises(TypeError, match="an event is that a hypothesis fails"):
        rules.event_lemma(
            instance(10**6), probability=0, adjacency=ADD, domain=COLUMN,
            obligation="theory/queries.py:obligation_count", source=proved().source,
        )  # fmt: skip
    with pytest.raises(ValueError, match="a hypothesis on one number is no event"):
        rules.released_event(
            instance(10**6), rules.public_value(lemma(0, query="the count")), probability=0
        )


@pytest.mark.parametrize("relation", Relation)
def test_an_instance_follows_from_what_was_released_exactly_when_it_is_no_stronger(
    relation: Relation,
) -> None:
    """Check that for every true value of the quantity the schema's truth gives the instance's."""
    span = range(-4, 5)
    for slack, own, released, value in product((-2, 0, 1), (-1, 0, 2), span, span):
        schema = Compared("number", relation, Side.SMALLER, COUNT, slack)
        one = instance(value, own, relation=relation)

        def holds(number: int, slack: int, q: int) -> bool:
            less = q - slack
            return number <= less if relation is Relation.AT_MOST else number >= less

        follows = all(holds(value, own, q) for q in range(-20, 21) if holds(released, slack, q))
        assert schema.gives(one, released) is follows


# --- the domain -----------------------------------------------------------------------------------


def test_a_bound_on_the_rows_is_part_of_the_domain() -> None:
    few = Domain(columns=1, most_rows=3)
    assert str(few) == "finite float64 records of 1 column, at most 3 of them"
    assert few != COLUMN
    with pytest.raises(
        ValueError, match=re.escape("one is for finite float64 records of 1 column, at")
    ):
        rules.compose(proved(domain=few), proved())
    assert rules.group_privacy(proved(domain=few), 2).conclusion.domain == few
    assert len(ingest([1.0, 2.0, 3.0], few)) == 3
    with pytest.raises(ValueError, match="The data have more than 3 rows"):
        ingest([1.0, 2.0, 3.0, 4.0], few)
    pair = NeighboringPair(name="four", left=[0.0] * 4, right=[0.0] * 3, adjacency=ADD)
    with pytest.raises(
        ValueError, match="The claim is for at most 3 rows, and the pair 'four' has 4"
    ):
        audit(lambda data: len(data), claim=conjectured(domain=few), pairs=[pair], seed=1)
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="give the largest number of rows"):
            Domain(columns=1, most_rows=wrong)


def test_parameters_of_a_quantity_are_exact() -> None:
    made = Quantity.of("the sum", "Sum", radius=3, scale=Fraction(1, 3), some=True, pair=(1, "a"))
    assert made["radius"] == 3
    with pytest.raises(KeyError):
        made["center"]
    for wrong in (0.5, [1], {"a": 1}, (0.5,)):
        with pytest.raises(TypeError, match="give exact numbers and words"):
            Quantity.of("the sum", "Sum", radius=wrong)  # type: ignore[arg-type]


def test_a_friendly_claim_includes_narrower_ones_only() -> None:
    kinds = [Friendly("p", k, e) for k, e in product((None, 0, 3), (False, True))]
    for a, b in product(kinds, kinds):

        def pairs(one: Friendly) -> set[tuple[int, str]]:
            most = 9 if one.strangers is None else one.strangers
            return {(s, "removal") for s in range(most + 1)} | (
                {(s, "exchange") for s in range(most + 1)} if one.exchange else set()
            )

        assert a.includes(b) is (pairs(b) <= pairs(a))
    assert not Friendly("p").includes(Friendly("q"))


def test_absence_of_what_coins_hide_costs_more() -> None:
    with pytest.raises(ValueError, match="Only an event that the output decides"):
        rules.add_delta_event(assuming(PureDP(1), HIDDEN), event("0.1", in_output=False))
    latent = Absent("kept", Seen.LATENT)
    rare = rules.event_lemma(
        latent, probability="0.1", adjacency=ADD, domain=COLUMN,
        obligation="theory/queries.py:obligation_count", source=proved().source,
    )  # fmt: skip
    with pytest.raises(ValueError, match="Only an event that the output decides"):
        rules.add_delta_event(conjectured(hypotheses=(latent,)), rare)
