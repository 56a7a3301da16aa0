"""A filter by noisy numbers of friends, in Gaussian differential privacy."""

from __future__ import annotations

from fractions import Fraction

from dpverify.privacy.adjacency import Adjacency, Friendly
from dpverify.privacy.derivation import Derivation, EventBound, Norm, PrivacyClaim, Sensitivity
from dpverify.privacy.guarantees import ApproximateGaussianDP
from dpverify.privacy.numbers import Exact, exact, render
from dpverify.privacy.rules.making import (
    claim_of,
    derive,
    positive_scale,
    require_norm,
    require_same_world,
)
from dpverify.privacy.sources import Source, SourceStatus, states

_NOISY_DEGREES = Source(
    "TCKMS22", "Section 4, the zCDP filter",
    SourceStatus.CHANGED_CONSTANTS, "Gaussian DP with two additive deltas, and a smaller reach",
)  # fmt: skip


@states(_NOISY_DEGREES)
def noisy_degree_lift(
    friendly: Derivation[PrivacyClaim],
    inside: Derivation[Sensitivity],
    outside: Derivation[Sensitivity],
    missed: Derivation[EventBound],
    *,
    sigma: Exact,
    budget: Exact,
) -> Derivation[PrivacyClaim]:
    """A filter that keeps each record by its noisy score, then a mechanism that is private for
    friendly neighbors only.

    inside, outside: how far the scores of the other records move (squared L2) when the record in
    question has the friends that it takes to be kept, or has not. missed: that a record is kept which
    has not. sigma: the standard deviation of the noise on each score.

    Given which others are kept (Gaussian noise on their scores), a record inside is kept or not: two
    laws, compared by the friendly claim, or by convexity less; a record outside is kept with a
    probability that ``missed`` pays for, and else changes nothing. So mu^2 = max(inside / sigma^2 +
    that of the friendly claim, outside / sigma^2), which ``budget`` must cover; deltas add up. Under
    replace both the old and the new record may be kept: the friendly claim must cover the exchange.
    """
    shown = friendly.conclusion
    if not isinstance(shown.adjacency, Friendly):
        raise ValueError(f"noisy_degree_lift needs a claim for friendly neighbors, not {shown}.")
    part = shown.guarantee.gaussian
    if part is None or part.tv:
        raise ValueError(
            f"{shown.guarantee} is no Gaussian guarantee; noisy_degree_lift needs one."
        )
    for moved in (inside, outside):
        require_norm(moved, (Norm.SQUARED_L2,), "noisy_degree_lift")
    require_same_world((inside, outside, missed))
    about = inside.conclusion.adjacency
    if not isinstance(about, Adjacency):
        raise ValueError(f"The scores move under {about}; prove it for inputs.")
    if about is Adjacency.REPLACE and not shown.adjacency.exchange:
        raise ValueError(f"Under replace a record may be exchanged, which {shown} is not about.")
    if shown.domain != inside.conclusion.domain:
        raise ValueError(f"The claim is for {shown.domain}, scores for {inside.conclusion.domain}.")
    variance, most = positive_scale(sigma, "sigma") ** 2, exact(budget, "budget")
    kept = inside.conclusion.value / variance + part.mu_squared
    spent = max(kept, outside.conclusion.value / variance)
    if spent > most:
        raise ValueError(f"mu^2 = {render(spent)} is more than the budget of {render(most)}.")
    delta: Fraction = part.delta + missed.conclusion.probability
    guarantee = ApproximateGaussianDP.of_square(most, delta)
    premises = (friendly, inside, outside, missed)
    conclusion = claim_of(guarantee, *premises, adjacency=about)
    return derive(conclusion, "noisy degree lift", premises, _NOISY_DEGREES)
