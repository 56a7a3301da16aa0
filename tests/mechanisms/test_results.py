"""Shared properties of results: plain JSON and back, one line of text, refusals."""

from __future__ import annotations

import inspect
import json
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify import (
    Abstained,
    BinsEstimate,
    ComponentsEstimate,
    Concentrated,
    CountEstimate,
    CovarianceEstimate,
    Degenerate,
    FamilyEstimate,
    FrequencyEstimate,
    HistogramEstimate,
    InterquartileRangeEstimate,
    LargeVariancesEstimate,
    LocationScaleEstimate,
    MeanEstimate,
    MediansEstimate,
    MomentMatrixEstimate,
    NormalEstimate,
    ProductEstimate,
    QuantileEstimate,
    QuantilesEstimate,
    RangeEstimate,
    RegressionEstimate,
    ReportsEstimate,
    Result,
    RobustMeanEstimate,
    ScaleEstimate,
    ShapeEstimate,
    ShareEstimate,
    SparseEstimate,
    SumEstimate,
    VarianceEstimate,
    VectorMeanEstimate,
    result_from,
)
from dpverify.estimation import answers
from dpverify.session.answers import ColumnMean

V = np.array([1.0, -1e308, 5e-324])
SQUARE = np.arange(9.0).reshape(3, 3)
RESULTS: list[Any] = [
    Abstained("too few"),
    CountEstimate(0, 0.0),
    CountEstimate(-(10**30), math.inf),
    MeanEstimate(1e308, math.nan, 10**30, math.inf, 0.1, -1e308, 1e308),
    ShareEstimate(-0.0, math.inf, 1e308, 2.5),
    VectorMeanEstimate(V, math.inf, 1.5, V * math.nan, count_deviation=math.inf),
    VectorMeanEstimate(np.array([0.5]), 3.0, np.array([1.0]), np.array([-0.0]), noise="laplace"),
    VectorMeanEstimate(V, 2.0, SQUARE, V),
    RobustMeanEstimate(V, 4.0, np.abs(V), V, 2, 0.1, deviations=(1.0, 2.0, 3.0)),
    RobustMeanEstimate(V, 4.0, np.abs(V), V),
    QuantileEstimate(-1e308),
    QuantilesEstimate((-1e308, 0.5), (0.25, 1.0)),
    MediansEstimate(V),
    FrequencyEstimate((0.5, -math.inf, 1.0), 0.1, (0, 2, 1), 0.3),
    FrequencyEstimate((), math.inf, (), 0.3),
    HistogramEstimate({}, 0.1, 10**30, math.inf, "gaussian"),
    HistogramEstimate({-0.1: 3, 1e308: 2**53 + 1, math.inf: 1}, 0.1, 3, 0.5),
    SparseEstimate((), 0),
    SparseEstimate((1, 4), 6),
    VarianceEstimate(0.0, {0.0: 3, 8.0: 10**30}, 5, 1, 0.5),
    ReportsEstimate(4.0, {4.0: 3}, 5, 1, 0.5, "gaussian"),
    LargeVariancesEstimate({3: 2.0, 0: math.inf}, 0.25),
    ShapeEstimate(np.eye(2), 9.5, 0.1, np.eye(2), np.zeros(2)),
    ShapeEstimate(np.eye(2), 9.0, math.inf, np.eye(2), np.zeros(2), np.ones(2)),
    CovarianceEstimate(np.eye(2), 9.5, 0.1, np.eye(2), np.zeros(2)),
    CovarianceEstimate(
        np.eye(2), 9.0, math.inf, np.eye(2), V[1:], V[1:], 0.2, 0.1, math.inf, (0.0, math.inf)
    ),
    ProductEstimate(np.array([0.5, 1e-9]), np.array([0.1, math.inf]), 9.5, "whitened"),
    NormalEstimate(0.5, 1e-9, 9.5, math.inf, 0.1, 0.2, 0.3),
    NormalEstimate(0.5, 1e-9, 9.5, 0.3, 0.1, 0.2, 0.3, "laplace"),
    Degenerate(5.0, 0.1, 80.0),
    ScaleEstimate("pareto", "exponent", 2.5, 0.4, 9.5, math.inf, 0.1, 3.0),
    ScaleEstimate("laplace", "scale", 2.5, 2.5, 9.5, 0.2, 0.1, None, -1.5),
    FamilyEstimate("Poisson", "rate", 2.5, 0.9, 9.5, math.inf, 0.1, 1e-3, 1e308),
    LocationScaleEstimate(
        "NormalFamily",
        ("mean", "deviation"),
        (-1e308, 5e-324),
        0.5,
        2.0,
        math.inf,
        (0.1, math.inf),
        (0.0, 1.0),
    ),
    CountEstimate(3, 1.5, "gaussian"),
    BinsEstimate((10**30, -3, 7), ((0.0, 1.0, 1e308),), "tree", math.inf, weight=2),
    BinsEstimate((1, 2, 3, 4, 5), (2, (0.0, 0.5, 1.0)), "identity", 0.1, "laplace", 3),
    RangeEstimate(-1e308, math.inf, "laplace"),
    SumEstimate(1e308, math.inf),
    SumEstimate(-0.0, 0.5, "gaussian", 5e-324),
    ColumnMean(0.5, 0.1, 9.5, 0.1, -0.0, 2.5, -1e308, 1e308),
    InterquartileRangeEstimate(0.5, 5e-324, 1e308, 3),
    Concentrated(np.array([0.0, 2.5]), 80.0, (1, 0), np.eye(2)),
    MomentMatrixEstimate(SQUARE, SQUARE, V[1:], V[1:]),
    RegressionEstimate(V, 0.5, V, V, V, V, V, 0.1, 5e-324, math.inf, -1e308, 1e308),
    RegressionEstimate(SQUARE, V, *(SQUARE,) * 5, V, 0.5, 2.5, V, V),
    ComponentsEstimate(np.eye(3)[:1], V[:1], V[:1], V[:1], V[:1], 1e308, V),
]


