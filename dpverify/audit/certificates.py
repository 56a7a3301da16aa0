"""Certified bounds: statements about privacy that are wrong with a stated probability at most.

An event is chosen on one half of the draws and its two probabilities are bounded on the other half
by Clopper-Pearson, so the choice costs nothing. Each certificate states its own alpha; whoever looks
at several divides alpha among them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainccinv, betaincinv

from dpverify.privacy import Guarantee, points_of

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
Point = tuple[float, float]
"""An epsilon and the delta that is claimed there."""
# The inverse beta function is good to about 1e-14; every bound is moved outward by more than that.
_OUTWARD = 1e-10
_BEYOND_TESTING = Fraction(10**4)  # no number of draws tells one such epsilon from another


def at_least(hits: Counts | int, draws: int, alpha: float) -> Floats:
    """Lower confidence ends for probabilities: P(end > truth) <= alpha. Clopper, Pearson 1934."""
    k = np.asarray(hits, dtype=np.float64)
    ends = betaincinv(np.maximum(k, 1), draws - k + 1, alpha)
    return np.where(k == 0, 0.0, ends * (1 - _OUTWARD))


def at_most(hits: Counts | int, draws: int, alpha: float) -> Floats:
    """Upper confidence ends for probabilities: P(end < truth) <= alpha. Clopper, Pearson 1934."""
    k = np.asarray(hits, dtype=np.float64)
    ends = betainccinv(k + 1, np.maximum(draws - k, 1), alpha)
    return np.where(k >= draws, 1.0, np.minimum(1.0, ends * (1 + _OUTWARD)))


@dataclass(frozen=True, slots=True)
class Certificate:
    """What the counts of one event show, wrong with probability at most ``alpha``.

    ``epsilon``: a guarantee with this delta that holds has at least this epsilon; -inf if nothing is
    shown. ``claimed``: the claim's own epsilon at this delta.
    """

    pair: str
    direction: str
    event: str
    hits: int
    draws: int
    other_hits: int
    other_draws: int
    delta: float
    epsilon: float
    claimed: float
    alpha: float

    @property
    def certified_delta(self) -> float:
        """A lower end of P(S) - e^epsilon Q(S) at the claim's epsilon: what delta is at least there."""
        lower = float(at_least(self.hits, self.draws, self.alpha / 2))
        upper = float(at_most(self.other_hits, self.other_draws, self.alpha / 2))
        return max(0.0, float(excess((self.claimed, 0.0), lower, upper)))

    def refutes(self, guarantee: Guarantee) -> bool:
        """Whether the guarantee fails for this event at a tested point, at level ``alpha``.

        The two ends hold together, so any number of points may be looked at.
        """
        lower = float(at_least(self.hits, self.draws, self.alpha / 2))
        upper = float(at_most(self.other_hits, self.other_draws, self.alpha / 2))
        return any(excess(point, lower, upper) > 0 for point in tested_points(guarantee))


def excess(point: Point, lower: Any, upper: Any) -> Any:
    """P(S) - e^epsilon Q(S) - delta from a lower end for P(S), an upper for Q(S); rounded down."""
    epsilon, delta = point
    factor = math.exp(epsilon) if epsilon < 700 else math.inf
    return lower * (1 - _OUTWARD) - factor * (1 + _OUTWARD) * upper - delta * (1 + _OUTWARD)


@lru_cache(maxsize=64)
def tested_points(guarantee: Guarantee) -> tuple[Point, ...]:
    """The points of the claimed profile that are tested (``points_of``), as floats."""
    points = points_of(guarantee)
    return tuple((float(min(epsilon, _BEYOND_TESTING)), float(delta)) for epsilon, delta in points)


def certified_epsilon(lower: Floats, upper: Floats, delta: float) -> Floats:
    """ln((P - delta) / Q) from a lower end for P and an upper end for Q; -inf where P <= delta."""
    above = np.maximum(lower - delta * (1 + _OUTWARD), 0.0)
    with np.errstate(divide="ignore"):
        result: Floats = np.log(above) - np.log(upper)
    return result
