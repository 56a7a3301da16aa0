"""Learning a law on ordered bins: the error of a noisy histogram, and lower bounds for every
private estimate.

Distances: total variation, half of the sum over bins, and Kolmogorov's, the largest over
beginnings of bins.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise, product
from math import comb
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, SourceStatus, states

from .caches import cache
from .group_events import changed
from .laws import real
from .many_hypotheses import drawn, most_success
from .obligations import require

VARIATION = Source("DHS15", "learning a law on k bins in total variation",
                   SourceStatus.CHANGED_CONSTANTS,
                   "its error by a noisy histogram, and a lower bound")  # fmt: skip
PAIRS = Source("ASZ21", "a private Assouad bound", note="with constants, and for (epsilon, delta)")
KOLMOGOROV = Source(
    "BNSV15",
    "laws on k ordered bins in Kolmogorov distance",
    SourceStatus.CHANGED_CONSTANTS,
    "a plain noisy histogram's error, which grows with sqrt(k); packing by ln k",
)
_SHARES = tuple(mp.mpf(k) / 8 for k in range(1, 17))


# --- a noisy histogram --------------------------------------------------------------------------


@states(VARIATION)
def mean_deviation(normal: Any, laplace: Any) -> Any:
    """Compute E|X + L|, X ~ N(0, a^2), L Laplace of scale b: a sqrt(2 / pi) + 2 b e^(a^2 / (2 b^2))
    Phi(-a / b), for E|x + L| = |x| + b e^(-|x| / b)."""
    a, b = mp.mpf(normal), mp.mpf(laplace)
    if b == 0:
        return a * mp.sqrt(2 / mp.pi)
    tail = mp.erfc(a / b / mp.sqrt(2)) / 2
    return a * mp.sqrt(2 / mp.pi) + 2 * b * mp.exp(a**2 / (2 * b**2)) * tail


@states(VARIATION)
def variation_error(n: int, bins: int, scale: Any) -> Any:
    """Compute the root mean square of the total variation between the uniform law on k bins and
    its shares of n records with Laplace noise, made to add up to 1; normal counts, bins as if
    independent.
    """
    left = 1 - mp.mpf(1) / bins
    a, b = mp.sqrt(mp.mpf(n) / bins * left), mp.mpf(scale) * mp.sqrt(left)
    mean, square = mean_deviation(a, b), a**2 + 2 * b**2
    return mp.sqrt(bins * square + bins * (bins - 1) * mean**2) / (2 * n)


_BRIDGE, _SIEGMUND = mp.pi / mp.sqrt(12), mp.mpf("0.5826")


@states(KOLMOGOROV)
def kolmogorov_error(n: int, bins: int, scale: Any) -> Any:
    """Compute the root mean square of the Kolmogorov distance between the uniform law on k bins
    and its noisy shares:
    sqrt(1 / n + 2 b^2 k / n^2) times that of a Brownian bridge, pi / sqrt(12), less
    0.5826 / sqrt(k), because it is observed at k places only.
    """
    spread = mp.sqrt(mp.mpf(1) / n + 2 * bins * (mp.mpf(scale) / n) ** 2)
    return spread * (_BRIDGE - _SIEGMUND / mp.sqrt(bins))


# --- lower bounds -------------------------------------------------------------------------------


@cache
def _success(
    epsilon: Fraction, delta: Fraction, count: int, adjacency: Adjacency, m: int, prec: int
) -> Any:
    return most_success(changed(epsilon, delta, m), count, adjacency)


def _drawn(
    epsilon: Fraction, delta: Fraction, count: int, adjacency: Adjacency, n: int, t: Any
) -> Any:
    return drawn(lambda m: _success(epsilon, delta, count, adjacency, m, mp.mp.prec), n, t)


@states(PAIRS, VARIATION)
def least_variation(
    epsilon: Fraction, delta: Fraction, adjacency: Adjacency, n: int, bins: int
) -> Any:
    """Bound from below the mean total variation, for some law on k bins, of any
    (epsilon, delta)-DP estimate of n records: the largest g (1 - s) of a grid of g.

    Take b = floor(k / 2) pairs of bins, of probabilities (1 + g) / (2 b) and (1 - g) / (2 b) in
    an order that coins decide. Laws of the two orders of one pair differ by g / b, and have the
    rest in common. The better of two guesses is right with probability s at most (``drawn``),
    and half of the l1 error in a pair is at least g / b (1 - s) on average: for laws P, Q of
    the estimate, the mass that both of them have is 1 - s of either, and there the two errors
    add up to 2 g / b at least. Without privacy s is at most 1/2 + sqrt(1 - c^(2 n)) / 2, c the
    laws' affinity.
    """
    pairs = bins // 2
    scale = pairs / (n * max(real(epsilon), mp.mpf(10) ** -9))
    private = [min(mp.mpf(1), scale * 2 * share) for share in _SHARES]
    own = [g * (1 - _drawn(epsilon, delta, 2, adjacency, n, g / pairs)) for g in private]
    narrow = mp.sqrt(mp.mpf(pairs) / n)
    steps = (min(mp.mpf(1), narrow * share) for share in _SHARES)
    sampling = [g * (1 - mp.sqrt(1 - _affinity(g, pairs) ** (2 * n))) / 2 for g in steps]
    return max(*own, *sampling)


def _affinity(g: Any, pairs: int) -> Any:
    """Compute the sum of the roots of the probabilities' products."""
    return 1 - (1 - mp.sqrt(1 - g**2)) / pairs


