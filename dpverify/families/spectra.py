"""Precisions about a centered ball or shell, computed from eigenvalues alone.

That suffices for what commutes with rotations.
"""

from __future__ import annotations

import math

import numpy as np

from dpverify.families.balls import Law
from dpverify.families.clipped_moments import response
from dpverify.families.gaussian import NormalPrecision
from dpverify.families.newton import Model, Solved, Unsolved, minimized
from dpverify.families.normal_moments import radii
from dpverify.families.sets import Ball, Eigenvalues, Prior, Survival
from dpverify.grid.steps import Outside
from dpverify.privacy.numbers import Floats

_TINY = 1e-12  # least variance to begin with, in squared radii


def is_spectral(prior: Prior, survival: Survival) -> bool:
    """Return whether prior and set are the same after every rotation."""
    return isinstance(prior, Eigenvalues) and not np.any(survival.center)


def least_at(variances: Floats, survival: Survival, outside: Outside) -> float:
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


def along_eigenvectors(
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
