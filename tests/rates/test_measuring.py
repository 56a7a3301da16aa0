"""Points are reproducible, a right error is shown, and planted faults are refuted."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify import Adjacency, BernoulliMean, ClippedMean, CountEstimate
from dpverify.rates import (
    Curve,
    Empirical,
    Exponent,
    Finding,
    Instance,
    Metric,
    Point,
    Population,
    RateClaim,
    RateFault,
    Row,
    compare,
    faults_of,
    measure,
    noise_times,
    row_of,
    table_of,
)
from dpverify.report.jsonl import _finite
from spec import bernoulli_mean, noisy_count
from tests.rates.helpers import claim, count, point

ALPHA = 1e-9
_CURVE = Curve(function="expected_error", arguments=("parameters",))
_MINUS = Exponent(value=-1, tolerance=0.05)


def _deviation(curve: Curve, at: Point) -> float:
    setting = {"epsilon": Fraction(at.value).limit_denominator(1000)}
    return float(noisy_count.expected_error(count(setting).parameters))


def _rows(made: RateClaim, fault: RateFault | None = None) -> list[Row]:
    """7000 releases a value: what is shown is within 1.1, but for 1e-5 (4.4 standard errors
    beyond the 95% end); noise x 1.3 is refuted but for 1e-9."""
    points = [measure(made, i, repeats=7000, alpha=ALPHA, seed=4, fault=fault) for i in range(3)]
    return [row_of(made, at, _deviation) for at in points]


def test_a_right_error_is_shown() -> None:
    made = claim(curve=_CURVE, exponent=_MINUS, lower=dataclasses.replace(_CURVE, margin=1))
    table = table_of(made, _rows(made))
    assert [c.finding for c in table.comparisons[::2]] == [Finding.SHOWN] * 4
    assert not table.findings(Finding.REFUTED)
    assert len(table.comparisons) == 7


def test_rates_of_others_are_told_and_compared_with_nothing() -> None:
    made = claim(curve=_CURVE, lines={"of others": dataclasses.replace(_CURVE, function="line")})
    at = measure(made, 1, repeats=300, alpha=ALPHA, seed=4)

    def told(curve: Curve, at: Point) -> float:
        return 7.0 if curve.function == "line" else _deviation(curve, at)

    row = row_of(made, at, told)
    assert row.lines == {"of others": 7.0}
    assert [c.what.split()[0] for c in compare(made, row)] == ["expected_error"]


def test_every_generic_fault_is_refuted() -> None:
    made = claim(curve=_CURVE, exponent=_MINUS)
    for fault in faults_of(made):
        assert table_of(made, _rows(made, fault)).findings(Finding.REFUTED), fault.name


def test_a_wrong_constant_keeps_the_exponent_and_a_drift_does_not() -> None:
    made = claim(exponent=_MINUS)
    lost, drift = faults_of(claim(curve=_CURVE, exponent=_MINUS))
    assert table_of(made, _rows(made, lost)).findings(Finding.SHOWN)
    assert table_of(made, _rows(made, drift)).findings(Finding.REFUTED)


def test_a_fault_of_the_estimate_is_refuted() -> None:
    def halved(mechanism: Any, transcript: Any) -> CountEstimate:
        return CountEstimate(transcript.number("count") // 2, 0.0)

    made = claim(curve=_CURVE, faults=(RateFault(name="halved", estimate=halved),))
    at = measure(made, 2, repeats=1000, alpha=ALPHA, seed=1, fault=made.faults[0])
    (comparison,) = compare(made, row_of(made, at, _deviation))
    assert comparison.finding is Finding.REFUTED


def test_a_point_is_the_same_in_every_run_and_another_for_another_seed() -> None:
    made = claim(curve=_CURVE, metric=Metric("median"))
    first = measure(made, 0, repeats=300, alpha=ALPHA, seed=4)
    assert measure(made, 0, repeats=300, alpha=ALPHA, seed=4) == first
    assert measure(made, 0, repeats=300, alpha=ALPHA, seed=5) != first
    assert (first.value, first.n, first.d, first.abstained) == (0.02, 20, 1, 0)
    assert first.surely_low < first.low < first.measured < first.high < first.surely_high


def test_a_point_survives_being_written_down() -> None:
    made = claim(curve=_CURVE, facts=lambda setting, data, truth: {"records": truth})
    at = dataclasses.replace(
        measure(made, 0, repeats=300, alpha=ALPHA, seed=4), surely_high=math.inf
    )
    assert Point.from_json(json.loads(json.dumps(_finite(at.to_json())))) == at


def _share(setting: Mapping[str, Any]) -> BernoulliMean:
    return BernoulliMean(
        adjacency=Adjacency.REPLACE, noise_multiplier=Fraction(3), at_least=setting["at_least"]
    )


def _population(at_least: int) -> RateClaim:
    return claim(
        mechanism=_share,
        variable="n",
        values=(100, 200, 400),
        setting={"at_least": at_least},
        instance=Instance(kind="bernoulli", parameters={"share": 0.5}),
        target=Population(lambda mechanism, setting: 0.5),
        curve=_CURVE,
    )


def test_a_population_s_error_has_sampling_and_noise_in_it() -> None:
    """Measure 1000 releases: the interval of level 1 - 1e-9 contains the truth, and neither part
    alone."""
    made = _population(1)
    at = measure(made, 0, repeats=1000, alpha=ALPHA, seed=3)
    noise = float(bernoulli_mean.expected_error(_share({"at_least": 1}).parameters, 100, 0.5))
    sampling = 0.05
    assert at.surely_low < math.hypot(noise, sampling) < at.surely_high
    assert at.surely_low > max(noise, sampling)


def test_an_abstention_is_an_infinite_error() -> None:
    at = measure(claim(
        mechanism=lambda setting: BernoulliMean(
            adjacency=Adjacency.ADD_REMOVE, noise_multiplier=Fraction(3), at_least=100
        ),
        curve=_CURVE,
    ), 0, repeats=300, alpha=ALPHA, seed=3)  # fmt: skip
    assert at.abstained == 300  # 100 of 20 records: 80 are 18 deviations of the noise
    (comparison,) = compare(claim(curve=_CURVE), Row(at, predicted=1.0))
    assert comparison.finding is Finding.REFUTED


@pytest.mark.parametrize("wrong", [-1.0, math.nan])
def test_what_is_no_distance_is_refused(wrong: float) -> None:
    made = claim(curve=_CURVE, error=lambda estimate, truth: wrong)
    with pytest.raises(ValueError, match="errors are distances"):
        measure(made, 0, repeats=300, alpha=ALPHA, seed=3)


@pytest.mark.parametrize(
    ("measured", "error", "finding"),
    [
        (1.0, 0.02, Finding.SHOWN),
        (1.0, 0.2, Finding.OPEN),
        (1.09, 0.02, Finding.OPEN),
        (1.3, 0.02, Finding.REFUTED),
        (0.7, 0.02, Finding.REFUTED),
    ],
)
def test_a_curve_is_met_from_both_sides(measured: float, error: float, finding: Finding) -> None:
    (comparison,) = compare(claim(curve=_CURVE), Row(point(1.0, measured, error), predicted=1.0))
    assert comparison.finding is finding


@pytest.mark.parametrize(
    ("measured", "above", "below"),
    [
        (0.5, Finding.SHOWN, Finding.REFUTED),
        (1.05, Finding.OPEN, Finding.OPEN),
        (2.0, Finding.REFUTED, Finding.SHOWN),
    ],
)
def test_bounds_are_met_from_one_side(measured: float, above: Finding, below: Finding) -> None:
    """The upper bound up to 1.1, the lower one to the letter: what is below it cannot be
    private."""
    made = claim(upper=_CURVE, lower=_CURVE)
    comparisons = compare(made, Row(point(1.0, measured, 0.03), upper=1.0, lower=1.0))
    assert [c.finding for c in comparisons] == [above, below]


# --- errors of columns ----------------------------------------------------------------------------


def _of_columns(**changed: Any) -> RateClaim:
    def error(estimate: Any, truth: Any) -> Any:
        return np.abs(estimate.value - truth) * math.sqrt(len(truth))

    given = {
        "mechanism": lambda setting: ClippedMean(
            adjacency=Adjacency.REPLACE,
            noise_multiplier=Fraction(1),
            center=(0.5,) * 400,
            radius=40,
        ),
        "variable": "n",
        "values": (50,),
        "setting": {"d": 400},
        "target": Empirical(lambda mechanism, data: data.mean(axis=0)),
        "error": error,
        "by_column": True,
        "curve": _CURVE,
        **changed,
    }
    return claim(**given)


def test_the_columns_of_one_release_tell_as_much_as_many_releases() -> None:
    """The noise of a mean is alike in all columns. Two releases of 400 columns, 800 errors: the rms
    has a relative deviation of 1/40 and its interval of level 1e-9 reaches 6 of these; the rms of
    800 lengths has a deviation of 1/800.
    """
    distance = _of_columns(
        error=lambda estimate, truth: float(np.linalg.norm(estimate.value - truth)),
        by_column=False,
    )
    many = measure(distance, 0, repeats=800, alpha=ALPHA, seed=4)
    few = measure(_of_columns(), 0, repeats=800, alpha=ALPHA, seed=4)
    assert few.surely_low < many.measured < few.surely_high
    assert 1.2 < few.surely_high / few.surely_low < 1.5
    wrong = measure(
        _of_columns(), 0, repeats=800, alpha=ALPHA, seed=4, fault=noise_times(Fraction(3, 2))
    )
    assert not wrong.surely_low < many.measured < wrong.surely_high


def test_an_error_of_another_shape_is_refused() -> None:
    for changed in ({"by_column": False}, {"error": lambda estimate, truth: np.zeros(399)}):
        with pytest.raises(ValueError, match="has not the shape"):
            measure(_of_columns(**changed), 0, repeats=400, alpha=ALPHA, seed=4)
