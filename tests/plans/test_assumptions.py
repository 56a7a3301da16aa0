"""Assumptions of stages on released numbers: paid for in shipped plans, refused where they are
not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from dpverify.grid.nearness import Nearness
from dpverify.grid.retained import below_kept
from dpverify.plans import (
    UNIT,
    Adaptive,
    Filtered,
    Gate,
    KeptCount,
    KeptMean,
    Part,
    Plan,
    RoundedGaussian,
    Stage,
    Unless,
)
from dpverify.plans.plan import as_declared, derive
from dpverify.plans.walking import with_stages
from dpverify.privacy import Adjacency, Domain, PrivacyClaim, rules
from dpverify.privacy.adjacency import Friendly
from dpverify.privacy.guarantees import ApproximateGaussianDP
from dpverify.privacy.hypotheses import Compared
from dpverify.suite.trees import load
from dpverify.transformations import Agreement
from dpverify.transformations.degree_weights import WeightedMean
from dpverify.transformations.gaussian_filter import GaussianFilter
from dpverify.transformations.means import GaussianCoreMean, WeightedCoreMean

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
NEAR, FAR = Nearness(4, 0, (1.0,)), Nearness(8, 0, (1.0,))
DOMAIN = Domain(columns=1)
FRIENDS = Friendly(NEAR.predicate)
OPEN = r"The claim of (this plan|the part 'mean') is open"


@cache
def shipped() -> dict[str, Any]:
    """Return the shipped mechanisms whose plans pay for an event."""
    mechanisms = {key: made.mechanism for key, made in load(None).configurations.items()}
    return {key: made for key, made in mechanisms.items() if "Unless" in repr(made.fixed_plan)}


def without(plan: Plan, dropped: Callable[[Any], bool]) -> Plan:
    """Return the plan without some elements, those of inner plans and parts among them, as
    declared and as built."""

    def inside(stage: Any) -> Any:
        if isinstance(stage, Filtered):
            return dataclasses.replace(stage, inner=without(stage.inner, dropped))
        if isinstance(stage, Part):
            return dataclasses.replace(stage, plan=without(stage.plan, dropped))
        return stage

    def element(part: Any) -> Any:
        if isinstance(part, Adaptive):
            return dataclasses.replace(
                part, declared=inside(part.declared), build=lambda key: inside(part.build(key))
            )
        return inside(part)

    return tuple(element(part) for part in plan if not dropped(part))


def made_with(mechanism: Any, change: Callable[[Plan], Plan]) -> Any:
    """Return the mechanism of the same parameters with another plan."""
    own = type(mechanism)

    def plan(self: Any) -> Plan:
        return change(own.plan(self))

    other = type(own.__name__, (own,), {"plan": plan, "__slots__": ()})
    return other(**mechanism.parameters)


def test_eleven_shipped_plans_pay_for_events_and_say_so() -> None:
    assert len(shipped()) >= 11
    for mechanism in shipped().values():
        assert mechanism.derivation.events
        assert not mechanism.claim.hypotheses
        made_with(mechanism, lambda plan: plan)  # the same plan is accepted


def test_a_plan_that_forgets_its_unless_is_refused_when_the_mechanism_is_made() -> None:
    for mechanism in shipped().values():
        with pytest.raises(ValueError, match=rf"{OPEN}|without hypotheses"):
            made_with(mechanism, lambda plan: without(plan, lambda e: isinstance(e, Unless)))


def test_an_unless_that_pays_too_little_is_refused() -> None:
    def cheap(plan: Plan) -> Plan:
        def element(part: Any) -> Any:
            if isinstance(part, Unless):
                return dataclasses.replace(part, probability=part.probability / 1000)
            if isinstance(part, Part):
                return dataclasses.replace(part, plan=cheap(part.plan))
            if isinstance(part, Adaptive) and isinstance(part.declared, Part):
                return dataclasses.replace(part, declared=element(part.declared))
            inner = getattr(part, "inner", None)
            return part if inner is None else dataclasses.replace(part, inner=cheap(inner))

        return tuple(element(part) for part in plan)

    for mechanism in shipped().values():
        every = every_element(mechanism.fixed_plan)
        paid = [e for e in every if isinstance(e, Unless) and e.probability]
        if paid or any(isinstance(e, Filtered) for e in mechanism.fixed_plan):
            with pytest.raises(ValueError, match="give a larger shift"):
                made_with(mechanism, cheap)


def every_element(plan: Plan) -> list[Any]:
    """Return the elements of a plan and of its parts, as declared."""
    elements: list[Any] = []
    for shown in map(as_declared, plan):
        elements += every_element(shown.plan) if isinstance(shown, Part) else [shown]
    return elements


def gates_the_mean(element: Any) -> bool:
    return isinstance(element, Gate) and element.stage == "agreement"


def test_a_plan_that_forgets_the_gate_before_its_mean_is_refused() -> None:
    gated = [
        made
        for made in shipped().values()
        if any(map(gates_the_mean, every_element(made.fixed_plan)))
    ]
    assert len(gated) >= 8
    for mechanism in gated:
        with pytest.raises(ValueError, match=OPEN):
            made_with(mechanism, lambda plan: without(plan, gates_the_mean))


def test_a_shift_that_is_lost_is_refused() -> None:
    """Declared and built alike: what is released is then above the truth half of the time."""

    def unshifted(stage: Stage) -> Stage:
        if hasattr(stage.query, "shift"):
            query: Any = stage.query
            return dataclasses.replace(stage, query=dataclasses.replace(query, shift=0))
        return stage

    for mechanism in shipped().values():
        with pytest.raises(ValueError, match="give a larger shift"):
            made_with(mechanism, lambda plan: with_stages(plan, unshifted))


# --- false statements -----------------------------------------------------------------------------


def open_(plan: Plan, about: Any = FRIENDS) -> PrivacyClaim:
    claim = derive(plan, about, DOMAIN).conclusion
    assert claim.hypotheses
    assert "[proved]" not in str(claim)
    return claim


def test_a_mean_of_a_number_that_somebody_typed_in_is_open_and_stays_so() -> None:
    """The truth for a released number of a million is 250,000 times what a Gaussian of 1/4 would
    be."""
    stage = Stage("mean", KeptMean(NEAR, Fraction(4), 10**6), RoundedGaussian(UNIT))
    with pytest.raises(ValueError, match="No stage before it is named 'kept'"):
        derive((stage,), FRIENDS, DOMAIN)
    kept = Stage("kept", KeptCount(NEAR, 20), RoundedGaussian(3))
    assumed = open_((kept, stage)).hypotheses
    assert {h.value for h in assumed if isinstance(h, Compared)} == {10**6}
    below = below_kept("kept", NEAR)
    with pytest.raises(ValueError, match="the claim does not rest on its absence"):
        derive((kept, stage, Unless(below, Fraction(1, 100))), FRIENDS, DOMAIN)


def test_a_filter_for_so_many_records_is_open_unless_the_domain_has_no_more() -> None:
    core = GaussianCoreMean(ADD, NEAR, Fraction(1, 2), 2000, Fraction(1, 10**6))
    declared = next(e.declared for e in core.plan if isinstance(e, Adaptive))
    assert isinstance(declared, Filtered)
    assert isinstance(declared.filter, GaussianFilter)
    derivation = declared.derivation(ADD, DOMAIN)
    assert derivation.rule == "noisy degree lift"
    most = declared.filter.most_rows
    assert str(most) in str(derivation.conclusion)
    assert "[proved]" not in str(derivation.conclusion)
    with pytest.raises(ValueError, match="without hypotheses"):
        rules.convert(derivation, ApproximateGaussianDP(9, "0.1"))
    with pytest.raises(ValueError, match="without hypotheses"):
        rules.group_privacy(derivation, 2)
    for rows, closed in ((most, True), (most - 1, True), (most + 1, False)):
        bounded = declared.derivation(ADD, Domain(columns=1, most_rows=rows)).conclusion
        assert (not bounded.hypotheses) is closed


def test_an_inner_unless_of_no_probability_is_refused() -> None:
    core = GaussianCoreMean(ADD, NEAR, Fraction(1, 2), 2000, Fraction(1, 10**6))
    declared = next(e.declared for e in core.plan if isinstance(e, Adaptive))
    assert isinstance(declared, Filtered)
    free = tuple(
        dataclasses.replace(e, probability=Fraction(0)) if isinstance(e, Unless) else e
        for e in declared.inner
    )
    with pytest.raises(ValueError, match="give a larger shift"):
        derive(free, declared.filter.friendly, DOMAIN)


def test_an_agreement_by_another_predicate_does_not_pay_for_the_mean() -> None:
    core = WeightedCoreMean(ADD, NEAR, Fraction(1), 2000, Fraction(1, 10**6))
    rows, gate, mean, unless = core.plan
    derive(core.plan, ADD, DOMAIN)
    assert isinstance(rows, Stage)
    assert isinstance(mean, Stage)
    other = dataclasses.replace(rows, query=Agreement(FAR, core.shift))
    with pytest.raises(ValueError, match="the stage releases"):
        derive((other, gate, mean, unless), ADD, DOMAIN)
    wrong = dataclasses.replace(mean, query=WeightedMean(FAR, core.spread, ADD))
    with pytest.raises(ValueError, match="the claim does not rest on its absence"):
        derive((rows, gate, wrong, unless), ADD, DOMAIN)
    with pytest.raises(ValueError, match="has no stage 'agreement'"):
        derive((dataclasses.replace(rows, name="agreed"), unless), ADD, DOMAIN)


def test_a_second_init_changes_no_plan() -> None:
    """Refuse it: what runs would change, and the claim would not."""
    mechanism = next(iter(shipped().values()))
    stage: Any = mechanism.fixed_plan[0]
    for made, given in (
        (stage, (stage.name, stage.query, RoundedGaussian(1))),
        (stage.noise, (Fraction(1, 1000),)),
        (stage.query, (NEAR, 0)),
        (mechanism.fixed_plan[-1], (None, Fraction(0))),
    ):
        with pytest.raises(TypeError, match="is made already"):
            made.__init__(*given)
