"""The rule for the first of many queries that is above a threshold, with noise on both."""

from __future__ import annotations

from fractions import Fraction

from dpverify.privacy.derivation import Derivation, Norm, PrivacyClaim, Sensitivity
from dpverify.privacy.guarantees import (
    BoundedRange,
    DiscreteLaplaceShift,
    Guarantee,
    PerfectPrivacy,
)
from dpverify.privacy.numbers import Exact, render
from dpverify.privacy.rules.making import claim_of, derive, positive_scale, require_norm
from dpverify.privacy.sources import Source, SourceStatus, states

_ABOVE = Source(
    "DR14", "Theorem 3.23, AboveThreshold", SourceStatus.CHANGED_CONSTANTS, "a profile, on integers"
)
_RANGE = Source("OURS", "AboveThreshold of queries that move one way has a bounded range")


@states(_ABOVE, _RANGE)
def above_threshold(
    sensitivity: Derivation[Sensitivity],
    *,
    scale: Exact,
    query_scale: Exact,
    by_range: bool = False,
) -> Derivation[PrivacyClaim]:
    """Claim for the index of the first query with query + Y >= threshold + Z, or "none".

    The report is "none" where no query is above. All are integers; Z is discrete Laplace noise
    of ``scale``, drawn once; Y has ``query_scale`` and is fresh for each query. Each query
    moves by at most D (the L-infinity norm, or the one-way norm). With query_scale >= 2 scale,
    or query_scale >= scale where all move one way, this is as private as an integer that moves
    by 2 D under the noise Z alone, so (2 D / scale)-DP and better.

    Proof. Let P, Q be the laws, p(z) the mass of Z, and K(k | z), L(k | z) the laws of report k
    given Z = z. Move the threshold along by D: what was below stays below, and a report meets a
    query at most 2 D further off. So K(k | z) <= e^(2 D / query_scale) L(k | z + D) <=
    e^(D / scale) L(k | z + D), also for "none". (One way: at most D further off.) So sup_S
    P(S) - g Q(S) is at most the same of p(z) and g e^(-D / scale) p(z + D), and for g >= 1 that
    is the profile of a move by 2 D: both are P(Z <= m) - g e^(-D / scale) P(Z <= m - D) with
    one m < D, and below 0 the tail of Z is geometric. With P and Q exchanged the bound is the
    same. The exception is queries that fall one way: nothing needs to be moved along, and sup_S
    Q(S) - g P(S) <= 1 - g e^(-D / query_scale), which is less. QED.

    by_range: where all move one way, losses lie between -D / query_scale and D / scale +
    D / query_scale: a bounded range, better in composition and worse alone.
    """
    rule = "AboveThreshold"
    require_norm(sensitivity, (Norm.L_INFINITY, Norm.ONE_WAY), rule)
    scale, query_scale = positive_scale(scale), positive_scale(query_scale, "query_scale")
    premise = sensitivity.conclusion
    one_way, moved = premise.norm is Norm.ONE_WAY, premise.value
    if moved.denominator != 1:
        raise ValueError(f"{rule} needs integer queries of whole sensitivity, but {premise}.")
    if by_range and not one_way:
        raise ValueError(
            f"{rule} has a range shorter than that of pure DP only where all queries move one "
            f"way, but {premise}; leave out by_range."
        )
    least = scale * (1 if one_way else 2)
    if query_scale < least and not by_range:
        raise ValueError(
            f"query_scale = {render(query_scale)} is below {render(least)}: noise on queries of "
            f"{1 if one_way else 2} times the threshold's scale or more is needed, as {premise}."
        )
    guarantee: Guarantee = PerfectPrivacy()
    if moved:
        shift = DiscreteLaplaceShift(2 * moved.numerator, scale)
        length = moved * (1 / scale + 2 / query_scale)
        guarantee = BoundedRange(length) if by_range else shift
    how = f"{rule} with noise of scale {render(scale)}, on queries {render(Fraction(query_scale))}"
    return derive(
        claim_of(guarantee, sensitivity), how, (sensitivity,), _RANGE if by_range else _ABOVE
    )
