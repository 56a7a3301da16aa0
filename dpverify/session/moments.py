"""Variances and covariances of columns with bounds, from a matrix of noisy moments."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpverify.estimation.answers import deviations_of_sum, tail_of
from dpverify.estimation.moment_matrices import MomentMatrixEstimate
from dpverify.privacy.numbers import Exact, Floats


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Deviation:
    """A private standard deviation of one column: the root of the released variance.

    Where noise made the variance negative the value is 0: the deviation cannot be told from
    noise, and ``interval`` says how large it may be. ``moments`` has the variance and the mean.
    """

    moments: Moments

    @property
    def value(self) -> float:
        """The standard deviation of the column; 0 where the released variance is not positive."""
        return math.sqrt(self.moments.value)

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of the noise, to first order in it; infinite where the value is 0."""
        value = self.value
        return float(self.moments.standard_deviation) / (2 * value) if value else math.inf

    def interval(self, level: Exact = 0.95) -> tuple[float, float]:
        """Compute (low, high): the roots of the ends of the variance's interval, with the same
        level.
        """
        low, high = self.moments.interval(level)
        return math.sqrt(low), math.sqrt(high)

    def to_dict(self) -> dict[str, Any]:
        """Return the deviation in plain JSON types."""
        return {"result": "Deviation", "moments": self.moments.to_dict()}

    def __repr__(self) -> str:
        return f"Deviation(value={self.value:.6g})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Moments:
    """A private variance of one column, or covariance matrix of several, of the records between
    the declared bounds.

    ``moments`` is the released matrix of moments, which answers more at no cost. The divisor is
    the number of records, not one less. A matrix may have negative eigenvalues, see ``positive``.
    ``standard_deviation`` and intervals are to first order in the noise.
    """

    moments: MomentMatrixEstimate

    @property
    def value(self) -> Any:
        """The variance, at least 0, or the covariance matrix, shape (d, d)."""
        matrix = self._matrix()
        return matrix if len(matrix) > 1 else max(0.0, float(matrix[0, 0]))

    @property
    def mean(self) -> Any:
        """The mean of the column, or of each of them, shape (d,)."""
        means = self.moments.mean
        return means if len(means) > 1 else float(means[0])

    @property
    def deviation(self) -> Any:
        """The standard deviation of the column, or of each of them, shape (d,); 0 where noise made
        its variance negative."""
        deviations = np.sqrt(np.maximum(np.diag(self._matrix()), 0.0))
        return deviations if len(deviations) > 1 else float(deviations[0])

    @property
    def standard_deviation(self) -> Any:
        """Standard deviation of the noise in each number of ``value``, to first order."""
        noise = self._noise()
        return noise if len(noise) > 1 else float(noise[0, 0])

    def interval(self, level: Exact = 0.95) -> tuple[Any, Any]:
        """Compute (low, high), for each number of ``value`` by itself, to first order in the
        noise."""
        tail = tail_of(level)  # a sum of Laplace noises is between one of them and a normal law
        times = deviations_of_sum(self.moments.noise, tail)
        reach = times * self._noise()
        low, high = self._matrix() - reach, self._matrix() + reach
        np.fill_diagonal(low, np.maximum(np.diag(low), 0.0))
        return (low, high) if len(low) > 1 else (float(low[0, 0]), max(0.0, float(high[0, 0])))

    def positive(self) -> Any:
        """Compute the nearest matrix without negative eigenvalues; it is biased where small ones
        are raised.
        """
        values, vectors = np.linalg.eigh(np.atleast_2d(self._matrix()))
        return vectors @ np.diag(np.maximum(values, 0.0)) @ vectors.T

    def to_dict(self) -> dict[str, Any]:
        """Return the moments in plain JSON types."""
        return {"result": "Moments", "moments": self.moments.to_dict()}

    def __repr__(self) -> str:
        rows = [[float(f"{one:.6g}") for one in row] for row in np.atleast_2d(self.value)]
        return f"Moments(value={rows if len(rows) > 1 else rows[0][0]})"

    def _matrix(self) -> Floats:
        own = self.moments
        means = (own.mean - own.middle) / own.half
        second = own.value[1:, 1:] / own.count
        with np.errstate(over="ignore"):
            return np.asarray((second - np.outer(means, means)) * np.outer(own.half, own.half))

    def _noise(self) -> Floats:
        return self.moments.covariance_deviation
