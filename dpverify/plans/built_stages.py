"""Stages as built from transcripts: each is built once for all draws that share it, and checked
against what was declared before any data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from dpverify.grid import Transcripts
from dpverify.grid.masks import Row, cut, different_rows
from dpverify.grid.transcripts import Rows
from dpverify.plans.place import Place
from dpverify.plans.plan import Adaptive, Built, Filtered, Part, Plan, placed
from dpverify.plans.stages import Stage, Unless
from dpverify.privacy import Domain
from dpverify.privacy.adjacency import AnyAdjacency
from dpverify.privacy.derivation import weakest
from dpverify.privacy.hypotheses import Compared, Hypothesis, Quantity
from dpverify.randomness.bits import IntArray

_Memo = tuple[int, int, AnyAdjacency, Row]
"""Key of what was built: for which plan and element (they live as long as the law), under which
adjacency, from which row. One element may stand in several plans.
"""


class BuiltStages:
    """Stages that the adaptive elements of one law's plan have built, by the prefixes they read."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._built: dict[_Memo, tuple[Built, tuple[Compared, ...]]] = {}
        self._named: dict[int, tuple[Plan, frozenset[str]]] = {}
        self._rests: dict[tuple[int, AnyAdjacency], tuple[Compared, ...]] = {}
        self._fitting: set[tuple[Compared, _Memo]] = set()

    def of(
        self,
        element: Stage | Adaptive | Filtered | Part,
        place: Place,
        batch: Transcripts,
        live: Rows,
    ) -> Iterator[tuple[Built, Rows]]:
        """Yield the stage that each live draw comes to, with the draws that share it."""
        if not isinstance(element, Adaptive):
            if place.chosen:
                assumed = self._assumed(element, place.adjacency)
                self._check_quantities(place, assumed, live)
            yield element, live
            return
        about = element.name, place.path, place.around
        rows, which, groups = batch.once(
            (element.numbers,), about, live, lambda: _grouped(element, place, batch, live)
        )
        if element.name in self._named_in(place.plan):
            every = np.zeros(len(batch), np.intp)
            every[live] = which
            place.chosen[element.name] = element, rows, every
        for row, mine in zip(rows, groups, strict=True):
            memo = _memo(element, place, row)
            if memo not in self._built:
                made = element.build(row)
                self._built[memo] = made, self._check(place.plan, element, made, place.adjacency)
            built, assumed = self._built[memo]
            named = [one.stage for one in assumed if one.is_instance]
            if named:
                check_numbers(assumed, element.under, batch.seen(mine, place.path, named))
            self._check_quantities(place, assumed, mine)
            yield built, mine

    def _check(
        self, plan: Plan, element: Adaptive, built: Built, adjacency: AnyAdjacency
    ) -> tuple[Compared, ...]:
        """Check what was built against its declaration; return what it assumes of released
        numbers.
        """
        assumed = check_built(element, built, adjacency, self._domain)
        check_event(plan, built, adjacency, self._domain)
        return assumed

    def _named_in(self, plan: Plan) -> frozenset[str]:
        if id(plan) not in self._named:
            self._named[id(plan)] = plan, named_in(plan)
        return self._named[id(plan)][1]

    def _assumed(self, stage: Built, adjacency: AnyAdjacency) -> tuple[Compared, ...]:
        """List what a plain stage assumes of released numbers; it is derived once for each
        stage.
        """
        world = (id(stage), adjacency)
        if world not in self._rests:
            hypotheses = stage.derivation(adjacency, self._domain).conclusion.hypotheses
            self._rests[world] = tuple(one for one in hypotheses if isinstance(one, Compared))
        return self._rests[world]

    def _check_quantities(self, place: Place, assumed: Sequence[Compared], draws: Rows) -> None:
        """Refuse an assumption about another quantity than was released in these draws."""
        for one in assumed:
            if one.stage not in place.chosen:
                known = one, (id(place.plan), 0, place.adjacency, ())
                if known not in self._fitting:
                    check_quantity(one, self._released_by(place, one.stage))
                    self._fitting.add(known)
                continue
            other, rows, which = place.chosen[one.stage]
            for index in np.unique(which[draws]).tolist():
                pair = one, _memo(other, place, rows[index])
                if pair not in self._fitting:
                    built = self._built[pair[1]][0]
                    released = released_quantity(built, place.adjacency, self._domain)
                    check_quantity(one, released)
                    self._fitting.add(pair)

    def _released_by(self, place: Place, name: str) -> Quantity | None:
        """Name what the plan's plain stage of this name releases; None where there is no such
        stage.
        """
        for element in place.plan:
            if isinstance(element, Stage) and element.name == name:
                return released_quantity(element, place.adjacency, self._domain)
        return None


def _memo(element: Adaptive, place: Place, row: Row) -> _Memo:
    return id(place.plan), id(element), place.adjacency, row


def _grouped(
    element: Adaptive, place: Place, batch: Transcripts, live: Rows
) -> tuple[list[Row], IntArray, list[Rows]]:
    """Return the different rows that the live draws give, which of them each draw gives, and
    the draws of each row.
    """
    before = place.read(batch, live, element.numbers.reads)
    rows, which = different_rows(_numbers(element, before), element.name)
    if len(rows) == 1:
        return rows, which, [live]
    order = np.argsort(which.astype(np.uint16 if len(rows) < 1 << 16 else np.intp), kind="stable")
    starts = np.cumsum(np.bincount(which, minlength=len(rows)))[:-1]
    return rows, which, cut(live[order], starts)


def _numbers(element: Adaptive, before: Transcripts) -> IntArray:
    """Return the row of each draw. Raises ValueError for another number of rows, with which
    some draws would not go on.
    """
    numbers = element.numbers(before)
    if numbers.ndim != 2 or len(numbers) != len(before):
        raise ValueError(
            f"the numbers of {element.name!r} have shape {numbers.shape} for {len(before)} draws; "
            "give a row for each."
        )
    return numbers


# --- checks of what was built ---------------------------------------------------------------------


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
    return [
        (path + one.name, one.query.width)
        if isinstance(one, Stage)
        else (path + one.stage, one.reason)
        for path, one in placed((built,))
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
