"""Plans: what a mechanism does, as data. A plan is a tuple of stages, gates and adaptive stages.

One reading of a plan is its law on a dataset (dpverify/plans/law.py); the other, here, is the
derivation of its claim. Both walk the same tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, cast

from dpverify.grid import Query
from dpverify.plans.filtering import CoreQuery, Filter
from dpverify.plans.noise import Noise
from dpverify.plans.transcripts import Transcripts
from dpverify.privacy import Adjacency, Derivation, Domain, PrivacyClaim, Sensitivity, rules
from dpverify.privacy.adjacency import AnyAdjacency, Friendly
from dpverify.privacy.derivation import EventBound
from dpverify.privacy.hypotheses import Absent, Compared
from dpverify.privacy.sealed import sealed
from dpverify.randomness.bits import IntArray


@sealed
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
        return self.noise.claim(self.sensitivity(adjacency, domain))

    def sensitivity(self, adjacency: AnyAdjacency, domain: Domain) -> Derivation[Sensitivity]:
        """How far the query moves between neighbors."""
        about = cast(Adjacency, adjacency)  # in an inner plan, queries of cores know their friends
        return self.query.sensitivity(about, domain)


@sealed
@dataclass(frozen=True, slots=True)
class Gate:
    """Go on only if the released value of ``stage`` is at least ``at_least``; else abstain.

    Of a thresholded histogram: if some shown count is. It reads what is released already, so it costs
    nothing.
    """

    stage: str
    at_least: int
    reason: str


@sealed
@dataclass(frozen=True, slots=True)
class Unless:
    """What stages assume of a released number fails with at most this probability, for which the plan pays.

    The bound is derived from the stage that releases the number: how far its query moves, by which shift it is lowered, and
    its noise. Without it the claim stays open, and a mechanism with an open claim is refused.
    """

    assumed: Compared
    probability: Fraction

    def event(
        self, stage: Stage, adjacency: AnyAdjacency, domain: Domain
    ) -> Derivation[EventBound]:
        """The bound for this stage. Raises ValueError where the failure is likelier."""
        released = stage.derivation(adjacency, domain)
        return rules.released_event(self.assumed, released, probability=self.probability)


@sealed
@dataclass(frozen=True, slots=True)
class Filtered:
    """A filter, and a plan that runs on the records it keeps; which ones these are is never released.

    The inner claim is for friendly neighbors. Inner gates stop with the same reason where nothing is
    kept; that is no function of what is released, so an inner ``Unless`` has to pay for it.
    Raises TypeError for an inner query that is not of the kept records.
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

    def derivation(self, adjacency: AnyAdjacency, domain: Domain) -> Derivation[PrivacyClaim]:
        """The inner claim, lifted by the filter. Raises TypeError within another filter."""
        if not isinstance(adjacency, Adjacency):
            raise TypeError(f"a filter's claim is for inputs, not under {adjacency}.")
        return self.filter.lift(self.friendly_derivation(domain), adjacency, domain)

    def friendly_derivation(self, domain: Domain) -> Derivation[PrivacyClaim]:
        """What the inner plan claims for friendly neighbors."""
        return derive(self.inner, self.filter.friendly, domain)


