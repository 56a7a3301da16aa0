"""From one event of a score to several, with weights: what a graded certificate is to count.

The score is cut into levels by the draws that choose, and a smooth curve of the odds against how rare a
score is gives the weights: counts of single levels would be too noisy for that. All of it is done before
the draws that certify.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.special import chdtrc, expit, ndtri

from dpverify.audit.graded import HEAVIEST, poisson_mean
from dpverify.audit.outputs.draws import Floats
from dpverify.audit.regions import Counts
from dpverify.audit.witnesses.choosing import Grade, Task, Witness

_RAREST = 60  # hits of the first level, on both sides
_WIDER = 1.4  # a level has so many times the draws of the one above
_POWER = 1.3  # as for a single event
_BETTER = 0.04  # what weights must promise above a single event, relative to its epsilon
_ROUNDS, _NEWTON = 3, 25
_BENDS = (0.5, 1.5, 3.0, 5.0)  # of minus the logarithm of the share of scores that are as high
_BEND, _NEAR = 0.5, 0.02  # how much the log-odds bend, of the claimed epsilon and this
_UNLIKELY = 0.01
_BEYOND, _FARTHEST = 40.0, 2.0  # epsilons; a step in log-odds


def graded(witness: Witness, own: Floats, other: Floats, task: Task) -> Witness:
    """The witness with levels, if these promise a larger epsilon than its one event; else as it is.

    own, other: scores of the candidate on draws that it has not learned from, on the side that the event
    is more likely on, and on the other. For one claimed pure epsilon only.
    """
    if witness.aim.impossible or not math.isfinite(witness.promise):
        return witness
    own, other = np.sort(witness.sign * own), np.sort(witness.sign * other)
    cuts = _cuts(own, other, witness.threshold)
    counts = np.array([_counts(scores, cuts) for scores in (own, other)])
    cuts, counts = cuts[counts.any(axis=0)], counts[:, counts.any(axis=0)]
    first = cuts >= witness.threshold
    if not first.any():
        return witness
    sides = np.array([[len(own)], [len(other)]])
    odds = _smooth(counts, float(sides[0, 0] / sides[1, 0]), task.points[0][0])
    smooth = np.array([expit(odds), expit(-odds)]) * counts.sum(axis=0) / sides
    plain = _promised(smooth[:, first], None, task)
    best, weights, epsilon = plain, np.zeros(len(cuts), np.int64), plain
    for _ in range(_ROUNDS):
        tried = _weights(smooth, epsilon)
        if not tried.any():
            break
        epsilon = _promised(smooth, tried, task)
        if epsilon > best:
            best, weights = epsilon, tried
    if best <= plain + _BETTER * abs(plain) or not _fits(
        counts[:, weights > 0], expit(odds[weights > 0])
    ):
        return witness
    return replace(witness, grades=_merged(cuts, weights), promise=witness.promise + best - plain)


def _cuts(own: Floats, other: Floats, threshold: float) -> Floats:
    """Thresholds from high to low: of so many draws, then half as many more, and so on; and this one."""
    both = np.sort(np.concatenate([own, other]))[::-1]
    ranks, at = [], float(_RAREST)
    while at < len(both):
        ranks.append(round(at) - 1)
        at *= _WIDER
    return np.unique([threshold, *both[ranks], both[-1]])[::-1]


def _counts(scores: Floats, cuts: Floats) -> Floats:
    """How many scores are in each level: at least its cut, and below the one above it."""
    above = len(scores) - np.searchsorted(scores, cuts, side="left")
    return np.diff(above, prepend=0).astype(np.float64)


def _smooth(counts: Floats, sides: float, claimed: float) -> Floats:
    """The logarithm of the odds of every level, by a logistic regression on how rare its scores are.

    It follows straight lines between a few bends: far fewer numbers than levels, drawn to zero by a normal
    prior of about the claimed epsilon. sides: draws of the own one over the other's.
    """
    hits, both = counts[0], counts.sum(axis=0)
    total = np.cumsum(both)
    rare = -np.log((total - both / 2) / total[-1])
    base = math.log(sides)
    basis = np.column_stack(
        [np.ones_like(rare), rare, *(np.minimum(rare, bend) for bend in _BENDS)]
    )
    prior = np.eye(basis.shape[1]) / (_BEND * (claimed + _NEAR)) ** 2
    fitted = np.zeros(basis.shape[1])
    for _ in range(_NEWTON):
        share = expit(basis @ fitted + base)
        slope = basis.T @ (hits - both * share) - prior @ fitted
        curvature = (basis.T * (both * share * (1 - share))) @ basis + prior
        step = np.linalg.solve(curvature, slope)
        fitted = fitted + step * min(1.0, _FARTHEST / max(np.abs(basis @ step).max(), _FARTHEST))
    found: Floats = basis @ fitted + base
    return found


def _fits(counts: Floats, share: Floats) -> bool:
    """Whether the counts of levels with weight are no further from the curve than chance explains, by chi-square."""
    both = counts.sum(axis=0)
    squares = (counts[0] - both * share) ** 2 / (both * share * (1 - share) + 1)
    return bool(chdtrc(len(both), float(squares.sum())) > _UNLIKELY)


def _weights(masses: Floats, epsilon: float) -> Counts:
    """Integers up to ``HEAVIEST`` in proportion to the best weights, none below zero."""
    p, q = masses
    worth = np.maximum(p - math.exp(min(epsilon, _BEYOND)) * q, 0) / (p + q)
    found: Counts = np.rint(HEAVIEST * worth / (worth.max(initial=0.0) or 1)).astype(np.int64)
    return found


def _promised(masses: Floats, weights: Counts | None, task: Task) -> float:
    """The epsilon that is refuted in nine runs of ten, if these masses of the levels on either side are
    the truth: by these weights, or by all levels as one event."""
    p, q = masses
    draws = task.draws if weights is None else poisson_mean(task.draws)
    given = np.ones(len(p)) if weights is None else weights
    needed = _POWER - float(ndtri(task.alpha))

    def refuted(epsilon: float) -> bool:
        share = float(expit(epsilon))
        surplus = float(given @ ((1 - share) * p - share * q))
        variance = float(given**2 @ ((1 - share) ** 2 * p + share**2 * q))
        if weights is None:
            variance -= ((1 - share) * float(p.sum())) ** 2 + (share * float(q.sum())) ** 2
        return surplus > needed * math.sqrt(max(variance, 0.0) / draws)

    return _largest(refuted)


def _largest(refuted: Callable[[float], bool]) -> float:
    low, high = -_BEYOND, _BEYOND
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def _merged(cuts: Floats, weights: Counts) -> tuple[Grade, ...]:
    """One level for each weight above zero, from the heaviest on."""
    levels: list[Grade] = []
    for cut, weight in zip(cuts.tolist(), weights.tolist(), strict=True):
        if weight and levels and levels[-1].weight == weight:
            levels.pop()
        if weight:
            levels.append(Grade(cut, weight))
    return tuple(levels)
