"""Attacks on ``moment_matrix``."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify import Adjacency, ApproxDP, GaussianDP, MomentMatrix, PureDP
from dpverify.audit import Configuration, Fault, NeighboringPair, SmallInstance, added, replaced
from dpverify.audit.faults import plan_fault
from dpverify.grid import Count, OneUnit
from dpverify.grid.box_moments import BoxMoments, moved_squared
from dpverify.mechanisms.moment_matrix import SIDE
from dpverify.plans import NoNoise, Stage
from dpverify.rates import Curve, Empirical, Exponent, Instance, RateClaim

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE

# --- planted faults -----------------------------------------------------------------------------


def _noisy(mechanism: MomentMatrix) -> tuple[Stage, OneUnit, BoxMoments]:
    stage = mechanism.fixed_plan[-1]
    assert isinstance(stage, Stage)
    assert isinstance(stage.query, OneUnit)
    assert isinstance(stage.query.query, BoxMoments)
    return stage, stage.query, stage.query.query


def _another(name: str, mechanism: MomentMatrix, **changes: Any) -> Fault:
    """Ask another query, with the noise of the right one."""
    stage, query, inner = _noisy(mechanism)
    wrong = dataclasses.replace(query, query=dataclasses.replace(inner, **changes))
    plan = (*mechanism.fixed_plan[:-1], dataclasses.replace(stage, query=wrong))
    return plan_fault(name, mechanism, plan)


def _unpaid(name: str, mechanism: MomentMatrix, **forgotten: Any) -> Fault:
    """Take the noise that other weights of the entries would need."""
    stage, _, inner = _noisy(mechanism)
    given = {f: getattr(inner, f) for f in _PAID} | {"columns": len(inner.low)}
    of = mechanism.adjacency
    share = Fraction(
        moved_squared(**given | forgotten, adjacency=of), moved_squared(**given, adjacency=of)
    )
    noise = stage.noise.rescaled(Fraction(math.sqrt(share)))
    assert noise is not None
    plan = (*mechanism.fixed_plan[:-1], dataclasses.replace(stage, noise=noise))
    return plan_fault(name, mechanism, plan)


def _wider(mechanism: MomentMatrix) -> Fault:
    """Let records count up to four times the declared range."""
    _, _, inner = _noisy(mechanism)
    reach = [2 * (b - a) for a, b in zip(inner.low, inner.high, strict=True)]
    low = tuple(a - r for a, r in zip(inner.low, reach, strict=True))
    high = tuple(b + r for b, r in zip(inner.high, reach, strict=True))
    name = "clamps to bounds five times as far apart"
    return _another(name, mechanism, low=low, high=high, side=5 * SIDE, radius=5 * inner.radius)


def _exact_gate(mechanism: MomentMatrix) -> Fault:
    exact = Stage("exact", Count(), NoNoise())
    name = "releases the number of records without noise"
    return plan_fault(name, mechanism, (exact, *mechanism.fixed_plan))


def _no_ball(mechanism: MomentMatrix) -> Fault:
    name = "clamps columns, and does not shorten records"
    return _another(name, mechanism, radius=2 * SIDE)


def _no_number(mechanism: MomentMatrix) -> Fault:
    """Pay for the second moments alone."""
    return _unpaid("does not pay for the sums and the number", mechanism, constant=1)


def _no_products(mechanism: MomentMatrix) -> Fault:
    """Pay for squares alone, as if columns were released one by one without their products."""
    name = "pays for half of each product"
    return _unpaid(name, mechanism, above=_noisy(mechanism)[2].above // 2)


def _feature_alone(mechanism: MomentMatrix) -> Fault:
    return _unpaid("does not pay for the target", mechanism, columns=1, targets=0)


_PAID = ("side", "radius", "constant", "diagonal", "above", "counted", "targets")

# --- pairs --------------------------------------------------------------------------------------

_NAN, _FAR, _TINY = float("nan"), 1e308, 5e-324
_LOW, _HIGH = (0.0, -3.0, 150.0), (120.0, 5.0, 200.0)


def _added() -> tuple[NeighboringPair, ...]:
    """List pairs between _LOW and _HIGH: corners, also from far outside, and the middle, which
    still counts in the number."""
    middle, edge = (60.0, 1.0, 175.0), (120.0, 5.0, 175.0)
    return (
        added("a corner enters", [middle] * 20, _HIGH),
        added("a record far outside enters", [_LOW] * 20, (_FAR, -_FAR, _FAR)),
        added("everything shifts by a place", [_LOW, _HIGH] * 10, (_FAR, -_FAR, -_FAR)),
        NeighboringPair(
            name="nobody against somebody", left=[_LOW], right=np.zeros((0, 3)), adjacency=ADD
        ),
        added("an edge enters, around the least number", [edge] * 4, edge, at=4),
        added("the middle enters", [_HIGH] * 5, middle),
        added("a NaN enters", [edge] * 5, (_NAN, 170.0, _FAR)),
        added("a subnormal enters", [(0.0, -0.0, 0.0)] * 5, (_TINY, -_TINY, 0.0)),
    )


def _replaced() -> tuple[NeighboringPair, ...]:
    """List pairs between -1 and 1 in a ball of radius 1: diagonals and axes, all clipped to the
    ball."""
    diagonal, opposite, axis = (1.0, 1.0, 1.0), (-1.0, -1.0, -1.0), (0.0, 0.0, -1.0)
    return (
        replaced("a diagonal by an axis", [diagonal] * 20, axis),
        replaced("by its mirror image", [diagonal] * 20, opposite),
        replaced("a corner far outside by another", [(_FAR,) * 3] * 5, (_FAR, -_FAR, -_FAR)),
        replaced("the only record", [axis], (0.0, 0.0, 0.0)),
        replaced("a NaN by a corner", [(_NAN, 0.0, 0.0)] * 5, diagonal, at=4),
        replaced("a zero by a subnormal", [(-0.0, 0.0, 0.0)] * 5, (_TINY, -_TINY, 0.0)),
    )


def _attacked(
    name: str,
    mechanism: MomentMatrix,
    pairs: Sequence[NeighboringPair],
    *faults: Callable[[MomentMatrix], Fault],
) -> Configuration:
    own = [fault(mechanism) for fault in faults]
    return Configuration(
        name=name, mechanism=mechanism, pairs=pairs, faults=own, quick_trials=50_000
    )


_BOX = MomentMatrix.for_budget(
    GaussianDP(1), adjacency=ADD, lower=_LOW, upper=_HIGH, at_least=5, nonfinite="replace"
)
_BALL = MomentMatrix.for_budget(
    ApproxDP(1, "1e-6"),
    adjacency=REPLACE,
    lower=(-1.0,) * 3,
    upper=(1.0,) * 3,
    radius=1,
    nonfinite="replace",
)

_LAPLACE = MomentMatrix.for_budget(
    PureDP(1), adjacency=ADD, lower=(0.0,), upper=(8.0,), noise="laplace"
)


def _interval() -> tuple[NeighboringPair, ...]:
    """List pairs between 0 and 8: a bound moves all three numbers, the middle the number of
    records alone.

    For more columns the events of the largest losses are too rare to be counted.
    """
    return (
        added("a bound enters", [4.0] * 8, 8.0),
        added("a record far outside enters", [8.0] * 5, -_FAR),
        added("nobody against somebody", [], 8.0),
    )


_FIT = MomentMatrix.for_budget(
    GaussianDP(1), adjacency=REPLACE, lower=(-1.0,) * 2, upper=(1.0,) * 2, targets=1
)


def _fitted() -> tuple[NeighboringPair, ...]:
    """List pairs of a feature and a target between -1 and 1 that move the most, or the least."""
    corner = (1.0, 1.0)
    return (
        replaced("the target by its opposite", [corner] * 8, (1.0, -1.0)),
        replaced("both by their opposites", [corner] * 8, (-1.0, -1.0)),
        replaced("a corner by the middle", [corner] * 8, (0.0, -1.0)),
        replaced("far outside", [(-_FAR, _FAR)] * 5, (-_FAR, -_FAR), at=2),
    )


CONFIGURATIONS = (
    _attacked("box", _BOX, _added(), _wider, _exact_gate, _no_number, _no_products),
    _attacked("ball", _BALL, _replaced(), _wider, _no_ball),
    _attacked("regression", _FIT, _fitted(), _feature_alone),
    Configuration(
        name="interval-laplace", mechanism=_LAPLACE, pairs=_interval(), quick_trials=160_000
    ),
)

# --- small instances ----------------------------------------------------------------------------


def _small(adjacency: Adjacency, d: int, **parameters: Any) -> MomentMatrix:
    own: dict[str, Any] = {"lower": (-1.0,) * d, "upper": (2.0,) * d, **parameters}
    return MomentMatrix(adjacency=adjacency, noise_multiplier=Fraction(3, 2), **own)


SMALL = (
    SmallInstance(name="one column, add-remove", mechanism=_small(ADD, 1), data=(0.25, 9.0)),
    SmallInstance(name="one column, replace", mechanism=_small(REPLACE, 1), data=(-0.75,)),
    SmallInstance(
        name="two columns, in a ball, add-remove",
        mechanism=_small(ADD, 2, radius=0.75),
        data=((0.25, 1.5), (7.0, -7.0)),
    ),
    SmallInstance(name="two columns, replace", mechanism=_small(REPLACE, 2), data=((0.125, -0.3),)),
    SmallInstance(
        name="one column, replace, Laplace noise",
        mechanism=_small(REPLACE, 1, noise="laplace"),
        data=(0.25,),
        max_choices=9,
    ),
    SmallInstance(
        name="a feature and a target, replace, Laplace noise",
        mechanism=_small(REPLACE, 2, noise="laplace", targets=1),
        data=((0.25, 1.5),),
        max_choices=9,
    ),
    SmallInstance(
        name="a feature and two targets, add-remove",
        mechanism=_small(ADD, 3, targets=2, radius=1),
        data=((0.25, 1.5, -1.0),),
    ),
    SmallInstance(name="nobody, add-remove", mechanism=_small(ADD, 1), data=()),
)

# --- rates --------------------------------------------------------------------------------------


def _unit_box(setting: Mapping[str, Any]) -> MomentMatrix:
    d = int(setting["d"])
    return MomentMatrix(
        adjacency=setting["adjacency"],
        noise_multiplier=Fraction(setting["noise_multiplier"]),
        lower=(-1.0,) * d,
        upper=(1.0,) * d,
    )


def _sums(mechanism: MomentMatrix, data: Any) -> Any:
    """Return the number of records and the second moments, without privacy."""
    return len(data), data.T @ data / len(data)


def _off(estimate: Any, truth: Any) -> float:
    """Measure the Frobenius norm of the error of the second moments, both divided by the true
    number."""
    n, moments = truth
    return float(np.linalg.norm(estimate.value[1:, 1:] / n - moments))


def _coefficients(mechanism: MomentMatrix, data: Any) -> Any:
    """Return the least squares coefficients of the last column on the others."""
    centered = data - data.mean(axis=0)
    return np.linalg.lstsq(centered[:, :-1], centered[:, -1], rcond=None)[0]


def _far(estimate: Any, truth: Any) -> float:
    coefficients = estimate.regression(len(truth)).value
    return float(np.linalg.norm(coefficients - truth))


def _rate(name: str, variable: str, values: tuple[Any, ...], **claimed: Any) -> RateClaim:
    """Claim the error of the second moments, for independent uniform columns."""
    own: dict[str, Any] = {
        "target": Empirical(_sums),
        "error": _off,
        "curve": Curve(function="expected_error", arguments=("parameters", "n")),
        "lower": Curve(function="lower_bound", arguments=("parameters", "n")),
        "repeats": 400,
    }
    return RateClaim(
        name=name,
        mechanism=_unit_box,
        variable=variable,
        values=values,
        instance=Instance(kind="uniform", parameters={"low": -0.9, "high": 0.9}),
        source="DRS22, the Gaussian mechanism; OURS, all moments under one noise",
        **own | claimed,
    )


RATES = (
    _rate(
        "error-against-n",
        "n",
        (100, 1000, 10_000),
        setting={"d": 4, "noise_multiplier": 1, "adjacency": ADD},
        exponent=Exponent(value=-1, tolerance=0.05),
    ),
    _rate(
        "error-against-d",
        "d",
        (3, 6, 12),
        setting={"n": 1000, "noise_multiplier": 1, "adjacency": REPLACE},
        exponent=Exponent(value=2, tolerance=0.2),
    ),
    _rate(
        "coefficients-against-noise",
        "noise_multiplier",
        tuple(map(Fraction, ("1", "5", "25"))),
        setting={"d": 4, "n": 20_000, "adjacency": REPLACE},
        target=Empirical(_coefficients),
        error=_far,
        facts=lambda setting, data, truth: {"variance": float(data[:, :-1].var(axis=0).mean())},
        curve=Curve(function="regression_error", arguments=("parameters", "n", "variance")),
        lower=None,
        exponent=Exponent(value=1, tolerance=0.05),
    ),
)
