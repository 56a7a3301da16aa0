"""Compositions with parameters that floats and balls cannot tell: nothing is promised too much."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpverify.privacy import (
    ApproxDP,
    BoundedRange,
    DiscreteLaplaceShift,
    GaussianDP,
    Guarantee,
    Profile,
    PureDP,
    SmoothLaplace,
    ZeroConcentratedDP,
)
from dpverify.privacy.numerics import composing
from dpverify.privacy.numerics.laws import square_of

FAR: dict[str, tuple[tuple[Guarantee, int], ...]] = {
    "growth": ((SmoothLaplace(1, 10**100), 2),),
    "growth and ranges": ((SmoothLaplace(1, 10**100), 1), (BoundedRange(1), 2)),
    "no shift": ((SmoothLaplace("1e-300", "1e100"), 1), (BoundedRange(1), 2)),
    "shift": ((SmoothLaplace(10**50, 2), 2),),
}


@pytest.mark.parametrize("name", FAR)
def test_what_cannot_be_computed_promises_nothing(name: str) -> None:
    """A ball that is no number is not small: such a profile was once nearly 0."""
    parts = [part for part, times in FAR[name] for _ in range(times)]
    profile = Profile(parts)
    for epsilon in (1, 2, 3, 5):
        assert profile.delta_at(epsilon).upper == 1
        assert not profile.implies(ApproxDP(epsilon, "1e-9"))
    assert profile.tradeoff_at("0.1").lower == 0


NEARLY_NOTHING: dict[str, tuple[tuple[Guarantee, int], ...]] = {
    "growth": ((SmoothLaplace(1, 1 + Fraction(1, 10**60)), 2),),
    "growth and ranges": ((SmoothLaplace(1, 1 + Fraction(1, 10**60)), 1), (BoundedRange(1), 2)),
    "shift and growth": ((SmoothLaplace("1e-60", 1 + Fraction(1, 10**60)), 2),),
    "ranges": ((BoundedRange("1e-400"), 7),),
}


@pytest.mark.parametrize("name", NEARLY_NOTHING)
def test_parameters_that_floats_cannot_tell_from_nothing_are_taken_as_larger(name: str) -> None:
    parts = [part for part, times in NEARLY_NOTHING[name] for _ in range(times)]
    alone = max(part.delta_at("1/2").lower for part in parts)
    delta = Profile(parts).delta_at("1/2")
    assert alone <= delta.upper
    assert delta.lower <= delta.upper < Fraction(1, 2)


def test_an_upper_end_of_what_is_possible_is_positive() -> None:
    tiny = SmoothLaplace("1e-20", 1 + Fraction(1, 10**20))
    profile = Profile([tiny, PureDP(Fraction(3, 10)), PureDP(Fraction(7, 10))])
    assert profile.delta_at("3/2").upper > 0


def test_nearly_all_of_delta_has_an_epsilon() -> None:
    epsilon = Profile([PureDP(100)] * 3).epsilon_at(1 - Fraction(1, 10**18))
    assert 258 < epsilon.lower <= epsilon.upper < 259


_LEAST = Fraction(1, 10**300)
FAR_APART: dict[str, tuple[list[tuple[Guarantee, int]], int, str, str]] = {
    "much zCDP": ([(ZeroConcentratedDP(10**12), 1), (BoundedRange(1), 200)], 1, "1", "1"),
    "more zCDP": ([(ZeroConcentratedDP(10**300), 1), (BoundedRange(1), 3)], 10**300, "0", "1"),
    "hardly a range": (
        [(BoundedRange(_LEAST), 300), (DiscreteLaplaceShift(1, 1), 10)],
        10,
        "0",
        "1e-60",
    ),
    "hardly pure": ([(DiscreteLaplaceShift(1, 1), 10), (PureDP(_LEAST), 300)], 10, "0", "1e-60"),
    "hardly a shift": ([(DiscreteLaplaceShift(10**9, 10**340), 2)], 0, "0", "1e-300"),
    "many digits": ([(BoundedRange(Fraction(1, 2**12999)), 2)], 0, "0", "1e-300"),
    "hardly zCDP": (
        [(ZeroConcentratedDP("1e-400"), 1), (BoundedRange("0.5"), 3)],
        0,
        "0.18",
        "0.201",
    ),
    "many copies": ([(SmoothLaplace("1e-9", 10**6), 10), (BoundedRange(1), 10)], 0, "0.5", "1"),
    "much noise": ([(GaussianDP("1e-300"), 1), (SmoothLaplace(1, 2), 1)], 50, "0", "1e-20"),
}


@pytest.mark.parametrize("name", FAR_APART)
def test_sizes_that_are_far_apart_take_no_more_memory_or_time(name: str) -> None:
    """Some of these once asked for gigabytes, or raised; the bounds are from closed forms, or
    nothing."""
    stages, epsilon, least, most = FAR_APART[name]
    delta = Profile(stages).delta_at(epsilon)
    assert Fraction(least) <= delta.lower + Fraction(1, 10**12)
    assert delta.upper <= Fraction(most)


def test_what_attains_long_parameters_is_no_less_private() -> None:
    """A sum of too many digits is rounded up where it is promised, never where it is reached."""
    rho, square = 1 + Fraction(1, 3**4001), 1 + Fraction(1, 5**3001)
    parts = ((ZeroConcentratedDP(rho), 1), (GaussianDP.of_square(square), 1), (PureDP(1), 1))
    reached = composing._attaining(parts)
    assert square_of(reached) == 2 * rho + square
    delta = composing.attained(parts, Fraction(1))
    near = Profile([GaussianDP.of_square(3), PureDP(1)]).delta_at(1)
    assert abs(delta.lower - near.lower) < near.lower / 50


@pytest.mark.parametrize("kind", [PureDP, BoundedRange])
def test_an_epsilon_of_many_denominators_is_found(kind: type[PureDP] | type[BoundedRange]) -> None:
    """The sum of their squares has more digits than a parameter may have."""
    stages = [kind(Fraction(1, 10**25 + 2 * i + 1)) for i in range(200)]
    epsilon = Profile(stages).epsilon_at("1e-40")
    assert 0 <= epsilon.lower <= epsilon.upper <= Fraction(201, 10**25)
