"""Sums after a map that was released: exact for every draw, within one bound, and as rounds of a
plan."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpverify import SeededBits
from dpverify.grid import (
    NOTHING,
    IntegerMap,
    OneUnit,
    Released,
    ReleasedSum,
    Transcripts,
    VectorSum,
    View,
    clip_to_ball,
)
from dpverify.grid.joint import WithCount
from dpverify.plans import Law, NoNoise, Plan, RoundedGaussian, Stage
from dpverify.plans.plan import derive
from dpverify.privacy import Adjacency, Domain, GaussianDP, Norm

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
TWO = Domain(columns=2)
LONGEST = 1 << 41


def summed(maps: list[IntegerMap], radius: int = 9, columns: int = 2) -> ReleasedSum:
    """Return a sum after these maps, one for each draw, whatever was released."""
    return ReleasedSum(columns, maps[0].width, radius, Released(("before",), lambda b: maps))


def drawn(size: int) -> Transcripts:
    return Transcripts(
        {"before": np.zeros((size, 1), np.int64)}, np.ones(size, np.intp), np.full(size, -1)
    )


entries = st.integers(-3, 3) | st.sampled_from([LONGEST, -LONGEST, 2**20, -(2**20) + 1])
centers = st.lists(st.integers(-9, 9) | st.sampled_from([2**40, -(2**40)]), min_size=2, max_size=2)


@st.composite
def public(draw: Any) -> IntegerMap:
    """Return a map of two numbers to two, of any rank, or none."""
    matrix = None
    if draw(st.booleans()):
        rows = draw(st.lists(st.lists(entries, min_size=2, max_size=2), min_size=2, max_size=2))
        matrix = tuple(map(tuple, rows))
    return IntegerMap(tuple(draw(centers)), draw(st.sampled_from([-3, 0, 2])), matrix)


records = st.lists(
    st.tuples(
        *[st.integers(-20, 20).map(float) | st.sampled_from([1e300, -1e308, 5e-324, 0.5])] * 2
    ),
    max_size=6,
)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(records, st.lists(public(), min_size=1, max_size=5), st.sampled_from([1, 9, 1000, LONGEST]))
def test_every_draw_has_the_sum_of_its_own_map(
    rows: Any, maps: list[IntegerMap], radius: int
) -> None:
    """Compare with sums of Python integers, and with those of a ``VectorSum`` where there is one
    of this map. Planted: one map for all."""
    data = np.array(rows, np.float64).reshape(-1, 2)
    twice = maps + maps[::-1]
    view, query = View(data), summed(twice, radius)
    sums = query.evaluate(view, drawn(len(twice)))
    assert sums.shape == (len(twice), 2)
    for one, value in zip(twice, sums.tolist(), strict=True):
        exact = [0, 0]
        for image in one.images(data):
            for row in clip_to_ball(image, radius).tolist():
                exact = [a + b for a, b in zip(exact, row, strict=True)]
        assert value == exact
        (a, b), (c, d) = one.matrix or ((1, 0), (0, 1))
        if a * d != b * c:  # of full rank
            assert isinstance(one.exponent, int)
            fixed = VectorSum(one.center, radius, one.exponent, one.matrix)
            assert value == fixed.evaluate(view).tolist()
    assert sums.dtype == (np.int64 if query.largest(len(data)) < 1 << 62 else object)


def test_maps_may_differ_by_a_cell() -> None:
    """Planted: a cache that takes maps for one another."""
    rows = np.array([[3.0, -4.0], [1.0, 1.0]])
    maps = [
        IntegerMap((0, 0), 0),
        IntegerMap((0, 1), 0),
        IntegerMap((0, 0), 1),
        IntegerMap((0, 0), 0, ((1, 0), (0, 2))),
    ]
    sums = summed(maps, 100).evaluate(View(rows), drawn(4)).tolist()
    assert sums == [[4, -3], [4, -5], [2, -2], [4, -6]]
    view = View(rows)
    assert [summed(maps, r).evaluate(view, drawn(4)).tolist()[0] for r in (100, 2)] == [
        [4, -3],
        [2, 0],
    ]


# --- bounds ---------------------------------------------------------------------------------------


def moved(query: ReleasedSum, left: Any, right: Any) -> int:
    """Squared distance of the sums of two datasets after one map, in integers."""
    one, other = (
        query.evaluate(View(np.array(rows, np.float64).reshape(-1, query.columns)), drawn(1))[
            0
        ].tolist()
        for rows in (left, right)
    )
    return sum((int(a) - int(b)) ** 2 for a, b in zip(one, other, strict=True))


@settings(derandomize=True, deadline=None, max_examples=200)
@given(records.filter(bool), public(), st.sampled_from([1, 2, 9, 1000, LONGEST]))
def test_one_record_moves_the_sum_by_no_more_than_the_radius(
    rows: Any, one: IntegerMap, radius: int
) -> None:
    query = summed([one], radius)
    shown = {a: query.sensitivity(a, TWO).conclusion for a in Adjacency}
    assert {s.norm for s in shown.values()} == {Norm.SQUARED_L2}
    assert [shown[a].value for a in (ADD, REPLACE)] == [radius**2, 4 * radius**2]
    assert moved(query, rows, rows[1:]) <= radius**2
    assert moved(query, [*rows, (1e300, -3.0)], [*rows, (-1e300, 4.0)]) <= 4 * radius**2
    assert max(
        abs(v) for v in query.evaluate(View(np.array(rows)), drawn(1))[0].tolist()
    ) <= query.largest(len(rows))


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("radius", [9, 100, 1000])
def test_hill_climbing_over_maps_and_records_comes_to_the_bound_and_not_beyond(
    adjacency: Adjacency, radius: int
) -> None:
    """Climb in integers. Planted: a bound for one record's image without its map, which is
    exceeded."""
    rng, best, most = np.random.default_rng(5), -1, radius**2 * (4 if adjacency is REPLACE else 1)
    state = np.zeros(10, np.int64)  # a matrix, a center, two records
    for step in range(600):
        trial = state + rng.integers(-3, 4, 10) * (rng.random(10) < 0.4) * (1 + step % 7)
        matrix = ((int(trial[0]), int(trial[1])), (int(trial[2]), int(trial[3])))
        query = summed([IntegerMap((int(trial[4]), int(trial[5])), 0, matrix)], radius)
        other = [trial[8:10]] if adjacency is REPLACE else []
        distance = moved(query, [(1.0, 2.0), trial[6:8]], [(1.0, 2.0), *other])
        assert distance <= most
        if distance >= best:
            state, best = trial, distance
    assert best > Fraction(9, 10) * most
    assert best > most // 4 or adjacency is ADD  # twice the radius is needed under replace


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: IntegerMap((0, 0), 0, ((LONGEST + 1, 0), (0, 1))), "matrix"),
        (lambda: IntegerMap((2**40 + 1, 0), 0), "center"),
        (lambda: IntegerMap((0, 0), 5000), "exponent = 5000"),
        (lambda: IntegerMap((), 0), "center"),
        (lambda: IntegerMap((0, 0), 0, ((1, 0, 0),)), "rows of"),
        (lambda: ReleasedSum(2, 2, LONGEST + 1, Released((), lambda b: [])), "radius"),
        (lambda: ReleasedSum(2, 2, 0, Released((), lambda b: [])), "radius = 0"),
    ],
)
def test_maps_and_radii_that_are_too_long_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "bad", [IntegerMap((0,), 0), IntegerMap((0, 0, 0), 0), IntegerMap((0, 0), 0, ((1, 2),))]
)
def test_a_map_of_another_shape_is_refused_where_it_was_released(bad: IntegerMap) -> None:
    """Planted: transcripts whose widths follow the data."""
    good = IntegerMap((0, 0), 0)
    query = ReleasedSum(2, 2, 9, Released(("before",), lambda b: [good, bad][: len(b)]))
    assert query.evaluate(View(np.zeros((1, 2))), drawn(1)).tolist() == [[0, 0]]
    with pytest.raises(ValueError, match="queries of one plan have one shape"):
        query.evaluate(View(np.zeros((1, 2))), drawn(2))


def test_what_is_no_map_of_integers_is_refused() -> None:
    half: Any = 0.5
    with pytest.raises(TypeError, match="give an integer"):
        IntegerMap((half, 0), 0)
    with pytest.raises(TypeError, match="give an integer"):
        IntegerMap((0, 0), 0, ((half, 0), (0, 1)))
    with pytest.raises(ValueError, match="give one coordinate a column"):
        summed([IntegerMap((0, 0), 0)]).sensitivity(ADD, Domain(columns=3))


# --- in units of the noise, with a count, and without a reading -----------------------------------


def test_in_the_unit_of_its_noise_and_with_a_count_it_is_row_by_row_the_fixed_sum() -> None:
    rng = np.random.default_rng(8)
    rows = rng.integers(-9, 10, (30, 2)).astype(np.float64)
    maps = [IntegerMap((k, -k), 0, ((1, k), (0, 3))) for k in range(4)]
    view = View(rows)
    released = OneUnit(WithCount(summed(maps, 12), 5), Fraction(7, 3))
    assert released.reads == ("before",)
    assert released.width == 3
    sums = released.evaluate(view, drawn(4))
    for one, value in zip(maps, sums.tolist(), strict=True):
        fixed = OneUnit(WithCount(VectorSum(one.center, 12, 0, one.matrix), 5), Fraction(7, 3))
        assert value == fixed.evaluate(view).tolist()
        for adjacency in Adjacency:
            values = (q.sensitivity(adjacency, TWO).conclusion.value for q in (released, fixed))
            assert len({*values}) == 1


@pytest.mark.parametrize("noise", [RoundedGaussian(1), NoNoise()])
def test_a_map_that_nothing_was_released_for_is_one_for_all_draws(noise: Any) -> None:
    """Planted: the one value of a query that reads nothing in the place of all draws' values."""
    query = ReleasedSum(2, 2, 9, Released((), lambda b: [IntegerMap((0, 0), 0)] * len(b)))
    assert query.evaluate(View(np.ones((3, 2))), NOTHING).tolist() == [[3, 3]]
    law = Law((Stage("sum", query, noise),), np.ones((3, 2)), ADD, TWO)
    batch = law.sample(SeededBits(1), 50)
    assert batch["sum"].shape == (50, 2)
    assert (np.abs(batch["sum"] - 3) < 9).all()  # 9 deviations: below 1e-16
    assert np.isfinite(law.log_likelihood(batch)).all()


