"""Means with a share of arbitrary records: the agreement that remains, the bias of the weighted
mean, and the bias that second moments allow.

Of n records, m (inliers) are friends of each other, at most ``radius`` apart, and within
``spread`` of their mean; the k = n - m others are anywhere. 2 m > n.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations_with_replacement
from math import floor
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, states

from . import soft_weights
from .filters import degrees
from .laws import real
from .obligations import require
from .weights import agreement, weights

_OUTLIERS = Source("OURS", "weights by agreement with outliers")
_SPECTRAL = Source("DKKLMS19", "Section 5: second moments bound what outliers do to a mean")


def sure_weight(n: int, inliers: int, full: Fraction | None = None) -> Fraction:
    """Return a lower bound on the weight of an inlier, over n.

    It is 2 m / n - 1 by degree; with a soft core (2 m - n - 1) / ((2 full - 1) n), from 0 to 1.
    """
    if full is None:
        return Fraction(2 * inliers - n, n)
    return min(max(Fraction(2 * inliers - n - 1) / ((2 * full - 1) * n), Fraction(0)), Fraction(1))


@states(_OUTLIERS)
def sure_agreement(n: int, inliers: int, full: Fraction | None = None) -> int:
    """Return a lower bound on the agreement, floor(2 m w - n), w the weight of m friends.

    With k = gamma n it is floor(n (1 - 6 gamma + 4 gamma^2)) by degree, and n (1 - 2 gamma)
    with a soft core where w = 1.

    An inlier has m friends at least, so that weight. Lonely outliers attain it.
    """
    return (2 * inliers * sure_weight(n, inliers, full)).__floor__() - n


@states(_OUTLIERS)
def most_outliers(full: Fraction | None = None) -> Any:
    """Return the share gamma of outliers below which many records agree to a share of n above
    0 for certain: (3 - sqrt(1 + 4 a)) / 4, a = 1 by degree and 2 full - 1 with a soft core.

    ``sure_agreement`` over n tends to 2 (1 - gamma) w - 1, w = min((1 - 2 gamma) / a, 1). For
    gamma <= (1 - a) / 2 w is 1, and that is 1 - 2 gamma >= a > 0. Beyond, it is above 0 if and
    only if 4 gamma^2 - 6 gamma + 2 - a > 0, that is, below the smaller root, which is the
    returned number: it is at least (1 - a) / 2, for 1 + 2 a >= sqrt(1 + 4 a), and less than
    1/2, for a > 0; the other root is above 1/2. So 2 m > n, and w > 0 as ``center_bias`` needs
    it; ``leaning`` holds for any share below 1. Lonely outliers attain ``sure_agreement``: from
    that share on nothing may be released.
    """
    rise = Fraction(1) if full is None else 2 * full - 1
    return (3 - mp.sqrt(real(1 + 4 * rise))) / 4


@states(_OUTLIERS)
def center_bias(
    n: int, inliers: int, spread: Fraction, radius: Fraction, full: Fraction | None = None
) -> Fraction:
    """Return a bound on the distance of the weighted mean from the inliers' mean; some inlier has
    weight for certain.

    Inliers have weights from w to 1, so within (1 - w) / 2 of one number, and sum (x - mean) =
    0 over them: their part of the weighted sum of x - mean is at most m (1 - w) / 2 ``spread``,
    over at least m w. An outlier of positive weight has more than n / 2 > k friends, so an
    inlier among them, and is within spread + radius; all outliers weigh k at most, which is the
    share k / (k + m w) at most.
    """
    k, least = n - inliers, sure_weight(n, inliers, full)
    share = Fraction(k) / (k + inliers * least)
    return (1 - least) / (2 * least) * spread + share * (spread + radius)


@states(_SPECTRAL)
def leaning(share: Fraction, variance: Fraction) -> Fraction:
    """Return share variance / (1 - share), the largest squared distance of a mean from that of its
    inliers.

    A share of the records are outliers, and no direction has more variance than ``variance``.

    Let D be the distance between the means of the two groups. Along that line the variance is
    at least share (1 - share) D^2, and the means are share D apart. Two points attain it.
    """
    return share * variance / (1 - share)


# --- obligations --------------------------------------------------------------------------------


def _crowds(
    most_others: int = 2,
) -> Iterator[tuple[list[Fraction], list[Fraction]]]:
    """Yield inliers and others on a line; friends are within 4."""
    for inliers in (3, 5, 8):
        for low in (-2, -1, 0):
            half = inliers // 2
            crowd = [Fraction(low)] * half + [Fraction(-low)] * half
            crowd += [Fraction(0)] * (inliers - 2 * half)
            places = sorted({4 + low, 4, 4 - low, low - 4, -low - 4, 100})
            for k in range(most_others + 1):
                if 2 * inliers > inliers + k:
                    for others in combinations_with_replacement(places, k):
                        yield crowd, [Fraction(x) for x in others]


_FULL = (None, Fraction(9, 10), Fraction(3, 5))


def _degrees(records: list[Fraction]) -> tuple[int, ...]:
    return degrees(records, lambda x, y: abs(x - y) <= 4)


@states(_OUTLIERS)
def obligation_sure_agreement(claimed: Callable[..., int] = sure_agreement) -> int:
    """Check on a line that the agreement is never below ``claimed``, and exactly that for some
    datasets with and without outliers; by degree it is floor(n (1 - 6 gamma + 4 gamma^2)) too.
    """
    cases = 0
    for full in _FULL:
        attained = set()
        for crowd, others in _crowds():
            n, counts = len(crowd + others), _degrees(crowd + others)
            agreed = agreement(counts) if full is None else soft_weights.agreement(counts, full)
            least, gamma = claimed(n, len(crowd), full), Fraction(len(others), n)
            by_degree = floor(n * (1 - 6 * gamma + 4 * gamma**2))
            require(full is not None or least == by_degree, f"{n}, {gamma}: {least}")
            require(agreed >= least, f"{crowd} and {others}, {full}: {agreed}, not {least}")
            if agreed == least:
                attained.add(len(others))
            cases += 1
        require(attained == {0, 1, 2}, f"attained with {attained} outliers, full = {full}")
    return cases


@states(_OUTLIERS)
def obligation_most_outliers(claimed: Callable[[Fraction | None], Any] = most_outliers) -> int:
    """Check for inliers at one place and others without friends that 10^4 records have a positive
    agreement for a share of 999/1000 of ``claimed``, and none for 1001/1000.
    """
    cases, n = 0, 10**4
    for full in (None, Fraction(51, 100), *soft_weights.FULL):
        for share, agrees in ((999, True), (1001, False)):
            k = int(claimed(full) * n * share / 1000)
            counts = (n - k,) * (n - k) + (1,) * k
            agreed = agreement(counts) if full is None else soft_weights.agreement(counts, full)
            require((agreed > 0) is agrees, f"full = {full}, {k} outliers: {agreed}")
            cases += 1
    return cases


@states(_OUTLIERS)
def obligation_center_bias(claimed: Callable[..., Fraction] = center_bias) -> int:
    """Check on a line that the weighted mean is never further than ``claimed`` from the inliers'
    mean, and for some datasets as far up to a fifth.
    """
    cases = 0
    for full in _FULL:
        nearest = Fraction(0)
        for crowd, others in _crowds():
            records = crowd + others
            if not sure_weight(len(records), len(crowd), full):
                continue
            counts = _degrees(records)
            own = weights(counts) if full is None else soft_weights.weights(counts, full)
            mean = sum((w * x for w, x in zip(own, records, strict=True)), Fraction(0)) / sum(own)
            most = claimed(len(records), len(crowd), max(map(abs, crowd)), Fraction(4), full)
            require(abs(mean) <= most, f"{crowd} and {others}, {full}: {mean}, claimed {most}")
            nearest = max(nearest, abs(mean) / most if most else Fraction(0))
            cases += 1
        require(nearest >= Fraction(4, 5), f"full = {full}: at most {float(nearest)} of that")
    return cases


@states(_SPECTRAL)
def obligation_leaning(claimed: Callable[[Fraction, Fraction], Fraction] = leaning) -> int:
    """Check on a line that the means are never further apart than ``claimed``, and exactly so far
    for groups at two points.
    """
    cases, attained = 0, 0
    for crowd, others in _crowds(3):
        if not others:
            continue
        records = crowd + others
        share, mean = Fraction(len(others), len(records)), sum(records, Fraction(0)) / len(records)
        variance = sum(((x - mean) ** 2 for x in records), Fraction(0)) / len(records)
        most = claimed(share, variance)
        moved = (mean - sum(crowd) / len(crowd)) ** 2
        require(moved <= most, f"{crowd} and {others}: {moved}, claimed {most}")
        attained += moved == most > 0
        cases += 1
    require(attained >= 5, f"attained {attained} times")
    return cases
