"""Queries whose value is a table: records in order on a grid, records counted by key."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.cells import quantize
from dpverify.grid.queries import Query
from dpverify.grid.records import Records
from dpverify.grid.transcripts import NOTHING, Transcripts
from dpverify.grid.views import View
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.hypotheses import Quantity
from dpverify.privacy.numbers import settle, whole
from dpverify.privacy.rules import sensitivity_lemma

_SPEC = "theory/tables.py"
_FARTHEST_CELL = 1 << 50  # cells are exact floats, and lengths of stretches exact 64-bit integers
_FARTHEST_BIN = 1 << 60
LONGEST = 1 << 20  # a denominator: scores of 2^41 records are 62-bit integers


def check_grid(lower: int, upper: int, parts: int = 1) -> None:
    """Refuse a grid without room between its ends, or whose cells in so many parts are too many.

    The refusal is a ValueError.
    """
    if not lower < upper:
        raise ValueError(
            f"bounds {lower} and {upper} (in cells) leave no room between them; give "
            "a smaller cell."
        )
    farthest = max(abs(lower), abs(upper)) * parts
    if farthest > _FARTHEST_CELL:
        raise ValueError(
            f"The bounds are {farthest} cells from zero, beyond the 2^50 of the public grid: the "
            "interval is too narrow for its distance from zero, or the cell too small. Subtract a "
            "public constant from the data, or give a larger cell."
        )


@dataclass(frozen=True, slots=True)
class QuantileScores(Query):
    """Distance of the ranks of each cell t of lower..upper from the quantile p/q, an integer.

    That is max(0, q #{z < t} - p n, p n - q #{z <= t}), where z are the records in cells of
    2^exponent, clamped to lower..upper, and n is their number. The value is the sorted list of
    them, which decides every cell's score. Raises ValueError for bounds without room between
    them, or more than 2^50 cells from zero.
    """

    is_table = True
    lower: int
    upper: int
    exponent: int
    numerator: int
    denominator: int

    def __post_init__(self) -> None:
        for name in ("lower", "upper", "exponent", "numerator", "denominator"):
            settle(self, **{name: whole(getattr(self, name), name)})
        p, q = self.numerator, self.denominator
        if not (0 <= p <= q and 1 <= q <= LONGEST):
            raise ValueError(f"the quantile {p}/{q}; give 0 <= p <= q and q from 1 to 2^20.")
        check_grid(self.lower, self.upper)

    @property
    def width(self) -> int:
        """Number of released integers: 1, the chosen cell."""
        return 1

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> NDArray[np.int64]:
        """Return the clamped cells in increasing order, shape (1, n): together they decide one
        number.
        """
        return self.cells(view.records[:, 0])[np.newaxis]

    def cells(self, values: Records) -> NDArray[np.int64]:
        """Return numbers as clamped cells in increasing order, shape (n,)."""
        return np.sort(quantize(values, self.lower, self.upper, self.exponent))

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the sensitivity. Add-remove: max(p, q - p), for q # - p n moves by -p or
        q - p, where # counts the records below a cell or those up to it; replace: q.
        """
        p, q = self.numerator, self.denominator
        return sensitivity_lemma(
            Quantity.of(
                f"the score of every cell for the quantile {p}/{q}",
                "QuantileScores",
                numerator=p,
                denominator=q,
            ),
            norm=Norm.L_INFINITY,
            value=q if adjacency is Adjacency.REPLACE else max(p, q - p),
            adjacency=adjacency,
            domain=domain,
            obligation=f"{_SPEC}:obligation_quantile_scores",
            source=Source("S11", "private quantiles by the exponential mechanism"),
        )


@dataclass(frozen=True, slots=True)
class ColumnScores(Query):
    """The scores of several quantiles; two of them may be of the same column.

    scores: for each quantile the column and what is scored there. Raises ValueError without
    any, or for a column below 0.
    """

    is_table = True
    scores: tuple[tuple[int, QuantileScores], ...]

    def __post_init__(self) -> None:
        if not self.scores or min(column for column, _ in self.scores) < 0:
            raise ValueError("give at least one quantile, of a column from 0 on.")

    @property
    def width(self) -> int:
        """Number of released integers: one cell for each quantile."""
        return len(self.scores)

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> NDArray[np.int64]:
        """Return one row a quantile: its column's clamped cells in increasing order, shape
        (quantiles, n).
        """
        cells = np.empty((len(self.scores), len(view)), np.int64)
        for k, (column, scored) in enumerate(self.scores):
            key = (ColumnScores, column, scored.lower, scored.upper, scored.exponent)
            cells[k] = view.once(key, lambda: scored.cells(view.records[:, column]))  # noqa: B023
        return cells

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the sensitivity for replace, of any score of any of the quantiles: the largest
        of theirs.

        It is not stated under add-remove, where no record moves all quantiles as much as one.
        """
        if adjacency is not Adjacency.REPLACE:
            raise ValueError(
                f"adjacency = {adjacency}: what several quantiles cost together is stated for "
                "replace."
            )
        last = max(column for column, _ in self.scores)
        if domain.columns <= last:
            raise ValueError(f"{domain}, for a quantile of column {last + 1}; give more columns.")
        different = {(one.numerator, one.denominator): one for _, one in self.scores}
        shown = [one.sensitivity(adjacency, domain).conclusion for one in different.values()]
        return sensitivity_lemma(
            Quantity.of(
                f"the score of every cell for {len(self.scores)} quantiles",
                "ColumnScores",
                quantiles=tuple((one.numerator, one.denominator) for _, one in self.scores),
            ),
            norm=Norm.L_INFINITY,
            value=max(one.value for one in shown),
            adjacency=adjacency,
            domain=domain,
            obligation=f"{_SPEC}:obligation_quantile_scores",
            source=Source("S11", "private quantiles by the exponential mechanism"),
        )


@dataclass(frozen=True, slots=True)
class KeyedCounts(Query):
    """Number of records in each bin that is not empty; bins are ``step`` cells of 2^exponent wide.

    A record x belongs to bin floor((floor(x / 2^exponent) - origin) / step), any integer: the
    bins need not be listed. Records beyond 2^60 cells count as lying there.
    """

    is_table = True
    step: int
    origin: int
    exponent: int

    def __post_init__(self) -> None:
        for name in ("step", "origin", "exponent"):
            settle(self, **{name: whole(getattr(self, name), name)})
        if self.step < 1 or abs(self.origin) > _FARTHEST_BIN:
            raise ValueError(
                f"bins of {self.step} cells from {self.origin} on; give a width of at least 1 "
                "and an origin within 2^60 cells of zero."
            )

    @property
    def width(self) -> None:
        """Width None: as many numbers as surface."""

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> NDArray[np.int64]:
        """Return bins in increasing order and their counts, shape (bins, 2)."""
        bins, counts = np.unique(self.bins(view.records[:, 0]), return_counts=True)
        return np.stack([bins, counts.astype(np.int64)], axis=1)

    def bins(self, values: Records) -> NDArray[np.int64]:
        """Return each record's bin, exactly.

        Scaling by a power of two is exact, or infinite and then clamped, or far below one cell:
        there only the sign matters, and a negative number that vanished is in cell -1 all the
        same.
        """
        with np.errstate(all="ignore"):
            scaled = np.ldexp(values, -self.exponent)
            cells = np.where((scaled == 0) & (values < 0), -1.0, np.floor(scaled))
            cells = np.clip(cells, -_FARTHEST_BIN, _FARTHEST_BIN).astype(np.int64)
        bins: NDArray[np.int64] = (cells - self.origin) // self.step
        return bins

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the sensitivity: one record adds one to one key."""
        return sensitivity_lemma(
            Quantity.of(f"the histogram with bins of {self.step} cells", "KeyedCounts"),
            norm=Norm.KEYS,
            value=1,
            adjacency=adjacency,
            domain=domain,
            obligation=f"{_SPEC}:obligation_keyed_counts",
            source=Source("KKMN09", "histograms over unknown keys"),
        )
