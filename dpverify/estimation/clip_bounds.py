"""Bounds on |y|^2 for private covariances near the identity, from public numbers: predicted errors.

y is standard normal in d dimensions, r^2 = |y|^2 is chi-square of d degrees of freedom. A
release is the mean over n records of z z^T with isometric symmetric noise of scale s (variance
s^2 on the diagonal, s^2 / 2 off it), clipped or masked to r^2 <= bound; the estimate is the
covariance that has these moments. Public numbers alone enter, so nothing here touches privacy.
Source: OURS, by the delta method; it is exact as n grows with everything else fixed.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

import scipy

How = Literal["clip", "mask"]
_LEAST_MASS = 1e-100


def expected_error(
    d: int,
    n: float,
    mu: float,
    moves: int,
    bound: float,
    how: How = "clip",
    weight: float | None = None,
) -> float:
    """Predict the root mean square of the Frobenius norm of (estimate - identity).

    moves: 2 where neighbors replace a record, 1 where they add or remove one: the root of
    ``moves`` times the bound is the sensitivity of the sum of z z^T. weight: the sum is
    released with ``weight * bound`` times the number of records (those inside, for "mask"), and
    its noisy value divides; the sensitivity is then the root of 1 + weight^2 if that is more.
    None: with "clip" n is public and divides; with "mask" 1 (replace, where that is free) or
    1/8.
    """
    _check(d, n, mu, moves)
    if weight is None:
        weight = 0.0 if how == "clip" else 1.0 if moves == 2 else 0.125
    scale = math.sqrt(max(moves, 1 + weight**2)) * bound / (n * mu)
    of_count = scale / (weight * bound) if weight else 0.0
    across, along = (_clipped if how == "clip" else _masked)(d, n, bound, scale, of_count)
    return math.sqrt((d * (d + 1) // 2 - 1) * across + along)


@lru_cache(maxsize=256)
def excess(d: int, bound: float, how: How) -> tuple[float, float]:
    """Compute n times the variance of (estimate without noise - second moments of all n
    records), near the identity.

    The variance is returned for a direction of length 1 off the identity, and for the one along
    it. The second moments of all normal records are efficient, with the variance 2 / n, so the
    result follows by subtracting that from the estimate's variance.
    """
    across, along = (_clipped if how == "clip" else _masked)(d, 1, bound, 0.0, 0.0)
    return max(across - 2, 0.0), max(along - 2, 0.0)


def _clipped(d: int, n: float, bound: float, scale: float, of_count: float) -> tuple[float, float]:
    """Compute the variances of a clipped release, psi = min(r^2, bound), off the identity and
    along it.

    Without trace, in D = d (d + 1) / 2 - 1 directions: a covariance I + e U moves the moments
    by a e U, a = E psi r^2 / (d (d + 2)); one record has the variance 2 E psi^2 / (d (d + 2))
    along U; noise has s^2. Along I: a covariance (1 + e) I moves the trace by e (E psi r^2 - d
    E psi) / 2; one record's trace has the variance Var psi, noise d s^2, and the noise of the
    count moves it by E psi times its relative error. The norm of e I is e sqrt(d).
    """
    mass, low, square = (_moment(d, k, bound) for k in range(3))
    first = low + bound * float(scipy.special.chdtrc(d, bound))
    second = square + bound**2 * float(scipy.special.chdtrc(d, bound))
    a = (square + bound * d * float(scipy.special.chdtrc(d + 2, bound))) / (d * (d + 2))
    without_trace = (2 * second / (n * d * (d + 2)) + scale**2) / a**2
    # by bound - psi, which is 0 outside: nothing cancels where the bound is small
    slope = (square - (d + bound) * low + d * bound * mass) / 2
    variance = square - 2 * bound * low + bound**2 * mass - (bound * mass - low) ** 2
    trace = variance / n + d * scale**2 + (first * of_count) ** 2
    return without_trace, d * _over(trace, slope**2)


def _masked(d: int, n: float, bound: float, scale: float, of_count: float) -> tuple[float, float]:
    """Compute the variances of a masked release: as for a clipped one, of the n P records
    inside, conditionally.

    a = E(r^4 | inside) / (d (d + 2)); the trace over the count, c = E(r^2 | inside), moves by e
    Var(r^2 | inside) / 2, and has the variance Var(r^2 | inside) / (n P); noise of the sum and
    of the count are over P, the latter times c.
    """
    mass = float(scipy.special.chdtr(d, bound))
    if mass < _LEAST_MASS:
        return math.inf, math.inf
    first, fourth = _moment(d, 1, bound) / mass, _moment(d, 2, bound) / mass
    a = fourth / (d * (d + 2))
    without_trace = (2 * a / (n * mass) + (scale / mass) ** 2) / a**2
    spread = fourth - first**2
    trace = spread / (n * mass) + (d * scale**2 + (first * of_count) ** 2) / mass**2
    return without_trace, d * _over(trace, (spread / 2) ** 2)


def _moment(d: int, k: int, bound: float) -> float:
    """Compute E r^(2k) of records inside, times their probability: that of a chi-square of d +
    2 k degrees.
    """
    return math.prod(d + 2 * i for i in range(k)) * float(scipy.special.chdtr(d + 2 * k, bound))


def _over(variance: float, square: float) -> float:
    """Divide; a quotient that no float can hold is an infinite error."""
    return variance / square if square > 0 else math.inf


def _check(d: int, n: float, mu: float, moves: int) -> None:
    if d < 1 or moves not in (1, 2) or not (n > 0 and mu > 0 and math.isfinite(n * mu)):
        raise ValueError(
            f"d = {d!r}, n = {n!r}, mu = {mu!r}, moves = {moves!r}; give d of 1 or more, positive "
            "n and mu, and 1 (add or remove) or 2 (replace)."
        )
