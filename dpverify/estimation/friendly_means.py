"""Common parts of means of records that agree: parameters from a covariance, and the ball about
a released center.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Literal

import numpy as np

from dpverify.estimation.clipping import Numbers
from dpverify.grid.nearness import Nearness, by_column
from dpverify.grid.retained import KEPT
from dpverify.grid.shapes import Shape, shape_of, spectrum, tail_radius
from dpverify.grid.transcripts import transcript
from dpverify.plans import UNIT, Transcripts
from dpverify.plans.parameters import one_of, probability, whole_from
from dpverify.privacy.numbers import Exact, Floats, exact, root_up, settle, whole
from dpverify.randomness.bits import IntArray
from dpverify.transformations.degree_weights import AGREEMENT
from dpverify.transformations.means import (
    BasicCoreMean,
    CoreMean,
    GaussianCoreMean,
    WeightedCoreMean,
)

Numbered = tuple[tuple[str, int], ...]
"""Released integers by the names of their stages."""
Filters = Annotated[Literal["weights", "gaussian", "basic"], one_of("weights", "gaussian", "basic")]
Expected = Annotated[int, whole_from(1, "; say about how many records you expect.")]
"""About how many records are expected."""
CORES: dict[str, type[CoreMean]] = {
    "weights": WeightedCoreMean,
    "gaussian": GaussianCoreMean,
    "basic": BasicCoreMean,
}
METRICS = ("euclidean", "mahalanobis")
"""Norms in which errors of a mean may be measured."""
_LEAST, _LARGEST = Fraction(1, 10**100), 10**9
"""Range of the noise multipliers; above the largest too few cells are left for noise."""
_FAR = 1 << 41
_MOST_KNOWN = 1 << 16


def check_shared(mechanism: Any) -> None:
    """Refuse bad parameters that the rescaled and the refined mean share, and keep them in
    their exact form.

    Raises TypeError or ValueError.
    """
    settle(mechanism, matrix=shape_of(mechanism.matrix, mechanism.origin)[0])
    if mechanism.origin is not None:
        settle(mechanism, origin=tuple(map(float, mechanism.origin)))
    name = "center_multiplier" if hasattr(mechanism, "center_multiplier") else "noise_multiplier"
    check_multiplier(mechanism, name)
    if mechanism.ladder_multiplier is not None:
        if mechanism.filter != "weights":
            raise ValueError(
                f"ladder_multiplier = {mechanism.ladder_multiplier} with "
                f"filter={mechanism.filter!r}: only filter='weights' has a ladder; leave one of "
                "them out."
            )
        check_multiplier(mechanism, "ladder_multiplier")


def check_multiplier(mechanism: Any, name: str) -> None:
    """Refuse, with ValueError, a multiplier whose noise is less than any cell or more than any
    grid holds.
    """
    given = exact(getattr(mechanism, name), name)
    if given > 0 and not _LEAST <= given <= _LARGEST:
        raise ValueError(
            f"{name} is outside 1e-100 to 1e9, where no grid serves it; use for_budget."
        )


def with_covariance(parameters: dict[str, Any], covariance: Any) -> Floats | None:
    """Add to the parameters the matrix and the radius, where they are not given, from the
    covariance and n_max.

    The covariance may be given as a diagonal or a matrix, or by ``trace``, ``largest`` and
    ``columns`` among the parameters, which are taken out of them. Returns the eigenvalues of
    the mapped covariance, None where nothing is known of it. Raises TypeError or ValueError.
    """
    if "n_max" not in parameters:
        raise TypeError(
            "n_max is missing; give about how many records there are, a public guess: n_max=1000."
        )
    if "trace" in parameters:
        absent = [name for name in ("columns", "largest") if name not in parameters]
        if absent:
            raise TypeError(
                f"{' and '.join(absent)} is missing beside trace; give all three, or covariance."
            )
        columns = whole(parameters.pop("columns"), "columns")
        values = isotropic_worst(columns, parameters.pop("trace"), parameters.pop("largest"))
        parameters.setdefault("matrix", (1.0,) * columns)
    elif covariance is not None:
        parameters.setdefault("matrix", covariance)
        origin = parameters.get("origin")
        values = mapped_spectrum(parameters["matrix"], covariance, origin)
    else:
        absent = [name for name in ("matrix", "radius") if name not in parameters]
        if absent:
            raise TypeError(
                f"{' and '.join(absent)} cannot be chosen without a covariance; give covariance, a "
                "public guess of how the records vary: the variances of the columns, or a matrix."
            )
        return None
    if "radius" not in parameters:
        n_max = whole(parameters["n_max"], "n_max")
        parameters["radius"] = tail_radius(2 * values, 1 / n_max)
    return values


def all_friends_radius(eigenvalues: Floats, strangers: Exact, n_max: Any) -> float:
    """Compute a radius that any two of n_max records of this mapped covariance exceed with this
    probability at most.

    Every pair has the same part of the probability. Raises TypeError or ValueError.
    """
    rare, n = probability(strangers, "strangers"), whole(n_max, "n_max")
    if rare < _LEAST:
        raise ValueError(f"strangers = {strangers} is below 1e-100; give a larger probability.")
    return tail_radius(2 * eigenvalues, float(rare / max(1, n * (n - 1) // 2)))


def matrix_for(metric: str, covariance: Any, parameters: Mapping[str, Any]) -> Any:
    """Return the matrix M with the least noise in this metric: the covariance, or its square.

    Noise has covariance M^(1/2) times the squared radius, which is about tr(M^(-1/2) Sigma). In
    the Mahalanobis norm of the covariance Sigma its squared length is tr(M^(1/2) Sigma^-1), and
    the product of both traces is least, d^2, for M = Sigma^2. Raises ValueError for another
    metric, and for the Mahalanobis one without a covariance, with a matrix besides, or with
    numbers whose squares are no floats.
    """
    if metric not in METRICS:
        raise ValueError(f"metric = {metric!r}; write 'euclidean' or 'mahalanobis'.")
    if metric == "euclidean":
        return covariance
    if covariance is None or "matrix" in parameters or "trace" in parameters:
        raise ValueError(
            "metric='mahalanobis' is about a known covariance, whose square is the matrix; give "
            "covariance= and neither matrix= nor trace=."
        )
    given = np.array(covariance, dtype=np.float64)
    with np.errstate(over="ignore", under="ignore"):
        square = given @ given if given.ndim > 1 else given * given
    lost = (
        (square == 0) & (given != 0)
        if given.ndim == 1
        else np.diag(square == 0) & np.diag(given != 0)
    )
    if not np.isfinite(square).all() or lost.any():
        raise ValueError(
            "The covariance's square has numbers beyond the floats; give the data in another unit."
        )
    if given.ndim == 1:
        return tuple(square.tolist())
    return tuple(map(tuple, ((square + square.T) / 2).tolist()))


def isotropic_worst(columns: int, trace: float, largest: float) -> Floats:
    """Return eigenvalues of this sum, none above the largest, whose records have norms of the
    heaviest tails.

    As many are equal to the largest as can be. Raises ValueError for numbers that belong to no
    covariance.
    """
    if not 0 < largest <= trace <= columns * largest:
        raise ValueError(
            f"trace = {trace} and largest = {largest} belong to no covariance of {columns} "
            "columns; largest <= trace <= columns * largest."
        )
    full = int(trace // largest)
    values = np.zeros(columns)
    values[:full] = largest
    if full < columns:
        values[full] = trace - full * largest
    return values


def mapped_spectrum(matrix: Any, covariance: Any, origin: Any = None) -> Floats:
    """Compute the eigenvalues of M^(-1/4) Sigma M^(-1/4), M the matrix and Sigma the covariance."""
    _, shape = shape_of(matrix, origin)
    if shape.rows is None and np.ndim(covariance) == 1:
        scales = np.array(shape.scales)
        return np.asarray(spectrum(covariance) * scales**2)
    root = np.diag(shape.scales) if shape.rows is None else np.array(shape.rows)
    full = np.diag(covariance) if np.ndim(covariance) == 1 else np.asarray(covariance)
    turned = root @ full @ root.T
    return np.maximum(spectrum((turned + turned.T) / 2), 0)


def spread_of(shape: Shape, nearness: Nearness, noise: float) -> Floats:
    """Map noise of this deviation in every direction of the cells to the data's units: shape
    (d,) or (d, d).
    """
    if shape.rows is None:
        return shape.back(np.full(shape.columns, noise), nearness)
    return shape.back(np.eye(shape.columns) * noise, nearness).T


def noise_length(shape: Shape, nearness: Nearness, noise: float) -> float:
    """Compute the root mean square length, in the data's units, of noise of so many radii in
    every direction after the map.
    """
    if not math.isfinite(noise):
        return math.inf
    return float(np.linalg.norm(spread_of(shape, nearness, noise * nearness.radius)))


def bounded_float(value: int) -> float:
    """Round to a float whose square is finite: 1e140 stands for every larger number."""
    return float(min(max(value, -(10**140)), 10**140))


def number_kept(released: Transcripts) -> int:
    """Read from a transcript the released number of records that agree."""
    return released.number(AGREEMENT if AGREEMENT in released.values else KEPT)


@lru_cache(maxsize=1 << 14)
def ball_after(core: CoreMean, share: Fraction, numbers: Numbered) -> tuple[Fraction, int]:
    """Return, in cells, a center's noise and the radius of the ball about it, from the released
    numbers.

    share: the radius for records over the radius for friends. The ball's radius is that of
    records and sqrt(d) times the center's noise in quadrature, rounded up.
    """
    noise = core.noise_of(transcript({name: (value,) for name, value in numbers}))
    nearness = core.nearness
    square = (share * nearness.radius) ** 2 + nearness.width * noise**2
    return noise, min(max(1, int(root_up(square, 0))), _FAR)


def within_reach(cells: IntArray) -> IntArray:
    """Clamp cells of centers to 2^41 on either side, within which all records are, as words of
    64 bits.
    """
    return np.clip(cells, -_FAR, _FAR).astype(np.int64)


@lru_cache(maxsize=64)
def nearness_of(deviations: Numbers, radius: Fraction) -> Nearness:
    """Build the map that divides each column by its deviation, with friends up to ``radius``
    apart after it.
    """
    return by_column(tuple(1 / s for s in deviations), radius)


def balls(
    core: CoreMean, share: Fraction, released: Iterable[Numbered]
) -> list[tuple[Fraction, int]]:
    """Return a center's unit in cells and the radius of the ball about it after each of these
    released numbers.
    """
    known = _known_balls(core, share)
    if len(known) > _MOST_KNOWN:
        known.clear()
    each = []
    for one in released:
        ball = known.get(one)  # another thread may clear them
        if ball is None:
            noise, radius = ball_after(core, share, one)
            ball = known[one] = noise / UNIT, radius
        each.append(ball)
    return each


@lru_cache(maxsize=16)
def _known_balls(core: CoreMean, share: Fraction) -> dict[Numbered, tuple[Fraction, int]]:
    """Return the cache of ``balls``, which fills it."""
    return {}
