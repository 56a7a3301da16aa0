"""Octaves of differences of adjacent records, sums of squares about a released number, and the
probability that the fullest bin wins, on exact rationals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from math import comb
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Norm, Source, of_query, shows, states

from .caches import cache
from .laws import real_exponential
from .obligations import datasets, neighbors, require
from .queries import of_each
from .tables import Counts, ThresholdedLaplaceLaw

KEYS_A_PAIR, TIE = 1, -1
_PAIRS = Source("KV18", "an estimate of the deviation by pairs")
_SQUARES = Source("KV18", "the variance about a released mean")
_SCALES = (Fraction(1, 2), Fraction(2))
_ARGMAX = Source(
    "OURS",
    "the fullest bin's noisy count is the largest",
    note="by moments; KV18 by a union of tails",
)


def octave(gap: int) -> int:
    """Return j with 2^j <= gap < 2^(j + 1); ``TIE`` for 0."""
    return gap.bit_length() - 1 if gap else TIE


def pair_octaves(records: Sequence[Fraction], cell: Fraction, box: int) -> Counts:
    """Return how many pairs have each octave, by octave."""
    cells = of_each(lambda x: min(max(round(x / cell), -box), box), records)
    gaps = [abs(a - b) for a, b in zip(cells[::2], cells[1::2], strict=False)]
    return tuple(sorted(Counter(map(octave, gaps)).items()))


def clamped_squares(
    records: Sequence[Fraction], cell: Fraction, lower: int, upper: int, center: int
) -> int:
    """Return the sum of squares about a center, which is replaced by the bound if it is beyond
    it.
    """
    c = min(max(center, lower), upper)
    return sum((min(max(round(x / cell), lower), upper) - c) ** 2 for x in records)


def moved_square(lower: int, upper: int, adjacency: Adjacency = Adjacency.REPLACE) -> int:
    """Return the sensitivity: each square is from 0 to that, as a clamped record and the center
    are both within the bounds.
    """
    return (upper - lower) ** 2


@states(_PAIRS)
@shows("PairOctaves", Norm.KEYS, value=lambda s: KEYS_A_PAIR)
def obligation_pair_octaves(claimed: int = KEYS_A_PAIR) -> int:
    """Check on all neighbors under replace of at most 5 records that twice ``claimed`` counts
    move, by one each; and that a pair is between the edges of its octave.
    """
    universe, moved = tuple(map(Fraction, (0, 1, -3, 10**30))), []
    for gap in range(1, 5000):
        require(2 ** octave(gap) <= gap < 2 ** (octave(gap) + 1), f"{gap}: {octave(gap)}")
    places = range(len(universe))  # which are looked up faster than fractions
    counts = {
        at: Counter(dict(pair_octaves([universe[i] for i in at], Fraction(1), 40)))
        for at in datasets(places, 5)
    }
    for left, right in neighbors(places, 5, Adjacency.REPLACE):
        sides = [counts[left], counts[right]]
        moves = [abs(sides[0][key] - sides[1][key]) for key in {*sides[0], *sides[1]}]
        require(
            max(moves, default=0) <= 1, f"{left}, {right}: a count moves by {max(moves, default=0)}"
        )
        moved.append(sum(moves))
    require(max(moved) == 2 * claimed, f"{max(moved)} counts move, not {2 * claimed}")
    return len(moved) + 4999


@states(_SQUARES)
@shows("ClampedSquares", Norm.L1, value=of_query(moved_square, "lower", "upper"))
def obligation_clamped_squares(claimed: Callable[..., int] = moved_square) -> int:
    """Check on all neighbors under replace of at most 3 records, whatever was released, that the
    sum moves by at most ``claimed``; with the center at an end or beyond it, by as much.
    """
    cases, cell = 0, Fraction(1, 2)
    universe = tuple(Fraction(quarters, 4) for quarters in (-36, 36, 0, 2, 3))
    places = range(len(universe))  # which are looked up faster than fractions
    for (lower, upper), far in product(((-2, 3), (0, 1), (4, 9), (-7, -6)), (0, 5)):
        most, largest = claimed(lower, upper), 0
        for center in range(lower - far, upper + far + 1):
            sums = {
                at: clamped_squares([universe[i] for i in at], cell, lower, upper, center)
                for at in datasets(places, 3)
            }
            for left, right in neighbors(places, 3, Adjacency.REPLACE):
                largest, cases = max(largest, abs(sums[left] - sums[right])), cases + 1
        require(largest == most, f"[{lower}, {upper}]: {largest}, claimed {most}")
    return cases


# --- the fullest bin ------------------------------------------------------------------------------


def overtakes(things: int, share: Any, other: Any, scale: Any) -> Any:
    """Return a bound on the probability that the noisy count of a bin is at least that of a fuller
    one.

    Things fall into the two bins independently, with probabilities ``other`` and ``share``; the
    noise of either is discrete Laplace of ``scale``. For 0 <= t < 1 / scale P(other's noisy
    count - the fuller one's >= 0) <= E exp(t of that) = (1 - p - q + p e^-t + q e^t)^things
    E[e^(t Z)]^2 by Markov, and E e^(t Z) = (1 - a)^2 / ((1 - a e^t)(1 - a e^-t)), a =
    e^(-1 / scale).
    """
    p, q, a = mp.mpf(share), mp.mpf(other), mp.exp(-1 / mp.mpf(scale))

    def at(t: Any) -> Any:
        noise = (1 - a) ** 2 / ((1 - a * mp.exp(t)) * (1 - a * mp.exp(-t)))
        return (1 - p - q + p * mp.exp(-t) + q * mp.exp(t)) ** things * noise**2

    return min([mp.mpf(1), *(at(mp.mpf(k) / 64 / scale) for k in range(64))])


def sinks(things: int, share: Any, threshold: int, scale: Any) -> Any:
    """Return a bound on the probability that a bin's noisy count is below a threshold, by the
    moments of ``overtakes``: E e^(t (T - 1 - count - Z)).
    """
    p, a = mp.mpf(share), mp.exp(-1 / mp.mpf(scale))

    def at(t: Any) -> Any:
        noise = (1 - a) ** 2 / ((1 - a * mp.exp(t)) * (1 - a * mp.exp(-t)))
        return (1 - p + p * mp.exp(-t)) ** things * noise * mp.exp(t * (threshold - 1))

    return min([mp.mpf(1), *(at(mp.mpf(k) / 64 / scale) for k in range(64))])


def surely_overtakes(things: int, share: Any, other: Any, scale: Any) -> Any:
    """Return the exact probability of ``overtakes``, by a sum over all counts."""
    a = mp.exp(-1 / mp.mpf(scale))
    masses = {z: (1 - a) / (1 + a) * a ** abs(z) for z in range(-120, 121)}

    @cache
    def tail(m: int) -> Any:
        return a**m / (1 + a) if m > 0 else 1 - a ** (1 - m) / (1 + a)

    def beyond(gap: int) -> Any:
        """Return P(Z - Z' >= gap)."""
        return mp.fsum(one * tail(gap + z) for z, one in masses.items())

    p, q = mp.mpf(share), mp.mpf(other)
    gaps: dict[int, Any] = {}
    for i in range(things + 1):
        for j in range(things + 1 - i):
            rest = things - i - j
            mass = comb(things, i) * comb(things - i, j) * p**i * q**j * (1 - p - q) ** rest
            gaps[i - j] = gaps.get(i - j, mp.mpf(0)) + mass
    return mp.fsum(mass * beyond(gap) for gap, mass in gaps.items())


@states(_ARGMAX)
def obligation_argmax(claimed: Callable[..., Any] = overtakes) -> int:
    """Check that ``claimed`` is at least the exact probability for few things, and at most 60
    times it.
    """
    cases = 0
    for things, scale in product((0, 1, 5, 16), _SCALES):
        for share, other in ((0.4, 0.1), (0.3, 0.3), (0.9, 0.05), (0.34, 0.0)):
            exact = surely_overtakes(things, share, other, scale)
            bound = claimed(things, share, other, scale)
            require(exact <= bound, f"{things}, {share}, {other}: {exact} > {bound}")
            require(bound <= 60 * exact, f"{things}, {share}, {other}: {bound} > 60 x {exact}")
            cases += 1
    return cases


@states(_ARGMAX)
def obligation_sinks(claimed: Callable[..., Any] = sinks) -> int:
    """Check that ``claimed`` is at least the exact probability for few things, and at most 60
    times it.
    """
    cases = 0
    for things, scale, threshold in product((0, 3, 40), _SCALES, (2, 9)):
        for share in (0.4, 0.9):
            noise = ThresholdedLaplaceLaw((), scale, threshold)
            exact = mp.fsum(
                comb(things, k)
                * mp.mpf(share) ** k
                * (1 - mp.mpf(share)) ** (things - k)
                * noise.below(threshold - k, real_exponential)
                for k in range(things + 1)
            )
            bound = claimed(things, share, threshold, scale)
            require(exact <= bound <= 60 * exact, f"{things}, {share}: {exact}, {bound}")
            cases += 1
    return cases
