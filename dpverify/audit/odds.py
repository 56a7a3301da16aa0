"""Lower confidence ends for a ratio of odds, exact given the number of all hits.

Hits ~ Binomial(draws, p) on one side and others ~ Binomial(other draws, q) on the other. Given
their sum, the law of the hits depends on the ratio of the odds alone, p (1 - q) / (q (1 - p)), and
rises with it (Fisher 1935; the noncentral hypergeometric law). So P(at least so many hits | sum)
is superuniform at the true ratio, whatever the sum. The ratios at which it is above a level are
therefore a confidence region, and an interval up to infinity.
"""

from __future__ import annotations

import math

import numpy as np
import scipy

_FARTHEST, _HALVINGS = 60.0, 40  # logarithms of ratios that are looked at, and how finely
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

    def rejected(logarithm: float) -> bool:
        # logarithms of masses, from that of so many hits on, and those below it downwards
        above = np.append(0.0, np.cumsum(rising + logarithm))
        below = np.cumsum(falling - logarithm)
        most = max(above.max(), below.max())
        reached, missed = (np.exp(part - most).sum() for part in (above, below))
        if score < 0:  # by the complement, which keeps its digits
            return bool(missed >= scipy.special.ndtr(score) * (reached + missed))
        return bool(reached <= scipy.special.ndtr(-score) * (reached + missed))

    low, high = -_FARTHEST, _FARTHEST
    if not rejected(low):
        return -math.inf
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if rejected(middle) else (low, middle)
    return low - _OUTWARD


__all__ = ["log_odds_at_least"]
