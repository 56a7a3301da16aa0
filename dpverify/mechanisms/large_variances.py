"""``large_variances``: which columns have the largest variances, and these, up to a factor."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

from dpverify.estimation.answers import Result, tail_of
from dpverify.estimation.group_votes import RecordCell
from dpverify.estimation.variance_ladder import (
    HIGHEST,
    NO_BUCKET,
    VOTES,
    Dimension,
    Expected,
    Ladder,
    check_ladder,
    default_depth,
    fullest,
    ladder_groups,
    least_records,
    votes_for,
)
from dpverify.grid.cells import floor_log2
from dpverify.grid.groups import GroupBuckets, KthLargest
from dpverify.plans import Abstained, Mechanism, Plan, Transcripts
from dpverify.plans.parameters import Delta, probability
from dpverify.privacy.numbers import Exact, exact, to_float, whole


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LargeVariancesEstimate(Result):
    """The columns of large variances, each with its variance up to a factor of about 4.

    ``variances``: by column (from 0), in the square of the data's unit, in the order in which
    they were found. ``below``: the variances of all other columns are less, up to a factor of 2.
    """

    variances: Mapping[int, float]
    below: float

    @property
    def value(self) -> Mapping[int, float]:
        """Return ``variances``."""
        return self.variances

    def interval(self, level: Exact = 0.95) -> None:
        """Return None: levels have no noise, and the number of groups above a level is not
        released.

        ``LargeVariances.minimum_n`` promises, for enough records, that each level is right up to
        a factor 4.
        Raises TypeError or ValueError for a level outside (0, 1).
        """
        tail_of(level)

    def __str__(self) -> str:
        named = ", ".join(f"{i}: {value:.3g}" for i, value in self.variances.items())
        return f"{{{named}}}, others below {self.below:.3g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeVariances(Mechanism[LargeVariancesEstimate]):
    """The columns of the largest variances, with these variances up to a factor of 4, wherever
    the means are.

    Records form groups by a public hash. Levels are powers of 4. From the highest level on, each
    column is asked in how many groups the mean square of differences of pairs, halved, is at the
    level or above; the first column with about two fifths of the groups is reported, and the next
    round goes on from there. Columns that are not reported cost nothing.

    Data: shape (n, d). Output: ``LargeVariancesEstimate``, or ``Abstained`` where no bucket of
    the largest variance surfaces.
    Claim: each report is (1 / noise_multiplier)-DP and better; where the largest variance is
    released too, its release is GaussianDP(1 / noise_multiplier) up to delta.
    reports: the search stops after this number of reports.
    largest: a public bound on the variances, where the levels begin; or
    delta: the largest variance is released first, up to a factor of 4, and the levels begin above
    it; delta is the probability that a bucket surfaces that no group voted for.
    depth: number of levels; by default log2(d) + 3, so that columns that are never asked about
    have together less than the largest standard deviation.
    n_max: about how many records are expected, public. groups: number of groups, a tenth of n_max
    by default.
    cell, key: as for ``KthLargestVariance``.
    Errors: TypeError or ValueError for parameters and for data of another shape.
    Source: DJYZZ24, Algorithms 2 to 4, with levels (OURS) in place of one threshold and sums.
    """

    d: Dimension
    reports: Annotated[int, whole]
    n_max: Expected
    largest: Exact | None = None
    delta: Delta | None = None
    depth: int | None = None
    groups: int | None = None
    cell: RecordCell = Fraction(1, 2**20)
    key: int = 0

    def check_parameters(self) -> None:
        """Check that 1 <= reports <= d, that n_max records make the groups, and that one of
        largest and delta is given.
        """
        check_ladder(self)
        if (self.largest is None) is (self.delta is None):
            raise ValueError(
                "Give either largest, a public bound on the variances, or delta, to release one "
                "first."
            )
        if self.delta is None and exact(self.largest or 0, "largest") <= 0:
            raise ValueError(f"largest = {self.largest} is not positive; give a bound above 0.")

    def columns(self) -> int:
        """Return the number of columns."""
        return self.d

    def plan(self) -> Plan:
        """Release the votes for the largest variance, unless a bound is public, then a round for
        each report.
        """
        if self.delta is None:
            return self.ladder().rounds()
        shared = self.adjacency, self.noise_multiplier, self.delta, self.n_max
        votes = votes_for(VOTES, self._query, *shared)
        return (votes, *self.ladder().rounds())

    def ladder(self) -> Ladder:
        """Build the rounds."""
        start = None
        if self.largest is not None:
            bound = floor_log2(exact(self.largest, "largest") / self.cell**2) // 2
            start = max(-HIGHEST, min(bound, HIGHEST))
        groups = ladder_groups(self.n_max) if self.groups is None else self.groups
        depth = default_depth(self.d) if self.depth is None else self.depth
        grouping = self._query(groups)
        return Ladder(grouping, self.adjacency, self.reports, depth, start, self.noise_multiplier)

    def estimate(self, transcript: Transcripts) -> LargeVariancesEstimate | Abstained:
        """Return twice the lower edge of each released level [4^b, 4^(b + 1))."""
        if self.delta is not None and fullest(transcript.numbers(VOTES)) is None:
            return Abstained(NO_BUCKET)
        ladder = self.ladder()
        columns, below = ladder.identified(ladder.prefix(self.reports).row(transcript))
        cell = floor_log2(self.cell)
        named = {i: math.ldexp(1.0, 2 * (b + cell) + 1) for i, b in columns.items()}
        return LargeVariancesEstimate(named, math.ldexp(1.0, 2 * (below + cell)))

    def expected_error(self, n: int) -> float:
        """Return a factor: 4 from ``minimum_n()`` records on, for records as named there;
        infinite for fewer.

        Raises ValueError if the groups are too few.
        """
        return 4.0 if n >= self.minimum_n() else math.inf

    def minimum_n(self, *, beta: Exact = "1e-3") -> int:
        """Return the least n known to be enough for independent normal columns, except with
        probability ``beta``.

        Enough means: each reported variance is within a factor of 4, and the others are below 2
        ``below``, if the reports suffice and ``largest`` bounds all variances. This is for
        variances far above cell^2, and records within 2^40 cells. Raises ValueError if the groups
        are too few for this beta. The bound is in spec/large_variances.py.
        """
        allowed = probability(beta, "beta")
        votes = None if self.delta is None else self._stage(VOTES)
        return least_records(self.ladder(), votes, to_float(allowed))

    def _query(self, groups: int) -> GroupBuckets:
        return GroupBuckets(KthLargest(1), self.d, groups, floor_log2(self.cell), self.key)
