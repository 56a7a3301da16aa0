"""The integer queries against the spec's, which know exact rationals only."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpverify.grid import Answers, ClampedSum, Count, Query, View, ingest, quantize
from dpverify.privacy import Domain
from spec.theory import queries as spec

DOMAIN = Domain(columns=1)
BOX = 1 << 40
EXTREMES = [0.0, -0.0, 5e-324, -5e-324, 2.2250738585072014e-308, 1e308, -1e308]
EXTREMES += [1.7976931348623157e308, -1.7976931348623157e308, 0.5, -0.5, 1.5, 2.5, -2.5]
REPEATABLE = settings(derandomize=True, deadline=None, max_examples=150)


def value(query: Query, data: list[float]) -> tuple[int, ...]:
    return tuple(int(v) for v in query.evaluate(View(ingest(data, DOMAIN))))


def rationals(data: list[float]) -> list[Fraction]:
    return [Fraction(x) for x in data]


@st.composite
def sums(draw: st.DrawFn) -> ClampedSum:
    """Bounds from tiny to the whole box, any cell from the smallest float's to 2^900."""
    exponent = draw(st.one_of(st.integers(-1074, 900), st.integers(-3, 3)))
    size = draw(st.sampled_from([2, 5, 1000, BOX]))
    lower = draw(st.integers(-size, size - 1))
    upper = draw(st.integers(lower + 1, size))
    return ClampedSum(lower, upper, draw(st.integers(lower, upper)), exponent)


def near(query: ClampedSum) -> st.SearchStrategy[float]:
    """Floats at and around the ties and bounds of a grid, where rounding has to be right."""
    halves = st.one_of(
        st.integers(2 * query.lower - 3, 2 * query.upper + 3),
        st.sampled_from([2 * query.lower, 2 * query.upper, 2 * query.center]),
    )

    def at(half: int, step: int) -> float:
        try:
            x = math.ldexp(half, query.exponent - 1)
        except OverflowError:
            x = math.copysign(1.7976931348623157e308, half)
        for _ in range(abs(step)):
            x = math.nextafter(x, math.copysign(math.inf, step))
        return min(max(x, -1.7976931348623157e308), 1.7976931348623157e308)

    return st.builds(at, halves, st.sampled_from([0, 0, 1, -1, 2]))


@st.composite
def sums_with_data(draw: st.DrawFn) -> tuple[ClampedSum, list[float]]:
    query = draw(sums())
    record = st.one_of(
        near(query),
        st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from(EXTREMES),
    )
    return query, draw(st.lists(record, max_size=8))


def specified_sum(query: ClampedSum, data: list[float]) -> int:
    cell = Fraction(2) ** query.exponent
    return spec.clamped_sum(rationals(data), query.lower, query.upper, query.center, cell)


@REPEATABLE
@given(sums_with_data())
def test_a_clamped_sum_is_the_exact_sum(case: tuple[ClampedSum, list[float]]) -> None:
    query, data = case
    assert value(query, data) == (specified_sum(query, data),)


@REPEATABLE
@given(sums_with_data())
def test_order_and_batches_do_not_matter(case: tuple[ClampedSum, list[float]]) -> None:
    query, data = case
    whole = value(query, data)
    assert value(query, data[::-1]) == value(query, sorted(data)) == whole
    cut = len(data) // 3
    parts = [value(query, data[:cut]), value(query, data[cut:])]
    assert sum(part for (part,) in parts) == whole[0]
    singles = [value(query, [x])[0] for x in data]
    assert sum(singles) == whole[0]


@REPEATABLE
@given(sums_with_data())
def test_rounding_is_monotone_and_stays_within_the_bounds(
    case: tuple[ClampedSum, list[float]],
) -> None:
    query, data = case
    cells = quantize(np.array(sorted(data)), query.lower, query.upper, query.exponent)
    assert cells.dtype == np.int64
    assert all(query.lower <= cell <= query.upper for cell in cells.tolist())
    assert all(one <= other for one, other in pairwise(cells.tolist()))


def truncated(values: Any, lower: int, upper: int, exponent: int) -> Any:
    return np.clip(np.trunc(np.ldexp(values, -exponent)), lower, upper).astype(np.int64)


def ties_away(values: Any, lower: int, upper: int, exponent: int) -> Any:
    return np.clip(np.floor(np.ldexp(values, -exponent) + 0.5), lower, upper).astype(np.int64)


@pytest.mark.parametrize("twin", [truncated, ties_away])
def test_another_rounding_is_noticed(twin: Any) -> None:
    data = [0.5, 1.5, 2.5, -0.5, -1.5, 0.49999999999999994]
    right = [spec.to_cells(Fraction(x), -9, 9, Fraction(1)) for x in data]
    assert quantize(np.array(data), -9, 9, 0).tolist() == right
    assert twin(np.array(data), -9, 9, 0).tolist() != right


@pytest.mark.parametrize("exponent", [-1074, -1073, -1060, -1022, -500, 0, 500, 900, 983, 1023])
def test_cells_at_the_ends_of_the_float_range(exponent: int) -> None:
    query = ClampedSum(-7, 12, 3, exponent)
    halves = [math.ldexp(h, exponent - 1) for h in range(-20, 31) if exponent < 1000]
    for x in (*halves, *EXTREMES):
        assert value(query, [x]) == (specified_sum(query, [x]),), x


@pytest.mark.parametrize(("upper", "exponent"), [(31, -1080), (33, -1075), (2**20 - 1, -1096)])
def test_cells_below_the_smallest_float(upper: int, exponent: int) -> None:
    """Bounds that are no float of their own: rounding them first would clamp at another cell."""
    query = ClampedSum(-upper, upper, 0, exponent)
    for x in (0.0, 5e-324, -5e-324, 1e-323, 1.0, -1e308):
        assert value(query, [x]) == (specified_sum(query, [x]),), x


