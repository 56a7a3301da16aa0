"""delta(epsilon) of parts together, from both sides: the best of all that is known.

From above every mechanism with these guarantees: the pairs that dominate the parts (their transform inverted, or their
few atoms), and moments. From below mechanisms with these guarantees.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from dpverify.privacy.balls import Enclosure, shortened
from dpverify.privacy.guarantees.approximate import PureDP
from dpverify.privacy.guarantees.base import Guarantee
from dpverify.privacy.guarantees.concentrated import ZeroConcentratedDP
from dpverify.privacy.guarantees.gaussian import GaussianDP
from dpverify.privacy.guarantees.noise import BoundedRange
from dpverify.privacy.guarantees.parts import Parts, concentrated_ranges, merged, total_of
from dpverify.privacy.guarantees.smooth import SmoothLaplace
from dpverify.privacy.numbers import to_float
from dpverify.privacy.numerics.inversion import inverted
from dpverify.privacy.numerics.lattice import on_lattice
from dpverify.privacy.numerics.laws import composition
from dpverify.privacy.numerics.meshes import FINENESS, dyadic, lattice_of
from dpverify.privacy.numerics.moments import chernoff, mixed

_COARSE = 20.0
_STEPS = 1 << 13
_LEAST_STEPS = 8
_MOST_LOSS = Fraction(1 << 40)  # beyond it a part is not composed: at most 1 is all that is said
_FINEST, _SHORTEST = Fraction(1, 1 << 40), Fraction(1, 1 << 300)
_ZERO, _ONE = Fraction(0), Fraction(1)


def delta(parts: Parts, epsilon: Fraction, *, rough: bool = False) -> Enclosure:
    """The profile at ``epsilon`` >= 0, the upper end safe; ``rough``: coarsely, for searches."""
    known = _closed(parts, epsilon)
    if known is not None:
        return known
    high = above(parts, epsilon, rough=rough)
    low = _ZERO if rough else below(parts, epsilon)
    return Enclosure(low, high) if low <= high else Enclosure(_ZERO, _ONE)


def is_at_most(parts: Parts, epsilon: Fraction, bound: Fraction) -> bool:
    """Whether the profile at ``epsilon`` is proven to be at most ``bound``; what is cheap comes first."""
    known = _closed(parts, epsilon)
    if known is not None:
        return known.upper <= bound
    if _simply(parts, epsilon) <= bound:
        return True
    if not bound or below(parts, epsilon) > bound:
        return False
    return above(parts, epsilon) <= bound


def above(parts: Parts, epsilon: Fraction, *, rough: bool = False) -> Fraction:
    """At least the profile of every mechanism with these guarantees."""
    ways = {parts, concentrated_ranges(parts)}
    found = [_simply(parts, epsilon)]
    for way in ways:
        one = _paired(way, epsilon, _COARSE if rough else FINENESS)
        found.append(one.upper)
    return min(found)


def below(parts: Parts, epsilon: Fraction) -> Fraction:
    """At most the profile of some mechanism with these guarantees, which need not be the same at every epsilon."""
    alone = (p.delta_at(epsilon).lower for p, _ in parts if isinstance(p, BoundedRange))
    return max(attained(parts, epsilon).lower, *alone, _ZERO)


def attained(parts: Parts, epsilon: Fraction) -> Enclosure:
    """The profile of mechanisms with these guarantees: Gaussian noise for zCDP, randomized response of half the
    length for a bounded range; of noise whose scale follows the data, on which side of the middle it is,
    which has odds of more than e^(shift / 2).
    """
    return _paired(_attaining(parts), epsilon, FINENESS)


@lru_cache(maxsize=64)
def _attaining(parts: Parts) -> Parts:
    """Mechanisms with these guarantees whose losses have a transform."""
    counts: dict[Guarantee, int] = {}
    for part, times in parts:
        if isinstance(part, ZeroConcentratedDP):
            part = GaussianDP.of_square(2 * part.rho)
        elif isinstance(part, BoundedRange):
            part = PureDP(part.epsilon / 2)
        elif isinstance(part, SmoothLaplace):
            part = PureDP(part.shift / 2)
        counts[part] = counts.get(part, 0) + times
    found = tuple(merged(counts).items())
    return _on_one_lattice(found) if set(counts) != {part for part, _ in parts} else found


def _on_one_lattice(parts: Parts) -> Parts:
    """Pure parts a little smaller, where that makes all losses differ by multiples of one number: they, too,
    are mechanisms with the larger parameters. For the side of families that is loose anyway."""
    pure = [(part.epsilon, n) for part, n in parts if isinstance(part, PureDP)]
    rest = tuple(p for p in parts if not isinstance(p[0], PureDP))
    step = lattice_of(rest, _ZERO) / 2
    if (rest and not step) or (not rest and len(pure) < 6):
        return parts
    fine = dyadic(to_float(sum((e * n for e, n in pure), _ZERO)) / _STEPS)
    step = math.ceil(fine / step) * step if step else fine
    counts: dict[Guarantee, int] = dict(rest)
    for e, n in pure:
        if e < _LEAST_STEPS * step:
            return parts
        smaller = PureDP(e // step * step)
        counts[smaller] = counts.get(smaller, 0) + n
    return tuple(counts.items())


def _closed(parts: Parts, epsilon: Fraction) -> Enclosure | None:
    """Where nothing is left to compose."""
    loss = total_of(parts, "largest_loss")
    if loss is not None and epsilon >= loss:
        return Enclosure(_ZERO, _ZERO)
    if len(parts) == 1 and parts[0][1] == 1:
        return parts[0][0].delta_at(epsilon)
    return None


@lru_cache(maxsize=64)
def _simply(parts: Parts, epsilon: Fraction) -> Fraction:
    """By moments, and by the conversion of the total rho."""
    rho = total_of(parts, "concentrated")
    if not rho:
        return _ONE
    found = ZeroConcentratedDP(shortened(rho)).delta_at(epsilon).upper
    try:
        return min(found, chernoff(parts, epsilon))
    except (ArithmeticError, ValueError):
        return found


@lru_cache(maxsize=64)
def _paired(parts: Parts, epsilon: Fraction, fineness: float) -> Enclosure:
    """Of the pairs that the parts stand for; and at least what one of them reaches."""
    found = _closed(parts, epsilon) or mixed(parts, epsilon)
    if found is not None:
        return found
    if all(_size(part) <= _MOST_LOSS for part, _ in parts):
        try:
            laws = composition(tuple((_weaker(part), n) for part, n in parts), fineness)
            found = on_lattice(laws, epsilon) if laws.lattice else inverted(laws, epsilon)
        except (ArithmeticError, ValueError):  # beyond what floats can choose
            found = None
    low = max((part.delta_at(epsilon).lower for part, _ in parts), default=_ZERO)
    if found is None or found.upper < low:  # no composition has less than one of its parts
        return Enclosure(low, _ONE)
    return Enclosure(max(low, found.lower), found.upper)


def _weaker(part: Guarantee) -> Guarantee:
    """A guarantee that follows, of parameters that floats tell from nothing. (Pairs with closed transforms need none.)"""
    if isinstance(part, SmoothLaplace):
        return SmoothLaplace(max(part.shift, _FINEST), max(part.growth, 1 + _FINEST))
    return BoundedRange(max(part.epsilon, _SHORTEST)) if isinstance(part, BoundedRange) else part


def _size(part: Guarantee) -> Fraction:
    """What of a part must stay within the reach of floats that choose."""
    if isinstance(part, SmoothLaplace):
        return max(part.shift, part.growth)
    return part.concentrated or _ZERO
