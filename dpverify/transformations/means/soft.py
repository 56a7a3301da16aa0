"""The mean by a soft core."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpverify.grid import Query
from dpverify.transformations.means.weights import WeightedCoreMean
from dpverify.transformations.soft_core import SoftAgreement, SoftMean, checked_full, moves


@dataclass(frozen=True, slots=True)
class SoftCoreMean(WeightedCoreMean):
    """``WeightedCoreMean`` where records count in full from the share ``full`` of all on; replace alone."""

    full: Fraction

    def __post_init__(self) -> None:
        checked_full(self.full)

    @property
    def moves(self) -> int:
        """By how much the agreement moves at most."""
        return moves(self.full)

    @property
    def slack(self) -> int:
        """None: the bound needs no way over n - 1 records."""
        return 0

    @property
    def agreement(self) -> Query:
        """Of the first stage."""
        return SoftAgreement(self.nearness, self.full, self.shift)

    @property
    def query(self) -> SoftMean:
        """The mean's."""
        return SoftMean(self.nearness, self.spread, self.adjacency, self.full)