def test_a_bound_beyond_the_largest_float_bounds_nothing() -> None:
    query = ClampedSum(-BOX, BOX, 0, 1000)
    largest = 1.7976931348623157e308
    for x in (largest, -largest, 0.0):
        assert value(query, [x]) == (specified_sum(query, [x]),)


def test_a_sum_beyond_64_bits_is_exact() -> None:
    """2^21 records of 2^41 cells each about the center: 2^62, where int64 is left."""
    query, n = ClampedSum(-BOX, BOX, -BOX, 0), 1 << 21
    data = np.full((n, 1), 1e300)
    whole = query.evaluate(View(data))
    assert whole.dtype == object
    assert whole.tolist() == [1 << 62]
    data[0] = -1e300
    assert query.evaluate(View(data)).tolist() == [(1 << 62) - (1 << 41)]
    below = query.evaluate(View(data[1:]))
    assert below.dtype == np.int64
    assert below.tolist() == [(1 << 62) - (1 << 41)]


def test_the_unclipped_sum_is_clamped_to_the_outer_box_alone() -> None:
    query = ClampedSum(-1, 2, 1, 0).unclipped()
    assert query is not None
    assert value(query, [10.0, -20.0]) == (8 - 20,)
    assert value(query, [1e308]) == (BOX - 1,)
    assert value(query, [-1e308]) == (-BOX - 1,)
    assert query.unclipped() is not None
    assert Count().unclipped() is None
    assert Answers(2).unclipped() is None


WITHINS = [None, (0.0, 1.0), (-1e308, 1e308), (5e-324, 1e-323), (-0.0, 5e-324), (1, 3)]


@REPEATABLE
@given(
    st.lists(
        st.one_of(
            st.floats(allow_nan=False, allow_infinity=False),
            st.sampled_from([*EXTREMES, 1.0, 1.0000000000000002, 3.0, 1e-323]),
        ),
        max_size=8,
    ),
    st.sampled_from(WITHINS),
)
def test_a_count_is_the_exact_count(data: list[float], within: tuple[float, float] | None) -> None:
    stated = None if within is None else (Fraction(within[0]), Fraction(within[1]))
    query = Count(within)
    assert value(query, data) == (spec.count(rationals(data), stated),)
    assert value(query, data[::-1]) == value(query, data)
    assert sum(value(query, [x])[0] for x in data) == value(query, data)[0]
    assert query.evaluate(View(ingest(data, DOMAIN))).dtype == np.int64


@REPEATABLE
@given(
    st.lists(
        st.one_of(
            st.floats(allow_nan=False, allow_infinity=False),
            st.sampled_from([*EXTREMES, 3.5, 4.5, 1.4999999999999998]),
        ),
        max_size=8,
    ),
    st.sampled_from([2, 3, 5, 1 << 16]),
)
def test_answers_are_the_categories_in_order(data: list[float], categories: int) -> None:
    query = Answers(categories)
    assert value(query, data) == spec.answers(rationals(data), categories)
    assert query.evaluate(View(ingest(data, DOMAIN))).shape == (len(data),)


QUERIES: list[Query] = [
    Count(),
    Count((0.0, 1.0)),
    ClampedSum(-3, 5, 1, -2),
    ClampedSum(-BOX, BOX, 0, -1074),
    ClampedSum(-BOX, BOX, 0, 900),
    Answers(3),
]


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_nothing_depends_on_the_floating_point_environment(query: Query) -> None:
    """A caller's np.seterr must not turn a record into an exception: that would show the record."""
    records = ingest(EXTREMES, DOMAIN)
    with np.errstate(all="ignore"):
        expected = query.evaluate(View(records)).tolist()
    with np.errstate(all="raise"):
        assert query.evaluate(View(records)).tolist() == expected


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_records_are_read_only_and_nobody_is_an_ordinary_dataset(query: Query) -> None:
    records = ingest(EXTREMES, DOMAIN)
    before = records.copy()
    records.setflags(write=False)
    query.evaluate(View(records))
    assert records.tobytes() == before.tobytes()
    empty = query.evaluate(View(ingest([], DOMAIN)))
    assert empty.tolist() == ([] if isinstance(query, Answers) else [0])


@pytest.mark.parametrize(("lower", "upper"), [(0, 0), (3, 2), (BOX, -BOX)])
def test_a_sum_needs_room_between_its_bounds(lower: int, upper: int) -> None:
    with pytest.raises(ValueError, match="leave no room"):
        ClampedSum(lower, upper, 0, 0)


@pytest.mark.parametrize("bounds", [(0, BOX + 1, 0), (-BOX - 1, 0, 0), (0, 1, BOX + 1)])
def test_a_sum_stays_in_the_outer_box(bounds: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"beyond the 2\^40 of the public grid.*larger cell"):
        ClampedSum(*bounds, 0)
    ClampedSum(-BOX, BOX, 0, 0)


@pytest.mark.parametrize("exponent", [-1100, -1023, -1022, -60, -1, 0, 7, 1021, 1022, 1023, 1074])
def test_cells_are_those_of_ldexp_for_any_bits(exponent: int) -> None:
    words = np.random.default_rng(9).integers(0, 2**64, 4000, np.uint64)
    with np.errstate(all="ignore"):
        values = np.append(words.view(np.float64), np.ldexp(np.arange(-9, 9) / 2, exponent))
        values = values[np.isfinite(values)]
        expected = np.clip(np.rint(np.ldexp(values, -exponent)), -(2**53), 2**53).astype(np.int64)
    for own in (exponent, np.full(1, exponent)):
        assert quantize(values, -(2**53), 2**53, own).tolist() == expected.tolist()
