"""A mean and the direction of outliers, from rounds of sums in slices.

Nothing here bounds a privacy loss: it is post-processing. It is stated so that the law of later
stages is known, number by number. Numbers are in deviations of the records, from a ball's center.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from dpverify.privacy import Source, states

from .obligations import require

SLICES = Source("OURS", "slices across a direction near that of outliers")
COUNT = 5
"""Number of slices."""
FIRST = (-2.2, -1.2, 1.2, 2.2)
"""Edges of the first round's slices, from the middle of all records."""
EDGE = 1.1
"""Where later rounds cut, from the fitted mean."""
NEVER = 1e6
"""An edge that nobody is beyond."""
_SPREAD = 0.5
_AWAY = (1.5, 2.25, 3.0, 4.0, 6.0)
_SIDES = ((1, 0), (0, 1), (0.5, 0.5), (0.5, 0), (0, 0.5))
_STEPS = 10
_LEAST = 1e-9
_NEAR = 2.0
Point = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Round:
    """What a round released: the unit vector w, the edges of slices across it, a sum and a number
    of records for each slice."""

    along: Point
    edges: Point
    sums: tuple[Point, ...]
    numbers: Point


@dataclass(frozen=True, slots=True)
class Fit:
    """Mean of inliers, direction of outliers, whether there may be some on either side of it."""

    mean: Point
    along: Point
    likely: tuple[bool, bool]


@dataclass(frozen=True, slots=True)
class Choice:
    """Shares of outliers at a v and at -a v from the mean; each is normal, of deviation 1 across v
    and 1/2 along it."""

    upper: float
    lower: float
    away: float


def choices(share: float) -> list[Choice]:
    """List none, and outliers of all or half of a share, in the order in which they win a tie."""
    pairs = product(_SIDES, _AWAY)
    return [Choice(0, 0, 1), *(Choice(share * a, share * b, far) for (a, b), far in pairs)]


def _dot(v: Sequence[float], w: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(v, w, strict=True))


