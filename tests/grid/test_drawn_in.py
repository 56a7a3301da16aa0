"""Sums of records that are drawn in to a ball, against the spec's."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from dpverify.grid.drawn_in import drawn_in_sums
from dpverify.grid.masks import Counted, distinct, each_once, sums_in_balls
from spec.theory import transcript_sums

FAR = 2**41


@pytest.mark.parametrize("columns", [1, 2, 5])
@pytest.mark.parametrize("radius", [1, 9, 2**20 + 3, FAR])
def test_the_sums_are_the_specs(columns: int, radius: int) -> None:
    """Compare sums of records inside, on the rims of the ball and of twice the ball, between and
    far away; about many centers at once."""
    rng = np.random.default_rng(columns)
    scale = min(2 * radius, 2**40 - 1)
    rows = rng.integers(-scale, scale + 1, (60, columns))
    rows[:4] = [
        [0] * columns,
        [scale] + [0] * (columns - 1),
        [-(2**40)] * columns,
        [2**40] * columns,
    ]
    rows[4:8] = rows[:4]
    centers = np.vstack([np.zeros((1, columns), np.int64), rows[5:9], np.full((1, columns), FAR)])
    radii = np.array([radius, max(1, radius // 3), radius, 1, radius, FAR], np.int64)
    for data in (each_once(rows), distinct(rows)):
        sums, numbers = drawn_in_sums(data, centers, radii)
        for i, (center, own) in enumerate(zip(centers.tolist(), radii.tolist(), strict=True)):
            images: Any = Counter(map(tuple, rows.tolist()))
            *total, weighted = transcript_sums.drawn_in_sum(images, tuple(center), own)
            assert [int(v) for v in sums[i]] == total
            assert int(numbers[i]) * transcript_sums.weight(own) == weighted


def test_nobody_has_a_sum_of_zero() -> None:
    nobody = each_once(np.zeros((0, 2), np.int64))
    sums, numbers = drawn_in_sums(nobody, np.zeros((3, 2), np.int64), np.full(3, 5))
    assert not sums.any()
    assert not numbers.any()


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("total", [drawn_in_sums, sums_in_balls])
def test_many_records_far_from_another_center_have_their_sum(columns: int, total: Any) -> None:
    """2^24 records, counted from the corner of a box that reaches to a center 2^40 cells away,
    leave a word."""
    data = Counted(np.array([[0] * columns, [5] * columns]), np.array([2**24, 1]), columns == 1)
    centers = np.array([[0] * columns, [-(2**40)] * columns])
    sums, numbers = total(data, centers, np.array([9, 9]))
    assert sums.tolist() == [[5] * columns, [0] * columns]
    assert numbers.tolist() == [2**24 + 1, 0]
