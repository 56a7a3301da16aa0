"""Plans: fixed questions under their full profile, paid for by one line of the account."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dpverify import (
    Adjacency,
    ApproxDP,
    Boolean,
    BoundedMean,
    BudgetExceeded,
    Category,
    ClippedMean,
    GaussianDP,
    NoisyCount,
    Number,
    PureDP,
    SeededBits,
    Session,
    Table,
)
from dpverify.privacy import BoundedRange

ADD = Adjacency.ADD_REMOVE
TABLE = Table(
    {"x": [1.0, 2.0, 3.0] * 50, "g": ["a", "b", "b"] * 50, "ok": [True, False, None] * 50},
    columns={"x": Number(0, 4, missing=0), "g": Category("a", "b"), "ok": Boolean()},
)


def session(budget: Any, **how: Any) -> Session:
    return Session(TABLE, budget=budget, adjacency=ADD, bits=SeededBits(1), **how)


def test_a_plan_gets_the_whole_budget_as_it_was_given() -> None:
    """Share (1, 1e-6): Laplace noise for two questions has half of epsilon; in the account's own
    unit it would be three times it."""
    one = session(ApproxDP(1, "1e-6"))
    plan = one.plan()
    names = [plan.mean("x"), plan.histogram("g")]
    answers = plan.answer()
    assert names == ["mean of x", "histogram of g"] == list(answers)
    mean = answers["mean of x"]
    assert type(mean.mechanism) is BoundedMean
    assert mean.mechanism.noise_multiplier == pytest.approx(2, rel=1e-5)
    assert one.left is None
    assert str(one.derivation.conclusion).startswith("approx(1, 1e-6) under add-remove")
    with pytest.raises(BudgetExceeded):
        one.count(share="1/100")


def test_a_resumed_session_derives_plans_again(tmp_path: Any) -> None:
    for budget, share in ((ApproxDP(1, "1e-6"), 1), (GaussianDP(1), "1/2")):
        path = tmp_path / f"{share}.jsonl".replace("/", "-")
        one = session(budget, account=path)
        plan = one.plan()
        plan.mean("x", where={"ok": [True]}, by="g")
        plan.histogram("x", 2, share=2)
        plan.answer(share=share)
        again = Session.resume(path, TABLE)
        assert str(again.derivation) == str(one.derivation)


def test_many_questions_get_gaussian_noise() -> None:
    plan = session(ApproxDP(1, "1e-6")).plan()
    for low in range(15):
        plan.count(where={"x": (low / 5, low / 5 + 1)})
    answers = plan.answer()
    noise = {answer.mechanism.parameters["noise"] for answer in answers.values()}
    assert noise == {"gaussian"}


def test_a_median_beside_gaussian_noise_gets_a_range_of_twice_its_mu() -> None:
    one = session(ApproxDP(1, "1e-6"), accounting="gaussian")
    plan = one.plan()
    plan.mean(["x"], share=5)
    plan.mean("x", where={"ok": [True]}, share=5)
    plan.count(share=5)
    for low in range(9):
        plan.count(where={"x": (low / 5, low / 5 + 1)}, share=5)
    plan.median("x")
    answers = plan.answer()
    mean, median = answers["mean of x"], answers["median of x"]
    mu = 1 / mean.mechanism.noise_multiplier
    assert type(mean.mechanism) is ClippedMean
    claimed = median.derivation.conclusion.guarantee
    assert isinstance(claimed, BoundedRange)
    assert float(claimed.epsilon) == pytest.approx(float(2 * mu / 5), rel=1e-9)
    assert answers.derivation.conclusion.guarantee == ApproxDP(1, "1e-6")


def test_questions_that_differ_in_a_parameter_are_two() -> None:
    plan = session(PureDP(1)).plan()
    names = [plan.quantile("x", at=at) for at in ("1/4", "3/4")]
    names += [plan.release(NoisyCount, ()), plan.release(BoundedMean, "x", lower=0, upper=4)]
    assert names[:2] == ["quantile of x, at = 1/4", "quantile of x, at = 3/4"]
    assert list(plan.answer()) == names


def test_weights_divide_the_budget() -> None:
    plan = session(PureDP(1)).plan()
    plan.count(share=3)
    plan.sum("x")
    answers = plan.answer()
    claims = [answer.derivation.conclusion.guarantee for answer in answers.values()]
    assert claims == [PureDP("3/4"), PureDP("1/4")]


def test_a_later_plan_gets_a_share_in_the_accounts_unit() -> None:
    one = session(ApproxDP(1, "1e-6"))
    one.count(share="1/2")
    plan = one.plan()
    plan.count(by="g")
    plan.sum("x")
    with pytest.raises(BudgetExceeded):
        plan.answer()
    answers = plan.answer(share="1/2")
    half = one.account.limit.amount / 2
    assert half * (1 - 10**-9) <= answers.spend.cost.amount <= half
    assert len(one.log) == 2
    assert one.derivation.conclusion.guarantee == ApproxDP(1, "1e-6")


@pytest.mark.parametrize(
    ("ask", "kind", "message"),
    [
        (lambda plan: plan.answer(), ValueError, "no questions"),
        (lambda plan: plan.mean("g"), TypeError, "ask for a histogram"),
        (lambda plan: plan.count(budget=PureDP(1)), ValueError, "has a weight, share=2"),
        (lambda plan: plan.count(share=0), ValueError, "not positive"),
        (lambda plan: [plan.count(), plan.count()], ValueError, "in the plan already"),
    ],
)
def test_a_bad_plan_is_refused_before_anything_is_spent(
    ask: Callable[[Any], Any], kind: type[Exception], message: str
) -> None:
    one = session(GaussianDP(1))
    with pytest.raises(kind, match=message):
        ask(one.plan())
    assert one.log == ()


def test_the_whole_budget_goes_to_a_first_request_alone() -> None:
    first, second = session(PureDP(1)), session(PureDP(1))
    derived = first.count(share=1).derivation
    second.count(share="1/2")
    with pytest.raises(BudgetExceeded, match="first and only request"):
        second.account.spend_whole("everything", derived)
    weaker = session(PureDP("1/2")).count(share=1).derivation
    with pytest.raises(ValueError, match="does not imply"):
        session(PureDP("1/4")).account.spend_whole("more than there is", weaker)
