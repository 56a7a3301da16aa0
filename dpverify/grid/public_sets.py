"""Public sets of integer vectors that a masked sum counts records in: between two planes, in a
ball, outside of a ball.

Whether a vector belongs to a set is decided in integers and from that vector alone, so a mask stays
a function of each record. What the sets are, on rationals, is in spec/theory/public_sets.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.linear import WORD, Integers, check_word_budget, matmul, squared_norms
from dpverify.grid.vectors import Vector
from dpverify.privacy.numbers import settle, whole


@dataclass(frozen=True, slots=True)
class Slab:
    """Vectors z with low <= <normal, z> <= high; None for no such plane, so that a half-space has
    one.

    Raises TypeError or ValueError for what is not of integers, and for a normal of zeros.
    """

    normal: Vector
    low: int | None
    high: int | None

    def __post_init__(self) -> None:
        settle(self, normal=_vector(self.normal, "normal"))
        if not any(self.normal):
            raise ValueError("normal: all its numbers are 0; a plane needs a direction.")
        for name in ("low", "high"):
            if (end := getattr(self, name)) is not None:
                settle(self, **{name: whole(end, name)})

    def holds(self, rows: Integers) -> NDArray[np.bool_]:
        """Say which rows are in the set, shape (n,)."""
        sides = matmul(rows, np.array(self.normal, np.int64)[:, np.newaxis])[:, 0]
        inside = np.ones(len(rows), np.bool_)
        if self.high is not None:
            inside &= at_most(sides, self.high)
        if self.low is not None:
            inside &= ~at_most(sides, self.low - 1)
        return inside


@dataclass(frozen=True, slots=True)
class Round:
    """Vectors z with |z - center| <= radius; with ``outside``, all the others.

    Raises TypeError or ValueError for what is not of integers, and for a negative radius.
    """

    center: Vector
    radius: int
    outside: bool = False

    def __post_init__(self) -> None:
        settle(self, center=_vector(self.center, "center"), radius=whole(self.radius, "radius"))
        if self.radius < 0:
            raise ValueError(f"radius = {self.radius} is negative; give a number of cells.")

    def holds(self, rows: Integers) -> NDArray[np.bool_]:
        """Say which rows are in the set, shape (n,)."""
        near = at_most(squared_norms(rows - np.array(self.center, np.int64)), self.radius**2)
        return ~near if self.outside else near


PublicSet = Slab | Round
"""Public set to which a masked sum may restrict the records it counts."""


def at_most(values: Integers, bound: int) -> NDArray[np.bool_]:
    """Say which integers are at most the bound, which may be beyond all words."""
    if values.dtype != object:  # such values are below 2^62
        bound = min(max(bound, -WORD), WORD)
    return np.asarray(values <= bound, dtype=np.bool_)


def _vector(values: Any, name: str) -> Vector:
    vector = tuple(whole(value, name) for value in values)
    check_word_budget(max(map(abs, vector), default=0), name, 1 << 48)
    return vector
