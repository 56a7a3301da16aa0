"""Plans: what a mechanism does, as data. A plan is a tuple of stages, gates and adaptive stages.

One reading of a plan is its law on a dataset (dpverify/plans/law.py); the other, here, is the
derivation of its claim. Both walk the same tuple.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dpverify.grid import Query
from dpverify.plans.noise import Noise
from dpverify.plans.transcripts import Transcripts
from dpverify.privacy import Adjacency, Derivation, Domain, PrivacyClaim, rules
from dpverify.privacy.derivation import weakest
from dpverify.randomness.bits import IntArray


@dataclass(frozen=True, slots=True)
class Stage:
    """One release: an integer query plus noise, under a name that is unique in its plan."""

    name: str
    query: Query
    noise: Noise

    def __post_init__(self) -> None:
        self.noise.check(self.query)

    def derivation(self, adjacency: Adjacency, domain: Domain) -> Derivation[PrivacyClaim]:
        """The claim of this stage alone."""
        return self.noise.claim(self.query.sensitivity(adjacency, domain))


@dataclass(frozen=True, slots=True)
class Gate:
    """Go on only if the released value of ``stage`` is at least ``at_least``; else abstain.

    It reads what is released already, so it costs nothing.
    """

    stage: str
    at_least: int
    reason: str


@dataclass(frozen=True, slots=True)
class AdaptiveStage:
    """A stage that is built from what was released before it.

    ``declared`` fixes the claim before any data: whatever ``build`` returns must be at least as
    private, and execution checks it. ``key`` maps a batch of transcripts to one integer each (the
    part of the prefix that matters), ``build`` maps such an integer to the stage.
    """

    declared: Stage
    key: Callable[[Transcripts], IntArray]
    build: Callable[[int], Stage]


Element = Stage | Gate | AdaptiveStage
Plan = tuple[Element, ...]


def stages_of(plan: Plan) -> tuple[Stage, ...]:
    """The stages as declared before any data, in order."""
    found: list[Stage] = []
    for element in plan:
        if isinstance(element, Stage):
            found.append(element)
        elif isinstance(element, AdaptiveStage):
            found.append(element.declared)
    return tuple(found)


def is_closed(plan: Plan) -> bool:
    """Whether one noise law describes the whole output: a single stage, no gate."""
    return len(plan) == 1 and isinstance(plan[0], Stage)


def derive(plan: Plan, adjacency: Adjacency, domain: Domain) -> Derivation[PrivacyClaim]:
    """The claim about the whole transcript, by the rules alone.

    Raises ValueError for a plan without stages, with a repeated name, or with a gate on a stage
    that comes later.
    """
    seen: set[str] = set()
    for element in plan:
        if isinstance(element, Gate):
            if element.stage not in seen:
                raise ValueError(f"a gate reads {element.stage!r}, which is not released before it")
            continue
        name = element.name if isinstance(element, Stage) else element.declared.name
        if name in seen:
            raise ValueError(f"two stages are named {name!r}; names are unique in a plan")
        seen.add(name)
    return rules.adaptive_compose(stage.derivation(adjacency, domain) for stage in stages_of(plan))


def check_built(declared: Stage, built: Stage, adjacency: Adjacency, domain: Domain) -> None:
    """Refuse a stage that an adaptive plan built with less privacy than it had declared."""
    shown, found = (stage.derivation(adjacency, domain) for stage in (declared, built))
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
