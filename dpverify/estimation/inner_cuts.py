"""Slabs from second moments within a few directions: post-processing of a batch.

A first noisy second moment shows where large variances may be; a second one, along its leading
directions alone, has less noise and tells which of them are larger than chance explains. Slabs of a
public width are cut across these, and between them. After the directions are rounded all is in
integers, so that a spec can state the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from dpverify.estimation.directional_cuts import directions
from dpverify.grid.linear import Integers
from dpverify.grid.region_queries import DIRECTION_BITS, OFF_DIAGONAL
from dpverify.randomness.bits import IntArray

MOST_DIRECTIONS = 3
"""Most directions that are cut; there is a slab for every sign pattern of them."""
HALF_WIDTH = Fraction(5, 2)
"""Half the width of a slab, in deviations about the records' mean."""
SHORTER = Fraction(15, 16)
"""Share of its radius that the ball keeps where two or more directions are cut: outliers in several
directions are longer than inliers, too."""
_FIRST, _NEXT = Fraction(4, 3), Fraction(9, 10)  # of the largest that noise and sampling explain
_ALONE, _APART, _LESS = Fraction(3, 2), Fraction(6, 5), Fraction(3, 5)  # the last: of the first
_MOST_RECORDS = 1 << 55
_LARGEST = 1 << 60
_LEAST_CONSTANT = 1 << 43  # eight deviations of noise


@dataclass(frozen=True, slots=True)
class Look:
    """Directions and slabs that inner moments of a batch show.

    along: directions of slabs, in integers of shape (size, slabs, d). middles: of these, in cells
    times 2^12, shape (size, slabs). cut: which slabs are cut, shape (size, slabs). number: of
    directions that are, shape (size,). single: whether the first is above 3/2 of what
    noise and sampling explain, by at most half a squared deviation a record, and the second is not
    above both 6/5 of that and 3/5 of the first, shape (size,). records: their number, at most 2^55,
    shape (size,).
    """

    along: Integers
    middles: Integers
    cut: Integers
    number: Integers
    single: NDArray[np.bool_]
    records: Integers


def patterns(count: int) -> list[tuple[int, ...]]:
    """List the signs -1, 0, 1 of ``count`` directions, not all 0, the first other than 0 being 1:
    a direction for each of them is near to every direction of their span.
    """
    signs = product((-1, 0, 1), repeat=count)
    return [one for one in signs if next((s for s in one if s), 0) > 0]


def look(first: Integers, second: IntArray, count: int, square: int, constant: int) -> Look:
    """Read inner moments.

    first: the k directions, shape (size, k, d). second: the released moments along them and of the
    constant, shape (size, (k + 1) (k + 2) / 2). count: of directions that may be cut, below k.
    square: of a deviation, in the moments' units. constant: what a record counts by, in cells.
    """
    k = first.shape[1]
    kept = np.clip(second, -_LARGEST, _LARGEST).astype(object)
    total, means, own, mixed = _centered(kept, k)
    packed = np.clip(np.column_stack([own, mixed]), -_LARGEST, _LARGEST).astype(np.int64)
    axes = directions(packed, k, count)
    number, single = _number(packed.astype(object), axes, total, square)
    signs = patterns(count)
    turned = axes @ first
    turned = (turned + (1 << DIRECTION_BITS - 1)) >> DIRECTION_BITS
    along = _combined(turned, signs)
    off = constant * (_combined(axes, signs).astype(object) * means[:, np.newaxis]).sum(axis=2)
    scale = OFF_DIAGONAL.numerator * np.where(total > 0, total, 1)
    middles = OFF_DIAGONAL.denominator * off // scale[:, np.newaxis]
    last = np.array([max(j for j, s in enumerate(one) if s) for one in signs])
    cut = last < number[:, np.newaxis]
    limited = np.clip(np.where(cut, middles, 0), -_LARGEST, _LARGEST)
    records = np.minimum(16 * total // ((k + 1) * max(square, 1)), _MOST_RECORDS)
    return Look(along, limited.astype(np.int64), cut, number, single, records.astype(np.int64))


def _centered(kept: IntArray, k: int) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return the number of records times the square of the constant, 0 where noise hides it; the
    sums along each direction times the constant; and the moments about the mean, on the diagonal
    and above it.
    """
    p, q = OFF_DIAGONAL.numerator, OFF_DIAGONAL.denominator
    columns = np.triu_indices(k + 1, 1)[1]
    above = kept[:, k + 1 :]
    told = kept[:, k] > _LEAST_CONSTANT
    total = np.where(told, kept[:, k], 0)
    means = np.where(told[:, np.newaxis], above[:, columns == k], 0)
    per = np.where(told, total, 1)[:, np.newaxis]
    own = kept[:, :k] - (q * q * means * means) // (p * p * per)
    first, other = np.triu_indices(k, 1)
    mixed = above[:, columns < k] - (q * means[:, first] * means[:, other]) // (p * per)
    return total, means, own, mixed


def _number(
    packed: IntArray, axes: Integers, total: IntArray, square: int
) -> tuple[Integers, NDArray[np.bool_]]:
    """Count the directions along which the moments exceed the mean of the rest by more than noise
    and sampling explain: the first by 4/3 of the largest that they explain, all others by 9/10.
    Return also whether the first is ``single``.

    The largest eigenvalue of noise of deviation 2^40 is about 2^40 sqrt(2 k). That of n records'
    own moments is 2 sqrt(k n) squared deviations off; the number follows from ``total``.
    """
    k, count = axes.shape[2], axes.shape[1]
    p, q = OFF_DIAGONAL.numerator, OFF_DIAGONAL.denominator
    rows, columns = np.triu_indices(k, 1)
    turned = axes.astype(object)
    squares = (packed[:, np.newaxis, :k] * turned * turned).sum(axis=2)
    pairs = turned[:, :, rows] * turned[:, :, columns]
    crossed = (packed[:, np.newaxis, k:] * pairs).sum(axis=2)
    sizes = (p * squares + 2 * q * crossed) // (p << 2 * DIRECTION_BITS)
    rest = (packed[:, :k].sum(axis=1) - sizes.sum(axis=1)) // (k - count)
    excess = sizes - rest[:, np.newaxis]
    likely = (2 * k << 80) + 64 * k * square * total // (k + 1)
    above, squared, explained = excess > 0, excess * excess, likely[:, np.newaxis]
    larger = [
        above & (limit.denominator**2 * squared > limit.numerator**2 * explained)
        for limit in (_FIRST, _NEXT, _APART, _ALONE)
    ]
    seen = np.column_stack([larger[0][:, :1], larger[1][:, 1:]]) & (total > 0)[:, np.newaxis]
    number = np.asarray(np.cumprod(seen.astype(np.int64), axis=1).sum(axis=1))
    near = larger[2] & (_LESS.denominator * excess > _LESS.numerator * excess[:, :1])
    close = np.asarray((k + 1) * excess[:, 0] <= 8 * total, np.bool_)
    return number, (number > 0) & larger[3][:, 0] & close & ~near[:, 1:2].any(axis=1)


def _combined(axes: Integers, signs: list[tuple[int, ...]]) -> Integers:
    """Return sums of the directions with these signs, over the root of how many they are."""
    scales = [isqrt((1 << 2 * DIRECTION_BITS) // sum(map(abs, one))) for one in signs]
    sums = np.array(signs, np.int64) @ axes * np.array(scales, np.int64)[:, np.newaxis]
    return np.asarray((sums + (1 << DIRECTION_BITS - 1)) >> DIRECTION_BITS)
