"""Compositions of losses on one lattice: polynomials, multiplied in ball arithmetic.

Ends of a product that hold almost nothing are left out; so are infinite losses. With K the mass
that is kept and W the mass of all, W - K bounds what that takes from any value of the profile,
at any epsilon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import accumulate

from flint import arb, arb_poly

from dpverify.privacy.balls import SMALLEST, Enclosure, ball, rational, working_precision
from dpverify.privacy.guarantees.approximate import PureDP
from dpverify.privacy.guarantees.base import Guarantee
from dpverify.privacy.guarantees.noise import DiscreteLaplaceShift
from dpverify.privacy.guarantees.parts import Parts

PRECISION = 256
_CUT = arb(2) ** -200
_MOST = 1 << 20
_MOST_ATOMS = 1 << 16
_ZERO, _ONE = Fraction(0), Fraction(1)


@dataclass(frozen=True, slots=True, eq=False)
class Atoms:
    """Masses under P of the losses lowest + i * step, as coefficients, and of an infinite loss."""

    step: Fraction
    lowest: Fraction
    masses: arb_poly
    infinite: arb


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Sums over the upper atoms of a lattice, from each one on, and the mass of no atom.

    Over i >= j: the sums of the masses p_i of losses l_i = lowest + i * step, and of p_i
    e^(l_j - l_i).
    """

    step: Fraction
    lowest: Fraction
    masses: list[arb]
    weighted: list[arb]
    lost: arb

    def at(self, x: Fraction) -> arb:
        """Return the sum of p (1 - e^(x - l)) over losses l above x, of either sign."""
        first = max((x - self.lowest) // self.step + 1, 0)
        if first >= len(self.masses):
            return arb(0)
        above = ball(x - self.lowest - first * self.step).exp()
        return self.masses[first] - above * self.weighted[first]


def composed(laws: Sequence[tuple[Atoms, int]], step: Fraction) -> Table:
    """Compose all laws, each as often as its number says; all are on lattices of this step."""
    lowest, whole, heap = _ZERO, arb(1), [(1, -1, arb_poly([1]))]
    for i, (atoms, times) in enumerate(laws):
        one, cut = _trimmed(atoms.masses)
        power, start = _power(one, times)
        lowest += times * (atoms.lowest + cut * step) + start * step
        whole *= (atoms.masses(1) + atoms.infinite) ** times
        heap.append((power.length(), i, power))
    heapify(heap)
    while len(heap) > 1:  # multiply the shortest first
        joint, cut = _trimmed(heappop(heap)[2] * heappop(heap)[2])
        lowest += cut * step
        heappush(heap, (joint.length(), len(laws) + len(heap), joint))
    coefficients = heap[0][2].coeffs()[::-1]
    decay = ball(-step).exp()
    weighted = list(accumulate(coefficients, lambda total, mass: mass + decay * total))
    masses = list(accumulate(coefficients))
    return Table(step, lowest, masses[::-1], weighted[::-1], whole - masses[-1])


def ends(lower: arb, upper: arb) -> Enclosure:
    """Enclose a probability.

    Returns 0 and ``SMALLEST`` for one below that, where a rational would be very long, and
    0 and 1 where the precision is not enough.
    """
    if not (upper.is_finite() and lower.is_finite()):
        return Enclosure(_ZERO, _ONE)
    lower, upper = lower.lower(), upper.upper()
    return Enclosure(
        min(rational(lower), _ONE) if lower > ball(SMALLEST) else _ZERO,
        min(rational(upper), _ONE) if upper > ball(SMALLEST) else SMALLEST,
    )


def on_lattice(parts: Parts, step: Fraction, epsilon: Fraction) -> Enclosure | None:
    """Return delta(epsilon) of parts whose losses differ by multiples of ``step``; None for too
    many.
    """
    table = _table(parts, step)
    if table is None:
        return None
    with working_precision(PRECISION + int(epsilon).bit_length()):
        value = table.at(epsilon)
        return ends(value, value + table.lost)


@lru_cache(maxsize=12)
def _table(parts: Parts, step: Fraction) -> Table | None:
    try:
        with working_precision(PRECISION):
            return composed([(_atoms(part, step), times) for part, times in parts], step)
    except ArithmeticError:
        return None


def _atoms(part: Guarantee, step: Fraction) -> Atoms:
    """Return the losses of the part's worst pair."""
    if isinstance(part, DiscreteLaplaceShift) and part.shift > _MOST_ATOMS:
        raise ArithmeticError(f"{part} has too many losses to be named")
    law = law_of(part)
    stride = int((law[1][0] - law[0][0]) / step)
    if (len(law) - 1) * stride > _MOST:
        raise ArithmeticError(f"{part} has too many losses on one lattice")
    coefficients = [arb(0)] * ((len(law) - 1) * stride + 1)
    coefficients[::stride] = [mass for _, mass in law]
    return Atoms(step, law[0][0], arb_poly(coefficients), arb(0))


def law_of(part: Guarantee) -> list[tuple[Fraction, arb]]:
    """Return the losses of the worst pair of a part with atoms, and P's masses, the lowest
    first.
    """
    if isinstance(part, PureDP):
        yes = 1 / (1 + ball(-part.epsilon).exp())
        return [(-part.epsilon, yes * ball(-part.epsilon).exp()), (part.epsilon, yes)]
    assert isinstance(part, DiscreteLaplaceShift)
    return [(i / part.scale, mass) for i, mass in sorted(part.masses().items())]


def _power(one: arb_poly, times: int) -> tuple[arb_poly, int]:
    """Return the law of ``times`` copies, and where it begins, in lattice steps above all
    lowest losses.
    """
    power, start = one, 0
    if one.length() * times > 16 * _MOST:
        raise ArithmeticError(f"{times} parts have too many losses on one lattice")
    for bit in bin(times)[3:]:
        power, cut = _trimmed(power * power)
        start = 2 * start + cut
        if bit == "1":
            power, cut = _trimmed(power * one)
            start += cut
    return power, start


def _trimmed(masses: arb_poly) -> tuple[arb_poly, int]:
    """Leave out what is at both ends and little in all; return also how many are gone below."""
    kept = masses.coeffs()
    cuts = []
    for side in (kept, kept[::-1]):
        total, end = arb(0), 0
        while end < len(side) - 1 and total + side[end] < _CUT:
            total += side[end]
            end += 1
        cuts.append(end)
    return arb_poly(kept[cuts[0] : len(kept) - cuts[1]]), cuts[0]
