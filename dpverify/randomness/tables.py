"""Tables of integers for what the first bits of a word decide: block, sign, integer and acceptance.

A word of W bits is read from its top as

    U: cell_bits | sign: 1 | U': the rest | offset: blocks.offset_bits

U chooses the block, U' accepts, the offset says where in its block the value lies; the later
stages (``inversion``) add bits to U, U' and the offset. Every entry here is computed in exact
integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpverify.randomness.blocks import Blocks, thresholds

CELL_BITS = 16
LARGEST_EXCESS = Fraction(1, 2)
_LEAST_ACCEPTANCE_BITS = 1


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The tables of one law for words of ``word_bits`` bits.

    thresholds: uint64, those of ``blocks.thresholds``.
    rows: int16, for each value of the first cell_bits + 1 bits: 2 * block + sign where these bits
    decide the block, else the last row.
    limits: uint64, by row. Word bits below the sign that are less are accepted whatever else holds.
    bases: int64, by row. The integer is base + offset, halved (down) where the law is rounded.
    """

    blocks: Blocks
    word_bits: int
    cell_bits: int
    thresholds: NDArray[np.uint64]
    rows: NDArray[np.int16]
    limits: NDArray[np.uint64]
    bases: NDArray[np.int64]

    @property
    def slope(self) -> Fraction:
        """Factor that turns o (2 L + o), or o, into the excess.

        It is the rate, on the line in units of a block.
        """
        blocks = self.blocks
        return blocks.rate * blocks.width**blocks.power if blocks.rounded else blocks.rate

    @property
    def low_bits(self) -> int:
        """Number of bits of U' and the offset together: those below the sign."""
        return self.word_bits - self.cell_bits - 1

    @property
    def acceptance_bits(self) -> int:
        """Number of bits of U'."""
        return self.low_bits - self.blocks.offset_bits

    @property
    def halved(self) -> int:
        """Number of binary places of bases and offsets.

        It is 1 if they are in halves: round(x) = floor((2 x + 1) / 2); else 0.
        """
        return int(self.blocks.rounded and self.blocks.shift >= 0)


@lru_cache(maxsize=64)
def table(blocks: Blocks, word_bits: int = 64, cell_bits: int = CELL_BITS) -> Table:
    """Return the tables of a law. Raises ValueError if its words have no bit left for accepting."""
    floors = thresholds(blocks, word_bits)
    acceptance_bits = word_bits - cell_bits - 1 - blocks.offset_bits
    if acceptance_bits < _LEAST_ACCEPTANCE_BITS:
        raise ValueError(
            f"word_bits = {word_bits} leaves {acceptance_bits} bits for accepting; blocks of "
            f"2^{blocks.shift} need {_LEAST_ACCEPTANCE_BITS - acceptance_bits} more."
        )
    rows = _rows(np.array(floors, dtype=np.uint64), word_bits, cell_bits)
    limits = _limits(blocks, len(floors), acceptance_bits)
    bases = [base for block in range(len(floors)) for base in _bases(blocks, block)]
    return Table(
        blocks,
        word_bits,
        cell_bits,
        np.array(floors, dtype=np.uint64),
        rows,
        np.array([*np.repeat(limits, 2).tolist(), 0], dtype=np.uint64),
        np.array([*bases, 0], dtype=np.int64),
    )


def _rows(floors: NDArray[np.uint64], word_bits: int, cell_bits: int) -> NDArray[np.int16]:
    """Return the row of each cell.

    A cell's words lie strictly between two neighboring thresholds, or nothing is decided.
    """
    rest = word_bits - cell_bits
    first = np.arange(1 << cell_bits, dtype=np.uint64) << np.uint64(rest)
    block = np.searchsorted(floors, first)
    decided = floors[block] > first + np.uint64((1 << rest) - 1)
    rows = np.full((1 << cell_bits, 2), 2 * len(floors), dtype=np.int16)
    rows[decided, 0], rows[decided, 1] = 2 * block[decided], 2 * block[decided] + 1
    return rows.reshape(-1)


def _limits(blocks: Blocks, count: int, acceptance_bits: int) -> list[int]:
    """Return for each block the limit below which the bits of U' and the offset accept.

    Below it, U' < 1 - largest excess <= exp(-excess). From block 1 on blocks have one width,
    and h is a polynomial of degree at most 2. So the largest excess of block 1 + j is
    (first + j step) / one, in integers, and never falls with j. Raises ArithmeticError for an
    excess that the polynomial of the second stage is not made for.
    """
    largest = [blocks.largest_excess(block) for block in (0, 1, 2)]
    one = largest[0].denominator * largest[1].denominator * largest[2].denominator
    zero, first, second = (int(excess * one) for excess in largest)
    excesses = [zero, *(first + j * (second - first) for j in range(count - 1))]
    if max(zero, excesses[-1]) > LARGEST_EXCESS * one:
        raise ArithmeticError(
            f"a block of {count} of {blocks} has an excess above {LARGEST_EXCESS}"
        )
    limits = [
        ((one - excess) << acceptance_bits) // one << blocks.offset_bits for excess in excesses
    ]
    if not blocks.rounded and blocks.shift:
        limits[0] = 0  # the number 0 has no offset: a later stage knows
    return limits


def _bases(blocks: Blocks, block: int) -> tuple[int, int]:
    """Return for both signs what to add to an offset.

    Under a negative sign the offset bits count from the block's far end, which is as uniform:
    -(left + (m - 1 - offset)) is the base -(left + m - 1) plus the offset. In halves, for
    rounded values, -(m j + floor((2 m - 1 - offset + 1) / 2)) = -(m j + m) + floor((offset + 1)
    / 2).
    """
    last = (1 << blocks.offset_bits) - 1
    positive, negative = blocks.integer(block, 0), -blocks.integer(block, last)
    if blocks.rounded and blocks.shift >= 0:
        return 2 * positive + 1, 2 * negative + 1
    return positive, negative
