"""Linear regressions and principal components from a released matrix of moments, with what its
noise does to them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpverify.estimation.answers import NoiseLaw, Result, deviations_of_sum, tail_of
from dpverify.privacy.numbers import Exact, Floats, exact, to_float

Ridge = Exact | Sequence[Exact] | None
"""Ridge that is added to variances in units of the bounds, for all features or for each; None:
chosen.
"""
_APART = 2  # the least square of what noise leaves apart, in squares of its largest eigenvalue
_UNBOUNDED = 3  # what the square of the ridge counts more where the target's square is not known
_RESOLVED = 3  # the smallest eigenvalue, in noise, from which on coefficients have intervals


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RegressionEstimate(Result):
    """Private coefficients of a linear regression with an intercept, in the data's units.

    ``value``: the coefficients, shape (k,), or (t, k) for several targets; ``intercept``: a number,
    or one for each target. ``bias``: what is added to ``value``, which has a ridge, in least
    squares by the released moments. Each coefficient of these is a covariance over a divisor, the
    part of the feature's variance that other features do not explain. ``standard_deviation``: of
    the privacy noise in ``value + bias``, to first order; ``divisor_deviation``: of the noise in
    the divisor, relative to it; ``correlation``: between these two noises. ``sampling_deviation``:
    of the records' draw, for errors of one variance. ``bias`` and these deviations are infinite,
    and the correlation 0, where noise hides how the features vary. It does where ``resolved`` is
    below 1: the smallest eigenvalue of the features' covariance over three times the noise, an
    entry's times the root of the number of features.
    ``residual_deviation``: of the target about the fit, for each; where its square was not
    released, an upper bound by its declared bounds, and so is ``sampling_deviation``. ``ridge``:
    see ``MomentMatrixEstimate.regression``. ``lower``, ``upper``: the targets' declared bounds,
    which predictions keep.
    """

    value: Floats
    intercept: float | Floats
    standard_deviation: Floats
    divisor_deviation: Floats = field(repr=False)
    correlation: Floats = field(repr=False)
    sampling_deviation: Floats = field(repr=False)
    bias: Floats = field(repr=False)
    residual_deviation: float | Floats = field(repr=False)
    ridge: float
    resolved: float
    lower: float | Floats = field(repr=False)
    upper: float | Floats = field(repr=False)
    noise: NoiseLaw = field(default="gaussian", repr=False)

    def interval(self, level: Exact = 0.95, *, sampling: bool = False) -> tuple[Floats, Floats]:
        """Return (low, high), each of the shape of ``value``: an interval for each coefficient
        by itself.

        It contains the coefficient of the least squares fit to these records, as they are clipped
        and rounded (to 2^-16 of half the width of the bounds, which matters beyond a million
        records or so), or, with ``sampling``, that of the population from which the records are
        independent draws, to first order, with errors of one variance. It has all b for which
        ``value + bias - b`` is at most as many standard deviations of its noise as the level
        allows, but that deviation depends on b through the noise in the divisor (Fieller). So it
        reaches further to one side, and is infinite where at this level the divisor may be 0, or
        where noise hides how the features vary. It is extended to ``value`` where a ridge has moved
        that further than the noise explains. Raises TypeError or ValueError for a level outside (0,
        1).
        """
        z = deviations_of_sum(self.noise, tail_of(level))
        more = self.sampling_deviation if sampling else 0.0
        with np.errstate(all="ignore"):
            own, part = z * self.standard_deviation, z * self.divisor_deviation
            lead, middle = 1 - part**2, -self.correlation * own * part
            center = self.value + self.bias + middle / lead
            reach = np.sqrt(middle**2 + lead * (own**2 + (z * more) ** 2)) / lead
            low = np.where(lead > 0, np.minimum(center - reach, self.value), -np.inf)
            high = np.where(lead > 0, np.maximum(center + reach, self.value), np.inf)
        return np.asarray(low), np.asarray(high)

    def predict(self, records: Any) -> Floats:
        """Predict the target, between its bounds, of records of shape (n, k): shape (n,) or (n,
        t).
        """
        features = np.asarray(records, np.float64)
        if features.ndim != 2 or features.shape[1] != self.value.shape[-1]:
            raise ValueError(
                f"records of shape {features.shape}; give {self.value.shape[-1]} features a record."
            )
        with np.errstate(over="ignore", invalid="ignore"):
            predicted = features @ self.value.T + self.intercept
        return np.asarray(np.clip(np.nan_to_num(predicted), self.lower, self.upper))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ComponentsEstimate(Result):
    """Private principal components: directions of largest variance, longest first.

    ``value``: the directions, shape (k, d), of length 1 in the data's units, each with its
    largest coordinate positive. ``variances``: along them, shape (k,), less what noise adds to
    eigenvalues; 0 where they cannot be told from noise. ``standard_deviation``: of the noise in
    each, to first order. ``bias``: about how far noise moves each beyond that: by its own
    largest eigenvalue where a direction is not apart from noise or from others, else 0.
    ``angles``: about how far noise turns each, in radians, to first order and at most pi / 2,
    shape (k,). ``total``: the variance in all directions. ``mean``: of the columns, shape (d,).
    """

    value: Floats
    variances: Floats
    standard_deviation: Floats = field(repr=False)
    bias: Floats = field(repr=False)
    angles: Floats
    total: float
    mean: Floats = field(repr=False)
    noise: NoiseLaw = field(default="gaussian", repr=False)

    @property
    def shares(self) -> Floats:
        """Share of the variance in all directions that each direction has, shape (k,)."""
        return np.asarray(self.variances / self.total if self.total > 0 else 0 * self.variances)

    def interval(self, level: Exact = 0.95) -> tuple[Floats, Floats]:
        """Return (low, high), each of shape (k,): an interval for the variance along each
        direction of the value, of records as they are clipped, to first order in the noise,
        with ``bias`` to both sides. A variance sums up many noises; of Laplace noise the larger
        of its own and a normal law's quantile is taken. Raises TypeError or ValueError for a
        level outside (0, 1).
        """
        reach = deviations_of_sum(self.noise, tail_of(level)) * self.standard_deviation + self.bias
        return np.maximum(self.variances - reach, 0.0), self.variances + reach

    def transform(self, records: Any) -> Floats:
        """Project records of shape (n, d), less the mean, on the directions: shape (n, k)."""
        return np.asarray((np.asarray(records, np.float64) - self.mean) @ self.value.T)


@dataclass(frozen=True, slots=True)
class UnitMoments:
    """Released moments in units of the columns' bounds, z = (x - middle) / half.

    ``count``: of records. ``means``, shape (d,), and ``spread``, shape (d, d): mean and
    covariance of z, as near to the released ones as such can be. ``noise``: standard deviation of
    the noise in each covariance, NaN where it was not released. ``released``, ``sums``: the sums
    of (1, z)(1, z)^T, shape (d + 1, d + 1), and the standard deviation of their noise.
    """

    count: float
    means: Floats
    spread: Floats
    noise: Floats
    released: Floats
    sums: Floats
    middle: Floats
    half: Floats
    law: NoiseLaw

    def typical_noise(self, columns: Sequence[int]) -> float:
        """Compute the root mean square of the covariances' noise over these columns, without
        those that were not released.
        """
        return float(math.sqrt(np.nanmean(self.noise[np.ix_(columns, columns)] ** 2)))


def fitted(
    moments: Sequence[UnitMoments],
    target: int | Sequence[int],
    on: Sequence[int],
    ridge: Ridge,
) -> RegressionEstimate:
    """Fit one target (a number) or several, each by its moments, on the features. Raises
    ValueError for a ridge below 0.
    """
    single = isinstance(target, int)
    targets = [target] if isinstance(target, int) else list(target)
    added = None if ridge is None else _added(ridge, len(on))
    each = [_one(own, t, on, added) for own, t in zip(moments, targets, strict=True)]
    middle, size = moments[0].middle[targets], moments[0].half[targets]
    arrays = {name: np.array([one[name] for one in each]) for name in each[0]}
    ends = [float(arrays.pop(name).min()) for name in ("ridge", "resolved")]
    arrays |= {"lower": middle - size, "upper": middle + size}
    own: dict[str, Any] = arrays
    if single:
        own = {name: a[0] if a.ndim > 1 else float(a[0]) for name, a in arrays.items()}
    return RegressionEstimate(**own, ridge=ends[0], resolved=ends[1], noise=moments[0].law)


def _one(
    moments: UnitMoments, target: int, on: Sequence[int], added: Floats | None
) -> dict[str, Any]:
    """Fit one target: coefficients and what belongs to them, in the data's units."""
    columns = [*on, target]
    spread, k = moments.spread[np.ix_(columns, columns)], len(on)
    entry = moments.typical_noise(columns)
    noise, unbounded = entry * math.sqrt(k), math.isnan(moments.noise[target, target])
    values, vectors = np.linalg.eigh(spread[:k, :k])
    values = np.maximum(values, 0.0)
    if added is None:
        ridge = entry * math.sqrt(k + _UNBOUNDED * unbounded)
        inverse = (vectors * _over(values, values**2 + ridge**2)) @ vectors.T
    else:
        ridge = float(added.max())
        inverse = np.linalg.pinv(spread[:k, :k] + np.diag(added), hermitian=True)
    slopes = inverse @ spread[:k, k]
    resolved = float(values[0] / (_RESOLVED * noise)) if noise else math.inf
    best, own, divisor, drawn, correlation = _least_squares(moments, target, on, resolved)
    means, half = moments.means[columns], moments.half
    with np.errstate(all="ignore"):
        units = half[target] / half[list(on)]
        middle = moments.middle[target] + half[target] * (means[k] - means[:k] @ slopes)
        line = np.array([*-slopes, 1.0])
        return {
            "value": slopes * units,
            "intercept": middle - (moments.middle[list(on)] * slopes * units).sum(),
            "standard_deviation": own * units,
            "divisor_deviation": divisor,
            "correlation": correlation,
            "sampling_deviation": drawn * units,
            "bias": (best - slopes) * units,
            "residual_deviation": half[target] * math.sqrt(max(0.0, float(line @ spread @ line))),
            "ridge": ridge,
            "resolved": resolved,
        }


