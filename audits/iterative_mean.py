"""Attacks on ``iterative_mean``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify import Adjacency, ApproxDP, GaussianDP, IterativeMean
from dpverify.audit import Configuration, Fault, NeighboringPair, SmallInstance, added, replaced
from dpverify.audit.faults import plan_fault
from dpverify.grid import OneUnit, Records
from dpverify.grid.joint import WithCount
from dpverify.grid.vectors import clip_to_ball, to_cells
from dpverify.plans import NoNoise, Plan, Stage
from dpverify.plans.plan import stages_of
from dpverify.plans.walking import with_stages
from dpverify.rates import Curve, Empirical, Exponent, Instance, Population, RateClaim

from ._faulty_vectors import Faulty
from ._traced import traced

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
Change = Callable[[Stage], Stage]

# --- planted faults -----------------------------------------------------------------------------


def _changed(mechanism: IterativeMean, change: Change) -> Plan:
    """Return the plan with ``change`` applied to every noisy stage."""
    return with_stages(
        mechanism.fixed_plan, lambda s: s if isinstance(s.noise, NoNoise) else change(s)
    )


def _noisy(mechanism: IterativeMean) -> list[Stage]:
    return [s for s in stages_of(mechanism.fixed_plan) if not isinstance(s.noise, NoNoise)]


def _rescaled(stage: Stage, factor: Fraction) -> Stage:
    noise = stage.noise.rescaled(factor)
    assert noise is not None
    return dataclasses.replace(stage, noise=noise)


def _unpaid_steps(mechanism: IterativeMean) -> Fault:
    """Give every step the noise that would suffice for a single step."""
    one = dataclasses.replace(mechanism, steps=1, shares=None, budget=None)
    (alone,) = (stage.query for stage in _noisy(one))

    def change(stage: Stage) -> Stage:
        query = stage.query
        assert isinstance(query, OneUnit)
        assert isinstance(alone, OneUnit)
        radius, whole = (_total(q).radius for q in (query, alone))
        return _rescaled(stage, alone.scale * radius / (query.scale * whole))

    return plan_fault("pays for one step alone", mechanism, _changed(mechanism, change))


def _total(query: OneUnit) -> Any:
    """Return the sum inside the query, with its center and radius."""
    inner: Any = query.query
    return getattr(inner, "query", inner)


def _unpaid_weight(mechanism: IterativeMean) -> Fault:
    """Add noise for the sums alone: for the sensitivity R instead of sqrt(R^2 + w^2)."""

    def change(stage: Stage) -> Stage:
        assert isinstance(stage.query, OneUnit)
        assert isinstance(stage.query.query, WithCount)
        radius, weight = _total(stage.query).radius, stage.query.query.weight
        return _rescaled(stage, Fraction((radius**2 / (radius**2 + weight**2)) ** 0.5))

    return plan_fault("does not pay for the number", mechanism, _changed(mechanism, change))


def _own_center(mechanism: IterativeMean) -> Fault:
    """Clip about the first record in the last step, which moves the vectors of all others."""
    last = _noisy(mechanism)[-1].name

    def change(stage: Stage) -> Stage:
        query = stage.query
        assert isinstance(query, OneUnit)
        total, weight = _total(query), getattr(query.query, "weight", None)

        def value(records: Records) -> list[int]:
            cells = to_cells(records, total.exponent, total.center)
            moved = cells - cells[:1]
            image = moved if total.matrix is None else moved @ np.array(total.matrix).T
            vectors = clip_to_ball(image, total.radius)
            counted = [] if weight is None else [weight * len(vectors)]
            return [*vectors.sum(axis=0).tolist(), *counted]

        if stage.name != last:
            return stage
        wrong = dataclasses.replace(query, query=Faulty(query.query, value))
        return dataclasses.replace(stage, query=wrong)

    return plan_fault("takes a center from the data", mechanism, _changed(mechanism, change))


def _exact_gate(mechanism: IterativeMean) -> Fault:
    """Shrink a ball by the exact number of records, which the shrinking then reveals."""
    query = _noisy(mechanism)[0].query
    assert isinstance(query, OneUnit)
    value = Faulty(query.query, lambda records: [len(records) >= mechanism.at_least])
    plan = (Stage("exact", value, NoNoise()), *mechanism.fixed_plan)
    return plan_fault("shrinks by the exact number", mechanism, plan)


# --- pairs --------------------------------------------------------------------------------------

_NAN, _FAR, _TINY = float("nan"), 1e308, 5e-324
_CENTER = 10.0


def _line_added() -> tuple[NeighboringPair, ...]:
    """List pairs about 10, in a first ball of radius 64: far out in every step, in balls that
    shrink and move."""
    crowd = [_CENTER] * 150
    return (
        added("an outlier enters", crowd, _FAR),
        added("far from where the center went", [30.0] * 90 + [_FAR] * 9, -_FAR),
        added("everything shifts by a place", [_FAR, -_FAR] * 60, _FAR),
        added("around the least number", [13.0] * 4, -_FAR, at=4),
        NeighboringPair(
            name="nobody against somebody", left=[_FAR], right=np.zeros((0, 1)), adjacency=ADD
        ),
        added("a NaN enters", [0.0, -0.0, _TINY] * 3, _NAN),
    )


def _plane_replaced() -> tuple[NeighboringPair, ...]:
    """List pairs for {|A (x - (1, -3))| <= 60}: a record by its opposite, along each axis."""
    far, center = (_FAR, 0.0), (1.0, -3.0)
    return (
        replaced("an outlier by the opposite one", [far] + [center] * 900, (-_FAR, 0.0)),
        replaced("where the center went", [(6.0, -3.0)] * 900 + [far], (-_FAR, 0.0), at=900),
        replaced("the only record", [far], (-_FAR, 0.0)),
        replaced("a NaN by an outlier", [(_NAN, 0.0)] * 5, far, at=4),
        replaced("within a cell", [center] * 5, (1.0, -3.0 + 2.0**-40), at=2),
        replaced("a zero by a subnormal", [(-0.0, 0.0)] * 5, (_TINY, -_TINY)),
    )


_STRETCHED: Any = ((2.0, 1.0), (0.0, 0.5))


def _attacked(
    name: str,
    mechanism: IterativeMean,
    pairs: Sequence[NeighboringPair],
    *faults: Callable[[IterativeMean], Fault],
) -> Configuration:
    planted = [fault(mechanism) for fault in faults]
    return Configuration(
        name=name, mechanism=mechanism, pairs=pairs, faults=planted, quick_trials=16_000
    )


# Coarse centers: every transcript leads to one of few stages, of which each is built once.
_LINE = IterativeMean.for_budget(
    GaussianDP(2),
    adjacency=ADD,
    center=(_CENTER,),
    radius=64,
    steps=2,
    coarseness=2,
    at_least=5,
    nonfinite="replace",
)
_PLANE = IterativeMean.for_budget(
    ApproxDP(12, "1e-6"),
    adjacency=REPLACE,
    center=(1.0, -3.0),
    radius=60,
    matrix=_STRETCHED,
    steps=2,
    shares=("1/2", "1/2"),
    coarseness=4,
    nonfinite="replace",
)

_TRACED = IterativeMean.for_budget(
    ApproxDP(1, "1e-6"), adjacency=REPLACE, center=(0.0,) * 200, radius=100
)

CONFIGURATIONS = (
    _attacked(
        "line", _LINE, _line_added(), _unpaid_steps, _unpaid_weight, _own_center, _exact_gate
    ),
    traced(
        _attacked("plane", _PLANE, _plane_replaced(), _unpaid_steps, _own_center),
        _TRACED,
        n=50,
        columns=200,
    ),
)

# --- small instances ----------------------------------------------------------------------------


def _small(adjacency: Adjacency, multiplier: str, d: int = 1, **parameters: Any) -> IterativeMean:
    own: dict[str, Any] = {"center": (0.0,) * d, "radius": 1000, "steps": 2, **parameters}
    return IterativeMean(adjacency=adjacency, noise_multiplier=Fraction(multiplier), **own)


_PLANE_DATA: Any = ((0.3, 0.5), (100.0, -7.0))

SMALL = (
    SmallInstance(
        name="one column, add-remove, a ball that shrinks",
        mechanism=_small(ADD, "1/100"),
        data=(700.0, -0.7, 9.0),
    ),
    # 65/16 is half way between two centers: the first step's noise decides
    SmallInstance(
        name="one record, replace, two centers", mechanism=_small(REPLACE, "1/100"), data=(4.0625,)
    ),
    SmallInstance(
        name="two columns with a matrix, add-remove",
        mechanism=_small(ADD, "1/100", 2, matrix=_STRETCHED),
        data=_PLANE_DATA,
    ),
    SmallInstance(
        name="two columns with a matrix, replace",
        mechanism=_small(REPLACE, "1/100", 2, matrix=_STRETCHED),
        data=_PLANE_DATA,
    ),
    SmallInstance(name="nobody, add-remove", mechanism=_small(ADD, "3/2"), data=()),
    SmallInstance(
        name="too much noise for a smaller ball",
        mechanism=_small(REPLACE, "1000", steps=3),
        data=(0.5,),
    ),
)

# --- rates --------------------------------------------------------------------------------------


def _three_steps(setting: Mapping[str, Any]) -> IterativeMean:
    return IterativeMean(
        adjacency=setting["adjacency"],
        noise_multiplier=Fraction(setting["noise_multiplier"]),
        center=(0.0,) * setting["d"],
        radius=30,
        steps=3,
    )


def _rate(
    name: str, variable: str, values: tuple[Any, ...], curve: str, **claimed: Any
) -> RateClaim:
    """Claim the error for standard normal vectors about (2, ..., 2), in a public ball of radius
    30 about 0."""
    return RateClaim(
        name=name,
        mechanism=_three_steps,
        variable=variable,
        values=values,
        instance=Instance(kind="gaussian", parameters={"mean": 2.0, "deviation": 1.0}),
        error=lambda estimate, truth: float(np.linalg.norm(estimate.value - truth)),
        curve=Curve(function=curve, arguments=("parameters", "n")),
        source="BDKU20, MVMRec; DRS22, the Gaussian mechanism",
        repeats=300,
        **claimed,
    )


RATES = (
    _rate(
        "noise-against-n",
        "n",
        (500, 1000, 2000, 4000),
        "noise_error",
        target=Empirical(lambda mechanism, data: data.mean(axis=0)),
        setting={"d": 8, "noise_multiplier": 1, "adjacency": ADD},
        exponent=Exponent(value=-1, tolerance=0.1),
    ),
    _rate(
        "error-against-noise-multiplier",
        "noise_multiplier",
        (1, 2, 4),
        "expected_error",
        target=Population(lambda mechanism, setting: np.full(setting["d"], 2.0)),
        setting={"d": 8, "n": 1000, "adjacency": REPLACE},
        lower=Curve(function="lower_bound", arguments=("parameters", "n")),
    ),
)
