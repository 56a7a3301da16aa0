"""From released moments of truncated or clipped records back to the parameters of a family: post-processing.

Truncated: A_S(theta) - <theta, released> is convex, and its least place over the prior is the maximum likelihood estimate; damped
Newton steps, each to the least place of the quadratic model over the prior. Clipped: the theta whose clipped
statistic has the released mean. If the symmetrised derivative of the mean is at least a > 0 all over a convex prior that holds
the estimate and the truth, these are at most |released - expected at the truth| / a apart: strong monotonicity.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpverify.families.balls import Law
from dpverify.families.clipped_moments import clipped_inverse
from dpverify.families.gaussian import NormalPrecision
from dpverify.families.sets import Ball, Box, Eigenvalues, Prior, Survival
from dpverify.families.several_parameters import ExponentialFamily, mass_of
from dpverify.grid.steps import Outside
from dpverify.privacy.numbers import Floats

_STEPS, _HALVINGS, _INNER = 100, 50, 4000
_EXACT = 1e-20  # of the decrement, in squared deviations of one record's score
_SURE = 1e-13
_ROUNDING = 1e-13  # of the objective, which nothing falls by more than near the minimum


@dataclass(frozen=True, slots=True)
class Solved:
    """A theta of the prior, shape (p,), and how many Newton steps led to it. at_edge: whether the prior limits it."""

    theta: Floats
    steps: int
    at_edge: bool


@dataclass(frozen=True, slots=True)
class Unsolved:
    """No theta was found; ``nearest`` is the last one that was tried, and ``why`` says what went wrong."""

    nearest: Floats
    why: str


class NotMonotone(ValueError):
    """The clipped statistic's mean need not determine theta: ``least`` is the least eigenvalue of its symmetrised Jacobian."""

    def __init__(self, message: str, least: float) -> None:
        super().__init__(message)
        self.least = least


@lru_cache(maxsize=64)
def least_curvature(
    family: ExponentialFamily, prior: Prior, survival: Survival, outside: Outside
) -> float:
    """Compute the least eigenvalue of how the statistic's mean follows theta, over the family's ``points`` of the prior.

    Inside alone ("mask") of Cov(T | S); clipped of the symmetrised Cov(T(z), T(x)). Between points nothing is shown.
    """
    found = []
    for theta in family.points(prior):
        if outside == "mask":
            slope = family.truncated(theta, survival).covariance
        else:
            slope = family.clipped(theta, survival).jacobian
        found.append(float(np.linalg.eigvalsh((slope + slope.T) / 2)[0]))
    return min(found)


def truncated_mle(
    family: ExponentialFamily, prior: Prior, survival: Survival, released: Floats
) -> Solved | Unsolved:
    """Find the theta of the prior that maximizes the likelihood of records in the set, of which T has the mean ``released``.

    Raises ValueError where the set cannot be shown to hold 1 / 20 of the records for every theta of the prior.
    """
    mass_of(family, prior, survival)
    released = _numbers(family, released)
    centered = not np.any(survival.center)
    if isinstance(family, NormalPrecision) and isinstance(prior, Eigenvalues) and centered:
        return _along_eigenvectors(family, prior, survival, released)

    def at(theta: Floats) -> _Model | None:
        partition = family.log_partition(theta)
        if not math.isfinite(partition):
            return None
        found = family.truncated(theta, survival)
        value = partition + found.log_mass - float(theta @ released)
        return _Model(value, found.mean - released, found.covariance)

    def nearest(theta: Floats) -> Floats:
        return family.project(theta, prior)

    start = nearest(family.mean_to_natural(released))
    return _minimized(at, start, nearest, _boxed(prior) if isinstance(prior, Box) else None)


