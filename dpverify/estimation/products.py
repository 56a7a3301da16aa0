"""Results of releases of a product distribution, and the weights of its second stage."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from dpverify.estimation.answers import Result, deviations, tail_of
from dpverify.grid.masks import Row
from dpverify.privacy.numbers import Exact, Floats, whole

NOISES = 1.5
"""Deviations of the coarse noise below which probabilities all weigh alike."""
_FAR = 3.5  # deviations of a record's squared length that the cap leaves room for
_KEPT = 0.6  # deviations of noise by which estimates keep away from 0 and 1


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ProductEstimate(Result):
    """Private probabilities of ones, of shape (d,), with the standard deviation of their noise.

    They keep 0.6 deviations and half a record away from 0 and 1, so that no event has
    probability 0. ``count`` is the (noisy or public) number of records. whitened: whether rare
    bits were given less noise than common ones.
    """

    value: Floats
    standard_deviation: Floats
    count: float
    whitened: str = field(default="plain")

    def __post_init__(self) -> None:
        if self.value.ndim != 1 or self.value.shape != self.standard_deviation.shape:
            raise ValueError("value and standard_deviation are not of one shape (d,).")

    @classmethod
    def of(cls, shares: Floats, noise: Floats, count: float, whitened: str) -> ProductEstimate:
        """Build the result from unbiased estimates, kept away from 0 and 1."""
        least = np.minimum(0.5, _KEPT * noise + 0.5 / max(count, 1.0))
        return cls(np.clip(shares, least, 1 - least), noise, count, whitened)

    def interval(self, level: Exact = 0.95) -> tuple[Floats, Floats]:
        """Return (low, high), each of shape (d,) and in [0, 1]: intervals for the records'
        shares, one by one; conservative by 0.6 deviations.

        Raises TypeError or ValueError for a level outside (0, 1).
        """
        reach = (deviations("gaussian", tail_of(level)) + _KEPT) * self.standard_deviation
        reach = reach + 0.5 / max(self.count, 1.0)
        return np.maximum(self.value - reach, 0), np.minimum(self.value + reach, 1)

    @property
    def log_odds(self) -> Floats:
        """The natural parameters ln(p / (1 - p)), of shape (d,), finite."""
        return np.asarray(np.log(self.value) - np.log1p(-self.value))

    def sample(self, size: int, rng: np.random.Generator | None = None) -> Floats:
        """Draw records of the fit, zeros and ones of shape (size, d): public, and free of
        charge.
        """
        own = np.random.default_rng() if rng is None else rng
        drawn = own.random((whole(size, "size"), len(self.value))) < self.value
        return np.asarray(drawn.astype(np.float64))


@lru_cache(maxsize=1 << 12)
def weights_for(coarse: Row, precision: int, noise: float, radius: int, plain: float) -> Row:
    """Choose the second stage's weights for a row of coarse probabilities in 2^-precision;
    zeros where plain noise is better.

    A bit that is likelier than its opposite is turned (a negative weight). The weights are 1 /
    sqrt(max(q, 1 / d, 1.5 noise)) for the rarer side's q, in units of a cap that a record's
    length hardly exceeds: the root of its mean square and 3.5 deviations of that, or one bit's
    weight if it is more. noise: of a coarse probability. plain: the variance of a probability's
    noise from signs over d, in units of one radius; that of a weighted bit is cap^2 / w_j^2.
    Both count over the probability.
    """
    d, shares = len(coarse), np.ldexp(np.array(coarse, np.float64), -precision)
    likely = shares > 0.5
    rare = np.where(likely, 1 - shares, shares)
    least = np.maximum(np.maximum(rare, 1 / d), NOISES * noise)
    cautious = np.maximum(rare, noise)
    mean, spread = float((cautious / least).sum()), float((cautious / least**2).sum())
    cap = max(mean + _FAR * math.sqrt(spread), 1 / float(least.min()))
    if cap >= plain * float((1 / least).sum()):
        return (0,) * d
    sizes = np.floor(radius / np.sqrt(least * cap)).astype(np.int64)
    return tuple(int(v) for v in np.where(likely, -1, 1) * np.clip(sizes, 1, radius))
