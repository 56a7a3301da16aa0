"""Numbers for several stand-ins at once: arithmetic by each, and comparisons that hold for all
or say nothing."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpverify.suite.stand_ins import ROOTS, Several, StandIns, Undecidable, each_of

X, Y = (Fraction(1, 2), Fraction(2, 5)), (Fraction(3), Fraction(-7, 4))


def test_arithmetic_is_by_each() -> None:
    x, y, c = Several(X), Several(Y), Fraction(5, 3)
    values = [x + y, x - y, x * y, x / y, x + c, c + x, x - c, c - x, c * x, x / c, c / x, x**3, -x]
    expected = [
        *((a + b, a - b, a * b, a / b, a + c, c + a, a - c, c - a, c * a, a / c, c / a, a**3, -a)
          for a, b in zip(X, Y, strict=True)),
    ]  # fmt: skip
    assert [one.each for one in values] == list(zip(*expected, strict=True))
    assert sum([x, y]) == Several(tuple(a + b for a, b in zip(X, Y, strict=True)))


def test_comparisons_that_differ_say_nothing() -> None:
    x = Several(X)
    assert x < 1
    assert x > 0
    assert x >= ROOTS[1]
    assert x == Several(X)
    assert x != Fraction(9, 10)
    assert Several((Fraction(0), Fraction(0))) == 0
    assert not Several((Fraction(0), Fraction(0)))
    with pytest.raises(Undecidable, match="compare otherwise"):
        assert x < Fraction(9, 20)
    with pytest.raises(Undecidable, match="compare otherwise"):
        assert x == Fraction(1, 2)
    with pytest.raises(Undecidable, match="compare otherwise"):
        assert x > ROOTS[1]


def test_exponentials_are_powers_of_the_roots_and_masses_add_up_to_1() -> None:
    formal, one = StandIns(ROOTS, 6), StandIns(ROOTS[1:], 6)
    for power in (Fraction(0), Fraction(1, 2), Fraction(4, 3)):
        both = formal(power)
        assert each_of(both, 2) == tuple(root ** int(6 * power) for root in ROOTS)
        assert one(power) == both.each[1]
    assert formal(Fraction(1, 3)) * formal(Fraction(1, 2)) == formal(Fraction(5, 6))
    masses = [formal.rounded_gaussian(z, Fraction(2)) for z in range(-3, 4)]
    assert sum(masses) == 1
    assert masses[2] != masses[4]
    with pytest.raises(Undecidable, match="not a power"):
        formal(Fraction(1, 4))
