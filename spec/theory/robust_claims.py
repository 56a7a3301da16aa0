"""Claims of a paper about a filtered mean: its error on good data, and a sensitivity derived from
that.

S is a clean sample of G = N(mu, I), S' = (S without L) and E what the filter leaves of a
corrupted one, with (|L| + |E|) / |S| <= 2 gamma. Norms are Euclidean; mu_X is the mean of X.
Every formula is at mpmath's working precision. Their errors are shown in robust_refutations.py.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, SourceStatus, states

from .laws import real
from .profiles import gaussian_profile

FACTOR = Fraction(1, 2)
"""C of the stopping rule, as the paper's experiments set it; its theory leaves it open."""
_DIGITS = 10**60


@states(Source("DH20", "Lemma 3.1"))
def clean_part(gamma: Fraction) -> Any:
    """Return a bound on (|S| / |S'|) |mu_S - mu|: goodness (3), and |S'| >= (1 - 2 gamma) |S|."""
    return real(gamma / (1 - 2 * gamma))


@states(Source("DH20", "Lemma 3.2", note="its proof is false; another one is short"))
def lost_part(gamma: Fraction) -> Any:
    """Return a bound on (|L| / |S'|) |mu_L - mu|.

    Proof. For a unit v, sum over L of v.(x - mu) <= sqrt(|L| sum over S of (v.(x - mu))^2), so
    (|L| / |S|) |mu_L - mu| <= sqrt(|L| / |S|) sqrt(1 + gamma) <= sqrt(2 gamma) (1 + gamma / 2)
    by goodness (4), and gamma / 2 sqrt(2 gamma) <= sqrt(2) gamma. Divide by |S'| / |S| >= 1 - 2
    gamma. QED.
    """
    g = real(gamma)
    return (mp.sqrt(2) * g + mp.sqrt(2 * g)) / (1 - 2 * g)


def kappa(gamma: Fraction) -> Any:
    """Return the sum of ``clean_part`` and ``lost_part``."""
    return clean_part(gamma) + lost_part(gamma)


LITERALLY = Fraction(1, 8)
"""The largest gamma for which Lemma 3.3 is proved here."""
_LITERAL = (
    "for gamma <= 1/8 and the largest eigenvalue itself; the step from Corollary 5.10 is false"
)


@states(Source("DH20", "Lemma 3.3", SourceStatus.CHANGED_CONSTANTS, note=_LITERAL))
def outlier_part(gamma: Fraction, top: Any) -> Any:
    """Return a bound on (|E| / |S'|) |mu_E - mu|; top: the largest eigenvalue of the covariance of
    S'.

    Proof. Let a = |E| / |S'|, at most 2 gamma / (1 - 2 gamma), R the others of S', and v the
    unit vector along mu_E - mu_R. Then a (1 - a) |mu_E - mu_R|^2 <= v'Cov(S')v <= top, as two
    parts have that variance between them, so a |mu_E - mu_R| <= sqrt(a / (1 - a)) sqrt(top).
    And (1 - a) |mu_R - mu| <= kappa, Lemmas 3.1 and 3.2 together. So a |mu_E - mu| <= sqrt(r)
    sqrt(top) + r kappa with r = a / (1 - a) <= 2 gamma / (1 - 4 gamma), which is at most 4
    gamma for gamma <= 1/8. So the first term is at most 2 sqrt(gamma top), and r <= 1/2 is
    below 2. QED.
    (Through mu_S' in place of mu_R it is sqrt(a) / (1 - a), enough for gamma <= 8/100, and at
    gamma = 1/10, which the paper's experiments use, for top <= 3346 alone.)
    """
    root = mp.sqrt(real(gamma))
    return (2 + 2 * root) * kappa(gamma) + 2 * root * mp.sqrt(top)


@states(Source("DH20", "Theorem 3.4", SourceStatus.CHANGED_CONSTANTS, note=_LITERAL))
def error(gamma: Fraction, top: Any) -> Any:
    """Return a bound on |mu_S' - mu|, if S is good."""
    return kappa(gamma) + outlier_part(gamma, top)


@states(
    Source(
        "DH20",
        "Corollary 3.4.1, the step lambda* <= C gamma ln(1/gamma)",
        SourceStatus.REFUTED,
        note="the filter stops where that holds of lambda* - 1",
    )
)
def error_when_stopped(gamma: Fraction, factor: Fraction = FACTOR) -> Any:
    """Return the bound of Theorem 3.4 where the filter has stopped, as the paper has it."""
    return error(gamma, real(factor * gamma) * mp.log(real(1 / gamma)))


@states(
    Source(
        "DH20",
        "Corollary 3.4.2, as the error on Gaussian samples of any dimension",
        SourceStatus.REFUTED,
    )
)
def error_of_clean_data(n: int, factor: Fraction = FACTOR) -> Any:
    """Return the corollary's bound: gamma = 1 / n."""
    root = mp.sqrt(n)
    first = (3 + 2 / root) * (1 + mp.sqrt(2) + mp.sqrt(2 * n)) / (n - 2)
    return first + 2 * mp.sqrt(real(factor) * mp.log(n)) / n


@states(Source("DH20", "Section 4, Algorithm 1", SourceStatus.REFUTED))
def noise_scale(
    gamma: Fraction, tau: Fraction, epsilon: Fraction, factor: Fraction = FACTOR
) -> Any:
    """Return the standard deviation of the paper's Gaussian noise: sensitivity twice the error,
    delta = tau.
    """
    spread = mp.sqrt(8 * mp.log(real(Fraction(5, 4) / tau))) / real(epsilon)
    return spread * error_when_stopped(gamma, factor)


@states(Source("DH20", "Section 4, Algorithm 2", SourceStatus.REFUTED))
def clean_noise_scale(n: int, tau: Fraction, epsilon: Fraction, factor: Fraction = FACTOR) -> Any:
    """Return the standard deviation of Algorithm 2's noise, for n records."""
    spread = mp.sqrt(8 * mp.log(real(Fraction(5, 4) / tau))) / real(epsilon)
    return spread * error_of_clean_data(n, factor)


def delta(shift: Any, scale: Any, epsilon: Fraction) -> Any:
    """Return the least delta at ``epsilon`` of N(0, scale^2 I) against its shift by ``shift``.

    Their squared ratio is rounded down at 60 digits, which lowers delta. 0 without a shift.
    """
    square = Fraction(int(mp.floor((mp.mpf(shift) / scale) ** 2 * _DIGITS)), _DIGITS)
    return gaussian_profile(square, epsilon) if square else mp.mpf(0)
