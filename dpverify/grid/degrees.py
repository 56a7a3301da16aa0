"""Exact neighbor counts: how many rows lie within a radius of each row, without an n x n matrix.

Distances are compared in integers, or in float64 where every partial sum is one. The predicate is a
function of two rows alone, and symmetric; order, batch, blocks and threads never show in a count.

A ball at a time. Let c be any integer vector, and let the core be the rows left within
``reach - radius`` of c. A row within the radius of a core row is within the reach of c, by the
triangle inequality. So the core against the rows left in that larger ball (near rows, the core
included) is all there is to decide about the core; it is counted on both sides and leaves. What
remains decides about itself, about another center. Far rows are not even converted before their
turn, so they do not slow down the others. Centers and reaches are read off some of the rows:
exact whatever they are, and chosen so that every core holds one of these rows at least
(``_chosen``).

In one ball. Take y - c = 2^s z + e, coordinatewise, with 0 <= e < 2^s, and w = (2^s - 1)
sqrt(d) rounded up. Two rows' errors e differ by at most w in norm, so their distance D and the
distance E of their z obey |D - 2^s E| <= w, and

    D <= r  implies  E^2 <= (r + w)^2 / 4^s,      E^2 <= (r - w)^2 / 4^s, w <= r  implies  D <= r.

The few pairs in between are decided from the rows themselves (``friends``). Where s = 0, w = 0:
both bounds are r^2, and nothing is in between. E^2 comes from one product of floats, (2 z_i,
-N_i, 1) with (z_j, 1, -N_j), which is -E^2 for N = |z|^2. If all N are at most 2^51, the
magnitudes of its terms add up, by Cauchy-Schwarz, to at most 2 |z_i| |z_j| + N_i + N_j <= 2^53.
So every entry and every partial sum is an integer that float64 holds, in whatever order they
are added (as in ``linear``). Where all rows are within r / 2 of c they are friends of each
other without a look. Where some are not, r is below twice the largest |y - c|, and both bounds
on E^2 are integers of at most 2^53, too.

Most pairs need no look: rows near c are friends of all that are not far on the other side, and
of rows that few others are near to, boxes of most others are too far (``pruning``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpverify.grid.linear import (
    EXACT,
    WORD,
    Integers,
    integers,
    largest,
    squared_distances,
    squared_norms,
)
from dpverify.grid.pruning import against, ceiling_root, parts, ranges, squares_from
from dpverify.privacy.numbers import whole

Indices = NDArray[np.intp]

_MOST_SQUARE = EXACT // 4
"""Largest squared norm of rows that are compared by one product of floats."""
_REACH = math.isqrt(_MOST_SQUARE)
_WORD_BITS = 24
"""Bits of a rounded norm: rows whose norm is below 2^(this + s) are rounded to cells of 2^s. A
z is less than one off in every coordinate, so |z| < 2^24 + sqrt(d), below 2^25 for every
d < 2^48.
"""
_SAMPLE = 128  # rows from which a center and a reach are chosen
_SHARE = 32  # a core holds one in so many of them at least
_ROWS, _COLUMNS = 128, 1 << 11  # pairs that are compared at a time
_BLOCK = 1 << 20  # numbers that are mapped at a time


def degrees(
    rows: ArrayLike, radius: int, progress: Callable[[int, int], None] | None = None
) -> NDArray[np.int64]:
    """Count the rows, the row itself included, that lie within ``radius`` of each row: shape (n,).

    rows: integers of any size, shape (n, d). The count of row i is #{j :
    |y_i - y_j| <= radius}, exact, with the boundary included. ``progress(done, n)`` is called
    from time to time with the number of rows whose counts are complete. Takes time O(n^2 d) at
    the speed of a float64 matrix product for the pairs that need a look (``pruning``: few of
    them where the radius is small against the spread of the rows, or so large that most rows
    are within half of it of their median), and memory O(n d); O(n log n) for d = 1, and O(n d)
    where all are within half the radius of their median. How long it takes says something of
    the rows. Beyond 61 bits an entry is a Python integer, and slow. Errors: TypeError for
    anything but integers, ValueError for another shape or a negative radius.
    """
    given, most = _matrix(rows, "rows"), _radius(radius)
    n, d = given.shape
    if d == 1:
        counts = _in_order(given[:, 0], most)
        if progress is not None and n:
            progress(n, n)
        return counts
    counts, left, done = np.zeros(n, np.int64), np.arange(n), 0
    while len(left):
        ball = _ball(given, left, most)
        for finished in _counted(given, ball, most, counts):
            done += finished
            if progress is not None:
                progress(done, n)
        left = np.setdiff1d(left, ball.core, assume_unique=True)
    return counts


def friends(left: ArrayLike, right: ArrayLike, radius: int) -> NDArray[np.bool_]:
    """Return where a row of ``left`` is within ``radius`` of the same row of ``right``, shape (n,).

    Both are integers of any size, of shape (n, d). Errors: as for ``degrees``.
    """
    first, second, most = _matrix(left, "left"), _matrix(right, "right"), _radius(radius)
    if first.shape != second.shape:
        raise ValueError(
            f"left has shape {first.shape} and right has shape {second.shape}; give pairs of rows, "
            "two matrices of one shape."
        )
    return np.asarray(squared_norms(_difference(first, second)) <= most**2, dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class _Ball:
    """Rows left in a ball, by their indices: those near its center, and the others in it."""

    center: Integers
    core: Indices
    others: Indices
    square: int
    """The largest squared distance from the center."""


@dataclass(frozen=True, slots=True)
class _Rounded:
    """Near rows as (z, 1, -N), with the bounds on E^2: up to ``sure`` friends, beyond ``maybe``
    not.
    """

    rows: Integers
    members: Indices
    vectors: NDArray[np.float64]
    sure: float
    maybe: float
    radius: int

    def of(self, some: Indices) -> _Rounded:
        """Return some of the members, in this order, with the same bounds."""
        return replace(self, members=self.members[some], vectors=self.vectors[some])

    def friends(self, some: slice, others: slice) -> NDArray[np.bool_]:
        """Say which of other members are friends of some, shape (some, others)."""
        product = against(self.vectors[some]) @ self.vectors[others].T
        near: NDArray[np.bool_] = product >= -self.sure
        if self.sure < self.maybe:
            i, j = np.nonzero((product >= -self.maybe) & ~near)
            near[i, j] = self._decided(self.members[some][i], self.members[others][j])
        return near

    def _decided(self, i: Indices, j: Indices) -> NDArray[np.bool_]:
        """Decide the pairs that rounding left open, some at a time."""
        near = np.empty(len(i), np.bool_)
        for part in _parts(len(i), self.rows.shape[1]):
            near[part] = friends(self.rows[i[part]], self.rows[j[part]], self.radius)
        return near


def _counted(rows: Integers, ball: _Ball, radius: int, counts: NDArray[np.int64]) -> Iterator[int]:
    """Add the core's pairs with all rows of the ball; yield how many rows are done after each
    block.
    """
    members, size = np.concatenate([ball.core, ball.others]), len(ball.core)
    if 4 * ball.square <= radius**2:  # all of them core: others are farther from the center
        counts[members] += size
        yield from (some.stop - some.start for some in _runs(0, size, _ROWS))
        return
    rounded = _rounded(rows, members, ball, radius)
    core, others = np.split(np.arange(len(members)), [size])
    for part, beside, point in parts(rounded.vectors, core, others, rounded.maybe):
        yield from _compared(rounded, part, beside, point, counts)


def _compared(
    rounded: _Rounded,
    core: Indices,
    others: Indices,
    point: NDArray[np.float64],
    counts: NDArray[np.int64],
) -> Iterator[int]:
    """Add the core's pairs with itself and with others to the counts of both, nearest to a
    point first.
    """
    squares = [squares_from(point, rounded.vectors[some]) for some in (core, others)]
    order = [np.argsort(some) for some in squares]
    squares = [square[rising] for square, rising in zip(squares, order, strict=True)]
    here = rounded.of(np.concatenate([core[order[0]], others[order[1]]]))
    friend_counts = np.zeros(len(here.members), np.int64)
    more = np.zeros(
        len(friend_counts) + 1, np.int64
    )  # added from a place on: its partial sums are found, too
    for some in _runs(0, len(core), _ROWS):
        size = some.stop - some.start
        friend_counts[some] += _sums(here.friends(some, some), 1)
        rho = ceiling_root(float(squares[0][some.stop - 1]))
        for start, first, distances in ((0, some.stop, squares[0]), (len(core), 0, squares[1])):
            near, far = ranges(distances, rho, here.sure, here.maybe)
            first, near, far = max(start, first), max(start, first, start + near), start + far
            friend_counts[some] += near - first
            more[first] += size
            more[near] -= size
            for beside in _runs(near, far, _COLUMNS):
                block = here.friends(some, beside)
                friend_counts[some] += _sums(block, 1)
                friend_counts[beside] += _sums(block, 0)
        yield size
    counts[here.members] += friend_counts + np.cumsum(more[:-1])


def _runs(start: int, stop: int, step: int) -> Iterator[slice]:
    return (slice(at, min(at + step, stop)) for at in range(start, stop, step))


def _sums(block: NDArray[np.bool_], axis: int) -> NDArray[np.uint16]:
    """Count how many are true along an axis, of fewer than 2^16; NumPy is slower in 64 bits."""
    return np.asarray(block.sum(axis=axis, dtype=np.uint16))


def _rounded(rows: Integers, members: Indices, ball: _Ball, radius: int) -> _Rounded:
    """Round the ball's rows about its center to cells that make them fit; one cell is 1 if they
    do.
    """
    shift = 0
    if ball.square > _MOST_SQUARE:
        shift = math.isqrt(ball.square).bit_length() - _WORD_BITS
    columns = rows.shape[1]
    vectors = np.ones((len(members), columns + 2))
    for part in _parts(len(members), columns):
        cells = _difference(rows[members[part]], ball.center) >> shift
        vectors[part, :columns] = cells
        vectors[part, -1] = -squared_norms(cells)
    widest = (1 << shift) - 1
    width = math.isqrt(widest**2 * columns - 1) + 1 if widest else 0
    sure = (radius - width) ** 2 >> 2 * shift if radius >= width else -1
    # where shift > 0, radius < 2^(25 + shift) and width <= 2^(24 + shift)
    maybe = (radius + width) ** 2 >> 2 * shift
    return _Rounded(rows, members, vectors, float(sure), float(maybe), radius)


def _ball(rows: Integers, left: Indices, radius: int) -> _Ball:
    """Return the next ball: the rows left that are in it. All of them are core if none is
    outside.
    """
    center, reach = _chosen(rows, left, radius)
    near, core = (np.zeros(len(left), np.bool_) for _ in range(2))
    square = 0
    for part in _parts(len(left), rows.shape[1]):
        offsets = _difference(rows[left[part]], center)
        boxed = np.flatnonzero((np.abs(offsets) <= reach).all(axis=1))
        squares = squared_norms(offsets[boxed])
        near[part.start + boxed] = inside = squares <= reach**2
        core[part.start + boxed] = squares <= (reach - radius) ** 2
        square = max(square, largest(squares[inside]))
    if near.all():
        core = near
    return _Ball(center, left[core], left[near & ~core], square)


def _chosen(rows: Integers, left: Indices, radius: int) -> tuple[Integers, int]:
    """Choose a center and a reach from some of the rows: their coordinatewise median, or one of
    themselves.

    The center is the candidate with most of these rows near: the least m such that one in 32 of
    them is within m. Then the reach is at least 4 m and 4 radii, so the rows within m are
    within 3/4 of the reach: they are core. Few pairs are undecided as long as the radius is
    well above the reach's 2^-22 sqrt(d).
    """
    some = rows[left[np.linspace(0, len(left) - 1, min(_SAMPLE, len(left))).astype(np.intp)]]
    median: Integers = np.sort(some, axis=0)[len(some) // 2]
    offsets = _difference(some, median)
    rank = len(some) // _SHARE
    around = int(np.sort(squared_norms(offsets))[rank])
    center = median
    if around > _REACH**2 // 16:
        squares = np.sort(squared_distances(offsets), axis=1)[:, rank]
        best = int(squares.argmin())
        if squares[best] < around:
            center, around = some[best], int(squares[best])
    return center, max(_REACH, 4 * radius, 4 * (math.isqrt(around) + 1))


def _in_order(values: Integers, radius: int) -> NDArray[np.int64]:
    """Return the counts on the line, by sorting."""
    if 2 * largest(values) <= radius:
        return np.full(len(values), len(values), np.int64)
    if largest(values) + radius >= WORD:
        values = values.astype(object)
    ordered = np.sort(values)
    ends = np.searchsorted(ordered, values + radius, "right")
    return np.asarray(ends - np.searchsorted(ordered, values - radius, "left"), dtype=np.int64)


def _difference(left: Integers, right: Integers) -> Integers:
    """Return left - right, in int64 where that holds it with room for a sign and a sum."""
    if left.dtype != object and right.dtype != object and largest(left) + largest(right) < WORD:
        return np.asarray(left - right)
    exact: Integers = left.astype(object) - right.astype(object)
    return exact.astype(np.int64) if largest(exact) < WORD else exact


def _parts(count: int, columns: int) -> Iterator[slice]:
    step = max(1, _BLOCK // max(1, columns))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def _matrix(rows: ArrayLike, name: str) -> Integers:
    matrix = integers(rows)
    if matrix.ndim != 2:
        raise ValueError(
            f"{name} has {matrix.ndim} dimensions; give a matrix of one row for each record, of "
            "shape (n, d)."
        )
    if matrix.dtype == object and largest(matrix) < WORD:
        return matrix.astype(np.int64)
    return matrix


def _radius(radius: int) -> int:
    if whole(radius, "radius") < 0:
        raise ValueError(f"radius = {radius} is negative; give a number of cells, at least 0.")
    return int(radius)
