"""The mean by a soft core."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpverify.grid import Query
from dpverify.transformations.means.weights import WeightedCoreMean
from dpverify.transformations.soft_core import SoftAgreement, SoftMean, checked_full, moves


@dataclass(frozen=True, slots=True)
class SoftCoreMean(WeightedCoreMean):
    """The ``WeightedCoreMean`` by a soft core, for replace alone.

    full: records count in full from this share of all on.
    """

    full: Fraction

    def __post_init__(self) -> None:
        checked_full(self.full)

    @property
    def moves(self) -> int:
        """Maximum change in the agreement between neighboring datasets."""
        return moves(self.full)

    @property
    def slack(self) -> int:
        """Zero: replacement is bounded directly, without removing and re-adding a record."""
        return 0

    @property
    def agreement(self) -> Query:
        """Query for the agreement released in the first stage."""
        return SoftAgreement(self.nearness, self.full, self.shift)

    @property
    def query(self) -> SoftMean:
        """Query for the mean."""
        return SoftMean(self.nearness, self.spread, self.adjacency, self.full)
