"""Exact numbers: what is read, what is refused, and that printing loses nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpverify.privacy.numbers import (
    ROOT_OF_TWO,
    approximately,
    as_written,
    brief,
    exact,
    render,
    root_down,
    root_up,
    whole,
)

_steady = settings(derandomize=True, deadline=None, max_examples=300)

_INT64: Any = np.int64(2**62)

_RATIONALS = st.one_of(
    st.fractions(),
    st.floats(allow_nan=False, allow_infinity=False).map(Fraction),
    st.decimals(allow_nan=False, allow_infinity=False, places=12).map(Fraction),
    st.integers(-40, 40).map(lambda power: Fraction(10) ** power),
    st.integers(-(10**30), 10**30).map(Fraction),
)


@pytest.mark.parametrize(
    ("given_value", "meant"),
    [
        (3, Fraction(3)),
        (-(10**30), Fraction(-(10**30))),
        (Fraction(1, 3), Fraction(1, 3)),
        (Decimal("0.1"), Fraction(1, 10)),
        (Decimal("-1e-9"), Fraction(-1, 10**9)),
        ("1e-6", Fraction(1, 10**6)),
        ("1/3", Fraction(1, 3)),
        (" 0.5 ", Fraction(1, 2)),
        (0.5, Fraction(1, 2)),
        # 0.1 is stored as 3602879701896397 / 2^55: a float means what it stores, not what it shows.
        (0.1, Fraction(3602879701896397, 2**55)),
        (5e-324, Fraction(1, 2**1074)),
        (-0.0, Fraction(0)),
        (np.float64(0.1), Fraction(3602879701896397, 2**55)),
        # The float32 nearest 0.1 is another number: 13421773 / 2^27.
        (np.float32(0.1), Fraction(13421773, 2**27)),
        (np.int64(-7), Fraction(-7)),
        (np.uint8(200), Fraction(200)),
    ],
)
def test_a_number_stands_for_its_exact_value(given_value: Any, meant: Fraction) -> None:
    actual = exact(given_value, "widget")
    assert meant == actual
    assert type(actual) is Fraction


@pytest.mark.parametrize(
    "fixed_width",
    [
        np.uint8(200),
        _INT64,
        Fraction(_INT64),
        Fraction(_INT64, _INT64 + 1),
    ],
    ids=["uint8", "int64", "fraction of int64", "fraction of two int64"],
)
def test_fixed_width_integers_do_not_survive_inside_the_fraction(fixed_width: Any) -> None:
    # A Fraction keeps the integer objects it is given; 200 + 200 is 144 in uint8 arithmetic.
    actual = exact(fixed_width, "widget")
    assert type(actual.numerator) is int
    assert type(actual.denominator) is int
    expected = Fraction(int(fixed_width.numerator) * 8, int(fixed_width.denominator))
    assert expected == actual * 8


def test_a_decimal_beyond_the_largest_float_is_finite() -> None:
    assert exact(Decimal("1e400"), "widget") == Fraction(10) ** 400
    assert exact("1e400", "widget") == Fraction(10) ** 400


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        (True, TypeError),
        (np.bool_(True), TypeError),
        (None, TypeError),
        (1j, TypeError),
        (np.complex128(1), TypeError),
        ([1], TypeError),
        (b"1", TypeError),
        (np.array([1.5]), TypeError),
        (float("nan"), ValueError),
        (float("inf"), ValueError),
        (float("-inf"), ValueError),
        (np.float64("nan"), ValueError),
        (np.float32("inf"), ValueError),
        (Decimal("NaN"), ValueError),
        (Decimal("sNaN"), ValueError),
        (Decimal("-Infinity"), ValueError),
        ("abc", ValueError),
        ("1/0", ValueError),
        ("nan", ValueError),
        ("inf", ValueError),
        ("", ValueError),
        ("0.5 each", ValueError),
    ],
)
def test_what_is_no_finite_number_is_refused_by_name(bad: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="widget") as refusal:
        exact(bad, "widget")
    assert refusal.type is kind


def test_a_refusal_shows_what_was_given_and_what_to_write() -> None:
    with pytest.raises(ValueError, match=re.escape("epsilon = 'abc' is not a finite number")):
        exact("abc", "epsilon")
    with pytest.raises(ValueError, match="write it like '1e-6'"):
        exact("1/0", "epsilon")
    with pytest.raises(TypeError, match=re.escape("delta = True is a truth value")):
        exact(True, "delta")
    with pytest.raises(ValueError, match=re.escape("delta = nan is not finite")):
        exact(float("nan"), "delta")


@_steady
@given(_RATIONALS)
@example(Fraction(1e308))
@example(Fraction(-1e308))
@example(Fraction(5e-324))
@example(Fraction(0))
@example(Fraction(10**15))
@example(Fraction(10**15 - 1))
@example(Fraction(1, 10**17))
@example(Fraction(99999999999999999, 1000))
@example(Fraction(1, 2**400))
@example(Fraction(1, 5**401))
def test_what_is_printed_reads_back_as_the_same_number(value: Fraction) -> None:
    assert exact(render(value), "widget") == value


def _reads_back(printer: Callable[[Fraction], str], values: list[Fraction]) -> bool:
    return all(exact(printer(value), "widget") == value for value in values)


def test_the_round_trip_tells_a_lossy_printer() -> None:
    values = [Fraction(1, 3), Fraction(0.1), Fraction(10**16)]
    assert _reads_back(render, values)
    assert not _reads_back(approximately, values)


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (Fraction(0), "0"),
        (Fraction(3), "3"),
        (Fraction(-2), "-2"),
        (Fraction(1, 10), "0.1"),
        (Fraction(-1, 8), "-0.125"),
        (Fraction(5, 2), "2.5"),
        (Fraction(1, 1000), "0.001"),
        (Fraction(1, 10**6), "1e-6"),
        (Fraction(15, 10**7), "1.5e-6"),
        (Fraction(10**15), "1e15"),
        (Fraction(123456789, 10**9), "0.123456789"),
        (Fraction(12345678901234567, 100), "123456789012345.67"),
        (Fraction(1, 3), "1/3"),
        (Fraction(22, 7), "22/7"),
    ],
)
def test_short_decimals_are_printed_as_decimals(value: Fraction, printed: str) -> None:
    assert printed == render(value)


@_steady
@given(_RATIONALS)
@example(Fraction(10) ** 400)
@example(-(Fraction(10) ** 400))
@example(Fraction(1, 10**400))
@example(Fraction(2**1024))
def test_the_approximation_for_people_never_raises(value: Fraction) -> None:
    assert approximately(value)


@pytest.mark.parametrize("power", [5000, -5000])
def test_the_approximation_survives_numbers_that_python_will_not_write_out(power: int) -> None:
    # By default Python refuses to convert integers of more than 4300 digits to decimal.
    assert approximately(Fraction(10) ** power)
    assert approximately(-(Fraction(3) ** (2 * power)))


@_steady
@given(st.floats(min_value=1e-300, max_value=1e300), st.sampled_from([1, -1]))
def test_the_approximation_is_good_to_six_digits(size: float, sign: int) -> None:
    shown = Fraction(approximately(sign * Fraction(size)))
    # Six significant digits: at worst half a unit in the sixth, 5e-6 relative.
    assert abs(shown - sign * Fraction(size)) <= Fraction(5, 10**6) * Fraction(size)


def test_the_approximation_beyond_floats_gives_the_power_of_ten() -> None:
    assert approximately(Fraction(10) ** 400) == "about 1e400"
    assert approximately(-(Fraction(10) ** 400)) == "-about 1e400"
    assert approximately(Fraction(1, 10**400)) == "about 1e-400", "small is not zero"
    assert approximately(Fraction(0)) == "0"


@pytest.mark.parametrize("integer", [7, -7, 0, 10**30, np.int64(7), np.uint8(200)])
def test_an_integer_parameter_becomes_an_int(integer: Any) -> None:
    actual = whole(integer, "widget")
    assert type(actual) is int
    assert actual == integer


@pytest.mark.parametrize(
    "other", [True, np.bool_(False), 1.0, np.float64(1), "1", None, Fraction(3), Decimal(3)]
)
def test_anything_but_an_integer_is_refused_by_name(other: Any) -> None:
    with pytest.raises(TypeError, match=r"widget = .* is a .*; give an integer"):
        whole(other, "widget")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("approx(1, 1e-6)", "approx(1, 1e-6)"),
        ("gaussian(sqrt(1234567890123/4938271560492))", "gaussian(0.500000...)"),
        ("pure(1234567890123/7), zcdp(0.333333333333)", "pure(1.76367e+11...), zcdp(0.333333...)"),
        ("at most 18000000001/1000000000", "at most 18.0000..."),
        ("of 5633840000001/10000000", "of 563384..."),
        ("gaussian(sqrt(3))", "gaussian(sqrt(3))"),
        (f"pure(1/{10**400})", "pure(about 1e-400)"),
        (f"gaussian(sqrt({10**800}/3))", "gaussian(sqrt(about 1e800))"),
    ],
)
def test_long_numbers_in_a_text_are_shown_briefly(text: str, shown: str) -> None:
    assert brief(text) == shown


@pytest.mark.parametrize("bits", [0, 1, 30, 40, 200])
def test_roots_are_the_nearest_multiples_on_their_side(bits: int) -> None:
    unit = Fraction(1, 1 << bits)
    squares: list[Fraction | int] = [
        0,
        1,
        2,
        3,
        4,
        10**600,
        10**600 + 1,
        Fraction(1, 10**600),
        Fraction(9, 4),
        Fraction(2, 7),
    ]
    squares += [Fraction(k, 16) for k in range(40)]
    for square in squares:
        down, up = root_down(square, bits), root_up(square, bits)
        assert type(down) is type(up) is Fraction
        assert (down / unit).denominator == (up / unit).denominator == 1
        assert _is_root_down(square, down, unit)
        assert _is_root_up(square, up, unit)
        # a root that is rounded the other way is seen, wherever there is another way
        if down != up:
            assert not _is_root_down(square, up, unit)
            assert not _is_root_up(square, down, unit)
        assert not _is_root_down(square, down - unit, unit)
        assert not _is_root_up(square, up + unit, unit)


def test_exact_roots_are_not_moved() -> None:
    for root in (Fraction(0), Fraction(1), Fraction(5, 8), Fraction(3**200), Fraction(7, 1 << 40)):
        assert root_down(root**2, 40) == root_up(root**2, 40) == root
    assert [root_down(2, 0), root_up(2, 0)] == [Fraction(1), Fraction(2)]
    assert root_up(Fraction(1, 10**600), 40) == Fraction(1, 1 << 40)
    assert root_down(Fraction(1, 10**600), 40) == 0
    assert 2 < ROOT_OF_TWO**2 < 2 + Fraction(1, 10**8)


def test_there_is_no_root_of_a_negative_number() -> None:
    for root in (root_down, root_up):
        with pytest.raises(ValueError, match="negative"):
            root(Fraction(-1, 2), 40)


def _is_root_down(square: Fraction | int, root: Fraction, unit: Fraction) -> bool:
    return root >= 0 and root**2 <= square < (root + unit) ** 2


def _is_root_up(square: Fraction | int, root: Fraction, unit: Fraction) -> bool:
    return root**2 >= square and (root == 0 or (root - unit) ** 2 < square)


@pytest.mark.parametrize(
    ("given_value", "meant"),
    [
        (0.1, Fraction(1, 10)),
        (np.float64(0.9), Fraction(9, 10)),
        (np.float32(0.9), Fraction(9, 10)),
        (1e-300, Fraction(1, 10**300)),
        (5e-324, Fraction(5, 10**324)),
        (-0.0, Fraction(0)),
        (1.0, Fraction(1)),
        ("1/3", Fraction(1, 3)),
        (Fraction(1, 3), Fraction(1, 3)),
        (Decimal("0.3"), Fraction(3, 10)),
        (np.int64(2), Fraction(2)),
    ],
)
def test_levels_and_shares_are_read_as_they_are_written(given_value: Any, meant: Fraction) -> None:
    assert as_written(given_value, "level") == meant


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), True, None, "x"])
def test_what_is_no_level_is_refused(bad: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^level"):
        as_written(bad, "level")
