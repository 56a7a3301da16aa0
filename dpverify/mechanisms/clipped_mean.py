"""``clipped_mean``: the mean of vectors, by one Gaussian release of their sum and number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpverify.grid import Count
from dpverify.grid.cells import floor_log2
from dpverify.grid.joint import WithCount
from dpverify.grid.vector_queries import MaskedSum, OneUnit, VectorQuery, VectorSum
from dpverify.plans import (
    UNIT,
    Abstained,
    Mechanism,
    NoNoise,
    Plan,
    RoundedGaussian,
    Stage,
    Transcript,
)
from dpverify.privacy import Adjacency
from dpverify.privacy.numbers import Exact, exact, whole

Floats = NDArray[np.float64]
_CELLS_PER_RADIUS = 20  # a cell is at most 2^-20 of the clip radius
_MATRIX_BITS = 12  # the public matrix is rounded to about so many bits


@dataclass(frozen=True, slots=True)
class VectorMeanEstimate:
    """A private mean of shape (d,), with the covariance of its (public) noise.

    ``value`` is in the data's units. ``count`` is the (noisy or public) number of records it rests on.
    The noise is that of the sum, ``spread`` times a standard normal vector (a number, or a (d, d)
    matrix), and that of the count along ``along``; neither contains the sampling error.
    """

    value: Floats
    count: float
    spread: float | Floats = field(repr=False)
    along: Floats = field(repr=False)

    @property
    def covariance(self) -> Floats:
        """Of the noise, shape (d, d)."""
        own = self.spread**2 * np.eye(len(self.value)) if isinstance(self.spread, float) else None
        mixed = own if own is not None else np.asarray(self.spread) @ np.asarray(self.spread).T
        total: Floats = mixed + np.outer(self.along, self.along)
        return total

    @property
    def standard_deviation(self) -> Floats:
        """Of the noise in each coordinate, shape (d,)."""
        if isinstance(self.spread, float):
            return np.asarray(np.hypot(self.spread, self.along))
        return np.asarray(np.hypot(np.linalg.norm(self.spread, axis=1), self.along))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClippedMean(Mechanism[VectorMeanEstimate]):
    """The mean of vectors clipped to, or counted in, a public ball or ellipsoid; Gaussian noise.

    Data: shape (n, d), d = len(center), in any unit. Output: ``VectorMeanEstimate``, or ``Abstained``
    when the released count is below ``at_least``. Claim: GaussianDP(1 / noise_multiplier) up to the
    grid's rounding, exact in every dimension, for both adjacencies.
    center, radius: the public ball, chosen without looking at the data; the best center is near the
    mean, the best radius about the typical distance from it.
    matrix: a public invertible (d, d) matrix A; the ball is then {x: |A (x - center)| <= radius} and the
    noise has covariance proportional to (A^T A)^-1. It is rounded to 12 bits; what counts is the
    rounded one.
    outside: what becomes of records outside: "clip" (moved to the boundary: the mean of the clipped
    records) or "mask" (left out: the mean of the records inside).
    count_weight: how many radii one record counts for in the joint release of sum and count; larger is
    more noise on the sum, less on the count. By default sqrt(3) for "mask" under replace, where
    the count is free; d^(-1/4) / sqrt(2) otherwise, near the best when the mean is well inside.
    at_least: abstain below this released count, by default 1.
    Under replace with "clip" the count is public and takes no noise.
    Errors: TypeError or ValueError for parameters and for data of another shape.
    Source: DRS22 (the Gaussian mechanism); ZZ25, Lemma 2.1, for which the masked joint release stands
    in (OURS).
    """

    center: tuple[float, ...]
    radius: float
    matrix: tuple[tuple[float, ...], ...] | None = None
    outside: Literal["clip", "mask"] = "clip"
    count_weight: Fraction | None = None
    at_least: int = 1

    def check_parameters(self) -> None:
        """A finite center, a positive radius, an invertible finite matrix, a positive weight."""
        object.__setattr__(self, "center", _finite(self.center, "center"))
        radius = exact(self.radius, "radius")
        if radius <= 0:
            raise ValueError(f"radius = {self.radius} is not positive; give a public radius > 0.")
        if self.matrix is not None:
            object.__setattr__(self, "matrix", _square(self.matrix, len(self.center)))
        if self.outside not in ("clip", "mask"):
            raise ValueError(f"outside = {self.outside!r}; write 'clip' or 'mask'.")
        if self.count_weight is not None:
            weight = exact(self.count_weight, "count_weight")
            if not 0 < weight <= 1000:
                raise ValueError(
                    f"count_weight = {self.count_weight} is outside (0, 1000]; try '1'."
                )
            object.__setattr__(self, "count_weight", weight)
        object.__setattr__(self, "at_least", whole(self.at_least, "at_least"))
        if self.at_least < 1:
            raise ValueError(f"at_least = {self.at_least}; a mean needs at least 1 record.")

    def columns(self) -> int:
        """The dimension."""
        return len(self.center)

    def replacement(self) -> float | tuple[float, ...]:
        """The center, which moves the sum least."""
        return self.center

    def plan(self) -> Plan:
        """The sum, with the count in the same value unless the count is public."""
        query = OneUnit(self._query(), self._scale())
        if self._counts_itself():
            return (Stage("sum and count", query, RoundedGaussian(UNIT)),)
        return (Stage("count", Count(), NoNoise()), Stage("sum", query, RoundedGaussian(UNIT)))

    def estimate(self, transcript: Transcript) -> VectorMeanEstimate | Abstained:
        """center + noisy sum / noisy count, moved into the ball."""
        cells = float(self._scale() / UNIT)
        if self._counts_itself():
            *total, counted = transcript.released["sum and count"]
            weight = self._weight()
            count = counted * cells / weight
            count_noise = float(self._scale()) / weight
        else:
            total, count, count_noise = list(transcript.released["sum"]), transcript["count"], 0.0
        if count < self.at_least:
            return Abstained(f"fewer than {self.at_least} records, by the released count")
        offset = np.array([float(v) for v in total]) * (cells / count)
        length = float(np.linalg.norm(offset))
        offset *= min(1.0, self._radius() / length) if length else 1.0
        back = self._back()
        along = back @ offset if isinstance(back, np.ndarray) else back * offset
        spread = back * (float(self._scale()) / count)
        value = np.array(self.center) + along
        return VectorMeanEstimate(value, float(count), spread, along * (count_noise / count))

    def minimum_n(self, *, beta: Exact = "1e-3") -> int:
        """The least n such that n records inside abstain with probability at most ``beta``."""
        allowed = exact(beta, "beta")
        if not 0 < allowed < 1:
            raise ValueError(f"beta = {beta} is outside (0, 1); give a probability, say '1e-3'.")
        if not self._counts_itself():
            return self.at_least
        noise, per_record = RoundedGaussian(UNIT), self._weight() * UNIT / self._scale()

        def enough(n: int) -> bool:
            """Whether n records reach ``at_least`` but for the noise; 1 for the grid's rounding."""
            return noise.falls_short(math.floor((n - self.at_least) * per_record) - 1, allowed)

        low, high = self.at_least - 1, self.at_least
        while not enough(high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high

    def fewest_records(self) -> int:
        """Under replace with "clip": ``at_least``, decided on the public number of records."""
        return 0 if self._counts_itself() else self.at_least

    def _counts_itself(self) -> bool:
        return self.outside == "mask" or self.adjacency is Adjacency.ADD_REMOVE

    def _query(self) -> VectorQuery:
        exponent, matrix = self._exponent(), self._integer_matrix()
        center = tuple(round(Fraction(c) / Fraction(2) ** exponent) for c in self.center)
        if self.outside == "mask":
            return MaskedSum(center, self._radius(), exponent, self._weight(), matrix)
        total = VectorSum(center, self._radius(), exponent, matrix)
        return WithCount(total, self._weight()) if self._counts_itself() else total

    def _scale(self) -> Fraction:
        """noise_multiplier times the query's sensitivity, to 2^-40 of it; in cells."""
        square = self._radius() ** 2
        moved = 4 * square if self.adjacency is Adjacency.REPLACE else 0
        if self._counts_itself() and not (moved and self.outside == "clip"):
            moved = max(moved, square + self._weight() ** 2)
        return self.noise_multiplier * Fraction(math.isqrt(moved << 80), 1 << 40)

    def _weight(self) -> int:
        """Of one record in the joint release, in cells."""
        radius = self._radius()
        if self.count_weight is not None:
            return max(1, round(self.count_weight * radius))
        if self.outside == "mask" and self.adjacency is Adjacency.REPLACE:
            return math.isqrt(3 * radius**2)
        return max(1, math.isqrt(math.isqrt(radius**4 // (4 * len(self.center)))))

    def _exponent(self) -> int:
        """The cell: at most 2^-20 of the radius, before and after the matrix."""
        target = exact(self.radius, "radius")
        if self.matrix is not None:
            size = sum(Fraction(entry) ** 2 for row in self.matrix for entry in row)
            target /= Fraction(math.isqrt(math.ceil(size * 2**40)) + 1, 2**20)
        return floor_log2(target) - _CELLS_PER_RADIUS

    def _radius(self) -> int:
        """The radius in cells, after the matrix."""
        cells = exact(self.radius, "radius") * Fraction(2) ** (self._shift() - self._exponent())
        return math.floor(cells)

    def _shift(self) -> int:
        """The matrix is multiplied by 2^shift before it is rounded to integers."""
        if self.matrix is None:
            return 0
        return _MATRIX_BITS - floor_log2(max(abs(Fraction(e)) for row in self.matrix for e in row))

    def _integer_matrix(self) -> tuple[tuple[int, ...], ...] | None:
        if self.matrix is None:
            return None
        unit = Fraction(2) ** self._shift()
        return tuple(tuple(round(Fraction(e) * unit) for e in row) for row in self.matrix)

    def _back(self) -> Any:
        """From cells, after the matrix, to the data's units: a number or a (d, d) matrix."""
        cell = math.ldexp(1.0, self._exponent())
        matrix = self._integer_matrix()
        if matrix is None:
            return cell
        inverse: Floats = np.linalg.inv(np.array(matrix, dtype=np.float64)) * cell
        return inverse


def _finite(values: Sequence[float], name: str) -> tuple[float, ...]:
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise TypeError(f"{name} = {values!r}; give a sequence of numbers, one for each column.")
    found = tuple(float(exact(float(value), name)) for value in values)
    if not found:
        raise ValueError(f"{name} is empty; give one number for each column.")
    return found


def _square(matrix: Sequence[Sequence[float]], d: int) -> tuple[tuple[float, ...], ...]:
    rows = tuple(_finite(row, "matrix") for row in matrix)
    if len(rows) != d or any(len(row) != d for row in rows):
        raise ValueError(f"matrix has another shape than ({d}, {d}); the center has {d} numbers.")
    if not any(entry for row in rows for entry in row):
        raise ValueError("matrix is zero; give an invertible matrix.")
    return rows
