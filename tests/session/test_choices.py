"""The rule of choice: which mechanism answers a question, and what its answer costs."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify import (
    Adjacency,
    Answer,
    ApproxDP,
    BoundedMean,
    BoundedSum,
    ClippedMean,
    GaussianDP,
    MomentMatrix,
    NoisyCount,
    Number,
    PrivateQuantile,
    PrivateQuantiles,
    PureDP,
    SeededBits,
    Session,
    Table,
    UnivariateGaussian,
)
from dpverify import Histogram as HistogramMechanism
from dpverify.session import GroupedAnswer
from dpverify.session.calibrating import one_step
from tests.session.small_table import ADD, REPLACE, TABLE, Ask, rows, session

ASKED: dict[str, tuple[Ask, type, type]] = {
    "count": (lambda s: s.count(where={"bmi": (20, 30)}, share="1/9"), NoisyCount, NoisyCount),
    "sum": (lambda s: s.sum("age", share="1/9"), BoundedSum, BoundedSum),
    "mean": (lambda s: s.mean("bmi", share="1/9"), BoundedMean, ClippedMean),
    "share": (lambda s: s.mean("smoker", share="1/9"), BoundedMean, ClippedMean),
    "means": (lambda s: s.mean(["age", "bmi"], share="1/9"), ClippedMean, ClippedMean),
    "variance": (lambda s: s.variance("bmi", share="1/9"), MomentMatrix, MomentMatrix),
    "deviation": (
        lambda s: s.standard_deviation("bmi", share="1/9"),
        MomentMatrix,
        MomentMatrix,
    ),
    "covariance": (
        lambda s: s.covariance(["bmi", "age"], share="1/9"),
        MomentMatrix,
        MomentMatrix,
    ),
    "regression": (
        lambda s: s.regression("bmi", ["age", "smoker"], share="1/9"),
        MomentMatrix,
        MomentMatrix,
    ),
    "components": (
        lambda s: s.principal_components(["age", "bmi"], 1, share="1/9"),
        MomentMatrix,
        MomentMatrix,
    ),
    "median": (lambda s: s.median("bmi", share="1/9"), PrivateQuantile, PrivateQuantile),
    "quantiles": (
        lambda s: s.quantile("age", ["1/4", "3/4"], share="1/9"),
        PrivateQuantile,
        PrivateQuantile,
    ),
    "deciles": (
        lambda s: s.quantiles("age", 9, share="1/9"),
        PrivateQuantiles,
        PrivateQuantiles,
    ),
    "histogram": (
        lambda s: s.histogram("bmi", 6, share="1/9"),
        HistogramMechanism,
        HistogramMechanism,
    ),
    "bars": (lambda s: s.histogram("region", share="1/9"), HistogramMechanism, HistogramMechanism),
    "top": (lambda s: s.top("region", 1, share="1/9"), HistogramMechanism, HistogramMechanism),
    "normal": (
        lambda s: s.gaussian("bmi", share="1/9", at_least=100),
        UnivariateGaussian,
        UnivariateGaussian,
    ),
    "by name": (
        lambda s: s.release(ClippedMean, ["bmi"], center=[30.0], radius=15.0, share="1/9"),
        ClippedMean,
        ClippedMean,
    ),
}


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
@pytest.mark.parametrize("asked", ASKED)
def test_the_mechanism_follows_from_the_question_and_costs_exactly_its_share(
    asked: str, adjacency: Adjacency
) -> None:
    ask, of_epsilon, of_gaussian = ASKED[asked]
    for accounting, kind in (("epsilon", of_epsilon), ("gaussian", of_gaussian)):
        one = session(adjacency=adjacency, accounting=accounting)
        answer = ask(one)
        assert type(answer.mechanism) is kind
        noise = getattr(answer.mechanism, "noise", None)
        assert noise in (None, "laplace" if accounting == "epsilon" else "gaussian")
        claim = answer.derivation.conclusion
        assert claim.adjacency is adjacency
        assert claim.domain == TABLE.domain
        whole = one.account.limit.amount
        assert whole / 9 * (1 - Fraction(1, 10**6)) <= answer.spend.cost.amount <= whole / 9
        (logged,) = one.log
        assert logged == answer.spend


def test_a_gaussian_account_of_one_column_gives_a_number_and_an_interval() -> None:
    answer = session().mean("bmi", share=1)
    assert isinstance(answer, Answer)
    low, high = answer.interval(0.95)
    wide = answer.interval(0.95, sampling=True)
    truth = float(np.clip(rows()["bmi"], 15, 45).mean())
    assert isinstance(answer.value, float)
    assert 15 <= wide[0] < low <= answer.value <= high < wide[1] <= 45
    assert low <= truth <= high  # a fixed seed, so it fails always or never
    assert float(answer) == answer.value == float(np.asarray(answer))
    assert answer.to_dict()["result"]["result"] == "ColumnMean"


def test_the_interval_of_a_column_holds_the_mean_as_often_as_it_says() -> None:
    """Count: of 400 intervals at 80% about 320; fewer than 280 have probability below 1e-6
    (binomial)."""
    one = Session(TABLE, budget=GaussianDP(100), adjacency=ADD, bits=SeededBits(3))
    truth = float(np.clip(rows()["bmi"], 15, 45).mean())
    held = 0
    for _ in range(400):
        low, high = one.mean("bmi", budget=GaussianDP("0.5")).interval(0.8)
        held += low <= truth <= high
    assert 280 <= held <= 356


def test_leaving_records_out_under_replace_is_paid_for_twice() -> None:
    """Unless the mechanism gives a public value no weight, which those who are left out then count
    as."""
    for accounting in ("epsilon", "gaussian"):
        one = session(adjacency=REPLACE, accounting=accounting)
        plain = one.median("age", share="1/4")
        kept = one.median("age", share="1/4", where={"smoker": [True]})
        assert plain.mechanism.adjacency is REPLACE
        assert kept.mechanism.adjacency is ADD
        assert kept.spend.cost == plain.spend.cost
        half = one_step(plain.derivation.conclusion.guarantee, 2)
        assert kept.mechanism.claim.guarantee == half


def test_counts_sums_and_gaussian_means_under_replace_mask_by_themselves() -> None:
    one = Session(TABLE, budget=GaussianDP(600), adjacency=REPLACE, bits=SeededBits(1))
    truth = rows()
    for low, high in ((20, 35), (50, 79)):
        where, kept = {"age": (low, high)}, (truth["age"] >= low) & (truth["age"] <= high)
        counted = one.count(where=where, share="1/9")
        total = one.sum("bmi", where=where, share="1/9")
        mean = one.mean("bmi", where=where, share="1/9")
        both = one.mean(["bmi", "age"], where=where, share="1/9")
        for answer in (counted, total, mean, both):
            assert answer.mechanism.adjacency is REPLACE
            assert answer.mechanism.claim.guarantee == answer.derivation.conclusion.guarantee
        inside = np.clip(truth["bmi"][kept], 15, 45)
        assert counted.value == kept.sum()
        assert total.value == pytest.approx(inside.sum(), abs=1.5)
        assert mean.value == pytest.approx(inside.mean(), abs=0.02)
        assert both.value == pytest.approx([inside.mean(), truth["age"][kept].mean()], abs=0.1)
    # At the bounds nobody is lost to rounding.
    ends = Table({"x": [15.0, 45.0, 60.0, None]}, columns={"x": Number(15, 45)})
    other = Session(ends, budget=GaussianDP(600), adjacency=REPLACE, bits=SeededBits(1))
    assert other.mean("x", share="1/2").value == pytest.approx(35, abs=0.5)


@pytest.mark.parametrize("whole", [PureDP(1), GaussianDP(1), ApproxDP(1, "1e-6"), ApproxDP(9, 0.5)])
def test_half_of_a_guarantee_is_half_of_it(whole: Any) -> None:
    half = one_step(whole, 2)
    assert half.for_group(2).implies(whole)
    assert one_step(whole, 1) == whole


def test_groups_cost_once_under_add_remove_and_hold_all_declared_values() -> None:
    one = session()
    means = one.mean("age", by="region", share="1/3")
    assert isinstance(means, GroupedAnswer)
    assert list(means) == ["north", "south", "east"]
    assert means["north"].mechanism.claim.guarantee == means.derivation.conclusion.guarantee
    assert len(one.log) == 1
    assert means["east"].abstained is not None or means["east"].value >= 0
    both = one.histogram("smoker", by="region", share="1/3")
    truth = rows()
    for group in ("north", "south"):
        for name, count in both[group].value.items():
            inside = (truth["region"] == group) & (truth["smoker"] == name)
            assert abs(count - inside.sum()) < 8 * both[group].standard_deviation
    assert both.value["north"] == both["north"].value
    assert both.interval(0.5)["south"] == both["south"].interval(0.5)
    assert both.abstained is None
    with pytest.raises(TypeError, match="ask with by="):
        both["north"]["south"]
    with pytest.raises(KeyError, match="'west' is none of 'north', 'south', 'east'"):
        means["west"]