def _least_squares(moments: UnitMoments, target: int, on: Sequence[int], resolved: float) -> Floats:
    """Return, in units of the bounds, the slopes of least squares by the released moments, the
    deviations of their noise, of the noise in their divisors, and by sampling, and the correlation
    of both noises: shape (5, k). All but the last are infinite where ``resolved`` is below 1 or
    the features' released covariance is not positive definite.
    """
    places = [0, *(j + 1 for j in on)]
    gram, right = moments.released[np.ix_(places, places)], moments.released[places, target + 1]
    count, means = moments.count, gram[0, 1:] / moments.count
    values, vectors = np.linalg.eigh(gram[1:, 1:] / count - np.outer(means, means))
    if resolved < 1 or values[0] <= 0:
        return np.array([*[[math.inf] * len(on)] * 4, [0.0] * len(on)])
    inverse = (vectors / values) @ vectors.T
    rows, parts = np.column_stack([-inverse @ means, inverse]), np.diag(inverse)
    slopes = rows @ right / count
    theta = np.array([right[0] / count - means @ slopes, *slopes])
    squares = moments.sums[np.ix_(places, places)] ** 2, moments.sums[places, target + 1] ** 2
    first, both, second = _variances(rows / parts[:, np.newaxis], theta, *squares)
    own, divisor, per = np.sqrt(first), np.sqrt(second), parts / count  # one over the divisor
    drawn = np.sqrt(_residual(moments, [*places, target + 1], theta) * per)
    return np.array([slopes, own * per, divisor * per, drawn, _over(both, own * divisor)])


