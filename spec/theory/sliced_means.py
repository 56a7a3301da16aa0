"""A mean and the direction of outliers, from rounds of sums in two slices.

Nothing here bounds a privacy loss: it is post-processing. It is stated so that the law of later
stages is known, number by number. Numbers are in deviations of the records, from a ball's center.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from dpverify.privacy import Source, states

from .obligations import require

SLICES = Source("OURS", "slices across a direction near that of outliers")
EDGE = Fraction(11, 10)
"""Distance, in deviations, of a round's edge from the mean of inliers."""
TURNED = Fraction(7, 4)
"""Distance along the first direction at which outliers are expected; they move the mean of all by
their share of it."""
SIDES = Fraction(3, 2)
"""Distance of the signed count's edges from the mean of all, on either side."""
DRAWN_TO = Fraction(9, 16)
"""Share of the radius to which records in slices are drawn in at most."""
_SURPRISE = Fraction(5, 2)
_AWAY, _SPREAD = 2.25, 0.5
_STEPS = 4
_LEAST, _LEAST_SQUARE, _FARTHEST = 1e-9, 1e-18, 1e6
Point = tuple[float, ...]


@states(SLICES)
def side(count: int, noise: Fraction, records: int) -> int:
    """Return the sign of a signed count of so many records, or 0 where it is at most 5/2 standard
    deviations of the noise and of their chance."""
    kept = min(max(count, -(2**30)), 2**30)
    square = 4 * _SURPRISE**2
    likely = min(math.ceil(square * noise**2), 2**61) + square * records
    return (kept > 0) - (kept < 0) if 4 * kept**2 > likely else 0


@dataclass(frozen=True, slots=True)
class Round:
    """Release of a round: the unit vector w, the edge across it, a sum and a number of records for
    each slice."""

    along: Point
    edge: float
    sums: tuple[Point, Point]
    numbers: Point


@dataclass(frozen=True, slots=True)
class Fit:
    """Mean of inliers, direction of outliers."""

    mean: Point
    along: Point


def _dot(v: Sequence[float], w: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(v, w, strict=True))


