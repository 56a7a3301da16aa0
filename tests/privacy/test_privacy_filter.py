"""The rule for requests chosen after seeing answers: its conclusions and its refusals."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpverify.privacy import (
    Adjacency,
    ApproxDP,
    ApproximateGaussianDP,
    Domain,
    GaussianDP,
    Guarantee,
    PerfectPrivacy,
    PureDP,
    Status,
    ZeroConcentratedDP,
    rules,
)
from dpverify.privacy.hypotheses import Absent, Quantity, Seen
from spec.theory.adaptive import privacy_filter as spec_filter

from .makers import conjectured, fractions, proved

BUDGET = ApproximateGaussianDP(1, "1e-6", "1e-7")
_AMOUNT = fractions(Fraction(1, 1000), Fraction(2, 3))
_EVENT = st.sampled_from([Fraction(0), Fraction("5e-7"), Fraction("1e-6")])


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.lists(st.tuples(_AMOUNT, _EVENT, _EVENT), min_size=1, max_size=4))
def test_the_rule_concludes_where_the_spec_says_so(
    costs: list[tuple[Fraction, Fraction, Fraction]],
) -> None:
    steps = [conjectured(ApproximateGaussianDP.of_square(*cost)) for cost in costs]
    if spec_filter((BUDGET.mu_squared, BUDGET.delta, BUDGET.tv), costs):
        assert rules.privacy_filter(steps, budget=BUDGET).conclusion.guarantee == BUDGET
    else:
        with pytest.raises(ValueError, match="refused before it is answered"):
            rules.privacy_filter(steps, budget=BUDGET)


def test_the_conclusion_is_the_budget_and_as_weak_as_its_steps() -> None:
    shown = rules.privacy_filter([proved("1/4"), proved("1/2")], budget=PureDP(1))
    assert shown.conclusion.guarantee == PureDP(1)
    assert shown.status is Status.PROVED
    assert len(shown.premises) == 2
    weak = rules.privacy_filter([proved("1/4"), conjectured(PureDP("1/4"))], budget=PureDP(1))
    assert weak.status is Status.CONJECTURED


@pytest.mark.parametrize(
    ("step", "budget"),
    [
        (PureDP("1/2"), GaussianDP(1)),
        (PerfectPrivacy(), GaussianDP(1)),
        (PerfectPrivacy(), PureDP(1)),
        (PureDP(1), ApproxDP(1, "1e-6")),
    ],
    ids=str,
)
def test_a_step_may_be_stronger_than_the_budget_s_kind(step: Guarantee, budget: Guarantee) -> None:
    assert rules.privacy_filter([conjectured(step)], budget=budget).conclusion.guarantee == budget


@pytest.mark.parametrize(
    ("step", "budget", "said"),
    [
        (GaussianDP(1), PureDP(1), "no cost that is known"),
        (ZeroConcentratedDP("1/8"), GaussianDP(1), "convert"),
        (ApproxDP("1/2", "1e-9"), PureDP(1), "delta = 1e-09 in all, and the limit is 0"),
        (PureDP("1/2"), ZeroConcentratedDP(1), "a filter's limits are those of"),
    ],
    ids=str,
)
def test_what_has_no_sum_is_refused(step: Guarantee, budget: Guarantee, said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        rules.privacy_filter([conjectured(step)], budget=budget)


def test_steps_are_about_one_world_and_closed() -> None:
    one = proved("1/4")
    with pytest.raises(ValueError, match="same adjacency"):
        rules.privacy_filter([one, proved("1/4", adjacency=Adjacency.REPLACE)], budget=PureDP(1))
    with pytest.raises(ValueError, match="same domain"):
        rules.privacy_filter([one, proved("1/4", domain=Domain(columns=2))], budget=PureDP(1))
    with pytest.raises(ValueError, match="nothing to compose"):
        rules.privacy_filter([], budget=PureDP(1))
    absent = Absent("the event", Seen.OUTPUT, Quantity.of("the count", "Tested"))
    with pytest.raises(ValueError, match="without hypotheses"):
        rules.privacy_filter([conjectured(PureDP("1/4"), hypotheses=[absent])], budget=PureDP(1))
    with pytest.raises(TypeError, match="not a guarantee"):
        rules.privacy_filter([one], budget="pure(1)")  # type: ignore[arg-type]
