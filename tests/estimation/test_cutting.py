"""Errors added by clipping and leaving out, beside draws of one record's contribution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dpverify.estimation.clip_bounds import excess
from dpverify.estimation.cutting import clipped_deviation, left_out, solved_excess
from dpverify.privacy.numbers import Floats

DRAWS = 100_000


def near(values: Floats, expected: float) -> bool:
    """Return whether a mean of squares is within 6 of its standard errors; else
    probability < 1e-8."""
    squares = np.square(values).reshape(len(values), -1).mean(axis=1)
    error = float(squares.std()) / math.sqrt(len(squares))
    return abs(float(squares.mean()) - expected) < 6 * error + 1e-12


def normal(d: int) -> tuple[Any, Any]:
    """Draw standard normal records of d columns, with their lengths as a column."""
    records = np.random.default_rng(d).normal(size=(DRAWS, d))
    return records, np.linalg.norm(records, axis=1, keepdims=True)


CASES = [(1, 1.0), (1, 3.0), (2, 1.0), (3, 3.0), (10, 2.0), (10, 4.5)]


@pytest.mark.parametrize(("d", "radius"), CASES)
def test_solved_means(d: int, radius: float) -> None:
    y, length = normal(d)
    short = np.minimum(1, radius / length)
    slope = float((short * length**2).mean()) / d
    assert near(y * (short / slope - 1), solved_excess(d, radius, "clip"))
    inside = length <= radius
    counted = float((inside * length**2).mean()) / d
    assert near(y * (inside / counted - 1), solved_excess(d, radius, "mask"))
    assert not near(y * (inside / counted - 1), 2 * solved_excess(d, radius, "mask"))


@pytest.mark.parametrize(("d", "radius"), CASES)
def test_what_is_left_between_slabs(d: int, radius: float) -> None:
    """Cut with a slab along the first column, across which and along which the excess differs."""
    y, length = normal(d)
    for halves in ([], [1.5]):
        inside = length[:, 0] <= radius
        if halves and radius > 2:  # in a smaller ball the two are not independent
            inside &= np.abs(y[:, 0]) <= halves[0]
        elif halves:
            continue
        remainder = left_out(d, radius, halves, np.eye(d)[: len(halves)])
        own = y * (inside / inside.mean() - 1)[:, np.newaxis]
        # times the number that is left, not that of all
        for j in {0, d - 1}:
            told = float(remainder.excess[j])
            actual = float(inside.mean() * np.square(own[:, j]).mean())
            assert (
                abs(actual / told - 1) < 0.12
                if halves
                else near(own[:, j] * math.sqrt(inside.mean()), told)
            )


@pytest.mark.parametrize(("d", "radius"), CASES)
def test_clipped_means(d: int, radius: float) -> None:
    """Lengths are over sqrt(d) there, and the mean square of a record is 1."""
    y, length = normal(d)
    cut = y * (1 - np.minimum(1, radius / length)) / math.sqrt(d)
    own = clipped_deviation(np.ones(d), radius / math.sqrt(d), 1.0, np.zeros(d))
    assert near(cut, float(own[0]) ** 2)
    # E d clip_j / d y_j, off the sphere, by which it follows a mean beside the center
    beyond = length > radius
    follows = np.where(beyond, radius / length * (1 - 1 / d), 1.0).mean()
    moved = clipped_deviation(np.ones(d), radius / math.sqrt(d), math.inf, np.ones(d))
    assert float(moved[0]) == pytest.approx((1 - follows) / follows, rel=0.05, abs=1e-3)


@pytest.mark.parametrize(
    ("spreads", "radius", "off"),
    [((4.0, 2.0, 2.0, 1.0, 1.0), 1.2, 0.1), ((100.0, 1.0), 1.5, 0.15), ((1.0, 1e-6), 1.0, 0.15)],
)
def test_unlike_columns_are_cut_by_their_parts(
    spreads: tuple[float, ...], radius: float, off: float
) -> None:
    """Up to what it costs that one chi-square stands for a sum of several; also of less than two
    degrees."""
    given = np.array(spreads)
    y = np.random.default_rng(5).normal(size=(DRAWS, len(given))) * np.sqrt(given / given.sum())
    length = np.linalg.norm(y, axis=1, keepdims=True)
    cut = np.sqrt(np.square(y * (1 - np.minimum(1, radius / length))).mean(axis=0))
    own = clipped_deviation(given, radius, 1.0, np.zeros(len(given)))
    assert np.abs(own / cut - 1).max() < off


def _trace(psi: Floats, square: Floats, d: int) -> Floats:
    """Compute what a record contributes to the error of the trace, relative to it."""
    slope = float(((psi - psi.max()) * (square - d)).mean()) / 2  # E (square - d) = 0
    influence: Floats = (psi - psi.mean()) / slope - (square / d - 1)
    return influence


@pytest.mark.parametrize(("d", "radius"), [case for case in CASES if case[0] > 1])
def test_second_moments(d: int, radius: float) -> None:
    y, length = normal(d)
    square, product = length[:, 0] ** 2, math.sqrt(2) * y[:, 0] * y[:, 1]
    psi = np.minimum(square, radius**2)
    across, along = excess(d, radius**2, "clip")
    a = float((psi * square).mean()) / (d * (d + 2))
    assert near(product * (psi / square / a - 1), across)
    inside = square <= radius**2
    assert abs(d * float(np.square(_trace(psi, square, d)).mean()) / along - 1) < 0.1
    across, _ = excess(d, radius**2, "mask")
    share = float((inside * square**2).mean()) / (d * (d + 2))
    assert near(product * (inside / share - 1), across)
