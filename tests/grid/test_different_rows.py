"""Rows of integers, each once: against a dictionary, at every width and type; no statistics."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from dpverify.grid.linear import Integers
from dpverify.grid.masks import different_rows, rows_once

WIDE = [0, 1, -1, 2**31, -(2**31), 2**53 + 1, 2**53, 2**62, -(2**62), 2**63 - 1, -(2**63)]
HUGE = [*WIDE, 2**63, 2**64, -(2**64), 10**40, 10**40 + 1]
DTYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "O"]


def agrees(numbers: Integers) -> bool:
    """Compare with a dictionary of tuples: the same rows, each once, and for every draw its own;
    in order of the last numbers first."""
    seen, which = different_rows(numbers, "rows")
    rows = [tuple(row) for row in numbers.tolist()]
    expected: dict[tuple[int, ...], list[int]] = {}
    for i, row in enumerate(rows):
        expected.setdefault(row, []).append(i)
    places = {row: np.flatnonzero(which == k).tolist() for k, row in enumerate(seen)}
    rising = [row[::-1] for row in seen]
    python = all(type(value) is int for row in seen for value in row)
    return len(seen) == len(expected) and places == expected and rising == sorted(rising) and python


def is_sorted_as_numpy_does(numbers: Integers) -> bool:
    """Compare a table's rows, each once, with NumPy's own."""
    rows, which = rows_once(numbers)
    expected, places = np.unique(numbers, axis=0, return_inverse=True)
    return np.array_equal(rows, expected) and np.array_equal(which, places.reshape(-1))


def drawn(rng: random.Random, kind: str) -> Integers:
    """Return up to 12 rows of up to 4 numbers, in half of all cases of only a few numbers."""
    info = None if kind == "O" else np.iinfo(kind)
    ends = HUGE if info is None else [v for v in HUGE if info.min <= v <= info.max]
    low = -3 if info is None else max(-3, int(info.min))

    def one() -> int:
        if info is not None and info.bits == 8:
            return rng.randint(int(info.min), int(info.max))
        return rng.choice(ends) if rng.random() < 0.5 else rng.randint(low, 3)

    width, size = rng.randrange(5), rng.randint(1, 12)
    few = [one() for _ in range(rng.randint(1, 3))]
    number = one if rng.random() < 0.5 else lambda: rng.choice(few)
    rows = [[number() for _ in range(width)] for _ in range(size)]
    return np.array(rows, kind).reshape(size, width)


@pytest.mark.parametrize("kind", DTYPES)
def test_rows_are_those_of_a_dictionary(kind: str) -> None:
    rng = random.Random(DTYPES.index(kind))
    for _ in range(60):
        numbers = drawn(rng, kind)
        assert agrees(numbers), numbers.tolist()
        if kind != "O" and numbers.shape[1]:
            assert is_sorted_as_numpy_does(numbers), numbers.tolist()


@pytest.mark.parametrize("kind", DTYPES)
def test_no_two_of_many_rows_are_taken_for_one(kind: str) -> None:
    """Compare rows of 200 by 200 numbers about zero. Planted: differences that wrap around in
    narrow integers."""
    low = 0 if kind.startswith("u") else -100
    grid = np.stack(np.meshgrid(np.arange(low, low + 200), np.arange(low, low + 200)), axis=-1)
    rows = grid.reshape(-1, 2).astype(kind)
    rng = np.random.default_rng(1)
    shuffled = rows[rng.permutation(len(rows))]
    seen, which = different_rows(shuffled, "rows")
    assert len(seen) == 40_000
    assert np.array_equal(np.array(seen)[which], shuffled.astype(np.int64))
    assert kind == "O" or is_sorted_as_numpy_does(shuffled)  # NumPy refuses objects


def test_numbers_beyond_the_integers_of_a_float_stay_apart() -> None:
    """Planted: unsigned and signed words together, which are floats in NumPy."""
    for kind in ("u8", "i8", "O"):
        rows = np.array([[2**53, 1], [2**53 + 1, 1], [2**53 + 2, 1], [2**53 + 1, 0]], kind)
        assert agrees(rows)
        assert len(different_rows(rows, "rows")[0]) == 4


def test_no_row_and_no_number() -> None:
    assert different_rows(np.zeros((0, 3), np.int64), "rows")[0] == []
    seen, which = different_rows(np.zeros((5, 0), np.int64), "rows")
    assert seen == [()]
    assert which.tolist() == [0] * 5


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize(
    "column",
    [
        np.arange(4) / 2,
        np.array([True, False] * 2),
        np.array([0.0, 1, 2, 3], object),
        np.array(list("abcd")),
    ],
    ids=["floats", "booleans", "floats as objects", "texts"],
)
def test_what_is_no_integer_is_refused(column: Any, size: int) -> None:
    """Planted: halves, which would become zeros."""
    with pytest.raises(TypeError, match=r"the numbers of 'rows' have type .*; give integers"):
        different_rows(column[:size, np.newaxis], "rows")
