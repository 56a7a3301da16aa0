"""The ties of thresholds on keys and distances, and of noisy scores."""

from __future__ import annotations

from fractions import Fraction

from mpmath import mp, mpf

from dpverify.privacy import GaussianDP, Guarantee, Norm, rules
from dpverify.privacy.guarantees import ApproximateGaussianDP
from tests.privacy.enumeration import premises as calls

from .tie import (
    ADD,
    ANY_GAUSSIAN,
    GAUSSIAN_PREMISES,
    HALF,
    LAWS,
    REPLACE,
    T1,
    TENTH,
    Example,
    Hypothesis,
    Tie,
    example,
    rounded_up,
)

_KEYS = "(R : realFieldType) (T : eqType) (none : T) (X K : eqType) (keys : seq K)"


def _surfacing(threshold: int, keys: int) -> Fraction:
    """1 - (1 - p)^keys for p = q^(threshold - 1) / (1 + q), q = exp(-1): rounded up at 45
    digits."""
    return rounded_up(lambda: 1 - (1 - mp.exp(1 - threshold) / (1 + mp.exp(-1))) ** keys)


def _keys(number: int, threshold: int = 9) -> Guarantee:
    return calls.stability_histogram(number, Norm.KEYS, ADD, scale=Fraction(1), threshold=threshold)


def _tested(number: int) -> Guarantee:
    return calls.propose_test_release(number, ADD, scale=Fraction(1), threshold=9)


def _lifted(guarantee: Guarantee) -> Guarantee:
    """Lift a claim behind scores that move by 4 (squared) or 9, under noise of deviation 2."""
    return calls.noisy_degree_lift(
        guarantee, ADD, inside=4, outside=9, missed=TENTH, sigma=Fraction(2)
    )


def _gaussian(number: int) -> Guarantee:
    return calls.gaussian_stability_histogram(
        number, Norm.KEYS, ADD, sigma=Fraction(1), threshold=9
    )


def _gaussian_bound(keys: int) -> Guarantee:
    """mu^2 = keys and 1 - (1 - Phi(-(9 - 3/2)))^keys, rounded up at 45 digits."""
    above = rounded_up(lambda: 1 - (1 - mp.ncdf(mpf("-7.5"))) ** keys)
    return ApproximateGaussianDP.of_square(keys, above)


