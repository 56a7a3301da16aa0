"""Refusals of the rules: each says what was given, why it is refused, and what to write."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from flint import arb

from dpverify.privacy import (
    PAPERS,
    ApproxDP,
    Guarantee,
    Norm,
    PerfectPrivacy,
    PureDP,
    Source,
    SourceStatus,
    rules,
    sources_of,
    states,
)

from .makers import COLUMN, conjectured, lemma, proved


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: lemma(-1),
            "sensitivity = -1 is negative; a distance is at least 0.",
        ),
        (
            lambda: lemma("-1/2"),
            "sensitivity = -1/2 is negative; a distance is at least 0.",
        ),
        (
            lambda: lemma(obligation="theory/queries.py:shown_somewhere"),
            "obligation = 'theory/queries.py:shown_somewhere'; "
            "name it as 'path/in/spec.py:obligation_name'.",
        ),
        (
            lambda: lemma(obligation=""),
            "obligation = ''; name it as 'path/in/spec.py:obligation_name'.",
        ),
        (
            lambda: rules.public_value(lemma(1)),
            "neighbors' values of the count differ by at most 1 in L1 distance; only a query that "
            "no neighbor can change is released without noise.",
        ),
        (
            lambda: rules.public_value(lemma("1e-300")),
            "neighbors' values of the count differ by at most 1e-300 in L1 distance; only a query",
        ),
        (
            lambda: rules.discrete_laplace(lemma(norm=Norm.HAMMING), Fraction(1)),
            "discrete Laplace needs a sensitivity in L1 distance, but neighbors' values of the "
            "count differ by at most 1 in Hamming distance.",
        ),
        (
            lambda: rules.randomized_response(lemma(), Fraction(1)),
            "randomized response needs a sensitivity in Hamming distance, but neighbors' values "
            "of the count differ by at most 1 in L1 distance.",
        ),
        (
            lambda: rules.discrete_laplace(lemma(), Fraction(0)),
            "scale = 0 is not positive; noise needs a scale above 0.",
        ),
        (
            lambda: rules.randomized_response(lemma(norm=Norm.HAMMING), Fraction(-1, 3)),
            "scale = -1/3 is not positive; noise needs a scale above 0.",
        ),
        (
            lambda: rules.adaptive_compose([]),
            "There is nothing to compose; give at least one derivation.",
        ),
        (
            lambda: rules.adaptive_compose([conjectured(ApproxDP(1, "0.5"))] * 2),
            "the deltas add up to 1",
        ),
        (
            lambda: rules.convert(proved(1), PureDP("0.999")),
            "pure(1) does not imply pure(0.999); more noise or a larger budget is needed.",
        ),
        (
            lambda: rules.convert(proved(1, delta="1e-6"), ApproxDP(2, "1e-7")),
            "approx(1, 1e-6) does not imply approx(2, 1e-7); more noise or a larger budget",
        ),
        (
            lambda: rules.convert(proved(1), PerfectPrivacy()),
            "pure(1) does not imply perfect; more noise or a larger budget is needed.",
        ),
        (
            lambda: Source("XYZ99", "Theorem 1"),
            "'XYZ99' is not a known paper; add it to dpverify/privacy/sources.py",
        ),
    ],
)
def test_a_value_that_no_rule_allows_is_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


@pytest.mark.parametrize("value", [None, True, [1]])
def test_a_sensitivity_that_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="sensitivity"):
        lemma(value)


class _Unheard(Guarantee):
    """A guarantee that the rules have never heard of."""

    def delta_ball(self, epsilon: Fraction) -> arb:
        return arb(0)

    def tradeoff_ball(self, alpha: Fraction) -> arb:
        return arb(0)

    def for_group(self, size: int) -> Guarantee:
        return self

    def follows_from(self, shown: Guarantee) -> bool:
        return False

    def __str__(self) -> str:
        return "unheard(1)"


def test_a_guarantee_that_is_not_the_kernel_s_is_refused() -> None:
    """Refuse it: what follows from it, and composes to what, is its own word."""
    with pytest.raises(TypeError, match="is not a guarantee; write PureDP"):
        conjectured(_Unheard())
    with pytest.raises(TypeError, match="is not a guarantee; write PureDP"):
        rules.convert(proved(), _Unheard())


@pytest.mark.parametrize("promised", ["pure(1)", 1, None, PureDP])
def test_a_conjecture_of_no_guarantee_is_refused(promised: Any) -> None:
    message = "is not a guarantee; write PureDP(1) or ApproxDP(1, '1e-6')."
    with pytest.raises(TypeError, match=re.escape(message)) as refusal:
        rules.conjecture(promised, adjacency=proved().conclusion.adjacency, domain=COLUMN)
    assert repr(promised) in str(refusal.value)


@pytest.mark.parametrize("to", ["pure(1)", 1, None, PureDP])
def test_a_conversion_to_no_guarantee_is_refused(to: Any) -> None:
    message = f"{to!r} is not a guarantee; write PureDP(1) or ApproxDP(1, '1e-6')."
    for claim in (rules.public_value(lemma(0)), proved()):
        with pytest.raises(TypeError, match=re.escape(message)):
            rules.convert(claim, to)


@pytest.mark.parametrize("part", [PureDP(1), proved().conclusion, "pure(1)", None, [proved()]])
def test_only_derivations_are_composed(part: Any) -> None:
    message = (
        f"{type(part).__name__} is not the derivation of a claim; "
        f"write compose(a.derivation, b.derivation)."
    )
    for parts in ([part], [proved(), part], [part, proved()]):
        with pytest.raises(TypeError, match=re.escape(message)):
            rules.adaptive_compose(parts)


def test_a_conversion_to_the_same_guarantee_changes_nothing() -> None:
    claim = proved(1)
    assert rules.convert(claim, PureDP(1)) is claim


def test_a_conjecture_says_on_whose_word() -> None:
    assert "somebody's word" in str(conjectured())
    theirs = Source("K19", "An example", SourceStatus.REFUTED)
    adjacency = proved().conclusion.adjacency
    claim = rules.conjecture(PureDP(1), adjacency=adjacency, domain=COLUMN, source=theirs)
    assert "by conjecture (K19, An example)" in str(claim)


def test_sources_are_recorded_on_what_states_them() -> None:
    one, two = Source("K19", "An example"), Source("OURS", "a remark")

    @states(one, two)
    def statement() -> None: ...

    assert sources_of(statement) == (one, two)
    assert sources_of(proved) == ()
    assert sources_of(3) == ()
    assert all(key == paper.key for key, paper in PAPERS.items())


@pytest.mark.parametrize(
    "rule",
    [
        rules.public_value,
        rules.discrete_laplace,
        rules.randomized_response,
        rules.adaptive_compose,
        rules.post_process,
        rules.convert,
    ],
)
def test_every_rule_has_a_source(rule: Callable[..., Any]) -> None:
    assert sources_of(rule)
