"""Columns of large variances as part of a plan: votes for the largest, then a ladder of levels."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

import numpy as np
import scipy

from dpverify.estimation.group_votes import records_needed, votes_missed
from dpverify.grid.groups import MOST_GROUPS, GroupBuckets
from dpverify.grid.levels import LevelCounts
from dpverify.grid.masks import Row
from dpverify.grid.transcripts import of_each_tuple
from dpverify.plans import (
    AboveThreshold,
    DiscreteLaplace,
    Handle,
    Plan,
    Released,
    Stage,
    ThresholdedGaussian,
    Transcripts,
    rarely_surfacing,
)
from dpverify.plans.parameters import whole_from
from dpverify.plans.search import Prefix
from dpverify.privacy import Adjacency, Domain
from dpverify.privacy.calibration import Unreachable, least_integer
from dpverify.privacy.numbers import ROOT_OF_TWO, whole
from dpverify.randomness.bits import IntArray

HIGHEST = 40
"""Highest bucket of a variance: differences are of at most 2^41 cells."""
VOTES = Handle("largest")
_FEWEST = 400
_MOST_RECORDS = 1 << 51
RECORDS_A_GROUP = 10
MOST_PAIRS = 25
"""Largest useful number of pairs in a group: a group with more has no better guarantee."""
UP, DOWN = Fraction(13, 20), Fraction(3, 20)
"""Shares of the groups: at least ``UP`` are above half of a variance, and at most ``DOWN``
above twice of it.
"""
NO_BUCKET = "no bucket of the largest variance has enough groups"


@dataclass(frozen=True, slots=True)
class Ladder:
    """``reports`` rounds of AboveThreshold over the columns at level after level, each column once.

    grouping: the groups whose variances are counted. start: the highest level, a bucket; None:
    one above the bucket that the stage ``VOTES`` released. depth: how many levels. multiplier:
    of a round, which is as private as (1 / multiplier)-DP.
    """

    grouping: GroupBuckets
    adjacency: Adjacency
    reports: int
    depth: int
    start: int | None
    multiplier: Fraction

    @property
    def threshold(self) -> int:
        """Threshold of a round: two fifths of the groups, half way between the shares above
        twice and above half of a variance, for groups of ten records.
        """
        return -(-2 * self.grouping.groups // 5)

    @property
    def asked(self) -> int:
        """Number of answers in a list."""
        return self.depth * self.grouping.columns

    def rounds(self) -> Plan:
        """Build one stage a report."""
        names = tuple(map(name_of, range(self.reports)))
        return tuple(
            self._prefix(names[:i]).part(self._round(i, name)) for i, name in enumerate(names)
        )

    def prefix(self, reports: int) -> Prefix:
        """Return what was released before a round: the top bucket if it was, then the places of
        reports.
        """
        return self._prefix(tuple(map(name_of, range(reports))))

    def _prefix(self, names: tuple[Handle, ...]) -> Prefix:
        """Return what was released before a round, after the reports of these names."""
        prefix = Prefix()
        if self.start is None:
            prefix = prefix.also(buckets_from(VOTES), (0,))
        if not names:
            return prefix

        def places(before: Transcripts) -> IntArray:
            return np.concatenate([before[name] for name in names], axis=1)

        return prefix.also(Released(names, places), (0,) * len(names))

    def levels(self, row: Row) -> tuple[int, ...]:
        """Return the buckets, from the highest down."""
        start = row[0] + 1 if self.start is None else self.start
        return tuple(range(start, start - self.depth, -1))

    def identified(self, row: Row) -> tuple[dict[int, int], int]:
        """Read from a row of a prefix each reported column with its level, in order of the
        reports, and the level that the variances of all other columns are below.
        """
        levels, d = self.levels(row), self.grouping.columns
        places = row[0 if self.start is not None else 1 :]
        columns: dict[int, int] = {}
        for place in dict.fromkeys(places):
            if place < self.asked:
                columns.setdefault(place % d, levels[place // d])
        last = places[-1] if places else 0
        whole_levels = (last + 1) // d if last < self.asked else self.depth
        return columns, levels[0] - whole_levels + 1

    def _round(self, reports: int, name: Handle) -> Callable[[Row], Stage]:
        moved = 2 if self.adjacency is Adjacency.REPLACE else 1
        scale = 2 * self.multiplier * moved

        def build(row: Row) -> Stage:
            columns, _ = self.identified(row)
            begin = min(row[-1] + 1, self.asked) if reports else 0
            query = LevelCounts(self.grouping, self.levels(row), tuple(sorted(columns)))
            return Stage(name, query, AboveThreshold(self.threshold, scale, 2 * scale, begin))

        return build


def name_of(report: int) -> Handle:
    """Name the stage of a round, counted from 0."""
    return Handle(f"report {report + 1}")


def votes_for(
    name: str,
    query: Callable[[int], GroupBuckets],
    adjacency: Adjacency,
    multiplier: Fraction,
    delta: Fraction,
    n_max: int,
) -> Stage:
    """Build the stage in which groups vote for the bucket of a statistic.

    It is as private as GaussianDP(1 / multiplier) up to delta. There are ten times as many
    groups as the threshold, at least 400, if n_max records are enough for that.
    """
    moves = query(1).sensitivity(adjacency, Domain(query(1).columns))
    scale = multiplier * ROOT_OF_TWO * moves.conclusion.value
    noise = rarely_surfacing(ThresholdedGaussian, scale, moves, delta)
    groups = min(max(10 * noise.threshold, _FEWEST), n_max // 2, MOST_GROUPS)
    return Stage(name, query(max(1, groups)), noise)


def fullest(votes: tuple[int, ...]) -> int | None:
    """Find the bucket of most votes, of several the lowest, which may be ZERO; None where none
    surfaced. None where none surfaced.
    """
    pairs = [(-count, bucket) for bucket, count in zip(votes[::2], votes[1::2], strict=True)]
    return min(pairs)[1] if pairs else None


def bucket_from(votes: tuple[int, ...]) -> int:
    """Find the fullest bucket, moved into 0..HIGHEST; 0 where none surfaced."""
    bucket = fullest(votes)
    return 0 if bucket is None else min(max(bucket, 0), HIGHEST)


def buckets_from(votes: str) -> Released[IntArray]:
    """Find the fullest bucket of a stage of votes, shape (size, 1)."""

    def of(before: Transcripts) -> IntArray:
        return of_each_tuple(before[votes], bucket_from, np.int64)[:, np.newaxis]

    return Released((votes,), of)


Dimension = Annotated[int, whole_from(1, "; a record has at least one number.")]
"""Number of numbers in a record."""
Expected = Annotated[int, whole_from(2, ": groups of two need 2 records at least.")]
"""About how many records are expected, a pair or more."""


def check_ladder(mechanism: Any) -> None:
    """Refuse, with TypeError or ValueError, bad parameters of a mechanism that has a ladder as
    a part.
    """
    if not 1 <= mechanism.reports <= mechanism.d:
        raise ValueError(
            f"reports = {mechanism.reports} is outside 1..{mechanism.d}, the numbers of a record."
        )
    groups, depth = mechanism.groups, mechanism.depth
    if groups is not None and not 1 <= whole(groups, "groups") <= mechanism.n_max // 2:
        raise ValueError(
            f"groups = {groups}: {mechanism.n_max} records (n_max) make 1 to "
            f"{mechanism.n_max // 2} groups of two. Raise n_max, or leave out groups."
        )
    if depth is not None and not 1 <= whole(depth, "depth") <= 2 * HIGHEST:
        raise ValueError(f"depth = {depth}; give a number of levels from 1 to {2 * HIGHEST}.")
    if not 0 <= whole(mechanism.key, "key") < 1 << 63:
        raise ValueError(f"key = {mechanism.key} is outside 0..2^63 - 1.")


def ladder_groups(n_max: int) -> int:
    """Choose the number of groups: a tenth of the records, so that noise is small against the
    groups between two levels.

    The margin is then a thirtieth of n; groups of 50 would have a third of that.
    """
    return max(1, min(n_max // RECORDS_A_GROUP, MOST_GROUPS))


def default_depth(d: int) -> int:
    """Choose the number of levels: ceil(log2(d)) + 3.

    Columns below all of them have less than 1 / d of the largest deviation each.
    """
    return (d - 1).bit_length() + 3


def least_records(ladder: Ladder, votes: Stage | None, allowed: float) -> int:
    """Find the least n with which the vote for the largest variance, if there is one, and all
    reports are right.

    This holds except with probability ``allowed``. Raises ValueError if there are too few
    groups.
    """
    missed, least, groups, d = (
        noise_missed(ladder),
        2,
        ladder.grouping.groups,
        ladder.grouping.columns,
    )
    if votes is not None:
        assert isinstance(votes.noise, ThresholdedGaussian)
        assert isinstance(votes.query, GroupBuckets)
        missed += votes_missed(votes.noise, votes.query.groups)
        least = records_needed(lambda pairs: largest_off(d, pairs), votes.query.groups)
    if missed > allowed:
        raise ValueError(
            f"{groups} groups, {ladder.reports} reports: noise may hide a column with probability "
            f"{missed:.2g}, more than beta = {allowed:.2g}. Raise n_max or the budget, or give "
            "fewer reports."
        )

    def enough(n: int) -> bool:
        return missed + groups_missed(n, d, groups) <= allowed

    try:
        return least_integer(enough, above=least - 1, most=_MOST_RECORDS)
    except Unreachable:
        raise ValueError(
            f"{groups} groups are too few for beta = {allowed:.2g}; raise n_max."
        ) from None


def largest_off(d: int, pairs: int) -> float:
    """Bound the probability that the largest of d variances, by so many pairs each, is off by a
    factor 2.
    """
    return float(
        scipy.special.gammainc(pairs / 2, pairs / 4) + d * scipy.special.gammaincc(pairs / 2, pairs)
    )


def noise_missed(ladder: Ladder) -> float:
    """Bound the probability that noise moves some comparison by a quarter of the groups."""
    margin = ladder.grouping.groups // 4 - 1
    if margin < 2:
        return 1.0
    moved = 2 if ladder.adjacency is Adjacency.REPLACE else 1
    scale = 2 * ladder.multiplier * moved
    third = margin // 3  # noise on queries is twice that of the threshold
    common, own = (
        _beyond(DiscreteLaplace(s), t) for s, t in ((scale, third), (2 * scale, margin - third))
    )
    return min(1.0, ladder.reports * common + ladder.asked * own)


def _beyond(noise: DiscreteLaplace, distance: int) -> float:
    """Compute P(|noise| >= distance), distance >= 1."""
    w = math.exp(-1 / float(noise.scale))
    return 2 * math.exp(-distance / float(noise.scale)) / (1 + w)


def groups_missed(n: int, d: int, groups: int) -> float:
    """Bound the probability that for some column the groups are not as the levels need them.

    That is the case if fewer than UP of them are above half of its variance, or more than DOWN
    above twice of it.
    """
    above, beyond = 0.0, 0.0
    for pairs in range(MOST_PAIRS + 1):
        share = (
            float(scipy.special.bdtr(2 * pairs + 1, n, 1 / groups)) if 2 * pairs + 1 < n else 1.0
        )
        if pairs:
            share -= (
                float(scipy.special.bdtr(2 * pairs - 1, n, 1 / groups))
                if 2 * pairs - 1 < n
                else 1.0
            )
        if pairs == MOST_PAIRS:
            few = 2 * pairs - 1
            share = float(scipy.special.betainc(few + 1, n - few, 1 / groups)) if few < n else 0.0
        if pairs:
            above += share * float(scipy.special.gammaincc(pairs / 2, pairs / 4))
            beyond += share * float(scipy.special.gammaincc(pairs / 2, pairs))
    missed = 0.0
    for bound, chance in ((float(UP), above), (1 - float(DOWN), 1 - beyond)):
        if chance <= bound:
            return 1.0
        entropy = bound * math.log(bound / chance)
        if chance < 1:
            entropy += (1 - bound) * math.log((1 - bound) / (1 - chance))
        missed += d * math.exp(-groups * entropy)
    return min(1.0, missed)
