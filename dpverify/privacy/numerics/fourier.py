"""Compositions by inversion of the transform of their losses: few points, any parameters.

Let L be the privacy loss of all parts together under P, M(s) = E e^(sL) the product of the
parts' transforms, delta(x) = E (1 - e^(x - L))_+ for every real x, and s = t + iw with a tilt
t > 0. The integral of delta(x) e^(sx) over x is F(w) = M(s) / (s (s + 1)), and Poisson's
formula with step a and period p = 2 pi / a says, exactly,

    (a / 2 pi) sum over k of F(ka) e^(-ikax)  =  sum over j of delta(x + jp) e^(t (x + jp)).

The summand j = 0 is wanted; the others are >= 0, and small by Chernoff's bound (``_aliases``).
A Gaussian part bounds what a sum over |k| <= n leaves out, for |M(s)| <= M(t)
e^(-mu^2 w^2 / 2).

Where there is no Gaussian part, or too small a one, Gaussian noise of mu = sigma is composed in
addition, "smoothing". That makes the profile larger, by E c(x - L), c(y) = delta_sigma(y) -
(1 - e^y)_+, delta_sigma the profile of that noise. Its derivative in sigma is
phi(sigma / 2 - y / sigma), and c(y) = e^y c(-y), so

    0 <= c(y) <= sigma phi(y / sigma) e^(y / 2)        (phi the standard normal density)

and the transform of this bound, M(s) sigma^2 e^(sigma^2 (2s + 1)^2 / 8), is sigma^2
e^(sigma^2 / 8) times that of the smoothed density of L, which the same sum bounds. So the gap
is of order (sigma t)^2.

Floats choose t, the period and sigma (``tilting``); every bound above holds for any choice.
Proofs are in spec/theory/fourier.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import acb, acb_mat, arb, ctx
from numpy.typing import NDArray

from dpverify.privacy.balls import SMALLEST, Enclosure, ball, rational, working_precision
from dpverify.privacy.numerics.laws import (
    Closed,
    Composition,
    factors_of,
    moment_of,
)
from dpverify.privacy.numerics.tilting import BITS, Choice, Rough, Setting, chosen

_SMOOTHING = 0.01
"""Value of sigma sqrt(t (t + 1)), for a gap of its square, or, close to a large atom, of half
its value.
"""
CLOSELY = 0.002
"""Smoothing for a gap below 1e-3, where there are few enough points."""
_MANY, _SMOOTHING_OF_MANY = 12, 0.03  # more parts than that: their transforms take time
_NEGLIGIBLE = arb(2) ** -(BITS + 24)
_NEGLIGIBLE_FLOAT = 2.0 ** -(BITS + 25)
_MARGIN = 2.0**-27
_FINE = arb(2) ** -60
_MOST_STEPS = 1 << 18
_EVERY = 8  # number of factors between tests whether the product is small already


def inverted(
    laws: Composition, epsilon: Fraction, smoothing: float | None = None, work: float = math.inf
) -> Enclosure | None:
    """Return delta(epsilon) of the pairs that the parts stand for; None for too many points.

    smoothing: in the same unit as ``CLOSELY``; None for a quick one.
    work: None is returned as well where parts times points are more than that.
    """
    quick = _SMOOTHING_OF_MANY if len(laws.parts) > _MANY else _SMOOTHING
    try:
        choice = chosen(_rough(laws), epsilon, smoothing or quick)
        if choice.setting.count * (len(laws.parts) + 4) > work:
            return None
        with working_precision(laws.precision + int(epsilon).bit_length()):
            return _enclosed(laws, epsilon, choice)
    except ArithmeticError:
        return None


@lru_cache(maxsize=16)
def _rough(laws: Composition) -> Rough:
    return Rough(laws)


def _enclosed(laws: Composition, epsilon: Fraction, choice: Choice) -> Enclosure:
    """Return both sides of delta(epsilon)."""
    setting, x = choice.setting, ball(epsilon)
    tilt, extra = ball(setting.tilt), ball(setting.smoothing)
    scale = moment_of(laws, tilt, setting.smoothing) * (-tilt * x).exp()
    profile, density = _sums(laws, setting, x)
    rest, more = _rest(laws, setting)
    upper = scale * (profile + rest)
    lower = scale * (profile - rest) - _aliases(laws, x, choice)
    if setting.smoothing:
        lower -= scale * extra * (extra / 8).exp() * (density + more)
    if not (upper.is_finite() and lower.is_finite()):
        raise ArithmeticError("the precision is not enough")
    return Enclosure(_end(lower.lower()), max(_end(upper.upper()), SMALLEST))


def _rest(laws: Composition, setting: Setting) -> tuple[arb, arb]:
    """Bound what the sums over |k| <= count leave out, for profile and density, without ``scale``.

    Sums of decreasing functions are at most their integrals, from W = count a on; 1 / |s
    (s + 1)| is at most 1 / w^2. The integral of e^(-square w^2 / 2) is at most
    e^(-square W^2 / 2) / (square W).
    """
    width = setting.count * _step(setting)
    square = ball(laws.square + setting.smoothing)
    rest = (-square * width**2 / 2).exp() / (arb.pi() * square * width)
    return rest / width**2, rest


def _end(value: arb) -> Fraction:
    """Return an end as a probability; below ``SMALLEST``, where a rational would be very long,
    0.
    """
    if not value.is_finite():
        raise ArithmeticError("the precision is not enough")
    if value >= 1:
        return Fraction(1)
    return rational(value) if value > ball(SMALLEST) else Fraction(0)


def _step(setting: Setting) -> arb:
    return 2 * arb.pi() / ball(setting.period)


def _sums(laws: Composition, setting: Setting, x: arb) -> tuple[arb, arb]:
    """Return the sums over |k| <= count for profile and density, both without ``scale``.

    k = row * columns + column. Every power of e^(-iax) is computed on its own: by Horner's
    scheme a complex ball would grow by sqrt(2) at every step.
    """
    turn, tables = _step(setting) * x, _table(laws, setting, ctx.prec)
    rows, columns = tables[0].nrows(), tables[0].ncols()
    inner = acb_mat([[acb(0, -j * turn).exp()] for j in range(columns)])
    outer = acb_mat([[acb(0, -columns * i * turn).exp() for i in range(rows)]])
    density, profile = ((outer * (table * inner))[0, 0].real for table in tables)
    factor = 2 / ball(setting.period)
    return factor * profile, factor * density


@lru_cache(maxsize=24)
def _table(laws: Composition, setting: Setting, precision: int) -> tuple[acb_mat, acb_mat]:
    """Return M(t + ika) / M(t) and the same over s (s + 1), for k = 0..count, k = 0 by half.

    The smoothing is included. precision: the working one, so that no table of another is taken.
    """
    flat = _products(laws, setting)
    tilt, step = ball(setting.tilt), _step(setting)
    flat[0] /= 2
    weighted = [
        value / (s * (s + 1)) for k, value in enumerate(flat) for s in (acb(tilt, k * step),)
    ]
    columns = math.isqrt(len(flat)) + 1
    return _matrix(flat, columns), _matrix(weighted, columns)


def _matrix(values: list[acb], columns: int) -> acb_mat:
    padded = values + [acb(0)] * (-len(values) % columns)
    return acb_mat([padded[i : i + columns] for i in range(0, len(padded), columns)])


def _products(laws: Composition, setting: Setting) -> list[acb]:
    """Return M(t + ika) / M(t), the smoothing included, k = 0..count."""
    tilt, square = ball(setting.tilt), ball(laws.square + setting.smoothing)
    factors = factors_of(laws, tilt)
    factors.sort(key=_spread, reverse=True)
    skipped = _negligible(factors, setting)
    step, products = _step(setting), []
    for k in range(setting.count + 1):
        w = k * step
        product = acb(-square * w * w / 2, square * w * (tilt + arb(0.5))).exp()
        for i, factor in enumerate(factors):
            if skipped[k] or (i % _EVERY == 0 and product.abs_upper() < _NEGLIGIBLE):
                ends = _NEGLIGIBLE.union(-_NEGLIGIBLE)  # because every factor is at most 1
                product = acb(ends, ends)
                break
            product *= factor.at(w)
        products.append(product)
    return products


def _negligible(factors: Sequence[Closed], setting: Setting) -> NDArray[np.bool_]:
    """Return for which k the product of all factors is surely below ``_NEGLIGIBLE``.

    In floats, with a proof. A factor with weights a, b of its largest and least loss, which are
    ``gap`` apart, is at most |a + b e^(i w gap)| + 1 - a - b = sqrt(a^2 + b^2 + 2 a b
    cos(w gap)) + (1 - a - b). The angle advances by multiplying with a rounded e^(i step gap):
    an error below 2^-51 in it and in each product, so below 2^-50 count < 2^-30 after at most
    2^18 steps, of any sign; _MARGIN is more than twice what it moves the square by, and than
    all other roundings (one in 2^53 each). Additions, products and square roots are IEEE's; a
    product that underflows is small. Powers are lowered to a power of two.
    """
    skipped = np.zeros(setting.count + 1, np.bool_)
    if len(factors) < _EVERY or setting.count > _MOST_STEPS:
        return skipped
    top = np.array([float((1 / f.total).mid()) for f in factors])
    bottom = np.array([float((f.ratio**f.reach / f.total).mid()) for f in factors])
    rest = np.maximum(1 - top - bottom, 0) + _MARGIN
    angles = [_step(setting) * 2 * f.reach * f.unit for f in factors]
    pairs = [angle.sin_cos() for angle in angles]
    known = [number for pair in pairs for number in pair]
    known += [1 / f.total for f in factors] + [f.ratio**f.reach / f.total for f in factors]
    if not all(number.rad() < _FINE for number in known):  # an angle is beyond the precision
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


def _spread(factor: Closed) -> float:
    """Return roughly the variance, which orders the factors."""
    share = float(factor.ratio / factor.total)
    return float(factor.unit) ** 2 * factor.times * share * factor.reach


def _aliases(laws: Composition, x: arb, choice: Choice) -> arb:
    """Bound how much of the sum, times e^(-tx), is not delta(x).

    For u >= 0 and s > 0, (1 - e^-u) e^(-su) is at most kappa = s^s / (s + 1)^(s + 1), so that
    delta(y) <= kappa(s) M(s) e^(-sy): with s above the tilt for y > x, below it for y < x.
    """
    setting = choice.setting
    if not 0 <= choice.below < setting.tilt < choice.above:
        raise ArithmeticError("Chernoff's bounds are taken on the wrong sides of the tilt")
    period = ball(setting.period)
    total = arb(0)
    for s in (choice.below, choice.above):
        at = ball(s)
        kappa = (at * (at / (at + 1)).log()).exp() / (at + 1) if s else arb(1)
        bound = kappa * moment_of(laws, at, setting.smoothing) * (-at * x).exp()
        total += bound / (ball(abs(s - setting.tilt)) * period).expm1()
    return total
