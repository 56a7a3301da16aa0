"""Variances and covariances of columns with bounds: noisy means of first and second moments of each
record."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpverify.estimation.answers import deviations, tail_of
from dpverify.estimation.results import VectorMeanEstimate
from dpverify.privacy.numbers import Exact, Floats

_MOST = 64  # columns, of which there are 2144 moments
_WIDEST = 2.0**480  # the square of it, times the noise of a few records, is a float


@dataclass(frozen=True, slots=True)
class Features:
    """A public function of one record: z_i = (x_i - middle_i) / half_i, and all products z_i z_j
    with i <= j.

    Records are within the bounds middle -+ half, so that z is within [-1, 1] but for rounding.
    only: the place of a single one of these moments, which is then all that is given; None: all.
    """

    middle: tuple[float, ...]
    half: tuple[float, ...]
    only: int | None = None

    def __post_init__(self) -> None:
        if len(self.half) > _MOST:
            raise ValueError(
                f"{len(self.half)} columns have {len(self.center)} moments; ask for at most "
                f"{_MOST} columns at once."
            )
        if not all(1 / _WIDEST <= half <= _WIDEST for half in self.half):
            raise ValueError(
                "The declared bounds of a column are too near each other, or too far apart, for the "
                "squares of its values to be floats; take another unit."
            )

    def __call__(self, records: Floats) -> Floats:
        """Compute the moments of each record by itself, shape (n, d + d (d + 1) / 2)."""
        z = np.clip((records - np.array(self.middle)) / np.array(self.half), -1.0, 1.0)
        left, right = np.triu_indices(len(self.half))
        found = np.hstack([z, z[:, left] * z[:, right]])
        return found if self.only is None else found[:, self.only : self.only + 1]

    @property
    def center(self) -> list[float]:
        """The middle of what the moments can be: 1/2 for squares, 0 for all others."""
        left, right = np.triu_indices(len(self.half))
        return [0.0] * len(self.half) + [
            0.5 if i == j else 0.0 for i, j in zip(left, right, strict=True)
        ]

    @property
    def radius(self) -> float:
        """Bound on how far a record's moments are from the center: |z|^2 and the squares' halves
        and the products."""
        d = len(self.half)
        return math.sqrt(d + d / 4 + d * (d - 1) / 2) * (1 + 2.0**-20)

    @property
    def words(self) -> str:
        """The function in words."""
        said = f"the {len(self.half)} columns about {self.middle} in units of {self.half}, and their products"
        return said if self.only is None else f"moment {self.only} of {said}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Deviation:
    """A private standard deviation of one column: the root of the released variance.

    Where noise made the variance negative the value is 0: nothing larger than the noise was found,
    and ``interval`` says how large the deviation may be. ``moments`` has the variance and the mean.
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
        """Compute (low, high): the roots of the variance's interval, which holds as often."""
        low, high = self.moments.interval(level)
        return math.sqrt(low), math.sqrt(high)

    def to_dict(self) -> dict[str, Any]:
        """Give it in plain JSON types."""
        return {"result": "Deviation", "moments": self.moments.to_dict()}

    def __repr__(self) -> str:
        return f"Deviation(value={self.value:.6g})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Moments:
    """A private variance of one column, or covariance matrix of several, of the records between the
    declared bounds.

    ``moments`` are the released means of what ``features`` makes of a record. The divisor is the
    number of records, not one less. A matrix may have negative eigenvalues, see ``positive``.
    ``standard_deviation`` and intervals are to first order in the noise.
    """

    moments: VectorMeanEstimate
    features: Features

    @property
    def value(self) -> Any:
        """The variance, at least 0, or the covariance matrix, shape (d, d)."""
        found = self._matrix()
        return found if len(found) > 1 else max(0.0, float(found[0, 0]))

    @property
    def mean(self) -> Any:
        """The mean of the column, or of each of them, shape (d,)."""
        d, half = len(self.features.half), np.array(self.features.half)
        found = np.array(self.features.middle) + half * self.moments.value[:d]
        return found if d > 1 else float(found[0])

    @property
    def deviation(self) -> Any:
        """The standard deviation of the column, or of each of them, shape (d,); 0 where noise made
        its variance negative."""
        found = np.sqrt(np.maximum(np.diag(self._matrix()), 0.0))
        return found if len(found) > 1 else float(found[0])

    @property
    def standard_deviation(self) -> Any:
        """Standard deviation of the noise in each number of ``value``, to first order."""
        found = self._noise()
        return found if len(found) > 1 else float(found[0, 0])

    def interval(self, level: Exact = 0.95) -> tuple[Any, Any]:
        """Compute (low, high), for each number of ``value`` by itself, to first order in the
        noise."""
        reach = deviations(self.moments.noise, tail_of(level)) * self._noise()
        low, high = self._matrix() - reach, self._matrix() + reach
        np.fill_diagonal(low, np.maximum(np.diag(low), 0.0))
        return (low, high) if len(low) > 1 else (float(low[0, 0]), max(0.0, float(high[0, 0])))

    def positive(self) -> Any:
        """Compute the nearest matrix without negative eigenvalues; small ones are raised, so it is
        biased there."""
        values, vectors = np.linalg.eigh(np.atleast_2d(self._matrix()))
        return vectors @ np.diag(np.maximum(values, 0.0)) @ vectors.T

    def to_dict(self) -> dict[str, Any]:
        """Give it in plain JSON types."""
        own = {"middle": list(self.features.middle), "half": list(self.features.half)}
        return {"result": "Moments", "moments": self.moments.to_dict(), **own}

    def __repr__(self) -> str:
        rows = [[float(f"{one:.6g}") for one in row] for row in np.atleast_2d(self.value)]
        return f"Moments(value={rows if len(rows) > 1 else rows[0][0]})"

    def _matrix(self) -> Floats:
        d, half = len(self.features.half), np.array(self.features.half)
        means, second = self.moments.value[:d], np.zeros((d, d))
        second[np.triu_indices(d)] = self.moments.value[d:]
        second = np.triu(second) + np.triu(second, 1).T
        return np.asarray((second - np.outer(means, means)) * np.outer(half, half))

    def _noise(self) -> Floats:
        """By the slopes of z_ij - z_i z_j, and the moments' covariance."""
        d, half = len(self.features.half), np.array(self.features.half)
        means, covariance = self.moments.value[:d], self.moments.covariance
        found = np.zeros((d, d))
        for place, (i, j) in enumerate(zip(*np.triu_indices(d), strict=True)):
            slope = np.zeros(len(covariance))
            slope[d + place] = 1.0
            slope[i] -= means[j]
            slope[j] -= means[i]
            found[i, j] = found[j, i] = math.sqrt(max(0.0, float(slope @ covariance @ slope)))
        return np.asarray(found * np.outer(half, half))
