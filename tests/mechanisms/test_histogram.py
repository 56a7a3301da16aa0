"""``histogram``: every record in one place, the stated noise, and answers for ranges that add
up."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from scipy.special import ndtr

from dpverify import (
    Adjacency,
    ApproxDP,
    BinsEstimate,
    GaussianDP,
    Histogram,
    PureDP,
    RangeEstimate,
    SeededBits,
)
from dpverify.grid.transcripts import transcript
from spec import histogram as spec
from tests.mechanisms.helpers import (
    EDGE_DATA,
    EDGE_RECORDS,
    OF_NORMAL_NOISE,
    estimates,
    fails_at_most,
    largest_loss_found,
    mean_square_fits,
    typed_releases,
)
from tests.randomness.helpers import NoBits

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
EDGES = (-1e308, -5e-324, 0.0, 5e-324, 0.5, 1.0)


def histogram(**parameters: Any) -> Histogram:
    base: dict[str, Any] = {"adjacency": ADD, "noise_multiplier": 1, "axes": (EDGES,)}
    return Histogram(**base | parameters)


def value_of(counts: Any) -> Any:
    assert isinstance(counts, BinsEstimate)
    return counts.value


# --- where a record is counted --------------------------------------------------------------------


@pytest.mark.parametrize("data", EDGE_DATA, ids=range(len(EDGE_DATA)))
@pytest.mark.parametrize("strategy", ["identity", "tree"])
def test_every_float_is_in_one_place(data: list[float], strategy: Any) -> None:
    """Count without noise: P(noise != 0) < exp(-10^5)."""
    quiet = histogram(noise_multiplier="1/1000000", outside="count", strategy=strategy)
    for column in (data, data[::-1], np.array(data).reshape(-1, 1)):
        counts = quiet.release(column, SeededBits(1))
        inside = [x for x in data if -1e308 <= x <= 1]
        assert list(value_of(counts)) == np.histogram(inside, EDGES)[0].tolist()
        assert counts.outside == len(data) - len(inside)  # type: ignore[union-attr]


def test_missing_and_infinite_records_are_in_no_bin() -> None:
    data = np.array([[np.nan, 0.0], [0.5, np.inf], [0.5, 1.0], [0.5, 0.5], [9.0, 1.0]])
    quiet = histogram(
        noise_multiplier="1/1000000", axes=(EDGES, 2), nonfinite="replace", outside="count"
    )
    counts = quiet.release(data, SeededBits(1))
    assert value_of(counts).tolist() == [[0, 0]] * 4 + [[0, 1]]
    assert counts.outside == 4  # type: ignore[union-attr]


def test_categories_are_whole_numbers() -> None:
    quiet = histogram(noise_multiplier="1/1000000", axes=(3,))
    data = [0.0, -0.0, 2.0, 2.0000000000000004, 3.0, -1.0, 0.5, 1e308, 5e-324]
    assert value_of(quiet.release(data, SeededBits(1))).tolist() == [2, 0, 1]


def test_a_hundred_thousand_bins_are_released_together() -> None:
    edges = tuple(np.linspace(0, 1, 10**5 + 1).tolist())
    data = np.repeat([0.25, 0.75], [10**6, 3])
    for how in ({}, {"strategy": "circulant", "noise": "gaussian"}):
        counts = histogram(axes=(edges,), noise_multiplier=1, **how).release(data, SeededBits(1))
        value = value_of(counts)
        assert value.shape == (10**5,)
        assert abs(value.max() - 10**6) < 100  # the noise has deviations of at most 2
        assert isinstance(counts, BinsEstimate)
        assert abs(counts.range(0.0, edges[50_000]).value - 10**6) < 10**4
        assert abs(counts.quantile("1/2") - 0.25) < 1e-3


# --- the claim ------------------------------------------------------------------------------------

RECORDS = st.one_of(st.sampled_from([*EDGE_RECORDS, 2.0]), st.floats(-2, 2))
MECHANISMS = {
    "laplace": histogram(noise_multiplier=2),
    "replace": histogram(noise_multiplier=2, adjacency=REPLACE),
    "the rest": histogram(noise_multiplier="2/3", adjacency=REPLACE, outside="count"),
    "tree": histogram(noise_multiplier=2, axes=(tuple(range(44)),), strategy="tree"),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_no_neighbors_lose_more_than_claimed(name: str) -> None:
    mechanism = MECHANISMS[name]
    epsilon = 1 / mechanism.noise_multiplier
    assert mechanism.claim.guarantee == PureDP(epsilon)
    left, right = [0.25], [2.0] if name == "the rest" else [0.75]
    crafted = [(left, right)] if mechanism.adjacency is REPLACE else [([], [0.5])]
    loss = largest_loss_found(mechanism, RECORDS, fewest=0, crafted=crafted)
    assert 0.9 * float(epsilon) < loss <= float(epsilon) * (1 + 1e-9)


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
@pytest.mark.parametrize("strategy", ["identity", "tree", "circulant"])
@pytest.mark.parametrize("axes", [(EDGES,), (EDGES, 3), (tuple(range(9)),)], ids=["1", "2", "8"])
def test_scales_and_errors_are_those_of_the_spec(
    adjacency: Adjacency, strategy: Any, axes: Any
) -> None:
    for noise, outside in product(("gaussian", "laplace"), ("drop", "count")):
        if (strategy, noise) == ("circulant", "laplace"):
            continue
        made = histogram(
            adjacency=adjacency, strategy=strategy, axes=axes, noise=noise, outside=outside
        )
        assert made._noise().scale == spec.scale(made.parameters)
        assert made.expected_error(0) == pytest.approx(float(spec.expected_error(made.parameters)))
        told = GaussianDP(1) if noise == "gaussian" else PureDP(1)
        assert made.composed.implies(told)


def test_a_replaced_record_costs_two_counts_and_not_two_steps() -> None:
    one, two = (
        Histogram.for_budget(GaussianDP("1/2"), adjacency=near, axes=(9,), noise="gaussian")
        for near in (ADD, REPLACE)
    )
    assert one.noise_multiplier == 2
    assert 1.999 < two.noise_multiplier <= 2
    ratio = two._noise().scale / one._noise().scale
    assert abs(float(ratio) - 2**0.5) < 1e-9


@pytest.mark.parametrize("strategy", ["identity", "tree", "circulant"])
def test_the_error_of_ranges_is_the_predicted_one(strategy: Any) -> None:
    """1000 errors of the normal law: false alarm 1e-6, and 1.3 times the noise is noticed."""
    data = [0.5] * 30 + [6.0] * 20
    right = histogram(
        axes=(tuple(range(9)),), strategy=strategy, noise="gaussian", noise_multiplier=5
    )
    wrong = replace(right, noise_multiplier=Fraction(13, 2))
    told = right.estimate(transcript({"counts": [0] * right._counts().width}))
    assert isinstance(told, BinsEstimate)
    deviation = told.range(2, 7).standard_deviation
    own, other = (
        [one.range(2, 7).value - 20 for one in estimates(made, data, 5, OF_NORMAL_NOISE)]
        for made in (right, wrong)
    )
    assert mean_square_fits(own, deviation, OF_NORMAL_NOISE)
    assert not mean_square_fits(other, deviation, OF_NORMAL_NOISE)
    assert abs(float(np.mean(own))) < 6 * deviation / OF_NORMAL_NOISE**0.5  # unbiased; 6 sd


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_error_bound_fails_as_rarely_as_stated(noise: Any) -> None:
    mechanism = histogram(noise_multiplier=5, noise=noise, axes=(2,))
    bound = float(spec.error_bound(mechanism.parameters, Fraction(1, 20)))
    errors = [counts.released[0] for counts in estimates(mechanism, [], 3)]
    assert fails_at_most(errors, bound, 0.05)
    assert not fails_at_most(errors, bound / 2, 0.05)


def test_ranges_of_many_bins_are_nearer_with_a_strategy() -> None:
    """The predicted root mean squared error over all ranges of 16 bins, at one mu."""
    shared: dict[str, Any] = {"axes": (tuple(range(17)),), "noise": "gaussian"}
    errors = [
        float(spec.range_error(histogram(strategy=how, noise_multiplier=100, **shared).parameters))
        for how in ("identity", "tree", "circulant")
    ]
    assert errors == pytest.approx([100 * v**0.5 for v in (6, 29 / 7, 3.199)], rel=1e-3)


# --- what is made of an answer --------------------------------------------------------------------


def test_ranges_add_up_and_hold_what_is_between() -> None:
    shared: dict[str, Any] = {"axes": (tuple(range(7)), 2), "noise": "gaussian"}
    for strategy in ("identity", "tree", "circulant"):
        made = histogram(strategy=strategy, noise_multiplier=3, **shared)
        counts = made.release(np.array([[0.5, 1.0], [3.0, 0.0]]), SeededBits(2))
        assert isinstance(counts, BinsEstimate)
        whole = counts.range((0, 6), (0, 2))
        parts = [counts.range((a, b), (0, 2)).value for a, b in ((0, 2), (2, 6))]
        assert whole.value == pytest.approx(sum(parts))
        assert counts.range((2, 2), (0, 2)).value == counts.range((2, 2), (0, 2)).standard_deviation
        cell = counts.range((3, 4), (1, 2))
        assert cell.value == pytest.approx(counts.value[3, 1])
        assert cell.standard_deviation == pytest.approx(counts.standard_deviation[3, 1])
        low, high = whole.interval(0.99)
        reach = 2.5758 * whole.standard_deviation + 0.5 * (strategy != "circulant")
        assert high - low == pytest.approx(2 * reach, rel=1e-4)


@pytest.mark.parametrize("ordered", [3, 4, 6])
@pytest.mark.parametrize("outside", ["drop", "count"])
def test_circulants_of_many_axes_have_noise_that_is_drawn(ordered: int, outside: Any) -> None:
    edges = tuple(range(6 if ordered < 6 else 3))
    made = histogram(
        axes=((edges,) * ordered), strategy="circulant", noise="gaussian", noise_multiplier=100
    )
    made = replace(made, outside=outside)
    counts = made.release(np.full((10**6, ordered), 0.5), SeededBits(1))
    assert isinstance(counts, BinsEstimate)
    whole = counts.range(*((edges[0], edges[1]),) * ordered)
    assert abs(whole.value - 10**6) < 6 * whole.standard_deviation < 10**5


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_intervals_of_ranges_hold_the_truth_as_often_as_they_say(noise: Any) -> None:
    """Exactly, of one to eight bins, where the noise is little and its atoms are large."""
    for scale in (0.25, 0.5, 0.7, 1, 1.1, 1.25, 2, 5):
        made = histogram(axes=(tuple(range(9)),), noise=noise, noise_multiplier=Fraction(scale))
        counts = made.estimate(transcript({"counts": [0] * 8}))
        assert isinstance(counts, BinsEstimate)
        at = np.arange(-40 * math.ceil(scale), 40 * math.ceil(scale) + 1)
        if noise == "laplace":
            one = np.tanh(1 / (2 * scale)) * np.exp(-np.abs(at) / scale)
        else:
            one = np.diff(ndtr((np.append(at, at[-1] + 1) - 0.5) / scale))
        masses = np.ones(1)
        for bins in range(1, 9):
            masses = np.convolve(masses, one)
            reach = np.abs(np.arange(len(masses)) - len(masses) // 2)
            for level in (0.5, 0.9, 0.95, 0.99, 0.999):
                low, high = counts.range(0, bins).interval(level)
                missed = masses[reach > high].sum()
                assert low == -high
                assert missed <= 1.001 * (1 - level), (scale, bins, level)
                assert scale < 5 or noise == "laplace" or missed >= 0.3 * (1 - level)


def test_what_follows_from_counts_is_stated() -> None:
    axes = ((0.0, 1.0, 2.0, 4.0),)
    counts = BinsEstimate((-3, 10, 30), axes, "identity", 2.0, "laplace")
    assert counts.nonnegative().tolist() == [0, 10, 30]
    assert counts.consistent(40).tolist() == [0, 10, 30]
    assert counts.cumulative().tolist() == [0, -3, 7, 37]
    # below the edges: 0, -3, 7, 37; rising: 0 (clipped), 0 (clipped), 7, 37
    assert counts.quantile("1/2") == pytest.approx(2 + 2 * (37 / 2 - 7) / 30)
    assert counts.quantile("1/37") == pytest.approx(1 + 1 / 7)
    assert counts.quantile(1) == 4
    assert counts.range(1.0, 4.0) == RangeEstimate(40.0, 8**0.5, "laplace", 2.0)
    low, high = counts.interval(0.95)
    wide = counts.interval(0.95, simultaneous=True)
    assert (high - low == 2 * (high[0] - counts.value[0])).all()
    assert (wide[0] < low).all()
    with pytest.raises(ValueError, match="there is no quantile"):
        BinsEstimate((-3, 1, 1), axes, "identity", 2.0).quantile("1/2")


def test_results_survive_json_and_the_floating_point_environment() -> None:
    for made in (
        histogram(outside="count"),
        histogram(strategy="tree", noise="gaussian", adjacency=REPLACE),
        histogram(strategy="circulant", noise="gaussian"),
    ):
        assert len([*typed_releases(made, EDGE_DATA)]) == len(EDGE_DATA)


# --- refusals -------------------------------------------------------------------------------------

LARGE = 1.7976931348623157e308
BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"axes": ()}, TypeError, "give a tuple of axes"),
    ({"axes": 5}, TypeError, "give a tuple of axes"),
    ({"axes": ((1.0,),)}, ValueError, "at least two edges"),
    ({"axes": ((1.0, 1.0),)}, ValueError, "equal; give the smaller one first"),
    ({"axes": ((2.0, 1.0),)}, ValueError, "reversed"),
    ({"axes": ((0.0, float("inf")),)}, ValueError, "finite public bound"),
    ({"axes": ((-LARGE, 0.0, LARGE),)}, ValueError, "The edges hold every number"),
    ({"axes": (0,)}, ValueError, "0 categories"),
    ({"axes": (True,)}, TypeError, "give an integer"),
    ({"axes": (2.5,)}, TypeError, "give an integer"),
    ({"axes": (1 << 11, 1 << 11)}, ValueError, "4194304 bins"),
    ({"axes": (5,), "strategy": "tree"}, ValueError, "categories have no order"),
    (
        {"axes": ((0.0, 1.0, 2.0),) * 7, "strategy": "circulant", "noise": "gaussian"},
        ValueError,
        "of 7 axes with edges; it is for at most 6",
    ),
    ({"strategy": "circulant"}, ValueError, "no advantage under Laplace"),
    ({"strategy": "wavelet"}, ValueError, "write 'identity', 'tree' or 'circulant'"),
    ({"outside": "clamp"}, ValueError, "write 'drop' or 'count'"),
]


@pytest.mark.parametrize(("change", "kind", "message"), BAD, ids=range(len(BAD)))
def test_bad_parameters_are_refused(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        histogram(**change)


@pytest.mark.parametrize("data", [[1.0, np.nan], [[1.0, 2.0]], ["1"], [None], None])
def test_no_bit_is_drawn_for_refused_data(data: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        histogram().release(data, NoBits())


def test_gaussian_noise_that_cannot_be_drawn_is_refused_before_a_bit_is() -> None:
    for multiplier in ("1e-9", "1e14"):
        with pytest.raises(ValueError, match="drawn for standard deviations"):
            histogram(noise="gaussian", noise_multiplier=multiplier).release([], NoBits())


def test_ends_that_are_no_edges_are_refused() -> None:
    counts = BinsEstimate((1, 2, 3), ((0.0, 1.0, 2.0, 4.0),), "identity", 2.0)
    for ends in ((0.5, 1), (0, 3), (float("nan"), 4), ("0", 4), (True, 4)):
        with pytest.raises(ValueError, match=r"is no edge|give \(low, high\)"):
            counts.range(*ends)
    with pytest.raises(ValueError, match="the lower end first"):
        counts.range(2, 1)
    with pytest.raises(ValueError, match="for each of 1 axes"):
        counts.range((0, 1), (0, 1))
    with pytest.raises(ValueError, match="at least 0"):
        counts.consistent(-1)
    plane = BinsEstimate((1, 2), (2, (0.0, 1.0)), "identity", 2.0)
    for ask in (plane.cumulative, lambda: plane.quantile("1/2")):
        with pytest.raises(ValueError, match="of one axis"):
            ask()
    with pytest.raises(ValueError, match="bins between edges"):
        BinsEstimate((1, 2), (2,), "identity", 2.0).quantile("1/2")
    with pytest.raises(ValueError, match="released has 1 integers"):
        BinsEstimate((1,), (2,), "identity", 2.0)


def test_budgets_of_both_kinds_are_met() -> None:
    for budget, noise in ((PureDP(1), "laplace"), (ApproxDP(1, "1e-6"), "gaussian")):
        made = Histogram.for_budget(budget, adjacency=REPLACE, axes=(EDGES, 2), noise=noise)  # type: ignore[arg-type]
        assert made.claim.guarantee == budget
