"""``ClippedMean`` under a bounded second moment alone: its radius, its bias, its error with
outliers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify import Abstained, Adjacency, ApproxDP, ClippedMean, SeededBits
from spec import clipped_mean as spec
from spec.theory import heavy_tails

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
BUDGET = ApproxDP(1, "1e-6")


def made(d: int = 3, **own: Any) -> ClippedMean:
    given: dict[str, Any] = {"adjacency": REPLACE, "second_moment": 9, "n_max": 2000}
    return ClippedMean.for_budget(BUDGET, center=(0.0,) * d, **given | own)


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("outliers", ["0", "1/20"])
@pytest.mark.parametrize("d", [1, 3, 50])
def test_the_radius_is_the_specs(adjacency: Adjacency, outliers: str, d: int) -> None:
    own = made(d, adjacency=adjacency, outliers=outliers)
    unit = ClippedMean.for_budget(BUDGET, adjacency=adjacency, center=(0.0,) * d, radius=1)
    wanted = heavy_tails.best_radius(9, unit.expected_error(2000), Fraction(outliers))
    assert math.isclose(own.radius, wanted, rel_tol=1e-12)
    assert own.claim.guarantee == BUDGET
    bias = own.clipping_bias(9, outliers=outliers)
    stated = heavy_tails.clipping_bias(9, Fraction(own.radius), Fraction(outliers))
    assert math.isclose(bias, stated, rel_tol=1e-12)


def test_a_matrix_changes_no_radius() -> None:
    """The second moment is that of the mapped records."""
    turned = made(2, matrix=((3.0, 1.0), (0.0, 2.0)))
    assert turned.radius == made(2).radius


@pytest.mark.parametrize("law", ["student", "lognormal"])
def test_the_bias_of_a_heavy_tailed_law_is_below_the_stated_one(law: str) -> None:
    second = 3 if law == "student" else Fraction(739, 100)
    for n in (100, 10_000, 10**6):
        own = made(1, second_moment=second, n_max=n)
        clipped, _ = heavy_tails.clipped_moments(law, Fraction(own.radius))
        off = abs(clipped - heavy_tails.mean_of(law))
        assert off <= own.clipping_bias(second)
        if n == 100:  # about four deviations
            assert (off > own.clipping_bias(second) / 20) is (law == "lognormal")
        assert spec.heavy_tailed_error(own.parameters, n, law) <= spec.second_moment_bound(
            own.parameters, n, second
        )


def test_outliers_move_it_by_no_more_than_stated() -> None:
    """Opposite to a law that attains the bias, a share of records as far away as floats go; noise
    beside it.

    500 releases: the mean of their errors is within 0.05 of its expectation but for 1e-9.
    """
    share, n = Fraction(1, 20), 2000
    own = made(1, second_moment=4, outliers=share)
    rare = round(
        n * 4 / (2 * own.radius) ** 2
    )  # at twice the radius, so that the second moment is 4
    data = np.zeros(n)
    data[:rare] = 2 * own.radius
    truth = data.mean()
    data[rare : rare + int(n * share)] = -1e308
    batch = own.law(data).sample(SeededBits(3), 500)
    releases = [own.estimate(batch[i]) for i in range(500)]
    values = [float(one.value[0]) for one in releases if not isinstance(one, Abstained)]
    assert len(values) == 500
    off = abs(float(np.mean(values)) - truth)
    stated = own.clipping_bias(4, outliers=share)
    assert stated / 2 < off <= stated + 0.05
    assert own.expected_error(n) < 0.25  # the deviation of one release


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"radius": 1}, "neither a radius nor"),
    ({"outside": "mask"}, "nor outside='mask'"),
    ({"n_max": None}, "give n_max with it"),
    ({"second_moment": 0}, "second_moment = 0 is not positive"),
    ({"outliers": "1/2"}, "outliers = 1/2 is outside"),
    ({"outliers": -1}, "outliers = -1 is outside"),
    ({"second_moment": None, "radius": 1}, "give second_moment with them"),
    ({"second_moment": 10**700}, "radius"),
]


@pytest.mark.parametrize(("own", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_chooses_no_radius_is_refused(own: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(**own)
    masked = ClippedMean(adjacency=ADD, noise_multiplier=1, center=(0,), radius=1, outside="mask")
    with pytest.raises(ValueError, match="leaves records out"):
        masked.clipping_bias(1)
