"""Neighbor counts against Python integers, at and beyond every bound; and planted faults.

Nothing here is statistical: every comparison is of integers, on cases from fixed seeds.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import math
import random
import tracemalloc
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from dpverify.grid import degrees as module
from dpverify.grid import pruning, squared_distances
from dpverify.grid.degrees import degrees, friends

Case = tuple[Any, int]


def distance(x: Any, y: Any) -> int:
    """Squared."""
    return sum((int(p) - int(q)) ** 2 for p, q in zip(x, y, strict=True))


def naive(rows: Any, radius: int) -> list[int]:
    lists = [[int(v) for v in row] for row in rows]
    return [sum(distance(x, y) <= radius**2 for y in lists) for x in lists]


def small_blocks(patch: pytest.MonkeyPatch, boxes: bool = False) -> None:
    """Make blocks small, so that a few rows make many, the last incomplete; in boxes of two
    rows, or in none."""
    for name, value in (("_ROWS", 3), ("_COLUMNS", 4), ("_BLOCK", 9), ("_SAMPLE", 5)):
        patch.setattr(module, name, value)
    for name, number in (("_LEAF", 2), ("_MANY", 1), ("_SAMPLE", 3), ("_FEW_FRIENDS", 2.0 * boxes)):
        patch.setattr(pruning, name, number)


# --- against a loop over Python integers ---------------------------------------------------------

_POWERS = (3, 20, 24, 25, 26, 30, 40, 52, 53, 60, 61)


def near_power(rng: random.Random) -> int:
    return rng.choice((-1, 1)) * ((1 << rng.choice(_POWERS)) + rng.randint(-2, 2))


def entry(rng: random.Random) -> int:
    kind = rng.randrange(3)
    return near_power(rng) if kind == 0 else rng.randint(*((-3, 3), (-(2**62), 2**62))[kind - 1])


def drawn(rng: random.Random) -> Case:
    """Return rows with duplicates, in clusters about some of them; radii from distances of
    pairs."""
    d = rng.randint(1, 4)
    rows = [[entry(rng) for _ in range(d)] for _ in range(rng.randrange(7))]
    for base in list(rows):
        for _ in range(rng.randrange(4)):
            near = rng.random() < 0.5
            moves = [rng.randint(-4, 4) if near else near_power(rng) for _ in range(d)]
            rows.append([v + m * rng.randint(0, 1) for v, m in zip(base, moves, strict=True)])
    wide = rng.random() < 0.5 or max((abs(v) for row in rows for v in row), default=0) >= 2**63
    x = np.array(rows, object if wide else np.int64).reshape(-1, d)
    if len(rows) < 2 or rng.random() < 0.25:
        return x, abs(entry(rng))
    i, j = (rng.randrange(len(rows)) for _ in range(2))
    return x, max(0, math.isqrt(distance(x[i], x[j])) + rng.randint(-1, 1))


@pytest.mark.parametrize("blocks", ["as it is", "shells", "boxes"])
def test_counts_are_those_of_python_integers(blocks: str) -> None:
    rng = random.Random(20261127)
    for _ in range(100):
        check_counts(drawn(rng), blocks)


def check_counts(case: Case, blocks: str) -> None:
    rows, radius = case
    with pytest.MonkeyPatch.context() as patch:
        if blocks != "as it is":
            small_blocks(patch, blocks == "boxes")
        counts = degrees(rows, radius)
    assert counts.dtype == np.int64
    assert counts.tolist() == naive(rows, radius)
    turned = rows[::-1]
    close = [distance(x, y) <= radius**2 for x, y in zip(rows, turned, strict=True)]
    assert friends(rows, turned, radius).tolist() == close


@pytest.mark.parametrize("n", [0, 1, 2, 7])
@pytest.mark.parametrize("d", [0, 1, 3, 100_000])
@pytest.mark.parametrize("radius", [0, 1, 2**70])
def test_few_rows_and_extreme_shapes(n: int, d: int, radius: int) -> None:
    equal = np.full((n, d), -(2**60))
    assert degrees(equal, radius).tolist() == [n] * n
    if n and d:
        equal[0, -1] += 2
        expected = [n] * n if radius > 1 else [1] + [n - 1] * (n - 1)
        assert degrees(equal, radius).tolist() == expected


# --- at the bounds, where a comparison that is not exact would show ------------------------------


def on_the_sphere(radius: int) -> list[list[int]]:
    """Return rows at a distance of exactly the radius from the first, and one step beyond."""
    rows = [[0, 0, 0], [radius, 0, 0], [0, -radius, 0], [radius, 1, 0], [0, -1, radius], [0, 0, 0]]
    fifth = radius // 5
    if 5 * fifth == radius:
        rows += [[3 * fifth, 4 * fifth, 0], [0, -4 * fifth, 3 * fifth], [3 * fifth, 4 * fifth, 1]]
    return rows


def hard_cases() -> list[Case]:
    """Close decisions at every scale: about zero and far from it, with and without far rows."""
    suite: list[Case] = []
    for radius in (1, 5, 2**20, 5 * 2**22, 2**25, 5 * 2**23, 2**26, 2**30 + 1, 5 * 2**37, 2**53):
        for offset in (0, 2**26, 2**40, 2**60):
            rows = np.array(on_the_sphere(radius)) + offset
            suite.append((rows, radius))
            suite.append((np.vstack([rows, rows - 2 * offset - 1, [[2**59, -(2**59), 0]]]), radius))
    # exactly as wide as one word may be: norms of 2^51 about the median row, which is zero
    edge = np.zeros((9, 2), np.int64)
    edge[0], edge[1], edge[2] = (2**25, 2**25), (-(2**25), -(2**25)), (2**25, -(2**25) + 1)
    suite += [(edge, radius) for radius in (2**26, math.isqrt(2**53), math.isqrt(2**53) + 1)]
    # spread over a ball of larger cells, some pairs at a distance in between
    for seed in range(30):
        rng = np.random.default_rng(seed)
        rows = rng.integers(-(2 ** (20 + seed)), 2 ** (20 + seed), (40, 1 + seed % 5))
        rows[::7] = rows[0] + rng.integers(-9, 10, rows[::7].shape)
        close = math.isqrt(distance(rows[1], rows[2]))
        suite += [(rows, close), (rows, close + 1), (rows, 7), (rows, 2 ** (21 + seed))]
    # pairs half a cell apart in each of many coordinates: far, after rounding
    rng = np.random.default_rng(99)
    rows = rng.integers(-(2**40), 2**40, (36, 144))
    pairs = np.vstack([rows, rows + rng.choice([-(2**18), 2**18], rows.shape)])
    suite += [(pairs, 12 * 2**18), (pairs, 12 * 2**18 - 1), (pairs, 7)]
    ends = np.array([[2**63 - 1], [-(2**63)], [0], [2**62], [-(2**62)]])  # differences wrap around
    for radius in (7, 2**62 - 1, 2**62, 2**63, 3 * 2**62 - 1, 2**64 - 2, 2**64 - 1):
        suite += [(ends, radius), (np.hstack([ends, 0 * ends]), radius)]
        suite += [(np.hstack([ends, ends])[:2], radius)]
    return suite


@cache
def hard() -> list[tuple[Any, int, list[int]]]:
    """Return the hard cases with the degrees by a loop over Python integers."""
    return [(rows, radius, naive(rows, radius)) for rows, radius in hard_cases()]


def goes_wrong(counting: Callable[[Any, int], Any]) -> bool:
    return any(counting(rows, radius).tolist() != expected for rows, radius, expected in hard())


def pairwise(rows: Any, radius: int) -> Any:
    return (squared_distances(rows) <= radius**2).sum(axis=1)


def strict(rows: Any, radius: int) -> Any:
    return (squared_distances(rows) < radius**2).sum(axis=1)


def in_floats(rows: Any, radius: int, kind: type[Any] = np.float64, centered: bool = False) -> Any:
    x = (rows - rows[0] if centered else rows).astype(kind)
    norms = (x * x).sum(axis=1)
    with np.errstate(all="ignore"):
        return (norms[:, np.newaxis] + norms - 2 * x @ x.T <= float(radius) ** 2).sum(axis=1)


def test_close_decisions_are_exact_and_false_twins_are_not() -> None:
    assert not goes_wrong(degrees)
    assert not goes_wrong(pairwise)
    assert goes_wrong(strict)
    assert goes_wrong(in_floats)
    assert goes_wrong(lambda rows, radius: in_floats(rows, radius, centered=True))
    assert goes_wrong(lambda rows, radius: in_floats(rows, radius, np.float32, centered=True))


@pytest.mark.parametrize("boxes", [False, True])
def test_close_decisions_are_exact_in_blocks_of_a_few_rows(boxes: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        small_blocks(patch, boxes)
        assert not goes_wrong(degrees)


def changed(change: Callable[..., Any]) -> Callable[[Any], Any]:
    """Change a function's result; ``change`` sees the arguments as well."""
    return lambda right: lambda *given: change(right(*given), *given)


