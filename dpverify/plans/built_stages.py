"""Stages as built from transcripts: each is built and checked once, for all draws that share it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dpverify.grid import Transcripts
from dpverify.grid.masks import Row, different_rows
from dpverify.grid.transcripts import Rows
from dpverify.plans.building import (
    check_built,
    check_event,
    check_numbers,
    check_quantity,
    named_in,
    released_quantity,
)
from dpverify.plans.place import Place
from dpverify.plans.plan import Adaptive, Built, Filtered, Part, Plan
from dpverify.plans.stages import Stage
from dpverify.privacy import Domain
from dpverify.privacy.adjacency import AnyAdjacency
from dpverify.privacy.hypotheses import Compared, Quantity
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
    return rows, which, np.split(live[order], starts)


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
