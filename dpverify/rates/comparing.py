"""Measurement of an experiment: the errors of a method in a cell, and the evidence on an order.

All methods of a cell have the same datasets, so they are compared run by run, by a sign test:
where the better one has the smaller error in at least half of all runs that could be made, its
wins among N runs are at least binomial(N, 1/2), whatever the laws of the errors. An order is
*shown* in a panel when in each cell the exact 95% interval of the share of wins is above 1/2;
*refuted* when all cells of the panel together have so few wins as chance gives with probability
alpha at most; and open otherwise. (Intervals of 20 runs a cell would never be as sure as alpha:
even all 20 lost have probability 1e-6.) A true order is refuted with probability at most alpha,
and an order that is false in a cell is shown with probability at most 1/40.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from dpverify.plans import Abstained, Mechanism
from dpverify.privacy import Adjacency, Status
from dpverify.randomness import SeededBits
from dpverify.rates.claims import RateFault
from dpverify.rates.experiments import (
    Baseline,
    Constant,
    Experiment,
    NotPrivate,
    Order,
    Refuted,
    is_private,
)
from dpverify.rates.judging import Finding
from dpverify.rates.measuring import SHOWN_ALPHA, words
from dpverify.rates.metrics import Interval, order_statistics

Errors = Callable[[str, str, int], Sequence[float]]
"""Errors of a method or reference in a cell, by (name, panel, index); none where it refuses."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Errors of a method's runs, infinite where it abstained; none, and the reason, where it
    refuses.
    """

    errors: tuple[float, ...]
    refused: str = ""

    @property
    def median(self) -> Interval:
        """Median, with order statistics that contain it with probability 95% or more; of equal
        errors, these.
        """
        if len(set(self.errors)) == 1:
            return Interval(self.errors[0], self.errors[0], self.errors[0])
        return order_statistics(np.array(self.errors), 0.5, SHOWN_ALPHA, least=-math.inf)


@dataclass(frozen=True, slots=True)
class Judged:
    """Result of an order in one panel: (value's index, runs won, runs) of its cells, and its
    finding.
    """

    order: str
    panel: str
    cells: tuple[tuple[int, int, int], ...]
    finding: Finding


def measure_cell(
    experiment: Experiment,
    panel: str,
    index: int,
    name: str,
    *,
    seed: int,
    fault: RateFault | None = None,
) -> Cell:
    """Measure the errors of a method's runs. A planted fault changes the law, or the estimate.

    The data depend on the seed, the cell and the run, and not on the method. Raises ValueError
    for a mechanism whose guarantee is not the experiment's, and for an error that is NaN.
    """
    setting, method = experiment.at(panel, index), experiment.methods[name]
    made: Mechanism[object] | str = ""
    if not isinstance(method, Baseline):
        made = made_for(experiment, name, panel, index)
        if isinstance(made, str):
            return Cell((), made)
    cell, errors = words(f"{panel} {experiment.values[index]}"), list[float]()
    for run in range(experiment.repeats):
        drawn = experiment.draw(setting, np.random.default_rng([seed, *cell, run]))
        who = words(name if fault is None else f"{name}, {fault.name}")
        bits = SeededBits(seed, *cell, *who, run)
        if isinstance(method, Constant):
            value = method.value(setting)
        elif isinstance(method, NotPrivate):
            value = method.value(setting, drawn.records)
        elif isinstance(method, Refuted):
            value = method.value(setting, drawn.records, bits)
        else:
            assert isinstance(made, Mechanism)
            value = _released(made, drawn.records, bits, fault, experiment.values[index])
        error = math.inf if isinstance(value, Abstained) else experiment.error(value, drawn.truth)
        if math.isnan(error):
            raise ValueError(f"{experiment.name}: an error of {name} at {setting} is NaN.")
        errors.append(float(error))
    return Cell(tuple(errors))


def made_for(experiment: Experiment, name: str, panel: str, index: int) -> Mechanism[object] | str:
    """Return the mechanism of a cell, its guarantee checked; or why it refuses the setting
    (public facts).
    """
    setting, method = experiment.at(panel, index), experiment.methods[name]
    assert not isinstance(method, Baseline)
    try:
        made = method(setting)
    except ValueError as refused:
        return str(refused)
    claim = made.claim
    wanted = (experiment.guarantee, experiment.adjacency, Status.PROVED)
    if (claim.guarantee, claim.adjacency, claim.status) != wanted:
        raise ValueError(
            f"{experiment.name}: {name} is {claim.guarantee} under {claim.adjacency} "
            f"({claim.status}), and the experiment is about {experiment.guarantee} under "
            f"{experiment.adjacency} (proved); compare methods at one guarantee."
        )
    if made.adjacency is Adjacency.REPLACE and setting["n"] < made.fewest_records():
        return f"it needs at least {made.fewest_records()} records"
    return made


def check_methods(experiment: Experiment, expected: type[Mechanism[object]]) -> None:
    """Check, before anything is measured, that every mechanism, in the first cell that it
    takes, has the guarantee.

    Raises ValueError, also where one takes no cell at all, and where none is of the expected class.
    """
    kinds = set[type]()
    cells = [(panel, i) for panel in experiment.panels for i in range(len(experiment.values))]
    for name in (name for name, method in experiment.methods.items() if is_private(method)):
        made, refused = None, ""
        for panel, index in cells:
            made = made_for(experiment, name, panel, index)
            if not isinstance(made, str):
                break
            refused = made
        else:
            raise ValueError(f"{experiment.name}: {name} refuses every cell: {refused}")
        kinds.add(type(made))
    if expected not in kinds:
        raise ValueError(
            f"{experiment.name}: no method is a {expected.__name__}; compare it with others."
        )


def _released(
    mechanism: Mechanism[object],
    records: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    bits: SeededBits,
    fault: RateFault | None,
    at: object,
) -> object:
    """Return the value of one estimate, or an abstention; at: the value of the variable."""
    if fault is None or fault.law is None:
        law = mechanism.law(records)
    else:
        law = fault.law(mechanism, records, at)
    transcript = law.sample(bits, 1)[0]
    if fault is None or fault.estimate is None:
        estimate = mechanism.estimate(transcript)
    else:
        estimate = fault.estimate(mechanism, transcript)
    return (
        estimate  # an abstention has no value
        if isinstance(estimate, Abstained)
        else estimate.value  # type: ignore[attr-defined]
    )


def judge_order(
    experiment: Experiment, order: Order, panel: str, errors: Errors, alpha: float
) -> Judged:
    """Judge one panel of an order, by the sign test above. A tie is no win; where one of the
    two refuses, nothing is shown.
    """
    cells = list[tuple[int, int, int]]()
    for index in [list(experiment.values).index(value) for value in order.where[panel]]:
        sides = [errors(name, panel, index) for name in (order.better, order.worse)]
        runs = list(zip(*sides, strict=True)) if all(sides) else []
        cells.append((index, sum(a < b for a, b in runs), len(runs)))
    wins, total = (sum(cell[i] for cell in cells) for i in (1, 2))
    if scipy.stats.binom.cdf(wins, total, 0.5) <= alpha:
        finding = Finding.REFUTED
    elif all(scipy.stats.binom.sf(won - 1, n, 0.5) <= SHOWN_ALPHA / 2 for _, won, n in cells):
        finding = Finding.SHOWN
    else:
        finding = Finding.OPEN
    return Judged(order.name, panel, tuple(cells), finding)
