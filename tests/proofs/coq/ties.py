"""The ties between the kernel's rules and the theorems that Coq has checked.

For each rule: the statement of its theorem, printed as a Coq term whose type Coq compares with the
theorem's own; for each hypothesis of the theorem, why it holds wherever the rule concludes (a check
that the rule makes, with a call that it refuses; a premise; or what every mechanism satisfies); and
the rule's numbers beside the theorem's, on examples.
"""

from __future__ import annotations

from fractions import Fraction

from mpmath import mp

from dpverify.privacy import ApproxDP, PureDP, rules
from tests.privacy.enumeration import premises as calls

from .adaptive_ties import ADAPTIVE
from .block_ties import OF_BLOCKS
from .noise_ties import OF_NOISE
from .record_ties import OF_RECORDS
from .release_ties import OF_RELEASES
from .threshold_ties import THRESHOLDS
from .tie import (
    ADD,
    HALF,
    LAWS,
    NEAR,
    REPLACE,
    T1,
    TENTH,
    WORLD,
    D,
    Example,
    Hypothesis,
    T,
    Tie,
    claim,
    example,
    open_claim,
    rounded_up,
)


def _basic(*parts: tuple[Fraction, Fraction]) -> Example:
    made = calls.compose([ApproxDP(e, d) for e, d in parts], ADD)
    return example(
        made, sum((e for e, _ in parts), Fraction(0)), sum((d for _, d in parts), Fraction(0))
    )


