"""Lower confidence ends for a ratio of odds, exact given the number of all hits.

Hits ~ Binomial(draws, p) on one side and others ~ Binomial(other draws, q) on the other. Given
their sum, the law of the hits depends on the ratio of the odds alone, p (1 - q) / (q (1 - p)), and
rises with it (Fisher 1935; the noncentral hypergeometric law). So P(at least so many hits | sum)
is superuniform at the true ratio, whatever the sum. The ratios at which it is above a level are
therefore a confidence region, and an interval up to infinity.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy

_FARTHEST, _HALVINGS = 60.0, 40  # logarithms of ratios that are looked at, and how finely
_CELLS = 1 << _HALVINGS
_NEAR = 30.0  # logarithms of ratios that are smaller lie nearly on a line
_OUTWARD = 1e-9  # more than the rounding of a logarithm that bisection ends at


def log_odds_at_least(
    hits: int, draws: int, other_hits: int, other_draws: int, score: float
) -> float:
    """Return the logarithm of the ratio of odds at which P(at least hits | all hits) has this
    score z, or a lower one; -inf where none is that low. P(end > truth) <= P(N >= score).
    """
    total = hits + other_hits
    first, last = max(0, total - other_draws), min(draws, total)
    if hits == first:
        return -math.inf
    at = np.arange(first, last, dtype=np.float64)  # from so many hits to one more
    steps = np.log((draws - at) * (total - at) / ((at + 1) * (other_draws - total + at + 1)))
    rising, falling = steps[hits - first :], -steps[: hits - first][::-1]

    level = float(scipy.special.ndtr(-abs(score)))

    def tail(cell: int) -> tuple[float, float]:
        """Return P(at least hits | all hits) and the level, up to a common factor; for scores
        below 0 the complements, which keep their digits, in the other order."""
        logarithm = _ratio_at(cell)
        # logarithms of masses, from that of so many hits on, and those below it downwards
        above = np.append(0.0, np.cumsum(rising + logarithm))
        below = np.cumsum(falling - logarithm)
        most = max(above.max(), below.max())
        reached, missed = (float(np.exp(part - most).sum()) for part in (above, below))
        allowed = level * (reached + missed)
        return (allowed, missed) if score < 0 else (reached, allowed)

    low = _last_at_most(tail, _CELLS)
    return -math.inf if low is None else _ratio_at(low) - _OUTWARD


def _ratio_at(cell: int) -> float:
    return (2 * cell / _CELLS - 1) * _FARTHEST


def _last_at_most(pair: Callable[[int], tuple[float, float]], end: int) -> int | None:
    """Return the last integer from 0 to ``end`` - 1 where the first of two numbers, whose ratio
    rises, is at most the second; None where there is none.

    By false positions of the ratio's logarithm, in a few steps where bisection takes forty.
    """

    def excess(at: int) -> float:
        """Return the logarithm of the ratio, at most 0 exactly where the first is at most the
        second."""
        first, second = pair(at)
        if not (first and second):
            return math.inf if first > second else -math.inf
        size = abs(math.log(first / second)) if 0 < first / second < math.inf else math.inf
        return size if first > second else -size

    low, high, low_excess, high_excess = 0, end, excess(0), math.inf
    before: bool | None = None
    if low_excess > 0:
        return None
    while high - low > 1:
        at = (low + high) // 2
        if max(-low_excess, high_excess) < _NEAR:
            part = low_excess / (low_excess - high_excess)
            at = min(max(low + round(part * (high - low)), low + 1), high - 1)
        over = excess(at)
        above = over > 0
        half = 2.0 if above is before else 1.0  # an end that stays counts half (Illinois)
        if above:
            high, high_excess, low_excess = at, over, low_excess / half
        else:
            low, low_excess, high_excess = at, over, high_excess / half
        before = above
    return low


__all__ = ["log_odds_at_least"]
