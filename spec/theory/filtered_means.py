"""Outputs of a Gaussian filter, as a law: a noisy size, a noisy number of kept records, a noisy
mean.

The law of all three is exact in one dimension, for records at a few distinct points, and so is
the hockey stick of two such laws. The mean is rounded to cells of half its noise, so the hockey
stick is at most the true value, and near it. In floats: the mass that cut tails and left out
sets lack is below 1e-14.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product
from math import comb, erfc, exp, floor, sqrt

import mpmath as mp

from dpverify.privacy import Adjacency, Source, states

from .caches import cache
from .filters import gaussian_probability, least_shift, noise_scale, threshold
from .laws import real
from .obligations import require
from .profiles import gaussian_profile

THEOREM = Source("OURS", "a Gaussian filter, then a noisy number and mean: approximate GDP")

Points = tuple[tuple[Fraction, int], ...]
"""Points and how many records are there. The unit is twice the distance within which records are
friends, so any two of a friendly set are within 1."""
Seen = tuple[int, int, int]
"""The noisy size, the noisy number (0: nothing is released) and the mean's cell."""
LOST = 1e-8
"""Error allowed in a hockey stick, for epsilon up to ``MOST``: the lacking mass, times
e^epsilon.
"""
MOST = 12
_REACH = 8
"""Standard deviations of noise that are examined: the mass beyond is 2e-15."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Parameters of a release.

    Sizes and numbers have noise of deviation 1 / mu_count, margins of their sensitivity over
    mu_filter, means of multiplier / noisy number; each kind of bad event has probability
    ``rare``.
    """

    adjacency: Adjacency
    mu_count: Fraction
    mu_filter: Fraction
    multiplier: Fraction
    rare: Fraction

    @property
    def shift(self) -> int:
        """Number added to the noisy size; it is taken off the noisy number, with one more."""
        return _shift(self.rare, 1 / self.mu_count)


_shift = cache(least_shift)


@states(THEOREM)
def mu_squared(release: Release) -> Fraction:
    """Return mu^2 of noisy size (add-remove), filter, noisy number and noisy mean together.

    The mechanism first releases, under add-remove, a size h = max(1, n + round(N / mu_c) + t),
    t = least_shift(rare, 1 / mu_c); under replace h = n. Then comes the filter, at
    noise_scale(h) and threshold(h). Of the kept records C: m = |C| + round(N / mu_c) - 1 - t;
    nothing if C is empty or m <= 0 (one outcome); else m and the mean of C plus noise of
    deviation s D / m, where records with a common friend are within D of each other. mu_F and s
    may depend on h as long as mu_F^2 + 1 / s^2 does not.

    Proof, add-remove. Record j goes. Let v tell which of the others are kept, and K how many.
    The bad events are: the size before the maximum is below n - 1; some i != j with 2
    deg_i <= n is kept; x_j with 2 deg_j <= n is kept; m > K + 1; K = 0 and m > 0. These three
    groups have probability at most ``rare`` each under either dataset (rare_events.py). Whether
    x_j is kept is a coin on top of equal laws, which may be thrown for the smaller dataset as
    well, so it is the same event on both sides. Up to the first bad step, the two laws are
    compositions: sizes differ by 1 (mu_c), margins of all i != j by 1 each (mu_F), and given v
    the laws are equal where x_j is not kept; where it is, numbers differ by 1 (mu_c), and means
    by at most D / (K + 1), x_j having a common friend with each of C: at most 1 / s deviations
    since m <= K + 1. Mixing over x_j keeps the bound (joint convexity). So, S being an event,
    P(S) <= P(S, good) + 3 rare <= e^epsilon Q(S) + delta_mu(epsilon) + 3 rare.

    Replace. Margins move by 0 or 2. The bad events are: i is kept with 2 deg_i <= n on either
    side, which has margin at most 2 on both; x_j (x'_j) kept with margin at most 1, again a
    coin, of the larger probability of the two; m > K + 1; K = 0 and m > 0. Given v let x_j and
    x'_j be kept independently. If both are kept, each has 2 deg >= n + 2, so at least n / 2
    friends among the n - 1 others, hence a common one; the means differ by at most D / (K + 1),
    the numbers not at all. If one is kept, the proof is as above. QED.
    """
    sizes = release.mu_count**2 if release.adjacency is Adjacency.ADD_REMOVE else 0
    return sizes + release.mu_filter**2 + release.mu_count**2 + 1 / release.multiplier**2


@states(THEOREM)
def delta(release: Release) -> Fraction:
    """Return the delta that the bad events add to the Gaussian profile: one ``rare`` for each
    group of them.
    """
    return (3 if release.adjacency is Adjacency.ADD_REMOVE else 2) * release.rare


@cache
def laws(
    release: Release, left: Points, right: Points
) -> tuple[Mapping[Seen, float], Mapping[Seen, float]]:
    """Return the laws of the output on both datasets. Under replace the size is public (0 here)."""
    return _law(release, left), _law(release, right)


def hockey_stick(p: Mapping[Seen, float], q: Mapping[Seen, float], epsilon: float) -> float:
    """Return sup over events S of P(S) - e^epsilon Q(S)."""
    return excess(((mass, q.get(seen, 0.0)) for seen, mass in p.items()), epsilon)


