"""``number_of_reports``: the number of columns of large variance that are worth a report each."""

from __future__ import annotations

import math
from dataclasses import dataclass

import scipy

from dpverify.estimation.group_votes import GroupVotes, records_needed
from dpverify.estimation.results import VarianceEstimate
from dpverify.grid.groups import ReportsWorth, Statistic
from dpverify.plans import Abstained, Transcripts
from dpverify.plans.parameters import probability
from dpverify.privacy.numbers import Exact


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReportsEstimate(VarianceEstimate):
    """The number of reports that are worth their cost: ``value``, a power of 2. Else as
    ``VarianceEstimate``, with powers of 2 as buckets.
    """

    @property
    def reports(self) -> int:
        """Return the number as an integer."""
        return int(self.value)

    def _edges(self, name: float) -> tuple[float, float]:
        return name, name

    def __str__(self) -> str:
        return f"{self.reports} ({max(self.votes.values())} of {self.groups} groups)"


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberOfReports(GroupVotes):
    """The number of columns that ``UnknownCovarianceMean`` should report, from the variances,
    wherever the means are.

    Data: shape (n, d). Output: ``ReportsEstimate``, or ``Abstained`` where no number surfaces.
    Claim: noise="laplace": ApproxDP(1 / noise_multiplier, delta of the threshold); "gaussian":
    ApproximateGaussianDP(1 / noise_multiplier, the same, 0).
    Each group of records votes for the least k = 1, 2, 4, ... up to d whose predicted noise, by
    the group's variances, is at most 9/8 of the least of them. The noise of k is the sum of the k
    largest standard deviations, and the root of d - k times the sum of the other variances. A
    histogram of these votes is released. Where the variances fall geometrically, about log2 d
    reports are worth their cost; where they are equal, one is. Other parameters, with defaults:
    as for ``GroupVotes``.
    Errors: TypeError or ValueError for parameters and for data of another shape.
    Source: DJYZZ24, Remark 2, with one vote of each group in place of a histogram of columns
    (OURS).
    """

    def statistic(self) -> Statistic:
        """Return the number of reports, as a power of 4, as the statistic of a group."""
        return ReportsWorth()

    def off(self, pairs: int) -> float:
        """Bound the probability that a group knows some variance worse than to a factor 2."""
        return float(
            self.d
            * (
                scipy.special.gammainc(pairs / 2, pairs / 4)
                + scipy.special.gammaincc(pairs / 2, pairs)
            )
        )

    def estimate(self, transcript: Transcripts) -> VarianceEstimate | Abstained:
        """Return the number with most votes, the lowest of several."""
        estimate = GroupVotes.estimate(self, transcript)
        if isinstance(estimate, Abstained):
            return estimate
        shown = estimate.groups, estimate.threshold, estimate.standard_deviation, estimate.noise
        return ReportsEstimate(estimate.value, estimate.votes, *shown)

    def expected_error(self, n: int) -> float:
        """Return a factor: how much more noise ``UnknownCovarianceMean`` is predicted to have with
        this number than with the best power of 2, at most, for n normal records.

        It bounds every covariance, except with probability 1e-3, or twice that if a release that
        abstains counts; mostly the factor is below 9/8. That is what it falls to as the groups
        know their variances better. It is infinite where some group may have no pair. Raises
        ValueError if the groups are too few. The bound is in spec/number_of_reports.py.
        """
        self._check_surfaces(_RARE)
        each = n / self.group_count
        fewest = each - math.sqrt(2 * each * math.log(2 * self.group_count / _RARE))
        pairs = math.floor(fewest / 2)
        if pairs < 1:
            return math.inf
        off = _RARE / (4 * self.d * self.group_count)
        known = scipy.special.gammainccinv(pairs / 2, off) / scipy.special.gammaincinv(
            pairs / 2, off
        )
        return 9 / 8 * math.sqrt(known)

    def minimum_n(self, *, beta: Exact = "1e-3") -> int:
        """Return the least n for which nine of ten groups of normal records are expected to know
        every variance within a factor 2, and no number surfaces with probability at most
        ``beta``, for any data.

        Raises ValueError if the groups are too few for this beta. The bounds are in
        spec/number_of_reports.py.
        """
        self._check_surfaces(beta)
        return records_needed(self.off, self.group_count)

    def _check_surfaces(self, beta: Exact) -> None:
        """Refuse groups that are too few for a number to surface with probability 1 - beta."""
        allowed = probability(beta, "beta")
        noise = self._fixed_noise()
        # Least number of votes of the fullest bucket.
        fullest = -(-self.group_count // self.d.bit_length())
        missed = noise.below(noise.threshold - fullest)
        if missed > allowed:
            raise ValueError(
                f"{self.group_count} groups: with probability {missed:.2g} no number surfaces, "
                f"more than beta = {beta}. Give more groups."
            )

    def _named(self, bucket: int) -> float:
        return math.ldexp(1.0, bucket)


_RARE = 1e-3  # probability that the factor of ``expected_error`` does not hold
