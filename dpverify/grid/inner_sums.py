"""Sums over records that are all sure to be inside a ball: then nothing is clipped, and one map
of the sum is enough.

The sum of images C y is C times the sum of the y. A block of records whose columns' extremes
already bound every image by the radius needs no image, and no norm, of any of its records.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.cells import float_cells
from dpverify.grid.linear import EXACT, Integers
from dpverify.grid.records import Records
from dpverify.grid.vectors import OUTER_BOX, IntegerMap

_BLOCK = 1 << 16  # numbers that are looked at together: what is in between stays in the cache
_FEW = 1 << 8  # number of records whose images are made as quickly


def inner_sum(public: IntegerMap, records: Records, radius: int) -> tuple[Integers, Records]:
    """Give the sum of the images of the first records, all of them inside the ball, shape
    (width,), exactly; and the other records, of which nothing is decided: all from the first
    block on that is not sure to be inside.
    """
    count = max(1, round(records.size / _BLOCK))
    step = -(-len(records) // count)
    cells: Integers = np.zeros(public.columns, object)
    rows = 0
    while len(block := records[rows : rows + step]) >= _FEW and records.shape[1] == public.columns:
        block_sum = _sum_of_cells(public, block, radius)
        if block_sum is None:
            break
        cells += block_sum
        rows += len(block)
    if not rows:
        return np.zeros(public.width, object), records
    center, matrix, _ = _arrays(public)
    total = cells - rows * center
    if public.constant:
        total = np.append(total, rows * public.constant)
    return total if matrix is None else np.asarray(matrix @ total), records[rows:]


@lru_cache(maxsize=64)
def _arrays(public: IntegerMap) -> tuple[Integers, Integers | None, NDArray[np.float64] | None]:
    """Give the center and the matrix in Python integers, and the magnitudes of its entries,
    which are floats.
    """
    center = np.array(public.center, object)
    if public.matrix is None:
        return center, None, None
    matrix = np.array(public.matrix, object)
    return center, matrix, np.abs(matrix).astype(np.float64)


def _sum_of_cells(public: IntegerMap, block: Records, radius: int) -> Integers | None:
    """Sum cells, exactly; None unless every image is sure to be inside the ball.

    Where |y_j| <= b_j for every record, |C y|^2 <= sum over i of (sum over j |C_ij| b_j)^2. All
    terms are positive and are added in floats: of k rows and m columns the result is off by
    less than (2 m + k + 8) 2^-53 of itself. A sum of cells of which every partial sum is below
    2^53 is exact in floats.
    """
    exponent = np.array(public.exponent) if isinstance(public.exponent, tuple) else public.exponent
    z = float_cells(block, -OUTER_BOX, OUTER_BOX, exponent)
    low, high = z.min(axis=0), z.max(axis=0)
    if len(z) * max(-low.min(), high.max()) > EXACT:
        return None
    center = np.array(public.center, np.float64)
    bounds = np.maximum(high - center, center - low)
    magnitudes = _arrays(public)[2]
    if public.constant:
        bounds = np.append(bounds, abs(public.constant))
    if magnitudes is not None:
        bounds = magnitudes @ bounds
    slack = 1 + (2 * (public.columns + 1) + public.width + 16) * 2.0**-52
    if not float(bounds @ bounds) * slack <= radius**2:
        return None
    return np.asarray(z.sum(axis=0).astype(np.int64))