def clipped_match(
    family: ExponentialFamily, prior: Prior, survival: Survival, released: Floats
) -> Solved | Unsolved:
    """Find the theta of the prior for which T of clipped records has the mean ``released``.

    Raises NotMonotone where the mean need not determine theta over the prior: then count records inside alone
    (``truncated_mle``), or give a smaller prior or a larger ball.
    """
    released = _numbers(family, released)
    if not family.monotone:
        least = least_curvature(family, prior, survival, "clip")
        if not least > 0:
            raise NotMonotone(
                f"the mean of clipped records need not grow with theta over {prior} in {survival}: the symmetrised "
                f"Jacobian has the eigenvalue {least:.3g}. Use truncated_mle, a smaller prior or a larger ball.",
                least,
            )
    centered = not np.any(survival.center)
    if isinstance(family, NormalPrecision) and isinstance(survival, Ball) and centered:
        values, vectors = np.linalg.eigh(-2 * family.split(released)[0])
        own = clipped_inverse(values, survival.radius**2)
        theta = family.joined((vectors / own.variances) @ vectors.T, np.zeros(family.d))
        if own.changed or not own.converged:
            return Unsolved(theta, "no covariance has these moments")
        return _in_prior(family, prior, theta, 1)
    return _rooted(family, prior, survival, released)


# --- convex minimization -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Model:
    value: float
    gradient: Floats
    hessian: Floats


_Evaluate = Callable[[Floats], _Model | None]
_Project = Callable[[Floats], Floats]


def _minimized(
    at: _Evaluate, start: Floats, nearest: _Project, box: tuple[Floats, Floats] | None
) -> Solved | Unsolved:
    """Damped Newton; ``nearest`` projects on the set, and a box is treated exactly."""
    theta, state = start, at(start)
    if state is None:
        return Unsolved(start, "the prior's nearest theta to the released moments is no parameter")
    for step in range(_STEPS):
        if box is None:
            toward, edge = _least_of_model(state, theta, nearest)
        else:
            toward, edge = _least_in_box(state, theta, *box)
        gained = float(state.gradient @ (toward - theta))
        if -gained <= _EXACT:
            return Solved(toward, step, edge)
        later, moved = None, theta
        for k in range(_HALVINGS):
            moved = theta + 0.5**k * (toward - theta)
            if box is not None:
                moved = nearest(moved)
            later = at(moved)
            slack = 1e-4 * float(state.gradient @ (moved - theta)) + _ROUNDING * abs(state.value)
            if later is not None and later.value <= state.value + slack:
                break
            later = None
        if later is None:
            break
        if -gained <= _SURE and later.value >= state.value:
            return Solved(toward, step, edge)
        theta, state = moved, later
    return Unsolved(theta, "Newton's method did not converge")


def _least_of_model(state: _Model, theta: Floats, nearest: _Project) -> tuple[Floats, bool]:
    """Find where the quadratic model is least over the set, and whether the set limits it: by accelerated projected gradients."""
    values, vectors = np.linalg.eigh(state.hessian)
    values = np.maximum(values, 1e-13 * values[-1])
    free = theta - (vectors / values) @ (vectors.T @ state.gradient)
    place = nearest(free)
    if np.linalg.norm(place - free) <= 1e-12 * (1 + np.linalg.norm(free)):
        return free, False
    ahead, weight = place, 1.0
    for _ in range(_INNER):
        slope = state.gradient + state.hessian @ (ahead - theta)
        later = nearest(ahead - slope / values[-1])
        moved = later - place
        if (ahead - later) @ moved > 0:
            weight = 1.0  # overshot: restart
        if np.linalg.norm(later - ahead) <= 1e-14 * (1 + np.linalg.norm(later)):
            place = later
            break
        heavier = (1 + math.sqrt(1 + 4 * weight**2)) / 2
        ahead, weight, place = later + (weight - 1) / heavier * moved, heavier, later
    return place, True


def _least_in_box(state: _Model, theta: Floats, low: Floats, high: Floats) -> tuple[Floats, bool]:
    """Take the Newton step of what no side holds, clamped; sides hold where the gradient points out of them."""
    held = ((theta <= low) & (state.gradient > 0)) | ((theta >= high) & (state.gradient < 0))
    toward, free = theta.copy(), ~held
    if free.any():
        hessian = state.hessian[np.ix_(free, free)]
        scale = np.sqrt(np.diag(hessian))
        values, vectors = np.linalg.eigh(hessian / np.outer(scale, scale))
        values = np.maximum(values, 1e-13 * values[-1])
        toward[free] -= (vectors / values) @ (vectors.T @ (state.gradient[free] / scale)) / scale
    clamped = np.clip(toward, low, high)
    if (
        state.gradient @ (clamped - theta) > 0
    ):  # clamping turned the step: along the diagonal instead
        own = np.diag(state.hessian)
        clamped = np.clip(theta - state.gradient / own, low, high)
    return clamped, bool(held.any())


