"""The distance of a column's quartiles, as bins of a logarithmic scale that contain it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.cells import quantize
from dpverify.grid.queries import Query
from dpverify.grid.records import Records
from dpverify.grid.transcripts import NOTHING, Transcripts
from dpverify.grid.views import View
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.hypotheses import Quantity
from dpverify.privacy.numbers import exact, settle, whole
from dpverify.privacy.rules import sensitivity_lemma

_FARTHEST_CELL = 1 << 50
_LEAST_STEP, _MOST_STEP = Fraction(17, 16), Fraction(16)
_LONGEST = 1 << 20
_FEWEST = 2  # both quartiles of one record are that record


@dataclass(frozen=True, slots=True)
class QuartileBins(Query):
    """The two bins in which the quartiles' distance lies, each with how many records it takes to
    leave that bin.

    Records are cells of 2^exponent, clamped to lower..upper. The quartiles of n records are those
    of ranks ceil(n / 4) and ceil(3 n / 4). With edges 0, 0, 1, ... that grow by ``step``
    (``edges_of``) bin k holds edges[k] <= distance < edges[k + 2]: so every distance lies in one
    bin of even number and in one of odd number, and is far from the edges of one of them. The value
    has a row (bin, records that have to be replaced) for each, in increasing order. Raises
    ValueError for bounds without room between them or more than 2^50 cells from zero, and for a
    step outside 17/16..16 or of a denominator beyond 2^20.
    """

    is_table = True
    lower: int
    upper: int
    exponent: int
    step: Fraction

    def __post_init__(self) -> None:
        for name in ("lower", "upper", "exponent"):
            settle(self, **{name: whole(getattr(self, name), name)})
        settle(self, step=exact(self.step, "step"))
        if not _LEAST_STEP <= self.step <= _MOST_STEP or self.step.denominator > _LONGEST:
            raise ValueError(
                f"step = {self.step} is not from 17/16 to 16 with a denominator up to 2^20; "
                "try '5/4'."
            )
        if not self.lower < self.upper:
            raise ValueError(
                f"bounds {self.lower} and {self.upper} (in cells) leave no room between."
            )
        if max(abs(self.lower), abs(self.upper)) > _FARTHEST_CELL:
            raise ValueError(
                f"The bounds are {max(abs(self.lower), abs(self.upper))} cells from zero, beyond "
                "the 2^50 of the public grid. Subtract a public constant from the data, or give "
                "fewer cells."
            )

    @property
    def width(self) -> None:
        """Number of released pairs: as many as pass, at most two."""

    @property
    def edges(self) -> tuple[int, ...]:
        """Public edges of the bins, in cells."""
        return edges_of(self.upper - self.lower, self.step)

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> NDArray[np.int64]:
        """Compute the bins and their distances, shape (2, 2)."""
        cells, edges = self.cells(view.records[:, 0]), self.edges
        first, last = ranks_of(len(cells))
        apart = int(cells[last - 1] - cells[first - 1]) if len(cells) >= _FEWEST else 0
        inner = bisect_right(edges, apart) - 1
        rows = [
            (bin_, self.distance(cells, edges[bin_], edges[bin_ + 2]))
            for bin_ in (inner - 1, inner)
        ]
        return np.array(rows, dtype=np.int64)

    def cells(self, values: Records) -> NDArray[np.int64]:
        """Sort numbers as clamped cells, shape (n,)."""
        return np.sort(quantize(values, self.lower, self.upper, self.exponent))

    def distance(self, cells: NDArray[np.int64], low: int, high: int) -> int:
        """Count how many records at least have to be replaced until the quartiles are not low..high
        - 1 apart.

        cells: in increasing order, z_1..z_n, with z_j = lower for j < 1 and upper for j > n. With k
        replaced the largest distance is that of z_(p - a) and z_(q + b), the least one that of z_(p
        + a) and z_(q - b), a + b = k, at best, for the ranks p and q (proof in
        spec/theory/quartiles.py). n where no number suffices.
        """
        n = len(cells)
        if n < _FEWEST:
            return 1
        first, last = ranks_of(n)
        distance = n
        # for every a, the least b with z_(q + b) >= z_(p - a) + high
        starts = np.concatenate([cells[:first][::-1], [self.lower]])
        places = np.searchsorted(cells, starts + high, side="left") + 1
        wider = np.arange(first + 1) + np.maximum(places - last, 0)
        reached = (places <= n) | (starts + high <= self.upper)
        distance = min(distance, int(wider[reached].min(initial=n)))
        if low:  # for every a, the least b with z_(q - b) < z_(p + a) + low
            below = np.searchsorted(cells, cells[first - 1 : last] + low, side="left")
            narrower = np.arange(last - first + 1) + np.maximum(last - below, 0)
            distance = min(distance, int(narrower.min()))
        return distance

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """State the sensitivity for replace: two bins, each with its distance from datasets of
        another.

        It is not stated under add-remove, where the number of records, and so the ranks, are
        private.
        """
        if adjacency is not Adjacency.REPLACE:
            raise ValueError(
                f"adjacency = {adjacency}: the quartiles' ranks need the number of records, which "
                "has to be public. Use Adjacency.REPLACE."
            )
        return sensitivity_lemma(
            Quantity.of("the bins of the quartiles' distance", "QuartileBins"),
            norm=Norm.STABLE,
            value=2,
            adjacency=adjacency,
            domain=domain,
            obligation="theory/quartiles.py:obligation_stable",
            source=Source("DL09", "the interquartile range", note="distances are exact, on a grid"),
        )


def ranks_of(n: int) -> tuple[int, int]:
    """Give the quartiles' ranks ceil(n / 4) and ceil(3 n / 4), from 1 on."""
    return -(-n // 4), -(-3 * n // 4)


@lru_cache(maxsize=64)
def edges_of(most: int, step: Fraction) -> tuple[int, ...]:
    """List the edges 0, 0, 1, then each ``step`` times the last, rounded up and larger, until two
    are above ``most``."""
    edges = [0, 0, 1]
    while edges[-2] <= most:
        edges.append(max(edges[-1] + 1, -(-edges[-1] * step.numerator // step.denominator)))
    return tuple(edges)
