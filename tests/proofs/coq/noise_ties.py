"""The ties of noise and of choices by weight."""

from __future__ import annotations

from fractions import Fraction

from mpmath import mp

from dpverify.privacy import ApproxDP, Norm, PureDP, rules
from dpverify.privacy.guarantees import BoundedRange, DiscreteLaplaceShift
from tests.privacy.enumeration import premises as calls

from .tie import (
    ADD,
    HALF,
    NEAR,
    T1,
    TENTH,
    WORLD,
    Example,
    Hypothesis,
    Tie,
    example,
    open_claim,
    rounded_up,
)

_ABOVE_THRESHOLD = (
    "(R : realFieldType) (X : eqType) (queries : seq X -> seq int) (q qy : R) "
    "(p py above : int -> R) (M : mechanism X R nat_eqType)"
)
_ANSWERED = (
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
)
_LESS = rounded_up(lambda: ((1 + mp.exp(0.5)) / 10 + mp.exp(1) - mp.exp(0.5)) / (1 + mp.exp(1)))
"""The delta of (1, 1/10) at epsilon 1/2."""
_MOVED = "(near : seq X -> seq X -> Prop) (moved : nat) (t d : R)"
_SHIFT = Hypothesis(
    "close t d p (fun z => p (z + (2 * moved)%N%:Z))",
    "what is claimed: the profile of a shift by twice the sensitivity, at every epsilon >= 0",
)

OF_NOISE: tuple[Tie, ...] = (
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
                "forall D E, near D E -> size (query D) = size (query E) /\\ (l1 (query D) "
                "(query E) <= moved)%N",
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
                "forall D E, near D E -> exists s, 0 < s /\\ forall x, "
                "w D x <= s * down * w E x /\\ s * w E x <= up * w D x",
                "premise: up and down are e^(D / scale) in L-infinity, s = 1; "
                "in the range norm s down and s / up are the largest "
                "and the smallest change",
                lambda: rules.exponential_mechanism(calls.sensitivity(1, Norm.L1, ADD), 1),
            ),
        ),
        "bounded_range near (up * down) M",
        lambda: (
            Example(
                calls.exponential_mechanism(3, Fraction(2), ADD, Norm.L_INFINITY), BoundedRange(3)
            ),
            Example(
                calls.exponential_mechanism(3, Fraction(2), ADD, Norm.RANGE), BoundedRange(3 * HALF)
            ),
        ),
    ),
    Tie(
        rules.convert,
        "Noise.bounded_range_pure",
        f"{NEAR} (T : eqType) (r : R) (M : mechanism X R T)",
        (
            Hypothesis("0 <= r", "r = e^epsilon", lambda: BoundedRange(-1)),
            Hypothesis(
                "forall D : seq X, has_laws M /\\ total (M D) 1", "a mechanism always has an output"
            ),
            Hypothesis("bounded_range near r M", "premise"),
        ),
        "private near r 0 M",
        lambda: (
            example(calls.convert(BoundedRange(1), ADD, PureDP(1)), Fraction(1), Fraction(0)),
        ),
    ),
    Tie(
        rules.convert,
        "Noise.convert_to_less",
        f"{NEAR} (T : eqType) (t d t' : R) (M : mechanism X R T)",
        (
            Hypothesis("1 < t", "t stands for e^epsilon, and epsilon > 0", lambda: PureDP(0)),
            Hypothesis("1 <= t' <= t", "t' for e^epsilon'; where epsilon does not fall, convert"),
            Hypothesis("forall D E, near D E -> near E D", "neighbors are in no order"),
            Hypothesis(
                "forall D, has_laws M /\\ total (M D) 1",
                "a mechanism always has an output; a claim under hypotheses, which is of parts, "
                "is refused",
                lambda: rules.convert(open_claim(), ApproxDP(HALF, _LESS)),
            ),
            Hypothesis(
                "private near t d M",
                "premise; no smaller delta than the theorem's",
                lambda: calls.convert(
                    ApproxDP(1, TENTH), ADD, ApproxDP(HALF, _LESS - Fraction(1, 10**30))
                ),
            ),
        ),
        "private near t' ((d * (1 + t') + (t - t')) / (1 + t)) M",
        lambda: (
            example(calls.convert(ApproxDP(1, TENTH), ADD, ApproxDP(HALF, _LESS)), HALF, _LESS),
        ),
    ),
    Tie(
        rules.randomized_response,
        "Noise.randomized_response",
        f"{WORLD} (t : R) (options : seq nat) (near : seq X -> seq X -> Prop) "
        f"(answers : seq X -> seq nat) (moved : nat)",
        (
            Hypothesis(
                "1 <= t",
                "t = e^(1 / scale), the scale positive",
                lambda: calls.randomized_response(1, Fraction(0), ADD),
            ),
            Hypothesis(
                "forall D E, near D E -> size (answers D) = size (answers E) /\\ (hamming "
                "(answers D) (answers E) <= moved)%N",
                "premise, in Hamming distance",
                lambda: rules.randomized_response(calls.sensitivity(1, Norm.L1, ADD), 1),
            ),
        ),
        "private near (t ^+ moved) 0 (fun D => product [seq response t options a | a <- answers "
        "D])",
        lambda: (
            example(calls.randomized_response(1, Fraction(2), ADD), HALF, Fraction(0)),
            example(calls.randomized_response(3, Fraction(2), ADD), 3 * HALF, Fraction(0)),
        ),
    ),
    Tie(
        rules.above_threshold,
        "AboveThreshold.above_threshold",
        _ABOVE_THRESHOLD,
        _ANSWERED,
        "private near t d M",
        lambda: (
            Example(
                calls.above_threshold(
                    3, ADD, Norm.L_INFINITY, scale=Fraction(2), query_scale=Fraction(4)
                ),
                DiscreteLaplaceShift(6, 2),
            ),
        ),
        _MOVED,
        (
            T1,
            Hypothesis(
                "q <= qy ^+ 2",
                "checked: the noise on queries has twice the threshold's scale, or more",
                lambda: calls.above_threshold(
                    1, ADD, Norm.L_INFINITY, scale=Fraction(1), query_scale=Fraction(199, 100)
                ),
            ),
            Hypothesis(
                "move_by queries near moved",
                "premise, in L-infinity, of integers that move by a whole number",
                lambda: calls.above_threshold(
                    1, ADD, Norm.L1, scale=Fraction(1), query_scale=Fraction(2)
                ),
            ),
            _SHIFT,
        ),
    ),
    Tie(
        rules.above_threshold,
        "AboveThreshold.above_threshold_one_way",
        _ABOVE_THRESHOLD,
        _ANSWERED,
        "private near t d M",
        lambda: (
            Example(
                calls.above_threshold(
                    3, ADD, Norm.ONE_WAY, scale=Fraction(2), query_scale=Fraction(2)
                ),
                DiscreteLaplaceShift(6, 2),
            ),
        ),
        _MOVED,
        (
            T1,
            Hypothesis(
                "q <= qy",
                "checked: the noise on queries has the threshold's scale, or more",
                lambda: calls.above_threshold(
                    1, ADD, Norm.ONE_WAY, scale=Fraction(1), query_scale=HALF
                ),
            ),
            Hypothesis("total p 1", "the sampler always has an output"),
            Hypothesis(
                "move_one_way queries near moved",
                "premise, in the one-way norm; in another one more noise is asked for",
                lambda: calls.above_threshold(
                    1, ADD, Norm.L_INFINITY, scale=Fraction(1), query_scale=Fraction(1)
                ),
            ),
            _SHIFT,
        ),
    ),
)
