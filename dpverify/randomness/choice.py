"""The exact draw of the exponential mechanism: one of many candidates, by weights exp(-rate e).

Lay the weights end to end on a line, and let U be uniform on [0, 1): the draw is the candidate
whose stretch holds U times the total. Neither U nor the weights are ever rounded: some bits of
U and enclosures of the weights usually decide which stretch it is; where they do not, both are
refined until they do. So a candidate has exactly its probability, however small that is.

Every decision is a comparison of integers. The running time of a draw follows U, hardly ever
visibly: 64 bits leave one draw in about 2^63 / (number of candidates) open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpverify.privacy.numbers import settle
from dpverify.randomness.bits import Bits
from dpverify.randomness.weights import Candidates, Integers, Sums, Weights

_FEW = 64  # up to so many draws are decided one by one, without a table


@dataclass(frozen=True, slots=True)
class Choice:
    """The law P(i) = multiplicities[i] exp(-rate exponents[i]) / total; set up once, drawn often.

    exponents: integers of any size and sign; only their differences matter. rate: >= 0.
    multiplicities: integers >= 0 of any size, 1 each unless given; 0 is never drawn.
    weights: of this law and others of the same rate, where they were enclosed together.
    Raises ValueError when nothing can be drawn, for a negative rate or multiplicity, and for
    lengths that differ; TypeError for what is not an integer.
    """

    exponents: Integers
    rate: Fraction
    multiplicities: Integers | None = None
    weights: Weights | None = field(default=None, repr=False, compare=False)
    _candidates: Candidates = field(init=False, repr=False, compare=False)
    _known: dict[int, Sums] = field(init=False, repr=False, compare=False)
    _tables: dict[int, _Table] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.rate < 0:
            raise ValueError("The rate or a multiplicity is negative; both are at least 0.")
        choices = Candidates.of(self.exponents, self.multiplicities)
        for name, value in (
            ("exponents", tuple(choices.exponents.tolist())),
            ("multiplicities", tuple(choices.multiplicities.tolist())),
            ("_candidates", choices),
            ("_known", {}),
            ("_tables", {}),
        ):
            settle(self, **{name: value})

    def draw(self, bits: Bits, size: int) -> NDArray[np.intp]:
        """Draw ``size`` independent indices; no bit is drawn when only one is possible."""
        possible = self._candidates.indices
        if len(possible) == 1:
            return np.full(size, possible[0], dtype=np.intp)
        words = bits.words(size)
        if size <= _FEW:
            sums = self._sums(bits.word_bits)
            places = [sums.decide(word) for word in words.tolist()]
            decided = np.array([place is not None for place in places], dtype=np.bool_)
            drawn = possible[np.array([place or 0 for place in places], dtype=np.intp)]
        else:
            drawn, decided = self._table_of(bits.word_bits).look_up(words)
        for left in np.flatnonzero(~decided).tolist():
            drawn[left] = self._refine(bits, int(words[left]))
        return drawn

    def atoms(self, exponential: Callable[[Fraction], Fraction]) -> list[tuple[int, Fraction]]:
        """Return the possible indices and their masses, for a rational stand-in of g -> exp(-g)."""
        choices = self._candidates
        pairs = zip(choices.gaps.tolist(), choices.counts.tolist(), strict=True)
        masses = [count * exponential(self.rate * gap) for gap, count in pairs]
        total = sum(masses)
        return [(i, mass / total) for i, mass in zip(choices.indices.tolist(), masses, strict=True)]

    def _refine(self, bits: Bits, first_word: int) -> int:
        """Return the index that U decides, given its first word; twice as many bits at every
        attempt.
        """
        known, u = bits.word_bits, first_word
        while True:
            for word in bits.words(known // bits.word_bits).tolist():
                u = (u << bits.word_bits) | word
            known *= 2
            place = self._sums(known).decide(u)
            if place is not None:
                return int(self._candidates.indices[place])

    def _table_of(self, word_bits: int) -> _Table:
        if word_bits not in self._tables:
            stretches = self._sums(word_bits).stretches()
            self._tables[word_bits] = _Table.of(stretches, self._candidates.indices.tolist())
        return self._tables[word_bits]

    def _sums(self, known_bits: int) -> Sums:
        """Return what so many bits of U decide, with weights that are known closer than U."""
        if known_bits not in self._known:
            weights = self.weights
            if weights is None or weights.known_bits != known_bits:
                laws = [(self._candidates.exponents, self._candidates.multiplicities)]
                weights = Weights.of(laws, self.rate, known_bits)
            self._known[known_bits] = weights.sums(self._candidates, self.rate)
        return self._known[known_bits]


def weighted_choice(
    bits: Bits,
    exponents: Integers,
    rate: Fraction,
    size: int,
    multiplicities: Integers | None = None,
) -> NDArray[np.intp]:
    """Draw ``size`` indices, P(i) proportional to multiplicities[i] exp(-rate exponents[i]).

    They are independent. Arguments and errors are those of ``Choice``, which sets a law up once
    for many draws.
    """
    return Choice(exponents, rate, multiplicities).draw(bits, size)


@dataclass(frozen=True, slots=True)
class _Table:
    """Stretches of at most 64 bits as arrays; an empty one comes first, so all words find one."""

    starts: NDArray[np.uint64]
    lengths: NDArray[np.uint64]
    indices: NDArray[np.intp]

    @classmethod
    def of(cls, stretches: Iterable[tuple[int, int]], indices: Sequence[int]) -> _Table:
        """Make a table of the stretches that are not empty.

        These start below 2^64, as the others may not.
        """
        entries = zip(stretches, indices, strict=True)
        kept = [(start, end - start, i) for (start, end), i in entries if start < end]
        starts, lengths, places = zip((0, 0, 0), *kept, strict=True)
        longest = (1 << 64) - 1  # only a single candidate has more, and draws no word
        return cls(
            np.array(starts, dtype=np.uint64),
            np.array([min(length, longest) for length in lengths], dtype=np.uint64),
            np.array(places, dtype=np.intp),
        )

    def look_up(self, words: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return for every word an index, and whether it is the one that the word decides."""
        rows = np.searchsorted(self.starts, words, side="right") - 1
        return self.indices[rows], words - self.starts[rows] < self.lengths[rows]
