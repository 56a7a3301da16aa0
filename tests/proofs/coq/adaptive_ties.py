"""The ties of what is chosen after seeing answers, of hypotheses, and of premises of other
rules."""

from __future__ import annotations

import math
from fractions import Fraction

from mpmath import mp, mpf

from dpverify.privacy import (
    ApproxDP,
    ApproximateGaussianDP,
    GaussianDP,
    Guarantee,
    PerfectPrivacy,
    PureDP,
    rules,
)
from tests.privacy.enumeration import premises as calls

from .tie import (
    ADD,
    ANY_GAUSSIAN,
    GAUSSIAN_PREMISES,
    HALF,
    LAWS,
    NEAR,
    REPLACE,
    TENTH,
    Example,
    Hypothesis,
    T,
    Tie,
    claim,
    example,
    open_claim,
    rounded_up,
)

_PRICE = 2 * TENTH
"""(1 + t) e at t = 1 and e = 1/10, which weakening takes to epsilon = 1."""
_OPEN = f"{NEAR} (T : eqType) (t d e : R) (M : mechanism X R T) (H : seq (hypothesis X T))"


def _paid(delta: Fraction) -> Guarantee:
    """Pay for an event of the coins of a claim with no loss at all, and state it at epsilon 1."""
    rare = calls.event(TENTH, ADD, calls.HIDDEN)
    lossless = calls.claim(PerfectPrivacy(), ADD, calls.HIDDEN)
    made = rules.add_total_variation_event(lossless, rare)
    return rules.convert(made, ApproxDP(1, delta)).conclusion.guarantee


def _by_pairs() -> Guarantee:
    """State at epsilon 1 what two pure releases are together, by the pairs that dominate them."""
    made = calls.adaptive_compose([PureDP(1), PureDP(HALF)], ADD, by_profiles=True)
    return ApproxDP(1, Fraction(math.ceil(made.delta_at(1).upper * 10**45), 10**45))


def _of_two_responses() -> mpf:
    """Compute the same of two randomized responses: both outputs must be likelier on one side."""
    first, second = mp.exp(1), mp.exp(mpf(1) / 2)
    return first * (second - 1) / ((1 + first) * (1 + second))


def _gaussian_delta() -> Fraction:
    return rounded_up(lambda: mp.ncdf(mpf(-1) / 2) - mp.e * mp.ncdf(mpf(-3) / 2))


def _cut_off(less: Fraction) -> Guarantee:
    """Convert approximate Gaussian privacy, mu = 1, to epsilon 1, with ``less`` than its delta."""
    to = ApproxDP(1, _gaussian_delta() + TENTH + Fraction(1, 10**40) - less)
    return calls.convert(ApproximateGaussianDP(1, TENTH), ADD, to)


