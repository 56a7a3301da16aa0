"""Truncation: the records inside a box, as a list of a public size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpverify.grid.records import Records
from dpverify.plans.transforming import Transformation
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, PrivacyClaim, Source
from dpverify.privacy.hypotheses import Quantity
from dpverify.privacy.numbers import settle, whole
from dpverify.privacy.rules import coupled_map, sensitivity_lemma
from dpverify.privacy.sources import SourceStatus, states

MOST_LISTED = 1 << 24
_LIST = Source(
    "ZZ25", "Lemma 2.1, lists of a public size",
    SourceStatus.CHANGED_CONSTANTS, note="also under add-remove; by a coupling",
)  # fmt: skip


@states(_LIST)
@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation(Transformation):
    """The first ``size`` records inside a box, in a random order.

    Where there are fewer, they are filled up with ``pad``. Mechanisms for lists of a public
    length, private under replace alone, run on it under either adjacency, at no loss.

    low, high: the box, a float for each column, both ends inside.
    size: from 1 to 2^24, public or from what was released before: not from how many records
    there are under add-remove, nor from how many are inside.
    pad: a public record inside.

    Raises ValueError for an empty box, a pad outside, another size.
    """

    within: ClassVar[Adjacency] = Adjacency.REPLACE
    low: tuple[float, ...]
    high: tuple[float, ...]
    size: int
    pad: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("low", "high", "pad"):
            settle(self, **{name: tuple(float(one) + 0.0 for one in getattr(self, name))})
        columns = {len(one) for one in (self.low, self.high, self.pad)}
        ends = tuple(zip(self.low, self.pad, self.high, strict=False))
        if len(columns) != 1 or not all(np.isfinite(p) and a <= p <= b for a, p, b in ends):
            raise ValueError(
                f"low = {self.low}, pad = {self.pad}, high = {self.high}; give as many finite "
                "numbers in each, those of the pad between the others."
            )
        if not 1 <= whole(self.size, "size") <= MOST_LISTED:
            raise ValueError(f"size = {self.size}; give a public number from 1 to 2^24.")

    def listed(self, records: Records) -> Records:
        """Return the records in their order, then pads. Floats are compared, which does not
        round.
        """
        inside = np.all((records >= self.low) & (records <= self.high), axis=1)
        kept = records[np.flatnonzero(inside)[: self.size]]
        return np.concatenate([kept, np.tile(self.pad, (self.size - len(kept), 1))])

    def carry(
        self, inner: Derivation[PrivacyClaim], adjacency: Adjacency, domain: Domain
    ) -> Derivation[PrivacyClaim]:
        """Carry the inner claim over by the rule of the coupled map.

        Raises ValueError for a box of other columns, and for a size that the domain does not
        have.
        """
        if domain.columns != len(self.low) or (domain.most_rows or MOST_LISTED) < self.size:
            raise ValueError(
                f"A list of {self.size} records of {len(self.low)} columns, for {domain}: give a "
                "box of as many columns, and no longer a list than the claim is about."
            )
        coupling = sensitivity_lemma(
            Quantity.of(f"a list of {self.size} of the records inside a box", "Truncation"),
            norm=Norm.COUPLED,
            value=1,
            adjacency=adjacency,
            domain=domain,
            obligation="truncation.py:obligation_coupling",
            source=_LIST,
            keeps=self.within,
        )
        return coupled_map(inner, coupling)
