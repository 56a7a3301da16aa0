"""Sums and the number of records in one value, so that one noise pays for both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.coordinates import ScaledSum
from dpverify.grid.linear import WORD
from dpverify.grid.queries import Query
from dpverify.grid.transcripts import NOTHING, Transcripts
from dpverify.grid.vector_queries import ReleasedSum, VectorQuery, VectorSum
from dpverify.grid.views import View
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.calibration import least_integer
from dpverify.privacy.hypotheses import Quantity
from dpverify.privacy.numbers import settle, whole
from dpverify.privacy.rules import sensitivity_lemma


@dataclass(frozen=True, slots=True)
class WithCount(VectorQuery):
    """A clipped sum, and as its last coordinate ``weight`` times the number of all records."""

    adds_up = True
    query: VectorSum | ReleasedSum | ScaledSum
    weight: int

    def __post_init__(self) -> None:
        if not isinstance(self.query, (VectorSum, ReleasedSum, ScaledSum)):
            raise TypeError(
                f"query: a {type(self.query).__name__}; give a VectorSum or a ScaledSum."
            )
        settle(self, weight=whole(self.weight, "weight"))
        if self.weight < 1:
            raise ValueError(f"weight = {self.weight}; the count needs a weight of at least 1.")

    @property
    def width(self) -> int:
        """Number of released integers: one more than the sum's."""
        return self.query.width + 1

    def largest(self, rows: int) -> int:
        """Return the larger of the two bounds."""
        return max(self.query.largest(rows), self.weight * rows)

    @property
    def reads(self) -> tuple[str, ...]:
        """Stages that the sum reads."""
        return self.query.reads

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> NDArray[Any]:
        """Return the sum with the count, shape (width,), or (size, width) for a sum that reads;
        exact for every n.
        """
        total = self.query.evaluate(view, before)
        kind = np.int64 if self.largest(len(view)) < WORD else object
        count = np.full((*total.shape[:-1], 1), self.weight * len(view), kind)
        return np.concatenate([total.astype(kind), count], axis=-1)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the squared sensitivity. Add-remove: one vector and one count, R^2 + w^2;
        replace: the count stays, (2R)^2.
        """
        shown = self.query.sensitivity(adjacency, domain)
        inner = shown.conclusion
        counted = 0 if adjacency is Adjacency.REPLACE else self.weight**2
        return sensitivity_lemma(
            Quantity.of(
                f"{inner.query}, with {self.weight} times their number",
                "WithCount",
                moved=inner.value,
                weight=self.weight,
            ),
            norm=Norm.SQUARED_L2,
            value=inner.value + counted,
            adjacency=adjacency,
            domain=domain,
            obligation="theory/joint.py:obligation_with_count",
            source=Source("OURS", "a sum and a count under one noise"),
            premises=(shown,),
        )

    def unclipped(self) -> Query | None:
        """Return the same without the sum's clipping."""
        wild = self.query.unclipped()
        return replace(self, query=wild) if isinstance(wild, (VectorSum, ScaledSum)) else None


def least_counted(at_least: int, per_record: Fraction, rare: Callable[[int], bool]) -> int:
    """Return the least n whose released number falls below ``at_least`` rarely enough.

    n records release round(n per_record) + noise, and ``rare(k)`` says whether noise <= -k is
    rare enough. A released number below at_least per_record has noise < 1/2 - (n - at_least)
    per_record, so noise <= 1 - floor((n - at_least) per_record).
    """

    def enough(n: int) -> bool:
        return rare(floor((n - at_least) * per_record) - 1)

    return least_integer(enough, above=-1, first=1)
