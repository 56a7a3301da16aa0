"""Boxes and shells leave out no pair that has to be looked at: against all pairs, and with
planted faults.

Nothing here is statistical: every comparison is of integers, on cases from fixed seeds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from dpverify.grid import degrees as counting
from dpverify.grid import pruning, squared_distances
from dpverify.grid.degrees import degrees
from dpverify.grid.nearness import by_column, by_matrix

Case = tuple[Any, int]


def set_blocks(patch: pytest.MonkeyPatch, boxes: bool, leaf: int = 4, rows: int = 3) -> None:
    """Small leaves and blocks; boxes for all rows, or for none."""
    for module, name, value in (
        (pruning, "_LEAF", leaf),
        (pruning, "_MANY", 2),
        (pruning, "_FEW_FRIENDS", 2.0 if boxes else -1.0),
        (counting, "_ROWS", rows),
        (counting, "_COLUMNS", 2 * rows),
    ):
        patch.setattr(module, name, value)


def pairwise(rows: Any, radius: int) -> list[int]:
    counts: list[int] = (squared_distances(rows) <= radius**2).sum(axis=1).tolist()
    return counts


def lattice(side: int, d: int, step: int = 1) -> Any:
    """Return all points of a cube: many pairs at a distance of exactly 5 steps, along an axis
    and across."""
    return step * np.array(list(itertools.product(range(side), repeat=d)), np.int64)


def drawn_cases() -> Iterator[Case]:
    """Yield random rows, clusters, duplicates and lines, wide and narrow, with radii that are
    met exactly."""
    for radius in (0, 1, 4, 5, 10):
        yield lattice(9, 2), radius
        yield lattice(5, 3) - 2**40, radius
    # cells of 2^s and more: E^2 does not decide every pair
    for radius in (5 * 2**30, 5 * 2**30 - 1, 5 * 2**20):
        yield lattice(9, 2, 2**30) + np.arange(81)[:, np.newaxis] % 3, radius
    rng = np.random.default_rng(0)
    normal = np.rint(rng.normal(size=(90, 10)) * 2**18).astype(np.int64)
    for share in (0.5, 2.0, 4.5, 7.0, 9.0):
        yield normal, round(share * 2**18)
    line = np.arange(80)[:, np.newaxis] * np.array([3, 4])
    yield line, 5 * 17
    yield line, 5 * 17 - 1
    yield np.vstack([line, -line]), 5 * 40
    copies = np.repeat(normal[:9], 13, axis=0)
    copies[0] += 1
    for radius in (0, 2, 2**18, 2**21):
        yield copies, radius
    clusters = normal // 2**14 + rng.choice([0, 2**22, -(2**22)], (90, 1))
    yield clusters, 2**7
    yield clusters, 2**23
    ends = rng.choice([-(2**40), 2**40, 0, 7], (40, 10))
    yield ends, 7 * 3
    yield np.vstack([ends, normal]), 2**19
    for n in (0, 1, 2, 3):
        yield normal[:n, :2], 2**18


@cache
def cases() -> list[tuple[Any, int, list[int]]]:
    return [(rows, radius, pairwise(rows, radius)) for rows, radius in drawn_cases()]


def goes_wrong() -> bool:
    return any(degrees(rows, radius).tolist() != right for rows, radius, right in cases())


@pytest.mark.parametrize("boxes", [False, True])
@pytest.mark.parametrize(("leaf", "rows"), [(1, 1), (4, 3), (37, 8)])
def test_counts_are_those_of_all_pairs(boxes: bool, leaf: int, rows: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        set_blocks(patch, boxes, leaf, rows)
        assert not goes_wrong()


def moved(inner: int, outer: int) -> Callable[[Any], Any]:
    """Bounds of a shell at places that are so many rows off."""

    def plant(right: Any) -> Any:
        def wrong(squares: Any, *given: Any) -> tuple[int, int]:
            near, far = right(squares, *given)
            return min(near + inner, len(squares)), max(far + outer, 0)

        return wrong

    return plant


def off_by_one(by: int) -> Callable[[Any], Any]:
    """Shells about rows that seem nearer to the point by one."""
    return lambda right: lambda squares, rho, *bounds: right(squares, max(0, rho - by), *bounds)


FAULTS: dict[str, tuple[Any, str, Callable[[Any], Any], bool]] = {
    "one row more is a friend of a shell": (counting, "ranges", moved(1, 0), False),
    "one row more is a friend of no shell": (counting, "ranges", moved(0, -1), False),
    "shells seem thinner by one": (counting, "ranges", off_by_one(1), False),
    "boxes seem farther by one": (
        pruning,
        "_gap",
        lambda right: lambda at, interval: right(at, interval) + (right(at, interval) > 0),
        True,
    ),
    "boxes end before their last row": (
        pruning,
        "_gap",
        lambda right: lambda at, interval: right(at, interval - np.array([0.0, 1.0])),
        True,
    ),
    "gaps of all halvings add up": (
        pruning,
        "_gap",
        lambda right: lambda at, interval: right(at, interval) * 1.5,
        True,
    ),
    "who is beyond is forgotten": (
        pruning,
        "_inside",
        lambda right: lambda *given: (given[2][0][:0], given[2][1][:0], right(*given)[2]),
        True,
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_seen(fault: str) -> None:
    module, name, plant, boxes = FAULTS[fault]
    with pytest.MonkeyPatch.context() as patch:
        set_blocks(patch, boxes)
        patch.setattr(module, name, plant(getattr(module, name)))
        assert goes_wrong()


def test_boxes_leave_out_pairs_and_name_each_other_pair_once() -> None:
    rows = lattice(30, 2)
    vectors = np.hstack([rows, np.ones((900, 1)), -(rows**2).sum(axis=1, keepdims=True)]) * 1.0
    seen = np.zeros((900, 900), np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pruning, "_LEAF", 16)
        for leaf, others in pruning.leaves(vectors, np.arange(850), np.arange(850, 900), 9.0):
            assert len(leaf) <= 16
            seen[np.ix_(leaf, leaf)] += np.triu(np.ones((len(leaf),) * 2, np.int64), 1)
            seen[np.ix_(leaf, others)] += 1
    both = seen + seen.T
    near = squared_distances(rows) <= 9
    np.fill_diagonal(near, False)
    near[850:, 850:] = False
    assert both.max() == 1
    assert (both[near] == 1).all()
    assert both.sum() < 900 * 900 // 8


def test_equal_rows_stay_in_one_leaf() -> None:
    vectors = np.tile([3.0, 4.0, 1.0, -25.0], (2000, 1))
    ((leaf, others),) = pruning.leaves(vectors, np.arange(2000), np.arange(0), 1.0)
    assert (len(leaf), len(others)) == (2000, 0)


def test_many_rows_in_boxes_and_in_shells_as_they_are() -> None:
    """Count with the constants that are shipped: few friends, a few far clusters and copies, and
    nearly all friends."""
    rng = np.random.default_rng(1)
    rows = np.rint(rng.normal(size=(4500, 10)) * 2**18).astype(np.int64)
    rows[::9] //= 2**6
    rows[::50] = rows[7]
    rows[5::100] += 2**24
    for radius in (2**14, 2**18, round(7.5 * 2**18)):
        near = squared_distances(rows[::10], rows) <= radius**2
        assert (degrees(rows, radius)[::10] == near.sum(axis=1)).all()


@pytest.mark.parametrize("map_", ["columns", "matrix"])
def test_records_of_every_magnitude(map_: str) -> None:
    """Numbers from subnormal to 1e308, clamped to the outer box, with copies."""
    rng = np.random.default_rng(2)
    scales = rng.choice([5e-324, 1e-3, 1.0, 1e6, 1e12, 1e308], (120, 2))
    records = scales * rng.uniform(-1, 1, (120, 2))
    records[::7] = records[1]
    nearness = (
        by_column((1.0, 0.25), Fraction(2))
        if map_ == "columns"
        else by_matrix(((1.0, 0.5), (0.0, 0.25)), Fraction(2))
    )
    images = nearness.images(records)
    for boxes in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            set_blocks(patch, boxes)
            assert nearness.degrees(images).tolist() == pairwise(images, nearness.radius)
