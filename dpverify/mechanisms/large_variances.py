"""``large_variances``: which columns have the largest variances, and these, up to a factor."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from scipy.special import bdtr, gammainc, gammaincc
from scipy.stats import binom

from dpverify.grid.cells import floor_log2, power_of_two
from dpverify.grid.groups import MOST_GROUPS, GroupBuckets, KthLargest
from dpverify.mechanisms._groups import records_needed, votes_missed
from dpverify.mechanisms._levels import HIGHEST, VOTES, Ladder, fullest, row_of, votes_for
from dpverify.plans import (
    Abstained,
    DiscreteLaplace,
    Mechanism,
    Plan,
    Stage,
    ThresholdedGaussian,
    Transcript,
)
from dpverify.privacy import Adjacency
from dpverify.privacy.numbers import Exact, exact, to_float, whole

RECORDS_A_GROUP = 10
MOST_PAIRS = 25
"""A group with more is no better, as far as is promised."""
UP, DOWN = Fraction(13, 20), Fraction(3, 20)
"""Shares of the groups that are above half of a variance, at least, and above twice of it, at most."""
_MOST_EXPONENT = 450  # every bucket is within the range of floats


@dataclass(frozen=True, slots=True)
class LargeVariancesEstimate:
    """``variances``: by column (from 0), in the square of the data's unit, each up to a factor of about
    4, in the order in which they were found. The columns that are not named have less than ``below``,
    up to a factor of 2.
    """

    variances: Mapping[int, float]
    below: float

    def __str__(self) -> str:
        named = ", ".join(f"{i}: {value:.3g}" for i, value in self.variances.items())
        return f"{{{named}}}, others below {self.below:.3g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeVariances(Mechanism[LargeVariancesEstimate]):
    """The columns of the largest variances with these up to a factor of 4, wherever the means are.

    Data: shape (n, d). Output: ``LargeVariancesEstimate``, or ``Abstained`` where no bucket of the
    largest variance surfaces. Claim: each report is (1 / noise_multiplier)-DP and better; where the
    largest variance is released too, that is GaussianDP(1 / noise_multiplier) up to delta.
    Records form groups by a public hash. From the highest level on, a level being a power of 4, it is asked
    of every column in how many groups the mean square of differences of pairs, halved, is at the level or
    above; the first column with two fifths of the groups, about, is reported, and the next round goes on
    from there. What is not reported costs nothing.
    reports: it stops after so many. largest: a public bound on the variances, where the levels begin; or
    delta: the largest variance is released first, up to a factor of 4, with this probability of a bucket
    that no group named, and the levels begin above it.
    depth: how many levels; by default log2(d) + 3, so that columns that are never asked about have together
    less than the largest standard deviation.
    n_max: about how many records are expected, public. groups: a tenth of it by default.
    cell, key: as for ``KthLargestVariance``.
    Errors: TypeError or ValueError for parameters and for data of another shape.
    Source: DJYZZ24, Algorithms 2 to 4, with levels (OURS) in place of one threshold and sums.
    """

    d: int
    reports: int
    n_max: int
    largest: Exact | None = None
    delta: Exact | None = None
    depth: int | None = None
    groups: int | None = None
    cell: Fraction = Fraction(1, 2**20)
    key: int = 0

    def check_parameters(self) -> None:
        """1 <= reports <= d, n_max of a pair or more, either of largest and delta, a power of two."""
        check_ladder(self)
        if (self.largest is None) is (self.delta is None):
            raise ValueError(
                "Give either largest, a public bound on the variances, or delta, to release one first."
            )
        if self.delta is not None:
            object.__setattr__(self, "delta", exact(self.delta, "delta"))
            if not 0 < exact(self.delta, "delta") < 1:
                raise ValueError(f"delta = {self.delta} is outside (0, 1); try '1e-6'.")
        elif exact(self.largest or 0, "largest") <= 0:
            raise ValueError(f"largest = {self.largest} is not positive; give a bound above 0.")

    def columns(self) -> int:
        """d."""
        return self.d

    def replacement(self) -> float | tuple[float, ...]:
        """The origin."""
        return 0.0 if self.d == 1 else (0.0,) * self.d

    def plan(self) -> Plan:
        """The votes for the largest variance unless a bound is public, then a round for each report."""
        if self.delta is None:
            return self.ladder().rounds()
        delta, shared = exact(self.delta, "delta"), (self.adjacency, self.noise_multiplier)
        votes = votes_for(VOTES, self._query, *shared, delta, self.n_max)
        return (votes, *self.ladder().rounds())

    def ladder(self) -> Ladder:
        """The rounds."""
        start = None
        if self.largest is not None:
            bound = floor_log2(exact(self.largest, "largest") / self.cell**2) // 2
            start = max(-HIGHEST, min(bound, HIGHEST))
        groups = ladder_groups(self.n_max) if self.groups is None else self.groups
        depth = default_depth(self.d) if self.depth is None else self.depth
        grouping = self._query(groups)
        return Ladder(grouping, self.adjacency, self.reports, depth, start, self.noise_multiplier)

    def estimate(self, transcript: Transcript) -> LargeVariancesEstimate | Abstained:
        """Twice the lower edge of each level [4^b, 4^(b + 1))."""
        if self.delta is not None and fullest(transcript.released[VOTES]) is None:
            return Abstained(NO_BUCKET)
        ladder = self.ladder()
        columns, below = ladder.found(row_of(ladder.prefix(self.reports), transcript))
        cell = floor_log2(self.cell)
        named = {i: math.ldexp(1.0, 2 * (b + cell) + 1) for i, b in columns.items()}
        return LargeVariancesEstimate(named, math.ldexp(1.0, 2 * (below + cell)))

    def minimum_n(self, *, beta: Exact = "1e-3") -> int:
        """The least n known to be enough for independent normal columns, except with probability ``beta``.

        Then each variance that is reported is within a factor of 4, and those that are not are below
        2 ``below`` (so they are, if the reports suffice, where ``largest`` is no less than any). For
        variances far above cell^2, and records within 2^40 cells. Raises ValueError if the groups are
        too few for this beta. The bound is in spec/large_variances.py.
        """
        allowed = exact(beta, "beta")
        if not 0 < allowed < 1:
            raise ValueError(f"beta = {beta} is outside (0, 1); give a probability, say '1e-3'.")
        votes = None if self.delta is None else self._stage(VOTES)
        return least_records(self.ladder(), votes, to_float(allowed))

    def _query(self, groups: int) -> GroupBuckets:
        return GroupBuckets(KthLargest(1), self.d, groups, floor_log2(self.cell), self.key)


NO_BUCKET = "no bucket of the largest variance has enough groups"


def check_ladder(mechanism: Any) -> None:
    """Refuse bad parameters of a ladder: of this mechanism, and of one that has such a part."""
    for name in ("d", "n_max", "reports"):
        object.__setattr__(mechanism, name, whole(getattr(mechanism, name), name))
    if mechanism.d < 1:
        raise ValueError(f"d = {mechanism.d}; a record has at least one number.")
    if not 1 <= mechanism.reports <= mechanism.d:
        raise ValueError(
            f"reports = {mechanism.reports} is outside 1..{mechanism.d}, the numbers of a record."
        )
    if mechanism.n_max < 2:
        raise ValueError(f"n_max = {mechanism.n_max}: groups of two need 2 records at least.")
    cell = power_of_two(mechanism.cell)
    if abs(floor_log2(cell)) > _MOST_EXPONENT:
        raise ValueError(f"cell = {mechanism.cell} is outside 2^-450..2^450; take another unit.")
    object.__setattr__(mechanism, "cell", cell)
    groups, depth = mechanism.groups, mechanism.depth
    if groups is not None and not 1 <= whole(groups, "groups") <= mechanism.n_max // 2:
        raise ValueError(
            f"groups = {groups}: {mechanism.n_max} records (n_max) make 1 to {mechanism.n_max // 2} "
            "groups of two. Raise n_max, or leave out groups."
        )
    if depth is not None and not 1 <= whole(depth, "depth") <= 2 * HIGHEST:
        raise ValueError(f"depth = {depth}; give a number of levels from 1 to {2 * HIGHEST}.")
    if not 0 <= whole(mechanism.key, "key") < 1 << 63:
        raise ValueError(f"key = {mechanism.key} is outside 0..2^63 - 1.")


def ladder_groups(n_max: int) -> int:
    """A tenth of the records, so that noise is small against the groups between two levels: a margin of a
    thirtieth of n; groups of 50 have a third of that margin."""
    return max(1, min(n_max // RECORDS_A_GROUP, MOST_GROUPS))


def default_depth(d: int) -> int:
    """ceil(log2(d)) + 3: columns below all levels have less than 1 / d of the largest deviation each."""
    return (d - 1).bit_length() + 3


def least_records(ladder: Ladder, votes: Stage | None, allowed: float) -> int:
    """The least n with which the largest variance, if it is voted for, and all reports are right except with
    this probability. Raises ValueError if there are too few groups."""
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
            f"{missed:.2g}, more than beta = {allowed:.2g}. Raise n_max or the budget, or give fewer reports."
        )

    def enough(n: int) -> bool:
        return missed + groups_missed(n, d, groups) <= allowed

    low, high = least - 1, least
    while not enough(high):
        if high > 1 << 50:
            raise ValueError(f"{groups} groups are too few for beta = {allowed:.2g}; raise n_max.")
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def largest_off(d: int, pairs: int) -> float:
    """At most the probability that the largest of d variances by so many pairs is off by a factor 2."""
    return float(gammainc(pairs / 2, pairs / 4) + d * gammaincc(pairs / 2, pairs))


def noise_missed(ladder: Ladder) -> float:
    """At most the probability that noise moves some comparison by a quarter of the groups, up to one."""
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
    """P(|noise| >= distance), distance >= 1."""
    w = math.exp(-1 / float(noise.scale))
    return 2 * math.exp(-distance / float(noise.scale)) / (1 + w)


def groups_missed(n: int, d: int, groups: int) -> float:
    """At most the probability that for some column fewer than UP of the groups are above half of its
    variance, or more than DOWN above twice of it."""
    above, beyond = 0.0, 0.0
    for pairs in range(MOST_PAIRS + 1):
        share = float(bdtr(2 * pairs + 1, n, 1 / groups)) if 2 * pairs + 1 < n else 1.0
        if pairs:
            share -= float(bdtr(2 * pairs - 1, n, 1 / groups)) if 2 * pairs - 1 < n else 1.0
        if pairs == MOST_PAIRS:
            share = float(binom.sf(2 * pairs - 1, n, 1 / groups))
        if pairs:
            above += share * float(gammaincc(pairs / 2, pairs / 4))
            beyond += share * float(gammaincc(pairs / 2, pairs))
    missed = 0.0
    for bound, chance in ((float(UP), above), (1 - float(DOWN), 1 - beyond)):
        if chance <= bound:
            return 1.0
        entropy = bound * math.log(bound / chance)
        if chance < 1:
            entropy += (1 - bound) * math.log((1 - bound) / (1 - chance))
        missed += d * math.exp(-groups * entropy)
    return min(1.0, missed)
