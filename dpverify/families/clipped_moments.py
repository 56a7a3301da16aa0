"""Second moments of clipped or masked normal records, and the variances that have given ones.

y is normal of covariance diag(lambda), |y|^2 = r^2, and the ball is |y|^2 <= bound. Clipped, a
record is z = y min(1, sqrt(bound) / |y|); masked, it counts only if it is inside. A covariance
that is not diagonal is first turned: both maps of matrices commute with rotations. Everything
here is post-processing in floats. Source: OURS; masked normal records: Daskalakis, Gouleakis,
Tzamos and Zampetakis 2018.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpverify.families.quadratic_forms import Transform, bounded, inside, transform
from dpverify.privacy.numbers import Floats

_FULL = 1 - 1e-3  # largest trace, in units of the bound
_ROUNDS = 200
_EXACT, _SURE = 1e-13, 1e-10
_LONGEST = 4.0  # longest step, in logarithms
_TINY = 1e-12  # least floor, in units of the bound: smaller moments are noise in floats
_MOST_VARIANCE = 1e3  # of a masked coordinate, in bounds: its law in the ball is then flat


@dataclass(frozen=True, slots=True)
class Inverse:
    """Variances, of shape (d,), all positive and finite, and the outcome of the search for them.

    matched: the moments that they have, to 1e-10 of each; the given ones, floored and capped.
    changed: whether flooring or capping changed any.
    converged: whether ``variances`` have ``matched``, or (masked) are the closest within their
    limits.
    """

    variances: Floats
    matched: Floats
    changed: bool
    converged: bool


@dataclass(frozen=True, slots=True)
class Response:
    """Derivatives of clipped moments by the covariance, at diag(lambda).

    diagonal: d E z_i^2 / d lambda_j, of shape (d, d).
    off_diagonal: d E z_i z_j / d Sigma_ij, of shape (d, d), symmetric; on its own diagonal it
    has the limit for equal variances.
    """

    diagonal: Floats
    off_diagonal: Floats


def clipped_spectrum(spectrum: Floats, bound: float) -> Floats:
    """Compute E z_i^2 = E y_i^2 min(1, bound / r^2) of clipped records, of shape (d,).

    The result has about 12 digits.

    spectrum: positive variances of shape (d,). E y_i^2 f(r^2) is lambda_i E f(Q_i) for every f,
    where Q_i is r^2 plus lambda_i times a chi-square of 2 degrees of freedom, of transform
    phi(s) / (1 + 2 lambda_i s).
    """
    own = _checked(spectrum, bound)
    along = transform(own, bounded(own))
    return np.asarray(bound * math.exp(along.shift) * own * along.once())


def masked_spectrum(spectrum: Floats, bound: float) -> tuple[float, Floats]:
    """Compute P(r^2 <= bound) and E y_i^2 of records inside, times their probability.

    The latter has shape (d,); both have about 12 digits.
    """
    own = _checked(spectrum, bound)
    along = transform(own, inside(own))
    size = math.exp(along.shift)
    return min(1.0, size * along.total), np.asarray(bound * size * own * along.once())


def masked_moments(spectrum: Floats, bound: float) -> Floats:
    """Compute E(y_i^2 | r^2 <= bound), of shape (d,), to about 12 digits.

    It is as accurate where hardly any record is inside.
    """
    own = _checked(spectrum, bound)
    along = transform(own, inside(own))
    return np.asarray(bound * own * along.once() / along.total)


def response(spectrum: Floats, bound: float) -> Response:
    """Compute the derivatives of clipped moments.

    Off the diagonal they are (m_i - m_j) / (lambda_i - lambda_j), for rotations commute with
    clipping. That is E(y_i^2 y_j^2 min(1, bound / r^2)) / (lambda_i lambda_j), of transform phi
    / ((1 + 2 lambda_i s) (1 + 2 lambda_j s)), which has a value for equal variances too.
    """
    own = _checked(spectrum, bound)
    along = transform(own, bounded(own))
    size = math.exp(along.shift)
    return Response(size * _slopes(own, along), size * along.twice())


def clipped_inverse(values: Floats, bound: float, floor: float = 0.0) -> Inverse:
    """Find the variances whose clipped moments are ``values``, of shape (d,), noisy ones too.

    values: below ``floor`` they are raised to it (to 1e-12 bound at least, to half of bound / d
    at most). If their sum is above (1 - 1e-3) bound, what they have above the floor is scaled
    down until it is not. nan is refused.

    The variances minimize E G(r^2) - sum_i values_i log lambda_i with G(x) = x up to the bound
    and bound (1 + log(x / bound)) beyond. This is convex in log lambda, because G(e^u) is
    convex and increasing and log r^2 is convex in log lambda; its gradient is m_i - values_i;
    and it has a minimum because all values are positive and their sum is below the bound. So
    the variances are unique, and Newton's method with shortened steps finds them.
    """
    wanted, changed = _attainable(values, bound, floor)
    logs = np.log(wanted) - math.log1p(-wanted.sum())
    along, moments = _clipped_at(logs)
    missed = math.inf
    for _ in range(_ROUNDS):
        last, missed = missed, float(np.abs(moments / wanted - 1).max())
        if missed < _EXACT or _SURE > missed > last / 2:
            break
        hessian = math.exp(along.shift) * _slopes(along.spectrum, along) * along.spectrum
        step = _step(hessian, wanted - moments)
        slope = float(step @ (moments - wanted))
        share = min(1.0, _LONGEST / float(np.abs(step).max()))
        for _ in range(60):
            along, tried = _clipped_at(logs + share * step)
            if float(step @ (tried - wanted)) <= 0.3 * abs(slope):
                break
            share /= 2
        logs, moments = logs + share * step, tried
    return Inverse(bound * np.exp(logs), bound * wanted, changed, missed < _SURE)


def masked_inverse(
    values: Floats, bound: float, floor: float = 0.0, most: float = _MOST_VARIANCE
) -> Inverse:
    """Find the variances whose moments inside the ball, E(y_i^2 | r^2 <= bound), are ``values``.

    values: of shape (d,), noisy ones too; they are floored and capped as in
    ``clipped_inverse``. The truncated likelihood, b.values / 2 + log int_ball
    exp(-sum_i b_i y_i^2 / 2) dy, is minimized over the precisions b = 1 / lambda, in which it
    is convex, up to a variance of ``most`` times the bound: the law of ever larger variances is
    flat in the ball, of moments bound / (d + 2), and no variance has larger equal ones. Where
    the limit is met the moment of that coordinate stays below the value.
    """
    wanted, changed = _attainable(values, bound, floor)
    least = 1 / most
    state = _masked_at(np.maximum(1 / wanted, least), wanted)
    missed = math.inf
    for _ in range(_ROUNDS):
        free = (state.precisions > least) | (state.gradient < 0)
        last, missed = missed, 2 * float(np.where(free, np.abs(state.gradient) / wanted, 0.0).max())
        if missed < _EXACT or _SURE > missed > last / 2:
            break
        step = np.zeros(len(wanted))
        step[free] = _step(state.hessian[np.ix_(free, free)], -state.gradient[free])
        later = _searched(state, step, least, wanted)
        if later is None:
            break
        state = later
    return Inverse(bound / state.precisions, bound * wanted, changed, missed < _SURE)


@dataclass(frozen=True, slots=True)
class _Masked:
    precisions: Floats
    objective: float
    gradient: Floats
    hessian: Floats


def _masked_at(precisions: Floats, wanted: Floats) -> _Masked:
    """Evaluate the truncated likelihood; its Hessian is the covariance of the squares inside,
    over 4.
    """
    own = 1 / precisions
    along = transform(own, inside(own))
    moments = own * along.once() / along.total
    fourth = np.outer(own, own) * along.twice() / along.total
    fourth[np.diag_indices(len(own))] *= 3
    mass = along.shift + math.log(along.total)
    objective = float(precisions @ wanted) / 2 + mass - float(np.log(precisions).sum()) / 2
    hessian = (fourth - np.outer(moments, moments)) / 4
    return _Masked(precisions, objective, np.asarray((wanted - moments) / 2), hessian)


def _searched(state: _Masked, step: Floats, least: float, wanted: Floats) -> _Masked | None:
    """Halve the step, bent at the limit and within a factor of 50, until the objective falls.

    None if it never does.
    """
    share = 1.0
    for _ in range(50):
        moved = np.clip(
            state.precisions + share * step, state.precisions / 50, state.precisions * 50
        )
        later = _masked_at(np.maximum(moved, least), wanted)
        gained = float(state.gradient @ (later.precisions - state.precisions))
        rounding = 1e-14 * abs(state.objective)  # near the minimum nothing falls by more
        if later.objective <= state.objective + 1e-4 * gained + rounding:
            return later
        share /= 2
    return None


def _clipped_at(logs: Floats) -> tuple[Transform, Floats]:
    own = np.exp(logs)
    along = transform(own, bounded(own))
    return along, np.asarray(math.exp(along.shift) * own * along.once())


def _slopes(own: Floats, along: Transform) -> Floats:
    """Compute d m_i / d lambda_j over exp(shift).

    With f_i = 1 + 2 lambda_i s it is delta_ij int phi / f_i^2 - lambda_i int s phi / (f_i f_j).
    """
    slopes = -own[:, np.newaxis] * along.twice(slope=True)
    slopes[np.diag_indices(len(own))] += ((along.inverse**2) @ along.terms).real
    return np.asarray(slopes)


def _step(hessian: Floats, toward: Floats) -> Floats:
    """Solve hessian step = toward, both scaled to a diagonal of 1.

    The system is a little regularized where it is not positive definite.
    """
    roots = np.sqrt(np.maximum(np.diag(hessian), 1e-300))
    scaled = hessian / np.outer(roots, roots)
    values, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
    values = np.maximum(values, 1e-13 * values[-1])
    return np.asarray(vectors @ ((vectors.T @ (toward / roots)) / values) / roots)


def _attainable(values: Floats, bound: float, floor: float) -> tuple[Floats, bool]:
    """Floor and cap moments, over the bound; return also whether that changed any."""
    given = np.asarray(values, np.float64)
    _check_bound(bound)
    if given.ndim != 1 or not given.size or np.isnan(given).any():
        raise ValueError(
            f"values of shape {given.shape}; give a vector of numbers, none of them nan."
        )
    least = min(max(floor / bound, _TINY), _FULL / (2 * given.size))
    above = np.clip(given / bound, least, 1e9) - least
    room = _FULL - given.size * least
    own = least + above * min(1.0, room / max(float(above.sum()), 1e-300))
    return own, bool((np.abs(own * bound - given) > 1e-12 * np.abs(given)).any())


def _checked(spectrum: Floats, bound: float) -> Floats:
    own = np.asarray(spectrum, np.float64)
    _check_bound(bound)
    if own.ndim != 1 or not own.size or not ((own > 0) & np.isfinite(own)).all():
        raise ValueError(f"spectrum = {own!r}; give a vector of positive, finite variances.")
    return own / bound


def _check_bound(bound: float) -> None:
    if not 0 < bound < math.inf:
        raise ValueError(f"bound = {bound!r} is not positive and finite; give a squared radius.")
