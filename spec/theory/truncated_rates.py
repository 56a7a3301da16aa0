"""Number of records that ZZ25's two theorems about normal laws ask for, with constants."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, SourceStatus, states

from .chi_square import below
from .clipped_response import moment
from .laws import real
from .obligations import require
from .survival_sets import survival_radius
from .truncated_normals import limits
from .uniform_convergence import records_needed

_MEAN = Source(
    "ZZ25",
    "Theorem 4.1, the mean of a Gaussian",
    SourceStatus.CHANGED_CONSTANTS,
    note="d / alpha^2 + d / (alpha mu) with constants",
)
_COVARIANCE = Source(
    "ZZ25",
    "Theorem 4.2, the covariance of a Gaussian",
    SourceStatus.CHANGED_CONSTANTS,
    note="d^2 / alpha^2 + d^2 / (alpha mu) with constants, to first order about the identity, "
    "after whitening",
)


MEAN_RATE, COVARIANCE_RATE = 8000, 1500


@states(_MEAN)
def records_for_mean(d: int, far: Any, mu: Any, alpha: Any, beta: Fraction) -> int:
    """Compute ``records_needed`` for a normal mean within ``far`` of the center.

    There p = d, L = 1, the radius is sqrt(2 d) + far, half of the records are inside, and the
    least variance inside is pi / 24 (``limits``). The number is at most MEAN_RATE (d / alpha^2
    + d / (alpha mu)) ln(1 / beta) for far = 1, beta <= 1/10.
    """
    radius = survival_radius(d, 1.0, float(far))
    return records_needed(d, radius, limits(mp.mpf(1) / 2).least, mu, alpha, beta)


@states(_COVARIANCE)
def covariance_curvature(d: int) -> Any:
    """Compute the least variance of tr(U x x^T), |U|_F = 1, for standard normal records with
    |x|^2 <= 2 d.

    U is along one pair of columns, along a difference of two squares, or along the identity.
    The first two give 2 E x_1^2 x_2^2, for the law is the same in all directions.
    """
    share, first, second = (below(d + 2 * k, mp.mpf(2 * d)) for k in range(3))
    cross, square = second / share, d * first / share
    trace = (d * (d + 2) * second / share - square**2) / d
    return min(2 * cross, trace)


@states(_COVARIANCE)
def records_for_covariance(d: int, mu: Any, alpha: Any, beta: Fraction) -> int:
    """Compute ``records_needed`` for the precision of nearly white normal records, halved, at the
    identity: p = d (d + 1) / 2, |x|^2 <= 2 d, so |x x^T| <= 2 d.

    At most COVARIANCE_RATE (d^2 / alpha^2 + d^2 / (alpha mu)) ln(1 / beta) for beta <= 1/10; and
    before that ``truncated_normals.rounds`` of whitening, each with noise of length nu from n of
    the order d^(3/2) / (nu mu) on.
    """
    p = d * (d + 1) // 2
    return records_needed(p, mp.mpf(2 * d), covariance_curvature(d), mu, alpha, beta)


@states(_MEAN, _COVARIANCE)
def obligation_rates(claimed: tuple[int, int] = (MEAN_RATE, COVARIANCE_RATE)) -> int:
    """Check that up to 400 columns, over five orders of alpha mu and beta down to 1e-12, both
    numbers are at most ``claimed`` times their rates, and for some half of that.

    From 200 columns to 400 they double and quadruple, to a tenth. The curvatures that are used
    are those of the laws, or less.
    """
    cases, nearest = 0, [mp.mpf(0)] * 2
    for mu, alpha, beta in product(("1", "0.01"), ("0.5", "0.01"), _RARELY):
        m, a = mp.mpf(mu), mp.mpf(alpha)
        before = [mp.mpf(1)] * 2
        for d in (1, 2, 10, 60, 200, 400):
            sizes = [records_for_mean(d, 1, m, a, beta), records_for_covariance(d, m, a, beta)]
            for k, most in enumerate(claimed):
                rate = sizes[k] / (d ** (k + 1) * (1 / a**2 + 1 / (a * m))) / mp.log(1 / real(beta))
                require(rate <= most, f"{d}, {mu}, {alpha}, {beta}: {rate}, {most}")
                nearest[k] = max(nearest[k], rate / most)
                grown = mp.log(sizes[k] / before[k], 2)
                require(d < 400 or abs(grown - k - 1) < mp.mpf("0.1"), f"{mu}, {alpha}: {grown}")
            before, cases = sizes, cases + 1
    for d in (1, 2, 10, 60):
        at = moment(d, mp.mpf(survival_radius(d, 1.0, 1.0)), mp.mpf(1), "mask")
        require(min(at.slope, at.ratio) >= limits(mp.mpf(1) / 2).least, f"{d}: {at}")
        require(covariance_curvature(d) > mp.mpf(1) / 4, f"{d}: {covariance_curvature(d)}")
    require(min(nearest) > mp.mpf("0.5"), f"the constants are too large: {nearest}")
    return cases


_RARELY = (Fraction(1, 10), Fraction(1, 10**12))
