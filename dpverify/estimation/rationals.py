"""Rational numbers of many columns over one denominator: exact, and a hundred times as fast as
one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpverify.estimation.clipping import LARGEST_FLOAT, Numbers
from dpverify.privacy.numbers import to_float


@dataclass(frozen=True, slots=True)
class Rationals:
    """Rational numbers, one for each column: their numerators, over the denominator of all."""

    numerators: tuple[int, ...]
    denominator: int

    @classmethod
    def of(cls, values: Iterable[Fraction | float]) -> Rationals:
        """Bring these numbers over one denominator; floats are taken exactly."""
        ratios = [value.as_integer_ratio() for value in values]
        common = math.lcm(*{below for _, below in ratios})
        return cls(tuple(above * (common // below) for above, below in ratios), common)

    def times(self, factor: Fraction) -> Rationals:
        """Multiply every number by the factor."""
        by = factor.numerator
        scaled = [n * by for n in self.numerators]
        return Rationals(tuple(scaled), self.denominator * factor.denominator)

    def plus(self, other: Rationals, sign: int = 1) -> Rationals:
        """Add the other number of every column, or subtract it for sign = -1."""
        common = math.lcm(self.denominator, other.denominator)
        left, right = common // self.denominator, sign * (common // other.denominator)
        pairs = zip(self.numerators, other.numerators, strict=True)
        return Rationals(tuple([a * left + b * right for a, b in pairs]), common)

    def at_most(self, bound: Fraction) -> Rationals:
        """Replace numbers above the bound by it."""
        common = math.lcm(self.denominator, bound.denominator)
        up, most = common // self.denominator, bound.numerator * (common // bound.denominator)
        return Rationals(tuple([min(n * up, most) for n in self.numerators]), common)

    def floats(self) -> Numbers:
        """Round each number to the nearest float; beyond the largest one, to that."""
        try:
            return tuple([n / self.denominator for n in self.numerators])  # rounded correctly
        except OverflowError:
            values = (to_float(Fraction(n, self.denominator)) for n in self.numerators)
            return tuple(min(max(value, -LARGEST_FLOAT), LARGEST_FLOAT) for value in values)

    def cells(self, exponents: Sequence[int]) -> tuple[int, ...]:
        """Round each number to its column's cells of 2^exponent, ties to even."""
        pairs = zip(self.numerators, exponents, strict=True)
        return tuple(
            rounded_quotient(n << max(-e, 0), self.denominator << max(e, 0)) for n, e in pairs
        )

    def total(self) -> Fraction:
        """Add up the columns."""
        return Fraction(sum(self.numerators), self.denominator)

    def squares(self) -> Fraction:
        """Add up the squares of the columns."""
        return Fraction(sum(n * n for n in self.numerators), self.denominator**2)

    def farthest(self) -> Fraction:
        """Return the largest magnitude."""
        return Fraction(max(map(abs, self.numerators)), self.denominator)


def rounded_quotient(above: int, below: int) -> int:
    """Round above / below, below > 0, to the nearest integer, ties to even."""
    quotient, rest = divmod(above, below)
    return quotient + (2 * rest > below or (2 * rest == below and quotient & 1))
