"""Law of a plan on one dataset: everything deterministic is computed once, then draws are
cheap.

A draw is a *transcript*: what every stage released, in order, up to where a gate stopped it. All
transcripts of a batch advance together. A law is as secret as its dataset; it prints nothing of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify.grid import Query, Records, Transcripts, View
from dpverify.grid.masks import Row
from dpverify.grid.transcripts import NOTHING, Rows, of_each_tuple
from dpverify.grid.views import Progress, Retained
from dpverify.plans.built_stages import BuiltStages
from dpverify.plans.filtering import Filter
from dpverify.plans.noise import LogProbabilities
from dpverify.plans.place import Place
from dpverify.plans.plan import (
    Adaptive,
    Blocks,
    Filtered,
    Part,
    Plan,
    as_declared,
    number_of_stages,
    stages_of,
)
from dpverify.plans.stages import Gate, Stage, Unless
from dpverify.plans.walking import gates_of, is_closed, is_latent
from dpverify.privacy import Domain
from dpverify.privacy.adjacency import AnyAdjacency
from dpverify.randomness import Bits
from dpverify.randomness.bits import IntArray, require_bits

_MOST_COINS = 1 << 26


class Law:
    """Probability distribution of a plan's transcript on one dataset."""

    _checked_by = BuiltStages

    def __init__(
        self, plan: Plan, records: Records | View, adjacency: AnyAdjacency, domain: Domain
    ) -> None:
        """Take all records, or a view of records that are read chunk by chunk."""
        self._plan = plan
        self._view = records if isinstance(records, View) else View(records)
        self._world = (adjacency, domain)
        self._built = self._checked_by(domain)
        self._gates = {(g.stage, g.reason): i for i, g in enumerate(gates_of(plan))}
        self._reasons = tuple(gate.reason for gate in gates_of(plan))

    def __repr__(self) -> str:
        return f"<law of {len(stages_of(self._plan))} stages on private data>"

    @property
    def progress(self) -> Progress | None:
        """Function that is called while friends are counted, which takes long for many records."""
        return self._view.progress

    @progress.setter
    def progress(self, called: Progress | None) -> None:
        self._view.progress = called

    @property
    def plan(self) -> Plan:
        """The plan whose law this is."""
        return self._plan

    @property
    def records(self) -> int:
        """The number of records: as secret as the data, except under replace."""
        return len(self._view)

    @cached_property
    def latent(self) -> bool:
        """True if coins that are not released matter: then log-likelihoods are not known."""
        return is_latent(self._plan)

    @property
    def closed(self) -> bool:
        """True if one noise law describes the whole output: a single stage and no gate."""
        return is_closed(self._plan)

    def center(self, query: Query) -> IntArray:
        """Return the exact value on the data of a query that reads nothing, computed once."""
        return self._view.once(query, lambda: self._view.value(query))

    def center_after(self, stage: Stage, prefix: Sequence[Row]) -> IntArray:
        """Return the exact value of a declared stage's query after these released values, in
        the order of the plan.
        """
        batch = self._released(prefix)
        path, _, name = stage.name.rpartition("/")
        place = self._place(self._root(), f"{path}/" if path else "", batch)
        center = self._center(replace(stage, name=name), place, batch, np.arange(1))
        return center[0] if stage.query.reads else center

    def built_after(self, stage: Stage, prefix: Sequence[Row]) -> tuple[Stage, IntArray]:
        """Build a declared stage after these released values, and compute the exact value of
        its query there.
        """
        path, _, own = stage.name.rpartition("/")
        batch, rows = self._released(prefix), np.arange(1)
        place = self._place(self._root(), f"{path}/" if path else "", batch)
        element = next((e for e in place.plan if getattr(e, "name", "") == own), None)
        if not isinstance(element, (Stage, Adaptive)):
            return stage, self.center_after(stage, prefix)
        ((built, _),) = self._built.of(element, place, batch, rows)
        assert isinstance(built, Stage)
        center = self._center(built, place, batch, rows)
        return built, center[0] if built.query.reads else center

    def _released(self, prefix: Sequence[Row]) -> Transcripts:
        """Build one draw that released this, in the order of the plan's stages."""
        names = [one.name for one in stages_of(self._plan)]
        values = {n: np.array([v], object) for n, v in zip(names, prefix, strict=False)}
        return Transcripts(values, np.array([len(prefix)]), NOTHING.stopped_by, self._reasons)

    def sample(self, bits: Bits, size: int) -> Transcripts:
        """Draw ``size`` independent transcripts."""
        require_bits(bits)
        stopped, reached = np.empty(size, np.intp), np.zeros(size, np.intp)
        stopped.fill(-1)
        known = None if self.latent else dict[Hashable, Any]()
        batch = Transcripts({}, reached, stopped, self._reasons, known)
        live, done = self._run(self._root(), batch, np.arange(size), 0, bits)
        if len(live) == size:  # then in order, here and below
            reached.fill(done)
        else:
            reached[live] = done
        # nobody scores a single release, and what was remembered is as secret as the data
        return batch if size > 1 else replace(batch, known=None)

    def _root(self) -> Place:
        return Place(self._plan, "", self._view, self._world[0])

    def _run(
        self, place: Place, batch: Transcripts, live: Rows, done: int, bits: Bits
    ) -> tuple[Rows, int]:
        """Advance the live draws through a plan. Return those that no gate stopped, and how
        many stages are done.
        """
        for element in place.plan:
            if not len(live):
                break
            # the stage is the same for all draws
            if isinstance(element, Stage) and not place.chosen:
                self._release(element, place, batch, live, bits)
                done += 1
            elif isinstance(element, Gate):
                live = self._gated(element, place, batch, live, done)
            elif isinstance(element, Blocks):
                for inner in self._blocks_in(element, place):
                    live, done = self._run(inner, batch, live, done, bits)
            elif not isinstance(element, Unless):
                live = self._through(element, place, batch, live, done, bits)
                done += 1 if isinstance(element, Stage) else number_of_stages((element,))
        return live, done

    def _through(
        self,
        element: Stage | Adaptive | Filtered | Part,
        place: Place,
        batch: Transcripts,
        live: Rows,
        done: int,
        bits: Bits,
    ) -> Rows:
        """Return the draws that go on after the stage that each of them comes to."""
        alive: list[Rows] = []
        for built, rows in self._built.of(element, place, batch, live):
            if isinstance(built, Stage):
                self._release(built, place, batch, rows, bits)
                alive.append(rows)
                continue
            for inner, some in self._inside(built, place, rows, bits):
                alive.append(self._run(inner, batch, some, done, bits)[0])
        return _joined(alive, live)

    def _release(
        self, stage: Stage, place: Place, batch: Transcripts, rows: Rows, bits: Bits
    ) -> None:
        """Add to the batch what a stage releases in these draws."""
        _store(batch, place.path + stage.name, rows, self._drawn(stage, place, batch, rows, bits))

    def _gated(self, gate: Gate, place: Place, batch: Transcripts, live: Rows, done: int) -> Rows:
        """Return the draws that a gate lets pass; the others stop here."""
        passed = self.passes(gate, place, batch, live)
        if place.view.is_filtered:
            at = passed.nonzero()[0]
            passed[at] = place.seen_by(live[at]).retained.any(axis=1)
        if np.count_nonzero(passed) == len(live):
            return live
        out = live[~passed]
        batch.stopped_by[out] = self._gates[place.path + gate.stage, gate.reason]
        batch.reached[out] = done
        return live[passed]

    def _inside(
        self, built: Filtered | Part, place: Place, live: Rows, bits: Bits
    ) -> Iterator[tuple[Place, Rows]]:
        """Yield the place of the inner plan, and the draws that run it: behind a filter some at
        a time.
        """
        if isinstance(built, Part):
            yield from self._parts(built, place, live, bits)
            return
        images = place.view.images(built.filter.nearness)
        degrees = images.degrees
        step = max(1, _MOST_COINS // max(1, len(degrees)))
        for start in range(0, len(live), step):
            rows = live[start : start + step]
            view = Retained(place.view, built.filter.keep(bits, degrees, len(rows)))
            adjacency = built.filter.friendly
            yield Place(built.inner, place.path, view, adjacency, rows, place.chosen), rows

    def _parts(
        self, part: Part, place: Place, live: Rows, bits: Bits
    ) -> Iterator[tuple[Place, Rows]]:
        """Yield the place of the part's plan, and the draws that run it; on a list in an order
        that matters each draw has its own.
        """
        if part.on is None or not part.is_latent:
            yield self._part(part, place), live
            return
        path, listed = f"{place.path}{part.name}/", part.on.listed(place.view.records)
        for i in range(len(live)):
            view = View(listed[bits.order(len(listed))])
            yield Place(part.plan, path, view, part.on.within), live[i : i + 1]

    def _part(self, part: Part, place: Place) -> Place:
        """Return the part's place. A list is not shuffled if the same is released in any order."""
        path, view, on = f"{place.path}{part.name}/", place.view, part.on
        if on is None:
            return Place(part.plan, path, view, place.adjacency)
        if part.is_latent:
            raise TypeError(
                f"What {part.name!r} releases depends on the order of a list, which is not known."
            )
        listed = view.once(on, lambda: View(on.listed(view.records), view.progress))
        return Place(part.plan, path, listed, on.within)

    def _blocks_in(self, blocks: Blocks, place: Place) -> Iterator[Place]:
        """Yield the place of each block's plan, on the block's records."""
        views = place.view.parts(blocks.split)
        around = place.path if blocks.chained else None
        for part, view in zip(blocks.parts, views, strict=True):
            path = f"{place.path}{part.name}/"
            yield Place(part.plan, path, view, blocks.within, around=around)

    def _place(self, place: Place, path: str, batch: Transcripts | None = None) -> Place:
        """Return the place of this path, through parts as built after what one draw released;
        without it as declared.
        """
        if place.path == path:
            return place
        for element in place.plan:
            shown: Any = as_declared(element)
            parts = shown.parts if isinstance(shown, Blocks) else (shown,)
            if not any(path.startswith(f"{place.path}{getattr(p, 'name', '')}/") for p in parts):
                continue
            if isinstance(shown, Blocks):
                inner = next(
                    one for one in self._blocks_in(shown, place) if path.startswith(one.path)
                )
            else:
                if isinstance(element, Adaptive) and batch is not None:
                    ((shown, _),) = self._built.of(element, place, batch, np.arange(1))
                inner = self._part(shown, place)
            return self._place(inner, path, batch)
        raise KeyError(path)

    def degrees_for(self, filter_: Filter) -> tuple[int, ...]:
        """Return the numbers of friends, one for each record, which are all that a filter is
        told.
        """
        return tuple(self._view.images(filter_.nearness).degrees.tolist())

    def _center(self, stage: Stage, place: Place, batch: Transcripts, rows: Rows) -> IntArray:
        """Compute the exact value of the stage's query: one for all draws, or one for each of
        them.
        """
        query = stage.query
        if place.view.is_filtered:
            if not query.of_retained:
                raise TypeError(
                    f"The stage {stage.name!r} was built to ask more than what is kept."
                )
            return query.evaluate(place.seen_by(rows))
        if query.reads:
            asked, about = (query, place.view), (place.path, place.around)
            return batch.once(asked, about, rows, lambda: self._read(stage, place, batch, rows))
        return place.view.once(query, lambda: place.view.value(query))

    def _read(self, stage: Stage, place: Place, batch: Transcripts, rows: Rows) -> IntArray:
        """Compute the exact values of a query that reads what these draws released."""
        values = place.view.value(stage.query, place.read(batch, rows, stage.query.reads))
        if len(values) != len(rows):
            raise ValueError(
                f"the query of {stage.name!r} has {len(values)} values for {len(rows)} draws; "
                "give one for each."
            )
        return values

    def log_likelihood(self, batch: Transcripts) -> LogProbabilities:
        """Compute the natural log-probability of each transcript; -inf for one this plan cannot
        produce.

        Raises TypeError for a latent law.
        """
        if self.latent:
            raise TypeError("The likelihood of a latent law is a sum over all coins of its filter.")
        total = np.zeros(len(batch))
        self._score(self._root(), batch, np.arange(len(batch)), 0, total)
        return total

    def _score(
        self, place: Place, batch: Transcripts, live: Rows, done: int, total: LogProbabilities
    ) -> tuple[Rows, int]:
        """Add the log-probabilities of what was released in a plan, in the order of ``_run``."""
        for element in place.plan:
            if not len(live):
                break
            if isinstance(element, Unless):
                continue
            if isinstance(element, Gate):
                live = self._gate_scored(element, place, batch, live, done, total)
                continue
            if isinstance(element, Blocks):
                for inner in self._blocks_in(element, place):
                    live, done = self._score(inner, batch, live, done, total)
                continue
            shown = element.declared if isinstance(element, Adaptive) else element
            if isinstance(shown, Stage):
                live = _those(_of(batch.reached, live) > done, live, total)
            alive: list[Rows] = []
            for built, rows in self._built.of(element, place, batch, live):
                if isinstance(built, Stage):
                    _add(total, rows, self._log_probability(built, place, batch, rows))
                    alive.append(rows)
                    continue
                assert isinstance(built, Part)
                alive.append(self._score(self._part(built, place), batch, rows, done, total)[0])
            done += 1 if isinstance(element, Stage) else number_of_stages((element,))
            live = _joined(alive, live)
        return live, done

    def _gate_scored(
        self,
        gate: Gate,
        place: Place,
        batch: Transcripts,
        live: Rows,
        done: int,
        total: LogProbabilities,
    ) -> Rows:
        """Return the draws that went on where a gate lets them pass; the others' end is scored."""
        passed = self.passes(gate, place, batch, live)
        stopped = _of(batch.stopped_by, live) == self._gates[place.path + gate.stage, gate.reason]
        went_on = passed & ~stopped
        if went_on.all():
            return live
        ended = ~passed & stopped & (_of(batch.reached, live) == done)
        _those(went_on | ended, live, total)
        others: Rows = live[went_on]
        return others

    def passes(self, gate: Gate, place: Place, batch: Transcripts, live: Rows) -> NDArray[np.bool_]:
        """Return which live draws go on: a function of what they have released."""
        column = _of(batch.values[place.path + gate.stage], live)
        if column.ndim == 1:  # histograms: flat tuples of keys and counts
            return of_each_tuple(
                column, lambda h: max(h[1::2], default=0) >= gate.at_least, np.bool_
            )
        return np.asarray(column[:, 0] >= gate.at_least, dtype=np.bool_)

    def _drawn(
        self, stage: Stage, place: Place, batch: Transcripts, rows: Rows, bits: Bits
    ) -> IntArray:
        """Draw what a stage releases in these draws of the batch."""
        return stage.noise.sample(bits, self._center(stage, place, batch, rows), len(rows))

    def _log_probability(
        self, stage: Stage, place: Place, batch: Transcripts, rows: Rows
    ) -> LogProbabilities:
        """Compute the log-probability of what a stage released in these draws, given what came
        before.
        """
        center = self._center(stage, place, batch, rows)
        released = _of(batch.values[place.path + stage.name], rows)
        return stage.noise.log_probability(released, center)


def _of(column: NDArray[Any], rows: Rows) -> NDArray[Any]:
    """Return these rows of a batch's column: itself where they are all, which are in order."""
    return column if len(rows) == len(column) else column[rows]


def _those(possible: NDArray[np.bool_], live: Rows, total: LogProbabilities) -> Rows:
    """Return the live draws that are possible; the others get the log-probability -inf."""
    if possible.all():
        return live
    total[live[~possible]] = -np.inf
    return live[possible]


def _joined(alive: list[Rows], live: Rows) -> Rows:
    """Return in order those of the live draws that are alive, each in one of these parts."""
    if len(alive) == 1:
        return alive[0]
    if sum(map(len, alive)) == len(live):
        return live
    there = np.zeros(int(live[-1]) + 1, np.bool_)
    for rows in alive:
        there[rows] = True
    return np.flatnonzero(there)


def _add(total: LogProbabilities, rows: Rows, own: LogProbabilities) -> None:
    if len(rows) == len(total):
        total += own
    else:
        total[rows] += own


def _store(batch: Transcripts, name: str, rows: Rows, drawn: IntArray) -> None:
    column = batch.values.get(name)
    if len(rows) == len(batch) and column is None:
        batch.values[name] = drawn
        return
    if column is None:
        column = np.zeros((len(batch), *drawn.shape[1:]), dtype=drawn.dtype)
    elif column.dtype != drawn.dtype:
        column = column.astype(object)
    column[rows] = drawn
    batch.values[name] = column