@pytest.mark.parametrize("result", RESULTS, ids=[type(r).__name__ for r in RESULTS])
def test_results_survive_json(result: Any) -> None:
    text = json.dumps(result.to_dict(), allow_nan=False)
    loaded = result_from(json.loads(text))
    assert type(loaded) is type(result)
    assert loaded == result
    assert loaded.to_dict() == result.to_dict()
    assert hash(loaded) == hash(result)
    for name in getattr(result, "__dataclass_fields__", {}):
        assert type(getattr(loaded, name)) is type(getattr(result, name))
    assert "\n" not in repr(result)
    if not isinstance(result, Abstained):
        assert hasattr(result, "value")


def test_every_result_is_of_this_shape() -> None:
    kinds = {type(result).__name__ for result in RESULTS}
    ours = {k for k in answers._KINDS.values() if k.__module__.startswith("dpver")}
    assert kinds >= {k.__name__ for k in ours if not inspect.isabstract(k)}
    for kind in {type(result) for result in RESULTS} - {Abstained}:
        assert issubclass(kind, Result)
        assert kind.__eq__ is Result.__eq__
        assert kind.__repr__ is Result.__repr__
        assert "__dict__" not in dir(kind)
    assert CountEstimate(1, 2.0) != CountEstimate(2, 2.0)
    assert VarianceEstimate(4.0, {4.0: 3}, 5, 1, 0.5) != ReportsEstimate(4.0, {4.0: 3}, 5, 1, 0.5)
    assert CountEstimate(1, 2.0) != 1


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Exactly(Result):
    """A result with a field that no shipped result has."""

    value: Fraction

    def interval(self, level: Any = 0.95) -> None:
        """None."""


def test_fractions_and_the_results_of_others_load_too() -> None:
    result = Exactly(Fraction(1, 3))
    assert result.to_dict() == {"result": "Exactly", "value": "1/3"}
    assert result_from(result.to_dict()) == result


