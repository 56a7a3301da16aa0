"""Groups of records by a public hash: groups whose statistics are counted by bucket, and what one
record changes.

Records are tuples of integers (cells). A hash is two functions of a record and of the number of
equal ones before it (``copy``): its group, and its place among that group's records.

Proof of the sensitivity. The records that equal z are copies 0, 1, ..., c - 1 of it, whatever
their positions; one more adds copy c and leaves the others what they were. So the sets of
(record, copy) of neighbors differ in that one, and so do the groups' sets: in one group,
whatever the functions. A group's statistic is a function of its set. One record replaced is one
taken away and one added. QED.
With groups by position, or with several records changing copy, more than one group would
change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Norm, Source, of_query, shows, states

from .caches import cache
from .laws import real
from .obligations import neighbors, require

Cells = tuple[int, ...]
Slot = tuple[Cells, int]
"""Record, with its index among equal ones."""
Group = list[Cells]
Statistic = Callable[[Sequence[int]], int]

ZERO = -1024
"""The bucket of zero."""
_WORD = 2**64
GOLDEN = 0x9E3779B97F4A7C15


# --- a record's group ---------------------------------------------------------------------------


def mixed(word: int) -> int:
    """Return SplitMix64's finalizer of a word."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % _WORD
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB % _WORD
    return word ^ (word >> 31)


@dataclass(frozen=True)
class Hash:
    """Shipped hash for a key; ``factors`` stand in for its multipliers, to make records collide."""

    groups: int
    key: int = 0
    factors: tuple[int, ...] | None = None

    def fingerprint(self, record: Cells) -> int:
        """Return the sum of an odd number for each column times its cell, modulo 2^64."""
        total = 0
        for i, cell in enumerate(record):
            factor = mixed(((i + 1) * GOLDEN + mixed(self.key)) % _WORD) | 1
            total += cell * (factor if self.factors is None else self.factors[i])
        return total % _WORD

    def group(self, slot: Slot) -> int:
        """Return the group of a slot, from 0 to groups - 1."""
        record, copy = slot
        return mixed((self.fingerprint(record) + (2 * copy + 1) * GOLDEN) % _WORD) % self.groups

    def place(self, slot: Slot) -> tuple[Any, ...]:
        """Return the sort key of a slot in its group: the second hash, with ties broken by what
        was hashed.
        """
        record, copy = slot
        own = self.fingerprint(record)
        return mixed((own + (2 * copy + 2) * GOLDEN) % _WORD), own, record, copy


def slots(records: Sequence[Cells]) -> list[Slot]:
    """Return each record with the number of equal ones before it."""
    before: Counter[Cells] = Counter()
    copies = []
    for record in records:
        copies.append((record, before[record]))
        before[record] += 1
    return copies


def members(records: Sequence[Cells], by: Any) -> list[Group]:
    """Return each group's records, in their places."""
    by_group: list[list[Slot]] = [[] for _ in range(by.groups)]
    for slot in slots(records):
        by_group[by.group(slot)].append(slot)
    return [[record for record, _ in sorted(group, key=by.place)] for group in by_group]


# --- a group's vote -----------------------------------------------------------------------------


def variances(group: Group, d: int) -> list[Fraction]:
    """Return half the mean squared difference of pairs in order, in each column; 0 where there is
    no pair.
    """
    pairs = list(zip(group[::2], group[1::2], strict=False))
    sums = [sum((a[i] - b[i]) ** 2 for a, b in pairs) for i in range(d)]
    return [Fraction(total, 2 * len(pairs)) if pairs else Fraction(0) for total in sums]


def bucket(value: Fraction) -> int:
    """Return the b with 4^b <= value < 4^(b + 1)."""
    if not value:
        return ZERO
    b = (value.numerator.bit_length() - value.denominator.bit_length()) // 2  # or the next
    while Fraction(4) ** b > value:
        b -= 1
    while Fraction(4) ** (b + 1) <= value:
        b += 1
    return b


def kth_largest(k: int) -> Callable[[list[Fraction]], Fraction]:
    """Return the function that gives the k-th of the values in falling order."""
    return lambda values: sorted(values, reverse=True)[k - 1]


