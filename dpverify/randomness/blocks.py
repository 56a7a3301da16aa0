"""Laws on the integers and the line as blocks under an envelope: exact numbers, no draws.

For h increasing and convex from h(0) = 0 (here h(x) = rate x or rate x^2) a number of density
or mass proportional to exp(-h(|x|)) is drawn by proposing a block of values of |x|, then a
value of the block, then accepting with probability exp(-excess), excess = h(|x|) -
h(left end of the block). Blocks are m = 2^shift wide; block j starts at

* on the line: m j. The value is m (j + t), t uniform on [0, 1).
* on the integers: m (j - 1) + 1 for j >= 1, and the value is that plus r, r uniform on 0 .. m -
  1. Block 0 is the number 0 alone, which has one sign instead of two and a width of 1 instead
  of m: it counts 1 / (2 m), so that no draw has to be rejected for being minus zero.

So block j is proposed with probability proportional to its weight times exp(-h(left end)). A
draw compares its bits with the place of that probability's cumulative sums F(j) among the words
of W bits: the thresholds floor(2^W F(j)), integers that ball arithmetic proves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from flint import arb

from dpverify.privacy.balls import ball, rational, working_precision

LEAST_PRECISION = 192
_LARGEST_PRECISION = 1 << 14
_LAPLACE_BLOCKS, _GAUSSIAN_BLOCKS = 5, 6
"""Width of a scale in powers of two of blocks: 2^5 to 2^7 blocks.

Wider blocks are rejected more often (for 2^-5 and less of the draws), narrower ones have more
thresholds in the way of the first bits.
"""


@dataclass(frozen=True, slots=True)
class Blocks:
    """The law with mass or density proportional to exp(-rate |x|^power), in blocks of 2^shift.

    power: 1 or 2. shift: >= 0 for integers, any sign on the line. rounded: the law is that of the
    nearest integer to a real number, else that of an integer.
    """

    rate: Fraction
    power: int
    shift: int
    rounded: bool

    @property
    def width(self) -> Fraction:
        """Width of a block: m = 2^shift."""
        return Fraction(1 << self.shift) if self.shift >= 0 else Fraction(1, 1 << -self.shift)

    @property
    def offset_bits(self) -> int:
        """Number of bits that say where in its block a value lies, as far as the integer needs it.

        On the line, round(m (j + t)) = m j + floor(m t + 1/2) for m >= 1: shift + 1 bits of t.
        For m <= 1/2 the integers' cells end where blocks do, and the block alone decides.
        """
        return max(0, self.shift + 1) if self.rounded else self.shift

    def left(self, block: int) -> Fraction:
        """Return where the block starts."""
        if self.rounded:
            return self.width * block
        return self.width * (block - 1) + 1 if block else Fraction(0)

    def excess(self, block: int, offset: Fraction) -> Fraction:
        """Return h(left + offset) - h(left): a value is accepted with probability exp(-excess)."""
        longer = 1 if self.power == 1 else 2 * self.left(block) + offset
        return self.rate * (offset * longer)

    def largest_excess(self, block: int) -> Fraction:
        """Return the excess of the block's right end, which no value exceeds."""
        if self.rounded:
            return self.excess(block, self.width)
        return self.excess(block, self.width - 1) if block else Fraction(0)

    def integer(self, block: int, offset: int) -> int:
        """Return |x| as an integer.

        offset: the first ``offset_bits`` of its place in the block.
        """
        if not self.rounded:
            return ((block - 1) << self.shift) + 1 + offset if block else 0
        if self.shift >= 0:
            return (block << self.shift) + ((offset + 1) >> 1)
        return (block + (1 << (-self.shift - 1))) >> -self.shift

    def tails(self, precision: int) -> list[arb]:
        """Return the proposal's mass beyond block 0, 1, ... until less than 2^-precision is left.

        The results are balls that hold the true values; call at a working precision a little
        above ``precision``. Weights w(j) are built by w(j + 1) = w(j) d(j), d(j + 1) = d(j) e,
        for the left ends are equidistant from block 1 on (and from 0 on the line) and h is a
        polynomial of degree <= 2. Beyond the last block d(j) only falls: what is left is
        between w and w / (1 - d).
        """
        first = 0 if self.rounded else 1
        h = [self.rate * self.left(first + j) ** self.power for j in range(3)]
        weight, ratio = (-ball(h[0])).exp(), (-ball(h[1] - h[0])).exp()
        falls = (-ball(h[2] - 2 * h[1] + h[0])).exp()
        # Before block 1 of the integers there is the number 0, of weight 1 / (2 m).
        weights = [] if self.rounded else [ball(1 / (2 * self.width))]
        if not weights:
            weights.append(weight)
            weight, ratio = weight * ratio, ratio * falls
        least = arb(2) ** -precision * weights[0]
        while not weight / (1 - ratio) < least:
            weights.append(weight)
            weight, ratio = weight * ratio, ratio * falls
        beyond = [weight.union(weight / (1 - ratio))]
        for weight in reversed(weights):
            beyond.append(beyond[-1] + weight)
        total = beyond.pop()
        return [tail / total for tail in reversed(beyond)]


