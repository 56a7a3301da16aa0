"""The map of the next round from the released signs of the last: Tyler's iteration on noisy
second moments.

u is uniform on the sphere of an elliptical law's whitened records, u = y / |y|; phi(lambda) are
the eigenvalues of E u u^T where y has the covariance diag(lambda). Everything here is
post-processing. Source: T87; the sign map, OURS.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.linear import WORD, Integers, largest, matmul
from dpverify.grid.masks import Row
from dpverify.grid.outer_products import DIAGONAL, OFF_DIAGONAL
from dpverify.grid.rounding import rounded_multiples, rounded_quotients
from dpverify.privacy.numbers import Floats

RADIUS = 1 << 17
"""Radius of the sphere, in cells: one word for sums of half a million outer products."""
START_BITS, LEAST_BITS, MOST_BITS, STEP_BITS = 16, 8, 40, 26
"""Bits of the first map; bits of the shortest direction of any map, at least; bits of an entry,
at most; bits of the factor of a step.
"""
_ABOVE = 0.7  # spectra of powers of two are then not near a change of the number of bits
_NODE = 0.6  # step in ln t: the trapezoid rule is off by about exp(-2 pi^2 / 0.6), 1e-14
_TINY = 1e-16
_LEAST_SHARE = 1e-12  # least share of an eigenvalue, whatever the noise
_MOST_ROUNDS = 300
_NEAR, _CLOSE = 0.3, 1e-13  # logarithms of ratios: Newton's steps begin, and the search ends


def sphere_spectrum(spectrum: Floats) -> Floats:
    """Compute phi(lambda), of sum 1 and shape (d,), for positive numbers of shape (d,).

    phi_i = int_0^oo l_i / (1 + 2 l_i t) prod_j (1 + 2 l_j t)^(-1/2) dt, by trapezoids in ln t.
    """
    _, integrands = _integrands(spectrum)
    shares: Floats = integrands.sum(axis=1)
    return np.asarray(shares / shares.sum())


def _integrands(spectrum: Floats) -> tuple[Floats, Floats]:
    """Compute 2 l_i t and the integrands of ``sphere_spectrum``, shape (d, nodes)."""
    low = math.log(_TINY / spectrum.sum())
    high = math.log(1 / (_TINY * spectrum.min()))
    t = np.exp(np.arange(low, high, _NODE))
    terms: Floats = 2 * np.outer(spectrum, t)
    weights = t * np.exp(-0.5 * np.log1p(terms).sum(axis=0))
    return terms, spectrum[:, np.newaxis] / (1 + terms) * weights


def spectrum_of(shares: Floats) -> Floats:
    """Compute the lambda with phi(lambda) = shares, of largest entry 1; shares are positive,
    and are scaled to sum 1.

    Steps by the ratios of shares come near from everywhere; Newton's steps, in logarithms, end it.
    The derivative of ln phi_i by ln l_k is that of ln l_i - ln(1 + 2 l_i t) (k = i), less half of
    2 l_k t / (1 + 2 l_k t), on average over t by the integrand of phi_i. It does not see the scale,
    which the ones hold.
    """
    wanted = shares / shares.sum()
    spectrum: Floats = wanted / wanted.max()
    for _ in range(_MOST_ROUNDS):
        terms, integrands = _integrands(spectrum)
        sums = integrands.sum(axis=1)
        gap = np.log(wanted / (sums / sums.sum()))
        off = float(np.abs(gap).max())
        step = 1.2 * gap
        if _CLOSE < off < _NEAR:
            below = 1 / (1 + terms)
            slopes = np.diag((integrands * below).sum(axis=1)) - integrands @ (terms * below).T / 2
            step = np.linalg.solve(slopes / sums[:, np.newaxis] + 1, gap)
        spectrum = spectrum * np.exp(step)
        spectrum = spectrum / spectrum.max()
        if off <= _CLOSE:
            break
    return spectrum


def traces(values: Integers, d: int) -> Integers:
    """Return the trace of each row's matrix: the sum of its first d numbers, exactly."""
    own = values[:, :d]
    if own.dtype != object and largest(own) >= WORD // d:
        own = own.astype(object)
    return np.asarray(own.sum(axis=1))


