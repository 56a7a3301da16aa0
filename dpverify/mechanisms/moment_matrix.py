"""``moment_matrix``: first and second moments of columns between public bounds, in one release."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Literal

import numpy as np

from dpverify.estimation.budget_shares import ROOT_BITS
from dpverify.estimation.clipping import PerColumn, PublicRadius, capped
from dpverify.estimation.column_grids import grids_of, middle_of
from dpverify.estimation.handles import COUNT
from dpverify.estimation.moment_matrices import MomentMatrixEstimate
from dpverify.grid import Count, interval
from dpverify.grid.box_moments import BoxMoments, released_places
from dpverify.grid.joint import least_counted
from dpverify.grid.vector_queries import OneUnit
from dpverify.grid.vectors import OUTER_BOX
from dpverify.plans import (
    UNIT,
    Abstained,
    DiscreteLaplace,
    Handle,
    Mechanism,
    NoNoise,
    Plan,
    RoundedGaussian,
    Stage,
    Transcripts,
)
from dpverify.plans.parameters import AtLeast, one_of, probability, whole_from
from dpverify.privacy import Adjacency, Domain, Norm
from dpverify.privacy.numbers import Exact, Floats, exact, root_down, to_float

MOMENTS = Handle("moments")
SIDE = 1 << 16
"""Half of a column's range, in units of the released integers."""
_CELLS = 1 << 20
_MOST_COLUMNS = 1024  # most columns, which have half a million moments
_MOST = 1e120  # bound on a released sum and its noise: products of two are floats
_WIDEST = 2.0**480  # its square is a float


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentMatrix(Mechanism[MomentMatrixEstimate]):
    """The number, the means and the covariances of columns between public bounds.

    Data: shape (n, d), d = len(lower), in any unit. Output: ``MomentMatrixEstimate``, whose
    ``mean``, ``covariance``, ``regression`` and ``principal_components`` cost nothing more, or
    ``Abstained`` when the released count is below ``at_least``.
    Claim, for both adjacencies: noise="gaussian": GaussianDP(1 / noise_multiplier) up to the
    grid's rounding; "laplace": PureDP(1 / noise_multiplier), which at (1, 1e-6) is less noise for
    up to about three columns.
    lower, upper: public bounds of each column, chosen without looking at the data; values beyond
    count as the bound.
    radius: a public bound on a record's length in units in which every column's bounds are -1 and
    1; longer records are shortened. By default sqrt(d), which shortens none. The noise of a
    moment grows with the radius's square: about radius^2 / sqrt(2) per mu.
    at_least: abstain below this released count, by default 1.
    targets: number of columns at the end that are targets of regressions on the others. Their
    squares and products with each other are not released, for which all else has less noise. By
    default 0.
    The release is of matrices (h, z)(h, z)^T, with z between -1 and 1 in those units and h a
    public constant of about .8 radius^(1/2), or .6 radius / sqrt(d) with targets. All their
    entries have the same noise; or those on the diagonal have sqrt(2) times as much as others,
    where that is less in total (below a radius of about sqrt(d)).
    Errors: TypeError or ValueError for parameters and for data of another shape.
    Source: DRS22 (the Gaussian mechanism); the joint sensitivity is OURS.
    """

    lower: PerColumn
    upper: PerColumn
    radius: PublicRadius | None = None
    noise: Annotated[Literal["gaussian", "laplace"], one_of("gaussian", "laplace")] = "gaussian"
    at_least: AtLeast = 1
    targets: Annotated[int, whole_from(0)] = 0

    def check_parameters(self) -> None:
        """Check that each column has bounds in order, neither too near each other nor too far
        apart for floats.
        """
        if len(self.lower) != len(self.upper) or len(self.lower) > _MOST_COLUMNS:
            raise ValueError(
                f"{len(self.lower)} lower and {len(self.upper)} upper bounds; give one of each for "
                f"every column, of at most {_MOST_COLUMNS}."
            )
        if self.targets >= max(1, len(self.lower)):
            raise ValueError(
                f"targets = {self.targets} of {len(self.lower)} columns; leave at least 1 feature."
            )
        for j, ends in enumerate(zip(self.lower, self.upper, strict=True)):
            low, high = interval(*ends, f"lower and upper of column {j}")
            if not 1 / _WIDEST <= high - low <= _WIDEST:
                raise ValueError(
                    f"The bounds of column {j} are {high - low:.3g} apart, and squares of its "
                    "values are no floats; take another unit."
                )
        for j, (least, most, _) in enumerate(grids_of(self.lower, self.upper, _CELLS)):
            if max(-least, most) > OUTER_BOX:
                raise ValueError(
                    f"The bounds of column {j} are beyond 2^19 times their distance from zero; "
                    "subtract a public constant from the data."
                )
        if self.radius is not None and not self._reach() >= 1:
            raise ValueError(f"radius = {self.radius} is below 2^-16; give narrower bounds.")

    def columns(self) -> int:
        """Return the number of columns with bounds."""
        return len(self.lower)

    def replacement(self) -> tuple[float, ...]:
        """Return the middle of the bounds, which moves no sum but the number of records."""
        return middle_of(self.lower, self.upper)

    def plan(self) -> Plan:
        """Release all moments and, unless it is public, the number of records in one value."""
        inner, noise = self._query(), self._noise()
        query: BoxMoments | OneUnit = inner
        if isinstance(noise, RoundedGaussian):
            query = OneUnit(inner, self._scale(inner))
        if self._counts():
            return (Stage(MOMENTS, query, noise),)
        return (Stage(COUNT, Count(), NoNoise()), Stage(MOMENTS, query, noise))

    def estimate(self, transcript: Transcripts) -> MomentMatrixEstimate | Abstained:
        """Return the released integers as a symmetric matrix of sums, in units of the bounds."""
        d, (query, step, deviation) = self.columns(), self._released()
        sums = list(transcript.numbers(MOMENTS))
        if self._counts():
            count = Fraction(sums.pop(0), query.diagonal * query.constant**2) * step
        else:
            count = Fraction(transcript.number(COUNT))
        if count < self.at_least:
            return Abstained(f"fewer than {self.at_least} records, by the released count")
        steps = np.array([min(_MOST, capped(step / unit)) for unit in _units(query)])
        with np.errstate(over="ignore"):
            noises = np.minimum(steps * deviation, _MOST)
            numbers = np.clip(steps[1:] * [float(one) for one in sums], -_MOST, _MOST)
        if not self._counts():
            noises[0] = 0.0
        value = _symmetric(d, self.targets, [to_float(count), *numbers], math.nan)
        noise = _symmetric(d, self.targets, noises.tolist(), math.inf)
        half = np.array(self.upper) / 2 - np.array(self.lower) / 2
        middle = np.array(self.replacement())
        return MomentMatrixEstimate(value, noise, middle, half, self.noise, self.targets)

    def expected_error(self, n: int) -> float:
        """Predict the Frobenius norm of the noise in the second moments of n records that are
        released, divided by n, in units of the bounds. Infinite below ``at_least`` records.
        """
        if n < self.at_least:
            return math.inf
        query, step, deviation = self._released()
        each = step * root_down(_in_frobenius_norm(query), ROOT_BITS) / (n * SIDE**2)
        return deviation * capped(each)

    def minimum_n(self, *, beta: Exact = "1e-3") -> int:
        """Return the least n for which n records abstain with probability at most ``beta``."""
        allowed = probability(beta, "beta")
        if not self._counts():
            return self.at_least
        query, step, _ = self._released()
        noise, per_record = self._noise(), _units(query)[0] / step
        return least_counted(self.at_least, per_record, lambda k: noise.falls_short(k, allowed))

    def fewest_records(self) -> int:
        """Return ``at_least``: fewer records, a public number under replace, are refused."""
        return 0 if self._counts() else self.at_least

    def _counts(self) -> bool:
        return self.adjacency is Adjacency.ADD_REMOVE

    def _released(self) -> tuple[BoxMoments, Fraction, float]:
        """Return the query in the plan, the value of a released integer, and the standard
        deviation of the noise in these integers.
        """
        stage: Any = self._stage(MOMENTS)
        query: Any = stage.query
        if isinstance(stage.noise, RoundedGaussian):
            return query.query, query.scale / UNIT, float(UNIT)
        return query, Fraction(1), stage.noise.standard_deviation

    def _noise(self) -> RoundedGaussian | DiscreteLaplace:
        """Return Gaussian noise in its own unit, or Laplace noise in that of the query."""
        if self.noise == "gaussian":
            return RoundedGaussian(UNIT)
        return DiscreteLaplace(self._scale(self._query()))

    def _scale(self, query: BoxMoments) -> Fraction:
        """Return noise_multiplier times the sensitivity, to 2^-40."""
        moves = _moved(query, self.adjacency)
        root = moves if query.norm is Norm.L1 else root_down(moves, ROOT_BITS)
        return self.noise_multiplier * root

    def _reach(self) -> int:
        """Return the radius of the ball in units, rounded up, at most that of the whole box."""
        whole = math.isqrt(len(self.lower) * SIDE**2 - 1) + 1
        if self.radius is None:
            return whole
        return min(whole, math.floor(exact(self.radius, "radius") * SIDE))

    def _query(self) -> BoxMoments:
        low, high, exponents = zip(*grids_of(self.lower, self.upper, _CELLS), strict=True)
        reach = self._reach()
        square = 3 * reach * SIDE // 5
        if self.targets:
            square = 9 * reach**2 // (25 * len(self.lower))
        return _best(
            BoxMoments(
                low=low,
                high=high,
                exponents=exponents,
                side=SIDE,
                radius=reach,
                constant=max(1, math.isqrt(square)),
                diagonal=169,
                above=169,
                counted=self._counts(),
                targets=self.targets,
                norm=Norm.L1 if self.noise == "laplace" else Norm.SQUARED_L2,
            ),
            self.adjacency,
        )


