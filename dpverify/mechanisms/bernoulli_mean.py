"""``bernoulli_mean``: the share of ones among zeros and ones."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated

from dpverify.estimation.answers import Result, binomial_ends, deviations, tail_of
from dpverify.estimation.budget_shares import ROOT_BITS
from dpverify.estimation.handles import COUNT, SUM, SUM_AND_COUNT
from dpverify.grid import Count
from dpverify.grid.joint import WithCount, least_counted
from dpverify.grid.vector_queries import OneUnit, VectorSum
from dpverify.plans import (
    UNIT,
    Abstained,
    Mechanism,
    NoNoise,
    Plan,
    RoundedGaussian,
    Stage,
    Transcripts,
)
from dpverify.plans.parameters import probability, whole_from
from dpverify.privacy import Adjacency
from dpverify.privacy.numbers import Exact, root_down, to_float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ShareEstimate(Result):
    """A private share in [0, 1], with the standard deviation of its (public) noise.

    ``count`` is the (noisy or public) number of records, and ``count_deviation`` the standard
    deviation of its noise, in records. The sampling error, sqrt(p (1 - p) / count), is not
    included.
    """

    value: float
    standard_deviation: float
    count: float
    count_deviation: float = field(default=0.0, repr=False)

    def interval(self, level: Exact = 0.95, *, sampling: bool = False) -> tuple[float, float]:
        """Compute (low, high), within [0, 1], that holds the records' share of ones.

        The level is exact, by Fieller: (count, ones - zeros) has the same normal noise in every
        direction, so the set of shares is that of the directions within a fixed distance of it.
        It is conservative where the value was moved into [0, 1].
        sampling: hold the population's share instead, from which the records are independent
        draws. This is conservative: the allowed failure is divided among the noise of the ones,
        the noise of the count, and the binomial law of so many draws (Clopper and Pearson).
        Raises TypeError or ValueError for a level outside (0, 1).
        """
        lean, noisy = 2 * self.value - 1, self.count_deviation > 0
        tail = tail_of(level, 1 + sampling * (1 + noisy))
        far = deviations("gaussian", tail)
        if noisy:
            reach = far * self.count_deviation / (self.count * math.hypot(1.0, lean))
            turn = math.asin(reach) if reach < 1 else math.pi
            angles = (math.atan(lean) + side * turn for side in (-1, 1))
            # Beyond pi / 4, so that no share is lost.
            ends = [math.tan(min(max(angle, -1.0), 1.0)) for angle in angles]
        else:
            ends = [lean + 2 * side * far * self.standard_deviation for side in (-1, 1)]
        low, high = ((1 + min(max(end, -1.0), 1.0)) / 2 for end in ends)
        if sampling:
            low, high = binomial_ends(low, high, self.count - far * self.count_deviation, tail)
        return low, high


@dataclass(frozen=True, slots=True, kw_only=True)
class BernoulliMean(Mechanism[ShareEstimate]):
    """The share of ones, by Gaussian noise on (ones - zeros) and on their number.

    Data: one column of zeros and ones (or booleans), shape (n,) or (n, 1). Other values are
    clamped to [0, 1] and rounded to 0, 1/2 or 1. Output: ``ShareEstimate``, or ``Abstained`` when
    the released count is below ``at_least``.
    Claim: GaussianDP(1 / noise_multiplier) up to the grid's rounding, for both adjacencies; under
    replace the number of records is public and takes no noise.
    Error: about sqrt(p (1 - p) / n) from sampling plus noise_multiplier / n under replace, at
    most sqrt(2) noise_multiplier max(p, 1 - p) / n under add-remove.
    at_least: abstain below this released count, by default 1.
    Errors: TypeError or ValueError for parameters and for data that are not a real column.
    Source: K19 (a Bernoulli mean to alpha from O(1 / alpha^2 + 1 / (alpha epsilon)) records).
    """

    at_least: Annotated[int, whole_from(1, "; a share needs at least 1 record.")] = 1

    def replacement(self) -> float:
        """Return 1/2, neither zero nor one, which moves the sum least."""
        return 0.5

    def plan(self) -> Plan:
        """Release the sum of +-1, together with the number of records unless that is public."""
        total = VectorSum((1,), 1, -1)
        if self.adjacency is Adjacency.REPLACE:
            query = OneUnit(total, self._scale())
            return (Stage(COUNT, Count(), NoNoise()), Stage(SUM, query, RoundedGaussian(UNIT)))
        joint = OneUnit(WithCount(total, 1), self._scale())
        return (Stage(SUM_AND_COUNT, joint, RoundedGaussian(UNIT)),)

    def estimate(self, transcript: Transcripts) -> ShareEstimate | Abstained:
        """Return 1/2 + sum / (2 count), clipped to [0, 1]."""
        scale = self._scale()
        if self.adjacency is Adjacency.REPLACE:
            (total,), count = transcript.numbers(SUM), Fraction(transcript.number(COUNT))
            counted = 0.0
        else:
            total, number = transcript.numbers(SUM_AND_COUNT)
            count, counted = number * scale / UNIT, 1.0
        if count < self.at_least:
            return Abstained(f"fewer than {self.at_least} records, by the released count")
        lean = to_float(min(max(total * scale / (UNIT * count), Fraction(-1)), Fraction(1)))
        deviation = to_float(scale / (2 * count)) * math.hypot(1.0, lean * counted)
        own = to_float(scale) * counted
        return ShareEstimate((1 + lean) / 2, deviation, to_float(count), own)

    def expected_error(self, n: int) -> float:
        """Predict the root mean square of the noise, where all records are alike: there the
        count's noise enters most.

        Elsewhere it is less, by up to the count's part, and where noise is cut off at 0 and 1.
        Infinite below ``at_least`` records.
        """
        if n < self.at_least:
            return math.inf
        counted = 1.0 if self.adjacency is Adjacency.ADD_REMOVE else 0.0
        return to_float(self._scale() / (2 * n)) * math.hypot(1.0, counted)

    def minimum_n(self, *, beta: Exact = "1e-3") -> int:
        """Return the least n for which n records abstain with probability at most ``beta``."""
        allowed = probability(beta, "beta")
        if self.adjacency is Adjacency.REPLACE:
            return self.at_least
        noise, per_record = RoundedGaussian(UNIT), UNIT / self._scale()
        return least_counted(self.at_least, per_record, lambda d: noise.falls_short(d, allowed))

    def fewest_records(self) -> int:
        """Return ``at_least``: fewer records, a public number under replace, are refused."""
        return self.at_least if self.adjacency is Adjacency.REPLACE else 0

    def _scale(self) -> Fraction:
        """Return the noise scale: a neighbor moves the sum by 2 (replace), or sum and count by 1
        each.
        """
        moved = Fraction(2) if self.adjacency is Adjacency.REPLACE else root_down(2, ROOT_BITS)
        return self.noise_multiplier * moved
