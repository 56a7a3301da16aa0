"""Enclosures: real numbers between two rationals, by ball arithmetic (python-flint's ``arb``).

Every transcendental number that a claim depends on passes through here, so that its safe end is
known. Nothing in the trusted core compares floats.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from flint import arb, ctx, fmpq

_GAP_BITS = 100
_LARGEST_PRECISION = 1 << 16


@dataclass(frozen=True, slots=True)
class Enclosure:
    """A real number x with ``lower <= x <= upper``."""

    lower: Fraction
    upper: Fraction


def ball(value: Fraction) -> arb:
    """The ball around a rational at the working precision."""
    return arb(fmpq(value.numerator, value.denominator))


def enclose(compute: Callable[[], arb]) -> Enclosure:
    """Evaluate ``compute`` at rising precision until the relative gap is below 2^-100.

    Raises ArithmeticError when even 65,536 bits do not separate the value from zero.
    """
    precision = 2 * _GAP_BITS
    while precision <= _LARGEST_PRECISION:
        with ctx.workprec(precision):
            value = compute()
            if value.is_finite() and _is_narrow(value):
                return Enclosure(_rational(value.lower()), _rational(value.upper()))
        precision *= 2
    raise ArithmeticError("the value could not be enclosed: it may be exactly zero")


def _is_narrow(value: arb) -> bool:
    if value.is_exact():
        return True
    return bool(value.rad() <= abs(value.mid()) * arb(2) ** (-_GAP_BITS))


def _rational(end: arb) -> Fraction:
    mantissa, exponent = end.man_exp()
    if int(exponent) >= 0:
        return Fraction(int(mantissa) << int(exponent))
    return Fraction(int(mantissa), 1 << -int(exponent))
