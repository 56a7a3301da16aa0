"""Comparison of the witnesses that promise most or are likeliest, at their best thresholds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpverify.audit.witnesses.judging import CLOSE, LEARNED, PLAINER, Scores, Witness
from dpverify.audit.witnesses.promises import Task
from dpverify.audit.witnesses.thresholds import Chosen, curve_of, moved

# standard errors by which a later one must be worth more by counting; a fitted one
_HARDER = 0.2, 0.5
_LIKELY = 4  # how many of the likeliest are compared besides
_FAR_LIKELIER = 5.0  # in the logarithm of the likelihood


def compared(
    best: Witness,
    witnesses: Sequence[Witness],
    side: int,
    scores: Scores,
    task: Task,
    number: int,
    *,
    likely: bool,
) -> Witness:
    """Return the witness that is worth most, among so many of those that promise nearly as much
    as the best, and the likeliest if asked for; the plainest where several are worth the same.

    It leaves out those whose curves of odds make the sides of all draws far less likely than
    another's: rare events are too few to tell scores by, and a score that tells more does so
    far out as well.
    """
    close = [one for one in witnesses if best.promise - CLOSE < one.promise]
    close = sorted(close, key=lambda one: -one.promise)[:number]
    if any(witness.aim.impossible for witness in close):
        return best
    tried, chosen_from = [], [*close, *(_likeliest(witnesses, scores) if likely else ())]
    for witness in (one for one in witnesses if any(one is other for other in chosen_from)):
        scored = [witness.sign * one for one in scores.fresh_by(witness.candidate)]
        sides = scored[side], scored[1 - side]
        tried.append((witness, sides, curve_of(*sides, task)))
    likelihood = max((curve.likely for _, _, curve in tried if curve is not None), default=-np.inf)
    gains = [scores.gains[id(witness.candidate)] * sum(map(len, s)) for witness, s, _ in tried]
    most, first = -np.inf, best
    for (witness, sides, curve), gain in zip(tried, gains, strict=True):
        if curve is not None and curve.likely < likelihood - _FAR_LIKELIER:
            continue
        # without a curve it may be apart from all others, but then it promises most
        if curve is None and gain < max(gains) - 2 * _FAR_LIKELIER and witness is not first:
            continue
        chosen = Chosen(witness.threshold, witness.aim, witness.promise)
        there, worth = moved(chosen, *sides, task, curve)
        # earlier ones are plainer, and a later one may look better by chance, the more so if rarer
        if most > -np.inf:
            hits = [np.count_nonzero(one >= there.threshold) + 1 for one in sides]
            worth -= _HARDER[witness.candidate.fitted] * math.sqrt(1 / hits[0] + 1 / hits[1])
        worth -= LEARNED[0] * witness.candidate.fitted
        if worth > most + PLAINER:
            best, most = witness, worth
    return best


def _likeliest(witnesses: Sequence[Witness], scores: Scores) -> list[Witness]:
    """Return witnesses of the scores that make the sides of all draws likeliest, each with the sign
    that promises more.
    """
    by_candidate: dict[int, Witness] = {}
    for one in witnesses:
        before = by_candidate.setdefault(id(one.candidate), one)
        if one.promise > before.promise:
            by_candidate[id(one.candidate)] = one
    promising = [key for key, one in by_candidate.items() if one.promise > -np.inf]
    promising.sort(key=lambda key: -scores.gains[key])
    return [by_candidate[key] for key in promising[:_LIKELY]]
