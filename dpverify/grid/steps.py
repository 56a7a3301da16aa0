"""Sums of a public step function of each record, whose steps were released: a statistic in
cells of an interval.

A record is only compared with edges, which is exact: what it adds is a function of the record
alone, wherever it stands, and no power or logarithm is taken of data. What the maps are, on
rationals, is in spec/theory/steps.py.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpverify.grid.linear import WORD, Integers
from dpverify.grid.transcripts import NOTHING, Released, Transcripts
from dpverify.grid.vector_queries import VectorQuery
from dpverify.grid.views import View
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.hypotheses import Quantity
from dpverify.privacy.numbers import Floats, settle, whole
from dpverify.privacy.rules import sensitivity_lemma

Outside = Literal["clip", "mask"]
_MOST_CELLS = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps(VectorQuery):
    """Integers that follow from how many records have each step z from 0 to ``cells``; its
    kinds say which.

    z is how many of a row of ``cells`` edges are at most the record. outside="mask": a row has
    two more, one at either end, and records below the first or from the last on count nowhere.
    edges: different rows of increasing floats, and which of them each draw has, shape (size,).
    weight: of the number of records that count; 0 leaves it out. center: distances from it are
    compared in place of records. One bound holds for all edges.
    """

    adds_up = True
    cells: int
    edges: Released[tuple[Floats, Integers]]
    outside: Outside = "clip"
    weight: int = 0
    center: float | None = None

    def __post_init__(self) -> None:
        settle(self, cells=whole(self.cells, "cells"), weight=whole(self.weight, "weight"))
        if not 1 <= self.cells <= _MOST_CELLS or self.weight < 0:
            raise ValueError(
                f"cells = {self.cells}, weight = {self.weight}; give from 1 to 2^20 cells and a "
                "weight of 0 or more."
            )
        if self.outside not in ("clip", "mask"):
            raise ValueError(f"outside = {self.outside!r}; write 'clip' or 'mask'.")

    @abstractmethod
    def of_counts(self, counts: Integers) -> list[int]:
        """Return what is released of the number of records with each z, shape (cells + 1,)."""

    @property
    def in_any_order(self) -> bool:
        """True: sums of integers do not depend on the order."""
        return True

    @property
    def reads(self) -> tuple[str, ...]:
        """Stages that the edges follow from."""
        return self.edges.reads

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> Integers:
        """Return the value, shape (size, width), exact for every n. Raises ValueError for edges
        of another shape or order.
        """
        rows, which = self.edges(before)
        count = self.cells + 2 * (self.outside == "mask")
        plain = (
            type(rows) is np.ndarray and rows.dtype == np.float64
        )  # otherwise foreign code would compare records
        rising = plain and rows.shape[1:] == (count,) and bool((rows[:, 1:] >= rows[:, :-1]).all())
        if not rising or which.shape != (len(before),):
            raise ValueError(
                f"edges of shape {rows.shape} and {which.shape} were released for {len(before)} "
                f"draws; give {count} float64 in increasing order in a row, and one number for "
                "each draw."
            )
        kind = np.int64 if self.largest(len(view)) < WORD else object
        values = np.array([self._value(row, view) for row in rows], kind)
        return np.asarray(values[which])

    def _value(self, row: Floats, view: View) -> list[int]:
        key = (Steps, row.tobytes(), self.outside, self.center)
        counts = view.once(key, lambda: self._counts(row, view))
        return self.of_counts(counts[1:-1] if self.outside == "mask" else counts)

    def _counts(self, row: Floats, view: View) -> Integers:
        """Return how many records have how many edges at or below them; few records are looked
        up in the edges, else edges in the records.
        """
        if len(view) < len(row):
            own = np.searchsorted(row, self._distances(view), side="right")
            return np.bincount(own, minlength=len(row) + 1)
        ordered = view.once((Steps, self.center), lambda: np.sort(self._distances(view)))
        below = np.searchsorted(ordered, row, side="left")  # how many are less than each edge
        return np.diff(below, prepend=0, append=len(ordered))

    def _distances(self, view: View) -> Floats:
        values = view.records[:, 0]
        if self.center is None:
            return values
        with np.errstate(over="ignore"):  # an overflow is beyond all edges
            return np.abs(values - self.center)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSums(Steps):
    """The sum over records of 2 z - cells; with a ``weight``, that many times their number last."""

    @property
    def width(self) -> int:
        """Number of released integers: the sum, and the number of records if it has a weight."""
        return 1 + bool(self.weight)

    @property
    def alike(self) -> bool:
        """True if all records add the same, so that their order cannot matter."""
        return self.edges is _ALL and self.outside == "clip"

    def largest(self, rows: int) -> int:
        """Return all cells, or the weight, for each record."""
        return rows * max(self.cells, self.weight)

    def of_counts(self, counts: Integers) -> list[int]:
        """Return the sum, which is below 2^20 for each of fewer than 2^42 records."""
        z = 2 * np.arange(self.cells + 1) - self.cells
        number = [self.weight * int(counts.sum())] if self.weight else []
        return [int((counts * z).sum()), *number]

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the squared sensitivity. Add-remove cells^2 + weight^2; replace 4 cells^2, and
        for a mask at least what add-remove has.
        """
        if domain.columns != 1:
            raise ValueError(f"{domain}, for steps of one column.")
        words = (
            f"the sum of {self.cells} steps of each record from -1 to 1 times that ({self.outside})"
        )
        return sensitivity_lemma(
            Quantity.of(
                words + f", with {self.weight} times their number" * bool(self.weight),
                "StepSums",
                cells=self.cells,
                weight=self.weight,
                outside=self.outside,
            ),
            norm=Norm.SQUARED_L2,
            value=moved_squared(self.cells, self.weight, self.outside, adjacency),
            adjacency=adjacency,
            domain=domain,
            obligation="theory/steps.py:obligation_step_sums",
            source=Source("OURS", "sums of steps between released edges"),
        )


_LEAST = -1.7976931348623157e308
_ALL = Released((), lambda before: (np.full((1, 1), _LEAST), np.zeros(len(before), np.intp)))


def number_of_records() -> StepSums:
    """Give the query of how many records there are, as one step that all of them take: for
    noise of any scale in its unit.
    """
    return StepSums(cells=1, edges=_ALL)


def moved_squared(cells: int, weight: int, outside: Outside, adjacency: Adjacency) -> int:
    """Compute the squared L2 sensitivity. Source: spec/theory/steps.py."""
    one = cells**2 + weight**2
    if adjacency is Adjacency.ADD_REMOVE:
        return one
    return 4 * cells**2 if outside == "clip" else max(4 * cells**2, one)
