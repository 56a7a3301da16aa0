"""Rules for a mechanism under another guarantee or adjacency, or behind a map of its records."""

from __future__ import annotations

from dpverify.privacy.adjacency import Adjacency, Groups
from dpverify.privacy.derivation import Derivation, Norm, PrivacyClaim, Sensitivity
from dpverify.privacy.guarantees import BoundedRange, Guarantee, PerfectPrivacy, Profile
from dpverify.privacy.numbers import whole
from dpverify.privacy.rules.making import (
    claim_of,
    claims_among,
    derive,
    require_closed,
    require_guarantee,
    require_norm,
)
from dpverify.privacy.sources import Source, states

_POST_PROCESSING = Source("DR14", "Proposition 2.1")
_CONVERSION = Source("KOV15", "Section 3, the dominating mechanism")
_GROUP = Source("V17", "Lemma 2.2, group privacy", note="zCDP: BS16; GDP: DRS22")
_TWO_STEPS = Source("OURS", "a replacement is a removal and an addition")
_COUPLED = Source("OURS", "maps of the records whose results can be coupled carry a claim back")


@states(_POST_PROCESSING)
def post_process(claim: Derivation[PrivacyClaim], by: str) -> Derivation[PrivacyClaim]:
    """Apply a function of the output, and of public facts only, which keeps the guarantee."""
    conclusion = claim_of(claim.conclusion.guarantee, claim)
    return derive(conclusion, f"post-processing: {by}", (claim,), _POST_PROCESSING)


@states(_CONVERSION)
def convert(claim: Derivation[PrivacyClaim], to: Guarantee) -> Derivation[PrivacyClaim]:
    """State the same mechanism under a guarantee that follows from the one shown.

    Refused while the claim is open.
    """
    require_guarantee(to)
    require_closed(claim, "a conversion")
    shown = claim.conclusion.guarantee
    if shown == to:
        return claim
    if not shown.implies(to):
        raise ValueError(f"{shown} does not imply {to}; more noise or a larger budget is needed.")
    return derive(claim_of(to, claim), f"conversion from {shown}", (claim,), _CONVERSION)


@states(_GROUP)
def group_privacy(claim: Derivation[PrivacyClaim], size: int) -> Derivation[PrivacyClaim]:
    """Claim for datasets that ``size`` steps of the claim's adjacency lead between.

    Every dataset on the way must be in the domain: records that go, go first, so there are
    never more rows than at one of the ends. Refused under hypotheses, which are about single
    steps.
    """
    require_closed(claim, "group privacy")
    steps, about = whole(size, "size"), claim.conclusion.adjacency
    if not isinstance(about, Adjacency):
        raise ValueError(f"{about} has no groups; take them of a claim under an Adjacency.")
    guarantee = claim.conclusion.guarantee.for_group(steps)
    if steps == 1:
        return claim
    conclusion = claim_of(guarantee, claim, adjacency=Groups(about, steps))
    return derive(conclusion, f"group privacy for {steps} records", (claim,), _GROUP)


@states(_TWO_STEPS)
def change_adjacency(claim: Derivation[PrivacyClaim], to: Adjacency) -> Derivation[PrivacyClaim]:
    """Go from add-remove to replace: two steps, by group privacy.

    The other way there is no rule.
    """
    about = claim.conclusion.adjacency
    if not isinstance(to, Adjacency):
        raise TypeError(f"to = {to!r}; write Adjacency.REPLACE.")
    if about is to:
        return claim
    require_closed(claim, "a change of adjacency")
    if about is not Adjacency.ADD_REMOVE:
        raise ValueError(
            f"A claim under {about} ({claim.conclusion}) says nothing under {to}: replacing "
            "keeps the number of records, which add-remove protects. Build the mechanism for "
            "add-remove."
        )
    guarantee = claim.conclusion.guarantee.for_group(2)
    conclusion = claim_of(guarantee, claim, adjacency=to)
    return derive(conclusion, "a replacement is two steps of add-remove", (claim,), _TWO_STEPS)


@states(_COUPLED)
def coupled_map(
    inner: Derivation[PrivacyClaim], coupling: Derivation[Sensitivity]
) -> Derivation[PrivacyClaim]:
    """Put a randomized map of the records before a mechanism; the whole has the mechanism's claim.

    The map's coins stay hidden.

    coupling: what the map gives on neighbors can be drawn together so that at most so many
    steps of the inner claim's adjacency lead from one to the other, for certain.

    Given both datasets, the inner mechanism's laws have its claim (for that many steps). The
    laws of the whole are their mixtures with the same weights; they are post-processing of the
    same with the datasets shown. Profiles, trade-off curves and Renyi divergences of all orders
    survive that; a range of losses becomes its profile. A coupling that may fail, however
    rarely, is none. Both statements are for one domain, to which what the map gives belongs.
    """
    claims_among([inner])
    require_norm(coupling, (Norm.COUPLED,), "coupled_map")
    require_closed(inner, "coupled_map")
    require_closed(coupling, "coupled_map")
    claim, moved = inner.conclusion, coupling.conclusion
    if claim.adjacency is not moved.keeps or not isinstance(moved.adjacency, Adjacency):
        raise ValueError(
            f"The coupling is of datasets of neighbors under {moved.adjacency}, in steps of "
            f"{moved.keeps}; the claim is under {claim.adjacency}. Prove it for those steps, and "
            "the coupling for inputs."
        )
    if claim.domain != moved.domain:
        raise ValueError(f"The claim is for {claim.domain}, the coupling for {moved.domain}.")
    steps = moved.value.numerator
    guarantee = claim.guarantee.for_group(steps) if steps else PerfectPrivacy()
    if isinstance(guarantee, BoundedRange):
        guarantee = Profile([guarantee])  # a mixture keeps the profile, not the range
    conclusion = claim_of(guarantee, inner, coupling, adjacency=moved.adjacency)
    return derive(conclusion, "coupled map of the records", (inner, coupling), _COUPLED)
