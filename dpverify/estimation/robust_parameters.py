"""A robust mean's public parameters: their checks, and what follows before any release."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any

import numpy as np

from dpverify.estimation.budget_shares import (
    ROOT_BITS,
    Tail,
    checked_shares,
)
from dpverify.estimation.clipping import PerColumn
from dpverify.estimation.column_cuts import votes_noise
from dpverify.estimation.contamination import (
    HISTOGRAM,
    MOMENTS,
    MOST_RECORDS,
    check_gamma,
    core_of,
    sure_share,
)
from dpverify.estimation.directional_cuts import MOST_BINS
from dpverify.estimation.friendly_means import (
    check_multiplier,
    nearness_of,
)
from dpverify.estimation.inner_cuts import MOST_DIRECTIONS
from dpverify.estimation.results import RobustMeanEstimate
from dpverify.grid.nearness import Nearness
from dpverify.grid.region_queries import DIRECTION_BITS, histogram_moves
from dpverify.grid.slice_sums import signed_moves
from dpverify.plans import Mechanism
from dpverify.plans.parameters import (
    Rational,
    flag,
    positive,
    rational,
    whole_from,
)
from dpverify.privacy import Adjacency
from dpverify.privacy.numbers import (
    approximately,
    exact,
    root_up,
    settle,
    whole,
)
from dpverify.transformations.means import WeightedCoreMean
from dpverify.transformations.soft_core import checked_full

_LEAST_NOISE, _MOST_NOISE = Fraction(1, 16), 1 << 44
_LEAST_DRAWN = Fraction(1, 64)  # with less, records would be rounded to nothing
FARTHEST = 1 << 60
"""Edges are no farther, in cells times 2^12."""
MOST_ROUNDS = 8
"""Most rounds in which the sum is released."""
DRAWN = rational(
    lambda share: _LEAST_DRAWN <= share <= 1, ": give a share of the radius, from 1/64 to 1."
)


def full_share(value: Any, name: str) -> Fraction:
    """Read the share of friends with which a record counts in full."""
    return checked_full(exact(value, name))


def check_looks(d: int, **numbers: Any) -> None:
    """Check for numbers of directions that d columns have; None is one that is still to be chosen.

    Raises TypeError or ValueError.
    """
    why = f"; give an integer from 0 to {d}, the number of columns."
    for name, number in numbers.items():
        if number is not None:
            whole_from(0, why, most=d)(number, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class RobustParameters(Mechanism[RobustMeanEstimate]):
    """A robust mean's public parameters, and the noise of its stages.

    ``RobustMean`` says what the parameters mean.
    """

    deviations: PerColumn
    radius: Annotated[float, positive(as_given=True)]
    record_radius: Annotated[float, positive(as_given=True)]
    n_max: Annotated[int, whole_from(1, most=MOST_RECORDS)]
    tail: Tail
    gamma: Annotated[Rational, exact] = Fraction(1, 10)
    full: Annotated[Rational, full_share] | None = None
    directions: Annotated[int, whole] = 2
    bins: Annotated[int, whole_from(2, most=MOST_BINS)] = 24
    shares: tuple[Rational, ...] = (Fraction(1, 5), MOMENTS, HISTOGRAM, Fraction(9, 20))
    votes: Annotated[bool, flag] = False
    drawn: Annotated[Rational, DRAWN] = Fraction(1)
    inner: Annotated[int, whole] = 0
    rounds: Annotated[int, whole_from(1, most=MOST_ROUNDS)] = 1

    def check_parameters(self) -> None:
        """Check for positive deviations and radii, a gamma that leaves agreement, an even number
        of bins, and shares of sum 1.
        """
        with np.errstate(all="ignore"):
            scales = 1 / np.array(self.deviations, np.float64)
        if not self.deviations or not (np.isfinite(scales) & (scales > 0)).all():
            raise ValueError(
                "deviations: give one positive number a column, whose inverse is a float too."
            )
        d = len(self.deviations)
        check_looks(d, directions=self.directions, inner=self.inner)
        if self.bins % 2:
            raise ValueError(f"bins = {self.bins} is odd; give an even number, half for each side.")
        if self.inner and not 0 < self.directions < min(self.inner, MOST_DIRECTIONS + 1):
            raise ValueError(
                f"inner = {self.inner} with directions = {self.directions}; give 1 to "
                f"{MOST_DIRECTIONS} directions and a larger inner, or inner = 0 for histograms."
            )
        if self.rounds > 1 and not self.inner:
            raise ValueError(
                f"rounds = {self.rounds} with inner = 0; slices are across a direction that inner "
                "moments show: give an inner, or rounds = 1."
            )
        self._check_fractions()

    def _check_fractions(self) -> None:
        check_multiplier(self, "noise_multiplier")
        if self.full is not None and self.adjacency is not Adjacency.REPLACE:
            raise ValueError(
                f"full = {self.full} under {self.adjacency}: a soft core has bounds for replace "
                "only; leave it out for degree weights."
            )
        check_gamma(self.gamma, self.full)
        number = (4 if self.directions else 2) + self.votes + (self.rounds > 1)
        settle(self, shares=checked_shares(self.shares, number))
        counts = [self._histogram_noise()] if self.directions and not self.inner else []
        counts += [self._votes_noise()] if self.votes else []
        if (
            max([*counts, *([self._sides_noise()] if self.rounds > 1 else [])], default=0)
            > _MOST_NOISE
        ):
            raise ValueError(
                f"noise_multiplier = {approximately(self.noise_multiplier)} asks for more noise on "
                "each count than 2^44 records; give a larger budget, or directions = 0 and votes = "
                "False."
            )

    def columns(self) -> int:
        """Return the number of columns."""
        return len(self.deviations)

    def core(self) -> WeightedCoreMean:
        """Return the center's part, with the share that inliers are sure to agree to."""
        expected = max(1, math.floor(self.n_max * sure_share(self.gamma, self.full)))
        own = self._nearness(), self._multiplier(0), expected, self.tail
        return core_of(self.adjacency, *own, self.full)

    def _nearness(self) -> Nearness:
        return _nearness_of(self.deviations, self.radius)

    def _multiplier(self, part: int) -> Fraction:
        """Return noise_multiplier / sqrt(share); part: the index of the share, -1 for the last."""
        return self.noise_multiplier * _root(1 / self.shares[part])

    def _last_multiplier(self) -> Fraction:
        """Return the multiplier of each round of the sum; each has the same part of its share."""
        return self.noise_multiplier * _root(self.rounds / self.shares[-1])

    def _inner_reach(self) -> int:
        """Return sqrt(inner + 1) deviations, the length of a typical inlier there, in cells; at
        most the radius.
        """
        nearness = self._nearness()
        square = Fraction(self.inner + 1) / Fraction(4) ** nearness.exponent
        return max(1, min(math.isqrt(math.floor(square)), nearness.radius))

    def _histogram_noise(self) -> Fraction:
        """Return the noise scale of a bin; at least a sixteenth of a record, for which there is a
        sampler.
        """
        square = histogram_moves(self.directions, self.adjacency)
        return max(_LEAST_NOISE, self._multiplier(2) * _root(square))

    def _votes_noise(self) -> Fraction:
        """Return the noise scale of a column's count."""
        part = self._multiplier(3 if self.directions else 1)
        return votes_noise(part, histogram_moves(1, self.adjacency), ROOT_BITS)

    def _sides_noise(self) -> Fraction:
        """Return the noise scale of the signed count."""
        return votes_noise(self._multiplier(-2), signed_moves(self.adjacency), ROOT_BITS)

    def _deviations(self, number: Fraction) -> int:
        """Return so many deviations in cells times 2^12, rounded down; at most 2^60."""
        cell = Fraction(2) ** self._nearness().exponent
        return max(-FARTHEST, min(math.floor(number * (1 << DIRECTION_BITS) / cell), FARTHEST))


@lru_cache(maxsize=256)
def _root(square: Fraction | int) -> Fraction:
    """Return the square root, rounded up; each stage asks for it anew."""
    return root_up(square, ROOT_BITS)


@lru_cache(maxsize=64)
def _nearness_of(deviations: PerColumn, radius: float) -> Nearness:
    """Return the map of these public numbers; looked up by the radius as it was given."""
    return nearness_of(deviations, exact(radius, "radius"))
