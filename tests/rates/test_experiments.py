"""Experiments: what is refused, the same data for all, one guarantee, and orders that can be
refuted."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest
from scipy import stats

from dpverify import Abstained, Adjacency, BoundedMean, NoisyCount, PureDP
from dpverify.privacy import Status
from dpverify.rates import (
    Cell,
    Constant,
    Drawn,
    Experiment,
    Finding,
    Interval,
    NotPrivate,
    Order,
    Quick,
    RateFault,
    Reference,
    check_methods,
    judge_order,
    measure_cell,
    noise_times,
)

ADD, ALPHA = Adjacency.ADD_REMOVE, 1e-9
VALUES = (20, 40, 60, 80)
WORSE = noise_times(Fraction(1000))


def _count(times: int, budget: PureDP | None = None, adjacency: Adjacency = ADD) -> Any:
    """Return a count of so many times the least noise; at most 60 records."""

    def make(setting: Mapping[str, Any]) -> NoisyCount:
        if setting["n"] > 60:
            raise ValueError("more than 60 records are too many")
        least = NoisyCount.for_budget(budget or PureDP(1), adjacency=ADD)
        multiplier = least.noise_multiplier * times
        within = (-99.0, 99.0) if adjacency is Adjacency.REPLACE else None
        return dataclasses.replace(
            least, noise_multiplier=multiplier, adjacency=adjacency, within=within
        )

    return make


def _order(better: str = "count", worse: str = "zero", **changed: Any) -> Order:
    base: dict[str, Any] = {"where": {"few": VALUES[:3]}, "faulty": "count", "fault": WORSE}
    return Order(better=better, worse=worse, **base | changed)


def _experiment(**changed: Any) -> Experiment:
    """Build an experiment on counts of records: the error is the distance, the truth n."""
    base: dict[str, Any] = {
        "name": "counts",
        "methods": {
            "count": _count(1),
            "noisy": _count(100),
            "zero": Constant(lambda setting: 0),
            "exact": NotPrivate(lambda setting, data: len(data)),
        },
        "panels": {"few": {"spread": 1.0}, "wide": {"spread": 9.0}},
        "variable": "n",
        "values": VALUES,
        "draw": lambda setting, rng: Drawn(
            rng.normal(0, setting["spread"], setting["n"]), setting["n"]
        ),
        "error": lambda value, truth: abs(value - truth),
        "guarantee": PureDP(1),
        "adjacency": ADD,
        "references": {"theirs": Reference({"few": {20: 5.0, 40: 6.0}}, "made up")},
        "orders": (_order(),),
        "source": "made up",
    }
    return Experiment(**base | changed)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"repeats": 5}, "the median of fewer than 6 runs has no interval"),
        ({"methods": {"zero": Constant(lambda s: 0)}}, "no method is a mechanism"),
        ({"panels": {}}, "0 panels"),
        ({"values": (20, 20)}, "none twice"),
        ({"values": (20, "many")}, "are not all numbers"),
        ({"panels": {"few": {"n": 3}}}, "must fix n, and not n, which runs"),
        ({"variable": "d"}, "it must fix n"),
        ({"orders": ()}, "the orders are"),
        ({"orders": (_order(), _order())}, "none twice"),
        ({"orders": (_order(worse="nothing"),)}, "is not about two of"),
        ({"orders": (_order(worse="count"),)}, "is not about two of"),
        ({"orders": (_order(where={}),)}, "is about no panel"),
        ({"orders": (_order(where={"many": (20,)}),)}, "there are the panels"),
        ({"orders": (_order(where={"few": (21,)}),)}, "and the values"),
        ({"orders": (_order(faulty="zero"),)}, "lest it could never be refuted"),
        ({"orders": (_order(faulty="noisy"),)}, "lest it could never be refuted"),
        ({"orders": (_order(worse="theirs"),)}, "has no number for all of 'few'"),
        ({"references": {"count": Reference({}, "")}}, "a method and a reference"),
        ({"references": {"theirs": Reference({"all": {20: 1.0}}, "")}}, "a reference is about"),
        ({"quick": Quick(panels=("x",), values=(20,), methods=("count",))}, "the quick part"),
        ({"quick": Quick(panels=("few",), values=(20,), methods=("x",))}, "quick methods"),
        ({"quick": Quick(panels=("wide",), values=(20,), methods=("count",))}, "judges no order"),
    ],
)
def test_an_experiment_that_says_nothing_is_refused(changed: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _experiment(**changed)


def test_a_quick_run_keeps_what_it_is_told_and_what_is_left_of_orders() -> None:
    quick = Quick(panels=("few",), values=VALUES[:2], methods=("count", "zero"))
    orders = (_order(), _order(worse="theirs", where={"few": (20,)}), _order(worse="noisy"))
    kept = _experiment(quick=quick, orders=orders).reduced()
    assert [order.name for order in kept.orders] == ["count below zero", "count below theirs"]
    assert kept.orders[0].where == {"few": [20, 40]}
    assert (list(kept.methods), list(kept.panels)) == (["count", "zero"], ["few"])
    assert (kept.values, kept.comparisons) == ((20, 40), 2)
    whole = _experiment()
    assert whole.reduced() is whole


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            _count(1, PureDP(2)),
            r"other is pure\(2\) under add-remove \(proved\), and the experiment is",
        ),
        (_count(1, adjacency=Adjacency.REPLACE), "under replace"),
    ],
)
def test_another_guarantee_is_refused(other: Any, message: str) -> None:
    """Before anything is measured, and again in every cell."""
    unfair = _experiment(
        methods={"count": _count(1), "zero": Constant(lambda s: 0), "other": other}
    )
    with pytest.raises(ValueError, match=message):
        check_methods(unfair, NoisyCount)
    with pytest.raises(ValueError, match=message):
        measure_cell(unfair, "few", 0, "other", seed=1)


def test_what_is_not_proved_is_refused() -> None:
    claim = SimpleNamespace(guarantee=PureDP(1), adjacency=ADD, status=Status.CONJECTURED)
    made: Any = {
        "count": _count(1),
        "zero": _count(1),
        "guess": lambda s: SimpleNamespace(claim=claim),
    }
    with pytest.raises(
        ValueError, match=r"guess is pure\(1\) under add-remove \(conjectured\), and"
    ):
        check_methods(_experiment(methods=made), NoisyCount)


def test_the_experiment_of_another_mechanism_is_refused() -> None:
    check_methods(_experiment(), NoisyCount)
    with pytest.raises(ValueError, match="no method is a BoundedMean;"):
        check_methods(_experiment(), BoundedMean)


def test_a_mechanism_that_no_cell_is_for_is_refused() -> None:
    """A factory that is wrong is no row of dashes."""
    with pytest.raises(ValueError, match="count refuses every cell: more than 60 records"):
        check_methods(
            _experiment(values=(70, 80), orders=(_order(where={"few": (70,)}),), references={}),
            NoisyCount,
        )


def test_all_methods_have_the_same_data_and_noise_of_their_own() -> None:
    """Runs differ, cells differ, methods do not; and everything is made again from the seed."""
    seen = NotPrivate(lambda setting, data: float(data[0]))
    made = _experiment(
        methods={"one": seen, "two": seen, "count": _count(1), "twin": _count(1),
            "zero": Constant(lambda s: 0)},
        error=lambda value, truth: value,
    )  # fmt: skip
    one = measure_cell(made, "few", 0, "one", seed=1)
    assert one == measure_cell(made, "few", 0, "two", seed=1)
    assert len(set(one.errors)) == 20
    for place in (("few", 1, 1), ("wide", 0, 1), ("few", 0, 2)):
        assert not set(one.errors) & set(
            measure_cell(made, place[0], place[1], "one", seed=place[2]).errors
        )
    count = measure_cell(made, "few", 0, "count", seed=1)
    assert count != measure_cell(made, "few", 0, "twin", seed=1)
    assert count == measure_cell(made, "few", 0, "count", seed=1)


def test_errors_may_be_negative_and_medians_have_their_interval() -> None:
    made = _experiment(error=lambda value, truth: value - truth, repeats=6)
    zero = measure_cell(made, "few", 0, "zero", seed=1)
    assert zero.errors == (-20.0,) * 6
    assert zero.median == Interval(-20.0, -20.0, -20.0)
    errors = tuple(map(float, range(-10, 10)))
    assert Cell(errors).median.low == -5.0  # the 6th and 15th of 20: binomial(20, 1/2) at 2.5%
    assert (Cell(errors).median.value, Cell(errors).median.high) == (-1.0, 4.0)
    assert Cell((1.0, 2.0)).median.low == -math.inf


def test_refusing_is_no_error_and_abstaining_an_infinite_one() -> None:
    made = _experiment()
    assert measure_cell(made, "few", 3, "count", seed=1) == Cell(
        (), "more than 60 records are too many"
    )
    nothing = RateFault(name="nothing", estimate=lambda mechanism, transcript: Abstained("no"))
    cell = measure_cell(made, "few", 0, "count", seed=1, fault=nothing)
    assert cell.errors == (math.inf,) * 20
    with pytest.raises(ValueError, match="is NaN"):
        measure_cell(_experiment(error=lambda v, t: math.nan), "few", 0, "count", seed=1)


def _judged(wins: tuple[int, ...], alpha: float = ALPHA, runs: int = 20) -> Finding:
    """Judge an order of which so many runs were won in three cells."""

    def errors(name: str, panel: str, index: int) -> list[float]:
        if name == "zero":
            return [1.0] * runs
        return [0.0] * wins[index] + [1.0] * (runs - wins[index])  # a tie is no win

    return judge_order(_experiment(), _order(), "few", errors, alpha).finding


@pytest.mark.parametrize(
    ("wins", "finding"),
    [
        ((20, 20, 20), Finding.SHOWN),
        ((15, 20, 20), Finding.SHOWN),
        ((14, 20, 20), Finding.OPEN),
        ((10, 10, 10), Finding.OPEN),
        ((7, 0, 0), Finding.REFUTED),
        ((8, 0, 0), Finding.OPEN),
        ((0, 0, 0), Finding.REFUTED),
    ],
)
def test_an_order_is_judged_by_its_wins(wins: tuple[int, ...], finding: Finding) -> None:
    """15 of 20 have probability 0.021 by chance; 7 of 60 have 4e-10, and 8 have 2.6e-9."""
    assert _judged(wins) is finding


def test_false_alarms_are_as_rare_as_stated() -> None:
    """Exactly, of two methods that are alike: all numbers of wins with their binomial masses."""
    for alpha in (1e-2, 1e-4, 1e-9):
        refuted = [
            wins for wins in range(61)
            if _judged((min(wins, 20), min(max(wins - 20, 0), 20), max(wins - 40, 0)), alpha)
            is Finding.REFUTED
        ]  # fmt: skip
        chance = sum(stats.binom.pmf(wins, 60, 0.5) for wins in refuted)
        assert alpha / 100 < chance <= alpha
    assert sum(stats.binom.pmf(wins, 20, 0.5) for wins in range(15, 21)) <= 0.025


def test_where_one_refuses_nothing_is_shown() -> None:
    order = _order(where={"few": (60, 80)})
    verdict = judge_order(
        _experiment(),
        order,
        "few",
        lambda name, panel, i: (
            [0.0] * 20 if i == 2 and name == "count" else [1.0] * 20 if name == "zero" else []
        ),
        ALPHA,
    )
    assert (verdict.finding, verdict.cells) == (Finding.OPEN, ((2, 20, 20), (3, 0, 0)))


@pytest.mark.parametrize(("fault", "finding"), [(None, Finding.SHOWN), (WORSE, Finding.REFUTED)])
def test_a_right_order_is_shown_and_a_planted_fault_refuted(
    fault: RateFault | None, finding: Finding
) -> None:
    """A count is off by 20 or more with probability e^-20; of noise a thousandfold it is in 96%
    of runs, and fewer than 53 of 60 with probability 1e-3. The seed is fixed."""
    made = _experiment()

    def errors(name: str, panel: str, index: int) -> tuple[float, ...]:
        planted = fault if name == "count" else None
        return measure_cell(made, panel, index, name, seed=3, fault=planted).errors

    assert judge_order(made, _order(), "few", errors, ALPHA).finding is finding
