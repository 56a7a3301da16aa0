"""Experiments as units of work: the cells of a method, and planted faults, are measured apart.

A panel's table is emitted as soon as its last cell is measured, and the verdict on the orders
at the end, so a run that is stopped has reported whole panels. Cells are written down as the
points of a rate are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from typing import Any

from dpverify.rates import (
    Cell,
    Experiment,
    Finding,
    RateFault,
    check_methods,
    judge_order,
    measure_cell,
)
from dpverify.suite.events import Judgment, Outcome, UnitFinished, finished
from dpverify.suite.judges import TOTAL_ALPHA, rests_on, seed_of
from dpverify.suite.panels import Study, cell_in, panel_unit, verdict
from dpverify.suite.rating import RateOptions, loaded, selected
from dpverify.suite.reporting import PART
from dpverify.suite.resuming import OF_RATES, key_of
from dpverify.suite.trees import Suite


@dataclass(frozen=True, slots=True)
class CellPart:
    """Piece of an experiment as plain data: a method in a cell, or an order's planted fault."""

    rate: str
    panel: str = ""
    index: int = 0
    method: str = ""
    order: str = ""
    kind: str = PART

    @property
    def name(self) -> str:
        """Name for people."""
        if self.order:
            return f"{self.rate} fault of {self.order}"
        return f"{self.rate} {self.panel}, value {self.index}, {self.method}"


def experiment_names(suite: Suite, names: Sequence[str]) -> list[str]:
    """List the experiments that these names, of mechanisms or experiments, select; no names:
    all.
    """
    return selected(suite.experiments, names)


def chosen(suite: Suite, key: str, options: RateOptions) -> Experiment:
    """Return the experiment, or its reduced form for a quick run."""
    experiment = suite.experiment(key)[1]
    return experiment.reduced() if options.quick else experiment


def units_of(suite: Suite, names: Sequence[str], options: RateOptions) -> int:
    """Count the units that are reported: panels and verdicts."""
    return sum(1 + len(chosen(suite, key, options).panels) for key in names)


class ExperimentJudge:
    """Judge of an experiment whose cells and faults arrive in any order: a panel is shown with
    its last cell, and the orders are judged with the last part of all.
    """

    def __init__(self, suite: Suite, key: str, options: RateOptions) -> None:
        entry, whole = suite.experiment(key)
        experiment = chosen(suite, key, options)
        replay = options.replay(CellPart(key))
        alpha = _alpha(suite, experiment)
        self._study = Study(key, experiment, whole, options.seed, alpha, replay)
        self._refused = ""
        try:
            _check_runs(self._study)
            check_methods(experiment, entry.mechanism)
        except Exception as error:  # a user's factory may do anything
            said = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
            self._refused = f"{said}{error}"
        self._cells, self._faults = ([], []) if self._refused else _parts(key, experiment)
        self._done, self._waiting = dict[str, UnitFinished](), list(experiment.panels)

    @property
    def parts(self) -> Sequence[CellPart]:
        """List the parts to measure; none where the experiment is refused."""
        return [*self._cells, *self._faults]

    def begin(self) -> Iterator[UnitFinished]:
        """Yield the verdict on an experiment that is refused."""
        if self._refused:
            yield verdict(self._study, {}, [], {}, self._refused)

    def take(self, done: UnitFinished) -> Iterator[UnitFinished]:
        """Take a finished part; yield everything that can be judged then."""
        self._done[done.name] = done
        for panel in list(self._waiting):
            own = [part for part in self._cells if part.panel == panel]
            if all(part.name in self._done for part in own):
                self._waiting.remove(panel)
                yield panel_unit(self._study, panel, _by(own, self._done))
        if len(self._done) == len(self.parts):
            yield _judged(self._study, self._cells, self._faults, self._done)


def _check_runs(study: Study) -> None:
    """Check that every comparison could be refuted: if all of its runs are lost, that has
    probability alpha at most.
    """
    experiment, needed = study.experiment, math.ceil(-math.log2(study.alpha))
    for order in experiment.orders:
        for panel, values in order.where.items():
            runs = len(values) * experiment.repeats
            if runs < needed:
                raise ValueError(
                    f"{experiment.name}: {order.name!r} has {runs} runs in {panel!r}, and at alpha "
                    f"= {study.alpha:.1e} it takes {needed} to refute it; give more values, or "
                    "repeats."
                )


def _by(
    own: Sequence[CellPart], units: Mapping[str, UnitFinished]
) -> dict[str, list[UnitFinished]]:
    """Group the finished cells of a panel by method, in the order of the values."""
    ordered = sorted(own, key=lambda part: part.index)
    return {
        method: [units[part.name] for part in ordered if part.method == method]
        for method in dict.fromkeys(part.method for part in own)
    }


