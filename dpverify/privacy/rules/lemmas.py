"""Leaves of derivations: lemmas, each with its obligation, and conjectures, which nobody proves."""

from __future__ import annotations

from collections.abc import Iterable

from dpverify.privacy.adjacency import Adjacency, AnyAdjacency, Domain, Friendly
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
from dpverify.privacy.hypotheses import Absent, Compared, Hypothesis, Quantity, checked
from dpverify.privacy.numbers import Exact, exact
from dpverify.privacy.rules.making import (
    derive,
    hypotheses_of,
    require_guarantee,
    require_made,
)
from dpverify.privacy.sources import Source


def sensitivity_lemma(
    query: Quantity,
    *,
    norm: Norm,
    value: Exact,
    adjacency: AnyAdjacency,
    domain: Domain,
    obligation: str,
    source: Source,
    keeps: Friendly | Adjacency | None = None,
    hypotheses: Iterable[Hypothesis] = (),
    premises: tuple[Derivation[Sensitivity], ...] = (),
) -> Derivation[Sensitivity]:
    """State a sensitivity that no generic rule proves; ``obligation`` names what in spec/ shows it.

    query: as data, so that the suite can compare it with the statement that the obligation
    declares.
    keeps: with the KEEP norm, and for scores that decide what a filter keeps, the kind of
    friends; with the COUPLED norm the adjacency of the datasets that a map gives.
    hypotheses: the conditions that the lemma rests on; the premises' come in addition.
    premises: sensitivities of other queries that it is computed from, under the same adjacency
    and domain; their lemmas are the derivation's lemmas too.

    The suite refuses a derivation with a lemma whose obligation is missing, fails, or shows
    another statement.
    """
    if type(query) is not Quantity:
        raise TypeError(f"query = {query!r}; write Quantity.of('the count', 'Count').")
    distance = exact(value, "sensitivity")
    if distance < 0:
        raise ValueError(f"sensitivity = {value} is negative; a distance is at least 0.")
    if norm is Norm.COUPLED and not (isinstance(keeps, Adjacency) and distance.denominator == 1):
        raise ValueError(
            f"norm = {norm}, value = {value} and keeps = {keeps}: say how many steps of which "
            "Adjacency lead between the datasets, for example value=1, keeps=Adjacency.REPLACE."
        )
    if norm is Norm.KEEP and not isinstance(keeps, Friendly):
        raise ValueError(
            f"norm = {norm} and keeps = {keeps}: a filter's keep-probabilities come with the "
            "friends that what is kept are; write keeps=Friendly(predicate)."
        )
    _require_obligation(obligation)
    for premise in premises:
        require_made(premise)
        if (premise.conclusion.adjacency, premise.conclusion.domain) != (adjacency, domain):
            raise ValueError(
                f"{premise.conclusion.query} moves under {premise.conclusion.adjacency}, for "
                f"{premise.conclusion.domain}; the lemma is under {adjacency}, for {domain}."
            )
    under = checked(hypotheses) | hypotheses_of(*premises)
    conclusion = Sensitivity(query, norm, distance, adjacency, domain, keeps, under, key=RULES_KEY)
    return derive(conclusion, "lemma", premises, source, obligation=obligation)


def event_lemma(
    fails: Compared | Absent,
    *,
    probability: Exact,
    adjacency: AnyAdjacency,
    domain: Domain,
    obligation: str,
    source: Source,
) -> Derivation[EventBound]:
    """State a bound on the probability that a hypothesis fails, under both datasets of any pair.

    For a stage's own noise such a bound is derived, by ``released_event``.
    """
    if type(fails) not in (Compared, Absent) or (isinstance(fails, Compared) and fails.is_instance):
        raise TypeError(
            f"fails = {fails!r}; an event is that a hypothesis fails: write Absent('an "
            "overflow', Seen.OUTPUT)."
        )
    value = checked_probability(probability, "probability")
    _require_obligation(obligation)
    conclusion = EventBound(fails, value, adjacency, domain, key=RULES_KEY)
    return derive(conclusion, "lemma", (), source, obligation=obligation)


def conjecture(
    guarantee: Guarantee,
    *,
    adjacency: AnyAdjacency,
    domain: Domain,
    source: Source | None = None,
    hypotheses: Iterable[Hypothesis] = (),
) -> Derivation[PrivacyClaim]:
    """State a claim that somebody makes and nothing here proves: something to audit."""
    require_guarantee(guarantee)
    under = checked(hypotheses)
    claim = PrivacyClaim(guarantee, adjacency, domain, Status.CONJECTURED, under, key=RULES_KEY)
    cited = source if source is not None else Source("OURS", "somebody's word")
    return derive(claim, "conjecture", (), cited, status=Status.CONJECTURED)


def refuted(claim: Derivation[PrivacyClaim], evidence: str) -> Derivation[PrivacyClaim]:
    """Return the same claim, known to be false; everything that rests on it is refuted with it."""
    old = claim.conclusion
    conclusion = PrivacyClaim(
        old.guarantee, old.adjacency, old.domain, Status.REFUTED, old.hypotheses, key=RULES_KEY
    )
    rule = f"refuted: {evidence}"
    return derive(conclusion, rule, (claim,), claim.source, status=Status.REFUTED)


def _require_obligation(obligation: str) -> None:
    if ":obligation_" not in obligation:
        raise ValueError(
            f"obligation = {obligation!r}; name it as 'path/in/spec.py:obligation_name'."
        )
