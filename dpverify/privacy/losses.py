"""Privacy loss distributions on a grid, with integer masses, rounded to one side throughout.

A pair of measures P, Q is written as P's masses of the privacy loss l = ln dP/dQ, on multiples of a
mesh, in units of 2^-bits, and the mass where Q has nothing (infinite loss). It stands for the profile
phi(g) = sup_S P(S) - g Q(S) = infinite + sum over losses of mass * max(0, 1 - g e^-l), g > 0, a
decreasing convex function with corners at e^l.

If phi_i <= psi_i for each i, then the profile of the product of the pairs phi_i is at most that of
the pairs psi_i, adaptively as well: phi is a mixture of functions max(0, t - g), and for each of them
the product is a profile of the other factors. This needs no total mass, so a mass may be rounded,
moved or dropped, as long as it is always in the same direction. ``upper`` says which.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import count, pairwise
from math import gcd

from flint import arb, fmpz, fmpz_poly

from dpverify.privacy.balls import ball, rational, working_precision

_NOISE_BITS = 20
"""Tails of at most 2^20 units are cut: an upper bound counts them as infinite losses."""
_GUARD = 96
_TINY_SHARE = arb(2) ** -4000


@dataclass(frozen=True, slots=True)
class Losses:
    """P's masses of the losses (lowest + i) * mesh, i = 0, 1, ..., in units of 2^-bits."""

    mesh: Fraction
    bits: int
    upper: bool
    lowest: int
    masses: fmpz_poly
    infinite: fmpz

    @property
    def highest(self) -> int:
        """Index of the largest finite loss."""
        return self.lowest + len(self.masses) - 1


def from_masses(spacing: Fraction, masses: Mapping[int, arb], *, bits: int, upper: bool) -> Losses:
    """Atoms at multiples of ``spacing``; the balls are at the working precision."""
    lowest = min(masses)
    units = [fmpz(0)] * (max(masses) - lowest + 1)
    for index, mass in masses.items():
        units[index - lowest] = rounded(mass, bits, upper)
    return Losses(spacing, bits, upper, lowest, fmpz_poly(units), fmpz(0))


def from_corners(mesh: Fraction, corners: Mapping[int, arb], *, bits: int, upper: bool) -> Losses:
    """The symmetric pair whose profile is linear between the values ``corners[k]`` at e^(k mesh).

    Corners are given for k = 0 to the last; beyond it the profile is constant. Symmetric: a loss l
    has mass p under P and -l has mass p e^-l. A convex profile has no negative mass; for an upper
    bound a negative one is rounded to 0, for a lower bound it is an error.
    """
    nodes = sorted(corners)
    steps = {b - a for a, b in pairwise(nodes)}
    growth = {step: ball(step * mesh).expm1() for step in steps}  # e^(step mesh) - 1
    decay = {step: -ball(-step * mesh).expm1() for step in steps}
    masses: dict[int, arb] = {}
    for i, k in enumerate(nodes):
        mass = arb(0)
        if i + 1 < len(nodes):
            ahead = nodes[i + 1]
            mass += (corners[ahead] - corners[k]) / growth[ahead - k]
        behind = nodes[max(i - 1, 0)] if k else -nodes[1]
        value = corners[behind] if behind >= 0 else _mirrored(corners[-behind], -behind * mesh)
        mass -= (corners[k] - value) / decay[k - behind]
        if not upper and not mass > -(arb(2) ** -(bits + 8)):
            raise ArithmeticError("a lower bound of a profile is not convex")
        masses[k] = mass
        if k:
            masses[-k] = mass * ball(-k * mesh).exp()
    infinite = rounded(corners[nodes[-1]], bits, upper)
    atoms = from_masses(mesh, masses, bits=bits, upper=upper)
    return Losses(mesh, bits, upper, atoms.lowest, atoms.masses, infinite)


def _mirrored(value: arb, epsilon: Fraction) -> arb:
    """phi(e^-epsilon) of a symmetric pair from phi(e^epsilon)."""
    shrink = ball(-epsilon).exp()
    return 1 - shrink + shrink * value


