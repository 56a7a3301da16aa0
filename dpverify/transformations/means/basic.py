"""The mean of the records that ``BasicFilter`` keeps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dpverify.grid.nearness import Nearness
from dpverify.grid.retained import KEPT
from dpverify.plans import (
    UNIT,
    DiscreteLaplace,
    Filtered,
    KeptMean,
    Plan,
    RoundedGaussian,
    Stage,
    Transcripts,
)
from dpverify.privacy import Adjacency
from dpverify.transformations.basic_filter import BasicFilter
from dpverify.transformations.means.shared import MEAN, kept_plan, least, least_shift

_COUNT_SHARE, _AT_ROWS = 1.5, 2000.0  # measured to give the least error at (1, 1e-6)


@dataclass(frozen=True, slots=True)
class BasicCoreMean:
    """A plan with noise on the number of kept records and on their mean.

    Discrete Laplace noise is on the number, Gaussian noise of spread ``multiplier`` on the
    mean. The scale of the former is 1.5 (n_max / 2000)^(1/3) multipliers, within [1/2, 8].

    epsilon: see ``BasicFilter``.
    """

    adjacency: Adjacency
    nearness: Nearness
    multiplier: Fraction
    n_max: int
    tail: Fraction
    epsilon: Fraction | None = None

    @property
    def noise(self) -> DiscreteLaplace:
        """Noise on the number of kept records."""
        share = min(max(_COUNT_SHARE * (self.n_max / _AT_ROWS) ** (1 / 3), 0.5), 8.0)
        return DiscreteLaplace(self.multiplier * Fraction(round(16 * share), 16))

    @property
    def shift(self) -> int:
        """Amount by which the number is lowered, so that it rarely reaches the true one."""
        return least_shift(self.noise, self.tail)

    @property
    def plan(self) -> Plan:
        """Plan of the filter, and what runs behind it."""
        inner = kept_plan(self.nearness, self.noise, self.shift, self.tail, self._mean)
        return (Filtered("core", BasicFilter(self.nearness, self.epsilon), inner),)

    def noise_of(self, transcript: Transcripts) -> Fraction:
        """Return the standard deviation of the released mean, in cells."""
        return KeptMean(self.nearness, self.multiplier, transcript.number(KEPT)).noise

    def expected_noise(self, n: int) -> float:
        """Return the mean's noise in radii where n records agree."""
        left = n - self.shift
        return 2 * float(self.multiplier) / left if left > 0 else math.inf

    def minimum_n(self, beta: Fraction) -> int:
        """Return the least n at which a mean is released, for records that are all friends.

        Then all are kept.
        """
        shift, noise = self.shift, self.noise
        about = shift + least_shift(noise, beta)
        return least(lambda n: n >= shift and noise.falls_short(n - shift, beta), about)

    def _mean(self, released: int) -> Stage:
        query = KeptMean(self.nearness, self.multiplier, released)
        return Stage(MEAN, query, RoundedGaussian(UNIT))
