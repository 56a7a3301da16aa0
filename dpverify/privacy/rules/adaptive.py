"""The rule for requests, each with its own guarantee, that are chosen after earlier answers."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from dpverify.privacy.derivation import Derivation, PrivacyClaim
from dpverify.privacy.guarantees import (
    ApproxDP,
    ApproximateGaussianDP,
    GaussianDP,
    Guarantee,
    PureDP,
)
from dpverify.privacy.numbers import approximately
from dpverify.privacy.rules.making import (
    claim_of,
    claims_among,
    derive,
    require_closed,
    require_guarantee,
)
from dpverify.privacy.sources import Source, states

_ADAPTIVE = Source("ST22", "fully adaptive composition of Gaussian differential privacy")
_FILTER = Source("KTH23", "a Gaussian privacy filter")
_BASIC = Source("RRUV16", "a filter for epsilon and delta", note="basic composition")
Limits = dict[str, Fraction]


@states(_ADAPTIVE, _FILTER, _BASIC)
def privacy_filter(
    steps: Iterable[Derivation[PrivacyClaim]], *, budget: Guarantee
) -> Derivation[PrivacyClaim]:
    """Conclude ``budget``, fixed before the first answer, of requests chosen after seeing answers.

    budget: GaussianDP or ApproximateGaussianDP, whose mu^2, delta and tv are limits on the sums of
    the steps' own; or PureDP or ApproxDP, whose epsilon and delta are. steps: the requests of the
    path that was taken, each with a claim that holds whatever was answered before. Refused where
    their sums exceed a limit.

    Whoever runs the requests sees to it that this is so on every path: the limits are chosen before
    the first answer, and a request that would exceed one is refused before it is answered. The
    conclusion is the budget, however little of it was spent: when to stop is chosen after seeing
    answers, too.

    Proof (spec/theory/adaptive.py:privacy_filter). The first cost c is chosen before any answer.
    After each answer to it comes an analyst whose costs stay within b - c, the same limit for all
    answers, who by induction has the guarantee of b - c. Composed adaptively, the guarantees of c
    and of b - c are that of b: mu^2, delta and tv add up, and so do epsilons and deltas. A profile
    at one epsilon has no such sum, and is no filter.
    """
    require_guarantee(budget)
    premises = claims_among(steps)
    for part in premises:
        require_closed(part, "a privacy filter")
    limits = _amounts(budget, budget)
    each = [_amounts(part.conclusion.guarantee, budget) for part in premises]
    for name, limit in limits.items():
        total = sum((amounts[name] for amounts in each), Fraction(0))
        if total > limit:
            raise ValueError(
                f"The steps have {name} = {approximately(total)} in all, and the limit is "
                f"{approximately(limit)}: what exceeds a limit is refused before it is answered."
            )
    source = _ADAPTIVE if _is_gaussian(budget) else _BASIC
    return derive(claim_of(budget, *premises), "privacy filter", premises, source)


def _is_gaussian(budget: Guarantee) -> bool:
    return isinstance(budget, (GaussianDP, ApproximateGaussianDP))


def _amounts(guarantee: Guarantee, budget: Guarantee) -> Limits:
    """Return what a guarantee costs in the amounts that the budget limits.

    Raises ValueError where that is not known.
    """
    if _is_gaussian(budget):
        part = guarantee.gaussian
        if part is not None:
            return {"mu^2": part.mu_squared, "delta": part.delta, "tv": part.tv}
    elif isinstance(budget, (PureDP, ApproxDP)):
        if isinstance(guarantee, ApproxDP):
            return {"epsilon": guarantee.epsilon, "delta": guarantee.delta}
        if guarantee.largest_loss is not None:
            return {"epsilon": guarantee.largest_loss, "delta": Fraction(0)}
    else:
        raise TypeError(
            f"budget = {budget}: a filter's limits are those of GaussianDP, ApproximateGaussianDP, "
            "PureDP or ApproxDP; convert(...) what it concludes to other guarantees."
        )
    raise ValueError(
        f"{guarantee} has no cost that is known under a budget of {budget}; convert(...) the claim "
        "first, to ApproximateGaussianDP(mu, delta) or to ApproxDP(epsilon, delta)."
    )
