"""Statistics of groups of records, counted by bucket: the idea of ``KeyedCounts``, applied to
groups.

Which group a record is in is a fixed public function of the record itself and of which of its
equals it is, so one record more or less changes one group, and no other record changes its
group. The function is a hash that looks random; accuracy needs that, the sensitivity does not.
What it is on integers, and why it is enough, is in spec/theory/groups.py.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.hashes import GOLDEN, Words, blocks_of, cells_of, mixed, sums_of_words
from dpverify.grid.linear import WORD, Integers, largest
from dpverify.grid.masks import cut
from dpverify.grid.queries import Query
from dpverify.grid.records import Records
from dpverify.grid.transcripts import NOTHING, Transcripts
from dpverify.grid.vectors import checked_exponent
from dpverify.grid.views import View
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.hypotheses import Quantity
from dpverify.privacy.numbers import whole
from dpverify.privacy.rules import sensitivity_lemma

ZERO = -(1 << 10)
"""The bucket of zero: below that of any other number."""
MOST_GROUPS = 1 << 20
_MOST_KEY = 1 << 63
_WORD = 32
_LOW = 21  # bits of the lower word of a difference, which has at most 42


@dataclass(frozen=True, slots=True)
class KthLargest:
    """The k-th largest coordinate, k from 1 on."""

    k: int
    averaged: ClassVar[bool] = True  # whether sums are divided by twice the number of pairs

    def of(self, sums: Integers) -> Integers:
        """Return the statistic of each group, from sums of shape (groups, columns)."""
        return np.sort(sums, axis=1)[:, -self.k]

    def check(self, columns: int) -> None:
        """Raise ValueError unless k is from 1 to the number of columns."""
        if not 1 <= whole(self.k, "k") <= columns:
            raise ValueError(f"k = {self.k} is outside 1..{columns}, the numbers of a record.")


@dataclass(frozen=True, slots=True)
class SumOver:
    """The sum of these coordinates, each counted from 0 and named once."""

    coordinates: tuple[int, ...]
    averaged: ClassVar[bool] = True

    def of(self, sums: Integers) -> Integers:
        """Return the statistic of each group, from sums of shape (groups, columns)."""
        own = sums[:, list(self.coordinates)]
        fits = largest(own) * len(self.coordinates) < WORD
        totals: Integers = (own if fits else own.astype(object)).sum(axis=1)
        return totals

    def check(self, columns: int) -> None:
        """Raise ValueError unless these are coordinates, at least one."""
        named = [whole(i, "coordinates") for i in self.coordinates]
        if not named or len({*named}) < len(named) or not {*named} <= {*range(columns)}:
            raise ValueError(
                f"coordinates = {self.coordinates}: name at least one of 0..{columns - 1}, each "
                "once."
            )


@dataclass(frozen=True, slots=True)
class ReportsWorth:
    """Power 4^j for the least k = 2^j for which k columns of their own cost hardly more than
    the best k.

    The cost of k is the noise of a mean with M = diag(the k largest variances, the others'
    average): the sum of the k largest standard deviations + sqrt((d - k) times the sum of the
    other variances). "Hardly more" is an eighth. Roots are rounded down to 2^-20; apart from
    that the result is the same in any unit.
    """

    averaged: ClassVar[bool] = False

    def of(self, sums: Integers) -> Integers:
        """Return the statistic of each group, from sums of shape (groups, columns)."""
        return np.array([self._of(row) for row in sums.tolist()], np.int64)

    def _of(self, sums: list[int]) -> int:
        ordered = sorted(sums, reverse=True)
        own = [0, *accumulate(math.isqrt(value << 40) for value in ordered)]
        rest = [*accumulate(reversed(ordered), initial=0)][::-1]
        d = len(ordered)
        costs: list[int] = []
        while (k := 1 << len(costs)) <= d:
            costs.append(own[k] + math.isqrt((d - k) * rest[k] << 40))
        return int(4 ** next(j for j, cost in enumerate(costs) if 8 * cost <= 9 * min(costs)))

    def check(self, columns: int) -> None:
        """Accept every number of columns."""


Statistic = KthLargest | SumOver | ReportsWorth


@dataclass(frozen=True, slots=True)
class GroupBuckets(Query):
    """Numbers of groups with their statistic in each bucket: [4^b, 4^(b + 1)), or zero.

    A record counts as round(x / 2^exponent) in each of ``columns`` columns, clamped to 2^40
    cells. The records of each of ``groups`` groups are put in order by a hash, and paired in
    that order; one may be left over. A group of p pairs has the sum of the squared differences
    over 2 p in each column, an estimate of its variance in squared cells; with no pair it has
    zeros. The statistic is of those.
    key: another number gives another hash. Raises ValueError for parameters out of range.
    """

    is_table = True
    statistic: Statistic
    columns: int
    groups: int
    exponent: int
    key: int = 0

    def __post_init__(self) -> None:
        if whole(self.columns, "columns") < 1:
            raise ValueError(f"columns = {self.columns}; a record has at least one number.")
        self.statistic.check(self.columns)
        if not 1 <= whole(self.groups, "groups") <= MOST_GROUPS:
            raise ValueError(f"groups = {self.groups}; give a number from 1 to 2^20.")
        if not 0 <= whole(self.key, "key") < _MOST_KEY:
            raise ValueError(f"key = {self.key} is outside 0..2^63 - 1.")
        checked_exponent(self.exponent)

    @property
    def width(self) -> None:
        """Width None: as many numbers as surface."""

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> NDArray[np.int64]:
        """Return the buckets in increasing order and their numbers of groups, shape (buckets,
        2).
        """
        return np.array(sorted(Counter(self.buckets(view)).items()), np.int64)

    def buckets(self, view: View) -> list[int]:
        """Return each group's bucket."""
        sums, pairs = self.sums(view)
        parts = np.maximum(2 * pairs, 1) if self.statistic.averaged else np.ones_like(pairs)
        return list(map(int, buckets_of(self.statistic.of(sums)[:, np.newaxis], parts)[:, 0]))

    def sums(self, view: View) -> tuple[Integers, NDArray[np.int64]]:
        """Return the squared differences of each group, summed for each column, shape (groups,
        columns), and its number of pairs, shape (groups,); once for each grouping of a view.
        """
        key = (type(self), self.columns, self.groups, self.exponent, self.key)
        return view.once(key, lambda: self._sums(view.records))

    def _sums(self, records: Records) -> tuple[Integers, NDArray[np.int64]]:
        ordered, sizes = self.grouped(records)
        pairs = sizes // 2
        sums: Integers = np.zeros((self.groups, self.columns), np.int64)
        place = np.arange(len(ordered)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        first = np.flatnonzero((place % 2 == 0) & (place + 1 < np.repeat(sizes, sizes)))
        owner = np.repeat(np.arange(self.groups), pairs)
        for some in self._blocks(len(first)):
            one, two = (self._cells(records[ordered[first[some] + next_]]) for next_ in (0, 1))
            starts = np.flatnonzero(np.diff(owner[some], prepend=-1))
            sums = added_at(sums, owner[some][starts], sums_of_squares(one - two, starts))
        return sums, pairs

    def members(self, records: Records) -> list[NDArray[np.intp]]:
        """Return each group's records by index, in the order in which they are paired."""
        ordered, sizes = self.grouped(records)
        return cut(ordered, np.cumsum(sizes)[:-1])

    def grouped(self, records: Records) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Return the records by index, group after group, in the order in which they are paired,
        and the number of records of each group.
        """
        prints = self._fingerprints(records)
        order = self._ordered(records, prints)
        copies = _copies(self._as_before(records, order, prints))
        prints = prints[order]
        steps = 2 * copies.astype(np.uint64) * np.uint64(GOLDEN)
        labels = mixed(prints + steps + np.uint64(GOLDEN)) % np.uint64(self.groups)
        places = mixed(prints + steps + np.uint64(2 * GOLDEN % (1 << 64)))
        sorted_ = np.lexsort(
            (places, labels)
        )  # stable: ties as they were, by fingerprint and record
        sizes = np.bincount(labels.astype(np.intp), minlength=self.groups)
        return order[sorted_], sizes.astype(np.int64)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the sensitivity: one record more or less changes one group; one replaced
        changes two.
        """
        return sensitivity_lemma(
            Quantity.of(f"the histogram of {self.groups} groups of records", "GroupBuckets"),
            norm=Norm.MOVED,
            value=2 if adjacency is Adjacency.REPLACE else 1,
            adjacency=adjacency,
            domain=domain,
            obligation="theory/groups.py:obligation_group_buckets",
            source=Source(
                "DJYZZ24", "Algorithm 2, groups of records", note="by a hash, not by index"
            ),
        )

    def _cells(self, records: Records) -> NDArray[np.int64]:
        return cells_of(records, self.exponent)

    def _fingerprints(self, records: Records) -> Words:
        return sums_of_words(records, self.exponent, self.key)

    def _blocks(self, rows: int) -> Iterator[slice]:
        return blocks_of(rows, self.columns)

    def _as_before(
        self, records: Records, order: NDArray[np.intp], prints: Words
    ) -> NDArray[np.bool_]:
        """Return whether a record is in the cells of the one before it in this order, shape
        (n,).
        """
        same = np.zeros(len(order), np.bool_)
        same[1:] = prints[order[1:]] == prints[order[:-1]]
        places = np.flatnonzero(same)
        for some in self._blocks(len(places)):
            pair = (self._cells(records[order[places[some] - back]]) for back in (0, 1))
            same[places[some]] = np.equal(*pair).all(axis=1)
        return same

    def _ordered(self, records: Records, prints: Words) -> NDArray[np.intp]:
        """Return the order by fingerprint, and by cells where different records have the same
        one.
        """
        order = np.argsort(prints, kind="stable")
        alike = np.zeros(len(order), np.bool_)
        alike[1:] = prints[order[1:]] == prints[order[:-1]]
        collided = alike & ~self._as_before(records, order, prints)
        starts = np.flatnonzero(~alike)
        runs = np.unique(np.searchsorted(starts, np.flatnonzero(collided), side="right")) - 1
        ends = np.append(starts[1:], len(order))
        for run in runs.tolist():
            some = slice(starts[run], ends[run])
            rows = self._cells(records[order[some]])
            order[some] = order[some][np.lexsort(rows.T[::-1])]
        return order


def _copies(as_before: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return how many equal ones stand before each, shape (n,)."""
    places = np.arange(len(as_before))
    return places - np.maximum.accumulate(np.where(as_before, 0, places))


def sums_of_squares(differences: NDArray[np.int64], starts: NDArray[np.intp]) -> Integers:
    """Sum the squares of each column over the rows from each start to the next, exactly;
    magnitudes up to 2^42, at most 2^20 rows.
    """
    if not len(starts):
        return np.zeros((0, differences.shape[1]), np.int64)
    if len(differences) * largest(differences) ** 2 < WORD:
        return np.add.reduceat(differences**2, starts, axis=0)
    low, high = differences & ((1 << _LOW) - 1), differences >> _LOW
    parts = (
        np.add.reduceat(a * b, starts, axis=0).astype(object)
        for a, b in ((high, high), (high, low), (low, low))
    )
    squares, cross, rest = parts
    total: Integers = (squares << (2 * _LOW)) + (cross << (_LOW + 1)) + rest
    return total


def added_at(sums: Integers, rows: NDArray[np.intp], more: Integers) -> Integers:
    """Return the sums with more added to some rows, each named once; in int64 where that is
    certain to do.
    """
    if largest(sums) + largest(more) >= WORD:
        sums = sums.astype(object)
    sums[rows] += more if sums.dtype == object else more.astype(np.int64)
    return sums


def buckets_of(sums: Integers, divisors: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return floor(log4(sum / divisor)), exactly, -1024 for a sum of 0; sums from 0 on, a row
    for each divisor >= 1.

    With 4^j >= divisor, q = floor(4^j sum / divisor) is positive for a positive sum, and it has
    the same floor(log4) as the quotient, plus j.
    """
    j = (np.frexp(divisors)[1].astype(np.int64) + 1)[:, np.newaxis] // 2
    wide = sums.dtype == object or largest(sums) << 2 * int(j.max(initial=0)) >= WORD
    scaled = (sums.astype(object) if wide else sums) << 2 * j
    bits = _bit_lengths(scaled // divisors[:, np.newaxis])
    return np.where(np.asarray(sums == 0, np.bool_), ZERO, (bits - 1) // 2 - j)


def _bit_lengths(values: Integers) -> NDArray[np.int64]:
    if values.dtype == object:
        lengths = [int(v).bit_length() for v in values.flat]
        return np.array(lengths, np.int64).reshape(values.shape)
    high = values >> _WORD  # frexp of less than 53 bits is exact
    low = values & ((1 << _WORD) - 1)
    bits = np.where(high > 0, np.frexp(high)[1] + _WORD, np.frexp(low)[1])
    return np.asarray(bits, np.int64)
