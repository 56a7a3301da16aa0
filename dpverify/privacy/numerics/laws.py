"""Laws of privacy losses that have a transform: one for each kind of part, tilted."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from flint import acb, acb_poly, arb

from dpverify.privacy.balls import ball
from dpverify.privacy.guarantees.approximate import PureDP
from dpverify.privacy.guarantees.base import Guarantee
from dpverify.privacy.guarantees.gaussian import GaussianDP
from dpverify.privacy.guarantees.noise import BoundedRange, DiscreteLaplaceShift
from dpverify.privacy.guarantees.parts import Parts
from dpverify.privacy.numerics.chords import Chords, chords_above, is_family
from dpverify.privacy.numerics.meshes import extent_of, lattice_of, mesh_of

_PRECISION = 128
_MOST_POINTS = 1 << 16
_ZERO = Fraction(0)


@dataclass(frozen=True, slots=True, eq=False)
class Composition:
    """Parts with what is needed of them to compose: chords above families, mu^2 of the Gaussian parts.

    lattice: all losses of all parts together differ by its multiples; 0 if it would have too many points.
    """

    parts: Parts
    chords: tuple[Chords | None, ...]
    mesh: Fraction
    square: Fraction
    lattice: Fraction
    precision: int


@lru_cache(maxsize=16)
def composition(parts: Parts, fineness: float) -> Composition:
    """Parts with chords above the families among them."""
    mesh = mesh_of(parts, fineness)
    chords = tuple(
        chords_above(part, mesh) if is_family(part, parts) else None for part, _ in parts
    )
    lattice = lattice_of(parts, mesh)
    if extent_of(parts) > _MOST_POINTS * lattice:
        lattice = _ZERO
    return Composition(parts, chords, mesh, square_of(parts), lattice, _precision(parts))


def square_of(parts: Parts) -> Fraction:
    """mu^2 of the Gaussian parts together."""
    return sum((p.mu_squared * n for p, n in parts if isinstance(p, GaussianDP)), _ZERO)


def _precision(parts: Parts) -> int:
    """Angles of large losses, and 1 - e^(-1 / scale) of large scales, need more bits."""
    scales = [int(p.scale).bit_length() for p, _ in parts if isinstance(p, DiscreteLaplaceShift)]
    losses = [int(p.largest_loss or 0).bit_length() for p, _ in parts]
    return _PRECISION + max(scales, default=0) + max(losses)


@dataclass(frozen=True, slots=True)
class Closed:
    """The law of a part's loss, tilted by e^(tL): its characteristic function.

    Losses (reach - 2 j) unit, j = 0..reach, with weights 1, inner ratio^j, ratio^reach; ``total`` is
    the sum of the weights. A pure part has reach 1.
    """

    unit: arb
    reach: int
    ratio: arb
    inner: arb
    total: arb
    times: int

    def at(self, k: int, w: arb) -> acb:
        """E e^(iwL) under the tilted law."""
        sine, cosine = (w * self.unit).sin_cos()
        if self.reach == 1:
            lean = (1 - self.ratio) / self.total
            found = acb(cosine, sine * lean)
        else:
            turn = acb(cosine, sine)
            back = acb(cosine, -sine)
            ratio = self.ratio * back * back
            far = ratio**self.reach
            middle = self.inner * (ratio - far) / (1 - ratio)
            found = turn**self.reach * (1 + middle + far) / self.total
        return found**self.times if self.times > 1 else found


def closed(part: Guarantee, times: int, tilt: arb) -> tuple[Closed, arb]:
    """The tilted law, and M(tilt) of ``times`` such parts."""
    if isinstance(part, PureDP):
        unit, reach = ball(part.epsilon), 1
    else:
        assert isinstance(part, DiscreteLaplaceShift)
        unit, reach = ball(1 / part.scale), part.shift
    q = (-unit).exp()
    ratio, inner = q * (-2 * tilt * unit).exp(), 1 - q
    far = ratio**reach
    total = 1 + far + (inner * (ratio - far) / (1 - ratio) if reach > 1 else 0)
    moment = (tilt * reach * unit).exp() * total / (1 + q)
    return Closed(unit, reach, ratio, inner, total, times), moment**times


@dataclass(frozen=True, slots=True)
class Ranged:
    """The same of a bounded range: density in proportion to e^(x / 2) on [-length, length].

    M(s) = sinh((s + 1/2) length) / ((2s + 1) sinh(length / 2)); proof in spec/theory/inversion.py.
    """

    length: arb
    center: arb
    coth: arb
    times: int

    def at(self, k: int, w: arb) -> acb:
        """E e^(iwL) under the tilted law."""
        sine, cosine = (w * self.length).sin_cos()
        found = acb(cosine, sine * self.coth) * self.center / acb(self.center, w)
        return found**self.times if self.times > 1 else found


def ranged(part: BoundedRange, times: int, tilt: arb) -> tuple[Ranged, arb]:
    """The tilted law, and M(tilt) of ``times`` such parts."""
    length, center = ball(part.epsilon), tilt + arb(0.5)
    moment = (center * length).sinh() / (2 * center * (length / 2).sinh())
    return Ranged(length, center, (center * length).coth(), times), moment**times


@dataclass(frozen=True, slots=True)
class Spectrum:
    """The same of losses on a mesh, at all multiples of 2 pi / (size mesh) at once."""

    values: list[acb]

    def at(self, k: int, w: arb) -> acb:
        """E e^(iwL) under the tilted law, w the multiple number k."""
        return self.values[k % len(self.values)]


def _few(chords: Chords, times: int, tilt: arb, size: int, count: int) -> Spectrum:
    """The first ``count`` + 1 by Bluestein's product: with u = e^(i pi / size), u^(2kl) = u^(k^2 + l^2 - (k - l)^2)."""
    step = tilt * ball(chords.mesh)
    growth, power = step.exp(), (chords.lowest * step).exp() / chords.moment(tilt)
    masses = chords.masses.coeffs()
    last = len(masses) - 1
    turns = [acb(arb(j * j % (2 * size)) / size).exp_pi_i() for j in range(max(last, count) + 1)]
    weights = []
    for i, mass in enumerate(masses):
        weights.append(turns[i] * (power * mass))
        power *= growth
    chirp = acb_poly([turns[abs(m)].conjugate() for m in range(-last, count + 1)])
    product = (acb_poly(weights) * chirp).coeffs()
    shift = [
        acb(arb(2 * k * chords.lowest % (2 * size)) / size).exp_pi_i() for k in range(count + 1)
    ]
    found = [shift[k] * turns[k] * product[k + last] for k in range(count + 1)]
    return Spectrum([value**times for value in found] if times > 1 else found)


