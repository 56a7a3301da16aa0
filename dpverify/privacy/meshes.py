"""Which meshes: floats choose them, and prove nothing. Losses on any mesh bound the profile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dpverify.privacy.guarantees.approximate import PureDP
from dpverify.privacy.guarantees.base import Guarantee
from dpverify.privacy.guarantees.concentrated import ZeroConcentratedDP
from dpverify.privacy.guarantees.noise import BoundedRange, DiscreteLaplaceShift
from dpverify.privacy.guarantees.parts import Parts
from dpverify.privacy.guarantees.smooth import SmoothLaplace
from dpverify.privacy.losses import common_mesh
from dpverify.privacy.numbers import to_float

MOST_ATOMS = 4096
MOST_POINTS = 1 << 19
_MOST_NODES = 1 << 15
DEPTHS = (192, 448, 1280)
"""Bits of the masses: for delta down to about 1e-40, 1e-110 and 1e-330."""
FINENESS = 240.0
"""Smooth parts' meshes: a standard deviation / (240 sqrt(parts)), for a gap below 1e-3."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """Rough moments of a part's losses (floats: they choose a mesh, they prove nothing)."""

    mean: float
    variance: float
    top: float
    spacing: Fraction | None  # atoms or corners lie on its multiples
    smooth: bool
    coarseness: float = 1.0  # below 1 where a coarser mesh will do


def _depth(bits: int) -> float:
    """Standard deviations to where a Gaussian tail is at the edge of what the bits resolve."""
    return math.sqrt(2 * math.log(2) * (bits - 50))


def meshes_of(parts: Parts, bits: int, fineness: float) -> tuple[Fraction, list[Fraction]]:
    """(the common mesh, each part's own: atoms' spacing, or a multiple of the common mesh).

    The error of a smooth part grows with its mesh squared, times how often it occurs; all of them
    get the same share. Where a spacing of atoms allows, the common mesh divides it.
    """
    shapes = [_shape(part) for part, _ in parts]
    counts = [times for _, times in parts]
    deviation = math.sqrt(sum(s.variance * n for s, n in zip(shapes, counts, strict=True)))
    mean = sum(s.mean * n for s, n in zip(shapes, counts, strict=True))
    depth = _depth(bits)
    most = sum(s.top * n for s, n in zip(shapes, counts, strict=True))
    reach = min(most, mean + (depth + 2) * deviation)
    kinds = max(sum(s.smooth for s in shapes), 1)
    wanted = [
        max(
            deviation / (fineness * s.coarseness * math.sqrt(kinds * n)),
            min(s.top, s.mean + (depth + 2) * math.sqrt(s.variance)) / _MOST_NODES,
        )
        for s, n in zip(shapes, counts, strict=True)
    ]
    smallest = min((w for w, s in zip(wanted, shapes, strict=True) if s.smooth), default=math.inf)
    spacings = [s.spacing for s in shapes if s.spacing is not None]
    points = MOST_POINTS * fineness / FINENESS
    mesh = _common(spacings, smallest, 2 * reach / points, 64 * FINENESS / fineness)
    own = [
        s.spacing if s.spacing is not None and not s.smooth else mesh * max(1, int(w / float(mesh)))
        for s, w in zip(shapes, wanted, strict=True)
    ]
    return mesh, own


def _common(spacings: Sequence[Fraction], smallest: float, finest: float, ratio: float) -> Fraction:
    """A mesh of at most ``smallest`` and at least ``finest`` that divides the spacings, if possible."""
    if spacings:
        common = common_mesh(spacings)
        if common >= Fraction(finest):
            most = int(common / Fraction(finest)) if finest > 0 else 1
            return common / max(1, min(math.ceil(to_float(common) / smallest), most))
        # atoms will fall between the multiples, so the mesh is finer than smooth parts need
        return _dyadic(max(finest, smallest / ratio if smallest < math.inf else finest))
    return _dyadic(max(smallest, finest))


@lru_cache(maxsize=64)
def is_too_large(parts: Parts) -> bool:
    """Whether atoms would need far more multiples of their own spacing than fit on a grid."""
    for part, times in parts:
        shape = _shape(part)
        if shape.spacing is not None and not shape.smooth:
            wide = shape.mean * times + 40 * math.sqrt(shape.variance * times)
            if min(shape.top * times, wide) > 4 * MOST_POINTS * to_float(shape.spacing):
                return True
    return False


@lru_cache(maxsize=64)
def is_exact(parts: Parts) -> bool:
    """Whether every loss is an atom and all fall on the mesh, so that nothing is moved or joined."""
    if is_too_large(parts) or any(_shape(part).smooth for part, _ in parts):
        return False
    mesh, own = meshes_of(parts, DEPTHS[0], FINENESS)
    return all((spacing / mesh).denominator == 1 for spacing in own)


def _dyadic(value: float) -> Fraction:
    """A number of few bits near a float (a short mesh keeps the rationals short)."""
    mantissa, exponent = math.frexp(value)
    return Fraction(round(mantissa * 256)) * Fraction(2) ** (exponent - 8)


def _moderate(value: Fraction) -> float:
    """A float whose squares neither vanish nor overflow."""
    return min(max(to_float(value), 1e-120), 1e120)


def _shape(part: Guarantee) -> _Shape:
    if isinstance(part, PureDP):
        epsilon = _moderate(part.epsilon)
        lean = math.tanh(epsilon / 2)
        return _Shape(
            epsilon * lean, epsilon**2 * (1 - lean**2) + 1e-300, epsilon, part.epsilon, False
        )
    if isinstance(part, DiscreteLaplaceShift):
        epsilon = _moderate(part.epsilon)
        few = part.shift <= MOST_ATOMS
        spacing = 1 / part.scale if few else part.epsilon
        return _Shape(
            min(epsilon**2 / 2, epsilon), min(epsilon, epsilon**2), epsilon, spacing, not few
        )
    if isinstance(part, BoundedRange):
        epsilon = _moderate(part.epsilon)
        spacing = part.epsilon / 2  # of the lower bound's atoms
        return _Shape(min(epsilon**2 / 8, epsilon), epsilon**2 / 4, epsilon, spacing, True)
    if isinstance(part, SmoothLaplace):
        shift, tail = _moderate(part.shift), _moderate(part.growth - 1)
        least = min(shift**2, shift) + tail**2  # of the variance; the tail sets the mesh
        finer = max(1.0, 0.05 * math.sqrt(least) / tail)
        return _Shape(least / 2, least, math.inf, None, True, finer)
    rho = _moderate(part.concentrated or Fraction(0))
    coarseness = 0.3 if isinstance(part, ZeroConcentratedDP) else 1.0  # conversion is loose anyway
    return _Shape(rho, 2 * rho, math.inf, None, True, coarseness)
