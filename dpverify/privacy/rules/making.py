"""Parts that all rules share: the making of a statement, and the side conditions that recur."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from dpverify.privacy.adjacency import AnyAdjacency, AnyDomain
from dpverify.privacy.derivation import (
    RULES_KEY,
    AnyDerivation,
    Derivation,
    EventBound,
    Norm,
    PrivacyClaim,
    Sensitivity,
    Statement,
    Status,
    weakest,
)
from dpverify.privacy.guarantees import ApproxDP, Guarantee, PureDP
from dpverify.privacy.hypotheses import NONE, Hypotheses, Hypothesis, listed
from dpverify.privacy.numbers import Exact, exact, render
from dpverify.privacy.sources import Source
from dpverify.privacy.tails import Tail

_GUARANTEES = "dpverify.privacy.guarantees."


def derive(
    conclusion: Statement,
    rule: str,
    premises: tuple[AnyDerivation, ...],
    source: Source,
    *,
    obligation: str = "",
    status: Status = Status.PROVED,
    noise: tuple[Tail, Fraction] | None = None,
) -> Derivation[Statement]:
    """Make a derivation whose status is the weakest of all that it rests on."""
    for premise in premises:
        require_made(premise)
    combined = weakest(status, *(premise.status for premise in premises))
    return Derivation(
        conclusion, rule, premises, source, combined, obligation, noise, key=RULES_KEY
    )


def require_made(premise: object) -> None:
    """Refuse an object that looks like a derivation and is none. Raises TypeError."""
    conclusion = getattr(premise, "conclusion", None)
    known = type(conclusion) in (Sensitivity, EventBound, PrivacyClaim)
    if type(premise) is not Derivation or not known:
        raise TypeError(
            f"{type(premise).__name__} is not a derivation made by the rules; write "
            "mechanism.derivation, or rules.conjecture(...) for a claim that nothing here proves."
        )


def claim_of(
    guarantee: Guarantee,
    *premises: AnyDerivation,
    adjacency: AnyAdjacency | None = None,
    domain: AnyDomain | None = None,
    without: Hypotheses = NONE,
    more: Iterable[Hypothesis] = (),
) -> PrivacyClaim:
    """Make a claim about the premises' domain and adjacency, unless others are given.

    It is under all of the premises' hypotheses but those that the rule discharges
    (``without``), and under ``more``.
    """
    for premise in premises:
        require_made(premise)
    world = premises[0].conclusion
    about = world.adjacency if adjacency is None else adjacency
    covered = world.domain if domain is None else domain
    status = weakest(*(premise.status for premise in premises))
    under = (hypotheses_of(*premises) - without).union(more)
    return PrivacyClaim(guarantee, about, covered, status, under, key=RULES_KEY)


def hypotheses_of(*premises: AnyDerivation) -> Hypotheses:
    """Return all hypotheses of the premises: rules about one pair of neighbors hand them on."""
    return NONE.union(*(premise.conclusion.hypotheses for premise in premises))


def require_closed(premise: AnyDerivation, rule: str) -> None:
    """Refuse a premise under hypotheses, for a rule that concludes about another pair of neighbors.

    A hypothesis is about the premise's pair, and its failure is paid for once for each such
    pair: perfect privacy off an event of probability delta says (0, 2 delta) of two steps, not
    (0, delta).
    """
    if premise.conclusion.hypotheses:
        raise ValueError(
            f"{rule} needs a statement without hypotheses, but this one holds only if "
            f"{listed(premise.conclusion.hypotheses)}. Pay for the failure of these first: an "
            "Unless in the plan, or rules.add_delta_event(...)."
        )


def require_norm(sensitivity: Derivation[Sensitivity], norms: Iterable[Norm], rule: str) -> None:
    """Refuse a sensitivity in another norm than these."""
    premise, allowed = sensitivity.conclusion, tuple(norms)
    if not isinstance(premise, Sensitivity) or premise.norm not in allowed:
        wanted = " or ".join(str(norm) for norm in allowed)
        raise ValueError(f"{rule} needs a sensitivity in {wanted} distance, but {premise}.")


def require_same_world(parts: Iterable[AnyDerivation]) -> None:
    """Refuse statements about different adjacencies or domains."""
    first, *rest = (part.conclusion for part in parts)
    for other in rest:
        if first.adjacency != other.adjacency:
            raise ValueError(
                f"These claims do not compose: one is under {first.adjacency} ({first}), the other "
                f"under {other.adjacency} ({other}). Build both for the same adjacency."
            )
        if first.domain != other.domain:
            raise ValueError(
                f"These claims do not compose: one is for {first.domain}, the other for "
                f"{other.domain}. Build both for the same domain."
            )


def claims_among(parts: Iterable[Derivation[PrivacyClaim]]) -> tuple[Derivation[PrivacyClaim], ...]:
    """Return the parts, checked.

    There is at least one, and all are derivations of claims about one world.
    """
    claims = tuple(parts)
    for part in claims:
        if type(part) is not Derivation or type(part.conclusion) is not PrivacyClaim:
            raise TypeError(
                f"{type(part).__name__} is not the derivation of a claim; write "
                "compose(a.derivation, b.derivation)."
            )
    if not claims:
        raise ValueError("There is nothing to compose; give at least one derivation.")
    require_same_world(claims)
    return claims


def require_guarantee(given: object) -> None:
    """Refuse what is not one of the kernel's guarantees.

    What follows from another one is no proof.
    """
    if not isinstance(given, Guarantee) or not type(given).__module__.startswith(_GUARANTEES):
        raise TypeError(f"{given!r} is not a guarantee; write PureDP(1) or ApproxDP(1, '1e-6').")


def positive_scale(scale: Exact, name: str = "scale") -> Fraction:
    """Return an exact noise scale above 0."""
    value = exact(scale, name)
    if value <= 0:
        raise ValueError(f"{name} = {scale} is not positive; noise needs a {name} above 0.")
    return value


def approximate(epsilon: Fraction, delta: Fraction) -> Guarantee:
    """Return (epsilon, delta)-DP, pure where delta is 0.

    Raises ValueError where nothing is promised.
    """
    require_promise(delta)
    return ApproxDP(epsilon, delta) if delta else PureDP(epsilon)


def require_promise(delta: Fraction) -> None:
    """Refuse a delta of 1 or more."""
    if delta >= 1:
        raise ValueError(_NOTHING.format(render(delta)))


_NOTHING = "the deltas add up to {}: together they promise nothing."
