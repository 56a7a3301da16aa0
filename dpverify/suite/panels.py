"""Reports of an experiment: a table for each panel, and the verdict on its orders."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpverify.rates import Cell, Constant, Experiment, Finding, Judged, NotPrivate, Refuted
from dpverify.suite.events import Outcome, UnitFinished

PANEL, EXPERIMENT = "panel", "experiment"
_MARKS = {Constant: "private for nothing", NotPrivate: "not private", Refuted: "claim refuted"}


@dataclass(frozen=True, slots=True)
class Study:
    """Experiment that is being run.

    whole: with what a quick run leaves out. alpha: of one comparison.
    """

    key: str
    experiment: Experiment
    whole: Experiment
    seed: int
    alpha: float
    replay: str


def cell_in(data: Mapping[str, Any]) -> Cell:
    """Read a cell from a part's data, also where infinities became text."""
    return Cell(tuple(map(float, data["errors"])), str(data["refused"]))


# --- a panel ------------------------------------------------------------------------------------


def panel_unit(
    study: Study, panel: str, parts: Mapping[str, Sequence[UnitFinished]]
) -> UnitFinished:
    """Report a panel whose cells are all there, by method and in the order of the values."""
    name, everything = f"{study.key}, {panel}", [p for own in parts.values() for p in own]
    seconds = sum(part.seconds for part in everything)
    broken = [part for part in everything if part.outcome is not Outcome.HELD]
    if broken:
        summary = f"{broken[0].name}: {broken[0].summary}"
        return UnitFinished(
            PANEL, name, Outcome.INVALID, "INVALID", summary, (), study.replay, seconds
        )
    cells = {method: [cell_in(part.data) for part in own] for method, own in parts.items()}
    summary = f"median error against {study.experiment.variable}, with intervals of 95%"
    return UnitFinished(
        PANEL,
        name,
        Outcome.HELD,
        "MEASURED",
        summary,
        _table(study.experiment, panel, cells),
        study.replay,
        seconds,
        _panel_data(study, panel, cells),
    )


def _table(
    experiment: Experiment, panel: str, cells: Mapping[str, Sequence[Cell]]
) -> tuple[str, ...]:
    """Build a table with a row for each value and a column for each method or reference, and
    list the methods that refuse, and why.
    """
    beside = {
        name: reference.numbers[panel]
        for name, reference in experiment.references.items()
        if panel in reference.numbers
    }
    rows = [[experiment.variable, *(_header(experiment, name) for name in cells), *beside]]
    for i, value in enumerate(experiment.values):
        numbers = [f"{known[value]:.3g}" if value in known else "-" for known in beside.values()]
        rows.append([str(value), *(_shown(own[i]) for own in cells.values()), *numbers])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(text.rjust(w) for text, w in zip(row, widths, strict=True)) for row in rows]
    refusals = {name: [c.refused for c in own if c.refused] for name, own in cells.items()}
    return (*lines, *(f"{name} refuses: {why[0]}" for name, why in refusals.items() if why))


def _header(experiment: Experiment, name: str) -> str:
    """Return a method's heading; baselines are marked as such."""
    mark = _MARKS.get(type(experiment.methods[name]))
    return name if mark is None else f"{name} ({mark})"


def _shown(cell: Cell) -> str:
    """Format a cell: median, interval, runs, and how many of these abstained; a dash where the
    method refuses.
    """
    if not cell.errors:
        return "-"
    median, runs = cell.median, len(cell.errors)
    abstained = sum(map(math.isinf, cell.errors))
    if math.isinf(median.value):
        return f"abstains {abstained}/{runs}"
    beside = f", {abstained} abstained" if abstained else ""
    return f"{median.value:.3g} [{median.low:.3g}, {median.high:.3g}] /{runs}{beside}"


def _panel_data(study: Study, panel: str, cells: Mapping[str, Sequence[Cell]]) -> dict[str, Any]:
    """Return the data of a panel's picture."""
    experiment = study.experiment
    return {
        "experiment": study.key,
        "panel": panel,
        "setting": {name: str(value) for name, value in experiment.panels[panel].items()},
        "variable": experiment.variable,
        "seed": study.seed,
        "methods": {
            name: [
                _cell_data(value, cell) for value, cell in zip(experiment.values, own, strict=True)
            ]
            for name, own in cells.items()
        },
        "references": {
            name: [{"value": float(v), "error": e} for v, e in known.numbers[panel].items()]
            for name, known in experiment.references.items()
            if panel in known.numbers
        },
    }


