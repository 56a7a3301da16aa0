"""Planted faults in queries of mapped records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from dpverify.grid.nearness import Nearness
from dpverify.plans import Transcripts
from dpverify.plans.mapped import Mapped
from dpverify.plans.moving import MovingQuery
from dpverify.privacy import Adjacency, Derivation, Domain, Sensitivity
from dpverify.randomness.bits import IntArray

Value = Callable[[Any, Mapped, Transcripts], Any]
"""From the right query, the mapped records and what was released to another value."""


@dataclass(frozen=True, slots=True)
class Faulty(MovingQuery):
    """Another value after the same transcript; it has no sensitivity that anybody has proved."""

    nearness: Nearness
    base: MovingQuery
    value: Value
    columns: int

    @classmethod
    def of(cls, base: Any, value: Value, columns: int | None = None) -> Self:
        """In place of ``base``; of as many columns unless said otherwise."""
        return cls(base.nearness, base, value, base.width if columns is None else columns)

    @property
    def width(self) -> int:
        """Of the value."""
        return self.columns

    def after(self, mapped: Mapped, batch: Transcripts) -> IntArray:
        """The faulty value."""
        return np.asarray(self.value(self.base, mapped, batch))

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """None."""
        raise ValueError("a planted fault has no proved sensitivity")
