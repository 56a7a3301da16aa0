"""From guarantees to privacy loss distributions: which mesh, and which side of the profile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from flint import arb

from dpverify.privacy.balls import ball, working_precision
from dpverify.privacy.guarantees.approximate import PureDP
from dpverify.privacy.guarantees.base import Guarantee
from dpverify.privacy.guarantees.concentrated import ZeroConcentratedDP
from dpverify.privacy.guarantees.gaussian import GaussianDP
from dpverify.privacy.guarantees.noise import BoundedRange, DiscreteLaplaceShift
from dpverify.privacy.losses import (
    Losses,
    ProfileTable,
    common_mesh,
    from_corners,
    from_masses,
    power,
    product_of,
    regrid,
)

Parts = tuple[tuple[Guarantee, int], ...]

_MOST_ATOMS = 4096
_MOST_POINTS = 1 << 19
_GUARD = 96
_FINENESS = 200.0  # smooth mesh: a standard deviation / (320 sqrt(parts)), for a gap below 1e-3
_CONVERSION_NODES = 1500.0  # a conversion is loose by more than a coarse mesh costs


@dataclass(frozen=True, slots=True)
class _Shape:
    """Rough moments of a part's losses (floats: they choose a mesh, they prove nothing)."""

    mean: float
    variance: float
    top: float
    spacing: Fraction | None  # atoms or corners lie on its multiples
    smooth: bool


@lru_cache(maxsize=32)
def profile_table(parts: Parts, bits: int, upper: bool) -> ProfileTable:
    """The composition of the parts, as a bound on one side; masses in units of 2^-bits."""
    return ProfileTable(composed(parts, bits=bits, upper=upper))


def composed(parts: Parts, *, bits: int, upper: bool) -> Losses:
    """The losses of all the parts together."""
    mesh, smooth_mesh = _meshes(parts, bits)
    found = []
    for part, times in parts:
        with working_precision(bits + _GUARD):
            one = _discretized(part, mesh, smooth_mesh, bits, upper)
        own = power(one, times) if one.mesh != mesh else one
        on_grid = regrid(own, mesh)
        found.append(on_grid if own is not one or times == 1 else power(on_grid, times))
    return product_of(found)


def _discretized(
    part: Guarantee, mesh: Fraction, smooth_mesh: Fraction, bits: int, upper: bool
) -> Losses:
    if isinstance(part, PureDP):
        yes = 1 / (1 + ball(-part.epsilon).exp())
        return from_masses(part.epsilon, {1: yes, -1: 1 - yes}, bits=bits, upper=upper)
    if isinstance(part, DiscreteLaplaceShift) and part.shift <= _MOST_ATOMS:
        return from_masses(1 / part.scale, part.masses(), bits=bits, upper=upper)
    if isinstance(part, ZeroConcentratedDP):
        coarse = math.sqrt(2 * float(part.rho)) * 2 * _depth(bits) / _CONVERSION_NODES
        own = mesh * max(1, int(coarse / float(mesh)))
        if not upper:  # what a mechanism with this guarantee, Gaussian noise, does reach
            gaussian = GaussianDP.of_square(2 * part.rho)
            return from_corners(own, _below(gaussian, own, bits), bits=bits, upper=False)
        return from_corners(own, _above(part, own, bits), bits=bits, upper=True)
    corners = (_above if upper else _below)(part, smooth_mesh, bits)
    return from_corners(smooth_mesh, corners, bits=bits, upper=upper)


def _above(part: Guarantee, mesh: Fraction, bits: int) -> dict[int, arb]:
    """The profile at the multiples of the mesh: its chords lie above it.

    Of a bound that is not convex, points that stick out are left out: the true profile is convex
    and lies below the rest, so it lies below the chords of the rest.
    """
    last = _last(part, mesh, bits)
    values = [part.delta_ball(k * mesh) for k in range(last + 1)]
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
    bound the chords must pass below every point: a wrong decision is off by the radii of the balls,
    far less than ``sink``, by which all corners are lowered.
    """
    if sink is not None and any(value.rad() > sink / 1024 for value in values):
        raise ArithmeticError("the values are not known well enough for a lower bound")
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
    lowered = sink if sink is not None else arb(0)
    return {k: (values[k] - lowered).max(arb(0)) if sink is not None else values[k] for k in kept}


def _last(part: Guarantee, mesh: Fraction, bits: int) -> int:
    """The first multiple of the mesh where the profile is below a unit."""
    tiny = arb(2) ** -(bits + 8)
    high = 4
    while not part.delta_ball(high * mesh) < tiny:
        high *= 2
        if high > _MOST_POINTS:
            raise ArithmeticError(f"{part} reaches too far for a mesh of {float(mesh):.3g}")
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if part.delta_ball(middle * mesh) < tiny else (middle, high)
    return high


def _depth(bits: int) -> float:
    """Standard deviations to where a Gaussian tail is at the edge of what the bits resolve."""
    return math.sqrt(2 * math.log(2) * (bits - 50))


def _meshes(parts: Parts, bits: int) -> tuple[Fraction, Fraction]:
    """(the common mesh, the mesh of smooth parts: a multiple of it)."""
    shapes = [(_shape(part), times) for part, times in parts]
    variance = sum(s.variance * n for s, n in shapes)
    deviation, depth = math.sqrt(variance), _depth(bits)
    mean = sum(s.mean * n for s, n in shapes)
    reach = min(sum(s.top * n for s, n in shapes), mean + (depth + 2) * deviation)
    smooth = sum(n for s, n in shapes if s.smooth)
    wanted = deviation / (_FINENESS * math.sqrt(max(smooth, 1))) * 11.5 / depth
    spacings = [s.spacing for s, _ in shapes if s.spacing is not None]
    finest = Fraction(2 * reach / _MOST_POINTS)
    if spacings:
        common = common_mesh(spacings)
        if not smooth and common >= finest:
            return common, common
        if smooth and common >= finest:
            parts_of_it = max(1, math.ceil(float(common) / wanted))
            mesh = common / parts_of_it
            return mesh, mesh * max(1, int(wanted / float(mesh)))
        mesh = _dyadic(max(float(finest), wanted / 64 if smooth else 0.0))
        return mesh, mesh * max(1, int(wanted / float(mesh)))
    return _dyadic(max(wanted, float(finest))), _dyadic(max(wanted, float(finest)))


def _dyadic(value: float) -> Fraction:
    """A number of few bits near a float (a short mesh keeps the rationals short)."""
    mantissa, exponent = math.frexp(value)
    return Fraction(round(mantissa * 256)) * Fraction(2) ** (exponent - 8)


def _shape(part: Guarantee) -> _Shape:
    if isinstance(part, PureDP):
        epsilon = float(part.epsilon)
        lean = math.tanh(epsilon / 2)
        return _Shape(
            epsilon * lean, epsilon**2 * (1 - lean**2) + 1e-300, epsilon, part.epsilon, False
        )
    if isinstance(part, DiscreteLaplaceShift):
        epsilon = float(part.epsilon)
        few = part.shift <= _MOST_ATOMS
        spacing = 1 / part.scale if few else part.epsilon
        return _Shape(
            min(epsilon**2 / 2, epsilon), min(epsilon, epsilon**2), epsilon, spacing, not few
        )
    if isinstance(part, BoundedRange):
        epsilon = float(part.epsilon)
        return _Shape(min(epsilon**2 / 8, epsilon), epsilon**2 / 12, epsilon, part.epsilon, True)
    rho = float(part.concentrated or 0)
    smooth = not isinstance(part, ZeroConcentratedDP)
    return _Shape(rho, 2 * rho, math.inf, None, smooth)
