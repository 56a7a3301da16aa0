"""The location that signs imply, beside its spec and beside rounds on drawn records."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dpverify.estimation.sign_locations import noise_of_location, sign_location
from dpverify.estimation.sign_rounds import next_map, spectrum_of
from dpverify.estimation.whitening import about_location
from spec.theory import sign_locations as spec

BITS = 30


@pytest.mark.parametrize("d", [1, 2, 3, 10, 100, 1024])
def test_the_law_is_that_of_the_spec(d: int) -> None:
    own, wanted = sign_location(d), spec.sign_location(d)
    assert own.scatter == pytest.approx(float(wanted.scatter), rel=1e-11)
    assert own.excess == pytest.approx(float(wanted.excess), rel=1e-7)
    assert own.left == pytest.approx(float(wanted.left), abs=1e-12)


def records(d: int) -> Any:
    """Draw standard normal records whose mean is 0 and whose location is, too: with each comes its
    negative."""
    half = np.random.default_rng(d).normal(size=(100_000, d))
    return np.concatenate([half, -half])


def rounded_signs(matrix: Any, z: Any) -> tuple[int, ...]:
    """Return the second moments of the signs of mapped records as they are read in a round."""
    y = z @ matrix.T
    y /= np.linalg.norm(y, axis=1, keepdims=True)
    moments = y.T @ y / len(y)
    own = np.r_[np.diag(moments), moments[np.triu_indices(len(moments), 1)]]
    return tuple(int(v) for v in np.rint(np.ldexp(own, BITS)))


@pytest.mark.parametrize("d", [2, 3, 10])
def test_a_round_leaves_that_part_of_an_error(d: int) -> None:
    """200,000 records in cells of 2^-12 deviations; the first map is even but for its location,
    off by .02 in one column. What it leaves, of up to .0035, is seen to 1e-4 of a deviation."""
    law, cells, off = sign_location(d), 2**12, 0.02
    z = np.column_stack([records(d) * cells, np.full(200_000, float(cells))])
    even = np.diag([1 / math.sqrt(law.scatter)] * d + [1.0])
    even[0, d] = -off / math.sqrt(law.scatter)
    first = tuple(int(v) for v in np.rint(even * 2.0**20).ravel())
    row = next_map(first, rounded_signs(even, z), BITS, 1e-6)
    before, after = (np.array(about_location(one, d, cells)[d * d :]) for one in (first, row))
    assert before[0] / cells == pytest.approx(off, abs=2 / cells)
    assert after[0] / cells == pytest.approx(law.left * off, abs=4e-4)
    assert np.abs(after[1:] / cells).max() < 4e-4


@pytest.mark.parametrize("d", [2, 3, 10])
def test_the_excess_is_that_of_drawn_records(d: int) -> None:
    """200,000 records, 6 standard errors of a mean of squares: else probability below 1e-8."""
    law, x = sign_location(d), np.random.default_rng([d, 1]).normal(size=(200_000, d))
    square = (x**2).sum(axis=1, keepdims=True)
    off = ((d + 1) * x / (law.scatter + square) - x) ** 2
    each = off.mean(axis=1)
    error = 6 * float(each.std()) / math.sqrt(len(each))
    assert abs(float(each.mean()) - law.excess) < error < law.excess / 2


@pytest.mark.parametrize("d", [2, 3, 10])
def test_noise_moves_the_location_by_its_deviation(d: int) -> None:
    """Even signs after a skew map, and 4000 draws of noise of 2e-6: each coordinate's square is
    its own within 6 standard errors (sqrt(2 / 4000) of a square), else probability below 1e-8."""
    k, rng, small = d + 1, np.random.default_rng(d), 2e-6
    back = rng.normal(size=(k, k)) + 3 * np.eye(k)
    said = noise_of_location(back, np.ones(k)) * small
    matrix = back @ back.T
    places = []
    for _ in range(4000):
        noise = rng.normal(size=(k, k)) * small / 2
        moments = np.eye(k) / k + noise + noise.T
        values, vectors = np.linalg.eigh(moments)
        way = back @ vectors
        made = (way * spectrum_of(values)) @ way.T
        places.append(made[:-1, -1] / made[-1, -1] - matrix[:-1, -1] / matrix[-1, -1])
    ratio = (np.square(places).mean(axis=0)) / said**2
    assert np.abs(ratio - 1).max() < 6 * math.sqrt(2 / 4000)
