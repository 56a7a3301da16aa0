"""Sums without images, of records that are sure to be inside: what the images add up to, and a
bound that is too low fails."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify.grid import IntegerMap, MaskedSum, VectorSum, View, inner_sums
from dpverify.grid.inner_sums import inner_sum
from dpverify.grid.vectors import OUTER_BOX, clip_to_ball, inside_ball

MAPS = [
    IntegerMap((3,), -4),
    IntegerMap((0, -5), (-3, 2)),
    IntegerMap((3, 0), -2, ((2, 1), (-7, 3), (1, 1))),
    IntegerMap((OUTER_BOX, -OUTER_BOX), 0, ((2**41, 5), (1, -(2**41)))),
    IntegerMap((1, 2), -1, ((2, 1, -9), (5, 3, 4)), constant=11),
]


def records_of(seed: int, columns: int, rows: int) -> Any:
    """Return records of some size, most of them small, in either order in memory."""
    rng = np.random.default_rng(seed)
    records = rng.normal(0.0, 10.0 ** rng.integers(-2, 7), (rows, columns))
    if seed % 3 == 0:
        records[-1] = 1e308
    return np.asfortranarray(records) if seed % 2 else records


def by_images(public: IntegerMap, records: Any) -> list[list[int]]:
    return [row.tolist() for image in public.images(records) for row in image]


def far(images: list[list[int]]) -> int:
    return max((sum(v * v for v in row) for row in images), default=0)


@pytest.mark.parametrize("public", MAPS, ids=range(len(MAPS)))
def test_a_sum_of_records_inside_is_the_sum_of_their_images(public: IntegerMap) -> None:
    settled = 0
    for seed in range(8):
        records = records_of(seed, public.columns, 700)
        images = by_images(public, records)
        for radius in (1, 1 << 20, min(1 << 41, 2 * int(far(images) ** 0.5) + 1)):
            total, others = inner_sum(public, records, radius)
            first = len(records) - len(others)
            assert (
                total.tolist() == [sum(c) for c in zip(*images[:first], strict=True)] or not first
            )
            assert far(images[:first]) <= radius**2
            assert np.array_equal(others, records[first:])
            settled += first
    assert settled or public.center[0] == OUTER_BOX


@pytest.mark.parametrize("public", [MAPS[0], MAPS[1], MAPS[2]], ids=range(3))
@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_queries_are_the_same_about_the_radius(public: IntegerMap, beyond: int) -> None:
    """All records alike, and the radius one cell below their length, at it, and one beyond."""
    records = np.full((300, public.columns), 37.5)
    images = by_images(public, records)
    radius = int(far(images) ** 0.5) + beyond
    given = (public.center, radius, public.exponent)
    clipped = clip_to_ball(np.array(images), radius).sum(axis=0)
    kept = np.array(images)[inside_ball(np.array(images), radius)]
    sums = VectorSum(*given, public.matrix).evaluate(View(records))  # type: ignore[arg-type]
    assert sums.tolist() == clipped.tolist()
    masked = MaskedSum(*given, 5, public.matrix).evaluate(View(records))  # type: ignore[arg-type]
    assert masked.tolist() == [*kept.sum(axis=0).tolist(), 5 * len(kept)]


def test_nobody_few_records_and_other_columns_are_left_to_the_images() -> None:
    for rows in (0, 1, 255):
        total, others = inner_sum(MAPS[1], np.zeros((rows, 2)), 1 << 20)
        assert (total.tolist(), len(others)) == ([0, 0], rows)
    with pytest.raises(ValueError, match="records of 3 columns"):
        VectorSum((0, 0), 1, 0).evaluate(View(np.zeros((300, 3))))


def test_the_first_block_that_is_not_inside_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inner_sums, "_BLOCK", 600)
    records = np.zeros((1200, 2))
    records[700] = 1e6
    total, others = inner_sum(IntegerMap((0, -5), 0), records, 10)
    assert (total.tolist(), len(others)) == ([0, 3000], 600)


def test_sums_that_floats_cannot_hold_are_left_to_the_images() -> None:
    public = IntegerMap((0,), -40)
    inside, others = inner_sum(public, np.full((8192, 1), 1.0), 1 << 41)
    assert (inside.tolist(), len(others)) == ([8192 << 40], 0)
    _, others = inner_sum(public, np.full((8193, 1), 1.0), 1 << 41)
    assert len(others) == 8193


def without_a_column(sure: Callable[..., Any]) -> Callable[..., Any]:
    """Plant a bound that forgets the last column."""

    def planted(public: IntegerMap, block: Any, radius: int) -> Any:
        fewer = block.copy()
        fewer[:, -1] = 0.0
        cells = sure(public, block, 1 << 41)
        return cells if sure(public, fewer, radius) is not None else None

    return planted


def test_a_bound_that_is_too_low_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    records = np.column_stack([np.zeros(300), np.full(300, 9.0)])
    query = VectorSum((0, 0), 3, 0)
    right = query.evaluate(View(records)).tolist()
    assert right == [0, 900]
    monkeypatch.setattr(inner_sums, "_sum_of_cells", without_a_column(inner_sums._sum_of_cells))
    assert query.evaluate(View(records)).tolist() != right


def test_extremes_are_bounded_by_the_least_float_that_is_sure() -> None:
    """A bound that equals the radius is not taken for sure: floats may have rounded it."""
    public = IntegerMap((0, 0), 0)
    assert far(by_images(public, np.array([[3.0, 4.0]]))) == Fraction(25)
    _, others = inner_sum(public, np.tile([[3.0, 4.0]], (300, 1)), 5)
    assert len(others) == 300
