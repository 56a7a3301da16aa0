"""Results that several mechanisms release: a mean of vectors, and a variance up to a factor."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from dpverify.estimation.answers import NoiseLaw, Result, deviations, tail_of, whole_deviation
from dpverify.plans.parameters import holding
from dpverify.privacy.numbers import Exact, Floats, exact

UNSURE = 0.001
"""Probability with which a robust mean's certificate may fail, twice."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class VectorMeanEstimate(Result):
    """A private mean of shape (d,), with the covariance of its (public) noise and of the error
    that clipping adds.

    ``value`` is in the data's units. ``count`` is the (noisy or public) number of records it
    rests on. The noise is that of the sum, ``spread`` times a standard vector of the law
    ``noise`` (a number, d numbers or a (d, d) matrix), and that of the count along ``along``;
    neither contains the sampling error. ``count_deviation`` is that of the count's noise, in
    records. ``cut`` is the standard deviation, in each coordinate, of what clipping records or
    leaving some out adds to the error, if they are normal of the deviations that the mechanism
    was told or found; 0 where it was told of none, as ``ClippedMean``, whose value is the mean
    of the clipped records. Deviations, covariance and intervals contain it.
    """

    value: Floats
    count: float
    spread: float | Floats = field(repr=False)
    along: Floats = field(repr=False)
    count_deviation: float = field(default=0.0, repr=False, kw_only=True)
    noise: NoiseLaw = field(default="gaussian", repr=False, kw_only=True)
    cut: float | Floats = field(default=0.0, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        d = len(self.value)
        if self.along.shape != (d,) or np.shape(self.spread) not in ((), (d,), (d, d)):
            raise ValueError(f"spread or along is not of the shape of a value of {d} numbers.")
        if np.shape(self.cut) not in ((), (d,)):
            raise ValueError(f"cut is not of the shape of a value of {d} numbers.")

    def interval(self, level: Exact = 0.95, *, simultaneous: bool = False) -> tuple[Floats, Floats]:
        """Return (low, high), each of shape (d,): an interval in every coordinate for the mean
        without noise and ``cut``.

        simultaneous: at this level for all coordinates together, by Bonferroni's bound. The
        level is exact, by Fieller (to first order, where the mean is no linear function of the
        sum): with (noisy sum) / (noisy count) = o, a mean m is left out where o - m exceeds its
        noise, which is the noise of the sum and m times that of the count. Both ends are
        infinite where the count might be zero, and where value or deviation is. Where a noisy
        mean was moved into a public ball it came nearer to the truth in length, which does not
        hold for every single coordinate.
        Raises TypeError or ValueError for a level outside (0, 1).
        """
        z = deviations(self.noise, tail_of(level, len(self.value) if simultaneous else 1))
        part = z * self.count_deviation / self.count if self.count_deviation else 0.0
        left = 1 - part * part
        if not left > 0:
            return np.full_like(self.value, -np.inf), np.full_like(self.value, np.inf)
        with np.errstate(all="ignore"):
            noise = np.hypot(self._own() * math.sqrt(left), self.along)
            reach = z * np.hypot(noise / left, self.cut)
            middle = self.value + self.along * (z * part / left)
            told = np.isfinite(middle) & (reach < np.inf)
            ends = [np.where(told, middle + s * reach, s * np.inf) for s in (-1, 1)]
        return ends[0], ends[1]

    @property
    def covariance(self) -> Floats:
        """The covariance of the noise and of ``cut``, taken to be independent between
        coordinates, shape (d, d).
        """
        with np.errstate(all="ignore"):
            spread = np.asarray(self.spread)
            if spread.ndim < 2:
                own = np.diag(np.broadcast_to(spread * spread, len(self.value)))
            else:
                own = spread @ spread.T
            cut = np.diag(np.broadcast_to(np.square(self.cut), len(self.value)))
            moved = self.along != 0  # of the others none is infinite times 0
            along = np.where(np.outer(moved, moved), np.outer(self.along, self.along), 0.0)
            total: Floats = own + along + cut
        return total

    @property
    def standard_deviation(self) -> Floats:
        """The deviation of the noise and of ``cut`` in each coordinate, shape (d,)."""
        with np.errstate(all="ignore"):
            return np.asarray(np.hypot(np.hypot(self._own(), self.along), self.cut))

    def _described(self) -> list[str]:
        value, *others = Result._described(self)
        return [value, "standard_deviation", *others]

    def _own(self) -> Floats:
        """Return the standard deviation of the sum's part of the noise, in each coordinate."""
        spread = np.asarray(self.spread)
        return spread if spread.ndim < 2 else np.asarray(np.linalg.norm(spread, axis=1))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class VarianceEstimate(Result):
    """A variance, up to a factor of about 4, in the square of the data's unit.

    ``value`` is twice the lower edge of the bucket [4^b, 4^(b + 1)) that most groups voted for,
    or 0. ``votes`` are the noisy numbers of groups by bucket (named likewise), of ``groups`` in
    all; a bucket of fewer than ``threshold`` is not shown. ``standard_deviation`` is that of a
    vote count's noise, of law ``noise``.
    """

    value: float
    votes: Mapping[float, int]
    groups: int
    threshold: int
    standard_deviation: float
    noise: NoiseLaw = "laplace"

    def interval(self, level: Exact = 0.95) -> tuple[float, float]:
        """Return (low, high): the edges between which the bucket of most votes without noise
        lies.

        Conservative: the noise of that bucket and of at most ``groups`` others may lower or
        raise it by t, so every bucket within 2 t of the most votes could be it; (0, inf) where
        one that is not shown could. The interval does not account for records that are spread
        over few groups, or are not normal. Raises TypeError or ValueError for a level outside
        (0, 1).
        """
        t = whole_deviation(
            self.noise, self.standard_deviation, 2 * tail_of(level, self.groups + 1)
        )
        least = max(self.votes.values()) - 2 * t
        if self.threshold > least:
            return 0.0, math.inf
        ends = [self._edges(name) for name, count in self.votes.items() if count >= least]
        return min(low for low, _ in ends), max(high for _, high in ends)

    def _edges(self, name: float) -> tuple[float, float]:
        return name / 2, 2 * name

    def __str__(self) -> str:
        most = max(self.votes.values())
        return f"{self.value:.6g}, within a factor of 4 ({most} of {self.groups} groups)"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RobustMeanEstimate(VectorMeanEstimate):
    """A private mean, with what is known of how far outliers may have moved it.

    slabs: number of directions and columns that were cut.
    certificate: in deviations, a bound on the distance between the mean of the averaged records
    and the mean of the inliers among them, for at most a share gamma of outliers among them. It
    fails with probability at most 1 / 500, over the noise alone. None without second moments or
    with too few records; where so few are left that the first mean is released, too.
    deviations: public, of the columns.
    """

    slabs: int = 0
    certificate: float | None = field(default=None, repr=False)
    deviations: tuple[float, ...] = field(default=(), repr=False, kw_only=True)

    def outliers_interval(
        self, level: Exact = 0.95, *, simultaneous: bool = False
    ) -> tuple[Floats, Floats] | None:
        """Compute (low, high), each of shape (d,), that holds the mean of the averaged inliers.

        It is ``interval``, at a level that is higher by the certificate's 1 / 500, with the
        certificate added on either side. None without a certificate, and for a level of 0.998 or
        more. Raises TypeError or ValueError for a level outside (0, 1).
        """
        rest = holding(level, "level") + 2 * exact(UNSURE, "unsure")
        if self.certificate is None or rest >= 1:
            return None
        low, high = self.interval(rest, simultaneous=simultaneous)
        moved = self.certificate * np.array(self.deviations)
        return low - moved, high + moved
