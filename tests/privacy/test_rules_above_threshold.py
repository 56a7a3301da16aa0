"""AboveThreshold: the rule's numbers, small universes of answers by summation, false twins of
the rule."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache

import mpmath as mp
import pytest

from dpverify.privacy import (
    BoundedRange,
    DiscreteLaplaceShift,
    Guarantee,
    Norm,
    PerfectPrivacy,
    rules,
    sources_of,
)
from spec.theory import rules as spec_rules
from spec.theory.above_threshold import laws_of, pairs_of_answers
from spec.theory.laws import real_exponential

from .makers import lemma
from .noise_laws import DIGITS, ORDERS, Case, around, holds, measure

_NORMS = (Norm.L_INFINITY, Norm.ONE_WAY)


def _rule(
    moved: int, scale: Fraction, query_scale: Fraction, norm: Norm, *, by_range: bool = False
) -> Guarantee:
    premise = lemma(moved, norm=norm)
    made = rules.above_threshold(premise, scale=scale, query_scale=query_scale, by_range=by_range)
    return made.conclusion.guarantee


@pytest.mark.parametrize("norm", _NORMS)
@pytest.mark.parametrize("moved", [1, 2, 7])
@pytest.mark.parametrize("scale", [Fraction(1, 2**10), Fraction(7, 3), Fraction(2**45)])
def test_the_rule_s_numbers_are_the_spec_s(moved: int, scale: Fraction, norm: Norm) -> None:
    one_way = norm is Norm.ONE_WAY
    own = scale if one_way else 2 * scale
    loss, length = spec_rules.above_threshold(moved, scale, own, one_way=one_way)
    assert _rule(moved, scale, own, norm) == DiscreteLaplaceShift(2 * moved, scale)
    assert _rule(moved, scale, own, norm).largest_loss == loss
    if one_way:
        assert _rule(moved, scale, own, norm, by_range=True) == BoundedRange(length)


@cache
def _cases(one_way: bool) -> list[Case]:
    """Facts: moved, scale, query_scale, norm. All answers of up to 3 queries about the
    threshold."""
    cases, norm = [], Norm.ONE_WAY if one_way else Norm.L_INFINITY
    for moved, scale in ((1, Fraction(2, 3)), (2, Fraction(2))):
        own = scale if one_way else 2 * scale
        few = pairs_of_answers(moved, one_way=one_way, most=2)
        last = -30 if one_way else -30 - moved
        many = (-30, *(0,) * 6, -30), (moved - 30, *(moved,) * 6, last)
        for pair in (*few, many):
            with mp.workdps(DIGITS):
                p, q = (
                    dict(enumerate(law.masses(real_exponential)))
                    for law in laws_of(pair, scale, own)
                )
            facts = moved, scale, own, norm
            epsilons = around(2 * moved / scale)
            cases.append(measure(facts, (p, q), epsilons, ORDERS, losses=True))
    return cases


@pytest.mark.parametrize("one_way", [False, True])
def test_all_small_neighbors_keep_what_the_rule_promises(one_way: bool) -> None:
    assert holds(_rule, _cases(one_way))
    if one_way:
        assert holds(lambda *facts: _rule(*facts, by_range=True), _cases(True))


_TWINS: dict[str, tuple[bool, Callable[..., Guarantee]]] = {
    "a report costs one move where some fall": (
        False,
        lambda d, a, b, n: DiscreteLaplaceShift(2 * d - 1, a),
    ),
    "one way: only the report": (True, lambda d, a, b, n: DiscreteLaplaceShift(d, a)),
    "one way: a range of the largest loss": (True, lambda d, a, b, n: BoundedRange(2 * d / a)),
    "a shorter range": (True, lambda d, a, b, n: BoundedRange(d * Fraction(29, 10) / a)),
}


@pytest.mark.parametrize("twin", _TWINS)
def test_a_false_twin_is_noticed(twin: str) -> None:
    one_way, rule = _TWINS[twin]
    assert not holds(rule, _cases(one_way))


def test_noise_of_one_way_queries_does_not_suffice_where_some_fall() -> None:
    scale = Fraction(2)
    cases = []
    for pair in (((0,) * 9 + (-60,), (1,) * 9 + (-61,)),):
        with mp.workdps(DIGITS):
            p, q = (
                dict(enumerate(law.masses(real_exponential))) for law in laws_of(pair, scale, scale)
            )
        cases.append(measure((1, scale, 2 * scale, Norm.L_INFINITY), (p, q), [Fraction(1)]))
    assert not holds(_rule, cases)


def test_queries_that_cannot_move_cost_nothing() -> None:
    assert _rule(0, Fraction(1), Fraction(2), Norm.L_INFINITY) == PerfectPrivacy()


_REFUSED = [
    (lambda: _rule(1, Fraction(1), Fraction(2), Norm.L1), "needs a sensitivity in L-infinity"),
    (lambda: _rule(1, Fraction(1), Fraction(1), Norm.L_INFINITY), "2 times the threshold's"),
    (lambda: _rule(1, Fraction(1), Fraction(1, 2), Norm.ONE_WAY), "1 times the threshold's"),
    (
        lambda: _rule(1, Fraction(1), Fraction(2), Norm.L_INFINITY, by_range=True),
        "leave out by_range",
    ),
    (lambda: _rule(1, Fraction(0), Fraction(2), Norm.ONE_WAY), "scale = 0 is not positive"),
    (lambda: _rule(1, Fraction(1), Fraction(-2), Norm.ONE_WAY), "query_scale = -2 is not"),
    (
        lambda: rules.above_threshold(lemma("1/2", norm=Norm.ONE_WAY), scale=1, query_scale=1),
        "whole sensitivity",
    ),
]


@pytest.mark.parametrize(("made", "message"), _REFUSED)
def test_a_side_condition_is_checked(made: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made()


def test_both_sources_are_stated() -> None:
    shown = {str(source) for source in sources_of(spec_rules.above_threshold)}
    assert shown == {str(source) for source in sources_of(rules.above_threshold)}
