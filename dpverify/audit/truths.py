"""True privacy of a pair of laws, which no certified bound on it may exceed.

Closed forms in float64, for laws that the auditor measures itself on.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import scipy

from dpverify.privacy.numbers import Floats

_ORDERS = 400
_ZOOMS = 4
_ALONG = 2000  # points on each straight piece of a trade-off curve


class Truth(ABC):
    """A pair of laws, in both directions."""

    __slots__ = ()

    @abstractmethod
    def delta_at(self, epsilon: float) -> float:
        """Return the largest P(S) - e^epsilon Q(S), epsilon >= 0."""

    @abstractmethod
    def epsilon_at(self, delta: float) -> float:
        """Return the largest ln((P(S) - delta) / Q(S)): the least epsilon that holds with this
        delta.
        """

    @property
    @abstractmethod
    def mu(self) -> float:
        """The least mu of a Gaussian guarantee that holds."""

    @property
    @abstractmethod
    def rho(self) -> float:
        """The least rho of zCDP that holds."""

    @property
    def everywhere(self) -> float:
        """Limit of delta for large epsilon."""
        return 0.0


@dataclass(frozen=True, slots=True)
class Finite(Truth):
    """Two laws on the same few values. own, other: the masses, each with sum 1."""

    own: tuple[float, ...]
    other: tuple[float, ...]

    def delta_at(self, epsilon: float) -> float:
        """Sum over the values where P > e^epsilon Q."""
        return max(
            math.fsum(max(p - math.exp(epsilon) * q, 0.0) for p, q in zip(a, b, strict=True))
            for a, b in self._directions
        )

    def epsilon_at(self, delta: float) -> float:
        """Search the events {P / Q >= t}, which are the best (Neyman, Pearson 1933)."""
        return max(_largest_ratio(*_curve(a, b), delta) for a, b in self._directions)

    @property
    def mu(self) -> float:
        """The largest mu along the trade-off curve, which is straight between those events."""
        return max(_steepest(a, b) for a, b in self._directions)

    @property
    def rho(self) -> float:
        """The largest Renyi divergence over its order; infinite if an event is impossible."""
        return max(_finite_rho(a, b) for a, b in self._directions)

    @property
    def everywhere(self) -> float:
        """Mass of the values that are impossible on the other side."""
        return max(
            math.fsum(p for p, q in zip(a, b, strict=True) if not q) for a, b in self._directions
        )

    @property
    def _directions(self) -> tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]:
        return (self.own, self.other), (self.other, self.own)


@dataclass(frozen=True, slots=True)
class Gaussian(Truth):
    """N(mean, 1) against N(0, 1)."""

    mean: float

    def delta_at(self, epsilon: float) -> float:
        """Return Phi(mu / 2 - epsilon / mu) - e^epsilon Phi(-mu / 2 - epsilon / mu). Balle,
        Wang 2018.
        """
        at, half = epsilon / self.mean, self.mean / 2
        return float(
            scipy.special.ndtr(half - at) - math.exp(epsilon) * scipy.special.ndtr(-half - at)
        )

    def epsilon_at(self, delta: float) -> float:
        """Return epsilon by bisection, from above."""
        return _solved(self, delta)

    @property
    def mu(self) -> float:
        """The least mu: the mean."""
        return self.mean

    @property
    def rho(self) -> float:
        """The least rho, mu^2 / 2: the divergence of every order a is a mu^2 / 2."""
        return self.mean**2 / 2


@dataclass(frozen=True, slots=True)
class Laplace(Truth):
    """Laplace noise of scale 1 around ``shift`` against 0."""

    shift: float

    def delta_at(self, epsilon: float) -> float:
        """Return 1 - e^((epsilon - shift) / 2), of the event {x >= (shift + epsilon) / 2}."""
        return max(0.0, -math.expm1((epsilon - self.shift) / 2))

    def epsilon_at(self, delta: float) -> float:
        """Return the profile's inverse; negative where no epsilon >= 0 is needed."""
        return self.shift + 2 * math.log1p(-delta)

    @property
    def mu(self) -> float:
        """The mu of the event {x >= shift / 2}: there the trade-off curve is furthest from the
        diagonal.
        """
        return float(
            2 * scipy.special.ndtri(-math.expm1(-self.shift / 2) + math.exp(-self.shift / 2) / 2)
        )

    @property
    def rho(self) -> float:
        """The rho from the Renyi divergences of Mironov 2017, Proposition 6."""

        def moments(a: Floats) -> Floats:
            up = np.log(a) + (a - 1) * self.shift
            down = np.log(a - 1) - a * self.shift
            total: Floats = np.logaddexp(up, down) - np.log(2 * a - 1)
            return total

        return _largest_slope(moments)


