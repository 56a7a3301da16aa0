"""Means in the Mahalanobis norm of a known covariance: the best matrix for them, and the
statements of others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, states

from .laws import real
from .obligations import require
from .rescaled_errors import expected_error, root_trace

Parameters = Mapping[str, Any]
_FOOTNOTE = Source("DJYZZ24", "footnote 4, the Mahalanobis metric")


def noise_product(variances: Sequence[Any], power: Any, *, mahalanobis: bool) -> Any:
    """Compute the squared length of the noise for M = Sigma^power, up to what does not depend on
    it.

    Noise has covariance M^(1/2) times the squared radius, and the squared radius of friends is
    2 tr(M^(-1/2) Sigma) up to a logarithm. The length is measured in the Euclidean norm, or in
    the Mahalanobis norm of Sigma.
    """
    values = [real(v) for v in variances]
    spread = mp.fsum(v ** (1 - real(power) / 2) for v in values)
    length = mp.fsum(v ** (real(power) / 2 - (1 if mahalanobis else 0)) for v in values)
    return spread * length


@states(_FOOTNOTE)
def obligation_footnote(claimed: Callable[[bool], int] = lambda maha: 2 if maha else 1) -> int:
    """Check that noise is shortest for M = Sigma^2 in the Mahalanobis norm, where it has d^2, and
    for M = Sigma in the Euclidean one, where it has (tr Sigma^(1/2))^2.

    The other matrices are powers of Sigma, and matrices with the same eigenvectors near these.

    Proof. With w = M^(1/2) the product is (sum s_j / w_j) (sum w_j / s_j) >= d^2 by Cauchy and
    Schwarz, with equality where w is a multiple of s; in the Euclidean norm (sum s_j / w_j)
    (sum w_j) >= (sum s_j^(1/2))^2, with equality where w_j is a multiple of s_j^(1/2). QED
    """
    cases = 0
    spectra = [(1, 1, 1), (1, Fraction(1, 4), Fraction(1, 9)), (1, 100, 10**4, 10**6), (3, 5)]
    for variances, maha in product(spectra, (True, False)):
        best = noise_product(variances, claimed(maha), mahalanobis=maha)
        own = [real(v) for v in variances]
        least = len(own) ** 2 if maha else mp.fsum(map(mp.sqrt, own)) ** 2
        require(abs(best / least - 1) < mp.mpf(10) ** -12, f"{variances}, {maha}: {best}, {least}")
        for power in (Fraction(k, 4) for k in range(13)):
            there = noise_product(variances, power, mahalanobis=maha)
            require(there >= best * (1 - mp.mpf(10) ** -12), f"{variances}, {power}: {there}")
            cases += 1
        for j, factor in product(range(len(own)), ("9/10", "11/10")):
            root = [v ** (real(claimed(maha)) / 2) for v in own]
            root[j] *= real(Fraction(factor))
            spread = mp.fsum(v / w for v, w in zip(own, root, strict=True))
            length = mp.fsum(w / (v if maha else 1) for v, w in zip(own, root, strict=True))
            require(spread * length > best, f"{variances}, {maha}: {factor} of column {j}")
            cases += 1
    return cases


@states(_FOOTNOTE)
def mahalanobis_error(parameters: Parameters, n: int) -> Any:
    """Compute the root mean squared length of the noise in the Mahalanobis norm of Sigma, M =
    Sigma^2, for n friends.

    Noise has covariance a^2 M^(1/2) = a^2 Sigma; its Euclidean length is a tr(Sigma)^(1/2), this
    one a d^(1/2).
    """
    d = len(parameters["matrix"])
    return expected_error(parameters, n) * mp.sqrt(d / root_trace(parameters))


# --- what others state of a covariance that is not known ------------------------------------------


@states(
    Source(
        "BHS23",
        "the stable mean, its noise",
        note="quoted, with the constants of its code, not derived",
    )
)
def stable_mean_noise(n: int, d: int, epsilon: Any, delta: Any) -> Any:
    """Compute the length of the noise of the stable mean, in the Mahalanobis norm, with its code's
    constants.

    Its covariance is 810 l ln(12 / delta) / (epsilon n)^2 times an estimate of Sigma, l a squared
    norm that records rarely exceed: here d + 2 sqrt(d t) + 2 t, which one of n normal ones exceeds
    with probability e^-7, t = ln n + 7. It answers from n = 20 l (6 ln(6 / delta) / epsilon + 5)
    records on, and does not know Sigma.
    """
    t = mp.log(n) + 7
    outlying = d + 2 * mp.sqrt(d * t) + 2 * t
    square = 810 * outlying * mp.log(12 / real(delta)) * d
    return mp.sqrt(square) / (real(epsilon) * n)


@states(
    Source(
        "KDH23",
        "the rate of adaptive private means",
        note="quoted, with 1 for its polylogarithm, not derived",
    )
)
def adaptive_mean_rate(n: int, d: int, epsilon: Any, delta: Any) -> Any:
    """Compute d sqrt(ln(1 / delta)) / (epsilon n), the rate of BHS23 and KDH23 with 1 for what is
    left out of it."""
    return d * mp.sqrt(mp.log(1 / real(delta))) / (real(epsilon) * n)


@states(Source("BHS23", "the stable mean, its noise", note="quoted, not derived"))
def obligation_rates_of_others(claimed: int = 1) -> int:
    """Check that the stable mean's noise is above the rate without constants and at most 128 times
    it, over d and n; both go as 1 / n and 1 / epsilon, the rate as d^claimed.
    """
    cases = 0
    for d, n, epsilon in product((5, 50, 500), (10**4, 10**6), map(Fraction, ("1/4", "1", "4"))):
        given = n, d, epsilon, Fraction(1, 10**6)
        rate, noise = adaptive_mean_rate(*given), stable_mean_noise(*given)
        case = f"d = {d}, n = {n}, epsilon {epsilon}: {mp.nstr(rate, 5)}, {mp.nstr(noise, 5)}"
        require(rate <= noise <= 128 * rate, case)
        doubled = adaptive_mean_rate(2 * n, d, epsilon, given[3])
        wider = adaptive_mean_rate(n, 2 * d, epsilon, given[3])
        require(abs(2 * doubled / rate - 1) < mp.mpf(10) ** -12, case)
        require(abs(wider / rate / 2**claimed - 1) < mp.mpf(10) ** -12, case)
        cases += 1
    return cases
