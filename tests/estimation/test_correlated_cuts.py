"""Errors of cuts of correlated normal records, and the deviations that a robust mean reports."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpverify import Abstained, Adjacency, ApproxDP, RobustMean, SeededBits
from dpverify.estimation.correlated_cuts import (
    about_mean,
    agreement_shares,
    cuts,
    most_correlated,
    one_axis,
    points,
    spectrum,
)
from dpverify.estimation.long_axes import explained, seen_deviations
from dpverify.grid import View
from dpverify.privacy.numbers import Floats
from spec.theory import correlated_cuts as spec
from spec.theory import long_axes
from tests.mechanisms.helpers import law_on, view_of

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
FALSE_ALARM, DATASETS, RECORDS = 1e-10, 60, 3000


@pytest.mark.parametrize(("d", "radius", "common"), [(2, 1.5, 0.6), (10, 5.0, 0.5), (50, 8.9, 0.9)])
def test_one_correlation_is_the_spec_s(d: int, radius: float, common: float) -> None:
    """The drawn records agree up to the error of 2048 pairs."""
    share, follows, excess = one_axis(d, radius, common)
    expected = spec.one_axis(d, radius, common)
    assert share == pytest.approx(float(expected[0]), abs=1e-3)
    assert follows == pytest.approx([float(v) for v in expected[1]], abs=2e-3)
    assert excess == pytest.approx([float(v) for v in expected[2]], rel=0.02)
    variances = np.array([1 + (d - 1) * common, *[1 - common] * (d - 1)])
    drawn = cuts(variances, radius, 1e9, np.zeros((0, d)), np.zeros(0), 0.0)
    plain = cuts(np.ones(d), radius, 1e9, np.zeros((0, d)), np.zeros(0), 0.0)
    assert plain.follows.mean() == pytest.approx(1, abs=1e-12)
    assert drawn.share == pytest.approx(share, abs=0.03)
    whole = one_axis(d, radius, 0.0)[1][1]
    assert drawn.follows[0] == pytest.approx(follows[0] / whole, rel=0.06)


def test_slabs_of_drawn_records_are_those_of_samples() -> None:
    """10^5 records with a slab across the long axis, in a ball that draws in. Fixed seed."""
    variances = np.array([4.0, 1.0, 0.5])
    y = np.random.default_rng(3).normal(size=(100_000, 3)) * np.sqrt(variances)
    length = np.linalg.norm(y, axis=1)
    inside = (length <= 4) & (np.abs(y[:, 0]) <= 1.5)
    h = np.minimum(1, 2.5 / length) * inside
    known = cuts(variances, 4.0, 2.5, np.eye(3)[:1], np.array([1.5]), 0.0)
    assert known.share == pytest.approx(inside.mean(), abs=0.03)
    own = points(3)
    squares = np.square(own).sum(axis=1)
    near = squares <= 16
    response = (np.minimum(1, 2.5 / np.sqrt(squares)) * near) @ squares / 3 / near.sum()
    estimate = h[:, np.newaxis] * y / inside.mean() / response
    follows = (estimate * y).mean(axis=0) / variances
    assert known.follows == pytest.approx(follows, rel=0.1)
    assert known.excess == pytest.approx(np.square(estimate - y).mean(axis=0), rel=0.1)


@pytest.mark.parametrize("long", [1.0, 3.0, 6.0])
def test_released_moments_show_the_variances(long: float) -> None:
    """Eigenvalues of 10 columns, with noise of a tenth of a variance. Fixed seed."""
    rng = np.random.default_rng(4)
    y = rng.normal(size=(50_000, 10)) * np.sqrt([long, *[(10 - long) / 9] * 9]) + 0.1
    y = y[np.linalg.norm(y, axis=1) <= 5] * 1.0
    y *= np.minimum(1, 3 / np.linalg.norm(y, axis=1, keepdims=True))
    noise = np.triu(rng.normal(size=(10, 10)) * 0.1 / np.sqrt(2), 1)
    moments = y.T @ y / len(y) + noise + noise.T + np.diag(rng.normal(size=10) * 0.1)
    values, _ = about_mean(*np.linalg.eigh(moments), np.full(10, 0.1))
    assert spectrum(values, 0.1, 5.0, 3.0, 0.1)[-1] == pytest.approx(long, rel=0.2, abs=0.3)
    assert (spectrum(values, 1e9, 5.0, 3.0, 0.1) == 1).all()  # noise explains everything


def test_moments_that_tell_nothing_are_those_of_uncorrelated_records() -> None:
    for values in (np.zeros(3), np.array([-1.0, 0.0, 0.0]), np.full(3, np.inf), np.ones(3)):
        assert spectrum(values, 1.0, 3.0, 3.0, 0.0) == pytest.approx(np.ones(3))
    values, _ = about_mean(np.ones(2), np.eye(2), np.full(2, 1e140))
    assert np.isfinite(values).all()


def test_agreement_shows_the_most_correlation() -> None:
    shares = agreement_shares(10, 6.5, None)
    assert (np.diff(shares) < 0).all()
    ratio = float(shares[10] / one_axis(10, 5.0, 0.5)[0])
    assert most_correlated(10, 6.5, 5.0, None, ratio) == pytest.approx(0.5, abs=0.01)
    assert most_correlated(10, 6.5, 5.0, None, 2.0) == 0
    assert most_correlated(10, 6.5, 5.0, None, -1.0) == pytest.approx(0.99)
    assert agreement_shares(10, 6.5, Fraction(9, 10))[0] > shares[0]


def test_deviations_seen_are_the_spec_s() -> None:
    """Histograms of deviations 1 to 3, one of which is a total of nothing."""
    rng = np.random.default_rng(5)
    edges = np.linspace(-6, 6, 25)
    for gamma, noise in ((Fraction(1, 10), Fraction(20)), (Fraction(1, 4), Fraction(1))):
        drawn = [rng.normal(0, s, 3000) for s in rng.uniform(1, 3, 40)]
        counts = np.array([np.histogram(own, edges)[0] for own in drawn])
        counts = (counts + rng.normal(size=counts.shape) * float(noise)).astype(np.int64)
        counts[0], counts[1] = 0, -5
        deviation = np.full(40, 512)
        seen = seen_deviations(counts, deviation, noise, gamma).tolist()
        rows = [[int(c) for c in row] for row in counts]
        assert seen == [long_axes.seen_deviation(row, 512, noise, gamma) for row in rows]
        assert explained(gamma) == long_axes.explained(gamma)
        assert (max(seen) > 1000) == (gamma < Fraction(1, 4))


CASES: dict[str, dict[str, Any]] = {
    "histograms": {},
    "inner moments": {"inner": 9},
    "no directions": {"directions": 0},
}


@pytest.fixture(scope="module")
def correlated() -> tuple[list[View], list[Floats]]:
    """Views of the 60 datasets, whose friends are counted once for all mechanisms, and the means;
    ten columns with one correlation of 1/2."""
    root = np.linalg.cholesky(0.5 * np.eye(10) + 0.5).T
    rngs = (np.random.default_rng([41, run]) for run in range(DATASETS))
    data = [rng.normal(size=(RECORDS, 10)) @ root for rng in rngs]
    return [view_of(covering("histograms", ADD), one) for one in data], [
        one.mean(axis=0) for one in data
    ]


def covering(case: str, adjacency: Adjacency) -> RobustMean:
    """Build the mechanism of a case; all have the same friends."""
    given: dict[str, Any] = {"deviations": [1.0] * 10, "n_max": RECORDS, **CASES[case]}
    return RobustMean.for_budget(ApproxDP(1, "1e-6"), adjacency=adjacency, **given)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_deviations_cover_for_correlated_records(
    case: str, adjacency: Adjacency, correlated: tuple[list[View], list[Floats]]
) -> None:
    """Of 60 datasets of ten columns with one correlation of 1/2, the errors along the long axis and
    across it, in the deviations that are reported, are not too large.

    The sum of their mean squares is at most a chi-square of 60 degrees where all columns err alike,
    and beyond the limit (159) with probability 1e-10. For uncorrelated records' deviations it is
    above 190.
    """
    made, square = covering(case, adjacency), 0.0
    for run, (view, mean) in enumerate(zip(*correlated, strict=True)):
        one = made.estimate(law_on(made, view).sample(SeededBits(run), 1))
        assert not isinstance(one, Abstained)
        ratios = (one.value - mean) / one.standard_deviation
        square += float(np.square(ratios).mean())
    assert square < stats.chi2.ppf(1 - FALSE_ALARM, DATASETS)


def test_next_to_a_quarter_of_outliers_quartiles_may_be_anywhere() -> None:
    """Floats do not tell so near a quarter from one."""
    assert explained(Fraction(1, 4) - Fraction(1, 10**17)) is None
    assert long_axes.explained(Fraction(1, 4) - Fraction(1, 10**17)) is None
    assert explained(Fraction(1, 10)) == long_axes.explained(Fraction(1, 10))
