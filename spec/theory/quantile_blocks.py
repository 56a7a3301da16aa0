"""One quantile in each of several disjoint blocks, by one choice of the exponential mechanism."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Norm, Source, of_query, shows, states

from .laws import Exponential, Outcome
from .obligations import datasets, neighbors, require
from .quantiles import QuantileLaw, QuantilesLaw
from .tables import score

Block = tuple[int, int, int]
"""Block (gap, p, q): the quantile p/q of the records after the edge number gap - 1, up to the next
one.
"""
_KSS = Source("KSS22", "one record is in one subproblem of each depth")
_SPREAD = Source("OURS", "equal records are spread over the parts of their cell")


def reversed_bits(number: int, parts: int) -> int:
    """Return the number below ``parts``, a power of two, whose bits are those of number mod parts
    in reverse.
    """
    bits = f"{number % parts:0{parts.bit_length() - 1}b}" if parts > 1 else "0"
    return int(bits[::-1], 2)


def spread(cells: Sequence[int], parts: int) -> tuple[int, ...]:
    """Return the part of every record, in order: the k-th of those in one cell has the part of k's
    reversed bits.
    """
    counts: dict[int, int] = {}
    places = []
    for cell in cells:
        number = counts.get(cell, 0)
        places.append(cell * parts + reversed_bits(number, parts))
        counts[cell] = number + 1
    return tuple(sorted(places))


@states(_SPREAD)
def obligation_spread(claimed: Callable[..., tuple[int, ...]] = spread) -> int:
    """Check that neighbors have lists of parts that are neighbors, for at most 5 records in two
    cells of 1 to 8 parts.

    Proof. The list has for each cell the parts of 0, ..., c - 1, c the cell's records: a cell
    that gains a record gains the part of c, and no other part changes. QED
    Records of one cell have different parts while these suffice, and a part determines the
    cell.
    """
    cases = 0
    for parts, adjacency in product((1, 2, 8), Adjacency):
        for pair in neighbors((0, 1), 5, adjacency):
            left, right = (list(claimed(one, parts)) for one in pair)
            for part in tuple(left):
                if part in right:
                    left.remove(part)
                    right.remove(part)
            moved = sorted((len(left), len(right)))
            allowed = [[0, 1]] if adjacency is Adjacency.ADD_REMOVE else [[0, 0], [1, 1]]
            require(moved in allowed, f"{pair}, {parts} parts: {left} and {right}")
            cases += 1
        for cells in datasets((0, 1), 4):
            places = claimed(cells, parts)
            require(sorted(z // parts for z in places) == sorted(cells), f"{cells}: {places}")
            for cell in (0, 1):
                own = {z for z in places if z // parts == cell}
                require(len(own) == min(parts, cells.count(cell)), f"{cells}: {places}")
    return cases


def block_sensitivity(quantiles: Sequence[tuple[int, int]], adjacency: Adjacency) -> Fraction:
    """Return the largest move of the sum of the scores of a choice, a part for each block.

    Proof. Each score is divided by max(p, q - p), so that one record more in a block, or one
    less, moves it by at most 1 (``tables.score_sensitivity``); other blocks' scores are of
    other records. A replaced record leaves one block and enters another, which is at most 2, or
    stays in its block, which is at most q / max(p, q - p) <= 2; with one block it can only
    stay, enter or leave. QED
    """
    if adjacency is Adjacency.ADD_REMOVE:
        return Fraction(1)
    p, q = quantiles[0]
    return Fraction(2) if len(quantiles) > 1 else Fraction(q, max(p, q - p))


@states(_KSS)
@shows("BlockScores", Norm.L_INFINITY, value=of_query(block_sensitivity, "quantiles"))
def obligation_block_scores(claimed: Callable[..., Fraction] = block_sensitivity) -> int:
    """Check that the largest move of a choice's score over all neighbors of at most 3 parts below
    5, and all edges between the blocks, is ``claimed``.
    """
    cases, universe = 0, range(5)
    for adjacency in Adjacency:
        pairs = {tuple(tuple(sorted(z)) for z in p) for p in neighbors(universe, 3, adjacency)}
        for quantiles in _SHOWN:
            largest = Fraction(0)
            for edge, (left, right) in product(universe if len(quantiles) > 1 else (4,), pairs):
                moves = [
                    _moves([z for z in left if low <= z <= high], right, low, high, p, q)
                    for (low, high), (p, q) in zip(
                        ((0, edge), (edge + 1, 4)), quantiles, strict=False
                    )
                    if low < high
                ]
                up, down = (sum((m[i] for m in moves), Fraction(0)) for i in (0, 1))
                largest = max(largest, up, -down)
                cases += 1
            stated = claimed(quantiles, adjacency)
            require(largest == stated, f"{quantiles}, {adjacency}: {largest}, not {stated}")
    return cases


_SHOWN = (((1, 2),), ((1, 4),), ((9, 10),), ((0, 1),), ((1, 2), (1, 2)), ((1, 4), (2, 3)))


def _moves(
    left: Sequence[int], right: Sequence[int], low: int, high: int, p: int, q: int
) -> tuple[Fraction, Fraction]:
    """Return the largest and the smallest change of a part's score in its block."""
    other = [z for z in right if low <= z <= high]
    moved = [
        Fraction(score(other, t, p, q) - score(left, t, p, q), max(p, q - p))
        for t in range(low, high + 1)
    ]
    return max(moved), min(moved)


