"""Integer queries on the public grid, each with its sensitivity as a proved premise.

A record is mapped on its own to integers (scale, round, clamp), so neighbors stay neighbors; what
follows is exact integer arithmetic, whatever the order or the batch.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.records import Records
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.hypotheses import Quantity
from dpverify.privacy.rules import sensitivity_lemma
from dpverify.privacy.sealed import guard

_OUTER_BOX = 1 << 40
_SPEC = "theory/queries.py"
UNCLIPPED = "Without clipping there is no bound; clipped=False is for planting a fault."


class Query(ABC):
    """A function from records to integers, of fixed width for a fixed number of rows."""

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        guard(cls, "__init__")  # once for each object: a plan rests on it

    @abstractmethod
    def evaluate(self, records: Records) -> NDArray[np.int64]:
        """The exact integer value, shape (width,)."""

    @abstractmethod
    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """How far the value moves between neighbors, as a lemma that spec/ shows."""

    def unclipped(self) -> Query | None:
        """This query without its clipping, for planting a fault; None if it does not clip."""
        return None


class Derived(Query):
    """A function of the value of another query, ``base``, which a law then computes once for all such."""

    __slots__ = ()

    @property
    @abstractmethod
    def base(self) -> Query:
        """What it is a function of."""

    @abstractmethod
    def of(self, value: NDArray[Any]) -> NDArray[np.int64]:
        """Its value, from the value of ``base``."""

    def evaluate(self, records: Records) -> NDArray[np.int64]:
        """Through the base."""
        return self.of(self.base.evaluate(records))


@dataclass(frozen=True, slots=True)
class Count(Query):
    """The number of records; with ``within`` = (a, b), of those with a <= first column <= b."""

    within: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.within is not None:
            interval(*self.within, "within")

    def evaluate(self, records: Records) -> NDArray[np.int64]:
        """Shape (1,)."""
        if self.within is None:
            return np.array([len(records)], dtype=np.int64)
        low, high = self.within
        inside = (records[:, 0] >= low) & (records[:, 0] <= high)
        return np.array([np.count_nonzero(inside)], dtype=np.int64)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """1, except that all records together are public under replace: 0."""
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
    """sum over records of (clamp(round(x / cell), lower, upper) - center), in cells of 2^exponent.

    lower, upper, center are integers (cells). Rounding is to the nearest, ties to even; dividing by
    a power of two is exact, so the value is the exact function of the records that is written here.
    """

    lower: int
    upper: int
    center: int
    exponent: int
    clipped: bool = True

    def __post_init__(self) -> None:
        if not self.lower < self.upper:
            raise ValueError(
                f"bounds {self.lower} and {self.upper} (in cells) leave no room between them."
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

    def evaluate(self, records: Records) -> NDArray[np.int64]:
        """Shape (1,), exact for every n."""
        low, high = (self.lower, self.upper) if self.clipped else (-_OUTER_BOX, _OUTER_BOX)
        cells = quantize(records[:, 0], low, high, self.exponent) - self.center
        if len(cells) * max(high - self.center, self.center - low) >= 1 << 62:
            return np.array([sum(cells.tolist())], dtype=object)
        return np.array([cells.sum(dtype=np.int64)], dtype=np.int64)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """add-remove: one summand, the radius; replace: one summand for another, upper - lower."""
        if not self.clipped:
            raise ValueError(UNCLIPPED)
        replaced = adjacency is Adjacency.REPLACE
        return sensitivity_lemma(
            Quantity.of(
                f"the sum of records clamped to [{self.lower}, {self.upper}] cells about {self.center}",
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
        """The same sum, clamped to the outer box of the grid only."""
        return replace(self, clipped=False)


@dataclass(frozen=True, slots=True)
class Answers(Query):
    """Each record's category in 0..categories-1, in order: one integer per record."""

    categories: int

    def evaluate(self, records: Records) -> NDArray[np.int64]:
        """Shape (n,)."""
        return quantize(records[:, 0], 0, self.categories - 1, 0)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """replace: one answer changes. Under add-remove there is no bound: the length is private."""
        if adjacency is not Adjacency.REPLACE:
            raise ValueError(
                f"adjacency = {adjacency}: a list with one answer per record shows how many records "
                "there are, which add-remove keeps private. Use Adjacency.REPLACE."
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


def quantize(
    values: Records, lower: int, upper: int, exponent: int | NDArray[np.int64]
) -> NDArray[np.int64]:
    """clamp(round(x / 2^exponent), lower, upper) for each x, exactly; |lower|, |upper| <= 2^53.

    ``exponent`` is one for all, or one a column.

    Scaling up by a power of two is exact or gives an infinity, which clamps as x would; scaling
    down loses bits only below 2^-1022, far from any half. The caller's floating-point error state
    must not turn either into an exception that depends on a record.
    """
    with np.errstate(all="ignore"):
        cells = np.rint(np.ldexp(values, -exponent))
        return np.clip(cells, lower, upper).astype(np.int64)


def interval(lower: Any, upper: Any, name: str) -> tuple[float, float]:
    """The bounds as floats. Raises unless they are finite numbers with lower < upper."""
    low, high = (_bound(bound, name) for bound in (lower, upper))
    if not low < high:
        how = "equal" if low == high else "reversed"
        raise ValueError(
            f"{name}: as float64 the bounds {lower} and {upper} are {how}; give the smaller one "
            "first, chosen without looking at the data."
        )
    return low, high


def _bound(bound: Any, name: str) -> float:
    if isinstance(bound, bool) or not isinstance(bound, (int, float, np.integer, np.floating)):
        raise TypeError(
            f"{name}: {bound!r} is a {type(bound).__name__}; a bound is a number, for example "
            "120.0, chosen without looking at the data."
        )
    try:
        value = float(bound)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise ValueError(f"{name}: the bound {bound} is not finite; give a finite public bound.")
    return value
