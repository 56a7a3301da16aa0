"""``winsorized_mean``: by its spec's law on every dataset, within its error, whatever the
outliers."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify import (
    Adjacency,
    ApproxDP,
    GaussianDP,
    PureDP,
    SeededBits,
    VectorMeanEstimate,
    WinsorizedMean,
)
from dpverify.grid.transcripts import transcript
from dpverify.privacy import BoundedRange
from dpverify.suite.refinement import compare_facts
from spec import winsorized_mean as spec
from spec.theory.quantiles import gaussian_of_range
from tests.mechanisms.centered import normal
from tests.mechanisms.helpers import (
    OF_NORMAL_NOISE,
    RELEASES,
    estimates,
    fails_at_most,
    mean_square_fits,
)
from tests.randomness.helpers import NoBits

REPLACE = Adjacency.REPLACE
EDGE = [0.0, -0.0, 0.5, 5e-324, -5e-324, 2.2e-308, 1e308, -1e308, 1.7976931348623157e308]


def winsorized(d: int = 2, **parameters: Any) -> WinsorizedMean:
    base: dict[str, Any] = {
        "adjacency": REPLACE,
        "noise_multiplier": 1,
        "lower": (-8.0,) * d,
        "upper": (8.0,) * d,
    }
    return WinsorizedMean(**base | parameters)


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"lower": 1.0}, TypeError, "give a sequence of numbers"),
    ({"lower": (1.0,)}, ValueError, "1 lower and 2 upper bounds"),
    ({"lower": (1.0, 8.0)}, ValueError, "column 1.*are equal"),
    ({"lower": (9.0, 0.0)}, ValueError, "column 0.*are reversed"),
    ({"upper": (8.0, float("inf"))}, ValueError, "give finite numbers|is not finite"),
    ({"lower": (1e9, 0.0), "upper": (1e9 + 1, 8.0)}, ValueError, "Subtract a public constant"),
    ({"noise": "uniform"}, ValueError, "write 'gaussian' or 'laplace'"),
    ({"cells": 1}, ValueError, r"outside 2\.\.2\^24"),
    ({"cells": 2.5}, TypeError, "give an integer"),
    ({"clipped": 0}, ValueError, "try '1e-4'"),
    ({"quartile_share": 1}, ValueError, r"outside \(0, 1\)"),
    ({"adjacency": Adjacency.ADD_REMOVE}, ValueError, "Use Adjacency.REPLACE, or Coordinatewise"),
    ({"noise_multiplier": 0}, ValueError, "use for_budget"),
]


@pytest.mark.parametrize(("change", "kind", "message"), BAD, ids=range(len(BAD)))
def test_bad_parameters_are_refused(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        winsorized(**change)


def test_no_bit_is_drawn_for_refused_data() -> None:
    for data in ([(np.nan, 1.0)], [1.0, 2.0], [(1.0, 2.0, 3.0)], [("1", "2")]):
        with pytest.raises((ValueError, TypeError), match=r"not finite|shape|columns|strings"):
            winsorized().release(data, NoBits())
    with pytest.raises(ValueError, match=r"have 0 records.*needs at least 1"):
        winsorized().release(np.zeros((0, 2)), NoBits())


BOUNDS: list[dict[str, Any]] = [
    {},
    {"cells": 2, "clipped": "1/2"},
    {"lower": (-1.7e308, 0.0), "upper": (1.7e308, 5e-324)},
    {"lower": (-2e-308, -10.0), "upper": (1.0, -9.0)},
]


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("own", BOUNDS)
def test_every_dataset_has_a_typed_release_and_the_spec_s_law(
    noise: str, own: dict[str, Any]
) -> None:
    mechanism = winsorized(noise=noise, **own)
    rows = np.array([(x, y) for x in EDGE for y in EDGE])
    datasets: list[Any] = [rows[i : i + n] for n in (1, 2, 20) for i in (0, 23, 55)]
    assert compare_facts(spec, mechanism, datasets) == 30
    for data in datasets:
        with np.errstate(all="raise"):
            release = mechanism.release(data, SeededBits(1, len(data)))
        assert isinstance(release, VectorMeanEstimate)
        assert np.isfinite(release.value).all()
        assert release.count == len(data)
        assert (np.diag(release.covariance) >= 0).all()


def test_a_nonfinite_record_counts_as_the_middle_when_replaced() -> None:
    mechanism = winsorized(lower=(0.0, -2.0), upper=(8.0, 2.0), nonfinite="replace")
    expected = mechanism.release([(4.0, 0.0), (1.0, 1.0)], SeededBits(8)).value  # type: ignore[union-attr]
    missing = mechanism.release([(np.nan, 7.0), (1.0, 1.0)], SeededBits(8))
    assert (missing.value == expected).all()  # type: ignore[union-attr]


def test_claims_are_what_the_stages_cost() -> None:
    """Gaussian: 2 d ranges and one sum; Laplace: pure DP of 1 / multiplier, to the last digit."""
    made = WinsorizedMean.for_budget(
        PureDP("1/3"), adjacency=REPLACE, lower=(0,), upper=(1,), noise="laplace"
    )
    assert made.noise_multiplier == 3
    assert made.claim.guarantee == PureDP("1/3")
    plain = winsorized(3).composed
    assert isinstance(plain, GaussianDP)
    square = 6 * gaussian_of_range(spec.length(winsorized(3).parameters)) ** 2 + 0.5
    assert abs(float(plain.mu_squared) - float(square)) < 1e-9
    assert plain.mu_squared < 1
    loose = WinsorizedMean.for_budget(
        ApproxDP(1, "1e-6"), adjacency=REPLACE, lower=(0,), upper=(1,)
    )
    less = replace(
        loose, budget=None, noise_multiplier=loose.noise_multiplier * Fraction(999, 1000)
    )
    assert loose.composed.implies(ApproxDP(1, "1e-6"))
    assert not less.composed.implies(ApproxDP(1, "1e-6"))


def test_a_pure_budget_is_told_which_noise_it_needs() -> None:
    with pytest.raises(ValueError, match="noise='laplace'"):
        WinsorizedMean.for_budget(PureDP(1), adjacency=REPLACE, lower=(0,), upper=(1,))


def test_a_range_is_gaussian_as_the_kernel_says() -> None:
    for length in ("1e-3", "0.4", "3", "30"):
        mu = gaussian_of_range(Fraction(length))
        square = BoundedRange(length).gaussian.mu_squared
        assert abs(float(square) / float(mu) ** 2 - 1) < 1e-9


@pytest.mark.parametrize(("noise", "d"), [("gaussian", 1), ("gaussian", 3), ("laplace", 1)])
def test_the_noise_is_as_the_spec_predicts(noise: str, d: int) -> None:
    """False alarm below 1e-6 (mean_square_fits, for one column; fails_at_most at beta = 1/20)."""
    mechanism, n = winsorized(d, noise=noise, cells=256, clipped="1e-4"), 2000
    data = normal(n, (1.0,) * d, mean=1.0)
    number = OF_NORMAL_NOISE if noise == "gaussian" else RELEASES
    releases = estimates(mechanism, data, 5, number)
    errors = [float(np.linalg.norm(e.value - data.mean(axis=0))) for e in releases]
    stated = float(np.median([np.linalg.norm(e.standard_deviation) for e in releases]))
    for predicted in (float(spec.expected_error(mechanism.parameters, n)), stated):
        assert mean_square_fits(errors, predicted, number)
    half = float(spec.times(mechanism.parameters)) * 1.349 * 33 / 32
    bound = float(spec.error_bound(mechanism.parameters, n, Fraction(1, 20))) * half * 1.1
    largest = [float(np.abs(e.value - data.mean(axis=0)).max()) for e in releases]
    assert fails_at_most(largest, bound, 1 / 20)


def test_outliers_are_clipped_and_order_does_not_matter() -> None:
    """A tenth of the records is at 1e300: the mean moves by a tenth of the half range at most,
    about .45 of a deviation, and by more than a twentieth. Seeds are fixed."""
    data = normal(4000, (1.0,), mean=1.0)
    data[:400] = 1e300
    mechanism = winsorized(1, clipped="1e-4", noise_multiplier="1/4")
    release = mechanism.release(data, SeededBits(3))
    shuffled = mechanism.release(data[::-1], SeededBits(3))
    assert release.value == shuffled.value  # type: ignore[union-attr]
    assert 1.05 < float(release.value[0]) < 1.8  # type: ignore[union-attr]


def test_equal_quartiles_leave_a_cell_on_either_side() -> None:
    mechanism = winsorized(1, lower=(0.0,), upper=(16.0,), cells=16)
    released = {"quartiles": (5, 5), "count": (4,), "sum": (0,)}
    estimate = mechanism.estimate(transcript(released))
    assert isinstance(estimate, VectorMeanEstimate)
    assert estimate.value[0] == 5.0
    far = mechanism.estimate(transcript({**released, "sum": (10**20,)}))
    assert isinstance(far, VectorMeanEstimate)
    assert 6.0 <= far.value[0] <= 6.0 + 1 / 32
    turned = [
        mechanism.estimate(transcript({**released, "quartiles": q})) for q in ((3, 9), (9, 3))
    ]
    assert [one.value[0] for one in turned] == [6.0, 6.0]  # type: ignore[union-attr]


def test_a_hundred_columns_take_one_stage() -> None:
    mechanism = winsorized(100, noise_multiplier="1/10")
    assert len(mechanism.fixed_plan) == 3
    data = normal(400, (1.0,) * 100)
    release = mechanism.release(data, SeededBits(4))
    assert float(np.linalg.norm(release.value - 3.0)) < 3.0  # type: ignore[union-attr]
