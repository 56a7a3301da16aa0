"""First and second moments of records between public bounds, with their sensitivity shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import ceil, isqrt
from typing import Any

from dpverify.privacy import Adjacency, Norm, Sensitivity, Source, shows, states

from .obligations import datasets, neighbors, require
from .vectors import Record, Vector, clip_to_ball, squared_distance, squared_norm

_MOMENTS = Source("OURS", "first and second moments of records in a box")
Edges = tuple[tuple[int, int, Fraction], ...]
"""Lower and upper bound in cells, and the cell, of every column."""


@dataclass(frozen=True, slots=True)
class Box:
    """Public parameters of a query: bounds, the image's side and radius, the constant coordinate,
    the weights of entries on the diagonal and above it, and whether the first entry is
    released.
    """

    edges: Edges
    side: int
    radius: int
    constant: int
    diagonal: int = 1
    above: int = 1
    counted: bool = True

    def image(self, record: Record) -> Vector:
        """Map each column's bounds to -side and side, round, then clip to the ball."""
        cells = []
        for x, (low, high, cell) in zip(record, self.edges, strict=True):
            c = min(max(round(Fraction(x) / cell), low), high)
            cells.append(round(Fraction(self.side * (2 * c - low - high), high - low)))
        return clip_to_ball(tuple(cells), self.radius)

    def moved_squared(self, adjacency: Adjacency) -> int:
        """Return a bound on the move of the value, squared."""
        own = (self.side, self.radius, self.constant, self.diagonal, self.above, self.counted)
        return moved_squared(len(self.edges), *own, adjacency)


def moments(records: Sequence[Record], box: Box) -> Vector:
    """Return the upper triangle of the sum of (h, z)(h, z)^T, row by row, weighted."""
    rows = [(box.constant, *box.image(record)) for record in records]
    width = len(box.edges) + 1
    sums = []
    for i, j in product(range(width), repeat=2):
        if i <= j and (box.counted or j > 0):
            weight = box.diagonal if i == j else box.above
            sums.append(weight * sum(row[i] * row[j] for row in rows))
    return tuple(sums)


def moved_squared(
    columns: int,
    side: int,
    radius: int,
    constant: int,
    diagonal: int,
    above: int,
    counted: bool,
    adjacency: Adjacency,
) -> int:
    """Return a bound on the move of a value, squared.

    Write a, b, h, H for diagonal, above, constant, side, b^2 <= 2 a^2; u_i = z_i^2 <= H^2; and
    s = sum u_i <= S = min(radius^2, d H^2). Let v(z) be the contribution of a record without
    the first entry.

    |v(z)|^2 = a^2 sum u_i^2 + b^2 h^2 s + b^2 sum_{i<j} u_i u_j
             = (a^2 - b^2 / 2) sum u_i^2 + b^2 s^2 / 2 + b^2 h^2 s,
    since 2 sum_{i<j} u_i u_j = s^2 - sum u_i^2. And sum u_i^2 <= Q = S min(H^2, S), for
    u_i <= H^2 and u_i <= s. So |v(z)|^2 <= (a^2 - b^2 / 2) Q + b^2 S^2 / 2 + b^2 h^2 S.
    Add-remove: one such vector, and a h^2 in the first entry. At a corner of the box equality.

    Replace, z by y with w_i = y_i^2, t = sum w_i, p = <z, y>: the first entry stays. As
    2 sum_{i<j} (z_i z_j - y_i y_j)^2 = s^2 + t^2 - 2 p^2 - sum (u_i - w_i)^2,
    |v(z) - v(y)|^2 = (a^2 - b^2 / 2) sum (u_i - w_i)^2 + b^2 (s^2 + t^2) / 2 + b^2 h^2 (s + t)
                      - b^2 (p^2 + 2 h^2 p).
    (u_i - w_i)^2 <= max(u_i, w_i)^2, which is at most H^4 and at most u_i^2 + w_i^2, so the
    first sum is at most min(d H^4, 2 Q). p^2 + 2 h^2 p falls until p = -h^2, and p >= -S, so it
    is at least -x (2 h^2 - x), x = min(S, h^2). Hence |v(z) - v(y)|^2 <= (a^2 - b^2 / 2)
    min(d H^4, 2 Q) + b^2 S^2 + 2 b^2 h^2 S + b^2 x (2 h^2 - x). And of one column it is a^2
    (u - w)^2 + b^2 h^2 (z - y)^2 <= a^2 S^2 + 4 b^2 h^2 S. QED
    """
    top = min(radius**2, columns * side**2)
    uneven = Fraction(2 * diagonal**2 - above**2, 2)
    squares, rest = top * min(side**2, top), above**2 * top * (Fraction(top, 2) + constant**2)
    if adjacency is Adjacency.ADD_REMOVE:
        first = (diagonal * constant**2) ** 2 if counted else 0
        return ceil(uneven * squares + rest) + first
    if columns == 1:
        return (diagonal * top) ** 2 + 4 * above**2 * constant**2 * top
    x = min(top, constant**2)
    opposite = above**2 * x * (2 * constant**2 - x)
    return ceil(uneven * min(columns * side**4, 2 * squares) + 2 * rest) + opposite


