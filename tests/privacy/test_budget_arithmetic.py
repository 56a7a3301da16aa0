"""Budgets added, multiplied and divided mean what the rules compose to."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from dpverify.privacy import (
    ApproxDP,
    ApproximateGaussianDP,
    BoundedRange,
    DiscreteLaplaceShift,
    GaussianDP,
    Guarantee,
    PerfectPrivacy,
    Profile,
    PureDP,
    SmoothLaplace,
    ZeroConcentratedDP,
    rules,
)

from .makers import conjectured

DIVISIBLE = [
    PureDP("1/3"),
    ApproxDP(1, "1e-6"),
    ZeroConcentratedDP("1/7"),
    GaussianDP("0.1"),
    ApproximateGaussianDP(1, "1e-6", "1e-9"),
]
OTHERS = [
    BoundedRange(1),
    DiscreteLaplaceShift(3, 4),
    SmoothLaplace("1/2", "1.1"),
    Profile([PureDP(1), GaussianDP(1)], delta="1e-6"),
]
ALL = [PerfectPrivacy(), *DIVISIBLE, *OTHERS]


def _composed(*parts: Guarantee) -> Guarantee:
    return rules.compose(*map(conjectured, parts)).conclusion.guarantee


@pytest.mark.parametrize(("one", "other"), [*product(ALL, ALL)], ids=str)
def test_a_sum_is_what_two_releases_compose_to(one: Guarantee, other: Guarantee) -> None:
    assert one + other == _composed(one, other)


@pytest.mark.parametrize("one", ALL, ids=str)
def test_a_product_is_what_so_many_releases_compose_to(one: Guarantee) -> None:
    assert one * 1 == one
    for times in (2, 3, 5):
        assert times * one == one * times == _composed(*[one] * times)


@pytest.mark.parametrize("one", [PerfectPrivacy(), *DIVISIBLE], ids=str)
def test_parts_compose_to_the_whole_exactly(one: Guarantee) -> None:
    for parts in (1, 2, 3, 7, 1000):
        part = one / parts
        assert type(part) is type(one)
        assert part * parts == one
        assert part.implies(one)
    assert one / 2 + one / 2 == one
    assert 2 * one / 3 + one / 3 == one


@pytest.mark.parametrize("one", OTHERS, ids=str)
def test_what_does_not_add_up_is_not_divided(one: Guarantee) -> None:
    """A third of a bounded range, three times, is no bounded range: intervals that coins choose
    differ."""
    with pytest.raises(ValueError, match="no part 1 / 3: its kind does not add up"):
        _ = one / 3


def _uses(number: Any) -> list[Callable[[], Guarantee]]:
    one = PureDP(1)
    return [lambda: one * number, lambda: one.__rmul__(number), lambda: one / number]


@pytest.mark.parametrize("number", [0.5, "2", Fraction(1, 2), None, True, PureDP(1)], ids=str)
def test_a_number_of_releases_is_whole(number: Any) -> None:
    for use in _uses(number):
        with pytest.raises(TypeError, match=r"whole number of releases.*2 \* budget / 3"):
            use()


@pytest.mark.parametrize("number", [0, -1])
def test_a_number_of_releases_is_at_least_one(number: int) -> None:
    for use in _uses(number):
        with pytest.raises(ValueError, match=f"= {number}; give a number of releases, at least 1"):
            use()


def test_what_has_no_meaning_is_refused() -> None:
    with pytest.raises(TypeError, match="1 is not a guarantee"):
        _ = PureDP(1) + 1  # type: ignore[operator]
    with pytest.raises(TypeError, match="unsupported operand"):
        _ = 1 / PureDP(1)  # type: ignore[operator]
    with pytest.raises(ValueError, match="together they promise nothing"):
        _ = 2 * ApproxDP(1, "1/2")
    with pytest.raises(ValueError, match="together they promise nothing"):
        _ = ApproxDP(1, "1/2") + ApproxDP(1, "1/2")
    with pytest.raises(TypeError, match="no composition rule"):
        _ = 2 * OTHERS[3].for_group(2)
