"""Shipped law as refinement enumerates it: the kept records of a filter are recorded, and
nothing is evaluated twice.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpverify.grid import Records, ingest
from dpverify.grid.nearness import Nearness
from dpverify.plans import Law, Mechanism, Plan, Stage, Transcripts
from dpverify.plans.filtering import Filter
from dpverify.plans.place import Place
from dpverify.plans.walking import with_filters
from dpverify.privacy import Adjacency, Derivation, Domain, PrivacyClaim
from dpverify.privacy.adjacency import Friendly
from dpverify.randomness import Bits
from dpverify.randomness.bits import BoolArray, IntArray


def watched(mechanism: Mechanism[Any], data: list[Any]) -> tuple[Law, list[Any]]:
    """Return the mechanism's law, and a list that holds which records were kept in the last
    draw.
    """
    kept: list[tuple[int, ...] | None] = [None]
    plan = with_filters(mechanism.fixed_plan, lambda base: _Watched(base, kept))
    records = ingest(data, mechanism.domain)
    return _Remembering(mechanism, plan, records), kept


@dataclass(frozen=True, slots=True)
class _Watched(Filter):
    """Shipped filter that records which records it kept last, for the comparison."""

    base: Filter
    kept: list[tuple[int, ...] | None]

    @property
    def nearness(self) -> Nearness:  # type: ignore[override]
        return self.base.nearness

    @property
    def friendly(self) -> Friendly:
        return self.base.friendly

    def keep(self, bits: Bits, degrees: IntArray, size: int) -> BoolArray:
        mask = self.base.keep(bits, degrees, size)
        self.kept[:] = [tuple(np.flatnonzero(mask[0]).tolist())]
        return mask

    def lift(
        self, inner: Derivation[PrivacyClaim], adjacency: Adjacency, domain: Domain
    ) -> Derivation[PrivacyClaim]:
        return self.base.lift(inner, adjacency, domain)


class _Remembering(Law):
    """Shipped law that evaluates a stage's query once for all paths of coins that lead to it
    alike.

    This is sound because the exact value is a function of the visible records and of earlier
    releases: no coins are at hand where it is computed.
    """

    def __init__(self, mechanism: Mechanism[Any], plan: Plan, records: Records) -> None:
        super().__init__(plan, records, mechanism.adjacency, mechanism.domain)
        self._centers = dict[Hashable, IntArray]()

    def _center(self, stage: Stage, place: Place, batch: Transcripts, rows: IntArray) -> IntArray:
        seen = place.seen_by(rows)
        if seen.records is not self._view.records:  # a list may be in an order of its own
            return super()._center(stage, place, batch, rows)
        before = tuple((name, *column.ravel().tolist()) for name, column in batch.values.items())
        key = (place.path, stage.name, seen.retained.tobytes(), before)
        if key not in self._centers:
            self._centers[key] = super()._center(stage, place, batch, rows)
        return self._centers[key]
