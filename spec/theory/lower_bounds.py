"""Lower bounds for every private mechanism, executable at mpmath's working precision.

The bounds here are for one number. For means of vectors: packing.py (pure privacy) and
tracing_bound.py (approximate and Gaussian privacy); fingerprinting.py and buckets.py state the
latter as the literature has it.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, states

from .laws import real


@states(Source("HT10", "packing argument", note="for two datasets at distance k"))
def two_point(epsilon: Fraction, step: Fraction, most: int) -> Any:
    """Return a lower bound on the largest expected error on some dataset, for any epsilon-DP
    estimate of a statistic.

    The statistic can move by k * step over k neighbors, k <= most. Let A be "closer to the
    value at x than at x'". The error at x' is at least k step / 2 on A, at x on its complement,
    and P'(A) >= e^(-k epsilon) P(A). With b = P(not A): max(b, e^(-k epsilon) (1 - b)) is least
    at b = 1 / (1 + e^(k epsilon)), so some dataset has expected error >= (k step / 2) b.
    """
    bounds = (
        k * real(step) / 2 / (1 + mp.exp(k * real(epsilon)))
        for k in range(1, min(most, _useful(epsilon)) + 1)
    )
    return max(bounds, default=mp.mpf(0))


def _useful(epsilon: Fraction) -> int:
    """Return the number of neighbors to try: k / (1 + e^(k epsilon)) rises until k epsilon is
    about 1.28, then falls for good.
    """
    return int(2 / epsilon) + 1


@states(
    Source("OURS", "local two-point bound", note="after Duchi, Jordan, Wainwright 2013, Theorem 1")
)
def local_two_point(epsilon: Fraction, n: int) -> Any:
    """Return a lower bound on the largest expected error of a population frequency, for n answers
    through epsilon-local channels that are fixed beforehand (non-interactive).

    Let a category have frequency f or f + t (total variation t). Per output y of a channel Q,
    the two laws differ by at most t (max Q(y|.) - min Q(y|.)) <= t (e^epsilon - 1) min(M(y),
    M'(y)), so KL(M, M') + KL(M', M) <= sum (M - M')^2 / min(M, M') <= t^2 (e^epsilon - 1)^2.
    The smaller of the two, n times, gives by Pinsker a total variation of at most t
    (e^epsilon - 1) sqrt(n) / 2, and Le Cam's two points an error of at least (t / 4)
    (1 - that), largest at t = 1 / ((e^epsilon - 1) sqrt(n)).
    """
    strength = mp.expm1(real(epsilon))
    t = min(mp.mpf(1), 1 / (strength * mp.sqrt(n)))
    return t / 4 * max(mp.mpf(0), 1 - t * strength * mp.sqrt(n) / 2)
