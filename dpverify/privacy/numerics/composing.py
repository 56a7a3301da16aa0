"""The profile delta(epsilon) of parts together, from both sides: the best of all that is known.

Parts that have a worst pair with a transform are composed as that pair, both ends from one
enclosure. With families among them (zCDP, bounded ranges, noise whose scale follows the data)
the upper end holds for all mechanisms with these guarantees, from pairs that dominate them and
from moments; the lower end is that of one such mechanism.
"""

from __future__ import annotations

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
from dpverify.privacy.numerics import rounding
from dpverify.privacy.numerics.fourier import CLOSELY, inverted
from dpverify.privacy.numerics.lattice import on_lattice
from dpverify.privacy.numerics.laws import composition, square_of
from dpverify.privacy.numerics.meshes import FINENESS, extent_of, lattice_of
from dpverify.privacy.numerics.moments import chernoff, mixed

_COARSE = 20.0
_LITTLE_WORK = 50_000
_CLOSE = 1 + Fraction(1, 1000)
_MOST_POINTS = 1 << 16
_MOST_LOSS = Fraction(1 << 40)  # a part beyond it is not composed: its delta is at most 1
_FINEST, _SHORTEST = Fraction(1, 1 << 40), Fraction(1, 1 << 300)
_FAMILIES = (ZeroConcentratedDP, BoundedRange, SmoothLaplace)
_ZERO, _ONE = Fraction(0), Fraction(1)


def delta(parts: Parts, epsilon: Fraction, *, rough: bool = False) -> Enclosure:
    """Return the profile at ``epsilon`` >= 0; the upper end is safe.

    rough: coarsely, for searches.
    """
    known = _closed(parts, epsilon)
    if known is not None:
        return known
    high = above(parts, epsilon, rough=rough)
    low = _ZERO if rough else below(parts, epsilon, closely=True)
    if high > low * _CLOSE and not rough and not _families(parts) and _composable(parts):
        profile = inverted(composition(parts), epsilon, CLOSELY) or Enclosure(low, high)
        low, high = max(low, profile.lower), min(high, profile.upper)
    return Enclosure(low, high) if low <= high else Enclosure(_ZERO, _ONE)


def is_at_most(parts: Parts, epsilon: Fraction, bound: Fraction) -> bool:
    """Return whether the profile at ``epsilon`` is proven to be at most ``bound``.

    Cheap bounds come first.
    """
    known = _closed(parts, epsilon)
    if known is not None:
        return known.upper <= bound
    if _simply(parts, epsilon) <= bound:
        return True
    if not bound or below(parts, epsilon) > bound:
        return False
    return above(parts, epsilon) <= bound or delta(parts, epsilon).upper <= bound


def above(parts: Parts, epsilon: Fraction, *, rough: bool = False) -> Fraction:
    """Return at least the profile of every mechanism with these guarantees."""
    fineness = _COARSE if rough else FINENESS
    ways = {parts, concentrated_ranges(parts)}
    return min(_simply(parts, epsilon), *(_dominated(way, epsilon, fineness) for way in ways))


def below(parts: Parts, epsilon: Fraction, *, closely: bool = False) -> Fraction:
    """Return at most the profile of some mechanism with these guarantees.

    The mechanism need not be the same at every epsilon.
    """
    profile, pairs = None, _attaining(parts)
    if closely and _families(parts) and _composable(pairs):
        profile = _exact(pairs, epsilon, within=False)
        profile = profile or inverted(composition(pairs), epsilon, work=_LITTLE_WORK)
    ranges = tuple(p for p in parts if isinstance(p[0], BoundedRange))
    return max((profile or attained(parts, epsilon)).lower, _alone(ranges, epsilon))


@lru_cache(maxsize=64)
def attained(parts: Parts, epsilon: Fraction) -> Enclosure:
    """Return the profile of one mechanism with these guarantees.

    For zCDP that is Gaussian noise, for a bounded range randomized response of half the length;
    for noise whose scale follows the data it is the side of the middle on which the noise is,
    which has odds of more than e^(shift / 2).
    """
    pairs = _attaining(parts)
    profile = _exact(pairs, epsilon, within=not _families(parts))
    if profile is None and _families(parts):  # else the pairs at one epsilon, and less at another
        profile = rounding.reached(pairs, epsilon)
    return profile or Enclosure(_alone(pairs, epsilon), _ONE)


