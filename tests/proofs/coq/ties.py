"""What ties the kernel's rules to the theorems that Coq has checked.

For each rule: the statement of its theorem, printed as a Coq term whose type Coq compares with the
theorem's own; for each hypothesis of the theorem, why it holds wherever the rule concludes (a check
that the rule makes, with a call that it refuses; a premise; or what every mechanism satisfies); and
the rule's numbers beside the theorem's, on examples.
"""

from __future__ import annotations

from fractions import Fraction

from dpverify.privacy import ApproxDP, Domain, Norm, PureDP, rules
from tests.privacy.enumeration import premises as calls

from .later_ties import LATER
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
                "checked",
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
        f"{NEAR} (T U : eqType) (t d : R) (M : mechanism X R T) (K : T -> U -> R) (N : mechanism X R U)",
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
        lambda: (example(calls.group_privacy(PureDP(HALF), ADD, 3), 3 * HALF, Fraction(0)),),
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
        lambda: (example(calls.change_adjacency(PureDP(HALF)), Fraction(1), Fraction(0)),),
    ),
    Tie(
        rules.parallel,
        "Rules.parallel_by_value",
        f"{WORLD} (L : eqType) (labels : seq L) (T : eqType) (M : L -> mechanism X R T) (t d : R) (f : X -> L)",
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
        f"{WORLD} (L : eqType) (labels : seq L) (T : eqType) (M : L -> mechanism X R T) (t d : R) (g : nat -> L)",
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
        f"{NEAR} (T : eqType) (t d e : R) (M : mechanism X R T) (H : seq (hypothesis X T)) (h : hypothesis X T)",
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
        f"{NEAR} (T : eqType) (t d : R) (M : mechanism X R T) (H : seq (hypothesis X T)) (h : hypothesis X T)",
        (Hypothesis("under H near t d M", "premise"),),
        "under (h :: H) near t d M",
    ),
    Tie(
        rules.of_each_record,
        "Maps.of_each_record_add_remove",
        "(R : realFieldType) (X Y T : eqType) (t d : R) (M : mechanism Y R T) (f : X -> Y)",
        (
            Hypothesis(
                "private (@add_remove Y) t d M",
                "premise, closed",
                lambda: rules.of_each_record(open_claim(), domain=Domain(1), by="f"),
            ),
        ),
        "private (@add_remove X) t d (fun D => M (map f D))",
        lambda: (example(calls.of_each_record(ApproxDP(1, TENTH), ADD), Fraction(1), TENTH),),
    ),
    Tie(
        rules.of_each_record,
        "Maps.of_each_record_replace",
        "(R : realFieldType) (X Y T : eqType) (t d : R) (M : mechanism Y R T) (f : X -> Y)",
        (Hypothesis("private (@replace Y) t d M", "premise"),),
        "private (@replace X) t d (fun D => M (map f D))",
        lambda: (example(calls.of_each_record(ApproxDP(1, TENTH), REPLACE), Fraction(1), TENTH),),
    ),
    Tie(
        rules.of_kept_records,
        "Maps.of_kept_records_add_remove",
        "(R : realFieldType) (X Y T : eqType) (t d : R) (M : mechanism Y R T) (f : X -> option Y)",
        (
            T1,
            D,
            LAWS,
            Hypothesis(
                "private (@add_remove Y) t d M",
                "premise, not of replace",
                lambda: calls.of_kept_records(PureDP(1), REPLACE, within=REPLACE),
            ),
        ),
        "private (@add_remove X) t d (fun D => M (pmap f D))",
        lambda: (example(calls.of_kept_records(ApproxDP(1, TENTH), ADD), Fraction(1), TENTH),),
    ),
    Tie(
        rules.of_kept_records,
        "Maps.of_kept_records_replace",
        "(R : realFieldType) (X Y T : eqType) (t d : R) (M : mechanism Y R T) (f : X -> option Y)",
        (
            T1,
            D,
            LAWS,
            Hypothesis(
                "private (@add_remove Y) t d M",
                "premise, not of replace",
                lambda: calls.of_kept_records(PureDP(1), REPLACE, within=REPLACE),
            ),
        ),
        "private (@replace X) (t * t) (d + t * d) (fun D => M (pmap f D))",
        lambda: (example(calls.of_kept_records(PureDP(HALF), REPLACE), Fraction(1), Fraction(0)),),
    ),
    Tie(
        rules.discrete_laplace,
        "Noise.discrete_laplace_mechanism",
        f"{NEAR} (q : R) (p : int -> R) (query : seq X -> seq int) (moved : nat)",
        (
            Hypothesis(
                "discrete_laplace q p",
                "the sampler's law; q = e^(-1 / scale), the scale positive",
                lambda: calls.discrete_laplace(1, Fraction(0), ADD),
            ),
            Hypothesis(
                "forall D E, near D E -> size (query D) = size (query E) /\\ (l1 (query D) (query E) <= moved)%N",
                "premise, in L1",
                lambda: rules.discrete_laplace(calls.sensitivity(1, Norm.L_INFINITY, ADD), 1),
            ),
        ),
        "private near (q ^+ moved)^-1 0 (fun D => noisy p (query D))",
        lambda: (
            example(calls.discrete_laplace(3, Fraction(2), ADD), Fraction(3, 2), Fraction(0)),
        ),
    ),
    Tie(
        rules.exponential_mechanism,
        "Noise.exponential_mechanism",
        f"{NEAR} (T : eqType) (up down : R) (w : seq X -> T -> R) (M : mechanism X R T)",
        (
            Hypothesis(
                "0 < up",
                "an exponential, the scale positive",
                lambda: calls.exponential_mechanism(1, Fraction(0), ADD, Norm.RANGE),
            ),
            Hypothesis("0 < down", "an exponential"),
            Hypothesis(
                "forall D, by_weight (w D) (M D)",
                "the sampler's law, over finitely many candidates",
            ),
            Hypothesis(
                "forall D E, near D E -> exists s, 0 < s /\\ forall x, w D x <= s * down * w E x /\\ s * w E x <= up * w D x",
                "premise: up and down are e^(D / scale) in L-infinity, s = 1; in the range norm s down and up / s are the largest "
                "and the smallest change",
                lambda: rules.exponential_mechanism(calls.sensitivity(1, Norm.L1, ADD), 1),
            ),
        ),
        "bounded_range near (up * down) M",
    ),
    Tie(
        rules.randomized_response,
        "Noise.randomized_response",
        f"{WORLD} (t : R) (options : seq nat) (near : seq X -> seq X -> Prop) (answer : seq X -> nat)",
        (
            Hypothesis(
                "1 <= t",
                "t = e^(1 / scale), the scale positive",
                lambda: calls.randomized_response(1, Fraction(0), ADD),
            ),
        ),
        "private near t 0 (fun D => response t options (answer D))",
        lambda: (example(calls.randomized_response(1, Fraction(2), ADD), HALF, Fraction(0)),),
    ),
    Tie(
        rules.coupled_map,
        "Maps.coupled_map",
        "(R : realFieldType) (X Y T : eqType) (near : seq X -> seq X -> Prop) (near' : seq Y -> seq Y -> Prop) (t d : R) "
        "(S : seq X -> seq Y -> R) (M : mechanism Y R T) (N : mechanism X R T)",
        (
            T1,
            D,
            LAWS,
            Hypothesis(
                "forall D, image (S D) M (N D)", "what runs: the mechanism on what the map gives"
            ),
            Hypothesis(
                "forall D E, near D E -> exists C, coupling C (S D) (S E) /\\ "
                "forall z, 0 < C z -> near' z.1 z.2 \\/ z.1 = z.2",
                "premise, in the coupled norm, closed",
                lambda: rules.coupled_map(claim(), calls.sensitivity(1, Norm.L1, ADD)),
            ),
            Hypothesis(
                "private near' t d M",
                "premise, of the coupling's steps",
                lambda: rules.coupled_map(
                    claim(ADD), calls.sensitivity(1, Norm.COUPLED, ADD, keeps=REPLACE)
                ),
            ),
        ),
        "private near t d N",
        lambda: (example(calls.coupled_map(ApproxDP(1, TENTH), 1, ADD, ADD), Fraction(1), TENTH),),
    ),
    Tie(
        rules.friendly_lift,
        "FriendlyLift.friendly_lift",
        "(R : realType) (X : eqType) (near : seq X -> seq X -> Prop) (friendly : seq X -> Prop) (T : eqType) (e d moved : R) "
        "(coins : seq X -> seq (X * R)) (M : mechanism X R T)",
        (
            Hypothesis(
                "0 < e",
                "without loss the mechanism is perfectly private, which the rule takes apart",
            ),
            D,
            LAWS,
            Hypothesis(
                "hereditary friendly",
                "any two records of a part have the common friend that they have in the whole",
            ),
            Hypothesis(
                "stable near friendly moved coins",
                "premise, in the norm of keep-probabilities, of inputs",
                lambda: rules.friendly_lift(
                    calls.claim(PureDP(1), calls.friendly()), calls.sensitivity(1, Norm.L1, ADD)
                ),
            ),
            Hypothesis(
                "private (friendly_near friendly) (sequences.expR e) d M",
                "premise, of friendly neighbors",
                lambda: rules.friendly_lift(claim(), calls.sensitivity(1, Norm.KEEP, ADD)),
            ),
        ),
        "private near (sequences.expR ((sequences.expR e - 1) * moved)) (d * ((sequences.expR ((sequences.expR e - 1) * moved) - 1) / "
        "(sequences.expR e - 1))) (fun D => filtered (coins D) M)",
    ),
    Tie(
        rules.above_threshold,
        "AboveThreshold.above_threshold",
        "(R : realFieldType) (X : eqType) (queries : seq X -> seq int) (q qy : R) (p py above : int -> R) (M : mechanism X R nat_eqType)",
        (
            Hypothesis(
                "discrete_laplace q p",
                "the sampler's law; q = e^(-1 / scale), the scale positive",
                lambda: calls.above_threshold(
                    1, ADD, Norm.L_INFINITY, scale=Fraction(0), query_scale=Fraction(2)
                ),
            ),
            Hypothesis(
                "discrete_laplace qy py",
                "the sampler's law; qy = e^(-1 / query_scale)",
                lambda: calls.above_threshold(
                    1, ADD, Norm.L_INFINITY, scale=Fraction(1), query_scale=Fraction(0)
                ),
            ),
            Hypothesis("tail py above", "what above is"),
            Hypothesis("forall D, image p (report above (queries D)) (M D)", "what runs"),
        ),
        "forall (near : seq X -> seq X -> Prop) (moved : nat) (t d : R), 1 <= t -> q <= qy ^+ 2 -> move_by queries near moved -> "
        "close t d p (fun z => p (z + (2 * moved)%N%:Z)) -> private near t d M",
    ),
    *LATER,
)
