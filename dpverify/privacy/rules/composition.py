"""Rules for several releases from one dataset, in sequence or on separate parts of it."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Literal

from dpverify.privacy.adjacency import Adjacency
from dpverify.privacy.balls import ball, enclose, round_up
from dpverify.privacy.derivation import AnyDerivation, Derivation, PrivacyClaim
from dpverify.privacy.guarantees import (
    ApproxDP,
    ApproximateGaussianDP,
    BoundedRange,
    GaussianDP,
    Guarantee,
    PerfectPrivacy,
    Profile,
    PureDP,
    ZeroConcentratedDP,
)
from dpverify.privacy.guarantees.arithmetic import added
from dpverify.privacy.guarantees.base import probability
from dpverify.privacy.hypotheses import NONE, Hypothesis, listed, of_block
from dpverify.privacy.numbers import Exact, render
from dpverify.privacy.rules.making import claim_of, claims_among, derive, require_closed
from dpverify.privacy.rules.noise import PUBLIC
from dpverify.privacy.rules.transfer import change_adjacency
from dpverify.privacy.sources import Source, states

_BASIC = Source("DR14", "Theorem B.1", note="Theorem 3.16 for adaptive stages, by induction")
_CONCENTRATED = Source("BS16", "composition of zCDP", note="adaptive")
_GAUSSIAN = Source("DRS22", "composition of GDP", note="adaptive")
_EVENTS = Source("OURS", "approximate GDP: composition and profile")
_PROFILES = Source("ZDW22", "dominating pairs compose adaptively")
_ADVANCED = Source("DRV10", "advanced composition", note="as Theorem 3.20 of DR14")
_MOST_ADVANCED = 64
_IN_SEQUENCE = "adaptive composition"
_PARALLEL = Source("M09", "parallel composition", note="with the side conditions made explicit")


@states(_BASIC, _CONCENTRATED, _GAUSSIAN, _EVENTS, _PROFILES)
def adaptive_compose(
    parts: Iterable[Derivation[PrivacyClaim]],
    *,
    by_profiles: bool = False,
    named_once: bool = False,
) -> Derivation[PrivacyClaim]:
    """Compose the releases of all parts, each stage chosen after seeing the earlier ones.

    Each part's guarantee must hold whatever the earlier outputs were, which is what a declared
    stage promises. Pure and approximate DP: epsilons and deltas add up. zCDP: rho adds up. GDP
    and approximate GDP: mu^2, delta and tv add up. Different kinds, or ``by_profiles``: a
    ``Profile``. A bounded range after a random stage is a ``Profile`` too, for what is chosen
    by coins has no one range. The conclusion rests on the hypotheses of all parts.

    named_once: a stage's name means one release, in all parts; else two parts that rest on the
    same hypothesis are refused, for they could be two runs, and each may fail.

    Refused for different adjacencies or domains.
    """
    premises = claims_among(parts)
    if not named_once:
        _require_apart(premises)
    if len(premises) == 1 and not by_profiles:
        return premises[0]
    guarantees = [part.conclusion.guarantee for part in premises]
    guarantee, how, source = _profiles(guarantees) if by_profiles else _composed(premises)
    return derive(claim_of(guarantee, *premises), f"{_IN_SEQUENCE}{how}", premises, source)


def compose(
    *parts: Derivation[PrivacyClaim], by_profiles: bool = False
) -> Derivation[PrivacyClaim]:
    """Compose several releases from one dataset, each of which may be chosen after the earlier
    ones.
    """
    return adaptive_compose(parts, by_profiles=by_profiles)


def _require_apart(premises: tuple[Derivation[PrivacyClaim], ...]) -> None:
    seen: set[Hypothesis] = set()
    for part in premises:
        both = seen & part.conclusion.hypotheses
        if both:
            raise ValueError(
                f"two of the parts hold only if {listed(frozenset(both))}: if they are two runs, "
                "each may fail. Pay for the failure in each part before, or give another name to "
                "each run's stages."
            )
        seen |= part.conclusion.hypotheses


@states(_ADVANCED)
def advanced_compose(
    parts: Iterable[Derivation[PrivacyClaim]], *, slack: Exact
) -> Derivation[PrivacyClaim]:
    """Compose k stages of (epsilon, delta)-DP by advanced composition, as the literature states it.

    The conclusion is (sqrt(2 k ln(1 / slack)) epsilon + k epsilon (e^epsilon - 1), k delta +
    slack)-DP, with epsilon and delta the largest of the parts'. ``by_profiles`` of ``compose``
    is never worse; this rule is here to compare with.
    """
    premises = claims_among(parts)
    _require_apart(premises)
    extra = probability(slack, "slack")
    if extra == 0:
        raise ValueError("slack = 0: advanced composition needs a positive slack, say '1e-6'.")
    epsilon = delta = Fraction(0)
    for part in premises:
        guarantee = part.conclusion.guarantee
        if isinstance(guarantee, (PureDP, ApproxDP)):
            epsilon, delta = max(epsilon, guarantee.epsilon), max(delta, guarantee.delta)
        elif not isinstance(guarantee, PerfectPrivacy):
            raise TypeError(
                f"advanced composition is about (epsilon, delta)-DP, and {guarantee} is not; use "
                "compose(...)."
            )
    k = len(premises)
    total = k * delta + extra
    if epsilon > _MOST_ADVANCED:
        raise ValueError(
            f"epsilon = {render(epsilon)} is far beyond where advanced composition helps (below "
            "1); use compose(...)."
        )
    if epsilon == 0 or total >= 1:
        raise ValueError(
            f"k delta + slack = {render(total)} and epsilon = {render(epsilon)}: there is "
            "nothing to promise. Use compose(...)."
        )

    loss = enclose(
        lambda: (
            (2 * k * -ball(extra).log()).sqrt() * ball(epsilon)
            + k * ball(epsilon) * ball(epsilon).expm1()
        )
    )
    claim = claim_of(ApproxDP(round_up(loss.upper), total), *premises)
    return derive(claim, f"advanced composition, slack {render(extra)}", premises, _ADVANCED)


@states(_PARALLEL)
def parallel(
    parts: Iterable[Derivation[PrivacyClaim]],
    *,
    by: Literal["index", "independent_label", "value"],
    adjacency: Adjacency | None = None,
    chained: bool = False,
) -> Derivation[PrivacyClaim]:
    """Compose stages that each see only their own block of the records.

    The guarantee of the whole is the largest of the stages', not the sum.

    by="index": blocks of positions. REPLACE only: a removal moves every later record.
    by="independent_label": every record carries a label of its own, drawn independently of all
    records and of all other labels (labels for blocks of equal size are not: there a removal
    changes the others' labels); either adjacency, by convexity over the labels.
    by="value": a public function of the record says its block. Under ADD_REMOVE one block
    changes; a replaced record changes two blocks, or one block twice, so
    ``adjacency=Adjacency.REPLACE`` pays for two steps of add-remove, and the parts must be
    claims under ADD_REMOVE, for blocks change their size.

    Hypotheses are refused but for by="index", where the neighbors' blocks are neighbors at the
    same place; there each becomes one about its block, which nothing that is known of all
    records discharges.

    chained: a stage may also depend on what earlier blocks released, and has its claim whatever
    that was. Say block k changes. What the blocks before it release has one law on both sides;
    for each value of it block k has its claim, and what comes later is post-processing of both.
    So the two laws are mixtures, with the same weights and the value shown, of pairs that have
    the claim. Profiles, trade-off curves and Renyi divergences of all orders survive that; a
    range of losses does not, for it may lie elsewhere for each value, and no hypothesis is
    handed on.
    """
    premises = claims_among(parts)
    for part in premises if by != "index" or chained else ():
        require_closed(part, f"parallel composition by {by}{', chained' * chained}")
    about = premises[0].conclusion.adjacency
    if by not in ("index", "independent_label", "value"):
        raise ValueError(f"by = {by!r}; write 'index', 'independent_label' or 'value'.")
    if not isinstance(about, Adjacency):
        raise ValueError(
            f"these claims are under {about}, whose neighbors can differ in several blocks; "
            "compose in parallel under an Adjacency, then take groups."
        )
    if by == "index" and about is not Adjacency.REPLACE:
        raise ValueError(
            f"by='index' needs claims under {Adjacency.REPLACE}, and these are under {about}: "
            "when a record is removed all later ones change their block. Use "
            "by='independent_label'."
        )
    if by == "value" and about is not Adjacency.ADD_REMOVE:
        raise ValueError(
            f"by='value' needs claims under {Adjacency.ADD_REMOVE}, and these are under {about}: a "
            "record that changes its value changes the sizes of two blocks. Give claims under "
            "add-remove, and adjacency=Adjacency.REPLACE for the conclusion."
        )
    if adjacency not in (None, about) and by != "value":
        raise ValueError(f"the parts are under {about}, the conclusion is asked under {adjacency}.")
    guarantee = _weakest_of([part.conclusion.guarantee for part in premises])
    if (chained or by == "independent_label") and isinstance(guarantee, BoundedRange):
        guarantee = Profile([guarantee])  # an average keeps the profile, not the range
    open_ = [part.conclusion.hypotheses for part in premises]
    under = (of_block(one, block) for block, few in enumerate(open_) for one in few)
    conclusion = claim_of(guarantee, *premises, without=NONE.union(*open_), more=under)
    words = f"parallel composition by {by}{', each after the earlier ones' * chained}"
    made = derive(conclusion, words, premises, _PARALLEL)
    return made if adjacency in (None, about) else change_adjacency(made, to=adjacency)


def _composed(premises: tuple[Derivation[PrivacyClaim], ...]) -> tuple[Guarantee, str, Source]:
    guarantees = [part.conclusion.guarantee for part in premises]
    kinds = [g for g in guarantees if not isinstance(g, PerfectPrivacy)]
    if len(kinds) == 1:
        before = premises[: guarantees.index(kinds[0])]
        if isinstance(kinds[0], BoundedRange) and not all(map(_is_constant, before)):
            return _profiles(kinds)
        return kinds[0], " with what is public", _BASIC
    made = added(kinds)
    if made is None:
        return _profiles(kinds)
    how, source = next(ways for kind, ways in _HOW if isinstance(made, kind))
    return made, how, source


_HOW: tuple[tuple[type[Guarantee], tuple[str, Source]], ...] = (
    (ZeroConcentratedDP, (", rho adds up", _CONCENTRATED)),
    (GaussianDP, (", mu^2 adds up", _GAUSSIAN)),
    (ApproximateGaussianDP, (", mu^2, delta and tv add up", _EVENTS)),
    (Guarantee, ("", _BASIC)),
)


def _is_constant(part: AnyDerivation) -> bool:
    """Return whether what is released has no randomness at all: a public value, or several."""
    several = part.rule.startswith(_IN_SEQUENCE) and all(map(_is_constant, part.premises))
    return part.rule == PUBLIC or several


def _profiles(guarantees: list[Guarantee]) -> tuple[Guarantee, str, Source]:
    made = Profile(guarantees)
    if not made.parts and not made.delta and not made.tv:
        return PerfectPrivacy(), "", _BASIC
    return made, " through privacy loss distributions", _PROFILES


def _weakest_of(guarantees: list[Guarantee]) -> Guarantee:
    """Return a guarantee that all the others imply; of (epsilon, delta) or Gaussian ones, the
    largest parameters.
    """
    for candidate in guarantees:
        if all(other.implies(candidate) for other in guarantees):
            return candidate
    real = [g for g in guarantees if not isinstance(g, PerfectPrivacy)]
    approximate = [g for g in real if isinstance(g, (PureDP, ApproxDP))]
    if len(approximate) == len(real):
        return ApproxDP(max(g.epsilon for g in approximate), max(g.delta for g in approximate))
    parts = [g.gaussian for g in real if isinstance(g, (GaussianDP, ApproximateGaussianDP))]
    if len(parts) == len(real):
        return ApproximateGaussianDP.of_square(
            max(p.mu_squared for p in parts), max(p.delta for p in parts), max(p.tv for p in parts)
        )
    raise TypeError(
        f"none of {', '.join(map(str, guarantees))} is implied by all the others; convert(...) "
        "them to one kind first."
    )
