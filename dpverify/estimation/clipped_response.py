"""Response of a mean to limits: the mean of normal records of unit covariance after clipping to
a ball, or of those inside alone, and the way back.

Lengths are in standard deviations. Everything here is a function of public numbers and of what
was released, so floats do no harm; what decides a center is computed element by element, so
that a transcript leads to the same one in every batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import scipy

from dpverify.privacy.numbers import Floats

Outside = Literal["clip", "mask"]
_POINTS = 512
_LEAST_SHARE = 1e-3  # share inside a ball; a smaller one tells nothing
_WIDE = 12  # standard deviations of a Poisson law; the mass beyond is below 1e-30


@dataclass(frozen=True, slots=True)
class Moment:
    """The mean of limited records y ~ N(m, I), along m: its length, that over |m|, and its
    derivative by |m|.

    inside: the share of records in the ball.
    """

    length: float
    ratio: float
    slope: float
    inside: float


@dataclass(frozen=True, slots=True)
class Response:
    """Response of the mean of limited records to the mean of all, for one dimension and radius,
    and the way back.

    offsets: of the mean of all, from 0 to the farthest that can be told apart. lengths: of the
    mean of limited records at these offsets, which increase.
    """

    d: int
    radius: float
    outside: Outside
    offsets: Floats
    lengths: Floats

    def at(self, offset: float) -> Moment:
        """Return the ``Moment`` at this offset, as ``moment`` computes it."""
        return moment(self.d, self.radius, offset, self.outside)

    def ratios(self, lengths: Floats) -> Floats:
        """Return, for each length, the offset over that length, to about 1e-5; beyond the
        farthest length, the ratio there.
        """
        place = np.clip(np.searchsorted(self.lengths, lengths, "right"), 1, _POINTS)
        low, high = self.lengths[place - 1], self.lengths[place]
        below, above = self.offsets[place - 1], self.offsets[place]
        offsets = below + (lengths - low) / (high - low) * (above - below)
        near = lengths <= self.lengths[1]
        own = np.minimum(offsets, self.offsets[-1]) / np.where(near, 1.0, lengths)
        return np.asarray(np.where(near, self.offsets[1] / self.lengths[1], own))

    def inverse(self, offset: Floats, far: float) -> tuple[Floats, Inverse]:
        """Find the mean of all records from the offset of the mean of limited ones, at which
        the mean of all is ``far``; return it with its derivative.
        """
        at = self.at(far)
        length = float(np.linalg.norm(offset))
        along = (offset / length if length > 0 else np.zeros(len(offset)))[:, np.newaxis]
        return offset / at.ratio, Inverse(at.ratio, along, np.array([[1 / at.slope]]))

    def back(self, length: float) -> float | None:
        """Find the offset with this length; None beyond the farthest length, and where the ball
        is nearly empty.
        """
        if not length < self.lengths[-1] or not self.offsets[-1]:
            return None
        return float(
            scipy.optimize.brentq(
                lambda m: self.at(m).length - length, 0.0, float(self.offsets[-1])
            )
        )


@dataclass(frozen=True, slots=True)
class Inverse:
    """The derivative of a mean by that of what counts: I / base + P (block - I / base) P^T, P =
    ``axes`` of shape (d, k)."""

    base: float
    axes: Floats
    block: Floats

    def rows(self) -> Floats:
        """Compute the length of each row, shape (d,)."""
        more = self.block @ self.block.T - np.eye(len(self.block)) / self.base**2
        squares = 1 / self.base**2 + np.einsum("ij,jk,ik->i", self.axes, more, self.axes)
        return np.asarray(np.sqrt(np.maximum(squares, 0.0)))

    def matrix(self) -> Floats:
        """Build the full matrix, shape (d, d)."""
        more = self.block - np.eye(len(self.block)) / self.base
        return np.eye(len(self.axes)) / self.base + self.axes @ more @ self.axes.T

    def times(self, vector: Floats) -> Floats:
        """Compute the derivative along a vector, shape (d,)."""
        more = self.block - np.eye(len(self.block)) / self.base
        return vector / self.base + self.axes @ (more @ (self.axes.T @ vector))


def moment(d: int, radius: float, offset: float, outside: Outside) -> Moment:
    """Compute the mean of limited records for |m| = ``offset``.

    Clipped, E y min(1, r / |y|) = m g, g = E min(1, r / |y|) for |y|^2 noncentral chi-square of
    d + 2 degrees (Stein). Of those inside, E y = m F_2 / F_0, F_k = P(|y|^2 <= r^2) for d + k
    degrees. Noncentral is chi-square of d + 2 k degrees for a Poisson k of mean m^2 / 2, so
    derivatives by m^2 are half of what two more degrees add.
    """
    k, weights = poisson(offset * offset / 2)
    half, square = d / 2 + np.arange(k[0], k[0] + len(k) + 2), radius * radius / 2
    shares = scipy.special.gammainc(half, square)
    zero, one, two = (float(weights @ shares[i : i + len(k)]) for i in range(3))
    if outside == "mask":
        ratio = one / zero
        return Moment(offset * ratio, ratio, ratio + offset**2 * (two / zero - ratio**2), zero)
    half = half[1:]
    inverse = np.exp(scipy.special.gammaln(half - 0.5) - scipy.special.gammaln(half)) / math.sqrt(2)
    whole = shares[1:] + radius * inverse * scipy.special.gammaincc(half - 0.5, square)
    ratio, more = float(weights @ whole[:-1]), float(weights @ whole[1:])
    return Moment(offset * ratio, ratio, ratio + offset**2 * (more - ratio), zero)


def poisson(mean: float) -> tuple[Floats, Floats]:
    """List the values k of a Poisson law that are not too rare to count, with probabilities."""
    spread = _WIDE * (math.sqrt(mean) + 3)
    first = max(0, math.floor(mean - spread))
    k = np.arange(first, math.ceil(mean + spread) + 1)
    weights = (
        np.exp(k * math.log(mean) - mean - scipy.special.gammaln(k + 1)) if mean else (k == 0) * 1.0
    )
    return k.astype(np.float64), np.asarray(weights)


def farthest(d: int, outside: Outside) -> float:
    """Return the distance from a center up to which a mean can be told: beyond it, most records
    are clipped in nearly one direction, or left out.
    """
    return (math.sqrt(d) if outside == "clip" else min(math.sqrt(d) / 2, 20)) + 2


@lru_cache(maxsize=64)
def response_of(d: int, radius: float, outside: Outside) -> Response:
    """Tabulate the response; for a ball with less than a thousandth of the records about its
    center every offset is 0.
    """
    if outside == "mask" and scipy.special.gammainc(d / 2, radius**2 / 2) < _LEAST_SHARE:
        rising = np.linspace(0, _POINTS * radius, _POINTS + 1)
        return Response(d, radius, outside, np.zeros(_POINTS + 1), rising)
    offsets = np.linspace(0, farthest(d, outside), _POINTS + 1)
    lengths = np.array([moment(d, radius, float(m), outside).length for m in offsets])
    return Response(d, radius, outside, offsets, lengths)


@lru_cache(maxsize=256)
def best_masked_bound(d: int, n: float, mu: float, moves: int) -> float:
    """Choose the squared length beyond which records are left out for their mean, d 2^(k / 8),
    for the least error.

    At m = 0 the mean of those inside has the slope a = F_2 / F_0, which is also their variance:
    the error is sqrt(d (a / (n F_0) + s^2)) / a, s = 2 r / (n F_0 mu), or half of it where a
    record comes or goes. Balls with less than a thousandth of the records are left out.
    """

    def square(bound: float) -> float:
        at = moment(d, math.sqrt(bound), 0.0, "mask")
        noise = (4 if moves == 2 else 1) * bound / (n * at.inside * mu) ** 2
        return (at.ratio / (n * at.inside) + noise) / at.ratio**2

    bounds = [float(d * 2.0 ** (k / 8)) for k in range(-24, 48)]
    return min(
        (b for b in bounds if scipy.special.gammainc(d / 2, b / 2) >= _LEAST_SHARE), key=square
    )
