"""Histograms, counts of groups, and most frequent values."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpverify import Adjacency, ApproxDP, Number, PureDP, SeededBits, Session, Table
from dpverify.estimation.bin_estimates import BinsEstimate
from dpverify.session import Histogram, Top
from tests.session.small_table import ADD, REPLACE, Ask, N, rows, session


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
