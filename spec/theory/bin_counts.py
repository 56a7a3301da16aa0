"""Counts of records in public bins, after a public integer matrix for each axis, and the change by
one record.

An axis has categories 0..k-1 or bins between edges; a record is in one bin of each axis, or
outside. Its vector is the product (of Kronecker) of its column in each axis's matrix, or the
weight of those outside.

Matrices. "levels": a row for each sum of 2^l neighboring bins, times the weight of level l;
"circulant": entry (i, j) is kernel[(i - j) mod bins]. No entry is negative. All columns of a
matrix are alike: each bin is in one sum of every level, and a circulant's columns are
permutations of its kernel.

Proof of the sensitivities. One record more or less moves the value by its vector: the product
of the columns' lengths (sums for L1; sums of squares for squared L2), or the weight of those
outside. A replaced record moves it by u - v. Squared, |u - v|^2 = |u|^2 + |v|^2 - 2 <u, v>,
where <u, v> is the product of the axes' inner products, each at least 0, so it is least where
each is. For levels and L1: where both u and v have an entry it is the same number, so that |u -
v|_1 = |u|_1 + |v|_1 - 2 (sum of entries that both have), again a product. The first and the
last bin share the levels of a single sum, which all bins share. A record that goes outside, or
comes from there, moves |u| plus the weight (its square). QED.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

from dpverify.privacy import Adjacency, Norm, Source, of_query, shows, states

from .caches import lru_cache
from .obligations import neighbors, require

Axis = Any
"""Number of categories, or increasing edges."""
Matrix = tuple[str, int, tuple[int, ...]]
"""Kind of a matrix, the number of bins, and the weights of levels or the kernel."""
Record = tuple[Fraction, ...]
_SOURCE = Source("DMNS06", "Section 3, histogram queries", note="after a public matrix")


def place(axis: Axis, value: Fraction) -> int | None:
    """Find the bin of a number: the category that it is, or the bin [e_i, e_(i + 1)), the last one
    closed."""
    if isinstance(axis, int):
        return int(value) if value.denominator == 1 and 0 <= value < axis else None
    if not axis[0] <= value <= axis[-1]:
        return None
    return min(bisect_right(axis, value) - 1, len(axis) - 2)


@lru_cache(maxsize=256)
def columns(matrix: Matrix) -> tuple[tuple[int, ...], ...]:
    """List the matrix's columns, one for each bin."""
    kind, bins, numbers = matrix
    if kind == "circulant":
        return tuple(tuple(numbers[(i - j) % bins] for i in range(bins)) for j in range(bins))
    rows = [
        tuple(weight if j >> level == node else 0 for j in range(bins))
        for level, weight in enumerate(numbers)
        if weight
        for node in range(-(-bins >> level))
    ]
    return tuple(zip(*rows, strict=True))


def value(
    records: Sequence[Record], axes: Sequence[Axis], matrices: Sequence[Matrix], other: int
) -> tuple[int, ...]:
    """Add up the records' vectors, and after them ``other`` times the number outside, unless that
    is 0."""
    rows = [len(columns(matrix)[0]) for matrix in matrices]
    total, outside = [0] * prod(rows), 0
    for record in records:
        where = [place(axis, x) for axis, x in zip(axes, record, strict=True)]
        if None in where:
            outside += 1
            continue
        parts = [columns(m)[i] for m, i in zip(matrices, where, strict=True) if i is not None]
        for row, entries in enumerate(product(*parts)):
            total[row] += prod(entries)
    return (*total, *([other * outside] if other else []))


def _length(numbers: Sequence[int], norm: Norm) -> int:
    return sum(map(abs, numbers)) if norm is Norm.L1 else sum(x * x for x in numbers)


def common(matrix: Matrix, norm: Norm) -> int:
    """Return the least that two columns, or a column and itself, have in common: an inner product
    for a circulant, else the length, in this norm, of the weights of common levels.
    """
    kind, bins, numbers = matrix
    if kind == "circulant":
        return min(sum(numbers[i] * numbers[i - s] for i in range(bins)) for s in range(bins))
    return _length([w for level, w in enumerate(numbers) if 1 << level >= bins], norm)


