"""Linear models of a private release."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from dpverify.estimation.linear_fits import RegressionEstimate
from dpverify.estimation.moment_matrices import MomentMatrixEstimate
from dpverify.mechanisms.moment_matrix import targets_of_regression
from dpverify.plans import Abstained
from dpverify.privacy import Adjacency, Guarantee
from dpverify.privacy.numbers import Floats
from dpverify.randomness import Bits
from dpverify.sklearn.base import PrivateEstimator, bounds_of, noise_for, targets_of


class LinearRegression(RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    """Private linear regression with an intercept, for one target or several.

    budget, adjacency: the guarantee of each ``fit``, and the pairs of datasets that it is about.
    feature_bounds, target_bounds: public (low, high), each a number or one for each column.
    Values beyond count as the bound, and predictions stay between the targets' bounds.
    radius, at_least: as for ``MomentMatrix``. A ridge follows from the noise, see
    ``MomentMatrixEstimate.regression``. For a single feature the targets' squares are not released
    where that leaves less noise in the coefficients; ``residual_deviation`` is then an upper bound.

    After ``fit``: ``coef_``, ``intercept_``, ``regression_`` (a ``RegressionEstimate``, with
    intervals), ``claim_``, ``derivation_``. Where the mechanism abstained, these and ``predict``
    raise NoRelease.
    """

    _bounded = "feature_bounds=(0, 1), target_bounds=(0, 1)"

    def __init__(
        self,
        *,
        budget: Guarantee | None = None,
        adjacency: Adjacency | None = None,
        feature_bounds: Any = None,
        target_bounds: Any = None,
        radius: float | None = None,
        at_least: int = 1,
    ) -> None:
        self.budget = budget
        self.adjacency = adjacency
        self.feature_bounds = feature_bounds
        self.target_bounds = target_bounds
        self.radius = radius
        self.at_least = at_least

    def fit(self, X: Any, y: Any, *, bits: Bits | None = None) -> Self:
        """Release the moments of features and targets together, and fit the model to them.

        bits: randomness, by default the system's.
        """
        self._check()
        if y is None:
            raise ValueError("LinearRegression requires y to be passed, but the target y is None.")
        features = self._read(X, ensure_min_samples=0)  # the number of records is private
        targets = targets_of(y)
        if len(features) != len(targets):  # scikit-learn's refusal shows how many there are
            raise ValueError(
                "Found input variables with inconsistent numbers of samples: X and y are about the "
                "same records; give one row of X and one of y for each."
            )
        both = np.column_stack([features, targets])
        k = features.shape[1]
        low, high = bounds_of(self.feature_bounds, k, "feature_bounds")
        least, most = bounds_of(self.target_bounds, both.shape[1] - k, "target_bounds")
        noise, number = noise_for(self.budget), both.shape[1] - k
        left_out = targets_of_regression(k, number, noise, self.adjacency)
        self._release(both, low + least, high + most, bits, left_out)
        self._single = np.ndim(targets) == 1
        if not isinstance(self.estimate_, Abstained):
            self._regression = self._fitted(self.estimate_, k)
        return self

    def _check(self) -> None:
        """Refuse parameters that make no sense."""

    def _fitted(self, moments: MomentMatrixEstimate, k: int) -> RegressionEstimate:
        places = list(range(k, len(moments.half)))
        return moments.regression(k if self._single else places, ridge=self._ridge(moments, k))

    def _ridge(self, moments: MomentMatrixEstimate, k: int) -> Any:
        """Return the addition to the variance of each feature, in units of its bounds; None:
        chosen from the noise.
        """
        return None

    @property
    def regression_(self) -> RegressionEstimate:
        """Regression estimate with its intervals. Raises NoRelease after an abstention."""
        self._moments()
        return self._regression

    @property
    def coef_(self) -> Floats:
        """Coefficients, shape (k,), or (t, k) for several targets."""
        return self.regression_.value

    @property
    def intercept_(self) -> Any:
        """Intercept, or one for each target."""
        return self.regression_.intercept

    def predict(self, X: Any) -> Floats:
        """Predict targets, between their bounds. Raises NoRelease after an abstention."""
        fit = self.regression_
        return fit.predict(self._records(X))

    def __sklearn_tags__(self) -> Any:
        """Return the tags: several targets are allowed, and noise may leave a poor fit."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.regressor_tags.poor_score = True
        return tags


class Ridge(LinearRegression):
    """Private ridge regression: it minimizes the released squared error plus ``alpha`` |w|^2.

    alpha: as in scikit-learn, the penalty of the coefficients' squares beside the sum of squared
    errors. All else is as for ``LinearRegression``, whose ridge follows from the noise.
    """

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        budget: Guarantee | None = None,
        adjacency: Adjacency | None = None,
        feature_bounds: Any = None,
        target_bounds: Any = None,
        radius: float | None = None,
        at_least: int = 1,
    ) -> None:
        super().__init__(
            budget=budget,
            adjacency=adjacency,
            feature_bounds=feature_bounds,
            target_bounds=target_bounds,
            radius=radius,
            at_least=at_least,
        )
        self.alpha = alpha

    def _check(self) -> None:
        if not (isinstance(self.alpha, Real) and 0 <= self.alpha < math.inf):
            raise ValueError(f"alpha = {self.alpha} is negative or no number; give 0 or more.")

    def _ridge(self, moments: MomentMatrixEstimate, k: int) -> Any:
        """Return alpha over the number of records, in units of each feature's bounds."""
        return (self.alpha / (moments.count * moments.half[:k] ** 2)).tolist()
