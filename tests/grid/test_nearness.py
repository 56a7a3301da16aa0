"""Who is whose friend: maps of records to integers against fractions, and counts against all pairs.

Nothing here is statistical: every comparison is of integers, on cases from fixed seeds.
"""

from __future__ import annotations

import math
import pickle
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpverify.grid import OUTER_BOX
from dpverify.grid import nearness as module
from dpverify.grid.nearness import Nearness, by_column, by_matrix

HUGE, LEAST = 1.7976931348623157e308, 5e-324
MATRIX = ((1 << 20, -(1 << 18)), (3, 1 << 19))
COLUMNS = Nearness(1 << 20, -20, (1.0, 1 / 3))
TURNED = Nearness(1 << 20, -20, (), MATRIX, 20)
BOTH = pytest.mark.parametrize("nearness", [COLUMNS, TURNED], ids=["columns", "matrix"])


def clamped(value: int) -> int:
    return min(max(value, -OUTER_BOX), OUTER_BOX)


def cells(value: float, exponent: int) -> int:
    """round(x / 2^exponent), ties to even, clamped, in fractions."""
    if math.isinf(value):
        return OUTER_BOX if value > 0 else -OUTER_BOX
    return clamped(round(Fraction(value) / Fraction(2) ** exponent))


def image(nearness: Nearness, record: list[float]) -> list[int]:
    """Compute one record's image by the definition of ``Nearness``."""
    if nearness.matrix is None:
        scaled = [x * scale for x, scale in zip(record, nearness.scales, strict=True)]
        return [cells(x, nearness.exponent) for x in scaled]
    z = [cells(x, nearness.exponent) for x in record]
    products = [sum(c * v for c, v in zip(row, z, strict=True)) for row in nearness.matrix]
    return [clamped(math.floor(Fraction(p, 2**nearness.shift) + Fraction(1, 2))) for p in products]


numbers = st.one_of(
    st.sampled_from([0.0, 1.0, -0.5, HUGE, -HUGE, LEAST, -LEAST, 2.2e-308, 1e308, -1e300]),
    st.floats(-4, 4),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**22), 2**22).map(lambda k: (k + 0.5) * 2.0**-20),  # ties
)
scales = st.one_of(st.sampled_from([1.0, 1 / 3, 1e300, 1e-300, HUGE, LEAST]), st.floats(1e-3, 1e3))
entries = st.integers(-(2**41), 2**41)


@st.composite
def maps(draw: st.DrawFn) -> Nearness:
    exponent, radius = draw(st.integers(-1074, 900) | st.integers(-40, 5)), draw(st.integers(1, 99))
    if draw(st.booleans()):
        return Nearness(radius, exponent, (draw(scales), draw(scales)))
    a, b, c, d = (draw(entries | st.integers(-9, 9)) for _ in range(4))
    rows = ((a, b), (c, d)) if a * d != b * c else ((1, b), (0, 1))
    return Nearness(radius, exponent, (), rows, draw(st.integers(0, 60)))


@settings(derandomize=True, deadline=None, max_examples=300)
@given(maps(), st.lists(st.tuples(numbers, numbers), max_size=5))
def test_images_are_those_of_fractions(nearness: Nearness, rows: list[tuple[float, float]]) -> None:
    records = np.array(rows, np.float64).reshape(-1, 2)
    with np.errstate(all="raise"):  # the caller's settings must not show in what a record gives
        images = nearness.images(records)
    assert images.dtype == np.int64
    assert images.tolist() == [image(nearness, record) for record in records.tolist()]


