"""From guarantees to privacy loss distributions: which mesh, and which side of the profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from flint import arb, fmpz

from dpverify.privacy.balls import ball, working_precision
from dpverify.privacy.guarantees.approximate import PureDP
from dpverify.privacy.guarantees.base import Guarantee
from dpverify.privacy.guarantees.concentrated import ZeroConcentratedDP
from dpverify.privacy.guarantees.gaussian import GaussianDP
from dpverify.privacy.guarantees.noise import BoundedRange, DiscreteLaplaceShift
from dpverify.privacy.guarantees.parts import Parts
from dpverify.privacy.guarantees.smooth import SmoothLaplace
from dpverify.privacy.losses import (
    Losses,
    ProfileTable,
    from_corners,
    from_masses,
    power,
    product_of,
    regrid,
)
from dpverify.privacy.meshes import FINENESS, MOST_ATOMS, MOST_POINTS, meshes_of

_GUARD = 96
_SLACK_BITS = 30


@lru_cache(maxsize=12)
def profile_table(parts: Parts, bits: int, upper: bool, fineness: float = FINENESS) -> ProfileTable:
    """The composition of the parts, as a bound on one side; masses in units of 2^-bits."""
    return ProfileTable(composed(parts, bits=bits, upper=upper, fineness=fineness))


@lru_cache(maxsize=4)
def each_above(parts: Parts, bits: int) -> tuple[Losses, ...]:
    """An upper bound of each part alone, on a mesh of its own that suits the composition."""
    _, own_meshes = meshes_of(parts, bits, FINENESS)
    with working_precision(bits + _GUARD):
        return tuple(
            _discretized(part, mesh, bits, True)
            for (part, _), mesh in zip(parts, own_meshes, strict=True)
        )


def composed(parts: Parts, *, bits: int, upper: bool, fineness: float = FINENESS) -> Losses:
    """The losses of all the parts together."""
    mesh, own_meshes = meshes_of(parts, bits, fineness)
    found = []
    for (part, times), own_mesh in zip(parts, own_meshes, strict=True):
        with working_precision(bits + _GUARD):
            one = _discretized(part, own_mesh, bits, upper)
        if one.mesh == mesh:
            found.append(power(one, times))
        else:
            found.append(regrid(power(one, times), mesh))
    return product_of(found)


def _discretized(part: Guarantee, mesh: Fraction, bits: int, upper: bool) -> Losses:
    """One part; where the mesh or the precision is not enough, something simpler on the same side."""
    try:
        return _own_losses(part, mesh, bits, upper)
    except ArithmeticError:
        if not upper:  # no difference between neighbors at all
            return from_masses(mesh, {0: arb(1)}, bits=bits, upper=False)
        slack = 1 << _SLACK_BITS
        loss = part.epsilon_at(Fraction(slack, 1 << bits)).upper
        yes = 1 / (1 + ball(-loss).exp())
        pure = from_masses(loss, {1: yes, -1: 1 - yes}, bits=bits, upper=True)
        return replace(pure, infinite=fmpz(slack))


def _own_losses(part: Guarantee, mesh: Fraction, bits: int, upper: bool) -> Losses:
    if isinstance(part, PureDP):
        yes = 1 / (1 + ball(-part.epsilon).exp())
        return from_masses(part.epsilon, {1: yes, -1: 1 - yes}, bits=bits, upper=upper)
    if isinstance(part, DiscreteLaplaceShift) and part.shift <= MOST_ATOMS:
        return from_masses(1 / part.scale, part.masses(), bits=bits, upper=upper)
    if not upper:  # a mechanism that has this guarantee
        if isinstance(part, ZeroConcentratedDP):
            part = GaussianDP.of_square(2 * part.rho)
        elif isinstance(part, BoundedRange):
            return _own_losses(PureDP(part.epsilon / 2), mesh, bits, upper)
        elif isinstance(part, SmoothLaplace):
            return _own_losses(PureDP(part.shift / 2), mesh, bits, upper)
    corners = (_above if upper else _below)(part, mesh, bits)
    return from_corners(mesh, corners, bits=bits, upper=upper)


def _above(part: Guarantee, mesh: Fraction, bits: int) -> dict[int, arb]:
    """The profile at the multiples of the mesh: its chords lie above it.

    Of a bound that is not convex, points that stick out are left out: the true profile is convex
    and lies below the rest, so it lies below the chords of the rest.
    """
    last = _last(part, mesh, bits)
    values = [part.delta_ball(k * mesh) for k in range(last + 1)]
    if isinstance(part, SmoothLaplace):
        # Its profile is a bound near 0, where what holds in both directions lies below the chords from
        # -epsilon to epsilon as well: what (epsilon, delta)-DP says of epsilon = 0.
        at_zero = [d + (1 - d) * (ball(k * mesh) / 2).tanh() for k, d in enumerate(values)]
        values[0] = min(at_zero, key=lambda value: float(value.mid()))
    return _lower_hull(values, mesh)


def _below(part: Guarantee, mesh: Fraction, bits: int) -> dict[int, arb]:
    """Values at the multiples of the mesh whose chords lie below the (convex) profile.

    On each cell the profile lies above the lines through neighboring values at half the mesh, so it
    stays within a known distance of its own chord; both ends are lowered by that much.
    """
    last = _last(part, mesh, bits)
    fine = [part.delta_ball(k * mesh / 2) for k in range(2 * last + 4)]
    half = ball(mesh / 2).exp()
    before = 1 - 1 / half + fine[1] / half  # phi at -mesh / 2, by symmetry
    drops = [
        _chord_error([fine[2 * k - 1] if k else before, *fine[2 * k : 2 * k + 4]], half)
        for k in range(last + 1)
    ]
    values = [fine[2 * k] - drops[k].max(drops[max(k - 1, 0)]) for k in range(last + 1)]
    values = [value.lower() for value in values]
    end = next((k for k, value in enumerate(values) if not value > 0), last)
    if end < 2:
        raise ArithmeticError(f"the mesh is too coarse for a lower bound of {part}")
    # A line that ends below zero inside a cell would have its corner off the grid: end it before.
    values = [*values[: end - 1], arb(0)]
    return _lower_hull(values, mesh, sink=arb(2) ** -(bits + _GUARD // 2))


def _chord_error(f: Sequence[arb], g: arb) -> arb:
    """How far a convex function can be below its chord on [1, g^2].

    f: its values at 1/g, 1, g, g^2, g^3. On [1, g] it is above the lines through the first two and
    through the third and fourth; on [g, g^2] above the lines through the second and third and through
    the last two. Where two such lines meet, the chord is farthest above them.
    """
    chord = (f[3] - f[1]) / (g * g - 1)
    slopes = (
        (f[1] - f[0]) / (1 - 1 / g),
        (f[2] - f[1]) / (g - 1),
        (f[3] - f[2]) / (g * g - g),
        (f[4] - f[3]) / (g**3 - g * g),
    )
    worst = arb(0)
    for left, right in ((slopes[0], slopes[2]), (slopes[1], slopes[3])):
        a, b = (chord - left).max(arb(0)), (right - chord).max(arb(0))
        both = a + b
        meet = a * b / both if both > 0 else a
        worst = worst.max(meet * (g * g - 1))
    return worst


def _lower_hull(values: Sequence[arb], mesh: Fraction, sink: arb | None = None) -> dict[int, arb]:
    """The corners of the largest convex function below the values at e^(k mesh).

    Which points are left out is decided by midpoints. Upper bounds may leave out any. For a lower
    bound the chords must pass below every point, which is checked after all corners are lowered by
    ``sink``, more than the midpoints can be wrong.
    """
    spans: dict[int, arb] = {}

    def gap(a: int, b: int) -> arb:  # (e^(b mesh) - e^(a mesh)) / e^(a mesh)
        if b - a not in spans:
            spans[b - a] = ball((b - a) * mesh).expm1().mid()
        return spans[b - a]

    kept: list[int] = []
    for k, value in enumerate(values):
        while len(kept) > 1:
            a, b = kept[-2], kept[-1]
            first = (values[b] - values[a]).mid() / gap(a, b)
            # slopes in units of e^(a mesh): the second one shrinks by e^((b - a) mesh)
            second = (value - values[b]).mid() / gap(b, k) / (1 + gap(a, b))
            if first <= second:
                break
            kept.pop()
        kept.append(k)
    if sink is None:
        return {k: values[k] for k in kept}
    lowered = {k: (values[k] - sink).max(arb(0)) for k in kept}
    for a, b in pairwise(kept):
        slope = (lowered[b] - lowered[a]) / ball((b - a) * mesh).expm1()
        for k in range(a + 1, b):
            if not lowered[a] + slope * ball((k - a) * mesh).expm1() <= values[k]:
                raise ArithmeticError("a lower bound of a profile is not below it")
    return lowered


def _last(part: Guarantee, mesh: Fraction, bits: int) -> int:
    """The first multiple of the mesh where the profile is below a unit."""
    tiny = arb(2) ** -(bits + 8)
    high = 4
    while not part.delta_ball(high * mesh) < tiny:
        high *= 2
        if high > MOST_POINTS:
            raise ArithmeticError(f"{part} reaches too far for a mesh of {float(mesh):.3g}")
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if part.delta_ball(middle * mesh) < tiny else (middle, high)
    return high
