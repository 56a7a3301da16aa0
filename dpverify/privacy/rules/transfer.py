"""The same mechanism under another guarantee or another adjacency."""

from __future__ import annotations

from dpverify.privacy.adjacency import Adjacency, Groups
from dpverify.privacy.derivation import Derivation, PrivacyClaim
from dpverify.privacy.guarantees import Guarantee
from dpverify.privacy.numbers import whole
from dpverify.privacy.rules.making import claim_of, derive, require_closed, require_guarantee
from dpverify.privacy.sources import Source, states

_POST_PROCESSING = Source("DR14", "Proposition 2.1")
_CONVERSION = Source("KOV15", "Section 3, the dominating mechanism")
_GROUP = Source("V17", "Lemma 2.2, group privacy", note="zCDP: BS16; GDP: DRS22")
_TWO_STEPS = Source("OURS", "a replacement is a removal and an addition")


@states(_POST_PROCESSING)
def post_process(claim: Derivation[PrivacyClaim], by: str) -> Derivation[PrivacyClaim]:
    """A function of the output, and of public facts only, keeps the guarantee."""
    conclusion = claim_of(claim.conclusion.guarantee, claim)
    return derive(conclusion, f"post-processing: {by}", (claim,), _POST_PROCESSING)


@states(_CONVERSION)
def convert(claim: Derivation[PrivacyClaim], to: Guarantee) -> Derivation[PrivacyClaim]:
    """The same mechanism under a guarantee that follows from the one shown; refused while the claim is open."""
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
    """What holds for datasets that ``size`` steps of the claim's adjacency lead between.

    Every dataset on the way must be in the domain: records that go, go first, so there are never more rows
    than at one of the ends. Refused under hypotheses, which are about single steps.
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
    """From add-remove to replace: two steps, by group privacy. The other way there is no rule."""
    about = claim.conclusion.adjacency
    if not isinstance(to, Adjacency):
        raise TypeError(f"to = {to!r}; write Adjacency.REPLACE.")
    if about is to:
        return claim
    require_closed(claim, "a change of adjacency")
    if about is not Adjacency.ADD_REMOVE:
        raise ValueError(
            f"A claim under {about} ({claim.conclusion}) says nothing under {to}: replacing keeps the "
            "number of records, which add-remove protects. Build the mechanism for add-remove."
        )
    guarantee = claim.conclusion.guarantee.for_group(2)
    conclusion = claim_of(guarantee, claim, adjacency=to)
    return derive(conclusion, "a replacement is two steps of add-remove", (claim,), _TWO_STEPS)
