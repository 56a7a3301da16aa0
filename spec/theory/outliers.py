"""A share of the records is anything: what friends still agree to, where their mean is, and what second
moments say of a mean with outliers in it.

n records, m of which (inliers) are friends of each other, at most ``radius`` apart, and within ``spread`` of
their mean; the k = n - m others are anywhere. 2 m > n.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations_with_replacement
from math import floor

from dpverify.privacy import Source, states

from .filters import degrees
from .obligations import require
from .weights import agreement, weighted_mean

_OUTLIERS = Source("OURS", "weights by agreement with outliers")
_SPECTRAL = Source("DKKLMS19", "Section 5: second moments bound what outliers do to a mean")


@states(_OUTLIERS)
def sure_agreement(n: int, inliers: int) -> int:
    """The agreement is at least floor(2 m (2 m - n) / n) - n: with k = gamma n,
    floor(n (1 - 6 gamma + 4 gamma^2)).

    An inlier has m friends at least, so a weight of at least 2 m - n. Lonely outliers attain it.
    """
    return 2 * inliers * (2 * inliers - n) // n - n


@states(_OUTLIERS)
def center_bias(n: int, inliers: int, spread: Fraction, radius: Fraction) -> Fraction:
    """How far the weighted mean is from the inliers' at most.

    Inliers have weights from 2 m - n to n, so within k of m, and sum (x - mean) = 0 over them: their part of
    sum w (x - mean) is at most m k ``spread``, over a total weight of at least m (2 m - n). An outlier of
    positive weight has more than n / 2 > k friends, so an inlier among them, and is within spread + radius;
    all outliers weigh k n at most, which is the share k n / (k n + m (2 m - n)) at most.
    """
    k, least = n - inliers, inliers * (2 * inliers - n)
    return Fraction(k, 2 * inliers - n) * spread + Fraction(k * n, k * n + least) * (
        spread + radius
    )


@states(_SPECTRAL)
def leaning(share: Fraction, variance: Fraction) -> Fraction:
    """Squared: how far a mean is from that of the inliers in it, if a share of the records are outliers
    and no direction has more variance: share variance / (1 - share).

    With D the distance between the two groups' means, along that line the variance is at least
    share (1 - share) D^2, and the means are share D apart. Two points attain it.
    """
    return share * variance / (1 - share)


# --- obligations --------------------------------------------------------------------------------


def _crowds(
    most_others: int = 2,
) -> Iterator[tuple[list[Fraction], list[Fraction]]]:
    """Inliers and others on a line; friends are within 4."""
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


def _degrees(records: list[Fraction]) -> tuple[int, ...]:
    return degrees(records, lambda x, y: abs(x - y) <= 4)


@states(_OUTLIERS)
def obligation_sure_agreement(claimed: Callable[[int, int], int] = sure_agreement) -> int:
    """On a line the agreement is never less, and exactly this for some with and without outliers; it
    is floor(n (1 - 6 gamma + 4 gamma^2)) too."""
    cases, attained = 0, set()
    for crowd, others in _crowds():
        n, found = len(crowd + others), agreement(_degrees(crowd + others))
        least = claimed(n, len(crowd))
        gamma = Fraction(len(others), n)
        require(least == floor(n * (1 - 6 * gamma + 4 * gamma**2)), f"{n}, {gamma}: {least}")
        require(found >= least, f"{crowd} and {others}: {found}, not {least}")
        if found == least:
            attained.add(len(others))
        cases += 1
    require(attained == {0, 1, 2}, f"attained with {attained} outliers")
    return cases


@states(_OUTLIERS)
def obligation_center_bias(claimed: Callable[..., Fraction] = center_bias) -> int:
    """On a line the weighted mean is never further from the inliers', and for some it is as far but for
    a fifth."""
    cases, nearest = 0, Fraction(0)
    for crowd, others in _crowds():
        records = crowd + others
        (mean,) = weighted_mean([(x,) for x in records], _degrees(records))
        most = claimed(len(records), len(crowd), max(map(abs, crowd)), Fraction(4))
        require(abs(mean) <= most, f"{crowd} and {others}: {mean}, claimed {most}")
        nearest = max(nearest, abs(mean) / most if most else Fraction(0))
        cases += 1
    require(nearest >= Fraction(4, 5), f"at most {float(nearest)} of what is claimed")
    return cases


@states(_SPECTRAL)
def obligation_leaning(claimed: Callable[[Fraction, Fraction], Fraction] = leaning) -> int:
    """On a line the means are never further apart, and exactly so far for groups at two points."""
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
