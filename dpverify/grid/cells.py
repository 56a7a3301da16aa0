"""Choosing the public grid: powers of two, exactly."""

from __future__ import annotations

from fractions import Fraction

from dpverify.privacy.numbers import Exact, exact


def power_of_two(cell: Exact) -> Fraction:
    """The cell as a rational. Raises ValueError unless it is a power of two."""
    value = exact(cell, "cell")
    parts = (value.numerator, value.denominator)
    if value <= 0 or any(part & (part - 1) for part in parts):
        raise ValueError(f"cell = {cell} is not a power of two; write for example '1/1024'.")
    return value


def floor_log2(value: Fraction) -> int:
    """The largest k with 2^k <= value, for a value above 0."""
    k = value.numerator.bit_length() - value.denominator.bit_length()
    return k if Fraction(2) ** k <= value else k - 1
