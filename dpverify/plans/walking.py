"""Walks over plans: what is in them, and plans with every stage or filter changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

from dpverify.plans.filtering import Filter
from dpverify.plans.plan import (
    Adaptive,
    Blocks,
    Built,
    Element,
    Filtered,
    Part,
    Plan,
    as_declared,
    elements_of,
    stages_of,
)
from dpverify.plans.stages import Gate, Stage, Unless


def gates_of(plan: Plan, *, filtered: bool = True) -> list[Gate]:
    """Return all gates, in order, with the full names of the stages they read."""
    every = elements_of(plan, filtered=filtered)
    return [element for element in every if isinstance(element, Gate)]


def filters_of(plan: Plan) -> Iterator[Filtered]:
    """Yield all filters, in order, as declared."""
    for element in map(as_declared, plan):
        if isinstance(element, Filtered):
            yield element
        elif isinstance(element, Part):
            yield from filters_of(element.plan)
        elif isinstance(element, Blocks):
            yield from filters_of(element.parts)


def lists_of(plan: Plan, path: str = "") -> dict[str, Part]:
    """Map each stage that runs on a list of the records, by its full name, to the outermost
    such part, as declared.
    """
    lists: dict[str, Part] = {}
    for element in map(as_declared, plan):
        if isinstance(element, Part) and element.on is not None:
            lists |= {path + stage.name: element for stage in stages_of((element,))}
        elif isinstance(element, Part):
            lists |= lists_of(element.plan, f"{path}{element.name}/")
        elif isinstance(element, Blocks):
            lists |= lists_of(element.parts, path)
    return lists


def is_filtered(plan: Plan) -> bool:
    """Return whether something runs behind a filter."""
    return next(filters_of(plan), None) is not None


def is_latent(plan: Plan) -> bool:
    """Return whether coins that are not released decide what later stages see."""
    if is_filtered(plan):
        return True
    inner = (
        one for e in map(as_declared, plan) for one in (e.parts if isinstance(e, Blocks) else (e,))
    )
    return any(isinstance(e, Part) and (e.is_latent or is_latent(e.plan)) for e in inner)


def is_closed(plan: Plan) -> bool:
    """Return whether one noise law describes the whole output: a single stage, no gate."""
    return len(plan) == 1 and isinstance(plan[0], Stage)


def with_stages(plan: Plan, change: Callable[[Stage], Stage]) -> Plan:
    """Return the plan with ``change`` made to every stage, as declared and as built: how faults
    are planted.

    The change is shown a stage of a part under its full name.
    """
    return _changed(plan, change, lambda one: one, "")


def with_filters(plan: Plan, change: Callable[[Filter], Filter]) -> Plan:
    """Return the plan with ``change`` made to every filter, as declared and as built."""
    return _changed(plan, lambda one: one, change, "")


def _changed(
    plan: Plan, stages: Callable[[Stage], Stage], filters: Callable[[Filter], Filter], path: str
) -> Plan:
    def stage(one: Stage) -> Stage:
        return (
            replace(stages(replace(one, name=path + one.name)), name=one.name)
            if path
            else stages(one)
        )

    def inside(inner: Plan, name: str | None = None) -> Plan:
        return _changed(inner, stages, filters, path if name is None else f"{path}{name}/")

    def built(one: Built) -> Built:
        if isinstance(one, Stage):
            return stage(one)
        if isinstance(one, Part):
            return replace(one, plan=inside(one.plan, one.name))
        return replace(one, filter=filters(one.filter), inner=inside(one.inner))

    def element(one: Element) -> Element:
        if isinstance(one, (Gate, Unless)):
            return one
        if isinstance(one, Adaptive):
            declared = built(one.declared)
            return replace(one, declared=declared, build=lambda row: built(one.build(row)))
        if isinstance(one, Blocks):
            return replace(one, plans=tuple(inside(part.plan, part.name) for part in one.parts))
        return built(one)

    return tuple(map(element, plan))


def rescaled_stage(stage: Stage, factor: Fraction) -> Stage:
    """Return the stage with the scale of its noise multiplied, where it has one."""
    noise = stage.noise.rescaled(factor)
    return stage if noise is None else replace(stage, noise=noise)