def _boxed(prior: Box) -> tuple[Floats, Floats]:
    return np.array(prior.lowest), np.array(prior.highest)


def _along_eigenvectors(
    family: NormalPrecision, prior: Eigenvalues, survival: Survival, released: Floats
) -> Solved | Unsolved:
    """The estimate has the eigenvectors of the released moments, for truncation to a centered set commutes with rotations.

    Of sums of eigenvalue functions and <P, M>, what is least has M's eigenvectors (von Neumann). So d precisions are
    left, in an interval each.
    """
    values, vectors = np.linalg.eigh(-2 * family.split(released)[0])
    zeros = np.zeros(family.d)
    inner, outer = (
        (0.0, survival.radius) if isinstance(survival, Ball) else (survival.inner, survival.outer)
    )

    def at(precisions: Floats) -> _Model:
        mass, second, fourth = 0.0, 0.0 * zeros, 0.0 * np.outer(zeros, zeros)
        first = 0.0
        for radius, sign in ((outer, 1.0), (inner, -1.0)):
            if not radius:
                continue
            found = Law(zeros, 1 / precisions / radius**2).limited("inside")
            first = first or found.shift
            size = sign * math.exp(found.shift - first)
            squares = (found.b @ found.terms).real
            both = ((found.b * found.terms) @ found.b.T).real
            both[np.diag_indices(family.d)] *= 3
            mass += size * found.total
            second = second + size * radius**2 * squares
            fourth = fourth + size * radius**4 * both
        moments = second / mass
        value = float(precisions @ values - np.log(precisions).sum()) / 2 + first + math.log(mass)
        return _Model(
            value, (values - moments) / 2, (fourth / mass - np.outer(moments, moments)) / 4
        )

    low, high = np.full(family.d, prior.lowest), np.full(family.d, prior.highest)
    start = np.clip(1 / np.maximum(values, 1 / prior.highest), low, high)
    found = _minimized(at, start, lambda b: np.clip(b, low, high), (low, high))
    precisions = found.theta if isinstance(found, Solved) else found.nearest
    theta = family.joined((vectors * precisions) @ vectors.T, zeros)
    if isinstance(found, Solved):
        return Solved(theta, found.steps, found.at_edge)
    return Unsolved(theta, found.why)


# --- roots -------------------------------------------------------------------------------------------


def _rooted(
    family: ExponentialFamily, prior: Prior, survival: Survival, released: Floats
) -> Solved | Unsolved:
    """Damped Newton steps on the clipped mean."""
    theta = family.project(family.mean_to_natural(released), prior)
    state = family.clipped(theta, survival)
    for step in range(_STEPS):
        off = state.mean - released
        toward = np.linalg.lstsq(state.jacobian, -off, rcond=1e-15)[0]
        if abs(float(toward @ off)) <= _EXACT:
            return _in_prior(family, prior, theta, step)
        for k in range(_HALVINGS):
            moved = theta + 0.5**k * toward
            if not math.isfinite(family.log_partition(moved)):
                continue
            later = family.clipped(moved, survival)
            if np.linalg.norm(later.mean - released) <= (1 - 1e-4 * 0.5**k) * np.linalg.norm(off):
                break
        else:
            if abs(float(toward @ off)) <= _SURE:
                return _in_prior(family, prior, theta, step)
            return Unsolved(
                theta, "Newton's method did not converge: no law may have these moments"
            )
        theta, state = moved, later
    return Unsolved(theta, "Newton's method did not converge")


def _in_prior(
    family: ExponentialFamily, prior: Prior, theta: Floats, steps: int
) -> Solved | Unsolved:
    inside = family.project(theta, prior)
    if np.linalg.norm(inside - theta) > 1e-9 * np.linalg.norm(theta):
        return Unsolved(inside, "the law with these moments is outside of the prior")
    return Solved(theta, steps, False)


def _numbers(family: ExponentialFamily, released: Floats) -> Floats:
    own = np.asarray(released, np.float64)
    if own.shape != (family.p,) or not np.isfinite(own).all():
        raise ValueError(f"released moments of shape {own.shape}; give {family.p} finite numbers.")
    return own
