"""Maps that whiten records: counts, lengths of a search, the center that a map implies."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from dpverify.estimation.sign_rounds import START_BITS
from dpverify.estimation.whitening import (
    FARTHEST,
    about_location,
    count_of,
    octave_of,
    octaves,
    place_of,
    solved,
    whole_cells,
)
from dpverify.grid.vectors import OUTER_BOX
from dpverify.plans.search import Search


def test_counts_are_told_to_a_quarter_of_an_octave() -> None:
    """Compare with exact fourth powers: 2^k <= count^4 < 2^(k + 1)."""
    rng = np.random.default_rng(0)
    counts = [1.0, 2.0, 3.0, 1e6, 2.0**60, *np.exp(rng.uniform(0, 40, 500)).tolist()]
    counts += [count_of(k) for k in range(4, 200, 4)]  # powers of two, which are exact
    for count in counts:
        k = octave_of(count)
        numerator, denominator = count.as_integer_ratio()
        assert 2**k * denominator**4 <= numerator**4 < 2 ** (k + 1) * denominator**4
        assert count_of(k) == pytest.approx(2 ** (k / 4))
    assert octaves(np.array([-1e300, -5.0, 0.0, 0.5, 1.0])).tolist() == [0] * 5
    assert [octave_of(count) for count in sorted(counts)] == sorted(map(octave_of, counts))


@pytest.mark.parametrize("steps", [1, 3, 5, 6, 13])
def test_lengths_of_a_search_are_exact_and_in_order(steps: int) -> None:
    """2^(37 + 32 middle / 2^steps), its mantissa to 2^-40, by 60 digits."""
    search = Search("length", 1, steps)
    nodes = range(1, min(2 ** (steps + 1), 600))
    by_middle = sorted((search.middles((node,))[0], place_of(search, node)) for node in nodes)
    places = [place for _, place in by_middle]
    assert places == sorted(places)
    with mp.workdps(60):
        for middle, place in by_middle:
            wanted = mp.mpf(2) ** (37 + mp.mpf(32 * middle) / 2**steps)
            if wanted < FARTHEST:
                assert abs(place - wanted) <= wanted * mp.mpf(2) ** -40 + 1
            else:
                assert place == FARTHEST
    assert places[0] >= 32
    assert places[-1] <= FARTHEST


@pytest.mark.parametrize("d", [1, 2, 5])
def test_the_center_that_a_map_implies(d: int) -> None:
    """|C z|^2 - |C_x (x - l)|^2, z = (x, h), is one constant, and |C' (x - l)| is |C_x (x - l)|
    up to a factor."""
    rng = np.random.default_rng(d)
    for _ in range(5):
        matrix = rng.integers(-(2**20), 2**20, (d + 1, d + 1)) + (np.eye(d + 1, dtype=int) << 20)
        constant = int(rng.integers(1000, 5000))
        row = tuple(int(v) for v in matrix.ravel())
        parts = about_location(row, d, constant)
        assert all(isinstance(v, int) for v in parts)
        square, location = np.array(parts[: d * d], float).reshape(d, d), np.array(parts[d * d :])
        exact = -constant * np.linalg.lstsq(matrix[:, :d], matrix[:, d], rcond=None)[0]
        assert np.abs(location - exact).max() <= 0.5 + 1e-6
        points = rng.normal(size=(50, d)) * 1e4
        whole = np.column_stack([points, np.full(50, constant)]) @ matrix.T
        about = (points - exact) @ matrix[:, :d].T
        rest = (whole**2).sum(axis=1) - (about**2).sum(axis=1)
        assert np.ptp(rest) <= 1e-9 * (whole**2).sum(axis=1).max()
        ratio = np.linalg.norm((points - exact) @ square.T, axis=1) / np.linalg.norm(about, axis=1)
        np.testing.assert_allclose(ratio, ratio[0], rtol=2**-12)
        assert np.linalg.svd(square)[1][-1] > 2 ** (START_BITS - 1)


def test_what_a_map_takes_to_an_image() -> None:
    matrix = np.array([[65536, 7], [-3, 90000]])
    row = tuple(int(v) for v in matrix.ravel())
    image = np.array([1e9, -2e9])
    np.testing.assert_allclose(matrix @ solved((*row, 5, 6), 2, image), image, rtol=1e-12)
    singular = solved((1, 1, 1, 1), 2, np.array([2.0, 2.0]))
    np.testing.assert_allclose(singular, [1.0, 1.0])
    assert whole_cells(np.array([0.4, -1.6, np.nan, np.inf, -1e300])) == [
        0,
        -2,
        0,
        OUTER_BOX,
        -OUTER_BOX,
    ]
