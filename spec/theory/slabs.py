"""Directions from released second moments, and slabs from released histograms.

Nothing here bounds a privacy loss: it is post-processing. It is stated so that the law of later
stages is known, number by number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise, product
from math import ceil
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, SourceStatus, states

from .caches import lru_cache
from .laws import real
from .obligations import require
from .regions import LENGTH, OFF_DIAGONAL, PARTS
from .vectors import Vector

FILTER = Source(
    "DKKLMS19",
    "the spectral filter: outliers are cut off along directions of large variance",
    SourceStatus.CHANGED_CONSTANTS,
    "one round, on released moments and histograms; the test of a tail is ours",
)
Slab = Callable[[Sequence[int], int, Fraction], tuple[int, int]]
_SEPARATE = mp.mpf(10) ** -6
_MOST = 2**30


@states(FILTER)
def directions(moments: Sequence[int], d: int, count: int) -> tuple[Vector, ...]:
    """Return the eigenvectors of the largest eigenvalues, the largest first, 2^12 long, rounded.

    moments: the diagonal, then what is above it, times OFF_DIAGONAL. The first coordinate among
    the largest (to 1e-6) is positive. Where another eigenvalue is nearer than 1e-6 of the
    largest one in absolute value, the coordinate axis of that index (from 0) takes the place.
    """
    matrix = mp.zeros(d)
    above = iter(moments[d:])
    for i in range(d):
        matrix[i, i] = mp.mpf(moments[i])
        for j in range(i + 1, d):
            matrix[i, j] = matrix[j, i] = mp.mpf(next(above)) / real(OFF_DIAGONAL)
    values, vectors = mp.eigsy(matrix)
    order = sorted(range(d), key=lambda i: values[i])
    least = _SEPARATE * max(abs(value) for value in values)
    axes = []
    for j in range(count):
        place = d - 1 - j
        near = [values[order[k]] for k in (place - 1, place + 1) if 0 <= k < d]
        own = values[order[place]]
        if least == 0 or any(abs(own - other) <= least for other in near):
            axes.append(tuple(LENGTH * (i == j) for i in range(d)))
            continue
        one = [vectors[i, order[place]] for i in range(d)]
        most = max(abs(x) for x in one)
        sign = next(1 if x > 0 else -1 for x in one if abs(x) >= most - _SEPARATE)
        axes.append(tuple(int(mp.nint(LENGTH * sign * x)) for x in one))
    return tuple(axes)


@states(FILTER)
def slab(
    counts: Sequence[int], deviation: int, noise: Fraction, least: int = PARTS
) -> tuple[int, int]:
    """Return (middle, half width) in parts of a bin, from one noisy histogram; (0, all bins) for
    no cut.

    deviation: that of the normal law that inliers follow, in parts. noise: the deviation of a
    bin's noise. The half width is the first of 3/2, 2, 5/2, ..., 8 deviations, of those that
    are ``least`` or more and short of the last bin, that has too many records outside: in the
    bins that are beyond it altogether, more than 0.002 of all and 1.1 times the normal law's
    share beyond where these bins begin on either side; and more by 2 standard deviations of
    that number (its mean, for sampling) and of the noise of these bins together. (With less
    than a bin, half of a normal law that lies between two bins would be beyond it.)
    """
    bins = len(counts)
    edge = bins * PARTS // 2
    kept = [min(max(c, -_MOST), _MOST) for c in counts]
    total = sum(kept)
    at = [PARTS * k + PARTS // 2 - edge for k in range(bins)]
    if total <= 1:
        return 0, 2 * edge
    median = next(x for x, s in zip(at, accumulate(kept), strict=True) if 2 * s >= total)
    for halves in range(3, 17):
        width = halves * deviation // 2
        reach = width + PARTS // 2
        if width < least or reach >= edge:
            continue
        middle = _middle(kept, at, median, reach)
        outside = {x - middle: c for c, x in zip(kept, at, strict=True) if abs(x - middle) > reach}
        expected = total * _suspicious(list(outside), deviation) // 2**20
        excess = min(sum(outside.values()) - expected, 2**29)
        variance = min(ceil(16 * noise**2 * len(outside)), 2**61) + 16 * expected
        if excess > 0 and 4 * excess**2 > variance:
            return middle, width
    return 0, 2 * edge


def _suspicious(outside: Sequence[int], deviation: int) -> int:
    """Return the share of all, in 2^-20, from which on it is suspicious; bins are given by how far
    their middles are off.
    """
    share = mp.mpf("0.002")
    for side in (1, -1):
        begins = [side * off - PARTS // 2 for off in outside if side * off > 0]
        if begins:
            beyond = mp.mpf(min(begins)) / max(deviation, 1)
            share += mp.mpf("0.55") * mp.erfc(beyond / mp.sqrt(2))
    return int(mp.ceil(share * 2**20))


def _middle(kept: Sequence[int], at: Sequence[int], start: int, reach: int) -> int:
    """Return the middle after four rounds of the mean within reach of the last one; a bin counts
    as far as it is within.
    """
    middle, edge = start, at[-1] + PARTS // 2
    for _ in range(4):
        weights = [
            min(max(reach - abs(x - middle), 0), PARTS) * c for x, c in zip(at, kept, strict=True)
        ]
        number = max(1, sum(weights))
        moved = sum(w * (x - middle) for w, x in zip(weights, at, strict=True))
        middle = min(max(middle + moved // number, -edge), edge)
    return middle


def _normal(bins: int, deviation: int, center: int, total: int) -> list[int]:
    """Return how many records of a normal law each bin has, rounded down."""
    return [int(total * share) for share in _shares(bins, deviation, center)]


@lru_cache(maxsize=4)
def _shares(bins: int, deviation: int, center: int) -> list[Any]:
    edges = [PARTS * (2 * k - bins) // 2 for k in range(bins + 1)]
    below = [mp.ncdf(mp.mpf(x - center) / deviation) for x in edges]
    return [high - low for low, high in pairwise(below)]


@states(FILTER)
def obligation_slab(claimed: Slab = slab) -> int:
    """Check that a normal law is never cut, wherever it lies between bins of any width, however
    many records there are; and that a tenth of the records 7 deviations away is cut off, where
    bins are narrower than that.
    """
    cases = cuts = 0
    for bins, width, offset in product((4, 24), range(2, 26), range(8)):
        deviation = 4 * PARTS // width  # bins are width / 4 deviations wide
        if bins * width < 8:
            continue
        center = PARTS * offset // 8
        for total in (10**4, 2**29):
            counts = _normal(bins, deviation, center, total)
            band = claimed(counts, deviation, Fraction(1, 16))
            require(is_open(band, bins), f"{width} / 4, {offset} / 8, {total}: {band}")
            cases += 1
        place = (center + 7 * deviation) // PARTS + bins // 2
        if width <= 8 and place < bins:
            counts[place] += total // 10
            middle, half = claimed(counts, deviation, Fraction(1, 16))
            require(
                not is_open((middle, half), bins), f"{width} / 4, {offset} / 8: {middle}, {half}"
            )
            require(middle + half < center + 6 * deviation, f"{width} / 4: {middle}, {half}")
            cuts += 1
    require(cuts >= 40, f"{cuts} were cut")
    return cases


def is_open(band: tuple[int, int], bins: int) -> Any:
    """Return whether a slab cuts nothing."""
    return band[1] == bins * PARTS