# --- as rounds of a plan --------------------------------------------------------------------------


ROUNDS, RADIUS, SIGMA = 4, 40, Fraction(400)


def recursion(sigma: Fraction = SIGMA) -> Plan:
    """Move each round's center from the last one by a hundredth of its noisy sum."""

    def stage(k: int) -> Stage:
        names = tuple(f"round {i}" for i in range(k))

        def maps(before: Transcripts) -> list[IntegerMap]:
            centers = np.zeros((len(before), 2), np.int64)
            for name in names:
                centers = centers + before[name] // 100
            return [IntegerMap(tuple(row), 0) for row in np.clip(centers, -999, 999).tolist()]

        return Stage(
            f"round {k}", ReleasedSum(2, 2, RADIUS, Released(names, maps)), RoundedGaussian(sigma)
        )

    return tuple(map(stage, range(ROUNDS)))


def test_rounds_over_released_maps_claim_the_composition_of_their_gaussians() -> None:
    """T rounds of mu each: sqrt(T) mu. Planted: one round for all."""
    for adjacency, length in ((ADD, RADIUS), (REPLACE, 2 * RADIUS)):
        guarantee = derive(recursion(), adjacency, TWO).conclusion.guarantee
        assert guarantee == GaussianDP.of_square(ROUNDS * Fraction(length**2) / SIGMA**2)
    one = derive(recursion()[:1], ADD, TWO).conclusion.guarantee
    assert one != derive(recursion(), ADD, TWO).conclusion.guarantee


