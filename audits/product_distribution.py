"""Attacks on ``product_distribution``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np

from dpverify import Adjacency, ApproxDP, GaussianDP, ProductDistribution
from dpverify.audit import Configuration, Fault, NeighboringPair, SmallInstance, added, replaced
from dpverify.audit.faults import plan_fault
from dpverify.grid import OneUnit, Records, Released, View
from dpverify.grid.orthants import BitSums
from dpverify.plans import NoNoise, Plan, Stage
from dpverify.plans.walking import rescaled_stage, with_stages
from dpverify.rates import Curve, Empirical, Exponent, Instance, RateClaim

from ._faulty_vectors import Faulty
from ._traced import traced_bits

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE

# --- planted faults -----------------------------------------------------------------------------


def _changed(mechanism: ProductDistribution, change: Callable[[Stage], Stage], *names: str) -> Plan:
    return with_stages(
        mechanism.fixed_plan, lambda s: change(s) if not names or s.name in names else s
    )


def _sums(stage: Stage) -> BitSums:
    assert isinstance(stage.query, OneUnit)
    assert isinstance(stage.query.query, BitSums)
    return stage.query.query


def _unpaid_stages(mechanism: ProductDistribution) -> Fault:
    """Give each stage the noise that would suffice for a single stage."""

    def change(stage: Stage) -> Stage:
        share = mechanism.coarse_share if stage.name == "coarse" else 1 - mechanism.coarse_share
        return (
            stage if stage.name == "count" else rescaled_stage(stage, Fraction(float(share) ** 0.5))
        )

    return plan_fault("pays for one stage alone", mechanism, _changed(mechanism, change))


def _one_vector(mechanism: ProductDistribution) -> Fault:
    """Add noise for R, where replacing one vector by another moves the sum by sqrt(2) R."""
    plan = _changed(mechanism, lambda s: rescaled_stage(s, Fraction(70, 99)), "coarse", "fine")
    return plan_fault("takes the length of one vector", mechanism, plan)


def _free_number(mechanism: ProductDistribution) -> Fault:
    """Add noise for the bits' share alone to a joint release whose number weighs a hundred times
    as much."""

    def change(stage: Stage) -> Stage:
        heavy = dataclasses.replace(_sums(stage), weight=4 * _sums(stage).radius)
        assert isinstance(stage.query, OneUnit)
        value = Faulty(stage.query.query, lambda records: _seen(heavy, records))
        return dataclasses.replace(stage, query=dataclasses.replace(stage.query, query=value))

    return plan_fault(
        "does not pay for the number", mechanism, _changed(mechanism, change, "coarse")
    )


def _seen(sums: BitSums, records: Records) -> list[int]:
    values: list[int] = sums.evaluate(View(records)).tolist()
    return values


def _centered(mechanism: ProductDistribution) -> Fault:
    """Count bits up or down by vectors as long as the radius, whose opposites are two radii
    apart, not sqrt(2)."""

    def change(stage: Stage) -> Stage:
        sums = _sums(stage)
        one = isqrt(sums.radius**2 // sums.columns)

        def value(records: Records) -> list[int]:
            ones = (records > 0.5).sum(axis=0)
            return [int(one * (2 * k - len(records))) for k in ones]

        assert isinstance(stage.query, OneUnit)
        wrong = dataclasses.replace(stage.query, query=Faulty(sums, value))
        return dataclasses.replace(stage, query=wrong)

    plan = _changed(mechanism, change, "fine")
    return plan_fault("takes centered vectors for those of an orthant", mechanism, plan)


def _unclipped(mechanism: ProductDistribution) -> Fault:
    """Count a whole radius in every column for a record of ones."""

    def change(stage: Stage) -> Stage:
        sums = dataclasses.replace(_sums(stage), clipped=False)
        rows = np.full((1, sums.columns), sums.radius)
        weights = Released((), lambda before: (rows, np.zeros(1, np.intp)))
        long = dataclasses.replace(sums, weights=weights)
        assert isinstance(stage.query, OneUnit)
        value = Faulty(_sums(stage), lambda records: _seen(long, records))
        return dataclasses.replace(stage, query=dataclasses.replace(stage.query, query=value))

    return plan_fault("does not clip", mechanism, _changed(mechanism, change, "fine"))


def _exact_gate(mechanism: ProductDistribution) -> Fault:
    """Divide by the exact number, as if it were public."""
    value = Faulty(_sums(mechanism.fixed_plan[0]), lambda records: [len(records)])  # type: ignore[arg-type]
    plan = (Stage("exact", value, NoNoise()), *mechanism.fixed_plan)
    return plan_fault("divides by the exact number", mechanism, plan)


# --- pairs --------------------------------------------------------------------------------------

_NAN, _FAR = float("nan"), 1e308


def _added() -> tuple[NeighboringPair, ...]:
    """List pairs: a record of ones, a record of zeros, an empty side, and values that are not
    bits."""
    return (
        added("a record of ones enters", [(0.0, 1.0)] * 6, (_FAR, 1.0)),
        added("a record of zeros", [(1.0, 1.0)] * 6, (-_FAR, 0.5)),
        NeighboringPair(
            name="nobody against somebody",
            left=[(1.0, 0.0)],
            right=np.zeros((0, 2)),
            adjacency=ADD,
        ),
        added("a NaN enters", [(0.0, 1.0)] * 3, (_NAN, 1.0)),
    )


def _replaced() -> tuple[NeighboringPair, ...]:
    """List pairs: all bits change; one bit changes; a column is evenly split, so that its exact
    sum changes sides."""
    rare = [(0.0, 0.0)] * 200
    even = [(1.0, 0.0), (0.0, 1.0)] * 100
    return (
        replaced("all bits turn", [(1.0, 1.0), *rare], (0.0, 0.0)),
        replaced("one bit for another", [(1.0, 0.0), *rare], (0.0, 1.0)),
        replaced("an even column turns", [(1.0, 0.0), *even, (0.0, 1.0)], (0.0, 1.0)),
        replaced("a NaN", [(_NAN, 0.0), *even], (1.0, 1.0)),
    )


def _attacked(
    name: str,
    mechanism: ProductDistribution,
    pairs: Sequence[NeighboringPair],
    *faults: Callable[[ProductDistribution], Fault],
) -> Configuration:
    planted = [fault(mechanism) for fault in faults]
    return Configuration(
        name=name, mechanism=mechanism, pairs=pairs, faults=planted, quick_trials=16_000
    )


# Coarse probabilities: few transcripts have weights of their own.
_COARSE: Any = {"d": 2, "precision": 1, "coarse_share": "1/2", "nonfinite": "replace"}
_ADD = ProductDistribution.for_budget(GaussianDP(2), adjacency=ADD, at_least=40, **_COARSE)
_REPLACE = ProductDistribution.for_budget(
    ApproxDP(12, "1e-6"), adjacency=REPLACE, at_least=1, **_COARSE
)
_WIDE = ProductDistribution.for_budget(ApproxDP(1, "1e-6"), adjacency=REPLACE, d=250, at_least=1)

CONFIGURATIONS = (
    _attacked("two-columns", _ADD, _added(), _unpaid_stages, _free_number, _exact_gate, _unclipped),
    traced_bits(
        _attacked("two-columns", _REPLACE, _replaced(), _unpaid_stages, _one_vector, _centered),
        _WIDE,
        n=50,
        columns=250,
    ),
)

# --- small instances ----------------------------------------------------------------------------


def _small(adjacency: Adjacency, multiplier: str, **parameters: Any) -> ProductDistribution:
    own: dict[str, Any] = {"d": 2, "at_least": 1}
    return ProductDistribution(
        adjacency=adjacency, noise_multiplier=Fraction(multiplier), **own | parameters
    )


_ROWS: Any = ((0.0, 1.0), (0.0, 0.5), (0.0, 1.0), (0.0, 0.75), (1e-9, -3.0))

SMALL = (
    SmallInstance(name="add-remove", mechanism=_small(ADD, "1/100"), data=_ROWS),
    SmallInstance(name="replace", mechanism=_small(REPLACE, "1/1000"), data=_ROWS * 20),
    SmallInstance(name="one column", mechanism=_small(REPLACE, "1/50", d=1), data=((1.0,), (0.0,))),
    SmallInstance(name="nobody", mechanism=_small(ADD, "3/2"), data=()),
)

# --- rates --------------------------------------------------------------------------------------


def _even(setting: Mapping[str, Any]) -> ProductDistribution:
    return ProductDistribution(
        adjacency=setting["adjacency"],
        noise_multiplier=Fraction(setting["noise_multiplier"]),
        d=setting["d"],
    )


def _shares(mechanism: Any, data: Any) -> Any:
    return (data > 0.5).mean(axis=0)


def _rate(name: str, variable: str, values: tuple[Any, ...], **claimed: Any) -> RateClaim:
    """Claim the error for bits of probability 1/2: signs of normal numbers about 1/2."""
    return RateClaim(
        name=name,
        mechanism=_even,
        variable=variable,
        values=values,
        instance=Instance(kind="gaussian", parameters={"mean": 0.5, "deviation": 1.0}),
        curve=Curve(function="noise_error", arguments=("parameters", "n")),
        target=Empirical(_shares),
        error=lambda estimate, truth: float(np.linalg.norm(estimate.value - truth)),
        source="OURS, product distributions in two stages",
        **claimed,
    )


RATES = (
    _rate(
        "noise-against-n",
        "n",
        (1000, 2000, 4000),
        setting={"d": 20, "noise_multiplier": 1, "adjacency": REPLACE},
        exponent=Exponent(value=-1, tolerance=0.1),
        repeats=400,
    ),
    _rate(
        "noise-against-noise-multiplier",
        "noise_multiplier",
        (1, 2, 4),
        setting={"n": 4000, "d": 30, "adjacency": ADD},
        exponent=Exponent(value=1, tolerance=0.1),
        lower=Curve(function="lower_bound", arguments=("parameters", "n")),
        repeats=400,
    ),
)
