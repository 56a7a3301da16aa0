"""``robust_mean``: slabs, directions and certificates, and what they do to clean and to
contaminated data."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpverify import RobustMeanEstimate as Estimate
from dpverify import SeededBits
from dpverify.estimation.directional_cuts import cuts, directions
from spec.theory import drawn_normals, outliers, region_noise, regions, released_regions, slabs
from tests.mechanisms.helpers import estimates
from tests.mechanisms.test_robust_mean import ADD, HALVES, contaminated, robust


def test_slabs_cut_hidden_outliers_off_and_certificates_hold() -> None:
    """A tenth of the records are 3 deviations away: without directions the mean is 0.3 off.
    Fixed seeds."""
    data = contaminated(4000, 0.1, (3.0, 0.0), 11)
    inliers, moved = data[400:], data.mean(axis=0) - data[400:].mean(axis=0)
    with_slabs, without = (
        robust(n_max=4000, noise_multiplier=1, record_radius=5, **own)
        for own in ({}, {"directions": 0, "shares": HALVES})
    )
    releases = estimates(with_slabs, data, 12, 60)
    errors = [np.linalg.norm(one.value - inliers.mean(axis=0)) for one in releases]
    plain = [
        np.linalg.norm(one.value - inliers.mean(axis=0)) for one in estimates(without, data, 13, 60)
    ]
    assert all(one.slabs == 1 for one in releases)
    assert np.median(plain) > 0.8 * np.linalg.norm(moved)
    assert max(errors) < np.median(plain) / 3
    assert all(max(errors) < one.certificate < 1 for one in releases)


def test_clean_data_are_not_cut() -> None:
    """60 releases of normal data, none of them cut. Fixed seed."""
    data = contaminated(4000, 0.0, 0.0, 14)
    mechanism = robust(n_max=4000, noise_multiplier=1, record_radius=5, directions=2)
    assert all(one.slabs == 0 for one in estimates(mechanism, data, 15, 60))


@pytest.mark.parametrize(("bins", "record_radius"), [(2, 4), (4, 4), (4, 8), (8, 20), (24, 40)])
def test_clean_data_are_not_cut_by_wide_bins(bins: int, record_radius: float) -> None:
    """Up to four deviations wide. 20 releases of normal data each, none of them cut. Fixed seed."""
    data = contaminated(4000, 0.0, 0.0, 19)
    mechanism = robust(
        n_max=4000, noise_multiplier=1, record_radius=record_radius, directions=2, bins=bins
    )
    releases = estimates(mechanism, data, 20, 20)
    assert all(one.slabs == 0 for one in releases)
    assert all(one.count > 3800 for one in releases)


def test_what_was_cut_is_said_where_the_first_mean_is_released() -> None:
    data = contaminated(4000, 0.1, (3.0, 0.0), 11)
    made = robust(n_max=4000, noise_multiplier=1, record_radius=5)
    batch = made.law(data).sample(SeededBits(21), 3)
    batch.values["sum and count"][:] = 0
    for i in range(3):
        one = made.estimate(batch[i])
        assert isinstance(one, Estimate)
        assert one.count == batch[i].number("agreement")
        assert (one.slabs, one.certificate) == (1, None)


def test_directions_and_slabs_are_the_spec_s() -> None:
    rng = np.random.default_rng(16)
    for d in (1, 2, 4):
        moments = rng.integers(-(2**50), 2**50, (20, d * (d + 1) // 2))
        moments[0] = 0
        for row, numbers in zip(moments.tolist(), directions(moments, d, min(d, 2)), strict=True):
            assert slabs.directions(row, d, min(d, 2)) == tuple(map(tuple, numbers.tolist()))
    normal = np.exp(-(np.linspace(-4, 4, 16) ** 2) / 2) * 1000
    cut = 0
    for noise in (Fraction(1), Fraction(20), Fraction(10**6)):
        counts = (normal + rng.normal(size=(40, 16)) * float(noise)).astype(np.int64)
        counts[20:, 13] += 900
        deviation = rng.integers(1, 800, 40)
        for numbers, *given in zip(
            np.transpose(cuts(counts, deviation, noise)), counts, deviation, strict=True
        ):
            expected = slabs.slab([int(c) for c in given[0]], int(given[1]), noise)
            assert expected == tuple(numbers.tolist())
            cut += not slabs.is_open(expected, 16)
    assert 20 < cut < 120


def test_the_certificate_s_room_is_the_spec_s() -> None:
    made = robust(gamma="0.1", n_max=4000, noise_multiplier=1, record_radius=5)
    batch = made.law(contaminated(4000, 0.1, (3.0, 0.0), 17)).sample(SeededBits(18), 5)
    for i in range(5):
        one = made.estimate(batch[i])
        assert isinstance(one, Estimate)
        assert one.certificate is not None
        public = region_noise.public_map(made.parameters)
        released = list(batch[i].released.values())
        region = released_regions.region_of(made.parameters, public, tuple(released[:2]))
        noise = regions.moments_noise(
            region.radius, ADD, region_noise.multiplier(made.parameters, 1)
        )
        s = [v / 2**40 for v in released[2]]
        largest = np.linalg.eigvalsh([[s[0], s[2] * 169 / 239], [s[2] * 169 / 239, s[1]]])[-1]
        total = (largest + float(drawn_normals.noise_room(2))) * float(noise * public.cell**2)
        deviation = math.hypot(np.asarray(one.spread)[0], one.along[0])
        deviation *= 8 / float(region.radius * public.cell)
        fewest = one.count - 3.1 * deviation * one.count
        stated = float(outliers.leaning(Fraction(1, 10), Fraction(total / fewest)))
        assert abs(one.certificate**2 / stated - 1) < 0.02
