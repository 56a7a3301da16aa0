"""What is built from a transcript, held against what was declared before any data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from dpverify.plans.plan import Filtered, Plan, Stage, Unless
from dpverify.plans.transcripts import Rows, Transcripts
from dpverify.privacy import Domain
from dpverify.privacy.adjacency import AnyAdjacency
from dpverify.privacy.derivation import weakest
from dpverify.privacy.hypotheses import Compared, Hypothesis, Quantity

Built = Stage | Filtered
Beside = Callable[[str], tuple[Quantity, Quantity | None] | None]
"""Of another stage that is built from a transcript, by name: what the declared one releases with noise, and what the
one does that was built by the same key, or None where another key decides. None for any other stage."""


def check_built(
    declared: Built,
    built: Built,
    adjacency: AnyAdjacency,
    domain: Domain,
    *,
    under: Sequence[Compared] = (),
    beside: Beside = lambda name: None,
) -> tuple[Compared, ...]:
    """Refuse a stage that an adaptive plan built with less privacy than it had declared, or on more.

    Returns what it assumes of the numbers that it was built from, for ``check_numbers``. Raises ValueError.
    """
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
    instances = [one for one in has.hypotheses if isinstance(one, Compared) and one.is_instance]
    for one in has.hypotheses:
        if one in instances:
            known = any(schema.covers(one) for schema in under)
        else:
            known = _as_declared(one, beside) in promised.hypotheses
        if not known:
            raise ValueError(
                f"The stage {declared.name!r} was built on an assumption that it had not declared: {one}."
            )
    return tuple(instances)


def _as_declared(assumed: Hypothesis, beside: Beside) -> Hypothesis | None:
    """The hypothesis about the declared stage of which this is one about the stage built in its place."""
    pair = beside(assumed.stage) if isinstance(assumed, Compared) else None
    if not isinstance(assumed, Compared) or pair is None:
        return assumed
    declared, built = pair
    return replace(assumed, quantity=declared) if assumed.quantity == built else None


def check_event(
    plan: Plan, built: Built, declared: Built, adjacency: AnyAdjacency, domain: Domain
) -> None:
    """Refuse a stage whose number misses what is assumed of it more often than the plan pays for.

    Raises ValueError.
    """
    for element in plan:
        if isinstance(element, Unless) and element.assumed.stage == built.name:
            if not (isinstance(built, Stage) and isinstance(declared, Stage)):
                raise ValueError(f"Unless {element.assumed.negation}: {built.name!r} is a filter.")
            own = released_quantity(built, adjacency, domain)
            Unless(replace(element.assumed, quantity=own), element.probability).event(
                built, adjacency, domain
            )


def released_quantity(stage: Stage, adjacency: AnyAdjacency, domain: Domain) -> Quantity:
    """What a stage releases with noise, up to a public shift."""
    return stage.sensitivity(adjacency, domain).conclusion.query.without("shift")


def check_numbers(
    instances: Sequence[Compared], under: Sequence[Compared], batch: Transcripts, rows: Rows
) -> None:
    """Refuse a stage that was built from another number than the one that was released.

    What is assumed must follow, for all of these transcripts, from what is declared of the released number.
    Raises ValueError.
    """
    for one in instances:
        column = np.asarray(batch.values[one.stage])[rows]
        released = {int(column.min()), int(column.max())}
        if not all(any(schema.gives(one, r) for schema in under) for r in released):
            raise ValueError(
                f"A stage was built on this: {one}. That does not follow from what was released; build it from "
                f"the number that {one.stage!r} released."
            )