def measured(values: Integers, precision: int, d: int) -> tuple[Integers, NDArray[np.bool_]]:
    """Return released moments as matrices of trace 1, in 2^-precision, on and above their
    diagonals, and whether each trace is positive.

    values: shape (size, d (d + 1) / 2 or more), diagonals first. Shapes (size, d (d + 1) / 2)
    and (size,). Entries are rounded to the nearest integers, ties to even, in floats where
    these are sure to round right; whether they are depends on the row's numbers alone, not on
    the batch.
    """
    width, one = d * (d + 1) // 2, 1 << precision
    own, trace = values[:, :width], traces(values, d)
    good = np.asarray(trace > 0, np.bool_)
    trace = np.where(good, trace, 1)
    entries: Integers = np.zeros(own.shape, np.int64)
    left = np.ones(len(own), np.bool_)
    if trace.dtype != object and precision < 40:
        ratio = np.array([1.0] * d + [DIAGONAL / OFF_DIAGONAL] * (width - d))
        shown = np.clip(own * (ratio * one) / trace[:, np.newaxis], -2.0 * one, 2.0 * one)
        nearest = np.rint(shown)
        left = (np.abs(shown - nearest) + 2.0**-49 * np.abs(shown) > 0.4999).any(axis=1)
        entries = nearest.astype(np.int64)
    if left.any():
        above = own[left].astype(object) << precision
        above[:, d:] *= DIAGONAL
        factors = np.array([1] * d + [OFF_DIAGONAL] * (width - d), object)
        exact = rounded_quotients(above, trace[left].astype(object)[:, np.newaxis] * factors)
        entries[left] = np.clip(exact, -one, one).astype(np.int64)
    return np.clip(entries, -one, one), good


def symmetric(row: Row, d: int) -> Floats:
    """Build the matrix of shape (d, d) from its diagonal and the entries above it."""
    numbers = np.array(row, np.float64)
    matrix = np.zeros((d, d))
    matrix[np.triu_indices(d, 1)] = numbers[d : d * (d + 1) // 2]
    return np.asarray(matrix + matrix.T + np.diag(numbers[:d]))


def floored_spectrum(
    row: Row, precision: int, d: int, floor: float
) -> tuple[Floats, Floats, Floats]:
    """Decompose a measured matrix into its eigenvalues, its eigenvectors, and lambda for
    eigenvalues raised to the floor.
    """
    values, vectors = np.linalg.eigh(np.ldexp(symmetric(row, d), -precision))
    return values, vectors, spectrum_of(np.maximum(values, max(floor, _LEAST_SHARE)))


def start(d: int) -> Row:
    """Return the first map, 2^16 times the identity, row by row."""
    return tuple(int(i == j) << START_BITS for i in range(d) for j in range(d))


@lru_cache(maxsize=1 << 14)
def next_map(public: Row, row: Row, precision: int, floor: float) -> Row:
    """Multiply the map by the inverse root of the matrix measured after it, rounded to 2^-26 of
    its largest eigenvalue.

    row: a matrix in 2^-precision. floor: the least eigenvalue. The map stays as it was where
    one direction was stretched so far that words would have no room for another, which happens
    for records without a shape.
    """
    d = math.isqrt(len(public))
    _, vectors, spectrum = floored_spectrum(row, precision, d, floor)
    step = (vectors * np.sqrt(spectrum.min() / spectrum)) @ vectors.T
    new_map, _, room = stepped(step, public, d)
    return new_map if room >= LEAST_BITS else public


def stepped(step: Any, public: Row, d: int) -> tuple[Row, int, int]:
    """Multiply an integer map of at least d columns by a matrix of floats, rounded to 2^-26;
    its first d columns keep 16 bits.

    step: of shape (rows, rows of the map), its largest entries about 1. Returns the new map,
    row by row, the power of two by which an image is longer than what the step makes of the old
    one, and about how many bits the shortest direction keeps.
    """
    rows = len(step[0])
    whole = np.rint(np.ldexp(step, STEP_BITS)).astype(np.int64)
    product = matmul(whole, np.array(public, np.int64).reshape(rows, -1))
    least = float(np.linalg.svd(product[:, :d].astype(np.float64), compute_uv=False)[-1])
    long = math.floor(math.log2(least / _ABOVE)) if least > 0 else -MOST_BITS
    bits = max(largest(product).bit_length() - MOST_BITS, long - START_BITS)
    shortened = rounded_multiples(product, [Fraction(2) ** -bits])
    return tuple(int(v) for v in shortened.ravel()), STEP_BITS - bits, long - bits
