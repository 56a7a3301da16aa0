"""Answers about numbers: variances, deviations and quantiles; texts and pictures of answers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from dpverify import (
    Adjacency,
    GaussianDP,
    NoAnswer,
    Number,
    PrivateQuantile,
    PrivateQuantiles,
    PureDP,
    SeededBits,
    Session,
    Table,
)
from dpverify.estimation.moment_matrices import MomentMatrixEstimate
from dpverify.session import Quantiles
from dpverify.session.moments import Deviation, Moments
from tests.session.small_table import ADD, REPLACE, TABLE, N, rows, session


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


def test_reprs_show_values_in_one_line() -> None:
    one = session(PureDP(9))
    listed = one.quantile("age", ["1/10", "9/10"], share="1/9").result
    assert repr(listed).startswith("Quantiles(value=(")
    assert repr(one.histogram("age", 2, share="1/9").result).startswith("Histogram(value={(0, 60):")
    assert repr(one.top("region", 1, share="1/9").result).startswith("Top(value={'")
    moments = one.moments(["bmi", "age"], share="1/9").result
    assert repr(moments).startswith("MomentMatrixEstimate(count=")
    assert ", mean=[" in repr(moments)
    axes = one.principal_components(["bmi", "age"], share="1/9").result
    assert all(len(number) < 11 for number in re.findall(r"[\d.]+", repr(axes)))  # six digits
    for result in (listed, moments, axes):
        assert "\n" not in repr(result)


def test_a_session_counts_its_questions_in_words() -> None:
    one = session(PureDP(9))
    assert "0 questions, all of the budget left" in repr(one)
    one.count(share="1/9")
    assert "1 question, 8/9 of the budget left" in repr(one)
    one.count(budget=PureDP(0.1))
    assert "2 questions" in repr(one)
    assert '"pure(0.100000...)"' in str(one.account)


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
