"""Votes of groups of records: what ``kth_largest_variance``, ``sum_of_variances`` and
``number_of_reports`` share.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Literal

import scipy

from dpverify.estimation.results import VarianceEstimate
from dpverify.grid.cells import floor_log2, power_of_two
from dpverify.grid.groups import MOST_GROUPS, ZERO, GroupBuckets, Statistic
from dpverify.plans import (
    Abstained,
    Handle,
    Law,
    Mechanism,
    Plan,
    Stage,
    ThresholdedGaussian,
    ThresholdedLaplace,
    Transcripts,
    rarely_surfacing,
)
from dpverify.plans.chunks import Data
from dpverify.plans.parameters import Delta, Rational, one_of, probability
from dpverify.privacy import Domain
from dpverify.privacy.calibration import least_integer
from dpverify.privacy.numbers import ROOT_OF_TWO, Exact, whole

VOTES = Handle("votes")
GROUPS_PER_THRESHOLD = 10
_MOST_EXPONENT = 450  # every bucket is within the range of floats
_LEAST_DEVIATION, _LARGEST_DEVIATION = Fraction(1, 2**10), Fraction(2**45)
_BAD = 1 / 20  # probabilities that a group has too few records, and that its variances are off
_VALID = 0.8 * math.log(8 / 9) + 0.2 * math.log(2)  # relative entropy of 4/5 and 9/10


def _record_cell(value: Any, name: str) -> Fraction:
    """Read the grid's step, a power of two, and refuse one whose buckets leave the floats."""
    cell = power_of_two(value)
    if abs(floor_log2(cell)) > _MOST_EXPONENT:
        raise ValueError(f"{name} = {value} is outside 2^-450..2^450; take another unit.")
    return cell