def rounded(mass: arb, bits: int, upper: bool) -> fmpz:
    """In units of 2^-bits, to the side wanted, at least 0."""
    scaled = mass * arb(2) ** bits
    if scaled < 1:  # as a rational it could be very long
        return fmpz(int(upper and not scaled <= 0))
    end = rational(scaled.upper() if upper else scaled.lower())
    whole = -(-end.numerator // end.denominator) if upper else end.numerator // end.denominator
    return fmpz(max(whole, 0))


def regrid(losses: Losses, mesh: Fraction) -> Losses:
    """The same on another mesh.

    Losses that fall between two multiples are moved down for a lower bound. For an upper bound they
    are shared between the two so that Q's mass is kept as well: the profile becomes its chord.
    """
    if losses.mesh == mesh:
        return losses
    ratio, bits, upper = losses.mesh / mesh, losses.bits, losses.upper
    found: dict[int, fmpz] = {}
    shares: dict[Fraction, tuple[fmpz, fmpz]] = {}
    for i, mass in enumerate(losses.masses.coeffs()):
        if mass == 0:
            continue
        position = (losses.lowest + i) * ratio
        below = position.numerator // position.denominator
        part = position - below
        if not part or not upper:
            found[below] = found.get(below, fmpz(0)) + mass
            continue
        if part not in shares:
            shares[part] = _share(part, mesh, bits)
        low, high = shares[part]
        found[below + 1] = found.get(below + 1, fmpz(0)) - ((-mass * high) >> bits)
        found[below] = found.get(below, fmpz(0)) + mass - ((mass * low) >> bits)
    lowest = min(found, default=0)
    units = [fmpz(0)] * (max(found, default=0) - lowest + 1)
    for index, mass in found.items():
        units[index - lowest] = mass
    return Losses(mesh, bits, upper, lowest, fmpz_poly(units), losses.infinite)


def _share(part: Fraction, mesh: Fraction, bits: int) -> tuple[fmpz, fmpz]:
    """The share that goes to the multiple above, from below and from above, in 2^-bits."""
    with working_precision(bits + _GUARD):
        share = ball(-part * mesh).expm1() / ball(-mesh).expm1()
        return rounded(share, bits, False), rounded(share, bits, True)


def product(a: Losses, b: Losses) -> Losses:
    """Both outputs together: losses add up, masses multiply."""
    bits, upper = a.bits, a.upper
    whole = (a.masses * b.masses).coeffs()
    masses = [-((-m) >> bits) for m in whole] if upper else [m >> bits for m in whole]
    both = a.infinite * (b.masses(1) + b.infinite) + a.masses(1) * b.infinite
    infinite = -((-both) >> bits) if upper else fmpz(0)
    return _trimmed(Losses(a.mesh, bits, upper, a.lowest + b.lowest, fmpz_poly(masses), infinite))


def _trimmed(losses: Losses) -> Losses:
    """Without the noise at both ends: an upper bound moves it up, a lower bound drops it."""
    masses, limit = losses.masses.coeffs(), fmpz(1 << _NOISE_BITS)
    top, above = len(masses), fmpz(0)
    while top > 1 and above + masses[top - 1] <= limit:
        top -= 1
        above += masses[top]
    bottom, below = 0, fmpz(0)
    while bottom < top - 1 and below + masses[bottom] <= limit:
        below += masses[bottom]
        bottom += 1
    kept, infinite = masses[bottom:top], losses.infinite
    if losses.upper:
        kept[0] += below
        infinite += above
    lowest = losses.lowest + bottom
    return Losses(losses.mesh, losses.bits, losses.upper, lowest, fmpz_poly(kept), infinite)


def power(losses: Losses, times: int) -> Losses:
    """``times`` independent copies: squares, and now and then one more copy (short, so cheap)."""
    result = losses
    for bit in bin(times)[3:]:
        result = product(result, result)
        if bit == "1":
            result = product(result, losses)
    return result


def product_of(parts: Iterable[Losses]) -> Losses:
    """All together, the shortest first."""
    ticket = count()
    heap = [(len(part.masses), next(ticket), part) for part in parts]
    heapq.heapify(heap)
    while len(heap) > 1:
        (_, _, a), (_, _, b) = heapq.heappop(heap), heapq.heappop(heap)
        joint = product(a, b)
        heapq.heappush(heap, (len(joint.masses), next(ticket), joint))
    return heap[0][2]


def common_mesh(spacings: Iterable[Fraction]) -> Fraction:
    """The largest number of which all are multiples."""

    def both(a: Fraction, b: Fraction) -> Fraction:
        over = gcd(a.numerator * b.denominator, b.numerator * a.denominator)
        return Fraction(over, a.denominator * b.denominator)

    return reduce(both, spacings)


class ProfileTable:
    """The profile of ``Losses`` at e^(k mesh), k = 0, 1, ..., rounded to its side."""

    def __init__(self, losses: Losses) -> None:
        self.mesh, self.upper = losses.mesh, losses.upper
        self.unit = Fraction(1, 1 << (losses.bits + _GUARD))
        self._infinite = int(losses.infinite) << _GUARD
        self._nodes = self._build(losses)
        with working_precision(losses.bits + _GUARD):
            self._growth = ball(self.mesh).expm1()

    def _build(self, losses: Losses) -> list[int]:
        """D_(k-1) = A_k - e^-mesh B_k with A_k, B_k the sums over j >= k of p_j, p_j e^((k-j) mesh)."""
        shift = losses.bits + _GUARD
        with working_precision(shift + 32):
            decay = int(rounded(ball(-losses.mesh).exp(), shift, not losses.upper))
        masses = [int(m) << _GUARD for m in losses.masses.coeffs()]
        total, weighted, nodes = self._infinite, 0, [self._infinite]
        for k in range(losses.highest, 0, -1):
            mass = masses[k - losses.lowest] if k >= losses.lowest else 0
            total += mass
            weighted = mass + _times(decay, weighted, shift, not losses.upper)
            nodes.append(max(total - _times(decay, weighted, shift, not losses.upper), 0))
        nodes.reverse()
        return nodes

    def __len__(self) -> int:
        return len(self._nodes)

    def node(self, k: int) -> Fraction:
        """The value at e^(k mesh)."""
        return self._nodes[min(k, len(self._nodes) - 1)] * self.unit

    def at(self, epsilon: Fraction) -> Fraction:
        """The value at e^epsilon: between two corners it is linear in e^epsilon."""
        position = epsilon / self.mesh
        k = position.numerator // position.denominator
        if k >= len(self._nodes) - 1:
            return self._infinite * self.unit
        left, right = self.node(k), self.node(k + 1)
        with working_precision(128):
            share = ball(epsilon - k * self.mesh).expm1() / ball(self.mesh).expm1()
            if share < _TINY_SHARE:  # as a rational it could be very long
                part = Fraction(0) if self.upper else rational(_TINY_SHARE)
            else:
                way = share.lower() if self.upper else share.upper()
                part = min(max(rational(way), Fraction(0)), Fraction(1))
        return left + part * (right - left)


def _times(a: int, b: int, shift: int, up: bool) -> int:
    return -((-a * b) >> shift) if up else (a * b) >> shift
