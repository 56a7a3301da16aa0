"""Sessions: what is known before anything is spent, what is spent, and how a session goes on."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify import (
    Account,
    ApproxDP,
    BudgetExceeded,
    GaussianDP,
    NoisyCount,
    Number,
    PureDP,
    RobustMean,
    SeededBits,
    Session,
    Table,
)
from dpverify.session import ReleaseFailed
from tests.session.small_table import ADD, REPLACE, TABLE, Ask, N, session

# --- before anything is spent -------------------------------------------------------------------


def test_the_expected_error_is_known_before_and_spends_nothing() -> None:
    one = session(PureDP(1))
    assert one.expected_error("count", share="1/2") == pytest.approx(2 * 2**0.5, rel=0.02)
    at = one.expected_error("mean", "bmi", share="1/2", n=1000)
    assert one.expected_error("mean", "bmi", share="1/2", n=2000) == pytest.approx(at / 2)
    with pytest.raises(ValueError, match="private here; give n="):
        one.expected_error("mean", "bmi", share="1/2")
    public = session(PureDP(1), adjacency=REPLACE)
    assert public.expected_error("mean", "bmi", share=1) > 0
    with pytest.raises(ValueError, match="private here; give n="):
        public.expected_error("mean", "bmi", share=1, where={"age": (30, 50)})
    told = one.expected_error("variance", "bmi", budget=GaussianDP(1), n=N)
    noise = one.expected_error("mean", "bmi", budget=GaussianDP(1), n=N)
    assert told == pytest.approx(
        noise * 15, rel=0.5
    )  # half the range is 15: z^2 has the noise of z
    assert one.log == public.log == ()


def test_a_level_and_a_share_may_be_given_as_they_are_written() -> None:
    """A float counts as its shortest decimal: .9 is nine tenths, and ten shares of .1 are the
    whole."""
    ask: Any = {"share": 0.5}
    assert (
        session().quantile("bmi", 0.9, **ask).value
        == session().quantile("bmi", "9/10", share="1/2").value
    )
    listed: list[Any] = [[0.1, 0.5, 0.9], np.array([0.1, 0.5, 0.9]), (Fraction(1, 10), "1/2", 0.9)]
    for levels in listed:
        quantiles = session().quantiles("bmi", levels, **ask)
        assert quantiles.value == session().quantiles("bmi", ["1/10", ".5", ".9"], **ask).value
    with pytest.raises(ValueError, match="write a simpler fraction"):
        session().quantile("bmi", 1 / 3, **ask)
    with pytest.raises(ValueError, match="give a finite number"):
        session().quantile("bmi", float("nan"), **ask)


def test_the_expected_error_of_several_quantiles_is_that_of_their_mechanisms() -> None:
    one = session()
    asked: Any = {"share": "1/2", "n": N}
    deciles = one.quantiles("bmi", 9, share="1/2")
    told = one.expected_error("quantiles", "bmi", levels=9, **asked)
    assert told == deciles.mechanism.expected_error(N)
    two = [
        one.expected_error("quantile", "bmi", at=at, **asked | {"share": "1/4"})
        for at in (0.9, 0.5)
    ]
    for name in ("quantiles", "quantile"):
        given = {"levels": [0.5, 0.9]} if name == "quantiles" else {"at": (0.5, 0.9)}
        both = one.expected_error(name, "bmi", **asked, **given)
        assert both == pytest.approx(float(np.mean(np.square(two)) ** 0.5))
    with pytest.raises(TypeError, match="missing a required argument: 'levels'"):
        one.expected_error("quantiles", "bmi", **asked)


def test_noise_that_is_not_drawn_is_refused_before_anything_is_spent() -> None:
    one = session(GaussianDP("1e-20"))
    with pytest.raises(ValueError, match=r"drawn for standard deviations from 2\^-10 to 2\^45"):
        one.histogram("region", share=1)
    assert one.log == ()


def test_shares_add_up_to_the_whole_and_no_further() -> None:
    for accounting in ("epsilon", "gaussian"):
        one = session(accounting=accounting)
        for _ in range(3):
            one.count(share="1/3")
        assert one.left is None
        with pytest.raises(BudgetExceeded, match="left"):
            one.count(share="1/1000000")
        assert len(one.log) == 3
    tenths = session()
    for _ in range(10):
        tenths.count(share=0.1)  # the decimal number: ten times the float are more than 1
    assert tenths.left is None


def test_a_release_that_fails_costs_its_share_and_says_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = session()

    def broken(self: Any, data: Any, bits: Any) -> Any:
        raise RuntimeError(f"the secret is {data[0]}")

    monkeypatch.setattr(NoisyCount, "release", broken)
    with pytest.raises(ReleaseFailed, match="stays spent") as caught:
        one.count(share="1/3")
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert len(one.log) == 1


def test_a_spend_comes_before_a_record_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    one, order = session(), list[str]()
    spend, numbers = Account.spend, Table.numbers

    def noted(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            order.append(name)
            return method(*given)

        return call

    monkeypatch.setattr(Account, "spend", noted("spend", spend))
    monkeypatch.setattr(Table, "numbers", noted("read", numbers))
    one.mean("age", by="region", share="1/3")
    assert order[0] == "spend"
    assert "read" in order
    reads = order.count("read")
    with pytest.raises(BudgetExceeded):
        one.histogram("bmi", 5, share=1)
    assert order.count("read") == reads


def test_nothing_prints_a_record() -> None:
    secret = 38.125
    table = Table({"bmi": [secret] * 3}, columns={"bmi": Number(15, 45)})
    one = Session(table, budget=PureDP("1e-3"), adjacency=ADD, bits=SeededBits(1))
    answer = one.mean("bmi", share=1)
    for shown in (repr(one), str(one.account), repr(table), repr(one.log), str(answer)):
        assert "38.125" not in shown
    with pytest.raises(TypeError, match="not copied or pickled"):
        pickle.dumps(one)


# --- going on -----------------------------------------------------------------------------------


def test_a_session_goes_on_where_it_was(tmp_path: Any) -> None:
    path = tmp_path / "account.jsonl"
    first = session(account=path)
    first.count(share="1/2")
    second = Session.resume(path, TABLE, bits=SeededBits(2))
    assert second.account.budget == ApproxDP(8, "1e-6")
    assert second.log == first.log
    second.mean("bmi", share="1/2")
    with pytest.raises(BudgetExceeded):
        first.count(share="1/100")
    assert str(second.derivation.conclusion).startswith("approx(8, 1e-6) under add-remove")
    assert [step.conclusion.guarantee for step in _steps(second)] == [
        spend.guarantee for spend in second.log
    ]
    other = Table({"bmi": [20.0]}, columns={"bmi": Number(15, 40)})
    with pytest.raises(ValueError, match="claims about two tables do not add up"):
        Session.resume(path, other)


def _steps(one: Session) -> list[Any]:
    """Return the answers' claims in the session's derivation."""
    return list(one.derivation.premises[0].premises)


def test_a_session_is_one_derivation() -> None:
    one = session()
    one.mean("age", by="region", share="1/4")
    one.quantile("bmi", ["1/4", "3/4"], share="1/4")
    one.mean("age", budget=PureDP("1/100"))
    shown = str(one.derivation)
    for said in ("privacy filter", "parallel composition by value", "age", "approx(8, 1e-6)"):
        assert said in shown
    assert len(_steps(one)) == 3
    assert one.derivation.conclusion.domain == TABLE.domain


def test_a_table_is_a_snapshot_between_releases() -> None:
    data = {"bmi": np.full(50, 20.0)}
    table = Table(data, columns={"bmi": Number(15, 45, missing=30)})
    one = Session(table, budget=PureDP(10**7), adjacency=ADD, bits=SeededBits(1))
    before = one.mean("bmi", share="1/4").value
    data["bmi"][:] = 40.0
    data["bmi"] = np.zeros(0)
    assert one.mean("bmi", share="1/4").value == pytest.approx(before, abs=1e-4)
    assert before == pytest.approx(20, abs=1e-4)


def test_the_order_of_questions_does_not_matter_to_what_they_cost() -> None:
    asks: list[Ask] = [lambda s: s.count(share="1/4"), lambda s: s.mean("bmi", share="1/2")]
    one, other = session(), session()
    for ask in asks:
        ask(one)
    for ask in asks[::-1]:
        ask(other)
    assert one.left == other.left
    assert {s.cost for s in one.log} == {s.cost for s in other.log}


def test_a_robust_mean_pays_its_delta_from_the_account() -> None:
    one = Session(TABLE, budget=ApproxDP(8, "1e-6"), adjacency=ADD, bits=SeededBits(1))
    answer = one.robust_mean(["bmi", "age"], deviations=[4, 18], share="1/2", n_max=N)
    assert type(answer.mechanism) is RobustMean
    assert answer.spend.cost.delta > 0
    assert answer.spend.cost.amount <= one.account.limit.amount / 2
