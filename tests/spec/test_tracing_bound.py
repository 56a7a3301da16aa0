"""The tracing bound's numbers: against scipy, at two precisions, and as they were first
computed."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import chi2

from dpverify.privacy import Adjacency
from spec.theory.buckets import best_bucket, buckets
from spec.theory.chi_square import quantile_below, top_mass
from spec.theory.packing import most_success
from spec.theory.tracing_bound import leak, least_error, records_needed, sampling_error, spectrum

MILLIONTH = Fraction(1, 10**6)
HARMONIC = [Fraction(1, i**2) for i in range(1, 1001)]
ONE: dict[str, Any] = {"epsilon": Fraction(1), "delta": MILLIONTH}


@pytest.mark.parametrize("d", [1, 2, 3, 50, 51, 1000])
@pytest.mark.parametrize(
    "delta", [Fraction(1, 10**9), MILLIONTH, Fraction(1, 7), Fraction(999, 1000)]
)
def test_what_a_rare_event_holds_agrees_with_scipy(d: int, delta: Fraction) -> None:
    q = chi2.isf(float(delta), d)
    assert float(quantile_below(d, delta)) == pytest.approx(q, rel=1e-9)
    assert float(top_mass(d, delta)) == pytest.approx(d * chi2.sf(q, d + 2), rel=1e-7)


def test_known_values() -> None:
    roots = [math.sqrt(top_mass(d, MILLIONTH)) for d in (400, 1000)]
    assert [round(root, 4) for root in roots] == [0.0236, 0.0352]
    assert round(float(leak(Fraction(1), MILLIONTH, 1000)), 4) == 0.8129
    error = float(least_error(variances=HARMONIC, n=10**4, **ONE))
    roots_sum = sum(1 / i for i in range(1, 1001))
    assert error == pytest.approx(roots_sum / 10**4 / 0.812892, rel=1e-6)
    assert float(sampling_error(HARMONIC, 10**4)) == pytest.approx(0.0128216, rel=1e-5)


def test_bounds_are_rounded_down_at_every_precision() -> None:
    variances = HARMONIC[:40]
    rough = least_error(variances=variances, n=30, **ONE)
    with mp.workdps(50):
        fine = least_error(variances=variances, n=30, **ONE)
        assert rough < fine < rough * (1 + mp.mpf("1e-9"))
    with mp.workdps(60):
        assert fine < least_error(variances=variances, n=30, **ONE) < fine * (1 + mp.mpf("1e-40"))


def test_fewer_coordinates_help_where_delta_is_large() -> None:
    """Compare: with delta = 1/10 half of a large dimension leaks less than all of it, by more
    than it adds."""
    variances = [Fraction(1)] * 4 + [Fraction(1, 10**6)] * 60
    given: dict[str, Any] = {"epsilon": Fraction(1, 2), "delta": Fraction(1, 10), "n": 10}
    assert least_error(variances=variances, **given) > least_error(variances=variances[:1], **given)
    whole = (
        sum(math.sqrt(v) for v in variances)
        / 10
        / float(leak(given["epsilon"], given["delta"], 64))
    )
    assert least_error(variances=variances, **given) > 1.5 * whole


def test_bounds_at_the_edges() -> None:
    assert top_mass(5, Fraction(0)) == 0
    assert top_mass(5, Fraction(1)) == 5
    nothing: dict[str, Any] = {
        "epsilon": Fraction(0),
        "delta": Fraction(0),
        "variances": [Fraction(1)],
    }
    assert least_error(n=9, **nothing) == mp.inf  # nothing is told of the mean
    assert least_error(n=9, spread=Fraction(3), **nothing) == pytest.approx(3)
    assert records_needed(alpha=mp.mpf(9), spread=Fraction(3), **(nothing | ONE)) == 0
    assert most_success(Fraction(50), 3, 7, Adjacency.REPLACE) <= 1
    assert [len(bucket) for bucket in buckets([Fraction(3)])] == [1]
    assert best_bucket([Fraction(1), Fraction(2), Fraction(2)]) == (Fraction(2), Fraction(2))


def test_the_spectrum_of_a_singular_matrix_leaves_zeros_out() -> None:
    v = np.array([3, 4])
    matrix = [[Fraction(int(a * b)) for b in v] for a in v]
    (value,) = spectrum(matrix)
    assert 25 * (1 - 1e-6) < value < 25
