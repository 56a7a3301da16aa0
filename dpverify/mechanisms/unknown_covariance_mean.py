"""``unknown_covariance_mean``: the mean of vectors, with noise shaped by privately found
variances.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Self

from dpverify.estimation.budget_shares import ROOT_BITS
from dpverify.estimation.clipping import Numbers
from dpverify.estimation.group_votes import RecordCell
from dpverify.estimation.median_centered import positive_numbers
from dpverify.estimation.results import VectorMeanEstimate
from dpverify.estimation.rough_covariance import RoughCovariance, rough
from dpverify.estimation.variance_ladder import (
    HIGHEST,
    NO_BUCKET,
    VOTES,
    Dimension,
    Expected,
    Ladder,
    buckets_from,
    check_ladder,
    default_depth,
    ladder_groups,
    least_records,
    noise_missed,
    votes_for,
)
from dpverify.grid.cells import floor_log2
from dpverify.grid.groups import GroupBuckets, KthLargest, SumOver
from dpverify.grid.masks import Row
from dpverify.mechanisms.refined_mean import RefinedMean
from dpverify.plans import (
    Abstained,
    Gate,
    Handle,
    Mechanism,
    Plan,
    Stage,
    ThresholdedGaussian,
    Transcripts,
)
from dpverify.plans.parameters import CHOSEN, Rational, Share, positive, probability, rational
from dpverify.plans.search import Prefix
from dpverify.privacy import Adjacency, ApproxDP, Guarantee, calibrate
from dpverify.privacy.adjacency import Nonfinite
from dpverify.privacy.calibration import least_integer
from dpverify.privacy.guarantees import ApproximateGaussianDP
from dpverify.privacy.numbers import Exact, exact, root_down, to_float, whole

OTHERS = Handle("others")
MEAN_PART = "mean"
NO_SUM = "no bucket of the sum of the other variances has enough groups"
_MOST_EXPONENT = 400  # squares of all possible variances are floats
_DEEPEST = 30
# Number of reports that is always worth its time: rounds of few columns are fast.
_ALWAYS_WORTH = 64
# Probability that noise hides a column, where the rule chooses the number of reports.
_RARE = 1 / 20
_SHARES = ("votes_share", "ladder_share", "center_share")
_tail = rational(
    lambda value: 0 < value < Fraction(1, 10), " is outside (0, 1/10); give a share of your delta."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownCovarianceMean(Mechanism[VectorMeanEstimate]):
    """The mean of vectors whose covariance is unknown, with no bound on where it is.

    Four steps, each on all records: groups of records vote for the largest variance; ``reports``
    columns of large variances are found, as by ``LargeVariances``; groups vote for the sum of the
    other columns' variances; then ``RefinedMean`` runs with a diagonal M of these: each reported
    column's variance, and for the others their average.

    Data: shape (n, d), in any unit, variances far above cell^2, values within 2^40 cells. Output:
    ``VectorMeanEstimate``, or ``Abstained``.
    Claim: the composition of its stages; noise_multiplier is about 1 / mu of it.
    Error: with s_j the standard deviations and mu as above, the noise is about (sum of s_j
    reported + sqrt((d - k) sum of s_j^2 of the others)) c / (n mu), with c some times the factor
    for known variances. The n at which it is good grows with d^(1/4), not with sqrt(d). Accuracy
    is promised for independent normal columns: under large correlations records lie beyond the
    radius, and the noise is then that of the variances, or the mechanism abstains.
    n_max: about how many records are expected, public.
    reports: the largest number of reported columns; ``for_budget`` takes as many as the groups
    can carry at n_max; ``NumberOfReports`` finds a number privately.
    tail: the probability of each of three rare events that make the claim's delta.
    votes_share, ladder_share, center_share: the parts of mu^2 for the two votes, the reports, and
    the center of the refined mean.
    reach: the distance within which records are friends, in radii of records; with 2 all records
    within the radius are friends, which is quick to see.
    depth, groups, cell, key: as for ``LargeVariances``.
    Errors: TypeError or ValueError for parameters and for data of another shape.
    Source: DJYZZ24, Algorithm 2, with one mean about M in place of two (OURS).
    """

    d: Dimension
    n_max: Expected
    reports: Annotated[int, whole]
    tail: Annotated[Rational, _tail]
    votes_share: Share = Fraction(1, 20)
    ladder_share: Share = Fraction(1, 8)
    center_share: Share = Fraction(1, 10)
    reach: Annotated[Exact, positive(" is not positive; leave it out for 2.")] = 2
    depth: int | None = None
    groups: int | None = None
    cell: RecordCell = Fraction(1, 2**20)
    key: int = 0

    def check_parameters(self) -> None:
        """Check as ``LargeVariances`` does, and that the shares leave something for the mean."""
        check_ladder(self)
        if abs(floor_log2(self.cell)) > _MOST_EXPONENT:
            raise ValueError(f"cell = {self.cell} is outside 2^-400..2^400; take another unit.")
        if self.depth is not None and self.depth > _DEEPEST:
            raise ValueError(f"depth = {self.depth}; one grid serves at most {_DEEPEST} levels.")
        if self._left() <= 0:
            raise ValueError(
                f"{' + '.join(_SHARES)} = {1 - self._left()} leaves nothing for the mean; give "
                "shares that add up to less than 1."
            )

    if TYPE_CHECKING:  # what ``calibrated_for`` chooses may be left out

        @classmethod
        def for_budget(  # type: ignore[override]
            cls,
            budget: Guarantee,
            /,
            *,
            adjacency: Adjacency,
            nonfinite: Nonfinite = "refuse",
            d: Dimension,
            n_max: Expected,
            reports: Annotated[int, whole] = CHOSEN,
            tail: Annotated[Rational, _tail] = CHOSEN,
            votes_share: Share = Fraction(1, 20),
            ladder_share: Share = Fraction(1, 8),
            center_share: Share = Fraction(1, 10),
            reach: Annotated[Exact, positive(" is not positive; leave it out for 2.")] = 2,
            depth: int | None = None,
            groups: int | None = None,
            cell: RecordCell = Fraction(1, 2**20),
            key: int = 0,
        ) -> Self:
            """Make the mechanism with the least noise for the budget; see ``calibrated_for``."""

    @classmethod
    def calibrated_for(cls, budget: Guarantee, *, adjacency: Adjacency, **parameters: Any) -> Self:
        """Build the mechanism with the least noise whose claim is ``budget``, on the safe side.

        tail: by default a 20th of the budget's delta.
        reports: by default as many as at n_max noise hides a column with probability at most
        1/20, at least 1; and no more than 64 or d / 4, whichever is larger, since then the noise
        is at most 3/2 of the noise with d reports, whatever the variances. All this follows from
        public numbers alone.
        """
        if "tail" not in parameters:
            if not isinstance(budget, ApproxDP):
                raise ValueError(
                    f"budget = {budget}: say which ``tail`` of it rare events may take."
                )
            parameters["tail"] = budget.delta / 20
        if "reports" not in parameters:
            tail = exact(parameters["tail"], "tail")
            mu = calibrate(lambda mu: ApproximateGaussianDP(mu, 3 * tail, 0), budget)
            multiplier = Fraction(1 / math.sqrt(to_float(mu.mu_squared)))
            trial = cls(adjacency=adjacency, noise_multiplier=multiplier, reports=1, **parameters)
            parameters["reports"] = _most_reports(trial)
        return super(UnknownCovarianceMean, cls).calibrated_for(
            budget, adjacency=adjacency, **parameters
        )

    def columns(self) -> int:
        """Return the number of columns."""
        return self.d

    def plan(self) -> Plan:
        """Release the votes, the reports and the others' sum; then each stage of the mean, built
        from what was released.
        """
        ladder = self.ladder()
        multiplier = self.noise_multiplier * root_down(2 / self.votes_share, ROOT_BITS)
        votes = votes_for(VOTES, self._query, self.adjacency, multiplier, self.tail, self.n_max)
        stages = (votes, _surfaced(votes, NO_BUCKET), *ladder.rounds())
        assert isinstance(votes.query, GroupBuckets)
        groups = votes.query.groups
        # a record moves one vote here too, so the same noise has the same claim
        first = Stage(OTHERS, self._sum(groups, ()), votes.noise)

        def others(row: Row) -> Stage:
            named = tuple(sorted(ladder.identified(row)[0]))
            return replace(first, query=self._sum(groups, named))

        rest = ladder.prefix(self.reports).part(others)
        mean = self.prefix().part(lambda row: self.mean_for(row).part(MEAN_PART))
        return (*stages, rest, _surfaced(first, NO_SUM), mean)

    def ladder(self) -> Ladder:
        """Build the ladder of the reports."""
        return self.ladder_of(self.reports)

    def ladder_of(self, reports: int) -> Ladder:
        """Build the ladder for this number of reports."""
        groups = ladder_groups(self.n_max) if self.groups is None else self.groups
        depth = default_depth(self.d) if self.depth is None else self.depth
        own = self.noise_multiplier * root_down(reports / self.ladder_share, ROOT_BITS)
        return Ladder(self._query(groups), self.adjacency, reports, depth, None, own)

    def mean_for(self, row: Row) -> RefinedMean:
        """Build the refined mean after these released numbers: the ladder's, then the others'
        bucket.
        """
        return _refined(self, self.rough_for(row))

    def estimate(self, transcript: Transcripts) -> VectorMeanEstimate | Abstained:
        """Return the estimate of the refined mean."""
        if transcript.stopped is not None:
            return Abstained(transcript.stopped)
        mean = self.mean_for(self.prefix().row(transcript))
        return mean.estimate(transcript.within(MEAN_PART))

    def expected_noise(self, rough: RoughCovariance, n: int) -> float:
        """Predict about the length of the noise of n records, after these levels were released."""
        length = math.fsum(to_float(root) for root in rough.roots)
        mean = _refined(self, rough)
        radius = to_float(exact(mean.radius, "radius"))
        return mean.expected_noise(n) * radius * math.sqrt(length)

    def expected_error(self, n: int, *, deviations: Numbers | None = None) -> float:
        """Predict the root mean square length of the noise, in the data's units, for n records of
        independent normal columns of these deviations, whose levels were found.

        Else as for ``RefinedMean``. Raises ValueError without deviations, since the noise is in
        proportion to them.
        """
        if deviations is None:
            raise ValueError(
                "The noise follows the columns' spreads; give deviations=, a guess of them."
            )
        given = positive_numbers(deviations, "deviations", self.d)
        squares = [Fraction(s) ** 2 / self.cell**2 for s in given]
        buckets = [floor_log2(square) // 2 for square in squares]
        ladder = self.ladder()
        end = max(buckets) + 2 - ladder.depth  # the lowest level, as the ladder begins one above
        largest = sorted(range(self.d), key=lambda i: -squares[i])[: self.reports]
        levels = {i: buckets[i] for i in largest if buckets[i] >= end}
        below = min(levels.values()) + 1 if len(levels) == self.reports else end
        rest = sum(square for i, square in enumerate(squares) if i not in levels)
        others = min(max(floor_log2(rest) // 2, 0), HIGHEST) if rest else 0
        covariance = rough(levels, below, others, self.d, self.cell, self.n_max)
        return self.expected_noise(covariance, n)

    def minimum_n(self, *, beta: Exact = "1e-3") -> int:
        """Return the least n known to be enough for independent normal columns, except with
        probability ``beta``.

        Enough means: the levels are right, as for ``LargeVariances``, and then records that are
        all friends do not abstain. Raises ValueError if the groups are too few for this beta.
        """
        allowed = probability(beta, "beta")
        core = self.mean_for(self.prefix().start).core()
        levels = least_records(self.ladder(), self._stage(VOTES), to_float(allowed / 2))
        return max(levels, core.minimum_n(allowed / 2))

    def prefix(self) -> Prefix:
        """Return what the mean is built from: the ladder's numbers, then the others' bucket."""
        return self.ladder().prefix(self.reports).also(buckets_from(OTHERS), (0,))

    def rough_for(self, row: Row) -> RoughCovariance:
        """Return M and the radius, after these released numbers."""
        levels, below = self.ladder().identified(row[:-1])
        return rough(levels, below, row[-1], self.d, self.cell, self.n_max)

    def _left(self) -> Fraction:
        return 1 - self.votes_share - self.ladder_share - self.center_share

    def _query(self, groups: int) -> GroupBuckets:
        return GroupBuckets(KthLargest(1), self.d, groups, floor_log2(self.cell), self.key)

    def _sum(self, groups: int, named: tuple[int, ...]) -> GroupBuckets:
        """Build the query over the columns that are not named; over all of them if every column
        is named.
        """
        return _sum_over(self._query(groups), named)


@lru_cache(maxsize=1 << 8)
def _sum_over(query: GroupBuckets, named: tuple[int, ...]) -> GroupBuckets:
    left_out = {*named}
    rest = tuple(i for i in range(query.columns) if i not in left_out)
    return replace(query, statistic=SumOver(rest or tuple(range(query.columns))))


def _surfaced(votes: Stage, reason: str) -> Gate:
    assert isinstance(votes.noise, ThresholdedGaussian)
    return Gate(votes.name, votes.noise.threshold, reason)


@lru_cache(maxsize=1 << 10)
def _refined(mechanism: UnknownCovarianceMean, rough: RoughCovariance) -> RefinedMean:
    """Build the refined mean about the diagonal matrix that was found."""
    scale = mechanism.noise_multiplier
    record = rough.record_radius
    radii: Any = {"radius": exact(mechanism.reach, "reach") * record, "record_radius": record}
    return RefinedMean(
        adjacency=mechanism.adjacency,
        nonfinite=mechanism.nonfinite,
        noise_multiplier=scale * root_down(1 / mechanism._left(), ROOT_BITS),
        center_multiplier=scale * root_down(1 / mechanism.center_share, ROOT_BITS),
        matrix=rough.matrix,
        **radii,
        n_max=mechanism.n_max,
        tail=mechanism.tail,
    )


def _most_reports(trial: UnknownCovarianceMean) -> int:
    """Return the largest number of reports that is rarely wrong at n_max, and worth its cost; 1
    if none is.

    With k of d reports the noise S + sqrt((d - k) sum of s_j^2 of the others) is at most
    (1 + sqrt(d / k)) / 2 of the sum of all s_j (proof in spec/theory/rough_covariance.py), so a
    quarter of the columns is enough.
    """
    most = min(trial.d, max(_ALWAYS_WORTH, -(-trial.d // 4)))

    def too_many(reports: int) -> bool:
        return reports > most or noise_missed(trial.ladder_of(reports)) > _RARE

    return least_integer(too_many, above=1) - 1