def excess(masses: Iterable[tuple[float, float]], epsilon: float) -> float:
    """Return the hockey stick of the masses of each point under two laws."""
    factor = exp(epsilon)
    return sum((mass - factor * other for mass, other in masses if mass > factor * other), 0.0)


def margins(points: Points) -> list[int]:
    """Return 2 deg - n of the records at each point."""
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
    """Add the masses of filter, number and mean, after a noisy size."""
    scale = noise_scale(release.adjacency, size, release.mu_filter)
    least = threshold(release.adjacency, size, scale, release.rare)
    chances = [float(gaussian_probability(m, scale, least)) for m in margins(points)]
    numbers, shift = list(_noise(1 / release.mu_count)), release.shift
    for kept, total, share in _kept(points, chances):
        for z, mass in numbers:
            number = kept + z - 1 - shift
            here = weight * share * mass
            if kept == 0 or number <= 0:
                seen[shown, 0, 0] += here
                continue
            center = float(total) / kept / (float(release.multiplier) / number / 2)
            start = floor(center) - 2 * _REACH
            for k, part in enumerate(_cells(center - floor(center))):
                seen[shown, number, start + k] += here * part


def _kept(points: Points, chances: list[float]) -> Iterator[tuple[int, Fraction, float]]:
    """Yield the number and the sum of kept records, with their probability; sums of weights as
    floats.
    """
    shares: dict[tuple[int, Fraction], float] = defaultdict(float)
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
            shares[sum(kept), total] += share
    for (number, total), share in shares.items():
        yield number, total, share


@cache
def _noise(scale: Fraction) -> tuple[tuple[int, float], ...]:
    """Return the values and masses of round(scale N(0, 1))."""
    reach = floor(_REACH * scale) + 1
    edges = [(z - 0.5) / float(scale) for z in range(-reach, reach + 2)]
    return tuple(zip(range(-reach, reach + 1), _masses(edges), strict=True))


def _cells(offset: float) -> list[float]:
    """Return the masses of N(offset, 2^2) in the unit cells from -2 reach to 2 reach,
    0 <= offset < 1.
    """
    edges = [(k - offset) / 2 for k in range(-2 * _REACH, 2 * _REACH + 2)]
    return _masses(edges)


def _masses(edges: list[float]) -> list[float]:
    """Return the masses of N(0, 1) between consecutive edges, from the side where they do not
    cancel.
    """
    tails = [erfc(abs(edge) / sqrt(2)) / 2 for edge in edges]
    return [
        1 - near - far if low < 0 < high else abs(near - far)
        for (low, high), (near, far) in zip(pairwise(edges), pairwise(tails), strict=True)
    ]


# --- obligations --------------------------------------------------------------------------------

ADD_REMOVE, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE


def _points(*counts: int) -> Points:
    """Return so many records at 0, 1/2 and 1."""
    return tuple((Fraction(i, 2), count) for i, count in enumerate(counts) if count)


_NASTY: tuple[
    tuple[str, Adjacency, tuple[str, str, str], tuple[int, ...], tuple[int, ...]], ...
] = (
    # mu of counts, mu of the filter, multiplier of the mean; records at 0, 1/2 and 1 on both sides
    ("a clique", ADD_REMOVE, ("1", "3/4", "4"), (80,), (79,)),
    ("a far friend", ADD_REMOVE, ("1", "2", "1/8"), (17, 1), (17, 0)),
    ("a path of friends", ADD_REMOVE, ("1", "6", "1/6"), (8, 15, 1), (8, 15)),
    ("a clique and lonely ones", ADD_REMOVE, ("1", "4", "4"), (11, 0, 5), (11, 0, 4)),
    ("two equal cliques", ADD_REMOVE, ("1", "4", "1"), (8, 0, 8), (8, 0, 7)),
    ("one from end to end", REPLACE, ("1", "2", "1/4"), (1, 59, 0), (0, 59, 1)),
    ("a clique and lonely ones", REPLACE, ("1", "4", "4"), (18, 0, 6), (17, 0, 7)),
    ("two equal cliques", REPLACE, ("1", "4", "1"), (12, 0, 12), (11, 0, 13)),
    ("one leaves the clique", REPLACE, ("2", "1", "4"), (200,), (199, 0, 1)),
)


@states(THEOREM)
def obligation_composition(
    claimed: Callable[[Release], Fraction] = mu_squared, rare: Fraction = Fraction(1, 1000)
) -> int:
    """Check that the exact hockey stick of size, number and mean, both ways and at several
    epsilon, is at most the profile of the claimed mu plus the bad events' share, for pairs in
    one dimension.
    """
    cases = 0
    for name, adjacency, noise, left, right in _NASTY:
        mu_count, mu_filter, multiplier = map(Fraction, noise)
        release = Release(
            adjacency=adjacency,
            mu_count=mu_count,
            mu_filter=mu_filter,
            multiplier=multiplier,
            rare=rare,
        )
        sides = laws(release, _points(*left), _points(*right))
        for p, q in (sides, sides[::-1]):
            both = [(mass, q.get(seen, 0.0)) for seen, mass in p.items()]
            for epsilon in (0, 1, 2, 4, 8, MOST):
                beyond = excess(both, epsilon)
                most = gaussian_profile(claimed(release), Fraction(epsilon)) + real(delta(release))
                case = f"{name}, {adjacency}, epsilon = {epsilon}: {beyond} > {mp.nstr(most, 8)}"
                require(beyond <= most + LOST, case)
                cases += 1
    return cases
