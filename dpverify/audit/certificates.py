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

from dpverify.privacy import Guarantee, point_of

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
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
    shown.
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
    alpha: float

    def refutes(self, guarantee: Guarantee) -> bool:
        """Whether the guarantee's inequality fails for this event, at level ``alpha``."""
        lower = float(at_least(self.hits, self.draws, self.alpha / 2))
        upper = float(at_most(self.other_hits, self.other_draws, self.alpha / 2))
        return bool(excess(guarantee, lower, upper) > 0)


def excess(guarantee: Guarantee, lower: Any, upper: Any) -> Any:
    """P(S) - e^epsilon Q(S) - delta from a lower end for P(S), an upper for Q(S); rounded down."""
    epsilon, delta = epsilon_and_delta(guarantee)
    factor = math.exp(epsilon) if epsilon < 700 else math.inf
    return lower * (1 - _OUTWARD) - factor * (1 + _OUTWARD) * upper - delta * (1 + _OUTWARD)


def epsilon_and_delta(guarantee: Guarantee) -> tuple[float, float]:
    """The claimed numbers as floats, or one point of a claimed profile (``point_of``)."""
    epsilon, delta = _point(guarantee)
    return float(min(epsilon, _BEYOND_TESTING)), float(delta)


@lru_cache(maxsize=64)
def _point(guarantee: Guarantee) -> tuple[Fraction, Fraction]:
    return point_of(guarantee)


def certified_epsilon(lower: Floats, upper: Floats, delta: float) -> Floats:
    """ln((P - delta) / Q) from a lower end for P and an upper end for Q; -inf where P <= delta."""
    above = np.maximum(lower - delta * (1 + _OUTWARD), 0.0)
    with np.errstate(divide="ignore"):
        result: Floats = np.log(above) - np.log(upper)
    return result
