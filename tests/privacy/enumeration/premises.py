"""Every call of a rule, and every making of a premise, that the enumerations need.

The numbers come from enumeration: how far a query moves, how likely an event is, which claims hold
of the stages. Each adapter is named after its rule and returns the guarantee of the conclusion.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, Literal

from dpverify.privacy import (
    Adjacency,
    Derivation,
    Domain,
    Guarantee,
    Norm,
    PrivacyClaim,
    Sensitivity,
    Source,
    TableDomain,
    rules,
)
from dpverify.privacy.adjacency import AnyAdjacency, Friendly, Groups
from dpverify.privacy.derivation import EventBound
from dpverify.privacy.hypotheses import (
    Absent,
    Compared,
    Hypothesis,
    Passed,
    Quantity,
    Relation,
    Seen,
    Side,
)

Number = int | Fraction
COLUMN = Domain(columns=1)
PREDICATE = "joined by an edge"
_OBLIGATION = "theory/queries.py:obligation_count"
_SOURCE = Source("OURS", "shown by enumeration of a small graph")


# --- premises -----------------------------------------------------------------------------------


QUERY = Quantity.of("the query", "Enumerated")
SHOWN, HIDDEN = Absent("the event", Seen.OUTPUT), Absent("the event", Seen.COINS)


def sensitivity(
    moved: Number,
    norm: Norm,
    adjacency: AnyAdjacency,
    *,
    query: Quantity = QUERY,
    keeps: Friendly | Adjacency | None = None,
    hypotheses: Iterable[Hypothesis] = (),
) -> Derivation[Sensitivity]:
    """State how far a query moves on the edges of a graph."""
    return rules.sensitivity_lemma(
        query,
        norm=norm,
        value=moved,
        adjacency=adjacency,
        domain=COLUMN,
        obligation=_OBLIGATION,
        source=_SOURCE,
        keeps=keeps if keeps is not None or norm is not Norm.KEEP else friendly(),
        hypotheses=hypotheses,
    )


def event(probability: Fraction, adjacency: AnyAdjacency, absent: Absent) -> Derivation[EventBound]:
    """State how likely an event is on the nodes of a graph."""
    return rules.event_lemma(
        absent,
        probability=probability,
        adjacency=adjacency,
        domain=COLUMN,
        obligation=_OBLIGATION,
        source=_SOURCE,
    )


def claim(
    guarantee: Guarantee, adjacency: AnyAdjacency, *hypotheses: Hypothesis
) -> Derivation[PrivacyClaim]:
    """State a guarantee that was judged on the edges of a graph."""
    return rules.conjecture(guarantee, adjacency=adjacency, domain=COLUMN, hypotheses=hypotheses)


def friendly(*, strangers: int | None = None, exchange: bool = False) -> Friendly:
    """Name the neighbors that a claim behind a filter is about."""
    return Friendly(PREDICATE, strangers, exchange)


# --- noise --------------------------------------------------------------------------------------


def public_value(moved: Number, norm: Norm, adjacency: Adjacency) -> Guarantee:
    """Conclude by ``rules.public_value``."""
    return rules.public_value(sensitivity(moved, norm, adjacency)).conclusion.guarantee


def discrete_laplace(
    moved: Number, scale: Fraction, adjacency: AnyAdjacency, *, exact: bool = False
) -> Guarantee:
    """Conclude by ``rules.discrete_laplace``."""
    premise = sensitivity(moved, Norm.L1, adjacency)
    return rules.discrete_laplace(premise, scale, exactly=exact).conclusion.guarantee


def randomized_response(moved: Number, scale: Fraction, adjacency: Adjacency) -> Guarantee:
    """Conclude by ``rules.randomized_response``."""
    premise = sensitivity(moved, Norm.HAMMING, adjacency)
    return rules.randomized_response(premise, scale).conclusion.guarantee


def discrete_gaussian(moved: Number, sigma: Fraction, adjacency: Adjacency) -> Guarantee:
    """Conclude by ``rules.discrete_gaussian``."""
    premise = sensitivity(moved, Norm.SQUARED_L2, adjacency)
    return rules.discrete_gaussian(premise, sigma).conclusion.guarantee


def rounded_gaussian(
    moved: Number, sigma: Fraction, adjacency: AnyAdjacency, norm: Norm = Norm.SQUARED_L2
) -> Guarantee:
    """Conclude by ``rules.rounded_gaussian``."""
    premise = sensitivity(moved, norm, adjacency)
    return rules.rounded_gaussian(premise, sigma).conclusion.guarantee


def exponential_mechanism(
    moved: Number, scale: Fraction, adjacency: Adjacency, norm: Norm
) -> Guarantee:
    """Conclude by ``rules.exponential_mechanism``."""
    premise = sensitivity(moved, norm, adjacency)
    return rules.exponential_mechanism(premise, scale).conclusion.guarantee


def smooth_laplace(growth: Fraction, scale: Fraction, adjacency: Adjacency) -> Guarantee:
    """Conclude by ``rules.smooth_laplace``."""
    premise = sensitivity(growth, Norm.SMOOTH, adjacency)
    return rules.smooth_laplace(premise, scale).conclusion.guarantee


def above_threshold(
    moved: Number,
    adjacency: Adjacency,
    norm: Norm,
    *,
    scale: Fraction,
    query_scale: Fraction,
    by_range: bool = False,
) -> Guarantee:
    """Conclude by ``rules.above_threshold``."""
    premise = sensitivity(moved, norm, adjacency)
    made = rules.above_threshold(premise, scale=scale, query_scale=query_scale, by_range=by_range)
    return made.conclusion.guarantee


# --- composition --------------------------------------------------------------------------------


def compose(
    parts: Sequence[Guarantee], adjacency: Adjacency, *, by_profiles: bool = False
) -> Guarantee:
    """Conclude by ``rules.compose``."""
    made = rules.compose(*(claim(part, adjacency) for part in parts), by_profiles=by_profiles)
    return made.conclusion.guarantee


def adaptive_compose(
    parts: Sequence[Guarantee], adjacency: Adjacency, *, by_profiles: bool = False
) -> Guarantee:
    """Conclude by ``rules.adaptive_compose``."""
    premises = [claim(part, adjacency) for part in parts]
    return rules.adaptive_compose(premises, by_profiles=by_profiles).conclusion.guarantee


def advanced_compose(
    parts: Sequence[Guarantee], adjacency: Adjacency, *, slack: Fraction
) -> Guarantee:
    """Conclude by ``rules.advanced_compose``."""
    premises = [claim(part, adjacency) for part in parts]
    return rules.advanced_compose(premises, slack=slack).conclusion.guarantee


def parallel(
    parts: Sequence[Guarantee],
    by: Literal["index", "independent_label", "value"],
    adjacency: Adjacency,
    to: Adjacency | None = None,
    *,
    chained: bool = False,
) -> Guarantee:
    """Conclude by ``rules.parallel``."""
    premises = [claim(part, adjacency) for part in parts]
    derivation = rules.parallel(premises, by=by, adjacency=to, chained=chained)
    return derivation.conclusion.guarantee


# --- transfer -----------------------------------------------------------------------------------


def post_process(guarantee: Guarantee, adjacency: Adjacency) -> Guarantee:
    """Conclude by ``rules.post_process``."""
    return rules.post_process(claim(guarantee, adjacency), "a map").conclusion.guarantee


def convert(guarantee: Guarantee, adjacency: Adjacency, to: Guarantee) -> Guarantee:
    """Conclude by ``rules.convert``."""
    return rules.convert(claim(guarantee, adjacency), to).conclusion.guarantee


def group_privacy(guarantee: Guarantee, adjacency: Adjacency, size: int) -> Guarantee:
    """Conclude by ``rules.group_privacy``."""
    return rules.group_privacy(claim(guarantee, adjacency), size).conclusion.guarantee


def change_adjacency(guarantee: Guarantee) -> Guarantee:
    """Conclude by ``rules.change_adjacency``, from add-remove to replace."""
    premise = claim(guarantee, Adjacency.ADD_REMOVE)
    return rules.change_adjacency(premise, to=Adjacency.REPLACE).conclusion.guarantee


def coupled_map(
    guarantee: Guarantee, apart: int, within: Adjacency, adjacency: Adjacency
) -> Guarantee:
    """Conclude by ``rules.coupled_map``, from datasets that differ as ``within`` says to all
    neighbors."""
    coupling = sensitivity(apart, Norm.COUPLED, adjacency, keeps=within)
    return rules.coupled_map(claim(guarantee, within), coupling).conclusion.guarantee


# --- single records -----------------------------------------------------------------------------


TABLE = TableDomain("enumerated", (("cell", "a number or a word"),))


def of_each_record(guarantee: Guarantee, adjacency: Adjacency) -> Guarantee:
    """Conclude by ``rules.of_each_record``, from records to a table's rows."""
    made = rules.of_each_record(claim(guarantee, adjacency), domain=TABLE, by="a function")
    assert made.conclusion.domain == TABLE
    return made.conclusion.guarantee