GOOD = CountEstimate(3, 1.5).to_dict()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "result = None is not known"),
        ({"result": "Estimate"}, "it is one of Abstained, BinsEstimate"),
        ({"result": []}, "not known"),
        (GOOD | {"more": 1}, "unknown here: more"),
        ({"result": "CountEstimate", "value": 3}, "unknown here: noise, standard_deviation"),
        (GOOD | {"value": 3.5}, "value = 3.5 is not what"),
        (GOOD | {"value": True}, "value = True"),
        (GOOD | {"value": "many"}, "value = 'many'"),
        (GOOD | {"standard_deviation": None}, "standard_deviation = None"),
        (GOOD | {"standard_deviation": [1.0]}, "standard_deviation"),
        ({"result": "MediansEstimate", "value": [1.0, [2.0]]}, "value"),
        ({"result": "MediansEstimate", "value": [1.0, True]}, "value"),
        ({"result": "Abstained", "reason": 3}, "reason = 3"),
        (RESULTS[5].to_dict() | {"noise": "none"}, "noise = 'none'"),
        (RESULTS[5].to_dict() | {"along": [1.0]}, "not of the shape"),
        (RESULTS[15].to_dict() | {"counts": [1]}, "counts"),
        (RESULTS[15].to_dict() | {"counts": {"a": 1}}, "counts"),
    ],
)
def test_what_is_no_result_is_refused(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        result_from(given)


def test_refusals_name_the_remedy() -> None:
    with pytest.raises(TypeError, match="give what to_dict"):
        result_from("CountEstimate")  # type: ignore[arg-type]
    for result in RESULTS[1:]:
        for level in (0, 1, -0.5, 95):
            with pytest.raises(ValueError, match="level"):
                result.interval(level)


def test_intervals_that_cannot_be_are_none() -> None:
    none = (
        QuantileEstimate(0.5),
        QuantilesEstimate((0.5,), (0.5,)),
        MediansEstimate(V),
        SparseEstimate((), 3),
        next(result for result in RESULTS if isinstance(result, Concentrated)),
    )
    for result in none:
        assert result.interval() is None
        assert (result.interval.__doc__ or "").startswith("Return None: ")


def test_extreme_noise_gives_wide_intervals_and_no_errors() -> None:
    assert CountEstimate(10**400, math.inf).interval() == (-math.inf, math.inf)
    assert MeanEstimate(0.5, math.inf, 3, math.inf, math.inf, 0.0, 1.0).interval() == (0.0, 1.0)
    assert ShareEstimate(0.5, 1.0, 2.0, 5.0).interval() == (0.0, 1.0)
    assert ShareEstimate(0.5, 1.0, 2.0, 5.0).interval(sampling=True) == (0.0, 1.0)
    far = VectorMeanEstimate(V, 2.0, math.inf, V, count_deviation=0.5).interval()
    near = VectorMeanEstimate(V, 2.0, 1.0, V, count_deviation=2.0).interval()
    for low, high in (far, near):
        assert (low == -math.inf).all()
        assert (high == math.inf).all()


def test_text_is_short() -> None:
    long = VectorMeanEstimate(np.arange(1000.0), 5.0, 1.0, np.zeros(1000))
    shown = (
        "VectorMeanEstimate(value=[0, 1, 2, 3, ... 1000 in all], "
        "standard_deviation=[1, 1, 1, 1, ... 1000 in all], count=5)"
    )
    assert repr(long) == str(long) == shown
    assert repr(CountEstimate(7, 1 / 3)) == "CountEstimate(value=7, standard_deviation=0.333333)"
    many = HistogramEstimate({float(i): 1 for i in range(9)}, 1.0, 1, 1.0)
    assert repr(many).startswith("HistogramEstimate(counts={0: 1, 1: 1, 2: 1, 3: 1, ... 9 in all},")
    assert len(repr(FrequencyEstimate((0.5,) * 100, 0.1, (1,) * 10**4, 0.5))) < 100
