"""Scores of records in an estimate of their mean, and bets on them.

Every run draws records from a law in instances.py, and one estimate M. The score z_i of record
i is standard normal given M and the law if M was run without record i, or with another in its
place. So for a function f with values in [0, 1] and W = E f(N(0, 1)), (epsilon, delta)-DP says
E f(z_i) <= e^epsilon W + delta under add-remove and replace alike, and with A the mean of
f(z_i) over the records of a run,

    A - e^epsilon W - delta >= -(e^epsilon W + delta)    has mean <= 0.

The n scores of a run share M: the run is what is independent of the others, and what is bet on.
Where the estimate is exactly the truth or there is none, all scores are 0 and f(0) = 0. W is a
constant, so nothing is compared with a second run of the mechanism.

The same for g with values in [-1, 1], odd, and U = E|g(N(0, 1))|: E g(z_i) <= sinh(epsilon)
U + (1 + e^-epsilon) delta. That is step (c) of spec/theory/tracing_bound.py, for scores that
are cut off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy

from dpverify.audit.betting import Wealth
from dpverify.audit.certificates import Point
from dpverify.privacy.numbers import Floats

_FIRST = 4  # runs that only teach
_GROWTH = 0.2  # a batch is this part of what was seen
_BOLDEST = 0.95  # share of the stake at which one loss would take everything
_HALVINGS = 24
_CLAIMS = 120  # size of the grid on which epsilon is bounded
_OUTWARD = 1e-9  # more than the rounding of a score, relative to W


@dataclass(frozen=True, slots=True)
class Score:
    """Function of one score. "above": 1 where it is above ``at``; "clipped": its positive part
    up to ``at``, over ``at``; "signed": the same with its sign, which is bet on with
    sinh(epsilon).
    """

    kind: str
    at: float

    def of(self, scores: Floats) -> float:
        """Return the average over a run's scores."""
        if self.kind == "above":
            return int(np.count_nonzero(scores > self.at)) / len(scores)
        low = -self.at if self.kind == "signed" else 0.0
        return float(np.add.reduce(scores.clip(low, self.at))) / len(scores) / self.at

    @property
    def expected(self) -> float:
        """Expectation W or U of the function of a standard normal number (of its absolute
        value, where signed); rounded up.
        """
        t = self.at
        if self.kind == "above":
            return float(scipy.special.ndtr(-t)) * (1 + _OUTWARD)
        density = math.exp(-t * t / 2) / math.sqrt(2 * math.pi)
        half = (1 / math.sqrt(2 * math.pi) - density + t * float(scipy.special.ndtr(-t))) / t
        return half * (2 if self.kind == "signed" else 1) * (1 + _OUTWARD)

    def allowed(self, epsilons: Floats, delta: float) -> Floats:
        """Return the largest mean that each claim allows; rounded up."""
        if self.kind == "signed":
            most = np.sinh(epsilons) * self.expected + (1 + np.exp(-epsilons)) * delta
        else:
            most = np.exp(epsilons) * self.expected + delta
        return np.asarray(most * (1 + 1e-12) + 1e-12)

    def __str__(self) -> str:
        words = {
            "above": f"scores above {self.at:g}",
            "clipped": f"positive parts of scores up to {self.at:g}",
            "signed": f"scores clipped at {self.at:g}, with their sign",
        }
        return words[self.kind]


SCORES = (
    *(Score("above", at) for at in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)),
    *(Score(kind, at) for kind in ("clipped", "signed") for at in (1.0, 2.0, 4.0)),
)


@dataclass(frozen=True, slots=True)
class Certified:
    """A lower bound on epsilon at a point of the claim, -inf if there is none; what was bet on
    last.
    """

    epsilon: float
    delta: float
    claimed: float
    score: Score


@dataclass(slots=True)
class Trace:
    """Scores of one subject, over all runs so far."""

    rows: list[Floats] = field(default_factory=list)
    drift: float = 0.0
    spread: float = 0.0
    without: int = 0

    def add(self, scores: Floats | None, distance: float) -> None:
        """Add one run. scores: of its n records, None where there is no estimate; distance: of
        the estimate from the truth.
        """
        self.without += scores is None
        if scores is None or distance == 0:
            self.rows.append(np.zeros(len(SCORES)))
            return
        self.rows.append(np.array([score.of(scores) for score in SCORES]))
        self.drift += float(np.mean(scores)) * distance
        self.spread += distance

    @property
    def estimate(self) -> float:
        """Estimate of epsilon over all runs, not a bound: asinh(mean score / mean |score|
        without the record).
        """
        return (
            math.asinh(self.drift / (math.sqrt(2 / math.pi) * self.spread)) if self.spread else 0.0
        )

    def bet(self, points: Sequence[Point], alpha: float) -> Certified:
        """Return the bound that is the most above its claim; all of them hold but for ``alpha``."""
        bounds = [self._at(point, alpha / len(points)) for point in points]
        return max(bounds, key=lambda one: one.epsilon - one.claimed)

    def _at(self, point: Point, alpha: float) -> Certified:
        claimed, delta = point
        wealth, table = Wealth.on(claimed, delta, _CLAIMS), np.array(self.rows)
        allowed = np.stack([score.allowed(wealth.epsilons, delta) for score in SCORES])
        signed = np.array([[score.kind == "signed"] for score in SCORES])
        least = -allowed - signed  # payoff of the worst run
        seen, best = _FIRST, 0
        while seen < len(table):
            batch = table[seen : seen + max(1, int(_GROWTH * seen))]
            past, open_ = table[:seen], _first_open(wealth, alpha)
            best = int(np.argmax(_promises(past - allowed[:, open_], least[:, open_])))
            payoffs = past[:, best, None] - allowed[best]
            stakes = best_stakes(payoffs, least[best])
            grown = np.log1p(stakes * (batch[:, best, None] - allowed[best]))
            wealth.log_wealth = wealth.log_wealth + (grown - 1e-12 * (1 + np.abs(grown))).sum(
                axis=0
            )
            wealth.peak = np.maximum(wealth.peak, wealth.log_wealth)
            seen += len(batch)
        return Certified(wealth.bound(alpha), delta, claimed, SCORES[best])


def _first_open(wealth: Wealth, alpha: float) -> int:
    """Return the first claim of the grid that is not refuted yet."""
    refuted = wealth.peak >= -math.log(alpha)
    return len(refuted) - 1 if refuted.all() else int(np.argmin(refuted))


def _promises(payoffs: Floats, least: Floats) -> Floats:
    """Return the log growth that the past would have had with each score at its best stake."""
    return np.asarray(np.log1p(best_stakes(payoffs, least) * payoffs).sum(axis=0))


def best_stakes(payoffs: Floats, least: Floats) -> Floats:
    """Return the stakes of largest log growth on these payoffs and one of the worst run (Kelly
    1956).

    payoffs: shape (runs, k), for k claims or scores; least: shape (k,), below 0. The stakes are
    0 where nothing is to be won.
    """
    seen, stakes = np.concatenate([payoffs, least[None]]), np.zeros(len(least))
    won = np.flatnonzero(seen.sum(axis=0) > 0)
    if not len(won):
        return stakes
    seen, lost = np.ascontiguousarray(seen[:, won]), -least[won]
    low, high, ratios = np.zeros(len(won)), _BOLDEST / lost, np.empty_like(seen)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        np.multiply(middle, seen, out=ratios)
        ratios += 1
        np.divide(seen, ratios, out=ratios)
        rises = ratios.sum(axis=0) > 0
        low, high = np.where(rises, middle, low), np.where(rises, high, middle)
    stakes[won] = low
    return stakes
