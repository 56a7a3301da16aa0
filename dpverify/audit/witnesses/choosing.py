"""Witnesses: events that tell two neighbors apart, chosen on draws that are then put aside."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import scipy
from numpy.typing import NDArray

from dpverify.audit.certificates import Aim
from dpverify.audit.confidence_regions import share_of
from dpverify.audit.outputs.laws import AuditedLaw, Draws
from dpverify.audit.witnesses.calibrating import gain_by_levels
from dpverify.audit.witnesses.events import fingerprints
from dpverify.audit.witnesses.features import Candidate
from dpverify.audit.witnesses.promises import TINY, Task, estimate
from dpverify.audit.witnesses.thresholds import (
    Chosen,
    at_its_value,
    best_thresholds,
    curve_of,
    moved,
    with_share,
)
from dpverify.privacy.numbers import Floats

_PLAINER = 0.002  # how much more a later candidate, which is harder to explain, must promise
_LEARNED = 0.04, 0.01  # likewise for one that learned; the second number at a second look
_OF_A_PROFILE = 2.0  # likewise for a whole profile, in its standard errors
_ROOT = 0.5  # likewise for the signed root, in standard errors
CONTENDERS, _CLOSE = (
    5,
    0.3,
)  # how many are compared at their best thresholds; with so much less promise
# standard errors by which a later one must be worth more by counting; a fitted one
_HARDER = 0.2, 0.5
_LIKELY = 4  # how many of the likeliest are compared besides
_FAR_LIKELIER = 5.0  # in the logarithm of the likelihood
# distance below the claim beyond which nothing is refuted: then the largest bound counts
_HOPELESS = 0.1
# standard errors by which two directions promise as much, and what the better of both shows more
_TIED, _BETTER_OF_TWO = 4.0, 0.35
_NARROW, _REPEATED = 64, 4


@dataclass(frozen=True, slots=True)
class Witness:
    """The event {sign * score >= threshold}; more likely on the side it was chosen for.

    aim: what it is to show. promise: positive where a refutation is expected; for one (epsilon,
    delta) the epsilon by which the certified bound will exceed the claimed one, for a whole
    profile the number of standard errors to spare. A little is taken off the promise of a
    learned score: by chance some look good.
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

    def is_same_as(self, other: Witness) -> bool:
        """Return whether both are the same event."""
        mine, its = ((one.candidate, one.sign, one.threshold) for one in (self, other))
        return mine == its

    def happens(self, scores: Floats) -> NDArray[np.bool_]:
        """Return in which of the draws with these scores (the candidate's) the event happens."""
        if self.sign > 0:
            return np.asarray(scores >= self.threshold, dtype=np.bool_)
        return np.asarray(scores <= -self.threshold, dtype=np.bool_)

    def happenings(self, draws: Draws, scores: dict[int, Floats]) -> list[NDArray[np.bool_]]:
        """Return in which of these draws the event happens, alone in a list; there is no guess
        at the other side.

        scores: those of these draws by the id of a candidate, so that events of one candidate
        share them.
        """
        return [self.happens_in(draws, scores), np.zeros(len(draws), dtype=np.bool_)]

    def happens_in(self, draws: Draws, scores: dict[int, Floats]) -> NDArray[np.bool_]:
        """Return in which of these draws the event happens. scores: as in ``happenings``."""
        key = id(self.candidate)
        if key not in scores:
            scores[key] = self.candidate.score(draws)
        return self.happens(scores[key])


@dataclass(frozen=True, slots=True)
class _Scored:
    """A batch, with equal outputs scored once where there are many: a score is a function of
    one draw."""

    draws: Draws
    places: NDArray[np.intp] | None

    @classmethod
    def of(cls, draws: Draws) -> _Scored:
        if draws.raw is not None or draws.numbers.shape[1] > _NARROW:
            return cls(draws, None)
        _, first, places = np.unique(fingerprints(draws), return_index=True, return_inverse=True)
        few = _REPEATED * len(first) <= len(draws)
        return cls(draws.select(first), places) if few else cls(draws, None)

    def __len__(self) -> int:
        return len(self.draws) if self.places is None else len(self.places)

    def by(self, candidate: Candidate) -> Floats:
        scores = candidate.score(self.draws)
        return scores if self.places is None else scores[self.places]


def likelihood_ratio(left: AuditedLaw, right: AuditedLaw) -> Candidate:
    """Return the best score there is where both laws are known (Neyman, Pearson 1933)."""

    def score(draws: Draws) -> Floats:
        own, other = left.log_likelihood(draws), right.log_likelihood(draws)
        assert own is not None
        assert other is not None
        with np.errstate(invalid="ignore"):
            return np.nan_to_num(own - other, nan=0.0, posinf=np.inf, neginf=-np.inf)

    return Candidate("log-likelihood ratio >= {threshold}", score, both_signs=False, fitted=False)


