"""The specs' expected errors that rates brought with them; no chance in it."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify import Adjacency, PrivateQuantile, RobustMean, StabilityHistogram
from dpverify.grid import ingest
from dpverify.grid.image_view import Images
from dpverify.transformations.soft_core import SoftAgreement, agreement_of
from spec import private_quantile, robust_mean, stability_histogram
from spec.theory import outliers


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("quantile", ["1/2", "1/3", "1"])
def test_the_quantile_s_expected_error_is_the_sum_over_all_cells(
    adjacency: Adjacency, quantile: Any
) -> None:
    """Written from the mechanism's description: every cell of a grid of 17, one by one."""
    mechanism = PrivateQuantile(
        adjacency=adjacency, noise_multiplier=Fraction(3, 2), lower=0.0, upper=16.0,
        quantile=quantile, cell=Fraction(1),
    )  # fmt: skip
    records = [0, 3, 3, 5, 11, 16, 16, 16]
    p = float(Fraction(quantile))
    denominator = Fraction(quantile).denominator
    moves = (
        denominator
        if adjacency is Adjacency.REPLACE
        else max(Fraction(quantile).numerator, denominator - Fraction(quantile).numerator)
    )
    below = np.array([sum(z < t for z in records) for t in range(17)])
    up_to = np.array([sum(z <= t for z in records) for t in range(17)])
    error = np.maximum(0, np.maximum(below - p * 8, p * 8 - up_to))
    weights = np.exp(-denominator * error / (2 * 1.5 * moves))
    expected = math.sqrt(float((weights * error**2).sum() / weights.sum()))
    predicted = private_quantile.expected_error(mechanism.parameters, list(map(Fraction, records)))
    assert math.isclose(float(predicted), expected, rel_tol=1e-12)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_histogram_s_expected_error_is_the_noise_s_deviation(
    noise: Any, adjacency: Adjacency
) -> None:
    mechanism = StabilityHistogram(
        adjacency=adjacency, noise_multiplier=Fraction(5, 2), width=1, delta=Fraction(1, 100),
        noise=noise
    )  # fmt: skip
    scale = float(stability_histogram.scale(mechanism.parameters))
    values = np.arange(-400, 401, dtype=np.float64)
    if noise == "laplace":
        weights = np.exp(-np.abs(values) / scale)
    else:
        ends = [math.erf((z - 0.5) / scale / math.sqrt(2)) / 2 for z in range(-400, 402)]
        weights = np.diff(ends)
    expected = math.sqrt(float((values**2 * weights).sum() / weights.sum()))
    predicted = float(stability_histogram.expected_error(mechanism.parameters))
    assert math.isclose(predicted, expected, rel_tol=1e-9)


def test_the_robust_mean_s_expected_error_knows_what_outliers_leave_to_agree_on() -> None:
    """Forty of 400 records at one far place: 317 is what the shipped query counts, and the spec."""
    mechanism = RobustMean(
        adjacency=Adjacency.REPLACE, deviations=(1.0, 1.0), radius=8, record_radius=6, n_max=400,
        tail=Fraction(1, 10**7), noise_multiplier=Fraction(1, 4), directions=0,
        full=Fraction(9, 10),
        shares=(Fraction(1, 2), Fraction(1, 2)),
    )  # fmt: skip
    data = np.random.default_rng(1).normal(3.0, 0.5, (400, 2))
    data[:40] += 50.0
    stage, *_ = mechanism.fixed_plan
    query = getattr(stage, "query", None)
    assert isinstance(query, SoftAgreement)
    mapped = Images(ingest(data, mechanism.domain), query.nearness)
    assert agreement_of(mapped, Fraction(9, 10)) == 317
    assert outliers.sure_agreement(400, 360, Fraction(9, 10)) == 317
    alone, among = (
        float(robust_mean.expected_error(mechanism.parameters, *numbers))
        for numbers in ((360,), (400, 360))
    )
    assert alone < among < 1.2 * alone
    assert robust_mean.expected_error(mechanism.parameters, 400, 400) == (
        robust_mean.expected_error(mechanism.parameters, 400)
    )