@states(KOLMOGOROV)
def least_kolmogorov(
    epsilon: Fraction, delta: Fraction, adjacency: Adjacency, n: int, bins: int
) -> Any:
    """Bound from below the root mean square Kolmogorov distance, for some law on k bins, of any
    (epsilon, delta)-DP estimate: the largest t sqrt(1 - s) / 2 of 16 t.

    Take k laws: each has a mass of t on a bin of its own, and the rest anywhere. Between two
    such bins the distribution functions differ by t, so an estimate is within t / 2 of one law
    at most, and s is the success among k. In total variation they are t apart, too.
    """
    told = min(mp.log(bins), mp.log(1 / real(delta))) if delta else mp.log(bins)
    scale = told / (n * max(real(epsilon), mp.mpf(10) ** -9))
    shares = (min(mp.mpf(1), scale * share) for share in _SHARES)
    bounds = [t / 2 * mp.sqrt(1 - _drawn(epsilon, delta, bins, adjacency, n, t)) for t in shares]
    return max(bounds)


# --- obligations --------------------------------------------------------------------------------


@states(VARIATION)
def obligation_mean_deviation(claimed: Callable[[Any, Any], Any] = mean_deviation) -> int:
    """Check E|X + L| by a sum over a grid of x, to 1e-6, from nearly no noise to nearly nothing
    else.
    """
    cases = 0
    for a, b in product(("1", "3"), ("0.2", "1", "20")):
        normal, laplace = mp.mpf(a), mp.mpf(b)
        places = [normal * k / 40 for k in range(-360, 361)]
        total = mp.fsum(
            mp.npdf(x / normal) / 40 * (abs(x) + laplace * mp.exp(-abs(x) / laplace))
            for x in places
        )
        deviation = claimed(normal, laplace)
        require(abs(deviation / total - 1) < mp.mpf("1e-4"), f"{a}, {b}: {deviation}, not {total}")
        cases += 1
    return cases


@states(KOLMOGOROV)
def obligation_bridge(claimed: Callable[[int, int, Any], Any] = kolmogorov_error) -> int:
    """Check the Kolmogorov distance of multinomial shares without noise, exactly, by the
    probabilities that all beginnings are within m of their expectations: the formula is within
    4% from 8 bins on.
    """
    cases = 0
    for n, bins in ((80, 8), (64, 16), (120, 24)):
        square = mp.mpf(0)
        for m in range(n):
            inside = _within(n, bins, m)
            square += (2 * m + 1) * (1 - mp.mpf(inside))
            if inside > 1 - 1e-9:
                break
        exact = mp.sqrt(square) / n
        error = claimed(n, bins, 0)
        require(abs(error / exact - 1) < mp.mpf("0.04"), f"{n}, {bins}: {error}, not {exact}")
        cases += 1
    return cases


