"""Exact rational parameters: how a privacy parameter enters, and how it is printed.

A parameter is a rational number from the moment it is given. A float stands for its exact binary
value (``0.1`` is not one tenth); write ``"0.1"`` or ``Fraction(1, 10)`` for one tenth.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from numbers import Integral

Exact = int | Fraction | str | Decimal | float
"""What is accepted as an exact number."""

_PLAIN_DIGITS = 17


def exact(value: Exact, name: str) -> Fraction:
    """The rational number that ``value`` stands for; ``name`` is used in refusals.

    Raises TypeError for what is not a number and ValueError for what is not finite.
    """
    if isinstance(value, bool):
        raise TypeError(f"{name} = {value!r} is a truth value; give a number such as 1 or '0.5'.")
    if isinstance(value, (Fraction, Integral)):
        return Fraction(value)
    if isinstance(value, str):
        try:
            return Fraction(value.strip())
        except (ValueError, ZeroDivisionError):
            raise ValueError(
                f"{name} = {value!r} is not a finite number; write it like '1e-6', '0.5' or '1/3'."
            ) from None
    if not hasattr(value, "as_integer_ratio"):
        raise TypeError(
            f"{name} is a {type(value).__name__}; give an int, Fraction, Decimal, float or a "
            "string such as '1e-6'."
        )
    if not math.isfinite(value):
        raise ValueError(f"{name} = {value} is not finite; give a finite number.")
    return Fraction(*value.as_integer_ratio())


def whole(value: object, name: str) -> int:
    """An integer parameter as an int; raises TypeError for anything but an integer."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} = {value!r} is a {type(value).__name__}; give an integer.")
    return int(value)


def render(value: Fraction) -> str:
    """A string that ``exact`` reads back to the same number, decimal where that is short."""
    if value.denominator == 1 and abs(value) < 10**15:
        return str(value.numerator)
    decimal = _terminating_decimal(value)
    return decimal if decimal is not None else f"{value.numerator}/{value.denominator}"


def approximately(value: Fraction) -> str:
    """Six significant digits, for people; never read back and never compared."""
    try:
        return f"{float(value):.6g}"
    except OverflowError:
        digits = len(str(abs(value.numerator) // value.denominator)) - 1
        return f"{'-' if value < 0 else ''}about 1e{digits}"


def _terminating_decimal(value: Fraction) -> str | None:
    rest, twos, fives = value.denominator, 0, 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
        if twos > 400:
            return None
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
        if fives > 400:
            return None
    if rest != 1:
        return None
    places = max(twos, fives)
    digits = abs(value.numerator) * 10**places // value.denominator
    trailing = len(str(digits)) - len(str(digits).rstrip("0")) if digits else 0
    digits, places = digits // 10**trailing, places - trailing
    if len(str(digits)) > _PLAIN_DIGITS:
        return None
    sign = "-" if value < 0 else ""
    text, point = str(digits), len(str(digits)) - places
    if -3 <= point <= _PLAIN_DIGITS and places > 0:
        text = text.zfill(places + 1)
        return f"{sign}{text[:-places]}.{text[-places:]}"
    mantissa = text[0] + ("." + text[1:] if len(text) > 1 else "")
    return f"{sign}{mantissa}e{point - 1}"
