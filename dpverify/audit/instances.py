"""Instances that are traced: laws of records, and scores that are standard normal for an
estimate that was run without the record.

Of a mean: x_i = p + Sigma^(1/2) xi_i, z_i = <M - p, xi_i> / |M - p|. Of a covariance Sigma:
x_i = L xi_i, L L^T = Sigma, and with C = L^-1 (M - Sigma) L^-T, q_i = xi_i^T C xi_i is the
score of Portella and Harvey (2024) up to what does not depend on i. Its law given M is that of
q of a fresh xi, whatever C is. So z_i is the normal quantile of the place of q_i among fresh
ones, a uniform number added to its rank: exactly standard normal, with nothing computed about
that law.

Of probabilities p of independent bits: q_i = <M - p, x_i>, the score <M - theta, T(x_i) - E T>
of Kamath, Mouzakis and Singhal (2022) for means of the statistics, and z_i from its place among
fresh ones, equal ones in an order of coins.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from dpverify.grid.shapes import symmetrized
from dpverify.privacy.numbers import Floats, settle, whole

_FRESH = 4000  # fresh scores among which a record's place is found


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """A run: the truth that is estimated, standard normal xi of shape (n, d), and the records
    made of them.
    """

    truth: Floats
    xi: Floats
    records: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Gaussians:
    """Instance for estimates of a mean: n records of N(p, Sigma) with a fresh p ~ N(0, spread^2
    I) in every run.

    covariance: Sigma, its diagonal of shape (d,) or a matrix of shape (d, d). The attack sees
    most where d is large compared to n. Errors: ValueError for n < 1, a spread that is not
    finite and >= 0, and what is no covariance.
    """

    n: int
    covariance: ArrayLike
    spread: float = 1.0

    def __post_init__(self) -> None:
        if whole(self.n, "n") < 1:
            raise ValueError(f"n = {self.n}; tracing needs a record, give n >= 1.")
        if not (math.isfinite(self.spread) and self.spread >= 0):
            raise ValueError(f"spread = {self.spread}; give a finite standard deviation >= 0.")
        given = np.asarray(self.covariance, dtype=np.float64)
        square = given.ndim == 2 and given.shape[0] == given.shape[1]
        if not (given.ndim == 1 or square) or not given.size or not np.isfinite(given).all():
            raise ValueError(
                f"covariance has shape {given.shape}; give finite variances of shape (d,), or a "
                "(d, d) matrix."
            )
        if square:
            given = symmetrized(given, "covariance")
        values = np.linalg.eigvalsh(given) if square else given
        if values.min() < -1e-9 * max(values.max(), 0.0):
            raise ValueError(
                f"covariance has the negative eigenvalue {values.min():.3g}; variances are >= 0."
            )
        settle(self, covariance=given)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of an estimate."""
        return (len(np.asarray(self.covariance)),)

    def __repr__(self) -> str:
        shape = np.shape(self.covariance)
        return f"Gaussians(n={self.n}, covariance=<shape {shape}>, spread={self.spread})"

    def drawn(self, rng: np.random.Generator) -> Drawn:
        """Draw the truth p and the records of a run."""
        root, (columns,) = self.root(), self.shape
        p = self.spread * rng.standard_normal(columns)
        xi = rng.standard_normal((self.n, columns))
        return Drawn(p, xi, p + (xi * root if root.ndim == 1 else xi @ root))

    def plain(self, records: Floats) -> Floats:
        """Return the estimate without noise: the planted fault."""
        return np.asarray(records.mean(axis=0))

    def scores(self, off: Floats, run: Drawn, rng: np.random.Generator) -> Floats:
        """Return the scores <M - p, xi_i> / |M - p|, shape (n,). off: M - p, not 0."""
        return np.asarray(run.xi @ (off / np.linalg.norm(off)))

    def root(self) -> Floats:
        """Return the symmetric Sigma^(1/2): shape (d,) or (d, d)."""
        given = np.asarray(self.covariance)
        if given.ndim == 1:
            return np.asarray(np.sqrt(np.maximum(given, 0)))
        values, vectors = np.linalg.eigh(given)
        return np.asarray((vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T)


@dataclass(frozen=True, slots=True)
class Covariances:
    """Instance for estimates of a covariance: n records of N(0, Sigma), Sigma = I + T with
    fresh entries in every run, uniform between -spread / columns and that.

    The attack sees most where columns^2 is large compared to n.
    Errors: ValueError for n < 1, columns < 1, and a spread outside [0, 1).
    """

    n: int
    columns: int
    spread: float = 0.5

    def __post_init__(self) -> None:
        if whole(self.n, "n") < 1:
            raise ValueError(f"n = {self.n}; tracing needs a record, give n >= 1.")
        if whole(self.columns, "columns") < 1:
            raise ValueError(f"columns = {self.columns}; give a dimension of at least 1.")
        if not 0 <= self.spread < 1:
            raise ValueError(
                f"spread = {self.spread}; give one of at least 0 and below 1, so that Sigma is "
                "positive definite."
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of an estimate."""
        return (self.columns, self.columns)

    def drawn(self, rng: np.random.Generator) -> Drawn:
        """Draw the truth Sigma and the records of a run."""
        above = np.triu(rng.uniform(-1, 1, self.shape)) * self.spread / self.columns
        truth = np.eye(self.columns) + above + np.triu(above, 1).T
        xi = rng.standard_normal((self.n, self.columns))
        return Drawn(truth, xi, xi @ np.linalg.cholesky(truth).T)

    def plain(self, records: Floats) -> Floats:
        """Return the second moments without noise: the planted fault."""
        return np.asarray(records.T @ records / len(records))

    def scores(self, off: Floats, run: Drawn, rng: np.random.Generator) -> Floats:
        """Return the normal quantile of each record's place, shape (n,). off: M - Sigma, not 0."""
        root = np.linalg.cholesky(run.truth)
        form = np.linalg.solve(root, np.linalg.solve(root, off / np.linalg.norm(off)).T)
        own, fresh = (
            ((xi @ form) * xi).sum(axis=1)
            for xi in (run.xi, rng.standard_normal((_FRESH, self.columns)))
        )
        return placed(own, fresh, rng)


@dataclass(frozen=True, slots=True)
class Bits:
    """Instance for estimates of a product distribution: n records of independent bits, with
    fresh probabilities in every run, uniform between ``low`` and 1 - ``low``.

    The attack sees most where there are many more columns than records.
    Errors: ValueError for n < 1, columns < 1, and a ``low`` outside [0, 1/2].
    """

    n: int
    columns: int
    low: float = 0.0

    def __post_init__(self) -> None:
        if whole(self.n, "n") < 1:
            raise ValueError(f"n = {self.n}; tracing needs a record, give n >= 1.")
        if whole(self.columns, "columns") < 1:
            raise ValueError(f"columns = {self.columns}; give a dimension of at least 1.")
        if not 0 <= self.low <= 0.5:
            raise ValueError(
                f"low = {self.low}; probabilities lie between low and 1 - low, give one from 0 "
                "to 1/2."
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of an estimate."""
        return (self.columns,)

    def drawn(self, rng: np.random.Generator) -> Drawn:
        """Draw the probabilities and the records of a run."""
        truth = rng.uniform(self.low, 1 - self.low, self.columns)
        records = self._bits(self.n, truth, rng)
        return Drawn(truth, records, records)

    def plain(self, records: Floats) -> Floats:
        """Return the shares of ones without noise: the planted fault."""
        return np.asarray(records.mean(axis=0))

    def scores(self, off: Floats, run: Drawn, rng: np.random.Generator) -> Floats:
        """Return the normal quantile of each record's place, shape (n,). off: M - p, not 0."""
        fresh = self._bits(_FRESH, run.truth, rng)
        return placed(run.records @ off, fresh @ off, rng)

    def _bits(self, size: int, truth: Floats, rng: np.random.Generator) -> Floats:
        return (rng.random((size, self.columns)) < truth).astype(np.float64)


def placed(own: Floats, fresh: Floats, rng: np.random.Generator) -> Floats:
    """Turn scores into normal quantiles of their places among fresh ones, equal ones in an
    order of coins: standard normal for a record of the same law.
    """
    ordered = np.sort(fresh)
    low, high = (np.searchsorted(ordered, own, side=side) for side in ("left", "right"))
    places = (low + rng.uniform(size=len(own)) * (high - low + 1)) / (len(fresh) + 1)
    return np.asarray(scipy.special.ndtri(np.clip(places, 1e-12, 1 - 1e-12)))


Instance = Gaussians | Covariances | Bits