def _below(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


def _density(x: float) -> float:
    return math.exp(-min(x * x, 4e3) / 2) / math.sqrt(2 * math.pi)


def expected(
    round_: Round, mean: Point, v: Point, choice: Choice, total: float
) -> list[tuple[float, float, float]]:
    """Return for each slice the number of records and (x, y): their sum is number mean + x v + y w.

    With c = v . w, an outlier at a v is a v + z, z normal; z . w has the variance s^2 = 1 - c^2 (1
    - 1/4), and z follows z . w by ((w - c v) + c v / 4) / s^2.
    """
    at, c = _dot(mean, round_.along), _dot(v, round_.along)
    s = math.sqrt(1 - c * c * (1 - _SPREAD**2))
    ends = [-math.inf, *(edge - at for edge in round_.edges), math.inf]
    slices = []
    for low, high in pairwise(ends):
        rest = 1 - choice.upper - choice.lower
        number = rest * (_below(high) - _below(low))
        x, y = 0.0, rest * (_density(low) - _density(high))
        for own, a in ((choice.upper, choice.away), (choice.lower, -choice.away)):
            first, last = (low - a * c) / s, (high - a * c) / s
            inside, moved = _below(last) - _below(first), _density(first) - _density(last)
            number += own * inside
            x += own * (a * inside - c * (1 - _SPREAD**2) * moved / s)
            y += own * moved / s
        slices.append((total * number, total * x, total * y))
    return slices


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A choice's mean and direction, and minus the logarithm of its likelihood."""

    mean: Point
    along: Point
    loss: float


def _candidate(
    rounds: Sequence[Round], first: Point, choice: Choice, total: float, noise: float, off: float
) -> _Candidate:
    """Alternate what is expected in slices with the best mean and direction for it, ten times.

    With weights 1 / (noise^2 + number), A the weighted square of numbers and B that of numbers
    times x, the mean is best at (a - B v) / A, and v along b - B / A a + d first: a and b are the
    sums times numbers and x, less y w. The last term is what was known of v before.
    """
    d = len(first)
    numbers = len(rounds) * total
    overall = math.fsum(_dot(one, first) for r in rounds for one in r.sums) / numbers
    v, mean, length = first, tuple(overall * u for u in first), 0.0
    for _ in range(_STEPS):
        whole, mixed, a, b = 0.0, 0.0, [0.0] * d, [0.0] * d
        for r in rounds:
            for (number, x, y), own in zip(
                expected(r, mean, v, choice, total), r.sums, strict=True
            ):
                weight = 1 / (noise**2 + max(number, 0.0))
                whole += weight * number**2
                mixed += weight * number * x
                left = [value - y * w for value, w in zip(own, r.along, strict=True)]
                a = [value + weight * number * z for value, z in zip(a, left, strict=True)]
                b = [value + weight * x * z for value, z in zip(b, left, strict=True)]
        whole = max(whole, _LEAST)
        pull = [q - mixed / whole * p + d * u for p, q, u in zip(a, b, first, strict=True)]
        length = math.sqrt(_dot(pull, pull))
        if length > _LEAST:
            v = tuple(p / length for p in pull)
        mean = tuple(
            min(max((p - mixed * u) / whole, -NEVER), NEVER) for p, u in zip(a, v, strict=True)
        )
    loss = (d - 1) / 2 * math.log(max(length, _LEAST) / d) - d * _dot(v, first)
    for r in rounds:
        for (number, x, y), own, counted in zip(
            expected(r, mean, v, choice, total), r.sums, r.numbers, strict=True
        ):
            wrong = [
                value - number * m - x * u - y * w
                for value, m, u, w in zip(own, mean, v, r.along, strict=True)
            ]
            loss += _dot(wrong, wrong) / (noise**2 + number) / 2
            loss += (counted - number) ** 2 / (off**2 + number) / 2
    return _Candidate(mean, v, loss)


@states(SLICES)
def fit(rounds: Sequence[Round], first: Point, share: float, noise: float, off: float) -> Fit:
    """Return the likeliest candidate. A side may have outliers if it has some in a choice whose
    likelihood is at least exp(-2) of that.

    first: the direction of the first round. share: of outliers at most. noise, off: deviations of
    the noise on a coordinate of a sum, and on a number.
    """
    total = max(math.fsum(math.fsum(r.numbers) for r in rounds) / len(rounds), 1.0)
    listed = choices(share)
    each = [_candidate(rounds, first, choice, total, noise, off) for choice in listed]
    best = min(each, key=lambda one: one.loss)
    near = [c for c, one in zip(listed, each, strict=True) if one.loss <= best.loss + _NEAR]
    likely = any(c.upper > 0 for c in near), any(c.lower > 0 for c in near)
    return Fit(best.mean, best.along, likely)


@states(SLICES)
def next_edges(fitted: Fit, along: Point) -> Point:
    """Return the edges across w: 1.1 from the fitted mean on each side that may have outliers."""
    middle = _dot(fitted.mean, along)
    upper = middle + EDGE if fitted.likely[0] else NEVER
    lower = middle - EDGE if fitted.likely[1] else -NEVER
    return -NEVER, lower, upper, NEVER


# --- obligations --------------------------------------------------------------------------------

_TOTAL, _SHARE = 10_000.0, 0.1


def _exact(along: Point, edges: Point, mean: Point, v: Point, choice: Choice) -> Round:
    """Return a round without noise and sampling."""
    blank = Round(along, edges, ((0.0,) * len(along),) * COUNT, (0.0,) * COUNT)
    slices = expected(blank, mean, v, choice, _TOTAL)
    sums = tuple(
        tuple(n * m + x * u + y * w for m, u, w in zip(mean, v, along, strict=True))
        for n, x, y in slices
    )
    return Round(along, edges, sums, tuple(n for n, _, _ in slices))


@states(SLICES)
def obligation_slices(claimed: Callable[..., Fit] = fit) -> int:
    """Check on exact sums that two rounds find the mean to a fiftieth of a deviation and the
    direction of outliers to a cosine of 0.99, where the first direction has one of 0.75 to 0.9; on
    the right sides; and that nothing moves the mean where there are no outliers.

    Sums in slices are checked against integrals over a grid.
    """
    cases = 0
    for c, a, (upper, lower) in product(
        (0.75, 0.9), (2.25, 3.0), ((0.1, 0.0), (0.0, 0.1), (0.05, 0.05), (0.0, 0.0))
    ):
        first, v = (1.0, 0.0, 0.0), (c, math.sqrt(1 - c * c), 0.0)
        mean, choice = (-0.1, 0.2, -0.3), Choice(upper, lower, a)
        one = _exact(first, tuple(e + 0.05 for e in FIRST), mean, v, choice)
        told = claimed([one], first, _SHARE, 30.0, 30.0)
        edges = next_edges(told, told.along)
        two = claimed([one, _exact(told.along, edges, mean, v, choice)], first, _SHARE, 30.0, 30.0)
        shown = f"{c}, {a}, {upper}, {lower}: {two}"
        require(math.dist(two.mean, mean) < 0.02, shown)
        if upper + lower:
            require(_dot(two.along, v) > 0.99, shown)
            require(two.likely == (upper > 0, lower > 0), shown)
        cases += 1
    return cases + _integrals()


def _integrals() -> int:
    """Compare numbers and sums in slices with sums over a fine grid in the plane of v and w."""
    step, c = 0.05, 0.8
    v, mean, choice = (c, 0.6), (0.3, -0.2), Choice(0.07, 0.02, 2.0)
    edges = (-1.025, -0.325, 0.775, 1.525)
    blank = Round((1.0, 0.0), edges, ((0.0, 0.0),) * COUNT, (0.0,) * COUNT)
    slices = [[0.0, 0.0, 0.0] for _ in range(COUNT)]
    ticks = [step * i for i in range(-160, 161)]
    for x, y in product(ticks, ticks):
        along, across = c * x + 0.6 * y, 0.6 * x - 0.8 * y  # of the distance from the mean
        mass = 0.91 * _density(along)
        for own, a in ((0.07, 2.0), (0.02, -2.0)):
            mass += own * _density((along - a) / _SPREAD) / _SPREAD
        mass *= _density(across) * step**2
        place = mean[0] + x
        row = slices[sum(place > edge for edge in edges)]
        for i, value in enumerate((1.0, place, mean[1] + y)):
            row[i] += mass * value
    given = expected(blank, mean, v, choice, 1.0)
    for (number, by_v, by_w), tally in zip(given, slices, strict=True):
        stated = number, number * mean[0] + by_v * v[0] + by_w, number * mean[1] + by_v * v[1]
        require(math.dist(stated, tally) < 2e-3, f"{stated}, by the grid {tally}")
    return len(slices)
