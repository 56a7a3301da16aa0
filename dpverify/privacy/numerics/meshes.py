"""Which mesh families' chords have: floats choose it, and prove nothing. Chords on any mesh are a bound."""

from __future__ import annotations

import math
from collections.abc import Iterator
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
from dpverify.privacy.numerics.chords import MOST_NODES, is_family, reach_of

FINENESS = 240.0
"""A mesh is a standard deviation / (240 sqrt(parts)), for a gap below 1e-3."""
_ZERO = Fraction(0)
_BESIDE_NOISE = 120.0  # where a transform is inverted, a fine mesh takes time
_LOOSE = 0.3  # conversion of zCDP is loose anyway
_RATIO = 32  # a mesh may be so much finer than it need be to divide the atoms' lattice


def mesh_of(parts: Parts, fineness: float) -> Fraction:
    """For all families among the parts; 0 where there are none.

    Where a lattice of all other parts' losses allows, one of it and the mesh is a multiple of the other.
    """
    families = [(part, times) for part, times in parts if is_family(part, parts)]
    if not families:
        return _ZERO
    deviation, wanted = _deviation(parts), math.inf
    if any(isinstance(part, GaussianDP) for part, _ in parts):
        fineness = min(fineness, _BESIDE_NOISE)
    loose = [p for p in families if not isinstance(p[0], PureDP)]
    for part, times in loose:
        fine = fineness * _finer(part) * math.sqrt(len(loose) * times)
        wanted = min(wanted, deviation / fine)
    # A chord below an atom adds a variance of a quarter of the mesh's square.
    wanted = min([wanted, *(reach_of(p) for p, _ in families if isinstance(p, PureDP))])
    farthest = max(reach_of(part) for part, _ in families)
    mesh = dyadic(max(wanted, farthest / MOST_NODES))
    rest = lattice_of(tuple(p for p in parts if not is_family(p[0], parts)), _ZERO)
    if rest >= mesh:
        return rest / math.ceil(rest / mesh)
    return mesh // rest * rest if _RATIO * rest >= mesh else mesh


def extent_of(parts: Parts) -> float:
    """About how far the losses go from which something is above the smallest mass that counts."""
    each = [
        (reach_of(p) if is_family(p, parts) else to_float(p.largest_loss or _ZERO), n)
        for p, n in parts
    ]
    most = max((reach for reach, _ in each), default=0.0)
    return min(2 * sum(n * reach for reach, n in each), 40 * _deviation(parts) + 2 * most)


def _deviation(parts: Parts) -> float:
    return math.sqrt(sum(_variance(part) * times for part, times in parts))


def lattice_of(parts: Parts, mesh: Fraction) -> Fraction:
    """Between neighboring losses of all parts together; 0 where some have no atoms, or there are no parts."""
    steps = [step for part, _ in parts for step in _step(part, parts, mesh)]
    return reduce(_common, steps) if steps and len(steps) == len(parts) else _ZERO


def _step(part: Guarantee, parts: Parts, mesh: Fraction) -> Iterator[Fraction]:
    """Between a part's neighboring losses, if they are atoms; twice the largest is a multiple of it."""
    if is_family(part, parts):
        yield mesh
    elif isinstance(part, PureDP):
        yield 2 * part.epsilon
    elif isinstance(part, DiscreteLaplaceShift):
        yield 2 / part.scale


def _common(a: Fraction, b: Fraction) -> Fraction:
    """The largest number of which both are multiples."""
    over = gcd(a.numerator * b.denominator, b.numerator * a.denominator)
    return Fraction(over, a.denominator * b.denominator)


def _finer(part: Guarantee) -> float:
    if isinstance(part, SmoothLaplace):
        return max(1.0, 0.05 * math.sqrt(_variance(part)) / to_float(part.growth - 1))
    return _LOOSE if isinstance(part, ZeroConcentratedDP) else 1.0


def _variance(part: Guarantee) -> float:
    """Roughly, of the losses."""
    if isinstance(part, SmoothLaplace):
        shift, tail = to_float(part.shift), to_float(part.growth - 1)
        return min(shift**2, shift) + tail**2
    if isinstance(part, PureDP):
        epsilon = to_float(part.epsilon)
        return epsilon**2 / math.cosh(min(epsilon / 2, 300)) ** 2
    if isinstance(part, DiscreteLaplaceShift):
        return min(to_float(part.epsilon), to_float(part.epsilon) ** 2)
    if isinstance(part, BoundedRange):
        return to_float(part.epsilon) ** 2 / 4
    return 2 * to_float(part.concentrated or Fraction(0))


def dyadic(value: float) -> Fraction:
    """A number of few bits near a float (a short mesh keeps the rationals short)."""
    mantissa, exponent = math.frexp(value)
    return Fraction(round(mantissa * 256)) * Fraction(2) ** (exponent - 8)
