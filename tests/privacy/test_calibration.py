"""The least sufficient multiplier: never too small, and simple where it can be."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from operator import le

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpverify.privacy.calibration import (
    Unreachable,
    least_integer,
    simplest_between,
    smallest_sufficient,
)

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=300)


def brute_force_simplest(low: Fraction, high: Fraction) -> Fraction:
    """Try every denominator in turn."""
    denominator = 1
    while True:
        numerator = -(-low.numerator * denominator // low.denominator)
        if Fraction(numerator, denominator) <= high:
            return Fraction(numerator, denominator)
        denominator += 1


positive = st.fractions(min_value=Fraction(1, 300), max_value=300, max_denominator=300)


@REPEATABLE
@given(positive, positive)
@example(Fraction(1), Fraction(1))
@example(Fraction(1, 3), Fraction(1, 3))
@example(Fraction(1, 3), Fraction(1, 2))
@example(Fraction(7, 5), Fraction(2))
@example(Fraction(1, 2), Fraction(9))
def test_the_simplest_fraction_is_found(one: Fraction, other: Fraction) -> None:
    low, high = sorted((one, other))
    assert simplest_between(low, high) == brute_force_simplest(low, high)


@REPEATABLE
@given(positive, st.integers(10**6, 10**9))
def test_the_simplest_fraction_in_a_narrow_interval(center: Fraction, narrow: int) -> None:
    low, high = center - Fraction(1, narrow), center + Fraction(1, narrow)
    assert simplest_between(low, high) == brute_force_simplest(low, high) == center


def test_simplest_between_copes_with_extremes() -> None:
    tiny, huge = Fraction(1, 2**1100), Fraction(2**1100)
    assert simplest_between(huge, 2 * huge) == huge
    assert tiny <= simplest_between(tiny, tiny * (1 + Fraction(1, 2**50))) <= tiny * 2
    pi = Fraction(3141592653589793, 10**15)
    assert simplest_between(pi * (1 - tiny), pi * (1 + tiny)) == pi


thresholds = st.one_of(
    positive,
    st.fractions(min_value=Fraction(1, 10**40), max_value=10**40),
    st.builds(lambda e, m: m * Fraction(2) ** e, st.integers(-1000, 1000), positive),
)


@REPEATABLE
@given(thresholds, st.booleans())
def test_the_multiplier_is_sufficient_and_hardly_larger(
    threshold: Fraction, open_end: bool
) -> None:
    def holds(multiplier: Fraction) -> bool:
        return multiplier > threshold if open_end else multiplier >= threshold

    least = smallest_sufficient(holds)
    assert holds(least)
    assert least <= threshold * (1 + Fraction(1, 2**49))
    assert not holds(least * (1 - Fraction(1, 10**12)))


@REPEATABLE
@given(positive)
def test_a_simple_boundary_is_met_exactly(threshold: Fraction) -> None:
    assert smallest_sufficient(lambda multiplier: multiplier >= threshold) == threshold


def test_what_no_noise_or_no_amount_of_it_meets_is_refused() -> None:
    with pytest.raises(ValueError, match="no number is large enough"):
        smallest_sufficient(lambda multiplier: False)
    with pytest.raises(ValueError, match="every positive number"):
        smallest_sufficient(lambda multiplier: True)


@pytest.mark.parametrize("first", [None, 1, 7, 64])
@pytest.mark.parametrize("above", [-1, 0, 1, 5, 63])
def test_the_least_integer_is_found_and_little_is_asked(above: int, first: int | None) -> None:
    if first is not None and first <= above:
        return
    for least in (*range(above + 1, above + 140), 10**9, 10**30):
        asked: list[int] = []

        def holds(n: int, least: int = least, asked: list[int] = asked) -> bool:
            asked.append(n)
            return n >= least

        assert least_integer(holds, above=above, first=first) == least
        assert above not in asked
        assert len(asked) == len({*asked}) <= 2 * least.bit_length() + 8


@pytest.mark.parametrize("about", [-5, 0, 1, 2, 6, 7, 8, 9, 10, 11, 12, 1000])
def test_a_guess_changes_how_much_is_asked_alone(about: int) -> None:
    asked: list[int] = []

    def holds(n: int) -> bool:
        asked.append(n)
        return n >= 9

    assert least_integer(holds, above=0, about=about) == 9
    assert min(asked) > 0
    if about == 9:
        assert asked == [8, 9]


def test_the_least_integer_up_to_a_bound() -> None:
    for most in (1, 2, 10, 100):
        for least in range(1, most + 1):
            assert least_integer(partial(le, least), above=0, most=most) == least
        asked: list[int] = []

        def never(n: int, asked: list[int] = asked) -> bool:
            asked.append(n)
            return False

        with pytest.raises(Unreachable, match=f"no integer up to {most} is large enough"):
            least_integer(never, above=0, most=most)
        assert max(asked) == most


def test_a_condition_the_wrong_way_round_is_seen() -> None:
    # what holds below a number and not above it is not what is searched: the very next integer
    # is given
    assert least_integer(lambda n: n <= 10, above=4) == 5
