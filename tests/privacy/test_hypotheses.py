"""Hypotheses: who hands them on, who refuses them, and what takes them away."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp
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
from dpverify.privacy.tails import Tail
from spec.theory import rules as spec_rules
from spec.theory.laws import real

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
    for found in (
        rules.compose(OPEN, other, closed()),
        rules.compose(OPEN, other, by_profiles=True),
        rules.post_process(rules.compose(OPEN, other), "rounding"),
        rules.refuted(rules.compose(OPEN, other), "a pair"),
    ):
        assert found.conclusion.hypotheses == both
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
    found = rules.parallel(parts, by="index").conclusion
    assert found.hypotheses == {of_block(OVERFLOW, 0), of_block(AT_MOST, 1)}
    assert "the released 'number of block 1'" in str(found)


def test_an_open_claim_is_not_printed_as_proved() -> None:
    shown = rules.discrete_laplace(lemma(1, hypotheses=(AT_MOST,)), 1).conclusion
    assert "[proved]" not in str(shown)
    assert str(shown).endswith(
        "[open, if the released 'number' is at most the smaller of the neighbors' values of the count]"
    )
    assert str(proved().conclusion).endswith("[proved]")


# --- refused --------------------------------------------------------------------------------------

REFUSING: dict[str, Callable[[Any], Any]] = {
    "groups": lambda claim: rules.group_privacy(claim, 2),
    "groups of one": lambda claim: rules.group_privacy(claim, 1),
    "another adjacency": lambda claim: rules.change_adjacency(claim, REPLACE),
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
    found = rules.for_each_release(at_17, (AT_MOST,)).conclusion
    assert found.hypotheses == {AT_MOST, OVERFLOW}
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
    """No bound on what is released says anything of a number that somebody has typed in."""
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
    """For every true value of the quantity the schema's truth gives the instance's."""
    span = range(-4, 5)
    for slack, own, released, value in product((-2, 0, 1), (-1, 0, 2), span, span):
        schema = Compared("number", relation, Side.SMALLER, COUNT, slack)
        one = instance(value, own, relation=relation)

        def holds(number: int, slack: int, q: int) -> bool:
            less = q - slack
            return number <= less if relation is Relation.AT_MOST else number >= less

        follows = all(holds(value, own, q) for q in range(-20, 21) if holds(released, slack, q))
        assert schema.gives(one, released) is follows


# --- events of a stage's own noise ----------------------------------------------------------------

SCALES = {Tail.DISCRETE_LAPLACE: Fraction(2), Tail.ROUNDED_GAUSSIAN: Fraction(3)}


def exact_tail(noise: Tail, t: int) -> Any:
    """P(Z >= t), by adding up masses."""
    scale = real(SCALES[noise])
    if noise is Tail.DISCRETE_LAPLACE:
        q = mp.exp(-1 / scale)
        return mp.fsum(q ** abs(z) for z in range(t, t + 400)) * (1 - q) / (1 + q)
    return mp.ncdf(-(t - mp.mpf(1) / 2) / scale)


@pytest.mark.parametrize("noise", SCALES)
def test_tails_are_exact(noise: Tail) -> None:
    from dpverify.privacy.balls import enclose

    with mp.workdps(40):
        for t in range(-8, 30):
            found = enclose(lambda: noise.at_least(t, SCALES[noise]))  # noqa: B023
            assert found.lower <= Fraction(str(exact_tail(noise, t))) * (1 + Fraction(1, 10**25))
            assert found.upper >= Fraction(str(exact_tail(noise, t))) * (1 - Fraction(1, 10**25))


def worst_miss(noise: Tail, fails: Compared, shift: int, moved: int, other: int) -> Any:
    """The larger probability of the event under neighbors with values 0 and ``other``."""
    ends = (min(0, other), max(0, other))
    bound = ends[fails.side is Side.LARGER] - fails.slack
    assert abs(other) <= moved
    if fails.relation is Relation.AT_MOST:  # q - shift + Z > bound
        return max(exact_tail(noise, bound + shift - q + 1) for q in (0, other))
    return max(exact_tail(noise, q - shift - bound + 1) for q in (0, other))


@pytest.mark.parametrize("noise", SCALES)
@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("side", Side)
def test_an_event_of_a_stage_s_noise_is_enumerated(
    noise: Tail, relation: Relation, side: Side
) -> None:
    """Over all pairs of values the probability is at most what is accepted, and is attained by some; a
    hair less is refused."""
    for shift, slack, moved in product((-3, 0, 8), (-6, 0, 2), (0, 1, 5)):
        fails = Compared("number", relation, side, COUNT, slack)
        worst = max(worst_miss(noise, fails, shift, moved, o) for o in range(-moved, moved + 1))
        above, smaller = relation is Relation.AT_MOST, side is Side.SMALLER
        least = spec_rules.missed_number(shift, slack, moved, above=above, smaller=smaller)
        assert mp.almosteq(worst, exact_tail(noise, least), 1e-13)
        allowed = Fraction(str(mp.nstr(worst, 15)))
        premise = lemma(moved, query="the count", shift=shift)
        if allowed < Fraction(99, 100):
            assert _event(fails, premise, noise, allowed * (1 + HAIR)).conclusion.fails == fails
        with pytest.raises(ValueError, match="give a larger shift"):
            _event(fails, premise, noise, allowed * (1 - HAIR))


def _event(fails: Compared, premise: Any, noise: Tail, probability: Fraction) -> Any:
    laplace = noise is Tail.DISCRETE_LAPLACE
    rule: Any = rules.discrete_laplace if laplace else rules.rounded_gaussian
    return rules.released_event(fails, rule(premise, SCALES[noise]), probability=probability)


def test_an_event_is_about_the_stage_s_own_query() -> None:
    for query in ("another count", "the count"):
        quantity = Quantity.of(query, "Tested", predicate="near")
        fails = Compared("number", Relation.AT_MOST, Side.SMALLER, quantity)
        released = rules.discrete_laplace(lemma(1, query=query, shift=40), 1)
        with pytest.raises(ValueError, match="the stage releases"):
            rules.released_event(fails, released, probability="1e-9")
    unknown = rules.randomized_response(lemma(1, norm=Norm.HAMMING), 1)
    with pytest.raises(ValueError, match="the tails of that noise are not known"):
        rules.released_event(AT_MOST, unknown, probability="1e-9")


def test_runs_that_may_each_fail_are_paid_for_each() -> None:
    """Fifty runs under one name, and one event for all of them: each may fail."""
    many = [OPEN] * 50
    with pytest.raises(ValueError, match="if they are two runs, each may fail"):
        rules.compose(*many)
    with pytest.raises(ValueError, match="if they are two runs, each may fail"):
        rules.advanced_compose(many, slack="1e-6")
    paid = rules.compose(*(rules.add_delta_event(one, event("1e-3")) for one in many))
    assert paid.conclusion.guarantee.delta_floor == Fraction(50, 1000)


def test_what_is_known_of_all_records_pays_for_no_block() -> None:
    """A hundred blocks, each with an agreement of its own; the event is about that of all records."""
    moved = lemma(1, adjacency=REPLACE, shift=40)
    released = rules.discrete_laplace(moved, 1)
    block = conjectured(PureDP(1), adjacency=REPLACE, hypotheses=(AT_MOST, GATED, OVERFLOW))
    blocks = rules.parallel([block, block], by="index")
    assert len(blocks.conclusion.hypotheses) == 6
    whole = rules.compose(released, blocks)
    rare = rules.released_event(AT_MOST, released, probability="1e-9")
    with pytest.raises(ValueError, match="the claim does not rest on its absence"):
        rules.add_delta_event(whole, rare)
    assert rules.passed_gate(whole, "number", 9) is whole
    with pytest.raises(ValueError, match="the claim does not rest on its absence"):
        rules.add_delta_event(whole, event("0.1", adjacency=REPLACE))


def test_slacks_and_numbers_are_whole() -> None:
    for wrong in (Fraction(1, 1000), 0.5, True):
        with pytest.raises((TypeError, ValueError)):
            Compared("number", Relation.AT_MOST, Side.SMALLER, COUNT, slack=wrong)  # type: ignore[arg-type]
        with pytest.raises((TypeError, ValueError)):
            Passed("number", wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("sigma", [Fraction(3), Fraction(20)])
def test_records_without_friends_are_kept_as_rarely_as_the_spec_says(sigma: Fraction) -> None:
    score = lemma(2, norm=Norm.L_INFINITY, keeps=NEAR)

    def made(threshold: int, records: int, probability: Fraction) -> Any:
        return rules.kept_by_noise(
            score, sigma=sigma, threshold=threshold, records=records, probability=probability
        )

    for threshold, records in product((30, 80), (1, 7, 1000)):
        near = Fraction(str(mp.nstr(spec_rules.kept_by_noise(2, threshold, sigma, records), 15)))
        if near < Fraction(99, 100):
            bound = made(threshold, records, near * (1 + HAIR)).conclusion
            assert bound.seen is Seen.LATENT
            with pytest.raises(ValueError, match="raise it"):
                made(threshold, records, near * (1 - HAIR))


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
    with pytest.raises(ValueError, match="only an event that the output decides"):
        rules.add_delta_event(assuming(PureDP(1), HIDDEN), event("0.1", in_output=False))
    latent = Absent("kept", Seen.LATENT)
    rare = rules.event_lemma(
        latent, probability="0.1", adjacency=ADD, domain=COLUMN,
        obligation="theory/queries.py:obligation_count", source=proved().source,
    )  # fmt: skip
    with pytest.raises(ValueError, match="only an event that the output decides"):
        rules.add_delta_event(conjectured(hypotheses=(latent,)), rare)
