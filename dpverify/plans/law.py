"""The law of a plan on one dataset: everything deterministic is done once, then draws are cheap.

A draw is a *transcript*: what every stage released, in order, up to where a gate stopped it. All
transcripts of a batch advance together. A law is as secret as its dataset; it prints nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dpverify.grid import Query, Records
from dpverify.plans.noise import LogProbabilities
from dpverify.plans.plan import AdaptiveStage, Gate, Plan, Stage, check_built, is_closed, stages_of
from dpverify.plans.transcripts import Rows, Transcripts
from dpverify.privacy import Adjacency, Domain
from dpverify.randomness import Bits
from dpverify.randomness.bits import IntArray


class Law:
    """The probability distribution of a plan's transcript on one dataset."""

    def __init__(self, plan: Plan, records: Records, adjacency: Adjacency, domain: Domain) -> None:
        self._plan = plan
        self._records = records
        self._world = (adjacency, domain)
        self._centers: dict[Query, IntArray] = {}
        self._built: dict[tuple[str, int], Stage] = {}

    def __repr__(self) -> str:
        return f"<law of {len(stages_of(self._plan))} stages on private data>"

    @property
    def closed(self) -> bool:
        """Whether one noise law describes the whole output: a single stage and no gate."""
        return is_closed(self._plan)

    def center(self, query: Query) -> IntArray:
        """The exact value of a query on the data, computed once."""
        if query not in self._centers:
            self._centers[query] = query.evaluate(self._records)
        return self._centers[query]

    def sample(self, bits: Bits, size: int) -> Transcripts:
        """``size`` independent transcripts."""
        batch = Transcripts(
            {}, np.zeros(size, np.intp), np.full(size, -1, np.intp), self._reasons()
        )
        live = np.arange(size)
        for element in self._plan:
            if not len(live):
                break
            if isinstance(element, Gate):
                passed = self.passes(element, batch, live)
                batch.stopped_by[live[~passed]] = self._gates().index(element)
                live = live[passed]
                continue
            for stage, rows in self._stages(element, batch, live):
                drawn = stage.noise.sample(bits, self.center(stage.query), len(rows))
                _store(batch, stage.name, rows, drawn)
            batch.reached[live] += 1
        return batch

    def log_likelihood(self, batch: Transcripts) -> LogProbabilities:
        """Natural log-probability of each transcript; -inf for one this plan cannot produce."""
        total = np.zeros(len(batch))
        live = np.arange(len(batch))
        for index, element in enumerate(self._plan):
            if not len(live):
                break
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
            for stage, rows in self._stages(element, batch, live):
                outputs = batch.values[stage.name][rows]
                total[rows] += stage.noise.log_probability(outputs, self.center(stage.query))
        return total

    def passes(self, gate: Gate, batch: Transcripts, live: Rows) -> NDArray[np.bool_]:
        """Which live transcripts go on: a function of what they have released."""
        return np.asarray(batch.values[gate.stage][live, 0] >= gate.at_least, dtype=np.bool_)

    def _check(self, declared: Stage, built: Stage) -> None:
        """What was promised before any data is kept."""
        check_built(declared, built, *self._world)
        if len(self.center(declared.query)) != len(self.center(built.query)):
            raise ValueError(
                f"The stage {declared.name!r} was built with a query of another width than it "
                "declared; transcripts of one plan have one shape."
            )

    def _gates(self) -> list[Gate]:
        return [element for element in self._plan if isinstance(element, Gate)]

    def _reasons(self) -> tuple[str, ...]:
        return tuple(gate.reason for gate in self._gates())

    def _stages(
        self, element: Stage | AdaptiveStage, batch: Transcripts, live: Rows
    ) -> Iterator[tuple[Stage, Rows]]:
        """The stage that each live transcript comes to, with the rows that share it."""
        if isinstance(element, Stage):
            yield element, live
            return
        keys = element.key(batch.select(live))
        for key in map(int, np.unique(keys).tolist()):
            memo = (element.declared.name, key)
            if memo not in self._built:
                built = element.build(key)
                self._check(element.declared, built)
                self._built[memo] = built
            yield self._built[memo], live[np.asarray(keys == key, dtype=np.bool_)]


def _store(batch: Transcripts, name: str, rows: Rows, drawn: IntArray) -> None:
    column = batch.values.get(name)
    if column is None:
        column = np.zeros((len(batch), *drawn.shape[1:]), dtype=drawn.dtype)
    elif column.dtype != drawn.dtype:
        column = column.astype(object)
    column[rows] = drawn
    batch.values[name] = column
