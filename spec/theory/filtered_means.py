"""What is seen of a Gaussian filter: a noisy size, a noisy number of kept records, a noisy mean.

The exact law of all three in one dimension, for records at a few distinct points, and the hockey
stick of two such laws. The mean is seen rounded to cells of half its noise, so what is found is at
most the true value, and near it. In floats: the mass that cut tails and left out sets lack is below 1e-14.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import pairwise, product
from math import comb, erfc, exp, floor, sqrt

from dpverify.privacy import Adjacency

from .filters import gaussian_probability, least_shift, noise_scale, threshold

Points = tuple[tuple[Fraction, int], ...]
"""Points and how many records are there. The unit is twice the distance within which records are
friends, so any two of a friendly set are within 1."""
Seen = tuple[int, int, int]
"""The noisy size, the noisy number (0: nothing is released) and the mean's cell."""
LOST = 1e-8
"""How far a hockey stick may be off, for epsilon up to ``MOST``: the lacking mass, e^epsilon times."""
MOST = 12
_REACH = 8
"""Standard deviations of noise that are looked at: what lies beyond has mass 2e-15."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Sizes and numbers have noise of deviation 1 / mu_count, margins of their sensitivity over
    mu_filter, means of multiplier / noisy number; each kind of bad event has probability ``rare``."""

    adjacency: Adjacency
    mu_count: Fraction
    mu_filter: Fraction
    multiplier: Fraction
    rare: Fraction

    @property
    def shift(self) -> int:
        """What is added to the noisy size, and taken off the noisy number with one more."""
        return least_shift(self.rare, 1 / self.mu_count)


@cache
def laws(
    release: Release, left: Points, right: Points
) -> tuple[Mapping[Seen, float], Mapping[Seen, float]]:
    """The law of what is seen of either dataset. Under replace the size is public (0 here)."""
    return _law(release, left), _law(release, right)


def hockey_stick(p: Mapping[Seen, float], q: Mapping[Seen, float], epsilon: float) -> float:
    """sup over events S of P(S) - e^epsilon Q(S)."""
    factor = exp(epsilon)
    return sum(max(0.0, mass - factor * q.get(seen, 0.0)) for seen, mass in p.items())


def margins(points: Points) -> list[int]:
    """2 deg - n of the records at each point."""
    n = sum(count for _, count in points)
    half = Fraction(1, 2)
    return [2 * sum(m for y, m in points if abs(x - y) <= half) - n for x, _ in points]


def _law(release: Release, points: Points) -> dict[Seen, float]:
    n = sum(count for _, count in points)
    seen: dict[Seen, float] = defaultdict(float)
    if release.adjacency is Adjacency.REPLACE:
        _add(seen, release, points, 0, n, 1.0)
        return seen
    for z, mass in _noise(1 / release.mu_count):
        size = n + z + release.shift
        _add(seen, release, points, size, max(size, 1), mass)
    return seen


def _add(
    seen: dict[Seen, float], release: Release, points: Points, shown: int, size: int, weight: float
) -> None:
    """Filter, number and mean, after a noisy size."""
    scale = noise_scale(release.adjacency, size, release.mu_filter)
    least = threshold(release.adjacency, size, scale, release.rare)
    chances = [float(gaussian_probability(m, scale, least)) for m in margins(points)]
    numbers = list(_noise(1 / release.mu_count))
    for kept, total, share in _kept(points, chances):
        for z, mass in numbers:
            number = kept + z - 1 - release.shift
            here = weight * share * mass
            if kept == 0 or number <= 0:
                seen[shown, 0, 0] += here
                continue
            center = float(total) / kept / (float(release.multiplier) / number / 2)
            start = floor(center) - 2 * _REACH
            for k, part in enumerate(_cells(center - floor(center))):
                seen[shown, number, start + k] += here * part


def _kept(points: Points, chances: list[float]) -> Iterator[tuple[int, Fraction, float]]:
    """The number and the sum of kept records, with their probability; sums of weights as floats."""
    found: dict[tuple[int, Fraction], float] = defaultdict(float)
    binomials = [
        [comb(m, k) * p**k * (1 - p) ** (m - k) for k in range(m + 1)]
        for (_, m), p in zip(points, chances, strict=True)
    ]
    for kept in product(*(range(m + 1) for _, m in points)):
        share = 1.0
        for law, k in zip(binomials, kept, strict=True):
            share *= law[k]
        if share > 1e-16:
            total = sum((x * k for (x, _), k in zip(points, kept, strict=True)), Fraction(0))
            found[sum(kept), total] += share
    for (number, total), share in found.items():
        yield number, total, share


@cache
def _noise(scale: Fraction) -> tuple[tuple[int, float], ...]:
    """Values and masses of round(scale N(0, 1))."""
    reach = floor(_REACH * scale) + 1
    edges = [(z - 0.5) / float(scale) for z in range(-reach, reach + 2)]
    return tuple(zip(range(-reach, reach + 1), _masses(edges), strict=True))


def _cells(offset: float) -> list[float]:
    """Masses of N(offset, 2^2) in the unit cells from -2 reach to 2 reach, 0 <= offset < 1."""
    edges = [(k - offset) / 2 for k in range(-2 * _REACH, 2 * _REACH + 2)]
    return _masses(edges)


def _masses(edges: list[float]) -> list[float]:
    """Of N(0, 1) between consecutive edges, from the side where they do not cancel."""
    tails = [erfc(abs(edge) / sqrt(2)) / 2 for edge in edges]
    return [
        1 - near - far if low < 0 < high else abs(near - far)
        for (low, high), (near, far) in zip(pairwise(edges), pairwise(tails), strict=True)
    ]
