"""Choices of witnesses: the most promising, on draws that are then put aside."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy

from dpverify.audit.certificates import Aim
from dpverify.audit.confidence_regions import share_of
from dpverify.audit.outputs.laws import Draws
from dpverify.audit.witnesses.comparing import compared
from dpverify.audit.witnesses.features import Candidate
from dpverify.audit.witnesses.judging import (
    CLOSE,
    CONTENDERS,
    PLAINER,
    Scored,
    Scores,
    Witness,
    judged,
    likelihood_ratio,
)
from dpverify.audit.witnesses.promises import TINY, Task, estimate
from dpverify.audit.witnesses.thresholds import (
    Chosen,
    at_its_value,
    best_thresholds,
    curve_of,
    moved,
    with_share,
)
from dpverify.audit.witnesses.trends import clearest, expected_of
from dpverify.privacy.numbers import Floats

# distance below the claim beyond which nothing is refuted: then the largest bound counts
_HOPELESS = 0.1
# standard errors by which two directions promise as much, and what the better of both shows more
_TIED, _BETTER_OF_TWO = 4.0, 0.35


@dataclass(frozen=True, slots=True)
class Options:
    """Options for what is certified in one direction.

    witnesses: the most promising, the best first, each of another candidate. suspect: for one
    (epsilon, delta), the event of the largest signed root, in standard errors above the claim,
    which is its promise.
    """

    witnesses: tuple[Witness, ...]
    suspect: Witness | None


def choose(
    left: Sequence[Draws],
    right: Sequence[Draws],
    candidates: Iterable[Candidate],
    task: Task,
    learned_on: tuple[Draws, Draws] | None = None,
) -> tuple[Witness, Witness]:
    """Return the most promising event for either direction: left over right, right over left."""
    ours, theirs = ranked(left, right, candidates, task, learned_on)
    return ours.witnesses[0], theirs.witnesses[0]


def ranked(
    left: Sequence[Draws],
    right: Sequence[Draws],
    candidates: Iterable[Candidate],
    task: Task,
    learned_on: tuple[Draws, Draws] | None = None,
    most: int = 1,
    contenders: int = CONTENDERS,
) -> tuple[Options, Options]:
    """Return the ``most`` promising events for either direction, and the most suspicious one. Of
    a task that is to refute, the last event is the one of the largest bound; before it comes what
    may refute most, or, where that is the same event, the ``most`` that may.

    ``left`` and ``right`` are batches of draws that no candidate has learned from; those that did
    not learn are judged on ``learned_on`` as well. A candidate with ``both_signs=False`` rises
    with the odds of left. contenders: so many of the most promising are compared once more, at the
    thresholds that they would be certified at.
    """
    candidates = list(candidates)
    scores = Scores(
        [[Scored.of(draws) for draws in batches] for batches in (left, right)],
        [[], []] if learned_on is None else [[Scored.of(draws)] for draws in learned_on],
    )
    ours, theirs = _ranked(scores, candidates, task, most, contenders)
    if not task.refute:
        return ours, theirs
    plain = _ranked(scores, candidates, replace(task, refute=False), 1, CONTENDERS)
    return _with_bound(ours, plain[0].witnesses[0]), _with_bound(theirs, plain[1].witnesses[0])


def _ranked(
    scores: Scores, candidates: Sequence[Candidate], task: Task, most: int, contenders: int
) -> tuple[Options, Options]:
    events, suspects = judged(scores, candidates, task)
    task = replace(task, divides=task.divides and _gains_by_division(events, scores, task))

    foremost = [_foremost(events[side], task, most) for side in (0, 1)]
    by_trend: list[Witness | None] = [None, None]
    if len(task.points) == 1 and not task.refute and most == 1 and contenders > 1:
        most_promising = max(best[0].promise for best in foremost)
        for side, (best,) in enumerate(foremost):
            likely = best.promise > most_promising - CLOSE
            foremost[side] = [
                compared(best, events[side], side, scores, task, contenders, likely=likely)
            ]
        by_trend = _by_trend([best for (best,) in foremost], scores, candidates, task)

    def options(side: int) -> Options:
        trend, suspect = by_trend[side], suspects[side]
        witnesses: tuple[Witness, ...]
        if trend is None:
            witnesses = tuple(_finished(one, side, scores, task) for one in foremost[side])
        else:
            witnesses = (_settled(trend, side, scores, task),)
        if suspect is not None:
            suspect = _settled(suspect, side, scores, task)
        return Options(witnesses, suspect)

    return options(0), options(1)


def _by_trend(
    best: Sequence[Witness], scores: Scores, candidates: Sequence[Candidate], task: Task
) -> list[Witness | None]:
    """Return, for either direction, the event of the clearest trend, where its bound is expected
    to be larger than that of the best event, and more than this one promises; otherwise None. None
    at all where the best of either direction is clear by itself, or of a score that learned.
    """
    chosen: list[Witness | None] = [None, None]
    least = [
        max(one.promise, expected_of(one, scores, side, task)) for side, one in enumerate(best)
    ]
    if max(least) == math.inf or any(one.candidate.fitted for one in best):
        return chosen
    trend = clearest(scores, candidates)
    for side in (0, 1):
        event = None if trend is None else trend.event(scores, side, task)
        if event and event[1] > least[side]:
            chosen[side] = event[0]
    return chosen


def _with_bound(options: Options, bound: Witness) -> Options:
    """Return the options with the event of the largest bound as the last one."""
    first, *others = options.witnesses
    if not bound.is_same_as(first):
        return replace(options, witnesses=(first, bound))
    return replace(options, witnesses=(first, *others, bound)) if others else options


def _gains_by_division(
    events: tuple[list[Witness], list[Witness]], scores: Scores, task: Task
) -> bool:
    """Return whether the draws are to be divided: not where the other direction promises as much
    and a little more is shown by the better of two chances, with equal draws for either.
    """
    best = [max(one, key=lambda witness: witness.promise) for one in events]
    side = int(best[1].promise > best[0].promise)
    sides = [best[side].sign * one for one in scores.by(best[side].candidate)]
    hits = [np.count_nonzero(one >= best[side].threshold) for one in sides]
    (p, _), (q, _) = (
        estimate(np.asarray(hits[at]), len(sides[at]), 0.0) for at in (side, 1 - side)
    )
    delta = best[side].aim.point[1]
    own, other = math.sqrt(p * (1 - p)) / max(float(p) - delta, TINY), math.sqrt((1 - q) / q)
    error = math.hypot(own, other) / math.sqrt(task.draws)
    if best[1 - side].promise < best[side].promise - _TIED * error:
        return True
    less = 1 - (own + other) / math.hypot(own, other) / math.sqrt(2)
    return -float(scipy.special.ndtri(task.alpha)) * less > _BETTER_OF_TWO


def _with(
    witness: Witness,
    change: Callable[[Chosen, Floats, Floats, Task], Chosen],
    side: int,
    scores: Scores,
    task: Task,
) -> Witness:
    """Return the witness with another threshold or aim, from its scores."""
    if witness.aim.impossible or witness.promise == -np.inf:
        return witness
    sides = [witness.sign * one for one in scores.by(witness.candidate)]
    chosen = Chosen(witness.threshold, witness.aim, witness.promise)
    changed = change(chosen, sides[side], sides[1 - side], task)
    return replace(witness, threshold=changed.threshold, aim=changed.aim)


def _finished(witness: Witness, side: int, scores: Scores, task: Task) -> Witness:
    """Return the witness with its final threshold and share."""
    if not task.refute or witness.promise < -_HOPELESS:
        plain = replace(task, refute=False)
        witness = _with(witness, _along_its_curve, side, scores, plain)
    return _settled(witness, side, scores, task)


def _settled(witness: Witness, side: int, scores: Scores, task: Task) -> Witness:
    """Return the witness at its one value, if it has one, with its final share."""
    witness = _with(witness, at_its_value, side, scores, task)
    return _with(witness, with_share, side, scores, task)


def _along_its_curve(chosen: Chosen, own: Floats, other: Floats, task: Task) -> Chosen:
    return moved(chosen, own, other, task, curve_of(own, other, task))[0]


def _foremost(witnesses: Sequence[Witness], task: Task, most: int) -> list[Witness]:
    """Return the plainest of the most promising, and next to it others that are not the same
    event.
    """
    best = _nothing(task)
    for witness in witnesses:
        if witness.promise > best.promise + PLAINER:
            best = witness
    chosen = [best]
    for witness in sorted(witnesses, key=lambda one: -one.promise):
        same = any(w.candidate is witness.candidate or w.aim == witness.aim for w in chosen)
        if len(chosen) < most and witness.promise > -np.inf and not same:
            chosen.append(witness)
    return chosen


def refitted(
    options: tuple[Options, Options], draws: tuple[Draws, Draws], task: Task
) -> tuple[Options, Options]:
    """Return the options with the best scores learned again, on all draws so far, where these are
    of few numbers: then they and their thresholds are better known than from a part.

    The promises stay, which are from draws that the scores did not learn from.
    """
    learned: dict[int, tuple[Candidate, list[Floats]]] = {}

    def better(witness: Witness, side: int) -> Witness:
        again, key = witness.candidate.again, id(witness.candidate)
        if again is None:
            return witness
        if key not in learned:
            candidate = replace(again(*draws), again=again)
            learned[key] = candidate, [candidate.score(one) for one in draws]
        candidate, scores = learned[key]
        own, other = (witness.sign * scores[at] for at in (side, 1 - side))
        plain = replace(task, refute=False, divides=witness.aim.own != 0.5)
        chosen = replace(_fresh_threshold(own, other, plain), promise=witness.promise)
        return Witness(candidate, witness.sign, chosen.threshold, chosen.aim, chosen.promise)

    left, right = (
        replace(one, witnesses=(better(one.witnesses[0], side), *one.witnesses[1:]))
        for side, one in enumerate(options)
    )
    return left, right


def _fresh_threshold(own: Floats, other: Floats, task: Task) -> Chosen:
    chosen, _ = best_thresholds(np.sort(own), np.sort(other), task)
    for change in (_along_its_curve, at_its_value, with_share):
        chosen = change(chosen, own, other, task)
    return chosen


def along_curve(
    witness: Witness, own: Draws, other: Draws, task: Task, size: int
) -> tuple[Witness, ...]:
    """Return events of the same score at other thresholds: from rare to common on the other
    side.
    """
    if not size:
        return ()
    scores = [witness.sign * witness.candidate.score(draws) for draws in (own, other)]
    rates = np.linspace(0, 1, size + 2)[1:-1] ** 2
    witnesses = []
    for threshold in np.unique(np.quantile(scores[1], 1 - rates, method="higher")):
        happens = [np.count_nonzero(side >= threshold) for side in scores]
        (p, _), (q, _) = (
            # for single calls, each side has its own number
            estimate(np.asarray(hits), len(side), 0.0)
            for hits, side in zip(happens, scores, strict=True)
        )
        aim = replace(witness.aim, share=share_of(math.sqrt((1 - p) / p), math.sqrt((1 - q) / q)))
        aim = replace(aim, impossible=False, own=0.5)
        witnesses.append(replace(witness, threshold=float(threshold), aim=aim))
    return tuple(witnesses)


def _nothing(task: Task) -> Witness:
    everything = Candidate("everything", lambda draws: np.zeros(len(draws)), both_signs=True)
    return Witness(everything, 1, 0.0, Aim(task.points[0], share_of(1, 1)), -np.inf)


__all__ = [
    "CONTENDERS",
    "Options",
    "Witness",
    "along_curve",
    "choose",
    "likelihood_ratio",
    "ranked",
    "refitted",
]
