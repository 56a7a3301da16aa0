"""Privacy profiles: the enclosures against the spec's formula at hundreds of digits."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import mpmath as mp
import pytest
from mpmath.libmp import to_rational

from dpverify.privacy import ApproxDP, PerfectPrivacy, PureDP
from dpverify.privacy.balls import Enclosure
from spec.theory import profiles as spec_rules

# e^a - e^b cancels 324 digits at a = 5e-324, and at a = 1e308 another 308 are in front of the
# point; with 750 the formula as it is written keeps far more than 60 correct digits everywhere.
_DIGITS = 750
_SLACK = Fraction(1, 10**90)  # of the reference's own rounding; an enclosure is about 1e-59 wide
_GAP = Fraction(1, 10**25)

_LEAST = Fraction(5e-324)
_CLAIMED = [Fraction(text) for text in ("1e-300", "1e-6", "1/3", "1", "1.28", "10", "700", "1e9")]
_CLAIMED += [_LEAST, Fraction(1e308)]
_DELTAS = [Fraction(text) for text in ("0", "1e-300", "1e-6", "1/3")] + [1 - Fraction(1, 2**60)]

Profile = Callable[[Fraction, Fraction, Fraction], Enclosure]


def _library(claimed: Fraction, delta: Fraction, epsilon: Fraction) -> Enclosure:
    return ApproxDP(claimed, delta).delta_at(epsilon)


@cache
def _truth(claimed: Fraction, delta: Fraction, epsilon: Fraction) -> Fraction:
    with mp.workdps(_DIGITS):
        value = spec_rules.profile(claimed, delta, epsilon)
        return Fraction(*to_rational(value._mpf_))


def drawn(*ranges: tuple[str, str]) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Call a test with 150 draws from these ranges: their ends, and simple and long fractions."""

    def number(rng: random.Random, low: Fraction, high: Fraction) -> Fraction:
        parts = rng.choice((1, 7, 1000, 10**12))
        return low + (high - low) * Fraction(rng.randint(0, parts), parts)

    def wrap(test: Callable[..., None]) -> Callable[[], None]:
        def run() -> None:
            rng = random.Random(test.__name__)
            for _ in range(150):
                test(*(number(rng, *map(Fraction, one)) for one in ranges))

        return run

    return wrap


def _grid() -> list[tuple[Fraction, Fraction, Fraction]]:
    cases: list[tuple[Fraction, Fraction, Fraction]] = []
    for claimed in _CLAIMED:
        for epsilon in (
            Fraction(0),
            _LEAST,
            Fraction("1e-300"),
            Fraction("0.5"),
            Fraction(700),
            claimed / 2,
            claimed * (1 - Fraction(1, 2**52)),
            claimed - _LEAST,
            claimed,
            claimed + _LEAST,
            2 * claimed,
        ):
            cases.extend((claimed, delta, epsilon) for delta in _DELTAS)
    return cases


def _encloses(profile: Profile, case: tuple[Fraction, Fraction, Fraction]) -> bool:
    enclosure, truth = profile(*case), _truth(*case)
    slack = truth * _SLACK
    holds = enclosure.lower - slack <= truth <= enclosure.upper + slack
    return holds and enclosure.upper - enclosure.lower <= _GAP * truth


def test_the_enclosure_holds_the_spec_s_profile_and_little_else() -> None:
    wrong = [case for case in _grid() if not _encloses(_library, case)]
    assert wrong == []


def _half(claimed: Fraction, delta: Fraction, epsilon: Fraction) -> Enclosure:
    true = _library(claimed, delta, epsilon)
    return Enclosure(true.lower / 2, true.upper / 2)


def _without_delta(claimed: Fraction, delta: Fraction, epsilon: Fraction) -> Enclosure:
    return _library(claimed, Fraction(0), epsilon)


def _delta_added(claimed: Fraction, delta: Fraction, epsilon: Fraction) -> Enclosure:
    pure = _library(claimed, Fraction(0), epsilon)
    return Enclosure(pure.lower + delta, pure.upper + delta)


