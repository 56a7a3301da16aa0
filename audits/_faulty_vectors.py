"""Planted faults in queries of vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify.grid import NOTHING, Records, Transcripts, VectorQuery, View
from dpverify.privacy import Adjacency, Derivation, Domain, Sensitivity

Value = Callable[[Records], Any]


@dataclass(frozen=True, slots=True)
class Faulty(VectorQuery):
    """A query with another value of the same records, and without a proved sensitivity."""

    base: VectorQuery
    value: Value

    @property
    def width(self) -> int:
        """Number of columns, as for the right query."""
        return self.base.width

    def largest(self, rows: int) -> int:
        """Bound the faulty values: within eight times the right bound."""
        return 8 * self.base.largest(rows)

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> NDArray[np.int64]:
        """Compute the faulty value."""
        return np.asarray(self.value(view.records), np.int64)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Refuse: a planted fault has no proved sensitivity."""
        raise ValueError("a planted fault has no proved sensitivity")
