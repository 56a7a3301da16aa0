"""Attacks on ``sign_covariance``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify import Adjacency, ApproxDP, GaussianDP, SignCovariance
from dpverify.audit import Configuration, Fault, NeighboringPair, SmallInstance, added, replaced
from dpverify.audit.faults import plan_fault
from dpverify.estimation.sign_rounds import measured, next_map, start
from dpverify.grid import OneUnit, Records, Released, View
from dpverify.grid.outer_products import SecondMoments
from dpverify.grid.vectors import to_cells
from dpverify.plans import NoNoise, Plan, Stage
from dpverify.plans.plan import stages_of
from dpverify.plans.walking import with_stages
from dpverify.rates import Curve, Empirical, Exponent, Instance, Population, RateClaim

from ._faulty_vectors import Faulty

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
Change = Callable[[Stage], Stage]
_FINE = 30

# --- planted faults -----------------------------------------------------------------------------


def _changed(mechanism: SignCovariance, change: Change) -> Plan:
    """Return the plan with ``change`` applied to every noisy stage."""
    return with_stages(
        mechanism.fixed_plan, lambda s: s if isinstance(s.noise, NoNoise) else change(s)
    )


def _rescaled(stage: Stage, factor: Fraction) -> Stage:
    noise = stage.noise.rescaled(factor)
    assert noise is not None
    return dataclasses.replace(stage, noise=noise)


def _moments(stage: Stage) -> SecondMoments:
    assert isinstance(stage.query, OneUnit)
    assert isinstance(stage.query.query, SecondMoments)
    return stage.query.query


def _of_data(stage: Stage, value: Callable[[Records], list[int]]) -> Stage:
    """Replace the stage's value by a function of the records alone."""
    assert isinstance(stage.query, OneUnit)
    wrong = dataclasses.replace(stage.query, query=Faulty(stage.query.query, value))
    return dataclasses.replace(stage, query=wrong)


def _seen(moments: SecondMoments, records: Records, matrix: Any) -> list[int]:
    """Return the second moments after the given map."""
    public = Released((), lambda before: (np.array([np.ravel(matrix)]), np.zeros(1, np.intp)))
    values: list[int] = dataclasses.replace(moments, maps=public).evaluate(View(records)).tolist()
    return values


def _unpaid_rounds(mechanism: SignCovariance) -> Fault:
    """Give every round the noise that would suffice for a single round."""
    one = dataclasses.replace(mechanism, rounds=1, shares=None, budget=None)
    alone = next(s for s in stages_of(one.fixed_plan) if not isinstance(s.noise, NoNoise)).query
    assert isinstance(alone, OneUnit)
    least = alone.scale

    def change(stage: Stage) -> Stage:
        assert isinstance(stage.query, OneUnit)
        return _rescaled(stage, least / stage.query.scale)

    return plan_fault("pays for one round alone", mechanism, _changed(mechanism, change))


def _one_outer_product(mechanism: SignCovariance) -> Fault:
    """Add noise for R^2, where replacing one outer product by another moves the sum by sqrt(2)
    R^2."""
    plan = _changed(mechanism, lambda stage: _rescaled(stage, Fraction(70, 99)))
    return plan_fault("takes the length of one outer product", mechanism, plan)


def _free_trace(mechanism: SignCovariance) -> Fault:
    """Add noise as if the trace did not count: an outer product without its trace has a squared
    length smaller by the share 1 / d."""
    d = len(mechanism.center) + (mechanism.scale is not None)
    factor = Fraction((1 - 1 / d) ** 0.5)
    plan = _changed(mechanism, lambda stage: _rescaled(stage, factor))
    return plan_fault("does not count the trace", mechanism, plan)


def _exact_map(mechanism: SignCovariance) -> Fault:
    """Compute the last round's map from the first moments without their noise."""
    last = stages_of(mechanism.fixed_plan)[-1].name

    def change(stage: Stage) -> Stage:
        moments = _moments(stage)

        def value(records: Records) -> list[int]:
            first = _seen(moments, records, start(moments.rows))
            rows, good = measured(np.array([first]), _FINE, moments.rows)
            public = start(moments.rows)
            if good[0]:
                public = next_map(public, tuple(rows[0].tolist()), _FINE, 0.02)
            return _seen(moments, records, public)

        return _of_data(stage, value) if stage.name == last else stage

    return plan_fault("maps by exact moments", mechanism, _changed(mechanism, change))


