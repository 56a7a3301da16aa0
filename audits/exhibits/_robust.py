"""A robust mean that is filtered, and Gaussian noise as wide as its accuracy on good data.

Dhar and Huang take the filter of Diakonikolas, Kamath, Kane, Li, Moitra and Stewart, which has a
small error on samples of a Gaussian, twice that error for a global sensitivity, and add Gaussian
noise. Data need not be a sample of a Gaussian. Means and noise are multiples of 2^-10, so that
what is refuted is the claim and not the last bits of floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from dpverify import Adjacency
from dpverify.audit import NeighboringPair
from dpverify.randomness import Bits, rounded_gaussian

Rows = NDArray[np.float64]
Filter = Callable[[Rows, float, float], Rows]
"""Map from rows of shape (n, d), the fraction that may be corrupt and a confidence to a mean
(d,)."""

CELL = 1024
"""Number of output cells to a unit of the data."""
FACTOR = 0.5
"""The authors' factor in the stopping rule and in the bound."""
_TAIL = 2.5


def bound(gamma: float) -> float:
    """Return the error that the paper states for good samples of N(mu, I), a fraction gamma
    corrupt."""
    kappa = (gamma + math.sqrt(2) * gamma + math.sqrt(2 * gamma)) / (1 - 2 * gamma)
    stopped = 2 * gamma * math.sqrt(FACTOR * math.log(1 / gamma))
    return (3 + 2 * math.sqrt(gamma)) * kappa + stopped


def noise_scale(gamma: float, tau: float, epsilon: float = 1.0) -> float:
    """Return the noise's standard deviation in every coordinate: the sensitivity is twice the
    bound."""
    return math.sqrt(8 * math.log(1.25 / tau)) / epsilon * bound(gamma)


def as_coded(rows: Rows, gamma: float, tau: float) -> Rows:
    """Run the filter step by step as its authors and the paper's authors coded it, shape (d,).

    A two-sided distance is compared with a one-sided tail, the row at which the test fails is
    kept, and rows are never pruned beforehand. The result is the mean of the remaining rows.
    Undefined where d gamma = tau.
    """
    while True:
        n, d = rows.shape
        center = rows.mean(axis=0)
        value, direction = _top(rows - center)
        if value < 1 + FACTOR * gamma * math.log(1 / gamma):
            return np.asarray(center)
        along = rows @ direction
        distance = np.abs(along - np.median(along))
        order = np.argsort(distance, kind="stable")
        tail = scipy.special.erfc((distance[order] - 2 * gamma) / math.sqrt(2)) / 2
        allowed = _TAIL * n * (tail + gamma / (d * math.log(d * gamma / tau)))
        beyond = n - np.arange(1, n + 1) > allowed
        last = int(np.argmax(beyond)) + 1 if beyond.any() else n
        if last in (1, n):
            return np.asarray(center)
        rows = rows[np.sort(order[:last])]


def as_published(rows: Rows, gamma: float, tau: float) -> Rows:
    """Run the filter as its authors published it, with their constants where some are left open,
    shape (d,).

    Rows without half of all rows within 4 sqrt(d ln(n / tau)) are pruned. Then, while the
    covariance is off the identity, rows beyond a threshold along the worst direction are
    removed, as long as a threshold shows too heavy a tail. Where none does, which the paper
    excludes for good samples, the filter stops.
    """
    rows = _pruned(rows, 4 * math.sqrt(rows.shape[1] * math.log(len(rows) / tau)))
    while True:
        n, d = rows.shape
        center = rows.mean(axis=0)
        value, direction = _top(rows - center, about_identity=True)
        if n < 2 or abs(value) < FACTOR * gamma * math.log(1 / gamma):
            return np.asarray(center)
        slack = 3 * math.sqrt(gamma * abs(value))
        distance = np.abs((rows - center) @ direction)
        keep = distance <= _threshold(np.sort(distance), slack, gamma, tau, d)
        if keep.all():
            return np.asarray(center)
        rows = rows[keep]


