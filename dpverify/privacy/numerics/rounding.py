"""Compositions of any parts on one lattice, to which their losses are rounded.

For upper ends they are rounded apart, for lower ones toward zero. Upward, a loss between two
points of the lattice becomes either of them, with the masses that keep those of both P and Q:
the mean of the convex (1 - e^(x - l))_+ in e^-l only grows, for every x. Families and smooth
laws go through the chords of their profile. Toward zero, a symmetric pair is randomized
response of |L| where |L| is known; a smaller response is what it becomes by flipping its answer
now and then. That is a mechanism, with both its ends. Proofs are in spec/theory/rounding.py. A
few atoms that are far apart stay beside the lattice, exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from flint import arb, arb_poly

from dpverify.privacy.balls import Enclosure, ball, working_precision
from dpverify.privacy.guarantees.approximate import PureDP
from dpverify.privacy.guarantees.base import Guarantee
from dpverify.privacy.guarantees.gaussian import GaussianDP
from dpverify.privacy.guarantees.noise import DiscreteLaplaceShift
from dpverify.privacy.guarantees.parts import Parts
from dpverify.privacy.numerics.chords import chords_above
from dpverify.privacy.numerics.lattice import PRECISION, Atoms, Table, composed, ends, law_of
from dpverify.privacy.numerics.laws import bits_of
from dpverify.privacy.numerics.meshes import (
    FINENESS,
    MOST_NODES,
    MOST_POINTS,
    extent_of,
    has_atoms,
    mesh_of,
    reach_of,
    wanted_mesh,
)
from dpverify.privacy.numerics.moments import Losses, losses_of

_MOST_BESIDE = 1 << 6  # largest number of losses that are kept exact
_MOST_SPLIT = 1 << 9  # largest number of losses of one part that are split one by one
_FINER = 3.0  # rounding toward zero costs more than rounding apart
_MOST_STEPS = 1 << 16
_MOST_LENGTH = 1 << 19
_LEAST_NODES = 1 << 7


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """A few losses with their masses, and all others on a lattice."""

    losses: Losses
    table: Table

    def at(self, x: Fraction) -> arb:
        """Return the sum of p (1 - e^(x - l)) over losses l above x, of all together."""
        return sum((mass * self.table.at(x - loss) for loss, mass in self.losses), arb(0))


def above(parts: Parts, epsilon: Fraction, fineness: float) -> Fraction:
    """Return at least delta(epsilon) of all mechanisms with these guarantees."""
    raised = _raised(parts, fineness)
    if raised is None:
        return Fraction(1)
    with working_precision(PRECISION + int(epsilon).bit_length()):
        return ends(arb(0), raised.at(epsilon) + raised.table.lost).upper


def reached(parts: Parts, epsilon: Fraction) -> Enclosure | None:
    """Return delta(epsilon) of one mechanism with these guarantees, if one is known.

    The mechanism is the same at every epsilon.
    """
    lowered = _lowered(parts)
    if lowered is None:
        return None
    with working_precision(PRECISION + int(epsilon).bit_length()):
        value = lowered.at(epsilon)
        return ends(value, value + lowered.table.lost)


@lru_cache(maxsize=16)
def _raised(parts: Parts, fineness: float) -> Mixture | None:
    """Return a pair that dominates the parts; None beyond what floats can choose."""
    try:
        near, far = _split(parts, fineness)
        evaluated = tuple(p for p in near if not _is_split(p[0]))
        mesh = mesh_of(near, fineness, evaluated, MOST_POINTS)
        with working_precision(PRECISION + bits_of(parts)):
            laws = [(_apart(part, mesh), times) for part, times in near]
            return _mixture(far, laws, mesh)
    except (ArithmeticError, ValueError):
        return None


@lru_cache(maxsize=16)
def _lowered(parts: Parts) -> Mixture | None:
    """Return a pair that the parts' pairs can be turned into; None beyond what floats can
    choose.
    """
    try:
        near, far = _split(parts, _FINER * FINENESS)
        mesh = mesh_of(near, _FINER * FINENESS, (), MOST_POINTS)
        with working_precision(PRECISION + bits_of(parts)):
            nodes = max(MOST_NODES // len(near), _LEAST_NODES)
            laws = [(_toward_zero(part, mesh, nodes), times) for part, times in near]
            return _mixture(far, laws, mesh)
    except (ArithmeticError, ValueError):
        return None


def _mixture(far: Losses, laws: list[tuple[Atoms, int]], mesh: Fraction) -> Mixture:
    length = sum(times * atoms.masses.length() for atoms, times in laws)
    if length > _MOST_LENGTH:
        raise ArithmeticError(f"{length} losses on one lattice")
    return Mixture(far, composed(laws, mesh))


def _split(parts: Parts, fineness: float) -> tuple[Parts, Losses]:
    """Return the parts for the lattice, and the losses of the others.

    The farthest parts go to the lattice where the list of losses would be too long.
    """
    near, far = parts, Parts()
    while extent_of(near) > MOST_POINTS * wanted_mesh(near, fineness):
        atoms = [p for p in near if has_atoms(p[0])]
        farthest = max(atoms, key=lambda p: reach_of(p[0]), default=None)
        if len(near) == 1 or farthest is None or not losses_of((*far, farthest), _MOST_BESIDE):
            break
        near, far = tuple(p for p in near if p != farthest), (*far, farthest)
    return near, losses_of(far, _MOST_BESIDE) or ()


def _apart(part: Guarantee, mesh: Fraction) -> Atoms:
    """Return losses at multiples of the mesh that dominate the part's.

    Where there are atoms, the multiples count from the largest loss.
    """
    if not _is_split(part):
        return chords_above(part, mesh)
    law = law_of(part)
    top = law[-1][0]
    last = _steps(top - law[0][0], mesh) + 1
    masses = [arb(0)] * (last + 1)
    for loss, mass in law:
        k = (loss - top) // mesh
        share = ball(top + k * mesh - loss).expm1() / ball(-mesh).expm1()
        masses[last + k] += mass * (1 - share)
        if k:
            masses[last + k + 1] += mass * share
    return Atoms(mesh, top - last * mesh, arb_poly(masses), arb(0))


def _is_split(part: Guarantee) -> bool:
    """Return whether the part's few losses are split one by one; else its profile is evaluated."""
    few = not isinstance(part, DiscreteLaplaceShift) or part.shift <= _MOST_SPLIT
    return has_atoms(part) and few


