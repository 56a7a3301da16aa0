"""Checks of what was built from a transcript, against what was declared before any data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpverify.grid.transcripts import Transcripts
from dpverify.plans.plan import Adaptive, Built, Filtered, Part, Plan, elements_of
from dpverify.plans.stages import Stage, Unless
from dpverify.privacy import Domain
from dpverify.privacy.adjacency import AnyAdjacency
from dpverify.privacy.derivation import weakest
from dpverify.privacy.hypotheses import Compared, Hypothesis, Quantity


def check_built(
    element: Adaptive, built: Built, adjacency: AnyAdjacency, domain: Domain
) -> tuple[Compared, ...]:
    """Refuse a stage that was built with less privacy than its adaptive plan had declared, or
    on more assumptions.

    Returns what it assumes of released numbers, which ``check_numbers`` and ``check_quantity``
    hold against the transcripts. Raises TypeError for what is no stage, ValueError for a broken
    promise.
    """
    declared = element.declared
    if not isinstance(built, (Stage, Filtered, Part)):
        raise TypeError(f"{declared.name!r} was built as a {type(built).__name__}; build a Stage.")
    if shape_of(declared) != shape_of(built):
        raise ValueError(
            f"The stage {declared.name!r} was built with stages, gates or a query of another width "
            f"than it declared ({shape_of(built)}, not {shape_of(declared)}); transcripts of one "
            "plan have one shape."
        )
    shown, actual = element.promised(adjacency, domain), built.derivation(adjacency, domain)
    promised, has = shown.conclusion, actual.conclusion
    if actual == shown and not has.hypotheses and built.name == declared.name:
        return ()  # the very proof that was promised, for another query that moves no further
    as_good = weakest(promised.status, has.status) is promised.status
    if built.name != declared.name or not (as_good and has.guarantee.implies(promised.guarantee)):
        raise ValueError(
            f"The stage {declared.name!r} declared {promised.guarantee} [{promised.status}] before "
            f"seeing data, but {built.name!r} with {has.guarantee} [{has.status}] was built from "
            "the transcript; declare the largest loss it can have."
        )
    lemmas = [{node.obligation for node in d.nodes() if node.obligation} for d in (shown, actual)]
    if not lemmas[1] <= lemmas[0]:
        raise ValueError(
            f"The stage {declared.name!r} was built on lemmas that it had not declared: "
            f"{', '.join(sorted(lemmas[1] - lemmas[0]))}."
        )
    known = {*map(_without_quantity, promised.hypotheses)}
    for one in has.hypotheses:
        if isinstance(one, Compared) and one.is_instance:
            declares = any(schema.covers(one) for schema in element.under)
        else:
            declares = _without_quantity(one) in known
        if not declares:
            raise ValueError(
                f"The stage {declared.name!r} was built on an assumption that it had not "
                f"declared: {one}."
            )
    return tuple(one for one in has.hypotheses if isinstance(one, Compared))


def shape_of(built: Built) -> list[tuple[str, object]]:
    """Return what transcripts look like: names and widths of stages, and what gates read and
    say, in order.
    """
    every = elements_of((built,))
    return [
        (one.name, one.query.width) if isinstance(one, Stage) else (one.stage, one.reason)
        for one in every
    ]


def _without_quantity(assumed: Hypothesis) -> Hypothesis:
    """Leave out of a hypothesis which quantity the stage releases; ``check_quantity`` checks
    that.
    """
    if not isinstance(assumed, Compared):
        return assumed
    return replace(assumed, quantity=Quantity("", assumed.quantity.kind))


def check_event(plan: Plan, built: Built, adjacency: AnyAdjacency, domain: Domain) -> None:
    """Refuse a stage whose number misses what is assumed of it more often than the plan pays for.

    Raises ValueError.
    """
    for element in plan:
        if isinstance(element, Unless) and element.assumed.stage == built.name:
            own = released_quantity(built, adjacency, domain)
            if own is None or not isinstance(built, Stage):
                raise ValueError(f"Unless {element.assumed.negation}: {built.name!r} is no stage.")
            paid = replace(element, assumed=replace(element.assumed, quantity=own))
            paid.event(built, adjacency, domain)


def released_quantity(stage: Built, adjacency: AnyAdjacency, domain: Domain) -> Quantity | None:
    """Name the quantity that a stage releases with noise, up to a public shift; None for
    anything but a stage.
    """
    if not isinstance(stage, Stage):
        return None
    return stage.sensitivity(adjacency, domain).conclusion.query.without("shift")


def check_numbers(
    assumed: Sequence[Compared], under: Sequence[Compared], before: Transcripts
) -> None:
    """Refuse a stage that was built from another number than the one that was released.

    What is assumed must follow, for all of these draws, from what is declared of the released
    number. Raises ValueError.
    """
    for one in assumed:
        if not one.is_instance:
            continue
        column = before[one.stage]
        released = {int(column.min()), int(column.max())}
        if not all(any(schema.gives(one, r) for schema in under) for r in released):
            raise ValueError(
                f"A stage was built on this: {one}. That does not follow from what was released; "
                f"build it from the number that {one.stage!r} released."
            )


def check_quantity(assumed: Compared, released: Quantity | None) -> None:
    """Refuse an assumption about another quantity than its stage has released. Raises
    ValueError.
    """
    own = assumed.quantity
    same = released is not None and (own.kind, own.parameters) == (
        released.kind,
        released.parameters,
    )
    if not same:
        raise ValueError(
            f"A stage was built on an assumption that it had not declared: {assumed}. The stage "
            f"{assumed.stage!r} that it comes after releases {released or 'nothing of the kind'}."
        )


def named_in(plan: Plan) -> frozenset[str]:
    """List the stages of whose released numbers a plan's stages may assume something."""
    named = {e.assumed.stage for e in plan if isinstance(e, Unless)}
    named |= {h.stage for e in plan if isinstance(e, Adaptive) for h in e.under}
    return frozenset(named)
