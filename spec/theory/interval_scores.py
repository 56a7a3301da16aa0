"""Fingerprinting for exponential families with parameters in intervals, and for independent bits,
with constants.

Records have the densities exp(<theta, T(x)> - A(theta)) h(x), theta uniform on a box of
half-lengths R_j about m; M is the estimate (where it abstains, any fixed point), a^2 = E|M -
theta|^2. With h_j = 1 - (theta_j - m_j)^2 / R_j^2, from 0 to 1, the score of record i is
Z_i = sum_j h_j (M_j - theta_j) (T_j(x_i) - E T_j).

(a) Scores add up. T - E T is the gradient of the log-density, so E sum_i Z_i = sum_j
E[h_j dg_j / dtheta_j], g = E[M | theta]; by parts this is sum_j E[2 (theta_j - m_j) g_j] /
R_j^2 >= 2 k / 3 - (2 / sqrt(3)) a sqrt(sum_j 1 / R_j^2), for k parameters.
(b) One score is small. With the record drawn again before M is run Z'_i has mean 0, and mean
square at most s^2 a^2, s^2 the largest eigenvalue of the covariance of T in the box.
(c) Privacy adds sqrt(e^(mu^2) - 1) s a for mu-GDP (covariance_tracing.py); for
(epsilon, delta)-DP (tracing_bound.py) sinh(epsilon) s a and, where |T - E T| <= D, the most
that an event of probability delta can contribute, by Cauchy-Schwarz: (1 + e^-epsilon)
sqrt(delta) D a.

Bits, in their probabilities p: with p uniform on [0, 1]^d and Z_i = <M - p, x_i - p> the
weights p (1 - p) arise by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, SourceStatus, states

from . import family_scores
from .laws import real
from .obligations import require
from .quadrature import integral

INTERVALS = Source(
    "KMS22",
    "generalized fingerprinting lemma, exponential families with parameters in intervals",
    SourceStatus.CHANGED_CONSTANTS,
    "scores weighted from 0 to 1",
)
BITS = Source(
    "KLSU19",
    "lower bound for product distributions, (epsilon, delta)",
    SourceStatus.CHANGED_CONSTANTS,
    "constants 1/6 and 1/2, for all epsilon and delta",
)


@states(INTERVALS)
def leak(
    spread: Any, *, mu: Any = None, epsilon: Any = None, delta: Any = 0, longest: Any = 0
) -> Any:
    """Bound E Z_i over a: for mu-GDP, or for (epsilon, delta)-DP with |T - E T| at most
    ``longest``.
    """
    if mu is not None:
        return mp.sqrt(mp.expm1(mp.mpf(mu) ** 2)) * spread
    rare = (1 + mp.exp(-epsilon)) * mp.sqrt(delta) * longest
    return mp.sinh(epsilon) * spread + rare


def _least_scores(reaches: Sequence[Any], error: Any) -> Any:
    """Return a lower bound on the sum of the scores of all records."""
    inverse = mp.sqrt(mp.fsum(1 / mp.mpf(r) ** 2 for r in reaches))
    return 2 * mp.mpf(len(reaches)) / 3 - 2 * error * inverse / mp.sqrt(3)


@states(INTERVALS)
def least_error(n: int, leaked: Any, reaches: Sequence[Any]) -> Any:
    """Bound from below the root mean squared error at some theta of a box of these half-lengths
    R_j, whose ``leak`` is ``leaked``: (2 k / 3) / (n leak + (2 / sqrt(3)) sqrt(sum 1 / R_j^2));
    of one parameter without records R / sqrt(3).
    """
    scores = 2 * mp.mpf(len(reaches)) / 3
    return scores / (n * leaked + scores - _least_scores(reaches, 1))


@states(BITS)
def least_error_of_bits(d: int, n: int, epsilon: Any, delta: Any) -> Any:
    """Bound from below the root mean squared length of the error of d probabilities, at some
    product law, of any (epsilon, delta)-DP estimate: (d / 6) / (n (sinh(epsilon) / 2 +
    (1 + e^-epsilon) sqrt(d delta)) + sqrt(d / 3)).

    s is 1/2 and |x - p| at most sqrt(d). E sum_i Z_i = sum_j E[p (1 - p) dg_j / dp_j] = sum_j
    E[(2 p_j - 1) M_j] >= d / 6 - a sqrt(d / 3).
    """
    root = mp.sqrt(d)
    leaked = leak(mp.mpf(1) / 2, epsilon=epsilon, delta=delta, longest=root)
    return mp.mpf(d) / 6 / (n * leaked + root / mp.sqrt(3))


# --- obligations --------------------------------------------------------------------------------

Family = tuple[Callable[[Any], Any], Callable[[Any], Any], int]
"""Family: exp(A), the density's h on 0, 1, ..., and where to stop."""
_FAMILIES: dict[str, Family] = {
    "bits": (lambda t: 1 + mp.exp(t), lambda x: mp.mpf(1), 1),
    "four bits": (lambda t: (1 + mp.exp(t)) ** 4, lambda x: mp.binomial(4, x), 4),
    "Poisson": (lambda t: mp.exp(mp.exp(t)), lambda x: 1 / mp.factorial(x), 60),
}
_ESTIMATES: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda x: mp.mpf(0),
    "linear": lambda x: x - mp.mpf(1) / 2,
    "logarithm": lambda x: mp.log(x + mp.mpf(1) / 2),
    "backwards": lambda x: -x / 2,
}


