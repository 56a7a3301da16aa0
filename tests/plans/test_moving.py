"""Queries that read what was released: values against Python integers, at every size; no
statistics."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpverify.grid import UNIT, Query, Released, View
from dpverify.grid.image_view import Images
from dpverify.grid.linear import Integers
from dpverify.grid.nearness import Nearness
from dpverify.grid.transcript_queries import MovingSum, weight_of
from dpverify.plans import Gate, Law, RoundedGaussian, Stage, Transcripts
from dpverify.privacy import Adjacency, Domain
from dpverify.privacy.adjacency import Friendly
from dpverify.randomness import SeededBits
from dpverify.transformations import Agreement, WeightedMean
from tests.plans.helpers import batch_of

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
DOMAIN = Domain(columns=2)
NEAR = Nearness(5, 0, (1.0, 1.0))
SPREAD = Fraction(7, 3)
FAR = 1 << 41


def batch(column: list[int], name: str = "agreement") -> Transcripts:
    transcripts = batch_of((name,), [((0,),) for _ in column], [-1] * len(column))
    transcripts.values[name] = np.array(
        column, object if max(map(abs, column)) >= 2**63 else np.int64
    )[:, None]
    return transcripts


def excesses(images: list[list[int]], radius: int) -> list[int]:
    """max(0, 2 degree - n), by all pairs."""
    degrees = [sum(math.dist(y, z) <= radius + 1e-9 for z in images) for y in images]
    return [max(0, 2 * degree - len(images)) for degree in degrees]


def weighted(images: list[list[int]], noise: Fraction, radius: int) -> list[int]:
    weights = excesses(images, radius)
    if not sum(weights):
        return [0, 0]
    sums = (sum(w * y[k] for w, y in zip(weights, images, strict=True)) for k in range(2))
    return [round(UNIT * Fraction(s, sum(weights)) / noise) for s in sums]


near_zero = st.integers(-6, 6)
records = st.lists(st.tuples(near_zero, near_zero), max_size=7)


@settings(derandomize=True, deadline=None, max_examples=120)
@given(
    records,
    st.lists(st.integers(-3, 40) | st.integers(-(2**70), 2**70), min_size=1, max_size=4),
    st.sampled_from([0, 2**30, -(2**40) + 6]),
    st.sampled_from(Adjacency),
)
def test_the_weighted_mean_is_that_of_python_integers(
    rows: list[tuple[int, int]], column: list[int], offset: int, adjacency: Adjacency
) -> None:
    """Compare also after a released number that is not positive, which no claim is about, and
    for no weights."""
    data = np.array(rows, np.float64).reshape(-1, 2) + offset
    query = WeightedMean(NEAR, SPREAD, adjacency)
    answers = query.evaluate(View(data), batch(column))
    assert answers.shape == (len(column), 2)
    ints = [[int(v) for v in row] for row in data.tolist()]
    for released, value in zip(column, answers.tolist(), strict=True):
        reach = Fraction(17, 16) if adjacency is ADD else Fraction(17, 8)
        noise = reach * 5 * SPREAD / max(1, released)
        assert query.noise(released) == noise
        assert value == weighted(ints, noise, 5)


def test_neither_order_nor_blocks_of_records_show() -> None:
    rng = np.random.default_rng(3)
    data = rng.integers(-6, 7, (40, 2)).astype(np.float64)
    query = WeightedMean(NEAR, SPREAD, ADD)
    answers = query.evaluate(View(data), batch([12]))
    for order in (np.arange(40)[::-1], rng.permutation(40)):
        assert np.array_equal(query.evaluate(View(data[order]), batch([12])), answers)
    assert answers.any()


def test_no_weights_give_zero_and_the_agreement_of_nobody_is_zero() -> None:
    query = WeightedMean(NEAR, SPREAD, ADD)
    for rows in (np.zeros((0, 2)), np.array([[0.0, 0.0], [90.0, 0.0]])):
        view = View(rows)
        assert view.images(NEAR).weighted_sum == ([0, 0], 0)
        assert query.evaluate(view, batch([20, 1])).tolist() == [[0, 0], [0, 0]]
        assert Agreement(NEAR, 3).evaluate(view).tolist() == [-len(rows) - 3]


def test_sums_of_weights_do_not_wrap() -> None:
    """Add weights as large as those of 10^9 records, whose sums would wrap."""
    mapped = Images(np.zeros((8, 2)), NEAR)
    mapped.__dict__["images"] = np.arange(16).reshape(8, 2)
    sums = mapped._sum_by(np.full(8, 1 << 61))
    assert sums == ([56 << 61, 64 << 61], 8 << 61)


# --- sums about a point ---------------------------------------------------------------------------


def summed(images: list[list[int]], point: list[int], radius: int) -> list[int]:
    inside = [
        [a - b for a, b in zip(y, point, strict=True)]
        for y in images
        if sum((a - b) ** 2 for a, b in zip(y, point, strict=True)) <= radius**2
    ]
    return [*(sum(y[k] for y in inside) for k in range(2)), max(1, radius // 8) * len(inside)]


def moving(places: list[tuple[list[int], int]], adjacency: Adjacency) -> MovingSum:
    points = np.array([point for point, _ in places], np.int64)
    radii = np.array([radius for _, radius in places], np.int64)

    def place(batch: Transcripts) -> tuple[Integers, Integers]:
        return points, radii

    return MovingSum(NEAR, SPREAD, adjacency, Released((), place))


coordinates = st.one_of(near_zero, st.sampled_from([2**40, -(2**40), 2**40 - 3, FAR, -FAR]))
places = st.tuples(
    st.lists(coordinates, min_size=2, max_size=2),
    st.integers(1, 30) | st.sampled_from([2**20, 2**40, FAR, FAR - 1]),
)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    st.lists(st.lists(coordinates, min_size=2, max_size=2), max_size=6),
    st.lists(places, min_size=1, max_size=3),
    st.sampled_from(Adjacency),
)
def test_the_moving_sum_is_that_of_python_integers(
    rows: list[list[int]], where: list[tuple[list[int], int]], adjacency: Adjacency
) -> None:
    """Compare with points and radii at the ends of the grid, where squares need more than 64
    bits."""
    query = moving(where, adjacency)
    view = View(np.array(rows, np.float64).reshape(-1, 2))
    images = [[min(max(v, -(2**40)), 2**40) for v in row] for row in rows]
    answers = query.evaluate(view, batch([0] * len(where))).tolist()
    for (point, radius), value in zip(where, answers, strict=True):
        unit = query.unit(radius)
        expected = [round(Fraction(v) * UNIT / unit) for v in summed(images, point, radius)]
        assert value == expected


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("radius", [1, 2, 7, 8, 9, 1000, 2**20, FAR])
def test_one_record_moves_the_value_by_less_than_its_sensitivity(
    radius: int, adjacency: Adjacency
) -> None:
    """The worst moves: in at the boundary, from end to end, and out from there."""
    edge = min(radius, 2**40)
    sides: list[list[list[int]]] = [[[edge, 0]], [[-edge, 0]], [[0, 0]], []]
    query = moving([([0, 0], radius)], adjacency)
    most = query.sensitivity(adjacency, DOMAIN).conclusion.value
    values = [
        query.evaluate(View(np.array(rows, np.float64).reshape(-1, 2)), batch([0]))[0]
        for rows in sides
    ]
    pairs = [(0, 3), (1, 3), (2, 3)] if adjacency is ADD else [(0, 1), (0, 2)]
    moved = [
        sum(int(a - b) ** 2 for a, b in zip(values[i], values[j], strict=True)) for i, j in pairs
    ]
    assert max(moved) <= most
    assert radius == FAR or max(moved) > 0.99 * most  # and no less is possible
    assert weight_of(radius) == max(1, radius // 8)


def test_images_far_beyond_the_radius_are_left_out_however_long_their_squares() -> None:
    rows = np.array([[2.0**40, -(2.0**40)], [3.0, 4.0], [3.0, 5.0], [-5.0, 0.0]])
    query = moving([([0, 0], 5)], ADD)
    answers = query.evaluate(View(rows), batch([0])).tolist()
    assert answers == [[round(Fraction(v) * UNIT / query.unit(5)) for v in (-2, 4, 2)]]


# --- in a plan ------------------------------------------------------------------------------------


def test_a_law_gives_every_draw_its_own_center_and_knows_its_likelihood() -> None:
    """False alarm below 1e-6: given the agreement r, the mean's deviation is 2^40 exactly; over
    2000 draws with noise dropped in the center the sample's is off by 12% or more with
    probability 2e-13."""
    data = np.random.default_rng(2).integers(-2, 3, (60, 2)).astype(np.float64)
    query = WeightedMean(NEAR, SPREAD, ADD)
    plan = (
        Stage("agreement", Agreement(NEAR, 0), RoundedGaussian(4)),
        Gate("agreement", 10, "few"),
        Stage("mean", query, RoundedGaussian(UNIT)),
    )
    law = Law(plan, data, ADD, DOMAIN)
    drawn = law.sample(SeededBits(9), 2000)
    view = View(data)
    centers = np.vstack(
        [query.evaluate(view, batch([int(r)])) for r in drawn.values["agreement"][:, 0]]
    )
    assert len({tuple(row) for row in centers.tolist()}) > 10
    gaps = (drawn.values["mean"] - centers).astype(np.float64) / UNIT
    assert abs(gaps.std() - 1) < 0.12
    first = drawn[0]
    prefix = [first.released["agreement"]]
    assert law.center_after(plan[2], prefix).tolist() == centers[0].tolist()
    likelihoods = law.log_likelihood(drawn)
    agreement = RoundedGaussian(4).log_probability(
        drawn.values["agreement"],
        law.center_after(plan[0], []),
    )
    noise = RoundedGaussian(UNIT).log_probability(drawn.values["mean"], centers)
    assert np.allclose(likelihoods, agreement + noise, rtol=1e-12)
    assert not law.latent


@pytest.mark.parametrize(
    ("query", "about", "message"),
    [
        (
            WeightedMean(NEAR, SPREAD, ADD),
            REPLACE,
            "the mean is in units for add-remove, not replace",
        ),
        (moving([([0, 0], 1)], REPLACE), ADD, "MovingSum is in units for replace, not add-remove"),
        (
            moving([([0, 0], 1)], ADD),
            Friendly(NEAR.predicate),
            "MovingSum is in units for add-remove",
        ),
        (Agreement(NEAR, 0), Friendly(NEAR.predicate), "for inputs"),
    ],
)
def test_a_query_in_units_of_one_adjacency_has_no_sensitivity_under_another(
    query: Any, about: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        query.sensitivity(about, DOMAIN)


def test_a_query_that_reads_a_stage_has_no_value_before_it() -> None:
    def place(before: Transcripts) -> tuple[Integers, Integers]:
        return np.zeros((len(before), 2), np.int64), before["radius"][:, 0]

    readers: list[Query] = [
        WeightedMean(NEAR, SPREAD, ADD),
        MovingSum(NEAR, SPREAD, ADD, Released(("radius",), place)),
    ]
    for query, stage in zip(readers, ("agreement", "radius"), strict=True):
        assert query.reads == (stage,)
        assert query.evaluate(View(np.zeros((1, 2))), batch([1], stage)).shape == (1, query.width)
        with pytest.raises(KeyError, match=stage):
            query.evaluate(View(np.zeros((1, 2))))