@dataclass(frozen=True, slots=True)
class Options:
    """Options for what is certified in one direction.

    witnesses: the most promising, the best first, each of another candidate. suspect: for one
    (epsilon, delta), the event of the largest signed root, in standard errors above the claim,
    which is its promise.
    """

    witnesses: tuple[Witness, ...]
    suspect: Witness | None


@dataclass(slots=True)
class _Scores:
    """The scores that candidates give to both sides, by side. fresh: draws that no candidate
    has learned from; old: draws on which candidates that are not fitted are judged as well.
    kept: scores of the last candidates for which that was asked. gains: for every candidate that
    was judged, how much likelier it makes the sides of a draw (``gain_by_levels``).
    """

    fresh: list[list[_Scored]]
    old: list[list[_Scored]]
    kept: dict[int, list[Floats]] = field(default_factory=dict)
    gains: dict[int, float] = field(default_factory=dict)

    def by(self, candidate: Candidate) -> list[Floats]:
        if id(candidate) in self.kept:
            return self.kept[id(candidate)]
        sides = (
            batches + ([] if candidate.fitted else old)
            for batches, old in zip(self.fresh, self.old, strict=True)
        )
        return [np.concatenate([one.by(candidate) for one in batches]) for batches in sides]

    def fresh_by(self, candidate: Candidate) -> list[Floats]:
        """Return the scores of the fresh draws alone, on which all candidates are judged alike."""
        sizes = [sum(map(len, batches)) for batches in self.fresh]
        return [one[:size] for one, size in zip(self.by(candidate), sizes, strict=True)]

    def keep(self, candidate: Candidate, scores: list[Floats]) -> None:
        self.kept[id(candidate)] = scores
        while len(self.kept) > 2 * CONTENDERS:
            del self.kept[next(iter(self.kept))]


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
    """Return the ``most`` promising events for either direction, and the most suspicious one.

    ``left`` and ``right`` are batches of draws that no candidate has learned from; those that did
    not learn are judged on ``learned_on`` as well. A candidate with ``both_signs=False`` rises
    with the odds of left. contenders: so many of the most promising are compared once more, at the
    thresholds that they would be certified at.
    """
    scores = _Scores(
        [[_Scored.of(draws) for draws in batches] for batches in (left, right)],
        [[], []] if learned_on is None else [[_Scored.of(draws)] for draws in learned_on],
    )
    judged, suspects = _judged(scores, candidates, task)
    task = replace(task, divides=task.divides and _gains_by_division(judged, scores, task))

    foremost = [_foremost(judged[side], task, most) for side in (0, 1)]
    most_promising = max(best[0].promise for best in foremost)

    def options(side: int) -> Options:
        best = foremost[side]
        if len(task.points) == 1 and not task.refute and most == 1 and contenders > 1:
            likely = _LIKELY if best[0].promise > most_promising - _CLOSE else 0
            likeliest = _likeliest(judged[side], scores, likely)
            best = [_compared(best[0], judged[side], likeliest, side, scores, task, contenders)]
        witnesses = tuple(_finished(one, side, scores, task) for one in best)
        suspect = suspects[side]
        if suspect is not None:
            suspect = _with(suspect, at_its_value, side, scores, task)
            suspect = _with(suspect, with_share, side, scores, task)
        return Options(witnesses, suspect)

    return options(0), options(1)


def _judged(
    scores: _Scores, candidates: Iterable[Candidate], task: Task
) -> tuple[tuple[list[Witness], list[Witness]], list[Witness | None]]:
    """Return every candidate at the threshold that promises most, for either direction; and the
    largest signed roots.
    """
    witnesses: tuple[list[Witness], list[Witness]] = ([], [])
    suspects: list[Witness | None] = [None, None]
    most_yet = [-np.inf, -np.inf]
    one_point = len(task.points) == 1
    handicap = _LEARNED[task.refute] if one_point else _OF_A_PROFILE
    for candidate in candidates:
        given = scores.by(candidate)
        rising = [np.sort(one) for one in given]
        if one_point:
            scores.gains[id(candidate)] = gain_by_levels(rising[0], rising[1])
        ordered = {1: rising, -1: [-one[::-1] for one in rising]}
        for side in (0, 1):
            for sign in (1, -1) if candidate.both_signs else (1 - 2 * side,):
                own, other = ordered[sign][side], ordered[sign][1 - side]
                best, suspicious = best_thresholds(own, other, task)
                witness = _witness(candidate, sign, best, handicap)
                witnesses[side].append(witness)
                if witness.promise > most_yet[side] - _CLOSE:
                    most_yet[side] = max(witness.promise, most_yet[side])
                    scores.keep(candidate, given)
                if one_point:
                    other_one = _witness(candidate, sign, suspicious, _ROOT)
                    suspects[side] = _larger(suspects[side], other_one)
    return witnesses, suspects


def _gains_by_division(
    judged: tuple[list[Witness], list[Witness]], scores: _Scores, task: Task
) -> bool:
    """Return whether the draws are to be divided: not where the other direction promises as much
    and a little more is shown by the better of two chances, with equal draws for either.
    """
    best = [max(one, key=lambda witness: witness.promise) for one in judged]
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