TIES: tuple[Tie, ...] = (
    Tie(
        rules.convert,
        "Rules.convert",
        f"{NEAR} (T : eqType) (t d t' d' : R) (M : mechanism X R T)",
        (
            LAWS,
            Hypothesis(
                "t <= t'",
                "checked; where epsilon becomes smaller, convert_to_less has the delta",
                lambda: calls.convert(ApproxDP(1, TENTH), ADD, ApproxDP(HALF, TENTH)),
            ),
            Hypothesis(
                "d <= d'",
                "checked",
                lambda: calls.convert(ApproxDP(1, TENTH), ADD, ApproxDP(1, TENTH / 2)),
            ),
            Hypothesis(
                "private near t d M",
                "premise, closed",
                lambda: rules.convert(open_claim(), ApproxDP(2, TENTH)),
            ),
        ),
        "private near t' d' M",
        lambda: (
            example(calls.convert(ApproxDP(1, TENTH), ADD, ApproxDP(2, HALF)), Fraction(2), HALF),
        ),
    ),
    Tie(
        rules.post_process,
        "Rules.post_process",
        f"{NEAR} (T U : eqType) (t d : R) (M : mechanism X R T) (K : T -> U -> R) "
        f"(N : mechanism X R U)",
        (
            T,
            LAWS,
            Hypothesis(
                "forall x, law (K x)", "a function of the output, with coins of its own or none"
            ),
            Hypothesis("forall D, image (M D) K (N D)", "what the post-processed mechanism is"),
            Hypothesis("private near t d M", "premise"),
        ),
        "private near t d N",
        lambda: (example(calls.post_process(ApproxDP(1, TENTH), ADD), Fraction(1), TENTH),),
    ),
    Tie(
        rules.adaptive_compose,
        "Rules.compose",
        f"{NEAR} (T U : eqType) (t d t' d' : R) (M : mechanism X R T) (K : T -> mechanism X R U)",
        (
            T,
            Hypothesis("0 <= t'", "t' stands for e^epsilon'"),
            Hypothesis("0 <= d'", "a delta", lambda: ApproxDP(1, -1)),
            LAWS,
            Hypothesis("forall x, has_laws (K x)", "a mechanism for every first release"),
            Hypothesis(
                "private near t d M",
                "premise, of the same neighbors",
                lambda: rules.adaptive_compose([claim(ADD), claim(REPLACE)]),
            ),
            Hypothesis(
                "forall x, private near t' d' (K x)",
                "premise: declared before the first release, and checked "
                "during execution of what is built from it",
            ),
        ),
        "private near (t * t') (d + d') (fun D => joint (M D) (fun x => K x D))",
        lambda: (_basic((Fraction(1), TENTH), (HALF, TENTH / 2)),),
    ),
    Tie(
        rules.group_privacy,
        "Rules.group_privacy",
        f"{NEAR} (T : eqType) (t d : R) (M : mechanism X R T) (k : nat)",
        (
            T,
            Hypothesis(
                "private near t d M",
                "premise, closed",
                lambda: rules.group_privacy(open_claim(), 2),
            ),
        ),
        "private (steps near k) (t ^+ k) (group_delta t d k) M",
        lambda: (
            example(calls.group_privacy(PureDP(HALF), ADD, 3), 3 * HALF, Fraction(0)),
            example(
                calls.group_privacy(ApproxDP(HALF, TENTH / 10), ADD, 3),
                3 * HALF,
                rounded_up(lambda: (1 + mp.exp(0.5) + mp.exp(1)) / 100),
            ),
        ),
    ),
    Tie(
        rules.change_adjacency,
        "Rules.change_adjacency",
        f"{WORLD} (T : eqType) (t d : R) (M : mechanism X R T)",
        (
            T,
            Hypothesis(
                "private (@add_remove X) t d M",
                "premise, closed, and not of replace",
                lambda: rules.change_adjacency(claim(REPLACE), to=ADD),
            ),
        ),
        "private (@replace X) (t * t) (d + t * d) M",
        lambda: (
            example(calls.change_adjacency(PureDP(HALF)), Fraction(1), Fraction(0)),
            example(
                calls.change_adjacency(ApproxDP(HALF, TENTH)),
                Fraction(1),
                rounded_up(lambda: (1 + mp.exp(0.5)) / 10),
            ),
        ),
    ),
    Tie(
        rules.parallel,
        "Rules.parallel_by_value",
        f"{WORLD} (L : eqType) (labels : seq L) (T : eqType) (M : L -> mechanism X R T) "
        f"(t d : R) (f : X -> L)",
        (
            T1,
            D,
            Hypothesis("uniq labels", "each block is listed once"),
            Hypothesis("forall l, has_laws (M l)", "a mechanism for every block"),
            Hypothesis(
                "forall l, private (@add_remove X) t d (M l)",
                "premises, not under replace",
                lambda: calls.parallel([PureDP(1), PureDP(1)], "value", REPLACE),
            ),
        ),
        "private (@add_remove X) t d (by_value labels M f)",
        lambda: (
            example(
                calls.parallel([PureDP(1), PureDP(HALF)], "value", ADD), Fraction(1), Fraction(0)
            ),
        ),
    ),
    Tie(
        rules.parallel,
        "Rules.parallel_by_index",
        f"{WORLD} (L : eqType) (labels : seq L) (T : eqType) (M : L -> mechanism X R T) "
        f"(t d : R) (g : nat -> L)",
        (
            T1,
            D,
            Hypothesis("uniq labels", "each block is listed once"),
            Hypothesis("forall l, has_laws (M l)", "a mechanism for every block"),
            Hypothesis(
                "forall l, private (@replace X) t d (M l)",
                "premises, not under add-remove",
                lambda: calls.parallel([PureDP(1), PureDP(1)], "index", ADD),
            ),
        ),
        "private (@replace X) t d (by_index labels M g)",
        lambda: (
            example(
                calls.parallel([PureDP(1), PureDP(HALF)], "index", REPLACE),
                Fraction(1),
                Fraction(0),
            ),
        ),
    ),
    Tie(
        rules.add_delta_event,
        "Hypotheses.add_delta_event",
        f"{NEAR} (T : eqType) (t d e : R) (M : mechanism X R T) (H : seq (hypothesis X T)) "
        f"(h : hypothesis X T)",
        (
            T,
            LAWS,
            Hypothesis(
                "under (h :: H) near t d M",
                "premise, which rests on this hypothesis",
                lambda: rules.add_delta_event(claim(), calls.event(TENTH, ADD, calls.SHOWN)),
            ),
            Hypothesis(
                "rarely_fails h H near e M",
                "premise, decided by the output",
                lambda: rules.add_delta_event(open_claim(), calls.event(TENTH, ADD, calls.HIDDEN)),
            ),
        ),
        "under H near t (d + e) M",
        lambda: (
            example(calls.add_delta_event(ApproxDP(1, TENTH), ADD, TENTH), Fraction(1), 2 * TENTH),
        ),
    ),
    Tie(
        rules.assume,
        "Hypotheses.assume",
        f"{NEAR} (T : eqType) (t d : R) (M : mechanism X R T) (H : seq (hypothesis X T)) "
        f"(h : hypothesis X T)",
        (Hypothesis("under H near t d M", "premise"),),
        "under (h :: H) near t d M",
    ),
    *OF_RECORDS,
    *OF_NOISE,
    *ADAPTIVE,
    *OF_RELEASES,
    *OF_BLOCKS,
    *THRESHOLDS,
)