def _judged(
    study: Study,
    cells: Sequence[CellPart],
    faults: Sequence[CellPart],
    units: Mapping[str, UnitFinished],
) -> UnitFinished:
    """Return the verdict on all orders."""
    errors = {
        (part.method, part.panel, part.index): cell_in(units[part.name].data).errors
        for part in cells
        if units[part.name].data
    }

    def known(name: str, panel: str, index: int) -> Sequence[float]:
        numbers = study.experiment.references
        if name in numbers:
            return _numbers(study.experiment, name, panel, index)
        return errors[name, panel, index]

    broken = [part.name for part in units.values() if part.outcome is not Outcome.HELD]
    if broken:
        return verdict(study, units, [], {}, f"{broken[0]}: {units[broken[0]].summary}")
    judged = [
        judge_order(study.experiment, order, panel, known, study.alpha)
        for order in study.experiment.orders
        for panel in order.where
    ]
    seen = {part.order: str(units[part.name].data["by"]) for part in faults}
    return verdict(study, units, judged, seen)


def _numbers(experiment: Experiment, name: str, panel: str, index: int) -> list[float]:
    """Return a reference's errors as if every run had its error."""
    number = experiment.references[name].numbers[panel][experiment.values[index]]
    return [number] * experiment.repeats


def _parts(key: str, experiment: Experiment) -> tuple[list[CellPart], list[CellPart]]:
    """List the parts: every cell, panel by panel, and every order's fault."""
    grid = product(experiment.panels, range(len(experiment.values)), experiment.methods)
    cells = [CellPart(key, panel, index, method) for panel, index, method in grid]
    return cells, [CellPart(key, order=order.name) for order in experiment.orders]


def _alpha(suite: Suite, experiment: Experiment) -> float:
    """Divide TOTAL_ALPHA over all rates and experiments of the suite and all comparisons of
    this one.
    """
    return TOTAL_ALPHA / (suite.measured * experiment.comparisons)


# --- measuring ----------------------------------------------------------------------------------


def run_cell(part: CellPart, options: RateOptions) -> UnitFinished:
    """Measure a cell, or look for a fault."""

    def measured() -> Judgment:
        suite = loaded(options.suite)
        data = _fault_data(suite, part, options) if part.order else _cell_data(part, options)
        return _measured(part, {"key": key_of_cell(suite, part, options), **data})

    return finished(PART, part.name, options.replay(part), measured)


def known_cell(part: CellPart, options: RateOptions, data: Mapping[str, Any]) -> UnitFinished:
    """Return a part that an earlier run measured, from its data."""
    return finished(PART, part.name, options.replay(part), partial(_measured, part, data))


def _measured(part: CellPart, data: Mapping[str, Any]) -> Judgment:
    place: dict[str, Any] = {"experiment": part.rate, "fault": part.order}
    if not part.order:
        place |= {"panel": part.panel, "index": part.index, "method": part.method}
    return Judgment(Outcome.HELD, "MEASURED", "", data={**data, **place})


def _cell_data(part: CellPart, options: RateOptions) -> dict[str, Any]:
    cell = _cell(part, None, options)
    return {"errors": list(cell.errors), "refused": cell.refused}


@cache
def _cell(part: CellPart, fault: RateFault | None, options: RateOptions) -> Cell:
    """Measure a cell; the result is cached, since several orders are about one cell, and may
    share a planted fault.
    """
    return measure_cell(
        chosen(loaded(options.suite), part.rate, options),
        part.panel,
        part.index,
        part.method,
        seed=seed_of(part.rate, options.seed),
        fault=fault,
    )


def _fault_data(suite: Suite, part: CellPart, options: RateOptions) -> dict[str, Any]:
    """Measure an order under its fault, panel by panel, until the order is refuted in one."""
    experiment = chosen(suite, part.rate, options)
    order = next(one for one in experiment.orders if one.name == part.order)

    def errors(name: str, panel: str, index: int) -> Sequence[float]:
        if name in experiment.references:
            return _numbers(experiment, name, panel, index)
        fault = order.fault if name == order.faulty else None
        return _cell(CellPart(part.rate, panel, index, name), fault, options).errors

    alpha = _alpha(suite, experiment)
    for panel in order.where:
        seen = judge_order(experiment, order, panel, errors, alpha)
        if seen.finding is Finding.REFUTED:
            return {"caught": True, "by": f"in {panel}"}
    return {"caught": False, "by": ""}


# --- resuming -----------------------------------------------------------------------------------


def key_of_cell(suite: Suite, part: CellPart, options: RateOptions) -> str:
    """Hash everything that a part depends on. A cell is the same in a quick run; a fault is not."""
    experiment = chosen(suite, part.rate, options)
    text = [part.rate, part.order, str(experiment.repeats), str(options.seed)]
    text.append(rests_on(suite, part.rate))
    if part.order:
        order = next(one for one in experiment.orders if one.name == part.order)
        where = {panel: list(map(str, values)) for panel, values in order.where.items()}
        text += [order.faulty, order.fault.name, str(where), repr(_alpha(suite, experiment))]
    else:
        setting = experiment.at(part.panel, part.index).items()
        text += [part.panel, part.method, str(sorted((name, str(x)) for name, x in setting))]
    return key_of(suite.root, OF_RATES, text)