def _within(n: int, bins: int, m: int) -> float:
    """Compute the probability that all beginnings contain their expected numbers, multiples of
    n / k, up to m, in floats: Poisson counts, given that they add up to n.
    """
    each = n // bins
    weights = [
        math.exp(c * math.log(each) - each - math.lgamma(c + 1)) for c in range(2 * m + each + 1)
    ]
    masses = {0: 1.0}
    for _ in range(bins):
        after = dict.fromkeys(range(-m, m + 1), 0.0)
        for off, mass in masses.items():
            for new in range(max(-m, off - each), m + 1):
                after[new] += mass * weights[new - off + each]
        masses = after
    return masses[0] / math.exp(n * math.log(n) - n - math.lgamma(n + 1))


Least = Callable[[Fraction, Fraction, Adjacency, int, int], Any]


@states(PAIRS, VARIATION)
def obligation_variation(claimed: Least = least_variation) -> int:
    """Check the bound against exact errors on two bins, for 1 to 6 records, and against a noisy
    histogram on many bins.

    On two bins the error is that of randomized response and the likelier side, at the hardest
    of 80 laws. The histogram's is at most 15 times the bound, with noise and with sampling as
    most of the error.
    """
    cases, replace = 0, Adjacency.REPLACE
    for text, n in product(("1/4", "1", "3"), (1, 2, 6)):
        epsilon = Fraction(text)
        bound = claimed(epsilon, Fraction(0), replace, n, 2)
        error = _response_error(epsilon, n)
        require(0 < bound <= error, f"epsilon {text}, n = {n}: {bound} > {error}")
        cases += 1
    for (n, bins, text), adjacency in product(
        ((2000, 16, "1/64"), (10**5, 16, "1"), (3000, 100, "1/4")), Adjacency
    ):
        epsilon = Fraction(text)
        scale = (2 if adjacency is replace else 1) / real(epsilon)
        error = variation_error(n, bins, scale)
        bound = claimed(epsilon, Fraction(1, 10**6), adjacency, n, bins)
        case = f"{adjacency}, n = {n}, {bins} bins, epsilon {text}: {bound}, {error}"
        require(bound <= error <= 15 * bound, case)
        cases += 1
    return cases


def _response_error(epsilon: Fraction, n: int) -> Any:
    """Compute the largest mean error over shares of ones, of the unbiased estimate from n
    randomized bits, clamped; total variation on two bins is the difference of shares.
    """
    told = 1 / (1 + mp.exp(-real(epsilon)))
    worst = mp.mpf(0)
    for step in range(81):
        p = mp.mpf(step) / 80
        yes = p * told + (1 - p) * (1 - told)
        guesses = ((mp.mpf(k) / n - (1 - told)) / (2 * told - 1) for k in range(n + 1))
        errors = (abs(min(max(g, mp.mpf(0)), mp.mpf(1)) - p) for g in guesses)
        masses = (comb(n, k) * yes**k * (1 - yes) ** (n - k) for k in range(n + 1))
        worst = max(worst, mp.fsum(m * e for m, e in zip(masses, errors, strict=True)))
    return worst


@states(KOLMOGOROV)
def obligation_kolmogorov(claimed: Least = least_kolmogorov) -> int:
    """Check that the bound is below the exact error of choosing a bin by weights
    e^(share times its records), for up to 3 records on 3 bins, and below a noisy histogram's
    error; and that it grows with ln k until delta limits it.
    """
    cases, replace = 0, Adjacency.REPLACE
    for text, n in product(("1/2", "2"), (1, 3)):
        epsilon = Fraction(text)
        bound = claimed(epsilon, Fraction(0), replace, n, 3)
        wrong = 1 - mp.exp(n * real(epsilon) / 2) / (mp.exp(n * real(epsilon) / 2) + 2)
        require(0 < bound <= mp.sqrt(wrong), f"epsilon {text}, n = {n}: {bound}, {wrong}")
        cases += 1
    for delta in (Fraction(0), Fraction(1, 10**6)):
        bounds = [claimed(Fraction(1), delta, replace, 1000, 10**k) for k in (1, 2, 4, 12, 24)]
        require(all(a < b for a, b in pairwise(bounds[:4])), f"{delta}: {bounds}")
        more = bounds[4] / bounds[3]
        require(more < mp.mpf("1.01") if delta else more > mp.mpf("1.9"), f"{delta}: {bounds}")
        error = kolmogorov_error(1000, 10, 2)
        require(bounds[0] <= error <= 30 * bounds[0], f"{delta}: {bounds[0]}, {error}")
        cases += 1
    return cases
