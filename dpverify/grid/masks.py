"""Distinct integers of a column, each once, and sums of the vectors in a ball, for many balls
at once: exact, in blocks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.linear import WORD, Integers, largest, matmul, squared_distances

SEVERAL = 8
"""Number of columns from which on NumPy looks at whole rows in less time than at each column."""
_BLOCK = 1 << 21  # numbers that are held at a time
_SHORT = 1 << 12  # flags for so many integers cost nothing
_DENSE = 4  # flags for so many integers an entry cost less than sorting


def different(column: Integers) -> tuple[Integers, NDArray[np.intp]]:
    """Return the integers of a column in increasing order, each once, and where each entry is
    among them.

    Does not sort where they are not much further apart than there are entries.
    """
    if column.dtype == object or not len(column):
        seen, which = np.unique(column, return_inverse=True)
        return seen, which
    least = int(column.min())
    span = int(column.max()) - least + 1
    if span > max(_DENSE * len(column), _SHORT):
        seen, which = np.unique(column, return_inverse=True)
        return seen, which
    moved = column - least
    there = np.zeros(span, np.bool_)
    there[moved] = True
    return np.flatnonzero(there) + least, (np.cumsum(there) - 1)[moved]


def in_all(places: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return where the last axis is true all along.

    A few places are looked at one by one, as NumPy takes long over each short row.
    """
    width = places.shape[-1]
    if not 0 < width < SEVERAL:
        return np.asarray(places.all(axis=-1))
    rows = places[..., 0].copy()
    for j in range(1, width):
        rows &= places[..., j]
    return rows


