"""Directions from noisy second moments, and slabs from noisy histograms: post-processing of a
batch.

Directions are those of the largest eigenvalues, rounded to integers. A slab is cut where the
noisy histogram has more in its tails than a normal law would: about a mean of what is near the
median. Once the directions are rounded all is in integers, so that a spec can state the same.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from dpverify.grid.linear import Integers
from dpverify.grid.region_queries import DIRECTION_BITS, OFF_DIAGONAL, PARTS
from dpverify.privacy.numbers import Floats
from dpverify.randomness.bits import IntArray

MOST_BINS = 256
"""Most bins of one direction; sums over them fit a word."""
MOST = 1e140  # stands for every larger number: sums and squares of such numbers are finite
# part of the largest eigenvalue; nearer eigenvalues have no direction of their own
_SEPARATE = 1e-6
_HALF_STEPS = np.arange(3, 17)  # slabs of 3/2 to 8 deviations, in halves of one
_AT_ONCE = 64  # histograms and widths that are looked at together: NumPy takes long over each call
_ROUNDS = 4
_LARGEST_COUNT = 1 << 30
_BITS = 20
_NEVER = 1 << 60
_TIMES, _SHARE = (
    1.1,
    0.002,
)  # a tail is suspicious from so many times the normal one, and so much more
_SURPRISE = 4  # and so many half standard deviations of sampling and noise
_LARGEST_EXCESS = 1 << 29


def bins_for(record_radius: Fraction) -> int:
    """Return the number of bins: of at most 4/3 deviations each, and 24 at least. With a
    center's noise of half a ball's radius the bins are still narrower than the narrowest slab.
    """
    return int(min(max(24, 2 * math.ceil(record_radius * Fraction(3, 4))), MOST_BINS))


def eigen(moments: IntArray, d: int) -> tuple[Floats, Floats]:
    """Compute eigenvalues in rising order, shape (size, d), and eigenvectors as columns, shape
    (size, d, d).
    """
    matrices = np.zeros((len(moments), d, d))
    rows, columns = np.triu_indices(d, 1)
    values = np.clip(moments, -int(MOST), int(MOST)).astype(np.float64)
    matrices[:, rows, columns] = matrices[:, columns, rows] = values[:, d:] / float(OFF_DIAGONAL)
    matrices[:, range(d), range(d)] = values[:, :d]
    values, vectors = np.linalg.eigh(matrices)
    return np.asarray(values), np.asarray(vectors)


def directions(moments: IntArray, d: int, count: int) -> Integers:
    """Find directions of the ``count`` largest eigenvalues, in integers of shape (size, count, d).

    moments: on the diagonal and above it, shape (size, d (d + 1) / 2).
    """
    return axes_of(*eigen(moments, d), count)


def axes_of(values: Floats, vectors: Floats, count: int) -> Integers:
    """Find ``directions`` from the eigenvalues and eigenvectors.

    Where an eigenvalue has others within 1e-6 of the largest, its direction is the axis of that
    number. The sign is such that the first of the coordinates that are largest (up to 1e-6) is
    positive.
    """
    d = values.shape[1]
    if d == 1:  # one column has one direction
        return np.full((len(values), count, 1), 1 << DIRECTION_BITS, np.int64)
    least = _SEPARATE * np.abs(values).max(axis=1, keepdims=True)
    gaps = np.diff(values, axis=1) > least
    end = np.ones((len(values), 1), np.bool_)
    alone = np.hstack([end, gaps]) & np.hstack([gaps, end]) & (least > 0)
    axes = np.zeros((len(values), count, d), np.int64)
    for j in range(count):
        one = vectors[:, :, d - 1 - j]
        sizes = np.abs(one)
        first = (sizes >= sizes.max(axis=1, keepdims=True) - _SEPARATE).argmax(axis=1)
        signs = np.where(np.take_along_axis(one, first[:, np.newaxis], 1) < 0, -1.0, 1.0)
        rounded = np.rint(one * signs * 2.0**DIRECTION_BITS).astype(np.int64)
        axis = np.where(np.arange(d) == j, 1 << DIRECTION_BITS, 0)
        axes[:, j] = np.where(alone[:, d - 1 - j, np.newaxis], rounded, axis)
    return axes


def cuts(counts: IntArray, deviation: Integers, noise: Fraction) -> tuple[Integers, Integers]:
    """Compute middles and half widths of slabs, in parts of a bin, each of shape (rows,).

    counts: noisy histograms, shape (rows, bins). deviation: of the law, in parts, shape
    (rows,). noise: the standard deviation in a bin. Where nothing is suspicious the slab is
    wider than all bins. None is narrower than two bins: a normal law between two of them would
    look as if half of it were beyond (spec/theory/slabs.py).
    """
    bins = counts.shape[1]
    edge = bins * PARTS // 2
    kept = np.clip(counts, -_LARGEST_COUNT, _LARGEST_COUNT).astype(np.int64)
    total = np.maximum(kept.sum(axis=1), 1)
    at = PARTS * np.arange(bins) + PARTS // 2 - edge
    median = at[(2 * np.cumsum(kept, axis=1) >= total[:, np.newaxis]).argmax(axis=1)]
    variances = _variances(noise, bins)
    middles, halves = np.zeros(len(kept), np.int64), np.full(len(kept), 2 * edge, np.int64)
    open_ = total > 1
    at_once = max(1, _AT_ONCE // max(1, len(kept)))
    for first in range(0, len(_HALF_STEPS), at_once):
        width = _HALF_STEPS[first : first + at_once, np.newaxis] * deviation // 2
        tested = open_ & (width + PARTS // 2 < edge)
        width = width[tested.any(axis=1)]  # wider ones are not tested either
        if not len(width):
            break
        tested = tested[: len(width)] & (width >= PARTS)
        if not tested.any():
            continue
        middle = _centered(kept, at, np.broadcast_to(median, width.shape), width)
        off = at - middle[..., np.newaxis]
        outside = np.abs(off) > (width + PARTS // 2)[..., np.newaxis]
        expected = (total * _normal_tails(off, outside, deviation)) >> _BITS
        excess = np.minimum((kept * outside).sum(axis=-1) - expected, _LARGEST_EXCESS)
        likely = variances[outside.sum(axis=-1)] + _SURPRISE**2 * expected
        suspicious = tested & (excess > 0) & (4 * excess**2 > likely)
        narrowest = suspicious.argmax(axis=0), np.arange(len(kept))
        told = suspicious[narrowest]
        middles = np.where(told, middle[narrowest], middles)
        halves = np.where(told, width[narrowest], halves)
        open_ &= ~told
    return middles, halves


def _centered(kept: Integers, at: Integers, start: Integers, width: Integers) -> Integers:
    """Compute the mean of what is within ``width`` of it, from a start, in some rounds; bins
    count in part. start, width: shape (widths, rows).
    """
    middle = start
    edge = int(at[-1]) + PARTS // 2
    for _ in range(_ROUNDS):
        off = at - middle[..., np.newaxis]
        room = (width + PARTS // 2)[..., np.newaxis] - np.abs(off)
        counted = kept * np.minimum(np.maximum(room, 0), PARTS)
        number = np.maximum(counted.sum(axis=-1), 1)
        moved = middle + (counted * off).sum(axis=-1) // number
        before, middle = middle, np.minimum(np.maximum(moved, -edge), edge)
        if (middle == before).all():  # so are those of the rounds to come
            break
    return middle


def _normal_tails(off: Integers, outside: NDArray[np.bool_], deviation: Integers) -> Integers:
    """Return, in units of 2^-20, the share of records from which a tail is suspicious, given
    where the outer bins begin on either side.
    """
    share = np.full(off.shape[:-1], _SHARE)
    for side in (off, -off):
        nearest = np.where(outside & (side > 0), side - PARTS // 2, _NEVER).min(axis=-1)
        share += _TIMES / 2 * scipy.special.erfc(nearest / np.maximum(deviation, 1) / math.sqrt(2))
    return np.asarray(np.ceil(share * 2.0**_BITS).astype(np.int64))


@lru_cache(maxsize=256)
def _variances(noise: Fraction, bins: int) -> Integers:
    """Tabulate, by number of bins, 16 times the variance of the sum of their noise, rounded up,
    at most 2^61.
    """
    exact = (math.ceil(_SURPRISE**2 * noise**2 * k) for k in range(bins + 1))
    return np.array([min(one, 1 << 61) for one in exact], np.int64)
