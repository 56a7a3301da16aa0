"""Principal components and scaling by a private release."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, OneToOneFeatureMixin, TransformerMixin

from dpverify.estimation.linear_fits import ComponentsEstimate
from dpverify.plans import Abstained
from dpverify.privacy import Adjacency, Guarantee
from dpverify.privacy.numbers import Floats
from dpverify.randomness import Bits
from dpverify.sklearn.base import PrivateEstimator, bounds_of


class _Transformer(TransformerMixin, PrivateEstimator):  # type: ignore[misc]
    """A transformer that depends on one release of the features' moments."""

    def fit(self, X: Any, y: Any = None, *, bits: Bits | None = None) -> Self:
        """Release the moments of the features; ``y`` is not read.

        bits: randomness, by default the system's.
        """
        self._check()
        features = self._read(X, ensure_min_samples=0)  # the number of records is private
        low, high = bounds_of(self.bounds, features.shape[1], "bounds")
        self._release(features, low, high, bits)
        if not isinstance(self.estimate_, Abstained):
            self._use()
        return self

    def _check(self) -> None:
        """Refuse parameters that make no sense."""

    def _use(self) -> None:
        """Keep what follows from the released moments."""


class PCA(ClassNamePrefixFeaturesOutMixin, _Transformer):  # type: ignore[misc]
    """Private principal components.

    n_components: number of components, at most that of columns; None: all.
    budget, adjacency: the guarantee of each ``fit``, and the pairs of datasets that it is about.
    bounds: public (low, high), each a number or one for each column; values beyond count as the
    bound.
    radius, at_least: as for ``MomentMatrix``.

    After ``fit``: ``components_``, ``explained_variance_``, ``explained_variance_ratio_``,
    ``mean_``, ``estimate_``, ``principal_components_`` (with angles by which noise turns them),
    ``claim_``, ``derivation_``. Where the mechanism abstained, these and ``transform`` raise
    NoRelease.
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        budget: Guarantee | None = None,
        adjacency: Adjacency | None = None,
        bounds: Any = None,
        radius: float | None = None,
        at_least: int = 1,
    ) -> None:
        self.n_components = n_components
        self.budget = budget
        self.adjacency = adjacency
        self.bounds = bounds
        self.radius = radius
        self.at_least = at_least

    def _check(self) -> None:
        k = self.n_components
        if k is not None and (isinstance(k, bool) or not isinstance(k, Integral) or k < 1):
            raise ValueError(f"n_components = {k!r}; give a number of components from 1, or None.")

    def _use(self) -> None:
        moments = self._moments()
        d = len(moments.half)
        self._components = moments.principal_components(min(self.n_components or d, d))

    @property
    def principal_components_(self) -> ComponentsEstimate:
        """Components with their errors. Raises NoRelease after an abstention."""
        self._moments()
        return self._components

    @property
    def components_(self) -> Floats:
        """Directions of the components, shape (k, d)."""
        return self.principal_components_.value

    @property
    def explained_variance_(self) -> Floats:
        """Variance along each component, shape (k,)."""
        return self.principal_components_.variances

    @property
    def explained_variance_ratio_(self) -> Floats:
        """Each component's share of the variance in all directions, shape (k,)."""
        return self.principal_components_.shares

    @property
    def mean_(self) -> Floats:
        """Mean of each column, shape (d,)."""
        return self.principal_components_.mean

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def transform(self, X: Any) -> Floats:
        """Project records, less the mean, on the components."""
        components = self.principal_components_
        return components.transform(self._records(X))

    def inverse_transform(self, X: Any) -> Floats:
        """Return the points of the space that these projections stand for."""
        return np.asarray(np.asarray(X, np.float64) @ self.components_ + self.mean_)


class StandardScaler(OneToOneFeatureMixin, _Transformer):  # type: ignore[misc]
    """Private standardization: columns less their means, over their standard deviations.

    with_mean, with_std: which of both to do. All else is as for ``PCA``. A column whose variance
    is hidden by noise (the released one is below a standard deviation of its noise) is divided by
    that deviation's root.

    After ``fit``: ``mean_``, ``var_``, ``scale_``, ``estimate_``, ``claim_``, ``derivation_``.
    Where the mechanism abstained, these and ``transform`` raise NoRelease.
    """

    def __init__(
        self,
        *,
        with_mean: bool = True,
        with_std: bool = True,
        budget: Guarantee | None = None,
        adjacency: Adjacency | None = None,
        bounds: Any = None,
        radius: float | None = None,
        at_least: int = 1,
    ) -> None:
        self.with_mean = with_mean
        self.with_std = with_std
        self.budget = budget
        self.adjacency = adjacency
        self.bounds = bounds
        self.radius = radius
        self.at_least = at_least

    @property
    def mean_(self) -> Floats:
        """Mean of each column, shape (d,)."""
        return self._moments().mean

    @property
    def var_(self) -> Floats:
        """Variance of each column, shape (d,)."""
        return np.diag(self._moments().covariance)

    @property
    def scale_(self) -> Floats:
        """Divisor of each column, shape (d,), above 0."""
        noise = np.diag(self._moments().covariance_deviation)
        scales = np.sqrt(np.maximum(self.var_, noise))
        return np.asarray(np.where(scales > 0, scales, 1.0))

    def transform(self, X: Any) -> Floats:
        """Standardize records."""
        self._moments()
        records = self._records(X)
        records = records - self.mean_ if self.with_mean else records
        return np.asarray(records / self.scale_ if self.with_std else records)

    def inverse_transform(self, X: Any) -> Floats:
        """Return the records that these standardized ones stand for."""
        records = np.asarray(X, np.float64)
        records = records * self.scale_ if self.with_std else records
        return np.asarray(records + self.mean_ if self.with_mean else records)
