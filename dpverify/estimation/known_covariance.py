"""A public covariance: the integer map after which records have covariance I, and the way back from
there.

Columns are brought to powers of two near their deviations, which is exact; the rest of the map
is the inverse of a Cholesky factor, computed in floats and rounded to integers. The choice of
the map affects accuracy alone: a claim rests on the fact that records are mapped one by one, in
integers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import scipy

from dpverify.estimation.clipping import LARGEST_FLOAT, Numbers, numbers_of
from dpverify.estimation.kept_sets import HalfSpace, Kept
from dpverify.estimation.results import VectorMeanEstimate
from dpverify.grid.cells import floor_log2
from dpverify.grid.record_maps import OfImages, RecordMap
from dpverify.grid.shapes import symmetrized
from dpverify.grid.vectors import OUTER_BOX
from dpverify.plans import NoNoise, Plan, Stage
from dpverify.plans.walking import with_stages
from dpverify.privacy.numbers import Floats, to_float

Rows = tuple[Numbers, ...]
_CELL_BITS = 18  # a column's deviation has at least 2^18 cells
_FINE = 20  # images are multiples of 2^-20 deviations
_MATRIX_BITS = 21  # the matrix's largest number is at least 2^21
_MOST_COLUMNS = 2048
_OFF = 1 / 64  # largest distance of the rounded map's images from covariance I


@dataclass(frozen=True, slots=True, eq=False)
class Whitening:
    """Whitening map: records as y = W (x - center), of covariance I, and back as x = center +
    back y, up to rounding.

    center: shape (d,), on the grid. back: shape (d, d).
    """

    map: RecordMap
    center: tuple[Fraction, ...]
    back: Floats

    def kept(self, kept: Kept | None) -> Kept | None:
        """Turn a set of records into the set of their images; balls are in deviations anyway."""
        if isinstance(kept, HalfSpace):
            power = -floor_log2(max(abs(Fraction(a)) for a in kept.normal))
            normal = np.ldexp(np.array(kept.normal), power) @ self.back
            return HalfSpace(tuple(normal.tolist()), self._end(kept.normal, kept.bound, power))
        if isinstance(kept, tuple):
            low, high = (
                end if math.isinf(end) else self._end((1.0,), end, 0) / float(self.back[0, 0])
                for end in kept
            )
            if not low < high:
                raise ValueError(
                    f"kept = {kept}: both ends are {low:.3g} deviations from the center, so next "
                    "to nothing is between them. Give a larger set, or a center that is nearer to "
                    "it."
                )
            return low, high
        return kept

    def _end(self, normal: Sequence[float], bound: float, power: int) -> float:
        """Compute what is left of ``bound`` at the center, times 2^power: the place of a plane
        about the center.
        """
        at = sum((Fraction(a) * c for a, c in zip(normal, self.center, strict=True)), Fraction(0))
        left = to_float((Fraction(bound) - at) * Fraction(2) ** power)
        return min(max(left, -LARGEST_FLOAT), LARGEST_FLOAT)

    def moved_back(self, estimate: VectorMeanEstimate) -> VectorMeanEstimate:
        """Map a mean of images back to a mean of records, with its noise."""
        with np.errstate(all="ignore"):
            places = np.array([to_float(c) for c in self.center])
            value = np.clip(places + self.back @ estimate.value, -LARGEST_FLOAT, LARGEST_FLOAT)
            spread, along = self.back @ np.asarray(estimate.spread), self.back @ estimate.along
            own = np.broadcast_to(estimate.cut, estimate.along.shape)
            cut = np.linalg.norm(self.back * own, axis=1) if own.any() else 0.0
        return VectorMeanEstimate(
            value, estimate.count, spread, along, count_deviation=estimate.count_deviation, cut=cut
        )

    def length(self) -> float:
        """Return the root mean square length in the data's units of a vector of length 1 that
        has no direction of images.
        """
        most = float(np.abs(self.back).max())  # its square may leave the floats
        return most * (float(np.linalg.norm(self.back / most)) / math.sqrt(len(self.back)))

    def plan(self, plan: Plan) -> Plan:
        """Return the plan with every query asked of the images."""

        def mapped(stage: Stage) -> Stage:
            if isinstance(stage.noise, NoNoise):  # this stage asks for the number of records alone
                return stage
            query: Any = stage.query
            return replace(stage, query=OfImages(query, self.map))

        return with_stages(plan, mapped)


def covariance_matrix(value: Any, name: str) -> Rows:
    """Read a public matrix as rows of floats; raises TypeError or ValueError unless it is
    square, finite, symmetric up to rounding, which is removed.
    """
    listed = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(listed, (list, tuple)) or not listed:
        raise TypeError(f"{name} = {value!r}; give d rows of d numbers.")
    rows = tuple(numbers_of(row, name) for row in listed)
    if any(len(row) != len(rows) for row in rows):
        raise ValueError(f"{name}: rows of unlike lengths for {len(rows)} columns; give (d, d).")
    return tuple(tuple(row) for row in symmetrized(np.array(rows), name).tolist())


def diagonal(deviations: Numbers) -> Rows:
    """Build the covariance of independent columns. Raises ValueError where a square is no
    float, and for too many columns.
    """
    d = len(deviations)
    if d > _MOST_COLUMNS:
        raise ValueError(
            f"{d} columns of unlike deviations and a public set need a matrix of {d} rows, and "
            f"{_MOST_COLUMNS} are the most; divide the columns by their deviations before."
        )
    if not 1e-150 < min(deviations) <= max(deviations) < 1e150:
        raise ValueError(
            f"deviations from {min(deviations)} to {max(deviations)}: their squares leave the "
            "floats; take another unit."
        )
    return tuple(
        tuple(s * s if j == k else 0.0 for k in range(d)) for j, s in enumerate(deviations)
    )


def variances_of(covariance: Rows) -> Numbers:
    """Return the covariance's diagonal. Raises ValueError unless that is positive."""
    entries = tuple(row[j] for j, row in enumerate(covariance))
    if min(entries) <= 0:
        raise ValueError(
            f"covariance: a variance of {min(entries)} is not positive; leave out a column that is "
            "known to be constant."
        )
    return entries


