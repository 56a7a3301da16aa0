"""State that is followed through a plan in which records are whitened: maps, lengths, clip
radii, refined maps.

A row of integers is a map C, row by row, and then by how many cells the center is moved. Images
of records whose covariance is a multiple of C^-1 C^-T have the same length in every direction;
this length, in image cells, is found from a released median of lengths. Everything here is a
function of public numbers and of what was released.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpverify.estimation.clip_bounds import How
from dpverify.estimation.normal_fits import fitted, length_within
from dpverify.estimation.sign_rounds import stepped
from dpverify.grid import Released, Transcripts
from dpverify.grid.linear import Integers
from dpverify.grid.masks import Row, different_rows
from dpverify.grid.vectors import OUTER_BOX
from dpverify.plans.search import Search
from dpverify.privacy.numbers import Floats

Numbers = tuple[list[Row], Integers]
"""Different rows, and which of them each draw has, shape (size,)."""
Maps = Released[tuple[Integers, Integers]]
FARTHEST = (1 << 62) - 1
"""Largest reach or threshold, in image cells."""
_MIDDLE, _SPAN_BITS = 37, 5  # lengths are searched from 2^5 to 2^69 image cells
_ROOT_BITS = 40
_COUNT_PARTS = 4  # counts to an octave; results depend little on the number of records


@dataclass(frozen=True, slots=True)
class Sphere:
    """Whitened records: the row of the map, the length of a deviation in image cells, and the
    approximate number of records (``count_of``).
    """

    row: Row
    long: float
    octave: int

    def reach(self, length: float, *more: int) -> Row:
        """Return the row with a number at its end: so many deviations, in image cells."""
        return (*self.row, *more, min(max(round(self.long * length), 1), FARTHEST))


Spheres = Released[tuple[list[Sphere], Integers]]


def with_lengths(spheres: Spheres, length: Callable[[Sphere], float]) -> Maps:
    """Append to every map a number: so many deviations as ``length`` says."""

    def numbers(before: Transcripts) -> tuple[Integers, Integers]:
        own, which = spheres(before)
        return np.array([one.reach(length(one)) for one in own], np.int64), which

    return Released(spheres.reads, numbers)


def searched(rows: Released[Numbers], counts: Released[Floats], search: Search, d: int) -> Spheres:
    """Find the length of a deviation from the median of lengths that a search has released."""
    median = length_within(d, 0.5)

    def long(node: int) -> float:
        return place_of(search, node) / median

    return _measured(rows, counts, search.nodes(search.steps), long)


def known(rows: Released[Numbers], counts: Released[Floats], long: float) -> Spheres:
    """Use a public length of a deviation."""
    nothing = Released((), lambda before: np.ones((len(before), 1), np.int64))
    return _measured(rows, counts, nothing, lambda node: long)


def _measured(
    rows: Released[Numbers],
    counts: Released[Floats],
    nodes: Released[Integers],
    long: Callable[[int], float],
) -> Spheres:
    def spheres(before: Transcripts) -> tuple[list[Sphere], Integers]:
        own, which = rows(before)
        codes = np.column_stack([which, nodes(before), octaves(counts(before))])
        unique, which = different_rows(codes, "lengths")
        return [Sphere(own[k], long(node), octave) for k, node, octave in unique], which

    reads = dict.fromkeys((*rows.reads, *counts.reads, *nodes.reads))
    return Released(tuple(reads), spheres)


def thresholds(rows: Released[Numbers], search: Search, step: int) -> Maps:
    """Append to every map the threshold of a step of the search for the median of lengths."""
    nodes = search.nodes(step)

    def numbers(before: Transcripts) -> tuple[Integers, Integers]:
        own, which = rows(before)
        unique, which = different_rows(np.column_stack([which, nodes(before)]), "steps")
        return np.array([(*own[k], place_of(search, node)) for k, node in unique], np.int64), which

    return Released((*rows.reads, *nodes.reads), numbers)


def place_of(search: Search, node: int) -> int:
    """Return the length of a node of the search: 2^(37 + 32 middle / 2^steps), at most 2^62.

    Its mantissa is rounded to 2^-40, so that it is the same integer wherever it is computed.
    """
    (middle,) = search.middles((node,))
    shift = max(search.steps - _SPAN_BITS, 0)
    middle <<= max(_SPAN_BITS - search.steps, 0)
    whole, rest = middle >> shift, middle & ((1 << shift) - 1)
    mantissa = round(math.ldexp(2.0 ** (rest / (1 << shift)), _ROOT_BITS))
    return min((mantissa << (_MIDDLE + whole)) >> _ROOT_BITS, FARTHEST)


def centered(
    spheres: Spheres,
    mean: Released[Integers],
    d: int,
    precision: int,
    length: Callable[[Sphere], float],
) -> Spheres:
    """Move the center by a released mean of images, in 2^-precision of ``length`` deviations,
    to whole cells.

    After a square map, rows have d numbers for the center.
    """

    def moved(before: Transcripts) -> tuple[list[Sphere], Integers]:
        own, which = spheres(before)
        unique, which = different_rows(np.column_stack([which, mean(before)]), "centers")
        made = []
        for k, *along in unique:
            one = own[k]
            unit = math.ldexp(one.long * length(one), -precision)
            by = solved(one.row, d, np.array(along, np.float64) * unit)
            row = (*one.row[: d * d], *whole_cells(by + np.array(one.row[d * d :], np.float64)))
            made.append(Sphere(row, one.long, one.octave))
        return made, which

    return Released(tuple(dict.fromkeys((*spheres.reads, *mean.reads))), moved)


def refined(
    spheres: Spheres,
    moments: Released[Integers],
    d: int,
    precision: int,
    law: tuple[How, Callable[[Sphere], float], Callable[[Sphere], float]],
) -> Spheres:
    """Multiply every map by the inverse root of the matrix fitted after it.

    moments: as for ``fitted``, in 2^-precision squared radii. law: "clip" or "mask", the radius
    in deviations, and the least eigenvalue.
    """
    outside, radius, floor = law

    def after(before: Transcripts) -> tuple[list[Sphere], Integers]:
        own, which = spheres(before)
        unique, which = different_rows(np.column_stack([which, moments(before)]), "fits")
        made = []
        for k, *seen in unique:
            one = own[k]
            how = (d, precision, floor(one), outside)
            row, long = _refined(one.row[: d * d], tuple(seen), *how)
            made.append(
                Sphere((*row, *one.row[d * d :]), long * one.long * radius(one), one.octave)
            )
        return made, which

    return Released(tuple(dict.fromkeys((*spheres.reads, *moments.reads))), after)


@lru_cache(maxsize=1 << 12)
def _refined(
    public: Row, seen: Row, d: int, precision: int, floor: float, outside: How
) -> tuple[Row, float]:
    """Compute the refined map, and how long a deviation is after it, in image cells over the
    radius before.
    """
    fit = fitted(seen, d, precision, floor, outside)
    if fit is None:
        return public, 1 / math.sqrt(d)
    least = float(fit.variances.min())
    step = (fit.vectors * np.sqrt(least / fit.variances)) @ fit.vectors.T
    row, bits, _ = stepped(step, public, d)
    return row, math.ldexp(math.sqrt(least), bits)


def octaves(counts: Floats) -> Integers:
    """Return the quarter octave of each count, 4 log2 rounded down, by comparisons alone; 0 for
    counts below 1.
    """
    part, exponent = np.frexp(np.maximum(counts, 1.0))
    edges = [2.0 ** (k / _COUNT_PARTS - 1) for k in range(1, _COUNT_PARTS)]
    own: Integers = (exponent.astype(np.int64) - 1) * _COUNT_PARTS
    return own + np.searchsorted(edges, part, "right")


def octave_of(count: float) -> int:
    """Return the quarter octave of one count."""
    return int(octaves(np.array([float(count)]))[0])


def count_of(octave: int) -> float:
    """Return the least count of a quarter octave."""
    return float(2.0 ** (octave / _COUNT_PARTS))


@lru_cache(maxsize=1 << 12)
def about_location(row: Row, d: int, constant: int) -> Row:
    """Turn a map of (record, constant) to d + 1 numbers into one of records to d, about the
    center that it implies.

    Up to a factor, |C z|^2 is (x - l)^T V^-1 (x - l) + 1, with l the location and V the scatter of
    the map (Kent and Tyler). So C_x, the first d columns of C, has C_x^T C_x = V^-1, and l solves
    C_x l = -C_h constant in least squares. The rows of the step are an orthonormal basis of the
    images of C_x, by Gram and Schmidt; l is rounded to whole cells.
    """
    matrix = np.array(row, np.float64).reshape(d + 1, d + 1)
    basis, upper = np.linalg.qr(matrix[:, :d])
    signs = np.where(np.diag(upper) < 0, -1.0, 1.0)
    own = tuple(v for k in range(d + 1) for v in row[k * (d + 1) : k * (d + 1) + d])
    by = np.linalg.lstsq(upper, basis.T @ matrix[:, d], rcond=None)[0] * -float(constant)
    return (*stepped((basis * signs).T, own, d)[0], *whole_cells(by))


def solved(row: Row, d: int, image: Floats) -> Floats:
    """Solve for the offset that a row's square map takes to these images, in cells: shape (d,)
    or (d, k).

    The solution is that of least squares, because a released map may be singular.
    """
    matrix = np.array(row[: d * d], np.float64).reshape(d, d)
    return np.asarray(np.linalg.lstsq(matrix, image, rcond=None)[0])


def whole_cells(values: Floats) -> Sequence[int]:
    """Round to cells within the outer box."""
    most = float(OUTER_BOX)
    return [int(v) for v in np.rint(np.clip(np.nan_to_num(values), -most, most))]
