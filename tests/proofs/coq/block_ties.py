"""The ties of blocks by independent labels, and of blocks that are asked in turn."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dpverify.privacy import ApproxDP, PureDP, rules
from tests.privacy.enumeration import premises as calls

from .tie import ADD, HALF, REPLACE, T1, TENTH, D, Hypothesis, Tie, claim, example, open_claim

_LABELS = (
    "(R : realFieldType) (X L T : eqType) (labels : seq L) (M : L -> mechanism X R T) (t d : R) "
    "(A : L -> R) (N : mechanism X R (seq_eqType T))"
)
_LABEL = Hypothesis("law A", "the law of one label, which is drawn for each record alone")
_BLOCKS = (
    Hypothesis("uniq labels", "each block is listed once"),
    Hypothesis("forall l, has_laws (M l)", "a mechanism for every block"),
)
_DRAWN = Hypothesis("by_labels labels M A N", "what runs: labels are drawn, and not released")
_ANY_LABELS = (
    "(A : L -> R) (N : mechanism X R (seq_eqType T))",
    Hypothesis("chained_by_labels M labels A N", "what runs: labels are drawn, and not released"),
)
_IN_TURN: tuple[Any, ...] = (
    (
        *("value", "value", ADD, "(f : X -> L)", ()),
        "private (@add_remove X) t d (fun D => chain M labels [::] "
        "(fun l => [seq x <- D | f x == l]))",
    ),
    (
        *("index", "index", REPLACE, "(g : nat -> L)", ()),
        "private (@replace X) t d (fun D => chain M labels [::] (fun l => block_at g l D))",
    ),
    (
        *("labels_add_remove", "independent_label", ADD, _ANY_LABELS[0]),
        (_LABEL, Hypothesis("total A 1", "every record has a label"), _ANY_LABELS[1]),
        "private (@add_remove X) t d N",
    ),
    (
        *("labels_replace", "independent_label", REPLACE, _ANY_LABELS[0]),
        (_LABEL, _ANY_LABELS[1]),
        "private (@replace X) t d N",
    ),
)
"""(theorem, by, adjacency, variables, further hypotheses, conclusion) of blocks that are asked
in turn."""


OF_BLOCKS: tuple[Tie, ...] = (
    Tie(
        rules.parallel,
        "Labels.parallel_by_labels_add_remove",
        _LABELS,
        (
            T1,
            D,
            _LABEL,
            Hypothesis("total A 1", "every record has a label"),
            *_BLOCKS,
            Hypothesis("forall l, private (@add_remove X) t d (M l)", "premises"),
            _DRAWN,
        ),
        "private (@add_remove X) t d N",
        lambda: (
            example(
                calls.parallel([PureDP(1), PureDP(HALF)], "independent_label", ADD),
                Fraction(1),
                Fraction(0),
            ),
        ),
    ),
    Tie(
        rules.parallel,
        "Labels.parallel_by_labels_replace",
        _LABELS,
        (
            T1,
            D,
            _LABEL,
            *_BLOCKS,
            Hypothesis(
                "forall l, private (@replace X) t d (M l)",
                "premises, all of one adjacency",
                lambda: rules.parallel([claim(ADD), claim(REPLACE)], by="independent_label"),
            ),
            _DRAWN,
        ),
        "private (@replace X) t d N",
        lambda: (
            example(
                calls.parallel(
                    [ApproxDP(1, TENTH), ApproxDP(1, TENTH / 2)], "independent_label", REPLACE
                ),
                Fraction(1),
                TENTH,
            ),
        ),
    ),
    *(
        Tie(
            rules.parallel,
            f"Chained.chained_by_{name}",
            "(R : realFieldType) (X L T : eqType) (M : L -> seq T -> mechanism X R T)",
            (
                Hypothesis(
                    "forall l earlier, has_laws (M l earlier)", "a mechanism for every block"
                ),
            ),
            conclusion,
            lambda by=by, near=near: (  # type: ignore[misc]
                example(
                    calls.parallel([PureDP(1), PureDP(HALF)], by, near, chained=True),
                    Fraction(1),
                    Fraction(0),
                ),
            ),
            f"(t d : R) (labels : seq L) {variables}",
            (
                T1,
                D,
                Hypothesis("uniq labels", "each block is listed once"),
                Hypothesis(
                    f"forall l earlier, private (@{near.name.lower()} X) t d (M l earlier)",
                    "premises, whatever earlier blocks released; no hypotheses are handed on",
                    lambda by=by, near=near: rules.parallel(  # type: ignore[misc]
                        [open_claim(near)], by=by, chained=True
                    ),
                ),
                *drawn,
            ),
        )
        for name, by, near, variables, drawn, conclusion in _IN_TURN
    ),
)
