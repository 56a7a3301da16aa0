"""Thresholds of scores, and what the events that they make then promise."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpverify.audit.certificates import Aim, Point
from dpverify.audit.confidence_regions import (
    OF_ODDS,
    Counted,
    Counts,
    best_share,
    own_part_of,
    share_for_parts,
    share_of,
)
from dpverify.audit.witnesses.calibrating import Curve, fitted_odds
from dpverify.audit.witnesses.promises import (
    OPTIMISM,
    TINY,
    Task,
    above_claimed,
    estimate,
    signed_root,
    standard_errors,
)
from dpverify.privacy.numbers import Floats

_THRESHOLDS = 400
_MOVE = 0.01  # share of a bound, and of epsilon 1, that a curve must promise beyond it to move it
_LESS = 1.0  # standard errors by which counts that follow no curve are taken to look too good
_NEARLY = 0.93  # share of the largest signed root that is as good
_REST, _REST_OF_FEW = 0.1, 0.25  # shares of the hits that a threshold at one value may lose
_BY_CHANCE = 4  # hits of which all are of one of two equal sides in 6% of all cases
_DOUBT, _MORE_DOUBT = (
    0.5,
    1.5,
)  # standard errors less for the worth of a contender, on its curve and by counting
_ABOVE = 2.0  # standard errors above the claim from which an event may refute it
_FEW_OTHERS, _FAR_APART = 10, 63.0
_RARE, _MOST_GIVEN = 0.05, 10_000  # share of the draws, and hits, up to which odds are tested
_NO_DELTA = 0.01  # share of the hits that delta may explain where odds are tested
_SHARES = 16.0, 24.0, 32.0, 40.0, 48.0, 54.0, 58.0, 61.0, 63.0, 63.75, 64.0


@dataclass(frozen=True, slots=True)
class Chosen:
    """A threshold t, what {score >= t} is to show, and its promise (``Witness``), or its signed
    root."""

    threshold: float
    aim: Aim
    promise: float


def best_thresholds(own: Floats, other: Floats, task: Task) -> tuple[Chosen, Chosen]:
    """Return the threshold that promises most, and that of the largest signed root of one
    (epsilon, delta).

    own, other: scores in order. For a whole profile both are the same.
    """
    thresholds = np.unique(own[_ranks(len(own))])
    hits = len(own) - np.searchsorted(own, thresholds, side="left")
    other_hits = len(other) - np.searchsorted(other, thresholds, side="left")
    counts = hits, len(own), other_hits, len(other)

    if len(task.points) > 1:
        best = most_promising(thresholds, *counts, standard_errors(*counts, task), task)
        return best, best
    ((epsilon, delta),) = task.points
    above = hits.astype(np.float64) - delta * len(own)
    roots = signed_root(above, other_hits, len(own) / len(other), epsilon)
    return (
        most_promising(thresholds, *counts, above_claimed(*counts, task), task),
        most_promising(thresholds, *counts, _rarest(roots)[None, :], task),
    )


def _rarest(roots: Floats) -> Floats:
    """Drop the roots of commoner events that are hardly larger: by chance these have a few hits
    more, and none here on the other side.
    """
    if roots.max() <= 0:
        return roots
    near = np.flatnonzero(roots >= _NEARLY * roots.max())
    return np.where(np.arange(len(roots)) >= near[-1], roots, -np.inf)


def curve_of(own: Floats, other: Floats, task: Task) -> Curve | None:
    """Return the curve that ``moved`` follows; None where odds follow none."""
    if len(task.points) > 1:
        return fitted_odds(own, other, bends=0)
    ((epsilon, delta),) = task.points
    return fitted_odds(own, other, most=math.inf if delta or task.refute else epsilon)


def moved(
    chosen: Chosen, own: Floats, other: Floats, task: Task, curve: Curve | None
) -> tuple[Chosen, float]:
    """Return the threshold that promises most where odds follow a curve of the score
    (``calibrating``), and what that is worth among others: a promise that is less cautious, and
    as good for rare events as for common ones. Where odds follow none, counts say what is expected
    of a claim that stands.

    own, other: the scores; curve: theirs. An event without any draw of the other side stays
    where odds bend: the other side may end there, and no curve follows odds that become
    infinite.
    """
    sizes = len(own), len(other)
    there = [np.count_nonzero(side >= chosen.threshold) for side in (own, other)]
    if len(task.points) > 1:
        if curve is None:
            return chosen, chosen.promise
        counts = curve.hits, sizes[0], curve.other_hits, sizes[1]
        best = most_promising(
            curve.thresholds, *counts, standard_errors(*counts, task, doubt=OPTIMISM), task
        )
        return replace(best, promise=chosen.promise), chosen.promise
    if curve is not None and (there[1] or not curve.bends):
        if curve.held is not None and _may_refute(own, other, curve.thresholds, task):
            curve = replace(curve, held=None)
        best_there = _best_on(curve, chosen, sizes, task)
        if best_there is not None:
            return best_there
        # else a rare event apart from the rest, which a curve of few numbers cannot follow
    if curve is None:
        chosen = _expected_best(chosen, own, other, task)
        there = [np.count_nonzero(side >= chosen.threshold) for side in (own, other)]
    raw = np.array(there[:1]), sizes[0], np.array(there[1:]), sizes[1]
    worth = above_claimed(*raw, task, power=0.0, optimism=_MORE_DOUBT)
    return chosen, max(chosen.promise, float(worth[0, 0]))


def _may_refute(own: Floats, other: Floats, thresholds: Floats, task: Task) -> bool:
    """Return whether an event of this score is so far above the claim that it is not to be given up
    for a larger bound under it.
    """
    hits, others = (
        len(side) - np.searchsorted(np.sort(side), thresholds, side="left") for side in (own, other)
    )
    ((epsilon, _),) = task.points
    roots = signed_root(hits.astype(np.float64), others, len(own) / len(other), epsilon)
    return bool(roots.max() >= _ABOVE)


def _best_on(
    curve: Curve, chosen: Chosen, sizes: tuple[int, int], task: Task
) -> tuple[Chosen, float] | None:
    """Return the threshold of the largest bound that a curve lets expect, and what it is worth;
    None where that is hardly more than the chosen one shows.

    Far out odds are hardly known, so the curve is read a standard error low. One that a claim holds
    is read at its middle: lower, only the rarest events would reach the claim.
    """
    counts, doubt = (curve.low_hits, sizes[0], curve.high_other_hits, sizes[1]), _DOUBT
    if curve.held is not None:
        hits, others = curve.held
        counts, doubt = (hits, sizes[0], others, sizes[1]), _MORE_DOUBT
    promised = above_claimed(*counts, task, power=0.0, optimism=0.0)
    at = int(np.argmax(promised))
    stays = int(np.argmin(np.abs(curve.thresholds - chosen.threshold)))
    there_promised = float(promised[0, stays])
    more = _MOVE * min(1.0, max(0.0, there_promised + task.points[0][0]))
    if promised.max() < max(chosen.promise, there_promised + more):
        return None
    worth = above_claimed(*counts, task, power=0.0, optimism=doubt)
    best = most_promising(curve.thresholds, *counts, promised, task)
    return replace(best, promise=chosen.promise), float(worth[0, at])


def _expected_best(chosen: Chosen, own: Floats, other: Floats, task: Task) -> Chosen:
    """Return the threshold of the largest bound that is expected, and not only promised. Where a
    refutation may be expected it stays: a commoner event shows that more surely.
    """
    thresholds = np.unique(np.sort(own)[_ranks(len(own))])
    counts = [
        len(side) - np.searchsorted(np.sort(side), thresholds, side="left") for side in (own, other)
    ]
    seen = counts[0], len(own), counts[1], len(other)
    expected = above_claimed(*seen, task, power=0.0, optimism=_LESS)
    if max(expected.max(), chosen.promise) > 0:
        return chosen
    return replace(most_promising(thresholds, *seen, expected, task), promise=chosen.promise)


def most_promising(
    thresholds: Floats,
    hits: Counts | Floats,
    draws: int,
    other_hits: Counts | Floats,
    other_draws: int,
    promised: Floats,
    task: Task,
) -> Chosen:
    """Return the threshold that promises most. promised: shape (points claimed, thresholds)."""
    which, best = divmod(int(np.argmax(promised)), len(thresholds))
    p, q = (
        float(estimate(k[best], n, 0.0)[0]) for k, n in ((hits, draws), (other_hits, other_draws))
    )
    return Chosen(
        float(thresholds[best]), _aimed(task.points[which], p, q), float(promised[which][best])
    )


def at_its_value(chosen: Chosen, own: Floats, other: Floats, task: Task) -> Chosen:
    """Raise the threshold to the one score that nearly all hits have: the few others there are
    as likely on the other side, where by chance none was seen.
    """
    values, times = np.unique(own[own >= chosen.threshold], return_counts=True)
    if len(task.points) > 1 or len(values) < 2:
        return chosen
    most = int(np.argmax(times))
    rest, hits = int(times.sum() - times[most]), int(times.sum())
    nearly_all = rest <= _REST * hits or (rest <= _BY_CHANCE and rest <= _REST_OF_FEW * hits)
    return replace(chosen, threshold=float(values[most])) if nearly_all else chosen


def with_share(chosen: Chosen, own: Floats, other: Floats, task: Task) -> Chosen:
    """Choose the share that certifies most of one (epsilon, delta) where few others are to be
    expected, or far fewer than hits: spreads of logarithms say nothing then. For rare events it
    is the test of odds, which is best whatever their counts, if delta is a small part of them:
    the ratio of odds that the claim allows rises without end where delta / Q(S) does.

    Where draws are divided, it is the share for the parts that are best for the share so far.
    """
    there = [np.count_nonzero(side >= chosen.threshold) for side in (own, other)]
    chosen, sizes = _divided(chosen, task)
    hits, others = (
        size * k // len(side) for size, k, side in zip(sizes, there, (own, other), strict=True)
    )
    delta = task.points[0][1]
    rare = delta * sizes[0] < _NO_DELTA * hits <= _NO_DELTA * _RARE * sizes[0]
    if len(task.points) == 1 and rare and hits + others <= _MOST_GIVEN:
        return replace(chosen, aim=replace(chosen.aim, share=OF_ODDS))
    many = others >= _FEW_OTHERS and chosen.aim.share < _FAR_APART
    if len(task.points) > 1 or many or not hits:
        return chosen
    counted = Counted(int(hits), sizes[0], int(others), sizes[1])
    delta = chosen.aim.point[1]
    shares = *_SHARES, chosen.aim.share
    best = best_share(counted, shares, task.alpha, delta)
    return replace(chosen, aim=replace(chosen.aim, share=best))


def _divided(chosen: Chosen, task: Task) -> tuple[Chosen, tuple[int, int]]:
    """Return the choice with the best parts of the draws, and how many these are."""
    if not task.divides:
        return chosen, (task.draws, task.draws)
    part = own_part_of(chosen.aim.share)
    size = round(2 * task.draws * part)
    aim = replace(chosen.aim, share=share_for_parts(chosen.aim.share, 0.5, part), own=part)
    return replace(chosen, aim=aim), (size, 2 * task.draws - size)


def _aimed(point: Point, p: float, q: float) -> Aim:
    """Aim at an event of these probabilities, by the spreads that they leave."""
    surplus = max(p - point[1], TINY)
    return Aim(point, share_of(math.sqrt(p * (1 - p)) / surplus, math.sqrt((1 - q) / q)))


def _ranks(size: int) -> NDArray[np.intp]:
    """Return evenly spaced ranks, and fine ones in both tails: rare events count."""
    if size <= _THRESHOLDS:
        return np.arange(size)
    tail = np.geomspace(1, size, _THRESHOLDS // 4).astype(np.intp) - 1
    even = np.linspace(0, size - 1, _THRESHOLDS // 2).astype(np.intp)
    return np.concatenate([tail, even, size - 1 - tail])
