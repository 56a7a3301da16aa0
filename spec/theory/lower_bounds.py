"""What no private mechanism can beat: lower bounds, executable at mpmath's working precision.

Here for one number. For means of vectors: packing.py (pure privacy), tracing_bound.py (approximate
privacy, anisotropic), fingerprinting.py and buckets.py (the same as in the literature).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, SourceStatus, states

from .laws import real


@states(Source("HT10", "packing argument", note="for two datasets at distance k"))
def two_point(epsilon: Fraction, step: Fraction, most: int) -> Any:
    """The largest expected error on some dataset, for any epsilon-DP estimate of a statistic.

    The statistic can move by k * step over k neighbors, k <= most. Let A be "closer to the value at
    x than at x'". The error at x' is at least k step / 2 on A, at x on its complement, and
    P'(A) >= e^(-k epsilon) P(A). With b = P(not A): max(b, e^(-k epsilon) (1 - b)) is least at
    b = 1 / (1 + e^(k epsilon)), so some dataset has expected error >= (k step / 2) b.
    """
    bounds = (
        k * real(step) / 2 / (1 + mp.exp(k * real(epsilon)))
        for k in range(1, min(most, _useful(epsilon)) + 1)
    )
    return max(bounds, default=mp.mpf(0))


def _useful(epsilon: Fraction) -> int:
    """k / (1 + e^(k epsilon)) rises until k epsilon is about 1.28, then falls for good."""
    return int(2 / epsilon) + 1


@states(
    Source("OURS", "local two-point bound", note="after Duchi, Jordan, Wainwright 2013, Theorem 1")
)
def local_two_point(epsilon: Fraction, n: int) -> Any:
    """The largest expected error of a population frequency, n answers through epsilon-local channels
    that are fixed beforehand (non-interactive).

    Let a category have frequency f or f + t (total variation t). Per output y of a channel Q, the
    two laws differ by at most t (max Q(y|.) - min Q(y|.)) <= t (e^epsilon - 1) min(M(y), M'(y)), so
    KL(M, M') + KL(M', M) <= sum (M - M')^2 / min(M, M') <= t^2 (e^epsilon - 1)^2. The smaller of the
    two, n times, gives by Pinsker a total variation of at most t (e^epsilon - 1) sqrt(n) / 2, and
    Le Cam's two points an error of at least (t / 4) (1 - that), largest at
    t = 1 / ((e^epsilon - 1) sqrt(n)).
    """
    strength = mp.expm1(real(epsilon))
    t = min(mp.mpf(1), 1 / (strength * mp.sqrt(n)))
    return t / 4 * max(mp.mpf(0), 1 - t * strength * mp.sqrt(n) / 2)


@states(
    Source("DJYZZ24", "Theorem 5.3, lower bound", SourceStatus.CHANGED_CONSTANTS, "no log^2 d"),
    Source("OURS", "anisotropic tracing bound, without a loss of log d"),
)
def tracing(trace_root: Any, width: int, n: int, epsilon: Fraction, delta: Any) -> Any:
    """The least alpha such that an (epsilon, delta)-DP estimate M can have root mean squared error alpha for
    n records of N(p, S) (under add-remove for n - 1 as well), whatever p: trace_root = tr S^(1/2), S of
    rank ``width``.

    Let p ~ N(0, tau^2 I) and Z_i = <S^(-1/2) (M - p), X_i - p>. By Stein's identity in X, then in p,
    sum E Z_i = sum_j sigma_j E[p_j M_j] / tau^2 >= tr S^(1/2) - alpha sqrt(tr S) / tau; let tau grow.
    Put for X_i a record of its own in the data (or leave it out): then Z'_i is N(0, |M - p|^2) given M and
    p, E |Z'_i| <= sqrt(2 / pi) alpha, mean 0. Privacy compares the laws P, Q of (M, p, X_i): nu = (P -
    e^epsilon Q)^+ and nu' = (Q - e^epsilon P)^+ have mass at most delta. So E Z_i <= e^epsilon E Z'_i^+
    + int Z^+ dnu - e^-epsilon E Z'_i^- + e^-epsilon int Z^- dnu', the first and third sinh(epsilon)
    E |Z'_i| together. By Cauchy-Schwarz (nu <= P, |Z_i| <= |M - p| |g|) the others are at most alpha
    k_d(delta) and e^-epsilon alpha k_1(delta), k_d(delta)^2 the largest int |g|^2 of a part delta of a
    standard normal vector's law. Sum over i:
    tr S^(1/2) <= n alpha (sqrt(2 / pi) sinh(epsilon) + k_d(delta) + e^-epsilon k_1(delta)). QED
    """
    strength = mp.sqrt(2 / mp.pi) * mp.sinh(real(epsilon))
    hidden = _tail_length(width, delta) + mp.exp(-real(epsilon)) * _tail_length(1, delta)
    return trace_root / (n * (strength + hidden))


def _tail_length(width: int, delta: Any) -> Any:
    """k with k^2 = E |g|^2 on the longest part delta of standard normal vectors: d P(chi^2_(d + 2) > q),
    q the upper delta-quantile of chi^2_d, from below, so that k is from above."""
    if delta <= 0:
        return mp.mpf(0)
    half, low, high = mp.mpf(width) / 2, mp.mpf(0), mp.mpf(width)

    def tail(q: Any, degrees: Any) -> Any:
        return mp.gammainc(degrees, q / 2, mp.inf, regularized=True)

    with mp.workdps(20):
        while tail(high, half) > delta:
            high *= 2
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if tail(middle, half) > delta else (low, middle)
        return mp.sqrt(width * tail(low, half + 1))