@states(INTERVALS)
def obligation_scores_add_up(claimed: Callable[..., Any] = _least_scores) -> int:
    """Check (a) for sums of bits and Poisson counts, by exact sums over the record and quadrature
    over theta in three intervals, one off 0: for four estimates E Z is at least as claimed, and
    for 0 it is that.
    """
    cases, nearest = 0, mp.inf
    with mp.workdps(15):
        for (name, family), (center, half) in product(
            _FAMILIES.items(), ((0, "1/4"), (0, "2"), (-1, "1"))
        ):
            reach = real(Fraction(half))
            for estimate, function in _ESTIMATES.items():
                score, square = _averages(family, function, mp.mpf(center), reach)
                least = claimed([reach], mp.sqrt(square))
                case = f"{name}, {estimate}, {center} to {half}: {score}, least {least}"
                require(score >= least - mp.mpf("1e-7"), case)
                nearest, cases = min(nearest, score - least), cases + 1
    require(nearest < mp.mpf("1e-6"), f"never nearer than {nearest}")
    return cases


def _averages(family: Family, estimate: Callable[[Any], Any], center: Any, reach: Any) -> Any:
    """Compute E Z and E (M - theta)^2."""
    whole, mass, last = family
    guesses = [(mp.mpf(x), estimate(mp.mpf(x)), mass(x)) for x in range(last + 1)]

    def at(offset: Any) -> tuple[Any, Any]:
        theta, score, square = center + offset, mp.mpf(0), mp.mpf(0)
        masses = [m * mp.exp(theta * x) / whole(theta) for x, _, m in guesses]
        mean = mp.fsum(x * p for (x, _, _), p in zip(guesses, masses, strict=True))
        for (x, guess, _), p in zip(guesses, masses, strict=True):
            score += p * (guess - theta) * (x - mean)
            square += p * (guess - theta) ** 2
        return (1 - (offset / reach) ** 2) * score, square

    places = [reach * (2 * mp.mpf(k) / 40 - 1) for k in range(41)]  # Simpson's rule
    weights = [(1 if k in (0, 40) else 4 if k % 2 else 2) / mp.mpf(120) for k in range(41)]
    values = [at(place) for place in places]
    return tuple(mp.fsum(w * v[i] for w, v in zip(weights, values, strict=True)) for i in (0, 1))


@states(INTERVALS)
def obligation_beside_waves(claimed: Callable[..., Any] = least_error) -> int:
    """Check the bound for one parameter against that of a prior cos^2 (family_scores.py), from a
    few records to many: it is from 2 / 3 to pi / sqrt(3) times as large; k parameters have
    sqrt(k) times the error of one, and delta lowers it.
    """
    cases = 0
    for mu, n, reach in product(("1/10", "1"), (1, 100, 10**6), (mp.mpf(1) / 2, mp.mpf(4))):
        size = real(Fraction(mu))
        one = claimed(n, leak(1, mu=size), [reach])
        waves = family_scores.least_error(size, n, 1, reach)
        case = f"{mu}, {n}, {reach}: {one}, {waves}"
        require(0.6 * waves < one < 1.82 * waves, case)
        many = claimed(n, leak(1, mu=size), [reach] * 16)
        require(many >= 4 * one * (1 - mp.mpf("1e-9")), f"{case}; {many}")
        pair = [
            claimed(n, leak(1, epsilon=size, delta=d, longest=3), [reach])
            for d in (0, mp.mpf("1e-3"))
        ]
        require(pair[1] < pair[0], f"{case}; {pair}")
        cases += 1
    return cases


