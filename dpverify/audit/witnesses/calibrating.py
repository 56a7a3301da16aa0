"""Odds that follow a curve of the score, fitted to all draws at once.

The hits of single thresholds are noisy, and the best of many noisy ones is too rare or too
common an event. The logarithm of the odds is linear in many scores: log-ratios, projections of
Gaussians, what a regression learned. For a mixture it bends: where a record is sampled by a
coin, odds are flat until outputs are such as only the record makes, and rise from there. So a
line is fitted, and bends are added as far as the draws call for them; a few numbers then say
what each threshold is worth. Where the odds rise beyond what a pure claim allows, a curve that
stops there is fitted as well. A score that many draws have, such as that of an output that says
nothing, has odds of its own where no curve fits it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import NDArray

from dpverify.audit.witnesses.saturating import held_odds
from dpverify.privacy.numbers import Floats

_RAREST, _WIDER = (
    30,
    1.15,
)  # draws of the first level; and the factor by which the draws up to a level grow
_FEWEST = 7  # levels
_ROUGH_LEVELS = 25  # from either end
_ATOM, _MOST_ATOMS = 0.05, 4  # a share of the draws with one score, and how many such scores
Ranks = NDArray[np.intp]
_NEWTON, _RIDGE, _DONE = 25, 1e-6, 1e-7
_UNLIKELY = 0.01  # probability that a right curve is refused
_BENDS = 0.7, 0.4, 0.2, 0.1, 0.04, 0.015, 0.005  # where there may be bends: shares of the draws
MOST_BENDS = 5
_EVIDENT = 6.0  # in twice the logarithm of the likelihood: by chance once in twenty lines
_DOUBT = (
    1.0  # standard errors of the curve that odds are taken down by: far out they are hardly known
)


@dataclass(frozen=True, slots=True)
class Curve:
    """Thresholds from high to low, and how many draws of either side a fitted curve expects at
    least so high.

    low_hits, high_other_hits: the same where all odds are a standard error lower: far out they
    are hardly known. bends: the number of bends. likely: the logarithm of the likelihood of the
    sides of all draws, which is the larger the more the score tells. held: the expected draws of
    either side along a curve that a claim holds (``saturating``), if that is likelier, allowing for
    the number of bends.
    """

    thresholds: Floats
    hits: Floats
    other_hits: Floats
    low_hits: Floats
    high_other_hits: Floats
    bends: int
    likely: float
    held: tuple[Floats, Floats] | None = None


@dataclass(frozen=True, slots=True)
class _Levels:
    """Levels of decreasing scores. scores: their means, centered and scaled; hits of the own
    side, draws of both; apart: levels that are on no curve."""

    scores: Floats
    hits: Floats
    both: Floats
    apart: Ranks

    def line(self) -> _Fit:
        """Fit a logistic regression on a line."""
        alone = np.zeros((len(self.scores), len(self.apart)))
        alone[self.apart, np.arange(len(self.apart))] = 1.0
        basis = np.column_stack([np.ones_like(self.scores), self.scores, alone])
        return self._fits(basis[np.newaxis], np.zeros(basis.shape[1]))[0]

    def bent(self, fit: _Fit, bends: list[float]) -> list[_Fit]:
        """Fit curves that have one of these bends more than ``fit``, from which the fits begin."""
        slopes = np.maximum(self.scores - np.array(bends)[:, np.newaxis], 0.0)[..., np.newaxis]
        basis = np.broadcast_to(fit.basis, (len(bends), *fit.basis.shape))
        return self._fits(np.concatenate([basis, slopes], axis=2), np.append(fit.weights, 0.0))

    def held(
        self, odds: Floats, likely: float, most: float, even: float
    ) -> tuple[Floats, float] | None:
        """Return the odds along a curve that the epsilon ``most`` holds, and the logarithm of its
        likelihood; None where other odds nowhere exceed the epsilon, or are as likely.

        odds, likely: the other ones. even: odds of a draw that is as likely on either side.
        """
        if not 0 < most < np.delete(np.abs(odds - even), self.apart).max():
            return None
        line = self.line()
        fit = held_odds(line.basis, line.weights, self.hits, self.both, self.apart, most, even)
        return fit if fit[1] > likely else None

    def contradict(self, odds: Floats, numbers: int) -> bool:
        """Return whether these odds, of so many fitted numbers, are unlikely by chi-square."""
        share, free = scipy.special.expit(odds), len(odds) - numbers
        spread = self.both * share * (1 - share) + 1
        misfit = float((((self.hits - self.both * share) ** 2) / spread).sum())
        return free <= 0 or bool(scipy.special.chdtrc(free, misfit) < _UNLIKELY)

    def _fits(self, bases: Floats, start: Floats) -> list[_Fit]:
        """Fit a logistic regression on every basis, shape (fits, levels, numbers), all at once."""
        weights, odds, curvatures = _fitted(bases, self.hits, self.both, start)
        shares, missed = scipy.special.expit(odds), self.both - self.hits
        hits = scipy.special.xlogy(self.hits, shares)
        likely = 2 * (hits + scipy.special.xlogy(missed, 1 - shares)).sum(axis=1)
        parts = zip(bases, weights, odds, curvatures, likely.tolist(), strict=True)
        return [_Fit(*part) for part in parts]


@dataclass(frozen=True, slots=True)
class _Fit:
    """A curve that was fitted to levels.

    basis: shape (levels, numbers). weights: those of its columns. odds: the logarithm of each
    level's. curvature: that of the logarithm of the likelihood, of which ``likely`` is twice the
    value.
    """

    basis: Floats
    weights: Floats
    odds: Floats
    curvature: Floats
    likely: float

    def errors(self) -> Floats:
        """Return the standard errors of the odds."""
        spread = np.linalg.solve(self.curvature, self.basis.T).T
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", self.basis, spread)))


def fitted_odds(
    own: Floats, other: Floats, *, bends: int = MOST_BENDS, most: float = math.inf
) -> Curve | None:
    """Return the curve, from scores of draws that did not make the score; None if these
    contradict it.

    bends: how many the curve may have. most: the epsilon of a pure claim that may hold the odds.
    About 1% of the curves that fit are refused, by chi-square over levels of the score.
    """
    scores = np.concatenate([own, other])
    if not np.isfinite(scores).all() or not (len(own) and len(other)):
        return None
    order = np.argsort(-scores)  # equal scores are of one level, in any order
    scores, sides = scores[order], (order < len(own)).astype(np.float64)
    curve = _curve(scores, sides, _ends(scores), np.zeros(0, np.intp), bends, most)
    if curve is None and bends:
        first, last = _repeated(scores)
        if 0 < len(last) <= _MOST_ATOMS:
            ends = np.union1d(_ends(scores), np.concatenate([first[first > 0] - 1, last]))
            curve = _curve(scores, sides, ends, np.searchsorted(ends, last), bends, most)
    return curve


def gain_by_levels(own: Floats, other: Floats) -> float:
    """Return how much likelier the sides of a draw are, on average, where odds have a number for
    each of some fifty levels of the score: the mean gain in the logarithm, less what chance gives.

    own, other: scores in order. A curve takes twenty times as long.
    """
    both = np.sort(np.concatenate([own, other]))
    few = np.geomspace(_RAREST, len(both), _ROUGH_LEVELS).astype(np.intp)
    ranks = np.concatenate([few, len(both) - few])
    edges = np.unique(both[np.minimum(ranks, len(both) - 1)])
    hits, others = (
        np.diff(np.searchsorted(side, edges), prepend=0, append=len(side)) for side in (own, other)
    )
    levels, xlogy = hits + others, scipy.special.xlogy
    together = xlogy(hits, hits) + xlogy(others, others) - xlogy(levels, levels)
    sizes = np.array([len(own), len(other)])
    apart = xlogy(sizes, sizes).sum() - xlogy(len(both), len(both))
    return float(together.sum() - apart - np.count_nonzero(levels) / 2) / len(both)


def _repeated(scores: Floats) -> tuple[Ranks, Ranks]:
    """Return the first and the last rank of every score that many of the draws have."""
    last = np.flatnonzero(np.append(scores[1:] != scores[:-1], True))
    first = np.append(0, last[:-1] + 1)
    many = last + 1 - first >= _ATOM * len(scores)
    return first[many], last[many]


def _curve(
    scores: Floats, sides: Floats, ends: Ranks, apart: Ranks, bends: int, most: float
) -> Curve | None:
    """Return the curve through levels that end at these ranks of decreasing scores; None if the
    draws contradict it.

    sides: 1 for draws of the own side. apart: levels whose odds are their own.
    """
    if len(ends) - len(apart) < _FEWEST:
        return None
    with np.errstate(all="ignore"):  # sums of numbers near the ends of the floats are infinite
        middle = scores.mean()
        totals = np.array([np.cumsum(sides)[ends], ends + 1.0, np.cumsum(scores)[ends]])
        hits, both, sums = np.diff(totals, axis=1, prepend=0.0)
        means = sums / both - middle
        spread = np.sqrt(both @ means**2 / len(scores))
    if not 0 < spread < np.inf:
        return None
    places = [scores[int(share * len(scores))] for share in _BENDS]
    possible = [float((place - middle) / spread) for place in dict.fromkeys(places)]
    levels = _Levels(means / spread, hits, both, apart)
    odds, errors, bent, likely = _simplest(levels, possible, bends)
    sizes = float(sides.sum()), float(len(sides) - sides.sum())
    if levels.contradict(odds, 2 + bent + len(apart)):
        return None
    held = levels.held(odds, likely - bent * _EVIDENT / 2, most, math.log(sizes[0] / sizes[1]))

    def expected(odds: Floats) -> tuple[Floats, Floats]:
        own, other = (np.cumsum(both * scipy.special.expit(sign * odds)) for sign in (1, -1))
        return np.minimum(own, sizes[0]), np.minimum(other, sizes[1])

    curve = Curve(scores[ends], *expected(odds), *expected(odds - errors), bent, likely)
    if held is None:
        return curve
    return replace(curve, likely=max(likely, held[1]), held=expected(held[0]))


def _simplest(
    levels: _Levels, possible: list[float], most: int
) -> tuple[Floats, Floats, int, float]:
    """Return the odds and their errors by a line, or by a curve with those bends that make them
    evidently likelier; how many bends it has, and the logarithm of its likelihood.
    """
    best, bends = levels.line(), 0
    left = [b for b in possible if levels.scores.min() < b < levels.scores.max()]
    while bends < most and left:
        fits = levels.bent(best, left)
        likeliest = max(range(len(left)), key=lambda i: fits[i].likely)
        if not fits[likeliest].likely > best.likely + _EVIDENT:
            break
        best, bends = fits[likeliest], bends + 1
        del left[likeliest]
    return best.odds, best.errors(), bends, best.likely / 2


def _ends(scores: Floats) -> Ranks:
    """Return the last rank of every level of decreasing scores; equal scores are of one level."""
    ranks, size = [], float(_RAREST)
    while size < len(scores):
        ranks.append(int(size) - 1)
        size *= _WIDER
    last = np.flatnonzero(np.diff(scores, append=-np.inf))
    ends: Ranks = np.unique(last[np.searchsorted(last, [*ranks, len(scores) - 1])])
    return ends


def _fitted(
    bases: Floats, hits: Floats, both: Floats, start: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return weights of logistic regressions by Newton's method from ``start``, the logarithm of
    the own side's odds at every level, and the curvatures at the last step.

    bases: shape (fits, levels, numbers). A fit that is done moves no more.
    """
    across, fitted = bases.swapaxes(1, 2), np.tile(start, (len(bases), 1))
    ridge, curvatures = _RIDGE * np.eye(len(start)), np.empty((len(bases), *2 * start.shape))
    rest = np.arange(len(bases))
    for _ in range(_NEWTON):
        basis, own = (bases, across) if len(rest) == len(bases) else (bases[rest], across[rest])
        shares = scipy.special.expit((basis @ fitted[rest, :, np.newaxis])[..., 0])
        expected = both * shares
        slopes = (own @ (hits - expected)[..., np.newaxis])[..., 0] - _RIDGE * fitted[rest]
        curvatures[rest] = (own * (expected * (1 - shares))[:, np.newaxis]) @ basis + ridge
        steps = np.linalg.solve(curvatures[rest], slopes[..., np.newaxis])[..., 0]
        fitted[rest] += steps
        rest = rest[~(np.abs(steps).max(axis=1) < _DONE)]
        if not len(rest):
            break
    return fitted, (bases @ fitted[..., np.newaxis])[..., 0], curvatures
