"""Rules for noise on a query of known sensitivity, and for choices by score."""

from __future__ import annotations

from fractions import Fraction

from dpverify.privacy.derivation import Derivation, Norm, PrivacyClaim, Sensitivity
from dpverify.privacy.guarantees import (
    BoundedRange,
    DiscreteLaplaceShift,
    GaussianDP,
    Guarantee,
    PerfectPrivacy,
    PureDP,
    SmoothLaplace,
    ZeroConcentratedDP,
)
from dpverify.privacy.numbers import Exact, render
from dpverify.privacy.rules.making import claim_of, derive, positive_scale, require_norm
from dpverify.privacy.sources import Source, SourceStatus, states
from dpverify.privacy.tails import Tail

_LAPLACE = Source("DMNS06", "Section 3, noise calibrated to L1 sensitivity", note="for integers")
_RESPONSE = Source("KBR16", "Section 3, k-ary randomized response")
_PERFECT = Source("OURS", "a query that no neighbor can change is public")
_DISCRETE_GAUSSIAN = Source("CKS20", "Theorem 14, the multivariate discrete Gaussian")
_GAUSSIAN = Source("DRS22", "Gaussian noise on a query of known L2 sensitivity is mu-GDP")
_SMOOTH = Source(
    "NRS07",
    "noise in proportion to a smooth bound on the local sensitivity",
    SourceStatus.CHANGED_CONSTANTS,
    "Laplace noise, with the exact profile of a shift and a dilation together",
)
PUBLIC = "public value"
"""Name of the rule for what is no random variable: the same number for both neighbors."""
_NOTHING_MOVES = (Norm.L1, Norm.SQUARED_L2, Norm.L_INFINITY, Norm.HAMMING)
_EXPONENTIAL = Source("MT07", "the exponential mechanism", note="bounded range: DDR20, Section 3")


@states(_PERFECT)
def public_value(sensitivity: Derivation[Sensitivity]) -> Derivation[PrivacyClaim]:
    """Release a query of sensitivity zero as it is.

    Needs a norm in which zero means that nothing moves; a number alone has range 0 however far
    it moves.
    """
    require_norm(sensitivity, _NOTHING_MOVES, "a public value")
    premise = sensitivity.conclusion
    if premise.value != 0:
        raise ValueError(
            f"{premise}; only a query that no neighbor can change is released without noise."
        )
    claim, exactly = claim_of(PerfectPrivacy(), sensitivity), (Tail.NONE, Fraction(1))
    return derive(claim, PUBLIC, (sensitivity,), _PERFECT, noise=exactly)


@states(_LAPLACE)
def discrete_laplace(
    sensitivity: Derivation[Sensitivity], scale: Exact, *, exactly: bool = False
) -> Derivation[PrivacyClaim]:
    """Add discrete Laplace noise of ``scale`` to an integer query: (sensitivity / scale)-DP.

    The noise has mass proportional to e^(-|z| / scale) on every integer z, independently in
    every coordinate; |y - q| - |y - q'| <= |q - q'| gives the ratio. Needs the L1 norm. With
    ``exactly``, for a whole sensitivity, the conclusion is the noise's own profile, which
    composes better: a change spread over coordinates is a chain of changes of one each, and
    group privacy adds up their shifts.
    """
    require_norm(sensitivity, (Norm.L1,), "discrete Laplace")
    scale = positive_scale(scale)
    rule = f"discrete Laplace noise of scale {render(scale)}"
    if not exactly:
        return _exponential_weights(sensitivity, scale, rule, _LAPLACE, Tail.DISCRETE_LAPLACE)
    premise = sensitivity.conclusion
    if premise.value.denominator != 1:
        raise ValueError(
            f"exactly=True needs an integer query of whole sensitivity, but {premise}; leave it "
            "out."
        )
    moved = premise.value.numerator
    guarantee: Guarantee = DiscreteLaplaceShift(moved, scale) if moved else PerfectPrivacy()
    noise = (Tail.DISCRETE_LAPLACE, scale)
    return derive(claim_of(guarantee, sensitivity), rule, (sensitivity,), _LAPLACE, noise=noise)


@states(_RESPONSE, Source("W65", "randomized response"))
def randomized_response(
    sensitivity: Derivation[Sensitivity], scale: Exact
) -> Derivation[PrivacyClaim]:
    """Keep each answer with weight 1, and give every other category weight e^(-1 / scale).

    The claim is (sensitivity / scale)-DP: one changed answer multiplies a transcript's
    probability by at most e^(1 / scale), for the normalizing constant does not depend on the
    answer. Needs Hamming.
    """
    require_norm(sensitivity, (Norm.HAMMING,), "randomized response")
    scale = positive_scale(scale)
    rule = f"randomized response of scale {render(scale)}"
    return _exponential_weights(sensitivity, scale, rule, _RESPONSE)


