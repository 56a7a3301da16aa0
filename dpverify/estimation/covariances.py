"""Results of releases of a covariance matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from dpverify.estimation.answers import deviations, tail_of
from dpverify.estimation.shapes import MatrixEstimate
from dpverify.privacy.numbers import Exact, Floats, whole

TYPICAL_BEYOND = 0.1
"""Share of normal records beyond the ball that a fit expects nine tenths in."""
_FAR = 4  # standard deviations of noise and sampling
_BIAS = 0.02  # bias that clipping and rounding of a good fit may leave


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CovarianceEstimate(MatrixEstimate):
    """A private covariance matrix: positive definite, of shape (d, d), in squared units of the
    data.

    ``value`` = factor factor^T. In the coordinates in which it is the identity, noise adds a
    symmetric matrix, with standard deviation ``spread`` on its diagonal and spread / sqrt(2)
    above it, but ``trace_spread`` in place of ``spread`` along the identity. What clipping adds
    to the error beside the second moments of all records, if these are normal, is such a matrix
    with ``cut`` and ``trace_cut`` in place of these; the deviations and the interval contain
    both. ``count``: the (noisy or public) number of records. ``location``: the center, shape
    (d,), with ``location_deviation`` if it was estimated. ``beyond``: the (noisy) share of records
    outside the ellipsoid that holds nine tenths of a normal law with this covariance, and
    ``beyond_deviation`` of its noise (None where it was not asked). ``certificate``: factors
    (low, high) with low * value <= covariance <= high * value, see ``GaussianCovariance``.
    """

    trace_spread: float = 0.0
    beyond: float | None = None
    beyond_deviation: float | None = None
    certificate: tuple[float, float] | None = None
    cut: float = field(default=0.0, repr=False, kw_only=True)
    trace_cut: float = field(default=0.0, repr=False, kw_only=True)

    @property
    def standard_deviation(self) -> Floats:
        """Standard deviation of noise and clipping in each entry, to first order, shape (d, d)."""
        return self._relative * self._sizes

    @property
    def _relative(self) -> Floats:
        """The standard deviation of noise and clipping in each entry, where all columns have
        the deviation 1.
        """
        square = self.correlation**2
        across = self.spread**2 + self.cut**2
        along = (self.trace_spread**2 + self.trace_cut**2 - across) * square / len(self.value)
        return np.asarray(np.sqrt(np.maximum(across * (1 + square) / 2 + along, 0)))

    @property
    def deviations(self) -> Floats:
        """Standard deviation of each column, shape (d,)."""
        return self._lengths

    @property
    def deviations_noise(self) -> Floats:
        """Standard deviation of noise and clipping in ``deviations``, to first order, shape
        (d,).
        """
        return np.asarray(np.diag(self._relative) / 2 * self._lengths)

    @property
    def log_determinant(self) -> float:
        """Logarithm of the determinant of the covariance."""
        return float(2 * np.linalg.slogdet(self.factor)[1])

    @property
    def total_variation(self) -> float:
        """Bound on the total variation between the fit and the fit without noise, sqrt(KL / 2),
        to first order.

        The bound is by Pinsker, in the root mean square of the noise, without sampling error.
        """
        d = len(self.value)
        square = (d * (d + 1) / 2 - 1) * self.spread**2 + self.trace_spread**2
        if self.location_noise is not None:
            one = self.location_noise / np.linalg.norm(self.factor, axis=1)
            square += 2 * d * float(np.median(one)) ** 2
        return math.sqrt(square / 8)

    @property
    def looks_normal(self) -> bool | None:
        """Test of normality: as many records are far out as of a normal law, up to noise,
        sampling and 2%; None if not asked.

        A fit to records that are not normal is calibrated at the normal law, so its ellipsoids
        contain other shares than they say.
        """
        if self.beyond is None or self.beyond_deviation is None:
            return None
        sampling = TYPICAL_BEYOND * (1 - TYPICAL_BEYOND) / max(self.count, 1)
        around = _FAR * math.hypot(self.beyond_deviation, math.sqrt(sampling)) + _BIAS
        return abs(self.beyond - TYPICAL_BEYOND) <= around

    def sample(self, size: int, rng: np.random.Generator | None = None) -> Floats:
        """Draw records of the normal law that was fitted, shape (size, d): public, and free of
        charge.
        """
        own = np.random.default_rng() if rng is None else rng
        normal = own.standard_normal((whole(size, "size"), len(self.value)))
        return np.asarray(self.location + normal @ self.factor.T)

    def interval(self, level: Exact = 0.95) -> tuple[Floats, Floats]:
        """Return (low, high), each of shape (d, d): an interval for each entry of the
        covariance without noise and clipping, to first order.

        Raises TypeError or ValueError for a level outside (0, 1).
        """
        reach = deviations("gaussian", tail_of(level)) * self.standard_deviation
        return self.value - reach, self.value + reach
