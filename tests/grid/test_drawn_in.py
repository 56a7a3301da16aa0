"""Sums of records that are drawn in to a ball, against the spec's."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpverify.grid.drawn_in import TwoBallSum, drawn_in_sums
from dpverify.grid.masks import Counted, distinct, each_once, sums_in_balls
from dpverify.grid.nearness import by_column
from dpverify.grid.region_queries import drawn_in
from dpverify.grid.transcripts import Released, Transcripts
from dpverify.privacy import Adjacency
from spec.theory import transcript_sums, two_balls

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


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("radius", [1, 3, 2**20 + 3, FAR])
@pytest.mark.parametrize("columns", [1, 3])
def test_sums_in_two_balls_are_the_specs(adjacency: Adjacency, radius: int, columns: int) -> None:
    """Compare in the unit of the noise, about several centers and with several radii at once; a
    record often, and as many centers as make the data be counted."""
    rng = np.random.default_rng(columns)
    scale = min(3 * radius, 2**40 - 1)
    rows = rng.integers(-scale, scale + 1, (40, columns))
    rows[:5] = [scale] + [0] * (columns - 1)
    nearness = by_column((1.0,) * columns, Fraction(1))
    for size in (3, 12):
        points = rng.integers(-scale, scale + 1, (size, columns))
        radii = np.where(np.arange(size) % 3 == 1, max(1, radius // 3), radius)
        place = Released((), partial(_where, points, radii))
        query = TwoBallSum(nearness, Fraction(5, 7), adjacency, place, Fraction(3, 5))
        view: Any = _Seen(rows)
        draws = np.zeros(size, np.intp)
        values = query.evaluate(view, Transcripts({}, draws, draws - 1))
        images: Any = Counter(map(tuple, rows.tolist()))
        for i, (point, own) in enumerate(zip(points.tolist(), radii.tolist(), strict=True)):
            small = two_balls.inside(own, Fraction(3, 5))
            sums = two_balls.two_ball_sums(images, tuple(point), own, Fraction(3, 5))
            deviation = two_balls.noise(small, own, columns, adjacency, Fraction(5, 7))
            assert query.unit(own) == deviation
            right = two_balls.in_unit(sums, small, own, deviation)
            assert [int(v) for v in values[i]] == list(right)


def _where(points: Any, radii: Any, before: Transcripts) -> tuple[Any, Any]:
    return points, radii


class _Seen:
    """A view whose images are these rows."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def images(self, nearness: Any) -> Any:
        return SimpleNamespace(images=self.rows, distinct=distinct(self.rows))


def test_no_record_near_a_ball_is_drawn_in_to_nothing() -> None:
    moved = np.zeros((2, 0, 3), np.int64)
    assert drawn_in(moved, np.array([5, 7]), Fraction(1, 2)).shape == (2, 0, 3)