@states(_SOURCE)
def bin_counts_sensitivity(
    matrices: tuple[Matrix, ...], other: int, norm: Norm, adjacency: Adjacency
) -> int | None:
    """Return the largest move of the value, in L1 or squared L2; None for a circulant in L1."""
    if norm is Norm.L1 and any(kind == "circulant" for kind, _, _ in matrices):
        return None
    own = prod(_length(numbers, norm) for _, _, numbers in matrices)
    beside = _length([other], norm)
    if adjacency is Adjacency.ADD_REMOVE:
        return max(own, beside)
    return max(2 * (own - prod(common(m, norm) for m in matrices)), own + beside)


_EDGES = (Fraction(0), Fraction(1), Fraction(3), Fraction(4))
_CASES: tuple[tuple[tuple[Axis, Matrix], ...], ...] = (
    ((1, ("levels", 1, (1,))),),
    ((3, ("levels", 3, (1,))),),
    ((_EDGES, ("levels", 3, (1, 0, 2))),),
    ((5, ("levels", 5, (2, 1, 1))),),
    ((_EDGES, ("circulant", 3, (4, 1, 1))),),
    ((4, ("circulant", 4, (5, 3, 0, 1))),),
    ((1, ("circulant", 1, (3,))),),
    ((2, ("levels", 2, (1,))), (_EDGES, ("circulant", 3, (3, 1, 0)))),
    ((1, ("levels", 1, (2, 1))), (3, ("levels", 3, (1, 2, 1)))),
    ((_EDGES, ("levels", 3, (1,))), (2, ("levels", 2, (1, 3)))),
)
_VALUES = tuple(Fraction(x, 2) for x in (-1, 0, 1, 2, 4, 6, 7, 8, 9))


@states(_SOURCE)
@shows(
    "BinCounts",
    Norm.L1,
    value=of_query(
        lambda matrices, other, adjacency: bin_counts_sensitivity(
            matrices, other, Norm.L1, adjacency
        ),
        "strategies",
        "other",
    ),
)
@shows(
    "BinCounts",
    Norm.SQUARED_L2,
    value=of_query(
        lambda matrices, other, adjacency: bin_counts_sensitivity(
            matrices, other, Norm.SQUARED_L2, adjacency
        ),
        "strategies",
        "other",
    ),
)
def obligation_bin_counts(
    claimed: Callable[..., int | None] = bin_counts_sensitivity,
) -> int:
    """Check over all neighbors of at most two records of one column and one of two that the
    largest move is exactly ``claimed``, for several matrices, with and without a weight for
    records outside, in both norms.
    """
    cases = 0
    for case, other, adjacency in product(_CASES, (0, 1, 3), Adjacency):
        axes, matrices = zip(*case, strict=True)
        universe = [*product(_VALUES, repeat=len(case))] if len(case) == 1 else _PLANE
        moves = [
            [
                x - y
                for x, y in zip(
                    *(_known(side, axes, matrices, other) for side in pair), strict=True
                )
            ]
            for pair in neighbors(universe, 2 if len(case) == 1 else 1, adjacency)
        ]
        cases += len(moves)
        for norm in (Norm.L1, Norm.SQUARED_L2):
            least = claimed(matrices, other, norm, adjacency)
            most = max(_length(move, norm) for move in moves)
            if bin_counts_sensitivity(matrices, other, norm, adjacency) is not None:
                require(most == least, f"{case}, {other}, {norm}, {adjacency}: {most}, not {least}")
    return cases


_PLANE = tuple(
    product((Fraction(-1), Fraction(0), Fraction(1), Fraction(2), Fraction(4)), repeat=2)
)


@lru_cache(maxsize=4096)
def _known(
    records: tuple[Record, ...], axes: tuple[Axis, ...], matrices: tuple[Matrix, ...], other: int
) -> tuple[int, ...]:
    return value(records, axes, matrices, other)


def obligation_places(claimed: Callable[[Axis, Fraction], int | None] = place) -> int:
    """Check that every number is in exactly one bin, or outside: below the first edge, above the
    last, or no category.
    """
    cases = 0
    for axis in (1, 3, _EDGES, _EDGES[:2]):
        for x in _VALUES:
            if isinstance(axis, int):
                own: list[int | None] = [i for i in range(axis) if x == i]
            else:
                last = len(axis) - 2
                own = [
                    i
                    for i in range(last + 1)
                    if axis[i] <= x < axis[i + 1] or (i == last and x == axis[-1])
                ]
            require(
                [claimed(axis, x)] == (own or [None]), f"{x} of {axis}: {claimed(axis, x)}, {own}"
            )
            cases += 1
    return cases
