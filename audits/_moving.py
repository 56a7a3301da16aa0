"""Planted faults in queries of mapped records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from dpverify.grid import NOTHING, Query, Transcripts, View
from dpverify.privacy import Adjacency, Derivation, Domain, Sensitivity
from dpverify.randomness.bits import IntArray

Value = Callable[[Any, View, Transcripts], Any]
"""Function from the right query, its view of the records and the released values to another
value."""


@dataclass(frozen=True, slots=True)
class Faulty(Query):
    """A query with another value after the same transcript, and without a proved sensitivity."""

    base: Query
    value: Value
    columns: int
    reading: tuple[str, ...]

    @classmethod
    def of(cls, base: Any, value: Value, columns: int | None = None, *reading: str) -> Self:
        """Replace the value of ``base``, with as many columns unless given.

        reading: stages that are read besides those of ``base``.
        """
        return cls(base, value, base.width if columns is None else columns, (*base.reads, *reading))

    @property
    def width(self) -> int:
        """Number of columns of the faulty value."""
        return self.columns

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the stages that are read: those of the right query, and any added ones."""
        return self.reading

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> IntArray:
        """Compute the faulty value."""
        return np.asarray(self.value(self.base, view, before))

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Refuse: a planted fault has no proved sensitivity."""
        raise ValueError("a planted fault has no proved sensitivity")