@lru_cache(maxsize=16)
def whitening_of(covariance: Rows, center: Numbers) -> Whitening:
    """Build the map for a public covariance about a public center.

    Raises ValueError for a covariance that is not positive definite by enough to tell, and a center
    too far for its deviations.
    """
    d, variances = len(covariance), variances_of(covariance)
    if len(center) != d:
        raise ValueError(
            f"covariance: {d} columns for a center of {len(center)}; give one of each."
        )
    powers = [floor_log2(Fraction(v)) // 2 for v in variances]
    down = -np.array(powers)
    with np.errstate(all="ignore"):
        scaled = np.ldexp(np.array(covariance), down[:, np.newaxis] + down)
    matrix, shift = _rounded(scaled)
    exponents = tuple(p - _CELL_BITS for p in powers)
    cells = [round(Fraction(c) / Fraction(2) ** e) for c, e in zip(center, exponents, strict=True)]
    if max(map(abs, cells)) > OUTER_BOX // 2:
        raise ValueError(
            f"center: {max(map(abs, center))} is too far from zero for the deviations, beyond 2^39 "
            "cells. Subtract a public constant from the data."
        )
    public = RecordMap(tuple(cells), exponents, matrix, shift, _FINE)
    inverse = np.linalg.inv(np.array(matrix, np.float64))
    back = np.ldexp(inverse, np.array(exponents)[:, np.newaxis] + (shift + _FINE))
    back.flags.writeable = False
    places = (c * Fraction(2) ** e for c, e in zip(cells, exponents, strict=True))
    return Whitening(public, tuple(places), back)


def _rounded(scaled: Floats) -> tuple[tuple[tuple[int, ...], ...], int]:
    """Compute the map of cells to 2^-20 deviations, times 2^shift, for columns of variances
    from 1 to 4.
    """
    try:
        lower = np.linalg.cholesky(scaled)
        root = scipy.linalg.solve_triangular(lower, np.eye(len(scaled)), lower=True)
    except np.linalg.LinAlgError:
        raise ValueError(_SINGULAR) from None
    bits = _MATRIX_BITS - floor_log2(Fraction(float(np.abs(root).max())))
    if bits < _FINE - _CELL_BITS:
        raise ValueError(_SINGULAR)
    rows = np.rint(np.ldexp(root, bits))
    own = np.ldexp(rows, -bits)
    if not np.abs(np.linalg.eigvalsh(own @ scaled @ own.T) - 1).max() < _OFF:
        raise ValueError(_SINGULAR)
    matrix = tuple(tuple(map(int, row)) for row in rows.tolist())
    return matrix, bits - (_FINE - _CELL_BITS)


_SINGULAR = (
    "covariance is not positive definite, or not by enough: some columns follow from others. Leave "
    "them out, or add a floor to the diagonal (V + eta I costs little accuracy)."
)