@states(_KSS, Source("MT07", "the exponential mechanism", note="bounded range: DDR20, Section 3"))
@dataclass(frozen=True)
class BlockChoicesLaw:
    """Law of a part in each block, independently: mass proportional to e^(-score / (max(p, q - p)
    scale)).

    placed: the parts of all records, from the lower end on, in order; edges: what was released
    before, in order.
    """

    placed: tuple[int, ...]
    edges: tuple[int, ...]
    lower: int
    upper: int
    parts: int
    blocks: tuple[Block, ...]
    scale: Fraction

    def in_blocks(self) -> list[QuantileLaw | int]:
        """Return the law in each block; where a block has no two parts of its own, the upper edge
        alone.
        """
        first, last = 0, (self.upper - self.lower + 1) * self.parts - 1
        laws: list[QuantileLaw | int] = []
        for gap, p, q in self.blocks:
            low = self.edges[gap - 1] + 1 if gap else first
            high = self.edges[gap] if gap < len(self.edges) else last
            inside = tuple(z for z in self.placed if low <= z <= high)
            one = QuantileLaw(inside, low, high, p, q, self.scale * max(p, q - p))
            laws.append(one if low < high else high)
        return laws

    def probability(self, outcome: Outcome, e: Exponential) -> Any:
        """Return the product over blocks; 0 for another number of parts."""
        laws, mass = self.in_blocks(), Fraction(len(outcome) == len(self.blocks))
        for law, t in zip(laws, outcome, strict=False):
            mass = mass * (Fraction(t == law) if isinstance(law, int) else law.probability((t,), e))
        return mass

    def largest_loss(self, other: BlockChoicesLaw) -> Any:
        """Return the sum of the blocks' losses."""
        losses = [own.largest_loss(theirs) for own, theirs in self._differing(other)]
        return sum(losses, mp.mpf(0)) if losses else Fraction(0)

    def range(self, other: BlockChoicesLaw) -> Fraction:
        """Return the length of the interval that contains all losses."""
        moved = [own.moves(theirs) for own, theirs in self._differing(other)]
        return sum((max(one) - min(one) for one in moved), Fraction(0))

    def profile(self, other: BlockChoicesLaw, epsilon: Fraction) -> Any:
        """Return sup over events of P - e^epsilon Q, over the blocks that differ."""
        pairs = self._differing(other)
        first, second = (QuantilesLaw(tuple(pair[i] for pair in pairs), "range") for i in (0, 1))
        return first.profile(second, epsilon)

    def most_outcomes(self) -> tuple[Iterable[Outcome], Any]:
        """Return every choice; nothing lies beyond."""
        inside = (
            (law,) if isinstance(law, int) else range(law.lower, law.upper + 1)
            for law in self.in_blocks()
        )
        return product(*inside), mp.mpf(0)

    def facts(self) -> tuple[Any, ...]:
        """Return the name of the law, edges and parts, the grid, blocks, the number of edges and
        the scale.
        """
        grid = (self.lower, self.upper, self.parts, self.blocks, len(self.edges))
        return ("BlockChoices", (*self.edges, *self.placed), *grid, self.scale)

    def _differing(self, other: BlockChoicesLaw) -> list[tuple[QuantileLaw, QuantileLaw]]:
        """Return the laws of the blocks whose records differ."""
        if (self.edges, self.facts()[2:]) != (other.edges, other.facts()[2:]):
            raise ValueError("grid, edges, blocks and scale must be the same on neighbors")
        pairs = zip(self.in_blocks(), other.in_blocks(), strict=True)
        return [
            (own, theirs)
            for own, theirs in pairs
            if isinstance(own, QuantileLaw) and isinstance(theirs, QuantileLaw) and own != theirs
        ]
