"""Results of releases of a shape: a covariance matrix up to its scale."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from dpverify.estimation.answers import Result, deviations, tail_of
from dpverify.estimation.clipping import finite
from dpverify.privacy.numbers import Exact, Floats, whole


@dataclass(frozen=True, slots=True)
class PrincipalComponents:
    """Directions of a shape, longest first.

    axes: shape (k, d), of length 1. shares: of the trace, shape (k,), and their ``errors`` by
    noise. angle: the approximate angle by which noise turns the space of all k, in radians (a
    standard deviation of the largest turn of one axis).
    """

    axes: Floats
    shares: Floats
    errors: Floats
    angle: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MatrixEstimate(Result):
    """A private positive definite matrix, of shape (d, d), with what follows from it.

    ``value`` = factor factor^T. In the coordinates in which it is the identity, noise adds a
    symmetric matrix, with standard deviation ``spread`` on its diagonal and spread / sqrt(2)
    above it. ``count`` is the (noisy or public) number of records that count. ``location``: the
    center of the law, shape (d,). Where it was estimated ``location_noise`` is the standard
    deviation of its noise in each coordinate, and ``location_cut`` that of what signs, clipping
    and rounding add to its distance from the mean of all records, if these are normal;
    ``location_deviation`` is of both. All three are None where the center is public.
    """

    value: Floats
    count: float
    spread: float
    factor: Floats = field(repr=False)
    location: Floats = field(repr=False)
    location_noise: Floats | None = field(default=None, repr=False)
    location_cut: Floats | None = field(default=None, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        d = len(self.value)
        own = (self.location, self.location_noise, self.location_cut)
        if self.value.shape != (d, d) or self.factor.shape != (d, d):
            raise ValueError(f"value or factor is no matrix of shape ({d}, {d}).")
        if any(one is not None and one.shape != (d,) for one in own):
            raise ValueError(f"location or its deviation is not of the shape ({d},).")

    @property
    def location_deviation(self) -> Floats | None:
        """Standard deviation of noise, signs and clipping in each coordinate of ``location``, to
        first order, for normal records, shape (d,); None where the center is public.
        """
        if self.location_noise is None or self.location_cut is None:
            return self.location_noise
        with np.errstate(over="ignore"):
            return finite(np.hypot(self.location_noise, self.location_cut))

    @property
    def shape_deviation(self) -> Floats:
        """Standard deviation of the noise in each entry, to first order, shape (d, d)."""
        own = np.sqrt((1 + self.correlation**2) / 2)
        return np.asarray(self.spread * own * self._sizes)

    @property
    def _sizes(self) -> Floats:
        """The entries that a correlation of 1 would have, shape (d, d); infinite beyond every
        float.
        """
        with np.errstate(over="ignore"):
            return np.asarray(np.outer(self._lengths, self._lengths))

    @property
    def _lengths(self) -> Floats:
        """Standard deviation of each column, shape (d,); its square need not be a float."""
        largest = np.abs(self.factor).max(axis=1)
        return np.asarray(largest * np.linalg.norm(self.factor / largest[:, np.newaxis], axis=1))

    @property
    def correlation(self) -> Floats:
        """The correlation matrix, shape (d, d): it needs no scale."""
        rows = self.factor / self._lengths[:, np.newaxis]
        return np.asarray(rows @ rows.T)

    @property
    def correlation_deviation(self) -> Floats:
        """Standard deviation of the noise in each correlation r, to first order: spread (1 -
        r^2) / sqrt(2), shape (d, d).
        """
        return np.asarray(self.spread * (1 - self.correlation**2) / math.sqrt(2))

    @property
    def precision(self) -> Floats:
        """The inverse matrix, shape (d, d); with infinities where it is beyond every float."""
        inverse = np.linalg.inv(self.factor)
        size = np.abs(inverse).max()
        with np.errstate(over="ignore"):
            return np.asarray((inverse / size).T @ (inverse / size) * size * size)

    def principal_components(self, k: int) -> PrincipalComponents:
        """Return the k longest axes. Raises ValueError where noise and sampling hide which
        directions these are.

        They do so where the k-th eigenvalue is not above the next one by three deviations of
        their difference: of the noise, and of the sampling of ``count`` records (to first order
        2 (d + 2) / (d count) in its relative square).
        """
        d = len(self.value)
        if not 1 <= whole(k, "k") <= d:
            raise ValueError(f"k = {k}; give a number of axes from 1 to {d}.")
        left, singular, _ = np.linalg.svd(self.factor)
        lengths = singular**2
        relative = math.hypot(self.spread, math.sqrt(2 * (d + 2) / (d * self.count)))
        if k < d and np.diff(-lengths)[k - 1] <= 3 * relative * math.hypot(*lengths[k - 1 : k + 1]):
            raise ValueError(
                f"k = {k}: axes {k} and {k + 1} have shares {lengths[k - 1] / lengths.sum():.3g} "
                f"and {lengths[k] / lengths.sum():.3g}, which noise and sampling do not tell "
                "apart. Give another k, or a larger budget."
            )
        inside, outside = lengths[:k, np.newaxis], lengths[np.newaxis, k:]
        turns = np.sqrt(inside * outside) / (inside - outside) if k < d else np.zeros((k, 1))
        shares = lengths[:k] / lengths.sum()
        errors = self.spread * shares * (1 - shares)
        angle = self.spread / math.sqrt(2) * float(np.sqrt((turns**2).sum(axis=1)).max())
        return PrincipalComponents(left[:, :k].T, shares, errors, angle)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ShapeEstimate(MatrixEstimate):
    """A private shape: a positive definite matrix, of determinant 1, of shape (d, d)."""

    @property
    def standard_deviation(self) -> Floats:
        """Standard deviation of the noise in each entry, to first order, shape (d, d)."""
        return self.shape_deviation

    def interval(self, level: Exact = 0.95) -> tuple[Floats, Floats]:
        """Return (low, high), each of shape (d, d): an interval for each entry of the shape
        without noise, to first order.

        Raises TypeError or ValueError for a level outside (0, 1).
        """
        reach = deviations("gaussian", tail_of(level)) * self.standard_deviation
        return self.value - reach, self.value + reach


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Concentrated(Result):
    """Result where there is no shape: some directions have far more, or far less, of the
    records' signs than their part.

    Copies, sparse or constant columns do that, and so does a matrix that needs more rounds or
    more records. ``value``: of each such direction d times its share of the signs after the
    last map, shape (k,); 0 where the noise hides it. ``directions``: what is measured there, as
    functions of a record, of length 1, shape (k, d). ``columns``: the column that counts most
    in each.
    """

    value: Floats
    count: float
    columns: tuple[int, ...]
    directions: Floats = field(repr=False)

    @classmethod
    def of(cls, shares: Floats, count: float, along: Floats) -> Self:
        """Build the result from functions of a record of any length, shape (k, d)."""
        far = np.abs(along).max(axis=1, keepdims=True)  # scale first, because squares may overflow
        scaled = np.divide(along, far, out=np.zeros_like(along), where=far > 0)
        length = np.linalg.norm(scaled, axis=1, keepdims=True)
        directions = np.divide(scaled, length, out=scaled, where=length > 0)
        columns = tuple(int(j) for j in np.abs(directions).argmax(axis=1))
        return cls(shares, count, columns, directions)

    def interval(self, level: Exact = 0.95) -> None:
        """Return None: which directions these are follows from the data."""
        tail_of(level)
