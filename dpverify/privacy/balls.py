"""Enclosures: real numbers between two rationals, by ball arithmetic (python-flint's ``arb``).

Every transcendental number that a claim depends on passes through here, so that its safe end is
known. Nothing in the trusted core compares floats.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from flint import arb, ctx, fmpq

_GAP_BITS = 100
_LARGEST_PRECISION = 1 << 16
_PRECISION = threading.RLock()  # flint's working precision belongs to the whole process


@dataclass(frozen=True, slots=True)
class Enclosure:
    """A real number x with ``lower <= x <= upper``."""

    lower: Fraction
    upper: Fraction


def ball(value: Fraction) -> arb:
    """The ball around a rational at the working precision."""
    return arb(fmpq(value.numerator, value.denominator))


def enclose(compute: Callable[[], arb]) -> Enclosure:
    """Evaluate ``compute`` at rising precision until the relative gap is at most 2^-99.

    Raises ArithmeticError when even 65,536 bits do not separate the value from zero.
    """
    precision = 2 * _GAP_BITS
    while precision <= _LARGEST_PRECISION:
        with _PRECISION, ctx.workprec(precision):
            value = compute()
            if value.is_finite() and _is_narrow(value):
                return Enclosure(_rational(value.lower()), _rational(value.upper()))
        precision *= 2
    raise ArithmeticError("the value could not be enclosed: it may be exactly zero")


def is_at_most(compute: Callable[[], arb], bound: Fraction) -> bool:
    """Whether the value is at most ``bound``; never wrongly yes. Makes no huge rationals."""
    precision = 2 * _GAP_BITS
    while precision <= _LARGEST_PRECISION:
        with _PRECISION, ctx.workprec(precision):
            value, limit = compute(), ball(bound)
            if value <= limit:
                return True
            if value > limit:
                return False
        precision *= 2
    return False


def _is_narrow(value: arb) -> bool:
    if value.is_exact():
        return True
    return bool(value.rad() <= abs(value.mid()) * arb(2) ** (-_GAP_BITS))


def _rational(end: arb) -> Fraction:
    mantissa, exponent = end.man_exp()
    if int(exponent) >= 0:
        return Fraction(int(mantissa) << int(exponent))
    return Fraction(int(mantissa), 1 << -int(exponent))
