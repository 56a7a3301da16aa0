"""Public matrices that records are rescaled by, and public radii: floats that affect only
accuracy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from dpverify.grid.nearness import Nearness, by_column, by_matrix
from dpverify.privacy.numbers import Floats

Numbers = tuple[float, ...]
Matrix = tuple[Numbers, ...]
_LARGEST_RATIO = 1e24
_ZERO, _POSITIVE = 1e-11, 1e-9  # eigenvalues of a singular M, against the largest
_STEPS = 200
ROUNDING = Fraction(1, 2**20)
"""Bound on the asymmetry that rounding leaves in a matrix: |m_jk - m_kj| <= 2^-20 sqrt(|m_jj
m_kk|).

Rounding to single precision stays below. A matrix that is asymmetric by more was mistyped, or
is the inverse of a matrix so nearly singular that its digits are noise; it is refused.
"""


@dataclass(frozen=True, slots=True)
class Shape:
    """The map x -> M^(-1/4) x of a public positive definite M, and how to come back.

    scales: M^(-1/4) for a diagonal M; rows: for any other. origin: for a singular M, whose
    inverse is then the pseudoinverse, the public point's component that the map does not see;
    rank: of M.
    """

    scales: Numbers
    rows: Matrix | None
    rank: int
    origin: Numbers | None = None

    def __hash__(self) -> int:
        """Hash a part: a matrix is long, and a map is looked up again and again."""
        return hash((self.scales, self.rows and self.rows[0], self.rank))

    @property
    def columns(self) -> int:
        """The dimension."""
        return len(self.scales) if self.rows is None else len(self.rows)

    def nearness(self, radius: Fraction) -> Nearness:
        """Return the friends by |M^(-1/4) (x - x')| <= radius, on the public grid."""
        return _nearness(self, radius)

    def back(self, images: Floats, nearness: Nearness) -> Floats:
        """Convert cells of an image (shape (..., d)) to the data's units: post-processing."""
        with np.errstate(all="ignore"):
            if self.rows is None:
                return np.asarray(np.ldexp(images, nearness.exponent) / np.array(self.scales))
            return np.asarray(np.ldexp(images @ _inverse(nearness, self.rank).T, nearness.exponent))

    def place(self, images: Floats, nearness: Nearness) -> Floats:
        """Return ``back`` for a point: with its public component outside the range of a
        singular M.
        """
        return self.back(images, nearness) + (0.0 if self.origin is None else np.array(self.origin))


def shape_of(matrix: Any, origin: Any = None) -> tuple[Numbers | Matrix, Shape]:
    """Return M as tuples, and its map. matrix: the diagonal, shape (d,), or the matrix, shape
    (d, d).

    origin: a public point of the plane that the data lie in, shape (d,), where M is singular.
    Raises TypeError or ValueError unless M is symmetric and positive definite, or semidefinite
    with an origin.
    """
    known = _known.get(id(matrix))
    plain = origin is None or isinstance(origin, tuple)
    if known is not None and known[0] is matrix and plain and known[2] == origin:
        return known[:2]
    array = _real(matrix)
    if array.ndim == 1:
        diagonal: Numbers = tuple(array.tolist())
        if not diagonal or not min(diagonal) > 0:
            raise ValueError(
                "matrix: a diagonal of M needs d >= 1 positive numbers; leave constant columns out."
            )
        _check_ratio(min(diagonal), max(diagonal))
        # two square roots: by IEEE 754 the same scales on every machine, as no power would be
        if origin is not None:
            raise ValueError(
                "origin belongs to a singular M; this diagonal is positive, leave it out."
            )
        scales = tuple((1 / np.sqrt(np.sqrt(array))).tolist())
        return diagonal, Shape(scales, None, len(scales))
    if array.ndim != 2 or array.shape[0] != array.shape[1] or not array.size:
        raise ValueError(
            f"matrix of shape {array.shape}; give M as (d, d), or its diagonal as (d,)."
        )
    array = symmetrized(array, "matrix")
    rows = tuple(tuple(row) for row in array.tolist())
    place = None if origin is None else tuple(_real(origin).tolist())
    shape = _matrix_shape(rows, place)
    while len(_known) >= _MOST_KNOWN:
        _known.pop(next(iter(_known)), None)
    _known[id(rows)] = rows, shape, place
    return rows, shape


_MOST_KNOWN = 16
_known: dict[int, tuple[Matrix, Shape, Numbers | None]] = {}
"""Maps of the tuples that ``shape_of`` made itself, which nobody can change: every mechanism of
a search for noise asks for the map of the same matrix.
"""


@lru_cache(maxsize=16)
def _matrix_shape(rows: Matrix, origin: Numbers | None) -> Shape:
    array = np.array(rows)
    if origin is None:
        _require_positive_definite(array)
    values, vectors = np.linalg.eigh(array)
    if origin is not None:
        zeros = _zeros(values, len(origin))
        flat, values, vectors = vectors[:, :zeros], values[zeros:], vectors[:, zeros:]
        origin = tuple((flat @ (flat.T @ np.array(origin))).tolist())
    _check_ratio(float(values[0]), float(values[-1]))
    root = (vectors * values**-0.25) @ vectors.T
    return Shape((), tuple(tuple(row) for row in root.tolist()), len(values), origin)


def _zeros(values: Floats, columns: int) -> int:
    """Return how many eigenvalues, in ascending order, are zero; none may be near it."""
    if columns != len(values):
        raise ValueError(f"origin has {columns} numbers for {len(values)} columns; give a point.")
    zeros = int((np.abs(values) <= _ZERO * values[-1]).sum())
    rest = values[zeros:]
    if not values[-1] > 0 or values[0] < -_ZERO * values[-1] or rest[0] < _POSITIVE * rest[-1]:
        raise ValueError(
            f"matrix: eigenvalues from {values[0]:.3g} to {values[-1]:.3g} are not each positive "
            f"or zero: none may be negative, all zero, or {_ZERO:g} to {_POSITIVE:g} times the "
            "largest."
        )
    if not zeros:
        raise ValueError("origin belongs to a singular M; this one is not, leave it out.")
    return zeros


def symmetrized(array: Floats, name: str) -> Floats:
    """Replace a public matrix that is symmetric up to rounding by (M + M^T) / 2; one that is
    symmetric is kept.

    array: shape (d, d), finite. Raises ValueError where entries differ by more than
    ``ROUNDING`` says.
    """
    if np.array_equal(array, array.T):
        return array
    with np.errstate(all="ignore"):
        root = np.sqrt(np.abs(array.diagonal()))
        apart = np.abs(array - array.T)
        if not (apart <= float(ROUNDING) * np.outer(root, root)).all():
            raise ValueError(_NOT_SYMMETRIC.format(name, f"{apart.max():.3g}"))
        return np.asarray(array / 2 + array.T / 2)


_NOT_SYMMETRIC = (
    "{0} is not symmetric: two entries across the diagonal are {1} apart, more than rounding "
    "explains (2^-20 of the deviations' product). If it should be, give ({0} + {0}.T) / 2."
)


def spectrum(covariance: Any) -> Floats:
    """Return the eigenvalues of a public covariance, given as a diagonal or a matrix."""
    array = _real(covariance)
    if array.ndim == 1:
        return array
    if array.ndim == 2 and array.shape[0] == array.shape[1]:
        array = symmetrized(array, "covariance")
    return np.asarray(np.linalg.eigvalsh(array))


def tail_radius(eigenvalues: Floats, rare: float) -> float:
    """Return r with P(|g| > r) <= rare for every sub-Gaussian g of this covariance proxy's
    eigenvalues.

    Chernoff: r^2 = inf over s of (ln(1 / rare) - 1/2 sum ln(1 - 2 s a)) / s, for E exp(s |g|^2)
    is at most that of the Gaussian vector (average exp(<h, g>) over Gaussian h first).
    """
    a = eigenvalues / eigenvalues.max()
    log = math.log(1 / rare)

    def square(s: float) -> float:
        return float((log - np.log1p(-2 * s * a).sum() / 2) / s)

    low, high = 1e-9, 0.5 * (1 - 1e-9)
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(_STEPS):
        before, left, right = (low, high), high - golden * (high - low), low + golden * (high - low)
        if square(left) < square(right):
            high = right
        else:
            low = left
        if (low, high) == before:  # so would all further steps
            break
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
    """Require a matrix M to be positive definite: it is if a float Cholesky decomposition of
    M - c I succeeds, with c = 2 (d + 2) eps trace, since that is exact for a matrix that is off
    by less than c (Rump, 2006).
    """
    d = len(array)
    shift = 2 * (d + 2) * float(np.finfo(np.float64).eps) * float(np.abs(array.diagonal()).sum())
    try:
        np.linalg.cholesky(array - shift * np.eye(d))
    except np.linalg.LinAlgError:
        least = float(np.linalg.eigvalsh(array)[0])
        raise ValueError(_NOT_POSITIVE.format(f"{least:.3g}")) from None


_NOT_POSITIVE = (
    "matrix is not positive definite, or not by enough to tell: its least eigenvalue is {}. For "
    "data in a plane give a public point of it (origin=...), or add a floor: M + eta I."
)


@lru_cache(maxsize=16)
def _nearness(shape: Shape, radius: Fraction) -> Nearness:
    if shape.rows is None:
        return by_column(shape.scales, radius)
    return by_matrix(shape.rows, radius)


@lru_cache(maxsize=16)
def _inverse(nearness: Nearness, rank: int) -> Floats:
    """Return the inverse of C / 2^shift, or its pseudoinverse: from cells of y to cells of x."""
    matrix = np.array(nearness.matrix, dtype=np.float64)
    if rank == len(matrix):
        inverse: Floats = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
    else:  # C is rounded: what was zero no longer is
        u, values, v = np.linalg.svd(matrix)
        inverse = np.asarray((v[:rank].T / values[:rank]) @ u[:, :rank].T, dtype=np.float64)
    inverse *= 2.0**nearness.shift
    inverse.flags.writeable = False
    return inverse
