"""delta(epsilon) of parts together: which of the ways to compose is taken, and how finely.

Parts with a transform in closed form: by inverting it (``inversion``), unless all their losses are
multiples of one number; then, and for the other families, through privacy loss distributions
(``discretize``).
"""

from __future__ import annotations

from fractions import Fraction

from dpverify.privacy.balls import Enclosure, shortened
from dpverify.privacy.discretize import profile_table
from dpverify.privacy.guarantees.approximate import PureDP
from dpverify.privacy.guarantees.base import Guarantee
from dpverify.privacy.guarantees.concentrated import ZeroConcentratedDP
from dpverify.privacy.guarantees.gaussian import GaussianDP
from dpverify.privacy.guarantees.noise import BoundedRange
from dpverify.privacy.guarantees.parts import Parts, concentrated_ranges, total_of
from dpverify.privacy.guarantees.smooth import SmoothLaplace
from dpverify.privacy.inversion import inverted, inverted_above
from dpverify.privacy.meshes import DEPTHS, FINENESS, is_exact, is_too_large
from dpverify.privacy.transforms import has_transform

_RESOLVED = 58  # bits between the smallest delta that is resolved and the unit
_FINENESSES = (20.0, 70.0, FINENESS)
_MOST_LOSS = Fraction(1 << 40)  # beyond it a part is not composed: at most 1 is all that is said
_MOST_RANGES = 2000  # beyond, the moments of bounded ranges say more than their profiles
_MANY_KINDS = 24  # so many losses are not multiplied, their transform is inverted
_ZERO, _ONE = Fraction(0), Fraction(1)


def delta_together(parts: Parts, at: Fraction, *, rough: bool = False) -> Enclosure:
    """From both sides; ``rough`` for searches that prove nothing."""
    found, is_final = _without_tables(parts, at)
    if is_final:
        return found
    fineness = _FINENESSES[0] if rough else FINENESS
    for bits in DEPTHS:
        above = _above(parts, at, bits, fineness)
        if rough or above * 2 ** (bits - _RESOLVED) >= 1:
            break
    above = min(above, found.upper)
    low = found.lower if rough else max(found.lower, _below(parts, at, bits))
    return Enclosure(min(low, above), above)


def is_at_most(parts: Parts, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether delta(epsilon) is proven to be at most ``delta``: coarse tables first."""
    found, is_final = _without_tables(parts, epsilon)
    if found.upper <= delta or found.lower > delta or is_final or not delta:
        return found.upper <= delta
    bits = next((b for b in DEPTHS if delta * 2 ** (b - _RESOLVED) >= 1), DEPTHS[-1])
    if len(parts) > _MANY_KINDS:
        return _above(parts, epsilon, bits, FINENESS) <= delta
    for fineness in _FINENESSES:
        if _above(parts, epsilon, bits, fineness) <= delta:
            return True
        if profile_table(parts, bits, False, fineness).at(epsilon) > delta:
            return False
    return False


def _without_tables(parts: Parts, at: Fraction) -> tuple[Enclosure, bool]:
    """At least what any part reaches, at most what all the rho prove; what the transform says.

    And whether tables have nothing to add.
    """
    loss = total_of(parts, "largest_loss")
    if loss is not None and at >= loss:
        return Enclosure(_ZERO, _ZERO), True
    if len(parts) == 1 and parts[0][1] == 1:
        return parts[0][0].delta_at(at), True
    attained = [p for p, _ in parts if not isinstance(p, (ZeroConcentratedDP, SmoothLaplace))]
    low = max((p.delta_at(at).lower for p in attained), default=_ZERO)
    rho = total_of(parts, "concentrated")
    high = ZeroConcentratedDP(shortened(rho)).delta_at(at).upper if rho else _ONE
    is_final = any((part.concentrated or _ZERO) > _MOST_LOSS for part, _ in parts)
    if not is_final and has_transform(parts) and not is_exact(parts):
        found = inverted(parts, at)
        is_final = found is not None
        if found is not None:
            low, high = max(low, found.lower), min(high, found.upper)
    return Enclosure(min(low, high), high), is_final or is_too_large(parts)


def _above(parts: Parts, at: Fraction, bits: int, fineness: float) -> Fraction:
    ways = [concentrated_ranges(parts)]
    if ways[0] != parts and sum(n for _, n in parts) < _MOST_RANGES:
        ways.append(parts)
    found = [_ONE]
    for way in ways:
        direct = inverted_above(way, at, bits) if len(way) > _MANY_KINDS else None
        found.append(profile_table(way, bits, True, fineness).at(at) if direct is None else direct)
    return min(found)


def _below(parts: Parts, at: Fraction, bits: int) -> Fraction:
    attaining = tuple((_attaining(part), times) for part, times in parts)
    found = None if is_exact(attaining) else inverted(attaining, at)
    return found.lower if found else profile_table(parts, bits, False).at(at)


def _attaining(part: Guarantee) -> Guarantee:
    """A mechanism with this guarantee: Gaussian noise, randomized response of half the length; of a
    Laplace shift on which side of the middle it is, which has odds of more than e^(shift / 2)."""
    if isinstance(part, ZeroConcentratedDP):
        return GaussianDP.of_square(2 * part.rho)
    if isinstance(part, SmoothLaplace):
        return PureDP(part.shift / 2)
    return PureDP(part.epsilon / 2) if isinstance(part, BoundedRange) else part
