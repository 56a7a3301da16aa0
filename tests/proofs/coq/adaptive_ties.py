"""The ties of what is chosen after seeing answers, of hypotheses, and of premises of other rules."""

from __future__ import annotations

from fractions import Fraction

from dpverify.privacy import ApproxDP, GaussianDP, Guarantee, PerfectPrivacy, PureDP, rules
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
        rules.compose,
        "Gaussian.compose_gdp",
        ANY_GAUSSIAN,
        GAUSSIAN_PREMISES,
        "forall D E, near D E -> "
        "gdp gaussian (m + n) (joint (M D) (fun x => K x D)) (joint (M E) (fun x => K x E))",
        lambda: (Example(calls.compose([GaussianDP(3), GaussianDP(4)], ADD), GaussianDP(5)),),
        "(X T U : eqType) (near : seq X -> seq X -> Prop) (m n : R) (M : mechanism X R T) "
        "(K : T -> mechanism X R U)",
        (
            Hypothesis("0 <= m", "m = mu^2", lambda: GaussianDP(-1)),
            Hypothesis("0 <= n", "a square"),
            LAWS,
            Hypothesis(
                "forall D E, near D E -> gdp gaussian m (M D) (M E)",
                "premise, of the same neighbors",
                lambda: rules.compose(
                    calls.claim(GaussianDP(3), ADD), calls.claim(GaussianDP(4), REPLACE)
                ),
            ),
            Hypothesis(
                "forall x D E, near D E -> gdp gaussian n (K x D) (K x E)",
                "premise, after every first release",
            ),
        ),
    ),
)
