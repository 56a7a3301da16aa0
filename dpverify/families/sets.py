"""Public sets that limit records or parameters: balls, boxes, shells, eigenvalues.

A symmetric matrix is packed isometrically: its diagonal, then sqrt(2) times what is above it,
row by row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real

import numpy as np

from dpverify.grid.linear import Integers
from dpverify.privacy.numbers import Floats, settle

Vector = tuple[float, ...]
_LARGEST = 2.0**200  # largest length or eigenvalue, one over it the least: fourth powers are floats


def _vector(given: object, name: str) -> Vector:
    vector = np.asarray(given, np.float64)
    if vector.ndim != 1 or not vector.size or np.isnan(vector).any():
        raise ValueError(f"{name} = {given!r}; give a vector of numbers, none of them nan.")
    return tuple(float(v) for v in vector)


@dataclass(frozen=True, slots=True)
class Ball:
    """Vectors up to ``radius`` from ``center``."""

    center: Vector
    radius: float

    def __post_init__(self) -> None:
        settle(self, center=_vector(self.center, "center"))
        if not (_usual(self.radius) and max(map(abs, self.center)) <= _LARGEST):
            raise ValueError(
                f"Ball(center={self.center}, radius={self.radius}); give a positive radius, "
                "lengths from 2^-200 to 2^200."
            )

    def nearest(self, vector: Floats) -> Floats:
        """Compute the nearest vector in the ball."""
        off = vector - np.array(self.center)
        length = float(np.linalg.norm(off))
        return (
            vector
            if length <= self.radius
            else np.array(self.center) + off * (self.radius / length)
        )


@dataclass(frozen=True, slots=True)
class Box:
    """Vectors with every number between those of ``lowest`` and ``highest``, which may be
    infinite.
    """

    lowest: Vector
    highest: Vector

    def __post_init__(self) -> None:
        settle(self, lowest=_vector(self.lowest, "lowest"))
        settle(self, highest=_vector(self.highest, "highest"))
        both = len(self.lowest) == len(self.highest)
        if not (both and all(a < b for a, b in zip(self.lowest, self.highest, strict=True))):
            raise ValueError(
                f"Box(lowest={self.lowest}, highest={self.highest}); give as many of both, "
                "lowest below highest."
            )

    def nearest(self, vector: Floats) -> Floats:
        """Clamp every number."""
        return np.clip(vector, self.lowest, self.highest)


@dataclass(frozen=True, slots=True)
class Eigenvalues:
    """Precisions, which are inverse covariances, with eigenvalues from ``lowest`` to ``highest``.

    reach: for laws with a mean, the most that the length of precision times mean can be.
    """

    lowest: float
    highest: float
    reach: float = 0.0

    def __post_init__(self) -> None:
        for given in (self.lowest, self.highest, self.reach):
            if not isinstance(given, Real):
                raise TypeError(f"{given!r:.80} is no number; give Eigenvalues(0.1, 10).")
        known = _usual(self.lowest or 1.0) and (self.highest == math.inf or _usual(self.highest))
        known = known and (self.reach == math.inf or 0 <= self.reach <= _LARGEST)
        if not (known and self.lowest < self.highest):
            raise ValueError(
                f"Eigenvalues({self.lowest}, {self.highest}, reach={self.reach}); give 0 <= "
                "lowest < highest and a reach that is not negative; from 2^-200 to 2^200, but "
                "for 0 and infinity."
            )

    def clipped(self, matrix: Floats) -> Floats:
        """Compute the nearest matrix of the set, in Frobenius' norm, to a symmetric one of
        shape (d, d).
        """
        values, vectors = np.linalg.eigh(matrix)
        return np.asarray((vectors * np.clip(values, self.lowest, self.highest)) @ vectors.T)


@dataclass(frozen=True, slots=True)
class Shell:
    """Vectors more than ``inner`` and up to ``outer`` from ``center``: a set that is not convex."""

    center: Vector
    inner: float
    outer: float

    def __post_init__(self) -> None:
        settle(self, center=_vector(self.center, "center"))
        sizes = _usual(self.inner) and _usual(self.outer) and self.inner < self.outer
        if not (sizes and max(map(abs, self.center)) <= _LARGEST):
            raise ValueError(
                f"Shell(center={self.center}, inner={self.inner}, outer={self.outer}); give 0 < "
                "inner < outer, lengths from 2^-200 to 2^200."
            )


Survival = Ball | Shell
"""A set that records are truncated to."""
Prior = Ball | Box | Eigenvalues
"""A set that parameters are known to be in."""


def _usual(size: float) -> bool:
    return 1 / _LARGEST <= size <= _LARGEST


# --- symmetric matrices as vectors --------------------------------------------------------------


@lru_cache(maxsize=64)
def places(d: int) -> tuple[Integers, Integers, Floats]:
    """Give rows, columns and factors of the entries of a packed matrix of shape (d, d)."""
    above = np.triu_indices(d, 1)
    rows = np.concatenate([np.arange(d), above[0]])
    columns = np.concatenate([np.arange(d), above[1]])
    return rows, columns, np.where(rows == columns, 1.0, math.sqrt(2))


def pack(matrices: Floats) -> Floats:
    """Pack symmetric matrices into vectors of the same length.

    Shape (..., d, d) becomes (..., d (d + 1) / 2).
    """
    rows, columns, factors = places(matrices.shape[-1])
    return np.asarray(matrices[..., rows, columns] * factors)


def unpack(vectors: Floats, d: int) -> Floats:
    """Unpack vectors into their matrices, of shape (..., d, d)."""
    rows, columns, factors = places(d)
    matrices = np.empty((*vectors.shape[:-1], d, d))
    matrices[..., rows, columns] = vectors / factors
    matrices[..., columns, rows] = vectors / factors
    return matrices
