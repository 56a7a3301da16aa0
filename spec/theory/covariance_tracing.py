"""Lower bound by scores for covariances: a private estimate cannot be so accurate that its records
leave no trace.

Sigma = I + T, T symmetric with independent entries T_jk, j <= k, uniform on [-rho, rho],
rho = r / d; so |T| <= r < 1 (Gershgorin). Records x_i ~ N(0, Sigma), i <= n; M is the estimate
(where it abstains, any fixed matrix), alpha^2 = E|M - Sigma|_F^2, D = d (d + 1) / 2. With
h_jk = 1 - T_jk^2 / rho^2, from 0 to 1, B_jk = h_jk (M - Sigma)_jk and S(x) = Sigma^-1
(x x^T - Sigma) Sigma^-1 the score of record i is Z_i = <B, S(x_i)> / 2.

(a) Scores add up. S_jk(x), halved on the diagonal, is the derivative of log N(x; 0, Sigma) by
T_jk: it has mean 0, and E[M_jk sum_i S_jk(x_i) | T] is the derivative of g_jk = E[M_jk | T].
Over a uniform T_jk, by parts, E[(1 - T^2 / rho^2) g'] = 2 E[T g] / rho^2. As E[T_jk g_jk] =
rho^2 / 3 + E[T_jk (M - Sigma)_jk], Cauchy-Schwarz over the D entries gives E sum_i Z_i >=
2 D / 3 - 2 alpha sqrt(D / 3) / rho.
(b) One record's score is small if the record was not there. Z'_i, with x_i drawn again before M
is run, has mean 0 given M and T, and the variance tr (Sigma^-1 B Sigma^-1 B) / 2 <=
|B|_F^2 / (2 (1 - r)^2): E Z'_i^2 <= alpha^2 / (2 (1 - r)^2).
(c) Privacy: for laws P, Q that no test distinguishes better than N(mu, 1) and N(0, 1), E_P Z -
E_Q Z <= sqrt(chi^2(P|Q) E_Q Z^2), and chi^2, as every f-divergence, is at most that of the two
normal laws, e^(mu^2) - 1.

Together n sqrt(e^(mu^2) - 1) alpha / (sqrt(2) (1 - r)) >= 2 D / 3 - 2 alpha d sqrt(D / 3) / r,
for every r. Some Sigma of the family has an error that large; relative to Sigma, |Sigma^-1/2
(M - Sigma) Sigma^-1/2|_F >= |M - Sigma|_F / (1 + r). For add-remove, compare with the run
without record i; the bound is then for the larger of the errors at n - 1 and n records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, states

from .obligations import require
from .quadrature import integral

BOUND = Source(
    "PH24", "lower bound for covariances by score attacks", note="with constants, for GDP"
)
_SPREADS = tuple(mp.mpf(k) / 20 for k in range(1, 20))


@states(BOUND)
def least_error(d: int, n: int, mu: Any) -> Any:
    """Return a lower bound on the root mean squared error, relative to the truth and in the
    Frobenius norm, of mu-GDP estimates of the covariances of n normal records, at some
    covariance. The best of 19 spreads r.
    """
    return max(_least(d, n, mu, r) for r in _SPREADS)


def _least(d: int, n: int, mu: Any, r: Any) -> Any:
    entries = mp.mpf(d * (d + 1)) / 2
    leak = n * mp.sqrt(mp.expm1(mu**2) / 2) / (1 - r)
    absolute = 2 * entries / 3 / (leak + 2 * d * mp.sqrt(entries / 3) / r)
    return absolute / (1 + r)


@states(Source("GL95", "information of normal records about their covariance"))
def sampling_error(d: int, n: int) -> Any:
    """Return sqrt(d (d + 1) / n): no unbiased estimate from n records has a smaller root mean
    squared relative error.

    The information of a record about Sigma = I + e is <e, e> / 2, of d (d + 1) / 2 orthonormal
    directions.
    """
    return mp.sqrt(mp.mpf(d * (d + 1)) / n)


# --- obligations --------------------------------------------------------------------------------


def score(x: Any, variance: Any) -> Any:
    """Return the derivative of log N(x; 0, variance) by the variance."""
    return (x**2 / variance - 1) / (2 * variance)


@states(BOUND)
def obligation_scores(claimed: Callable[[Any, Any], Any] = score) -> int:
    """Check in one dimension, by quadrature, that scores have mean 0 and variance 1 / (2 v^2), and
    that E[f(x) score] is the derivative of E f(x) by v, for f(x) = x^2, x^4 and cos x.
    """
    cases = 0
    for variance in (mp.mpf(1) / 2, mp.mpf(1), mp.mpf(3) / 2):
        moments = {
            "1": (lambda x: mp.mpf(1), mp.mpf(0)),
            "score": (lambda x, v=variance: claimed(x, v), 1 / (2 * variance**2)),
            "x^2": (lambda x: x**2, mp.mpf(1)),
            "x^4": (lambda x: x**4, 6 * variance),
            "cos": (mp.cos, -mp.exp(-variance / 2) / 2),
        }
        for name, (function, expected) in moments.items():

            def term(x: Any, f: Any = function, v: Any = variance) -> Any:
                return f(x) * claimed(x, v) * mp.npdf(x, 0, mp.sqrt(v))

            mean = integral(term, mp.linspace(-15, 15, 11))
            require(abs(mean - expected) < 1e-9, f"{name}, {variance}: {mean}, not {expected}")
            cases += 1
    return cases


def by_parts(moment: Callable[[int], Any], power: int) -> Any:
    """Return 2 E[T g] for g = T^power, T uniform on [-1, 1]."""
    return 2 * moment(power + 1)


@states(BOUND)
def obligation_by_parts(claimed: Callable[..., Any] = by_parts) -> int:
    """Check that E[(1 - T^2) g'(T)] is ``claimed`` for g = T^k up to k = 12, on exact rationals."""

    def moment(k: int) -> Any:
        return mp.mpf(0) if k % 2 else mp.mpf(1) / (k + 1)

    for power in range(13):
        slope = power * (moment(power - 1) - moment(power + 1)) if power else mp.mpf(0)
        mean = claimed(moment, power)
        require(abs(mean - slope) < 1e-15, f"T^{power}: {mean}, not {slope}")
    return 13


def chi_square(mu: Any) -> Any:
    """Return the chi-square divergence of N(mu, 1) from N(0, 1)."""
    return mp.expm1(mu**2)


@states(Source("DRS22", "GDP as tests of normal laws", note="chi-square of the two"))
def obligation_chi_square(claimed: Callable[[Any], Any] = chi_square) -> int:
    """Check the divergence by quadrature, and the bound (c) for the laws themselves, Z = x^k up to
    k = 4, with equality where Z is the likelihood ratio.
    """
    cases = 0
    for mu in (mp.mpf(1) / 4, mp.mpf(1), mp.mpf(2)):
        places = mp.linspace(-12, 18, 11)
        square = integral(lambda x, m=mu: mp.exp(2 * m * x - m**2) * mp.npdf(x), places)
        require(abs(square - 1 - claimed(mu)) < 1e-9 * square, f"{mu}: {square - 1}")
        for k in range(1, 5):
            moved = integral(lambda x, m=mu, k=k: x**k * mp.npdf(x, m), places)
            here = integral(lambda x, k=k: x**k * mp.npdf(x), places)
            spread = integral(lambda x, k=k: x ** (2 * k) * mp.npdf(x), places)
            most = mp.sqrt(claimed(mu) * (spread - here**2))
            require(moved - here <= most * (1 + 1e-9), f"x^{k}, {mu}: {moved - here} > {most}")
            cases += 1
    return cases


def gaussian_mechanism_error(d: int, n: int, mu: Any) -> Any:
    """Return the error of the mean of x x^T plus noise, for records none longer than sqrt(3 d): it
    is mu-GDP, at the identity and about.

    Its privacy part, sqrt(D) sqrt(2) 3 d / (n mu), and sampling, sqrt(2 D / n).
    """
    entries = mp.mpf(d * (d + 1)) / 2
    return mp.sqrt(entries * (mp.sqrt(2) * 3 * d / (n * mu)) ** 2 + 2 * entries / n)


@states(BOUND)
def obligation_bound_is_below_a_mechanism(within: int = 60) -> int:
    """Check that the bound is below the error of clipping and noise at d = 2 to 200, within a
    factor of 60 (its constants are not fitted).
    """
    cases = 0
    for d in (2, 10, 50, 200):
        for mu in (mp.mpf(1) / 4, mp.mpf(1)):
            for n in (10 * d**2, 100 * d**2):
                least, error = least_error(d, n, mu), gaussian_mechanism_error(d, n, mu)
                require(0 < least <= error <= within * least, f"{d}, {n}, {mu}: {least}, {error}")
                cases += 1
    return cases