def _own_center(mechanism: SignCovariance) -> Fault:
    """Take the first record for the center of the last round, which turns the signs of all
    others."""
    last = stages_of(mechanism.fixed_plan)[-1].name

    def change(stage: Stage) -> Stage:
        moments = _moments(stage)

        def value(records: Records) -> list[int]:
            cells = to_cells(records, moments.exponent, moments.center)
            own = (np.array(moments.center) + (cells[0] if len(cells) else 0)).tolist()
            about = dataclasses.replace(moments, center=tuple(own))
            return _seen(about, records, start(moments.rows))

        return _of_data(stage, value) if stage.name == last else stage

    return plan_fault("takes a center from the data", mechanism, _changed(mechanism, change))


def _exact_gate(mechanism: SignCovariance) -> Fault:
    """Change a map by the exact number of records, which the change then reveals."""
    least = mechanism.at_least or 1
    query = stages_of(mechanism.fixed_plan)[0].query
    assert isinstance(query, OneUnit)
    value = Faulty(query.query, lambda records: [len(records) >= least])
    plan = (Stage("exact", value, NoNoise()), *mechanism.fixed_plan)
    return plan_fault("maps by the exact number", mechanism, plan)


# --- pairs --------------------------------------------------------------------------------------

_NAN, _FAR, _TINY = float("nan"), 1e308, 5e-324
_CROWD = [(1.0, 0.0), (0.0, 1.0)]


def _added() -> tuple[NeighboringPair, ...]:
    """List pairs about (0, 0): whatever the map, one sign enters; on an axis it moves the
    moments as far as any record can."""
    return (
        added("a record on an axis", _CROWD * 6, (_FAR, 0.0)),
        added("around the least number", [(1.0, 0.0)] * 3, (0.0, -1.0), at=3),
        added("across a narrow crowd", [(12.0, 1.0), (12.0, -1.0)] * 6, (0.0, _FAR)),
        NeighboringPair(
            name="nobody against somebody",
            left=[(_FAR, 0.0)],
            right=np.zeros((0, 2)),
            adjacency=ADD,
        ),
        added("a NaN enters", [(0.0, -0.0), (_TINY, 0.0)] * 3, (_NAN, 1.0)),
    )


def _replaced() -> tuple[NeighboringPair, ...]:
    """List pairs about (1, -3), with an unknown center: one sign by an orthogonal one."""
    center, far, across = (1.0, -3.0), (_FAR, -3.0), (1.0, _FAR)
    crowd = [(2.0, -3.0), (1.0, -2.0)] * 200
    return (
        replaced("one axis for another", [far] + [center] * 400, across),
        replaced("an outlier by the center", [far, *crowd], center),
        replaced("a NaN by an outlier", [(_NAN, 0.0)] * 400, far, at=4),
        replaced("within a cell", [(-0.0, -3.0), *crowd], (_TINY, -3.0 + 2.0**-40)),
    )


def _attacked(
    name: str,
    mechanism: SignCovariance,
    pairs: Sequence[NeighboringPair],
    *faults: Callable[[SignCovariance], Fault],
) -> Configuration:
    planted = [fault(mechanism) for fault in faults]
    return Configuration(
        name=name, mechanism=mechanism, pairs=pairs, faults=planted, quick_trials=16_000
    )


# Coarse matrices: every transcript leads to one of few maps, of which each is computed once.
_COARSE: Any = {"cell": 2**-6, "rounds": 2, "at_least": 4, "precision": 2}
_AXES = SignCovariance.for_budget(
    GaussianDP(2), adjacency=ADD, center=(0.0, 0.0), nonfinite="replace", **_COARSE
)
_UNKNOWN = SignCovariance.for_budget(
    ApproxDP(12, "1e-6"),
    adjacency=REPLACE,
    center=(1.0, -3.0),
    scale=1,
    nonfinite="replace",
    **{**_COARSE, "at_least": 300},
)