def _barely_off(claimed: Fraction, delta: Fraction, epsilon: Fraction) -> Enclosure:
    true, push = _library(claimed, delta, epsilon), 1 + Fraction(1, 10**50)
    return Enclosure(true.lower * push, true.upper * push)


def _too_wide(claimed: Fraction, delta: Fraction, epsilon: Fraction) -> Enclosure:
    return Enclosure(Fraction(0), Fraction(1))


@pytest.mark.parametrize("twin", [_half, _without_delta, _delta_added, _barely_off, _too_wide])
def test_a_false_profile_is_caught(twin: Profile) -> None:
    assert not all(_encloses(twin, case) for case in _grid())


@drawn(
    ("1/1000", "50"),
    ("0", "99/100"),
    ("0", "60"),
)
def test_the_enclosure_holds_everywhere(
    claimed: Fraction, delta: Fraction, epsilon: Fraction
) -> None:
    assert _encloses(_library, (claimed, delta, epsilon))


def test_from_the_claimed_epsilon_on_the_profile_is_delta_exactly() -> None:
    for epsilon in (Fraction(1), 1 + _LEAST, Fraction(1e308)):
        assert PureDP(1).delta_at(epsilon) == Enclosure(Fraction(0), Fraction(0))
        tiny = Fraction(1, 10**6)
        assert ApproxDP(1, tiny).delta_at(epsilon) == Enclosure(tiny, tiny)


def test_just_below_the_claimed_epsilon_the_profile_is_above_delta() -> None:
    assert PureDP(1).delta_at(1 - _LEAST).lower > 0
    assert ApproxDP(1, "1e-6").delta_at(1 - _LEAST).lower > Fraction(1, 10**6)


def test_perfect_privacy_has_the_zero_profile() -> None:
    for epsilon in (0, 5e-324, 1e308):
        assert PerfectPrivacy().delta_at(epsilon) == Enclosure(Fraction(0), Fraction(0))


def test_pure_is_approximate_with_delta_zero() -> None:
    for epsilon in (0, "0.5", "0.999", 1, 2):
        assert PureDP(1).delta_at(epsilon) == ApproxDP(1, 0).delta_at(epsilon)


@drawn(
    ("1/1000", "1000"),
    ("0", "99/100"),
    ("0", "1100"),
    ("0", "1100"),
)
def test_the_profile_never_rises_with_epsilon(
    claimed: Fraction, delta: Fraction, epsilon: Fraction, more: Fraction
) -> None:
    guarantee = ApproxDP(claimed, delta)
    assert guarantee.delta_at(epsilon + more).lower <= guarantee.delta_at(epsilon).upper


@drawn(
    # Up to 40 only: at 1000 the profile falls by e^-1000 of itself, which no enclosure shows.
    ("1/1000", "40"),
    ("0", "99/100"),
    ("0", "999/1000"),
    ("1/10000", "1"),
)
def test_the_profile_falls_strictly_up_to_the_claimed_epsilon(
    claimed: Fraction, delta: Fraction, share: Fraction, step: Fraction
) -> None:
    guarantee, epsilon = ApproxDP(claimed, delta), share * claimed
    here, further = guarantee.delta_at(epsilon), guarantee.delta_at(epsilon + step)
    assert further.upper < here.lower


@drawn(
    ("1/1000", "40"),
    ("1/1000", "1"),
    ("0", "9/10"),
    ("0", "1"),
)
def test_the_profile_rises_with_epsilon_and_delta_of_the_claim(
    claimed: Fraction, more: Fraction, delta: Fraction, share: Fraction
) -> None:
    epsilon = share * claimed
    here = ApproxDP(claimed, delta).delta_at(epsilon)
    assert here.upper < ApproxDP(claimed + more, delta).delta_at(epsilon).lower
    assert here.upper < ApproxDP(claimed, delta + Fraction(1, 1000)).delta_at(epsilon).lower