def _witness(candidate: Candidate, sign: int, chosen: Chosen, handicap: float) -> Witness:
    aim = chosen.aim
    if candidate.both_signs is False and chosen.threshold == np.inf:
        aim = replace(aim, impossible=True)
    promise = chosen.promise - handicap * candidate.fitted
    return Witness(candidate, sign, chosen.threshold, aim, promise)


def _larger(before: Witness | None, now: Witness) -> Witness | None:
    """Return the one of the larger promise, the plainer one first; only positive ones count."""
    least = 0.0 if before is None else before.promise + _PLAINER
    return now if now.promise > least and now.threshold < np.inf else before


def _with(
    witness: Witness,
    change: Callable[[Chosen, Floats, Floats, Task], Chosen],
    side: int,
    scores: _Scores,
    task: Task,
) -> Witness:
    """Return the witness with another threshold or aim, from its scores."""
    if witness.aim.impossible or witness.promise == -np.inf:
        return witness
    sides = [witness.sign * one for one in scores.by(witness.candidate)]
    chosen = Chosen(witness.threshold, witness.aim, witness.promise)
    changed = change(chosen, sides[side], sides[1 - side], task)
    return replace(witness, threshold=changed.threshold, aim=changed.aim)


def _finished(witness: Witness, side: int, scores: _Scores, task: Task) -> Witness:
    """Return the witness with its final threshold and share."""
    if not task.refute or witness.promise < -_HOPELESS:
        plain = replace(task, refute=False)
        witness = _with(witness, _along_its_curve, side, scores, plain)
    witness = _with(witness, at_its_value, side, scores, task)
    return _with(witness, with_share, side, scores, task)


def _along_its_curve(chosen: Chosen, own: Floats, other: Floats, task: Task) -> Chosen:
    return moved(chosen, own, other, task, curve_of(own, other, task))[0]


def _compared(
    best: Witness,
    witnesses: Sequence[Witness],
    likeliest: Sequence[Witness],
    side: int,
    scores: _Scores,
    task: Task,
    number: int,
) -> Witness:
    """Return the witness that is worth most, among those that promise nearly as much as the
    best and the likeliest; the plainest where several are worth the same.

    It leaves out those whose curves of odds make the sides of all draws far less likely than
    another's: rare events are too few to tell scores by, and a score that tells more does so
    far out as well.
    """
    close = [one for one in witnesses if best.promise - _CLOSE < one.promise]
    close = sorted(close, key=lambda one: -one.promise)[:number]
    if any(witness.aim.impossible for witness in close):
        return best
    tried, chosen_from = [], [*close, *likeliest]
    for witness in (one for one in witnesses if any(one is other for other in chosen_from)):
        scored = [witness.sign * one for one in scores.fresh_by(witness.candidate)]
        sides = scored[side], scored[1 - side]
        tried.append((witness, sides, curve_of(*sides, task)))
    likely = max((curve.likely for _, _, curve in tried if curve is not None), default=-np.inf)
    gains = [scores.gains[id(witness.candidate)] * sum(map(len, s)) for witness, s, _ in tried]
    most, first = -np.inf, best
    for (witness, sides, curve), gain in zip(tried, gains, strict=True):
        if curve is not None and curve.likely < likely - _FAR_LIKELIER:
            continue
        # without a curve it may be apart from all others, but then it promises most
        if curve is None and gain < max(gains) - 2 * _FAR_LIKELIER and witness is not first:
            continue
        chosen = Chosen(witness.threshold, witness.aim, witness.promise)
        there, worth = moved(chosen, *sides, task, curve)
        if (
            most > -np.inf
            # earlier ones are plainer, and a later one may look better by chance, the more so if
            # rarer
        ):
            hits = [np.count_nonzero(one >= there.threshold) + 1 for one in sides]
            worth -= _HARDER[witness.candidate.fitted] * math.sqrt(1 / hits[0] + 1 / hits[1])
        worth -= _LEARNED[0] * witness.candidate.fitted
        if worth > most + _PLAINER:
            best, most = witness, worth
    return best


def _likeliest(witnesses: Sequence[Witness], scores: _Scores, number: int) -> list[Witness]:
    """Return so many witnesses of the scores that make the sides of all draws likeliest, each with
    the sign that promises more.
    """
    by_candidate: dict[int, Witness] = {}
    for one in witnesses:
        before = by_candidate.setdefault(id(one.candidate), one)
        if one.promise > before.promise:
            by_candidate[id(one.candidate)] = one
    promising = [key for key, one in by_candidate.items() if one.promise > -np.inf]
    promising.sort(key=lambda key: -scores.gains[key])
    return [by_candidate[key] for key in promising[:number]]


def _foremost(witnesses: Sequence[Witness], task: Task, most: int) -> list[Witness]:
    """Return the plainest of the most promising, and next to it others that are not the same
    event.
    """
    best = _nothing(task)
    for witness in witnesses:
        if witness.promise > best.promise + _PLAINER:
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