def core_alone(ball: Any, *_: Any) -> Any:
    return dataclasses.replace(ball, others=ball.others[:0])


def all_core(ball: Any, *_: Any) -> Any:
    return core_alone(dataclasses.replace(ball, core=np.concatenate([ball.core, ball.others])))


def twice_as_narrow(ball: Any, _: Any, __: Any, radius: int) -> Any:
    return dataclasses.replace(ball, square=0) if ball.square <= radius**2 else ball


def decided(rounded: Any, bound: float) -> Any:
    """Whatever is undecided."""
    return dataclasses.replace(rounded, sure=bound, maybe=bound)


def without_width(rounded: Any, _: Any, __: Any, ball: Any, radius: int) -> Any:
    """Count as if rounding moved no row."""
    if rounded.sure == rounded.maybe:
        return rounded
    shift = math.isqrt(ball.square).bit_length() - module._WORD_BITS
    return decided(rounded, float(radius**2 >> 2 * shift))


FAULTS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "rows at the rim of a ball leave with its core": ("_ball", changed(all_core)),
    "rows beyond the core are not compared": ("_ball", changed(core_alone)),
    "all are friends within the radius of a center": ("_ball", changed(twice_as_narrow)),
    "undecided pairs are friends": ("_rounded", changed(lambda it, *_: decided(it, it.maybe))),
    "undecided pairs are not friends": ("_rounded", changed(lambda it, *_: decided(it, it.sure))),
    "rounding has no width": ("_rounded", changed(without_width)),
    "undecided pairs, within a smaller radius": (
        "friends",
        lambda close: lambda left, right, radius: close(left, right, max(0, radius - 1)),
    ),
    "one word for anything": ("_MOST_SQUARE", lambda _: 2**130),
    "one word up to norms of 2^27": ("_MOST_SQUARE", lambda _: 2**54),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_seen(fault: str) -> None:
    name, plant = FAULTS[fault]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, plant(getattr(module, name)))
        assert goes_wrong(degrees)


