"""Pairs of records that are no friends: their probability, their number, and their effect on a
mean.

A sub-Gaussian vector of covariance proxy A has E exp(<h, x - E x>) <= exp(h A h / 2) for every
h. Records are independent vectors of the images' proxy A, and friends are those at most a
public radius apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import comb
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, SourceStatus, states

from .caches import cache
from .filters import Image
from .laws import real
from .obligations import require
from .rescaled_laws import agreement, averaged, weighted_mean

_PAIRS = Source(
    "DJYZZ24",
    "Lemma 3.2",
    SourceStatus.CHANGED_CONSTANTS,
    "Chernoff's bound itself; a stated number of pairs may be no friends",
)
_LEAN = Source("OURS", "a mean weighted by friends, about the mean of all records")
_LENGTH = Source("DJYZZ24", "Lemma 2.14", SourceStatus.CHANGED_CONSTANTS, "explicit constants")
_GOLDEN = 24
"""Steps of a search whose every point is a valid bound."""
Lean = Callable[[int, int], Fraction]
"""Share of the largest distance, from the numbers of records and of pairs that are no friends."""


# --- how rare ------------------------------------------------------------------------------------


@states(_PAIRS)
def pair_chance(radius: Any, eigenvalues: Sequence[Any]) -> Any:
    """Bound the probability that two records are more than ``radius`` apart.

    Proof. g = x - y has proxy 2 A, of eigenvalues 2 a. Average E exp(<h, g>) <= exp(h A h) over
    normal h of covariance 2 s I: E exp(s |g|^2) <= prod (1 - 4 s a)^(-1/2) for 0 < s < 1 / (4 max
    a). By Markov the probability is at most exp(-s r^2) times that, for every such s; the best of a
    search, in floats, is taken. QED
    """
    largest = max(map(real, eigenvalues))
    own = tuple(real(value) / largest for value in eigenvalues if value > 0)
    return _pair_chance(real(radius) ** 2 / largest, own, mp.mp.prec)


@cache
def _pair_chance(square: Any, own: tuple[Any, ...], precision: int) -> Any:
    s = mp.mpf(_place(float(square), tuple(map(float, own))))
    log = -s * square - mp.fsum(mp.log1p(-4 * s * a) for a in own) / 2
    return min(mp.mpf(1), mp.exp(log))


def _place(square: float, own: tuple[float, ...]) -> float:
    """Return a number between 0 and 1/4, about where the bound is least."""

    def log(s: float) -> float:
        return -s * square - math.fsum(math.log1p(-4 * s * a) for a in own) / 2

    low, high, golden = 0.0, 0.25, (math.sqrt(5) - 1) / 2
    for _ in range(_GOLDEN):
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if log(left) < log(right) else (left, high)
    return (low + high) / 2


@states(_LENGTH)
def longest(eigenvalues: Sequence[Any], n: int, beta: Fraction) -> Any:
    """Bound the farthest record's distance from the mean of all n, except with probability at most
    beta.

    Proof. x_i less the mean has the proxy (1 - 1 / n) of a record's, since (1 - 1/n)^2 +
    (n - 1) / n^2 = 1 - 1 / n. The length of a sub-Gaussian vector exceeds sqrt(tr) + sqrt(2 |.|
    ln(n / beta)) with probability at most beta / n. QED
    """
    trace, largest = mp.fsum(map(real, eigenvalues)), max(map(real, eigenvalues))
    return mp.sqrt(trace) + mp.sqrt(2 * largest * mp.log(n / real(beta)))


# --- how many ------------------------------------------------------------------------------------


@states(_PAIRS)
def most_pairs(n: int, chance: Any, beta: Fraction) -> int:
    """Bound the number of pairs that are no friends, except with probability at most beta.

    chance: a bound q on the probability of one pair. By Markov they are more than s with
    probability at most n (n - 1) q / (2 (s + 1)). They are the average over all orders of the
    records of n (n - 1) / (2 k) times the number among k = floor(n / 2) pairs of neighbors in
    the order, which are independent; so by convexity (Hoeffding 1963, section 5) their moment
    generating function is at most that of n (n - 1) / (2 k) times a binomial number of k
    trials, and their share reaches t >= q with probability at most exp(-k KL(t, q)). Less is
    taken.
    """
    pairs, q = comb(n, 2), min(real(chance), mp.mpf(1))
    if not pairs or q == 1:
        return pairs
    bound, level = int(mp.ceil(pairs * q / real(beta))) - 1, mp.log(1 / real(beta))
    low, high = -1, min(pairs, max(bound, 0))  # the share is not known to be rare at low
    while high - low > 1:
        middle = (low + high) // 2
        t = mp.mpf(middle + 1) / pairs
        rare = t > q and (n // 2) * _divergence(t, q) >= level
        low, high = (low, middle) if rare else (middle, high)
    return high


def _divergence(t: Any, q: Any) -> Any:
    if not q:
        return mp.inf
    last = (1 - t) * mp.log((1 - t) / (1 - q)) if t < 1 else mp.mpf(0)
    return t * mp.log(t / q) + last


@states(_LEAN)
def most_dropped(n: int, pairs: int, beta: Fraction) -> int:
    """Bound the number of records that the basic filter's coins drop, except with probability
    beta.

    Record i with u_i strangers is dropped with probability min(2 u_i, n) / n, independently;
    these add up to at most m = 4 pairs / n. By Chernoff d or more are dropped with probability
    at most exp(d - m) (m / d)^d for d > m.
    """
    if not pairs:
        return 0
    m, level = mp.mpf(4 * pairs) / n, mp.log(1 / real(beta))
    dropped = int(mp.floor(m)) + 1
    while dropped <= n and dropped * mp.log(dropped / m) - dropped + m < level:
        dropped += 1
    return min(dropped - 1, n)


# --- what they cost ------------------------------------------------------------------------------


@states(_LEAN)
def lean(n: int, pairs: int) -> Fraction:
    """Bound the distance of the weighted mean from the mean of all, over the farthest record's
    distance from it.

    It is 4 pairs / (n^2 - 4 pairs). Proof. Record i with u_i strangers has the weight n - v_i,
    v_i = min(2 u_i, n). The u_i add up to 2 pairs, V = sum v_i to at most 4 pairs, the weights
    to K = n^2 - V. The distances from the mean of all add up to nothing, so the weighted mean
    less it is - sum v_i (x_i - mean) / K, and V / K grows with V. QED
    """
    return Fraction(4 * pairs, n * n - 4 * pairs)


@states(_LEAN)
def least_agreement(n: int, pairs: int) -> int:
    """Bound the agreement from below: n - ceil(8 pairs / n), as it is floor(2 K / n) - n and K >=
    n^2 - 4 pairs."""
    return n - -(-8 * pairs // n)


@states(_LEAN)
def lean_of_kept(n: int, dropped: int) -> Fraction:
    """Bound the distance of the mean of the kept records from the mean of all, over the farthest
    record's distance: dropped / (n - dropped).

    The distances from the mean of all of those kept add up to minus those of the dropped.
    """
    return Fraction(dropped, n - dropped)


# --- obligations --------------------------------------------------------------------------------

_APART = 100
_LINE = tuple((x, 0) for x in (0, 60, 100, 160, 360, 10**6))
_SIDES = ((86, 51), (86, -51))
"""Two places, each a friend of those at 0, and not of the other."""


def _datasets(most: int) -> Iterator[tuple[Image, ...]]:
    """Yield all multisets of some places of a line, and in the plane many records with a few on two
    sides."""
    for n in range(2, most + 1):
        yield from combinations_with_replacement(_LINE, n)
    for n, k in product((20, 60, 200), (1, 2, 4)):
        yield ((0, 0),) * (n - 2 * k) + _SIDES * k
        yield ((0, 0),) * (n - k) + ((101, 0),) * k


def _apart(x: Image, y: Image) -> int:
    return sum((a - b) ** 2 for a, b in zip(x, y, strict=True))


@states(_LEAN)
def obligation_lean(
    claimed: Lean = lean, least: Callable[[int, int], int] = least_agreement
) -> int:
    """Check on small datasets that the weighted mean leans by at most ``claimed`` and the
    agreement is at least ``least``; in the plane somewhere by three quarters of it, and the
    agreement exactly that.
    """
    cases, most, nearest = 0, mp.mpf(0), False
    for records in _datasets(5):
        n = len(records)
        degrees = [sum(_apart(x, y) <= _APART**2 for y in records) for x in records]
        pairs = (n * n - sum(degrees)) // 2
        case = f"{records}: {pairs} pairs are no friends"
        require(agreement(degrees) >= least(n, pairs), f"{case}, agreement {agreement(degrees)}")
        nearest |= bool(pairs) and agreement(degrees) == least(n, pairs)
        if n * n > 4 * pairs > 0:
            all_ = averaged(records, (1,) * n)
            far = max(_length(x, all_) for x in records)
            own = _length(weighted_mean(records, degrees), all_)
            allowed = real(claimed(n, pairs)) * far
            require(own <= allowed, f"{case}, it leans by {own}, not {allowed}")
            most = max(most, own / allowed)
        cases += 1
    require(most >= 0.75, f"it leans by {mp.nstr(most, 4)} of what is claimed at most")
    require(nearest, "the agreement is always larger")
    return cases


def _length(x: Sequence[Any], y: Sequence[Any]) -> Any:
    return mp.sqrt(mp.fsum(real(a - b) ** 2 for a, b in zip(x, y, strict=True)))


@states(_PAIRS)
def obligation_pair_chance(claimed: Callable[[Any, Sequence[Any]], Any] = pair_chance) -> int:
    """Check that the exact probability for normal records of equal eigenvalues (incomplete gamma),
    and for corners of a cube (proxy 1 in every column), is at most the bound; where the former
    is below 1/20 the bound is at most twice its square root.
    """
    cases = 0
    for d, times in product((1, 2, 10, 100), (1, 2, 3, 4, 6)):
        radius = mp.sqrt(2 * d) + times
        bound = claimed(radius, (1,) * d)
        exact = mp.gammainc(mp.mpf(d) / 2, radius**2 / 4, mp.inf, regularized=True)
        near = exact > mp.mpf(1) / 20 or bound**2 <= 4 * exact
        require(exact <= bound and near, f"normal, d = {d}, {radius}: {exact}, bound {bound}")
        apart = [k for k in range(d + 1) if 4 * k > radius**2]
        corners = mp.fsum(comb(d, k) for k in apart) / mp.mpf(2) ** d
        require(corners <= bound, f"corners, d = {d}, {radius}: {corners}, bound {bound}")
        cases += 2
    return cases


def _over_two_places(n: int, p: Fraction, pairs: int) -> Any:
    """Compute the probability that m (n - m) exceeds ``pairs``, m of n being at the second place,
    each with probability p."""
    beyond = (m for m in range(n + 1) if m * (n - m) > pairs)
    return mp.fsum(comb(n, m) * real(p) ** m * real(1 - p) ** (n - m) for m in beyond)


@states(_PAIRS)
def obligation_most_pairs(claimed: Callable[[int, Any, Fraction], int] = most_pairs) -> int:
    """Check, for records at one of two places, that more pairs than that are no friends with
    probability at most beta, exactly.

    For rare pairs it is 0, and with beta = 1/10^9 not a twentieth of all pairs for a chance of
    1/1000.
    """
    cases = 0
    for n, p, beta in product(
        (2, 3, 8, 41, 150),
        map(Fraction, ("1/1000", "1/50", "1/5")),
        map(Fraction, ("1/4", "1/20", "1/100000")),
    ):
        chance = real(2 * p * (1 - p))
        s = claimed(n, chance, beta)
        over = _over_two_places(n, p, s)
        require(over <= real(beta), f"n = {n}, p = {p}, {beta}: {over} beyond {s}")
        require(s <= comb(n, 2), f"n = {n}: {s} of {comb(n, 2)} pairs")
        none = claimed(n, real(beta * Fraction(99, 100)) / comb(n, 2), beta)
        require(none == 0, f"n = {n}, {beta}: {none} pairs")
        cases += 2
    most = claimed(4000, mp.mpf(1) / 1000, Fraction(1, 10**9))
    require(20 * most < comb(4000, 2), f"{most} of {comb(4000, 2)} pairs")
    return cases


@states(_LEAN)
def obligation_most_dropped(claimed: Callable[[int, int, Fraction], int] = most_dropped) -> int:
    """Check, for one record that is no friend of k others, that more than that are dropped with
    probability at most beta, exactly; and more than a quarter of that more often.

    The others are dropped with probability 2 / n each, the one with 2 k / n, independently.
    """
    cases = 0
    for n, share, beta in product(
        (10, 200), (Fraction(1, 10), Fraction(1, 2)), (Fraction(1, 20), Fraction(1, 10**6))
    ):
        k = int(share * n)
        most, others, own = claimed(n, k, beta), mp.mpf(2) / n, min(mp.mpf(2 * k) / n, mp.mpf(1))

        def over(d: int, k: int = k, others: Any = others, own: Any = own) -> Any:
            def above(least: int) -> Any:
                return mp.fsum(
                    comb(k, j) * others**j * (1 - others) ** (k - j)
                    for j in range(max(least, 0), k + 1)
                )

            return own * above(d) + (1 - own) * above(d + 1)

        case = f"n = {n}, {k} strangers, {beta}: {most}"
        require(over(most) <= real(beta) < over(most // 4), case)
        cases += 1
    return cases
