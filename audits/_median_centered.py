"""Planted faults and pairs for means about privately found medians."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify import Adjacency
from dpverify.audit import Configuration, Fault, NeighboringPair, added, replaced
from dpverify.audit.faults import plan_fault
from dpverify.grid import OneUnit, Records
from dpverify.grid.coordinates import ScaledSum, SideCounts, Stretch
from dpverify.grid.joint import WithCount
from dpverify.grid.vectors import clip_to_ball
from dpverify.plans import Mechanism, NoNoise, Plan, Stage
from dpverify.plans.plan import stages_of
from dpverify.plans.walking import with_stages

from ._faulty_vectors import Faulty

Change = Callable[[Stage], Stage]
_SEARCHES = ("side", "spread")


def targeting(
    name: str,
    mechanism: Mechanism[Any],
    pairs: Sequence[NeighboringPair],
    *faults: Callable[[Any], Fault],
    quick_trials: int,
) -> Configuration:
    """Build a configuration with these faults planted in the mechanism."""
    return Configuration(
        name=name,
        mechanism=mechanism,
        pairs=pairs,
        faults=[fault(mechanism) for fault in faults],
        quick_trials=quick_trials,
    )


# --- planted faults -----------------------------------------------------------------------------


def changed(mechanism: Mechanism[Any], change: Change, names: tuple[str, ...]) -> Plan:
    """Return the plan with ``change`` applied to every noisy stage whose name begins with one of
    ``names``."""

    def one(stage: Stage) -> Stage:
        open_ = not stage.name.startswith(names) or isinstance(stage.noise, NoNoise)
        return stage if open_ else change(stage)

    return with_stages(mechanism.fixed_plan, one)


def rescaled(stage: Stage, factor: Fraction) -> Stage:
    """Return the stage with its noise multiplied by ``factor``."""
    noise = stage.noise.rescaled(factor)
    assert noise is not None
    return dataclasses.replace(stage, noise=noise)


def _total(stage: Stage) -> tuple[OneUnit, ScaledSum]:
    assert isinstance(stage.query, OneUnit)
    inner: Any = stage.query.query
    total = getattr(inner, "query", inner)
    assert isinstance(total, ScaledSum)
    return stage.query, total


def _searches(mechanism: Mechanism[Any]) -> int:
    """Count the stages that compare records with thresholds."""
    queries: list[Any] = [stage.query for stage in stages_of(mechanism.fixed_plan)]
    return sum(isinstance(getattr(query, "query", None), SideCounts) for query in queries)


def unpaid_steps(mechanism: Mechanism[Any]) -> Fault:
    """Give every step of the searches the noise that would suffice for a single step."""
    factor = Fraction(_searches(mechanism) ** -0.5)
    plan = changed(mechanism, lambda stage: rescaled(stage, factor), _SEARCHES)
    return plan_fault("pays for one step alone", mechanism, plan)


def one_column(mechanism: Mechanism[Any]) -> Fault:
    """Give every step the noise of a single column, although a record moves all columns."""
    factor = Fraction(mechanism.columns() ** -0.5)
    plan = changed(mechanism, lambda stage: rescaled(stage, factor), _SEARCHES)
    return plan_fault("pays for one column alone", mechanism, plan)


def unpaid_weight(mechanism: Mechanism[Any]) -> Fault:
    """Add noise for the sum alone: for the sensitivity R instead of sqrt(R^2 + w^2)."""

    def change(stage: Stage) -> Stage:
        query, total = _total(stage)
        assert isinstance(query.query, WithCount)
        square = total.radius**2
        return rescaled(stage, Fraction((square / (square + query.query.weight**2)) ** 0.5))

    return plan_fault(
        "does not pay for the number", mechanism, changed(mechanism, change, ("sum",))
    )


def exact_number(mechanism: Mechanism[Any]) -> Fault:
    """Release the exact number of records, as if it were public, to compare with half of it."""
    _, total = _total(stages_of(mechanism.fixed_plan)[-1])
    exact = Stage("exact", Faulty(total, lambda rows: [len(rows)]), NoNoise())
    plan = (exact, *mechanism.fixed_plan)
    return plan_fault("compares with the exact number of records", mechanism, plan)


def exact_medians(mechanism: Mechanism[Any]) -> Fault:
    """Take the sum about the exact medians of the data."""

    def change(stage: Stage) -> Stage:
        query, total = _total(stage)
        weight = getattr(query.query, "weight", None)
        origin = Stretch((0,) * total.width, total.stretch.exponents, total.stretch.factors)

        def value(records: Records) -> list[int]:
            images = list(origin.images(records))
            rows = np.concatenate(images) if images else np.zeros((0, total.width), np.int64)
            middle = np.sort(rows, axis=0)[len(rows) // 2] if len(rows) else 0
            vectors = clip_to_ball(rows - middle, total.radius)
            counted = [] if weight is None else [weight * len(rows)]
            return [*vectors.sum(axis=0).tolist(), *counted]

        wrong = dataclasses.replace(query, query=Faulty(query.query, value))
        return dataclasses.replace(stage, query=wrong)

    plan = changed(mechanism, change, ("sum",))
    return plan_fault("takes the center of the sum from the data", mechanism, plan)


# --- pairs --------------------------------------------------------------------------------------

_NAN, _FAR, _TINY = float("nan"), 1e308, 5e-324


def line_added() -> tuple[NeighboringPair, ...]:
    """List pairs about 0 with a reach of 4: at thresholds, far away, reordered, and with an
    empty side."""
    return (
        added("a record far above enters", [0.0] * 4, _FAR),
        added("everything shifts by a place", [_FAR, -_FAR] * 6, _FAR),
        added("near and far ones shift by a place", [0.0, _FAR, 0.0, -_FAR] * 3, _FAR),
        added("the middle record is another one", [-3.0] * 6 + [3.0] * 5, 3.0),
        NeighboringPair(
            name="nobody against somebody", left=[-_FAR], right=[], adjacency=Adjacency.ADD_REMOVE
        ),
        added("a subnormal beside a threshold", [0.0, -0.0, 4.0, -4.0], _TINY),
        added("a NaN enters", [-3.0] * 3, _NAN),
    )


def plane_replaced() -> tuple[NeighboringPair, ...]:
    """List pairs about (1, -3) with a reach of 8: between opposite corners, and within a cell.

    The first pair's record is 10 expected norms away, for deviations of 4 and 8; the record that
    replaces it lies on the opposite side, less than 4 expected norms away.
    """
    corner, crowd = (41.0, 77.0), [(1.0, -3.0)] * 5
    low, high = (-4.0, -8.0), (6.0, 2.0)
    step = 2.0**-40
    return (
        replaced("far on one side by less far on the other", [corner, *crowd], (-14.0, -33.0)),
        replaced("the middle record is another one", [low] * 6 + [high] * 5, high),
        replaced("a corner by the opposite one", [(_FAR, _FAR), *crowd], (-_FAR, -_FAR)),
        replaced("a NaN by an outlier", [(_NAN, 0.0)] * 4, (_FAR, -_FAR), at=3),
        replaced("across both thresholds", [(1.0, -3.0)] * 4, (1.0 + step, -3.0 - step)),
        replaced("a zero by a subnormal", [(-0.0, 0.0)] * 4, (_TINY, -_TINY)),
    )
