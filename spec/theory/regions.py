"""Queries about a released region: second moments, histograms, sums between slabs.

The region (center, radius, directions, slabs) is computed from the transcript, so it is the
same for both neighbors, and whether a record y is inside is decided by y and the region alone.
So a value is a sum of contributions f(y), 0 outside; it moves by |f(y)| (add-remove) or |f(y) -
f(z)| (replace).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

from dpverify.privacy import Adjacency, Norm, Source, of_query, shows, states

from . import transcript_sums
from .caches import cache
from .gaussian_laws import UNIT
from .obligations import neighbors, require
from .transcript_sums import root_up, stated_for_unit, unit_sensitivity
from .vectors import Vector, clip_to_ball, squared_distance, squared_norm

_REGIONS = Source("OURS", "queries about a released region")
_ALL = (Adjacency.REPLACE, Adjacency.ADD_REMOVE)
Images = Mapping[Vector, int]

OFF_DIAGONAL = Fraction(239, 169)
"""Weight of an entry of y y^T off the diagonal, which occurs twice: at most sqrt(2)."""
LENGTH = 2**12
"""Length of a direction, up to rounding."""
PARTS = 256
"""Number of parts of a bin."""


@dataclass(frozen=True, slots=True)
class Region:
    """Ball in cells, with directions and a slab |v . y - middle part| <= half part for each, y
    from the center; a box |y_j| <= b_j, or () for none; the share of the radius to which records
    are drawn in for moments and sums.
    """

    center: Vector
    radius: int
    directions: tuple[Vector, ...] = ()
    slabs: tuple[tuple[int, int], ...] = ()
    part: int = 1
    box: Vector = ()
    drawn: Fraction = Fraction(1)

    @property
    def reach(self) -> int:
        """Length that no record counts beyond: the share ``drawn`` of the radius, rounded down, at
        least 1.
        """
        return max(1, self.drawn.numerator * self.radius // self.drawn.denominator)


def inside(images: Images, region: Region) -> dict[Vector, int]:
    """Return the records in the ball, all slabs and the box, relative to the center, with how
    often each occurs.
    """
    counts: Counter[Vector] = Counter()
    for image, often in images.items():
        y = tuple(a - c for a, c in zip(image, region.center, strict=True))
        slabs = zip(region.directions, region.slabs, strict=False)
        if (
            squared_norm(y) <= region.radius**2
            and all(abs(dot(v, y) - m * region.part) <= t * region.part for v, (m, t) in slabs)
            and all(abs(a) <= b for a, b in zip(y, region.box, strict=False))
        ):
            counts[y] += often
    return counts


def counting(images: Images, region: Region) -> list[tuple[Vector, int]]:
    """List what records inside count by: each drawn in to the reach, and how often it occurs.

    ``clip_to_ball`` leaves no vector longer than the reach, so what is said of vectors in a ball of
    that radius holds of these.
    """
    return [(clip_to_ball(y, region.reach), k) for y, k in inside(images, region).items()]


def dot(v: Vector, y: Vector) -> int:
    """Return the inner product."""
    return sum(a * b for a, b in zip(v, y, strict=True))


@states(_REGIONS)
def moments(images: Images, region: Region) -> tuple[Fraction, ...]:
    """Return the sum of y_i y_i for each i, then of OFF_DIAGONAL y_i y_j for i < j, row by row, of
    records drawn in.
    """
    rows, d = counting(images, region), len(region.center)
    pairs = [(i, i) for i in range(d)] + [(i, j) for i in range(d) for j in range(i + 1, d)]
    return tuple(
        (OFF_DIAGONAL if i != j else 1) * Fraction(sum(k * y[i] * y[j] for y, k in rows))
        for i, j in pairs
    )


def constant_of(reach: int) -> int:
    """Return what every record counts by beside its places along directions: a quarter of the
    reach, at least 1."""
    return max(1, reach // 4)


@states(_REGIONS)
def inner_moments(images: Images, region: Region, reach: int) -> tuple[Fraction, ...]:
    """Return the ``moments`` of what the records of the ball count by: v . y over LENGTH, rounded
    down, for each direction v, then a constant, drawn in to this length.
    """
    places: Counter[Vector] = Counter()
    for y, often in inside(images, Region(region.center, region.radius)).items():
        inner = (*(dot(v, y) // LENGTH for v in region.directions), constant_of(reach))
        places[clip_to_ball(inner, reach)] += often
    return moments(places, Region((0,) * (len(region.directions) + 1), reach))


@states(_REGIONS)
def moments_reach(radius: int, adjacency: Adjacency) -> int:
    """Return the squared sensitivity of the moments: R^4, or 2 R^4 under replace.

    With the weight sqrt(2) off the diagonal the length of y y^T is its Frobenius norm, |y|^2; a
    smaller weight makes no length larger. |y y^T - z z^T|^2 = |y|^4 + |z|^4 -
    2 (y . z)^2 <= 2 R^4.
    """
    return (2 if adjacency is Adjacency.REPLACE else 1) * radius**4


def moments_noise(radius: int, adjacency: Adjacency, spread: Fraction) -> Fraction:
    """Return the standard deviation of the noise in squared cells: spread D, D rounded up to
    2^-20.
    """
    return spread * root_up(moments_reach(radius, adjacency))


def part_of(radius: int, bins: int) -> int:
    """Return the size of a part of a bin, in cells times LENGTH, rounded up: the bins cover
    [-R, R].
    """
    return max(1, -(-2 * radius * LENGTH // (bins * PARTS)))


@states(_REGIONS)
def histogram(images: Images, region: Region, bins: int) -> Vector:
    """Return, for each direction, how many records of the ball have v . y in each of so many bins
    about 0; the first and the last bin are unbounded.
    """
    width, tallies = PARTS * part_of(region.radius, bins), []
    ball = Region(region.center, region.radius)
    rows = inside(images, ball)
    for v in region.directions:
        counts = [0] * bins
        for y, often in rows.items():
            counts[min(max(dot(v, y) // width + bins // 2, 0), bins - 1)] += often
        tallies += counts
    return tuple(tallies)


@states(_REGIONS)
def histogram_moves(count: int, adjacency: Adjacency) -> int:
    """Return the squared sensitivity: a record is in one bin a direction; a replaced one leaves it
    and enters another.
    """
    return count * (2 if adjacency is Adjacency.REPLACE else 1)


@states(_REGIONS)
def slab_sum(images: Images, region: Region) -> Vector:
    """Return the sum of y over the region, drawn in, then ``transcript_sums.weight`` times the
    number.

    The sum moves as ``transcript_sums.reach`` of the region's reach says, for its proof asks no
    more of who is inside.
    """
    rows = counting(images, region)
    sums = (sum(k * y[i] for y, k in rows) for i in range(len(region.center)))
    return (*sums, transcript_sums.weight(region.reach) * sum(k for _, k in rows))


@states(_REGIONS)
def slice_sum(images: Images, region: Region, across: Vector, edges: Vector) -> Vector:
    """Return the ``slab_sum`` of each slice of the region: a record is in the slice of the number
    of edges below v . y, y from the center, v = ``across``.

    It moves as ``transcript_sums.reach`` of the region's reach R says, w the weight. For a record
    is in one slice: add-remove changes one of them, as a ``slab_sum``. So does replace within a
    slice; from slice to slice the move is at most sqrt(2 (R^2 + w^2)) <= 2 R, for w <= R.
    """
    w = transcript_sums.weight(region.reach)
    sums = [[0] * (len(region.center) + 1) for _ in range(len(edges) + 1)]
    for y, often in inside(images, region).items():
        row = sums[sum(dot(across, y) > edge for edge in edges)]
        for i, value in enumerate((*clip_to_ball(y, region.reach), w)):
            row[i] += often * value
    return tuple(value for row in sums for value in row)


@states(_REGIONS)
def signed_count(images: Images, region: Region, across: Vector, edges: Vector) -> Vector:
    """Return the number of the region's records in slices of odd number less that in even ones;
    slices as for ``slice_sum``, the first one being 0.
    """
    rows = inside(images, region).items()
    beyond = ((sum(dot(across, y) > edge for edge in edges), often) for y, often in rows)
    return (sum(often if number % 2 else -often for number, often in beyond),)


@states(_REGIONS)
def signed_moves(adjacency: Adjacency) -> int:
    """Return the squared sensitivity: a record counts -1, 0 or 1; the replaced one may count 1 and
    the other -1."""
    return 4 if adjacency is Adjacency.REPLACE else 1


# --- obligations --------------------------------------------------------------------------------

_SKEW = (LENGTH * 3 // 5, LENGTH * 4 // 5)
_CASES: tuple[tuple[Region, tuple[Vector, ...]], ...] = (
    (
        Region((0, 0), 5, ((LENGTH, 0), _SKEW), ((0, 256), (-20, 300)), LENGTH // 64),
        ((5, 0), (0, 5), (-4, 3), (4, -3), (-3, 4), (1, -1), (0, 0), (6, 0)),
    ),
    (
        Region((2, -7), 10, (_SKEW,), ((100, 400),), LENGTH // 50),
        ((12, -7), (-8, -7), (2, 3), (2, -17), (8, 1), (8, -15), (9, -14), (30, 30)),
    ),
    (
        Region((2**41,), 3, ((LENGTH,),), ((0, 900),), LENGTH // 300),
        tuple((2**41 + z,) for z in (0, 3, -3, 2, -2, 4, -(2**42))),
    ),
)


_DRAWN = (Fraction(1), Fraction(3, 5))
"""Shares of the radius to which records are drawn in."""


def _moves(
    value: Callable[..., Sequence[Fraction | int]],
    where: tuple[Any, ...],
    universe: Sequence[Vector],
    adjacency: Adjacency,
) -> Iterator[tuple[Sequence[Fraction | int], Sequence[Fraction | int], Fraction]]:
    """Yield the values, which take ``where`` too, of neighbors of at most two records, and their
    squared distance.
    """
    known = cache(lambda side: value(Counter(side), *where))
    for left, right in neighbors(universe, 2, adjacency):
        values = known(left), known(right)
        square = sum((Fraction(a - b) ** 2 for a, b in zip(*values, strict=True)), Fraction(0))
        yield *values, square


@states(_REGIONS)
@shows("MovingMoments", Norm.SQUARED_L2, value=stated_for_unit)
def obligation_moments(claimed: Callable[[int, Adjacency], int] = moments_reach) -> int:
    """Check over all neighbors of at most two records that in a plane the second moments move by
    ``claimed``, the largest move, and on a line by no more; in 2^-40 of the noise by no more
    than ``unit_sensitivity``; and so where records are drawn in.
    """
    cases = 0
    for (region, universe), adjacency, drawn in product(_CASES, _ALL, _DRAWN):
        ball = Region(region.center, region.radius, drawn=drawn)
        most, largest = claimed(ball.reach, adjacency), Fraction(0)
        spread = Fraction(10**6 + 1, 3)
        deviation = moments_noise(ball.reach, adjacency, spread)
        d = len(region.center)
        stated = unit_sensitivity(spread, d * (d + 1) // 2)
        for left, right, square in _moves(moments, (ball,), universe, adjacency):
            units = (tuple(round(UNIT * v / deviation) for v in side) for side in (left, right))
            unit = sum((a - b) ** 2 for a, b in zip(*units, strict=True))
            require(square <= most, f"{ball}, {adjacency}: {square} is more than {most}")
            require(unit <= stated, f"{ball}, {adjacency}: {unit} units, stated {stated}")
            largest, cases = max(largest, square), cases + 1
        if d > 1:
            require(largest == most, f"{ball}, {adjacency}: at most {largest}, not {most}")
    return cases


@states(_REGIONS)
@shows("InnerMoments", Norm.SQUARED_L2, value=stated_for_unit)
def obligation_inner_moments(claimed: Callable[[int, Adjacency], int] = moments_reach) -> int:
    """Check over the same neighbors that moments along directions move by at most ``claimed`` of
    the length that is counted, and by more than three quarters of it for some; in 2^-40 of the
    noise by no more than ``unit_sensitivity``.

    Directions are skew, or at right angles where half of the length is counted; they are eight
    times as long as others, so that there are cells enough.

    What a record counts by follows from it and from the directions alone, and is no longer than
    that length; so the proof is that of ``moments_reach``.
    """
    cases, spread = 0, Fraction(10**6 + 1, 3)
    for adjacency, share in product(_ALL, (1, 2)):
        nearest, skew = Fraction(0), share == 1
        for region, universe in _CASES:
            d, reach = len(region.center), 8 * max(1, region.radius // share)
            axes = tuple(tuple(LENGTH * (i == j) for j in range(d)) for i in range(d))
            longer = ((8 * a for a in v) for v in (region.directions if skew else axes))
            ball = Region(region.center, region.radius, tuple(map(tuple, longer)))
            most, deviation = claimed(reach, adjacency), moments_noise(reach, adjacency, spread)
            size = len(ball.directions) + 1
            stated = unit_sensitivity(spread, size * (size + 1) // 2)
            for left, right, square in _moves(inner_moments, (ball, reach), universe, adjacency):
                units = (tuple(round(UNIT * v / deviation) for v in side) for side in (left, right))
                unit = sum((a - b) ** 2 for a, b in zip(*units, strict=True))
                require(square <= most, f"{ball}, {adjacency}: {square} is more than {most}")
                require(unit <= stated, f"{ball}, {adjacency}: {unit} units, stated {stated}")
                nearest, cases = max(nearest, square / most), cases + 1
        require(skew or 4 * nearest > 3, f"{adjacency}: only {float(nearest)} of what is stated")
    return cases


@states(_REGIONS)
@shows("MovingHistogram", Norm.SQUARED_L2, value=of_query(histogram_moves, "count"))
def obligation_histogram(claimed: Callable[[int, Adjacency], int] = histogram_moves) -> int:
    """Check over the same neighbors and 2 to 8 bins that the largest move of the histograms is
    ``claimed``.
    """
    cases = 0
    for (region, universe), adjacency, bins in product(_CASES, _ALL, (2, 4, 8)):
        most, largest = claimed(len(region.directions), adjacency), Fraction(0)
        for *_, square in _moves(histogram, (region, bins), universe, adjacency):
            largest, cases = max(largest, square), cases + 1
        require(largest == most, f"{region}, {bins} bins, {adjacency}: {largest}, not {most}")
    return cases


@states(_REGIONS)
@shows("SlabSum", Norm.SQUARED_L2, value=stated_for_unit)
def obligation_slab_sum(claimed: Callable[[int, Adjacency], int] = transcript_sums.reach) -> int:
    """Check over the same neighbors that the sum between slabs moves by at most ``claimed``, and
    in some region by exactly that; in 2^-40 of the noise by no more than ``unit_sensitivity``; and
    that in a box, and where records are drawn in, it moves as between slabs.

    Slabs and boxes leave out some record of every ball.
    """
    cases, spread = 0, Fraction(10**6 + 1, 3)
    for adjacency, drawn in product(_ALL, _DRAWN):
        attained = set[bool]()  # between slabs, and in boxes
        for plain, universe in _CASES:
            region = replace(plain, drawn=drawn)
            ball = Region(region.center, region.radius, drawn=drawn)
            boxed = replace(
                ball, box=(region.radius, 2 * region.radius // 3)[-len(region.center) :]
            )
            images = Counter(universe)
            for cut in (region, boxed):
                fewer = sum(inside(images, cut).values()) < sum(inside(images, ball).values())
                require(fewer, f"{cut}: nobody is left out")
            most = claimed(region.reach, adjacency)
            deviation = transcript_sums.noise(region.reach, adjacency, spread)
            stated = unit_sensitivity(spread, len(region.center) + 1)
            in_unit = cache(lambda side, one=deviation: transcript_sums.in_unit(side, one))
            for slabs in (region, boxed, ball):
                for left, right, square in _moves(slab_sum, (slabs,), universe, adjacency):
                    require(square <= most, f"{slabs}, {adjacency}: {square} is more than {most}")
                    unit = squared_distance(in_unit(left), in_unit(right))
                    require(unit <= stated, f"{slabs}, {adjacency}: {unit} units, stated {stated}")
                    if square == most and slabs is not ball:
                        attained.add(slabs is region)
                    cases += 1
        case = f"{adjacency}, {drawn}: attained between slabs and in boxes: {attained}"
        require(len(attained) == 2, case)
    return cases


@states(_REGIONS)
@shows("SliceSum", Norm.SQUARED_L2, value=stated_for_unit)
def obligation_slice_sum(claimed: Callable[[int, Adjacency], int] = transcript_sums.reach) -> int:
    """Check over the same neighbors that sums in slices move by at most ``claimed``, and for each
    adjacency and share in some region by exactly that; in 2^-40 of the noise by no more than
    ``unit_sensitivity``; between slabs, and where records are drawn in, too.

    Records are in several slices of some balls, so that replacing one changes two; in one slice of
    others.
    """
    cases, spread = 0, Fraction(10**6 + 1, 3)
    for adjacency, drawn in product(_ALL, _DRAWN):
        attained, changed = False, set[int]()
        for (plain, universe), beyond in product(_CASES, (0, 9)):
            region = replace(plain, drawn=drawn)
            edges = tuple(LENGTH * region.radius * (k + beyond) // 2 for k in (-1, 0, 2))
            size = len(region.center) + 1
            most = claimed(region.reach, adjacency)
            stated = unit_sensitivity(spread, (len(edges) + 1) * size)
            deviation = transcript_sums.noise(region.reach, adjacency, spread)
            in_unit = cache(lambda side, one=deviation: transcript_sums.in_unit(side, one))
            for one in (region, replace(region, directions=(), slabs=())):
                where = one, region.directions[0], edges
                for left, right, square in _moves(slice_sum, where, universe, adjacency):
                    require(square <= most, f"{one}, {adjacency}: {square} is more than {most}")
                    unit = squared_distance(in_unit(left), in_unit(right))
                    require(unit <= stated, f"{one}, {adjacency}: {unit} units, stated {stated}")
                    off = {i // size for i, value in enumerate(left) if value != right[i]}
                    changed.add(len(off))
                    attained, cases = attained or square == most, cases + 1
        require(attained, f"{adjacency}, {drawn}: no move is as large as stated")
        slices = {0, 1, 2} if adjacency is Adjacency.REPLACE else {0, 1}
        require(changed == slices, f"{adjacency}, {drawn}: {changed} slices change")
    return cases


@states(_REGIONS)
@shows("SignedCount", Norm.SQUARED_L2, value=of_query(signed_moves))
def obligation_signed_count(claimed: Callable[[Adjacency], int] = signed_moves) -> int:
    """Check over the same neighbors that signed counts move by at most ``claimed``, and by exactly
    that for each ball in three or four slices.
    """
    cases = 0
    for (region, universe), adjacency, count in product(_CASES, _ALL, (1, 2, 3)):
        ball = Region(region.center, region.radius)
        half = LENGTH * region.radius // 2
        where = ball, region.directions[0], (-half, 0, half)[:count]
        most, largest = claimed(adjacency), Fraction(0)
        for *_, square in _moves(signed_count, where, universe, adjacency):
            require(square <= most, f"{ball}, {adjacency}: {square}, stated {most}")
            largest, cases = max(largest, square), cases + 1
        require(count < 2 or largest == most, f"{ball}, {adjacency}: {largest}, not {most}")
    return cases
