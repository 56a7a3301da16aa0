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
    the weights of entries on the diagonal and above it, whether the first entry is released,
    and how many of the last columns are targets, whose squares and products with each other
    are not released.
    """

    edges: Edges
    side: int
    radius: int
    constant: int
    diagonal: int = 1
    above: int = 1
    counted: bool = True
    targets: int = 0

    def image(self, record: Record) -> Vector:
        """Map each column's bounds to -side and side, round, then clip to the ball."""
        cells = []
        for x, (low, high, cell) in zip(record, self.edges, strict=True):
            c = min(max(round(Fraction(x) / cell), low), high)
            cells.append(round(Fraction(self.side * (2 * c - low - high), high - low)))
        return clip_to_ball(tuple(cells), self.radius)

    def moved_squared(self, adjacency: Adjacency) -> int:
        """Return a bound on the move of the value, squared."""
        return moved_squared(len(self.edges), *self.numbers(), adjacency)

    def numbers(self) -> tuple[int, int, int, int, int, bool, int]:
        """Return what follows the number of columns in the parameters of a bound."""
        own = (self.side, self.radius, self.constant, self.diagonal, self.above)
        return (*own, self.counted, self.targets)


def moments(records: Sequence[Record], box: Box) -> Vector:
    """Return the upper triangle of the sum of (h, z)(h, z)^T, row by row, weighted; without
    entries of two targets.
    """
    rows = [(box.constant, *box.image(record)) for record in records]
    width = len(box.edges) + 1
    sums = []
    for i, j in product(range(width), repeat=2):
        if i <= j and (box.counted or j > 0) and i < width - box.targets:
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
    targets: int,
    adjacency: Adjacency,
) -> int:
    """Return a bound on the move of a value, squared.

    Write a, b, h, H for diagonal, above, constant, side, b^2 <= 2 a^2; d for the columns, k of
    them features and the other t targets; u_i = z_i^2 <= H^2; e and f for the sums of u_i over
    features and over targets; e + f <= S = min(radius^2, d H^2), e <= E = min(radius^2, k H^2)
    and f <= F = min(radius^2, t H^2). Let v(z) be the contribution of a record without the
    first entry. Sums are over features where nothing else is said.

    |v(z)|^2 = a^2 sum u_i^2 + b^2 sum_{i<j} u_i u_j + b^2 e f + b^2 h^2 (e + f)
             = (a^2 - b^2 / 2) sum u_i^2 + b^2 (e^2 / 2 + e f + h^2 (e + f)),
    since 2 sum_{i<j} u_i u_j = e^2 - sum u_i^2. And sum u_i^2 <= Q = E min(H^2, E), for
    u_i <= H^2 and u_i <= e. With f <= S - e is e^2 / 2 + e f <= S e - e^2 / 2, which grows with
    e up to S, so it is at most S E - E^2 / 2. So |v(z)|^2 <= (a^2 - b^2 / 2) Q +
    b^2 (S E - E^2 / 2 + h^2 S). Add-remove: one such vector, and a h^2 in the first entry. At a
    corner of the box equality.

    Replace, z by y with w_i, e', f' for y, and p, r the parts of <z, y> of features and of
    targets: the first entry stays. As
    2 sum_{i<j} (z_i z_j - y_i y_j)^2 = e^2 + e'^2 - 2 p^2 - sum (u_i - w_i)^2,
    |v(z) - v(y)|^2 = (a^2 - b^2 / 2) sum (u_i - w_i)^2 + b^2 (e^2 / 2 + e f + h^2 (e + f))
                      + b^2 (e'^2 / 2 + e' f' + h^2 (e' + f')) - b^2 (p^2 + 2 p r + 2 h^2 (p + r)).
    (u_i - w_i)^2 <= max(u_i, w_i)^2, which is at most H^4 and at most u_i^2 + w_i^2, so the
    first sum is at most min(k H^4, 2 Q). The next two terms are each as large as under
    add-remove at most.
    Of the last, let g(p, r) = -(p^2 + 2 p r + 2 h^2 (p + r)), |p| <= E and |r| <= F. It is
    linear in r: for p >= -h^2 it is largest at r = -F, where it is -p^2 + 2 (F - h^2) p +
    2 h^2 F, and for p <= -h^2 at r = F, where it is -p^2 - 2 (F + h^2) p - 2 h^2 F. With
    c = |F - h^2| and x = min(E, c) the first is at most x (2 c - x) + 2 h^2 F, and so is the
    second: with C = F + h^2, if E >= C both have the largest value F^2 + h^4; if c <= E < C the
    second is less than that; and if E < c the first less the second is 2 E (c - C) + 4 h^2 F,
    which is 4 h^2 (F - E) for F >= h^2 and 4 F (h^2 - E) else, and E < c is below F or h^2.
    Hence |v(z) - v(y)|^2 <= (a^2 - b^2 / 2) min(k H^4, 2 Q) + b^2 (2 S E - E^2 + 2 h^2 S)
                             + b^2 (x (2 c - x) + 2 h^2 F).
    And of one column it is a^2 (u - w)^2 + b^2 h^2 (z - y)^2 <= a^2 S^2 + 4 b^2 h^2 S. QED
    """
    top = min(radius**2, columns * side**2)
    own = min(radius**2, (columns - targets) * side**2)
    uneven = Fraction(2 * diagonal**2 - above**2, 2)
    squares = own * min(side**2, own)
    rest = above**2 * (top * own - Fraction(own**2, 2) + constant**2 * top)
    if adjacency is Adjacency.ADD_REMOVE:
        first = (diagonal * constant**2) ** 2 if counted else 0
        return ceil(uneven * squares + rest) + first
    if columns == 1:
        return (diagonal * top) ** 2 + 4 * above**2 * constant**2 * top
    others = min(radius**2, targets * side**2)
    c = abs(others - constant**2)
    x = min(own, c)
    opposite = above**2 * (x * (2 * c - x) + 2 * constant**2 * others)
    least = min((columns - targets) * side**4, 2 * squares)
    return ceil(uneven * least + 2 * rest) + opposite