def _top(centered: Rows, about_identity: bool = False) -> tuple[float, Rows]:
    """Return an eigenvalue and its vector: the largest of the scatter, or the one furthest from
    1, less 1."""
    n, d = centered.shape
    scatter = centered.T @ centered / n - (np.eye(d) if about_identity else 0)
    values, vectors = np.linalg.eigh(scatter)
    i = int(np.argmax(np.abs(values))) if about_identity else d - 1
    return float(values[i]), vectors[:, i]


def _pruned(rows: Rows, radius: float) -> Rows:
    near = np.array([np.count_nonzero(((rows - x) ** 2).sum(axis=1) <= radius**2) for x in rows])
    kept = rows[2 * near > len(rows)]
    return kept if len(kept) else rows


def _threshold(distance: Rows, slack: float, gamma: float, tau: float, d: int) -> float:
    """Return T + slack for the least T at a row with more rows beyond it than a good sample has."""
    n = len(distance)
    t = distance - slack
    with np.errstate(divide="ignore"):
        allowed = 8 * np.exp(-(t**2) / 2)
        allowed += 8 * gamma / (t**2 * math.log(d * math.log(d / (gamma * tau))))
    beyond = n - np.searchsorted(distance, distance, side="right")
    heavy = np.flatnonzero((t > 0) & (beyond > allowed * n))
    return float(distance[heavy[0]]) if len(heavy) else math.inf


def released(rows: Any, size: int, bits: Bits, filtered: Filter, gamma: float) -> Any:
    """Draw ``size`` outputs of the mean and its noise, tau = 1 / n, epsilon = 1; cells, shape
    (size, d)."""
    given = np.asarray(rows, dtype=np.float64)
    tau = 1 / len(given)
    center = np.rint(filtered(given, gamma, tau) * CELL).astype(np.int64)
    scale = Fraction(math.ceil(noise_scale(gamma, tau) * CELL))
    noise = rounded_gaussian(bits, scale, size * given.shape[1])
    return center + noise.reshape(size, -1)


def pair(name: str, sides: tuple[Rows, Rows]) -> NeighboringPair:
    """Build neighbors under replace from the result of one of the functions below."""
    left, right = sides
    return NeighboringPair(name=name, left=left, right=right, adjacency=Adjacency.REPLACE)


def clusters(n: int, d: int, distance: float, seed: int) -> tuple[Rows, Rows]:
    """Return neighbors: (n + 1) / 2 rows about 0 and the rest about distance e1; one row changes
    sides.

    The spread is 1/10 in every coordinate, in whole cells.
    """
    rows = np.rint(np.random.default_rng(seed).normal(0, 0.1, (n, d)) * CELL) / CELL
    rows[(n + 1) // 2 :, 0] += distance
    other = rows.copy()
    other[n // 2, 0] += distance
    return rows, other


def at_the_stopping_rule(n: int, d: int, gamma: float) -> tuple[Rows, Rows]:
    """Return neighbors of length about 2: 45% of the rows at b e1, one fewer or more, the rest
    at 0.

    b is halfway between the two values at which the filter stops at once.
    """
    high = round(0.45 * n)
    limit = 1 + FACTOR * gamma * math.log(1 / gamma)
    ends = [math.sqrt(limit / (k * (n - k))) * n for k in (high, high + 1)]
    rows = np.zeros((n, d))
    rows[:high, 0] = sum(ends) / 2
    other = rows.copy()
    other[high, 0] = sum(ends) / 2
    return rows, other


def one_outlier(n: int, d: int, distance: float, seed: int) -> tuple[Rows, Rows]:
    """Return neighbors: a sample of N(0, I) in whole cells, and one of its rows at distance e1."""
    rows = np.rint(np.random.default_rng(seed).standard_normal((n, d)) * CELL) / CELL
    other = rows.copy()
    other[0] = 0
    other[0, 0] = distance
    return rows, other


def resampled(n: int, d: int, seed: int) -> tuple[Rows, Rows]:
    """Return neighbors: a sample of N(0, I) in whole cells, and one of its rows drawn again."""
    drawn = np.rint(np.random.default_rng(seed).standard_normal((n + 1, d)) * CELL) / CELL
    other = drawn[:n].copy()
    other[0] = drawn[n]
    return drawn[:n], other