def test_rounding_moves_pairs_by_all_that_the_bounds_allow() -> None:
    """Across the side of a cell of 2^7, nearer than their cells; and from end to end, farther."""
    center, both = np.zeros(4, np.int64), np.arange(2)
    ball = module._Ball(center, both, both[:0], 2**60)
    for other, radius in ((-1, 2), (2**9 + 2**7 - 1, 2 * (2**9 + 2**7 - 1))):
        rows = np.array([[0] * 4, [other] * 4])
        for within, close in ((radius, True), (radius - 1, False)):
            rounded = module._rounded(rows, both, ball, within)
            near = rounded.friends(slice(0, 2), slice(0, 2))
            assert near.tolist() == [[True, close], [close, True]]


def bounds(rows: Any, radius: int) -> list[tuple[int, float, float]]:
    """Return for each ball its number of rows and the bounds between which pairs are undecided."""
    seen, right = list[tuple[int, float, float]](), module._rounded

    def watched(*given: Any) -> Any:
        rounded = right(*given)
        seen.append((len(rounded.members), rounded.sure, rounded.maybe))
        return rounded

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_rounded", watched)
        degrees(rows, radius)
    return seen


def test_far_rows_leave_the_others_to_one_word() -> None:
    rng = np.random.default_rng(1)
    rows = rng.integers(-(2**19), 2**19, (900, 20))
    far = rng.choice(900, 60, replace=False)
    rows[far] = rng.choice([-(2**40), 2**40], (60, 20))
    assert bounds(rows, 2**20)[0] == (840, 2.0**40, 2.0**40)
    assert bounds(rows + 2**50, 2**20)[0] == (840, 2.0**40, 2.0**40)
    two = rng.integers(-(2**19), 2**19, (900, 20)) + 2**40 * (np.arange(900) % 2)[:, np.newaxis]
    assert bounds(two, 2**20) == [(450, 2.0**40, 2.0**40)] * 2
    assert bounds(rows[:50] // 2**20, 2**40 * 10) == []  # all within half the radius of a center


# --- many rows: blocks, order, layout, threads, memory -------------------------------------------


def many(spread: int) -> Any:
    """More than a block of rows close to each other; with far rows, duplicates, and a second
    cluster."""
    rng = np.random.default_rng(spread)
    rows = rng.integers(-(2**spread), 2**spread, (680, 6))
    rows[::20] = rng.integers(-(2**41), 2**41, rows[::20].shape)
    rows[3::8] += 2**44
    rows[600:620] = rows[5]
    return rows


@pytest.mark.parametrize("spread", [10, 24, 36])
def test_order_layout_and_blocks_do_not_matter(spread: int) -> None:
    rows, radius = many(spread), 2 ** (spread + 1)
    right = pairwise(rows, radius)
    assert 1 < right.mean() < 600
    wide = np.zeros((2 * len(rows), 3 * rows.shape[1]), np.int64)
    wide[::2, ::3] = rows
    frozen = rows.copy()
    frozen.setflags(write=False)
    layouts = (rows, np.asfortranarray(rows), wide[::2, ::3], frozen, rows.astype(object))
    for other in layouts:
        assert (degrees(other, radius) == right).all()
    order = np.random.default_rng(0).permutation(len(rows))
    assert (degrees(rows[order], radius) == right[order]).all()
    moved = rows[:200].astype(object) + (2**90 + 1)
    assert (degrees(moved, radius) == degrees(rows[:200], radius)).all()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_ROWS", 97)
        patch.setattr(module, "_COLUMNS", 101)
        assert (degrees(rows, radius) == right).all()


def test_another_batch_beside_adds_its_friends_alone() -> None:
    rows, radius = many(24), 2**24
    for cut in (1, 512, 600):
        own = np.concatenate([degrees(rows[:cut], radius), degrees(rows[cut:], radius)])
        across = squared_distances(rows[:cut], rows[cut:]) <= radius**2
        own[:cut] += across.sum(axis=1)
        own[cut:] += across.sum(axis=0)
        assert (degrees(rows, radius) == own).all()
    beside = np.vstack([rows, rows - 2**58])
    assert (degrees(beside, radius) == np.tile(degrees(rows, radius), 2)).all()


def test_the_number_of_threads_does_not_matter() -> None:
    if importlib.util.find_spec("threadpoolctl") is None:
        pytest.skip("threadpoolctl is not installed")
    limits = importlib.import_module("threadpoolctl").threadpool_limits
    results = []
    for threads in (1, 2, 5):
        with limits(threads):
            results.append(degrees(many(28), 2**28).tobytes())
    assert results[0] == results[1] == results[2]


def test_on_the_line_a_million_rows_are_sorted() -> None:
    values = np.random.default_rng(2).integers(-(2**40), 2**40, 1_000_000)
    counts, some = degrees(values[:, np.newaxis], 2**37), np.arange(0, 1_000_000, 99_991)
    assert counts[some].tolist() == [int((np.abs(values - values[i]) <= 2**37).sum()) for i in some]


def test_memory_is_far_below_a_matrix_of_pairs() -> None:
    """8000^2 pairs take 64 MB as truth values and 512 MB as numbers; a block of them, 8 times 4
    MB."""
    rows = np.random.default_rng(3).integers(-(2**20), 2**20, (8000, 3))
    tracemalloc.start()
    degrees(rows, 2**20)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 60e6


# --- progress, and what is refused ---------------------------------------------------------------


def telling(told: list[int], totals: set[int]) -> Callable[[int, int], None]:
    def progress(done: int, total: int) -> None:
        told.append(done)
        totals.add(total)

    return progress


def test_progress_is_told_block_by_block() -> None:
    for rows in (many(10), many(36), np.zeros((3, 2), np.int64), np.zeros((4, 1), np.int64)):
        told: list[int] = []
        totals: set[int] = set()
        degrees(rows, 2**10, telling(told, totals))
        assert totals == {len(rows)}
        assert told == sorted(set(told))
        assert told[-1] == len(rows)
        assert np.diff([0, *told]).max() <= module._ROWS
    degrees(np.zeros((0, 2), np.int64), 1, lambda *_: pytest.fail("there is nothing to tell"))


@pytest.mark.parametrize("rows", [[[1.0]], np.ones((2, 2)), [["1"]], [[True]]], ids=str)
def test_only_integers_are_taken(rows: Any) -> None:
    with pytest.raises(TypeError):
        degrees(rows, 1)
    with pytest.raises(TypeError):
        friends(rows, rows, 1)


@pytest.mark.parametrize("radius", [1.0, True, "1", None, np.float64(2)], ids=repr)
def test_a_radius_is_an_integer(radius: Any) -> None:
    with pytest.raises(TypeError, match="give an integer"):
        degrees([[1, 2]], radius)


def test_negative_radii_and_other_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="radius = -1 is negative"):
        degrees([[1, 2]], -1)
    with pytest.raises(ValueError, match="rows has 1 dimensions"):
        degrees([1, 2], 1)
    with pytest.raises(ValueError, match="two matrices of one shape"):
        friends([[1, 2]], [[1, 2], [3, 4]], 1)


def test_numpy_integers_are_radii() -> None:
    radius: Any = np.int64(1)
    assert degrees([[1, 2], [1, 3], [2, 3]], radius).tolist() == [2, 3, 2]
