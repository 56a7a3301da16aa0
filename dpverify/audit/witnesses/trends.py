"""Events chosen by the trend of odds along all ranks of a score, where no event tells much alone.

Where the best event is few standard errors from none, the best of the thousands of thresholds
that all scores have is often a rare event that differs by chance. Whether a score tells anything is
seen better from all its ranks at once (the test of Wilcoxon, Mann and Whitney): that is one number
for each score. If what tells the sides apart rises evenly along the ranks, it also says what every
threshold will show.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy

from dpverify.audit.confidence_regions import Counts
from dpverify.audit.witnesses.features import Candidate
from dpverify.audit.witnesses.judging import Scores, Witness
from dpverify.audit.witnesses.promises import (
    Task,
    above_claimed,
    divided_error,
    estimate,
    signed_root,
)
from dpverify.audit.witnesses.thresholds import most_promising
from dpverify.privacy.numbers import Floats

_CLEAR = 6.0  # standard errors of an event that tells enough by itself
_LESS = 1.5  # standard errors that the best of single events is believed less by
_PLAINER = 0.1  # standard errors by which the trend of a later candidate must be clearer
_BY_CHANCE = 1.5  # standard errors of the clearest of many trends, where there is none
_STEEPEST = 2.0  # then all outputs of the lowest rank are of one side
_BENT = 0.5  # share of what a trend says of the odds of an event that they may differ by
_FAINT = 0.005  # share of the expected bound that is promised, as of any that is hardly there
_THRESHOLDS = 400


@dataclass(frozen=True, slots=True)
class Trend:
    """Trend of odds along the ranks of a candidate's scores, from the lowest to the highest.

    errors: how far it is from none, in standard errors. slope: what (left - right) / (left +
    right), of the densities of both sides, rises by along all ranks, at most 2; less than it was
    seen to, since the clearest of many looks steeper than it is.
    """

    candidate: Candidate
    errors: float
    slope: float

    def event(self, scores: Scores, side: int, task: Task) -> tuple[Witness, float] | None:
        """Return the event of the largest expected bound in one direction, with what that bound
        exceeds the claim by; None if there is no trend. What it makes of odds may be more than the
        claim allows.
        """
        if not self.slope:
            return None
        sign = 1 if (self.slope > 0) == (side == 0) else -1
        sides = [sign * one for one in scores.by(self.candidate)]
        both, sizes = np.sort(np.concatenate(sides)), (len(sides[side]), len(sides[1 - side]))
        at = np.unique(both[np.linspace(0, len(both) - 1, _THRESHOLDS).astype(np.intp)])[1:]
        counts = [len(one) - np.searchsorted(np.sort(one), at) for one in sides]
        seen = self._believed(counts[side], sizes[0], counts[1 - side], sizes[1])
        expected = above_claimed(*seen, task, power=0.0, optimism=0.0)
        best = most_promising(at, *seen, expected, task)
        promise = float(above_claimed(*seen, task)[0, int(expected.argmax())])
        claimed = task.points[0][0]
        if best.promise > -claimed:
            promise = max(promise, min(0.0, _FAINT * (best.promise + claimed) - claimed))
        event = Witness(self.candidate, sign, best.threshold, best.aim, promise)
        return event, best.promise

    def _believed(
        self, hits: Counts, draws: int, others: Counts, other_draws: int
    ) -> tuple[Floats, int, Floats, int]:
        """Return the counts of events of the highest scores as far as they are believed: as the
        trend divides all hits, and from there towards what was seen, the less the rarer they are.
        """
        share = (hits + others) / (draws + other_draws)
        trend = 2 * np.arctanh(abs(self.slope) * (1 - share) / 2)  # (1 - share) / 2: mean rank
        (p, _), (q, _) = estimate(hits, draws, 0.0), estimate(others, other_draws, 0.0)
        variance = (1 - p) / p / draws + (1 - q) / q / other_draws
        bent = np.square(_BENT * trend)
        odds = trend + bent / (bent + variance) * (np.log(p / q) - trend)
        room = (1 - share) / share
        apart = np.clip(np.tanh(odds / 2), -room, room)
        return draws * share * (1 + apart), draws, other_draws * share * (1 - apart), other_draws


def expected_of(event: Witness, scores: Scores, side: int, task: Task) -> float:
    """Return what the bound of a single event is expected to exceed the claim by; infinite where
    it is so clear that no trend need be asked. Its odds are believed less than they were seen to
    be, since it is the best of many, and no more than the claim allows. Standard errors are those
    of the signed root, which are right for few hits, too.
    """
    ((claimed, delta),) = task.points
    sides = [event.sign * one for one in scores.by(event.candidate)]
    own, other = sides[side], sides[1 - side]
    hits, others = (float(np.count_nonzero(one >= event.threshold)) for one in (own, other))
    (p,), (q,) = (
        estimate(np.array([k]), len(one), 0.0)[0] for k, one in ((hits, own), (others, other))
    )
    surplus = np.array([hits - delta * len(own)])
    root = float(signed_root(surplus, np.array([others]), len(own) / len(other), 0.0)[0])
    if root >= _CLEAR:
        return math.inf
    if p <= delta or root <= _LESS:
        return -math.inf
    odds = math.log((p - delta) / q) * (1 - _LESS / root)
    errors = np.array([math.sqrt(p * (1 - p)) / (p - delta)]), np.array([math.sqrt((1 - q) / q)])
    error = float((divided_error if task.divides else np.hypot)(*errors)[0])
    margin = error / math.sqrt(task.draws) * float(scipy.special.ndtri(task.alpha))
    return min(odds, claimed) + margin - claimed


def clearest(scores: Scores, candidates: Iterable[Candidate]) -> Trend | None:
    """Return the clearest trend of the candidates that have not learned; None without any."""
    best: Trend | None = None
    for candidate in candidates:
        if not candidate.fitted:
            trend = _trend(candidate, *scores.by(candidate))
            if best is None or trend.errors > best.errors + _PLAINER:
                best = trend
    return best


def _trend(candidate: Candidate, left: Floats, right: Floats) -> Trend:
    sides, means, squares = (np.sort(left), np.sort(right)), [], 0.0
    size = len(left) + len(right)
    for scores in sides:
        ends = [np.searchsorted(one, scores, end) for one in sides for end in ("left", "right")]
        ranks = np.sum(ends, axis=0) / (2 * size) - 0.5  # from the middle; equal ones share theirs
        means.append(float(ranks.mean()))
        squares += float(np.square(ranks).sum())
    apart, variance = means[0] - means[1], squares / size
    if not apart:
        return Trend(candidate, 0.0, 0.0)
    errors = abs(apart) / math.sqrt(variance * (1 / len(left) + 1 / len(right)))
    believed = max(0.0, 1 - (_BY_CHANCE / errors) ** 2)
    slope = min(_STEEPEST, abs(apart) / (2 * variance))
    return Trend(candidate, errors, math.copysign(believed * slope, apart))
