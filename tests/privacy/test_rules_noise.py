"""Rules about noise and choices by score: their numbers, and explicit laws that keep the promise.

Every check is a function of the rule, so that a false twin of the rule can be seen to fail it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpverify.privacy import (
    BoundedRange,
    DiscreteLaplaceShift,
    GaussianDP,
    Guarantee,
    Norm,
    PerfectPrivacy,
    PureDP,
    ZeroConcentratedDP,
    rules,
    sources_of,
)
from spec.theory import rules as spec_rules
from spec.theory.laws import real

from . import noise_laws as laws
from .makers import fractions, lemma
from .noise_laws import DIGITS, ROUNDING, Case, Rule, Shift, holds, keeps, measure, squared

_steady = settings(derandomize=True, deadline=None, max_examples=150)
_EXTREMES = [Fraction(1, 2**10), Fraction(2**45), Fraction(5e-324), Fraction(1e308)]
_POSITIVE = fractions("1/10000", 10000) | st.sampled_from(_EXTREMES)


def _discrete(square: Fraction, sigma: Fraction) -> Guarantee:
    premise = lemma(square, norm=Norm.SQUARED_L2)
    return rules.discrete_gaussian(premise, sigma).conclusion.guarantee


def _rounded(square: Fraction, sigma: Fraction) -> Guarantee:
    premise = lemma(square, norm=Norm.SQUARED_L2)
    return rules.rounded_gaussian(premise, sigma).conclusion.guarantee


def _choice(moved: Fraction, scale: Fraction, norm: Norm) -> Guarantee:
    return rules.exponential_mechanism(lemma(moved, norm=norm), scale).conclusion.guarantee


def _exactly(moved: int, scale: Fraction) -> Guarantee:
    premise = lemma(moved)
    return rules.discrete_laplace(premise, scale, exactly=True).conclusion.guarantee


@_steady
@given(_POSITIVE, _POSITIVE)
def test_the_rules_numbers_are_the_spec_s(moved: Fraction, scale: Fraction) -> None:
    rho = spec_rules.discrete_gaussian(moved, scale)
    assert _discrete(moved, scale) == ZeroConcentratedDP(rho)
    mu_squared = spec_rules.rounded_gaussian(moved, scale)
    assert _rounded(moved, scale) == GaussianDP.of_square(mu_squared)
    for norm in (Norm.L_INFINITY, Norm.RANGE):
        length = spec_rules.exponential_mechanism(moved, scale, one_way=norm is Norm.RANGE)
        assert _choice(moved, scale, norm) == BoundedRange(length)


@_steady
@given(st.integers(1, 10**9), _POSITIVE)
def test_an_exact_laplace_shift_has_the_spec_s_largest_loss(moved: int, scale: Fraction) -> None:
    assert _exactly(moved, scale) == DiscreteLaplaceShift(moved, scale)
    loss = spec_rules.discrete_laplace(Fraction(moved), scale)
    assert _exactly(moved, scale).largest_loss == loss


# --- explicit laws ------------------------------------------------------------------------------


def _random_choice(rng: random.Random) -> list[Case]:
    """Scores that change, told in both norms."""
    scores = [rng.randint(-5, 5) for _ in range(rng.randint(2, 5))]
    changes = [rng.randint(-3, 3) for _ in scores]
    changes[1] = changes[0] + rng.choice([1, 3])
    scale = Fraction(rng.choice(["1/2", "3", "40"]))
    before = laws.weighted({i: score / scale for i, score in enumerate(scores)})
    after = laws.weighted({i: (scores[i] + c) / scale for i, c in enumerate(changes)})
    spread, most = Fraction(max(changes) - min(changes)), Fraction(max(map(abs, changes)))
    case = measure((), (before, after), laws.around(spread / scale), laws.ORDERS, losses=True)
    told = (spread, scale, Norm.RANGE), (most, scale, Norm.L_INFINITY)
    return [case._replace(facts=facts) for facts in told]


@cache
def _choice_cases() -> list[Case]:
    rng = random.Random(20250601)
    return [case for _ in range(30) for case in _random_choice(rng)]


@cache
def _shift_cases() -> list[Case]:
    """List cases at the losses k / scale, between and beyond them; tails are lumped where loss
    is constant."""
    cases = []
    for scale in (Fraction(1, 2**10), Fraction(2, 3), Fraction(1), Fraction(7), Fraction(2**45)):
        for moved in (1, 2, 5):
            tail, cuts = laws.laplace_tail(scale), range(moved + 2)
            pair = laws.binned(tail, 0, cuts), laws.binned(tail, moved, cuts)
            epsilons = [Fraction(k, 4) / scale for k in range(4 * moved + 3)]
            cases.append(measure((moved, scale), pair, epsilons))
    return cases


_RULES: dict[str, tuple[Rule, Callable[[], list[Case]]]] = {
    "discrete Gaussian": (
        lambda shift, sigma: _discrete(squared(shift), sigma),
        laws.discrete_gaussian_cases,
    ),
    "rounded Gaussian": (
        lambda shift, sigma: _rounded(squared(shift), sigma),
        laws.rounded_gaussian_cases,
    ),
    "exponential": (_choice, _choice_cases),
    "exact Laplace": (_exactly, _shift_cases),
}


def test_both_ways_at_many_epsilons_are_as_summed_one_by_one() -> None:
    rng = random.Random(3)
    for outcomes in (1, 2, 7, 40):
        pair = tuple(
            laws.weighted({o: Fraction(rng.randint(-40, 40), 8) for o in range(start, outcomes)})
            for start in (0, outcomes // 7)  # some outcomes have one law's mass alone
        )
        epsilons = [Fraction(k, 3) for k in range(9)] + [Fraction(1000)]
        for epsilon, stick in laws.hockey_sticks((pair[0], pair[1]), epsilons).items():
            with mp.workdps(DIGITS):
                one_by_one = max(
                    spec_rules.hockey_stick(p, q, mp.exp(real(epsilon)))
                    for p, q in (pair, pair[::-1])
                )
                assert abs(stick - one_by_one) <= real(ROUNDING)


@pytest.mark.parametrize("name", _RULES)
def test_explicit_laws_keep_what_the_rule_promises(name: str) -> None:
    rule, cases = _RULES[name]
    assert holds(rule, cases())


def test_rounded_gaussian_noise_takes_an_l1_sensitivity_for_an_l2_one() -> None:
    """|x|_2 <= |x|_1, with equality where one coordinate alone moves: the same claim as of its
    square."""
    for moved, sigma in ((Fraction(3, 2), Fraction(2)), (Fraction(6), Fraction(5, 3))):
        of_l1 = rules.rounded_gaussian(lemma(moved, norm=Norm.L1), sigma).conclusion.guarantee
        of_l2 = rules.rounded_gaussian(lemma(moved**2, norm=Norm.SQUARED_L2), sigma)
        assert of_l1 == of_l2.conclusion.guarantee == GaussianDP(moved / sigma)


def test_rounded_gaussian_noise_has_nothing_to_spare_at_the_thresholds() -> None:
    assert all(len(case.sticks) > 1 for case in laws.threshold_cases())
    rule, _ = _RULES["rounded Gaussian"]
    assert laws.spares_nothing(rule, laws.threshold_cases())


def test_the_profile_of_exact_laplace_noise_is_the_sum_over_all_outcomes() -> None:
    assert laws.spares_nothing(_exactly, _shift_cases())
    assert not laws.spares_nothing(lambda moved, scale: PureDP(moved / scale), _shift_cases())


def test_a_query_that_moves_less_keeps_the_promise_of_its_sensitivity() -> None:
    for case in _shift_cases():
        moved, scale = case.facts
        assert keeps(_exactly(moved + 1, scale), case)
        assert keeps(_exactly(moved + 7, scale), case)


def test_discrete_gaussian_noise_has_nothing_to_spare_at_whole_orders() -> None:
    with mp.workdps(DIGITS):
        for case in laws.discrete_gaussian_cases():
            shift, sigma = case.facts
            rho = _discrete(squared(shift), sigma).concentrated
            assert rho is not None
            for order in (Fraction(2), Fraction(5)):
                assert case.renyi[order] >= real(order * rho * (1 - ROUNDING))


def test_scores_that_change_by_the_whole_range_use_the_whole_interval() -> None:
    with mp.workdps(DIGITS):
        for case in _choice_cases():
            moved, scale, norm = case.facts
            length = spec_rules.exponential_mechanism(moved, scale, one_way=True)
            assert norm is Norm.L_INFINITY or case.losses >= real(length - ROUNDING)


def test_the_worst_pair_of_scores_attains_the_profile_of_a_bounded_range() -> None:
    scale, gap = Fraction(10**9), 10**9  # two candidates, losses t and t - 1, t the worst one
    for epsilon in (Fraction(0), Fraction(1, 4), Fraction(4, 5)):
        share = (mp.e - mp.exp((1 + real(epsilon)) / 2)) / (mp.e - 1)
        score = round(10**9 * mp.log(share / (1 - share)))
        first = laws.weighted({"a": score / scale, "b": Fraction(0)})
        second = laws.weighted({"a": (score - gap) / scale, "b": Fraction(0)})
        case = measure((Fraction(gap), scale, Norm.RANGE), (first, second), [epsilon])
        assert keeps(_choice(*case.facts), case)
        assert laws.attains(_choice(*case.facts), case, within="1e-8")


# --- false twins --------------------------------------------------------------------------------

_FALSE_SQUARES: dict[str, Callable[[Shift, Fraction], Fraction]] = {  # of L2 / sigma
    "half": lambda shift, sigma: squared(shift) / sigma**2 / 2,
    "deviation for variance": lambda shift, sigma: squared(shift) / sigma,
    "largest coordinate": lambda shift, sigma: max(x * x for x in shift) / sigma**2,
    "L1 for L2": lambda shift, sigma: sum(map(abs, shift)) / sigma**2,
    "sigma forgotten": lambda shift, sigma: squared(shift),
    "inverted": lambda shift, sigma: squared(shift) * sigma**2,
    "a hair less": lambda shift, sigma: squared(shift) / sigma**2 * Fraction(999_999, 10**6),
}


@pytest.mark.parametrize("twin", _FALSE_SQUARES.values(), ids=_FALSE_SQUARES)
def test_false_twins_of_the_gaussian_rules_are_caught(
    twin: Callable[[Shift, Fraction], Fraction],
) -> None:
    assert not holds(lambda *f: GaussianDP.of_square(twin(*f)), laws.rounded_gaussian_cases())
    assert not holds(lambda *f: ZeroConcentratedDP(twin(*f) / 2), laws.discrete_gaussian_cases())


_FALSE_LENGTHS: dict[str, Callable[[Fraction, Fraction, Norm], Fraction]] = {
    "the largest change as a range": lambda moved, scale, norm: moved / scale,
    "half": lambda moved, scale, norm: (moved if norm is Norm.L_INFINITY else moved / 2) / scale,
    "norms exchanged": lambda moved, scale, norm: (1 + (norm is Norm.RANGE)) * moved / scale,
    "variance for scale": lambda moved, scale, norm: moved / scale**2,
    "inverted scale": lambda moved, scale, norm: moved * scale,
    "a hair less": lambda moved, scale, norm: (
        (1 + (norm is Norm.L_INFINITY)) * moved / scale * Fraction(999_999, 10**6)
    ),
}


@pytest.mark.parametrize("twin", _FALSE_LENGTHS.values(), ids=_FALSE_LENGTHS)
def test_false_twins_of_the_exponential_mechanism_are_caught(
    twin: Callable[[Fraction, Fraction, Norm], Fraction],
) -> None:
    assert not holds(lambda *facts: BoundedRange(twin(*facts)), _choice_cases())


def test_a_ninth_of_the_squared_range_is_too_little_concentration() -> None:
    def ninth(moved: Fraction, scale: Fraction, norm: Norm) -> Guarantee:
        length = spec_rules.exponential_mechanism(moved, scale, one_way=norm is Norm.RANGE)
        return ZeroConcentratedDP(length**2 / 9)

    assert not holds(ninth, _choice_cases())


_FALSE_SHIFTS: dict[str, Rule] = {
    "one less": lambda moved, scale: DiscreteLaplaceShift(max(moved - 1, 1), scale),
    "double scale": lambda moved, scale: DiscreteLaplaceShift(moved, 2 * scale),
    "a hair less": lambda moved, scale: DiscreteLaplaceShift(moved, scale * Fraction(1001, 1000)),
    "one": lambda moved, scale: DiscreteLaplaceShift(1, scale),
    "losses within moved / scale": lambda moved, scale: BoundedRange(moved / scale),
    "perfect": lambda moved, scale: PerfectPrivacy(),
}


@pytest.mark.parametrize("twin", _FALSE_SHIFTS.values(), ids=_FALSE_SHIFTS)
def test_false_twins_of_exact_laplace_noise_are_caught(twin: Rule) -> None:
    assert not holds(twin, _shift_cases())


# --- side conditions ----------------------------------------------------------------------------

_OF_SCORES = {Norm.L_INFINITY, Norm.RANGE}
_NOISES: list[tuple[str, Callable[..., Any], set[Norm], str]] = [
    ("discrete Gaussian", rules.discrete_gaussian, {Norm.SQUARED_L2}, "sigma"),
    ("rounded Gaussian", rules.rounded_gaussian, {Norm.L1, Norm.SQUARED_L2}, "sigma"),
    ("the exponential mechanism", rules.exponential_mechanism, _OF_SCORES, "scale"),
    ("discrete Laplace", rules.discrete_laplace, {Norm.L1}, "scale"),
]


@pytest.mark.parametrize(("name", "rule", "norms", "called"), _NOISES)
def test_noise_refuses_other_norms_and_scales_that_are_no_scales(
    name: str, rule: Callable[..., Any], norms: set[Norm], called: str
) -> None:
    for norm in set(Norm) - norms:
        message = rf"{name} needs a sensitivity in .* distance, but .* the count"
        with pytest.raises(ValueError, match=message):
            rule(lemma(norm=norm), 1)
    for norm in norms:
        for scale in (0, -1, Fraction(-1, 3), "-1e-300", -0.0):
            message = f"{called} = {scale} is not positive; noise needs a {called} above 0."
            with pytest.raises(ValueError, match=re.escape(message)):
                rule(lemma(norm=norm), scale)
        for number in (float("nan"), float("inf")):
            with pytest.raises(ValueError, match=re.escape(f"{called} = {number} is not finite")):
                rule(lemma(norm=norm), number)
        with pytest.raises(TypeError, match=re.escape(f"{called} = True is a truth value")):
            rule(lemma(norm=norm), True)
        assert rule(lemma(0, norm=norm), _EXTREMES[0]).conclusion.guarantee == PerfectPrivacy()
    assert sources_of(rule)


@pytest.mark.parametrize(
    ("premise", "message"),
    [
        (
            lemma("3/2"),
            "neighbors' values of the count differ by at most 1.5 in L1 distance; leave it out.",
        ),
        (lemma("1/2"), "needs an integer query of whole sensitivity"),
    ],
)
def test_exact_laplace_noise_is_for_integers_that_move_by_whole_steps(
    premise: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        rules.discrete_laplace(premise, 1, exactly=True)
    assert isinstance(rules.discrete_laplace(premise, 1).conclusion.guarantee, PureDP)
    assert _exactly(0, Fraction(3)) == PerfectPrivacy()
