"""``kth_largest_variance``: the k-th largest variance of a record's numbers, up to a factor."""

from __future__ import annotations

from dataclasses import dataclass

import scipy

from dpverify.estimation.group_votes import GroupVotes
from dpverify.grid.groups import KthLargest, Statistic


@dataclass(frozen=True, slots=True, kw_only=True)
class KthLargestVariance(GroupVotes):
    """The k-th largest of the variances of d numbers, up to a factor of 4, wherever their means
    are.

    Data: shape (n, d). Output: ``VarianceEstimate``, or ``Abstained`` where no bucket surfaces.
    Claim: noise="laplace": ApproxDP(1 / noise_multiplier, delta of the threshold); "gaussian":
    ApproximateGaussianDP(1 / noise_multiplier, the same, 0).
    Records form groups by a public hash. Each group takes differences of pairs and halves their
    mean squares by column; the k-th largest of these estimates a variance, and the group votes
    for its power of 4. A stability histogram of the votes is released. ``minimum_n`` tells how
    many normal records are enough.
    k: from 1 (the largest) to d. Other parameters, with defaults: as for ``GroupVotes``. The
    noise's scale is noise_multiplier times 2, or times 4 under replace, where a record leaves one
    group and enters another ("gaussian": 1.414213563 times 1 or 2).
    Errors: TypeError or ValueError for parameters and for data of another shape.
    Source: DJYZZ24, Algorithm 5, with groups that keep it private when the number of records is
    (OURS).
    """

    k: int = 1

    def statistic(self) -> Statistic:
        """Return the k-th largest variance as the statistic of a group."""
        return KthLargest(self.k)

    def off(self, pairs: int) -> float:
        """Bound the probability that one of the k largest variances is below a half, or another
        above twice the k-th, by chi-square.
        """
        low, high = (
            scipy.special.gammainc(pairs / 2, pairs / 4),
            scipy.special.gammaincc(pairs / 2, pairs),
        )
        return float(self.k * low + (self.d - self.k + 1) * high)
