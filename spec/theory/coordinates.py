"""Coordinates in units of their own, on exact rationals: sides of thresholds, norms, scaled sums.

Also the noisy binary search that sides of thresholds serve: its decisions, and the probability
that it misses. Sensitivities have a line of proof each and an exhaustive check on a small
universe.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Norm, Source, of_query, shows, states

from .gaussian_laws import UNIT
from .obligations import neighbors, require
from .public_sets import Round, Slab, holds
from .queries import largest_power, nearest, of_each
from .vectors import Record, Vector, clip_to_ball, squared_distance, squared_norm

_OURS = Source("OURS", "coordinates in units of their own")
_SEARCH = Source("OURS", "noisy binary search that repeats what is not decisive")
_ALL = (Adjacency.REPLACE, Adjacency.ADD_REMOVE)
_BOX = 1 << 40


def rows_of(records: Sequence[Fraction | Record]) -> list[Record]:
    """Return the records as tuples, those of one column too."""
    return of_each(lambda record: record if isinstance(record, tuple) else (record,), records)


def side_counts(
    records: Sequence[Record], highs: Sequence[Fraction], lows: Sequence[Fraction] | None = None
) -> Vector:
    """Return, for each coordinate, the number of records above high or below low, minus those in
    between.
    """

    def counted(x: Fraction, j: int) -> int:
        b = _side(x, highs[j])
        if lows is None:
            return b
        a = _side(x, lows[j])
        return (a < 0 or b > 0) - (a > 0 > b)

    columns = range(len(highs))
    each = of_each(lambda r: [counted(r[j], j) for j in columns], records)
    return tuple(sum(one[j] for one in each) for j in columns)


def _side(x: Fraction, edge: Fraction) -> int:
    """Return the sign of x - edge; faster than two comparisons."""
    off = x.numerator * edge.denominator - edge.numerator * x.denominator
    return (off > 0) - (off < 0)


def side_counts_sensitivity(d: int, adjacency: Adjacency) -> int:
    """Return the squared sensitivity: a record counts at most 1 in size in every coordinate, so d,
    or (2)^2 d for two.
    """
    return 4 * d if adjacency is Adjacency.REPLACE else d


@dataclass(frozen=True, slots=True)
class Stretch:
    """Public map: factor_j (round(x_j / cell_j) - center_j), where the rounded value is clamped to
    ``box``.
    """

    center: Vector
    cells: tuple[Fraction, ...]
    factors: Vector
    box: int = _BOX

    def image(self, record: Record) -> Vector:
        """Return the image of one record."""
        rounded = (nearest(x, cell) for x, cell in zip(record, self.cells, strict=True))
        clamped = (min(max(z, -self.box), self.box) for z in rounded)
        return tuple(
            f * (z - c) for f, z, c in zip(self.factors, clamped, self.center, strict=True)
        )


def norm_counts(records: Sequence[Record], stretch: Stretch, edges: Sequence[int]) -> Vector:
    """Return how many images have a norm in (edge before, edge], and at the end how many are
    beyond all.
    """
    counts = [0] * (len(edges) + 1)

    def bin_of(record: Record) -> int:
        square = squared_norm(stretch.image(record))
        return sum(square > edge * edge for edge in edges)

    for place in of_each(bin_of, records):
        counts[place] += 1
    return tuple(counts)


def norm_counts_sensitivity(adjacency: Adjacency) -> int:
    """Return the squared sensitivity: a record is a unit vector; two of them are at most 2 apart,
    squared.
    """
    return 2 if adjacency is Adjacency.REPLACE else 1


def scaled_sum(records: Sequence[Record], stretch: Stretch, radius: int) -> Vector:
    """Return the sum of the images clipped to the ball."""
    clipped = of_each(lambda record: clip_to_ball(stretch.image(record), radius), records)
    return tuple(sum(v[j] for v in clipped) for j in range(len(stretch.center)))


def scaled_sum_sensitivity(radius: int, adjacency: Adjacency) -> int:
    """Return the squared sensitivity. add-remove: |z| <= R. replace: |z - z'| <= 2R."""
    return 4 * radius**2 if adjacency is Adjacency.REPLACE else radius**2