@states(BITS)
def obligation_bits(claimed: Callable[..., Any] = least_error_of_bits) -> int:
    """Check that the bound is below exact errors over uniform p: that of the best multiple of
    randomized bits, each column with its share of epsilon, and that of the shares themselves,
    released with probability delta, else 1/2.

    For epsilon = delta = 0 it is exactly the error of 1/2.
    """
    cases = 0
    for d, n, text in product((1, 3, 50), (1, 5, 1000), ("0", "1/2", "1", "4")):
        epsilon = real(Fraction(text))
        told = mp.tanh(epsilon / d / 2)
        square = mp.mpf(1) / 12 - (n * told / 6) ** 2 / (n + n * (n - 1) * told**2 / 3)
        bound, error = claimed(d, n, epsilon, 0), mp.sqrt(d * square)
        case = f"d = {d}, n = {n}, epsilon = {text}: {bound}, {error}"
        require(bound <= error * (1 + mp.mpf("1e-12")), case)
        require(epsilon > 0 or bound >= error * (1 - mp.mpf("1e-12")), case)
        for delta in (mp.mpf("1e-4"), mp.mpf(1) / 2):
            known = delta / (6 * n) + (1 - delta) / 12  # E p (1 - p) / n, else the variance of p
            rare = claimed(d, n, 0, delta)
            require(rare <= mp.sqrt(d * known), f"d = {d}, n = {n}, delta = {delta}: {rare}")
            cases += 1
        cases += 1
    return cases


@states(INTERVALS)
def obligation_leak(claimed: Callable[..., Any] = leak) -> int:
    """Check (c) on a bit through randomized response with delta: every score of the output that
    has mean 0 without the record has a mean of at most ``claimed`` with it, and some score a
    third of that.

    For two normal laws, Z the likelihood ratio, both are equal.
    """
    cases, nearest = 0, mp.mpf(0)
    for text, delta in product(("1/100", "1", "2"), (mp.mpf(0), mp.mpf("0.01"))):
        epsilon = real(Fraction(text))
        odds = mp.exp(epsilon)
        left = [(1 - delta) * odds / (1 + odds), (1 - delta) / (1 + odds), delta, mp.mpf(0)]
        right = [left[1], left[0], mp.mpf(0), delta]
        fresh = [(p + q) / 2 for p, q in zip(left, right, strict=True)]
        for z in product((-1, 0, 1, 3), repeat=4):
            mean = mp.fsum(q * v for q, v in zip(fresh, z, strict=True))
            spread = mp.sqrt(mp.fsum(q * (v - mean) ** 2 for q, v in zip(fresh, z, strict=True)))
            longest = max(abs(v - mean) for v in z)
            moved = mp.fsum(p * (v - mean) for p, v in zip(left, z, strict=True))
            if spread < mp.mpf("1e-9"):
                continue
            most = claimed(spread, epsilon=epsilon, delta=delta, longest=mp.sqrt(delta) * longest)
            require(moved <= most * (1 + mp.mpf("1e-12")), f"{text}, {delta}, {z}: {moved}, {most}")
            nearest, cases = max(nearest, moved / most), cases + 1
    require(nearest > mp.mpf(1) / 3, f"never nearer than {nearest}")
    for mu in (mp.mpf(1) / 2, mp.mpf(1)):
        places = mp.linspace(-12, 14, 9)
        ratio = integral(lambda x, m=mu: mp.exp(m * x - m**2 / 2) * mp.npdf(x, m), places)
        exact = (ratio - 1) / mp.sqrt(ratio - 1)
        require(abs(claimed(1, mu=mu) - exact) < mp.mpf("1e-9"), f"mu = {mu}: {exact}")
        cases += 1
    return cases
