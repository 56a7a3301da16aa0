"""Sums of a record's step and of its square between released edges: two clipped or masked moments
under one noise.

A record is only compared with edges, as in ``steps``. What the maps are, on rationals, and the
proof of the sensitivity are in spec/theory/steps.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpverify.grid.linear import Integers
from dpverify.grid.steps import Outside, Steps
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.hypotheses import Quantity
from dpverify.privacy.numbers import settle, whole
from dpverify.privacy.rules import sensitivity_lemma

_MOST_CELLS = 1 << 14  # squares of fewer than 2^35 records are 63-bit integers
_LARGEST_FACTOR = 1 << 32
_SHAPE = ("turn", "linear", "square", "offset")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMoments(Steps):
    """The sums over records of linear clip(s, +-turn) and square (s^2 - offset), s = 2 z - cells,
    and weight times their number.

    The sensitivity is the same for all edges. With weight 0 the number is left out.
    """

    turn: int
    linear: int
    square: int
    offset: int = 0

    def __post_init__(self) -> None:
        Steps.__post_init__(self)
        for name in _SHAPE:
            settle(self, **{name: whole(getattr(self, name), name)})
        if not (self.cells <= _MOST_CELLS and 1 <= self.turn <= self.cells):
            raise ValueError(
                f"cells = {self.cells}, turn = {self.turn}; give up to 2^14 cells, and a turn "
                "from 1 to these."
            )
        factors = self.linear, self.square, self.weight
        if not 0 <= self.offset <= self.cells**2 or not all(
            0 <= factor <= _LARGEST_FACTOR for factor in factors
        ):
            raise ValueError(
                f"offset = {self.offset}, linear, square and weight = {factors}; give an offset "
                "from 0 to cells^2 and factors from 0 to 2^32."
            )

    @property
    def width(self) -> int:
        """Number of released integers: the two sums, and the number of records if it has a
        weight.
        """
        return 2 + bool(self.weight)

    def largest(self, rows: int) -> int:
        """Return the most that so many records add to a sum, for each."""
        return rows * max(self.linear * self.turn, self.square * self.cells**2, self.weight)

    def of_counts(self, counts: Integers) -> list[int]:
        """Return the sums exactly: at most 2^28 for each record before the factors, which are
        Python's integers.
        """
        s = 2 * np.arange(self.cells + 1) - self.cells
        number = int(counts.sum())
        first = int((counts * np.clip(s, -self.turn, self.turn)).sum())
        second = int((counts * s * s).sum()) - self.offset * number
        own = [self.linear * first, self.square * second]
        return [*own, self.weight * number] if self.weight else own

    def moved(self, adjacency: Adjacency) -> int:
        """Return the squared L2 sensitivity, which is the same for all edges."""
        shape = self.turn, self.linear, self.square, self.offset
        return moved_squared(self.cells, *shape, self.weight, self.outside, adjacency)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the largest squared length of what a record adds, or of what two add,
        subtracted.
        """
        if domain.columns != 1:
            raise ValueError(f"{domain}, for steps of one column.")
        return sensitivity_lemma(
            Quantity.of(
                f"the sums of {self.linear} clip(s, {self.turn}), {self.square} (s^2 - "
                f"{self.offset}) and {self.weight}, s one of {self.cells} steps of each record "
                f"({self.outside})",
                "StepMoments",
                cells=self.cells,
                weight=self.weight,
                outside=self.outside,
                **{name: getattr(self, name) for name in _SHAPE},
            ),
            norm=Norm.SQUARED_L2,
            value=self.moved(adjacency),
            adjacency=adjacency,
            domain=domain,
            obligation="theory/steps.py:obligation_step_moments",
            source=Source("OURS", "two moments of steps between released edges"),
        )


@lru_cache(maxsize=64)
def moved_squared(
    cells: int,
    turn: int,
    linear: int,
    square: int,
    offset: int,
    weight: int,
    outside: Outside,
    adjacency: Adjacency,
) -> int:
    """Compute the squared L2 sensitivity over all steps. Source: spec/theory/steps.py, which has
    the proof.

    replace, both counted: one at the upper end, the other anywhere. add-remove, and for a mask one
    that counts nowhere: a record at any step.
    """
    steps = range(-cells, cells + 1, 2)
    one = max(
        (linear * min(max(s, -turn), turn)) ** 2 + (square * (s * s - offset)) ** 2 for s in steps
    )
    if adjacency is Adjacency.ADD_REMOVE:
        return one + weight**2
    two = max(
        (linear * (turn - min(max(s, -turn), turn))) ** 2 + (square * (cells**2 - s * s)) ** 2
        for s in steps
    )
    return two if outside == "clip" else max(two, one + weight**2)
