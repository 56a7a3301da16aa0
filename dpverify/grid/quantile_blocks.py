"""Scores for one quantile in each of several disjoint stretches of a column's cells."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.cells import quantize
from dpverify.grid.queries import Query
from dpverify.grid.records import Records
from dpverify.grid.tables import LONGEST, check_grid
from dpverify.grid.transcripts import NOTHING, Transcripts
from dpverify.grid.views import View
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.hypotheses import Quantity
from dpverify.privacy.numbers import settle, whole
from dpverify.privacy.rules import sensitivity_lemma

Block = tuple[int, int, int]
"""Tuple (gap, p, q): the quantile p/q of the records between the edges number gap - 1 and gap."""
_MOST_PARTS = 1 << 20


@dataclass(frozen=True, slots=True)
class BlockScores(Query):
    """Scores of the cells in disjoint blocks, whose edges were released: one quantile a block.

    lower, upper: the ends of a grid of cells of 2^exponent, to which records are clamped. parts: a
    power of two; each cell has so many parts, over which equal records are spread (``spread``).
    after: the stages that released the edges, each a part's number. Between two edges that follow
    each other lies a gap; a block holds the records after its lower edge and up to its upper one.
    blocks: (gap, p, q) in the order of their gaps. The score of a part t for p/q in its block is
    max(0, q #{z < t} - p n, p n - q #{z <= t}) / max(p, q - p), of the block's n records alone; a
    choice of one part in each block has the sum of their scores.
    The value is the edges in order, and then the sorted list of all records' parts.
    """

    is_table = True
    lower: int
    upper: int
    exponent: int
    parts: int
    blocks: tuple[Block, ...]
    after: tuple[str, ...] = ()
    edges: int = 0

    def __post_init__(self) -> None:
        for name in ("lower", "upper", "exponent", "parts", "edges"):
            settle(self, **{name: whole(getattr(self, name), name)})
        if not 1 <= self.parts <= _MOST_PARTS or self.parts & (self.parts - 1):
            raise ValueError(f"parts = {self.parts}; give a power of two from 1 to 2^20.")
        check_grid(self.lower, self.upper)
        check_grid(0, self.upper - self.lower + 1, self.parts)
        gaps = [gap for gap, _, _ in self.blocks]
        if not gaps or gaps != sorted({*gaps}) or not 0 <= gaps[0] <= gaps[-1] <= self.edges:
            raise ValueError(
                f"blocks in the gaps {gaps} of {self.edges} edges; give at least one, in order, "
                f"from 0 to {self.edges}, no two alike."
            )
        if any(not (0 <= p <= q and 1 <= q <= LONGEST) for _, p, q in self.blocks):
            raise ValueError("give quantiles p/q with 0 <= p <= q and q from 1 to 2^20.")
        if bool(self.after) is not bool(self.edges):
            raise ValueError("edges are what earlier stages released; give both or neither.")

    @property
    def width(self) -> int:
        """Number of released integers: the chosen part of each block."""
        return len(self.blocks)

    @property
    def reads(self) -> tuple[str, ...]:
        """The stages that released the edges."""
        return self.after

    @property
    def ends(self) -> tuple[int, int]:
        """The first and the last part of the grid."""
        return 0, (self.upper - self.lower + 1) * self.parts - 1

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> NDArray[np.int64]:
        """Return the edges and the sorted parts, shape (1, n) without edges, else (size,
        edges + n).
        """
        key = (BlockScores, self.lower, self.upper, self.exponent, self.parts)
        placed = view.once(key, lambda: self.spread(view.records[:, 0]))
        if not self.after:
            return placed[np.newaxis]
        edges = np.concatenate([before[name] for name in self.after], axis=1).astype(np.int64)
        rows = np.broadcast_to(placed, (len(edges), len(placed)))
        return np.concatenate([np.sort(edges, axis=1), rows], axis=1)

    def spread(self, values: Records) -> NDArray[np.int64]:
        """Return each record's part, counted from the lower end, in increasing order, shape (n,).

        The k-th of the records in one cell has the part whose number is k with its bits reversed:
        the first part, the one in the middle, then those between. So one record more in a cell is
        one part more in the list, and the others stay.
        """
        cells = np.sort(quantize(values, self.lower, self.upper, self.exponent)) - self.lower
        number = np.arange(len(cells)) - np.searchsorted(cells, cells, side="left")
        place, rest = np.zeros(len(cells), np.int64), number % self.parts
        for _ in range(self.parts.bit_length() - 1):
            place, rest = 2 * place + rest % 2, rest // 2
        return np.sort(cells * self.parts + place)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the sensitivity. Add-remove: 1, for one block's scores move, by at most max(p,
        q - p) before they are divided; replace: 2 for several blocks, and q / max(p, q - p) for
        a single one.
        """
        quantiles = tuple((p, q) for _, p, q in self.blocks)
        return sensitivity_lemma(
            Quantity.of(
                f"the score of every choice for {len(quantiles)} quantiles of disjoint blocks",
                "BlockScores",
                quantiles=quantiles,
            ),
            norm=Norm.L_INFINITY,
            value=_moves(quantiles, adjacency),
            adjacency=adjacency,
            domain=domain,
            obligation="theory/quantile_blocks.py:obligation_block_scores",
            source=Source("KSS22", "one record is in one subproblem of each depth"),
        )


def _moves(quantiles: tuple[tuple[int, int], ...], adjacency: Adjacency) -> Fraction:
    if adjacency is Adjacency.ADD_REMOVE:
        return Fraction(1)
    p, q = quantiles[0]
    return Fraction(2) if len(quantiles) > 1 else Fraction(q, max(p, q - p))