def scaled_masked_sum(
    records: Sequence[Record],
    stretch: Stretch,
    radius: int,
    weight: int,
    kept: Slab | Round | None = None,
) -> Vector:
    """Return the sum of the images in the ball, and in the public set, then ``weight`` times their
    number.
    """

    def image(record: Record) -> Vector | None:
        y = stretch.image(record)
        return y if squared_norm(y) <= radius**2 and holds(kept, y) else None

    inside = [y for y in of_each(image, records) if y is not None]
    width = len(stretch.center)
    return (*(sum(y[j] for y in inside) for j in range(width)), weight * len(inside))


def scaled_masked_sum_sensitivity(radius: int, weight: int, adjacency: Adjacency) -> int:
    """Return the squared sensitivity, where a record inside contributes (y, w) with |y| <= R, one
    outside nothing.

    add-remove: R^2 + w^2. replace: the same for one inside and one outside, and (2R)^2 for two
    inside. A public set removes some of the records inside, and whether it removes a record
    depends on that record alone; so this bounds the sum of the others.
    """
    one = radius**2 + weight**2
    return max(4 * radius**2, one) if adjacency is Adjacency.REPLACE else one


def stretch_about(
    medians: Sequence[Fraction], weights: Sequence[Fraction], energy: Fraction, typical: int
) -> Stretch:
    """Return the map to x_j - median_j in units of g sqrt(weight_j), where ``energy`` has the norm
    ``typical``.

    Energy is the expected sum of (x_j - median_j)^2 / weight_j, so g = sqrt(energy) / typical.
    The cell is the largest power of two of at most 64 units, and the factor is how many it has,
    rounded down: of 33 or more, less than one is lost, so units are in proportion to within 3%.
    """
    cells, factors = [], []
    for weight in weights:
        unit_squared = energy * weight / typical**2
        cell = largest_power(lambda p, u=unit_squared: p * p <= 4096 * u)  # type: ignore[misc]
        cells.append(cell)
        factors.append(math.isqrt(math.floor(cell**2 / unit_squared)))
    center = tuple(round(m / cell) for m, cell in zip(medians, cells, strict=True))
    return Stretch(center, tuple(cells), tuple(factors))


# --- the search ---------------------------------------------------------------------------------


@states(_SEARCH)
def middle(values: Sequence[int]) -> Fraction:
    """Return the next threshold in (-1, 1) of a coordinate for which these values were released,
    in order.

    Values at one threshold are added up. The search leaves it, and halves the interval, when
    they come to two standard deviations of one value in size, or at the third value or later to
    anything but zero.
    """
    low, high, total, tries = Fraction(-1), Fraction(1), 0, 0
    for value in values:
        total, tries = total + value, tries + 1
        if abs(total) >= 2 * UNIT or (tries >= 3 and total != 0):
            t = (low + high) / 2
            low, high = (t, high) if total > 0 else (low, t)
            total = tries = 0
    return (low + high) / 2


@states(_SEARCH)
def missed(r: Any) -> Any:
    """Return a bound on the probability that a threshold is left to the wrong side, where all
    records lie on the other; r is their number in standard deviations of a value.

    After k values the total is N(k r, k), the right side being above. The wrong side is taken
    at the first if it is at most -2, at the second if it is at most -2, at the third if it is
    at most 0. (A total of exactly 0, which continuous noise has with probability 0, is left
    out.)
    """
    first, second = mp.ncdf(-r - 2), mp.ncdf(-(2 * r + 2) / mp.sqrt(2))
    return first + second + mp.ncdf(-mp.sqrt(3) * r)


def obligation_missed(bound: Callable[[Any], Any] = missed) -> int:
    """Check that the probability, by Simpson's rule over the first two totals, is at most the
    bound, and more than a third of it.
    """
    cases = 0
    for r in (0.5, 1.0, 2.0, 3.0):
        wrong = _below(-2 - r) + _integral(
            lambda s, r=r: (
                _density(s - r)  # type: ignore[misc]
                * (_below(-2 - s - r) + _integral(lambda t: _density(t - s - r) * _below(-(t + r))))
            )
        )
        require(wrong <= bound(r) <= 3 * wrong, f"r = {r}: {wrong}, not {bound(r)}")
        cases += 1
    return cases


