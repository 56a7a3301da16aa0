"""Error of the location that private signs imply for normal records, beside the mean of all.

The signs are those of (record - location, h). The location that makes them even is the Cauchy
law's (KT91): the mean of psi(x) = x / (v + |x|^2) about it is 0, x in the coordinates in which the
covariance is the identity. Source: KT91; the rest is OURS, by Stein's identity.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy

from dpverify.privacy.numbers import Floats

_STEP = 0.25  # in ln t: the trapezoid rule is off by about exp(-pi^2 / 0.25), 1e-17
_LOW, _HIGH = -40.0, 8.0  # beyond, the integrand is below 1e-17 of the integral
_LEAST_SCATTER = 1e-3  # below that of every d


@dataclass(frozen=True, slots=True)
class SignLocation:
    """Law of the location of n standard normal records, after enough rounds.

    scatter: the multiple v of the covariance for which the signs take it. excess: n times the
    variance, in each coordinate, of (location without noise - mean of all records). left: the
    part of an earlier round's error that the next round leaves.
    """

    scatter: float
    excess: float
    left: float


@lru_cache(maxsize=64)
def sign_location(d: int) -> SignLocation:
    """Compute the law in d dimensions.

    v is where the signs are even: E |x|^2 / (v + |x|^2) = d / (d + 1), so E 1 / (v + |x|^2) = 1 /
    (v (d + 1)). By Stein E psi follows the mean of the records with the slope E x_1 psi_1 = 1 /
    (d + 1), and E |x|^2 / (v + |x|^2)^2 = d (1 - v) / (2 v (d + 1)), from the divergence of psi. So
    the location has n times the variance (d + 1) (1 - v) / (2 v), of which the mean of all records,
    which is efficient, has 1. A round moves the location by sqrt(v) (d + 3) times the signs' mean,
    which is an error times sqrt(v) / (d + 1): it takes v (d + 3) / (d + 1) of the error away.
    """
    t = np.exp(np.arange(_LOW, _HIGH, _STEP))
    weights = _STEP * t * np.exp(-d / 2 * np.log1p(2 * t))

    def uneven(v: float) -> float:
        # 1 / (v + |x|^2) is the integral of exp(-t (v + |x|^2)), |x|^2 being chi-square
        return v * float(weights @ np.exp(-v * t)) - 1 / (d + 1)

    v = float(scipy.optimize.brentq(uneven, _LEAST_SCATTER, 1.0, xtol=1e-14))
    return SignLocation(v, (d + 1) * (1 - v) / (2 * v) - 1, 1 - v * (d + 3) / (d + 1))


def noise_of_location(back: Floats, spectrum: Floats) -> Floats:
    """Compute the standard deviation of the location, over the constant h, by noise in the last
    signs' second moments, of deviation 1 on the diagonal and 1 / sqrt(2) above it.

    back: the way from the signs' eigenvectors to the records' coordinates and h, shape (k, k). The
    scatter is back diag(spectrum) back^T, and noise adds back N back^T to it, where N is (k + 2)
    times the spectrum's mean times that of the moments, to first order about even signs. The
    location is a quotient of two entries of it.
    """
    k, last = len(spectrum), back[-1]
    square = last**2 @ spectrum
    along = back[:-1] - ((back[:-1] * spectrum) @ last / square)[:, np.newaxis] * last
    both = (along**2).sum(axis=1) * (last @ last) + (along @ last) ** 2
    return np.asarray((k + 2) * spectrum.mean() * np.sqrt(both / 2) / square)