def moved(
    columns: int,
    side: int,
    radius: int,
    constant: int,
    diagonal: int,
    above: int,
    counted: bool,
    adjacency: Adjacency,
) -> int:
    """Return a bound on the move of a value in L1; names as in ``moved_squared``, and b <= 2 a.

    With l = sum |z_i| <= T = floor(sqrt(d S)), an integer,
    |v(z)|_1 = a s + b h l + b (l^2 - s) / 2 <= (a - b / 2) S + b T^2 / 2 + b h T.
    Add-remove: one such vector, and a h^2 in the first entry.

    Replace, z by y: at most two of them. And let p_i = |z_i + y_i|, q_i = |z_i - y_i|, whose
    sums are P and Q; p_i + q_i = 2 max(|z_i|, |y_i|) <= 2 H. Then |z_i^2 - y_i^2| = p_i q_i and
    |z_i z_j - y_i y_j| <= (p_i q_j + q_i p_j) / 2, so that all differences together are at most
        (a - b / 2) sum p_i q_i + b P Q / 2 + b h Q
            <= (a - b / 2) (2 H Q - Q^2 / d) + b (2 d H - Q) Q / 2 + b h Q,
    as sum p_i q_i <= sum (2 H - q_i) q_i and sum q_i^2 >= Q^2 / d. That is concave in Q, from 0
    to 2 d H: the largest value is where its slope is 0, or at the end. QED
    """
    top = min(radius**2, columns * side**2)
    reach = isqrt(columns * top)
    uneven = diagonal - Fraction(above, 2)
    one = uneven * top + above * reach * (Fraction(reach, 2) + constant)
    if adjacency is Adjacency.ADD_REMOVE:
        return ceil(one) + (diagonal * constant**2 if counted else 0)
    bend = uneven / columns + Fraction(above, 2)
    slope = 2 * side * uneven + above * (columns * side + constant)
    best = min(slope / (2 * bend), Fraction(2 * columns * side))
    return ceil(min(2 * one, slope * best - bend * best**2))


# --- obligations --------------------------------------------------------------------------------

_LINE = tuple((Fraction(i, 2),) for i in range(-4, 5))
_PLANE = tuple((Fraction(i), Fraction(j)) for i, j in product((-3, -1, 0, 1, 3), (-2, 0, 1, 10**9)))
_SPACE = tuple(tuple(map(Fraction, one)) for one in product((-9, 0, 9), repeat=3))
_UNIVERSES: tuple[tuple[Sequence[Record], Edges], ...] = (
    (_LINE, ((-2, 2, Fraction(1)),)),
    (_LINE, ((-1, 3, Fraction(1, 2)),)),
    (_PLANE, ((-2, 2, Fraction(1)), (-1, 1, Fraction(1)))),
    (_SPACE, ((-1, 1, Fraction(1)),) * 3),
)
_WEIGHTS = ((1, 1), (169, 239), (3, 1))


