"""Integer queries on the public grid, each with its sensitivity as a proved premise.

A record is mapped on its own to integers (scale, round, clamp), so neighbors stay neighbors; what
follows is exact integer arithmetic, whatever the order or the batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.cells import interval, quantize
from dpverify.grid.transcripts import NOTHING, Transcripts
from dpverify.grid.views import View
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.hypotheses import Compared, Quantity
from dpverify.privacy.rules import sensitivity_lemma
from dpverify.privacy.sealed import guard

_OUTER_BOX = 1 << 40
_SPEC = "theory/queries.py"
UNCLIPPED = "Without clipping there is no bound; clipped=False is for planting a fault."


class Query(ABC):
    """An integer function of what is seen of the records, and of what was released before."""

    __slots__ = ()

    of_retained: ClassVar[bool] = False
    """True if the query asks about the records that a filter retained; any other query has no
    claim behind a filter.
    """
    is_table: ClassVar[bool] = False
    """True if the value is a table that the noise interprets, not the numbers that are released."""
    adds_up: ClassVar[bool] = False
    """True if the value of any records is the sum of the values of any parts into which they
    are divided, as exact integers, whatever was released before: then records can be counted
    chunk by chunk.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        guard(cls, "__init__")  # checked once for each object: a plan rests on it

    @property
    @abstractmethod
    def width(self) -> int | None:
        """Number of integers that are released; None where that follows from the data."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Earlier stages whose released values decide what the query asks."""
        return ()

    @property
    def in_any_order(self) -> bool:
        """True if the value is sure to be the same for the same records in another order."""
        return False

    @property
    def addends(self) -> tuple[Query, ...] | None:
        """Queries that add up and decide this query's value on a view of chunks; None where
        there are none.
        """
        return (self,) if self.adds_up else None

    @abstractmethod
    def evaluate(self, view: View, before: Transcripts = NOTHING) -> NDArray[Any]:
        """Return the exact integer value, shape (width,), the same for all draws; or, for a
        query that reads what was released before or asks about what a filter retained, one for
        each draw, shape (size, width).
        """

    @abstractmethod
    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return how far the value moves between neighbors, as a lemma that spec/ shows."""

    def unclipped(self) -> Query | None:
        """Return this query without its clipping, for planting a fault; None if it does not
        clip.
        """
        return None

    def reached(self, stage: str, at_least: int) -> Compared:
        """Return what is sure where this stage released at least so much, though it stopped
        where nothing is retained.

        Raises ValueError for a query whose value does not show whether anything is retained.
        """
        raise ValueError(
            f"A gate on {stage!r} behind a filter stops where nothing is kept, which is no "
            f"function of what {type(self).__name__} releases; put the gate on KeptCount."
        )


@dataclass(frozen=True, slots=True)
class Count(Query):
    """The number of records; with ``within`` = (a, b), of those with a <= first column <= b."""

    adds_up = True
    within: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.within is not None:
            if not isinstance(self.within, tuple) or len(self.within) != 2:
                raise TypeError(f"within = {self.within!r:.80}; give a pair of bounds, (0.0, 1.0).")
            interval(*self.within, "within")

    @property
    def width(self) -> int:
        """Number of released integers: always 1."""
        return 1

    @property
    def in_any_order(self) -> bool:
        """True: a number of records does not depend on the order."""
        return True

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> NDArray[np.int64]:
        """Return the count, shape (1,)."""
        if self.within is None:
            return np.array([len(view)], dtype=np.int64)
        first, (low, high) = view.records[:, 0], self.within
        inside = (first >= low) & (first <= high)
        return np.array([np.count_nonzero(inside)], dtype=np.int64)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the sensitivity: 1, except that all records together are public under replace:
        0.
        """
        public = self.within is None and adjacency is Adjacency.REPLACE
        what = "the count" if self.within is None else f"the count within {self.within}"
        return sensitivity_lemma(
            Quantity.of(what, "Count", some=self.within is not None, within=_bounds(self.within)),
            norm=Norm.L1,
            value=0 if public else 1,
            adjacency=adjacency,
            domain=domain,
            obligation=f"{_SPEC}:obligation_count",
            source=Source("DMNS06", "Section 3, counting queries"),
        )


