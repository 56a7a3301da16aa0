"""Compositions of pairs whose transform is known, by inverting it: no mesh, few points, any parameters.

L is the privacy loss of all parts together under P, M(s) = E e^(sL) the product of the parts' transforms,
delta(x) = E (1 - e^(x - L))_+ for every real x, s = t + iw with a tilt t > 0. The integral of
delta(x) e^(sx) over x is F(w) = M(s) / (s (s + 1)), and Poisson's formula with step a and period
p = 2 pi / a says, exactly,

    (a / 2 pi) sum over k of F(ka) e^(-ikax)  =  sum over j of delta(x + jp) e^(t (x + jp)).

The summand j = 0 is wanted; the others are >= 0, and small by Chernoff's bound (``_aliases``). A Gaussian
part bounds what a sum over |k| <= n leaves out, for |M(s)| <= M(t) e^(-mu^2 w^2 / 2).

Where there is none, or too small a one, Gaussian noise of mu = sigma is composed in addition, "smoothing".
That makes the profile larger, by E c(x - L), c(y) = delta_sigma(y) - (1 - e^y)_+, delta_sigma the profile
of that noise. Its derivative in sigma is phi(sigma / 2 - y / sigma), and c(y) = e^y c(-y), so

    0 <= c(y) <= sigma phi(y / sigma) e^(y / 2)        (phi the standard normal density)

and the transform of this bound, M(s) sigma^2 e^(sigma^2 (2s + 1)^2 / 8), is sigma^2 e^(sigma^2 / 8) times
that of the smoothed density of L, which the same sum bounds. So the gap is of order (sigma t)^2.

Floats choose t, the period and sigma (``tilting``); every bound above holds for any choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import acb, arb, ctx
from numpy.typing import NDArray

from dpverify.privacy.balls import SMALLEST, Enclosure, ball, rational, working_precision
from dpverify.privacy.discretize import each_above
from dpverify.privacy.guarantees.noise import DiscreteLaplaceShift
from dpverify.privacy.guarantees.parts import Parts
from dpverify.privacy.tilting import BITS, Choice, Setting, chosen, square_of
from dpverify.privacy.transforms import Closed, Summed, factors_of, has_transform

_PRECISION = 128
_SMOOTHINGS = (0.01, 0.001)
"""sigma sqrt(t (t + 1)): for a gap of its square, or, close to a large atom, of its half."""
_CLOSE = Fraction(1, 2000)
_SMOOTHING_ABOVE = 0.05  # above families the bound is loose anyway
_NEGLIGIBLE = arb(2) ** -(BITS + 24)
_NEGLIGIBLE_FLOAT = 2.0 ** -(BITS + 25)
_MARGIN = 2.0**-27
_FINE = arb(2) ** -60
_MOST_STEPS = 1 << 18
_EVERY = 8  # factors between looks at whether the product is small already


def inverted(parts: Parts, epsilon: Fraction) -> Enclosure | None:
    """delta(epsilon) of the pairs that these parts stand for; None where it takes too many points."""
    found = None
    for smoothing in _SMOOTHINGS:
        try:
            choice = chosen(parts, epsilon, smoothing)
            with working_precision(_precision(parts, epsilon)):
                found = _enclosed(parts, epsilon, choice)
        except ArithmeticError:
            return found
        if not choice.setting.smoothing or found.upper - found.lower <= found.lower * _CLOSE:
            break
    return found


def inverted_above(parts: Parts, epsilon: Fraction, bits: int) -> Fraction | None:
    """An upper bound of delta(epsilon) with families among the parts: their bounds by losses on a mesh
    (masses in units of 2^-bits) have a transform too, a sum. None where it takes too many points.
    """
    try:
        choice = chosen(parts, epsilon, _SMOOTHING_ABOVE)
        choice = replace(choice, setting=replace(choice.setting, bits=bits))
        with working_precision(_precision(parts, epsilon) + bits):
            finite, whole = arb(1), arb(1)
            for (part, times), losses in zip(parts, each_above(parts, bits), strict=True):
                if not has_transform(((part, times),)):
                    units = arb(losses.masses(1)) / arb(2) ** bits
                    finite *= units**times
                    whole *= (units + arb(losses.infinite) / arb(2) ** bits) ** times
            unseen = _end((whole - finite).upper())
            return min(_enclosed(parts, epsilon, choice).upper + unseen + SMALLEST, Fraction(1))
    except ArithmeticError:
        return None


def _precision(parts: Parts, epsilon: Fraction) -> int:
    """Angles of large losses, and 1 - e^(-1 / scale) of large scales, need more bits."""
    scales = [int(p.scale).bit_length() for p, _ in parts if isinstance(p, DiscreteLaplaceShift)]
    losses = [int(p.largest_loss or 0).bit_length() for p, _ in parts]
    return _PRECISION + max(scales, default=0) + max(losses) + int(epsilon).bit_length()


def _moment(parts: Parts, tilt: arb, setting: Setting) -> arb:
    """M(tilt), the smoothing included."""
    square = ball(square_of(parts) + setting.smoothing)
    product = (square * tilt * (tilt + 1) / 2).exp()
    for _, moment in factors_of(parts, tilt, setting.bits):
        product *= moment
    return product


def _enclosed(parts: Parts, epsilon: Fraction, choice: Choice) -> Enclosure:
    """Both sides of delta(epsilon)."""
    setting, x = choice.setting, ball(epsilon)
    tilt, extra = ball(setting.tilt), ball(setting.smoothing)
    scale = _moment(parts, tilt, setting) * (-tilt * x).exp()
    profile, density = _sums(parts, setting, epsilon)
    width = setting.count * ball(setting.step)
    square = ball(square_of(parts)) + extra
    rest = (-square * width**2 / 2).exp() / (arb.pi() * square * width)
    upper = scale * (profile + rest / width**2)
    lower = scale * (profile - rest / width**2) - _aliases(parts, x, choice)
    lower -= scale * extra * (extra / 8).exp() * (density + rest)
    if not (upper.is_finite() and lower.is_finite()):
        raise ArithmeticError("the precision is not enough")
    return Enclosure(_end(lower.lower()), max(_end(upper.upper()), SMALLEST))


def _end(value: arb) -> Fraction:
    """As a probability; below ``SMALLEST``, where a rational would be very long, 0."""
    if not value.is_finite():
        raise ArithmeticError("the precision is not enough")
    if value >= 1:
        return Fraction(1)
    return rational(value) if value > ball(SMALLEST) else Fraction(0)


def _sums(parts: Parts, setting: Setting, epsilon: Fraction) -> tuple[arb, arb]:
    """The sums over |k| <= count for the profile and for the density, both without ``scale``."""
    turn, profile, density = ball(setting.step * epsilon), arb(0), arb(0)
    for k, (flat, weighted) in enumerate(_table(parts, setting, ctx.prec)):
        sine, cosine = (k * turn).sin_cos()
        share = 1 if k else arb(0.5)
        density += share * (flat.real * cosine + flat.imag * sine)
        profile += share * (weighted.real * cosine + weighted.imag * sine)
    factor = ball(setting.step) / arb.pi()
    return factor * profile, factor * density


@lru_cache(maxsize=6)
def _table(parts: Parts, setting: Setting, precision: int) -> list[tuple[acb, acb]]:
    """M(t + ika) / M(t), the smoothing included, and the same over s (s + 1), k = 0..count.

    precision: the working one, so that no table of another is taken.
    """
    tilt, square = ball(setting.tilt), ball(square_of(parts) + setting.smoothing)
    factors = [factor for factor, _ in factors_of(parts, tilt, setting.bits)]
    factors.sort(key=_spread, reverse=True)
    skipped = _negligible([f for f in factors if isinstance(f, Closed)], setting)
    found = []
    for k in range(setting.count + 1):
        w = ball(k * setting.step)
        product = acb(-square * w * w / 2, square * w * (tilt + arb(0.5))).exp()
        for i, factor in enumerate(factors):
            if skipped[k] or (i % _EVERY == 0 and product.abs_upper() < _NEGLIGIBLE):
                ends = _NEGLIGIBLE.union(-_NEGLIGIBLE)  # for every factor is at most 1
                product = acb(ends, ends)
                break
            product *= factor.at(w)
        s = acb(tilt, w)
        found.append((product, product / (s * (s + 1))))
    return found


def _negligible(factors: Sequence[Closed], setting: Setting) -> NDArray[np.bool_]:
    """For which k the product of all factors is surely below ``_NEGLIGIBLE``: floats, with a proof.

    A factor with weights a, b of its largest and least loss, which are ``gap`` apart, is at most
    |a + b e^(i w gap)| + 1 - a - b = sqrt(a^2 + b^2 + 2 a b cos(w gap)) + (1 - a - b). The angle advances
    by multiplying with a rounded e^(i step gap): an error below 2^-51 in it and in each product, so below
    2^-50 count < 2^-30 after at most 2^18 steps, of any sign; _MARGIN is more than twice what it moves
    the square by, and than all other roundings (one in 2^53 each). Additions, products and square roots
    are IEEE's; a product that underflows is small. Powers are lowered to a power of two.
    """
    skipped = np.zeros(setting.count + 1, np.bool_)
    if not factors or setting.count > _MOST_STEPS:
        return skipped
    top = np.array([float((1 / f.total).mid()) for f in factors])
    bottom = np.array([float((f.ratio**f.reach / f.total).mid()) for f in factors])
    rest = np.maximum(1 - top - bottom, 0) + _MARGIN
    angles = [ball(setting.step) * 2 * f.reach * f.unit for f in factors]
    pairs = [angle.sin_cos() for angle in angles]
    known = [number for pair in pairs for number in pair]
    known += [1 / f.total for f in factors] + [f.ratio**f.reach / f.total for f in factors]
    if not all(number.rad() < _FINE for number in known):  # an angle beyond the precision
        return skipped
    turns = np.array([complex(float(c.mid()), float(s.mid())) for s, c in pairs])
    squarings = np.array([min(f.times.bit_length() - 1, 5) for f in factors])
    level, cross = top * top + bottom * bottom + _MARGIN, 2 * top * bottom
    state = np.ones(len(factors), np.complex128)
    for k in range(setting.count + 1):
        sizes = np.sqrt(np.maximum(level + cross * state.real, 0)) + rest
        for i in range(5):
            sizes = np.where(squarings > i, sizes * sizes, sizes)
        skipped[k] = np.prod(sizes) < _NEGLIGIBLE_FLOAT
        state = state * turns
    return skipped


def _spread(factor: Closed | Summed) -> float:
    """Roughly the variance, which orders the factors; long sums last."""
    if isinstance(factor, Summed):
        return -1.0
    share = float(factor.ratio / factor.total)
    return float(factor.unit) ** 2 * factor.times * share * factor.reach


def _aliases(parts: Parts, x: arb, choice: Choice) -> arb:
    """At most this much of the sum, times e^(-tx), is not delta(x).

    For u >= 0 and s > 0, (1 - e^-u) e^(-su) is at most kappa = s^s / (s + 1)^(s + 1), so that
    delta(y) <= kappa(s) M(s) e^(-sy): with s above the tilt for y > x, below it for y < x.
    """
    setting = choice.setting
    if not 0 <= choice.below < setting.tilt < choice.above:
        raise ArithmeticError("Chernoff's bounds are taken on the wrong sides of the tilt")
    period = 2 * arb.pi() / ball(setting.step)
    found = arb(0)
    for s in (choice.below, choice.above):
        at = ball(s)
        kappa = (at * (at / (at + 1)).log()).exp() / (at + 1) if s else arb(1)
        bound = kappa * _moment(parts, at, setting) * (-at * x).exp()
        found += bound / (ball(abs(s - setting.tilt)) * period).expm1()
    return found
