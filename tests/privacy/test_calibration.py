"""The least sufficient multiplier: never too small, and simple where it can be."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from itertools import islice
from operator import le, lt

import pytest

from dpverify.privacy.calibration import (
    Unreachable,
    boundary,
    least_integer,
    simplest_between,
    smallest_sufficient,
)


def brute_force_simplest(low: Fraction, high: Fraction) -> Fraction:
    """Try every denominator in turn."""
    denominator = 1
    while True:
        numerator = -(-low.numerator * denominator // low.denominator)
        if numerator * high.denominator <= high.numerator * denominator:
            return Fraction(numerator, denominator)
        denominator += 1


def positives(seed: int) -> Iterator[Fraction]:
    """Yield 300 fractions from 1/300 to 300 with denominators of at most 300."""
    rng = random.Random(seed)
    for _ in range(300):
        denominator = rng.randint(1, rng.choice((1, 4, 30, 300)))
        most = rng.choice((1, 5, 300)) * denominator
        yield max(Fraction(rng.randint(1, most), denominator), Fraction(1, 300))


_PAIRS = (("1", "1"), ("1/3", "1/3"), ("1/3", "1/2"), ("7/5", "2"), ("1/2", "9"))


def test_the_simplest_fraction_is_found() -> None:
    crafted = [(Fraction(one), Fraction(other)) for one, other in _PAIRS]
    for pair in (*crafted, *zip(positives(1), positives(2), strict=True)):
        low, high = sorted(pair)
        assert simplest_between(low, high) == brute_force_simplest(low, high), (low, high)


def test_the_simplest_fraction_in_a_narrow_interval() -> None:
    rng = random.Random(3)
    for center in positives(4):
        narrow = rng.randint(10**6, 10**9)
        low, high = center - Fraction(1, narrow), center + Fraction(1, narrow)
        assert simplest_between(low, high) == brute_force_simplest(low, high) == center


def test_simplest_between_copes_with_extremes() -> None:
    tiny, huge = Fraction(1, 2**1100), Fraction(2**1100)
    assert simplest_between(huge, 2 * huge) == huge
    assert tiny <= simplest_between(tiny, tiny * (1 + Fraction(1, 2**50))) <= tiny * 2
    pi = Fraction(3141592653589793, 10**15)
    assert simplest_between(pi * (1 - tiny), pi * (1 + tiny)) == pi


def thresholds() -> Iterator[Fraction]:
    """Yield simple fractions, long ones from 10^-40 to 10^40, and powers of two times simple
    ones.
    """
    rng = random.Random(5)
    for simple in positives(6):
        yield simple
        yield Fraction(rng.randint(1, 10**40), rng.randint(1, 10**40))
        yield Fraction(10) ** rng.randint(-40, 39) * Fraction(rng.randint(100, 999), 100)
        yield simple * Fraction(2) ** rng.randint(-1000, 1000)


@pytest.mark.parametrize("open_end", [False, True])
def test_the_multiplier_is_sufficient_and_hardly_larger(open_end: bool) -> None:
    for threshold in islice(thresholds(), 400):
        holds = partial(lt if open_end else le, threshold)
        least = smallest_sufficient(holds)
        assert holds(least)
        assert least <= threshold * (1 + Fraction(1, 2**49)), threshold
        assert not holds(least * (1 - Fraction(1, 10**12))), threshold


def test_a_simple_boundary_is_met_exactly() -> None:
    for threshold in positives(7):
        assert smallest_sufficient(partial(le, threshold)) == threshold


def test_a_guess_changes_no_boundary() -> None:
    guesses: tuple[Callable[[float, float], float], ...] = (
        lambda x, root: math.log(root / x),  # right
        lambda x, root: root**3 - x**3,
        lambda x, root: 1.0 if x < root else -1e300,
        lambda x, root: math.log(root / x) + 1e-9,  # right but for a few intervals
        lambda x, root: 1.0,
        lambda x, root: -1.0,
        lambda x, root: 0.0,
        lambda x, root: math.nan,
        lambda x, root: math.inf if x < root else -math.inf,
        lambda x, root: x - root,  # of the wrong sign
    )
    for threshold in islice((t for t in thresholds() if 1e-100 < t < 1e100), 60):
        for gap in (Fraction(1, 2**40), Fraction(1, 3), Fraction(3, 10**7), Fraction(2)):
            holds = partial(le, threshold)
            plain = boundary(holds, gap=gap)
            assert plain[0] < threshold <= plain[1] <= (1 + gap) * plain[0]
            for guess in guesses:

                def signed(
                    x: Fraction,
                    guess: Callable[[float, float], float] = guess,
                    root: float = float(threshold),
                ) -> float:
                    return guess(float(x), root)

                assert boundary(holds, gap=gap, signed=signed) == plain


def _log_below(threshold: Fraction, x: Fraction) -> float:
    return math.log(threshold) - math.log(x)


def test_a_right_guess_saves_most_of_the_tests() -> None:
    for threshold in (Fraction(1, 3), Fraction(7), Fraction(10**9, 7)):
        asked: list[Fraction] = []

        def holds(
            x: Fraction, threshold: Fraction = threshold, asked: list[Fraction] = asked
        ) -> bool:
            asked.append(x)
            return x >= threshold

        boundary(holds)
        halving = len(asked)
        boundary(holds, signed=partial(_log_below, threshold))
        assert len(asked) - halving <= halving - 38


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
