"""Errors of covariances near the identity from clipped or masked second moments, by the delta
method.

y is standard normal in d dimensions, r^2 = |y|^2. The release is the mean over n records of z
z^T, with symmetric noise of variance scale^2 in each of d (d + 1) / 2 orthonormal directions;
the estimate is the covariance that has these moments.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement, product
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, states

from . import chi_square
from .caches import lru_cache
from .clipped_moments import DIGITS, near


def expected_error(
    d: int, n: Any, bound: Any, scale: Any, of_count: Any = 0, how: str = "clip"
) -> Any:
    """Return the root mean square of |estimate - I|_F by the delta method.

    There is noise of ``scale`` on the moments, and of ``of_count`` on the count over n.

    For "clip" let psi = min(r^2, bound). Each of D = d (d + 1) / 2 - 1 directions without trace
    has the slope a = E psi r^2 / (d (d + 2)), the sampling variance 2 E psi^2 / (d (d + 2)) / n
    and noise scale^2; the direction I / sqrt(d) has d (Var psi / n + d scale^2 +
    (E psi of_count)^2) / ((E psi r^2 - d E psi) / 2)^2. For "mask" it is the same for records
    inside, n P of them, with psi = r^2, the noise over P, and the slope Var(r^2 | inside) /
    2 of the trace.
    """
    shares = [chi_square.below(d + 2 * k, bound) for k in range(3)]
    d, bound = mp.mpf(d), mp.mpf(bound)

    def below(k: int) -> Any:  # E r^(2k) over records inside
        return mp.rf(d / 2, k) * 2**k * shares[k]

    def beyond(k: int) -> Any:
        return mp.rf(d / 2, k) * 2**k * (1 - shares[k])

    if how == "mask":
        mass = below(0)
        first, second = below(1) / mass, below(2) / mass
        crossed, slope = second, (second - first**2) / 2
        n, scale, of_count = n * mass, scale / mass, of_count / mass
    else:
        first, second = below(1) + bound * beyond(0), below(2) + bound**2 * beyond(0)
        crossed = below(2) + bound * beyond(1)
        slope = (crossed - d * first) / 2
    a = crossed / (d * (d + 2))
    without = (2 * second / (n * d * (d + 2)) + scale**2) / a**2
    trace = (second - first**2) / n + d * scale**2 + (first * of_count) ** 2
    return mp.sqrt((d * (d + 1) / 2 - 1) * without + d * trace / slope**2)


# --- obligations --------------------------------------------------------------------------------


@states(Source("OURS", "errors of covariances from clipped moments"))
def obligation_expected_error(claimed: Callable[..., Any] = expected_error) -> int:
    """Check to 10 digits against the delta method with whole matrices: slopes from scores,
    variances from moments of directions, lengths by quadrature.
    """
    cases = 0
    settings = ((1, 50, 2), (2, 100, 3), (3, 1000, 9))
    with mp.workdps(DIGITS):
        for (d, n, bound), (scale, of_count), how in product(
            settings, ((0, 0), ("0.1", "0.02")), ("clip", "mask")
        ):
            noise, count = mp.mpf(scale), mp.mpf(of_count)
            error = claimed(d, n, mp.mpf(bound), noise, count, how)
            wanted = _whole_delta_method(d, n, bound, noise, count, how)
            near(error, wanted, f"d = {d}, n = {n}, bound {bound}, {scale}, {how}", 10)
            cases += 1
    return cases


@lru_cache(maxsize=64)
def _radial(d: int, bound: int, how: str, held: int, free: int) -> Any:
    """Return E min(r^2, bound)^held r^(2 free); with "mask", of the records inside, times their
    probability.
    """
    ends = [0, bound] if how == "mask" else [0, bound, bound + 40, bound + 200]
    half = mp.mpf(d) / 2

    def term(root: Any) -> Any:
        x = root**2
        moment = min(x, mp.mpf(bound)) ** held * x**free
        return 2 * root * moment * x ** (half - 1) * mp.exp(-x / 2) / 2**half / mp.gamma(half)

    return mp.quad(term, [mp.sqrt(end) for end in ends])


def _whole_delta_method(d: int, n: int, bound: int, scale: Any, of_count: Any, how: str) -> Any:
    """Return tr A^-1 C A^-T, for the vector of z_i z_j (times sqrt(2) off the diagonal) over the
    count, and for the covariance in the same coordinates.
    """
    indices = list(combinations_with_replacement(range(d), 2))
    size = len(indices)

    mass, first, fourth, crossed, free = (
        _radial(d, bound, how, *powers) for powers in ((0, 0), (1, 0), (2, 0), (1, 1), (0, 1))
    )
    center, mean = first / (mass * d), free / d  # means of z_i^2 over the count, and of y_i^2
    slopes, covariance = mp.zeros(size), mp.zeros(size)
    for a, b in product(range(size), repeat=2):
        both = _of_directions(d, *indices[a], *indices[b])
        weight = mp.sqrt((1 + (len(set(indices[a])) > 1)) * (1 + (len(set(indices[b])) > 1)))
        on_a, on_b = (len(set(indices[k])) == 1 for k in (a, b))
        # E (z_i z_j - center 1_ij) score, score (y_k y_l - 1_kl) / 2 in these coordinates
        slopes[a, b] = weight * crossed * both - on_a * center * on_b * mean
        slopes[a, b] -= on_b * on_a * (first / d - center * mass)
        slopes[a, b] /= 2 * mass
        middle = on_a * on_b * (2 * center * first / d - center**2 * mass)
        covariance[a, b] = (weight * fourth * both - middle) / (n * mass**2)
        covariance[a, b] += (scale**2 * (a == b) + on_a * on_b * (center * of_count) ** 2) / mass**2
    back = mp.inverse(slopes)
    whole = back * covariance * back.T
    return mp.sqrt(mp.fsum(whole[a, a] for a in range(size)))


def _of_directions(d: int, i: int, j: int, k: int, m: int) -> Any:
    """Return E u_i u_j u_k u_m for u uniform on the sphere."""
    matched = (i == j) * (k == m) + (i == k) * (j == m) + (i == m) * (j == k)
    return mp.mpf(matched) / (d * (d + 2))
