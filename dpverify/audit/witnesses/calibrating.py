"""Odds that are exponential in a score, fitted to all draws at once.

The hits of single thresholds are noisy, and the best of many noisy ones is too rare or too common an
event. Of many scores the logarithm of the odds is linear: of log-ratios, of projections of Gaussians, of
what a regression learned. Two numbers, fitted to all draws, then say what each threshold is worth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc, expit

from dpverify.privacy.numbers import Floats

_RAREST, _WIDER = (
    60,
    1.15,
)  # draws of the first level; a level ends where there are so many times as many
_FEWEST = 4  # levels
_NEWTON, _RIDGE, _DONE = 25, 1e-6, 1e-7
_UNLIKELY = 0.01  # so rarely a linear curve is refused that is right


@dataclass(frozen=True, slots=True)
class Curve:
    """Thresholds from high to low, and how many draws of either side a fitted curve expects at least so high."""

    thresholds: Floats
    hits: Floats
    other_hits: Floats


def linear_odds(own: Floats, other: Floats) -> Curve | None:
    """The curve, from scores of draws that did not make the score; None if these contradict it.

    Of about 1% of the scores that it fits it is refused, by chi-square over levels of the score.
    """
    scores = np.concatenate([own, other])
    if not np.isfinite(scores).all() or not (len(own) and len(other)):
        return None
    order = np.argsort(-scores, kind="stable")
    scores, sides = scores[order], (order < len(own)).astype(np.float64)
    ends = _ends(scores)
    if len(ends) < _FEWEST:
        return None
    with np.errstate(all="ignore"):  # sums of numbers near the ends of the floats are infinite
        totals = np.array([np.cumsum(sides)[ends], ends + 1.0, np.cumsum(scores)[ends]])
        hits, both, sums = np.diff(totals, axis=1, prepend=0.0)
        means = sums / both - scores.mean()
        spread = np.sqrt(both @ means**2 / len(scores))
    if not 0 < spread < np.inf:
        return None
    share = _fitted(means / spread, hits, both)
    misfit = float((((hits - both * share) ** 2) / (both * share * (1 - share) + 1)).sum())
    if chdtrc(len(ends) - 2, misfit) < _UNLIKELY:
        return None
    return Curve(scores[ends], np.cumsum(both * share), np.cumsum(both * (1 - share)))


def _ends(scores: Floats) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """The last rank of every level of decreasing scores; equal scores are of one level."""
    ranks, size = [], float(_RAREST)
    while size < len(scores):
        ranks.append(int(size) - 1)
        size *= _WIDER
    last = np.flatnonzero(np.diff(scores, append=-np.inf))
    found: np.ndarray[tuple[int], np.dtype[np.intp]] = np.unique(
        last[np.searchsorted(last, [*ranks, len(scores) - 1])]
    )
    return found


def _fitted(scores: Floats, hits: Floats, both: Floats) -> Floats:
    """The own side's share of every level, by logistic regression on its mean score."""
    basis = np.column_stack([np.ones_like(scores), scores])
    fitted = np.zeros(2)
    for _ in range(_NEWTON):
        share = expit(basis @ fitted)
        slope = basis.T @ (hits - both * share) - _RIDGE * fitted
        curvature = (basis.T * (both * share * (1 - share))) @ basis + _RIDGE * np.eye(2)
        step = np.linalg.solve(curvature, slope)
        fitted += step
        if np.abs(step).max() < _DONE:
            break
    found: Floats = expit(basis @ fitted)
    return found