def _residual(moments: UnitMoments, places: Sequence[int], theta: Floats) -> float:
    """Estimate the variance of a record about the line with these coefficients, plus the standard
    deviation of its noise: an estimate that noise makes too small would make intervals too short.

    Infinite for as many records as coefficients, about which nothing varies. A square that was not
    released is at most 1 in each record.
    """
    gram, squares = (a[np.ix_(places, places)] for a in (moments.released, moments.sums**2))
    if not math.isfinite(squares[-1, -1]):
        gram[-1, -1], squares[-1, -1] = moments.count, 0.0
    free, line = moments.count - len(theta), np.array([*-theta, 1.0])
    if free <= 0:
        return math.inf
    noise = math.sqrt(float(line**2 @ _both(squares) @ line**2))
    return (max(0.0, float(line @ gram @ line)) + noise) / free


def _variances(
    u: Floats, c: Floats, squares: Floats, of_target: Floats
) -> tuple[Floats, Floats, Floats]:
    """Compute the variance of the noise in each slope times its divisor, the covariance of that
    with the noise in the divisor, and the variance of the latter.

    Let G be the released sums of (1, z)(1, z)^T of the features, g those with the target, and N
    and N_g their noise, of variances ``squares`` and ``of_target``. The coefficients b without
    noise fulfill (G - N) b = g - N_g, so for ``c`` = G^-1 g

        G (c - b) = w(b),    w(b) = N_g - N b.

    The row j of ``u`` has u_j = 1, and u^T G is 0 but in place j, where it is the divisor D. So
    D (c_j - b_j) = u^T w(b), and an interval has all b_j for which this is at most z of its
    standard deviations (Fieller). The other coefficients are what least squares makes of them given
    b_j: b = c + s u with s = b_j - c_j, for which u^T w(b) = u^T w(c) - s u^T N u has the variance

        Var(u^T w(c)) - 2 s Cov(u^T w(c), u^T N u) + s^2 Var(u^T N u).

    u^T N u is the noise in D to first order. Nothing but the noise in u is neglected. It enters as
    a product of two noises, so it matters only where other features are hardly resolved.
    """
    both, a, b = _both(squares), u * c, u**2
    first = (a @ (both - squares) * a).sum(axis=1) + b @ (squares @ c**2 + of_target)
    return first, -(a @ both * b).sum(axis=1), (b @ both * b).sum(axis=1)


