"""Which columns have large variances, as part of a plan: votes for the largest, then a ladder of levels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpverify.grid.groups import MOST_GROUPS, GroupBuckets
from dpverify.grid.levels import LevelCounts
from dpverify.plans import (
    AboveThreshold,
    Plan,
    Stage,
    ThresholdedGaussian,
    Transcript,
    rarely_surfacing,
)
from dpverify.plans.search import Nodes, Prefix, Released
from dpverify.plans.transcripts import of_each_tuple
from dpverify.privacy import Adjacency, Domain
from dpverify.randomness.bits import IntArray

ROOT = Fraction(1414213563, 10**9)
"""A little above the square root of 2."""
HIGHEST = 40
"""The highest bucket of a variance: differences are of at most 2^41 cells."""
VOTES = "largest"
_BUCKET_BITS = 6
_FEWEST = 400


@dataclass(frozen=True, slots=True)
class Ladder:
    """``reports`` rounds of AboveThreshold over the columns at level after level, each column once.

    grouping: the groups whose variances are counted. start: the highest level, a bucket; None: one above
    the bucket that the stage ``VOTES`` released. depth: how many levels. multiplier: of a round, which
    is as private as (1 / multiplier)-DP.
    """

    grouping: GroupBuckets
    adjacency: Adjacency
    reports: int
    depth: int
    start: int | None
    multiplier: Fraction

    @property
    def threshold(self) -> int:
        """Two fifths of the groups: half way between the shares above twice and above half of a variance,
        for groups of ten records."""
        return -(-2 * self.grouping.groups // 5)

    @property
    def asked(self) -> int:
        """How many answers a list has."""
        return self.depth * self.grouping.columns

    def rounds(self) -> Plan:
        """One stage a report."""
        return tuple(self.prefix(i).stage(self._round(i)) for i in range(self.reports))

    def prefix(self, reports: int) -> Prefix:
        """What was released before a round: the top bucket if it was, then the places of reports."""
        found = Prefix(())
        if self.start is None:
            found = found.also(1, _BUCKET_BITS, _tops, (0,))
        if not reports:
            return found

        def places(released: Released, size: int) -> IntArray:
            return np.column_stack([released[name_of(i)][:, 0] for i in range(reports)])

        return found.also(reports, self.asked.bit_length(), places, (0,) * reports)

    def levels(self, row: Nodes) -> tuple[int, ...]:
        """Buckets, from the highest down."""
        start = int(row[0]) + 1 if self.start is None else self.start
        return tuple(range(start, start - self.depth, -1))

    def found(self, row: Nodes) -> tuple[dict[int, int], int]:
        """From a row of a prefix: each reported column with its level, in order of the reports; and the
        level that the variances of all other columns are below."""
        levels, d = self.levels(row), self.grouping.columns
        places = row[0 if self.start is not None else 1 :].tolist()
        columns: dict[int, int] = {}
        for place in places:
            if place < self.asked:
                columns.setdefault(place % d, levels[place // d])
        last = places[-1] if places else 0
        whole_levels = (last + 1) // d if last < self.asked else self.depth
        return columns, levels[0] - whole_levels + 1

    def _round(self, reports: int) -> Callable[[Nodes], Stage]:
        moved = 2 if self.adjacency is Adjacency.REPLACE else 1
        scale = 2 * self.multiplier * moved

        def build(row: Nodes) -> Stage:
            columns, _ = self.found(row)
            begin = min(int(row[-1]) + 1, self.asked) if reports else 0
            query = LevelCounts(self.grouping, self.levels(row), tuple(sorted(columns)))
            return Stage(
                name_of(reports), query, AboveThreshold(self.threshold, scale, 2 * scale, begin)
            )

        return build


def name_of(report: int) -> str:
    """Of a round's stage, from 0 on."""
    return f"report {report + 1}"


def votes_for(
    name: str,
    query: Callable[[int], GroupBuckets],
    adjacency: Adjacency,
    multiplier: Fraction,
    delta: Fraction,
    n_max: int,
) -> Stage:
    """Groups vote for the bucket of a statistic, as private as GaussianDP(1 / multiplier) up to delta.

    There are ten times as many groups as the threshold, at least 400, if n_max records are enough for that.
    """
    moves = query(1).sensitivity(adjacency, Domain(query(1).columns))
    scale = multiplier * ROOT * moves.conclusion.value
    noise = rarely_surfacing(ThresholdedGaussian, scale, moves, delta)
    groups = min(max(10 * noise.threshold, _FEWEST), n_max // 2, MOST_GROUPS)
    return Stage(name, query(max(1, groups)), noise)


def fullest(votes: tuple[int, ...]) -> int | None:
    """The bucket of most votes, of several the lowest; ZERO is one. None where none surfaced."""
    pairs = [(-count, bucket) for bucket, count in zip(votes[::2], votes[1::2], strict=True)]
    return min(pairs)[1] if pairs else None


def bucket_from(votes: tuple[int, ...]) -> int:
    """The fullest bucket, from 0 to HIGHEST; 0 where none surfaced."""
    found = fullest(votes)
    return 0 if found is None else min(max(found, 0), HIGHEST)


def buckets_from(column: IntArray) -> IntArray:
    """For each transcript of a batch, shape (size, 1)."""
    if column.ndim > 1:  # of one transcript
        return np.array([[bucket_from(tuple(votes))] for votes in column], np.int64)
    return of_each_tuple(column, bucket_from, np.int64)[:, np.newaxis]


def _tops(released: Released, size: int) -> IntArray:
    return buckets_from(released[VOTES])


def row_of(prefix: Prefix, transcript: Transcript) -> Nodes:
    """The integers of a prefix, from one transcript."""
    return prefix.row({k: np.array([value], object) for k, value in transcript.released.items()})
