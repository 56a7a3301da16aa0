"""Exact rational parameters: how a privacy parameter is read, and how it is printed.

A parameter is a rational number from the moment it is given. A float stands for its exact
binary value (``0.1`` is not one tenth); write ``"0.1"`` or ``Fraction(1, 10)`` for one tenth.
Levels and shares, which promise nothing by themselves, are read by ``as_written``.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from numbers import Integral
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

Exact = int | Fraction | str | Decimal | float
"""A value that is accepted as an exact number."""
Floats = NDArray[np.float64]
"""An array of 64-bit floats, for display and for choices; no claim rests on it without a proof
beside it.
"""

ROOT_OF_TWO = Fraction(1414213563, 10**9)
"""A rational a little above the square root of 2."""
_PLAIN_DIGITS = 17
_LONG = re.compile(r"(sqrt\()?(\d+\.\d{9,}|\d{9,}/\d+|\d+/\d{9,})(?(1)\))")
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,6})?) ?%")
_MOST_DIGITS = 4000  # Python prints integers of up to 4300 digits
_MOST_BITS = 13_000


def settle(made: object, **values: Any) -> None:
    """Set fields of a frozen object that is being made, to the exact form of what was given."""
    for name, value in values.items():
        object.__setattr__(made, name, value)


def exact(value: Exact, name: str) -> Fraction:
    """Return the rational number that ``value`` stands for; ``name`` is used in refusals.

    Raises TypeError for what is not a number and ValueError for what is not finite.
    """
    if isinstance(value, bool):
        raise TypeError(f"{name} = {value!r} is a truth value; give a number such as 1 or '0.5'.")
    result = value if _is_plain(value) else _read(value, name)
    if max(result.numerator.bit_length(), result.denominator.bit_length()) > _MOST_BITS:
        raise ValueError(f"{name} has more than {_MOST_DIGITS} digits; give a shorter number.")
    return result


def as_written(value: Exact, name: str) -> Fraction:
    """Read a level or a share: as ``exact`` does, but a float as the shortest decimal of it.

    That is the decimal that it prints as: 0.9 is nine tenths, and ten shares of 0.1 are the
    whole. Parameters of guarantees and of noise are read by ``exact``.
    """
    written = isinstance(value, (float, np.floating)) and math.isfinite(value)
    return exact(str(value) if written else value, name)


def _is_plain(value: Exact) -> TypeGuard[Fraction]:
    """Return whether the value is a fraction of Python's integers already.

    Nearly all values are, and these never change.
    """
    return type(value) is Fraction and type(value.numerator) is type(value.denominator) is int


def _read(value: Exact, name: str) -> Fraction:
    if type(value) is int or isinstance(value, Integral):  # the first is sooner told
        return Fraction(int(value))  # a numpy integer inside a Fraction would wrap around
    if isinstance(value, Fraction):
        return Fraction(int(value.numerator), int(value.denominator))
    if isinstance(value, str):
        return _read_text(value, name)
    if not hasattr(value, "as_integer_ratio"):
        raise TypeError(
            f"{name} is a {type(value).__name__}; give an int, Fraction, Decimal, float or a "
            "string such as '1e-6'."
        )
    finite = value.is_finite() if isinstance(value, Decimal) else math.isfinite(value)
    if not finite:
        raise ValueError(f"{name} = {value} is not finite; give a finite number.")
    if isinstance(value, Decimal) and abs(value.adjusted()) > _MOST_DIGITS:
        raise ValueError(f"{name} has more than {_MOST_DIGITS} digits; give a shorter number.")
    numerator, denominator = value.as_integer_ratio()
    return Fraction(int(numerator), int(denominator))


def _read_text(text: str, name: str) -> Fraction:
    exponent = re.search(r"[eE][+-]?(\d+)\s*$", text)
    if len(text) > _MOST_DIGITS or (exponent and len(exponent[1].lstrip("0")) > 4):
        raise ValueError(f"{name} has more than {_MOST_DIGITS} digits; give a shorter number.")
    try:
        return Fraction(text.strip())
    except (ValueError, ZeroDivisionError):
        percent = _PERCENT.fullmatch(text)
        plain = f"; write {percent[0]} as '{render(Fraction(percent[1]) / 100)}'" if percent else ""
        raise ValueError(
            f"{name} = {text!r} is not a finite number; write it like '1e-6', '0.5' or '1/3'"
            f"{plain}."
        ) from None


def to_float(value: Fraction) -> float:
    """Return the nearest float, for people and error bars only.

    Beyond the largest float, it is infinity.
    """
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def quotient(numerator: int, denominator: int) -> float:
    """Return the float nearest to a quotient of integers, denominator > 0.

    It equals ``to_float`` of the quotient, without making the fraction.
    """
    try:
        return numerator / denominator  # Python rounds it correctly
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


def root_down(square: Fraction | int, bits: int) -> Fraction:
    """Return the square root of a number >= 0, rounded down to a multiple of 2^-bits.

    It is exact; bits >= 0.
    """
    value = Fraction(square)
    return Fraction(math.isqrt((value.numerator << 2 * bits) // value.denominator), 1 << bits)


def root_up(square: Fraction | int, bits: int) -> Fraction:
    """Return the square root of a number >= 0, rounded up to a multiple of 2^-bits.

    It is exact; bits >= 0.
    """
    root = root_down(square, bits)
    return root if root**2 == square else root + Fraction(1, 1 << bits)


def whole(value: object, name: str) -> int:
    """Return an integer parameter as an int; raises TypeError for anything but an integer."""
    if type(value) is int:
        return value
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} = {value!r} is a {type(value).__name__}; give an integer.")
    return int(value)


@lru_cache(maxsize=1024)
def render(value: Fraction) -> str:
    """Return a string that ``exact`` reads back to the same number, decimal where that is short."""
    if value.denominator == 1 and abs(value) < 10**15:
        return str(value.numerator)
    decimal = _terminating_decimal(value)
    return decimal if decimal is not None else str(value)


def approximately(value: Fraction) -> str:
    """Return six significant digits, for people; never read back and never compared."""
    number = to_float(value)
    if math.isfinite(number) and (number or not value):
        return f"{number:.6g}"
    bits = abs(value.numerator).bit_length() - value.denominator.bit_length()
    return f"{'-' if value < 0 else ''}about 1e{round(bits * math.log10(2))}"


def brief(text: str) -> str:
    """Return a text with its long fractions, and roots of such, as decimals that end in "...".

    The result is never read back.
    """

    def decimal(match: re.Match[str]) -> str:
        value = Fraction(match[2])
        number = to_float(value)
        if not (0 < number < math.inf):
            shown = approximately(value)
            return f"sqrt({shown})" if match[1] else shown
        shown = f"{math.sqrt(number) if match[1] else number:#.6g}"  # 2.00000, and not 2
        return f"{shown.rstrip('.')}..."

    return _LONG.sub(decimal, text)


def _terminating_decimal(value: Fraction) -> str | None:
    rest, fives = value.denominator, 0
    twos = (rest & -rest).bit_length() - 1
    if twos > 400:
        return None
    rest >>= twos
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
