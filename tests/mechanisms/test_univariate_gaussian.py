"""``univariate_gaussian``: on every dataset as the spec says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpverify import (
    Abstained,
    Adjacency,
    ApproxDP,
    NormalEstimate,
    SeededBits,
    UnivariateGaussian,
    result_from,
)
from dpverify.suite.refinement import compare_facts
from spec import univariate_gaussian as spec

EDGE = [0.0, -0.0, 0.5, 5e-324, -5e-324, 2.2e-308, 1e308, -1e308, 1.7976931348623157e308]


def line(**parameters: Any) -> UnivariateGaussian:
    own: dict[str, Any] = {"adjacency": Adjacency.ADD_REMOVE, "noise_multiplier": 1, "cell": 2**-8}
    return UnivariateGaussian(**own | parameters)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("cell", [2**-8, 5e-324, 1.7e308])
def test_every_dataset_has_a_typed_release_and_the_spec_s_law(
    adjacency: Adjacency, cell: float
) -> None:
    mechanism = line(
        adjacency=adjacency, cell=cell, at_least=1, reach=4 * cell if cell < 1 else None
    )
    datasets: list[Any] = [EDGE[:1], EDGE, np.random.default_rng(0).normal(size=50)]
    assert compare_facts(spec, mechanism, datasets) > 3
    for seed, data in enumerate(datasets):
        found = mechanism.release(data, SeededBits(seed))
        assert result_from(found.to_dict()) == found


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_a_far_normal_law_is_found(adjacency: Adjacency) -> None:
    """5 fixed seeds: a mean of 333,665 deviations, within five times the root mean square."""
    budget = ApproxDP(1, "1e-6")
    mechanism = UnivariateGaussian.for_budget(budget, adjacency=adjacency, cell=2**-20)
    for seed in range(5):
        data = np.random.default_rng(seed + 50).normal(12345.6, 0.037, 1000)
        found = mechanism.release(data, SeededBits(seed))
        assert isinstance(found, NormalEstimate)
        assert abs(found.value - 12345.6) < 5 * 0.04 * 0.037
        assert abs(found.deviation / 0.037 - 1) < 5 * 0.035


def test_noise_beyond_every_float_abstains() -> None:
    mechanism = line(noise_multiplier="1e310")
    assert spec.at_least(mechanism.parameters) == 1 << 60
    assert isinstance(mechanism.release([1.0] * 9, SeededBits(1)), Abstained)
