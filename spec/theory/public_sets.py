"""Public sets of integer vectors that a masked sum counts records in, and how a set of records
becomes one of them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

from dpverify.privacy import Source, states

from .obligations import require
from .vectors import Vector, squared_distance

_OURS = Source("OURS", "public sets of integer vectors")
_FINE = 2**20


@dataclass(frozen=True, slots=True)
class Slab:
    """Vectors between two planes; None for no plane."""

    normal: Vector
    low: int | None
    high: int | None


@dataclass(frozen=True, slots=True)
class Round:
    """Vectors at most ``radius`` from the center; or the others."""

    center: Vector
    radius: int
    outside: bool = False


def holds(public: Slab | Round | None, vector: Vector) -> bool:
    """Return whether the vector is in the set; without a set, always True."""
    if public is None:
        return True
    if isinstance(public, Round):
        near = squared_distance(vector, public.center) <= public.radius**2
        return near is not public.outside
    at = sum(a * z for a, z in zip(public.normal, vector, strict=True))
    return (public.low is None or public.low <= at) and (public.high is None or at <= public.high)


def in_cells(kept: Any, stretch: Any, origin: Sequence[int], deviation: Any) -> Slab | Round | None:
    """Return the set of images of an interval, a half-space, a ball or the outside of a ball.

    origin: the public center in cells. deviation: its length in images. ``slab`` has the
    planes.
    """
    if kept is None:
        return None
    if isinstance(kept, tuple):
        return slab(stretch, (1,), kept)
    kind = type(kept).__name__
    if kind == "HalfSpace":
        return slab(stretch, kept.normal, (-math.inf, kept.bound))
    require(kind in ("InsideBall", "OutsideBall"), f"a set of the kind {kind}")
    about = [f * (o - c) for f, o, c in zip(stretch.factors, origin, stretch.center, strict=True)]
    radius = math.floor(Fraction(kept.radius) * Fraction(float(deviation)))
    return Round(tuple(about), radius, kind == "OutsideBall")


def slab(stretch: Any, normal: Sequence[Any], ends: tuple[Any, Any]) -> Slab:
    """Return the set low <= <normal, x> <= high for x_j = cell_j (center_j + z_j / factor_j).

    <normal, x> = at + <g, z>. g is multiplied by the number u that brings its largest one to
    2^20, and rounded; high - at times u is rounded down, low - at up. No z with |z| <= R that
    is further than (sqrt(d) R / 2 + 1) / u from the plane, in <g, z>, is on the wrong side:
    rounding moves <u g, z> by sqrt(d) R / 2 at most.
    """
    parts = [Fraction(a) * cell for a, cell in zip(normal, stretch.cells, strict=True)]
    g = [p / f for p, f in zip(parts, stretch.factors, strict=True)]
    most = max(map(abs, g))
    u = _FINE / most
    at = sum((p * c for p, c in zip(parts, stretch.center, strict=True)), Fraction(0))
    low, high = (None if _no_end(end) else (Fraction(end) - at) * u for end in ends)
    return Slab(
        tuple(round(x * u) for x in g),
        None if low is None else math.ceil(low),
        None if high is None else math.floor(high),
    )


def _no_end(end: Any) -> bool:
    return isinstance(end, float) and math.isinf(end)


@dataclass(frozen=True, slots=True)
class _Public:
    """Public values of a stretch that are asked for."""

    center: Vector
    cells: tuple[Fraction, ...]
    factors: Vector


_NORMALS = ((1.0,), (-3.0, 0.7), (1e-300, 1.0), (1e300, 1.0, -1e290), (0.3, 0.3, 0.3, 1e-6))
_FAR = 2**26


@states(_OURS)
def obligation_plane(claimed: Callable[..., Slab] = slab) -> int:
    """Check that vectors of a ball of 2^26 that are further from a plane than (sqrt(d) R / 2 +
    1) / u are on the right side of the rounded plane.

    Planes are near and far from the origin of the records. For one column, a vector on the
    plane itself is inside.
    """
    rng, cases = random.Random(11), 0
    for normal, center in product(_NORMALS, (0, 2**39 + 5)):
        d = len(normal)
        cells = tuple(Fraction(2) ** rng.randint(-30, 5) for _ in normal)
        public = _Public((center,) * d, cells, tuple(rng.randint(32, 64) for _ in normal))
        g = [Fraction(a) * c / f for a, c, f in zip(normal, cells, public.factors, strict=True)]
        unit = _FINE / max(map(abs, g))
        slack = (Fraction(math.isqrt(d * _FAR**2) + 1, 2) + 1) / unit
        at = sum(Fraction(a) * c * center for a, c in zip(normal, cells, strict=True))
        for _ in range(40):
            z = tuple(rng.randint(-_FAR, _FAR) // d for _ in normal)
            place = at + sum(x * y for x, y in zip(g, z, strict=True))
            for side in (-1, 1):
                plane = claimed(public, normal, (-math.inf, place + side * slack))
                require(holds(plane, z) is (side > 0), f"{normal}, {center}, {z}: {side}, {plane}")
                plane = claimed(public, normal, (place + side * slack, math.inf))
                require(holds(plane, z) is (side < 0), f"{normal}, {center}, {z}: {side}, {plane}")
                cases += 2
    for k in (-8, 0, 4):  # 2 x <= k / 4, x in quarters, 33 images to a quarter
        plane = claimed(
            _Public((5,), (Fraction(1, 4),), (33,)), (2.0,), (-math.inf, Fraction(k, 4))
        )
        on = 33 * (k // 2 - 5)
        sides = [holds(plane, (on + step,)) for step in (-1, 0, 1)]
        require(sides == [True, True, False], f"{k}: {plane}, {sides}")
        cases += 1
    return cases
