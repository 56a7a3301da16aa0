"""Choice of a part in each of several disjoint blocks at once, by the exponential mechanism."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpverify.grid import Query
from dpverify.grid.masks import different_rows
from dpverify.grid.quantile_blocks import Block, BlockScores
from dpverify.plans.noise import LogProbabilities, Noise, positive_scale
from dpverify.plans.selection import Groups, QuantileChoice, weights_of
from dpverify.privacy import Derivation, PrivacyClaim, Sensitivity, rules
from dpverify.privacy.numbers import Exact, settle
from dpverify.randomness import Bits
from dpverify.randomness.bits import IntArray

_Drawn = tuple[int, NDArray[np.intp], QuantileChoice | None, int, IntArray]
"""A block's place, the draws with these edges, its choice (None: one part alone is left, the next
number), and the block's parts in order, shape (1, records)."""


@dataclass(frozen=True, slots=True, init=False)
class BlockChoices(Noise):
    """A part in each block of ``BlockScores``, with probability proportional to e^(-sum / scale).

    The sum is of the parts' scores in their blocks, so that the blocks' choices are
    independent, and all of them together are one choice by the exponential mechanism. Where a
    block has no part of its own, since its lower edge is the last part or its upper edge is the
    lower one, the upper edge is chosen.
    """

    lower: int
    upper: int
    parts: int
    blocks: tuple[Block, ...]
    edges: int
    scale: Fraction

    def __init__(
        self,
        lower: int,
        upper: int,
        parts: int,
        blocks: tuple[Block, ...],
        edges: int,
        scale: Exact,
    ) -> None:
        settle(self, lower=lower, upper=upper, parts=parts)
        settle(self, blocks=blocks, edges=edges)
        settle(self, scale=positive_scale(scale))

    @classmethod
    def of(cls, query: BlockScores, scale: Exact) -> BlockChoices:
        """Build the choice for this query."""
        return cls(*_grid_of(query), scale)

    def sample(self, bits: Bits, center: IntArray, size: int) -> IntArray:
        """Draw exactly (dpverify.randomness.choice), shape (size, blocks)."""
        cells = np.zeros((size, len(self.blocks)), dtype=np.int64)
        open_: list[tuple[int, NDArray[np.intp], QuantileChoice, Groups]] = []
        for column, rows, choice, only, inside in self._each(center, size):
            if choice is None:
                cells[rows, column] = only
            else:
                open_.append((column, rows, choice, choice.groups(inside)))
        by_scale: dict[Fraction, list[Groups]] = {}
        for _, _, choice, groups in open_:
            by_scale.setdefault(choice.scale, []).append(groups)
        weights = {scale: weights_of(groups, scale) for scale, groups in by_scale.items()}
        for column, rows, choice, groups in open_:
            drawn = choice.drawn(bits, groups, len(rows), weights[choice.scale])
            cells[rows, column] = drawn[:, 0]
        return cells

    def log_probability(self, outputs: IntArray, center: IntArray) -> LogProbabilities:
        """Compute log-probabilities, for witnesses only: float64."""
        total = np.zeros(len(outputs))
        for column, rows, choice, only, inside in self._each(center, len(outputs)):
            drawn = outputs[rows, column]
            if choice is None:
                total[rows] += np.where(drawn == only, 0.0, -np.inf)
            else:
                total[rows] += choice.log_probability(drawn[:, np.newaxis], inside)
        return total

    def claim(self, sensitivity: Derivation[Sensitivity]) -> Derivation[PrivacyClaim]:
        """Derive the claim by the rule of the exponential mechanism."""
        return rules.exponential_mechanism(sensitivity, self.scale)

    def check(self, query: Query) -> None:
        """Refuse all but the ``BlockScores`` of the same grid, blocks and edges."""
        own = (self.lower, self.upper, self.parts, self.blocks, self.edges)
        if not isinstance(query, BlockScores) or own != _grid_of(query):
            raise ValueError(f"A choice in {self.blocks} needs their BlockScores, not {query}.")

    def rescaled(self, factor: Fraction) -> Noise:
        """Return the same choices of scale * factor."""
        return BlockChoices(
            self.lower, self.upper, self.parts, self.blocks, self.edges, self.scale * factor
        )

    def dropped(self) -> Noise:
        """Return choices of a scale so small that only parts of the least score are left."""
        return self.rescaled(Fraction(1, 10**4) / self.scale)

    def _each(self, center: IntArray, size: int) -> Iterator[_Drawn]:
        """Yield what is chosen in each block, for each different row of edges."""
        first, last = 0, (self.upper - self.lower + 1) * self.parts - 1
        placed, draws = center[0, self.edges :], np.arange(size)
        groups: list[tuple[tuple[int, ...], NDArray[np.intp]]] = [((), draws)]
        if self.edges:
            rows, which = different_rows(center[:, : self.edges], "edges")
            groups = [(row, np.flatnonzero(which == i)) for i, row in enumerate(rows)]
        for edges, some in groups:
            for column, (gap, p, q) in enumerate(self.blocks):
                low = edges[gap - 1] + 1 if gap else first
                high = edges[gap] if gap < self.edges else last
                inside = placed[np.searchsorted(placed, low) : np.searchsorted(placed, high + 1)]
                choice = None
                if low < high:
                    choice = QuantileChoice(low, high, p, q, self.scale * max(p, q - p))
                yield column, some, choice, high, inside[np.newaxis]


def _grid_of(query: BlockScores) -> tuple[int, int, int, tuple[Block, ...], int]:
    return query.lower, query.upper, query.parts, query.blocks, query.edges
