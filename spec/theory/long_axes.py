"""Spreads along released directions that a share of outliers does not explain.

Nothing here bounds a privacy loss: it is post-processing. It is stated so that the law of later
stages is known, number by number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise, product
from math import ceil, isqrt
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, states

from .caches import lru_cache
from .laws import real
from .obligations import require
from .regions import PARTS

_SOURCE = Source("OURS", "spreads of correlated inliers along directions")
_MOST, _LARGEST = 2**60, 2**30


def _quantile(share: Any) -> Any:
    return mp.sqrt(2) * mp.erfinv(2 * share - 1)


@states(_SOURCE)
@lru_cache(maxsize=16)
def explained(gamma: Fraction) -> int | None:
    """Return how far apart the quartiles of standard normal records can be where a share gamma is
    anything, times 759 and rounded up; None from a quarter less 2^-30, as from a quarter on they
    can be anywhere.

    With outliers on one side in a share a of all, on the other in b, a + b = gamma, they are the
    inliers' quantiles at (1/4 - a) / (1 - gamma) and (3/4 - a) / (1 - gamma): the distance is
    convex in a, by the normal density, and so it is largest at an end.
    """
    if gamma >= Fraction(1, 4) - Fraction(1, 2**30):
        return None
    low, high = (_quantile(real(share / (1 - gamma))) for share in (Fraction(1, 4), Fraction(3, 4)))
    return int(mp.ceil((high - low) * 759))


@states(_SOURCE)
def seen_deviation(counts: Sequence[int], deviation: int, noise: Fraction, gamma: Fraction) -> int:
    """Return the deviation of inliers along a direction, in parts of a bin, from its noisy
    histogram.

    deviation: the public one. noise: the deviation of a bin's noise. Between two quartiles, whose
    records are spread evenly in their bins, are 1024 / 759 deviations of a normal law. It is the
    public one, unless the quartiles moved to the middle by twice the deviation of sampling (half
    the root of the total) and of the noise of a third of the bins are still farther apart than
    ``explained``, by a quarter of a squared bin over the deviation: so much may the quartiles be
    off for records that are not spread evenly in their bins.
    """
    most = explained(gamma)
    if most is None:
        return deviation
    kept = [min(max(c, -_LARGEST), _LARGEST) for c in counts]
    total = max(1, sum(kept))
    own = min(ceil(4 * noise**2 * len(kept) / 3), _MOST)
    margin = isqrt(min(own + total, _MOST)) + 1
    sure = _place(kept, 3 * total - 4 * margin) - _place(kept, total + 4 * margin)
    sure -= PARTS**2 // (4 * max(deviation, 1))
    if margin >= total // 4 or sure * 759 <= most * deviation:
        return deviation
    return max(deviation, (_place(kept, 3 * total) - _place(kept, total)) * 759 // 1024)


def _place(kept: Sequence[int], level: int) -> int:
    """Return where the number of records, times 4, first reaches a level."""
    sums = list(accumulate(kept))
    first = next((k for k, s in enumerate(sums) if 4 * s >= level), 0)
    own, below = 4 * kept[first], 4 * (sums[first] - kept[first])
    return PARTS * first + PARTS * min(max(level - below, 0), max(own, 0)) // max(own, 1)


Seen = Callable[[Sequence[int], int, Fraction, Fraction], int]


@states(_SOURCE)
def obligation_seen_deviation(claimed: Seen = seen_deviation) -> int:
    """Check that normal records with a share gamma of outliers, all in one bin wherever it is, have
    the public deviation; and that those of 7/4 deviations have their own, to a twentieth, without
    outliers.
    """
    cases, bins, total = 0, 24, 10**6
    for gamma, width in product((Fraction(1, 20), Fraction(1, 10), Fraction(19, 100)), (2, 4)):
        deviation = 4 * PARTS // width  # bins are width / 4 deviations wide
        normal = _normal(bins, deviation, total - int(gamma * total))
        for place in range(bins):
            mixed = [c + int(gamma * total) * (k == place) for k, c in enumerate(normal)]
            own = claimed(mixed, deviation, Fraction(1), gamma)
            require(own == deviation, f"{gamma} in bin {place}: {own}, {deviation}")
            cases += 1
        long = 7 * deviation // 4
        own = claimed(_normal(bins, long, total), deviation, Fraction(1), gamma)
        require(abs(own - long) * 20 <= long, f"{gamma}, {width}: {own}, {long}")
    return cases


def _normal(bins: int, deviation: int, total: int) -> list[int]:
    """Return how many records of a normal law about the middle each bin has, rounded down."""
    edges = [PARTS * (2 * k - bins) // 2 for k in range(bins + 1)]
    below = [mp.ncdf(mp.mpf(x) / deviation) for x in edges]
    return [int(total * (high - low)) for low, high in pairwise(below)]