def moved(
    columns: int,
    side: int,
    radius: int,
    constant: int,
    diagonal: int,
    above: int,
    counted: bool,
    targets: int,
    adjacency: Adjacency,
) -> int:
    """Return a bound on the move of a value in L1; names as in ``moved_squared``, and b <= 2 a.

    Let l and m be the sums of |z_i| over features and over targets, l <= L = floor(sqrt(k E))
    and l + m <= T = floor(sqrt(d S)), all integers:
    |v(z)|_1 = a e + b (l^2 - e) / 2 + b l m + b h (l + m)
            <= (a - b / 2) E + b (T L - L^2 / 2) + b h T, as l^2 / 2 + l m <= T l - l^2 / 2 grows
    with l up to T. Add-remove: one such vector, and a h^2 in the first entry.

    Replace, z by y: at most two of them. And let p_i = |z_i + y_i|, q_i = |z_i - y_i|, whose
    sums are P and Q over features, P' and Q' over targets; p_i + q_i = 2 max(|z_i|, |y_i|) <=
    2 H. Then |z_i^2 - y_i^2| = p_i q_i and |z_i z_j - y_i y_j| <= (p_i q_j + q_i p_j) / 2, so
    that all differences together are at most
        (a - b / 2) sum p_i q_i + b P Q / 2 + b (P Q' + P' Q) / 2 + b h (Q + Q')
            <= (a - b / 2) (2 H Q - Q^2 / k) + b (2 k H - Q) Q / 2
               + b ((2 k H - Q) Q' + (2 t H - Q') Q) / 2 + b h (Q + Q'),
    as sum p_i q_i <= sum (2 H - q_i) q_i and sum q_i^2 >= Q^2 / k. That is linear in Q', so it
    is largest at Q' = 0 or at Q' = 2 t H. There it is concave in Q, from 0 to 2 k H: the largest
    value is where its slope is 0, or at an end. QED
    """
    k = columns - targets
    top, own = min(radius**2, columns * side**2), min(radius**2, k * side**2)
    reach, along = isqrt(columns * top), isqrt(k * own)
    uneven = diagonal - Fraction(above, 2)
    products = reach * along - Fraction(along**2, 2)
    one = uneven * own + above * (products + constant * reach)
    if adjacency is Adjacency.ADD_REMOVE:
        return ceil(one) + (diagonal * constant**2 if counted else 0)
    bend, largest = uneven / k + Fraction(above, 2), Fraction(0)
    for others in (0, 2 * targets * side):  # Q'
        slope = 2 * side * uneven + above * (k * side + constant + targets * side - others)
        best = min(max(slope / (2 * bend), Fraction(0)), Fraction(2 * k * side))
        ends = above * others * (k * side + constant)
        largest = max(largest, slope * best - bend * best**2 + ends)
    return ceil(min(2 * one, largest))


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
    for (universe, edges), side, weights in product(_UNIVERSES, (1, 4), _WEIGHTS):
        wide = isqrt(len(edges) * side**2 - 1) + 1
        for radius, constant in product({side, wide, 9 * wide}, (1, side, 2 * side)):
            for counted, targets in product((True, False), range(len(edges))):
                own = (edges, side, radius, constant, *weights, counted, targets)
                if not targets or radius <= wide:
                    yield universe, Box(*own)


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


_NAMES = ("columns", "side", "radius", "constant", "diagonal", "above", "counted", "targets")


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
        own = box.numbers()
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
