"""``interquartile_range``: right wherever it answers, and it answers where the records are
dense."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from dpverify import (
    Abstained,
    Adjacency,
    ApproxDP,
    InterquartileRange,
    InterquartileRangeEstimate,
    PureDP,
    SeededBits,
)
from dpverify.grid import NOTHING, View
from dpverify.grid.quartiles import QuartileBins, edges_of, ranks_of
from dpverify.grid.transcripts import transcript
from dpverify.plans import LaplaceTest, Stage
from dpverify.privacy import Domain
from spec import interquartile_range as spec
from spec.theory import quartiles
from tests.mechanisms.helpers import (
    EDGE_DATA,
    RELEASES,
    estimates,
    fails_at_most,
    largest_loss_found,
    typed_releases,
)
from tests.randomness.helpers import NoBits

REPLACE = Adjacency.REPLACE


def made(**parameters: Any) -> InterquartileRange:
    base: dict[str, Any] = {"adjacency": REPLACE, "noise_multiplier": 1, "delta": "1e-3"}
    return InterquartileRange(**base | {"lower": 0.0, "upper": 100.0} | parameters)


def rows(mechanism: InterquartileRange, data: Any) -> list[list[int]]:
    """Read bins and distances off the law."""
    (stage,) = mechanism.fixed_plan
    assert isinstance(stage, Stage)
    bins: list[list[int]] = mechanism.law(data).center(stage.query).tolist()
    return bins


BOUNDS = [(-1.0, 3.0), (0.0, 5e-316), (-1.7e308, 1.7e308), (0, 1e7), (10.0, 11.0)]


@pytest.mark.parametrize(("lower", "upper"), BOUNDS)
def test_every_dataset_has_a_release(lower: float, upper: float) -> None:
    """Look where it surely passes, and as it ships: the range of the clamped records lies where it
    is said to lie."""
    for own in ({"noise_multiplier": "1/1000", "delta": "1/2"}, {"delta": "1/3"}):
        mechanism = made(lower=lower, upper=upper, **own)
        crowds = [data * 40 for data in EDGE_DATA]
        for data, release in zip(
            [d for d in (*EDGE_DATA, *crowds) if len(d) > 1],
            typed_releases(mechanism, [d for d in (*EDGE_DATA, *crowds) if len(d) > 1]),
            strict=True,
        ):
            if isinstance(release, Abstained):
                continue
            ordered = np.sort(np.clip(data, lower, upper)) / 4  # a difference may be beyond floats
            first, last = -(-len(data) // 4), -(-3 * len(data) // 4)
            apart = ordered[last - 1] - ordered[first - 1]
            low, high = release.interval()
            assert low / 4 <= apart <= high / 4
            assert low <= release.value <= high


@pytest.mark.parametrize("step", ["17/16", "5/4", "2", "16"])
def test_distances_are_the_specs(step: str) -> None:
    """Compare on every dataset of at most five records on seven cells, and on larger ones with ties
    and records beyond bounds."""
    query = QuartileBins(-2, 4, 0, Fraction(step))
    for n in (2, 3, 4, 5):
        for cells in combinations_with_replacement(range(-2, 5), n):
            bins = query.evaluate(View(np.array(cells, np.float64)[:, None]), NOTHING)
            assert tuple(map(tuple, bins.tolist())) == quartiles.bins(cells, -2, 4, Fraction(step))
    rng = np.random.default_rng(3)
    for n in (6, 7, 40, 41):
        data = np.where(rng.random(n) < 0.3, 40.0, rng.normal(50, 40, n))
        mechanism = made(step=step, cells=128)
        own = spec.counts(mechanism.parameters, [Fraction(x) for x in data])
        assert [tuple(row) for row in rows(mechanism, data)] == list(own)


@pytest.mark.parametrize("most", [1, 2, 7, 2**20, 2**51])
@pytest.mark.parametrize("step", ["17/16", "5/4", "16"])
def test_edges_are_the_specs(most: int, step: str) -> None:
    edges = edges_of(most, Fraction(step))
    assert list(edges) == quartiles.edges(most, Fraction(step))
    assert edges[-1] > edges[-2] > most


def test_distances_are_exact_far_out() -> None:
    """Count on 2^51 cells, where a float of the sum of two edges would be rounded."""
    far = 2**50
    query = QuartileBins(-far, far, 0, Fraction(2))
    cells = np.array([-far, -far + 1, far - 1, far])
    own = quartiles.bins(cells.tolist(), -far, far, Fraction(2))
    distances = [query.distance(cells, query.edges[key], query.edges[key + 2]) for key in dict(own)]
    assert distances == [distance for _, distance in own]
    assert query.evaluate(View(np.zeros((1, 1))), NOTHING).tolist() == [[0, 1], [1, 1]]


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("1/4", "1e-9"), ("10", "1e-3")])
def test_a_budget_is_met_and_no_threshold_is_wasted(epsilon: str, delta: str) -> None:
    budget = ApproxDP(epsilon, delta)
    mechanism = InterquartileRange.for_budget(budget, adjacency=REPLACE, lower=0, upper=1)
    assert mechanism.composed.implies(budget)
    noise = mechanism._noise()
    assert noise == LaplaceTest(spec.scale(mechanism.parameters), noise.threshold)
    assert noise.threshold == spec.threshold_of(mechanism.parameters)


def test_a_distance_passes_as_often_as_is_said() -> None:
    """Release crowds of which it takes just so many: 2000 releases each, a false alarm below
    1e-6."""
    mechanism = made(noise_multiplier="1/2", delta="1/50", cells=64)
    far = mechanism.passes_from(beta="1/20")
    assert far == spec.error_bound(mechanism.parameters, Fraction(1, 20))
    data = [50.0] * (4 * far)
    assert [row[1] for row in rows(mechanism, data)] == [far, far]
    releases = estimates(mechanism, data, 5)
    for name in ("low", "high"):
        assert len({getattr(one, name) for one in releases if not isinstance(one, Abstained)}) <= 2
    expected = float(spec.abstains(mechanism.parameters, [Fraction(50)] * (4 * far)))
    gone = sum(isinstance(one, Abstained) for one in releases) / RELEASES
    assert abs(gone - expected) < 5 * math.sqrt(expected / RELEASES)
    assert expected <= Fraction(1, 20) ** 2
    assert len(estimates(mechanism, data[4:], 6)) == RELEASES


def test_even_records_rarely_abstain_from_minimum_n_on() -> None:
    mechanism = made(noise_multiplier="1/2", delta="1e-3", lower=-1.0, upper=2.0)
    n = mechanism.minimum_n(beta="1/100")
    for count in (n, n + 1, n + 2, 3 * n):
        releases = estimates(mechanism, np.linspace(0.2, 0.8, count), count)
        gone = [isinstance(one, Abstained) * 2.0 for one in releases]
        assert fails_at_most(gone, 1.0, 0.01)
    few = estimates(mechanism, np.linspace(0.2, 0.8, n // 4), 3)
    assert sum(isinstance(one, Abstained) for one in few) > RELEASES // 2


def test_a_range_is_off_by_the_factor_that_is_told() -> None:
    """2000 releases each at three places of a bin. A release is further off with probability 1e-3,
    and more often than allowed at some place with probability below 3e-6. At the second place one
    in twenty is off by more than 0.6 of the factor in logarithms, as only one bin passes: a
    factor that is smaller by so much is seen."""
    mechanism = made(noise_multiplier="1/2", delta="1e-3", lower=-1.0, upper=8.0)
    n = mechanism.records_for(1.2)
    told, widest = mechanism.expected_error(n), 0.0
    assert (n, told) == (mechanism.minimum_n(), math.sqrt(1.25))
    assert mechanism.expected_error(n - 1) == math.inf
    with pytest.raises(ValueError, match=r"1\.12 is expected"):
        mechanism.records_for(1.1)
    query = mechanism._query()
    edge = next(edge for edge in query.edges if edge > 1 << 18) * 2.0**query.exponent
    for place in (0.2, 0.35, 0.5):
        apart, even = edge * 1.25**place, np.linspace(0, 1, n)
        first, last = ranks_of(n)
        batch = mechanism.law(even / (even[last - 1] - even[first - 1]) * apart).sample(
            SeededBits(round(100 * place)), RELEASES
        )
        releases = [mechanism.estimate(batch[i]) for i in range(RELEASES)]
        off = [
            2.0 if isinstance(r, Abstained) else abs(math.log(r.value / apart)) for r in releases
        ]
        assert fails_at_most(off, math.log(told) + 1e-5, 0.001)
        widest = max(widest, sorted(off)[-RELEASES // 40])
    assert widest > 0.59 * math.log(told)


def test_no_loss_beyond_epsilon_where_a_bin_stays() -> None:
    """Move both distances of a crowd by one."""
    mechanism = made(noise_multiplier=2, delta="1/20", cells=4, upper=4.0)
    crowd = [2.0] * 48
    crafted = [(crowd, [*crowd[1:], 4.0]), ([*crowd[1:], 0.0], crowd)]
    rare = [pair for pair in crafted if rows(mechanism, pair[0])[0][0] == 0]
    assert len(rare) == 2
    loss = largest_loss_found(mechanism, st.just(2.0), 2, crafted)
    assert 0.45 < loss <= 0.5 + 1e-9


def test_what_passed_is_told_once() -> None:
    mechanism = made(lower=0.0, upper=64.0, cells=64, step=2)
    both = mechanism.estimate(transcript({"bins": (4, 31, 5, 33)}))
    one = mechanism.estimate(transcript({"bins": (5, 33)}))
    none = mechanism.estimate(transcript({"bins": ()}))
    assert isinstance(both, InterquartileRangeEstimate)
    assert isinstance(one, InterquartileRangeEstimate)
    assert (both.low, both.high, both.records) == (7.0, 16.0, 31)  # of 4..15 and 8..31
    assert (one.low, one.high, one.records) == (7.0, 32.0, 33)
    assert math.isclose(both.value, math.sqrt(128))
    assert math.isclose(one.value, 16)
    assert isinstance(none, Abstained)
    with pytest.raises(ValueError, match="level = 1"):
        one.interval(1)


def test_a_nonfinite_record_counts_as_the_middle_when_replaced() -> None:
    mechanism = made(nonfinite="replace", cells=64)
    assert rows(mechanism, [50.0, np.nan, np.inf, 9.0]) == rows(mechanism, [50.0, 50.0, 50.0, 9.0])


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"adjacency": Adjacency.ADD_REMOVE}, ValueError, "Use Adjacency.REPLACE, or PrivateQuantile"),
    ({"lower": 100.0}, ValueError, "are equal"),
    ({"lower": 1e9, "upper": 1e9 + 1e-6}, ValueError, "Subtract a public constant"),
    ({"step": 1}, ValueError, "step = 1 is not from 17/16 to 16"),
    ({"step": 17}, ValueError, "step = 17 is not from 17/16 to 16"),
    ({"step": Fraction(2**21 + 1, 2**20 + 1)}, ValueError, "a denominator up to"),
    ({"step": "wide"}, ValueError, "step"),
    ({"delta": 0}, ValueError, r"delta = 0 is outside \(0, 1\)"),
    ({"cells": 1}, ValueError, r"outside 2..2\^24"),
]


@pytest.mark.parametrize(("parameters", "kind", "message"), REFUSED, ids=range(len(REFUSED)))
def test_bad_parameters_are_refused(
    parameters: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        made(**parameters)


def test_bad_data_and_budgets_are_refused_before_any_bit() -> None:
    mechanism = made()
    for data in ([], [1.0]):
        with pytest.raises(ValueError, match=r"needs at least 2 \(and rarely abstains"):
            mechanism.release(data, NoBits())
    with pytest.raises(ValueError, match="finite"):
        mechanism.release([1.0, float("nan")], NoBits())
    with pytest.raises(ValueError, match="a probability that is a delta; give an ApproxDP"):
        InterquartileRange.for_budget(PureDP(1), adjacency=REPLACE, lower=0, upper=1)
    with pytest.raises(ValueError, match="no room between"):
        QuartileBins(3, 3, 0, Fraction(2))
    with pytest.raises(ValueError, match=r"2\^50 of the public grid"):
        QuartileBins(0, 2**51, 0, Fraction(2))
    with pytest.raises(ValueError, match=r"Use Adjacency\.REPLACE"):
        QuartileBins(0, 8, 0, Fraction(2)).sensitivity(Adjacency.ADD_REMOVE, Domain(1))