def of_kept_records(
    guarantee: Guarantee, adjacency: Adjacency, *, within: Adjacency = Adjacency.ADD_REMOVE
) -> Guarantee:
    """Conclude by ``rules.of_kept_records``, from records to a table's rows."""
    made = rules.of_kept_records(
        claim(guarantee, within), domain=TABLE, adjacency=adjacency, by="a function"
    )
    assert (made.conclusion.domain, made.conclusion.adjacency) == (TABLE, adjacency)
    return made.conclusion.guarantee


# --- events -------------------------------------------------------------------------------------


def add_delta_event(guarantee: Guarantee, adjacency: Adjacency, probability: Fraction) -> Guarantee:
    """Conclude by ``rules.add_delta_event``: the claim holds off an event of the output."""
    rare = event(probability, adjacency, SHOWN)
    return rules.add_delta_event(claim(guarantee, adjacency, SHOWN), rare).conclusion.guarantee


def add_total_variation_event(
    guarantee: Guarantee, adjacency: Adjacency, probability: Fraction
) -> Guarantee:
    """Conclude by ``rules.add_total_variation_event``: the claim is about a law this close."""
    rare = event(probability, adjacency, HIDDEN)
    made = rules.add_total_variation_event(claim(guarantee, adjacency, HIDDEN), rare)
    return made.conclusion.guarantee