def test_rounds_over_released_maps_come_to_the_mean_and_know_their_likelihood() -> None:
    """100 records about (7, -30), three rounds of moving there. The noise on a center is 4 a
    round; 400 draws of two numbers within 8 * 8: below 1e-12."""
    data = np.random.default_rng(6).integers(-3, 4, (100, 2)) + np.array([7.0, -30.0])
    law = Law(recursion(), data, ADD, TWO)
    batch = law.sample(SeededBits(2), 400)
    center = np.sum([batch[f"round {k}"] // 100 for k in range(ROUNDS)], axis=0)
    assert (np.abs(center - data.mean(axis=0)) < 64).all()
    assert np.abs(center.mean(axis=0) - data.mean(axis=0)).max() < 2
    likelihoods = law.log_likelihood(batch)
    assert np.isfinite(likelihoods).all()
    apart = [law.log_likelihood(batch[i])[0] for i in range(0, 400, 57)]
    assert apart == likelihoods[::57].tolist()
    by_hand = np.zeros(400)
    for i in range(0, 400, 57):
        at = np.zeros(2)
        for k in range(ROUNDS):
            images = clip_to_ball((data - at).astype(np.int64), RADIUS)
            values = batch[f"round {k}"][i : i + 1]
            by_hand[i] += RoundedGaussian(SIGMA).log_probability(values, images.sum(axis=0))[0]
            at = np.clip(at + values[0] // 100, -999, 999)
    assert np.allclose(by_hand[::57], likelihoods[::57], rtol=1e-12)


def test_another_map_has_another_likelihood() -> None:
    """Planted: the second round about the first center."""
    data = np.random.default_rng(6).integers(-3, 4, (100, 2)) + np.array([7.0, -30.0])
    law = Law(recursion(), data, ADD, TWO)
    batch = law.sample(SeededBits(3), 200)
    stuck = tuple(
        Stage(
            s.name,
            ReleasedSum(2, 2, RADIUS, Released((), lambda b: [IntegerMap((0, 0), 0)] * len(b))),
            s.noise,
        )
        for s in recursion()
        if isinstance(s, Stage)
    )
    other = Law(stuck, data, ADD, TWO).log_likelihood(batch)
    assert (law.log_likelihood(batch) - other).mean() > 10
    assert math.isfinite(float(other.max()))
