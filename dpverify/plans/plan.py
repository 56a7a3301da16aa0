"""Plans: what a mechanism does, as data. A plan is a tuple of stages, gates and adaptive stages.

One reading of a plan is its law on a dataset (dpverify/plans/law.py); the other, here, is the
derivation of its claim. Both walk the same tuple.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import cast

from dpverify.grid import Query
from dpverify.plans.filtering import CoreQuery, Filter
from dpverify.plans.noise import Noise
from dpverify.plans.transcripts import Transcripts
from dpverify.privacy import Adjacency, Derivation, Domain, PrivacyClaim, Source, rules
from dpverify.privacy.adjacency import AnyAdjacency
from dpverify.privacy.derivation import EventBound, weakest
from dpverify.randomness.bits import IntArray


@dataclass(frozen=True, slots=True)
class Stage:
    """One release: an integer query plus noise, under a name that is unique in its plan."""

    name: str
    query: Query
    noise: Noise

    def __post_init__(self) -> None:
        self.noise.check(self.query)

    def derivation(self, adjacency: AnyAdjacency, domain: Domain) -> Derivation[PrivacyClaim]:
        """The claim of this stage alone."""
        about = cast(Adjacency, adjacency)  # in an inner plan, queries of cores know their friends
        return self.noise.claim(self.query.sensitivity(about, domain))


@dataclass(frozen=True, slots=True)
class Gate:
    """Go on only if the released value of ``stage`` is at least ``at_least``; else abstain.

    Of a thresholded histogram: if some shown count is. It reads what is released already, so it costs
    nothing.
    """

    stage: str
    at_least: int
    reason: str


@dataclass(frozen=True, slots=True)
class Unless:
    """The claims of the other elements may fail in an event of this probability, which the transcript
    decides for a pair of neighbors; the claim of the whole plan pays for it."""

    event: str
    probability: Fraction
    obligation: str

    def lemma(self, adjacency: AnyAdjacency, domain: Domain) -> Derivation[EventBound]:
        """The bound as a leaf of the derivation."""
        return rules.event_lemma(
            self.event,
            probability=self.probability,
            in_output=True,
            adjacency=adjacency,
            domain=domain,
            obligation=self.obligation,
            source=Source("OURS", "a released number that misses the true one is an event"),
        )


@dataclass(frozen=True, slots=True)
class Filtered:
    """A filter, and a plan that runs on the records it keeps; which ones these are is never released.

    The inner claim is for friendly neighbors. Inner gates stop with the same reason where nothing is
    kept; that is no function of what is released, so an inner ``Unless`` has to pay for it.
    Raises TypeError for an inner query that is not of the kept records, ValueError for an inner gate
    without ``Unless``.
    """

    name: str
    filter: Filter
    inner: Plan

    def __post_init__(self) -> None:
        for stage in stages_of(self.inner):
            if not isinstance(stage.query, CoreQuery):
                raise TypeError(
                    f"The stage {stage.name!r} behind the filter {self.name!r} asks "
                    f"{type(stage.query).__name__} of all records; give a query of the kept ones, or "
                    "put it before the filter."
                )
        paid = any(isinstance(element, Unless) for element in self.inner)
        if gates_of(self.inner) and not paid:
            raise ValueError(
                f"A gate behind the filter {self.name!r} stops where nothing is kept, which the "
                "claims of the stages are not about; give an Unless that pays for a release there."
            )

    def derivation(self, adjacency: AnyAdjacency, domain: Domain) -> Derivation[PrivacyClaim]:
        """The inner claim, lifted by the filter. Raises TypeError within another filter."""
        if not isinstance(adjacency, Adjacency):
            raise TypeError(f"a filter's claim is for inputs, not under {adjacency}.")
        return self.filter.lift(self.friendly_derivation(domain), adjacency, domain)

    def friendly_derivation(self, domain: Domain) -> Derivation[PrivacyClaim]:
        """What the inner plan claims for friendly neighbors."""
        return derive(self.inner, self.filter.friendly, domain)


@dataclass(frozen=True, slots=True)
class AdaptiveStage:
    """A stage that is built from what was released before it.

    ``declared`` fixes the claim before any data: whatever ``build`` returns must be at least as
    private, and execution checks it. ``key`` maps a batch of transcripts to one integer each (the
    part of the prefix that matters), ``build`` maps such an integer to the stage.
    """

    declared: Stage | Filtered
    key: Callable[[Transcripts], IntArray]
    build: Callable[[int], Stage | Filtered]

    @property
    def name(self) -> str:
        """Of the stage."""
        return self.declared.name


Element = Stage | Gate | AdaptiveStage | Filtered | Unless
Plan = tuple[Element, ...]


def stages_of(plan: Plan) -> tuple[Stage, ...]:
    """The stages as declared before any data, in order."""
    return tuple(element for element in elements_of(plan) if isinstance(element, Stage))


def gates_of(plan: Plan) -> list[Gate]:
    """All gates, in order."""
    return [element for element in elements_of(plan) if isinstance(element, Gate)]


def elements_of(plan: Plan) -> tuple[Stage | Gate, ...]:
    """Stages (as declared) and gates in order, those of inner plans among them."""
    found: list[Stage | Gate] = []
    for element in plan:
        shown = element.declared if isinstance(element, AdaptiveStage) else element
        if isinstance(shown, Filtered):
            found += elements_of(shown.inner)
        elif not isinstance(shown, Unless):
            found.append(shown)
    return tuple(found)


def is_latent(plan: Plan) -> bool:
    """Whether coins that are not released decide what later stages see."""
    shown = (e.declared if isinstance(e, AdaptiveStage) else e for e in plan)
    return any(isinstance(element, Filtered) for element in shown)


def is_closed(plan: Plan) -> bool:
    """Whether one noise law describes the whole output: a single stage, no gate."""
    return len(plan) == 1 and isinstance(plan[0], Stage)


def derive(plan: Plan, adjacency: AnyAdjacency, domain: Domain) -> Derivation[PrivacyClaim]:
    """The claim about the whole transcript, by the rules alone.

    Raises ValueError for a plan without stages, with a repeated name, or with a gate on a stage
    that comes later.
    """
    seen: set[str] = set()
    for element in elements_of(plan):
        if isinstance(element, Gate):
            if element.stage not in seen:
                raise ValueError(f"a gate reads {element.stage!r}, which is not released before it")
            continue
        if element.name in seen:
            raise ValueError(f"two stages are named {element.name!r}; names are unique in a plan")
        seen.add(element.name)
    shown = (
        element.declared if isinstance(element, AdaptiveStage) else element for element in plan
    )
    parts = (part for part in shown if not isinstance(part, (Gate, Unless)))
    found = rules.adaptive_compose(part.derivation(adjacency, domain) for part in parts)
    for part in plan:
        if isinstance(part, Unless):
            found = rules.add_delta_event(found, part.lemma(adjacency, domain))
    return found


def check_built(
    declared: Stage | Filtered, built: Stage | Filtered, adjacency: AnyAdjacency, domain: Domain
) -> None:
    """Refuse a stage that an adaptive plan built with less privacy than it had declared."""
    shown, found = declared.derivation(adjacency, domain), built.derivation(adjacency, domain)
    promised, has = shown.conclusion, found.conclusion
    as_good = weakest(promised.status, has.status) is promised.status
    if built.name != declared.name or not (as_good and has.guarantee.implies(promised.guarantee)):
        raise ValueError(
            f"The stage {declared.name!r} declared {promised.guarantee} [{promised.status}] before "
            f"seeing data, but {built.name!r} with {has.guarantee} [{has.status}] was built from "
            "the transcript; declare the largest loss it can have."
        )
    lemmas = [{lemma.obligation for lemma in d.lemmas} for d in (shown, found)]
    if not lemmas[1] <= lemmas[0]:
        raise ValueError(
            f"The stage {declared.name!r} was built on lemmas that it had not declared: "
            f"{', '.join(sorted(lemmas[1] - lemmas[0]))}."
        )


def with_stages(plan: Plan, change: Callable[[Stage], Stage]) -> Plan:
    """The plan with ``change`` made to every stage, as declared and as built: how faults are planted."""

    def staged(stage: Stage | Filtered) -> Stage | Filtered:
        if isinstance(stage, Stage):
            return change(stage)
        return replace(stage, inner=with_stages(stage.inner, change))

    def element(part: Element) -> Element:
        if isinstance(part, (Gate, Unless)):
            return part
        if isinstance(part, AdaptiveStage):
            return AdaptiveStage(
                staged(part.declared), part.key, lambda key: staged(part.build(key))
            )
        return staged(part)

    return tuple(element(part) for part in plan)


def with_filters(plan: Plan, change: Callable[[Filter], Filter]) -> Plan:
    """The plan with ``change`` made to every filter, as declared and as built."""

    def filtered(stage: Stage | Filtered) -> Stage | Filtered:
        return stage if isinstance(stage, Stage) else replace(stage, filter=change(stage.filter))

    def element(part: Element) -> Element:
        if isinstance(part, AdaptiveStage):
            return AdaptiveStage(
                filtered(part.declared), part.key, lambda key: filtered(part.build(key))
            )
        return filtered(part) if isinstance(part, Filtered) else part

    return tuple(element(part) for part in plan)


def rescaled_stage(stage: Stage, factor: Fraction) -> Stage:
    """The stage with the scale of its noise multiplied, where it has one."""
    noise = stage.noise.rescaled(factor)
    return stage if noise is None else replace(stage, noise=noise)
