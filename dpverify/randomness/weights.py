"""The weights exp(-rate gap) of the exponential mechanism and their sums, enclosed by integers.

A weight takes about as many bits as a draw reads and some more, and a law may have as many
candidates as there are records. So weights are cut into limbs, each an int64, and whole arrays
of limbs are multiplied and added up without a carry: no such sum has more than 62 bits.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import index

import numpy as np
from flint import arb
from numpy.typing import NDArray

from dpverify.privacy.balls import ball, working_precision
from dpverify.randomness.bits import BoolArray, IntArray

_GUARD_BITS = 32  # bits of the weights beyond those of U
_LADDER_BITS = 24  # further bits while they are multiplied up
_WORD_BITS = 62
_LEAST_LIMB = 8

Integers = Sequence[int] | IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """A law's integers as arrays, and its possible indices.

    The integers are the amounts by which each exponent exceeds the least of theirs, and their
    multiplicities. Sums of either stay below 2^62, or are Python integers.
    """

    exponents: IntArray
    multiplicities: IntArray
    indices: NDArray[np.intp]
    gaps: IntArray
    counts: IntArray

    @classmethod
    def of(cls, exponents: Integers, multiplicities: Integers | None) -> Candidates:
        """Read a law's integers. Raises as ``Choice`` does."""
        powers = _integers(exponents)
        counts = (
            np.ones(len(powers), np.int64) if multiplicities is None else _integers(multiplicities)
        )
        if len(counts) != len(powers):
            raise ValueError(f"{len(powers)} exponents, {len(counts)} multiplicities.")
        if (counts < 0).any():
            raise ValueError("The rate or a multiplicity is negative; both are at least 0.")
        indices = np.flatnonzero(counts)
        if not len(indices):
            raise ValueError("There is nothing to choose from: no multiplicity is positive.")
        possible = powers[indices]
        return cls(powers, counts, indices, possible - possible.min(), counts[indices])


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """Integers w with w <= 2^p exp(-rate gap) <= w + slack for increasing gaps, cut into limbs.

    limbs: shape (limbs, gaps); w is the sum of limb k shifted by k limb_bits. A limb times the
    sum of the multiplicities of any law is below 2^62, or limbs are Python integers.
    most: no law's multiplicities add up to more.
    known_bits: the number of bits of U that the weights serve; the precision p is that, guard
    bits, and the bits of ``most``, as the uncertainty of a sum counts every unit of them.
    """

    rate: Fraction
    gaps: IntArray
    limbs: IntArray
    limb_bits: int
    slack: int
    most: int
    known_bits: int

    @classmethod
    def of(
        cls,
        laws: Iterable[tuple[Integers, Integers | None]],
        rate: Fraction,
        known_bits: int = 64,
    ) -> Weights:
        """Enclose the weights of laws given by exponents and multiplicities, each weight once."""
        gaps, most = [], 0
        for law in laws:
            candidates = Candidates.of(*law)
            gaps.append(_distinct(candidates.gaps))
            most = max(most, int(candidates.counts.sum()))
        distinct = _distinct(np.concatenate(gaps))
        precision = known_bits + _GUARD_BITS + most.bit_length()
        lower, slack = _weights(distinct.tolist(), rate, precision)
        width = _WORD_BITS - most.bit_length()
        if width < _LEAST_LIMB:
            limbs, width = np.array([lower], dtype=object), 0
        else:
            mask, shifts = (1 << width) - 1, range(0, precision + 1, width)
            limbs, above = np.zeros((len(shifts), len(distinct)), np.int64), _above_zero(lower)
            for limb, shift in zip(limbs, shifts, strict=True):
                limb[: len(above)] = [w >> shift & mask for w in above]
        return cls(rate, distinct, limbs, width, slack, most, known_bits)

    def sums(self, law: Candidates, rate: Fraction) -> Sums:
        """Return the sums of a law's weights.

        Raises ValueError for a law that they were not made for.
        """
        places = np.minimum(np.searchsorted(self.gaps, law.gaps), len(self.gaps) - 1)
        known = rate == self.rate and int(law.counts.sum()) <= self.most
        if not known or (self.gaps[places] != law.gaps).any():
            raise ValueError("These weights are not those of the law; make them of it as well.")
        limbs = np.cumsum(self.limbs[:, places] * law.counts, axis=1)
        return Sums(limbs, np.cumsum(law.counts), self.limb_bits, self.slack, self.known_bits)


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Sums of the weights of the first candidates: the least they can be, in limbs, and the slack.

    All sums are of one unknown scale. With [u, u + 1) / 2^known_bits known to hold U, U times the
    total is at least u / 2^known_bits times the least total, and below u + 1 times the largest.
    Place i is decided when the first is not below the largest sum of the weights before i, and the
    second not above the least sum of the weights up to i.
    """

    limbs: IntArray
    counted: IntArray
    limb_bits: int
    slack: int
    known_bits: int

    def least(self, place: int) -> int:
        """Return the least sum of the weights up to a place."""
        limbs = self.limbs[:, place].tolist()
        return sum(limb << (k * self.limb_bits) for k, limb in enumerate(limbs))

    def largest(self, place: int) -> int:
        """Return the largest sum of the weights up to a place."""
        return self.least(place) + self.slack * int(self.counted[place])

    def decide(self, u: int) -> int | None:
        """Return the place that u decides, or None if more bits are needed."""
        last = len(self.counted) - 1
        reached = u * self.least(last) >> self.known_bits
        place = bisect_right(range(last), reached, key=self.largest)
        if place == last or (u + 1) * self.largest(last) <= self.least(place) << self.known_bits:
            return place
        return None

    def stretches(self) -> Iterator[tuple[int, int]]:
        """Yield for each place the first u that decides it, and the first beyond that does not."""
        limbs = self.limbs.astype(object)
        least = sum(limb << (k * self.limb_bits) for k, limb in enumerate(limbs)).tolist()
        largest = (least + self.slack * self.counted.astype(object)).tolist()
        starts = [-((-before << self.known_bits) // least[-1]) for before in largest[:-1]]
        ends = [(up_to << self.known_bits) // largest[-1] for up_to in least[:-1]]
        return zip([0, *starts], [*ends, 1 << self.known_bits], strict=True)


def _weights(gaps: list[int], rate: Fraction, precision: int) -> tuple[list[int], int]:
    """Return integers w with w <= 2^precision exp(-rate g) <= w + slack, and the slack.

    The gaps g increase. From one gap to the next an enclosure is multiplied by that of
    exp(-rate difference), rounded outward; most differences are the same. A weight below
    2^-precision is between 0 and the slack: undecided, not impossible.
    """
    finer = len(gaps).bit_length() + _LADDER_BITS
    bits = precision + finer
    low = high = 1 << bits
    lower, slack, steps, before = [], 0, dict[int, tuple[int, int]](), 0
    for gap in gaps:
        if gap - before not in steps:
            steps[gap - before] = _exponential(rate * (gap - before), bits)
        below, above = steps[gap - before]
        low, high, before = low * below >> bits, -(-high * above >> bits), gap
        slack = max(slack, -(-high >> finer) - (low >> finer))
        if high < 1 << finer:  # this weight and all later ones are between 0 and 1
            break
        lower.append(low >> finer)
    return lower + [0] * (len(gaps) - len(lower)), slack


def _above_zero(falling: list[int]) -> list[int]:
    """Return the integers before the first 0 of a list in which they fall."""
    return falling[: bisect_left(falling, True, key=lambda w: not w)]


def _exponential(exponent: Fraction, bits: int) -> tuple[int, int]:
    """Return integers around 2^bits exp(-exponent)."""
    with working_precision(bits + 16):
        value = ball(-exponent).exp()
        return max(0, _floor(value.lower(), bits)), -_floor(-value.upper(), bits)


def _floor(end: arb, precision: int) -> int:
    """Return the integer part of 2^precision times the exact end of a ball."""
    mantissa, exponent = map(int, end.man_exp())
    shift = exponent + precision
    # Far below 1 the fraction would have a huge denominator; the shift alone has none.
    return mantissa << shift if shift >= 0 else mantissa >> -shift


def _distinct(values: IntArray) -> IntArray:
    """Return the values in increasing order, each once."""
    ordered = np.sort(values)
    again: BoolArray = ordered[1:] == ordered[:-1]
    return np.concatenate([ordered[:1], ordered[1:][~again]])


def _integers(values: Integers) -> IntArray:
    """Return the values as int64 where sums and differences stay below 2^62, else as Python
    integers.
    """
    if isinstance(values, np.ndarray) and values.dtype == np.int64:
        integers: IntArray = values
        ends = (int(values.min(initial=0)), int(values.max(initial=0)))
    else:
        listed = values.tolist() if isinstance(values, np.ndarray) else values
        given = [index(value) for value in listed]
        integers = np.array(given, dtype=object)
        ends = (min(given, default=0), max(given, default=0))
    small = max(-ends[0], ends[1]) * max(2, len(integers)) < 1 << _WORD_BITS
    return integers.astype(np.int64 if small else object)
