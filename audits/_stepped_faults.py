"""Planted faults of parameters that a search finds, and statistics between edges that it chose."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify.audit import Fault
from dpverify.audit.faults import plan_fault
from dpverify.grid import Count, OneUnit, Records, Released, View
from dpverify.plans import Mechanism, NoNoise, Plan, Stage
from dpverify.plans.plan import stages_of
from dpverify.plans.walking import rescaled_stage, with_stages
from dpverify.privacy.numbers import Floats

from ._faulty_vectors import Faulty

Ends = Callable[[Floats], tuple[float, float]]


def changed(mechanism: Mechanism[Any], change: Callable[[Stage], Stage], *names: str) -> Plan:
    """Return the plan with ``change`` applied to the stages of these names."""
    return with_stages(mechanism.fixed_plan, lambda s: change(s) if s.name in names else s)


def unpaid_steps(mechanism: Mechanism[Any]) -> Fault:
    """Give every step of a search the noise that would suffice for a single step. A step's name is
    that of its search and a number."""
    names = [s.name for s in stages_of(mechanism.fixed_plan) if s.name.split()[-1].isdigit()]
    steps = Counter(name.split()[0] for name in names)

    def change(stage: Stage) -> Stage:
        return rescaled_stage(stage, Fraction(1 / math.sqrt(steps[stage.name.split()[0]])))

    return plan_fault("pays for one step alone", mechanism, changed(mechanism, change, *names))


def exact_number(mechanism: Mechanism[Any]) -> Fault:
    """Choose the interval's length by the exact number of records."""
    plan = (Stage("exact", Count(), NoNoise()), *mechanism.fixed_plan)
    return plan_fault("takes the exact number", mechanism, plan)


def own_edges(stage_name: str, ends: Ends) -> Callable[[Any], Fault]:
    """Plant that the edges of a stage's cells lie between ends that follow from the records' own
    numbers, so that one far record moves all others."""

    def plant(mechanism: Mechanism[Any]) -> Fault:
        plan = changed(mechanism, lambda stage: _between_own_ends(stage, ends), stage_name)
        return plan_fault("takes the interval from the data", mechanism, plan)

    return plant


def about_mean(values: Floats) -> tuple[float, float]:
    """Return ends about the mean, as far as twice the deviation."""
    near = np.clip(values, -1e100, 1e100)
    middle, far = (near.mean(), 2 * near.std() + 1) if len(near) else (0.0, 1.0)
    return float(middle - far), float(middle + far)


def _between_own_ends(stage: Stage, ends: Ends) -> Stage:
    assert isinstance(stage.query, OneUnit)
    asked: Any = stage.query.query

    def value(records: Records) -> Any:
        low, high = ends(records[:, 0])
        count = asked.cells + 2 * (asked.outside == "mask")
        row = low + (high - low) * ((np.arange(1, count + 1) - 0.5) / asked.cells)
        edges: Released[Any] = Released(
            (), lambda batch: (row[np.newaxis], np.zeros(len(batch), np.intp))
        )
        return dataclasses.replace(asked, edges=edges).evaluate(View(records))[0]

    wrong = dataclasses.replace(stage.query, query=Faulty(asked, value))
    return dataclasses.replace(stage, query=wrong)
