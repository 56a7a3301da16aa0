"""Guarantees: what may be promised, and how a promise is written down and read back."""

from __future__ import annotations

import dataclasses
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpverify.privacy import ApproxDP, Guarantee, PerfectPrivacy, PureDP, parse_guarantee

_steady = settings(derandomize=True, deadline=None, max_examples=200)

_EPSILONS = st.one_of(
    st.fractions(min_value=0).filter(bool),
    st.floats(min_value=5e-324, max_value=1e308).map(Fraction),
)
_DELTAS = st.one_of(
    st.fractions(min_value=0, max_value=1).filter(lambda delta: delta < 1),
    st.floats(min_value=0, max_value=0.999).map(Fraction),
)
_GUARANTEES: st.SearchStrategy[Guarantee] = st.one_of(
    st.just(PerfectPrivacy()),
    st.builds(PureDP, _EPSILONS),
    st.builds(ApproxDP, _EPSILONS, _DELTAS),
)


@pytest.mark.parametrize(
    ("epsilon", "kind", "message"),
    [
        (0, ValueError, "epsilon = 0 is not positive; give a number above 0"),
        (-0.0, ValueError, "epsilon = -0.0 is not positive"),
        ("-1/3", ValueError, "epsilon = -1/3 is not positive"),
        (-5e-324, ValueError, "epsilon = -5e-324 is not positive"),
        (float("nan"), ValueError, "epsilon = nan is not finite"),
        (float("inf"), ValueError, "epsilon = inf is not finite"),
        ("inf", ValueError, "epsilon = 'inf' is not a finite number"),
        (True, TypeError, "epsilon = True is a truth value"),
        (None, TypeError, "epsilon is a NoneType"),
    ],
)
def test_an_epsilon_that_is_no_positive_number_is_refused(
    epsilon: Any, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        PureDP(epsilon)
    with pytest.raises(kind, match=re.escape(message)):
        ApproxDP(epsilon, "1e-6")


@pytest.mark.parametrize(
    ("delta", "kind", "message"),
    [
        (1, ValueError, "delta = 1 is outside [0, 1); give a small probability, say '1e-6'."),
        (2, ValueError, "delta = 2 is outside [0, 1)"),
        ("-1e-9", ValueError, "delta = -1e-9 is outside [0, 1)"),
        (float("nan"), ValueError, "delta = nan is not finite"),
        (float("inf"), ValueError, "delta = inf is not finite"),
        (False, TypeError, "delta = False is a truth value"),
        (None, TypeError, "delta is a NoneType"),
    ],
)
def test_a_delta_that_is_no_probability_below_one_is_refused(
    delta: Any, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        ApproxDP(1, delta)


def test_the_ends_of_what_is_accepted() -> None:
    assert PureDP(5e-324).epsilon == Fraction(1, 2**1074)
    assert PureDP(1e308).epsilon == int(1e308)
    assert ApproxDP(1, 0).delta == 0
    assert ApproxDP(1, 1 - Fraction(1, 10**40)).delta == 1 - Fraction(1, 10**40)
    assert PureDP("1/3").delta == 0


def test_parameters_are_exact_however_they_are_given() -> None:
    tenth = PureDP(Fraction(1, 10))
    assert PureDP("0.1") == tenth
    assert PureDP(Decimal("0.1")) == tenth
    assert PureDP(0.1) != tenth, "the float 0.1 is a little more than one tenth"
    assert PureDP(0.1) == PureDP(np.float64(0.1))
    assert hash(PureDP("0.1")) == hash(tenth)


def test_pure_and_approximate_with_delta_zero_are_two_spellings() -> None:
    pure: Guarantee = PureDP(1)
    approximate: Guarantee = ApproxDP(1, 0)
    assert pure != approximate
    assert pure.implies(approximate)
    assert approximate.implies(pure)


@pytest.mark.parametrize("guarantee", [PureDP(1), ApproxDP(1, "1e-6")])
def test_a_guarantee_cannot_be_changed(guarantee: PureDP | ApproxDP) -> None:
    with pytest.raises(AttributeError):
        guarantee.epsilon = Fraction(1, 10)  # type: ignore[misc]
    with pytest.raises(ValueError, match="epsilon = -1 is not positive"):
        dataclasses.replace(guarantee, epsilon=Fraction(-1))
    assert guarantee.epsilon == 1


@_steady
@given(_GUARANTEES)
@example(PureDP(1e308))
@example(PureDP(5e-324))
@example(ApproxDP(1e308, 5e-324))
@example(ApproxDP(700, "1e-300"))
def test_what_is_printed_is_read_back(guarantee: Guarantee) -> None:
    assert parse_guarantee(str(guarantee)) == guarantee


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("perfect", PerfectPrivacy()),
        ("pure(1)", PureDP(1)),
        ("pure(0.1)", PureDP("0.1")),
        ("pure(1/3)", PureDP(Fraction(1, 3))),
        ("approx(1, 1e-6)", ApproxDP(1, "1e-6")),
        (" approx( 0.5 ,1e-6 ) ", ApproxDP("0.5", "1e-6")),
        ("approx(1, 0)", ApproxDP(1, 0)),
    ],
)
def test_the_spellings_of_the_ledger(text: str, meant: Guarantee) -> None:
    assert meant == parse_guarantee(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "pure",
        "pure()",
        "pure(1, 2)",
        "pure(1",
        "pure(1) proved",
        "Pure(1)",
        "approx",
        "approx(1)",
        "approx(1, 1e-6, 2)",
        "perfect(1)",
        "gaussian()",
        "zcdp(1, 2)",
        "profile",
        "normal(1)",
        "1",
    ],
)
def test_what_is_no_guarantee_is_refused_with_the_spellings(text: str) -> None:
    with pytest.raises(ValueError, match="is not a guarantee; write 'pure") as refusal:
        parse_guarantee(text)
    assert repr(text) in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pure(0)", "epsilon = 0 is not positive"),
        ("pure(nan)", "epsilon = 'nan' is not a finite number"),
        ("pure(one)", "epsilon = 'one' is not a finite number"),
        ("approx(1, 1)", "delta = 1 is outside"),
        ("approx(1, -1e-6)", "delta = -1e-6 is outside"),
        ("approx(1, )", "delta = '' is not a finite number"),
    ],
)
def test_a_guarantee_with_bad_numbers_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_guarantee(text)


@pytest.mark.parametrize("guarantee", [PerfectPrivacy(), PureDP(1), ApproxDP(1, "1e-6")])
@pytest.mark.parametrize("epsilon", [-1, "-1e-300"])
def test_a_profile_is_asked_for_at_nonnegative_epsilon(
    guarantee: Guarantee, epsilon: int | str
) -> None:
    message = f"epsilon = {epsilon}; a privacy profile is asked for at epsilon >= 0."
    with pytest.raises(ValueError, match=re.escape(message)):
        guarantee.delta_at(epsilon)
    with pytest.raises(ValueError, match="epsilon = nan is not finite"):
        guarantee.delta_at(float("nan"))
