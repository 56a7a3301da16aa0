"""Rules that discharge hypotheses: rare events cost their probability, gates cost nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache

from dpverify.privacy.balls import is_at_most
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
    GaussianDP,
    Guarantee,
    Profile,
    PureDP,
)
from dpverify.privacy.guarantees.base import probability as checked_probability
from dpverify.privacy.hypotheses import (
    Compared,
    Hypothesis,
    Passed,
    Relation,
    Seen,
    Side,
    checked,
    listed,
)
from dpverify.privacy.numbers import Exact, render, whole
from dpverify.privacy.rules.making import (
    approximate,
    claim_of,
    derive,
    require_made,
    require_promise,
    require_same_world,
)
from dpverify.privacy.sources import Source, states
from dpverify.privacy.tails import Tail

_DELTA = Source("OURS", "an event of the output costs its probability", note="no factor e^epsilon")
_TOTAL_VARIATION = Source(
    "OURS", "a change of the law costs (1 + e^epsilon) times its total variation"
)
_MISSES = Source("OURS", "a released number that misses the true one is an event")
_GATE = Source("OURS", "a released number that a gate has let pass is as large as the gate asks")
_WEAKER = Source("OURS", "a statement holds under more hypotheses")
_EACH = Source("OURS", "what holds at each released number holds at the one that is released")


@states(_DELTA)
def add_delta_event(
    claim: Derivation[PrivacyClaim], event: Derivation[EventBound]
) -> Derivation[PrivacyClaim]:
    """Discharge the hypothesis that the event breaks, for its probability as an additive delta.

    Under the hypothesis the claim is about the outputs at which it holds. These must be decided
    by the output, so that they are the same set of outputs for both neighbors: then P(S) <=
    P(S where it holds) + delta, and the claim compares the parts where it holds. So delta comes
    without a factor e^epsilon. An event hidden in the coins costs more:
    ``add_total_variation_event``. Refused where the claim does not rest on the hypothesis.
    """
    bound = event.conclusion
    if bound.seen is not Seen.OUTPUT:
        raise ValueError(
            f"{bound}. Only an event that the output decides costs its probability alone. Use "
            "add_total_variation_event, at 1 + e^epsilon times the probability."
        )
    return _discharged(_with_delta, claim, event, "a delta event", _DELTA)


@states(_TOTAL_VARIATION)
def add_total_variation_event(
    claim: Derivation[PrivacyClaim], event: Derivation[EventBound]
) -> Derivation[PrivacyClaim]:
    """Discharge the hypothesis that the event breaks, whatever decides the event.

    Under the hypothesis the claim is about a mechanism that can be coupled with this one so
    that both give the same output where it holds. The cost is (1 + e^epsilon) times the event's
    probability, at the final epsilon. A bound that itself holds under hypotheses is refused: the
    other mechanism may give outputs at which they hold where this one's are such that they fail.
    """
    if event.conclusion.hypotheses:
        raise ValueError(
            f"{event.conclusion}: how far two mechanisms are apart needs a bound under no "
            "hypotheses; prove it without them."
        )
    return _discharged(_with_tv, claim, event, "a total variation event", _TOTAL_VARIATION)


def _discharged(
    with_event: Callable[[Guarantee, Fraction], Guarantee],
    claim: Derivation[PrivacyClaim],
    event: Derivation[EventBound],
    rule: str,
    source: Source,
) -> Derivation[PrivacyClaim]:
    require_same_world((claim, event))
    bound, fails = event.conclusion, event.conclusion.fails
    if fails not in claim.conclusion.hypotheses or fails in bound.hypotheses:
        rests = listed(claim.conclusion.hypotheses) or "nothing"
        raise ValueError(
            f"{bound}: the claim does not rest on its absence, it rests on {rests}. Leave the "
            "event out, or give the stage that needs it."
        )
    for released in event.premises:
        if isinstance(released.conclusion, PrivacyClaim) and released not in claim.nodes():
            raise ValueError(
                f"{bound}: that is about what is released by {released.rule}, which is no part "
                "of the claim; give the event of the stage that the claim rests on."
            )
    guarantee = with_event(claim.conclusion.guarantee, bound.probability)
    premises = (claim, event)
    conclusion = claim_of(guarantee, *premises, without=frozenset({fails}))
    return derive(conclusion, rule, premises, source)


@states(_MISSES)
def released_event(
    fails: Compared, released: Derivation[PrivacyClaim], *, probability: Exact
) -> Derivation[EventBound]:
    """Bound the probability that a stage's released number misses the bound of a hypothesis.

    released: the claim of the stage that releases the number, by a rule of added noise. The
    stage's query is the hypothesis's quantity q less a public ``shift``
    (a parameter of the query), and it releases q - shift + Z.

    Between neighbors q moves by at most m, so under either of them q <= (the smaller q) + m. A
    release above (the smaller q) - slack needs Z >= shift - slack - m + 1; one above
    (the larger q) - slack needs Z >= shift - slack + 1. Releases below are the mirror image,
    for Z is symmetric. Raises ValueError where the event is likelier than ``probability``.
    """
    require_made(released)
    if released.noise is None:
        raise ValueError(
            f"{released.conclusion} by {released.rule}: the tails of that noise are not known to "
            f"the rules; release what {fails} is about with discrete Laplace or rounded Gaussian "
            "noise."
        )
    (moved,), (noise, scale) = released.premises, released.noise
    premise, chance = moved.conclusion, checked_probability(probability, "probability")
    assert isinstance(premise, Sensitivity)
    _require_own(fails, premise, released)
    shift = dict(premise.query.parameters).get("shift", 0)
    off = whole(shift, "shift") - fails.slack
    at_most, far = fails.relation is Relation.AT_MOST, premise.value.__floor__()
    moves = far if fails.side is (Side.SMALLER if at_most else Side.LARGER) else 0
    distance = (off if at_most else -off) - moves + 1
    if not _is_as_rare(noise, distance, scale, chance):
        raise ValueError(
            f"{fails.negation} with probability P(noise >= {distance}), which is more than "
            f"{render(chance)} for {noise} noise of scale {render(scale)}; give a larger shift."
        )
    under = premise.hypotheses
    conclusion = EventBound(fails, chance, premise.adjacency, premise.domain, under, key=RULES_KEY)
    rule = f"{noise} noise of scale {render(scale)} is below {distance}"
    return derive(conclusion, rule, (released,), _MISSES)


def _require_own(fails: Compared, premise: Sensitivity, released: Derivation[PrivacyClaim]) -> None:
    """Refuse a hypothesis that is not about what is released. Raises ValueError."""
    if premise.norm not in (Norm.L1, Norm.L_INFINITY):
        raise ValueError(
            f"{released.rule} on numbers in {premise.norm} distance; give one number in L1."
        )
    if fails.is_instance:
        raise ValueError(f"{fails}: a hypothesis on one number is no event of what is released.")
    own, about = premise.query.without("shift"), fails.quantity
    if not own.kind or (own.kind, own.parameters) != (about.kind, about.parameters):
        raise ValueError(f"The hypothesis is about {about}, the stage releases {own}.")


@lru_cache(maxsize=1024)
def _is_as_rare(noise: Tail, distance: int, scale: Fraction, chance: Fraction) -> bool:
    """Return whether P(noise >= distance) is at most the chance; cached, for plans ask again
    and again.
    """
    return is_at_most(lambda: noise.at_least(distance, scale), chance)


@states(_GATE)
def passed_gate(
    claim: Derivation[PrivacyClaim], stage: str, at_least: int
) -> Derivation[PrivacyClaim]:
    """Claim for what runs only where ``stage`` released at least so much.

    The gate is a function of the transcript, so it costs nothing. It discharges the hypothesis
    that the released number is at least so much, or less.
    """
    given = {h for h in claim.conclusion.hypotheses if isinstance(h, Passed)}
    seen_to = frozenset(h for h in given if h.stage == stage and h.at_least <= at_least)
    if not seen_to:
        return claim
    conclusion = claim_of(claim.conclusion.guarantee, claim, without=frozenset(seen_to))
    return derive(conclusion, f"a gate: {stage!r} of {at_least} or more", (claim,), _GATE)


@states(_WEAKER)
def assume(claim: Derivation[PrivacyClaim], hypothesis: Hypothesis) -> Derivation[PrivacyClaim]:
    """Return the same claim under one more hypothesis."""
    conclusion = claim_of(claim.conclusion.guarantee, claim, more=checked({hypothesis}))
    return derive(conclusion, f"an assumption: {hypothesis}", (claim,), _WEAKER)


@states(_EACH)
def for_each_release(
    claim: Derivation[PrivacyClaim], under: Iterable[Compared]
) -> Derivation[PrivacyClaim]:
    """Declare the claim of a stage built from a released number, from the claim at one number.

    Every stage that is built has at least this guarantee, under the hypothesis at the number it
    was built from (execution checks both). So what was assumed of that number becomes what is
    assumed of the released one; and what is assumed of the released one is assumed of it
    whether or not the stage at this number needs that. Raises ValueError for a hypothesis about
    a number that none of ``under`` is about.
    """
    schemas = frozenset(under)
    instances = frozenset(
        h for h in claim.conclusion.hypotheses if isinstance(h, Compared) and h.is_instance
    )
    for one in instances:
        if not any(schema.covers(one) for schema in schemas):
            raise ValueError(
                f"The stage rests on this: {one}. It declares nothing of the kind: give `under` "
                "of the adaptive stage the hypothesis on what is released."
            )
    if not schemas:
        return claim
    made = claim_of(claim.conclusion.guarantee, claim, without=instances, more=schemas)
    return derive(made, "a stage for each released number", (claim,), _EACH)


def _with_delta(guarantee: Guarantee, delta: Fraction) -> Guarantee:
    if delta == 0:
        return guarantee
    if isinstance(guarantee, (PureDP, ApproxDP)):
        return approximate(guarantee.epsilon, guarantee.delta + delta)
    if isinstance(guarantee, (GaussianDP, ApproximateGaussianDP)):
        part = guarantee.gaussian
        assert part is not None
        require_promise(part.delta + delta)
        return ApproximateGaussianDP.of_square(part.mu_squared, part.delta + delta, part.tv)
    return Profile([guarantee], delta=delta)


def _with_tv(guarantee: Guarantee, tv: Fraction) -> Guarantee:
    if tv == 0:
        return guarantee
    if isinstance(guarantee, (GaussianDP, ApproximateGaussianDP)):
        part = guarantee.gaussian
        assert part is not None
        require_promise(part.tv + tv)
        return ApproximateGaussianDP.of_square(part.mu_squared, part.delta, part.tv + tv)
    return Profile([guarantee], tv=tv)