RecordCell = Annotated[Rational, _record_cell]
"""Cell whose multiples records are: a power of two for which squares of records are floats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupVotes(Mechanism[VarianceEstimate]):
    """Groups of records each estimate a variance; the bucket that most of them name is released.

    The classes below say which variance. Parameters that they share:
    d: how many numbers a record has.
    delta: the largest probability with which a bucket may surface that no group named before.
    groups: how many; by default 10 times the threshold, and no more than half of ``records``. A
    record's group is a public hash of it.
    records: about how many there will be, if that is public; too few for groups of two are
    refused.
    cell: records are rounded to its multiples, a power of two; variances far above cell^2 are
    found. Values beyond 2^40 cells count as lying there.
    key: of the public hash, 0..2^63 - 1. Privacy does not rest on it.
    noise: "laplace" or "gaussian".
    """

    d: Annotated[int, whole]
    delta: Delta
    groups: int | None = None
    records: int | None = None
    cell: RecordCell = Fraction(1, 2**20)
    key: int = 0
    noise: Annotated[Literal["laplace", "gaussian"], one_of("laplace", "gaussian")] = "laplace"

    @abstractmethod
    def statistic(self) -> Statistic:
        """Return the statistic of a group's variances."""

    @abstractmethod
    def off(self, pairs: int) -> float:
        """Bound the probability that the statistic of so many normal pairs is off by a factor
        of 2.
        """

    def check_parameters(self) -> None:
        """Check that there may be so many groups, and that there are enough records for them."""
        # refuses a number of groups that it does not take
        self._query(1 if self.groups is None else self.groups)
        if self.records is not None:
            self._check_records(whole(self.records, "records"))

    def _check_records(self, records: int) -> None:
        least = 2 if self.groups is None else 2 * self.groups
        if records < least:
            raise ValueError(
                f"records = {records}; groups of two need at least {least} records here. "
                "Have more records, or give fewer groups."
            )

    def columns(self) -> int:
        """Return d, the dimension."""
        return self.d

    def law(self, data: Data) -> Law:
        """Return the law as in ``Mechanism``; refuses groups that together are below the
        threshold, and standard deviations that no Gaussian noise is drawn for.
        """
        noise = self._fixed_noise()
        if noise.threshold > MOST_GROUPS:
            raise ValueError(
                f"The threshold is {noise.threshold}, more than the 2^20 groups there may be; take "
                "a larger budget or delta."
            )
        if self.group_count < noise.threshold:
            raise ValueError(
                f"All {self.group_count} groups together are below the threshold, "
                f"{noise.threshold}. Give at least {noise.threshold} groups, so at least "
                f"{2 * noise.threshold} records, or a larger budget or delta."
            )
        if self.noise == "gaussian" and not _LEAST_DEVIATION <= noise.scale <= _LARGEST_DEVIATION:
            raise ValueError(
                f"noise_multiplier = {self.noise_multiplier}: Gaussian noise is drawn for standard "
                "deviations from 2^-10 to 2^45; take noise='laplace' or another budget."
            )
        return Mechanism.law(self, data)

    def plan(self) -> Plan:
        """Build the one stage: noise on the number of groups in every bucket that occurs, small
        ones withheld.
        """
        query = self._query(1 if self.groups is None else self.groups)
        moves = query.sensitivity(self.adjacency, Domain(self.d))
        scale = self.noise_multiplier * moves.conclusion.value
        kind: type[ThresholdedLaplace | ThresholdedGaussian]
        if self.noise == "laplace":  # a group that changes moves two counts by one
            kind, scale = ThresholdedLaplace, 2 * scale
        else:
            kind, scale = ThresholdedGaussian, ROOT_OF_TWO * scale
        noise = rarely_surfacing(kind, scale, moves, self.delta)
        if self.groups is None:
            groups = min(GROUPS_PER_THRESHOLD * noise.threshold, MOST_GROUPS)
            query = self._query(groups if self.records is None else min(groups, self.records // 2))
        return (Stage(VOTES, query, noise),)

    def estimate(self, transcript: Transcripts) -> VarianceEstimate | Abstained:
        """Return the bucket of most votes; of several the lowest."""
        noise, flat = self._fixed_noise(), transcript.numbers(VOTES)
        if not len(flat):
            return Abstained(
                f"no bucket has {noise.threshold} or more of {self.group_count} groups"
            )
        pairs = zip(flat[::2], flat[1::2], strict=True)
        votes = {self._named(bucket): count for bucket, count in pairs}
        value = max(votes, key=lambda name: (votes[name], -name))
        deviation = noise.added.standard_deviation
        shown = self.group_count, noise.threshold, deviation, self.noise
        return VarianceEstimate(value, votes, *shown)

    def expected_error(self, n: int) -> float:
        """Return a factor: 4 from ``minimum_n()`` records on, which says for which records;
        infinite for fewer.

        Raises ValueError if the groups are too few.
        """
        return 4.0 if n >= self.minimum_n() else math.inf

    @property
    def group_count(self) -> int:
        """``groups``, or as many as the rule says."""
        query = self._stage(VOTES).query
        assert isinstance(query, GroupBuckets)
        return query.groups

    def minimum_n(self, *, beta: Exact = "1e-3") -> int:
        """Return the least n known to be enough for an estimate within a factor 4, except with
        probability ``beta``. ``beta``.

        For independent normal records of any covariance, far above the cell and within 2^40 of
        them; on other data it may abstain however many there are. Raises ValueError if the
        groups are too few for this beta. The bound is in spec/theory/group_votes.py.
        """
        allowed = probability(beta, "beta")
        missed = votes_missed(self._fixed_noise(), self.group_count)
        if missed > allowed:
            raise ValueError(
                f"{self.group_count} groups: they may miss with probability {missed:.2g}, more "
                f"than beta = {beta}. Give more groups."
            )
        return records_needed(self.off, self.group_count)

    def _named(self, bucket: int) -> float:
        if bucket == ZERO:
            return 0.0
        return math.ldexp(1.0, 2 * (bucket + floor_log2(self.cell)) + 1)

    def _query(self, groups: int) -> GroupBuckets:
        return GroupBuckets(self.statistic(), self.d, groups, floor_log2(self.cell), self.key)

    def _fixed_noise(self) -> ThresholdedLaplace | ThresholdedGaussian:
        noise = self._stage(VOTES).noise
        assert isinstance(noise, (ThresholdedLaplace, ThresholdedGaussian))
        return noise


def records_needed(off: Callable[[int], float], groups: int) -> int:
    """Find the least n with which a group has a statistic within a factor 2 with probability 9/10.

    off: from a number of pairs to the probability that their statistic is off by more; groups:
    how many there are.
    """
    pairs = least_integer(lambda pairs: off(pairs) <= _BAD, above=0)
    fewer = 2 * pairs - 1
    return least_integer(
        lambda n: bool(scipy.special.bdtr(fewer, n, 1 / groups) <= _BAD), above=fewer
    )


def votes_missed(noise: ThresholdedLaplace | ThresholdedGaussian, groups: int) -> float:
    """Bound the probability that the estimate is off, if each group is valid with probability
    9/10.
    """
    others = groups // 5
    best = -(-(groups - others) // 2)
    half = -(-(best - others) // 2)
    withheld = noise.below(noise.threshold - best) + noise.below(1 - half)
    return math.exp(-_VALID * groups) + withheld + others * noise.below(1 - (best - others - half))
