"""Every call of a rule, and every making of a premise, that the enumerations need.

The numbers come from enumeration: how far a query moves, how likely an event is, which claims hold
of the stages. Each adapter is named after its rule and returns the guarantee of the conclusion.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    rules,
)
from dpverify.privacy.adjacency import AnyAdjacency, Friendly, Groups
from dpverify.privacy.derivation import EventBound

Number = int | Fraction
COLUMN = Domain(columns=1)
PREDICATE = "joined by an edge"
_OBLIGATION = "theory/queries.py:obligation_count"
_SOURCE = Source("OURS", "shown by enumeration of a small graph")


# --- premises -----------------------------------------------------------------------------------


def sensitivity(moved: Number, norm: Norm, adjacency: AnyAdjacency) -> Derivation[Sensitivity]:
    """State how far a query moves on the edges of a graph."""
    return rules.sensitivity_lemma(
        "the query",
        norm=norm,
        value=moved,
        adjacency=adjacency,
        domain=COLUMN,
        obligation=_OBLIGATION,
        source=_SOURCE,
        predicate=PREDICATE if norm is Norm.KEEP else "",
    )


def event(
    probability: Fraction, adjacency: AnyAdjacency, *, in_output: bool
) -> Derivation[EventBound]:
    """State how likely an event is on the nodes of a graph."""
    return rules.event_lemma(
        "the event",
        probability=probability,
        in_output=in_output,
        adjacency=adjacency,
        domain=COLUMN,
        obligation=_OBLIGATION,
        source=_SOURCE,
    )


def claim(guarantee: Guarantee, adjacency: AnyAdjacency) -> Derivation[PrivacyClaim]:
    """State a guarantee that was judged on the edges of a graph."""
    return rules.conjecture(guarantee, adjacency=adjacency, domain=COLUMN)


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
) -> Guarantee:
    """Conclude by ``rules.parallel``."""
    premises = [claim(part, adjacency) for part in parts]
    return rules.parallel(premises, by=by, adjacency=to).conclusion.guarantee


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


# --- events -------------------------------------------------------------------------------------


def add_delta_event(guarantee: Guarantee, adjacency: Adjacency, probability: Fraction) -> Guarantee:
    """Conclude by ``rules.add_delta_event``: the claim holds off an event of the output."""
    rare = event(probability, adjacency, in_output=True)
    return rules.add_delta_event(claim(guarantee, adjacency), rare).conclusion.guarantee


def add_total_variation_event(
    guarantee: Guarantee, adjacency: Adjacency, probability: Fraction
) -> Guarantee:
    """Conclude by ``rules.add_total_variation_event``: the claim is about a law this close."""
    rare = event(probability, adjacency, in_output=False)
    return rules.add_total_variation_event(claim(guarantee, adjacency), rare).conclusion.guarantee


def grouped_then_discharged(
    guarantee: Guarantee, adjacency: Adjacency, probability: Fraction, size: int
) -> Guarantee:
    """Take groups of a claim off an event first, and pay for the event afterwards: a false proof."""
    groups: Any = Groups(adjacency, size)
    taken = rules.group_privacy(claim(guarantee, adjacency), size)
    rare = event(probability, groups, in_output=True)
    return rules.add_delta_event(taken, rare).conclusion.guarantee


def replaced_then_discharged(guarantee: Guarantee, probability: Fraction) -> Guarantee:
    """Change the adjacency of a claim off an event first, pay for the event afterwards: as false."""
    taken = rules.change_adjacency(claim(guarantee, Adjacency.ADD_REMOVE), to=Adjacency.REPLACE)
    rare = event(probability, Adjacency.REPLACE, in_output=True)
    return rules.add_delta_event(taken, rare).conclusion.guarantee


def stability_histogram(
    moved: Number, norm: Norm, adjacency: Adjacency, *, scale: Fraction, threshold: int
) -> Guarantee:
    """Conclude by ``rules.stability_histogram``."""
    keys = sensitivity(moved, norm, adjacency)
    made = rules.stability_histogram(keys, scale=scale, threshold=threshold)
    return made.conclusion.guarantee


def gaussian_stability_histogram(
    moved: Number, norm: Norm, adjacency: Adjacency, *, sigma: Fraction, threshold: int
) -> Guarantee:
    """Conclude by ``rules.gaussian_stability_histogram``."""
    keys = sensitivity(moved, norm, adjacency)
    made = rules.gaussian_stability_histogram(keys, sigma=sigma, threshold=threshold)
    return made.conclusion.guarantee


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
) -> Guarantee:
    """Conclude by ``rules.noisy_degree_lift``, at the least budget that it takes."""
    part = guarantee.gaussian
    assert part is not None
    exchange = adjacency is Adjacency.REPLACE
    made = rules.noisy_degree_lift(
        claim(guarantee, friendly(strangers=strangers, exchange=exchange)),
        sensitivity(inside, Norm.SQUARED_L2, adjacency),
        sensitivity(outside, Norm.SQUARED_L2, adjacency),
        event(missed, adjacency, in_output=True),
        sigma=sigma,
        budget=max(inside / sigma**2 + part.mu_squared, outside / sigma**2),
    )
    return made.conclusion.guarantee