def laplace_blocks(scale: Fraction) -> Blocks:
    """Return the blocks of integers of mass proportional to exp(-|z| / scale)."""
    return Blocks(1 / scale, 1, max(0, _floor_log2(scale) - _LAPLACE_BLOCKS), False)


def gaussian_blocks(sigma: Fraction) -> Blocks:
    """Return the blocks of integers of mass proportional to exp(-z^2 / (2 sigma^2))."""
    shift = max(0, _floor_log2(sigma) - _GAUSSIAN_BLOCKS)
    return Blocks(1 / (2 * sigma**2), 2, shift, False)


def rounded_gaussian_blocks(sigma: Fraction) -> Blocks:
    """Return the blocks of rounded real numbers of density proportional to
    exp(-x^2 / (2 sigma^2)).
    """
    return Blocks(1 / (2 * sigma**2), 2, _floor_log2(sigma) - _GAUSSIAN_BLOCKS, True)


@lru_cache(maxsize=256)
def thresholds(blocks: Blocks, word_bits: int) -> tuple[int, ...]:
    """Return floor(2^W F(j)) for j = 0, 1, ... until it is 2^W - 1, W = word_bits.

    They never decrease. A uniform number U that begins with the bits of the integer u lies in
    block j for certain if threshold(j - 1) < u < threshold(j), and u equal to a threshold
    decides nothing: every word is one or the other. Raises ArithmeticError if some F(j) cannot
    be told from a multiple of 2^-W.
    """
    precision = LEAST_PRECISION
    while precision <= _LARGEST_PRECISION:
        with working_precision(precision):
            floors = _floors(blocks.tails(precision - LEAST_PRECISION // 2), word_bits)
        if floors is not None:
            return floors
        precision *= 2
    raise ArithmeticError(f"the thresholds of {blocks} could not be enclosed")


def _floors(tails: Sequence[arb], word_bits: int) -> tuple[int, ...] | None:
    """Return 2^W minus the ceilings of 2^W tail, as 1 - F is small where F is hardest to know.

    None unless both ends of every ball agree and the last tail is below 2^-W for certain.
    """
    floors, words = [], arb(2) ** word_bits
    for tail in tails:
        low, high = ((end * words).ceil().unique_fmpz() for end in (tail.lower(), tail.upper()))
        if low is None or low != high or low <= 0:
            return None
        floors.append((1 << word_bits) - int(low))
        if low == 1:
            return tuple(floors)
    return None


def block_between(blocks: Blocks, below: Fraction, above: Fraction, precision: int) -> int | None:
    """Return the block of every U with below < 1 - U <= above, or None if that cannot be told.

    precision: in bits, above those of ``below``; more can tell more.
    """
    with working_precision(precision + LEAST_PRECISION):
        tails = blocks.tails(precision)
        for block, tail in enumerate(tails):
            if tail <= ball(below):
                sure = block == 0 or tails[block - 1] >= ball(above)
                return block if sure else None
    return None


def exponential_between(
    least: Fraction, most: Fraction, precision: int
) -> tuple[Fraction, Fraction]:
    """Return rationals around exp(-g) for every g from ``least`` to ``most``, the lower first."""
    with working_precision(precision):
        return rational((-ball(most)).exp().lower()), rational((-ball(least)).exp().upper())


def _floor_log2(x: Fraction) -> int:
    guess = x.numerator.bit_length() - x.denominator.bit_length()
    return guess if Fraction(2) ** guess <= x else guess - 1
