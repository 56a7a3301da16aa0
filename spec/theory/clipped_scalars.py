"""Clipped first and second moments about a public center, on exact rationals, and the normal law
that has them.

A record's image z is an integer; it contributes v(z) = (A clip(z, +-T), B (min(z^2, C^2) - b),
w), T <= C. Fact: z depends on its record alone, and on what is public.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Norm, Source, of_query, shows, states

from .caches import cache
from .obligations import neighbors, require
from .quadrature import integral
from .queries import of_each
from .vectors import Vector, squared_distance

GRAIN, LEVELS = 1 << 10, 16
BOX = 1 << 40
MOST_LEVEL = 41 * LEVELS
_MOMENTS = Source("OURS", "clipped first and second moments under one noise")
_NORMAL = Source("OURS", "normal laws by their clipped moments", note="by Newton's method")


@dataclass(frozen=True, slots=True)
class Shape:
    """Parameters T, C, A, B, b and w of a contribution."""

    turn: int
    edge: int
    linear: int
    square: int
    offset: int = 0
    weight: int = 0

    def of(self, z: int) -> Vector:
        """Return the contribution of an image; w at the end, 0 where the number is left out."""
        first = min(max(z, -self.turn), self.turn)
        second = min(z * z, self.edge**2) - self.offset
        return (self.linear * first, self.square * second, self.weight)


@dataclass(frozen=True, slots=True)
class Grid:
    """Cell, and public center in cells."""

    cell: Fraction
    center: int = 0
    box: int = BOX


def unit_of(level: int) -> Fraction:
    """Return the unit of a level in cells: 2^(level / 16), down to sixteenths of a cell.

    floor(x^(1/16)) is floor(sqrt()) four times: floor(sqrt(floor(y))) = floor(sqrt(y)) for
    y >= 0.
    """
    root = 2 ** (64 + level)
    for _ in range(4):
        root = math.isqrt(root)
    return Fraction(root, 16)


def image(record: Fraction, grid: Grid, frame: Vector) -> int:
    """Return the distance from the frame's center in 1/1024 of its unit, to the nearest integer,
    halves up.
    """
    middle, level = frame
    cells = round(record / grid.cell)
    cells = min(max(cells, grid.center - grid.box), grid.center + grid.box) - grid.center
    return math.floor((cells - middle) * GRAIN / unit_of(level) + Fraction(1, 2))


def clipped_moments(records: Sequence[Fraction], grid: Grid, frame: Vector, shape: Shape) -> Vector:
    """Return the sums, and the number with its weight if it has one."""
    each = of_each(lambda record: shape.of(image(record, grid, frame)), records)
    width = 3 if shape.weight else 2
    return tuple(sum(v[j] for v in each) for j in range(width))


def moved_squared(
    turn: int,
    edge: int,
    linear: int,
    square: int,
    offset: int,
    weight: int,
    adjacency: Adjacency,
) -> int:
    """Return the largest move of the sums, squared.

    Proof. Under add-remove the move is one v(z); |z| beyond C counts as C. Under replace it is
    |v(x) - v(y)|^2, in which b and w cancel. v is even in its second part and odd in its first,
    so let x >= 0 and |y| <= x. Raising x to C raises both differences: clip(x) >= clip(y) and
    min(x^2, C^2) >= min(y^2, C^2). So x = C; for y >= 0 both differences are largest at y = 0,
    and for y = -t with t > T the first one stays 2 T A while the second falls; hence y = -t,
    0 <= t <= T: A^2 (T + t)^2 + B^2 (C^2 - t^2)^2. QED
    """
    if adjacency is Adjacency.REPLACE:
        return max(
            linear**2 * (turn + t) ** 2 + square**2 * (edge**2 - t**2) ** 2 for t in range(turn + 1)
        )
    shape = Shape(turn, edge, linear, square, offset, weight)
    return max(sum(part * part for part in shape.of(t)) for t in range(edge + 1))


# --- the normal law -----------------------------------------------------------------------------


def moments(mean: Any, deviation: Any, turn: Any, edge: Any, at: Any = mp) -> tuple[Any, Any]:
    """Return E clip(z, +-T) and E min(z^2, C^2) for z normal, at mpmath's precision or in floats,
    ``mp.fp``.

    With a = (-e - m) / s and b = (e - m) / s: E z over |z| < e is m P + s (phi(a) - phi(b)),
    and E z^2 there m^2 P + 2 m s (phi(a) - phi(b)) + s^2 (P + a phi(a) - b phi(b)), by parts.
    """
    mean, deviation, turn, edge = map(at.mpf, (mean, deviation, turn, edge))

    def parts(e: Any) -> tuple[Any, ...]:
        a, b = (-e - mean) / deviation, (e - mean) / deviation
        low = at.ncdf(a)
        return a, b, low, at.ncdf(b) - low, at.ncdf(-b), at.npdf(a), at.npdf(b)

    a, b, low, inside, high, at_a, at_b = parts(turn)
    first = turn * (high - low) + mean * inside + deviation * (at_a - at_b)
    a, b, low, inside, high, at_a, at_b = parts(edge)
    second = mean**2 * inside + 2 * mean * deviation * (at_a - at_b)
    second += deviation**2 * (inside + a * at_a - b * at_b)
    return first, second + edge**2 * (low + high)


def slopes(mean: Any, deviation: Any, turn: Any, edge: Any, at: Any = mp) -> Any:
    """Return the derivatives of the moments by m and by ln s: by Stein E f(z) moves with m by E
    f'(z), with ln s by s^2 E f''(z).
    """
    mean, deviation, turn, edge = map(at.mpf, (mean, deviation, turn, edge))
    t = [(side * turn - mean) / deviation for side in (-1, 1)]
    c = [(side * edge - mean) / deviation for side in (-1, 1)]
    inside = at.ncdf(c[1]) - at.ncdf(c[0])
    low, high = map(at.npdf, c)
    within = mean * inside + deviation * (low - high)
    ends = edge * (low + high) / deviation
    return at.matrix(
        [
            [at.ncdf(t[1]) - at.ncdf(t[0]), deviation * (at.npdf(t[0]) - at.npdf(t[1]))],
            [2 * within, 2 * deviation**2 * (inside - ends)],
        ]
    )


def covariance(mean: Any, deviation: Any, turn: Any, edge: Any) -> Any:
    """Return the covariance of one record's clipped moments, by quadrature."""
    far = mp.linspace(mean - 12 * deviation, mean + 12 * deviation, 13)
    places = sorted({-turn, turn, -edge, edge, *far})

    def expect(f: Callable[[Any], Any]) -> Any:
        return integral(lambda z: f(z) * mp.npdf(z, mean, deviation), places)

    def lead(z: Any) -> Any:
        return min(max(z, -turn), turn)

    def trail(z: Any) -> Any:
        return min(z * z, edge**2)

    first, second = moments(mean, deviation, turn, edge)
    cross = expect(lambda z: lead(z) * trail(z)) - first * second
    return mp.matrix(
        [
            [expect(lambda z: lead(z) ** 2) - first**2, cross],
            [cross, expect(lambda z: trail(z) ** 2) - second**2],
        ]
    )