def cut(values: NDArray[np.intp], places: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Return the parts of an array between these places, from 0 to its end.

    The same as ``np.split``, for places in increasing order, in a quarter of the time.
    """
    ends = [0, *places.tolist(), len(values)]
    return [values[start:end] for start, end in pairwise(ends)]


Row = tuple[int, ...]


def different_rows(numbers: Integers, name: str) -> tuple[list[Row], NDArray[np.intp]]:
    """Return the different rows of integers, and which of them each one is; in order of their
    last numbers, then those before.

    Raises TypeError for numbers that are no integers; the message has the name.
    """
    if numbers.dtype.kind not in "iu" and not all(isinstance(v, int) for v in numbers.flat):
        raise TypeError(f"the numbers of {name!r} have type {numbers.dtype}; give integers.")
    if len(numbers) == 1:
        return [tuple(numbers[0].tolist())], np.zeros(1, np.intp)
    codes = _codes(numbers)
    if codes is not None:
        some, which = _by_codes(numbers, codes)
        return list(map(tuple, some.tolist())), which
    rows = list(map(tuple, numbers.tolist()))
    seen = sorted({*rows}, key=lambda row: row[::-1])
    place = dict(zip(seen, range(len(seen)), strict=True))
    return seen, np.array([place[row] for row in rows], np.intp)


def rows_once(numbers: Integers) -> tuple[Integers, NDArray[np.intp]]:
    """Return the different rows of a table in increasing order, and which of them each one is.

    The same as ``np.unique``, which takes ten times as long over rows of integers.
    """
    codes = _codes(numbers[:, ::-1])
    if codes is not None:
        return _by_codes(numbers, codes)
    rows, which = np.unique(numbers, axis=0, return_inverse=True)
    return rows, which.reshape(-1)


def _by_codes(numbers: Integers, codes: Integers) -> tuple[Integers, NDArray[np.intp]]:
    """Return the different rows in the order of their codes, and which of them each one is."""
    seen, which = different(codes)
    some = np.empty(len(seen), np.intp)
    some[which] = np.arange(len(which))
    return numbers[some], which


def _codes(numbers: Integers) -> Integers | None:
    """Return a number for each row, in the order of rows; None where it would not fit a word."""
    if numbers.dtype.kind not in "iu" or numbers.dtype == np.uint64 or not numbers.size:
        return None
    columns = [numbers[:, j].astype(np.int64) for j in range(numbers.shape[1])]
    lows = [int(column.min()) for column in columns]
    spans = [int(column.max()) - low + 1 for column, low in zip(columns, lows, strict=True)]
    if math.prod(spans) >= WORD:
        return None
    codes = np.zeros(len(numbers), np.int64)
    for column, low, span in zip(columns[::-1], lows[::-1], spans[::-1], strict=True):
        codes *= span
        column -= low
        codes += column
    return codes


@dataclass(frozen=True, slots=True)
class Counted:
    """Integer vectors, shape (m, d), and how often each occurs, shape (m,). rising: numbers,
    d = 1, in increasing order.
    """

    vectors: Integers
    counts: Integers
    rising: bool = False

    @property
    def number(self) -> int:
        """Number of all vectors, with repetitions."""
        return int(self.counts.sum())


def each_once(vectors: Integers) -> Counted:
    """Return the vectors as they come."""
    return Counted(vectors, np.ones(len(vectors), np.int64))


def distinct(vectors: Integers) -> Counted:
    """Return equal vectors once."""
    if not len(vectors):
        return each_once(vectors)
    rows, counts = np.unique(vectors, axis=0, return_counts=True)
    return Counted(rows, counts.astype(np.int64), rows.shape[1] == 1)


def sums_in_balls(data: Counted, centers: Integers, radii: Integers) -> tuple[Integers, Integers]:
    """Return (sum of vector - center, number) over the vectors within each radius of its center.

    centers: shape (size, d), radii: shape (size,); all of them, and the vectors, within 2^42.
    Returns shapes (size, d) and (size,): int64, or Python integers where sums could be longer.
    """
    sums = np.zeros(centers.shape, np.int64 if _fits(data, radii) else object)
    numbers = np.zeros(len(centers), np.int64)
    if data.rising:
        _in_order(data, centers[:, 0], radii, (sums, numbers))
        return sums, numbers
    vectors, counts, about = near_balls(data, centers, radii)
    step = max(1, _BLOCK // max(1, len(vectors)))
    for start in range(0, len(centers) if len(vectors) else 0, step):
        rows = slice(start, start + step)
        squares = squared_distances(centers[rows] - about, vectors)
        inside = counts * (squares <= radii[rows, np.newaxis].astype(squares.dtype) ** 2)
        numbers[rows] = inside.sum(axis=1)
        total = matmul(inside, vectors)
        # Far from the corner both may leave a word: in words their difference is right modulo 2^64.
        kind = object if object in (total.dtype, sums.dtype) else np.int64
        sums[rows] = total - (centers[rows] - about).astype(kind) * numbers[rows, np.newaxis]
    return sums, numbers


def _fits(data: Counted, radii: Integers) -> bool:
    reach = int(radii.max(initial=0)) + largest(data.vectors)
    return bool(data.number * reach < WORD >> 1)


def near_balls(
    data: Counted, centers: Integers, radii: Integers
) -> tuple[Integers, Integers, Integers]:
    """Return the vectors in a box about all balls, from its lowest corner: far ones would need
    longer words.
    """
    most = radii.max(initial=0)
    low, high = centers.min(axis=0) - most, centers.max(axis=0) + most
    near = ((data.vectors >= low) & (data.vectors <= high)).all(axis=1)
    return data.vectors[near] - low, data.counts[near], low


def _in_order(
    data: Counted, centers: Integers, radii: Integers, into: tuple[Integers, Integers]
) -> None:
    """Sum in one dimension, where a ball is a stretch of the sorted numbers: two differences of
    partial sums.
    """
    sums, numbers = into
    values = data.vectors[:, 0]
    low = np.searchsorted(values, centers - radii)
    high = np.searchsorted(values, centers + radii, side="right")
    before = np.concatenate([[0], np.cumsum(data.counts)])
    totals = np.concatenate([[0], np.cumsum(data.counts.astype(sums.dtype) * values)])
    numbers[:] = before[high] - before[low]
    sums[:, 0] = totals[high] - totals[low] - numbers * centers.astype(sums.dtype)