def _alone(parts: Parts, epsilon: Fraction) -> Fraction:
    """Return the largest lower end among the parts' own profiles; 0 where one cannot be
    enclosed.
    """
    try:
        return max((part.delta_at(epsilon).lower for part, _ in parts), default=_ZERO)
    except ArithmeticError:
        return _ZERO


@lru_cache(maxsize=64)
def _attaining(parts: Parts) -> Parts:
    """Return mechanisms with these guarantees that are pairs with a law in closed form."""
    counts: dict[Guarantee, int] = {}
    for part, times in parts:
        try:
            one = _attaining_one(part)
        except ValueError:  # half of a parameter of the most digits: nothing, which is less
            continue
        counts[one] = counts.get(one, 0) + times
    apart, together = tuple(counts.items()), tuple(merged(counts).items())
    # A sum that was too long is rounded up, which is a mechanism with less privacy.
    return together if square_of(together) == square_of(apart) else apart


def _attaining_one(part: Guarantee) -> Guarantee:
    if isinstance(part, ZeroConcentratedDP):
        return GaussianDP.of_square(2 * part.rho)
    if isinstance(part, BoundedRange):
        return PureDP(part.epsilon / 2)
    return PureDP(part.shift / 2) if isinstance(part, SmoothLaplace) else part


def _closed(parts: Parts, epsilon: Fraction) -> Enclosure | None:
    """Return the profile where nothing is left to compose, or few atoms; None elsewhere."""
    loss = total_of(parts, "largest_loss")
    if loss is not None and epsilon >= loss:
        return Enclosure(_ZERO, _ZERO)
    if len(parts) == 1 and parts[0][1] == 1:
        return parts[0][0].delta_at(epsilon)
    few = None if _families(parts) else mixed(parts, epsilon)
    return few if few is not None and few.lower else None


@lru_cache(maxsize=64)
def _simply(parts: Parts, epsilon: Fraction) -> Fraction:
    """Return an upper bound by moments, and by the conversion of the total rho."""
    rho = total_of(parts, "concentrated")
    if not rho:
        return _ONE
    bound = ZeroConcentratedDP(shortened(rho)).delta_at(epsilon).upper
    try:
        return min(bound, chernoff(parts, epsilon))
    except (ArithmeticError, ValueError):
        return bound


def _families(parts: Parts) -> bool:
    return any(isinstance(part, _FAMILIES) for part, _ in parts)


@lru_cache(maxsize=64)
def _dominated(parts: Parts, epsilon: Fraction, fineness: float) -> Fraction:
    """Return the upper end from pairs that dominate the parts."""
    profile = _exact(parts, epsilon, within=not _families(parts))
    if profile is not None:
        return profile.upper
    if not _composable(parts):
        return _ONE
    weaker = tuple((_weaker(part), times) for part, times in parts)
    return rounding.above(weaker, epsilon, fineness)


def _exact(parts: Parts, epsilon: Fraction, *, within: bool) -> Enclosure | None:
    """Return the profile of the worst pairs, from few atoms or one lattice; None where neither
    does.

    within: the transform is tried last.
    """
    profile = _closed(parts, epsilon) or mixed(parts, epsilon)
    if profile is not None or not _composable(parts):
        return profile
    step = lattice_of(parts)
    if step and extent_of(parts) <= _MOST_POINTS * step:
        return on_lattice(parts, step, epsilon)
    return inverted(composition(parts), epsilon) if within else None


def _weaker(part: Guarantee) -> Guarantee:
    """Return a guarantee that follows, with parameters that floats tell from nothing.

    Pairs with closed transforms need none.
    """
    if isinstance(part, SmoothLaplace):
        return SmoothLaplace(max(part.shift, _FINEST), max(part.growth, 1 + _FINEST))
    if isinstance(part, ZeroConcentratedDP):
        return ZeroConcentratedDP(max(part.rho, _SHORTEST))
    return BoundedRange(max(part.epsilon, _SHORTEST)) if isinstance(part, BoundedRange) else part


def _composable(parts: Parts) -> bool:
    """Return whether the parameters are within what floats can choose for."""
    return all(_size(part) <= _MOST_LOSS for part, _ in parts)


def _size(part: Guarantee) -> Fraction:
    if isinstance(part, SmoothLaplace):
        return max(part.shift, part.growth)
    return part.concentrated or _ZERO