def fit(
    first: Any, second: Any, clips: tuple[Any, Any], box: tuple[Any, Any]
) -> tuple[Any, Any] | None:
    """Return the normal law with these clipped moments, by Newton's method in floats; None where
    it leads to none in the box.

    It starts from (clip of the first moment, 1), with steps in (m, ln s) of at most 1/2,
    clamped to |m| <= box[0], |ln s| <= ln box[1]. The step after one below 10^-7 would be as
    its square.
    """
    first, second, far = float(first), float(second), math.log(box[1])
    mean, log = min(max(first, -box[0]), box[0]), 0.0
    for _ in range(100):
        own = moments(mean, math.exp(log), *clips, mp.fp)
        (a, b), (c, d) = slopes(mean, math.exp(log), *clips, mp.fp).tolist()
        det, missing = a * d - b * c, (first - own[0], second - own[1])
        if not abs(det) > 1e-12:
            return None
        step = ((d * missing[0] - b * missing[1]) / det, (a * missing[1] - c * missing[0]) / det)
        size = max(map(abs, step))
        if size < 1e-7:
            return mp.mpf(mean + step[0]), mp.mpf(math.exp(log + step[1]))
        share = min(1.0, 0.5 / size)
        before = mean, log
        mean = min(max(mean + share * step[0], -box[0]), box[0])
        log = min(max(log + share * step[1], -far), far)
        if (mean, log) == before:
            return None
    return None


# --- obligations --------------------------------------------------------------------------------

_SHAPES = (
    Shape(1, 1, 1, 1),
    Shape(3, 3, 4, 1, 4, 5),
    Shape(3, 5, 2, 1, 7, 3),
    Shape(5, 7, 10, 1, 20, 11),
    Shape(2, 9, 1, 3, 81, 2),
    Shape(4, 6, 0, 1, 3, 1),
    Shape(4, 6, 3, 0, 3, 0),
)
_PLACES = (*map(Fraction, (-(10**30), -2, 0, 7, 10**30)), Fraction(1, 3))
_FRAMES = ((0, 0), (-3, 16), (7, 40), (BOX, 0), (0, MOST_LEVEL))


