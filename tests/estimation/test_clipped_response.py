"""Means of clipped and masked normal records: the spec's numbers, the way back, radii of least
error."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpverify.estimation.clipped_response import (
    Outside,
    best_masked_bound,
    farthest,
    moment,
    response_of,
)
from dpverify.estimation.normal_fits import mean_response
from spec.theory import clipped_response as spec

KINDS: tuple[Outside, ...] = ("clip", "mask")


@pytest.mark.parametrize("outside", KINDS)
@pytest.mark.parametrize("d", [1, 2, 5, 60])
def test_moments_are_the_spec_s(d: int, outside: Outside) -> None:
    for radius in (0.3, math.sqrt(d), 2 * math.sqrt(d) + 1):
        for offset in (0.0, 1e-3, 0.5, farthest(d, outside)):
            moments = moment(d, radius, offset, outside)
            exact = spec.moment(d, radius, offset, outside)
            for name in ("length", "ratio", "slope", "inside"):
                value = getattr(moments, name)
                assert value == pytest.approx(float(getattr(exact, name)), rel=1e-8), (name, radius)
        assert moment(d, radius, 0.0, "clip").ratio == pytest.approx(mean_response(d, radius**2))


@pytest.mark.parametrize("outside", KINDS)
@pytest.mark.parametrize("d", [1, 5, 400, 10_000])
def test_the_way_back_is_exact_alone_and_near_in_batches(d: int, outside: Outside) -> None:
    for factor in (0.6, 1.0, 1.6):
        radius = factor * math.sqrt(d)
        response = response_of(d, radius, outside)
        if spec.nearly_empty(d, radius, outside):
            assert response.back(radius / 2) is None
            assert (response.ratios(np.array([0.0, radius / 2, radius])) == 0).all()
            continue
        assert (np.diff(response.lengths) > 0).all()
        offsets = np.linspace(0, farthest(d, outside) * 0.999, 19)
        lengths = np.array([response.at(float(m)).length for m in offsets])
        for offset, length in zip(offsets[1:], lengths[1:], strict=True):
            back = response.back(float(length))
            assert back == pytest.approx(float(offset), rel=1e-7)
        ratios = response.ratios(lengths)
        assert np.allclose(ratios * lengths, offsets, rtol=3e-4, atol=1e-9)
        assert [response.ratios(np.array([v]))[0] for v in lengths] == ratios.tolist()
        assert response.back(radius) is None
        assert response.ratios(np.array([2 * radius]))[0] * 2 * radius == farthest(d, outside)


def test_masked_radii_of_least_error_are_the_spec_s() -> None:
    assert best_masked_bound(10_000, 1e5, 0.2, 2) > 9000
    for d, n, mu, moves in ((1, 200.0, 1.0, 1), (5, 1000.0, 0.2, 2), (50, 8000.0, 0.2, 2)):
        assert best_masked_bound(d, n, mu, moves) == pytest.approx(
            float(spec.best_masked_bound(d, n, mu, moves))
        )