def grouped_then_discharged(
    guarantee: Guarantee, adjacency: Adjacency, probability: Fraction, size: int
) -> Guarantee:
    """Take groups of a claim off an event first, and pay for the event afterwards: a false
    proof."""
    groups: Any = Groups(adjacency, size)
    taken = rules.group_privacy(claim(guarantee, adjacency, SHOWN), size)
    rare = event(probability, groups, SHOWN)
    return rules.add_delta_event(taken, rare).conclusion.guarantee


def replaced_then_discharged(guarantee: Guarantee, probability: Fraction) -> Guarantee:
    """Change the adjacency of a claim off an event first, pay for the event afterwards: as
    false."""
    open_ = claim(guarantee, Adjacency.ADD_REMOVE, SHOWN)
    taken = rules.change_adjacency(open_, to=Adjacency.REPLACE)
    rare = event(probability, Adjacency.REPLACE, SHOWN)
    return rules.add_delta_event(taken, rare).conclusion.guarantee


NUMBER = Quantity.of("the number of records", "Number")
STAGE = "number"
GATED = Passed(STAGE, 1)
BELOW = Compared(STAGE, Relation.AT_MOST, Side.SMALLER, NUMBER)


def at(released: int) -> Compared:
    """Assume that a number from which a stage is built is at most the smaller number of records."""
    return Compared(STAGE, Relation.AT_MOST, Side.SMALLER, NUMBER, value=released)


def lowered_number(moved: Number, shift: int) -> Derivation[Sensitivity]:
    """State how far the number of records, less a public shift, moves."""
    query = Quantity.of(NUMBER.words, NUMBER.kind, shift=shift)
    return sensitivity(moved, Norm.L1, Adjacency.ADD_REMOVE, query=query)


def built_at(released: int, moved: Number, scale: Fraction) -> Derivation[PrivacyClaim]:
    """Claim, of what is built from a released number, what holds if that is gated and not too
    large."""
    under = (GATED, at(released))
    premise = sensitivity(moved, Norm.L1, Adjacency.ADD_REMOVE, hypotheses=under)
    return rules.discrete_laplace(premise, scale)


def for_each_release(built: Derivation[PrivacyClaim]) -> Derivation[PrivacyClaim]:
    """Conclude by ``rules.for_each_release``."""
    return rules.for_each_release(built, (BELOW,))


def passed_gate(built: Derivation[PrivacyClaim]) -> Derivation[PrivacyClaim]:
    """Conclude by ``rules.passed_gate``, for a gate at 1."""
    return rules.passed_gate(built, STAGE, 1)


