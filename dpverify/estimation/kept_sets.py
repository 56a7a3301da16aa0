"""Public sets in which records were kept before anybody saw them, and what becomes of these on the
grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import scipy

from dpverify.estimation.clipping import Numbers, numbers_of
from dpverify.grid.coordinates import Stretch
from dpverify.grid.public_sets import PublicSet, Round, Slab
from dpverify.grid.vectors import Vector
from dpverify.plans.parameters import positive
from dpverify.privacy.numbers import exact, settle, to_float

LEAST_MASS = 0.05
"""Least share of the records that a set has to contain; fewer tell too little of the others."""
_LARGEST = 1 << 20  # bound on a normal's numbers on the grid


@dataclass(frozen=True, slots=True)
class HalfSpace:
    """The records x with <normal, x> <= bound, in the data's units: say HalfSpace((1, 1), 100) for
    a total of at most 100.

    Raises TypeError or ValueError for what is not finite numbers, and for a normal of zeros.
    """

    normal: Numbers
    bound: float

    def __post_init__(self) -> None:
        settle(self, normal=numbers_of(self.normal, "normal"))
        if not any(self.normal):
            raise ValueError("normal: all its numbers are 0; a half-space needs a direction.")
        settle(self, bound=_finite(self.bound, "bound"))


@dataclass(frozen=True, slots=True)
class InsideBall:
    """The records at most ``radius`` deviations from the public center, in length over all columns.

    Raises TypeError or ValueError for a radius that is no positive finite number.
    """

    radius: float

    def __post_init__(self) -> None:
        settle(self, radius=_radius(self.radius))


@dataclass(frozen=True, slots=True)
class OutsideBall:
    """The records more than ``radius`` deviations from the public center, in length over all
    columns.

    Raises TypeError or ValueError for a radius that is no positive finite number.
    """

    radius: float

    def __post_init__(self) -> None:
        settle(self, radius=_radius(self.radius))


Kept = HalfSpace | InsideBall | OutsideBall | tuple[float, float]
"""Set in which records were kept; two numbers are the ends of an interval of one column."""


def kept_set(value: Any, name: str) -> Kept:
    """Read a public set of records; raises TypeError or ValueError for anything else."""
    if isinstance(value, (HalfSpace, InsideBall, OutsideBall)):
        return value
    if isinstance(value, (int, float)):
        raise TypeError(
            f"{name} = {value!r} is a number; write InsideBall({value!r}) for so many deviations "
            "from the center, OutsideBall, HalfSpace or, for one column, two ends."
        )
    return pair(value, name)


def pair(value: Any, name: str) -> tuple[float, float]:
    """Read two numbers in increasing order, of which infinite ones are no ends; raises TypeError or
    ValueError for others."""
    given: Any = None if isinstance(value, (str, bytes)) else value  # "01" is no pair of ends
    try:
        low, high = (float(one) for one in given)
    except OverflowError:
        raise ValueError(
            f"{name}: a number beyond the floats; write math.inf for no end."
        ) from None
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} = {value!r}; give two numbers, for example (0, 250_000)."
        ) from None
    if not low < high:
        raise ValueError(f"{name} = {value!r}; give the lower end first, and no NaN.")
    return low, high


def check_columns(kept: Kept | None, d: int) -> None:
    """Refuse, with ValueError, a set of another dimension."""
    if isinstance(kept, tuple) and d > 1:
        raise ValueError(
            f"kept = {kept} is an interval, for {d} columns; give HalfSpace(normal, bound), "
            "InsideBall(radius) or OutsideBall(radius)."
        )
    if isinstance(kept, HalfSpace) and len(kept.normal) != d:
        raise ValueError(
            f"kept = {kept}: a normal of {len(kept.normal)} numbers for {d} columns; give one for "
            "each."
        )


def check_mass(kept: Kept, center: Numbers, deviations: Numbers, reach: Fraction) -> None:
    """Refuse, with ValueError, a set that contains few records for every mean within reach.

    An interval or a half-space contains the most records for the mean farthest inside of it,
    and a ball for the mean at its center. The outside of a ball contains at most as many as are
    so far from a corner of the reach.
    """
    d = len(center)
    if isinstance(kept, tuple):
        mass = _mass_of_interval(kept, center[0], deviations[0], to_float(reach))
    elif isinstance(kept, HalfSpace):
        mass = _mass_of_half_space(kept, center, deviations, reach)
    elif isinstance(kept, InsideBall):
        mass = float(scipy.special.gammainc(d / 2, min(kept.radius, 1e100) ** 2 / 2))
    else:
        corner = to_float(reach) * math.hypot(*(1 / s for s in deviations))
        beyond = max(kept.radius - corner, 0.0)
        mass = 1 - float(scipy.special.gammainc(d / 2, min(beyond, 1e100) ** 2 / 2))
    if mass < LEAST_MASS:
        raise ValueError(
            f"kept holds at most {mass:.2g} of the records, whatever mean within reach they have; "
            f"of less than {LEAST_MASS:g} too little is told. Give a larger set, or a center and a "
            "reach that are nearer to it."
        )


def in_cells(kept: Kept, stretch: Stretch, origin: Sequence[int], deviation: float) -> PublicSet:
    """Round the set to one of images under the stretch.

    origin: the public center in cells. deviation: the length of a deviation in images. A
    plane's normal is rounded to 2^-20 of its largest number, about the stretch's center, so
    within a ball of R deviations it is off by at most R sqrt(d) 2^-20 of one; a ball's center
    and radius by a cell of each column. An estimate is made for the rounded set, so the only
    error left is that records are rounded to cells first.
    """
    if isinstance(kept, tuple):
        return _slab(stretch, (1.0,), *kept)
    if isinstance(kept, HalfSpace):
        return _slab(stretch, kept.normal, -math.inf, kept.bound)
    about: Vector = tuple(
        f * (o - c) for f, o, c in zip(stretch.factors, origin, stretch.center, strict=True)
    )
    radius = math.floor(Fraction(kept.radius) * Fraction(deviation))
    return Round(about, radius, outside=isinstance(kept, OutsideBall))


def _slab(stretch: Stretch, normal: Numbers, low: float, high: float) -> Slab:
    """Write low <= <normal, x> <= high for x_j = 2^e_j (c_j + z_j / f_j) as a condition on z."""
    parts = [Fraction(a) * Fraction(2) ** e for a, e in zip(normal, stretch.exponents, strict=True)]
    tilted = [p / f for p, f in zip(parts, stretch.factors, strict=True)]
    unit = _LARGEST / max(map(abs, tilted))
    at = sum((p * c for p, c in zip(parts, stretch.center, strict=True)), Fraction(0))
    ends = [None if math.isinf(end) else (Fraction(end) - at) * unit for end in (low, high)]
    return Slab(
        tuple(round(t * unit) for t in tilted),
        None if ends[0] is None else math.ceil(ends[0]),
        None if ends[1] is None else math.floor(ends[1]),
    )


def _mass_of_interval(ends: tuple[float, float], center: float, s: float, reach: float) -> float:
    best = min(max((ends[0] / 2 + ends[1] / 2), center - reach), center + reach)
    if math.isinf(ends[0]) or math.isinf(ends[1]):
        best = center - reach if math.isinf(ends[0]) else center + reach
    return float(
        scipy.special.ndtr((ends[1] - best) / s) - scipy.special.ndtr((ends[0] - best) / s)
    )


def _mass_of_half_space(
    kept: HalfSpace, center: Numbers, deviations: Numbers, reach: Fraction
) -> float:
    exactly = [Fraction(a) for a in kept.normal]
    depth = Fraction(kept.bound) + sum(
        (abs(a) * reach - a * Fraction(c) for a, c in zip(exactly, center, strict=True)),
        Fraction(0),
    )
    size = max(abs(a) * Fraction(s) for a, s in zip(exactly, deviations, strict=True))
    ratios = (to_float(a * Fraction(s) / size) for a, s in zip(exactly, deviations, strict=True))
    return float(scipy.special.ndtr(to_float(depth / size) / math.hypot(*ratios)))


def _finite(value: Any, name: str) -> float:
    number = to_float(exact(value, name))
    if not math.isfinite(number):
        raise ValueError(f"{name} = {value} is beyond the floats; give a finite number.")
    return number


def _radius(value: Any) -> float:
    return _finite(positive()(value, "radius"), "radius")
