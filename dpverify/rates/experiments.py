"""Experiments: several methods on the same data, over a grid of public settings, at one guarantee.

Plain data, like a claim. ``comparing`` measures it and judges its orders; nothing here reads a
spec.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import numpy as np

from dpverify.plans import Mechanism
from dpverify.privacy import Adjacency, Guarantee
from dpverify.privacy.numbers import Floats
from dpverify.randomness import Bits
from dpverify.rates.claims import RateFault, Setting

FEWEST_RUNS = 6
"""Fewest runs of a cell: with fewer the median has no interval of 95%."""


@dataclass(frozen=True, slots=True)
class Constant:
    """Baseline that is shown no data, so that its privacy is trivial. value: of a setting."""

    value: Callable[[Setting], Any]


@dataclass(frozen=True, slots=True)
class NotPrivate:
    """Baseline with no privacy at all. value: of (setting, records)."""

    value: Callable[[Setting, Floats], Any]


@dataclass(frozen=True, slots=True)
class Refuted:
    """Published method whose claim of privacy is false, so that no guarantee is checked.

    value: of (setting, records, bits); all its randomness is from the bits.
    """

    value: Callable[[Setting, Floats, Bits], Any]


Maker = Callable[[Setting], Mechanism[Any]]
"""Function that makes a mechanism, or raises ValueError where a setting does not suit it (too
few records, say).
"""
Baseline = Constant | NotPrivate | Refuted
Method = Maker | Baseline


@dataclass(frozen=True, slots=True)
class Drawn:
    """One dataset, shape (n, d), and the truth about it that the error needs."""

    records: Floats
    truth: Any


@dataclass(frozen=True, slots=True)
class Reference:
    """Errors that others have measured, by panel and value, shown beside ours as something to
    beat.

    A number is taken as it is, without sampling error.
    """

    numbers: Mapping[str, Mapping[Any, float]]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Claimed order: in each of these cells the better one has the smaller error in most runs.

    better, worse: methods or references. where: values by panel; each panel is a comparison of
    its own. fault: the fault of the method ``faulty`` with which the order has to be refuted;
    else the verdict is POWERLESS.
    """

    better: str
    worse: str
    where: Mapping[str, Sequence[Any]]
    faulty: str
    fault: RateFault

    @property
    def name(self) -> str:
        """Name for people, unique in an experiment."""
        return f"{self.better} below {self.worse}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quick:
    """Parts of an experiment that a quick run keeps."""

    panels: Sequence[str]
    values: Sequence[Any]
    methods: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Methods at one guarantee, their errors against ``variable`` in panels. An unfair
    experiment is refused.

    methods: by name. panels: what is fixed in each, by name; ``n`` is there, or is the
    variable. draw: of (setting, generator), the dataset of a run, the same one for all methods.
    error: of (value, truth), the ``value`` of a mechanism's estimate or what a baseline gives;
    it may be negative (an excess). guarantee, adjacency: every mechanism's claim. repeats: runs
    in each cell. quick: None for everything.
    """

    name: str
    methods: Mapping[str, Method]
    panels: Mapping[str, Setting]
    variable: str
    values: Sequence[Any]
    draw: Callable[[Setting, np.random.Generator], Drawn]
    error: Callable[[Any, Any], float]
    guarantee: Guarantee
    adjacency: Adjacency
    source: str
    references: Mapping[str, Reference] = field(default_factory=dict)
    orders: Sequence[Order] = ()
    quick: Quick | None = None
    repeats: int = 20

    def __post_init__(self) -> None:
        self._check_grid()
        if self.repeats < FEWEST_RUNS:
            raise ValueError(
                f"{self.name}: repeats = {self.repeats}; the median of fewer than {FEWEST_RUNS} "
                "runs has no interval. Give 20 or more."
            )
        if not any(map(is_private, self.methods.values())):
            raise ValueError(f"{self.name}: no method is a mechanism; there is nothing to compare.")
        if both := set(self.methods) & set(self.references):
            raise ValueError(f"{self.name}: {min(both)!r} is a method and a reference; rename one.")
        for reference in self.references.values():
            for panel, numbers in reference.numbers.items():
                self._check_cells(panel, list(numbers), "a reference")
        for order in self.orders:
            self._check_order(order)
        names = [order.name for order in self.orders]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"{self.name}: the orders are {names}; give one or more, none twice.")
        if self.quick is not None:
            self._check_quick(self.quick)

    def _check_grid(self) -> None:
        if not self.panels or not self.values or len(set(self.values)) < len(self.values):
            raise ValueError(
                f"{self.name}: {len(self.panels)} panels and the values {list(self.values)} of "
                f"{self.variable}; give at least one of both, none twice."
            )
        if not all(isinstance(value, Real) for value in self.values):
            raise ValueError(f"{self.name}: {list(self.values)} are not all numbers; give some.")
        for name, setting in self.panels.items():
            if self.variable in setting or "n" not in {self.variable, *setting}:
                raise ValueError(
                    f"{self.name}: the panel {name!r} fixes {sorted(setting)}; it must fix n, and "
                    f"not {self.variable}, which runs."
                )

    def _check_cells(self, panel: str, values: Sequence[Any], what: str) -> None:
        if panel not in self.panels or not values or not set(values) <= set(self.values):
            raise ValueError(
                f"{self.name}: {what} is about {panel!r} at {list(values)}; there are the panels "
                f"{list(self.panels)} and the values {list(self.values)}."
            )

    def _check_order(self, order: Order) -> None:
        known = {*self.methods, *self.references}
        if order.better == order.worse or not {order.better, order.worse} <= known:
            raise ValueError(f"{self.name}: {order.name!r} is not about two of {sorted(known)}.")
        faulty = self.methods.get(order.faulty)
        if order.faulty not in (order.better, order.worse) or not is_private(faulty):
            raise ValueError(
                f"{self.name}: the planted fault of {order.name!r} is one of {order.faulty!r}; "
                "plant it in a mechanism that the order is about, lest it could never be refuted."
            )
        if not order.where:
            raise ValueError(f"{self.name}: {order.name!r} is about no panel; say where.")
        for panel, values in order.where.items():
            self._check_cells(panel, values, repr(order.name))
            for side in (order.better, order.worse):
                given = self.references[side].numbers if side in self.references else None
                if given is not None and not set(values) <= set(given.get(panel, ())):
                    raise ValueError(f"{self.name}: {side!r} has no number for all of {panel!r}.")

    def _check_quick(self, quick: Quick) -> None:
        for panel in quick.panels:
            self._check_cells(panel, quick.values, "the quick part")
        if not set(quick.methods) <= set(self.methods):
            raise ValueError(
                f"{self.name}: quick methods {list(quick.methods)}; there are {list(self.methods)}."
            )
        if not _kept(self, quick):
            raise ValueError(f"{self.name}: a quick run judges no order; keep the cells of one.")

    @property
    def comparisons(self) -> int:
        """Number of comparisons that a verdict rests on: one for each panel of an order."""
        return sum(len(order.where) for order in self.orders)

    def at(self, panel: str, index: int) -> dict[str, Any]:
        """Return the setting of a cell."""
        return {**self.panels[panel], self.variable: self.values[index]}

    def reduced(self) -> Experiment:
        """Return the experiment as a quick run does it."""
        quick = self.quick
        if quick is None:
            return self
        references = {
            name: replace(one, numbers=_within(one.numbers, quick))
            for name, one in self.references.items()
        }
        return replace(
            self,
            methods={name: self.methods[name] for name in quick.methods},
            panels={name: self.panels[name] for name in quick.panels},
            values=quick.values,
            references=references,
            orders=_kept(self, quick),
            quick=None,
        )


def is_private(method: Method | None) -> bool:
    """Return whether a method is a mechanism, which has a claim; baselines have none."""
    return method is not None and not isinstance(method, Baseline)


def _within(cells: Mapping[str, Mapping[Any, float]], quick: Quick) -> dict[str, dict[Any, float]]:
    """Return the cells of a quick run; panels with none are left out."""
    kept = {
        panel: {value: number for value, number in cells[panel].items() if value in quick.values}
        for panel in quick.panels
        if panel in cells
    }
    return {panel: numbers for panel, numbers in kept.items() if numbers}


def _kept(experiment: Experiment, quick: Quick) -> tuple[Order, ...]:
    """Return the orders of which a quick run keeps something, reduced to that."""
    known, orders = {*quick.methods, *experiment.references}, list[Order]()
    for order in experiment.orders:
        where = {
            panel: [value for value in order.where[panel] if value in quick.values]
            for panel in quick.panels
            if panel in order.where
        }
        where = {panel: values for panel, values in where.items() if values}
        if where and {order.better, order.worse} <= known:
            orders.append(replace(order, where=where))
    return tuple(orders)
