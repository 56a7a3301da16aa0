"""Good multisets of records (Definition 9.1 of DH20), decided: also over all half-spaces, if
records are few.

A half-space is {x : v . x >= t}, |v| = 1; records are centered about the mean of N(0, I). Pairs
(v, t) with t > 0 suffice: the complement of (v, t) is that of (-v, -t), and is as far from its
normal share.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import accumulate, combinations, product
from math import comb
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, states

from .caches import cache
from .laws import real
from .obligations import require
from .robust_filters import Row, Rows, mean

_GOOD = Source("DH20", "Definition 9.1, good multisets")
_MOST = 10**6  # products up to which all half-spaces are examined

Level = tuple[Any, int, int]
"""Level t > 0 (or 0), how many records have v . x >= t, and how many v . x > t."""


def _tail(t: Any) -> Any:
    return mp.erfc(t / mp.sqrt(2)) / 2


@states(_GOOD)
def farthest(rows: Rows) -> Any:
    """Return the supremum of |share of records in {v . x >= t} - its normal share| t^2 over all v
    and t.

    Proof that finitely many hyperplanes suffice. Let some records be those of a half-space. The
    t of all half-spaces that have just these form an interval, and where t is largest or least,
    the gradient of t is a combination of records on the hyperplane with sum 1: t v is in their
    affine hull, and nearest to 0 there. Such hulls are spanned by d records at most; where 0 is
    in the hull of d records, the hull is the hyperplane. Records on it may be in or out, any of
    them, by tilting. So the t at which k records can be inside go from the least t of these
    hyperplanes with at most k beyond, to the largest with at least k at or beyond. Between, the
    distance times t^2 is largest at an end, or where 2 (normal share - k / n) = t density(t):
    for t > 0 its only other stationary point, and for k < n / 2 alone. QED.
    """
    return _supremum(_levels(rows), len(rows))


def _levels(rows: Rows) -> Iterator[Level]:
    """Yield the level of every hyperplane nearest to 0 through at most d records."""
    if len(rows[0]) == 1:
        yield from _on_a_line([row[0] for row in rows])
        return
    d = len(rows[0])
    for size in range(1, d + 1):
        for chosen in combinations(range(len(rows)), size):
            nearest = _nearest([rows[i] for i in chosen])
            if nearest is None:
                continue
            t = mp.sqrt(_dot(nearest, nearest))
            if t > _near_zero():
                yield _counted(rows, tuple(x / t for x in nearest), t, chosen)
            elif size == d:
                normal = _normal([rows[i] for i in chosen])
                for sign in (1, -1):
                    yield _counted(rows, tuple(sign * x for x in normal), mp.mpf(0), chosen)


def _on_a_line(values: Sequence[Any]) -> Iterator[Level]:
    ordered, n = sorted(values), len(values)
    for x in ordered:
        yield x, n - bisect_left(ordered, x), n - bisect_right(ordered, x)
        yield -x, bisect_right(ordered, x), bisect_left(ordered, x)


def _near_zero() -> Any:
    return mp.mpf(10) ** (10 - mp.mp.dps)


def _dot(x: Row, y: Row) -> Any:
    return mp.fsum(a * b for a, b in zip(x, y, strict=True))


def _nearest(points: Rows) -> Row | None:
    """Return the point nearest to 0 of these points' affine hull; None if fewer of them have the
    same hull.
    """
    first, *others = points
    edges = [tuple(x - y for x, y in zip(other, first, strict=True)) for other in others]
    if not edges:
        return tuple(mp.mpf(x) for x in map(real, first))
    gram = mp.matrix([[_dot(e, f) for f in edges] for e in edges])
    if abs(mp.det(gram)) <= _near_zero() * mp.fprod(_dot(e, e) for e in edges):
        return None
    shares = mp.lu_solve(gram, mp.matrix([-_dot(e, first) for e in edges]))
    moves = [
        mp.fsum(s * x for s, x in zip(shares, column, strict=True))
        for column in zip(*edges, strict=True)
    ]
    return tuple(real(x) + m for x, m in zip(first, moves, strict=True))


def _normal(points: Rows) -> Row:
    """Return the normal vector of the hyperplane through these points and 0."""
    d = len(points[0])
    scatter = mp.matrix(d, d)
    for i, j in product(range(d), repeat=2):
        scatter[i, j] = mp.fsum(real(p[i]) * real(p[j]) for p in points)
    _, vectors = mp.eigsy(scatter)
    return tuple(vectors[i, 0] for i in range(d))


def _counted(rows: Rows, v: Row, t: Any, chosen: Sequence[int]) -> Level:
    on, slack = set(chosen), _near_zero() * (1 + t)
    away = [mp.mpf(0) if i in on else _dot(v, row) - t for i, row in enumerate(rows)]
    return t, sum(x >= -slack for x in away), sum(x > slack for x in away)


def _supremum(levels: Iterator[Level], n: int) -> Any:
    largest, least = [mp.mpf(0)] * (n + 1), [mp.inf] * (n + 1)
    for t, at_least, beyond in levels:
        largest[at_least] = max(largest[at_least], t)
        least[beyond] = min(least[beyond], max(t, 0))
        least[n - at_least] = mp.mpf(0) if t > 0 else least[n - at_least]
    largest = [*accumulate(reversed(largest), max)][::-1]
    largest[0], least[n] = mp.inf, mp.mpf(0)
    least = [*accumulate(least, min)]

    def distance(k: int, t: Any) -> Any:
        return abs(mp.mpf(k) / n - _tail(t)) * t**2

    supremum = mp.mpf(0)
    for k, (low, high) in enumerate(zip(least, largest, strict=True)):
        ends = [t for t in (low, high) if low <= high and t < mp.inf]
        inside = _stationary(mp.mpf(k) / n) if 2 * k < n else mp.mpf(0)
        ends += [inside] if low < inside < high else []
        supremum = max([supremum, *(distance(k, t) for t in ends)])
    return supremum


def _stationary(share: Any) -> Any:
    """Return the t where 2 (normal share - share) = t density(t): between 0 and sqrt(3), as the
    difference falls there.
    """
    return _stationary_at(share, mp.mp.prec)


@cache
def _stationary_at(share: Any, precision: int) -> Any:
    low, high = mp.mpf(0), mp.sqrt(3)
    while high - low > mp.mpf(10) ** (5 - mp.mp.dps):
        t = (low + high) / 2
        low, high = (t, high) if 2 * (_tail(t) - share) > t * mp.npdf(t) else (low, t)
    return low


def is_decided(rows: Rows) -> bool:
    """Return whether ``broken`` examines all half-spaces."""
    n, d = len(rows), len(rows[0])
    return d == 1 or n * sum(comb(n, k) for k in range(1, d + 1)) <= _MOST


@states(_GOOD)
def broken(
    rows: Rows,
    gamma: Fraction,
    tau: Fraction,
    factor: Fraction = Fraction(2),
    mu: Row | None = None,
) -> set[int]:
    """Return which of the conditions 1 to 4 of goodness about N(mu, I) fail; mu is zero unless
    given.

    factor: the constant that condition 1 leaves open. Condition 2 is decided over all
    half-spaces where ``is_decided`` (one column, 125 records of two, 49 of three); else it is
    examined along the axes only: then a failure that is found is one.

    Without records condition 1 holds, as it is about each. The others are about a record drawn
    uniformly from them: its tails, its mean, its second moments. There is no such record, so 2,
    3 and 4 fail: no empty multiset is good. Raises ValueError for rows of another length than
    mu.
    """
    if not rows:
        return {2, 3, 4}
    n, d = len(rows), len(rows[0])
    about = (0,) * d if mu is None else mu
    rows = [tuple(x - m for x, m in zip(row, about, strict=True)) for row in rows]
    center, conditions = mean(rows), set()
    squares = [mp.fsum(x * x for x in row) for row in rows]
    if max(squares) > real(factor) ** 2 * d * mp.log(real(n / tau)):
        conditions.add(1)
    looked = [rows] if is_decided(rows) else [[(row[j],) for row in rows] for j in range(d)]
    allowed = real(gamma) / mp.log(d * mp.log(real(d / (gamma * tau))))
    if any(farthest(some) > allowed for some in looked):
        conditions.add(2)
    if mp.fsum(c * c for c in center) > real(gamma) ** 2:
        conditions.add(3)
    moments = mp.matrix(d, d)
    for i, j in product(range(d), repeat=2):
        moments[i, j] = mp.fsum(row[i] * row[j] for row in rows) / n - (i == j)
    values = [moments[0, 0]] if d == 1 else list(mp.eigsy(moments, eigvals_only=True))
    if max(abs(value) for value in values) > real(gamma):
        conditions.add(4)
    return conditions


# --- obligations --------------------------------------------------------------------------------

_SETS: tuple[Rows, ...] = (
    [(1,), (-1,)],
    [(0,), (2,), (-1,), (Fraction(1, 2),), (3,)],
    [(1, 0), (-1, 0), (0, 1), (0, -1)],
    [(1, 1), (-1, -1), (2, 2), (0, 0)],
    [(1, 0), (2, 1), (-1, 2), (0, -2), (-2, -1), (Fraction(1, 2), 1)],
    [(2, 0), (3, 1), (2, -1), (4, 0)],
)
_TURNS, _STEPS = 120, 120


def _directions(d: int) -> Iterator[Row]:
    if d == 1:
        yield from ((mp.mpf(1),), (mp.mpf(-1),))
        return
    for k in range(_TURNS):
        angle = 2 * mp.pi * k / _TURNS
        yield mp.cos(angle), mp.sin(angle)


@states(_GOOD)
def obligation_farthest(claimed: Callable[[Rows], Any] = farthest) -> int:
    """Check that no half-space of a fine grid is farther than ``claimed``, and some is as far up
    to a fiftieth.
    """
    cases = 0
    steps = [(t, _tail(t)) for t in (mp.mpf(4 * k) / _STEPS for k in range(1, _STEPS + 1))]
    for rows in _SETS:
        most, nearest, n = claimed(rows), mp.mpf(0), len(rows)
        for v in _directions(len(rows[0])):
            along = sorted(_dot(v, row) for row in rows)
            own = [x + s for x in along if x > 0 for s in (0, mp.mpf(10) ** -9)]
            for t, tail in [*steps, *((t, _tail(t)) for t in own)]:
                here = abs(mp.mpf(n - bisect_left(along, t)) / n - tail) * t**2
                if here > most * (1 + mp.mpf(10) ** -6):
                    require(False, f"{rows}: {here} at {t} along {v}, claimed {most}")
                nearest = max(nearest, here)
                cases += 1
        require(nearest >= most * 49 / 50, f"{rows}: {nearest} at most, claimed {most}")
    return cases
