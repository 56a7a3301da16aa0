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
"""From the right query, what it sees of the records and what was released to another value."""


@dataclass(frozen=True, slots=True)
class Faulty(Query):
    """Another value after the same transcript; it has no sensitivity that anybody has proved."""

    base: Query
    value: Value
    columns: int
    reading: tuple[str, ...]

    @classmethod
    def of(cls, base: Any, value: Value, columns: int | None = None, *reading: str) -> Self:
        """In place of ``base``; of as many columns unless said otherwise. reading: stages besides those of the base."""
        return cls(base, value, base.width if columns is None else columns, (*base.reads, *reading))

    @property
    def width(self) -> int:
        """Of the value."""
        return self.columns

    @property
    def reads(self) -> tuple[str, ...]:
        """What the right query reads, and what else was said."""
        return self.reading

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> IntArray:
        """The faulty value."""
        return np.asarray(self.value(self.base, view, before))

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """None."""
        raise ValueError("a planted fault has no proved sensitivity")
