"""Enclosures: real numbers between two rationals, by ball arithmetic (python-flint's ``arb``).

Every transcendental number that a claim depends on passes through here, so that its safe end is
known. Nothing in the trusted core compares floats.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction

from flint import arb, ctx, fmpq

_GAP_BITS = 100
_LARGEST_PRECISION = 1 << 16
_SMALLEST_EXPONENT = -40_000
SMALLEST = Fraction(1, 1 << -_SMALLEST_EXPONENT)
"""2^-40000: a positive value below it is enclosed as between 0 and this."""
_PRECISION = threading.RLock()  # flint's working precision belongs to the whole process


@dataclass(frozen=True, slots=True)
class Enclosure:
    """A real number x with ``lower <= x <= upper``."""

    lower: Fraction
    upper: Fraction


def ball(value: Fraction) -> arb:
    """Return the ball around a rational at the working precision."""
    return arb(fmpq(value.numerator, value.denominator))


def hull(enclosure: Enclosure) -> arb:
    """Return a ball that holds the whole enclosure."""
    return ball(enclosure.lower).union(ball(enclosure.upper))


def enclose(compute: Callable[[], arb]) -> Enclosure:
    """Evaluate ``compute`` at rising precision until the relative gap is at most 2^-99.

    The value is known to be >= 0; one below ``SMALLEST`` is enclosed as between 0 and that. Raises
    ArithmeticError when 65,536 bits are not enough.
    """
    precision = 2 * _GAP_BITS
    while precision <= _LARGEST_PRECISION:
        with working_precision(precision):
            value = compute()
            if value.is_finite():
                if not value.is_zero() and abs(value) < arb(2) ** _SMALLEST_EXPONENT:
                    return Enclosure(Fraction(0), SMALLEST)
                if _is_narrow(value):
                    return Enclosure(rational(value.lower()), rational(value.upper()))
        precision *= 2
    raise ArithmeticError("the value could not be enclosed: it may be exactly zero")


@contextmanager
def working_precision(bits: int) -> Iterator[None]:
    """Compute in ball arithmetic at this precision.

    One thread at a time does, for the precision is shared.
    """
    with _PRECISION, ctx.workprec(bits):
        yield


_LONG = 8000  # number of bits from which a rational counts as long
_LEAST_ROUNDED = Fraction(1, 10**3500)


def shortened(value: Fraction) -> Fraction:
    """Return the value, or a little more if it is long.

    Sums of many parameters must stay parameters.
    """
    size = max(value.numerator.bit_length(), value.denominator.bit_length())
    return value if size <= _LONG else round_up(value, 60)


def round_up(value: Fraction, digits: int = 15) -> Fraction:
    """Return a number of about ``digits`` significant decimals that is not below ``value`` >= 0.

    A value below 1e-3500 becomes 1e-3500: a parameter may have 4000 digits.
    """
    if value <= 0:
        return Fraction(0)
    value = max(value, _LEAST_ROUNDED)
    bits = value.numerator.bit_length() - value.denominator.bit_length()
    magnitude = math.floor(bits * math.log10(2)) - digits
    scaled = value / Fraction(10) ** magnitude  # between 10^(digits - 1) and 10^(digits + 1)
    return Fraction(-(-scaled.numerator // scaled.denominator)) * Fraction(10) ** magnitude


def is_at_most(compute: Callable[[], arb], bound: Fraction) -> bool:
    """Return whether the value is at most ``bound``; never wrongly yes. Makes no huge rationals."""
    precision = 2 * _GAP_BITS
    while precision <= _LARGEST_PRECISION:
        with working_precision(precision):
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


def rational(end: arb) -> Fraction:
    """Return the exact value of a ball without radius."""
    mantissa, exponent = end.man_exp()
    if int(exponent) >= 0:
        return Fraction(int(mantissa) << int(exponent))
    return Fraction(int(mantissa), 1 << -int(exponent))
