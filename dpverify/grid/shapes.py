"""Public matrices that records are rescaled by, and public radii: floats that decide accuracy alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.nearness import Nearness, by_column, by_matrix

Floats = NDArray[np.float64]
Numbers = tuple[float, ...]
Matrix = tuple[Numbers, ...]
_LARGEST_RATIO = 1e24
_STEPS = 200


@dataclass(frozen=True, slots=True)
class Shape:
    """The map x -> M^(-1/4) x of a public positive definite M, and how to come back.

    scales: M^(-1/4) for a diagonal M; rows: for any other.
    """

    scales: Numbers
    rows: Matrix | None

    @property
    def columns(self) -> int:
        """The dimension."""
        return len(self.scales) if self.rows is None else len(self.rows)

    def nearness(self, radius: Fraction) -> Nearness:
        """Friends where |M^(-1/4) (x - x')| <= radius, on the public grid."""
        return _nearness(self, radius)

    def back(self, images: Floats, nearness: Nearness) -> Floats:
        """From cells of an image (shape (..., d)) to the data's units: post-processing."""
        with np.errstate(all="ignore"):
            if self.rows is None:
                return np.asarray(np.ldexp(images, nearness.exponent) / np.array(self.scales))
            return np.asarray(np.ldexp(images @ _inverse(nearness).T, nearness.exponent))


def shape_of(matrix: Any) -> tuple[Numbers | Matrix, Shape]:
    """M as tuples, and its map. matrix: the diagonal, shape (d,), or the matrix, shape (d, d).

    Raises TypeError or ValueError unless it is symmetric and positive definite.
    """
    array = _real(matrix)
    if array.ndim == 1:
        diagonal: Numbers = tuple(array.tolist())
        if not diagonal or not min(diagonal) > 0:
            raise ValueError("matrix: a diagonal of M needs d >= 1 positive numbers.")
        _check_ratio(min(diagonal), max(diagonal))
        # two square roots: by IEEE 754 the same scales on every machine, as no power would be
        return diagonal, Shape(tuple((1 / np.sqrt(np.sqrt(array))).tolist()), None)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or not array.size:
        raise ValueError(
            f"matrix of shape {array.shape}; give M as (d, d), or its diagonal as (d,)."
        )
    if not np.array_equal(array, array.T):
        raise ValueError("matrix is not symmetric; give (M + M.T) / 2.")
    _require_positive_definite(array)
    values, vectors = np.linalg.eigh(array)
    _check_ratio(float(values[0]), float(values[-1]))
    root = (vectors * values**-0.25) @ vectors.T
    rows = tuple(tuple(row) for row in array.tolist())
    return rows, Shape((), tuple(tuple(row) for row in root.tolist()))


def spectrum(covariance: Any) -> Floats:
    """The eigenvalues of a public covariance, given as a diagonal or a matrix."""
    array = _real(covariance)
    return array if array.ndim == 1 else np.asarray(np.linalg.eigvalsh(array))


def tail_radius(eigenvalues: Floats, rare: float) -> float:
    """r with P(|g| > r) <= rare for every sub-Gaussian g of this covariance proxy's eigenvalues.

    Chernoff: r^2 = inf over s of (ln(1 / rare) - 1/2 sum ln(1 - 2 s a)) / s, for E exp(s |g|^2) is at
    most that of the Gaussian vector (average exp(<h, g>) over Gaussian h first).
    """
    a = eigenvalues / eigenvalues.max()
    log = math.log(1 / rare)

    def square(s: float) -> float:
        return float((log - np.log1p(-2 * s * a).sum() / 2) / s)

    low, high = 1e-9, 0.5 * (1 - 1e-9)
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(_STEPS):
        left, right = high - golden * (high - low), low + golden * (high - low)
        if square(left) < square(right):
            high = right
        else:
            low = left
    return math.sqrt(square((low + high) / 2) * float(eigenvalues.max()))


def _real(matrix: Any) -> Floats:
    try:
        array = np.array(matrix, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError("matrix: give numbers, the diagonal of M as (d,) or M as (d, d).") from None
    if not np.isfinite(array).all():
        raise ValueError("matrix has a number that is not finite; give finite numbers.")
    return array


def _check_ratio(least: float, most: float) -> None:
    if not least > 0 or most / least > _LARGEST_RATIO:
        raise ValueError(
            f"matrix: its eigenvalues reach from {least:.3g} to {most:.3g}, too far for one grid; "
            "raise the smallest ones (M + eta I costs little accuracy)."
        )


def _require_positive_definite(array: Floats) -> None:
    """If a float Cholesky decomposition of M - c I succeeds, with c = 2 (d + 2) eps trace, M is positive
    definite: the decomposition is exact for a matrix that is off by less than c (Rump, 2006)."""
    d = len(array)
    shift = 2 * (d + 2) * float(np.finfo(np.float64).eps) * float(np.abs(array.diagonal()).sum())
    try:
        np.linalg.cholesky(array - shift * np.eye(d))
    except np.linalg.LinAlgError:
        least = float(np.linalg.eigvalsh(array)[0])
        raise ValueError(_NOT_POSITIVE.format(f"{least:.3g}")) from None


_NOT_POSITIVE = (
    "matrix is not positive definite, or not by enough to tell: its least eigenvalue is {}. Project "
    "the data on the range of a singular covariance, or add a floor: M + eta I."
)


@lru_cache(maxsize=16)
def _nearness(shape: Shape, radius: Fraction) -> Nearness:
    if shape.rows is None:
        return by_column(shape.scales, radius)
    return by_matrix(shape.rows, radius)


@lru_cache(maxsize=16)
def _inverse(nearness: Nearness) -> Floats:
    """Of C / 2^shift: from cells of y to cells of x."""
    matrix = np.array(nearness.matrix, dtype=np.float64)
    found: Floats = np.asarray(np.linalg.inv(matrix) * 2.0**nearness.shift, dtype=np.float64)
    found.flags.writeable = False
    return found
