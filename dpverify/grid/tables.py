"""Queries whose value is a table: records in order on a grid, records counted by key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.queries import Query, quantize
from dpverify.grid.records import Records
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.rules import sensitivity_lemma

_SPEC = "theory/tables.py"
_FARTHEST_BIN = 1 << 60


@dataclass(frozen=True, slots=True)
class QuantileScores(Query):
    """How far each cell t of lower..upper is from the quantile p/q: |q #{z < t} - p n|, an integer.

    z are the records in cells of 2^exponent, clamped to lower..upper, and n their number. The value is
    the sorted list of them, which decides every cell's score.
    """

    lower: int
    upper: int
    exponent: int
    numerator: int
    denominator: int

    def evaluate(self, records: Records) -> NDArray[np.int64]:
        """The clamped cells in increasing order, shape (n,)."""
        return np.sort(quantize(records[:, 0], self.lower, self.upper, self.exponent))

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """add-remove: max(p, q - p), for one of the two is what q # - p n moves by; replace: q."""
        p, q = self.numerator, self.denominator
        return sensitivity_lemma(
            f"the score of every cell for the quantile {p}/{q}",
            norm=Norm.L_INFINITY,
            value=q if adjacency is Adjacency.REPLACE else max(p, q - p),
            adjacency=adjacency,
            domain=domain,
            obligation=f"{_SPEC}:obligation_quantile_scores",
            source=Source("S11", "private quantiles by the exponential mechanism"),
        )


@dataclass(frozen=True, slots=True)
class KeyedCounts(Query):
    """How many records lie in each bin that is not empty; bins are ``width`` cells of 2^exponent wide.

    A record x belongs to bin floor((floor(x / 2^exponent) - origin) / width), any integer: nobody has
    to list the bins. Records beyond 2^60 cells count as lying there.
    """

    width: int
    origin: int
    exponent: int

    def evaluate(self, records: Records) -> NDArray[np.int64]:
        """Bins in increasing order and their counts, shape (bins, 2)."""
        bins, counts = np.unique(self.bins(records[:, 0]), return_counts=True)
        return np.stack([bins, counts.astype(np.int64)], axis=1)

    def bins(self, values: Records) -> NDArray[np.int64]:
        """Each record's bin. Scaling by a power of two is exact or infinite, and then clamped."""
        with np.errstate(all="ignore"):
            cells = np.floor(np.ldexp(values, -self.exponent))
            cells = np.clip(cells, -_FARTHEST_BIN, _FARTHEST_BIN).astype(np.int64)
        found: NDArray[np.int64] = (cells - self.origin) // self.width
        return found

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """One record adds one to one key."""
        return sensitivity_lemma(
            f"the histogram with bins of {self.width} cells",
            norm=Norm.KEYS,
            value=1,
            adjacency=adjacency,
            domain=domain,
            obligation=f"{_SPEC}:obligation_keyed_counts",
            source=Source("KKMN09", "histograms over unknown keys"),
        )


def as_table(value: NDArray[np.int64]) -> dict[int, int]:
    """A ``KeyedCounts`` value by key."""
    rows: list[list[Any]] = value.tolist()
    return {int(key): int(count) for key, count in rows}
