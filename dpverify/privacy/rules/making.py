"""What all rules share: how a statement is made, and the side conditions that recur."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from dpverify.privacy.adjacency import AnyAdjacency
from dpverify.privacy.derivation import (
    RULES_KEY,
    AnyDerivation,
    Derivation,
    Norm,
    PrivacyClaim,
    Sensitivity,
    Statement,
    Status,
    weakest,
)
from dpverify.privacy.guarantees import Guarantee
from dpverify.privacy.numbers import Exact, exact
from dpverify.privacy.sources import Source


def derive(
    conclusion: Statement,
    rule: str,
    premises: tuple[AnyDerivation, ...],
    source: Source,
    *,
    obligation: str = "",
    status: Status = Status.PROVED,
) -> Derivation[Statement]:
    """A derivation whose status is the weakest of all that it rests on."""
    combined = weakest(status, *(premise.status for premise in premises))
    return Derivation(conclusion, rule, premises, source, combined, obligation, key=RULES_KEY)


def claim_of(
    guarantee: Guarantee, *premises: AnyDerivation, adjacency: AnyAdjacency | None = None
) -> PrivacyClaim:
    """A claim about the premises' domain and (unless another is given) adjacency."""
    world = premises[0].conclusion
    about = world.adjacency if adjacency is None else adjacency
    status = weakest(*(premise.status for premise in premises))
    return PrivacyClaim(guarantee, about, world.domain, status, key=RULES_KEY)


def require_norm(sensitivity: Derivation[Sensitivity], norms: Iterable[Norm], rule: str) -> None:
    """Refuse a sensitivity measured otherwise."""
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
    """The parts, checked: at least one, all of them derivations of claims about one world."""
    found = tuple(parts)
    for part in found:
        if not isinstance(getattr(part, "conclusion", None), PrivacyClaim):
            raise TypeError(
                f"{type(part).__name__} is not the derivation of a claim; write compose(a.derivation, "
                "b.derivation)."
            )
    if not found:
        raise ValueError("There is nothing to compose; give at least one derivation.")
    require_same_world(found)
    return found


def require_guarantee(given: object) -> None:
    """Refuse what is not a guarantee."""
    if not isinstance(given, Guarantee):
        raise TypeError(f"{given!r} is not a guarantee; write PureDP(1) or ApproxDP(1, '1e-6').")


def positive_scale(scale: Exact, name: str = "scale") -> Fraction:
    """An exact noise scale above 0."""
    value = exact(scale, name)
    if value <= 0:
        raise ValueError(f"{name} = {scale} is not positive; noise needs a {name} above 0.")
    return value
