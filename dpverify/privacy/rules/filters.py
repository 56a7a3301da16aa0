"""Rules for filters that keep friendly records: from claims for friendly neighbors to all."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from flint import arb

from dpverify.privacy.adjacency import Adjacency, Friendly
from dpverify.privacy.balls import ball, enclose, is_at_most, round_up
from dpverify.privacy.derivation import (
    RULES_KEY,
    Derivation,
    EventBound,
    Norm,
    PrivacyClaim,
    Sensitivity,
)
from dpverify.privacy.guarantees import (
    ApproxDP,
    ApproximateGaussianDP,
    Guarantee,
    Lifted,
    PerfectPrivacy,
    PureDP,
)
from dpverify.privacy.guarantees.base import probability as checked_probability
from dpverify.privacy.hypotheses import Absent, Hypothesis, Quantity, Seen, checked, described
from dpverify.privacy.numbers import Exact, approximately, exact, render, whole
from dpverify.privacy.rules.making import (
    claim_of,
    derive,
    positive_scale,
    require_closed,
    require_norm,
    require_same_world,
)
from dpverify.privacy.sources import Source, SourceStatus, states
from dpverify.privacy.tails import Tail

_MOST_LIFTED = 64
_LIFT = Source(
    "TCKMS22", "Theorem 4.11, paradigm for friendly differential privacy",
    SourceStatus.CHANGED_CONSTANTS, "smaller and tight delta, and the replace version",
)  # fmt: skip
_NOISY_DEGREES = Source(
    "TCKMS22", "Section 4, the zCDP filter",
    SourceStatus.CHANGED_CONSTANTS, "Gaussian DP with two additive deltas, and a smaller reach",
)  # fmt: skip
_KEPT = Source("OURS", "records without enough friends are kept rarely: one bound for all of them")


@states(_LIFT, Source("OURS", "filter composition: delta (e^(aT) - 1) / a, tight"))
def friendly_lift(
    friendly: Derivation[PrivacyClaim], stability: Derivation[Sensitivity]
) -> Derivation[PrivacyClaim]:
    """Lift a friendly claim to a filter that keeps each record independently, then a mechanism.

    The mechanism is private for friendly neighbors only. T is the largest sum of changes of the
    keep-probabilities (the premise: 2 under add-remove, 3 under replace for the filter of
    FriendlyCore). Every set on the way is friendly as the premise says, and the friendly claim
    must cover that: a claim for records of few strangers does not. If the mechanism is friendly
    (e, d)-DP, then with a = e^e - 1 the whole is (a T, d (e^(a T) - 1) / a)-DP.
    """
    inner = friendly.conclusion
    if not isinstance(inner.adjacency, Friendly):
        raise ValueError(
            f"friendly_lift needs a claim for friendly neighbors, but this one is under "
            f"{inner.adjacency} ({inner}); an ordinary claim needs no lift."
        )
    require_norm(stability, (Norm.KEEP,), "friendly_lift")
    require_closed(friendly, "friendly_lift")
    require_closed(stability, "friendly_lift")
    outer = stability.conclusion
    _require_covered(inner, outer)
    if not isinstance(outer.adjacency, Adjacency):
        raise ValueError(f"The filter's stability is under {outer.adjacency}; prove it for inputs.")
    guarantee = _lifted(inner.guarantee, outer.value)
    conclusion = claim_of(guarantee, friendly, stability, adjacency=outer.adjacency)
    return derive(conclusion, "friendly lift", (friendly, stability), _LIFT)


def _lifted(guarantee: Guarantee, moved: Fraction) -> Guarantee:
    if isinstance(guarantee, PerfectPrivacy) or moved == 0:
        return PerfectPrivacy()
    if not isinstance(guarantee, (PureDP, ApproxDP)):
        return Lifted(guarantee, moved)
    inner, delta = guarantee.epsilon, guarantee.delta
    if inner > _MOST_LIFTED:
        raise ValueError(
            f"{guarantee} is too weak to lift: epsilon would be e^{approximately(inner)} and more."
        )
    epsilon = round_up(enclose(lambda: ball(moved) * ball(inner).expm1()).upper)
    if not delta:
        return PureDP(epsilon)

    def grown() -> arb:
        a = ball(inner).expm1()
        return ball(delta) * (ball(moved) * a).expm1() / a

    if not is_at_most(grown, Fraction(999, 1000)):
        raise ValueError(f"delta of {guarantee} would grow to 1: this promises nothing.")
    return ApproxDP(epsilon, round_up(enclose(grown).upper))


def _require_covered(inner: PrivacyClaim, outer: Sensitivity) -> None:
    """Refuse a claim for other friends than those that the filter keeps."""
    claimed, kept = inner.adjacency, outer.keeps
    friends = isinstance(claimed, Friendly) and isinstance(kept, Friendly)
    if not (friends and claimed.includes(kept)):  # type: ignore[union-attr, arg-type]
        raise ValueError(
            f"The claim is for {claimed}, and what the filter keeps is "
            f"{kept or 'not said to be friendly'}; prove both for the same neighbors."
        )
    if inner.domain != outer.domain:
        raise ValueError(f"The claim is for {inner.domain}, the filter's lemma for {outer.domain}.")


@states(_KEPT)
def kept_by_noise(
    score: Derivation[Sensitivity],
    *,
    sigma: Exact,
    threshold: int,
    records: int,
    probability: Exact,
    under: Iterable[Hypothesis] = (),
) -> Derivation[EventBound]:
    """Bound the probability that a filter keeps any of ``records`` records with too few friends.

    score: how far above 0 the score of such a record may be (L-infinity).
    under: the hypotheses that bound the number of records.

    A record is kept where score + Z > threshold, Z rounded Gaussian noise of deviation
    ``sigma``, so with probability P(Z >= threshold - score + 1) at most; the probabilities of
    all ``records`` are added up. The kept records decide the event, with the coins of the
    record that only one of the neighbors has, thrown on both sides.
    """
    require_norm(score, (Norm.L_INFINITY,), "a score")
    premise, chance = score.conclusion, checked_probability(probability, "probability")
    deviation, most = positive_scale(sigma, "sigma"), whole(records, "records")
    least = whole(threshold, "threshold") - premise.value.__floor__() + 1

    def one() -> arb:
        return most * Tail.ROUNDED_GAUSSIAN.at_least(least, deviation)

    if not is_at_most(one, chance):
        raise ValueError(
            f"threshold = {threshold} is passed by a record without friends more often than "
            f"{render(chance)} allows; raise it."
        )
    conclusion = EventBound(
        too_few_friends(premise, most, deviation, whole(threshold, "threshold")),
        chance,
        premise.adjacency,
        premise.domain,
        premise.hypotheses | checked(under),
        key=RULES_KEY,
    )
    rule = f"rounded Gaussian noise of deviation {render(deviation)} is below {least}, {most} times"
    return derive(conclusion, rule, (score,), _KEPT)


def too_few_friends(score: Sensitivity, records: int, sigma: Fraction, threshold: int) -> Absent:
    """Return the hypothesis that no kept record has too few friends on one of the two sides.

    Records are kept by scores with this noise.
    """
    friends = f" (friends by {score.keeps.predicate})" if isinstance(score.keeps, Friendly) else ""
    words = f"one of at most {records} records is kept that has too few friends{friends}"
    own = dict(score.query.parameters)
    parameters = {**own, "records": records, "sigma": sigma, "threshold": threshold}
    return Absent(words, Seen.LATENT, Quantity.of("noisy scores", "NoisyScores", **parameters))


def _deviation(inside: Sensitivity, outside: Sensitivity, event: EventBound) -> Fraction:
    """Return the deviation of the noise on the scores, if all three statements are about the
    same scores.
    """
    about = event.fails.about if isinstance(event.fails, Absent) else None
    if event.seen is not Seen.LATENT or about is None or event.fails not in inside.hypotheses:
        raise ValueError(
            f"{event}: the scores of a record that may be kept rest on the absence of an event "
            "that the kept records decide; give the bound of that one, by rules.kept_by_noise(...)."
        )
    scores = dict(about.parameters)
    sigma, _ = scores.pop("sigma", None), scores.pop("threshold", None)
    for moved, where in ((inside, True), (outside, False)):
        own = dict(moved.query.parameters)
        if own.pop("inside", where) is not where or own != scores:
            raise ValueError(
                f"{moved.query} ({described(own)}), and {event} ({described(scores)}); give "
                "statements about the same scores."
            )
    if not isinstance(sigma, Fraction):
        raise ValueError(f"{event}: it does not say which noise the scores have.")
    return sigma


@states(_NOISY_DEGREES)
def noisy_degree_lift(
    friendly: Derivation[PrivacyClaim],
    inside: Derivation[Sensitivity],
    outside: Derivation[Sensitivity],
    missed: Derivation[EventBound],
    *,
    budget: Exact,
) -> Derivation[PrivacyClaim]:
    """Lift a friendly claim to a filter that keeps records by noisy scores, then a mechanism.

    The mechanism is private for friendly neighbors only.

    inside, outside: how far the scores of the other records move (squared L2) when the record
    in question has, or has not, the friends that it takes to be kept. ``inside`` says which
    friends the filter keeps, and rests on the hypothesis that no record is kept which has too
    few.
    missed: the probability that such a record is kept, by the same scores, and with which
    noise: sigma is its standard deviation.

    Given which others are kept (Gaussian noise on their scores), a record inside is kept or
    not: two laws, compared by the friendly claim, or by convexity less; a record outside is
    kept with a probability that ``missed`` pays for, and else changes nothing. So mu^2 =
    max(inside / sigma^2 + that of the friendly claim, outside / sigma^2), which ``budget`` must
    cover; deltas add up. Under replace both the old and the new record may be kept: the
    friendly claim must cover the exchange.
    """
    shown = friendly.conclusion
    if not isinstance(shown.adjacency, Friendly):
        raise ValueError(f"noisy_degree_lift needs a claim for friendly neighbors, not {shown}.")
    require_closed(friendly, "noisy_degree_lift")
    part = shown.guarantee.gaussian
    if part is None or part.tv:
        raise ValueError(
            f"{shown.guarantee} is no Gaussian guarantee; noisy_degree_lift needs one."
        )
    for moved in (inside, outside):
        require_norm(moved, (Norm.SQUARED_L2,), "noisy_degree_lift")
    require_same_world((inside, outside, missed))
    about, event = inside.conclusion.adjacency, missed.conclusion
    if not isinstance(about, Adjacency):
        raise ValueError(f"The scores move under {about}; prove it for inputs.")
    _require_covered(shown, inside.conclusion)
    if about is Adjacency.REPLACE and not shown.adjacency.exchange:
        raise ValueError(f"Under replace a record may be exchanged, which {shown} is not about.")
    variance = _deviation(inside.conclusion, outside.conclusion, event) ** 2
    most = exact(budget, "budget")
    kept = inside.conclusion.value / variance + part.mu_squared
    spent = max(kept, outside.conclusion.value / variance)
    if spent > most:
        raise ValueError(f"mu^2 = {render(spent)} is more than the budget of {render(most)}.")
    delta: Fraction = part.delta + missed.conclusion.probability
    guarantee = ApproximateGaussianDP.of_square(most, delta)
    premises = (friendly, inside, outside, missed)
    conclusion = claim_of(guarantee, *premises, adjacency=about, without=frozenset({event.fails}))
    return derive(conclusion, "noisy degree lift", premises, _NOISY_DEGREES)
