"""``sum_of_variances``: which coordinates; the rest is in test_kth_largest_variance.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpverify import Adjacency, SeededBits, SumOfVariances


def _made(**parameters: Any) -> SumOfVariances:
    base: dict[str, Any] = {"adjacency": Adjacency.ADD_REMOVE, "noise_multiplier": 1, "d": 3}
    return SumOfVariances(**base | {"delta": "1e-3", "groups": 400} | parameters)


@pytest.mark.parametrize(
    ("over", "truth"), [(None, 10101), ((0,), 1), ((2, 0), 101), ((0, 1, 2), 10101), ((1,), 10**4)]
)
def test_the_sum_is_over_these(over: Any, truth: float) -> None:
    """Missed with probability at most 1e-6; strongly correlated coordinates."""
    made = _made(over=over)
    rng, n = np.random.default_rng(3), made.minimum_n(beta="1e-6")
    common = rng.normal(size=(n, 1))
    data = (0.8 * common + 0.6 * rng.normal(size=(n, 3))) * np.array([1, 100, 10])
    release: Any = made.release(data, SeededBits(1))
    assert 1 / 4 <= release.value / truth <= 4


@pytest.mark.parametrize("over", [(), (0, 0), (3,), (-1,)])
def test_other_coordinates_are_refused(over: Any) -> None:
    with pytest.raises(ValueError, match=r"name at least one of 0\.\.2, each once"):
        _made(over=over)


def test_the_dimension_does_not_matter_for_how_many_records_are_enough() -> None:
    assert _made(d=1).minimum_n() == _made(d=1000).minimum_n()