def _both(squares: Floats) -> Floats:
    """Double what is off the diagonal: the noise N_ij is in the products of i with j and of j with
    i, so u^T N u has the variance u^2 both u^2, in squares.
    """
    return np.asarray(2 * squares - np.diag(np.diag(squares)))


def _added(ridge: Exact | Sequence[Exact], k: int) -> Floats:
    """Return the number that is added to the variance of each feature. Raises TypeError or
    ValueError.
    """
    given: Any = ridge if isinstance(ridge, (list, tuple)) else [ridge] * k
    ridges = [exact(one, "ridge") for one in given]
    if len(ridges) != k or min(ridges) < 0:
        raise ValueError(
            f"ridge = {ridge}; give a number that is not negative, one for each of {k} features, "
            "or None."
        )
    return np.array([to_float(one) for one in ridges])


def _over(above: Floats, below: Floats) -> Floats:
    """Divide; 0 where the divisor is 0."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


def components(moments: UnitMoments, k: int) -> ComponentsEstimate:
    """Compute the k directions of largest variance in the data's units.

    Symmetric noise with deviation t above the diagonal moves an eigenvalue v that is apart from
    others to v + d t^2 / v; the noise alone has eigenvalues up to 2 sqrt(d) t. So v is read as
    (v + sqrt(v^2 - 4 d t^2)) / 2, and as 0 below that.
    """
    largest = float(moments.half.max())
    scale = np.outer(moments.half / largest, moments.half / largest)
    spread, noise = moments.spread * scale, moments.noise * scale
    values, vectors = np.linalg.eigh(spread)
    values, vectors = values[::-1], vectors[:, ::-1]
    edge = 4 * len(values) * float(np.mean(noise**2))
    shrunk = np.where(values**2 > edge, (values + np.sqrt(np.maximum(values**2 - edge, 0))) / 2, 0)
    square = noise**2
    np.fill_diagonal(square, np.diag(square) / 2)  # the sums below count the diagonal twice
    mixed = vectors[:, :k, np.newaxis] * vectors[:, np.newaxis, :]
    turns = np.einsum("ab,ai,bj->ij", square, vectors[:, :k] ** 2, vectors**2)
    turns += np.einsum("ab,aij,bij->ij", square, mixed, mixed)  # variances of v_i^T noise v_j
    own = np.sqrt(np.diag(turns[:, :k]))
    gaps = values[:k, np.newaxis] - values[np.newaxis, :]
    np.fill_diagonal(gaps, np.inf)
    near = np.minimum(np.abs(gaps).min(axis=1), values[:k])
    bias = np.where(near**2 <= _APART * edge, math.sqrt(edge), 0.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        angles = np.arctan(np.sqrt(np.nan_to_num(turns / gaps**2, nan=np.inf).sum(axis=1)))
        lengths = largest * largest
        signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(len(values))])
        return ComponentsEstimate(
            np.asarray((vectors * signs)[:, :k].T),
            np.asarray(shrunk[:k] * lengths),
            own * lengths,
            bias * lengths,
            np.asarray(angles),
            float(np.trace(spread) * lengths),
            moments.middle + moments.half * moments.means,
            moments.law,
        )
