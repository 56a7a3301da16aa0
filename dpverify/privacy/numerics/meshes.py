"""Choice of the lattice that losses are rounded to.

Floats choose, and prove nothing, for any lattice gives a bound.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import reduce
from math import gcd

from dpverify.privacy.guarantees.approximate import PureDP
from dpverify.privacy.guarantees.base import Guarantee
from dpverify.privacy.guarantees.concentrated import ZeroConcentratedDP
from dpverify.privacy.guarantees.gaussian import GaussianDP
from dpverify.privacy.guarantees.noise import BoundedRange, DiscreteLaplaceShift
from dpverify.privacy.guarantees.parts import Parts
from dpverify.privacy.guarantees.smooth import SmoothLaplace
from dpverify.privacy.numbers import to_float

FINENESS = 120.0
"""Fineness of a mesh: it is a standard deviation / (120 sqrt(parts)), or as the number of
points allows.
"""
MOST_POINTS = 1 << 13
MOST_NODES = 1 << 11
"""Number of points at which profiles are evaluated, in all."""
_ZERO = Fraction(0)
_SEVERAL = 4
_DEVIATIONS = 34  # distance between Gaussian tails of 2^-200
_DEPTH = 118.0  # minus the logarithm of the least mass that counts: e^-118 < 1e-51


def has_atoms(part: Guarantee) -> bool:
    """Return whether the part's worst pair has finitely many losses."""
    return isinstance(part, (PureDP, DiscreteLaplaceShift))


def mesh_of(parts: Parts, fineness: float, evaluated: Parts, points: int) -> Fraction:
    """Return the step for all parts, some of whose profiles are ``evaluated``.

    It is on the lattice of the atoms that matter most.
    """
    farthest = sum(reach_of(part) for part, _ in evaluated)
    wanted = max(wanted_mesh(parts, fineness), extent_of(parts) / points)
    mesh = dyadic(max(wanted, farthest / MOST_NODES))
    atoms = [
        (_spread(part) * math.sqrt(times), _step(part)) for part, times in parts if has_atoms(part)
    ]
    _, step = max(atoms, default=(0.0, _ZERO))
    return step / (step // mesh) if step >= _SEVERAL * mesh else mesh


def wanted_mesh(parts: Parts, fineness: float) -> float:
    """Return the step if any number of points would do."""
    finer = max(map(_finer, (part for part, _ in parts)), default=1.0)
    return _deviation(parts) / fineness / math.sqrt(sum(times for _, times in parts) or 1) / finer


def extent_of(parts: Parts) -> float:
    """Return about how far the losses go that have more than the smallest mass that counts."""
    others = [p for p, _ in parts if not isinstance(p, (GaussianDP, ZeroConcentratedDP))]
    most = max(map(reach_of, others), default=0.0)
    whole = sum(times * reach_of(part) for part, times in parts)
    return min(2 * whole, _DEVIATIONS * _deviation(parts) + 2 * most)


def reach_of(part: Guarantee) -> float:
    """Return about where the part's profile is e^-118, or 0."""
    if isinstance(part, (ZeroConcentratedDP, GaussianDP)):
        rho = to_float(part.concentrated or _ZERO)
        return rho + 2 * math.sqrt(rho * _DEPTH)
    if isinstance(part, SmoothLaplace):
        growth = to_float(part.growth)
        return to_float(part.shift) + math.log(growth) + (growth - 1) * _DEPTH
    return to_float(part.largest_loss or _ZERO)


def lattice_of(parts: Parts) -> Fraction:
    """Return the step between neighboring losses of all parts together.

    It is 0 where some have no atoms, or there are no parts.
    """
    steps = [_step(part) for part, _ in parts]
    return reduce(_common, steps) if steps and all(steps) else _ZERO


def _step(part: Guarantee) -> Fraction:
    """Return the step between a part's neighboring losses, if they are atoms.

    Twice the largest loss is a multiple of it.
    """
    if isinstance(part, PureDP):
        return 2 * part.epsilon
    return 2 / part.scale if isinstance(part, DiscreteLaplaceShift) else _ZERO


def _common(a: Fraction, b: Fraction) -> Fraction:
    """Return the largest number of which both are multiples."""
    over = gcd(a.numerator * b.denominator, b.numerator * a.denominator)
    return Fraction(over, a.denominator * b.denominator)


def _finer(part: Guarantee) -> float:
    """Return how much finer a mesh the thin tail beside a far shift asks for."""
    if isinstance(part, SmoothLaplace):
        return max(1.0, 0.1 * _spread(part) / to_float(part.growth - 1))
    return 1.0


def _deviation(parts: Parts) -> float:
    return math.hypot(*(_spread(part) * math.sqrt(times) for part, times in parts))


def _spread(part: Guarantee) -> float:
    """Return roughly the standard deviation of the losses."""
    if isinstance(part, SmoothLaplace):
        shift = to_float(part.shift)
        return math.hypot(min(shift, math.sqrt(shift)), to_float(part.growth - 1))
    if isinstance(part, PureDP):
        epsilon = to_float(part.epsilon)
        return epsilon / math.cosh(min(epsilon / 2, 300))
    if isinstance(part, DiscreteLaplaceShift):
        return min(to_float(part.epsilon), math.sqrt(to_float(part.epsilon)))
    if isinstance(part, BoundedRange):
        return to_float(part.epsilon) / 2
    return math.sqrt(2 * to_float(part.concentrated or Fraction(0)))


def dyadic(value: float) -> Fraction:
    """Return a number of few bits near a float (a short mesh keeps the rationals short)."""
    mantissa, exponent = math.frexp(value)
    return Fraction(round(mantissa * 256)) * Fraction(2) ** (exponent - 8)
