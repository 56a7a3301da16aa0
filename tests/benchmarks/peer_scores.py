"""Exact log-likelihood ratios of the outputs of mechanisms on two datasets."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from audits.classical.exact import laplace_cdf
from audits.classical.sparse_vector import FALSE, ValueInstead
from dpverify.privacy.numbers import Floats

_STEPS = np.arange(-40, 41)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
Score = Callable[[Floats], Floats]
"""Map from outputs, shape (size, columns), to log P(output | left) - log P(output | right)."""


def laplace_score(left: Sequence[Any], right: Sequence[Any], scale: float) -> Score:
    """Score independent Laplace noise in each column."""
    ours, theirs = np.asarray(left, np.float64), np.asarray(right, np.float64)

    def score(outputs: Floats) -> Floats:
        gaps = np.abs(outputs - theirs) - np.abs(outputs - ours)
        return np.asarray(np.round(gaps.sum(axis=1) / scale, 9))  # equal up to floats: equal

    return score


def bits_score(left: Floats, right: Floats) -> Score:
    """Score independent bits with these probabilities."""
    ones, zeros = np.log(left / right), np.log((1 - left) / (1 - right))
    return lambda outputs: np.round(outputs @ ones + (1 - outputs) @ zeros, 9)


def tabled(probability: Callable[[Any, Sequence[int]], float], left: Any, right: Any) -> Score:
    """Score by a table of the few different outputs."""
    known: dict[tuple[int, ...], float] = {}

    def ratio(row: tuple[int, ...]) -> float:
        if row not in known:
            sides = [np.array([max(0.0, probability(data, row))]) for data in (left, right)]
            known[row] = round(float(difference(log(sides[0]), log(sides[1]))[0]), 9)
        return known[row]

    def score(outputs: Floats) -> Floats:
        rows, places = np.unique(outputs.astype(np.int64), axis=0, return_inverse=True)
        return np.array([ratio(tuple(row)) for row in rows.tolist()])[places.ravel()]

    return score


def values_instead(mechanism: ValueInstead, left: Any, right: Any) -> Score:
    """Score (number of FALSE, value) by the value's density on a grid, interpolated."""
    grid = np.arange(-150.0, 300.5, 1.0)
    table: list[Floats] = []

    def log_density(data: Any, first: int) -> Floats:
        return log(_masses(mechanism, data, first, grid))

    def score(outputs: Floats) -> Floats:
        if not table:
            table.extend(
                log_density(left, first) - log_density(right, first) for first in range(len(left))
            )
        none = [mechanism.probability(data, [FALSE] * len(left)) for data in (left, right)]
        scores = np.full(len(outputs), math.log(none[0] / none[1]))
        middles = (grid[1:] + grid[:-1]) / 2
        for first, ratios in enumerate(table):
            there = outputs[:, 0] == first
            known = np.isfinite(ratios)
            scores[there] = np.interp(outputs[there, 1], middles[known], ratios[known])
        return scores

    return score


def _masses(mechanism: ValueInstead, data: Any, first: int, grid: Floats) -> Floats:
    """Return the probabilities of values between neighbors on the grid, after ``first`` FALSE.

    One set of nodes serves all of them: these are the differences of ``value_at_most``.
    """
    query, ends = data[first], grid - mechanism.threshold
    kinks = [one - mechanism.threshold for one in data[: first + 1]]
    breaks = np.unique(np.concatenate([mechanism.rho * _STEPS, kinks, ends]))
    halves, middles = np.diff(breaks)[:, None] / 2, (breaks[1:] + breaks[:-1])[:, None] / 2
    rho, weights = (middles + halves * _NODES).ravel(), (halves * _WEIGHTS).ravel()
    weights = weights * np.exp(-np.abs(rho) / mechanism.rho) / 2 / mechanism.rho
    for one in data[:first]:
        weights = weights * laplace_cdf(mechanism.threshold + rho - one, mechanism.nu)
    below = laplace_cdf(grid - query, mechanism.nu)
    cell = np.searchsorted(ends, rho, side="right")  # 0: below the grid
    lower = np.cumsum(np.bincount(cell, weights, len(grid) + 1))[: len(grid) - 1]
    inside = (cell > 0) & (cell < len(grid))
    at, reached = cell[inside], laplace_cdf(mechanism.threshold + rho - query, mechanism.nu)[inside]
    partly = np.bincount(at - 1, weights[inside] * (below[at] - reached), len(grid) - 1)
    return np.asarray(lower * np.diff(below) + partly)


def log(masses: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(masses, 0.0)), np.float64)


def difference(left: Floats, right: Floats) -> Floats:
    """Subtract logarithms; 0 where both are -inf."""
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(left - right, nan=0.0, posinf=np.inf, neginf=-np.inf)