def _bounds(within: tuple[float, float] | None) -> tuple[Fraction, Fraction] | None:
    return None if within is None else (Fraction(within[0]), Fraction(within[1]))


@dataclass(frozen=True, slots=True)
class ClampedSum(Query):
    """Sum over records of (clamp(round(x / cell), lower, upper) - center), in cells of 2^exponent.

    lower, upper, center are integers (cells). Rounding is to the nearest, ties to even; dividing by
    a power of two is exact, so the value is the exact function of the records that is written here.
    """

    adds_up = True
    lower: int
    upper: int
    center: int
    exponent: int
    clipped: bool = True

    def __post_init__(self) -> None:
        if not self.lower < self.upper:
            raise ValueError(
                f"bounds {self.lower} and {self.upper} (in cells) leave no room between them; give "
                "a smaller cell, or bounds that are farther apart."
            )
        if max(abs(self.lower), abs(self.upper), abs(self.center)) > _OUTER_BOX:
            raise ValueError(
                f"The bounds are {max(abs(self.lower), abs(self.upper))} cells from zero, beyond "
                "the 2^40 of the public grid: the interval is too narrow for its distance from "
                "zero. Subtract a public constant from the data, or give a larger cell."
            )

    @property
    def radius(self) -> int:
        """The largest magnitude of one record's summand, in cells."""
        return max(self.upper - self.center, self.center - self.lower)

    @property
    def width(self) -> int:
        """Number of released integers: always 1."""
        return 1

    @property
    def in_any_order(self) -> bool:
        """True: a sum of integers does not depend on the order."""
        return True

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> NDArray[np.int64]:
        """Return the sum, shape (1,), exact for every n."""
        low, high = (self.lower, self.upper) if self.clipped else (-_OUTER_BOX, _OUTER_BOX)
        cells = quantize(view.records[:, 0], low, high, self.exponent) - self.center
        if len(cells) * max(high - self.center, self.center - low) >= 1 << 62:
            return np.array([sum(cells.tolist())], dtype=object)
        return np.array([cells.sum(dtype=np.int64)], dtype=np.int64)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the sensitivity. Add-remove: one summand, the radius; replace: one summand for
        another, upper - lower.
        """
        if not self.clipped:
            raise ValueError(UNCLIPPED)
        replaced = adjacency is Adjacency.REPLACE
        return sensitivity_lemma(
            Quantity.of(
                f"the sum of records clamped to [{self.lower}, {self.upper}] cells about "
                f"{self.center}",
                "ClampedSum",
                lower=self.lower,
                upper=self.upper,
                center=self.center,
            ),
            norm=Norm.L1,
            value=self.upper - self.lower if replaced else self.radius,
            adjacency=adjacency,
            domain=domain,
            obligation=f"{_SPEC}:obligation_clamped_sum",
            source=Source("OURS", "the sensitivity of a clamped sum"),
        )

    def unclipped(self) -> Query:
        """Return the same sum, clamped to the outer box of the grid only."""
        return replace(self, clipped=False)


@dataclass(frozen=True, slots=True)
class Answers(Query):
    """Category of each record in 0..categories-1, in order: one integer per record."""

    categories: int

    @property
    def width(self) -> None:
        """Width None: as many numbers as there are records."""

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> NDArray[np.int64]:
        """Return the categories, shape (n,)."""
        return quantize(view.records[:, 0], 0, self.categories - 1, 0)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the sensitivity for replace: one answer changes. Under add-remove there is no
        bound: the length is private.
        """
        if adjacency is not Adjacency.REPLACE:
            raise ValueError(
                f"adjacency = {adjacency}: a list with one answer per record shows how many "
                "records there are, which add-remove keeps private. Use Adjacency.REPLACE."
            )
        return sensitivity_lemma(
            Quantity.of("the list of answers", "Answers"),
            norm=Norm.HAMMING,
            value=1,
            adjacency=adjacency,
            domain=domain,
            obligation=f"{_SPEC}:obligation_answers",
            source=Source("W65", "randomized response"),
        )