THRESHOLDS: tuple[Tie, ...] = (
    Tie(
        rules.stability_histogram,
        "Histograms.stability_histogram",
        f"{_KEYS} (near : seq X -> seq X -> Prop) (t d : R) (moved : nat) (cell : nat -> T -> R) "
        "(count : seq X -> K -> nat)",
        (
            T1,
            Hypothesis(
                "d <= 1",
                "checked: a delta below 1",
                lambda: calls.stability_histogram(
                    1000, Norm.KEYS, ADD, scale=Fraction(1), threshold=2
                ),
            ),
            Hypothesis(
                "thresholded none t cell",
                "count + discrete Laplace noise, or nothing below the threshold: losses of "
                "counts by "
                "discrete_laplace and post_process, t = e^(1 / scale)",
                lambda: calls.stability_histogram(
                    1, Norm.KEYS, ADD, scale=Fraction(0), threshold=9
                ),
            ),
            Hypothesis(
                "forall D E, near D E -> (distance_of keys count D E <= moved)%N /\\ "
                "1 - d <= alone none keys cell count D E /\\ 1 - d <= alone none keys cell "
                "count E D",
                "premise: how many keys a record touches, from which the rule computes delta by "
                "alone_once, or by the worst partition of what moves",
                lambda: calls.stability_histogram(1, Norm.L1, ADD, scale=Fraction(1), threshold=9),
            ),
        ),
        "private near (t ^+ moved) d (released keys cell count)",
        lambda: (
            example(_keys(1), Fraction(1), _surfacing(9, 1)),
            example(_keys(3), Fraction(3), _surfacing(9, 3)),
            example(
                calls.stability_histogram(2, Norm.KEYS, REPLACE, scale=Fraction(1), threshold=9),
                Fraction(4),
                _surfacing(9, 2),
            ),
        ),
    ),
    Tie(
        rules.stability_histogram,
        "Histograms.alone_once",
        f"{_KEYS} (cell : nat -> T -> R) (count : seq X -> K -> nat) (D E : seq X) (k : nat)",
        (
            Hypothesis("forall n, law (cell n)", "a law for every count"),
            Hypothesis("cell 0%N none = 1", "nothing is said of a key that nobody has"),
            Hypothesis(
                "forall x, count E x == 0%N -> (count D x <= 1)%N",
                "premise: a record touches a key once",
            ),
            Hypothesis(
                "(\\sum_(x <- keys | count E x == 0%N) count D x <= k)%N",
                "premise: of keys that only one dataset has a record touches k at most",
                lambda: calls.stability_histogram(
                    HALF, Norm.KEYS, ADD, scale=Fraction(1), threshold=9
                ),
            ),
        ),
        "cell 1%N none ^+ k <= alone none keys cell count D E",
    ),
    Tie(
        rules.propose_test_release,
        "Histograms.propose_test_release",
        "(R : realFieldType) (T : eqType) (none : T) (X I V : eqType) "
        "(near : seq X -> seq X -> Prop) (t quiet : R) (cell : V -> nat -> T -> R) "
        "(tested : seq I) "
        "(value : I -> seq X -> V) (far : I -> seq X -> nat)",
        (
            T1,
            Hypothesis("0 <= quiet <= 1", "a chance"),
            Hypothesis(
                "forall v n, law (cell v n) /\\ total (cell v n) 1", "a law for every value"
            ),
            Hypothesis(
                "forall v n m, (`|n%:Z - m%:Z| <= 1)%N -> close t 0 (cell v n) (cell v m)",
                "distance + discrete Laplace noise, or nothing below the threshold",
                lambda: calls.propose_test_release(1, ADD, scale=Fraction(0), threshold=9),
            ),
            Hypothesis(
                "forall v, quiet <= cell v 1%N none", "the noise's tail at distance 1, computed"
            ),
            Hypothesis(
                "forall D E, near D E -> forall i, (far i D = 1%N /\\ far i E = 1%N) \\/ "
                "(value i D = value i E /\\ (`|(far i D)%:Z - (far i E)%:Z| <= 1)%N)",
                "premise: what a distance is",
                lambda: rules.propose_test_release(
                    calls.sensitivity(1, Norm.L1, ADD), scale=1, threshold=9
                ),
            ),
        ),
        "private near (t ^+ size tested) (1 - quiet ^+ size tested) "
        "(fun D => product [seq cell (value i D) (far i D) | i <- tested])",
        lambda: (
            example(_tested(1), Fraction(1), _surfacing(9, 1)),
            example(_tested(3), Fraction(3), _surfacing(9, 3)),
        ),
    ),
    Tie(
        rules.gaussian_stability_histogram,
        "GaussianHistograms.gaussian_stability_histogram",
        ANY_GAUSSIAN,
        GAUSSIAN_PREMISES,
        "forall D E, near D E -> approximate_gdp gaussian (m * moved%:R) d "
        "(released keys cell count D) (released keys cell count E)",
        lambda: (
            Example(_gaussian(1), _gaussian_bound(1)),
            Example(_gaussian(3), _gaussian_bound(3)),
        ),
        "(X K T : eqType) (none : T) (keys : seq K) (near : seq X -> seq X -> Prop) (m d : R) "
        "(moved : nat) (cell : nat -> T -> R) (count : seq X -> K -> nat)",
        (
            Hypothesis("0 <= m", "mu^2 of a change by one"),
            Hypothesis(
                "0 <= d <= 1",
                "checked: a delta below 1",
                lambda: calls.gaussian_stability_histogram(
                    1000, Norm.KEYS, ADD, sigma=Fraction(1), threshold=2
                ),
            ),
            Hypothesis(
                "gaussian_thresholded gaussian none m cell",
                "count + rounded Gaussian noise, or nothing below the threshold: by "
                "rounded_gaussian "
                "and post_process, m = 1 / sigma^2",
                lambda: calls.gaussian_stability_histogram(
                    1, Norm.KEYS, ADD, sigma=Fraction(0), threshold=9
                ),
            ),
            Hypothesis(
                "forall D E, near D E -> (squares keys count D E <= moved)%N /\\ "
                "1 - d <= alone none keys cell count D E /\\ 1 - d <= alone none keys cell "
                "count E D",
                "premise: how many keys a record touches",
                lambda: calls.gaussian_stability_histogram(
                    1, Norm.L1, ADD, sigma=Fraction(1), threshold=9
                ),
            ),
        ),
    ),
    Tie(
        rules.noisy_degree_lift,
        "DegreeLift.noisy_degree_lift",
        ANY_GAUSSIAN,
        GAUSSIAN_PREMISES,
        "forall D E, near D E -> "
        "approximate_gdp gaussian most (f + e) (on_kept keep M D) (on_kept keep M E)",
        lambda: (
            Example(_lifted(GaussianDP(1)), ApproximateGaussianDP.of_square(Fraction(9, 4), TENTH)),
            Example(_lifted(GaussianDP(2)), ApproximateGaussianDP.of_square(Fraction(5), TENTH)),
        ),
        "(X : eqType) (near friends : seq X -> seq X -> Prop) (T : eqType) (m n o e f most : R) "
        "(M : mechanism X R T) (keep : seq X -> seq (R * seq X))",
        (
            *(
                Hypothesis(f"0 <= {one}", why)
                for one, why in (
                    ("m", "how far the scores of a record with enough friends move others"),
                    ("n", "mu^2 of the claim for friends"),
                    ("o", "how far those of a record without enough friends do"),
                    ("e", "a probability"),
                    ("f", "delta of the claim for friends"),
                )
            ),
            Hypothesis("m + n <= most", "checked: the budget covers it"),
            Hypothesis("o <= most", "checked: the budget covers it"),
            LAWS,
            Hypothesis(
                "forall A B, friends A B -> approximate_gdp gaussian n f (M A) (M B)",
                "premise, for all friends that the filter leaves",
                lambda: calls.noisy_degree_lift(
                    GaussianDP(1),
                    ADD,
                    inside=4,
                    outside=9,
                    missed=TENTH,
                    sigma=HALF,
                    strangers=1,
                    kept=3,
                ),
            ),
            Hypothesis(
                "forall D E, near D E -> "
                "kept_alike gaussian (fun A B => friends A B \\/ A = B) m e keep D E \\/ "
                "kept_alike gaussian eq o e keep D E",
                "premises: how far noisy scores move, and how likely one is kept that has too "
                "few friends",
            ),
        ),
    ),
)
