"""Bounds of delta(epsilon) without inversion: moments of all parts, and few atoms one by one."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from itertools import product

import numpy as np
from flint import arb

from dpverify.privacy.balls import SMALLEST, Enclosure, ball, rational, working_precision
from dpverify.privacy.guarantees.approximate import PureDP
from dpverify.privacy.guarantees.base import Guarantee
from dpverify.privacy.guarantees.concentrated import ZeroConcentratedDP
from dpverify.privacy.guarantees.gaussian import GaussianDP
from dpverify.privacy.guarantees.noise import BoundedRange, DiscreteLaplaceShift
from dpverify.privacy.guarantees.parts import Parts
from dpverify.privacy.guarantees.smooth import SmoothLaplace
from dpverify.privacy.numbers import Floats, to_float
from dpverify.privacy.numerics.lattice import law_of
from dpverify.privacy.numerics.laws import closed, composition
from dpverify.privacy.numerics.meshes import has_atoms
from dpverify.privacy.numerics.tilting import Rough, least

_PRECISION = 192
_MOST_ATOMS = 1 << 11
_MOST_BESIDE = 1 << 7
_MOST_PARTS = 64


def chernoff(parts: Parts, epsilon: Fraction) -> Fraction:
    """Return M(t) e^(-t epsilon) t^t / (t + 1)^(t + 1) at one t > 0; 1 where nothing is known.

    Floats choose t. M(t) bounds E e^(tL) of any mechanisms with these guarantees, adaptively:
    the moments of a pair that dominates; for zCDP e^(rho t (t + 1)); for a bounded range those
    of its worst interval. Conversion of the total rho (CKS20, Proposition 12) is the same with
    a larger M.
    """
    if any(isinstance(part, SmoothLaplace) for part, _ in parts):
        return Fraction(1)
    rough, x = _rough_moments(parts), to_float(epsilon)

    def objective(tilts: Floats) -> Floats:
        kappa = -tilts * np.log1p(1 / tilts) - np.log1p(tilts)
        value: Floats = rough.moment(tilts) - tilts * x + kappa
        return value

    power = least(objective, 1e-7)
    with working_precision(_PRECISION):
        t = arb(math.exp2(power))
        value = (-t * ball(epsilon) - t * (1 / t).log1p() - t.log1p()).exp()
        for part, times in parts:
            value *= _moment(part, times, t)
        end = value.upper()
        if not end < 1:
            return Fraction(1)
        return max(rational(end), SMALLEST) if end > ball(SMALLEST) else SMALLEST


@lru_cache(maxsize=64)
def _rough_moments(parts: Parts) -> Rough:
    """Return the moments in floats, with families as Gaussian noise with their rho."""
    like = {p: n for p, n in parts if isinstance(p, (PureDP, DiscreteLaplaceShift))}
    rho = sum((part.concentrated or Fraction(0)) * n for part, n in parts if part not in like)
    noise = ((GaussianDP.of_square(2 * rho), 1),) if rho else ()
    return Rough(composition((*like.items(), *noise)))


def _moment(part: Guarantee, times: int, t: arb) -> arb:
    """Return at least E e^(tL) of ``times`` parts.

    For a bounded range that is the moment of its worst interval
    (spec/theory/fourier.py:range_moment).
    """
    if isinstance(part, (GaussianDP, ZeroConcentratedDP)):
        assert part.concentrated is not None
        return (times * ball(part.concentrated) * t * (t + 1)).exp()
    if isinstance(part, BoundedRange):
        epsilon = ball(part.epsilon)
        whole = epsilon.exp() - (-t * epsilon).exp()
        worst = t / (t + 1) * whole / -(-t * epsilon).expm1()
        return (worst**t * whole / ((t + 1) * epsilon.expm1())) ** times
    return closed(part, times, t)[1]


def mixed(parts: Parts, epsilon: Fraction) -> Enclosure | None:
    """Return delta(epsilon) where all parts, or all but one, have few atoms; None otherwise.

    That is the mean over the losses l of the parts with atoms, which have to be few together,
    of the other part's profile at epsilon - l. A profile at a negative argument follows by
    symmetry: 1 - e^y + e^y delta(-y). The proof in spec/theory/fourier.py:beside_atoms asks
    for a bound at single points, which need not be convex.
    """
    others = tuple(p for p in parts if has_atoms(p[0]))
    alone = [p for p in parts if not has_atoms(p[0])]
    if alone and ([n for _, n in alone] != [1] or isinstance(alone[0][0], SmoothLaplace)):
        return None
    slow = alone and isinstance(alone[0][0], ZeroConcentratedDP)
    most = _MOST_BESIDE // 4 if slow else _MOST_BESIDE if alone else _MOST_ATOMS
    atoms = losses_of(others, most)
    if atoms is None:
        return None
    with working_precision(_PRECISION + int(epsilon).bit_length()):
        value = arb(0)
        for x, mass in atoms:
            y = epsilon - x
            known = alone[0][0].delta_ball(abs(y)) if alone else arb(0)
            value += mass * (known if y >= 0 else (ball(y).exp() * known - ball(y).expm1()))
        if not (value.is_finite() and value > ball(SMALLEST)):
            return Enclosure(Fraction(0), SMALLEST if value < ball(SMALLEST) else Fraction(1))
        return Enclosure(rational(value.lower()), min(rational(value.upper()), Fraction(1)))


Losses = tuple[tuple[Fraction, arb], ...]
"""Losses of all parts together, with P's masses."""


@lru_cache(maxsize=32)
def losses_of(parts: Parts, most: int) -> Losses | None:
    """Compose parts with atoms; None where there might be more than ``most`` losses.

    Losses are added as integers over one denominator, which is many times as fast as adding
    fractions.
    """
    size = 1
    for part, times in parts:
        reach = part.shift if isinstance(part, DiscreteLaplaceShift) else 1
        size *= 1 + times * reach
        if size > most or times > _MOST_PARTS:
            return None
    losses = {0: arb(1)}
    with working_precision(2 * _PRECISION):
        laws = [(law_of(part), times) for part, times in parts]
        unit = math.lcm(*(x.denominator for law, _ in laws for x, _ in law))
        for law, times in laws:
            steps = [(x.numerator * (unit // x.denominator), mass) for x, mass in law]
            for _ in range(times):
                before, losses = losses, {}
                for (x, p), (y, q) in product(before.items(), steps):
                    losses[x + y] = losses.get(x + y, arb(0)) + p * q
    return tuple((Fraction(x, unit), mass) for x, mass in losses.items())
