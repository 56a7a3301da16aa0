"""Plans: what a mechanism does, as data. A plan is a tuple of stages, gates, parts and blocks.

One reading of a plan is its law on a dataset (dpverify/plans/law.py); the other, here, is the
derivation of its claim. Both walk the same tuple. A part is a plan in a plan, under a name:
what it releases is read from outside as "name/stage", and inside by the stages' own names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from dpverify.grid import Handle, Released
from dpverify.grid.masks import Row
from dpverify.grid.splits import Split
from dpverify.plans.filtering import Filter
from dpverify.plans.stages import Gate, Stage, Unless
from dpverify.plans.transforming import Transformation
from dpverify.privacy import Adjacency, Derivation, Domain, PrivacyClaim, rules
from dpverify.privacy.adjacency import AnyAdjacency, Friendly
from dpverify.privacy.hypotheses import Absent, Compared
from dpverify.privacy.sealed import sealed
from dpverify.randomness.bits import IntArray


@sealed
@dataclass(frozen=True, slots=True)
class Filtered:
    """Filter, and a plan that runs on the records that it keeps; which records these are is
    never released.

    The inner claim is for friendly neighbors. Inner gates stop with the same reason where
    nothing is kept; that is no function of what is released, so an inner ``Unless`` has to pay
    for it. The names of inner stages are names of the plan it stands in. Raises TypeError for
    an inner query that is not of the kept records, and for an inner part.
    """

    name: str
    filter: Filter
    inner: Plan

    def __post_init__(self) -> None:
        for element in map(as_declared, self.inner):
            if isinstance(element, (Part, Blocks)):
                raise TypeError(
                    f"{element.name!r} behind the filter {self.name!r} is a plan of its own, whose "
                    "claim is for inputs, not for what is kept; put its stages behind the filter "
                    "themselves."
                )
        for stage in stages_of(self.inner):
            if not stage.query.of_retained:
                raise TypeError(
                    f"The stage {stage.name!r} behind the filter {self.name!r} asks "
                    f"{type(stage.query).__name__} of all records; give a query of the kept ones, "
                    "or put it before the filter."
                )

    def derivation(self, adjacency: AnyAdjacency, domain: Domain) -> Derivation[PrivacyClaim]:
        """Derive the inner claim, lifted by the filter. Raises TypeError within another filter."""
        if not isinstance(adjacency, Adjacency):
            raise TypeError(f"a filter's claim is for inputs, not under {adjacency}.")
        return self.filter.lift(self.friendly_derivation(domain), adjacency, domain)

    def friendly_derivation(self, domain: Domain) -> Derivation[PrivacyClaim]:
        """Derive what the inner plan claims for friendly neighbors."""
        return derive(self.inner, self.filter.friendly, domain)


@sealed
@dataclass(frozen=True, slots=True)
class Part:
    """Plan in a plan, under a name: a mechanism as a part of another, or one round of several.

    Its stages see what the part itself has released, and nothing else. A gate of the part stops
    the whole plan. on: a list that is made of the records, in their place; None: the records
    themselves.
    """

    name: str
    plan: Plan
    on: Transformation | None = None

    def derivation(self, adjacency: AnyAdjacency, domain: Domain) -> Derivation[PrivacyClaim]:
        """Derive the claim of the part by itself. Raises ValueError for one that is open: a
        part pays for what it assumes.
        """
        if self.on is None:
            return _closed(self.name, derive(self.plan, adjacency, domain))
        if not isinstance(adjacency, Adjacency):
            raise TypeError(
                f"a list made of the records has a claim for inputs, not under {adjacency}."
            )
        inner = _closed(self.name, derive(self.plan, self.on.within, domain))
        return self.on.carry(inner, adjacency, domain)

    @property
    def is_latent(self) -> bool:
        """True if the order of its list, which is not released, may matter."""
        return self.on is not None and not all(map(_in_any_order, self.plan))

    def __getitem__(self, stage: str) -> Handle:
        """Return the name of a stage of the part, as it is read from outside."""
        return Handle(stage).under(self.name)


@sealed
@dataclass(frozen=True, slots=True)
class Blocks:
    """Plans for disjoint blocks of the records, one for each block, as "name/0", "name/1", ...

    Together they cost what the dearest of them costs. By a public function of a record, the
    plans are for adding or removing a record, and replacing one costs two steps; by index they
    are for replacing one. A gate of any block stops the whole plan. chained: a plan reads,
    under the names they have around the blocks, what was released before them and by earlier
    blocks; its own stages too ("name/2/stage"). Raises ValueError for another number of plans
    than there are blocks.
    """

    name: str
    split: Split
    plans: tuple[Plan, ...]
    chained: bool = False

    def __post_init__(self) -> None:
        if len(self.plans) != self.split.blocks:
            raise ValueError(
                f"{self.name!r}: {len(self.plans)} plans for {self.split.blocks} blocks; give "
                "one for each."
            )
        inner = (one for plan in self.plans for one in plan if self.chained)
        if any(isinstance(one, Blocks) and one.chained for one in inner):
            raise ValueError(
                f"{self.name!r}: chained blocks in chained blocks; put the inner ones in a part "
                "of their own."
            )

    @property
    def parts(self) -> tuple[Part, ...]:
        """Plan of each block, under its name."""
        return tuple(Part(f"{self.name}/{k}", plan) for k, plan in enumerate(self.plans))

    @property
    def within(self) -> Adjacency:
        """Adjacency of the blocks of neighbors."""
        return Adjacency.REPLACE if self.split.by == "index" else Adjacency.ADD_REMOVE

    def derivation(self, adjacency: AnyAdjacency, domain: Domain) -> Derivation[PrivacyClaim]:
        """Derive the claim by parallel composition. Raises ValueError where the split has none
        under this adjacency.
        """
        if not isinstance(adjacency, Adjacency):
            raise TypeError(f"blocks have a claim for inputs, not under {adjacency}.")
        claims = [self._alone(part, domain) for part in self.parts]
        return rules.parallel(claims, by=self.split.by, adjacency=adjacency, chained=self.chained)

    def _alone(self, part: Part, domain: Domain) -> Derivation[PrivacyClaim]:
        if not self.chained:
            return part.derivation(self.within, domain)
        path = f"{part.name}/"
        return _closed(part.name, derive(part.plan, self.within, domain, path))

    def missing(self, before: Mapping[str, Stage]) -> Iterator[str]:
        """Yield what chained plans read that neither they nor earlier blocks nor ``before``
        release.
        """
        known = {*before}
        for part in self.parts if self.chained else ():
            read = chain.from_iterable(map(_reads, part.plan))
            yield from (
                name for name in read if name not in known and not name.startswith(f"{part.name}/")
            )
            known.update(stage.name for stage in stages_of((part,)))


Built = Stage | Filtered | Part


@sealed
@dataclass(frozen=True, slots=True)
class Adaptive:
    """Stage or part that is built from numbers that were released before it.

    declared fixes the claim before any data: whatever is built must be at least as private and
    of the same shape, and execution checks it. numbers: from a batch to integers, a row for
    each draw, shape (size, k). build: from a row to what is run. under: what is assumed of
    released numbers; what is built may rest on that at the number it was built from, and on
    nothing else.
    """

    declared: Built
    numbers: Released[IntArray]
    build: Callable[[Row], Built]
    under: tuple[Compared, ...] = ()
    _promised: dict[Any, Derivation[PrivacyClaim]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    @property
    def name(self) -> str:
        """Name of what is built."""
        return self.declared.name

    def derivation(self, adjacency: AnyAdjacency, domain: Domain) -> Derivation[PrivacyClaim]:
        """Derive the declared claim, under what is assumed of the released numbers."""
        return rules.for_each_release(self.promised(adjacency, domain), self.under)

    def promised(self, adjacency: AnyAdjacency, domain: Domain) -> Derivation[PrivacyClaim]:
        """Derive the claim of what was declared, once: whatever is built is held against it."""
        world = (adjacency, domain)
        if world not in self._promised:
            self._promised[world] = self.declared.derivation(adjacency, domain)
        return self._promised[world]


Element = Stage | Gate | Adaptive | Filtered | Part | Blocks | Unless
Plan = tuple[Element, ...]


def as_declared(element: Element) -> Stage | Gate | Filtered | Part | Blocks | Unless:
    """Return the element before any data."""
    return element.declared if isinstance(element, Adaptive) else element


def elements_of(
    plan: Plan, path: str = "", *, filtered: bool = True, fixed: bool = False
) -> Iterator[Stage | Gate]:
    """Yield stages (as declared) and gates in order, those of parts and filters among them,
    under their full names.

    filtered: include those behind filters. fixed: include only those that are about all
    records, whatever is released.
    """
    for around, element in placed(plan, path, filtered=filtered, fixed=fixed):
        if not around:
            yield element
        elif isinstance(element, Stage):
            yield replace(element, name=around + element.name)
        else:
            yield replace(element, stage=around + element.stage)


def placed(
    plan: Plan, path: str = "", *, filtered: bool = True, fixed: bool = False
) -> Iterator[tuple[str, Stage | Gate]]:
    """Yield what ``elements_of`` does under its own name, with the path before that."""
    how = {"filtered": filtered, "fixed": fixed}
    shown = (e for e in plan if not (fixed and _is_of_some(e)))
    for element in map(as_declared, shown):
        if isinstance(element, Filtered):
            yield from placed(element.inner, path, **how) if filtered else ()
        elif isinstance(element, Part):
            yield from placed(element.plan, f"{path}{element.name}/", **how)
        elif isinstance(element, Blocks):
            yield from placed(element.parts, path, **how)
        elif isinstance(element, (Stage, Gate)):
            yield path, element


def _is_of_some(element: Element) -> bool:
    """Return whether an element is not about all records, or follows from what is released."""
    listed = isinstance(element, Part) and element.on is not None
    return listed or isinstance(element, (Adaptive, Blocks))


def _in_any_order(element: Element) -> bool:
    """Return whether what an element releases is sure not to depend on the order of records;
    what is built later may ask anything.
    """
    if isinstance(element, Part):  # which records are on a part's own list may depend on the order
        return element.on is None and all(map(_in_any_order, element.plan))
    if isinstance(element, Stage):
        return element.query.in_any_order
    return isinstance(element, (Gate, Unless))


def stages_of(plan: Plan, *, filtered: bool = True) -> tuple[Stage, ...]:
    """Return the stages as declared before any data, in order, under their full names."""
    every = elements_of(plan, filtered=filtered)
    return tuple(element for element in every if isinstance(element, Stage))


def number_of_stages(plan: Plan) -> int:
    """Count ``stages_of``."""
    return sum(isinstance(element, Stage) for _, element in placed(plan))


def derive(
    plan: Plan, adjacency: AnyAdjacency, domain: Domain, path: str = ""
) -> Derivation[PrivacyClaim]:
    """Derive the claim about the whole transcript, by the rules alone; open, if something
    assumed is not paid for.

    path: of a chained block, under which it reads its own stages; what else it reads is looked
    at around it. Raises ValueError for a plan without stages, with a repeated name, with a gate
    or an assumption on a stage that comes later, or with an ``Unless`` that nothing needs.
    """
    _check_names(plan)
    parts, gates, before = [], [], dict[str, Stage]()
    assumed: list[Compared] = []
    for element in plan:
        if isinstance(element, Gate):
            gates.append(element)
            if isinstance(adjacency, Friendly):  # the inner plan also stops where nothing is kept
                query = before[element.stage].query
                assumed.append(query.reached(element.stage, element.at_least))
        elif not isinstance(element, Unless):
            _require_read(element, before, path)
            part = element.derivation(adjacency, domain)
            for gate in gates:
                part = rules.passed_gate(part, gate.stage, gate.at_least)
            _require_released(part, before, element.name)
            parts.append(part)
            before.update((stage.name, stage) for stage in stages_of((element,)))
    derivation = rules.adaptive_compose(parts, named_once=True)
    for one in assumed:
        if one not in derivation.conclusion.hypotheses:
            derivation = rules.assume(derivation, one)
    for element in plan:
        if isinstance(element, Unless):
            stage = _own_stage(plan, element)
            derivation = rules.add_delta_event(derivation, element.event(stage, adjacency, domain))
    return derivation


def _closed(name: str, part: Derivation[PrivacyClaim]) -> Derivation[PrivacyClaim]:
    if part.conclusion.hypotheses:
        raise ValueError(
            f"The claim of the part {name!r} is open: {part.conclusion}. Give the part an Unless "
            "that pays for the failure of each of these, or a gate that sees to it."
        )
    return part


def _check_names(plan: Plan) -> None:
    seen: set[str] = set()
    stages: set[str] = set()
    gates: set[tuple[str, str]] = set()
    for element in plan:
        if isinstance(element, Gate):
            if element.stage not in stages:
                raise ValueError(f"a gate reads {element.stage!r}, which is not released before it")
            if (element.stage, element.reason) in gates:
                raise ValueError(
                    f"two gates on {element.stage!r} stop for the same reason, "
                    f"{element.reason!r}; say which is which."
                )
            gates.add((element.stage, element.reason))
            continue
        if isinstance(element, Unless):
            continue
        names = {stage.name for stage in stages_of((element,))}
        stages |= names
        names |= set() if isinstance(as_declared(element), Filtered) else {element.name}
        if "/" in element.name:
            raise ValueError(
                f"{element.name!r}: a slash is for stages of parts; give another name."
            )
        for name in sorted(names & seen):
            raise ValueError(f"two stages are named {name!r}; names are unique in a plan")
        seen |= names


def _reads(element: Element) -> tuple[str, ...]:
    """Return the stages that an element follows from, as declared."""
    shown = as_declared(element)
    reads = shown.query.reads if isinstance(shown, Stage) else ()
    return reads + (element.numbers.reads if isinstance(element, Adaptive) else ())


def _require_read(element: Element, before: Mapping[str, Stage], path: str) -> None:
    """Refuse what follows from a stage that is not released before."""
    reads = _reads(element)
    if path:
        reads = tuple(name.removeprefix(path) for name in reads if name.startswith(path))
    wrong = [] if before.keys() >= {*reads} else [name for name in reads if name not in before]
    wrong += element.missing(before) if isinstance(element, Blocks) else ()
    for name in wrong:
        raise ValueError(
            f"What follows from {name!r} is asked before it is released, or outside of its part; "
            "put it after the stage, and name a part's stage as part[stage]."
        )


def _require_released(
    part: Derivation[PrivacyClaim], before: Mapping[str, Stage], name: str
) -> None:
    """Refuse what is assumed of a number that is not released before."""
    for one in part.conclusion.hypotheses:
        if not isinstance(one, Absent) and one.stage not in before:
            raise ValueError(
                f"The stage {name!r} rests on this: {one}. No stage before it is named "
                f"{one.stage!r}."
            )


def _own_stage(plan: Plan, unless: Unless) -> Stage:
    """Return the stage of the plan itself, not of one behind a filter, whose number the event
    is about.
    """
    for shown in map(as_declared, plan):
        if isinstance(shown, Stage) and shown.name == unless.assumed.stage:
            return shown
    raise ValueError(
        f"Unless {unless.assumed.negation}: this plan has no stage {unless.assumed.stage!r} whose "
        "noise could say how likely that is."
    )
