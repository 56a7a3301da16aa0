"""``sum_of_variances``: the sum of the variances of some of a record's numbers, up to a factor."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpverify.estimation.group_votes import GroupVotes
from dpverify.grid.groups import Statistic, SumOver

_LOW, _HIGH = (math.log(2) - 0.5) / 2, (1 - math.log(2)) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SumOfVariances(GroupVotes):
    """The sum of the variances of some of d numbers, up to a factor of 4, wherever their means
    are.

    Data: shape (n, d). Output: ``VarianceEstimate``, or ``Abstained`` where no bucket surfaces.
    Claim: noise="laplace": ApproxDP(1 / noise_multiplier, delta of the threshold); "gaussian":
    ApproximateGaussianDP(1 / noise_multiplier, the same, 0).
    Each group of records votes for the power of 4 of its sum. Noise, groups and parameters are
    those of ``KthLargestVariance``.
    over: the numbers to sum, counted from 0; by default all.
    Errors: TypeError or ValueError for parameters and for data of another shape.
    Source: DJYZZ24, Appendix A.4 (SumVar), with groups that keep it private when the number of
    records is (OURS).
    """

    over: tuple[int, ...] | None = None

    def statistic(self) -> Statistic:
        """Return the sum of the variances as the statistic of a group."""
        return SumOver(tuple(range(self.d)) if self.over is None else tuple(self.over))

    def off(self, pairs: int) -> float:
        """Bound the probability that a group's sum is off, by Chernoff: a sum of variances strays
        no further than one of them.
        """
        return math.exp(-_LOW * pairs) + math.exp(-_HIGH * pairs)
