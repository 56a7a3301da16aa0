"""Second moments about a released center: exact, by whichever product."""

from __future__ import annotations

import numpy as np
import pytest

from dpverify.grid import region_queries as regions


@pytest.mark.parametrize("d", [3, 23, 24])
@pytest.mark.parametrize("size", [1, 2])
def test_products_are_exact_on_both_sides_of_what_is_large(d: int, size: int) -> None:
    """2000 rows: large from 23 columns on. Entries up to 2^30, so that sums leave the 53 bits of
    a float."""
    rng = np.random.default_rng(5)
    rows = rng.integers(-(2**24), 2**24, (size, 2000, d))
    rows[:, 0] = 2**30 - 1
    often = rng.integers(0, 3, (size, 2000, 1))
    often[:, 0] = 1
    products = regions.products((rows * often).transpose(0, 2, 1), rows)
    exact = np.stack(
        [(r * w).astype(object).T @ r.astype(object) for r, w in zip(rows, often, strict=True)]
    )
    assert (products == exact).all()
    assert int(products.max()) > 2**53
    rounded = (rows * often).transpose(0, 2, 1).astype(np.float64) @ rows.astype(np.float64)
    assert (rounded.astype(np.int64) != products).any()  # what a product of floats alone would give
    assert (2000 * d * d >= regions._LARGE) is (d >= 23)
