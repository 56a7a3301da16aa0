"""Differences of records that stand side by side, counted by octave; and squares about a
released number, clamped.

For replace alone: a record more or less would move all that follow to other partners, and
squares are averaged over a public number of records.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.cells import quantize
from dpverify.grid.linear import WORD, Integers
from dpverify.grid.queries import UNCLIPPED, Query
from dpverify.grid.transcripts import NOTHING, Released, Transcripts
from dpverify.grid.vectors import OUTER_BOX, checked_exponent
from dpverify.grid.views import View
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.hypotheses import Quantity
from dpverify.privacy.numbers import settle
from dpverify.privacy.rules import sensitivity_lemma

TIE = -1
"""The key of pairs in one cell."""


@dataclass(frozen=True, slots=True)
class PairOctaves(Query):
    """Numbers of pairs (records 2 i and 2 i + 1) that differ by 2^j to 2^(j + 1) cells, by j
    from 0 on; ``TIE`` for those that do not.

    A record counts as round(x / 2^exponent), clamped to 2^40 cells. A record that is left over
    counts nowhere.
    """

    is_table = True
    exponent: int

    def __post_init__(self) -> None:
        settle(self, exponent=checked_exponent(self.exponent))

    @property
    def width(self) -> None:
        """Width None: as many numbers as surface."""

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> NDArray[np.int64]:
        """Return keys in increasing order and their numbers of pairs, shape (keys, 2)."""
        keys, counts = np.unique(self.keys(view), return_counts=True)
        return np.stack([keys, counts.astype(np.int64)], axis=1)

    def keys(self, view: View) -> Integers:
        """Return each pair's key, shape (n // 2,): one less than the bits of the difference."""
        cells = quantize(view.records[:, 0], -OUTER_BOX, OUTER_BOX, self.exponent)
        even = len(cells) // 2 * 2
        gaps = np.abs(cells[1:even:2] - cells[0:even:2])
        return np.array([int(gap).bit_length() - 1 for gap in gaps.tolist()], np.int64)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the sensitivity: a pair adds one to one key, and a record is in one pair.
        Raises ValueError under add-remove.
        """
        if adjacency is not Adjacency.REPLACE:
            raise ValueError(
                f"pairs by position have no sensitivity under {adjacency}: a record more moves "
                "all others; use Adjacency.REPLACE."
            )
        return sensitivity_lemma(
            Quantity.of("the numbers of pairs by the octave of their difference", "PairOctaves"),
            norm=Norm.KEYS,
            value=1,
            adjacency=adjacency,
            domain=domain,
            obligation="theory/pairs.py:obligation_pair_octaves",
            source=Source("KV18", "an estimate of the deviation by pairs"),
        )


@dataclass(frozen=True, slots=True)
class ClampedSquares(Query):
    """The sum over records of (clamp(round(x / 2^exponent), lower, upper) - c)^2, about a
    released number c of cells.

    center: an integer for each draw, shape (size, 1); beyond the bounds it counts as the bound.
    """

    adds_up = True
    lower: int
    upper: int
    exponent: int
    center: Released[Integers]
    clipped: bool = True

    def __post_init__(self) -> None:
        settle(self, exponent=checked_exponent(self.exponent))
        if not -OUTER_BOX <= self.lower < self.upper <= OUTER_BOX:
            raise ValueError(
                f"bounds {self.lower} and {self.upper} (in cells); give two with room between "
                "them, within 2^40 of zero."
            )

    @property
    def width(self) -> int:
        """Number of released integers: always 1."""
        return 1

    @property
    def reads(self) -> tuple[str, ...]:
        """Stages that the center follows from."""
        return self.center.reads

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> Integers:
        """Return the sum, shape (size, 1), exact for every n. Raises ValueError for centers of
        another shape.
        """
        centers = self.center(before)
        if centers.shape != (len(before), 1) or centers.dtype.kind not in "iu":
            raise ValueError(
                f"centers {centers.dtype}{centers.shape} were released for {len(before)} draws; "
                "give an integer for each."
            )
        key = (ClampedSquares, self.lower, self.upper, self.exponent, self.clipped)
        first, second = view.once(key, lambda: self._sums(view))
        c = np.clip(centers, self.lower, self.upper) - self.lower
        # with c within the range no term is beyond n (upper - lower)^2 times 2
        kind = (
            np.int64 if max(len(view), 1) * (self.upper - self.lower) ** 2 < WORD // 4 else object
        )
        if not self.clipped:
            kind = object
        c = c.astype(kind)
        return np.asarray(second - 2 * first * c + len(view) * c * c)

    def _sums(self, view: View) -> tuple[int, int]:
        """Return the sums of distances from the lower bound, and of their squares."""
        low, high = (self.lower, self.upper) if self.clipped else (-OUTER_BOX, OUTER_BOX)
        cells = quantize(view.records[:, 0], low, high, self.exponent) - self.lower
        rows: list[int] = cells.tolist()
        return sum(rows), sum(v * v for v in rows)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the sensitivity, the squared length of the range: from the center, at one end,
        to the other. Raises ValueError under add-remove.
        """
        if not self.clipped:
            raise ValueError(UNCLIPPED)
        if adjacency is not Adjacency.REPLACE:
            raise ValueError(
                f"squares about a mean are of a public number of records, not under {adjacency}; "
                "use Adjacency.REPLACE."
            )
        return sensitivity_lemma(
            Quantity.of(
                f"the sum of squares of records clamped to [{self.lower}, {self.upper}] cells "
                "about a released number",
                "ClampedSquares",
                lower=self.lower,
                upper=self.upper,
            ),
            norm=Norm.L1,
            value=(self.upper - self.lower) ** 2,
            adjacency=adjacency,
            domain=domain,
            obligation="theory/pairs.py:obligation_clamped_squares",
            source=Source("KV18", "the variance about a released mean"),
        )

    def unclipped(self) -> Query:
        """Return the same, clamped to the outer box of the grid only."""
        return replace(self, clipped=False)
