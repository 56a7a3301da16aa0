"""Shares and moments beside closed forms: far from the mean, of many columns, below any float."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import ncx2

from dpverify.families import clipped_moments as shipped
from spec.theory.chi_square import below
from spec.theory.clipped_moments import clipped
from spec.theory.clipped_moments import inside as inside_of
from spec.theory.clipped_response import moment, poisson
from spec.theory.gaussian_families import inside
from spec.theory.kept_response import _within


@pytest.mark.parametrize("offset", ["0", "0.001", "5", "38", "40"])
def test_the_part_inside_is_that_of_a_noncentral_law(offset: str) -> None:
    """At 40 e^(-40^2 / 2) is no float. Planted: weights made from it were all 0."""
    size = float(offset)
    wanted = ncx2.cdf((size + 1) ** 2, 3, size**2) if size else ncx2.cdf(1, 3, 1e-30)
    at = moment(3, mp.mpf(size + 1), mp.mpf(offset), "clip")
    assert float(at.inside) == pytest.approx(wanted, rel=1e-10)
    assert 0 < at.ratio < 1


@pytest.mark.parametrize("mean", [0.0, 1e-300, 0.3, 7.0, 1e3, 1e5])
def test_poisson_weights_have_their_mean_and_variance(mean: float) -> None:
    weights = poisson(mean)
    first = sum(k * w for k, w in enumerate(weights))
    assert sum(weights) == pytest.approx(1, rel=1e-12)
    assert first == pytest.approx(mean, rel=1e-12)
    second = sum((k - mean) ** 2 * w for k, w in enumerate(weights))
    assert second == pytest.approx(mean, rel=1e-9)


@pytest.mark.parametrize(
    ("degrees", "square", "across"),
    [(2, 2e-4, 3), (1, 1e-2, 6), (2, 1e-11, 0.1), (3, 0.1, 8), (5, 2.0, 12), (2, 900.0, 30)],
)
def test_a_small_share_is_not_lost(degrees: int, square: float, across: float) -> None:
    """Planted: from a step of less than any float on, all shares were 0."""
    with mp.workdps(30):
        mean, wanted = mp.mpf(across) ** 2 / 2, mp.mpf(0)
        for k in range(int(mean + 12 * mp.sqrt(mean)) + 40):
            weight = mp.exp(k * mp.log(mean) - mean - mp.loggamma(k + 1))
            wanted += weight * mp.gammainc(mp.mpf(degrees) / 2 + k, 0, square / 2, regularized=True)
    assert _within(degrees, mp.mpf(square), mp.mpf(across)) == pytest.approx(wanted, rel=1e-10)


@pytest.mark.parametrize("mean", [0, 3, 20, 40])
def test_a_ball_far_from_the_mean_has_its_share(mean: int) -> None:
    """At 40 it is 6e-317. Planted: in floats alone it was 0."""
    share = inside([mp.mpf(mean), mp.mpf(0)], [mp.mpf(1)] * 2, mp.mpf(4))
    assert abs(share / _within(2, mp.mpf(4), mp.mpf(mean)) - 1) < 1e-10


def test_a_narrow_law_far_from_a_ball_overflows_nothing() -> None:
    """Planted: exp(s bound) was no float."""
    share = inside([mp.mpf(3)] * 2, [mp.mpf(1), mp.mpf("1e-6")], mp.mpf(4))
    assert abs(share) < 1e-300


@pytest.mark.parametrize("part", [0.25, 1, 2])
@pytest.mark.parametrize("d", [1, 10, 64, 150, 299, 300, 500, 1023])
def test_many_columns_have_their_moments(d: int, part: float) -> None:
    """Compare, for equal variances, with chi-square laws of d and d + 2 degrees. Planted: with 24
    places a piece, as for few columns, they were off by 1e-8 for 64 columns, and by 3e-3 for 100.
    With a path that always ended at 4.2, P(Q <= 150) was -.5 for 150 columns. With a path about
    0 alone, P(Q <= 500) was 6e38 for 500 columns.
    """
    with mp.workdps(22):
        spectrum, bound = [mp.mpf(1)] * d, mp.mpf(d) * part
        share, biased = below(d, bound), below(d + 2, bound)
        clip = biased + bound * (1 - share) / d
        assert abs(inside_of(spectrum, bound) / share - 1) < 1e-14
        assert abs(inside_of(spectrum, bound, 0) / biased - 1) < 1e-14
        assert abs(clipped(spectrum, bound, 0) / clip - 1) < 1e-14


@pytest.mark.parametrize("outside", ["clip", "mask"])
def test_many_different_columns_have_their_moments(outside: str) -> None:
    """Compare with the shipped floats, whose paths and rules of quadrature are others."""
    variances = np.repeat(np.geomspace(1e-3, 10.0, 93), 11)
    bound = float(variances.sum())
    spectrum = [mp.mpf(float(one)) for one in variances]
    if outside == "clip":
        value = spectrum[-1] * clipped(spectrum, mp.mpf(bound), 1022)
        wanted = shipped.clipped_spectrum(variances, bound)[-1]
    else:
        value = spectrum[-1] * inside_of(spectrum, mp.mpf(bound), 1022)
        wanted = shipped.masked_spectrum(variances, bound)[1][-1]
    assert float(value) == pytest.approx(wanted, rel=1e-11)