def targets_of_regression(
    features: int, targets: int, noise: str, adjacency: Adjacency | None
) -> int:
    """Return ``targets`` where a regression has less error without the targets' squares, else 0.

    That is for a single feature, but for Gaussian noise under replace: there the records that are
    furthest apart have targets of opposite signs and equal squares. With more features, to know
    how the targets vary is worth more than the noise it costs.
    """
    alike = noise == "gaussian" and adjacency is Adjacency.REPLACE
    return targets if features == 1 and not alike else 0


@lru_cache(maxsize=16)
def _moved(query: BoxMoments, adjacency: Adjacency) -> int:
    """Return the sensitivity, in the query's norm."""
    return int(query.sensitivity(adjacency, Domain(len(query.low))).conclusion.value)


def _in_frobenius_norm(query: BoxMoments) -> Fraction:
    """Return the mean squared Frobenius norm of the noise in second moments, for noise of 1 in
    entries.
    """
    k = len(query.low) - query.targets
    return Fraction(k, query.diagonal**2) + Fraction(
        k * (k - 1 + 2 * query.targets), query.above**2
    )


def _best(query: BoxMoments, adjacency: Adjacency) -> BoxMoments:
    """Choose the query with less noise: all entries alike, or weighted nearly as in a Frobenius
    norm.
    """
    if query.norm is Norm.L1:
        return query
    both = (query, replace(query, above=239))
    return min(both, key=lambda one: _moved(one, adjacency) * _in_frobenius_norm(one))


def _symmetric(d: int, targets: int, entries: Sequence[float], unknown: float) -> Floats:
    """Build a symmetric matrix of d + 1 columns from its released entries, row by row."""
    matrix = np.full((d + 1, d + 1), unknown)
    i, j = released_places(d + 1, targets)
    matrix[i, j] = matrix[j, i] = entries
    return matrix


def _units(query: BoxMoments) -> list[int]:
    """Return the most that one record adds to each released entry, row by row."""
    sizes = [query.constant] + [query.side] * len(query.low)
    places = zip(*map(np.ndarray.tolist, released_places(len(sizes), query.targets)), strict=True)
    return [(query.diagonal if i == j else query.above) * sizes[i] * sizes[j] for i, j in places]
