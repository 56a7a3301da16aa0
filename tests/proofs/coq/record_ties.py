"""The ties of maps of records and of filters: what each record is made into, and which records
are kept."""

from __future__ import annotations

from fractions import Fraction

from mpmath import mp

from dpverify.privacy import ApproxDP, Domain, Norm, PureDP, rules
from spec import basic_filter
from tests.privacy.enumeration import premises as calls

from .tie import (
    ADD,
    HALF,
    LAWS,
    REPLACE,
    T1,
    TENTH,
    D,
    Hypothesis,
    Tie,
    claim,
    example,
    open_claim,
    rounded_up,
)


def _lifted(moved: int) -> tuple[Fraction, Fraction]:
    """Lift (1/2, 1/100): (e^(1/2) - 1) moved, and the delta that the theorem has."""
    return (
        rounded_up(lambda: mp.expm1(0.5) * moved),
        rounded_up(lambda: mp.expm1(mp.expm1(0.5) * moved) / mp.expm1(0.5) / 100),
    )


OF_RECORDS: tuple[Tie, ...] = (
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
        lambda: (
            example(calls.of_kept_records(PureDP(HALF), REPLACE), Fraction(1), Fraction(0)),
            example(
                calls.of_kept_records(ApproxDP(HALF, TENTH), REPLACE),
                Fraction(1),
                rounded_up(lambda: (1 + mp.exp(0.5)) / 10),
            ),
        ),
    ),
    Tie(
        rules.coupled_map,
        "Maps.coupled_map",
        "(R : realFieldType) (X Y T : eqType) (near : seq X -> seq X -> Prop) (near' : seq Y -> "
        "seq Y -> Prop) (t d : R) "
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
        "(R : realType) (X : eqType) (near : seq X -> seq X -> Prop) (friendly : seq X -> Prop) "
        "(T : eqType) (e d moved : R) "
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
        "private near (sequences.expR ((sequences.expR e - 1) * moved)) "
        "(d * ((sequences.expR ((sequences.expR e - 1) * moved) - 1) / "
        "(sequences.expR e - 1))) (fun D => filtered (coins D) M)",
        lambda: (
            example(
                calls.friendly_lift(PureDP(HALF), Fraction(2), ADD), _lifted(2)[0], Fraction(0)
            ),
            example(
                calls.friendly_lift(ApproxDP(HALF, TENTH / 10), Fraction(3), REPLACE), *_lifted(3)
            ),
        ),
    ),
    *(
        Tie(
            basic_filter.stability,
            f"BasicFilter.basic_filter_{name}",
            "(R : realFieldType) (X : eqType) (friends : rel X)",
            (
                Hypothesis(
                    "symmetric friends",
                    "premise of the predicate: two records are friends, in no order",
                ),
            ),
            f"stable (@{name} X) (share_friends friends) {basic_filter.stability(adjacency)} "
            "(basic_coins R friends)",
        )
        for name, adjacency in (("add_remove", ADD), ("replace", REPLACE))
    ),
)
