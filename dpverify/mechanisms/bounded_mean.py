"""``bounded_mean``: the mean of one column between public bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from dpverify.estimation.answers import (
    Result,
    laplace_scale,
    laplace_tail,
    tail_of,
    whole_deviation,
)
from dpverify.estimation.handles import COUNT, SUM
from dpverify.grid import ClampedSum, Count, interval
from dpverify.grid.cells import floor_log2
from dpverify.plans import (
    Abstained,
    DiscreteLaplace,
    Gate,
    Mechanism,
    Noise,
    NoNoise,
    Plan,
    Stage,
    Transcripts,
)
from dpverify.plans.parameters import AtLeast, Cell, Share
from dpverify.privacy import Adjacency
from dpverify.privacy.numbers import Exact, settle, to_float

_HALVINGS = 60
_CELLS_PER_RADIUS = 20  # a cell is at most 2^-20 of the clip radius: its rounding is invisible


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MeanEstimate(Result):
    """A private mean, with the standard deviation that its (public) noise laws give it.

    ``value`` is in the data's units and lies between the bounds. ``standard_deviation`` counts
    the noise only, not the sampling error; ``count`` is the (noisy or public) number of records.
    ``from_sum`` is the part of the standard deviation that is due to the sum's noise;
    ``count_deviation`` is the standard deviation of the count's noise, in records; ``lower`` and
    ``upper`` are the bounds.
    """

    value: float
    standard_deviation: float
    count: int
    from_sum: float = field(repr=False)
    count_deviation: float = field(repr=False)
    lower: float = field(repr=False)
    upper: float = field(repr=False)

    def interval(self, level: Exact = 0.95, *, sampling: bool = False) -> tuple[float, float]:
        """Compute (low, high), between the bounds, that holds the mean of the clamped records, up
        to a cell of the grid.

        A mean m is left out if (noisy sum) - m (noisy count) exceeds the quantile of its noise,
        which is the sum's noise plus m times the count's. The level is exact but for the rounding
        of the count's noise to integers, for which one record is allowed. It is conservative
        where the value was moved to a bound.
        sampling: hold the mean of the population of clamped records instead, from which the
        records are independent draws, by Hoeffding's inequality. The allowed failure is divided
        among the noise, the sampling and the number of records.
        Raises TypeError or ValueError for a level outside (0, 1).
        """
        tail = tail_of(level, 1 + sampling * (1 + (self.count_deviation > 0)))
        if not math.isfinite(self.from_sum + self.count_deviation):
            return self.lower, self.upper
        center = self.lower / 2 + self.upper / 2
        low, high = (self._end(bound - center, center, tail) for bound in (self.lower, self.upper))
        if sampling:
            fewest = self.count - whole_deviation("laplace", self.count_deviation, tail)
            drawn = math.sqrt(math.log(2 / tail) / (2 * max(1, fewest)))
            low, high = (
                low - drawn * (self.upper - self.lower),
                high + drawn * (self.upper - self.lower),
            )
        return max(self.lower, center + low), min(self.upper, center + high)

    def _end(self, far: float, center: float, tail: float) -> float:
        """Find the first mean outside of the interval, going from the center towards ``far``."""
        own, offset = self.from_sum / math.sqrt(2), self.value - center
        step = to_float(1 / Fraction(self.count)) if self.count_deviation else 0.0
        scale = step * laplace_scale(self.count_deviation)

        def left_out(mean: float) -> bool:
            distance = max(0.0, abs(offset - mean) - step * abs(mean))
            return laplace_tail(distance, own, scale * abs(mean)) < tail

        near = offset
        for _ in range(_HALVINGS if left_out(far) else 0):
            middle = near / 2 + far / 2
            near, far = (near, middle) if left_out(middle) else (middle, far)
        return far


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedMean(Mechanism[MeanEstimate]):
    """The mean of records clamped to public bounds: a noisy count, then a noisy sum if the count
    is large enough.

    Data: one column, shape (n,) or (n, 1), in any unit. Output: ``MeanEstimate``, or
    ``Abstained`` when the released count is below ``at_least``.
    Claim: PureDP(1 / noise_multiplier), proved for both adjacencies. Under add-remove n = 0 is an
    ordinary dataset; under replace n is public and the count takes no noise.
    lower, upper: public bounds, chosen without looking at the data; values beyond count as the
    bound.
    count_share: the part of epsilon spent on the count (add-remove). The default 1/4 is best when
    the mean lies about 0.2 radii from the middle of the bounds, since the count's noise enters
    multiplied by that distance. Wherever the mean lies, the error is at most 1.5 times the best.
    at_least: abstain below this released count, by default 1 (a mean needs a record).
    cell: the public grid's step, a power of two; by default at most 2^-20 of the clip radius.
    Errors: TypeError or ValueError for parameters and for data that are not a real column.
    Source: K19 (the height example: clip to [120, 200] cm); DMNS06, Section 3.
    """

    lower: float
    upper: float
    count_share: Share = Fraction(1, 4)
    at_least: AtLeast = 1
    cell: Cell | None = None

    def check_parameters(self) -> None:
        """Check that the bounds are in order."""
        lower, upper = interval(self.lower, self.upper, "lower and upper")
        settle(self, lower=lower, upper=upper)

    def replacement(self) -> float:
        """Return the middle of the bounds, which moves the sum least."""
        return self.lower / 2 + self.upper / 2

    def plan(self) -> Plan:
        """Release the count, gate at ``at_least``, release the sum. Each scale is multiplier x
        sensitivity / share.
        """
        count, total = Count(), self._sum()
        return (
            Stage(COUNT, count, self._count_noise()),
            Gate(COUNT, self.at_least, f"fewer than {self.at_least} records, by the noisy count"),
            Stage(SUM, total, DiscreteLaplace(self._sum_scale(total))),
        )

    def estimate(self, transcript: Transcripts) -> MeanEstimate | Abstained:
        """Return center + noisy sum / noisy count, clipped to the bounds."""
        if transcript.stopped is not None:
            return Abstained(transcript.stopped)
        stage, count_noise = self._stage(SUM), self._stage(COUNT).noise  # made once, with the plan
        total: Any = stage.query
        count = transcript.number(COUNT)
        offset = Fraction(transcript.number(SUM), count)
        value = (total.center + offset) * Fraction(2) ** total.exponent
        value = min(max(value, Fraction(self.lower)), Fraction(self.upper))
        from_sum = stage.noise.standard_deviation
        reach = to_float(min(abs(offset), Fraction(total.radius)))
        from_count = reach * count_noise.standard_deviation if reach else 0.0
        noise, from_sum = (
            _ldexp(of / to_float(Fraction(count)), total.exponent) if math.isfinite(of) else of
            for of in (math.hypot(from_sum, from_count), from_sum)
        )
        own = count_noise.standard_deviation, self.lower, self.upper
        return MeanEstimate(float(value), noise, count, from_sum, *own)

    def expected_error(self, n: int) -> float:
        """Predict the root mean square of the noise, in the data's unit, for a mean at one of the
        bounds: there the count's noise enters most.

        Elsewhere it is less, by up to the count's part, and where noise is cut off at the bounds.
        Infinite below ``at_least`` records.
        """
        if n < self.at_least:
            return math.inf
        total = self._sum()
        from_sum = DiscreteLaplace(self._sum_scale(total)).standard_deviation
        from_count = total.radius * self._count_noise().standard_deviation
        return _ldexp(math.hypot(from_sum, from_count) / n, total.exponent)

    def fewest_records(self) -> int:
        """Return ``at_least``: fewer records, a public number under replace, are refused."""
        return self.at_least

    def _sum(self) -> ClampedSum:
        exponent = self._exponent()
        low, high = (round(Fraction(b) / Fraction(2) ** exponent) for b in (self.lower, self.upper))
        return ClampedSum(low, high, (low + high) // 2, exponent)

    def _exponent(self) -> int:
        if self.cell is not None:
            return floor_log2(self.cell)
        return floor_log2((Fraction(self.upper) - Fraction(self.lower)) / 2) - _CELLS_PER_RADIUS

    def _count_noise(self) -> Noise:
        if self.adjacency is Adjacency.REPLACE:
            return NoNoise()
        return DiscreteLaplace(self.noise_multiplier / self.count_share)

    def _sum_scale(self, total: ClampedSum) -> Fraction:
        if self.adjacency is Adjacency.REPLACE:
            return self.noise_multiplier * (total.upper - total.lower)
        return self.noise_multiplier * total.radius / (1 - self.count_share)


def _ldexp(value: float, exponent: int) -> float:
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.inf
