"""Rational stand-ins for the exponentials in laws, several of them at once.

A law is a rational function of a root of exp(-1), so an identity between laws holds for the
root if it holds for other numbers in its place. Shipped code that is enumerated runs once for
all of these numbers: its probabilities are then ``Several`` fractions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from operator import add, eq, ge, gt, le, lt, mul, neg, sub, truediv
from typing import Any

from flint import fmpq

ROOTS = (Fraction(1, 2), Fraction(2, 5))


class Undecidable(Exception):
    """Stand-ins decide nothing: a comparison holds for one and not for another, or an exponent
    is no multiple of the unit.
    """


class Several:
    """A number for each stand-in; arithmetic is by each, and a comparison is the same for all,
    or raises Undecidable.

    The numbers are flint's rationals, whose arithmetic takes an eighth of the time of Python's
    fractions.
    """

    __slots__ = ("_values",)

    def __init__(self, each: Iterable[Fraction | fmpq]) -> None:
        self._values = tuple(map(_rational, each))

    @property
    def each(self) -> tuple[Fraction, ...]:
        """Numbers as fractions."""
        return tuple(Fraction(int(value.p), int(value.q)) for value in self._values)

    def __add__(self, other: Any) -> Several:
        return Several(map(add, self._values, self._beside(other)))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Several:
        return Several(map(sub, self._values, self._beside(other)))

    def __rsub__(self, other: Any) -> Several:
        return Several(map(sub, self._beside(other), self._values))

    def __mul__(self, other: Any) -> Several:
        return Several(map(mul, self._values, self._beside(other)))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Several:
        return Several(map(truediv, self._values, self._beside(other)))

    def __rtruediv__(self, other: Any) -> Several:
        return Several(map(truediv, self._beside(other), self._values))

    def __pow__(self, power: int) -> Several:
        return Several(value**power for value in self._values)

    def __neg__(self) -> Several:
        return Several(map(neg, self._values))

    def __eq__(self, other: object) -> bool:
        return self._is(eq, other)

    def __lt__(self, other: Any) -> bool:
        return self._is(lt, other)

    def __le__(self, other: Any) -> bool:
        return self._is(le, other)

    def __gt__(self, other: Any) -> bool:
        return self._is(gt, other)

    def __ge__(self, other: Any) -> bool:
        return self._is(ge, other)

    def __bool__(self) -> bool:
        return self != 0

    def __hash__(self) -> int:
        return hash(self._values)

    def __repr__(self) -> str:
        return f"Several({self._values})"

    def _is(self, holds: Callable[[Any, Any], bool], other: Any) -> bool:
        answers = set(map(holds, self._values, self._beside(other)))
        if len(answers) > 1:
            raise Undecidable(f"{self.each} and {other} compare otherwise for other stand-ins")
        return answers.pop()

    def _beside(self, other: Any) -> tuple[fmpq, ...]:
        if isinstance(other, Several):
            if len(other._values) != len(self._values):
                raise ValueError(
                    f"{self} and {other} are of different numbers of stand-ins; take the same."
                )
            return other._values
        return (_rational(other),) * len(self._values)


def _rational(number: Any) -> fmpq:
    if isinstance(number, fmpq):
        return number
    return fmpq(int(number.numerator), int(number.denominator))


def each_of(number: Any, count: int) -> tuple[Fraction, ...]:
    """Return the number for each of so many stand-ins; a plain one is the same for all."""
    return number.each if isinstance(number, Several) else (number,) * count


@dataclass(frozen=True, slots=True)
class StandIns:
    """Stand-ins for the numbers of laws: exp(-g) becomes root^(g unit), and rounded Gaussian
    noise takes the values -1, 0, 1 with masses r/3, 1 - r, 2r/3 (not symmetric, so that a wrong
    sign shows). Results are cached, since the same numbers are asked for again and again.
    """

    roots: tuple[Fraction, ...]
    unit: int
    known: dict[Any, Any] = field(default_factory=dict)

    def __call__(self, exponent: Fraction) -> Any:
        """Return a power of the roots; raises Undecidable where there is none."""
        power = exponent * self.unit
        if power.denominator != 1:
            raise Undecidable(f"exp(-{exponent}) is not a power of the chosen root")
        return self._kept(power.numerator, lambda root: root**power.numerator)

    def rounded_gaussian(self, z: int, scale: Fraction) -> Any:
        """Return one of the three masses, or 0."""
        if abs(z) > 1:
            return Fraction(0)
        return self._kept(("Gaussian", int(z)), lambda r: (r / 3, 1 - r, 2 * r / 3)[int(z) + 1])

    def _kept(self, name: Any, value: Callable[[Fraction], Fraction]) -> Any:
        if name not in self.known:
            each = tuple(map(value, self.roots))
            self.known[name] = each[0] if len(each) == 1 else Several(each)
        return self.known[name]
