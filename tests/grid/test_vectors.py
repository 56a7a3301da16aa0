"""Records as vectors: the spec's maps, bit for bit, whatever the batch; and false twins."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from dpverify.grid import (
    OUTER_BOX,
    clip_to_ball,
    clip_to_box,
    clip_to_ellipsoid,
    inside_ball,
    to_cells,
    vectors,
)
from spec.theory import vectors as spec

Cells = Any
Map = Callable[[Any], Any]
LARGEST = 1.7976931348623157e308
EXTREMES = [0.0, -0.0, 5e-324, -5e-324, 1e-310, 2.2250738585072014e-308, 1e308, -1e308]
EXTREMES += [LARGEST, -LARGEST, 0.5, -0.5, 1.5, 2.5, -2.5, 1.4999999999999998]
CENTER = (1, -OUTER_BOX, 7)
EXPONENTS = [-1100, -1074, -1022, -60, -20, -1, 0, 1, 7, 500, 980]


def some_records(rng: np.random.Generator, rows: int, columns: int, exponent: int) -> Any:
    """Return records of every size about a cell, ties and extremes among them."""
    halves = rng.integers(-(2**12), 2**12, (rows, columns)) * 2.0 ** rng.integers(-1, 34)
    with np.errstate(all="ignore"):
        near = np.clip(np.ldexp(halves, exponent), -LARGEST, LARGEST)
    strange = rng.random((rows, columns)) < 0.1
    return np.where(strange, rng.choice(EXTREMES, (rows, columns)), near)


def some_cells(rng: np.random.Generator, rows: int, columns: int) -> tuple[Cells, int]:
    """Return rows inside, outside and exactly on a ball, up to the ends of the outer box; its
    radius."""
    bits = int(rng.integers(1, 42))
    radius = int(rng.integers(1, 2**bits + 1))
    cells = rng.integers(-(2**bits), 2**bits, (rows, columns), endpoint=True)
    ends = np.zeros((5, columns), np.int64)
    ends[:, rng.integers(columns)] = [radius, -radius, radius + 1, 1 << 41, 0]
    if columns > 1:
        ends[3:, 0] = [-(1 << 41), 1]
    return np.vstack([cells, ends]), radius


def by_the_spec(cells: Cells, radius: int) -> list[list[int]]:
    return [list(spec.clip_to_ball(tuple(row), radius)) for row in cells.tolist()]


def test_cells_are_those_of_the_spec() -> None:
    for seed in range(330):
        rng = np.random.default_rng(seed)
        exponent = EXPONENTS[seed % len(EXPONENTS)]
        n, d = (int(size) for size in rng.integers(0, 4, 2))
        records = some_records(rng, n, d + 1, exponent)
        center = rng.integers(-OUTER_BOX, OUTER_BOX, d + 1, endpoint=True) >> rng.integers(0, 40)
        cells = to_cells(records, exponent, center)
        public = (Fraction(2) ** exponent, tuple(center.tolist()), OUTER_BOX)
        rows = [tuple(map(Fraction, row)) for row in records.tolist()]
        expected = [list(spec.to_cells(row, *public)) for row in rows]
        assert cells.dtype == np.int64
        assert cells.tolist() == expected, seed
        assert not cells.size or abs(cells).max() <= 1 << 41


@pytest.mark.parametrize("value", EXTREMES)
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_extreme_records_have_cells(value: float, exponent: int) -> None:
    with np.errstate(all="raise"):
        cells = to_cells(np.array([[value, 1.0]]), exponent, (3, -4))
    record = (Fraction(value), Fraction(1))
    expected = spec.to_cells(record, Fraction(2) ** exponent, (3, -4), OUTER_BOX)
    assert tuple(cells[0].tolist()) == expected


def test_clipped_rows_are_those_of_the_spec() -> None:
    """Ten thousand rows and more."""
    rows = 0
    for seed in range(700):
        rng = np.random.default_rng(seed)
        cells, radius = some_cells(rng, int(rng.integers(0, 20)), int(rng.integers(1, 9)))
        clipped = clip_to_ball(cells, radius)
        assert clipped.dtype == np.int64
        assert clipped.tolist() == by_the_spec(cells, radius), seed
        assert in_ball(clipped, radius)
        norms = [spec.squared_norm(tuple(row)) for row in cells.tolist()]
        assert inside_ball(cells, radius).tolist() == [norm <= radius**2 for norm in norms]
        assert (clipped[inside_ball(cells, radius)] == cells[inside_ball(cells, radius)]).all()
        boxed = [list(spec.clip_to_box(tuple(row), radius)) for row in cells.tolist()]
        assert clip_to_box(cells, radius).tolist() == boxed
        keeps_direction(cells.tolist(), clipped.tolist(), norms, radius)
        rows += len(cells)
    assert rows >= 10_000


def keeps_direction(
    before: list[list[int]], after: list[list[int]], norms: list[int], radius: int
) -> None:
    """Coordinates never grow or turn, and are within two cells of the real projection's."""
    for row, clipped, norm in zip(before, after, norms, strict=True):
        for y, z in zip(row, clipped, strict=True):
            assert 0 <= z * (1 if y >= 0 else -1) <= abs(y)
            if norm > radius**2:
                # |z| + 2 >= |y| R / |y|, in integers
                assert (abs(z) + 2) ** 2 * norm >= (y * radius) ** 2


