"""Exact integer linear algebra: float64 BLAS where every partial sum is an exact integer.

An integer of magnitude at most 2^53 is a float64, and so is every partial sum of a product of two
integer matrices as long as the sum of the terms' magnitudes is at most 2^53. Then no operation of a
matrix product rounds, in whatever order, in however many threads, fused or not: the result is the
integer itself. (A BLAS forms every entry as a sum of products of entries; none subtracts entries
first, as Strassen's algorithm would.) The sum of the magnitudes is bounded by inner dimension times
largest times largest, and by Cauchy-Schwarz: row norm times column norm.

Beyond the bound, operands are split into words, x = w_0 + 2^b w_1 + ..., balanced:
|w_i| <= 2^(b-1). Every product of words is exact by the same bound, over chunks of the inner
dimension if need be. The parts are put together modulo 2^64, which is exact when the result is
known to be below 2^62, and otherwise in Python integers (an array of dtype object). How it is
done never shows in the result.

Budgets, for n records clipped to a ball of R cells:

- first moments: n R <= 2^53 for one word. A cell of 2^-20 of the radius leaves 2^33 records.
- second moments: n R^2 <= 2^53 for one word. A cell of 2^-17 of the radius leaves 2^19 records;
  more records, or a finer cell, take two words and up to four times as long.
- no number that is given in cells exceeds 2^41 (``check_word_budget``): the outer box about a
  center in it. The squared norm of such a row needs two words, and it has them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Integers = NDArray[Any]
"""Array of dtype int64, or of dtype object: Python integers."""

EXACT = 1 << 53
"""Bound up to which all integers are float64 numbers."""
WORD = 1 << 62
"""Bound on results: those below it are int64, those that may reach it are Python integers."""
LARGEST_ENTRY = 1 << 41
"""The largest magnitude of a number given in cells."""
_BLOCK = 1 << 20  # entries of an operand that are split at a time
_FEW = 64  # number of entries whose largest Python finds sooner
_FEW_COLUMNS = 4  # numbers of columns for which their sum takes less time than rows' sums do
_BLOCK_ROWS = 1 << 11
_LEAST_CHUNK = 1 << 12
_OVERHEAD = 256  # what another chunk costs, in inner dimensions: a pass over the result


def matmul(a: ArrayLike, b: ArrayLike) -> Integers:
    """Return the exact product a b of integer matrices of shapes (n, k) and (k, m)."""
    left, right = integers(a), integers(b)
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[0]:
        raise ValueError(
            f"matrices of shapes {left.shape} and {right.shape} have no product; give (n, k) and "
            "(k, m)."
        )
    return _product(left, right)


def gram(x: ArrayLike) -> Integers:
    """Return x x^T: the exact inner products of the rows, shape (n, n)."""
    rows = integers(x)
    return _product(rows, rows.T, symmetric=True)


def second_moments(x: ArrayLike) -> Integers:
    """Return x^T x: the exact inner products of the columns, shape (d, d)."""
    rows = integers(x)
    return _product(rows.T, rows, symmetric=True)


def float_moments(x: NDArray[np.float64], most: int) -> tuple[Integers, Integers]:
    """Return (x^T x, the sum of the rows), shapes (d, d) and (d,), of integers that are held as
    floats.

    most: a public bound on their magnitude. Raises ValueError for more than 2^53 / most^2 rows,
    whose partial sums may round.
    """
    if len(x) * max(1, most) ** 2 > EXACT:
        raise ValueError(f"{len(x)} rows of up to {most}; give at most {EXACT // most**2} at once.")
    return (x.T @ x).astype(np.int64), (np.ones(len(x)) @ x).astype(np.int64)


def column_sums(x: ArrayLike) -> Integers:
    """Return the exact sum of the rows, shape (d,)."""
    rows = integers(x)
    if rows.dtype == object or len(rows) * largest(rows) < WORD:
        return np.asarray(rows.sum(axis=0, dtype=rows.dtype))
    low, high = rows & ((1 << 32) - 1), rows >> 32
    sums: Integers = column_sums(high).astype(object) << 32
    return sums + column_sums(low)


def squared_norms(x: ArrayLike) -> Integers:
    """Return the exact squared Euclidean norm of each row, shape (n,)."""
    rows = integers(x)
    top = largest(rows)
    if rows.dtype != object and rows.shape[1] * top**2 < WORD:
        return _inner(rows, rows)
    if rows.dtype == object or top >= WORD:
        return _long_norms(rows)
    # int64 is exact modulo 2^64, so a norm that is below 2^62 is right; of rounded numbers see
    # ``_refined``
    short = _float_norms(rows) < WORD * (1 - (rows.shape[1] + 8) * 2.0**-52)
    norms = _inner(rows, rows)
    if short.all():
        return norms
    long: Integers = norms.astype(object)
    long[~short] = _long_norms(rows[~short])
    return long


def _long_norms(rows: Integers) -> Integers:
    """Return ``squared_norms`` in Python integers."""
    size = _Size(largest(rows), 0)
    if size.largest >= WORD or rows.shape[1] * size.word(3) ** 2 >= WORD:
        return _python_squares(rows)
    count = 2 if rows.shape[1] * size.word(2) ** 2 < WORD else 3
    bits = size.bits(count)
    words = _words(rows.astype(np.int64, copy=False), count, bits)
    total: Integers = np.zeros(len(rows), object)
    for i, one in enumerate(words):
        for j, other in enumerate(words[: i + 1]):
            twice = int(i != j)
            total += _inner(one, other).astype(object) << (bits * (i + j) + twice)
    return total


def ceiling_norms(x: ArrayLike) -> tuple[Integers, NDArray[np.bool_]]:
    """Return the least integer s >= |y| for each row y, shape (n,), exactly; and where |y| is
    that integer.

    Of k columns, the float of N = |y|^2 is off by less than (k + 3) 2^-53 of itself, so its
    rounded root s by e < (k + 6) 2^-54 s + 1. If N (k + 8) < 2^114, then |N - s^2| < 2 s
    e + e^2 < 2^63: it is known modulo 2^64, and so s can be moved to where it belongs, a few
    steps away.
    """
    rows = integers(x)
    if rows.dtype == object:
        return _ceiling_roots(squared_norms(rows))
    about = _float_norms(rows)
    if not about.max(initial=0.0) * (rows.shape[1] + 8) < 2.0**114:
        return _ceiling_roots(squared_norms(rows))
    roots = np.rint(np.sqrt(about)).astype(np.int64)
    over = _inner(rows, rows) - roots * roots  # N - s^2, modulo 2^64 on the way
    while (low := over > 0).any():
        roots += low
        over -= (2 * roots - 1) * low
    while (high := (over <= 1 - 2 * roots) & (roots > 0)).any():
        over += (2 * roots - 1) * high
        roots -= high
    return roots, over == 0


def _ceiling_roots(squares: Integers) -> tuple[Integers, NDArray[np.bool_]]:
    roots = np.empty(len(squares), object)
    roots[:] = [math.isqrt(square - 1) + 1 if square else 0 for square in squares.tolist()]
    return roots, np.asarray(roots * roots == squares, dtype=np.bool_)


def norms_at_most(x: ArrayLike, square: int) -> NDArray[np.bool_]:
    """Return which rows have a squared norm of at most ``square``, decided in integers."""
    rows = integers(x)
    if rows.dtype == object:
        return np.asarray(squared_norms(rows) <= square, dtype=np.bool_)
    if rows.shape[1] * largest(rows) ** 2 <= square:  # the box about them is inside
        return np.ones(len(rows), np.bool_)
    about = _float_norms(rows)
    # what is longer or shorter by more than floats are off (see ``_refined``) is decided
    most, slack = float(min(square, 1 << 200)), (rows.shape[1] + 8) * 2.0**-51
    inside: NDArray[np.bool_] = about <= most * (1 - slack)
    close = np.flatnonzero(~inside & (about <= most * (1 + slack)))
    inside[close] = squared_norms(rows[close]) <= square
    return inside


def squared_distances(x: ArrayLike, y: ArrayLike | None = None) -> Integers:
    """Return the exact squared distance of each row of x to each row of y (or of x), shape (n,
    m).
    """
    left = integers(x)
    right = left if y is None else integers(y)
    distances = matmul(left, right.T)
    here = squared_norms(left)
    there = here if y is None else squared_norms(right)
    # |a - b|^2 <= 2 |a|^2 + 2 |b|^2 bounds what comes out and everything on the way there
    kind = np.int64 if 2 * (largest(here) + largest(there)) < WORD else object
    distances, here, there = (part.astype(kind, copy=False) for part in (distances, here, there))
    distances *= -2
    distances += here[:, np.newaxis]
    distances += there
    return distances


def check_word_budget(value: int, name: str, most: int = LARGEST_ENTRY) -> None:
    """Raise ValueError for a parameter in cells that no budget has words for."""
    if abs(value) <= most:
        return
    larger_cell = "Use a larger cell (a larger exponent) or a smaller radius"
    remedy = (
        "Divide the matrix and the radius by a power of two" if name == "matrix" else larger_cell
    )
    raise ValueError(
        f"{name}: {value} is beyond the 2^{most.bit_length() - 1} cells that exact sums of records "
        f"have words for, in whatever way they are split. {remedy}: a cell of 2^-20 of the "
        "radius is fine enough for sums, and one of 2^-17 for second moments."
    )


def integers(x: ArrayLike) -> Integers:
    """Return the array as int64, or as Python integers where it holds those or unsigned 64-bit
    ones.

    Raises TypeError for anything but integers: a float may be rounded already.
    """
    array = np.asarray(x)
    if array.dtype == np.int64 or array.dtype == object:
        return array
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(
            f"an array of {array.dtype} where integers belong; map records to cells first "
            "(to_cells)."
        )
    return array.astype(object if array.dtype == np.uint64 else np.int64)


def largest(x: Integers) -> int:
    """Return the largest magnitude of an entry, 0 for none."""
    if x.size <= _FEW:
        return max(map(abs, map(int, x.ravel().tolist())), default=0)
    return max(int(x.max()), -int(x.min()))


@dataclass(frozen=True, slots=True)
class _Size:
    """Public bounds on an operand: on its entries, and on its vectors' squared norms."""

    largest: int
    squares: int

    def word(self, words: int) -> int:
        """Return the largest magnitude of a word when split into so many."""
        return self.largest if words == 1 else 1 << (self.bits(words) - 1)

    def bits(self, words: int) -> int:
        """Return the bits of a word: enough for the top word to be balanced too (``_words``)."""
        return self.largest.bit_length() // words + 1


