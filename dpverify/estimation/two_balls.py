"""Estimates from sums about a point in two balls under one noise: what the outer ball adds is
shrunk towards 0 as far as its noise explains it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dpverify.estimation.friendly_means import spread_of
from dpverify.grid.nearness import Nearness
from dpverify.grid.shapes import Shape
from dpverify.privacy.numbers import Floats, to_float

ENOUGH = 4
"""Least trace of M^(1/2) over its largest eigenvalue with which shrinking has its full effect."""
_ZERO, _SURE = 1e-9, 2


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
    along = 1 + balls.regression
    total = inner + (along * kept - balls.regression) * more
    deviation = math.hypot(balls.own, along * math.sqrt(kept) * balls.rest)
    return total, deviation, along * (1 - kept) * plain


def shrinkage(many: float) -> float:
    """Return c / tr M^(1/2) for this number of directions, tr M^(1/2) over the largest
    eigenvalue: 1 from four on, 0 up to two.
    """
    return min(1.0, max(0.0, 2 * (1 - 2 / many)))


def typical(inner_ratio: Fraction, shape: Shape) -> float:
    """Predict the noise over that of the outer ball, for records that are symmetric about the
    mean: of shrunk noise about one part in 4 + tr(M^(1/2))^2 / tr M is left.
    """
    many, effective = directions(shape)
    left = 1 / (effective + 4) if many >= ENOUGH else 1.0
    square = to_float(inner_ratio) ** 2
    return math.sqrt(square + (1 - square) * left)


@lru_cache(maxsize=64)
def directions(shape: Shape) -> tuple[float, float]:
    """Return tr M^(1/2) over the largest eigenvalue of M^(1/2), and tr(M^(1/2))^2 / tr M."""
    roots: Sequence[float] | Floats = shape.scales
    if shape.rows is not None:
        roots = np.abs(np.linalg.eigvalsh(np.array(shape.rows)))
    own = np.array(roots)
    own = own[own > _ZERO * own.max()]
    lengths = (own.min() / own) ** 2
    return float(lengths.sum()), float(lengths.sum() ** 2 / (lengths**2).sum())
