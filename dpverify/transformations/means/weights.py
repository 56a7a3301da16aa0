"""The mean by degree weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

from dpverify.grid import Query
from dpverify.grid.nearness import Nearness
from dpverify.plans import UNIT, Gate, Plan, RoundedGaussian, Stage, Transcripts, Unless
from dpverify.privacy import Adjacency
from dpverify.transformations.degree_weights import (
    AGREEMENT,
    LEAST,
    Agreement,
    WeightedMean,
    moves,
    slack,
)
from dpverify.transformations.means.shared import (
    MEAN,
    TOO_FEW,
    least,
    least_shift,
    spread_for,
)

_LARGEST_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class WeightedCoreMean:
    """A plan that shares mu^2 = 1 / multiplier^2 between the noisy agreement and the mean.

    The agreement's share is (g z multiplier / n_max)^(2/3), g the most that it moves and z the
    quantile of ``tail``: there its shift costs as much as its noise saves.
    """

    adjacency: Adjacency
    nearness: Nearness
    multiplier: Fraction
    n_max: int
    tail: Fraction

    @property
    def plan(self) -> Plan:
        """Plan of the agreement, lowered so that it is rarely above the true ones; then the
        mean.
        """
        return (
            Stage(AGREEMENT, self.agreement, self.noise),
            Gate(AGREEMENT, LEAST, TOO_FEW),
            Stage(MEAN, self.query, RoundedGaussian(UNIT)),
            Unless(self.query.below, self.tail),
        )

    @property
    def moves(self) -> int:
        """Maximum change in the agreement between neighboring datasets."""
        return moves(self.adjacency)

    @property
    def slack(self) -> int:
        """Amount by which the released agreement must be below both agreements."""
        return slack(self.adjacency)

    @property
    def agreement(self) -> Query:
        """Query for the agreement released in the first stage."""
        return Agreement(self.nearness, self.shift)

    @property
    def query(self) -> WeightedMean:
        """Query for the mean."""
        return WeightedMean(self.nearness, self.spread, self.adjacency)

    @property
    def spread(self) -> Fraction:
        """Spread of the mean's noise, from what the agreement leaves of mu^2."""
        left = 1 / self.multiplier**2 - (self.moves / self.noise.scale) ** 2
        return spread_for(left, self.nearness.width)

    @property
    def noise(self) -> RoundedGaussian:
        """Noise on the agreement."""
        moved = self.moves
        quantile = -NormalDist().inv_cdf(float(self.tail))
        share = (moved * quantile * float(self.multiplier) / self.n_max) ** (2 / 3)
        scale = moved * float(self.multiplier) / math.sqrt(min(share, _LARGEST_SHARE))
        return RoundedGaussian(Fraction(math.ceil(16 * scale), 16))

    @property
    def shift(self) -> int:
        """Amount by which the agreement is lowered: g + t, and the slack.

        t has P(noise >= t + 1) <= tail: a release above an agreement that is g less needs that
        noise.
        """
        above = max(1, least_shift(self.noise, self.tail) - 1)
        return self.moves + above + self.slack

    def noise_of(self, transcript: Transcripts) -> Fraction:
        """Return the standard deviation of the released mean, in cells."""
        return self.query.noise(transcript.number(AGREEMENT))

    def expected_noise(self, n: int) -> float:
        """Return the mean's noise in radii where n records agree."""
        left = n - self.shift
        return float(self.query.noise(left) / self.nearness.radius) if left >= LEAST else math.inf

    def minimum_n(self, beta: Fraction) -> int:
        """Return the least n at which a mean is released, for records that are all friends."""
        return _least_released(self.noise, LEAST + self.shift, beta)


@lru_cache(maxsize=1 << 8)
def _least_released(noise: RoundedGaussian, least_left: int, beta: Fraction) -> int:
    """Return the least n with P(n + noise < least_left) <= beta."""
    about = least_left - 1 + least_shift(noise, beta)
    return least(lambda n: noise.falls_short(n - least_left + 1, beta), about)
