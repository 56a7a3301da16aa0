"""The law of a plan on one dataset: everything deterministic is done once, then draws are cheap.

A draw is a *transcript*: what every stage released, in order, up to where a gate stopped it. All
transcripts of a batch advance together. A law is as secret as its dataset; it prints nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dpverify.grid import Derived, Query, Records
from dpverify.grid.nearness import Nearness
from dpverify.plans.building import (
    Built,
    check_built,
    check_event,
    check_numbers,
    check_quantity,
    named_in,
    released_quantity,
    whole_keys,
)
from dpverify.plans.filtering import Core, CoreQuery, Filter
from dpverify.plans.mapped import Mapped
from dpverify.plans.moving import MovingQuery
from dpverify.plans.noise import LogProbabilities
from dpverify.plans.plan import (
    AdaptiveStage,
    Filtered,
    Gate,
    Plan,
    Stage,
    Unless,
    gates_of,
    is_closed,
    is_latent,
    stages_of,
)
from dpverify.plans.transcripts import Rows, Transcripts, of_each_tuple
from dpverify.privacy import Domain
from dpverify.privacy.adjacency import AnyAdjacency
from dpverify.privacy.hypotheses import Compared, Quantity
from dpverify.randomness import Bits
from dpverify.randomness.bits import IntArray

_MOST_COINS = 1 << 26
Chosen = dict[str, tuple[AdaptiveStage, IntArray]]
"""Adaptive stages by name, each with the key by which the stage of each transcript was built."""


Progress = Callable[[int, int], None]
"""Called with (done, total) now and then; what takes long is a function of private data, so that who
sees it sees something of them."""


class Law:
    """The probability distribution of a plan's transcript on one dataset.

    progress: called while friends are counted, which takes long for many records.
    """

    def __init__(
        self, plan: Plan, records: Records, adjacency: AnyAdjacency, domain: Domain
    ) -> None:
        self._plan = plan
        self._records = records
        self._world = (adjacency, domain)
        self._centers: dict[Query, IntArray] = {}
        self._built: dict[tuple[int, int], tuple[Built, tuple[Compared, ...]]] = {}
        self._named: dict[int, tuple[Plan, frozenset[str]]] = {}
        self._rests: dict[int, tuple[Compared, ...]] = {}
        self._fitting: set[tuple[Compared, int, int]] = set()
        self._mapped: dict[Nearness, Mapped] = {}
        self.progress: Progress | None = None

    def __repr__(self) -> str:
        return f"<law of {len(stages_of(self._plan))} stages on private data>"

    @property
    def latent(self) -> bool:
        """Whether coins that are not released matter: then log-likelihoods are not known."""
        return is_latent(self._plan)

    @property
    def closed(self) -> bool:
        """Whether one noise law describes the whole output: a single stage and no gate."""
        return is_closed(self._plan)

    def center(self, query: Query) -> IntArray:
        """The exact value of a query on the data, computed once."""
        if query not in self._centers:
            if isinstance(query, Derived):
                self._centers[query] = query.of(self.center(query.base))
            else:
                self._centers[query] = query.evaluate(self._records)
        return self._centers[query]

    def center_after(self, stage: Stage, prefix: Sequence[tuple[int, ...]]) -> IntArray:
        """The exact value of a stage's query after these released values, in the order of the plan."""
        if not isinstance(stage.query, MovingQuery):
            return self.center(stage.query)
        before = zip((one.name for one in stages_of(self._plan)), prefix, strict=False)
        values = {name: np.array([value], dtype=object) for name, value in before}
        done = np.array([len(prefix)], np.intp)
        batch = Transcripts(values, done, np.array([-1], np.intp), self._reasons())
        found: IntArray = self._centers_of(stage, None, batch, np.arange(1))[0]
        return found

    def sample(self, bits: Bits, size: int) -> Transcripts:
        """``size`` independent transcripts."""
        batch = Transcripts(
            {}, np.zeros(size, np.intp), np.full(size, -1, np.intp), self._reasons()
        )
        self._run(self._plan, batch, np.arange(size), bits, {}, None)
        return batch

    def _run(
        self,
        plan: Plan,
        batch: Transcripts,
        live: Rows,
        bits: Bits,
        chosen: Chosen,
        core: Core | None,
    ) -> Rows:
        """Advance the live transcripts through a plan; those that no gate stopped."""
        for element in plan:
            if not len(live):
                break
            if isinstance(element, Unless):
                continue
            if isinstance(element, Gate):
                passed = self.passes(element, batch, live)
                if core is not None:
                    passed &= core.of(live).any(axis=1)
                batch.stopped_by[live[~passed]] = self._gates().index(element)
                live = live[passed]
                continue
            alive: list[Rows] = []
            for stage, rows in self._stages(plan, element, batch, live, chosen, core):
                if isinstance(stage, Filtered):
                    alive.extend(self._run_filtered(stage, batch, rows, bits, chosen))
                    continue
                _store(batch, stage.name, rows, self._drawn(stage, batch, rows, bits, core))
                batch.reached[rows] += 1
                alive.append(rows)
            live = alive[0] if len(alive) == 1 else np.sort(np.concatenate(alive))
        return live

    def _run_filtered(
        self, stage: Filtered, batch: Transcripts, live: Rows, bits: Bits, chosen: Chosen
    ) -> Iterator[Rows]:
        """The filter, then the inner plan on what it keeps, some transcripts at a time."""
        images, degrees = self._friends(stage.filter)
        step = max(1, _MOST_COINS // max(1, len(images)))
        for start in range(0, len(live), step):
            rows = live[start : start + step]
            kept = stage.filter.keep(bits, degrees, len(rows))
            core = Core(images, kept, rows, stage.filter.friendly)
            yield self._run(stage.inner, batch, rows, bits, chosen, core)

    def degrees_for(self, filter_: Filter) -> tuple[int, ...]:
        """What a filter is told of the records: how many friends each of them has."""
        return tuple(self._friends(filter_)[1].tolist())

    def _friends(self, filter_: Filter) -> tuple[IntArray, IntArray]:
        """The records as integer vectors, and how many friends each has; once per predicate."""
        mapped = self._map(filter_.nearness)
        return mapped.images, mapped.degrees

    def _map(self, nearness: Nearness) -> Mapped:
        """The records after a public map, once for each map."""
        if nearness not in self._mapped:
            self._mapped[nearness] = Mapped(self._records, nearness, self.progress)
        return self._mapped[nearness]

    def _centers_of(
        self, stage: Stage, core: Core | None, batch: Transcripts, rows: Rows
    ) -> IntArray:
        """The exact value of the stage's query: one for all transcripts, or one for each of them."""
        query = stage.query
        if core is not None:
            if not isinstance(query, CoreQuery):
                raise TypeError(
                    f"The stage {stage.name!r} was built to ask more than what is kept."
                )
            return query.of_cores(core.images, core.of(rows))
        if isinstance(query, MovingQuery):
            return query.after(self._map(query.nearness), _of_rows(batch, rows))
        return self.center(query)

    def log_likelihood(self, batch: Transcripts) -> LogProbabilities:
        """Natural log-probability of each transcript; -inf for one this plan cannot produce.

        Raises TypeError for a latent law.
        """
        if self.latent:
            raise TypeError("The likelihood of a latent law is a sum over all coins of its filter.")
        total = np.zeros(len(batch))
        live = np.arange(len(batch))
        chosen: Chosen = {}
        for index, element in enumerate(self._plan):
            if not len(live):
                break
            if isinstance(element, Unless):
                continue
            if isinstance(element, Gate):
                passed = self.passes(element, batch, live)
                stopped = batch.stopped_by[live] == self._gates().index(element)
                done = batch.reached[live] == len(stages_of(self._plan[:index]))
                total[live[(passed == stopped) | (stopped & ~done)]] = -np.inf
                live = live[passed & ~stopped]
                continue
            missing = batch.reached[live] < len(stages_of(self._plan[: index + 1]))
            total[live[missing]] = -np.inf
            live = live[~missing]
            for stage, rows in self._stages(self._plan, element, batch, live, chosen):
                assert isinstance(stage, Stage)
                total[rows] += self._log_probability(stage, batch, rows)
        return total

    def passes(self, gate: Gate, batch: Transcripts, live: Rows) -> NDArray[np.bool_]:
        """Which live transcripts go on: a function of what they have released."""
        column = batch.values[gate.stage][live]
        if column.ndim == 1:  # histograms: flat tuples of keys and counts
            return of_each_tuple(
                column, lambda h: max(h[1::2], default=0) >= gate.at_least, np.bool_
            )
        return np.asarray(column[:, 0] >= gate.at_least, dtype=np.bool_)

    def _drawn(
        self, stage: Stage, batch: Transcripts, rows: Rows, bits: Bits, core: Core | None
    ) -> IntArray:
        """What a stage releases in these rows of the batch."""
        return stage.noise.sample(bits, self._centers_of(stage, core, batch, rows), len(rows))

    def _log_probability(self, stage: Stage, batch: Transcripts, rows: Rows) -> LogProbabilities:
        """Of what a stage released in these rows, given what came before."""
        center = self._centers_of(stage, None, batch, rows)
        return stage.noise.log_probability(batch.values[stage.name][rows], center)

    def _check(
        self, plan: Plan, element: AdaptiveStage, built: Built, adjacency: AnyAdjacency
    ) -> tuple[Compared, ...]:
        """Hold a built stage against its declaration; return what it assumes of released numbers."""
        declared, domain = element.declared, self._world[1]
        assumed = check_built(element, built, adjacency, domain)
        check_event(plan, built, adjacency, domain)
        shown, found = (
            [(stage.name, self._width(stage.query)) for stage in stages_of((one,))]
            for one in (declared, built)
        )
        if shown != found:
            raise ValueError(
                f"The stage {declared.name!r} was built with a query of another width than it "
                f"declared ({found}, not {shown}); transcripts of one plan have one shape."
            )
        return assumed

    def _named_in(self, plan: Plan) -> frozenset[str]:
        if id(plan) not in self._named:
            self._named[id(plan)] = plan, named_in(plan)
        return self._named[id(plan)][1]

    def _assumed(self, stage: Stage | Filtered, adjacency: AnyAdjacency) -> tuple[Compared, ...]:
        """List what a plain stage assumes of released numbers; derived once for each stage."""
        if id(stage) not in self._rests:
            found = stage.derivation(adjacency, self._world[1]).conclusion.hypotheses
            self._rests[id(stage)] = tuple(one for one in found if isinstance(one, Compared))
        return self._rests[id(stage)]

    def _check_quantities(
        self,
        plan: Plan,
        chosen: Chosen,
        assumed: Sequence[Compared],
        rows: Rows,
        adjacency: AnyAdjacency,
    ) -> None:
        """Refuse an assumption about another quantity than was released in these transcripts."""
        for one in assumed:
            if one.stage not in chosen:
                known = (one, id(plan), 0)  # plans that were built release other quantities
                if known not in self._fitting:
                    check_quantity(one, self._released_by(plan, one.stage, adjacency))
                    self._fitting.add(known)
                continue
            other, keys = chosen[one.stage]
            for key in map(int, np.unique(keys[rows]).tolist()):
                pair = (one, id(other), key)
                if pair not in self._fitting:
                    built = self._built[id(other), key][0]
                    released = released_quantity(built, adjacency, self._world[1])
                    check_quantity(one, released)
                    self._fitting.add(pair)

    def _released_by(self, plan: Plan, name: str, adjacency: AnyAdjacency) -> Quantity | None:
        """Name what the plan's plain stage of this name releases; None where there is no such stage."""
        for element in plan:
            if isinstance(element, Stage) and element.name == name:
                return released_quantity(element, adjacency, self._world[1])
        return None

    def _width(self, query: Query) -> int:
        if isinstance(query, (CoreQuery, MovingQuery)):
            return query.width
        center = self.center(query)
        return len(center) if center.ndim == 1 else 0  # a table has rows as the data have buckets

    def _gates(self) -> list[Gate]:
        return gates_of(self._plan)

    def _reasons(self) -> tuple[str, ...]:
        return tuple(gate.reason for gate in self._gates())

    def _stages(
        self,
        plan: Plan,
        element: Stage | AdaptiveStage | Filtered,
        batch: Transcripts,
        live: Rows,
        chosen: Chosen,
        core: Core | None = None,
    ) -> Iterator[tuple[Built, Rows]]:
        """The stage that each live transcript comes to, with the rows that share it."""
        adjacency = self._world[0] if core is None else core.adjacency
        if not isinstance(element, AdaptiveStage):
            if chosen:
                assumed = self._assumed(element, adjacency)
                self._check_quantities(plan, chosen, assumed, live, adjacency)
            yield element, live
            return
        keys = element.key(_of_rows(batch, live))
        whole_keys(keys, element.name)
        if element.name in self._named_in(plan):
            every = np.zeros(len(batch), keys.dtype)
            every[live] = keys
            chosen[element.name] = element, every
        for key in map(int, np.unique(keys).tolist()):
            rows = live[np.asarray(keys == key, dtype=np.bool_)]
            memo = (id(element), key)  # an element lives as long as the plan that holds it
            if memo not in self._built:
                made = element.build(key)
                self._built[memo] = made, self._check(plan, element, made, adjacency)
            built, assumed = self._built[memo]
            check_numbers(assumed, element.under, batch, rows)
            self._check_quantities(plan, chosen, assumed, rows, adjacency)
            yield built, rows


def _of_rows(batch: Transcripts, live: Rows) -> Transcripts:
    """Without a copy where all are live: they are in order."""
    return batch if len(live) == len(batch) else batch.select(live)


def _store(batch: Transcripts, name: str, rows: Rows, drawn: IntArray) -> None:
    column = batch.values.get(name)
    if column is None:
        column = np.zeros((len(batch), *drawn.shape[1:]), dtype=drawn.dtype)
    elif column.dtype != drawn.dtype:
        column = column.astype(object)
    column[rows] = drawn
    batch.values[name] = column
