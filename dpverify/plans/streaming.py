"""Laws of plans on records that are read chunk by chunk: which plans have one, and by how many
passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from dpverify.grid import Count, Query, Transcripts
from dpverify.grid.chunked import Ask, ChunkedView, Inside, Passes, Sums
from dpverify.grid.records import check_rows
from dpverify.plans.chunks import Chunks, SourceFailed, tally
from dpverify.plans.law import Law
from dpverify.plans.plan import Adaptive, Blocks, Filtered, Part, Plan
from dpverify.plans.stages import Gate, Stage, Unless
from dpverify.plans.taken import REMEDY
from dpverify.plans.tallying import Reading
from dpverify.privacy import Domain
from dpverify.privacy.adjacency import AnyAdjacency

_INSTEAD = (
    "Give one array that fits into memory, a sample that is drawn by a rule that does not look at "
    "the data, or a mechanism of sums (docs/how_to/large_data.md lists them)."
)


@dataclass(frozen=True, slots=True)
class Streaming:
    """Demands of a plan on chunks: the queries of its first pass, and how many further passes
    it may need.

    refusal: the reason why the plan cannot read chunks, or None.
    """

    asks: tuple[Ask, ...] = ()
    later: int = 0
    refusal: str | None = None

    @property
    def passes(self) -> int:
        """Largest number of passes that the plan may need."""
        return 1 + self.later

    def check(self, what: str) -> None:
        """Refuse a plan that does not add up over chunks, in words. Raises TypeError."""
        if self.refusal is not None:
            raise TypeError(f"{what} needs all records at once: {self.refusal} {_INSTEAD}")

    def __add__(self, other: Streaming) -> Streaming:
        """Return the demands of both."""
        asks = tuple(dict.fromkeys((*self.asks, *other.asks)))
        return Streaming(asks, self.later + other.later, self.refusal or other.refusal)


def streaming(plan: Plan, inside: Inside = (), path: str = "", built: bool = False) -> Streaming:
    """Return a plan's demands on chunks, from the plan alone. built: the plan follows from
    released values.
    """
    demands = Streaming()
    for element in plan:
        demands += _of_element(element, inside, path, built)
    return demands


def _of_element(element: Any, inside: Inside, path: str, built: bool) -> Streaming:
    if isinstance(element, (Gate, Unless)):
        return Streaming()
    if isinstance(element, Adaptive):
        return _of_element(element.declared, inside, path, True)
    name = f"{path}{element.name}"
    if isinstance(element, Stage):
        return _of_query(element.query, inside, name, built)
    if isinstance(element, Filtered):
        return Streaming(refusal=f"{name!r} is a filter, which compares all pairs of records.")
    if isinstance(element, Part):
        if element.on is not None:
            return Streaming(refusal=f"{name!r} runs on a list that is made of all records.")
        return streaming(element.plan, inside, f"{name}/", built)
    assert isinstance(element, Blocks)
    if element.split.by == "index":
        return Streaming(refusal=f"{name!r} divides records by their places.")
    demands = Streaming()
    for block, part in enumerate(element.parts):
        within = (*inside, (element.split, block))
        counted = Streaming(() if built else (Ask(Count(), within),))
        demands += counted + streaming(part.plan, within, f"{path}{part.name}/", built)
    return demands


def _of_query(query: Query, inside: Inside, name: str, built: bool) -> Streaming:
    addends = query.addends
    if addends is None:
        kind = type(query).__name__
        return Streaming(
            refusal=f"The stage {name!r} asks {kind}, which does not add up over chunks."
        )
    if query.reads or built:
        return Streaming(later=1)
    return Streaming(tuple(Ask(one, inside) for one in addends))


@dataclass(frozen=True, slots=True)
class Job:
    """A plan that is to be run on chunks."""

    plan: Plan
    chunks: Chunks
    adjacency: AnyAdjacency
    domain: Domain

    def check(self, what: str) -> Streaming:
        """Refuse, from the plan alone, a plan for which chunks do not suffice. Raises TypeError
        before anything is read.
        """
        demands = streaming(self.plan)
        demands.check(what)
        if self.chunks.source.spent:
            raise TypeError(f"{what}: {REMEDY}")
        if self.chunks.source.once and demands.passes > 1:
            raise TypeError(
                f"{what} reads the records up to {demands.passes} times, for later stages follow "
                "from what earlier ones released, and an iterator gives them once. Give a "
                "function that returns a fresh iterator, a list of chunks, or files."
            )
        return demands


def laws(jobs: Sequence[tuple[Job, str]]) -> list[Law]:
    """Return the laws of several plans, by one pass for all that share a source. Raises
    TypeError, from the plans alone, and SourceFailed.
    """
    checked = [job.check(what) for job, what in jobs]
    order = sorted(range(len(jobs)), key=lambda i: id(jobs[i][0].chunks.source))
    made: dict[int, Law] = {}
    for _, places in groupby(order, key=lambda i: id(jobs[i][0].chunks.source)):
        some = list(places)
        readings = [
            Reading(
                jobs[i][0].chunks.then,
                jobs[i][0].domain,
                checked[i].asks,
                digested=checked[i].passes > 1,
            )
            for i in some
        ]
        sums = tally(jobs[some[0]][0].chunks.source, readings)
        for i, reading, first in zip(some, readings, sums, strict=True):
            made[i] = _law(jobs[i][0], reading, first)
    return [made[i] for i in range(len(jobs))]


def _law(job: Job, reading: Reading, first: Sums) -> Law:
    check_rows(first.rows, job.domain)

    def again(asks: Sequence[Ask], before: Transcripts) -> Sums:
        (sums,) = tally(job.chunks.source, [replace(reading, asks=tuple(asks), before=before)])
        if (sums.rows, sums.digest) != (first.rows, first.digest):
            raise SourceFailed(
                "The records changed between two passes over them. Nothing was released."
            )
        return sums

    view = ChunkedView(Passes(again, reading.asks, first))
    return Law(job.plan, view, job.adjacency, job.domain)