def assume(whole: Derivation[PrivacyClaim]) -> Derivation[PrivacyClaim]:
    """Conclude by ``rules.assume``: that the number is at most the smaller one."""
    return rules.assume(whole, BELOW)


def released_event(
    released: Derivation[PrivacyClaim], probability: Fraction
) -> Derivation[EventBound]:
    """Conclude by ``rules.released_event``: that the number is above the smaller one."""
    return rules.released_event(BELOW, released, probability=probability)


def kept_by_noise(
    score: Number,
    adjacency: Adjacency,
    *,
    sigma: Fraction,
    threshold: int,
    records: int,
    probability: Fraction,
) -> Fraction:
    """Bound by ``rules.kept_by_noise`` how likely a record is kept that has too few friends."""
    premise = sensitivity(score, Norm.L_INFINITY, adjacency, keeps=friendly())
    made = rules.kept_by_noise(
        premise, sigma=sigma, threshold=threshold, records=records, probability=probability
    )
    return made.conclusion.probability


def stability_histogram(
    moved: Number, norm: Norm, adjacency: Adjacency, *, scale: Fraction, threshold: int
) -> Guarantee:
    """Conclude by ``rules.stability_histogram``."""
    keys = sensitivity(moved, norm, adjacency)
    made = rules.stability_histogram(keys, scale=scale, threshold=threshold)
    return made.conclusion.guarantee


def propose_test_release(
    values: int, adjacency: Adjacency, *, scale: Fraction, threshold: int
) -> Guarantee:
    """Conclude by ``rules.propose_test_release``."""
    stable = sensitivity(values, Norm.STABLE, adjacency)
    made = rules.propose_test_release(stable, scale=scale, threshold=threshold)
    return made.conclusion.guarantee


def gaussian_stability_histogram(
    moved: Number, norm: Norm, adjacency: Adjacency, *, sigma: Fraction, threshold: int
) -> Guarantee:
    """Conclude by ``rules.gaussian_stability_histogram``."""
    keys = sensitivity(moved, norm, adjacency)
    made = rules.gaussian_stability_histogram(keys, sigma=sigma, threshold=threshold)
    return made.conclusion.guarantee


def privacy_filter(
    steps: Iterable[Guarantee], adjacency: Adjacency, *, budget: Guarantee
) -> Guarantee:
    """Conclude by ``rules.privacy_filter``, of the steps of one path."""
    made = [claim(step, adjacency) for step in steps]
    return rules.privacy_filter(made, budget=budget).conclusion.guarantee


# --- filters ------------------------------------------------------------------------------------


def friendly_lift(
    guarantee: Guarantee, moved: Fraction, adjacency: Adjacency, *, strangers: int | None = None
) -> Guarantee:
    """Conclude by ``rules.friendly_lift``; ``moved``: the sum of changes of keep-probabilities."""
    inner = claim(guarantee, friendly(strangers=strangers))
    stability = sensitivity(moved, Norm.KEEP, adjacency)
    return rules.friendly_lift(inner, stability).conclusion.guarantee


def noisy_degree_lift(
    guarantee: Guarantee,
    adjacency: Adjacency,
    *,
    inside: Number,
    outside: Number,
    missed: Fraction,
    sigma: Fraction,
    strangers: int | None = None,
    kept: int | None = None,
) -> Guarantee:
    """Conclude by ``rules.noisy_degree_lift``, at the least budget that it takes.

    strangers: how many the claim behind the filter allows. kept: how many a kept record has.
    """
    part = guarantee.gaussian
    exchange = adjacency is Adjacency.REPLACE
    square = Fraction(0) if part is None else part.mu_squared
    keeps = friendly(strangers=kept, exchange=exchange)
    scores = Quantity.of("noisy scores", "NoisyScores", sigma=Fraction(sigma))
    absent = Absent("the event", Seen.LATENT, scores)
    made = rules.noisy_degree_lift(
        claim(guarantee, friendly(strangers=strangers, exchange=exchange)),
        sensitivity(inside, Norm.SQUARED_L2, adjacency, keeps=keeps, hypotheses=(absent,)),
        sensitivity(outside, Norm.SQUARED_L2, adjacency),
        event(missed, adjacency, absent),
        budget=max(inside / sigma**2 + square, outside / sigma**2),
    )
    return made.conclusion.guarantee
