"""Claims and instances that say nothing are refused; instances are plain data."""

from __future__ import annotations

import math
import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpverify.rates import KINDS, Curve, Distance, Exponent, Instance, Population, faults_of
from tests.rates.helpers import claim

_CURVE = Curve(function="expected_error", arguments=("parameters",))
_MINUS = Exponent(value=-1, tolerance=0.1)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"values": ()}, "there are no values of epsilon"),
        ({"values": (1, 1, 2)}, "in increasing order"),
        ({"values": (0, 1, 2)}, "positive numbers"),
        ({"values": (1, 2), "exponent": _MINUS}, "at least 3 values in its regime"),
        (
            {"exponent": Exponent(value=-1, tolerance=0.1, start=0.05)},
            "it covers 2",
        ),
        (
            {"repeats": 199, "curve": _CURVE},
            "repeats = 199 and fewest = 200; an interval needs at least 200",
        ),
        ({}, "nothing is claimed; give exponent, curve or upper"),
        ({"lower": _CURVE}, "nothing is claimed"),
        ({"setting": {"n": 1, "epsilon": 1}}, "epsilon runs and is fixed"),
        ({"setting": {}}, "there is no n"),
        (
            {
                "curve": _CURVE,
                "by_column": True,
                "target": Population(lambda mechanism, setting: 0),
            },
            "by_column is for noise",
        ),
    ],
)
def test_a_claim_that_says_nothing_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        claim(**changed)


def test_tolerances_margins_and_regimes_are_checked() -> None:
    for tolerance in (0.0, -1.0, math.inf):
        with pytest.raises(ValueError, match="is not positive"):
            Exponent(value=-1, tolerance=tolerance)
    with pytest.raises(ValueError, match="is empty; give a range"):
        Exponent(value=-1, tolerance=0.1, start=3, end=2)
    with pytest.raises(ValueError, match=r"margin = 0\.9 is below 1"):
        Curve(function="f", arguments=(), margin=0.9)


def test_the_generic_faults_are_those_of_what_is_claimed() -> None:
    assert [f.name for f in faults_of(claim(curve=_CURVE))] == ["noise x 1.3"]
    assert [f.name for f in faults_of(claim(exponent=_MINUS))] == ["noise x epsilon^0.2"]
    assert len(faults_of(claim(exponent=_MINUS, upper=_CURVE))) == 2


_PARAMETERS: dict[str, dict[str, Any]] = {
    "gaussian": {"mean": 1.0, "deviation": 2.0},
    "gamma": {"shape": 4.0, "scale": 0.5},
    "poisson": {"rate": 3.0},
    "decaying": {"mean": 1.0, "power": 0.5},
    "few_large": {"mean": 1.0, "deviation": 2.0, "count": 1},
    "geometric": {"mean": 1.0, "deviation": 2.0, "ratio": 0.5},
    "products": {"kappa": 4.0},
    "contaminated": {"mean": 1.0, "share": 0.1, "offset": 5.0},
    "uniform": {"low": -1.0, "high": 3.0},
    "evenly": {"low": 0.0, "high": 1.0},
    "bernoulli": {"share": 0.25},
    "student": {"freedom": 2.0, "center": 1.0, "scale": 1.0, "within": 3.0},
    "lognormal": {"deviation": 1.0},
    "sphere": {"radius": 0.5, "offset": 1.0},
    "point_masses": {"points": (0.0, 1.0, 4.0), "shares": (0.5, 0.25, 0.25)},
    "hidden": {"ends": (0.0, 1.0), "at": 0.25, "loss": 2.0, "epsilon": 0.1},
    "zipf": {"bins": 5, "power": 1.0, "width": 2.0},
}


def test_every_kind_of_data_is_tested_here() -> None:
    assert set(_PARAMETERS) == set(KINDS)


# The means of 20,000 records; 6 standard deviations of each: false alarm below 1e-8.
@pytest.mark.parametrize(
    ("kind", "mean", "deviation"),
    [
        ("gaussian", 1.0, 2.0),
        ("gamma", 2.0, 1.0),
        ("poisson", 3.0, math.sqrt(3)),
        ("decaying", 1.0, 1.0),
        ("few_large", 1.0, 2.0),
        ("geometric", 1.0, 2.0),
        ("products", 4.0, 4 * math.sqrt(2)),
        ("contaminated", 1.5, 1.0),  # besides the shift, the same for every draw
        ("uniform", 1.0, 4 / math.sqrt(12)),
        ("evenly", 0.5, 1e-9),
        ("bernoulli", 0.25, math.sqrt(3) / 4),
        ("student", 1.0, 3.0),
        ("lognormal", math.exp(0.5), math.sqrt(math.e * (math.e - 1))),
        ("sphere", 1.0, 0.5 / math.sqrt(2)),
        ("point_masses", 1.25, 1e-9),
        ("hidden", (40 * 0.25 + 9980) / 20_000, 1e-9),
        ("zipf", 2 * 300 / 137 - 1, 4.0),
    ],
)
def test_an_instance_has_its_law(kind: str, mean: float, deviation: float) -> None:
    instance = Instance(kind=kind, parameters=_PARAMETERS[kind], seed=5)
    columns = 4 if kind == "products" else 2
    data = instance.data({"n": 20_000, "d": columns})
    assert data.shape == (20_000, columns)
    assert abs(float(data[:, 0].mean()) - mean) < 6 * deviation / math.sqrt(20_000) + 1e-9


