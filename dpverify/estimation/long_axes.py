"""Long axes of correlated inliers: spreads that noisy histograms show and outliers do not explain.

A share gamma of outliers moves the quartiles of normal records by so much at most. A directional
histogram whose quartiles are farther apart, by more than noise and sampling explain, is of inliers
that are correlated: slabs are then measured in its own deviations. All is in integers, so that a
spec can state the same.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import scipy

from dpverify.grid.linear import Integers
from dpverify.grid.region_queries import PARTS
from dpverify.privacy.numbers import to_float
from dpverify.randomness.bits import IntArray

_LARGEST_COUNT, _MOST, _BITS = 1 << 30, 1 << 60, 10
_NORMAL = 759  # deviations over the distance of a normal law's quartiles, in 2^-10
_SURPRISE = 2  # standard deviations of noise and sampling, at each quartile
_ANYWHERE = Fraction(1, 4) - Fraction(1, 1 << 30)  # nearer to a quarter, floats do not tell


@lru_cache(maxsize=64)
def explained(gamma: Fraction) -> int | None:
    """Return, in 2^-10, how far apart the quartiles of standard normal records are at most, over
    that distance without outliers, where a share gamma is anything; None where they may be
    anywhere.

    They are farthest apart with all outliers on one side, where they are the inliers' quantiles at
    1/4 and 3/4 over 1 - gamma.
    """
    if gamma >= _ANYWHERE:
        return None
    inliers = 1 - to_float(gamma)
    low, high = (float(scipy.special.ndtri(share / inliers)) for share in (0.25, 0.75))
    return math.ceil((high - low) * _NORMAL)


def seen_deviations(
    counts: IntArray, deviation: Integers, noise: Fraction, gamma: Fraction
) -> Integers:
    """Compute the deviations of inliers along directions, in parts of a bin, shape (rows,).

    counts: noisy histograms, shape (rows, bins). deviation: the public one, in parts, shape
    (rows,). noise: the standard deviation in a bin. It is the public one unless the quartiles are
    farther apart than ``explained``, also after each of them is moved to the middle by two standard
    deviations of noise and sampling, and by what it costs that records are not spread evenly in
    their bins.
    """
    most = explained(gamma)
    if most is None:
        return deviation
    kept = np.clip(counts, -_LARGEST_COUNT, _LARGEST_COUNT).astype(np.int64)
    bins = kept.shape[1]
    total = np.maximum(kept.sum(axis=1), 1)
    own = min(math.ceil(_SURPRISE**2 * noise**2 * bins / 3), _MOST)
    margin = np.array([math.isqrt(min(own + t, _MOST)) + 1 for t in total.tolist()], np.int64)
    levels = (3 * total - 4 * margin, total + 4 * margin, 3 * total, total)
    high, low, upper, lower = _places(kept, np.stack(levels, axis=1)).T
    sure, plain = high - low - PARTS**2 // (4 * np.maximum(deviation, 1)), upper - lower
    long = (margin < total // 4) & (sure * _NORMAL > most * deviation)
    spread = (plain * _NORMAL) >> _BITS
    return np.where(long, np.maximum(spread, deviation), deviation)


def _places(kept: Integers, levels: Integers) -> Integers:
    """Return where four times the records below first reach each level, in parts of a bin from the
    first one's edge; a bin's records are spread over it evenly. Both of shape (rows, levels)."""
    sums = np.cumsum(4 * kept, axis=1)
    first = (sums[:, np.newaxis] >= levels[..., np.newaxis]).argmax(axis=2)
    own = np.take_along_axis(4 * kept, first, 1)
    below = np.take_along_axis(sums, first, 1) - own
    inside = np.clip(levels - below, 0, np.maximum(own, 0))
    return np.asarray(PARTS * first + PARTS * inside // np.maximum(own, 1))