ADAPTIVE: tuple[Tie, ...] = (
    Tie(
        rules.adaptive_compose,
        "Hypotheses.compose_under",
        f"{NEAR} (T U : eqType) (t d t' d' : R) (M : mechanism X R T) (K : T -> mechanism X R U) "
        "(H : seq (hypothesis X T)) (G : seq (T -> hypothesis X U))",
        (
            T,
            Hypothesis("0 <= t'", "t' stands for e^epsilon'"),
            Hypothesis("0 <= d'", "a delta", lambda: ApproxDP(1, -1)),
            LAWS,
            Hypothesis("forall x, has_laws (K x)", "a mechanism for every first release"),
            Hypothesis("under H near t d M", "premise, under its own hypotheses"),
            Hypothesis(
                "forall x, under [seq g x | g <- G] near t' d' (K x)",
                "premise, under hypotheses of its own: two runs cannot share one by its name",
                lambda: rules.adaptive_compose([open_claim(), open_claim()]),
            ),
        ),
        "under ([seq of_first (U := U) h | h <- H] ++ [seq of_second g | g <- G]) near "
        "(t * t') (d + d') (fun D => joint (M D) (fun x => K x D))",
    ),
    Tie(
        rules.passed_gate,
        "Hypotheses.passed_gate",
        f"{NEAR} (T : eqType) (t d : R) (M : mechanism X R T) (H : seq (hypothesis X T)) "
        "(h : hypothesis X T)",
        (
            Hypothesis(
                "forall D E x, near D E -> ~~ h D E x -> M D x = 0 /\\ M E x = 0",
                "the stage runs only where the released number is at least the gate's; only "
                "hypotheses about this stage, with no larger number, are taken away",
            ),
            Hypothesis("under (h :: H) near t d M", "premise"),
        ),
        "under H near t d M",
    ),
    Tie(
        rules.add_total_variation_event,
        "Adaptive.add_total_variation_event",
        _OPEN,
        (
            Hypothesis(
                "0 <= t",
                "t stands for e^epsilon; at t = 1 the price is 2 e, and no less",
                lambda: _paid(_PRICE - TENTH / 1000),
            ),
            Hypothesis(
                "claimed_of_coupled H near t d e M",
                "premises: the claim is about laws that can be drawn together with the mechanism's "
                "own, and the event's probability is e",
                lambda: rules.add_total_variation_event(
                    claim(), calls.event(TENTH, ADD, calls.HIDDEN)
                ),
            ),
        ),
        "under H near t (d + (1 + t) * e) M",
        lambda: (example(_paid(_PRICE), Fraction(1), _PRICE),),
    ),
    Tie(
        rules.privacy_filter,
        "Adaptive.limits_filter",
        "(R : realFieldType) (X T : eqType) (near : seq X -> seq X -> Prop) (t d : R) "
        "(asked : requests R X T)",
        (
            Hypothesis("inhabited T", "a request has an answer"),
            Hypothesis(
                "within_limits near t d asked",
                "premises; what exceeds a limit is refused before it is answered, on every path",
                lambda: calls.privacy_filter(
                    [PureDP(1), PureDP(HALF)], ADD, budget=PureDP(Fraction(5, 4))
                ),
            ),
        ),
        "has_laws (answers asked) /\\ private near t d (answers asked)",
        lambda: (
            example(
                calls.privacy_filter(
                    [ApproxDP(1, TENTH), PureDP(HALF)], ADD, budget=ApproxDP(3 * HALF, TENTH)
                ),
                3 * HALF,
                TENTH,
            ),
        ),
    ),
    Tie(
        rules.privacy_filter,
        "Gaussian.privacy_filter",
        ANY_GAUSSIAN,
        GAUSSIAN_PREMISES,
        "law (left_law steps) /\\ law (right_law steps) /\\ "
        "approximate_gdp gaussian m e (left_law steps) (right_law steps)",
        lambda: (
            Example(
                calls.privacy_filter([GaussianDP(3), GaussianDP(4)], ADD, budget=GaussianDP(5)),
                GaussianDP(5),
            ),
        ),
        "(T : eqType) (m e : R) (steps : session R T)",
        (
            Hypothesis(
                "within_budget gaussian m e steps",
                "premises; what exceeds the budget is refused before it is answered, on every path",
                lambda: calls.privacy_filter(
                    [GaussianDP(3), GaussianDP(4)], ADD, budget=GaussianDP(Fraction(49, 10))
                ),
            ),
        ),
    ),
    Tie(
        rules.adaptive_compose,
        "Gaussian.compose_gdp",
        ANY_GAUSSIAN,
        GAUSSIAN_PREMISES,
        "forall D E, near D E -> "
        "gdp gaussian (m + n) (joint (M D) (fun x => K x D)) (joint (M E) (fun x => K x E))",
        lambda: (
            Example(calls.adaptive_compose([GaussianDP(3), GaussianDP(4)], ADD), GaussianDP(5)),
        ),
        "(X T U : eqType) (near : seq X -> seq X -> Prop) (m n : R) (M : mechanism X R T) "
        "(K : T -> mechanism X R U)",
        (
            Hypothesis("0 <= m", "m = mu^2", lambda: GaussianDP(-1)),
            Hypothesis("0 <= n", "a square"),
            LAWS,
            Hypothesis(
                "forall D E, near D E -> gdp gaussian m (M D) (M E)",
                "premise, of the same neighbors",
                lambda: rules.adaptive_compose(
                    [calls.claim(GaussianDP(3), ADD), calls.claim(GaussianDP(4), REPLACE)]
                ),
            ),
            Hypothesis(
                "forall x D E, near D E -> gdp gaussian n (K x D) (K x E)",
                "premise, after every first release",
            ),
        ),
    ),
    Tie(
        rules.adaptive_compose,
        "Domination.compose_dominated",
        "(R : realFieldType) (T U V W : eqType) (P Q : T -> R) (K L : T -> U -> R) "
        "(A B : V -> R) (C D : W -> R)",
        (
            *(Hypothesis(f"law {name}", "a law") for name in "PQCD"),
            Hypothesis(
                "dominated P Q A B",
                "premise: the pair whose profile the first claim is, for the same neighbors",
                lambda: rules.adaptive_compose([claim(ADD), claim(REPLACE)], by_profiles=True),
            ),
            Hypothesis(
                "forall x, dominated (K x) (L x) C D",
                "premise: one pair, whatever the first release was",
            ),
        ),
        "dominated (joint P K) (joint Q L) (joint A (fun=> C)) (joint B (fun=> D))",
        lambda: (example(_by_pairs(), Fraction(1), rounded_up(_of_two_responses)),),
    ),
    Tie(
        rules.convert,
        "Gaussian.approximate_gdp_profile",
        f"{ANY_GAUSSIAN} (T : eqType) (m e t d : R) (P Q : T -> R)",
        (
            T,
            Hypothesis(
                "forall A B, gaussian m A B -> close t d A B",
                "the profile of N(0, 1) and N(mu, 1) at this t, which the rule computes",
                lambda: _cut_off(Fraction(1, 10**30)),
            ),
            Hypothesis(
                "approximate_gdp gaussian m e P Q",
                "premise, closed",
                lambda: rules.convert(
                    calls.claim(ApproximateGaussianDP(1, TENTH), ADD, calls.SHOWN),
                    ApproxDP(1, HALF),
                ),
            ),
        ),
        "close t (d + e) P Q",
        lambda: (example(_cut_off(Fraction(0)), Fraction(1), _gaussian_delta() + TENTH),),
    ),
)
