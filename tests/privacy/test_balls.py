"""Enclosures: ball arithmetic against mpmath at 80 digits, and its refusal to guess."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath as mp
import pytest
from flint import arb
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mpmath.libmp import to_rational

from dpverify.privacy.balls import SMALLEST, Enclosure, ball, enclose, is_at_most

_steady = settings(derandomize=True, deadline=None, max_examples=200)

_RATIONALS = st.one_of(
    st.fractions(min_value=-1000, max_value=1000),
    st.fractions(min_value=-2, max_value=2, max_denominator=10**40),
    st.floats(min_value=-1e-3, max_value=1e-3).map(Fraction),
)


def _reference(function: Callable[[Any], Any], argument: Fraction) -> Fraction:
    """Compute at 80 digits, and more in the argument, so that e^1000 has 80 too."""
    with mp.workdps(80):
        with mp.extradps(20):
            x = mp.mpf(argument.numerator) / argument.denominator
        return Fraction(*to_rational((+function(x))._mpf_))


def _holds(enclosure: Enclosure, truth: Fraction) -> bool:
    slack = abs(truth) / 10**75  # the reference's rounding; an enclosure is about 1e-59 wide
    return enclosure.lower - slack <= truth <= enclosure.upper + slack


def _gap(enclosure: Enclosure) -> Fraction:
    return (enclosure.upper - enclosure.lower) / max(abs(enclosure.lower), abs(enclosure.upper))


@_steady
@given(_RATIONALS)
@example(Fraction(0))
@example(Fraction(1))
@example(Fraction(-1000))
@example(Fraction(1000))
def test_the_exponential_is_enclosed(x: Fraction) -> None:
    enclosure = enclose(lambda: ball(x).exp())
    assert _holds(enclosure, _reference(mp.exp, x))
    assert _gap(enclosure) <= Fraction(1, 2**99)


@_steady
@given(_RATIONALS.filter(bool))
@example(Fraction(5e-324))
@example(Fraction(1, 10**1000))
@example(Fraction(-1000))
def test_the_exponential_minus_one_is_enclosed_relatively(x: Fraction) -> None:
    enclosure = enclose(lambda: ball(x).expm1())
    assert _holds(enclosure, _reference(mp.expm1, x))
    assert _gap(enclosure) <= Fraction(1, 2**99)


def test_the_comparison_tells_a_midpoint_from_an_enclosure() -> None:
    true = enclose(lambda: ball(Fraction(1)).exp())
    truth = _reference(mp.exp, Fraction(1))
    assert _holds(true, truth)
    assert not _holds(Enclosure(true.lower, true.lower), truth)
    assert not _holds(Enclosure(true.upper, true.upper), truth)


@pytest.mark.parametrize(
    "value", [Fraction(0), Fraction(1), Fraction(-3, 8), Fraction(5e-324), Fraction(1e308)]
)
def test_a_dyadic_number_is_its_own_enclosure(value: Fraction) -> None:
    assert enclose(lambda: ball(value)) == Enclosure(value, value)


def test_the_exponential_of_zero_is_one_exactly() -> None:
    assert enclose(lambda: ball(Fraction(0)).exp()) == Enclosure(Fraction(1), Fraction(1))
    assert enclose(lambda: ball(Fraction(0)).expm1()) == Enclosure(Fraction(0), Fraction(0))


def test_a_number_that_is_not_dyadic_lies_strictly_inside() -> None:
    third = enclose(lambda: ball(Fraction(1, 3)))
    assert third.lower < Fraction(1, 3) < third.upper
    negative = enclose(lambda: ball(Fraction(-1, 3)))
    assert negative.lower < Fraction(-1, 3) < negative.upper


def test_precision_rises_until_the_value_shows() -> None:
    # e^x - 1 written naively loses 300 digits here: 200 bits see nothing, 2048 do.
    x = Fraction(1, 10**300)
    enclosure = enclose(lambda: ball(x).exp() - 1)
    assert _holds(enclosure, _reference(mp.expm1, x))
    assert _gap(enclosure) <= Fraction(1, 2**99)


def _zero_by_exponentials() -> arb:
    return ball(Fraction(1)).exp() * ball(Fraction(-1)).exp() - 1


def _zero_by_roots() -> arb:
    return arb(2).sqrt() ** 2 - 2


@pytest.mark.parametrize("zero", [_zero_by_exponentials, _zero_by_roots])
def test_a_zero_that_cannot_be_proved_is_enclosed_by_the_smallest_number(
    zero: Callable[[], arb],
) -> None:
    assert enclose(zero) == Enclosure(Fraction(0), SMALLEST)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_what_is_not_finite_is_refused(value: str) -> None:
    with pytest.raises(ArithmeticError, match="could not be enclosed"):
        enclose(lambda: arb(value))


_HAIR = Fraction(1, 10**60)

AtMost = Callable[[Callable[[], arb], Fraction], bool]


def _compares_as_the_truth(at_most: AtMost) -> bool:
    """e^x against rationals a hair above and below it: yes above, no below."""
    for x in (Fraction(0), Fraction(1), Fraction(-7, 3), Fraction(-200), Fraction(50)):
        truth = _reference(mp.exp, x)

        def value(x: Fraction = x) -> arb:
            return ball(x).exp()

        if not at_most(value, truth * (1 + _HAIR)) or at_most(value, truth * (1 - _HAIR)):
            return False
    return True


def test_a_value_is_compared_with_a_bound() -> None:
    assert _compares_as_the_truth(is_at_most)


def _at_two_hundred_bits(compute: Callable[[], arb], bound: Fraction) -> bool:
    return enclose(compute).lower <= bound * (1 + Fraction(1, 2**150))


def test_a_comparison_without_the_safe_end_is_caught() -> None:
    assert not _compares_as_the_truth(_at_two_hundred_bits)


def test_a_value_equal_to_its_bound_is_at_most_it_where_that_can_be_seen() -> None:
    assert is_at_most(lambda: ball(Fraction(3, 8)), Fraction(3, 8))
    assert is_at_most(lambda: ball(Fraction(0)).exp(), Fraction(1))
    # Equal, but no precision shows it: the answer that is safe is no.
    assert not is_at_most(_zero_by_exponentials, Fraction(0))
    assert is_at_most(_zero_by_exponentials, Fraction(1, 10**1000))


def test_a_comparison_writes_out_no_huge_number() -> None:
    # e^(-1e300) as a rational would have 1.4e300 bits.
    assert is_at_most(lambda: ball(Fraction(-(10**300))).exp(), Fraction(1, 10**9))
    assert not is_at_most(lambda: ball(Fraction(10**300)).exp(), Fraction(10**9))


def test_what_is_not_a_number_is_at_most_nothing() -> None:
    assert not is_at_most(lambda: arb("nan"), Fraction(10**9))
