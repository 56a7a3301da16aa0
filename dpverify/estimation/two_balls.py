"""Estimates from sums about a point in two balls under one noise: what the outer ball adds is
shrunk towards 0 as far as its noise explains it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpverify.estimation.friendly_means import spread_of
from dpverify.grid.nearness import Nearness
from dpverify.grid.shapes import Shape
from dpverify.privacy.numbers import Floats

ENOUGH = 4
"""Least trace of M^(1/2) over its largest eigenvalue with which shrinking has its full effect."""
_ZERO, _SURE = 1e-9, 2
_MOST = 1e60  # stands for every longer radius in estimates: products of such are finite


@dataclass(frozen=True, slots=True)
class TwoBalls:
    """Radii in cells, the factor of the tilted rest, and the deviation of the noise.

    With A the inner sum, B the rest before its factor g, and r <= R: the outer sum is A + Y with
    Y = B / (2 r) + k A, k = (R - r) / (2 r). Their noises depend on each other; U = A - b Y has
    noise that is independent of that of Y, and the outer sum is U + (1 + b) Y.
    """

    small: float
    large: float
    tilt: float
    deviation: float

    @property
    def slope(self) -> float:
        """The part k of the inner sum in what the outer ball adds."""
        return (self.large - self.small) / (2 * self.small)

    @property
    def rest(self) -> float:
        """The deviation of the noise of Y."""
        return self.deviation * math.hypot(1 / (2 * self.small * self.tilt), self.slope)

    @property
    def regression(self) -> float:
        """The part b of Y that is explained by the inner sum's noise."""
        return self.slope * (self.deviation / self.rest) ** 2

    @property
    def own(self) -> float:
        """The deviation of the noise of U."""
        return self.deviation * math.sqrt(max(0.0, 1 - self.slope * self.regression))


def combined(
    shape: Shape, nearness: Nearness, balls: TwoBalls, inner: Floats, tilted: Floats
) -> tuple[Floats, float, Floats]:
    """Return the outer sum with Y shrunk, the deviation of its noise in cells, and in the data's
    units how far shrinking plainly moves each coordinate.

    tilted: the released sum of B times its factor. The part of Y that is kept is what the
    positive-part estimator of James and Stein keeps for the length in the data's units, c = the
    trace of M^(1/2), or less where directions are few: the mean square error is never above
    that of Y (spec/theory/two_balls.py). A coordinate is plainly moved where Y is beyond two
    deviations.
    """
    more = tilted / (2 * balls.small * balls.tilt) + balls.slope * inner
    with np.errstate(all="ignore"):
        seen, noise = shape.back(more, nearness), spread_of(shape, nearness, balls.rest)
        length, expected = float((seen * seen).sum()), float((noise * noise).sum())
        explained = shrinkage(directions(shape)[0]) * expected / length if length else 0.0
        kept = max(0.0, 1 - explained) if math.isfinite(explained) else 1.0
        squares = noise * noise if noise.ndim == 1 else (noise * noise).sum(axis=1)
        plain = np.sqrt(np.maximum(seen * seen - _SURE**2 * squares, 0))
    along, cut = 1 + balls.regression, np.zeros_like(plain)
    if kept < 1:  # where all is kept, lengths may be infinite
        cut = along * (1 - kept) * plain
    total = inner + (along * kept - balls.regression) * more
    deviation = math.hypot(balls.own, along * math.sqrt(kept) * balls.rest)
    return total, deviation, cut


def shrinkage(many: float) -> float:
    """Return c / tr M^(1/2) for this number of directions, tr M^(1/2) over the largest
    eigenvalue: 1 from four on, 0 up to two.
    """
    return min(1.0, max(0.0, 2 * (1 - 2 / many)))


def left_of_noise(signal: float, shape: Shape) -> float:
    """Predict the mean square error of Y, shrunk, over that of its noise; signal: the mean square
    of S over it.

    Both are taken to be normal with covariances in proportion, so that Y^T Q Y is gamma.
    """
    many, effective = directions(shape)
    if many < ENOUGH or not math.isfinite(signal):
        return 1.0
    known = signal / (1 + signal)
    quotients, masses = _gamma(effective / 2)
    lengths = (1 + signal) * quotients
    kept = np.maximum(0.0, 1 - 1 / lengths)
    return known + float((masses * (kept - known) ** 2 * lengths).sum())


@dataclass(frozen=True, slots=True)
class NormalRecords:
    """So many normal records about a center, and the noise of one sum over them.

    values: eigenvalues of their covariance after the map, taken as in proportion to those of
    M^(1/2). center: the deviation of the center's noise in each coordinate. multiplier: the
    noise's deviation over the radius.
    """

    n: int
    values: Floats
    center: float
    multiplier: float

    def signal(self, small: float, large: float) -> float:
        """Predict E|S|^2 over the mean square of the noise of Y; lengths are those of Q.

        S is what the outer ball adds of each record, and what the center's error adds to that.
        The squared length of a record has the gamma law of the same first three moments.
        """
        unit = math.sqrt(float(self.values.max()))
        first, second, third = (float(((self.values / unit**2) ** k).sum()) for k in (1, 2, 3))
        r, large, center = (min(x / unit, _MOST) for x in (small, large, self.center))
        quotients, masses = _gamma(second**3 / third**2 / 2)
        above = second**2 / third * (quotients - 1)
        squares = first + above + len(self.values) * center**2
        lengths = np.sqrt(squares)
        more = np.minimum(lengths, large) - np.minimum(lengths, r)
        along = np.maximum(0.0, second + third / second * above) / squares  # of a direction in Q
        own = self.n * float((masses * along * more**2).sum())
        moved = self.n * center * float((masses * more * lengths).sum()) / first
        noise = (self.multiplier * large) ** 2 * (large - r) / (large + r)
        return (own / first + moved**2) / noise if noise else math.inf


@lru_cache(maxsize=16)
def _gamma(half: float) -> tuple[Floats, Floats]:
    """Return quotients and their masses for the gamma law of mean 1 and this shape, at least
    1/2.
    """
    logs = np.linspace(-10 / math.sqrt(half) - 40 / half, 10 / math.sqrt(half), 4001)
    quotients = np.exp(logs)
    masses = np.exp(half * (logs - quotients + 1))
    return quotients, masses / masses.sum()


@lru_cache(maxsize=64)
def directions(shape: Shape) -> tuple[float, float]:
    """Return tr M^(1/2) over the largest eigenvalue of M^(1/2), and tr(M^(1/2))^2 / tr M."""
    lengths = mapped(shape)
    lengths = lengths / lengths.max()
    return float(lengths.sum()), float(lengths.sum() ** 2 / (lengths**2).sum())


@lru_cache(maxsize=64)
def mapped(shape: Shape) -> Floats:
    """Return the eigenvalues of M^(1/2), those that are not 0: of the covariance M after the
    map.
    """
    roots: Sequence[float] | Floats = shape.scales
    if shape.rows is not None:
        roots = np.abs(np.linalg.eigvalsh(np.array(shape.rows)))
    own = np.array(roots)
    return np.asarray(own[own > _ZERO * own.max()] ** -2.0)