def spectrum(chords: Chords, times: int, tilt: arb, period: Fraction, count: int) -> Spectrum:
    """By a fast Fourier transform in ball arithmetic; the mesh divides the period."""
    if 2 * (count + chords.masses.length()) < int(period / chords.mesh):
        return _few(chords, times, tilt, int(period / chords.mesh), count)
    size, step = int(period / chords.mesh), tilt * ball(chords.mesh)
    growth, power = step.exp(), (chords.lowest * step).exp() / chords.moment(tilt)
    around = [arb(0)] * size
    for i, mass in enumerate(chords.masses.coeffs()):
        around[(chords.lowest + i) % size] += power * mass
        power *= growth
    found = [value.conjugate() for value in acb.dft([acb(weight) for weight in around])]
    return Spectrum([value**times for value in found] if times > 1 else found)


Factor = Closed | Ranged | Spectrum


def factors_of(laws: Composition, tilt: arb, period: Fraction, count: int) -> list[Factor]:
    """Characteristic functions of all parts but the Gaussian ones."""
    found: list[Factor] = []
    for (part, times), chords in zip(laws.parts, laws.chords, strict=True):
        if chords is not None:
            found.append(spectrum(chords, times, tilt, period, count))
        elif isinstance(part, BoundedRange):
            found.append(ranged(part, times, tilt)[0])
        elif not isinstance(part, GaussianDP):
            found.append(closed(part, times, tilt)[0])
    return found


def moment_of(laws: Composition, tilt: arb, smoothing: Fraction) -> arb:
    """M(tilt) of all parts, the smoothing included."""
    product = (ball(laws.square + smoothing) * tilt * (tilt + 1) / 2).exp()
    for (part, times), chords in zip(laws.parts, laws.chords, strict=True):
        if chords is not None:
            product *= chords.moment(tilt) ** times
        elif isinstance(part, BoundedRange):
            product *= ranged(part, times, tilt)[1]
        elif not isinstance(part, GaussianDP):
            product *= closed(part, times, tilt)[1]
    return product