def _below(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


def _density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _integral(f: Callable[[float], float], steps: int = 64) -> float:
    """Return the integral over (-2, 2) by Simpson's rule: an error below 1e-7 for these
    densities.
    """
    h = 4 / steps
    weights = (1 if k in (0, steps) else 2 + 2 * (k % 2) for k in range(steps + 1))
    return h / 3 * sum(w * f(-2 + k * h) for k, w in enumerate(weights))


@states(_SEARCH)
def obligation_search(rule: Callable[[Sequence[int]], Fraction] = middle) -> int:
    """Check that without noise the search converges to a median wherever it is: the distance after
    k values, each at least two standard deviations away from 0, is at most 2^-k; and values of
    0 decide nothing.
    """
    cases = 0
    for sixteenths in range(-15, 16, 2):
        median = Fraction(sixteenths, 16)
        values: list[int] = []
        for k in range(12):
            t = rule(values)
            require(abs(t - median) <= Fraction(1, 2**k), f"{median}: {t} after {k} values")
            values.append((1 if median > t else -1 if median < t else 0) * 3 * int(UNIT))
            cases += 1
    require(rule([0] * 9) == 0, "values of 0 decide")
    one = int(UNIT)
    for values, expected in (
        ([one], 0),
        ([one, one], Fraction(1, 2)),
        ([-one, one, 1], Fraction(1, 2)),
        ([-one, one, -1], Fraction(-1, 2)),
        ([2 * one - 1], 0),
        ([2 * one], Fraction(1, 2)),
        ([-2 * one, one, one], Fraction(-1, 4)),
    ):
        require(rule(values) == expected, f"{values}: {rule(values)}, not {expected}")
        cases += 1
    return cases


# --- sensitivities on small universes -----------------------------------------------------------

_LINE = tuple((Fraction(i, 2),) for i in range(-4, 5))
_PLANE = tuple((Fraction(i), Fraction(j)) for i, j in product((-3, -1, 0, 2), (-2, 0, 1)))
_HALF = Fraction(1, 2)


def _largest_move(
    value: Callable[[Sequence[Record]], Vector], universe: Sequence[Record], adjacency: Adjacency
) -> tuple[int, int]:
    """Return the largest squared move over all neighbors of at most 2 records, and the number of
    neighbors.
    """
    known: dict[Sequence[Record], Vector] = {}
    moves = []
    for pair in neighbors(universe, 2, adjacency):
        for records in pair:
            if records not in known:
                known[records] = value(records)
        moves.append(squared_distance(known[pair[0]], known[pair[1]]))
    return max(moves), len(moves)


@states(_OURS)
@shows("SideCounts", Norm.SQUARED_L2, value=of_query(side_counts_sensitivity, "width"))
def obligation_side_counts(claimed: Callable[..., int] = side_counts_sensitivity) -> int:
    """Check that the largest move over all neighbors of small universes is exactly ``claimed``."""
    cases = 0
    for universe, highs, lows in (
        (_LINE, (_HALF,), None),
        (_LINE, (_HALF,), (-_HALF,)),
        (_PLANE, (Fraction(0), Fraction(-1)), None),
        (_PLANE, (Fraction(1), _HALF), (Fraction(-2), Fraction(-1))),
    ):
        for adjacency in _ALL:
            value = partial(side_counts, highs=highs, lows=lows)
            most, pairs = _largest_move(value, universe, adjacency)
            expected = claimed(len(highs), adjacency)
            require(most == expected, f"{highs}, {lows}, {adjacency}: {most}, not {expected}")
            cases += pairs
    return cases


_STRETCHES = (
    (_LINE, Stretch((0,), (_HALF,), (1,))),
    (_LINE, Stretch((1,), (Fraction(1),), (2,), box=2)),
    (_PLANE, Stretch((0, 0), (Fraction(1), Fraction(1)), (2, 1))),
    (_PLANE, Stretch((0, 0), (Fraction(1), Fraction(2)), (1, 2), box=3)),
)


_SQUARE = tuple((Fraction(i), Fraction(j)) for i, j in product((-3, -2, 0, 2), (-2, 0, 2)))
_MASKED = (
    (_LINE, Stretch((0,), (_HALF,), (1,)), 1),
    (_LINE, Stretch((0,), (_HALF,), (2,)), 4),
    (_SQUARE, Stretch((0, 0), (Fraction(1), Fraction(2)), (1, 2)), 2),
)
"""Images fill these balls to either side."""


def _sets(d: int, radius: int) -> tuple[Slab | Round, ...]:
    """Return sets through the center, on the ball's surface, beyond it, and one that contains
    nothing of the ball.
    """
    one = (1,) * d
    return (
        Slab(one, None, 0),
        Slab(one, -radius, radius),
        Slab(one, radius, None),
        Slab(one, 9 * radius, None),
        Round((radius, *(0,) * (d - 1)), radius),
        Round((0,) * d, radius - 1, outside=True),
        Round((0,) * d, 9 * radius),
    )


@states(_OURS)
@shows("NormCounts", Norm.SQUARED_L2, value=of_query(norm_counts_sensitivity))
def obligation_norm_counts(claimed: Callable[..., int] = norm_counts_sensitivity) -> int:
    """Check that the largest move over all neighbors of small universes is exactly ``claimed``."""
    cases = 0
    for (universe, stretch), adjacency in product(_STRETCHES, _ALL):
        for edges in ((1,), (1, 3), (1, 2, 5)):
            value = partial(norm_counts, stretch=stretch, edges=edges)
            most, pairs = _largest_move(value, universe, adjacency)
            require(most == claimed(adjacency), f"{stretch}, {edges}, {adjacency}: {most}")
            cases += pairs
    return cases


@states(_OURS)
@shows("ScaledSum", Norm.SQUARED_L2, value=of_query(scaled_sum_sensitivity, "radius"))
def obligation_scaled_sum(claimed: Callable[..., int] = scaled_sum_sensitivity) -> int:
    """Check that the largest move over all neighbors of small universes is exactly ``claimed``."""
    cases = 0
    for (universe, stretch), adjacency, radius in product(_STRETCHES, _ALL, (1, 2)):
        most, pairs = _largest_move(
            partial(scaled_sum, stretch=stretch, radius=radius), universe, adjacency
        )
        expected = claimed(radius, adjacency)
        require(most == expected, f"{stretch}, {radius}, {adjacency}: {most}, not {expected}")
        cases += pairs
    return cases


@states(_OURS)
@shows(
    "ScaledMaskedSum",
    Norm.SQUARED_L2,
    value=of_query(scaled_masked_sum_sensitivity, "radius", "weight"),
)
def obligation_scaled_masked_sum(
    claimed: Callable[..., int] = scaled_masked_sum_sensitivity,
    summed: Callable[..., Vector] = scaled_masked_sum,
) -> int:
    """Check that the largest move over all neighbors of small universes is exactly ``claimed``,
    and of those in public sets no more.
    """
    cases = 0
    for (universe, stretch, radius), adjacency, weight in product(_MASKED, _ALL, (1, 2, 5)):
        expected = claimed(radius, weight, adjacency)
        sets = (None,) if weight == 2 else (None, *_sets(len(stretch.center), radius))
        for kept in sets:
            value = partial(summed, stretch=stretch, radius=radius, weight=weight, kept=kept)
            most, pairs = _largest_move(value, universe, adjacency)
            case = f"{stretch}, {kept}, {radius}, {weight}, {adjacency}: {most}, not {expected}"
            require(most == expected if kept is None else most <= expected, case)
            cases += pairs
    return cases


def obligation_stretch(about: Callable[..., Stretch] = stretch_about) -> int:
    """Check that factors are 32 to 64, units in proportion to sqrt(weight) to within 3%, and the
    root mean square norm ``typical`` to within 4%: squared, the sum of weight energies over
    squared units.
    """
    cases = 0
    for texts in (("1", "1"), ("1", "1/1000"), ("1/3", "1e9", "7"), ("1/64",)):
        weights = tuple(map(Fraction, texts))
        energy = sum(weights, Fraction(0))
        stretch = about([Fraction(1, 3)] * len(weights), weights, energy, 1 << 24)
        units = [cell / factor for cell, factor in zip(stretch.cells, stretch.factors, strict=True)]
        square = sum(w**2 / u**2 for w, u in zip(weights, units, strict=True))
        size = math.sqrt(square) / 2**24
        ratios = [u**2 / w for u, w in zip(units, weights, strict=True)]
        require(all(32 <= f <= 64 for f in stretch.factors), f"{weights}: {stretch.factors}")
        require(max(ratios) <= min(ratios) * Fraction(107, 100), f"{weights}: {ratios}")
        require(0.96 <= size <= 1, f"{weights}: a root mean square norm of {size}")
        shift = [c * cell for c, cell in zip(stretch.center, stretch.cells, strict=True)]
        near = [
            abs(s - Fraction(1, 3)) <= cell / 2
            for s, cell in zip(shift, stretch.cells, strict=True)
        ]
        require(all(near), f"{weights}: the center is at {shift}")
        cases += len(weights)
    return cases
