"""Upper bounds for families without one worst pair: chords of their profile on a mesh.

The chords between multiples of the mesh are the profile of a symmetric pair with losses at
those multiples, which dominates the family. Domination needs no total mass (proof in
spec/theory/rules.py), so each mass is rounded up, and a negative one, where the profile is not
convex, to 0. Floats decide which multiples are kept, and prove nothing: chords between any of
them lie above a convex profile, and the largest convex function below a bound lies below the
chords.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from flint import arb, arb_poly

from dpverify.privacy.balls import ball, working_precision
from dpverify.privacy.guarantees.base import Guarantee
from dpverify.privacy.guarantees.concentrated import ZeroConcentratedDP
from dpverify.privacy.numbers import to_float
from dpverify.privacy.numerics.lattice import Atoms
from dpverify.privacy.numerics.laws import bits_of
from dpverify.privacy.numerics.meshes import reach_of

_PRECISION = 160
_MOST = 1 << 13
_LARGEST = 600.0  # largest exponent that floats hold


def chords_above(part: Guarantee, mesh: Fraction) -> Atoms:
    """Return the symmetric pair of the chords.

    Beyond the last multiple the profile stays what it is there.
    """
    last = max(math.ceil(reach_of(part) / to_float(mesh)), 1)
    if last > _MOST:
        raise ArithmeticError(f"{part} reaches too far for a mesh of {float(mesh):.3g}")
    with working_precision(_PRECISION + bits_of(((part, 1),))):
        values = [_above(part, k * mesh).upper() for k in range(last + 1)]
        if not all(value.is_finite() for value in values):
            raise ArithmeticError(f"the precision is not enough for {part}")
        values[0] = _at_zero(values, mesh).upper()
        kept = _hull([float(value) for value in values], to_float(mesh))
        masses = [arb(0)] * (2 * last + 1)
        for k, mass in zip(kept, _masses([values[k] for k in kept], kept, mesh), strict=True):
            masses[last + k] = mass.upper()
            masses[last - k] = (mass * ball(-k * mesh).exp()).upper()
        return Atoms(mesh, -last * mesh, arb_poly(masses), values[-1])


def _above(part: Guarantee, epsilon: Fraction) -> arb:
    """Return an upper bound of the part's profile."""
    if isinstance(part, ZeroConcentratedDP):
        return _converted(part.rho, epsilon)
    return part.delta_ball(epsilon)


def _converted(rho: Fraction, epsilon: Fraction) -> arb:
    """Return the conversion of zCDP (CKS20, Proposition 12) at one order, 1 + t; any t > 0 is
    sound.

    The exponent's derivative (2 t + 1) rho - epsilon - ln(1 + 1 / t) is concave, so Newton's
    steps from the left stay there.
    """
    r, e = to_float(rho), to_float(epsilon)
    t = max((e - r) / (2 * r), 1 / math.expm1(min(max(r, e, 1e-9) + r, _LARGEST)))
    for _ in range(60):
        step = ((2 * t + 1) * r - e - math.log1p(1 / t)) / (2 * r + 1 / (t * (1 + t)))
        t = max(t - step, t / 2)
        if abs(step) < 1e-9 * t:
            break
    order = arb(t)
    exponent = order * ((1 + order) * ball(rho) - ball(epsilon))
    return (exponent - order * (1 / order).log1p() - order.log1p()).exp().min(arb(1))


def _at_zero(values: Sequence[arb], mesh: Fraction) -> arb:
    """Return what (e, delta)-DP says of epsilon = 0, at the best e.

    A profile that is only a bound may give a larger value there.
    """
    step = to_float(mesh)
    deltas = [float(d) + (1 - float(d)) * math.tanh(k * step / 2) for k, d in enumerate(values)]
    k = min(range(len(deltas)), key=deltas.__getitem__)
    return values[k] + (1 - values[k]) * (ball(k * mesh) / 2).tanh()


def _hull(values: Sequence[float], mesh: float) -> list[int]:
    """Return the multiples that are corners of the largest convex function of e^epsilon below
    the values.
    """
    kept: list[int] = []
    for k, value in enumerate(values):
        while len(kept) > 1:
            a, b = kept[-2], kept[-1]
            near, far = (math.expm1(min(n * mesh, _LARGEST)) for n in (b - a, k - b))
            # Slopes in units of e^(a mesh): the second one shrinks by e^((b - a) mesh).
            if (values[b] - values[a]) / near <= (value - values[b]) / far / (1 + near):
                break
            kept.pop()
        kept.append(k)
    return kept


def _masses(values: Sequence[arb], nodes: Sequence[int], mesh: Fraction) -> list[arb]:
    """Return the masses of the losses at the nodes: the rise of the slope in e^epsilon there,
    times e^epsilon.

    phi(g) = E (1 - g e^-L)_+ has a corner at e^l for each loss l. Symmetric: phi(1 / g) = 1 -
    1 / g + phi(g) / g, so the first slope left of 1 follows from the second value.
    """
    masses = []
    for i, k in enumerate(nodes):
        mass = arb(0)
        if i + 1 < len(nodes):
            mass = (values[i + 1] - values[i]) / ball((nodes[i + 1] - k) * mesh).expm1()
        behind = nodes[i - 1] if i else -nodes[1]
        before = values[i - 1] if i else _mirrored(values[1], nodes[1] * mesh)
        mass += (values[i] - before) / ball((behind - k) * mesh).expm1()
        masses.append(mass.max(arb(0)))
    return masses


def _mirrored(value: arb, epsilon: Fraction) -> arb:
    """Return phi(e^-epsilon) of a symmetric pair from phi(e^epsilon)."""
    shrink = ball(-epsilon).exp()
    return 1 - shrink + shrink * value
