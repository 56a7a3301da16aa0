"""Results from one private matrix of first and second moments: means, covariances, regressions
and principal components, all without further cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dpverify.estimation.answers import NoiseLaw, Result, deviations, tail_of
from dpverify.estimation.linear_fits import (
    ComponentsEstimate,
    RegressionEstimate,
    Ridge,
    UnitMoments,
    components,
    fitted,
)
from dpverify.privacy.numbers import Exact, Floats, whole


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MomentMatrixEstimate(Result):
    """Private first and second moments of the columns between public bounds.

    ``value``: sums over records of (1, z)(1, z)^T, shape (d + 1, d + 1), with z = (x - middle)
    / half between -1 and 1; its first entry is the (noisy or public) number of records.
    ``standard_deviation``: of the noise of each entry, of law ``noise``, independent on and
    above the diagonal. ``middle``, ``half``: of each column's bounds, shape (d,), in the data's
    units. ``targets``: number of columns at the end whose squares and products with each other
    were not released: these entries of ``value`` are NaN, of infinite deviation.
    """

    value: Floats = field(repr=False)
    standard_deviation: Floats = field(repr=False)
    middle: Floats
    half: Floats
    noise: NoiseLaw = field(default="gaussian", repr=False)
    targets: int = 0

    def __post_init__(self) -> None:
        shape = (len(self.middle) + 1,) * 2
        if self.value.shape != shape or self.standard_deviation.shape != shape:
            raise ValueError(f"value or standard_deviation is no matrix of shape {shape}.")
        if self.half.shape != self.middle.shape:
            raise ValueError(f"half is not of the shape of middle, {self.middle.shape}.")

    @property
    def count(self) -> float:
        """The (noisy or public) number of records, at least 1."""
        return max(1.0, float(self.value[0, 0]))

    @property
    def mean(self) -> Floats:
        """The mean of each column, between its bounds, shape (d,)."""
        with np.errstate(over="ignore"):
            return np.asarray(self.middle + self.half * self._centers())

    @property
    def mean_deviation(self) -> Floats:
        """Standard deviation of the noise in each mean, to first order, shape (d,).

        This is about noise alone: records cut by the bounds, or by a ``radius`` below the root
        of the number of columns, also move the mean, and no interval here counts that.
        """
        own, counted = self.standard_deviation[0, 1:], self.standard_deviation[0, 0]
        with np.errstate(over="ignore"):
            return np.asarray(self.half * np.hypot(own, counted * self._centers()) / self.count)

    @property
    def covariance(self) -> Floats:
        """The covariance matrix, shape (d, d), with the number of records as divisor: the nearest
        one, in units of the bounds, that has no negative eigenvalue. Raises ValueError where
        those of targets were not released."""
        with np.errstate(over="ignore"):
            return np.asarray(self.in_units().spread * np.outer(self.half, self.half))

    @property
    def covariance_deviation(self) -> Floats:
        """Standard deviation of the noise in each covariance, to first order, shape (d, d).
        Raises ValueError where those of targets were not released."""
        with np.errstate(over="ignore"):
            return np.asarray(self.in_units().noise * np.outer(self.half, self.half))

    def interval(self, level: Exact = 0.95) -> tuple[Floats, Floats]:
        """Return (low, high), each of the shape of ``value``: an interval for each sum without
        noise, by the noise's exact tail.
        """
        reach = deviations(self.noise, tail_of(level)) * self.standard_deviation
        return self.value - reach, self.value + reach

    def regression(
        self,
        target: int | Sequence[int],
        on: Sequence[int] | None = None,
        *,
        ridge: Ridge = None,
    ) -> RegressionEstimate:
        """Fit one target column, or several, linearly on other columns, with an intercept.

        on: the columns of the features, by default all columns but the targets. ridge: by
        default the coefficients b, in units of the bounds, minimize |C b - c|^2 + k^2 |b|^2 for
        the noisy covariances C of the features and c of features and target, and k the noise of
        an entry times the root of the number of features, or of that number plus 3 for a target
        whose square was not released. A number in place of that, or one for
        each feature, is what is added to its variance, in units of the bounds' half width
        squared; 0 is least squares.

        Without released squares of ``targets``, only these can be targets, and only the others
        features. The deviation of the residuals is then an upper bound, from the target's
        bounds and its mean, and intervals with ``sampling`` are wider for it. Raises TypeError
        or ValueError for columns that do not exist, or are on both or on the wrong side.
        """
        single = isinstance(target, (int, np.integer))
        targets = self._columns(
            [target] if single else target,  # type: ignore[list-item, arg-type]
            "target",
        )
        first = len(self.half) - self.targets
        rest = [j for j in range(first if self.targets else len(self.half)) if j not in targets]
        features = self._columns(rest if on is None else on, "on")
        both = sorted(set(features) & set(targets))
        if both:
            raise ValueError(f"target and on share the columns {both}; give each on one side.")
        if self.targets and (min(targets) < first or max(features) >= first):
            raise ValueError(
                f"the last {self.targets} columns were released as targets, without their squares: "
                "they can only be targets, and all others only features."
            )
        moments = [self._in_units(one if self.targets else None) for one in targets]
        return fitted(moments, targets[0] if single else targets, features, ridge)

    def principal_components(self, k: int) -> ComponentsEstimate:
        """Return the k directions of largest variance, in the data's units, longest first.

        A constant noise turns directions of similar variance into each other; ``angles`` of the
        result says how far. For columns of different units ask about columns with bounds of the
        same width, or divide by the deviations first. Raises TypeError or ValueError for
        another k, and where squares of targets were not released.
        """
        d = len(self.half)
        if not 1 <= whole(k, "k") <= d:
            raise ValueError(f"k = {k}; give a number of components from 1 to {d}.")
        return components(self.in_units(), k)

    def in_units(self) -> UnitMoments:
        """Return means and covariances of z, the latter with negative eigenvalues raised to 0,
        with their noise to first order: a covariance has the noise of its second moment, and
        that of the means and of the number of records through it. Raises ValueError where
        covariances of targets were not released.
        """
        if self.targets:
            raise ValueError(
                f"squares and products of the last {self.targets} columns were not released; use "
                "``regression``, or release with targets=0."
            )
        return self._in_units()

    def _described(self) -> list[str]:
        return ["count", "mean", "mean_deviation", *(["targets"] if self.targets else [])]

    def _in_units(self, target: int | None = None) -> UnitMoments:
        """Return moments for the regression of a target whose square was not released.

        Its square is at most 1 in each record, so its variance is read as 1 - m^2 of its mean m,
        the most that it can be. Other targets count as constants.
        """
        means, square = self._centers(), self.standard_deviation**2
        second, m = self.value[1:, 1:] / self.count, np.outer(means, means)
        centered = second - m
        if target is not None:
            others = [j for j in range(len(means) - self.targets, len(means)) if j != target]
            centered[others, :] = centered[:, others] = 0.0
            centered[target, target] = 1 - means[target] ** 2
        values, vectors = np.linalg.eigh(centered)
        spread = (vectors * np.maximum(values, 0.0)) @ vectors.T
        cross = np.outer(means**2, square[0, 1:])
        through = cross + cross.T + 2 * np.diag(means**2 * square[0, 1:])
        counted = square[0, 0] * (second - 2 * m) ** 2
        noise = np.sqrt(square[1:, 1:] + through + counted) / self.count
        own = (np.asarray(spread), np.asarray(noise), self.value, self.standard_deviation)
        return UnitMoments(self.count, means, *own, self.middle, self.half, self.noise)

    def _centers(self) -> Floats:
        """Return the means of z, shape (d,), between -1 and 1."""
        return np.asarray(np.clip(self.value[0, 1:] / self.count, -1.0, 1.0))

    def _columns(self, given: Sequence[int], name: str) -> list[int]:
        columns = [whole(j, name) for j in given]
        d = len(self.half)
        if not columns or len(set(columns)) < len(columns) or not all(0 <= j < d for j in columns):
            raise ValueError(
                f"{name} = {columns}; give at least one column, each once, by its number from 0 to "
                f"{d - 1}."
            )
        return columns