def sum_over(coordinates: Sequence[int]) -> Callable[[list[Fraction]], Fraction]:
    """Return the function that sums these coordinates."""
    return lambda values: sum((values[i] for i in coordinates), Fraction(0))


def reports_cost(values: Sequence[Fraction], k: int) -> Any:
    """Return the noise of a mean with M = diag(the k largest of these variances, the average of
    the others), in units of that of one column.

    It is the sum of the k largest roots + sqrt((d - k) times the sum of the others).
    """
    ordered = sorted(values, reverse=True)
    rest = real(sum(ordered[k:], Fraction(0)))
    return mp.fsum(mp.sqrt(real(v)) for v in ordered[:k]) + mp.sqrt((len(values) - k) * rest)


def reports_worth(values: list[Fraction]) -> Fraction:
    """Return 4^j for the least k = 2^j, up to the number of values, that costs at most 9/8 of the
    best such k.
    """
    numbers = [2**j for j in range(len(values).bit_length())]
    costs = [reports_cost(values, k) for k in numbers]
    return Fraction(
        next(k for k, c in zip(numbers, costs, strict=True) if 8 * c <= 9 * min(costs)) ** 2
    )


def votes(groups: list[Group], d: int, statistic: Any) -> list[int]:
    """Return every group's bucket."""
    return [bucket(statistic(variances(group, d))) for group in groups]


def moved(adjacency: Adjacency) -> int:
    """Return the number of groups that one record changes."""
    return 2 if adjacency is Adjacency.REPLACE else 1


_SMALL_HASHES: tuple[Any, ...] = (
    *(Hash(groups, key) for groups in (1, 2, 5) for key in (0, 7)),
    Hash(3, 0, factors=(0, 0)),  # all records collide
    Hash(3, 0, factors=(1, -1)),
    Hash(5, 24),  # two groups may move to one bucket, with few records
)


_THREE = ((1, 0), (0, 0), (9, 1))


@states(Source("DJYZZ24", "Algorithm 2, groups of records", note="by a hash, not by index"))
@shows("GroupBuckets", Norm.MOVED, value=of_query(moved))
def obligation_group_buckets(claimed: Callable[[Adjacency], int] = moved) -> int:
    """Check that ``claimed`` is the largest number of groups whose members change between
    neighbors of at most 6 records of small universes, with duplicates, for several hashes
    (under one all records collide).

    It is also the number of votes that move from bucket to bucket, where all of them may meet
    in a new one.
    """
    cases = 0
    for adjacency in Adjacency:
        moves, looked_at = _largest_changes(adjacency)
        require(moves == {claimed(adjacency)}, f"{adjacency}: {moves}, not {claimed(adjacency)}")
        cases += looked_at
    return cases


def _largest_changes(adjacency: Adjacency) -> tuple[set[int], int]:
    """Return the most groups that change, votes that move and that meet; and how many pairs."""
    most, most_votes, met = 0, 0, 0
    pairs = [*product(_SMALL_HASHES, neighbors(_THREE, 3, adjacency))]
    pairs += product((_SMALL_HASHES[-1],), neighbors(_THREE[1:], 6, adjacency))
    grouped = cache(lambda by, side: members(side, by))
    counted = cache(lambda by, side: Counter(votes(grouped(by, side), 2, kth_largest(1))))
    for by, (left, right) in pairs:
        sides = [grouped(by, side) for side in (left, right)]
        most = max(most, sum(a != b for a, b in zip(*sides, strict=True)))
        counts = [counted(by, side) for side in (left, right)]
        gained = counts[0] - counts[1]
        most_votes = max(most_votes, gained.total())
        met = max([met, *(n for key, n in gained.items() if not counts[1][key])])
    return {most, most_votes, met}, len(pairs)


def obligation_buckets() -> int:
    """Check that every positive value lies in its bucket, that buckets rise with it, and that zero
    is below all others.
    """
    values = sorted(Fraction(p, q) for p, q in product(range(70), (1, 2, 3, 64, 1000)))
    buckets = [bucket(value) for value in values]
    require(buckets == sorted(buckets), f"buckets do not rise: {buckets}")
    for value, b in zip(values, buckets, strict=True):
        require(not value or Fraction(4) ** b <= value < 4 * Fraction(4) ** b, f"{value} in {b}")
    return len(values)
