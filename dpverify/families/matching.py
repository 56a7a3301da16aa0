"""Matching: from released moments of truncated or clipped records to a family's parameters.

Everything here is post-processing. Truncated: A_S(theta) - <theta, released> is convex, and its
least place over the prior is the maximum likelihood estimate; damped Newton steps find it, each
to the least place of the quadratic model over the prior. Clipped: the estimate is the theta
whose clipped statistic has the released mean. If the symmetrised derivative of the mean is at
least a > 0 all over a convex prior that holds the estimate and the truth, these are at most
|released - expected at the truth| / a apart: strong monotonicity.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from dpverify.families.balls import Law
from dpverify.families.clipped_moments import clipped_inverse, response
from dpverify.families.gaussian import NormalPrecision
from dpverify.families.newton import (
    EXACT,
    HALVINGS,
    STEPS,
    SURE,
    Model,
    Solved,
    Unsolved,
    minimized,
)
from dpverify.families.normal_moments import radii
from dpverify.families.sets import Ball, Box, Eigenvalues, Prior, Survival
from dpverify.families.several_parameters import ExponentialFamily, mass_of
from dpverify.grid.steps import Outside
from dpverify.privacy.numbers import Floats

_TINY = 1e-12  # least variance to begin with, in squared radii


class NotMonotone(ValueError):
    """An error: clipped moments do not grow with theta over the prior.

    Then nothing bounds the error of a match by the error of the moments.

    least: the least eigenvalue of the symmetrised Jacobian that was found, which is not
    positive.
    """

    def __init__(self, message: str, least: float) -> None:
        super().__init__(message)
        self.least = least


@lru_cache(maxsize=64)
def least_curvature(
    family: ExponentialFamily, prior: Prior, survival: Survival, outside: Outside
) -> float:
    """Compute the least eigenvalue of the derivative of the statistic's mean by theta.

    It is the least over the family's ``points`` of the prior. For records inside alone ("mask")
    that is of Cov(T | S); for clipped ones of the symmetrised Cov(T(z), T(x)). Between points
    nothing is shown.
    """
    if isinstance(family, NormalPrecision) and _is_spectral(prior, survival):
        spectra = (np.diag(family.textbook(theta)) for theta in family.points(prior))
        return min(_least_at(variances, survival, outside) for variances in spectra)
    curvatures = []
    for theta in family.points(prior):
        if outside == "mask":
            slope = family.truncated(theta, survival).covariance
        else:
            slope = family.clipped(theta, survival).jacobian
        curvatures.append(float(np.linalg.eigvalsh((slope + slope.T) / 2)[0]))
    return min(curvatures)


def truncated_mle(
    family: ExponentialFamily, prior: Prior, survival: Survival, released: Floats
) -> Solved | Unsolved:
    """Find the theta of the prior that maximizes the likelihood of records in the set.

    T of these records has the mean ``released``. Raises ValueError where the set cannot be
    shown to hold 1 / 20 of the records for every theta of the prior.
    """
    mass_of(family, prior, survival)
    released = _numbers(family, released)
    if isinstance(family, NormalPrecision) and _is_spectral(prior, survival):
        assert isinstance(prior, Eigenvalues)
        return _along_eigenvectors(family, prior, survival, released)

    def at(theta: Floats) -> Model | None:
        partition = family.log_partition(theta)
        if not math.isfinite(partition):
            return None
        truncated = family.truncated(theta, survival)
        value = partition + truncated.log_mass - float(theta @ released)
        return Model(value, truncated.mean - released, truncated.covariance)

    def nearest(theta: Floats) -> Floats:
        return family.project(theta, prior)

    start, box = nearest(family.mean_to_natural(released)), None
    if isinstance(prior, Box):
        box = np.array(prior.lowest), np.array(prior.highest)
    return minimized(at, start, nearest, box)


def clipped_match(
    family: ExponentialFamily, prior: Prior, survival: Survival, released: Floats
) -> Solved | Unsolved:
    """Find the theta of the prior for which T of clipped records has the mean ``released``.

    Raises NotMonotone where the mean does not grow with theta over the prior, so that no bound
    on errors is known: then count records inside alone (``truncated_mle``), or give a smaller
    prior or a larger ball.
    """
    released = _numbers(family, released)
    if not family.monotone:
        least = least_curvature(family, prior, survival, "clip")
        if not least > 0:
            raise NotMonotone(
                f"the mean of clipped records does not grow with theta over {prior} in "
                f"{survival}, so errors have no bound: the symmetrised Jacobian has the "
                f"eigenvalue {least:.3g}. Use truncated_mle, a smaller prior or a larger ball.",
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


# --- precisions about a centered ball or shell, from eigenvalues alone ----------------------------


def _is_spectral(prior: Prior, survival: Survival) -> bool:
    """Return whether prior and set are the same after every rotation."""
    return isinstance(prior, Eigenvalues) and not np.any(survival.center)


def _least_at(variances: Floats, survival: Survival, outside: Outside) -> float:
    """Compute the least eigenvalue of the derivative of the moments by the precision.

    The precision is diag(1 / variances). Off the diagonal every entry follows its own, by
    symmetry under reflections: what is left is a (d, d) matrix. Inside it is Cov(y_i^2, y_j^2)
    / 4, and E y_i^2 y_j^2 / 2 off the diagonal; clipped, d Sigma = -Sigma dP Sigma.
    """
    if outside == "mask":
        _, moments, fourth = _inside(variances, survival)
        own, across = (fourth - np.outer(moments, moments)) / 4, fourth / 2
    else:
        if not isinstance(survival, Ball):
            raise ValueError(f"{survival} is not convex: records have no nearest place in it.")
        follows = response(variances, survival.radius**2)
        own = follows.diagonal * variances**2 / 2
        across = follows.off_diagonal * np.outer(variances, variances) / 2
    least = float(np.linalg.eigvalsh((own + own.T) / 2)[0])
    above = across[np.triu_indices(len(variances), 1)]
    return min(least, float(above.min())) if len(above) else least


def _along_eigenvectors(
    family: NormalPrecision, prior: Eigenvalues, survival: Survival, released: Floats
) -> Solved | Unsolved:
    """Find the estimate along the eigenvectors of the released moments.

    It has these, for truncation to a centered set commutes with rotations, and of sums of
    eigenvalue functions and <P, M>, the least has M's eigenvectors (von Neumann). So d
    precisions are left, in an interval each.
    """
    values, vectors = np.linalg.eigh(-2 * family.split(released)[0])
    zeros = np.zeros(family.d)

    def at(precisions: Floats) -> Model:
        log, moments, fourth = _inside(1 / precisions, survival)
        value = float(precisions @ values - np.log(precisions).sum()) / 2 + log
        return Model(value, (values - moments) / 2, (fourth - np.outer(moments, moments)) / 4)

    low, high = np.full(family.d, prior.lowest), np.full(family.d, prior.highest)
    start = np.clip(
        1 / np.maximum(values, max(1 / prior.highest, _TINY * radii(survival)[1] ** 2)), low, high
    )
    solution = minimized(at, start, lambda b: np.clip(b, low, high), (low, high))
    precisions = solution.theta if isinstance(solution, Solved) else solution.nearest
    theta = family.joined((vectors * precisions) @ vectors.T, zeros)
    if isinstance(solution, Solved):
        return Solved(theta, solution.steps, solution.at_edge)
    return Unsolved(theta, solution.why)


def _inside(variances: Floats, survival: Survival) -> tuple[float, Floats, Floats]:
    """Compute log P(S), and E y_i^2 and E y_i^2 y_j^2 inside, for independent y of these
    variances.
    """
    d, (inner, outer) = len(variances), radii(survival)
    first, mass, second, fourth = 0.0, 0.0, np.zeros(d), np.zeros((d, d))
    for radius, sign in ((outer, 1.0), (inner, -1.0)):
        if radius:
            limited = Law(np.zeros(d), variances / radius**2).limited("inside")
            first = limited.shift if sign > 0 else first
            size = sign * math.exp(limited.shift - first)
            both = ((limited.b * limited.terms) @ limited.b.T).real
            both[np.diag_indices(d)] *= 3
            mass += size * limited.total
            second += size * radius**2 * (limited.b @ limited.terms).real
            fourth += size * radius**4 * both
    return first + math.log(mass), second / mass, fourth / mass


# --- roots --------------------------------------------------------------------------------------


def _rooted(
    family: ExponentialFamily, prior: Prior, survival: Survival, released: Floats
) -> Solved | Unsolved:
    """Take damped Newton steps on the clipped mean."""
    theta = family.project(family.mean_to_natural(released), prior)
    state = family.clipped(theta, survival)
    for step in range(STEPS):
        off = state.mean - released
        toward = np.linalg.lstsq(state.jacobian, -off, rcond=1e-15)[0]
        if abs(float(toward @ off)) <= EXACT:
            return _in_prior(family, prior, theta, step)
        for k in range(HALVINGS):
            moved = theta + 0.5**k * toward
            if not math.isfinite(family.log_partition(moved)):
                continue
            later = family.clipped(moved, survival)
            if np.linalg.norm(later.mean - released) <= (1 - 1e-4 * 0.5**k) * np.linalg.norm(off):
                break
        else:
            if abs(float(toward @ off)) <= SURE:
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
