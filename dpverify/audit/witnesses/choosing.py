"""Witnesses: events that tell two neighbors apart, chosen on draws that are then put aside."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpverify.audit.certificates import Aim, Point
from dpverify.audit.outputs.laws import AuditedLaw, Draws
from dpverify.audit.regions import Counted, region, share_of
from dpverify.audit.witnesses.calibrating import linear_odds
from dpverify.audit.witnesses.events import fingerprints
from dpverify.audit.witnesses.features import Candidate
from dpverify.audit.witnesses.promises import (
    OPTIMISM,
    POWER,
    TINY,
    Task,
    above_claimed,
    estimate,
    standard_errors,
)
from dpverify.privacy.numbers import Floats

_THRESHOLDS = 400
_SETTLED = 0.5  # where that is not in doubt, for a large bound
_PLAINER = 0.002  # what a later candidate, harder to explain, must promise more
_LEARNED = 0.04, 0.01  # and one that learned; at a second look
_OF_A_PROFILE = 2.0  # likewise, in the standard errors of a whole profile
_FEW_OTHERS, _SHARES = 10, (16, 24, 32, 40, 48, 54, 58, 61, 63)
_NARROW, _REPEATED = 64, 4


@dataclass(frozen=True, slots=True)
class Witness:
    """The event {sign * score >= threshold}; more likely on the side it was chosen for.

    aim: what it is to show. promise: positive where a refutation is expected; for one (epsilon, delta)
    the epsilon by which the certified bound will exceed the claimed one, for a whole profile the number
    of standard errors to spare. Of a score that learned a little is taken off: by chance some look good.
    """

    candidate: Candidate
    sign: int
    threshold: float
    aim: Aim
    promise: float

    def __str__(self) -> str:
        text = self.candidate.description
        if "{threshold}" not in text:
            text = text.replace("{{", "{").replace("}}", "}")  # as in a format
            return text if self.sign > 0 else f"not ({text})"
        if self.sign < 0:
            text = text.replace(">= {threshold}", "<= {threshold}")
        return text.format(threshold=f"{self.sign * self.threshold:.6g}")

    def happens(self, scores: Floats) -> NDArray[np.bool_]:
        """In which of the draws with these scores (the candidate's) the event happens."""
        if self.sign > 0:
            return np.asarray(scores >= self.threshold, dtype=np.bool_)
        return np.asarray(scores <= -self.threshold, dtype=np.bool_)

    def happenings(self, draws: Draws, scores: dict[int, Floats]) -> list[NDArray[np.bool_]]:
        """In which of these draws the event happens, alone in a list; and no guess at the other side.

        scores: of these draws by the id of a candidate, so that events of one candidate share them.
        """
        return [self.happens_in(draws, scores), np.zeros(len(draws), dtype=np.bool_)]

    def happens_in(self, draws: Draws, scores: dict[int, Floats]) -> NDArray[np.bool_]:
        """In which of these draws it happens. scores: as in ``happenings``."""
        key = id(self.candidate)
        if key not in scores:
            scores[key] = self.candidate.score(draws)
        return self.happens(scores[key])


@dataclass(frozen=True, slots=True)
class _Scored:
    """A batch, with equal outputs scored once where there are many: a score is a function of one draw."""

    draws: Draws
    places: NDArray[np.intp] | None

    @classmethod
    def of(cls, draws: Draws) -> _Scored:
        if draws.raw is not None or draws.numbers.shape[1] > _NARROW:
            return cls(draws, None)
        _, first, places = np.unique(fingerprints(draws), return_index=True, return_inverse=True)
        few = _REPEATED * len(first) <= len(draws)
        return cls(draws.select(first), places) if few else cls(draws, None)

    def by(self, candidate: Candidate) -> Floats:
        found = candidate.score(self.draws)
        return found if self.places is None else found[self.places]


def likelihood_ratio(left: AuditedLaw, right: AuditedLaw) -> Candidate:
    """The best score there is where both laws are known (Neyman, Pearson 1933)."""

    def score(draws: Draws) -> Floats:
        own, other = left.log_likelihood(draws), right.log_likelihood(draws)
        assert own is not None
        assert other is not None
        with np.errstate(invalid="ignore"):
            return np.nan_to_num(own - other, nan=0.0, posinf=np.inf, neginf=-np.inf)

    return Candidate("log-likelihood ratio >= {threshold}", score, both_signs=False, fitted=False)


def choose(
    left: Sequence[Draws],
    right: Sequence[Draws],
    candidates: Iterable[Candidate],
    task: Task,
    learned_on: tuple[Draws, Draws] | None = None,
) -> tuple[Witness, Witness]:
    """The most promising event for either direction: left over right, right over left."""
    ours, theirs = ranked(left, right, candidates, task, learned_on)
    return ours[0], theirs[0]


def ranked(
    left: Sequence[Draws],
    right: Sequence[Draws],
    candidates: Iterable[Candidate],
    task: Task,
    learned_on: tuple[Draws, Draws] | None = None,
    most: int = 1,
) -> tuple[tuple[Witness, ...], tuple[Witness, ...]]:
    """The ``most`` promising events for either direction, the best first, each of another candidate.

    ``left`` and ``right`` are batches of draws that no candidate has learned from; those that did
    not learn are judged on ``learned_on`` as well. A candidate with ``both_signs=False`` rises with
    the odds of left.
    """
    found: tuple[list[Witness], list[Witness]] = ([], [])
    fresh = [[_Scored.of(draws) for draws in batches] for batches in (left, right)]
    more = [[], []] if learned_on is None else [[_Scored.of(draws)] for draws in learned_on]

    def scored(candidate: Candidate) -> list[Floats]:
        sides = (
            batches + ([] if candidate.fitted else old)
            for batches, old in zip(fresh, more, strict=True)
        )
        return [np.concatenate([one.by(candidate) for one in batches]) for batches in sides]

    kept: dict[int, list[Floats]] = {}  # of those that promised more than all before
    most_yet = [-np.inf, -np.inf]
    handicap = _OF_A_PROFILE if len(task.points) > 1 else _LEARNED[task.refute]
    for candidate in candidates:
        scores = scored(candidate)
        rising = [np.sort(one) for one in scores]
        ordered = {1: rising, -1: [-one[::-1] for one in rising]}
        for side in (0, 1):
            natural = 1 - 2 * side
            for sign in (1, -1) if candidate.both_signs else (natural,):
                own, other = ordered[sign][side], ordered[sign][1 - side]
                threshold, aim, promise = _best_threshold(own, other, task)
                if candidate.both_signs is False and threshold == np.inf:
                    aim = Aim(aim.point, aim.share, impossible=True)
                promise -= handicap * candidate.fitted
                found[side].append(Witness(candidate, sign, threshold, aim, promise))
                if promise > most_yet[side]:
                    most_yet[side], kept[id(candidate)] = promise, scores

    def calibrated(witness: Witness, side: int) -> Witness:
        if witness.aim.impossible or witness.promise == -np.inf:
            return witness
        sides = kept.get(id(witness.candidate)) or scored(witness.candidate)
        if not task.refute:
            witness = _calibrated(witness, sides[side], sides[1 - side], task)
        return _with_share(witness, sides[side], sides[1 - side], task)

    ours, theirs = (
        tuple(calibrated(one, side) for one in _foremost(found[side], task, most))
        for side in (0, 1)
    )
    return ours, theirs


def _foremost(found: Sequence[Witness], task: Task, most: int) -> list[Witness]:
    """The plainest of the most promising, and next to it others that are not the same event."""
    best = _nothing(task)
    for witness in found:
        if witness.promise > best.promise + _PLAINER:
            best = witness
    chosen = [best]
    for witness in sorted(found, key=lambda one: -one.promise):
        same = any(w.candidate is witness.candidate or w.aim == witness.aim for w in chosen)
        if len(chosen) < most and witness.promise > -np.inf and not same:
            chosen.append(witness)
    return chosen


def along_curve(
    witness: Witness, own: Draws, other: Draws, task: Task, size: int
) -> tuple[Witness, ...]:
    """Events of the same score at other thresholds: from rare to common on the other side."""
    if not size:
        return ()
    scores = [witness.sign * witness.candidate.score(draws) for draws in (own, other)]
    rates = np.linspace(0, 1, size + 2)[1:-1] ** 2
    found = []
    for threshold in np.unique(np.quantile(scores[1], 1 - rates, method="higher")):
        happens = [np.count_nonzero(side >= threshold) for side in scores]
        (p, _), (q, _) = (estimate(np.asarray(h), len(own), 0.0) for h in happens)
        aim = replace(witness.aim, share=share_of(math.sqrt((1 - p) / p), math.sqrt((1 - q) / q)))
        aim = replace(aim, impossible=False)
        found.append(replace(witness, threshold=float(threshold), aim=aim))
    return tuple(found)


def _nothing(task: Task) -> Witness:
    everything = Candidate("everything", lambda draws: np.zeros(len(draws)), both_signs=True)
    return Witness(everything, 1, 0.0, Aim(task.points[0], share_of(1, 1)), -np.inf)


def _best_threshold(own: Floats, other: Floats, task: Task) -> tuple[float, Aim, float]:
    """The threshold t and the point for which {score >= t} promises most. own, other: scores in order."""
    thresholds = np.unique(own[_ranks(len(own))])
    hits = len(own) - np.searchsorted(own, thresholds, side="left")
    other_hits = len(other) - np.searchsorted(other, thresholds, side="left")
    promise = above_claimed if len(task.points) == 1 else standard_errors
    promised = promise(hits, len(own), other_hits, len(other), task)
    which, best = divmod(int(np.argmax(promised)), len(thresholds))
    p, _ = estimate(hits[best], len(own), 0.0)
    q, _ = estimate(other_hits[best], len(other), 0.0)
    aim = _aimed(task.points[which], float(p), float(q))
    return float(thresholds[best]), aim, float(promised[which][best])


def _calibrated(witness: Witness, own: Floats, other: Floats, task: Task) -> Witness:
    """With the threshold that promises most where odds are exponential in the score (``calibrating``).

    own, other: the candidate's scores.
    """
    settled = witness.promise > 0
    curve = linear_odds(witness.sign * own, witness.sign * other)
    if curve is None:
        return witness
    counts = curve.hits, len(own), curve.other_hits, len(other)
    if len(task.points) > 1:
        promised = standard_errors(*counts, task, doubt=OPTIMISM)
    else:
        power = _SETTLED if settled else POWER
        promised = above_claimed(*counts, task, power=power, optimism=0.0)
        if promised.max() < witness.promise:
            return witness  # a rare event apart from the rest, which a curve of two numbers cannot follow
    which, best = divmod(int(np.argmax(promised)), len(curve.thresholds))
    p, _ = estimate(curve.hits[best], len(own), 0.0)
    q, _ = estimate(curve.other_hits[best], len(other), 0.0)
    aim = _aimed(task.points[which], float(p), float(q))
    return replace(witness, threshold=float(curve.thresholds[best]), aim=aim)


def _with_share(witness: Witness, own: Floats, other: Floats, task: Task) -> Witness:
    """Where few others are to be expected, with the share that certifies most of one (epsilon, delta): spreads
    of logarithms say nothing then."""
    there = [np.count_nonzero(witness.sign * side >= witness.threshold) for side in (own, other)]
    hits, others = (
        task.draws * k // len(side) for k, side in zip(there, (own, other), strict=True)
    )
    if len(task.points) > 1 or others >= _FEW_OTHERS or not hits:
        return witness
    counted = Counted(int(hits), task.draws, int(others), task.draws)
    delta = witness.aim.point[1]
    best = max(_SHARES, key=lambda s: region(counted, s, task.alpha).epsilon_at(delta))
    return replace(witness, aim=replace(witness.aim, share=best))


def _aimed(point: Point, p: float, q: float) -> Aim:
    """At an event of these probabilities, by the spreads that they leave."""
    surplus = max(p - point[1], TINY)
    return Aim(point, share_of(math.sqrt(p * (1 - p)) / surplus, math.sqrt((1 - q) / q)))


def _ranks(size: int) -> NDArray[np.intp]:
    """Evenly spaced ranks, and finely in both tails: rare events count."""
    if size <= _THRESHOLDS:
        return np.arange(size)
    tail = np.geomspace(1, size, _THRESHOLDS // 4).astype(np.intp) - 1
    even = np.linspace(0, size - 1, _THRESHOLDS // 2).astype(np.intp)
    return np.concatenate([tail, even, size - 1 - tail])