CONFIGURATIONS = (
    _attacked("axes", _AXES, _added(), _unpaid_rounds, _free_trace, _exact_map, _exact_gate),
    _attacked(
        "unknown-center", _UNKNOWN, _replaced(), _unpaid_rounds, _one_outer_product, _own_center
    ),
)

# --- small instances ----------------------------------------------------------------------------


def _small(adjacency: Adjacency, multiplier: str, **parameters: Any) -> SignCovariance:
    own: dict[str, Any] = {"center": (0.0, 0.0), "cell": 2**-6, "rounds": 2, "at_least": 1}
    return SignCovariance(
        adjacency=adjacency, noise_multiplier=Fraction(multiplier), **own | parameters
    )


_PLANE: Any = ((0.3, 0.5), (100.0, -7.0), (0.0, 0.0))

SMALL = (
    SmallInstance(name="two columns, add-remove", mechanism=_small(ADD, "1/100"), data=_PLANE),
    SmallInstance(name="two columns, replace", mechanism=_small(REPLACE, "1/100"), data=_PLANE),
    SmallInstance(
        name="an unknown center, one round",
        mechanism=_small(REPLACE, "1/100", scale=1, rounds=1, center=(0.25, -1.0)),
        data=_PLANE[:2],
    ),
    SmallInstance(name="nobody, add-remove", mechanism=_small(ADD, "3/2"), data=()),
    SmallInstance(
        name="too few for another map", mechanism=_small(ADD, "1/100", at_least=9), data=_PLANE
    ),
)

# --- rates --------------------------------------------------------------------------------------


def _three_rounds(setting: Mapping[str, Any]) -> SignCovariance:
    return SignCovariance(
        adjacency=setting["adjacency"],
        noise_multiplier=Fraction(setting["noise_multiplier"]),
        center=(0.0,) * setting["d"],
        cell=2**-8,
        rounds=3,
    )


def _apart(estimate: Any, truth: Any) -> float:
    """Measure the Frobenius norm of the error after mapping the truth to the identity, both
    scaled to trace d."""
    d = len(truth)
    quotient = np.linalg.solve(truth, estimate.value)
    return float(np.linalg.norm(quotient * d / np.trace(quotient) - np.eye(d)))


def _tyler(mechanism: Any, data: Any) -> Any:
    """Return Tyler's estimator without noise: the published iteration, run to convergence."""
    scatter = np.eye(data.shape[1])
    for _ in range(25):
        lengths = np.einsum("ij,ij->i", data, np.linalg.solve(scatter, data.T).T)
        scatter = (data / lengths[:, np.newaxis]).T @ data
        scatter *= len(scatter) / np.trace(scatter)
    return scatter


def _rate(
    name: str, variable: str, values: tuple[Any, ...], curve: str, **claimed: Any
) -> RateClaim:
    """Claim the error for standard normal vectors."""
    return RateClaim(
        name=name,
        mechanism=_three_rounds,
        variable=variable,
        values=values,
        instance=Instance(kind="gaussian", parameters={"mean": 0.0, "deviation": 1.0}),
        error=_apart,
        curve=Curve(function=curve, arguments=("parameters", "n")),
        source="OURS, private signs in rounds; T87",
        **claimed,
    )


RATES = (
    _rate(
        "noise-against-n",
        "n",
        (600, 2400, 9600),
        "noise_error",
        target=Empirical(_tyler),
        setting={"d": 3, "noise_multiplier": 2, "adjacency": ADD},
        exponent=Exponent(value=-1, tolerance=0.1),
        repeats=300,
    ),
    _rate(
        "error-against-noise-multiplier",
        "noise_multiplier",
        (3, 6, 12),
        "expected_error",
        target=Population(lambda mechanism, setting: np.eye(setting["d"])),
        setting={"d": 4, "n": 1500, "adjacency": REPLACE},
        lower=Curve(function="lower_bound", arguments=("parameters", "n")),
        repeats=200,
    ),
    _rate(
        "error-against-d",
        "d",
        (2, 4, 8),
        "expected_error",
        target=Population(lambda mechanism, setting: np.eye(setting["d"])),
        setting={"n": 1200, "noise_multiplier": 4, "adjacency": REPLACE},
        lower=Curve(function="lower_bound", arguments=("parameters", "n")),
        repeats=200,
    ),
)