def _product(a: Integers, b: Integers, symmetric: bool = False) -> Integers:
    """Return a b; ``symmetric`` says that a is b^T, which halves the work."""
    inner = a.shape[1]
    tops = [largest(b)] * 2 if symmetric else [largest(a), largest(b)]
    sizes = [_Size(top, inner * top * top) for top in tops]
    if math.prod(size.squares for size in sizes) > EXACT**2:
        refined = _refined(sizes[1], b)
        sizes = [refined if symmetric else _refined(sizes[0], a.T), refined]
    words = _cheapest(sizes[0], sizes[1], inner, symmetric)
    chunk = _chunk(sizes[0], sizes[1], words, inner)
    if words == (1, 1) and chunk >= inner and not symmetric:
        return _one_word(a, b)
    modular = math.isqrt(math.prod(size.squares for size in sizes)) < WORD
    bits = [size.bits(count) for size, count in zip(sizes, words, strict=True)]
    chunk = min(chunk, max(_LEAST_CHUNK, _BLOCK // max(1, a.shape[0], b.shape[1])))
    parts = _parts(a, b, words, bits, chunk, symmetric)
    total = _term(*next(parts), modular)
    for part, shift in parts:
        total += _term(part, shift, modular)
    return total.view(np.int64) if modular else total


def _parts(
    a: Integers, b: Integers, words: tuple[int, int], bits: list[int], chunk: int, symmetric: bool
) -> Iterator[tuple[NDArray[np.float64], int]]:
    """Yield exact products of words, at least one, each with the power of 2 that it counts for."""
    for start in range(0, max(a.shape[1], 1), chunk):
        right = _floats(_words(b[start : start + chunk], words[1], bits[1]))
        if symmetric:
            left = [word.T for word in right]
        else:
            left = _floats(_words(a[:, start : start + chunk], words[0], bits[0]))
        for i, one in enumerate(left):
            for j, other in enumerate(right[: i + 1] if symmetric else right):
                part, shift = one @ other, i * bits[0] + j * bits[1]
                yield part, shift
                if symmetric and i != j:
                    yield part.T, shift


def _one_word(a: Integers, b: Integers) -> Integers:
    """Return the product where it needs one word, a block of rows at a time: copies stay in the
    cache.
    """
    right = b.astype(np.float64)
    result = np.empty((a.shape[0], b.shape[1]), np.int64)
    step = max(64, min(_BLOCK_ROWS, _BLOCK // max(1, *b.shape), len(a)))
    left, product = np.empty((step, b.shape[0])), np.empty((step, b.shape[1]))
    for start in range(0, len(a), step):
        rows = slice(start, start + step)
        count = len(a[rows])
        left[:count] = a[rows]
        np.matmul(left[:count], right, out=product[:count])
        result[rows] = product[:count]
    return result


def _refined(size: _Size, columns: Integers) -> _Size:
    """Return the size with its squared norms measured: in floats, and then increased beyond
    their error.
    """
    if columns.dtype == object:
        return size
    floats = columns.astype(np.float64)
    square = Fraction(float(np.einsum("ij,ij->j", floats, floats).max(initial=0.0)))
    # a sum of k squares of rounded numbers is off by less than (k + 3) 2^-53 of itself
    slack = 1 + Fraction(len(columns) + 8, 1 << 52)
    return _Size(size.largest, min(size.squares, math.ceil(square * slack)))


def _chunk(a: _Size, b: _Size, words: tuple[int, int], inner: int) -> int:
    """Return the longest inner dimension for which every product of words is exact; 0 if none
    is.
    """
    tops = (a.word(words[0]), b.word(words[1]))
    squares = [
        min(size.squares, inner * top * top) if count == 1 else inner * top * top
        for size, top, count in zip((a, b), tops, words, strict=True)
    ]
    if max(tops) > EXACT:
        return 0
    if math.prod(squares) <= EXACT**2:
        return max(inner, 1)
    return EXACT // (tops[0] * tops[1])


def _cheapest(a: _Size, b: _Size, inner: int, symmetric: bool) -> tuple[int, int]:
    """Return how many words to split the operands into: the fewest multiplications, with their
    overhead.
    """

    def cost(words: tuple[int, int]) -> float:
        chunk = _chunk(a, b, words, inner)
        if chunk == 0 or (symmetric and words[0] != words[1]):
            return math.inf
        return words[0] * words[1] * (inner + _OVERHEAD * -(-inner // chunk))

    counts = [range(1, 2 + size.largest.bit_length() // 12) for size in (a, b)]
    return min(((i, j) for i in counts[0] for j in counts[1]), key=cost)


def _words(x: Integers, count: int, bits: int) -> list[Integers]:
    """Return w_0, w_1, ... with x = sum of 2^(bits i) w_i, all at most 2^(bits - 1) in magnitude.

    For the last word: |x| < 2^(count bits - 1), and the rest after i words is within one of
    x / 2^(bits i), so it is at most 2^(bits - 1).
    """
    half = 1 << (bits - 1)
    rest = x.astype(object) if count > 1 and largest(x) >= WORD else x
    words = []
    for _ in range(count - 1):
        low = ((rest + half) & (2 * half - 1)) - half
        words.append(low)
        rest = (rest - low) >> bits
    return [*words, rest]


def _floats(words: list[Integers]) -> list[NDArray[np.float64]]:
    return [word.astype(np.float64) for word in words]


def _term(part: NDArray[np.float64], shift: int, modular: bool) -> Integers:
    """Return part 2^shift, modulo 2^64 as uint64, or in Python integers."""
    exact: Integers = part.astype(np.int64)
    if modular:
        words = exact.view(np.uint64)
        return np.asarray(words << np.uint64(shift)) if shift else words
    return np.asarray(exact.astype(object) << shift)


def _inner(x: Integers, y: Integers) -> Integers:
    """Return the inner product of each row of x with the same row of y, in int64."""
    if not 0 < x.shape[1] <= _FEW_COLUMNS:
        return np.asarray(np.einsum("ij,ij->i", x, y))
    total: Integers = x[:, 0] * y[:, 0]
    for j in range(1, x.shape[1]):
        total += x[:, j] * y[:, j]
    return total


def _float_norms(rows: Integers) -> NDArray[np.float64]:
    """Return the squared norm of each row of k columns in floats, off by less than (k + 3) 2^-53 of
    itself.
    """
    if not 0 < rows.shape[1] <= _FEW_COLUMNS:
        floats = rows.astype(np.float64)
        return np.asarray(np.einsum("ij,ij->i", floats, floats))
    total = np.square(rows[:, 0], dtype=np.float64)
    for j in range(1, rows.shape[1]):
        total += np.square(rows[:, j], dtype=np.float64)
    return total


def _python_squares(rows: Integers) -> Integers:
    squares = np.empty(len(rows), object)
    squares[:] = [sum(int(v) * int(v) for v in row) for row in rows.tolist()]
    return squares
