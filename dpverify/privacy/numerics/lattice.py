"""Compositions of losses on one lattice: polynomials, multiplied in ball arithmetic.

Ends of a product that hold almost nothing are left out; so are infinite losses. With K the mass that is kept
and W the mass of all, W - K bounds what that takes from any value of the profile, at any epsilon.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import accumulate

from flint import arb, arb_poly

from dpverify.privacy.balls import SMALLEST, Enclosure, ball, rational, working_precision
from dpverify.privacy.guarantees.approximate import PureDP
from dpverify.privacy.guarantees.base import Guarantee
from dpverify.privacy.guarantees.noise import DiscreteLaplaceShift
from dpverify.privacy.numerics.chords import Chords
from dpverify.privacy.numerics.laws import Composition

_PRECISION = 256
_CUT = arb(2) ** -200
_MOST = 1 << 20
_ZERO, _ONE = Fraction(0), Fraction(1)


def on_lattice(laws: Composition, epsilon: Fraction) -> Enclosure:
    """delta(epsilon): the sum of p (1 - e^(epsilon - l)) over losses l above epsilon."""
    lowest, masses, weighted, lost = _table(laws)
    step = laws.lattice
    first = max((epsilon - lowest) // step + 1, 0)
    if first >= len(masses):
        value = arb(0)
    else:
        with working_precision(_PRECISION + int(epsilon).bit_length()):
            value = masses[first] - ball(epsilon - lowest - first * step).exp() * weighted[first]
    with working_precision(_PRECISION):
        upper, lower = (value + lost).upper(), value.lower()
        if not (upper.is_finite() and lower.is_finite()):
            raise ArithmeticError("the precision is not enough")
        return Enclosure(
            rational(lower) if lower > ball(SMALLEST) else _ZERO,
            min(rational(upper), _ONE) if upper > ball(SMALLEST) else SMALLEST,
        )


Table = tuple[Fraction, list[arb], list[arb], arb]


@lru_cache(maxsize=12)
def _table(laws: Composition) -> Table:
    """The lowest loss l_0; for each j the sums over i >= j of p_i, and of p_i e^(l_j - l_i); W - K."""
    with working_precision(_PRECISION):
        lowest, whole, heap = _ZERO, arb(1), []
        for i, ((part, times), chords) in enumerate(zip(laws.parts, laws.chords, strict=True)):
            one, bottom, mass = _law(part, chords, laws.lattice)
            power, start = _power(one, times)
            lowest += times * bottom + start * laws.lattice
            whole *= mass**times
            heap.append((power.length(), i, power))
        heapify(heap)
        while len(heap) > 1:  # the shortest first
            joint, cut = _trimmed(heappop(heap)[2] * heappop(heap)[2])
            lowest += cut * laws.lattice
            heappush(heap, (joint.length(), len(laws.parts) + len(heap), joint))
        found = heap[0][2].coeffs()[::-1]
        decay = ball(-laws.lattice).exp()
        weighted = list(accumulate(found, lambda total, mass: mass + decay * total))
        masses = list(accumulate(found))
        return lowest, masses[::-1], weighted[::-1], whole - masses[-1]


def _law(part: Guarantee, chords: Chords | None, step: Fraction) -> tuple[arb_poly, Fraction, arb]:
    """Masses of finite losses by lattice points, the lowest of these losses, and the whole mass."""
    if chords is not None:
        masses, spacing, lowest = chords.masses.coeffs(), chords.mesh, chords.lowest * chords.mesh
        whole = sum(masses, chords.infinite)
    else:
        whole = arb(1)
        if isinstance(part, PureDP):
            yes = 1 / (1 + ball(-part.epsilon).exp())
            masses, spacing, lowest = [1 - yes, yes], 2 * part.epsilon, -part.epsilon
        else:
            assert isinstance(part, DiscreteLaplaceShift)
            law = part.masses()
            masses, spacing = [law[i] for i in sorted(law)], 2 / part.scale
            lowest = -part.epsilon
    stride = int(spacing / step)
    if (len(masses) - 1) * stride > _MOST:
        raise ArithmeticError(f"{part} has too many losses on one lattice")
    coefficients = [arb(0)] * ((len(masses) - 1) * stride + 1)
    coefficients[::stride] = masses
    return arb_poly(coefficients), lowest, whole


def _power(one: arb_poly, times: int) -> tuple[arb_poly, int]:
    """``times`` copies, and at how many times the lattice step above all lowest losses they begin."""
    found, start = one, 0
    if one.length() * times > 16 * _MOST:
        raise ArithmeticError(f"{times} parts have too many losses on one lattice")
    for bit in bin(times)[3:]:
        found, cut = _trimmed(found * found)
        start = 2 * start + cut
        if bit == "1":
            found, cut = _trimmed(found * one)
            start += cut
    return found, start


def _trimmed(masses: arb_poly) -> tuple[arb_poly, int]:
    """Without what is at both ends and little in all; and how many are gone below."""
    kept = masses.coeffs()
    ends = []
    for side in (kept, kept[::-1]):
        total, end = arb(0), 0
        while end < len(side) - 1 and total + side[end] < _CUT:
            total += side[end]
            end += 1
        ends.append(end)
    return arb_poly(kept[ends[0] : len(kept) - ends[1]]), ends[0]
