"""Fits of normal laws to noisy second moments of clipped or masked records, and the errors of
these fits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
import scipy

from dpverify.estimation.clip_bounds import How, expected_error
from dpverify.estimation.clip_schedule import in_units
from dpverify.estimation.sign_rounds import symmetric
from dpverify.families.clipped_moments import (
    clipped_inverse,
    clipped_spectrum,
    masked_inverse,
    masked_moments,
)
from dpverify.grid.linear import Integers
from dpverify.grid.masks import Row
from dpverify.grid.outer_products import DIAGONAL, OFF_DIAGONAL
from dpverify.privacy.numbers import Floats

_SMALL = 1e-4  # relative change for derivatives: its second order is 1e-8
_OCTAVE = 8  # bounds in an octave
_BOUNDS = range(-3 * _OCTAVE, 6 * _OCTAVE)


@dataclass(frozen=True)
class Fit:
    """Normal law in the coordinates of a map, in units of the ball's radius.

    Its covariance has these ``variances`` along ``vectors`` (columns). outside: as for ``fitted``.
    """

    variances: Floats
    vectors: Floats
    values: Floats
    outside: How

    @cached_property
    def spreads(self) -> tuple[float, float]:
        """The standard deviation, relative to the covariance, of the change by noise of one
        squared radius on the diagonal, off and along the identity.
        """
        d = len(self.variances)
        across, along = responses(d, d / float(self.variances.sum()), self.outside)
        return 1 / across, 1 / along

    @property
    def factor(self) -> Floats:
        """A matrix F with F F^T the covariance, shape (d, d)."""
        return np.asarray(self.vectors * np.sqrt(self.variances))


def fitted(seen: Row, d: int, precision: int, floor: float, outside: How) -> Fit | None:
    """Find the normal law whose records, clipped to the unit ball or masked, have these second
    moments.

    seen: in 2^-precision, on and above the diagonal. floor: the least eigenvalue. None where
    the trace is not positive.
    """
    moments = np.ldexp(symmetric(seen, d), -precision)
    if not np.trace(moments) > 0:
        return None
    values, vectors = np.linalg.eigh(moments)
    inverse = clipped_inverse if outside == "clip" else masked_inverse
    own = np.asarray(inverse(values, 1.0, min(floor, 1 / (4 * d))).variances)
    return Fit(own, vectors, values, outside)


@lru_cache(maxsize=256)
def responses(d: int, bound: float, outside: How) -> tuple[float, float]:
    """Compute the derivatives of second moments by a relative change of an identity covariance,
    off and along the identity.

    In squared radii of the ball; ``bound`` is its squared radius in deviations.
    """
    moments = clipped_spectrum if outside == "clip" else masked_moments
    spectrum = np.ones(d)
    more = spectrum.copy()
    more[0] += _SMALL
    change = (moments(more, bound) - moments(spectrum, bound)) / (_SMALL * bound)
    across = float(change[0] - change[1]) if d > 1 else float(change[0])
    return across, float(change.sum())


def of_identity(d: int, bound: float, outside: How) -> tuple[float, float]:
    """Compute the trace of the moments of standard normal records that count, in squared radii,
    and the share of the records that count.
    """
    moments = clipped_spectrum if outside == "clip" else masked_moments
    share = 1.0 if outside == "clip" else _below(d, bound)
    return float(moments(np.ones(d), bound).sum()) / bound, share


def per_record(
    values: Integers, d: int, unit: Fraction, numbers: Floats, precision: int
) -> Integers:
    """Divide released second moments by those of records that fill the ball, in 2^-precision,
    to the nearest integers.

    values: shape (size, d (d + 1) / 2 or more), each ``unit`` records along an axis. numbers:
    how many records there are, positive, shape (size,). Of shape (size, d (d + 1) / 2), cut at
    4.
    """
    width = d * (d + 1) // 2
    ratio = np.array([1.0] * d + [DIAGONAL / OFF_DIAGONAL] * (width - d))
    return quotients(in_units(values[:, :width], unit) * ratio, numbers, precision)


def quotients(values: Floats, by: Floats, precision: int) -> Integers:
    """Divide each row by a positive number, in 2^-precision, to the nearest integers, cut at 4
    on either side.
    """
    shown = np.clip(values / by[:, np.newaxis], -4, 4)
    rounded: Integers = np.rint(np.ldexp(shown, precision)).astype(np.int64)
    return rounded


# --- lengths ------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def length_within(d: int, share: float) -> float:
    """Compute the length that this share of d-dimensional standard normal records does not
    exceed.
    """
    return math.sqrt(2 * float(scipy.special.gammaincinv(d / 2, share)))


@lru_cache(maxsize=256)
def best_bound(d: int, n: float, mu: float, moves: int, outside: How, weight: float) -> float:
    """Choose the squared length of standard normal records at which to clip, or to leave out,
    for the least error.

    On a public grid, d 2^(k / 8), so that rounding changes it nowhere. The other parameters are
    those of ``expected_error``.
    """

    def error(bound: float) -> float:
        return expected_error(d, n, mu, moves, bound, outside, weight)

    return min(_bounds(d), key=error)


@lru_cache(maxsize=256)
def best_mean_bound(d: int, n: float, mu: float, moves: int) -> float:
    """Choose the squared length at which to clip records for their mean, on the same grid.

    E clip(y + m) = a m to first order, a = E[min(1, r / |y|)] for |y|^2 chi-square of d + 2
    degrees (Stein); the error is sqrt(E min(|y|^2, r^2) / n + d s^2) / a, s = 2 r / (n mu), or
    half of it where a record comes or goes.
    """
    moved = 4 if moves == 2 else 1

    def square(bound: float) -> float:
        sampling = d * _below(d + 2, bound) + bound * (1 - _below(d, bound))
        noise = d * moved * bound / (n * mu) ** 2
        return (sampling / n + noise) / mean_response(d, bound) ** 2

    return min(_bounds(d), key=square)


def _bounds(d: int) -> list[float]:
    return [float(d * 2.0 ** (k / _OCTAVE)) for k in _BOUNDS]


def mean_response(d: int, bound: float) -> float:
    """Compute a = E[min(1, r / |y|)], |y|^2 chi-square of d + 2 degrees: the derivative of a
    clipped mean by the mean, at 0.

    E[1 / |y|; |y|^2 > bound] = (Gamma((d + 1) / 2) / (sqrt(2) Gamma((d + 2) / 2))) P(chi-square
    of d + 1 degrees > bound).
    """
    inverse = math.exp(math.lgamma((d + 1) / 2) - math.lgamma((d + 2) / 2)) / math.sqrt(2)
    return _below(d + 2, bound) + math.sqrt(bound) * inverse * (1 - _below(d + 1, bound))


def _below(degrees: int, bound: float) -> float:
    return float(scipy.special.gammainc(degrees / 2, bound / 2))


@lru_cache(maxsize=256)
def rarely_longer(d: int, n: float, beta: float) -> float:
    """Compute a length beyond which one of n standard normal records is with probability at
    most ``beta``.

    Source: the chi-square tail of Laurent and Massart.
    """
    level = math.log(n / beta)
    return math.sqrt(d + 2 * math.sqrt(d * level) + 2 * level)


def sandwich(
    values: Floats, n: float, noise: float, beta: float, of_number: float = 0.0
) -> tuple[float, float]:
    """Bound the eigenvalues of a covariance by those of noisy second moments of n normal
    records about their mean.

    The bounds hold except with probability ``beta``, of which a third is for the noise, one for
    the noise of the number that divides, and one for sampling. Where records were clipped, the
    lower bound still holds. noise: the deviation of a diagonal entry's noise. of_number: that
    of the number, over n. A symmetric noise matrix is longer than noise (sqrt(2 d) + sqrt(2
    ln(2 / b))) with probability at most b, and the second moments of white records are within 1
    -+ (2 e + e^2), e = sqrt(d / n) + sqrt(2 ln(2 / b) / n) (Gordon; Davidson and Szarek).
    """
    d, level = len(values), 2 * math.log(6 / beta)
    far = noise * (math.sqrt(2 * d) + math.sqrt(level))
    root = math.sqrt(d / n) + math.sqrt(level / n)
    off = 2 * root + root**2
    more = of_number * math.sqrt(level)
    low = max(0.0, (float(values.min()) - far) / ((1 + off) * (1 + more)))
    if off >= 1 or more >= 1:
        return low, math.inf
    return low, (float(values.max()) + far) / ((1 - off) * (1 - more))
