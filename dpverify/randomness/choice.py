"""The exact draw of the exponential mechanism: one of many candidates, by weights exp(-rate e).

Lay the weights end to end on a line, and let U be uniform on [0, 1): the candidate whose stretch
holds U times the total is the draw. Neither U nor the weights are ever rounded: some bits of U and
enclosures of the weights usually decide which stretch it is; where they do not, both are refined
until they do. So a candidate has exactly its probability, however small that is.

Every decision is a comparison of integers. The running time of a draw follows U, hardly ever
visibly: 64 bits leave one draw in about 2^63 / (number of candidates) open.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate
from operator import index, mul

import numpy as np
from flint import arb
from numpy.typing import NDArray

from dpverify.privacy.balls import ball, working_precision
from dpverify.randomness.bits import Bits, IntArray

_GUARD_BITS = 32  # how much closer the weights are known than U


@dataclass(frozen=True, slots=True)
class Choice:
    """The law P(i) = multiplicities[i] exp(-rate exponents[i]) / total; set up once, drawn often.

    exponents: integers of any size and sign; only their differences matter. rate: >= 0.
    multiplicities: integers >= 0 of any size, 1 each unless given; 0 is never drawn.
    Raises ValueError when nothing can be drawn, for a negative rate or multiplicity, and for
    lengths that differ; TypeError for what is not an integer.
    """

    exponents: Sequence[int] | IntArray
    rate: Fraction
    multiplicities: Sequence[int] | IntArray | None = None
    _indices: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _gaps: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _counts: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _table: _Table = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        exponents, given = _integers(self.exponents), self.multiplicities
        multiplicities = (1,) * len(exponents) if given is None else _integers(given)
        if len(multiplicities) != len(exponents):
            raise ValueError(f"{len(exponents)} exponents, {len(multiplicities)} multiplicities.")
        if self.rate < 0 or min(multiplicities, default=0) < 0:
            raise ValueError("The rate or a multiplicity is negative; both are at least 0.")
        indices = tuple(i for i, count in enumerate(multiplicities) if count)
        if not indices:
            raise ValueError("There is nothing to choose from: no multiplicity is positive.")
        least = min(exponents[i] for i in indices)
        for name, value in (
            ("exponents", exponents),
            ("multiplicities", multiplicities),
            ("_indices", indices),
            ("_gaps", tuple(exponents[i] - least for i in indices)),
            ("_counts", tuple(multiplicities[i] for i in indices)),
        ):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_table", self._table_of(64))

    def draw(self, bits: Bits, size: int) -> NDArray[np.intp]:
        """``size`` independent indices; no bit is drawn when only one is possible."""
        if len(self._indices) == 1:
            return np.full(size, self._indices[0], dtype=np.intp)
        table = self._table if bits.word_bits == 64 else self._table_of(bits.word_bits)
        words = bits.words(size)
        drawn, decided = table.look_up(words)
        for left in np.flatnonzero(~decided).tolist():
            drawn[left] = self._refine(bits, int(words[left]))
        return drawn

    def atoms(self, exponential: Callable[[Fraction], Fraction]) -> list[tuple[int, Fraction]]:
        """The possible indices and their masses, for a rational stand-in of g -> exp(-g)."""
        pairs = zip(self._gaps, self._counts, strict=True)
        masses = [count * exponential(self.rate * gap) for gap, count in pairs]
        total = sum(masses)
        return [(i, mass / total) for i, mass in zip(self._indices, masses, strict=True)]

    def _refine(self, bits: Bits, first_word: int) -> int:
        """The index that U decides, given its first word; twice as many bits at every attempt."""
        known, u = bits.word_bits, first_word
        while True:
            for word in bits.words(known // bits.word_bits).tolist():
                u = (u << bits.word_bits) | word
            known *= 2
            place = self._stretches(known).decide(u)
            if place is not None:
                return self._indices[place]

    def _table_of(self, word_bits: int) -> _Table:
        return _Table.of(self._stretches(word_bits), self._indices)

    def _stretches(self, known_bits: int) -> _Stretches:
        """What so many bits of U decide, with weights that are known closer than U."""
        # The uncertainty of the sum counts every unit of multiplicity: hence its bits on top.
        precision = known_bits + _GUARD_BITS + sum(self._counts).bit_length()
        weights, slack = _weights(sorted(set(self._gaps)), self.rate, precision)
        return _stretches([weights[gap] for gap in self._gaps], slack, self._counts, known_bits)


def weighted_choice(
    bits: Bits,
    exponents: Sequence[int] | IntArray,
    rate: Fraction,
    size: int,
    multiplicities: Sequence[int] | IntArray | None = None,
) -> NDArray[np.intp]:
    """``size`` independent indices, P(i) proportional to multiplicities[i] exp(-rate exponents[i]).

    Arguments and errors are those of ``Choice``, which sets a law up once for many draws.
    """
    return Choice(exponents, rate, multiplicities).draw(bits, size)


@dataclass(frozen=True, slots=True)
class _Stretches:
    """What the first bits u of U decide: place i if starts[i] <= u < ends[i], else nothing yet.

    ``starts`` rises, and no two of these stretches overlap; some may be empty.
    """

    starts: list[int]
    ends: list[int]

    def decide(self, u: int) -> int | None:
        """The place, or None if more bits are needed."""
        place = bisect_right(self.starts, u) - 1
        return place if u < self.ends[place] else None


@dataclass(frozen=True, slots=True)
class _Table:
    """Stretches of at most 64 bits as arrays; an empty one comes first, so all words find one."""

    starts: NDArray[np.uint64]
    lengths: NDArray[np.uint64]
    indices: NDArray[np.intp]

    @classmethod
    def of(cls, stretches: _Stretches, indices: Sequence[int]) -> _Table:
        """The stretches that are not empty: these start below 2^64, as the others may not."""
        found = zip(stretches.starts, stretches.ends, indices, strict=True)
        kept = [(start, end - start, i) for start, end, i in found if start < end]
        starts, lengths, places = zip((0, 0, 0), *kept, strict=True)
        longest = (1 << 64) - 1  # only a single candidate has more, and draws no word
        return cls(
            np.array(starts, dtype=np.uint64),
            np.array([min(length, longest) for length in lengths], dtype=np.uint64),
            np.array(places, dtype=np.intp),
        )

    def look_up(self, words: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """For every word an index, and whether it is the one that the word decides."""
        rows = np.searchsorted(self.starts, words, side="right") - 1
        return self.indices[rows], words - self.starts[rows] < self.lengths[rows]


def _stretches(
    weights: list[int], slack: int, counts: Sequence[int], known_bits: int
) -> _Stretches:
    """The stretches of candidates whose weights are within [weights[i], weights[i] + slack].

    All sums are of one unknown scale. With [u, u + 1) / 2^known_bits known to hold U, U times the
    total is at least u / 2^known_bits times the least total, and below u + 1 times the largest.
    Place i is decided when the first is not below the largest sum of the weights before i, and the
    second not above the least sum of the weights up to i.
    """
    least = list(accumulate(map(mul, weights, counts)))
    largest = [low + slack * count for low, count in zip(least, accumulate(counts), strict=True)]
    starts = [-((-before << known_bits) // least[-1]) for before in largest[:-1]]
    ends = [(up_to << known_bits) // largest[-1] for up_to in least[:-1]]
    return _Stretches([0, *starts], [*ends, 1 << known_bits])


def _weights(gaps: list[int], rate: Fraction, precision: int) -> tuple[dict[int, int], int]:
    """Integers with weights[g] <= 2^precision exp(-rate g) <= weights[g] + slack, and the slack.

    A weight below 2^-precision is between 0 and the slack: undecided, not impossible.
    """
    lower, slack = dict[int, int](), 0
    with working_precision(precision + 16):
        for gap in gaps:
            weight = ball(-rate * gap).exp()
            lower[gap] = max(0, _floor(weight.lower(), precision))
            slack = max(slack, -_floor(-weight.upper(), precision) - lower[gap])
    return lower, slack


def _floor(end: arb, precision: int) -> int:
    """The integer part of 2^precision times the exact end of a ball."""
    mantissa, exponent = map(int, end.man_exp())
    shift = exponent + precision
    # Far below 1 the fraction would have a huge denominator; the shift alone has none.
    return mantissa << shift if shift >= 0 else mantissa >> -shift


def _integers(values: Sequence[int] | IntArray) -> tuple[int, ...]:
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    return tuple(index(value) for value in listed)
