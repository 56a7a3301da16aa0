"""A public covariance: the map after which records have covariance I, and its effect on public
sets of records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, states

from .caches import lru_cache
from .laws import real
from .obligations import require
from .queries import largest_power
from .record_maps import RecordMap

_OURS = Source("OURS", "whitening by a public covariance")
_DIGITS = 40
Rows = tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Whitening:
    """Whitening map, its center in the data's units, and the linear map back from its images, as
    rows.
    """

    map: RecordMap
    center: tuple[Fraction, ...]
    back: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True)
class HalfSpace:
    """Half-space <normal, y> <= bound."""

    normal: tuple[Any, ...]
    bound: Any


def diagonal(deviations: Sequence[float]) -> Rows:
    """Return the covariance of independent columns; squares are floats."""
    count = range(len(deviations))
    return tuple(tuple(deviations[j] ** 2 if j == k else 0.0 for k in count) for j in count)


@lru_cache(maxsize=16)
def whitening(covariance: Rows, center: tuple[float, ...]) -> Whitening:
    """Return the public map that whitens records with this covariance.

    Columns are in units of the largest power of two 2^p with 4^p at most the variance. Then
    comes, for the covariance in these units, the inverse of the Cholesky factor L.

    Cells are 2^-18 units, images in 2^-20. L^-1 times 2^bits, whose largest number is from 2^21
    to 2^22, is rounded; so C z / 2^(bits - 2) is L^-1 z, where z is in units of 2^-18 and the
    result in units of 2^-20.
    """
    with mp.workdps(_DIGITS):
        d = range(len(covariance))
        units = [_unit(Fraction(covariance[j][j])) for j in d]
        scaled = mp.matrix(
            [[real(Fraction(covariance[j][k]) / units[j] / units[k]) for k in d] for j in d]
        )
        root = mp.inverse(mp.cholesky(scaled))
        most = max(abs(root[j, k]) for j in d for k in d)
        power = int(2**21 / largest_power(lambda p: real(p) <= most))
        matrix = tuple(tuple(int(mp.nint(root[j, k] * power)) for k in d) for j in d)
        cells = [unit / 2**18 for unit in units]
        places = tuple(round(Fraction(c) / cell) for c, cell in zip(center, cells, strict=True))
        shift = power.bit_length() - 1 - 2
        inverse = mp.inverse(mp.matrix([list(row) for row in matrix])) * mp.mpf(2) ** (shift + 20)
        rows = tuple(tuple(inverse[j, k] * real(cells[j]) for k in d) for j in d)
        public = RecordMap(places, tuple(cells), matrix, shift, Fraction(1, 2**20))
        at = tuple(p * cell for p, cell in zip(places, cells, strict=True))
        return Whitening(public, at, rows)


def _unit(variance: Fraction) -> Fraction:
    return largest_power(lambda p: p * p <= variance)


def of_images(kept: Any, public: Whitening) -> Any:
    """Return the same set in images: <a, center + B y> <= b is <B^T a, y> <= b - <a, center>;
    balls are in deviations.
    """
    if isinstance(kept, tuple):
        unit = public.back[0][0]
        low, high = (
            end if math.isinf(end) else float(real(Fraction(end) - public.center[0]) / unit)
            for end in kept
        )
        return low, high
    if type(kept).__name__ != "HalfSpace":
        return kept
    with mp.workdps(_DIGITS):
        size = largest_power(lambda p: p <= max(abs(Fraction(a)) for a in kept.normal))
        own = [Fraction(a) / size for a in kept.normal]
        normal = [
            mp.fsum(real(a) * row[k] for a, row in zip(own, public.back, strict=True))
            for k in range(len(own))
        ]
        at = sum((a * c for a, c in zip(own, public.center, strict=True)), Fraction(0))
        bound = Fraction(kept.bound) / size - at
        return HalfSpace(tuple(float(a) for a in normal), float(bound))


_COVARIANCES: tuple[Rows, ...] = (
    ((4.0,),),
    ((1.0, 0.9), (0.9, 1.0)),
    ((1e-8, 3e2), (3e2, 1e14)),
    ((2.0, 1.0, 0.0), (1.0, 2.0, 1.0), (0.0, 1.0, 2.0)),
)


@states(_OURS)
def obligation_whitening(claimed: Callable[[Rows, Any], Whitening] = whitening) -> int:
    """Check that images have a covariance within 2^-12 of I, and that the way back from an image
    is within a cell's rounding of the record, over all columns.

    A half-space of images contains those of the records that it contains, except for records
    that near its plane.
    """
    cases = 0
    for covariance in _COVARIANCES:
        d = range(len(covariance))
        center = tuple(3.25 * math.sqrt(covariance[j][j]) for j in d)
        transform = claimed(covariance, center)
        public = transform.map
        rows = [
            [
                real(Fraction(c) * public.unit / 2**public.shift / cell)
                for c, cell in zip(row, public.cells, strict=True)
            ]
            for row in public.matrix
        ]
        for j in d:
            for k in d:
                entry = mp.fsum(
                    rows[j][a] * mp.mpf(covariance[a][b]) * rows[k][b] for a in d for b in d
                )
                require(
                    abs(entry - (j == k)) < mp.mpf(2) ** -12, f"{covariance}: {j}, {k}: {entry}"
                )
        for steps in ((0.3, -2.0, 1.1), (1e4, 7.0, -30.0)):
            record = tuple(Fraction(center[j] + steps[j] * math.sqrt(covariance[j][j])) for j in d)
            image = public.image(record)
            for j in d:
                told = transform.center[j] + sum(
                    Fraction(float(b)) * y for b, y in zip(transform.back[j], image, strict=True)
                )
                deviation = math.sqrt(covariance[j][j])
                off = float(abs(told - record[j])) / deviation
                require(off < 2**-15, f"{covariance}, {record}: {j} is {off} deviations off")
            normal = tuple(1.0 / math.sqrt(covariance[j][j]) for j in d)
            place = sum(Fraction(a) * x for a, x in zip(normal, record, strict=True))
            for side in (-1, 1):
                plane = of_images(HalfSpace(normal, place + Fraction(side, 2**13)), transform)
                at = sum(Fraction(a) * y for a, y in zip(plane.normal, image, strict=True))
                require(
                    (at <= Fraction(plane.bound)) is (side > 0), f"{covariance}, {record}: {side}"
                )
            cases += 1
    return cases
