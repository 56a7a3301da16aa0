"""Multiples and quotients of integers, to the nearest integer, ties to even, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.linear import WORD, Integers, largest
from dpverify.grid.masks import different, in_all

_HALF = 0.4999  # below 1/2 by more than these comparisons round


def rounded_multiples(
    values: Integers, factors: Sequence[Fraction], which: Integers | None = None
) -> Integers:
    """Return each row of values times a positive factor, rounded to the nearest integers, ties
    to even, exactly.

    which: for each row the index of its factor; None: the first one. In floats where they are
    sure, first in short ones: with e the type's epsilon, both numbers of the factor, their
    quotient, the value and the product are rounded by e / 2 of themselves each, so the product
    is off by less than 4 e of itself; a nearest integer that is nearer than 1/2 less that is
    the right one.
    """
    rows = np.zeros(len(values), np.intp) if which is None else which
    if not all(map(_short, factors)):
        return _by_integers(values, factors, rows)
    if values.dtype == object:
        return _by_kind(values, factors, rows)
    rounded: Integers = np.zeros(values.shape, np.int64)
    left = np.arange(len(values))
    for kind in (np.float64, np.longdouble):
        every = len(left) == len(values)
        own, some = rows if every else rows[left], factors
        if len(some) > 1 and not every:  # few of them are left
            used, own = different(own)
            some = [factors[k] for k in used.tolist()]
        ratio = np.array([kind(f.numerator) / kind(f.denominator) for f in some], kind)
        nearest, sure = _nearest(values if every else values[left], ratio[own])
        if every:
            rounded = nearest
        else:
            rounded[left] = nearest
        left = left[(~sure).nonzero()[0]]
        if not len(left):
            return rounded
    exact = _by_integers(values[left], factors, rows[left])
    rounded = rounded if exact.dtype == np.int64 else rounded.astype(object)
    rounded[left] = exact
    return rounded


def _by_kind(values: Integers, factors: Sequence[Fraction], rows: Integers) -> Integers:
    """Round Python integers: rows that fit words as words, the others by integers."""
    fit = in_all(((values < WORD) & (values > -WORD)).reshape(len(values), -1))
    if not fit.any():
        return _by_integers(values, factors, rows)
    words = rounded_multiples(values[fit].astype(np.int64), factors, rows[fit])
    if fit.all():
        return words
    rounded = values.copy()
    rounded[fit], rounded[~fit] = words, _by_integers(values[~fit], factors, rows[~fit])
    return rounded.astype(np.int64) if largest(rounded) < WORD else rounded


def _nearest(values: Integers, ratio: NDArray[Any]) -> tuple[Integers, NDArray[np.bool_]]:
    """Return the nearest integers of each row times its ratio, in the ratio's type, and in
    which rows all are sure.

    How near a product is, and its size, are told in short floats: rounded by a part in 2^53, for
    which the bounds leave room.
    """
    product = values * ratio.reshape(-1, *(1,) * (values.ndim - 1))
    size = np.abs(product.astype(np.float64, copy=False))
    off = 8 * float(np.finfo(ratio.dtype).eps) * size
    if not (off < _HALF).any():
        return np.zeros(values.shape, np.int64), np.zeros(len(values), np.bool_)
    nearest = np.rint(product)
    product -= nearest
    off += np.abs(product.astype(np.float64, copy=False))
    sure = off < _HALF
    sure &= size < WORD
    if not sure.all():
        nearest = np.where(sure, nearest, 0)
        return nearest.astype(np.int64), in_all(sure.reshape(len(values), -1))
    return nearest.astype(np.int64), np.ones(len(values), np.bool_)


def _by_integers(values: Integers, factors: Sequence[Fraction], rows: Integers) -> Integers:
    above, below = values.astype(object), np.ones(values.shape, object)
    for index in np.unique(rows):
        chosen, factor = rows == index, factors[index]
        above[chosen] *= factor.numerator
        below[chosen] *= factor.denominator
    rounded = rounded_quotients(above, below)
    return rounded.astype(np.int64) if largest(rounded) < WORD else rounded


def _short(factor: Fraction) -> bool:
    """Return whether both numbers are far from the ends of the floats."""
    return max(factor.numerator, factor.denominator) < 1 << 512


def rounded_ratios(
    above: Integers, below: Integers, factor: Fraction, plus: Fraction = Fraction(0)
) -> Integers:
    """Return above / below times a positive factor, and ``plus``, rounded to the nearest integers,
    ties to even, exactly; below > 0.

    In floats where they are sure: with e their epsilon, the five numbers, two quotients, the
    product and the sum are rounded by e / 2 of themselves each, so the sum is off by less than
    5 e of the sizes of product and ``plus``.
    """
    sizes, rounded = np.zeros(above.shape), np.zeros(above.shape, np.int64)
    sure = np.zeros(above.shape, np.bool_)
    if object not in (above.dtype, below.dtype) and _short(factor) and _short(abs(plus)):
        product = above / below * (factor.numerator / factor.denominator)
        shift = plus.numerator / plus.denominator
        sizes = np.abs(product) + abs(shift)
        product += shift
        nearest = np.rint(product)
        sure = np.abs(product - nearest) + 8 * np.finfo(np.float64).eps * sizes < _HALF
        sure &= sizes < WORD
        rounded = np.where(sure, nearest, 0).astype(np.int64)
    left = (~sure).nonzero()[0]
    if not len(left):
        return rounded
    ones = below[left].astype(object) * (factor.denominator * plus.denominator)
    own = above[left].astype(object) * (factor.numerator * plus.denominator)
    own += below[left].astype(object) * (factor.denominator * plus.numerator)
    exact = rounded_quotients(own, ones)
    if largest(exact) >= WORD:
        rounded = rounded.astype(object)
    rounded[left] = exact
    return rounded


def rounded_quotients(above: Integers, below: Integers) -> Integers:
    """Round above / below to the nearest integer, ties to even; below > 0, Python integers."""
    quotients = above // below
    twice = 2 * (above - quotients * below)
    up = (twice > below) | ((twice == below) & (quotients % 2 == 1))
    rounded: Integers = quotients + up.astype(object)
    return rounded
