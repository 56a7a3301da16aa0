"""The ties of released numbers: what nobody can change, what misses, and what is built from one."""

from __future__ import annotations

from fractions import Fraction

from dpverify.privacy import Norm, PerfectPrivacy, rules
from tests.privacy.enumeration import premises as calls

from .tie import ADD, HALF, LAWS, NEAR, D, Example, Hypothesis, T, Tie

_SHIFT, _SCALE = 4, Fraction(1)
_RARE = Fraction(133, 10_000)
"""A little less than P(Z >= 4) of discrete Laplace noise of scale 1."""


def _released() -> object:
    """Claim the release of the number of records, less the shift, with noise."""
    return rules.discrete_laplace(calls.lowered_number(1, _SHIFT), _SCALE)


OF_RELEASES: tuple[Tie, ...] = (
    Tie(
        rules.public_value,
        "Releases.public_value",
        f"{NEAR} (V : eqType) (query : seq X -> V)",
        (
            Hypothesis(
                "forall D E, near D E -> query D = query E",
                "checked: a sensitivity of zero, in a norm where that means that nothing moves",
                lambda: calls.public_value(1, Norm.L1, ADD),
            ),
        ),
        "private near 1 0 (fun D => certain R (query D))",
        lambda: (Example(calls.public_value(0, Norm.L1, ADD), PerfectPrivacy()),),
    ),
    Tie(
        rules.released_event,
        "Releases.released_event",
        f"{NEAR} (at_most smaller : bool) (shift slack : int) (moved : nat) (e : R) "
        "(query : seq X -> int) (p above : int -> R) (H : seq (hypothesis X int_eqType))",
        (
            Hypothesis("law p", "the sampler's law"),
            Hypothesis("forall z, p (- z) = p z", "both noises with known tails are symmetric"),
            Hypothesis("tail p above", "what above is"),
            Hypothesis(
                "forall D E, near D E -> `|query D - query E| <= moved%:Z",
                "premise, of the number that the hypothesis is about",
                lambda: rules.released_event(
                    calls.BELOW,
                    rules.discrete_laplace(calls.sensitivity(1, Norm.L1, ADD), _SCALE),
                    probability=HALF,
                ),
            ),
            Hypothesis(
                "above (missing at_most smaller shift slack moved) <= e",
                "checked, by enclosing the noise's tail",
                lambda: calls.released_event(_released(), _RARE),  # type: ignore[arg-type]
            ),
        ),
        "rarely_fails (compared at_most smaller slack query) H near e "
        "(fun D y => p (y - (query D - shift)))",
    ),
    Tie(
        rules.for_each_release,
        "Releases.for_each_release",
        f"{NEAR} (T U : eqType) (t d t' d' : R) (M : mechanism X R T) (K : T -> mechanism X R U) "
        "(H : seq (hypothesis X T)) (G : seq (T -> hypothesis X U)) (released : hypothesis X T) "
        "(built_from : T -> seq X -> seq X -> bool)",
        (
            T,
            Hypothesis("0 <= t'", "t' stands for e^epsilon'"),
            Hypothesis("0 <= d'", D.why, D.refused),
            LAWS,
            Hypothesis("forall x, has_laws (K x)", "a mechanism for every released number"),
            Hypothesis("under H near t d M", "premise, of what is released"),
            Hypothesis(
                "forall x, under ((fun D E _ => built_from x D E) :: [seq g x | g <- G]) near "
                "t' d' "
                "(K x)",
                "premise: declared at one number, and checked during execution of what is built; "
                "further hypotheses are handed on",
            ),
            Hypothesis(
                "forall D E x, near D E -> released D E x -> built_from x D E",
                "checked: what is assumed of the released number is about the same comparison; "
                "execution compares the numbers",
                lambda: rules.for_each_release(calls.built_at(1, 1, _SCALE), ()),
            ),
        ),
        "under ([seq of_first (U := U) h | h <- released :: H] ++ [seq of_second g | g <- G]) near "
        "(t * t') (d + d') (fun D => joint (M D) (fun x => K x D))",
    ),
    Tie(
        rules.kept_by_noise,
        "Releases.kept_by_noise",
        "(R : realFieldType) (p above : int -> R) (threshold score : int)",
        (
            Hypothesis("law p", "the sampler's law"),
            Hypothesis("tail p above", "what above is"),
        ),
        "mass (where_good (passed threshold) (noisy p vs)) s <= e",
        lambda: (),
        "(records : nat) (e : R) (vs : seq int) (s : seq (seq int))",
        (
            Hypothesis(
                "all (fun v => v <= score) vs",
                "premise, in L-infinity: how far above 0 a score without enough friends may be",
                lambda: rules.kept_by_noise(
                    calls.sensitivity(1, Norm.L1, ADD, keeps=calls.friendly()),
                    sigma=1,
                    threshold=9,
                    records=1,
                    probability=HALF,
                ),
            ),
            Hypothesis("(size vs <= records)%N", "premise, or a hypothesis of the bound"),
            Hypothesis(
                "records%:R * above (threshold - score + 1) <= e",
                "checked, by enclosing the noise's tail",
                lambda: calls.kept_by_noise(
                    0, ADD, sigma=_SCALE, threshold=2, records=100, probability=Fraction(1, 10)
                ),
            ),
            Hypothesis("uniq s", "any finite set of outputs"),
        ),
    ),
)