@states(_MOMENTS)
@shows(
    "ClippedMoments",
    Norm.SQUARED_L2,
    value=of_query(moved_squared, "turn", "edge", "linear", "square", "offset", "weight"),
)
def obligation_clipped_moments(claimed: Callable[..., int] = moved_squared) -> int:
    """Check that the largest move over all images, and all pairs of them, is ``claimed``; and that
    no neighbors of at most 2 records move further, in any frame.
    """
    cases = 0
    for shape, adjacency in product(_SHAPES, Adjacency):
        images = [shape.of(z) for z in range(-shape.edge - 2, shape.edge + 3)]
        others = images if adjacency is Adjacency.REPLACE else [(0, 0, 0)]
        largest = max(squared_distance(a, b) for a, b in product(images, others))
        most = claimed(*astuple(shape), adjacency)
        require(most == largest, f"{shape}, {adjacency}: {largest}, not {most}")
        cases += len(images) * len(others)
        for frame in _FRAMES:
            asked = cache(lambda r, s=shape, f=frame: clipped_moments(r, Grid(Fraction(1)), f, s))
            for left, right in neighbors(_PLACES, 2, adjacency):
                moved = squared_distance(asked(tuple(left)), asked(tuple(right)))
                require(moved <= most, f"{shape}, {frame}, {left}, {right}: {moved} > {most}")
                cases += 1
    return cases


@states(_MOMENTS)
def obligation_units(claimed: Callable[[int], Fraction] = unit_of) -> int:
    """Check that a unit is at most 2^(level / 16) cells, and less than 1/16 of a cell below."""
    for level in range(MOST_LEVEL + 1):
        value = 16 * claimed(level)
        require(value.denominator == 1, f"level {level}: {value}/16 is no number of sixteenths")
        whole = int(value)
        fits = whole**16 <= 2 ** (64 + level) < (whole + 1) ** 16
        require(fits, f"level {level}: {whole}/16")
    return MOST_LEVEL + 1


_LAWS = tuple(product(("-0.9", "0", "0.05", "1.7"), ("0.3", "1", "1.9")))
_CLIPS = ((mp.mpf(3), mp.mpf(3)), (mp.mpf("1.5"), mp.mpf(1945) / 1024))


@states(_NORMAL)
def obligation_moments(claimed: Any = moments) -> int:
    """Check that the closed forms are the integrals, to 1e-12."""
    cases = 0
    for (m, s), (turn, edge) in product(_LAWS, _CLIPS):
        mean, deviation = mp.mpf(m), mp.mpf(s)
        far = mp.linspace(mean - 12 * deviation, mean + 12 * deviation, 13)
        ends = sorted({-turn, turn, -edge, edge, *far})

        def clip(z: Any, t: Any = turn) -> Any:
            return min(max(z, -t), t)

        def low(z: Any, c: Any = edge) -> Any:
            return min(z * z, c**2)

        for f, moment in zip((clip, low), claimed(mean, deviation, turn, edge), strict=True):
            density = partial(mp.npdf, mu=mean, sigma=deviation)
            expected = integral(lambda z, f=f, p=density: f(z) * p(z), ends)
            require(abs(moment - expected) < mp.mpf(10) ** -12, f"{m}, {s}: {moment}, {expected}")
            cases += 1
    return cases


@states(_NORMAL)
def obligation_slopes(claimed: Any = slopes) -> int:
    """Check that the closed forms are differences of the moments, to 1e-10."""
    cases, h = 0, mp.mpf(10) ** -8
    with mp.workdps(40):
        for (m, s), clips, j in product(_LAWS, _CLIPS, range(2)):
            mean, log = mp.mpf(m), mp.log(mp.mpf(s))
            matrix = claimed(mean, mp.exp(log), *clips)
            a, b = ((h, 0), (0, h))[j]
            up = moments(mean + a, mp.exp(log + b), *clips)
            down = moments(mean - a, mp.exp(log - b), *clips)
            for i in range(2):
                expected = (up[i] - down[i]) / (2 * h)
                require(abs(matrix[i, j] - expected) < mp.mpf(10) ** -10, f"{m}, {s}, {i}, {j}")
                cases += 1
    return cases


@states(_NORMAL)
def obligation_fit(claimed: Any = fit) -> int:
    """Check that a law in the box is found from its moments, to 1e-10, and that moments of no law
    lead to none.
    """
    cases = 0
    for clips, box in ((_CLIPS[0], (2, 4)), (_CLIPS[1], (1, 2))):
        for m, s in product(("-1.9", "-0.9", "0", "0.5", "0.99"), ("0.26", "0.51", "1", "1.9")):
            mean, deviation = mp.mpf(m), mp.mpf(s)
            if abs(mean) <= box[0] and deviation * box[1] >= 1:
                law = claimed(*moments(mean, deviation, *clips), clips, box)
                require(law is not None, f"{m}, {s}: no law")
                off = max(abs(law[0] - mean), abs(law[1] - deviation))
                require(off < mp.mpf(10) ** -10, f"{m}, {s}: {law}")
                cases += 1
        for first, second in ((0, -1), (0, 9), (clips[0], 0), (1, 1), (-1, 1), (2, "0.5")):
            law = claimed(mp.mpf(first), mp.mpf(second), clips, box)
            require(law is None, f"{first}, {second}: {law}")
            cases += 1
    return cases