@states(_DISCRETE_GAUSSIAN)
def discrete_gaussian(
    sensitivity: Derivation[Sensitivity], sigma: Exact
) -> Derivation[PrivacyClaim]:
    """Add discrete Gaussian noise to an integer query: (L2^2 / (2 sigma^2))-zCDP.

    The noise has mass proportional to e^(-z^2 / (2 sigma^2)) on every integer z, independently
    in every coordinate. Needs the squared L2 norm.
    """
    require_norm(sensitivity, (Norm.SQUARED_L2,), "discrete Gaussian")
    sigma = positive_scale(sigma, "sigma")
    rho = sensitivity.conclusion.value / (2 * sigma**2)
    guarantee: Guarantee = ZeroConcentratedDP(rho) if rho else PerfectPrivacy()
    rule = f"discrete Gaussian noise of parameter {render(sigma)}"
    return derive(claim_of(guarantee, sensitivity), rule, (sensitivity,), _DISCRETE_GAUSSIAN)


@states(_GAUSSIAN)
def rounded_gaussian(
    sensitivity: Derivation[Sensitivity], sigma: Exact
) -> Derivation[PrivacyClaim]:
    """Release round(query + sigma Z), Z standard normal in every coordinate: (L2 / sigma)-GDP.

    Rounding an integer plus a real normal is post-processing of the Gaussian mechanism. Needs
    the squared L2 norm, or the L1 norm, which is no smaller than the L2 norm.
    """
    require_norm(sensitivity, (Norm.SQUARED_L2, Norm.L1), "rounded Gaussian")
    sigma = positive_scale(sigma, "sigma")
    shown = sensitivity.conclusion
    square = (shown.value if shown.norm is Norm.SQUARED_L2 else shown.value**2) / sigma**2
    guarantee: Guarantee = GaussianDP.of_square(square) if square else PerfectPrivacy()
    rule, noise = (
        f"rounded Gaussian noise of standard deviation {render(sigma)}",
        Tail.ROUNDED_GAUSSIAN,
    )
    return derive(
        claim_of(guarantee, sensitivity), rule, (sensitivity,), _GAUSSIAN, noise=(noise, sigma)
    )


@states(_EXPONENTIAL)
def exponential_mechanism(
    sensitivity: Derivation[Sensitivity], scale: Exact
) -> Derivation[PrivacyClaim]:
    """Choose one candidate, with probability proportional to e^(score / scale): bounded range.

    Scores that move by at most D each (L-infinity) give range 2 D / scale. Where all move the
    same way, or where largest minus smallest change is at most R (the range norm), the range is
    R / scale: the normalizing constant moves all log-probabilities alike, so it does not change
    the range.
    """
    require_norm(sensitivity, (Norm.L_INFINITY, Norm.RANGE), "the exponential mechanism")
    scale = positive_scale(scale)
    premise = sensitivity.conclusion
    length = premise.value * (2 if premise.norm is Norm.L_INFINITY else 1) / scale
    guarantee: Guarantee = BoundedRange(length) if length else PerfectPrivacy()
    rule = f"exponential mechanism of scale {render(scale)}"
    return derive(claim_of(guarantee, sensitivity), rule, (sensitivity,), _EXPONENTIAL)


@states(_SMOOTH)
def smooth_laplace(sensitivity: Derivation[Sensitivity], scale: Exact) -> Derivation[PrivacyClaim]:
    """Release round(number + ``scale`` S Z), Z standard Laplace, for one number with a scale S.

    Needs the smooth norm: the number, an integer, moves by at most the smaller of S and S', and
    S by at most a factor. Rounding a real variable is post-processing; the profile is that of a
    shift by up to 1 / scale of the smaller noise together with a change of the noise's scale by
    that factor.
    """
    require_norm(sensitivity, (Norm.SMOOTH,), "smooth Laplace noise")
    scale = positive_scale(scale)
    guarantee = SmoothLaplace(1 / scale, sensitivity.conclusion.value)
    rule = f"Laplace noise of {render(scale)} times a smooth scale, rounded"
    return derive(claim_of(guarantee, sensitivity), rule, (sensitivity,), _SMOOTH)


def _exponential_weights(
    sensitivity: Derivation[Sensitivity],
    scale: Fraction,
    rule: str,
    source: Source,
    tail: Tail | None = None,
) -> Derivation[PrivacyClaim]:
    loss = sensitivity.conclusion.value / scale
    guarantee: Guarantee = PureDP(loss) if loss > 0 else PerfectPrivacy()
    noise = None if tail is None else (tail, scale)
    return derive(claim_of(guarantee, sensitivity), rule, (sensitivity,), source, noise=noise)
