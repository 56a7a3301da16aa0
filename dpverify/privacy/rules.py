"""The rules: the only makers of claims.

Each rule checks its side conditions, computes its numbers on the safe side, and returns a
``Derivation``. spec/theory/rules.py states each rule again as a plain function, and the tests hold
the two against each other and against brute force.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from dpverify.privacy.adjacency import Adjacency, Domain
from dpverify.privacy.derivation import (
    RULES_KEY,
    Derivation,
    Norm,
    PrivacyClaim,
    Sensitivity,
    Statement,
    Status,
    weakest,
)
from dpverify.privacy.guarantees import ApproxDP, Guarantee, PerfectPrivacy, PureDP
from dpverify.privacy.numbers import Exact, exact, render
from dpverify.privacy.sources import Source, states

_LAPLACE = Source("DMNS06", "Section 3, noise calibrated to L1 sensitivity", note="for integers")
_RESPONSE = Source("KBR16", "Section 3, k-ary randomized response")
_PERFECT = Source("OURS", "a query that no neighbor can change is public")
_COMPOSITION = Source("DR14", "Theorem B.1", note="Theorem 3.16 for adaptive stages, by induction")
_POST_PROCESSING = Source("DR14", "Proposition 2.1")
_CONVERSION = Source("KOV15", "Section 3, the dominating mechanism")


def sensitivity_lemma(
    query: str,
    *,
    norm: Norm,
    value: Exact,
    adjacency: Adjacency,
    domain: Domain,
    obligation: str,
    source: Source,
) -> Derivation[Sensitivity]:
    """A sensitivity that no generic rule proves; ``obligation`` names what in spec/ shows it.

    The suite refuses a derivation with a lemma whose obligation is missing or fails.
    """
    distance = exact(value, "sensitivity")
    if distance < 0:
        raise ValueError(f"sensitivity = {value} is negative; a distance is at least 0.")
    if ":obligation_" not in obligation:
        raise ValueError(
            f"obligation = {obligation!r}; name it as 'path/in/spec.py:obligation_name'."
        )
    conclusion = Sensitivity(query, norm, distance, adjacency, domain, key=RULES_KEY)
    return _derive(conclusion, "lemma", (), source, obligation=obligation)


@states(_PERFECT)
def public_value(sensitivity: Derivation[Sensitivity]) -> Derivation[PrivacyClaim]:
    """A query of sensitivity zero may be released as it is."""
    premise = sensitivity.conclusion
    if premise.value != 0:
        raise ValueError(
            f"{premise}; only a query that no neighbor can change is released without noise."
        )
    return _derive(_claim(PerfectPrivacy(), sensitivity), "public value", (sensitivity,), _PERFECT)


@states(_LAPLACE)
def discrete_laplace(
    sensitivity: Derivation[Sensitivity], scale: Exact
) -> Derivation[PrivacyClaim]:
    """Integer query + discrete Laplace noise of ``scale``: (sensitivity / scale)-DP.

    The noise has mass proportional to e^(-|z| / scale) on every integer z, independently in every
    coordinate; |y - q| - |y - q'| <= |q - q'| gives the ratio. Needs the L1 norm.
    """
    _require_norm(sensitivity, Norm.L1, "discrete Laplace")
    scale = _positive(scale)
    rule = f"discrete Laplace noise of scale {render(scale)}"
    return _exponential_weights(sensitivity, scale, rule, _LAPLACE)


@states(_RESPONSE, Source("W65", "randomized response"))
def randomized_response(
    sensitivity: Derivation[Sensitivity], scale: Exact
) -> Derivation[PrivacyClaim]:
    """Each answer kept with weight 1, every other category with weight e^(-1 / scale).

    (sensitivity / scale)-DP: one changed answer multiplies a transcript's probability by at most
    e^(1 / scale), for the normalizing constant does not depend on the answer. Needs Hamming.
    """
    _require_norm(sensitivity, Norm.HAMMING, "randomized response")
    scale = _positive(scale)
    rule = f"randomized response of scale {render(scale)}"
    return _exponential_weights(sensitivity, scale, rule, _RESPONSE)


@states(_COMPOSITION)
def adaptive_compose(parts: Iterable[Derivation[PrivacyClaim]]) -> Derivation[PrivacyClaim]:
    """All the outputs together: epsilons add, deltas add.

    Each part's guarantee must hold whatever the earlier outputs were, which is what a declared
    stage promises. Refused for different adjacencies or domains.
    """
    premises = tuple(parts)
    for part in premises:
        if not isinstance(getattr(part, "conclusion", None), PrivacyClaim):
            raise TypeError(
                f"{type(part).__name__} is not the derivation of a claim; write compose(a.derivation, "
                "b.derivation)."
            )
    if not premises:
        raise ValueError("There is nothing to compose; give at least one derivation.")
    first = premises[0].conclusion
    for part in premises[1:]:
        _require_same_world(first, part.conclusion)
    if len(premises) == 1:
        return premises[0]
    guarantee = _sum_of([part.conclusion.guarantee for part in premises])
    return _derive(_claim(guarantee, *premises), "adaptive composition", premises, _COMPOSITION)


def compose(*parts: Derivation[PrivacyClaim]) -> Derivation[PrivacyClaim]:
    """Several releases from one dataset, each chosen after seeing the earlier ones if you like."""
    return adaptive_compose(parts)


@states(_POST_PROCESSING)
def post_process(claim: Derivation[PrivacyClaim], by: str) -> Derivation[PrivacyClaim]:
    """A function of the output, and of public facts only, keeps the guarantee."""
    conclusion = _claim(claim.conclusion.guarantee, claim)
    return _derive(conclusion, f"post-processing: {by}", (claim,), _POST_PROCESSING)


@states(_CONVERSION)
def convert(claim: Derivation[PrivacyClaim], to: Guarantee) -> Derivation[PrivacyClaim]:
    """The same mechanism under a guarantee that follows from the one shown."""
    _require_guarantee(to)
    shown = claim.conclusion.guarantee
    if shown == to:
        return claim
    if not shown.implies(to):
        raise ValueError(f"{shown} does not imply {to}; more noise or a larger budget is needed.")
    return _derive(_claim(to, claim), f"conversion from {shown}", (claim,), _CONVERSION)


def conjecture(
    guarantee: Guarantee,
    *,
    adjacency: Adjacency,
    domain: Domain,
    source: Source | None = None,
) -> Derivation[PrivacyClaim]:
    """A claim that somebody makes and nothing here proves: something to audit."""
    _require_guarantee(guarantee)
    claim = PrivacyClaim(guarantee, adjacency, domain, Status.CONJECTURED, key=RULES_KEY)
    cited = source if source is not None else Source("OURS", "somebody's word")
    return _derive(claim, "conjecture", (), cited, status=Status.CONJECTURED)


def refuted(claim: Derivation[PrivacyClaim], evidence: str) -> Derivation[PrivacyClaim]:
    """The same claim, known to be false; everything that rests on it is refuted with it."""
    old = claim.conclusion
    conclusion = PrivacyClaim(
        old.guarantee, old.adjacency, old.domain, Status.REFUTED, key=RULES_KEY
    )
    rule = f"refuted: {evidence}"
    return _derive(conclusion, rule, (claim,), claim.source, status=Status.REFUTED)


def _exponential_weights(
    sensitivity: Derivation[Sensitivity], scale: Fraction, rule: str, source: Source
) -> Derivation[PrivacyClaim]:
    loss = sensitivity.conclusion.value / scale
    guarantee: Guarantee = PureDP(loss) if loss > 0 else PerfectPrivacy()
    return _derive(_claim(guarantee, sensitivity), rule, (sensitivity,), source)


def _positive(scale: Exact) -> Fraction:
    value = exact(scale, "scale")
    if value <= 0:
        raise ValueError(f"scale = {scale} is not positive; noise needs a scale above 0.")
    return value


def _sum_of(guarantees: list[Guarantee]) -> Guarantee:
    epsilon, delta = Fraction(0), Fraction(0)
    for guarantee in guarantees:
        if isinstance(guarantee, (PureDP, ApproxDP)):
            epsilon, delta = epsilon + guarantee.epsilon, delta + guarantee.delta
        elif not isinstance(guarantee, PerfectPrivacy):
            raise TypeError(f"{guarantee} has no composition rule.")
    if epsilon == 0:
        return PerfectPrivacy()
    if delta >= 1:
        raise ValueError(f"the deltas add up to {render(delta)}: together they promise nothing.")
    return ApproxDP(epsilon, delta) if delta else PureDP(epsilon)


def _require_guarantee(given: object) -> None:
    if not isinstance(given, Guarantee):
        raise TypeError(f"{given!r} is not a guarantee; write PureDP(1) or ApproxDP(1, '1e-6').")


def _require_norm(sensitivity: Derivation[Sensitivity], norm: Norm, rule: str) -> None:
    premise = sensitivity.conclusion
    if premise.norm is not norm:
        raise ValueError(f"{rule} needs a sensitivity in {norm} distance, but {premise}.")


def _require_same_world(a: PrivacyClaim, b: PrivacyClaim) -> None:
    if a.adjacency is not b.adjacency:
        raise ValueError(
            f"These claims do not compose: one is under {a.adjacency} ({a}), the other under "
            f"{b.adjacency} ({b}). Build both for the same adjacency."
        )
    if a.domain != b.domain:
        raise ValueError(
            f"These claims do not compose: one is for {a.domain}, the other for {b.domain}. "
            "Build both for the same domain."
        )


def _claim(
    guarantee: Guarantee, *premises: Derivation[Sensitivity] | Derivation[PrivacyClaim]
) -> PrivacyClaim:
    world = premises[0].conclusion
    status = weakest(*(premise.status for premise in premises))
    return PrivacyClaim(guarantee, world.adjacency, world.domain, status, key=RULES_KEY)


def _derive(
    conclusion: Statement,
    rule: str,
    premises: tuple[Derivation[Sensitivity] | Derivation[PrivacyClaim], ...],
    source: Source,
    *,
    obligation: str = "",
    status: Status = Status.PROVED,
) -> Derivation[Statement]:
    combined = weakest(status, *(premise.status for premise in premises))
    return Derivation(conclusion, rule, premises, source, combined, obligation, key=RULES_KEY)