def _steps(extent: Fraction, mesh: Fraction) -> int:
    """Return the number of meshes that fit; ArithmeticError for too many."""
    steps = extent // mesh
    if steps > _MOST_STEPS:
        raise ArithmeticError(f"losses {float(extent):.3g} apart on a lattice of {float(mesh):.3g}")
    return steps


def _toward_zero(part: Guarantee, mesh: Fraction, nodes: int = MOST_NODES) -> Atoms:
    """Return losses +-l at multiples of the mesh, with the mass of |L| from l to the next one.

    For a pure part the losses are +-l, l a multiple of half the mesh.
    """
    if isinstance(part, PureDP):
        steps = _steps(2 * part.epsilon, mesh)
        lowest = -steps * mesh / 2
        law = [arb(1)] if not steps else [m for _, m in law_of(PureDP(-lowest))]
        return Atoms(mesh, lowest, arb_poly(law[:1] + [arb(0)] * (steps - 1) + law[1:]), arb(0))
    whole = _steps(Fraction(reach_of(part)), mesh)
    stride = whole // nodes + 1
    last = whole // stride + 1
    beyond = [arb(1), *(_beyond(part, k * stride * mesh) for k in range(1, last + 1)), arb(0)]
    masses = [arb(0)] * (2 * last * stride + 1)
    for k in range(last + 1):
        odds = ball(-k * stride * mesh).exp()
        mass = (beyond[k] - beyond[k + 1]) / (1 + odds)
        masses[(last + k) * stride] += mass
        masses[(last - k) * stride] += mass * odds
    return Atoms(mesh, -last * stride * mesh, arb_poly(masses), arb(0))


def _beyond(part: Guarantee, loss: Fraction) -> arb:
    """Return P's mass of losses of at least this size, of either sign."""
    if isinstance(part, GaussianDP):
        size, mean, root = ball(loss), ball(part.mu_squared / 2), ball(2 * part.mu_squared).rsqrt()
        mass: arb = (((size - mean) * root).erfc() + ((size + mean) * root).erfc()) / 2
        return mass
    assert isinstance(part, DiscreteLaplaceShift)
    if loss > part.epsilon:
        return arb(0)
    # The loss of z is (shift - 2 z) / scale from 0 to the shift;
    # q^z / (1 + q) is the mass of z and beyond.
    near = (part.shift - loss * part.scale) / 2
    far = part.shift - near
    q = ball(-1 / part.scale).exp()
    tails = ball(-(near // 1 + 1) / part.scale).exp(), ball(far // -1 / part.scale).exp()
    return 1 - (tails[0] - tails[1]) / (1 + q)