@sealed
@dataclass(frozen=True, slots=True)
class AdaptiveStage:
    """A stage that is built from what was released before it.

    ``declared`` fixes the claim before any data: whatever ``build`` returns must be at least as
    private, and execution checks it. ``key`` maps a batch of transcripts to one integer each (the
    part of the prefix that matters), ``build`` maps such an integer to the stage. under: what is assumed
    of released numbers; what is built may rest on that at the number it was built from, and on nothing else.
    """

    declared: Stage | Filtered
    key: Callable[[Transcripts], IntArray]
    build: Callable[[int], Stage | Filtered]
    under: tuple[Compared, ...] = ()
    _promised: dict[Any, Derivation[PrivacyClaim]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    @property
    def name(self) -> str:
        """The name of the stage."""
        return self.declared.name

    def derivation(self, adjacency: AnyAdjacency, domain: Domain) -> Derivation[PrivacyClaim]:
        """The declared claim, under what is assumed of the released numbers."""
        return rules.for_each_release(self.promised(adjacency, domain), self.under)

    def promised(self, adjacency: AnyAdjacency, domain: Domain) -> Derivation[PrivacyClaim]:
        """The claim of the declared stage, derived once: whatever is built is held against it."""
        world = (adjacency, domain)
        if world not in self._promised:
            self._promised[world] = self.declared.derivation(adjacency, domain)
        return self._promised[world]


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
    """The claim about the whole transcript, by the rules alone; open, if something assumed is not paid for.

    Raises ValueError for a plan without stages, with a repeated name, with a gate or an assumption on a
    stage that comes later, or with an ``Unless`` that nothing needs.
    """
    _check_names(plan)
    parts, gates, before = [], [], dict[str, Stage]()
    assumed: list[Compared] = []
    for element in plan:
        if isinstance(element, Gate):
            gates.append(element)
            if isinstance(adjacency, Friendly):  # it stops where nothing is kept, too
                query = cast(CoreQuery, before[element.stage].query)
                assumed.append(query.reached(element.stage, element.at_least))
        elif not isinstance(element, Unless):
            part = element.derivation(adjacency, domain)
            for gate in gates:
                part = rules.passed_gate(part, gate.stage, gate.at_least)
            _require_released(part, before, element.name)
            parts.append(part)
            before.update((stage.name, stage) for stage in stages_of((element,)))
    found = rules.adaptive_compose(parts, named_once=True)
    for one in assumed:
        if one not in found.conclusion.hypotheses:
            found = rules.assume(found, one)
    for element in plan:
        if isinstance(element, Unless):
            stage = _own_stage(plan, element)
            found = rules.add_delta_event(found, element.event(stage, adjacency, domain))
    return found


def _check_names(plan: Plan) -> None:
    seen: set[str] = set()
    for element in elements_of(plan):
        if isinstance(element, Gate):
            if element.stage not in seen:
                raise ValueError(f"a gate reads {element.stage!r}, which is not released before it")
            continue
        if element.name in seen:
            raise ValueError(f"two stages are named {element.name!r}; names are unique in a plan")
        seen.add(element.name)


def _require_released(
    part: Derivation[PrivacyClaim], before: Mapping[str, Stage], name: str
) -> None:
    """Refuse what is assumed of a number that is not released before."""
    for one in part.conclusion.hypotheses:
        if not isinstance(one, Absent) and one.stage not in before:
            raise ValueError(
                f"The stage {name!r} rests on this: {one}. No stage before it is named {one.stage!r}."
            )


def _own_stage(plan: Plan, unless: Unless) -> Stage:
    """The stage of the plan itself, not of one behind a filter, whose number the event is about."""
    for element in plan:
        shown = element.declared if isinstance(element, AdaptiveStage) else element
        if isinstance(shown, Stage) and shown.name == unless.assumed.stage:
            return shown
    raise ValueError(
        f"Unless {unless.assumed.negation}: this plan has no stage {unless.assumed.stage!r} whose noise could "
        "say how likely that is."
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
            return replace(
                part, declared=staged(part.declared), build=lambda key: staged(part.build(key))
            )
        return staged(part)

    return tuple(element(part) for part in plan)


def with_filters(plan: Plan, change: Callable[[Filter], Filter]) -> Plan:
    """The plan with ``change`` made to every filter, as declared and as built."""

    def filtered(stage: Stage | Filtered) -> Stage | Filtered:
        return stage if isinstance(stage, Stage) else replace(stage, filter=change(stage.filter))

    def element(part: Element) -> Element:
        if isinstance(part, AdaptiveStage):
            return replace(
                part, declared=filtered(part.declared), build=lambda key: filtered(part.build(key))
            )
        return filtered(part) if isinstance(part, Filtered) else part

    return tuple(element(part) for part in plan)


def rescaled_stage(stage: Stage, factor: Fraction) -> Stage:
    """The stage with the scale of its noise multiplied, where it has one."""
    noise = stage.noise.rescaled(factor)
    return stage if noise is None else replace(stage, noise=noise)