@lru_cache(maxsize=1024)
def _solved(truth: Truth, delta: float) -> float:
    """Return the least epsilon with delta_at(epsilon) <= delta, from above; inf if there is
    none.
    """
    if delta <= 0:
        return math.inf
    low, high = 0.0, 1.0
    if truth.delta_at(low) <= delta:
        return low
    while truth.delta_at(high) > delta:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if truth.delta_at(middle) > delta else (low, middle)
    return high


@lru_cache(maxsize=256)
def _curve(own: tuple[float, ...], other: tuple[float, ...]) -> tuple[Floats, Floats]:
    """Return (Q, P) of the events {P / Q >= t}, from nothing to everything."""
    p, q = np.array(own), np.array(other)
    kept = (p > 0) | (q > 0)
    p, q = p[kept], q[kept]
    with np.errstate(divide="ignore"):
        order = np.argsort(-(np.log(p) - np.log(q)), kind="stable")
    zero = np.zeros(1)
    return np.concatenate([zero, q[order].cumsum()]), np.concatenate([zero, p[order].cumsum()])


def _largest_ratio(q: Floats, p: Floats, delta: float) -> float:
    above = p > delta
    if not above.any():
        return -math.inf
    with np.errstate(divide="ignore"):
        return float(np.max(np.log(p[above] - delta) - np.log(q[above])))


@lru_cache(maxsize=256)
def _steepest(own: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Return the largest Phi^-1(P) - Phi^-1(Q) on the trade-off curve."""
    q, p = _curve(own, other)
    if q[1] == 0 and p[1] > 0:
        return math.inf
    pieces = np.linspace(0, 1, _ALONG + 2)[1:]
    along = np.concatenate([a + pieces * (b - a) for a, b in pairwise(q)])
    level = np.concatenate([a + pieces * (b - a) for a, b in pairwise(p)])
    with np.errstate(invalid="ignore"):
        differences = scipy.special.ndtri(np.minimum(level, 1.0)) - scipy.special.ndtri(
            np.minimum(along, 1.0)
        )
    inside = np.maximum(level, along) < 1 - 1e-12
    return max(0.0, float(differences[inside].max(initial=0.0)))


@lru_cache(maxsize=256)
def _finite_rho(own: tuple[float, ...], other: tuple[float, ...]) -> float:
    p, q = np.array(own), np.array(other)
    if np.any((q == 0) & (p > 0)):
        return math.inf
    log_p, log_q = np.log(p[p > 0])[:, None], np.log(q[p > 0])[:, None]
    return _largest_slope(
        lambda a: np.asarray(scipy.special.logsumexp(a * log_p + (1 - a) * log_q, axis=0))
    )


def _largest_slope(moments: Callable[[Floats], Floats]) -> float:
    """Return the largest of ln E_Q[(dP/dQ)^a] / (a (a - 1)) over a > 1, on ever finer grids of
    ln(a - 1).
    """
    low, high, best = math.log(1e-7), math.log(1e4), 0.0
    for _ in range(_ZOOMS):
        logs = np.linspace(low, high, _ORDERS)
        a = 1 + np.exp(logs)
        values = moments(a) / (a * (a - 1))
        at = int(np.argmax(values))
        best = max(best, float(values[at]))
        low, high = float(logs[max(at - 1, 0)]), float(logs[min(at + 1, _ORDERS - 1)])
    return best