def test_outer_products_have_the_rank_of_one() -> None:
    rows = Instance(kind="products", parameters={"kappa": 9.0}).data({"n": 50, "d": 9})
    matrices = rows.reshape(50, 3, 3)
    assert np.allclose(matrices, matrices.transpose(0, 2, 1))
    assert np.allclose(matrices[:, 0, 0] * matrices[:, 1, 1], matrices[:, 0, 1] ** 2)
    with pytest.raises(ValueError, match=r"d = 8; outer products of k coordinates"):
        Instance(kind="products", parameters={"kappa": 9.0}).data({"n": 50, "d": 8})


def test_a_distance_is_of_any_norm() -> None:
    estimate = SimpleNamespace(value=[1.0, -3.0])
    distances = [Distance(power)(estimate, np.array([1.0, 1.0])) for power in (1, 2, math.inf)]
    assert distances == [4.0, 4.0, 4.0]
    distances = [Distance(power)(estimate, [4.0, 1.0]) for power in (1, 2, math.inf)]
    assert distances == [7.0, 5.0, 4.0]
    assert Distance()(SimpleNamespace(value=2.5), 1.0) == 1.5
    with pytest.raises(ValueError, match=r"power = 0\.5 makes no norm; give 1, 2 or"):
        Distance(0.5)


def test_deviations_decay_as_stated() -> None:
    """1, 1/sqrt(2), 1/2 in the first, second and fourth column, to 6 of their relative sd 1/200."""
    instance = Instance(kind="decaying", parameters=_PARAMETERS["decaying"], seed=5)
    deviations = instance.data({"n": 20_000, "d": 4}).std(axis=0)
    assert np.allclose(deviations[[0, 1, 3]], [1, 0.5**0.5, 0.5], rtol=0.03)


def test_large_deviations_are_few_or_fall_as_stated() -> None:
    """2 and 2 / 4 three times; 2, 1, 1/2, 1/4; to 6 of their relative sd 1/200."""
    for kind, stated in (("few_large", [2, 0.5, 0.5, 0.5]), ("geometric", [2, 1, 0.5, 0.25])):
        data = Instance(kind=kind, parameters=_PARAMETERS[kind], seed=5).data({"n": 20_000, "d": 4})
        assert np.allclose(data.std(axis=0), stated, rtol=0.03)


def test_an_instance_is_plain_data_and_the_same_in_every_process() -> None:
    for kind, parameters in _PARAMETERS.items():
        instance = Instance(kind=kind, parameters=parameters, seed=5)
        again = pickle.loads(pickle.dumps(instance))
        assert np.array_equal(instance.data({"n": 40}), again.data({"n": 40}))
        assert instance.data({"n": 40}).shape == (40, 1)
        assert str(instance).startswith(f"{kind}(")
    gaussian = Instance(kind="gaussian", parameters=_PARAMETERS["gaussian"])
    first, other = gaussian.data({"n": 40}), gaussian.data({"n": 40}, 1)
    assert not np.array_equal(first, other)


def test_a_parameter_may_be_a_number_of_the_setting() -> None:
    instance = Instance(kind="uniform", parameters={"low": "edge", "high": 1.0})
    assert instance.data({"n": 100, "edge": 0.9}).min() >= 0.9


def test_heavy_tails_end_at_the_bound_and_a_sphere_is_one() -> None:
    student = Instance(kind="student", parameters=_PARAMETERS["student"]).data({"n": 5000})
    assert np.abs(student - 1).max() == 3.0  # beyond 3: 5% of them
    sphere = Instance(kind="sphere", parameters=_PARAMETERS["sphere"]).data({"n": 50, "d": 7})
    sphere[:, 0] -= 1
    assert np.allclose(np.linalg.norm(sphere, axis=1), 0.5)


@pytest.mark.parametrize(
    ("kind", "parameters", "seed", "message"),
    [
        ("cauchy", {}, 0, "no instance 'cauchy'; take one of gaussian"),
        ("uniform", {"low": 0.0}, 0, "takes the parameters low, high; given were low"),
        ("uniform", {"low": 0.0, "high": 1.0}, -1, "seed = -1"),
    ],
)
def test_bad_instances_are_refused(
    kind: str, parameters: dict[str, Any], seed: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Instance(kind=kind, parameters=parameters, seed=seed)


def test_masses_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"n = 39 records are fewer than the 40 at 0\.25"):
        Instance(kind="hidden", parameters=_PARAMETERS["hidden"]).data({"n": 39})
    wrong = {"points": (0.0, 1.0), "shares": (1.5, 0.1)}
    with pytest.raises(ValueError, match="do not make 10 records"):
        Instance(kind="point_masses", parameters=wrong).data({"n": 10})
