"""``Session``: which mechanism answers, what it costs, and what is refused before anything is
spent."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from dpverify import (
    Account,
    Adjacency,
    Answer,
    ApproxDP,
    Boolean,
    BoundedMean,
    BoundedSum,
    BudgetExceeded,
    Category,
    ClippedMean,
    GaussianDP,
    Integer,
    MomentMatrix,
    NoAnswer,
    NoisyCount,
    Number,
    PrivateQuantile,
    PrivateQuantiles,
    PureDP,
    RobustMean,
    SeededBits,
    Session,
    Table,
    UnivariateGaussian,
)
from dpverify import Histogram as HistogramMechanism
from dpverify.estimation.bin_estimates import BinsEstimate
from dpverify.estimation.moment_matrices import MomentMatrixEstimate
from dpverify.session import GroupedAnswer, Histogram, Quantiles, ReleaseFailed, Top
from dpverify.session.calibrating import one_step
from dpverify.session.moments import Deviation, Moments

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
N = 400


def rows(n: int = N) -> dict[str, Any]:
    rng = np.random.default_rng(7)
    return {
        "bmi": rng.normal(26, 4, n),
        "age": rng.integers(20, 80, n),
        "region": rng.choice(["north", "south"], n),
        "smoker": rng.random(n) < 0.3,
    }


COLUMNS: dict[str, Any] = {
    "bmi": Number(15, 45, missing=30),
    "age": Integer(0, 120, missing=60),
    "region": Category("north", "south", "east"),
    "smoker": Boolean(missing=False),
}
TABLE = Table(rows(), columns=COLUMNS)


def session(budget: Any = None, adjacency: Adjacency = ADD, **how: Any) -> Session:
    given = ApproxDP(8, "1e-6") if budget is None else budget
    return Session(TABLE, budget=given, adjacency=adjacency, bits=SeededBits(1), **how)


# --- the rule of choice -------------------------------------------------------------------------

Ask = Callable[[Session], Any]
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


def test_bins_are_disjoint_and_hold_everybody() -> None:
    one = session(PureDP(10**6), accounting="epsilon")  # noise 0 but for e^-10^5
    truth = rows()
    asked: list[tuple[str, Any]] = [("bmi", 7), ("bmi", [15, 20.5, 26, 45])]
    asked += [("age", [0, 1, 2, 30, 120]), ("age", 7), ("age", 100)]
    for column, bins in asked:
        histogram = one.histogram(column, bins, share="1/9")
        assert sum(histogram.value.values()) == N
        edges = [name[0] for name in histogram.value] + [[*histogram.value][-1][1]]
        expected = np.histogram(np.clip(truth[column], edges[0], edges[-1]), edges)[0]
        assert list(histogram.value.values()) == expected.tolist()
    assert sum(one.histogram("region", share="1/9").value.values()) == N
    public = session(PureDP(10**6), REPLACE, accounting="epsilon")
    assert list(public.histogram("bmi", 1, share="1/9").value.values()) == [N]
    with pytest.raises(ValueError, match=r"no whole number is from 1\.2 to 1\.8"):
        one.histogram("age", 200, share="1/9")


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_counts_of_groups_and_of_two_columns_are_one_release(adjacency: Adjacency) -> None:
    one = session(PureDP(10**6), adjacency, accounting="epsilon")  # noise 0 but for e^-10^5
    truth = rows()
    groups = one.count(by="region", where={"age": (30, 50)}, share="1/9")
    aged = (truth["age"] >= 30) & (truth["age"] <= 50)
    for group in ("north", "south", "east"):
        assert groups[group].value == int((aged & (truth["region"] == group)).sum())
        assert groups[group].interval(0.9) == (groups[group].value,) * 2
    both = one.histogram(["bmi", "region"], 3, by="smoker", share="1/9")
    for smokes in (False, True):
        expected = [
            np.histogram(
                np.clip(truth["bmi"], 15, 45)[(truth["region"] == r) & (truth["smoker"] == smokes)],
                3,
                (15, 45),
            )[0]
            for r in ("north", "south", "east")
        ]
        counts = both[smokes].value
        assert [*counts.values()] == np.array(expected).T.ravel().tolist()
        assert list(counts)[:2] == [((15.0, 25.0), "north"), ((15.0, 25.0), "south")]
    named = one.histogram(["bmi", "region"], {"bmi": [15, 30, 45]}, share="1/9").result
    assert named.range((15, 45), "north").value == (truth["region"] == "north").sum()
    assert json.loads(json.dumps(named.to_dict()))["counts"][0][0] == [[15.0, 30.0], "north"]
    assert "15 to 30, north" in str(named)
    with pytest.raises(ValueError, match="'west' is not among"):
        named.range((15, 45), "west")
    with pytest.raises(ValueError, match="for each of 2 columns"):
        named.range((15, 45))
    with pytest.raises(ValueError, match="of one column"):
        named.cumulative()


def test_under_replace_all_bins_and_groups_cost_what_two_counts_do() -> None:
    """A replaced record moves two counts by one each: mu^2 twice, where it was four times."""
    asked: list[Ask] = [
        lambda s: s.histogram("bmi", 6, share=1),
        lambda s: s.count(by="region", share=1),
        lambda s: s.histogram("region", by="smoker", where={"age": (30, 50)}, share=1),
    ]
    for ask in asked:
        moved, added = (
            ask(session(ApproxDP(1, "1e-6"), near)).mechanism._noise().scale
            for near in (REPLACE, ADD)
        )
        assert float(moved / added) == pytest.approx(2**0.5, rel=1e-6)


def test_ranges_of_a_histogram_have_less_noise_when_asked_for() -> None:
    for adjacency in (ADD, REPLACE):
        one = session(adjacency=adjacency)
        plain = one.histogram("bmi", 60, share="1/9").result
        fine = one.histogram("bmi", 60, ranges=True, share="1/9").result
        wide = fine.range(17.0, 40.0)
        assert wide.standard_deviation < 0.5 * plain.range(17.0, 40.0).standard_deviation
        inside = (rows()["bmi"] >= 17) & (rows()["bmi"] < 40)
        assert abs(wide.value - inside.sum()) < 6 * wide.standard_deviation
        below = fine.cumulative()
        assert below[40.0] - below[17.0] == pytest.approx(wide.value)
        assert 15 <= fine.quantile("1/2") <= 45
        assert isinstance(fine.standard_deviation, float)
    tree = session(PureDP(1)).histogram("bmi", 60, ranges=True, share=1).result
    assert tree.counts.strategy == "tree"
    assert set(tree.standard_deviation) == set(tree.value)


def test_numbers_of_numpy_are_numbers() -> None:
    one = session(PureDP(9))
    bins: Any = np.int64(3)
    assert len(one.histogram("bmi", bins, share="1/9").value) == 3
    edges: Any = np.array([15.0, 20.0, 45.0])
    assert len(one.histogram("bmi", edges, share="1/9").value) == 2
    at: Any = np.array([0.25, 0.75])
    assert len(one.quantile("bmi", at, share="1/9").value) == 2


def test_variances_and_covariances_are_those_of_the_clamped_records() -> None:
    one = Session(TABLE, budget=GaussianDP(300), adjacency=ADD, bits=SeededBits(1))
    truth = rows()
    both = np.stack([np.clip(truth["bmi"], 15, 45), truth["age"]])
    expected = np.cov(both, bias=True)
    alone = one.variance("bmi", share="1/9")
    assert alone.value == pytest.approx(expected[0, 0], rel=0.02)
    assert alone.result.deviation == pytest.approx(alone.value**0.5)
    assert alone.result.mean == pytest.approx(both[0].mean(), abs=0.05)
    together = one.covariance(["bmi", "age"], share="1/9")
    assert together.value == pytest.approx(expected, abs=2)
    assert f"Moments(value=[[{together.value[0, 0]:.6g}, " in str(together)
    assert np.linalg.eigvalsh(together.result.positive()).min() >= -1e-9
    low, high = together.interval(0.99)
    assert (low <= together.value).all()
    assert (together.value <= high).all()
    claim = one.derivation.conclusion
    assert claim.guarantee == GaussianDP(300)


@pytest.mark.parametrize("half", [1e-200, 1e200])
def test_bounds_whose_squares_are_no_floats_have_no_variance(half: float) -> None:
    table = Table({"x": [0.0]}, columns={"x": Number(-half, half)})
    one = Session(table, budget=GaussianDP(1), adjacency=ADD)
    with pytest.raises(ValueError, match="squares of its values are no floats; take another unit"):
        one.variance("x", share=1)
    assert one.log == ()


def test_the_interval_of_a_variance_holds_it_as_often_as_it_says() -> None:
    """Count: of 200 intervals at 90% about 180; fewer than 150 have probability below 1e-6
    (binomial)."""
    one = Session(TABLE, budget=GaussianDP(100), adjacency=ADD, bits=SeededBits(5))
    truth = float(np.clip(rows()["bmi"], 15, 45).var())
    held, errors = 0, []
    for _ in range(200):
        answer = one.variance("bmi", budget=GaussianDP(2))
        low, high = answer.interval(0.9)
        held += low <= truth <= high
        errors.append((answer.value - truth) / answer.standard_deviation)
    assert 150 <= held <= 197
    assert 0.7 < np.std(errors) < 1.3  # a factor of 1.3 is 6 deviations of this of 200


# --- answers ------------------------------------------------------------------------------------


def test_an_answer_in_a_text_is_its_number_where_a_format_is_given() -> None:
    answer = session().mean("bmi", share=1)
    assert f"{answer:.2f}" == f"{answer.value:.2f}"
    assert f"{answer:>9.1e}" == f"{answer.value:>9.1e}"
    assert f"{answer}" == str(answer)
    with pytest.raises(ValueError, match="format"):
        f"{answer:%Y}"


def test_an_abstained_answer_is_hard_to_forget() -> None:
    answer = session(PureDP(1)).mean("age", at_least=10**6, share=1)
    assert answer.abstained == "fewer than 1000000 records, by the noisy count"
    uses: list[Callable[[], Any]] = [
        lambda: answer.value,
        lambda: answer.interval(),
        lambda: float(answer),
        lambda: f"{answer:.2f}",
        lambda: np.asarray(answer),
        lambda: answer.standard_deviation,
        lambda: answer.plot(),
    ]
    for use in uses:
        with pytest.raises(
            NoAnswer, match=r"mean of age, .* has no answer: fewer than 1000000.*is spent"
        ):
            use()
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(answer)
    assert "no answer" in str(answer)


def test_quantiles_come_in_order_and_are_what_was_released() -> None:
    quantiles = session(PureDP("1/50")).quantile("age", ["9/10", "1/10"], share=1).result
    assert isinstance(quantiles, Quantiles)
    assert list(quantiles.value) == sorted(quantiles.released)
    for seed in range(20):  # sorting is never farther from what is in order, at its worst place
        released = np.random.default_rng(seed).normal([1, 2, 3], 2)
        worst = np.abs(np.sort(released) - [1, 2, 3]).max()
        assert worst <= np.abs(released - [1, 2, 3]).max()


def test_three_quantiles_or_more_are_found_together() -> None:
    listed = session(PureDP(3)).quantile("age", ["3/4", "1/4", "1/2"], share=1)
    counted = session(PureDP(3)).quantiles("age", 3, share=1)
    assert isinstance(listed.mechanism, PrivateQuantiles)
    assert listed.value == counted.value == tuple(sorted(listed.value))
    of_numpy = session(PureDP(3)).quantiles("age", np.int64(3), share=1)  # type: ignore[arg-type]
    assert of_numpy.value == counted.value
    assert counted.result.levels == (0.25, 0.5, 0.75)
    assert all(float(one).is_integer() for one in counted.value)  # whole ages
    halves = session(PureDP(3)).quantile("age", ["1/2", "0.5", "1/4"], share=1)
    assert isinstance(halves.mechanism, PrivateQuantile)  # two of them are the same


@pytest.mark.parametrize("budget", [PureDP(1), GaussianDP(1)])
def test_few_uneven_quantiles_are_found_one_by_one_under_replace(budget: Any) -> None:
    """Choose one by one, where a record that is replaced moves two of their parts: expected
    errors at the same cost."""
    uneven, even = ("9/10", "19/20", "99/100"), ("1/4", "1/2", "3/4")
    for adjacency, at in product(Adjacency, (uneven, even)):
        given: dict[str, Any] = {"adjacency": adjacency, "lower": 15.0, "upper": 45.0}
        together = PrivateQuantiles.calibrated_for(budget, levels=at, **given)
        errors = [
            PrivateQuantile.calibrated_for(budget / 3, quantile=one, **given).expected_error(N)
            for one in at
        ]
        nearer = together.expected_error(N) < float(np.mean(np.square(errors)) ** 0.5)
        assert nearer is not (adjacency is REPLACE and at is uneven)
        quantiles = session(budget, adjacency).quantile("bmi", at, share=1)
        assert isinstance(quantiles.mechanism, PrivateQuantiles) is nearer
        assert quantiles.value == tuple(sorted(quantiles.value))


def test_a_deviation_is_the_root_of_a_variance_and_its_interval() -> None:
    asked: Any = {"share": "1/2"}
    root = session().standard_deviation("bmi", **asked)
    square = session().variance("bmi", **asked)
    assert root.value == square.value**0.5 == square.result.deviation
    assert root.interval() == tuple(end**0.5 for end in square.interval())
    assert root.interval()[0] < root.value < root.interval()[1]
    near = square.standard_deviation / 2 / root.value
    assert root.standard_deviation == pytest.approx(near)
    with pytest.raises(ValueError, match="ask for that of 'variance'"):
        session().expected_error("standard_deviation", "bmi", n=100, **asked)


def test_the_interval_of_a_variance_under_laplace_noise_is_no_narrower_than_a_normal_laws() -> None:
    """Half of a normal law is within .67 deviations of it, and half of a Laplace law within .49."""
    variance = session(PureDP(8)).variance("bmi", share=1)
    assert variance.result.moments.noise == "laplace"
    for level, times in ((0.5, 0.6745), (0.95, 2.1183)):
        low, high = variance.interval(level)
        assert high - low == pytest.approx(2 * times * variance.standard_deviation, rel=1e-3)


@pytest.mark.parametrize("adjacency", Adjacency)
def test_ranges_of_three_columns_have_an_answer(adjacency: Adjacency) -> None:
    one = session(ApproxDP(2, "1e-6"), adjacency)
    columns, bins = ["bmi", "age", "smoker"], {"bmi": 16, "age": 10}
    asked = one.histogram(columns, bins, ranges=True, share="1/9").result
    assert asked.counts.strategy == "circulant"
    whole = asked.range((15, 45), (0, 120), False)
    smokers = sum(not smokes for smokes in rows()["smoker"])
    assert abs(whole.value - smokers) < 6 * whole.standard_deviation < 6 * 200
    bmi = rows()["bmi"]
    names = {f"x{i}": bmi for i in range(7)}
    wide = Table(names, columns=dict.fromkeys(names, Number(15, 45, missing=30)))
    many = Session(wide, budget=ApproxDP(2, "1e-6"), adjacency=adjacency, bits=SeededBits(1))
    assert many.histogram([*names], 2, ranges=True, share=1).result.counts.strategy == "tree"
    three = many_columns(bmi, adjacency).histogram(["x0", "x1", "x2"], 8, ranges=True, share="1/9")
    estimate = three.result.range((15, 45), (15, 45), (15, 45))
    assert abs(estimate.value - N) < 6 * estimate.standard_deviation < 6 * 200


def many_columns(values: Any, adjacency: Adjacency) -> Session:
    names = {f"x{i}": values for i in range(3)}
    table = Table(names, columns=dict.fromkeys(names, Number(15, 45, missing=30)))
    return Session(table, budget=ApproxDP(2, "1e-6"), adjacency=adjacency, bits=SeededBits(1))


def test_a_variance_below_zero_has_a_deviation_of_zero_and_an_interval() -> None:
    sums = np.array([[100.0, 50.0], [50.0, 20.0]])
    released = MomentMatrixEstimate(sums, np.full((2, 2), 3.0), np.zeros(1), np.array([2.0]))
    deviation = Deviation(Moments(released))
    assert sums[1, 1] / 100 - (sums[0, 1] / 100) ** 2 < 0
    assert (deviation.value, deviation.standard_deviation, deviation.interval()[0]) == (
        0.0,
        math.inf,
        0.0,
    )
    assert 0 < deviation.interval()[1] == math.sqrt(deviation.moments.interval()[1]) < math.inf
    assert deviation.to_dict()["result"] == "Deviation"


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_most_frequent_values_are_those_of_the_histogram(adjacency: Adjacency) -> None:
    counts = session(PureDP(2), adjacency).histogram("region", share=1).result
    top = session(PureDP(2), adjacency).top("region", 2, share=1)
    assert isinstance(top.result, Top)
    assert list(top.value.items()) == sorted(counts.value.items(), key=lambda one: -one[1])[:2]
    low, high = top.interval(0.9)
    wide = counts.interval(0.9, simultaneous=True)
    assert all((low[name], high[name]) == (wide[0][name], wide[1][name]) for name in top.value)
    assert top.result.to_dict()["k"] == 2
    assert str(top).startswith(f"top of region, k = 2: {next(iter(top.value))}: ")


def test_values_are_surely_among_the_top_where_their_intervals_say_so() -> None:
    counts = BinsEstimate((90, 10, 88, 50), (4,), "identity", 1.0)
    histogram = Histogram(counts, (("a", "b", "c", "d"),))
    assert [Top(histogram, k).surely() for k in (1, 2, 3)] == [[], ["a", "c"], ["a", "c", "d"]]
    assert Top(histogram, 4).surely() == ["a", "c", "d", "b"]
    quiet = Histogram(replace(counts, deviation=0.1), histogram.values)
    assert Top(quiet, 1).surely() == ["a"]


def test_histograms_are_made_consistent() -> None:
    histogram = session(PureDP("1/3")).histogram("bmi", 9, share=1).result
    assert isinstance(histogram, Histogram)
    assert min(histogram.value.values()) < 0  # of this seed: some bins are empty
    assert histogram.nonnegative() == {k: max(0, v) for k, v in histogram.value.items()}
    fitted = histogram.consistent(N)
    assert sum(fitted.values()) == pytest.approx(N)
    assert min(fitted.values()) >= 0
    truth = np.histogram(rows()["bmi"], 9, (15, 45))[0]
    raw, near = (np.array([*d.values()], float) for d in (histogram.value, fitted))
    assert np.linalg.norm(near - truth) <= np.linalg.norm(raw - truth)
    assert set(histogram.consistent(0).values()) == {0.0}
    for bad in (-1, float("nan"), "400"):
        with pytest.raises(ValueError, match="give a released or public number"):
            histogram.consistent(bad)  # type: ignore[arg-type]
    low, high = histogram.interval(0.9, simultaneous=True)
    alone = histogram.interval(0.9)
    assert all(low[k] <= alone[0][k] <= alone[1][k] <= high[k] for k in low)
    assert all(low[k] <= t <= high[k] for k, t in zip(low, truth, strict=True))


def test_pictures_show_what_was_released() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    one = session()
    histogram = one.histogram("region", share="1/9")
    axes = histogram.plot()
    assert [bar.get_height() for bar in axes.patches] == list(histogram.value.values())
    assert [label.get_text() for label in axes.get_xticklabels()] == ["north", "south", "east"]
    mean = one.mean("bmi", share="1/9")
    drawn = mean.plot().lines[0].get_ydata()
    assert drawn[0] == mean.value
    quartiles = one.quantile("bmi", ["3/4", "1/4"], share="1/9")
    assert tuple(quartiles.plot().lines[0].get_xdata()) == quartiles.value
    assert len(one.covariance(["bmi", "age"], share="1/9").plot().images) == 1
    top = one.top("region", 2, share="1/9")
    assert [bar.get_height() for bar in top.plot().patches] == list(top.value.values())
    pyplot.close("all")


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
