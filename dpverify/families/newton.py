"""Minimization of a smooth convex function over a convex set by damped Newton steps.

The set is one that can be projected on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpverify.privacy.numbers import Floats

STEPS, HALVINGS, INNER = 100, 50, 8000
EXACT = 1e-20
"""Gain of a step, by the model, below which the search ends: for a likelihood, in squared
deviations of one record's score.
"""
SURE = 1e-13
_LITTLE = 1e-6  # least share of the gain of single coordinates that all together must have
_ROUNDING = 1e-13  # relative rounding of the value: near the minimum no fall is larger
_PROJECTED = 4e-15  # relative rounding of a projected place


@dataclass(frozen=True, slots=True)
class Solved:
    """A theta of the prior, shape (p,), and the number of Newton steps that led to it.

    at_edge: whether the prior limits it.
    """

    theta: Floats
    steps: int
    at_edge: bool


@dataclass(frozen=True, slots=True)
class Unsolved:
    """A failed search: ``nearest`` is the last theta that was tried, ``why`` what went wrong."""

    nearest: Floats
    why: str


@dataclass(frozen=True, slots=True)
class Model:
    """A function's value, gradient and second derivative at some theta."""

    value: float
    gradient: Floats
    hessian: Floats


Evaluate = Callable[[Floats], Model | None]
Project = Callable[[Floats], Floats]


def minimized(
    at: Evaluate, start: Floats, nearest: Project, box: tuple[Floats, Floats] | None
) -> Solved | Unsolved:
    """Find the least place of a convex function over a convex set by damped Newton steps.

    at: evaluates the function, None outside of its domain.
    nearest: projects on the set.
    box: its ends where the set is a box, which is treated exactly.
    """
    theta, state = start, at(start)
    if state is None:
        return Unsolved(start, "the prior's nearest theta to the released moments is no parameter")
    for step in range(STEPS):
        if box is None:
            toward, edge, sure = _least_of_model(state, theta, nearest)
        else:
            toward, edge, sure = *_least_in_box(state, theta, *box), True
        gained = float(state.gradient @ (toward - theta))
        # at an edge far from the moments, rounding of places alone gains or loses more than SURE
        rounding = _PROJECTED * float(np.linalg.norm(state.gradient) * np.linalg.norm(theta))
        certain = max(SURE, rounding)
        if -gained <= EXACT:
            if sure and gained <= certain:
                return Solved(toward, step, edge)
            break
        descent = _fallen(at, state, theta, toward - theta, nearest if box is not None else None)
        if descent is None:
            break
        moved, later = descent
        if sure and -gained <= certain and later.value >= state.value:
            return Solved(toward, step, edge)
        theta, state = moved, later
    return Unsolved(theta, "Newton's method did not converge")


def _fallen(
    at: Evaluate, state: Model, theta: Floats, way: Floats, nearest: Project | None
) -> tuple[Floats, Model] | None:
    """Halve the step until the function falls by a share of what its gradient promises; None if
    it never does.
    """
    for k in range(HALVINGS):
        moved = theta + 0.5**k * way
        if nearest is not None:
            moved = nearest(moved)
        later = at(moved)
        slack = 1e-4 * float(state.gradient @ (moved - theta)) + _ROUNDING * abs(state.value)
        if later is not None and later.value <= state.value + slack:
            return moved, later
    return None


def _least_of_model(state: Model, theta: Floats, nearest: Project) -> tuple[Floats, bool, bool]:
    """Find where the quadratic model is least over the set, by accelerated projected gradients.

    They restart where they overshoot. Returns also whether the set limits that place, and
    whether the search ended.
    """
    values, vectors = np.linalg.eigh(state.hessian)
    values = np.maximum(values, 1e-13 * values[-1])
    free = theta - (vectors / values) @ (vectors.T @ state.gradient)
    place = nearest(free)
    if np.linalg.norm(place - free) <= 1e-12 * (1 + np.linalg.norm(free)):
        return free, False, True
    ahead, weight = place, 1.0
    for _ in range(INNER):
        slope = state.gradient + state.hessian @ (ahead - theta)
        later = nearest(ahead - slope / values[-1])
        moved = later - place
        if (ahead - later) @ moved > 0:
            weight = 1.0  # overshot: restart
        if np.linalg.norm(later - ahead) <= 1e-14 * (1 + np.linalg.norm(later)):
            return later, True, True
        heavier = (1 + math.sqrt(1 + 4 * weight**2)) / 2
        ahead, weight, place = later + (weight - 1) / heavier * moved, heavier, later
    return place, True, False


def _least_in_box(state: Model, theta: Floats, low: Floats, high: Floats) -> tuple[Floats, bool]:
    """Take the Newton step of the coordinates that no side holds, clamped.

    Sides hold where the gradient points out of them.
    """
    held = ((theta <= low) & (state.gradient > 0)) | ((theta >= high) & (state.gradient < 0))
    toward, free = theta.copy(), ~held
    if free.any():
        hessian = state.hessian[np.ix_(free, free)]
        scale = np.sqrt(np.diag(hessian))
        values, vectors = np.linalg.eigh(hessian / np.outer(scale, scale))
        values = np.maximum(values, 1e-13 * values[-1])
        toward[free] -= (vectors / values) @ (vectors.T @ (state.gradient[free] / scale)) / scale
    clamped = np.clip(toward, low, high)
    plain = np.clip(theta - state.gradient / np.diag(state.hessian), low, high)
    if state.gradient @ (clamped - theta) > _LITTLE * float(state.gradient @ (plain - theta)):
        clamped = plain  # clamping turned the step; this falls wherever anything does
    return clamped, bool(held.any())