@BOTH
def test_order_batch_layout_and_blocks_do_not_show(
    nearness: Nearness, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    records = rng.normal(size=(301, 2)) * 10.0 ** rng.integers(-9, 12, (301, 1))
    records[::50, 0] = HUGE  # some leave int64 on the way, and go another one
    images = nearness.images(records)
    order = rng.permutation(301)
    wide = np.zeros((301, 6))
    wide[:, 1::3] = records
    for other in (
        nearness.images(records[order])[np.argsort(order)],
        nearness.images(np.asfortranarray(records)),
        nearness.images(wide[:, 1::3]),
        np.vstack([nearness.images(records[i : i + 1]) for i in range(301)]),
        nearness.images(records[::-1])[::-1],
    ):
        assert np.array_equal(images, other)
    monkeypatch.setattr(module, "_BLOCK", 14)
    assert np.array_equal(images, nearness.images(records))


@BOTH
def test_nobody_is_mapped_to_nobody(nearness: Nearness) -> None:
    images = nearness.images(np.zeros((0, 2)))
    assert images.shape == (0, 2)
    assert nearness.degrees(images).tolist() == []


def test_what_overflows_is_clamped_and_what_is_tiny_is_zero() -> None:
    loud = Nearness(1, 0, (1e200, LEAST))
    rows = np.array([[1e200, HUGE], [-1e200, 1.0], [LEAST, -HUGE], [0.0, 0.0]])
    far = OUTER_BOX
    assert loud.images(rows).tolist() == [[far, 0], [-far, 0], [0, 0], [0, 0]]
    turned = Nearness(1, -1074, (), ((1 << 41, 1 << 41), (0, 1)), 0)
    assert turned.images(np.array([[1.0, 1.0], [-1.0, -LEAST]])).tolist() == [
        [far, far],
        [-far, -1],
    ]


@BOTH
def test_degrees_are_those_of_all_pairs(nearness: Nearness) -> None:
    rng = np.random.default_rng(11)
    records = rng.normal(size=(60, 2))
    records[-3:] = [[HUGE, HUGE], [-HUGE, 0.0], [0.0, 0.0]]
    images = nearness.images(records)
    pairs = [
        [sum((p - q) ** 2 for p, q in zip(y, z, strict=True)) for z in images.tolist()]
        for y in images.tolist()
    ]
    expected = [sum(square <= nearness.radius**2 for square in row) for row in pairs]
    shown: list[tuple[int, int]] = []
    assert nearness.degrees(images, lambda done, n: shown.append((done, n))).tolist() == expected
    assert shown[-1] == (60, 60)
    assert 0 < min(expected) < max(expected) < 50  # it is no empty and no full graph


def test_the_boundary_belongs_to_friends() -> None:
    near = Nearness(5, 0, (1.0, 1.0))
    rows = np.array([[0.0, 0.0], [3.0, 4.0], [0.0, -5.0], [4.0, -4.0]])
    assert near.degrees(near.images(rows)).tolist() == [3, 2, 3, 2]


# --- the public grid ------------------------------------------------------------------------------


@pytest.mark.parametrize("radius", ["1", "1/3", "12345/7", "1e-200", "1e200", "2"])
def test_a_cell_by_column_is_fine_and_the_radius_is_rounded_down(radius: str) -> None:
    wanted = Fraction(radius)
    near = by_column((1.0, 2.0), wanted)
    cell = Fraction(2) ** near.exponent
    assert 2**20 <= near.radius < 2**21
    assert near.radius * cell <= wanted < (near.radius + 1) * cell


@pytest.mark.parametrize("d", [1, 2, 5, 16, 17])
@pytest.mark.parametrize("size", [1e-5, 1.0, 3e4])
def test_images_by_a_matrix_are_off_by_less_than_a_cell(d: int, size: float) -> None:
    rng = np.random.default_rng(d)
    rows = tuple(map(tuple, (size * rng.normal(size=(d, d))).tolist()))
    near = by_matrix(rows, Fraction("0.7"))
    assert near.matrix is not None
    cell, grid = Fraction(2) ** (math.floor(math.log2(0.7)) - 20), Fraction(2) ** near.exponent
    assert near.radius == math.floor(Fraction("0.7") / cell)
    records = rng.normal(size=(20, d)) / size
    records[0] = np.sign(rows[0]) * 3.49 * float(grid)  # all coordinates are rounded one way
    worst = Fraction(0)
    for record, y in zip(records.tolist(), near.images(records).tolist(), strict=True):
        for i, row in enumerate(near.matrix):
            exact = sum(c * Fraction(x) for c, x in zip(row, record, strict=True))
            worst = max(worst, abs(y[i] - exact / (grid * 2**near.shift)))
    assert worst <= 1
    # C / 2^shift maps cells of x to cells of y as the given matrix does, but for its rounding
    unit = grid * 2**near.shift / cell
    for row, given_row in zip(near.matrix, rows, strict=True):
        assert all(
            abs(c - unit * Fraction(x)) <= Fraction(1, 2)
            for c, x in zip(row, given_row, strict=True)
        )
    longest = max(math.isqrt(sum(c * c for c in row)) for row in near.matrix)
    assert 2**19 - d <= longest <= 2**20 + d


# --- names, values, refusals ----------------------------------------------------------------------

DIFFERENT = [
    COLUMNS,
    TURNED,
    Nearness(1 << 20, -20, (1.0, 0.3)),
    Nearness(1 << 20, -20, (1 / 3, 1.0)),
    Nearness(1 << 20, -20, (1.0, 1 / 3, 1.0)),
    Nearness((1 << 20) + 1, -20, (1.0, 1 / 3)),
    Nearness(1 << 20, -19, (1.0, 1 / 3)),
    Nearness(1 << 20, -20, (), MATRIX, 21),
    Nearness(1 << 20, -20, (), (MATRIX[1], MATRIX[0]), 20),
    Nearness(1 << 20, -20, (), MATRIX[:1], 20),
    Nearness(1 << 20, -20, (), ((1 << 20, -(1 << 18), 3, 1 << 19),), 20),
]


def test_different_predicates_have_different_names_and_equal_ones_equal_names() -> None:
    """Rules compare names: two maps of one radius under one name would pass for each other."""
    assert len({near.predicate for near in DIFFERENT}) == len(set(DIFFERENT)) == len(DIFFERENT)
    for near in DIFFERENT:
        again = pickle.loads(pickle.dumps(near))
        assert again == near
        assert (hash(again), again.predicate) == (hash(near), near.predicate)
        assert Nearness(near.radius, near.exponent, near.scales, near.matrix, near.shift) == near


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ((0, 0, (1.0,)), ValueError, "radius = 0 cells"),
        (((1 << 41) + 1, 0, (1.0,)), ValueError, "beyond the 2^41 cells"),
        ((1.0, 0, (1.0,)), TypeError, "radius = 1.0 is a float"),
        ((1, 1201, (1.0,)), ValueError, "exponent = 1201"),
        ((1, 0.5, (1.0,)), TypeError, "exponent = 0.5 is a float"),
        ((1, 0), ValueError, "a positive finite number for each column"),
        ((1, 0, (1.0, 0.0)), ValueError, "a positive finite number for each column"),
        ((1, 0, (math.inf,)), ValueError, "a positive finite number for each column"),
        ((1, 0, (math.nan,)), ValueError, "a positive finite number for each column"),
        ((1, 0, (), ((1, 2), (2,))), ValueError, "rows of [1, 2] entries"),
        ((1, 0, (), ((1 << 42,),)), ValueError, "beyond the 2^41 cells"),
        ((1, 0, (), ((1.5,),)), TypeError, "matrix = 1.5 is a float"),
        ((1, 0, (), ((1,),), 61), ValueError, "shift = 61"),
        ((1, 0, (), ((1,),), -1), ValueError, "shift = -1"),
    ],
)
def test_maps_that_make_no_sense_are_refused(
    arguments: tuple[Any, ...], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        Nearness(*arguments)