def in_ball(cells: Cells, radius: int) -> bool:
    return all(spec.squared_norm(row) <= radius**2 for row in cells.tolist())


@pytest.mark.parametrize("d", [1, 2, 1000, 10_000])
def test_rows_of_every_length(d: int) -> None:
    rng = np.random.default_rng(d)
    cells, radius = rng.integers(-(2**41), 2**41, (6, d), endpoint=True), 2**41
    cells[0] = 2**41
    cells[1] = 0
    cells[2] = 2**62 - 1
    cells[3, -1] = -(2**63)
    for most in (1, radius // 2**20, radius):
        clipped = clip_to_ball(cells, most)
        assert clipped.tolist() == by_the_spec(cells, most)
        assert in_ball(clipped, most)
        assert clip_to_ball(cells[2:3], most).tolist() == clipped[2:3].tolist()
    assert clip_to_ball(cells[:0], 5).shape == (0, d)


def test_images_are_clipped_in_the_ellipsoid() -> None:
    """Images in int64 and beyond it."""
    for seed in range(300):
        rng = np.random.default_rng(seed)
        m, d = (int(size) for size in rng.integers(1, 5, 2))
        bits = [int(b) for b in rng.integers(1, 42, 2)]
        matrix, cells = (
            rng.integers(-(2**b), 2**b, shape, endpoint=True)
            for b, shape in zip(bits, ((m, d), (9, d)), strict=True)
        )
        cells[::3] >>= rng.integers(0, 41)
        cells[4] = 2**41
        radius = int(rng.integers(1, 2 ** rng.integers(1, 42)))
        clipped = clip_to_ellipsoid(cells, matrix, radius)
        public = spec.Map((0,) * d, radius, Fraction(1), tuple(map(tuple, matrix.tolist())), 2**50)
        images = [spec.image(tuple(map(Fraction, row)), public) for row in cells.tolist()]
        assert clipped.tolist() == [list(spec.clip_to_ball(y, radius)) for y in images], seed
        alone = [clip_to_ellipsoid(row[np.newaxis], matrix, radius)[0].tolist() for row in cells]
        assert clipped.tolist() == alone, seed


# --- the batch, the order, the memory, the threads -----------------------------------------------


def everywhere(x: Any, rng: np.random.Generator) -> Iterator[tuple[Any, Any]]:
    """Yield the same rows in other batches and places of the memory, and where each one is then."""
    everyone, order = np.arange(len(x)), rng.permutation(len(x))
    wide = np.zeros((2 * len(x), 3 * x.shape[1]), x.dtype)
    wide[1::2, ::3] = x
    yield np.asfortranarray(x), everyone
    yield wide[1::2, ::3], everyone
    yield np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1], everyone
    yield x[order], order
    yield np.vstack([x, x[order]]), np.concatenate([everyone, order])
    for cut in (slice(0, 1), slice(1, 2), slice(0, len(x) // 2), slice(3, None, 5)):
        yield x[cut], everyone[cut]
    for i in rng.integers(0, len(x), 8):
        yield x[i : i + 1], everyone[i : i + 1]


def differing(function: Map, x: Any, rng: np.random.Generator) -> int:
    """Count the rows that come out differently somewhere."""
    whole = function(x)
    return sum(
        int((function(other) != whole[rows]).reshape(len(rows), -1).any(axis=1).sum())
        for other, rows in everywhere(x, rng)
    )


def test_a_row_comes_out_the_same_in_every_batch() -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        cells, radius = some_cells(rng, 30, int(rng.integers(1, 40)))
        matrix = rng.integers(-(2 ** int(rng.integers(1, 42))), 2**20, (5, cells.shape[1]))
        exponent = EXPONENTS[seed % len(EXPONENTS)]
        cases: list[tuple[Map, Any]] = [
            (partial(clip_to_ball, radius=radius), cells),
            (partial(inside_ball, radius=radius), cells),
            (partial(clip_to_ellipsoid, matrix=matrix, radius=radius), cells),
            (
                partial(to_cells, exponent=exponent, center=CENTER),
                some_records(rng, 35, 3, exponent),
            ),
        ]
        assert sum(differing(function, x, rng) for function, x in cases) == 0


def test_a_map_of_the_whole_batch_is_caught() -> None:
    rng = np.random.default_rng(3)
    assert differing(lambda x: x - x.sum(axis=0), some_cells(rng, 60, 4)[0], rng) > 0


# --- false twins ---------------------------------------------------------------------------------


def float_clip(cells: Cells, radius: int) -> Cells:
    """Floats, rounded to the nearest, unchecked: ends beyond the ball."""
    norms = np.linalg.norm(cells.astype(float), axis=1, keepdims=True)
    return np.rint(cells * np.minimum(1, radius / np.maximum(norms, 1))).astype(np.int64)


def float_floor(cells: Cells, radius: int) -> Cells:
    factors = radius / np.maximum(np.linalg.norm(cells.astype(float), axis=1), radius)
    return np.trunc(cells * factors[:, np.newaxis]).astype(np.int64)


def wrapping_mask(cells: Cells, radius: int) -> Any:
    """int64 norms, beyond 2^63 for rows that are far out."""
    with np.errstate(all="ignore"):
        return (cells * cells).sum(axis=1) <= radius * radius


def float_mask(cells: Cells, radius: int) -> Any:
    return np.linalg.norm(cells.astype(float), axis=1) <= radius


def batches() -> Iterator[tuple[Cells, int]]:
    for seed in range(60):
        yield some_cells(np.random.default_rng(seed), 10, 3)
    # one cell beyond the ball, where a float norm is the radius
    yield np.array([[2**41 - 1, 1], [2**41, 0], [2**41, 1]]), 2**41 - 1
    yield np.array([[2**32, 0], [2**31, 2**31]]), 3


def test_false_clips_are_caught() -> None:
    assert all(in_ball(clip_to_ball(*batch), batch[1]) for batch in batches())
    assert not all(in_ball(float_clip(*batch), batch[1]) for batch in batches())
    assert any(float_floor(*batch).tolist() != by_the_spec(*batch) for batch in batches())


@pytest.mark.parametrize("mask", [inside_ball, wrapping_mask, float_mask])
def test_false_masks_are_caught(mask: Callable[[Cells, int], Any]) -> None:
    right = all(
        mask(cells, radius).tolist()
        == [spec.squared_norm(tuple(row)) <= radius**2 for row in cells.tolist()]
        for cells, radius in batches()
    )
    assert right == (mask is inside_ball)


def test_a_mask_of_records_before_rounding_is_another() -> None:
    records = np.array([[1.4, 0.0], [0.6, 0.6]])
    assert inside_ball(to_cells(records, 0, (0, 0)), 1).tolist() == [True, False]
    assert (np.linalg.norm(records, axis=1) <= 1).tolist() == [False, True]


def test_quotients_that_are_too_large_still_end_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "_quotients", lambda sizes, radius, lengths: sizes)
    cells = np.array([[30, -40, 0], [5, 5, 5], [3, 0, -4], [0, 0, 90]])
    clipped = clip_to_ball(cells, 5)
    assert in_ball(clipped, 5)
    assert clipped[2].tolist() == [3, 0, -4]
    assert clipped[3].tolist() == [0, 0, 5]


def test_quotients_are_exact_next_to_integers() -> None:
    """Divide where size * radius is a multiple of the length, or one more or less: floats cannot
    tell. Signs stay."""
    rng = np.random.default_rng(0)
    for _ in range(1000):
        length = int(rng.integers(2**40, 2 ** int(rng.integers(41, 61))))
        radius = int(rng.integers(1, 2**41)) | 1
        while math.gcd(length, radius) > 1:
            length += 1
        sizes = [pow(radius, -1, length) * remainder % length for remainder in (0, 1, -1, 2, -2)]
        rows = np.array([sizes, sizes]) * [[1], [-1]]
        quotients = vectors._quotients(rows, radius, np.array([length, length]))
        exact = [size * radius // length for size in sizes]
        assert quotients.tolist() == [exact, [-one for one in exact]]


@pytest.mark.parametrize("radius", [0, -1, (1 << 41) + 1])
@pytest.mark.parametrize("clip", [clip_to_ball, clip_to_box, inside_ball])
def test_a_radius_is_between_one_cell_and_the_outer_box(
    clip: Callable[[Any, int], Any], radius: int
) -> None:
    with pytest.raises(ValueError, match=r"^radius.*(smaller|larger) cell"):
        clip(np.array([[1]]), radius)
