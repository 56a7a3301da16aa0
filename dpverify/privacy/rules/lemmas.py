"""Leaves: what no generic rule proves, with the obligation that shows it; and what nobody proves."""

from __future__ import annotations

from dpverify.privacy.adjacency import AnyAdjacency, Domain
from dpverify.privacy.derivation import (
    RULES_KEY,
    Derivation,
    EventBound,
    Norm,
    PrivacyClaim,
    Sensitivity,
    Status,
)
from dpverify.privacy.guarantees import Guarantee
from dpverify.privacy.guarantees.base import probability as checked_probability
from dpverify.privacy.numbers import Exact, exact
from dpverify.privacy.rules.making import derive, require_guarantee
from dpverify.privacy.sources import Source


def sensitivity_lemma(
    query: str,
    *,
    norm: Norm,
    value: Exact,
    adjacency: AnyAdjacency,
    domain: Domain,
    obligation: str,
    source: Source,
    predicate: str = "",
    premises: tuple[Derivation[Sensitivity], ...] = (),
) -> Derivation[Sensitivity]:
    """A sensitivity that no generic rule proves; ``obligation`` names what in spec/ shows it.

    premises: sensitivities of other queries that it is computed from, under the same adjacency and
    domain; their lemmas are the derivation's lemmas too. The suite refuses a derivation with a lemma whose obligation is missing or fails. With the KEEP
    norm, and only then, ``predicate`` says what makes records friends.
    """
    distance = exact(value, "sensitivity")
    if distance < 0:
        raise ValueError(f"sensitivity = {value} is negative; a distance is at least 0.")
    if (norm is Norm.KEEP) != bool(predicate):
        raise ValueError(
            f"norm = {norm} and predicate = {predicate!r}: a filter's keep-probabilities, and nothing "
            "else, come with the predicate that makes records friends."
        )
    _require_obligation(obligation)
    conclusion = Sensitivity(query, norm, distance, adjacency, domain, predicate, key=RULES_KEY)
    for premise in premises:
        if (premise.conclusion.adjacency, premise.conclusion.domain) != (adjacency, domain):
            raise ValueError(
                f"{premise.conclusion.query} moves under {premise.conclusion.adjacency}, for "
                f"{premise.conclusion.domain}; the lemma is under {adjacency}, for {domain}."
            )
    return derive(conclusion, "lemma", premises, source, obligation=obligation)


def event_lemma(
    event: str,
    *,
    probability: Exact,
    in_output: bool,
    adjacency: AnyAdjacency,
    domain: Domain,
    obligation: str,
    source: Source,
) -> Derivation[EventBound]:
    """A bound on the probability of an event under every dataset; see ``EventBound``."""
    value = checked_probability(probability, "probability")
    _require_obligation(obligation)
    conclusion = EventBound(event, value, in_output, adjacency, domain, key=RULES_KEY)
    return derive(conclusion, "lemma", (), source, obligation=obligation)


def conjecture(
    guarantee: Guarantee,
    *,
    adjacency: AnyAdjacency,
    domain: Domain,
    source: Source | None = None,
) -> Derivation[PrivacyClaim]:
    """A claim that somebody makes and nothing here proves: something to audit."""
    require_guarantee(guarantee)
    claim = PrivacyClaim(guarantee, adjacency, domain, Status.CONJECTURED, key=RULES_KEY)
    cited = source if source is not None else Source("OURS", "somebody's word")
    return derive(claim, "conjecture", (), cited, status=Status.CONJECTURED)


def refuted(claim: Derivation[PrivacyClaim], evidence: str) -> Derivation[PrivacyClaim]:
    """The same claim, known to be false; everything that rests on it is refuted with it."""
    old = claim.conclusion
    conclusion = PrivacyClaim(
        old.guarantee, old.adjacency, old.domain, Status.REFUTED, key=RULES_KEY
    )
    rule = f"refuted: {evidence}"
    return derive(conclusion, rule, (claim,), claim.source, status=Status.REFUTED)


def _require_obligation(obligation: str) -> None:
    if ":obligation_" not in obligation:
        raise ValueError(
            f"obligation = {obligation!r}; name it as 'path/in/spec.py:obligation_name'."
        )
