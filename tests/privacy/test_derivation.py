"""Derivations: nobody but the rules makes them, and none says more than its premises."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

import pytest

from dpverify.privacy import (
    Adjacency,
    ApproxDP,
    Derivation,
    Domain,
    Norm,
    PerfectPrivacy,
    PrivacyClaim,
    PureDP,
    Sensitivity,
    Source,
    Status,
    rules,
)
from dpverify.privacy.derivation import weakest
from dpverify.privacy.hypotheses import Quantity
from dpverify.privacy.rules import sensitivity_lemma

from .makers import COLUMN, OBLIGATION, conjectured, lemma, proved

_ADD, _REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE


def _by_hand() -> list[tuple[type, dict[str, Any]]]:
    return [
        (
            Sensitivity,
            {"query": "q", "norm": Norm.L1, "value": 1, "adjacency": _ADD, "domain": COLUMN},
        ),
        (
            PrivacyClaim,
            {
                "guarantee": PureDP(1),
                "adjacency": _ADD,
                "domain": COLUMN,
                "status": Status.PROVED,
            },
        ),
        (
            Derivation,
            {
                "conclusion": proved().conclusion,
                "rule": "because",
                "premises": (),
                "source": Source("OURS", "x"),
                "status": Status.PROVED,
            },
        ),
    ]


@pytest.mark.parametrize(("made", "fields"), _by_hand(), ids=lambda x: getattr(x, "__name__", ""))
@pytest.mark.parametrize("key", [{}, {"key": None}, {"key": object()}, {"key": "RULES_KEY"}])
def test_nothing_is_made_by_hand(
    made: type, fields: dict[str, Any], key: dict[str, object]
) -> None:
    message = rf"A {made.__name__} is made only by the rules in dpverify\.privacy\.rules"
    with pytest.raises(TypeError, match=message) as refusal:
        made(**fields, **key)
    assert "rules.conjecture(...)" in str(refusal.value)


@pytest.mark.parametrize(
    ("real", "change"),
    [
        (lemma().conclusion, {"value": Fraction(1, 2)}),
        (lemma(), {"obligation": ""}),
        (proved().conclusion, {"guarantee": PureDP("1e-9")}),
        (conjectured().conclusion, {"status": Status.PROVED}),
        (conjectured(), {"status": Status.PROVED}),
        (proved(), {"premises": ()}),
    ],
    ids=["sensitivity", "lemma", "claim", "status of a claim", "status", "premises"],
)
def test_nothing_made_by_a_rule_is_changed(real: Any, change: dict[str, Any]) -> None:
    before = str(real)
    with pytest.raises(TypeError, match="is made only by the rules"):
        dataclasses.replace(real, **change)
    ((name, value),) = change.items()
    with pytest.raises(AttributeError):
        setattr(real, name, value)
    with pytest.raises(AttributeError):
        delattr(real, name)
    assert before == str(real)


def test_the_weakest_status_wins() -> None:
    proof, guess, wrong = Status.PROVED, Status.CONJECTURED, Status.REFUTED
    assert weakest() is proof
    assert weakest(proof, proof) is proof
    assert weakest(proof, guess, proof) is guess
    assert weakest(guess, wrong, proof) is wrong


def _statuses(derivation: Derivation[PrivacyClaim]) -> tuple[Status, Status]:
    return derivation.status, derivation.conclusion.status


def test_a_composition_is_as_weak_as_its_weakest_part() -> None:
    guess = conjectured()
    wrong = rules.refuted(guess, "an audit")
    for parts, expected in (
        ([proved(), proved()], Status.PROVED),
        ([proved(), guess], Status.CONJECTURED),
        ([guess, proved(), proved()], Status.CONJECTURED),
        ([proved(), wrong, guess], Status.REFUTED),
        ([wrong, proved()], Status.REFUTED),
    ):
        assert (expected, expected) == _statuses(rules.adaptive_compose(parts))


def test_every_rule_passes_the_status_on() -> None:
    for start, expected in (
        (proved(), Status.PROVED),
        (conjectured(), Status.CONJECTURED),
        (rules.refuted(proved(), "an audit"), Status.REFUTED),
    ):
        through = rules.post_process(start, "rounding")
        composed = rules.adaptive_compose([through, proved()])
        converted = rules.convert(composed, ApproxDP(3, "1e-6"))
        for derivation in (start, through, composed, converted):
            assert (expected, expected) == _statuses(derivation)
        assert f"[{expected}]" in str(converted.conclusion)


def test_a_refuted_claim_keeps_what_it_said_and_why_it_is_wrong() -> None:
    claim = conjectured(PureDP("0.5"), adjacency=_REPLACE)
    wrong = rules.refuted(claim, "an audit certified epsilon 0.7")
    assert wrong.conclusion.guarantee == PureDP("0.5")
    assert wrong.conclusion.adjacency is _REPLACE
    assert wrong.premises == (claim,)
    assert "refuted: an audit certified epsilon 0.7" in str(wrong)
    assert claim.status is Status.CONJECTURED, "the claim itself is left as it was"


def test_lemmas_are_listed_once_in_order_of_first_use() -> None:
    first, second = lemma(2, query="the first"), lemma(3, query="the second")
    parts = [rules.discrete_laplace(premise, Fraction(1)) for premise in (first, second, first)]
    composed = rules.post_process(rules.adaptive_compose(parts), "a ratio")
    assert (first, second) == composed.lemmas
    assert conjectured().lemmas == ()


@pytest.mark.parametrize(
    "other",
    [
        lemma(obligation="theory/queries.py:obligation_of_another_kind"),
        lemma(value=2),
        lemma(norm=Norm.HAMMING),
        lemma(query="another count"),
    ],
    ids=["obligation", "value", "norm", "query"],
)
def test_lemmas_that_differ_in_anything_are_both_listed(other: Derivation[Sensitivity]) -> None:
    # Each lemma's obligation must be run: one that hides behind another's words is never shown.
    def noised(premise: Derivation[Sensitivity]) -> Derivation[PrivacyClaim]:
        if premise.conclusion.norm is Norm.L1:
            return rules.discrete_laplace(premise, Fraction(1))
        return rules.randomized_response(premise, Fraction(1))

    for pair in ((lemma(), other), (other, lemma())):
        composed = rules.adaptive_compose([noised(premise) for premise in pair])
        assert pair == composed.lemmas


def test_the_nodes_are_the_whole_tree_from_the_top() -> None:
    left, right = proved(1), proved(2)
    top = rules.adaptive_compose([left, right])
    assert list(top.nodes()) == [top, left, *left.premises, right, *right.premises]


def test_the_tree_shows_rules_sources_obligations_and_numbers() -> None:
    count = rules.discrete_laplace(lemma(3, query="the sum"), Fraction(4))
    answers = rules.randomized_response(
        lemma(query="the answers", norm=Norm.HAMMING, obligation="theory/queries.py:obligation_a"),
        Fraction(2, 3),
    )
    composed = rules.adaptive_compose([count, answers])
    tree = str(rules.convert(rules.post_process(composed, "a ratio"), ApproxDP("2.5", "1e-6")))
    for part in (
        "approx(2.5, 1e-6) under add-remove, for finite float64 records of 1 column [proved]",
        "by conversion from pure(2.25) (KOV15, Section 3, the dominating mechanism)",
        "by post-processing: a ratio (DR14, Proposition 2.1)",
        "by adaptive composition (DR14, Theorem B.1)",
        "pure(0.75) under add-remove",
        "by discrete Laplace noise of scale 4 (DMNS06, Section 3",
        "neighbors' values of the sum differ by at most 3 in L1 distance",
        f"by lemma (OURS, a test's premise; shown by spec/{OBLIGATION})",
        "pure(1.5) under add-remove",
        "by randomized response of scale 2/3 (KBR16, Section 3",
        "neighbors' values of the answers differ by at most 1 in Hamming distance",
        "shown by spec/theory/queries.py:obligation_a)",
    ):
        assert part in tree
    # Two lines for each of the seven nodes, every premise below what it supports.
    assert len(tree.splitlines()) == 14
    assert tree.index("composition") < tree.index("the sum") < tree.index("the answers")


def test_the_branches_of_the_tree_are_drawn() -> None:
    tree = str(rules.adaptive_compose([proved(1), proved(2)])).splitlines()
    assert [line[:6] for line in tree[2:]] == [
        "   ├─ ",
        "   │  ",
        "   │  ",
        "   │  ",
        "   └─ ",
        "      ",
        "      ",
        "      ",
    ]


def test_claims_that_disagree_on_neighbors_do_not_compose() -> None:
    with pytest.raises(ValueError, match="do not compose") as refusal:
        rules.adaptive_compose([proved(1), proved(2, adjacency=_REPLACE)])
    message = str(refusal.value)
    assert "pure(1) under add-remove" in message
    assert "pure(2) under replace" in message
    assert "Build both for the same adjacency." in message


@pytest.mark.parametrize("other", [Domain(2), Domain(1, "replace"), Domain(3, "replace", 5.0)])
def test_claims_about_different_datasets_do_not_compose(other: Domain) -> None:
    with pytest.raises(ValueError, match="do not compose") as refusal:
        rules.adaptive_compose([proved(), proved(), proved(domain=other)])
    message = str(refusal.value)
    assert f"one is for {COLUMN}" in message
    assert f"the other for {other}" in message
    assert str(COLUMN) != str(other), "two sides that read the same explain nothing"
    assert "Build both for the same domain." in message


def test_claims_whose_mechanisms_replace_bad_records_differently_compose() -> None:
    one, other = Domain(1, "replace", 0.0), Domain(1, "replace", 160.0)
    composed = rules.adaptive_compose([proved(1, domain=one), proved(2, domain=other)])
    assert composed.conclusion.guarantee == PureDP(3)


def test_an_empty_composition_is_refused_and_a_single_part_is_left_as_it_is() -> None:
    with pytest.raises(ValueError, match="There is nothing to compose; give at least one"):
        rules.adaptive_compose([])
    only = proved()
    assert rules.adaptive_compose([only]) is only
    assert rules.adaptive_compose(iter([only, only])).conclusion.guarantee == PureDP(2)


def test_releases_may_be_composed_one_by_one() -> None:
    one, two = proved(1), proved(2)
    assert rules.compose(one, two) == rules.adaptive_compose([one, two])
    assert rules.compose(one) is one
    with pytest.raises(ValueError, match="There is nothing to compose"):
        rules.compose()


def test_perfect_privacy_adds_nothing() -> None:
    public = rules.public_value(lemma(0))
    assert rules.adaptive_compose([public, public]).conclusion.guarantee == PerfectPrivacy()
    assert rules.adaptive_compose([public, proved(1)]).conclusion.guarantee == PureDP(1)
    both = rules.adaptive_compose([proved(1, delta="1e-6"), public])
    assert both.conclusion.guarantee == ApproxDP(1, "1e-6")


def test_a_lemma_rests_on_the_lemmas_of_its_premises_and_on_no_other_world() -> None:
    def shown(what: str, adjacency: Adjacency, **more: Any) -> Derivation[Sensitivity]:
        return sensitivity_lemma(
            Quantity.of(what, "Tested"),
            norm=Norm.L1,
            value=1,
            adjacency=adjacency,
            domain=Domain(1),
            obligation=f"theory/queries.py:obligation_{what}",
            source=Source("OURS", "a test"),
            **more,
        )

    inner = shown("inner", Adjacency.REPLACE)
    outer = shown("outer", Adjacency.REPLACE, premises=(inner,))
    assert [leaf.obligation for leaf in outer.lemmas] == [outer.obligation, inner.obligation]
    with pytest.raises(
        ValueError, match=r"inner moves under replace.* the lemma is under add-remove"
    ):
        shown("outer", Adjacency.ADD_REMOVE, premises=(inner,))