def _below(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


def _density(x: float) -> float:
    return math.exp(-min(x * x, 4e3) / 2) / math.sqrt(2 * math.pi)


def expected(
    round_: Round, mean: Point, v: Point, share: float, total: float
) -> list[tuple[float, float, float]]:
    """Return for each slice the number of records and (x, y): their sum is number mean + x v + y w.

    Outliers are normal about a v from the mean, a = 9/4, of deviation 1 across v and 1/2 along it.
    With c = v . w, an outlier is a v + z; z . w has the variance s^2 = 1 - c^2 (1 - 1/4), and z
    follows z . w by ((w - c v) + c v / 4) / s^2.
    """
    c = _dot(v, round_.along)
    s = math.sqrt(1 - c * c * (1 - _SPREAD**2))
    edge = round_.edge - _dot(mean, round_.along)
    last = (edge - _AWAY * c) / s
    slices = []
    for sign in (1, -1):
        inside, moved = _below(sign * last), -sign * _density(last)
        number = (1 - share) * _below(sign * edge) + share * inside
        x = share * (_AWAY * inside - c * (1 - _SPREAD**2) * moved / s)
        y = -sign * (1 - share) * _density(edge) + share * moved / s
        slices.append((total * number, total * x, total * y))
    return slices


@states(SLICES)
def fit(rounds: Sequence[Round], first: Point, share: float, noise: float) -> Fit:
    """Alternate what is expected in slices with the best mean and direction for it, four times.

    With weights 1 / (noise^2 + number), A the weighted square of numbers and B that of numbers
    times x, the mean is best at (a - B v) / A, and v along b - B / A a + d first: a and b are the
    sums times numbers and x, less y w. The last term is what was known of v before. first: the
    direction of the first round. noise: the deviation of that on a coordinate of a sum.
    """
    total = max(math.fsum(math.fsum(r.numbers) for r in rounds) / len(rounds), 1.0)
    d, numbers = len(first), len(rounds) * total
    overall = math.fsum(_dot(one, first) for r in rounds for one in r.sums) / numbers
    v, mean = first, tuple(overall * u for u in first)
    for _ in range(_STEPS):
        whole, mixed, a, b = 0.0, 0.0, [0.0] * d, [0.0] * d
        for r in rounds:
            slices = expected(r, mean, v, share, total)
            for (number, x, y), own in zip(slices, r.sums, strict=True):
                weight = 1 / max(noise**2 + number, _LEAST_SQUARE)
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
        best = ((p - mixed * u) / whole for p, u in zip(a, v, strict=True))
        mean = tuple(min(max(m, -_FARTHEST), _FARTHEST) for m in best)
    return Fit(mean, v)


@states(SLICES)
def next_edge(fitted: Fit, along: Point) -> float:
    """Return the edge across w: 11/10 from the fitted mean."""
    return _dot(fitted.mean, along) + float(EDGE)


# --- obligations --------------------------------------------------------------------------------

_TOTAL, _SHARE = 10_000.0, 0.1


def _exact(along: Point, edge: float, mean: Point, v: Point, share: float) -> Round:
    """Return a round without noise and sampling."""
    blank = Round(along, edge, ((), ()), ())
    slices = expected(blank, mean, v, share, _TOTAL)
    one, other = (
        tuple(n * m + x * u + y * w for m, u, w in zip(mean, v, along, strict=True))
        for n, x, y in slices
    )
    return Round(along, edge, (one, other), tuple(n for n, _, _ in slices))


@states(SLICES)
def obligation_slices(claimed: Callable[..., Fit] = fit) -> int:
    """Check on exact sums that two rounds find the mean to a thousandth of a deviation and the
    direction of outliers to a cosine of 0.9999, where the first direction has one of 0.75 to 0.9;
    and that they keep both where there are no outliers and none are expected.

    Sums in slices are checked against integrals over a grid.
    """
    cases = 0
    for c, share, turn in product((0.75, 0.9), (0.0, 0.05, _SHARE), (0, 1)):
        first, v = (1.0, 0.0, 0.0), (c, math.sqrt(1 - c * c) * (1 - 2 * turn), 0.0)
        mean = (-0.1, 0.2, -0.3)
        one = _exact(first, float(EDGE - TURNED * Fraction(share)), mean, v, share)
        told = claimed([one], first, share, 30.0)
        edge = next_edge(told, told.along)
        two = claimed([one, _exact(told.along, edge, mean, v, share)], first, share, 30.0)
        shown = f"{c}, {share}: {two}"
        off = math.dist(two.mean, mean)
        require(off < 1e-3, f"{shown}, {off} off")
        require(_dot(two.along, v if share else first) > 0.9999, shown)
        cases += 1
    return cases + _integrals()


def _integrals() -> int:
    """Compare numbers and sums in slices with sums over a fine grid in the plane of v and w."""
    step, c, edge = 0.05, 0.8, 0.775
    v, mean = (c, 0.6), (0.3, -0.2)
    slices = [[0.0, 0.0, 0.0] for _ in range(2)]
    ticks = [step * i for i in range(-160, 161)]
    for x, y in product(ticks, ticks):
        along, across = c * x + 0.6 * y, 0.6 * x - 0.8 * y  # of the distance from the mean
        own = (1 - _SHARE) * _density(along)
        own += _SHARE * _density((along - _AWAY) / _SPREAD) / _SPREAD
        mass, place = own * _density(across) * step**2, mean[0] + x
        row = slices[place > edge]
        for i, value in enumerate((1.0, place, mean[1] + y)):
            row[i] += mass * value
    given = expected(Round((1.0, 0.0), edge, ((), ()), ()), mean, v, _SHARE, 1.0)
    for (number, by_v, by_w), tally in zip(given, slices, strict=True):
        stated = number, number * mean[0] + by_v * v[0] + by_w, number * mean[1] + by_v * v[1]
        require(math.dist(stated, tally) < 2e-3, f"{stated}, by the grid {tally}")
    return len(slices)


@states(SLICES)
def obligation_side(claimed: Callable[[int, Fraction, int], int] = side) -> int:
    """Check that counts of 11/4 standard deviations of noise and chance tell a side, and counts of
    9/4 tell none, for up to 2^40 records.
    """
    cases = 0
    for records, noise in product((0, 100, 10**6, 2**40), (Fraction(1), Fraction(300))):
        likely = math.sqrt(noise**2 + records)
        for sign, (times, told) in product((-1, 1), ((2.75, True), (2.25, False))):
            count = sign * math.floor(times * likely + told)
            seen = claimed(count, noise, records)
            require(seen == sign * told, f"{count} of {records}, {noise}: {seen}")
            cases += 1
    return cases