def _cell_data(value: Any, cell: Cell) -> dict[str, Any]:
    if not cell.errors:
        return {"value": float(value), "runs": 0, "refused": cell.refused}
    median = cell.median
    return {
        "value": float(value),
        "runs": len(cell.errors),
        "median": median.value,
        "low": median.low,
        "high": median.high,
        "abstained": sum(map(math.isinf, cell.errors)),
    }


# --- the verdict --------------------------------------------------------------------------------


def verdict(
    study: Study,
    parts: Mapping[str, UnitFinished],
    judged: Sequence[Judged],
    seen: Mapping[str, str],
    invalid: str = "",
) -> UnitFinished:
    """Return the verdict on the orders and their planted faults, or why none can be given."""
    seconds = sum(part.seconds for part in parts.values())
    if invalid:
        return UnitFinished(
            EXPERIMENT, study.key, Outcome.INVALID, "INVALID", invalid, (), study.replay, seconds
        )
    findings = [one.finding for one in judged]
    if Finding.REFUTED in findings:
        outcome = Outcome.REFUTED
    else:
        held = Finding.OPEN not in findings and all(seen.values())
        outcome = Outcome.HELD if held else Outcome.POWERLESS
    summary = (
        f"{findings.count(Finding.SHOWN)}/{len(findings)} orders shown, "
        f"{sum(map(bool, seen.values()))}/{len(seen)} planted faults caught{_left_out(study)}"
    )
    return UnitFinished(
        EXPERIMENT,
        study.key,
        outcome,
        str(outcome).upper(),
        summary,
        _details(study, judged, seen),
        study.replay,
        seconds,
        _verdict_data(study, judged, seen),
    )


def _left_out(study: Study) -> str:
    """Describe what a quick run leaves out."""
    named = (
        (kind, [str(name) for name in getattr(study.whole, kind) if name not in kept])
        for kind in ("panels", "values", "methods")
        for kept in (list(getattr(study.experiment, kind)),)
    )
    parts = [f"{kind} {' | '.join(names)}" for kind, names in named if names]
    return f"; left out by --quick: {'; '.join(parts)}" if parts else ""


def _details(study: Study, judged: Sequence[Judged], seen: Mapping[str, str]) -> tuple[str, ...]:
    """List the comparisons, a line for each order and panel, the faults that were not seen, and
    the sources of numbers.
    """
    experiment = study.experiment
    lines = [
        f"every mechanism is {experiment.guarantee} under {experiment.adjacency}, by its claim"
    ]
    for one in judged:
        wins, runs = (sum(cell[i] for cell in one.cells) for i in (1, 2))
        least, at = min((won, experiment.values[index]) for index, won, _ in one.cells)
        lines.append(
            f"{one.finding.value:<8} {one.order} in {one.panel}: {wins} of {runs} runs, at least "
            f"{least} (at {experiment.variable} = {at})"
        )
    lines += [f"missed fault: {_fault(experiment, name)}" for name, by in seen.items() if not by]
    lines += [f"caught fault: {_fault(experiment, name)}, {by}" for name, by in seen.items() if by]
    return (*lines, *(f"{name}: {one.source}" for name, one in experiment.references.items()))


def _fault(experiment: Experiment, name: str) -> str:
    order = next(one for one in experiment.orders if one.name == name)
    return f"{order.fault.name} in {order.faulty}, against {name!r}"


def _verdict_data(
    study: Study, judged: Sequence[Judged], seen: Mapping[str, str]
) -> dict[str, Any]:
    experiment = study.experiment
    return {
        "variable": experiment.variable,
        "guarantee": str(experiment.guarantee),
        "adjacency": str(experiment.adjacency),
        "source": experiment.source,
        "seed": study.seed,
        "alpha": study.alpha,
        "repeats": experiment.repeats,
        "panels": list(experiment.panels),
        "left_out": _left_out(study),
        "orders": [
            {
                "order": one.order,
                "panel": one.panel,
                "finding": one.finding.value,
                "cells": [
                    {"value": float(experiment.values[index]), "won": won, "runs": runs}
                    for index, won, runs in one.cells
                ],
            }
            for one in judged
        ],
        "faults": [{"order": name, "caught": bool(by), "by": by} for name, by in seen.items()],
        "references": {name: one.source for name, one in experiment.references.items()},
    }