def _boxes() -> Iterator[tuple[Sequence[Record], Box]]:
    for (universe, edges), side, (diagonal, above) in product(_UNIVERSES, (1, 4), _WEIGHTS):
        wide = isqrt(len(edges) * side**2 - 1) + 1
        for radius, constant in product({side, wide, 9 * wide}, (1, side, 2 * side)):
            for counted in (True, False):
                yield universe, Box(edges, side, radius, constant, diagonal, above, counted)


def _apart(left: Vector, right: Vector) -> int:
    """Return the L1 distance."""
    return sum(abs(a - b) for a, b in zip(left, right, strict=True))


def _moves(
    universe: Sequence[Record], box: Box, adjacency: Adjacency, norm: Norm = Norm.SQUARED_L2
) -> list[int]:
    """Return the moves of the value, in L1 or squared, over all neighbors of at most one record
    each.
    """
    apart = _apart if norm is Norm.L1 else squared_distance
    places = range(len(universe))  # in place of records: fractions are slow to look up
    known = {at: moments([universe[i] for i in at], box) for at in datasets(places, 1)}
    near = neighbors(places, 1, adjacency)
    return [apart(known[left], known[right]) for left, right in near]


_NAMES = ("columns", "side", "radius", "constant", "diagonal", "above", "counted")


def _stated(statement: Sensitivity) -> int:
    """Return the sensitivity in the statement's norm."""
    given: Any = statement.query
    far: Callable[..., int] = moved if statement.norm is Norm.L1 else moved_squared
    return far(*(given[name] for name in _NAMES), statement.adjacency)


@states(_MOMENTS)
@shows("BoxMoments", Norm.L1, Norm.SQUARED_L2, value=_stated)
def obligation_box_moments(
    claimed: Callable[..., int] = moved_squared, claimed_in_l1: Callable[..., int] = moved
) -> int:
    """Check that no neighbors of a small universe are further apart than claimed, in both norms.

    Under add-remove some are as far, where the box's corners are in the ball; under replace
    some have 3/5 of it, where entries weigh alike or nearly as in a Frobenius norm.

    One record suffices: the value is a sum over records.
    """
    cases = 0
    for (universe, box), adjacency in product(_boxes(), Adjacency):
        if adjacency is Adjacency.REPLACE and box.counted:
            continue
        own = (box.side, box.radius, box.constant, box.diagonal, box.above, box.counted)
        for norm, claim in ((Norm.SQUARED_L2, claimed), (Norm.L1, claimed_in_l1)):
            most = claim(len(box.edges), *own, adjacency)
            moves = _moves(universe, box, adjacency, norm)
            case = f"{box}, {adjacency}, {norm}: {max(moves)}, claimed {most}"
            require(max(moves) <= most, case)
            if box.radius**2 >= len(box.edges) * box.side**2:
                near = 0 if box.diagonal > 2 * box.above else Fraction(3, 5)
                require(
                    max(moves) >= most * (1 if adjacency is Adjacency.ADD_REMOVE else near), case
                )
            cases += len(moves)
    return cases


@states(_MOMENTS)
def obligation_images_are_in_the_box_and_the_ball(
    claimed: Callable[[Box, Record], Vector] = Box.image,
) -> int:
    """Check that every image is in the box and in the ball; bounds go to the sides where the ball
    contains the box.
    """
    cases = 0
    for universe, box in _boxes():
        for record in universe:
            z = claimed(box, record)
            inside = max(map(abs, z)) <= box.side and squared_norm(z) <= box.radius**2
            require(inside, f"{box}, {record}: {z}")
            beyond = all(abs(x) >= 9 for x in record)
            if beyond and box.radius**2 >= len(z) * box.side**2:
                require(set(map(abs, z)) == {box.side}, f"{box}, {record}: {z}")
            cases += 1
    return cases
