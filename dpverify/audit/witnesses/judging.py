"""Witnesses: events that tell two neighbors apart, each judged at the threshold that promises
most."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dpverify.audit.certificates import Aim
from dpverify.audit.outputs.laws import AuditedLaw, Draws
from dpverify.audit.witnesses.calibrating import gain_by_levels
from dpverify.audit.witnesses.events import fingerprints
from dpverify.audit.witnesses.features import Candidate
from dpverify.audit.witnesses.promises import Task
from dpverify.audit.witnesses.thresholds import Chosen, best_thresholds
from dpverify.privacy.numbers import Floats

PLAINER = 0.002  # how much more a later candidate, which is harder to explain, must promise
LEARNED = 0.04, 0.01  # likewise for one that learned; the second number at a second look
_OF_A_PROFILE = 2.0  # likewise for a whole profile, in its standard errors
_ROOT = 0.5  # likewise for the signed root, in standard errors
CONTENDERS = 5  # how many are compared at their best thresholds
CLOSE = 0.3  # with so much less promise than the best at most
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
class Scored:
    """A batch, with equal outputs scored once where there are many: a score is a function of
    one draw."""

    draws: Draws
    places: NDArray[np.intp] | None

    @classmethod
    def of(cls, draws: Draws) -> Scored:
        """Look for equal outputs where draws have few numbers."""
        if draws.raw is not None or draws.numbers.shape[1] > _NARROW:
            return cls(draws, None)
        _, first, places = np.unique(fingerprints(draws), return_index=True, return_inverse=True)
        few = _REPEATED * len(first) <= len(draws)
        return cls(draws.select(first), places) if few else cls(draws, None)

    def __len__(self) -> int:
        return len(self.draws) if self.places is None else len(self.places)

    def by(self, candidate: Candidate) -> Floats:
        """Return the score of every draw."""
        scores = candidate.score(self.draws)
        return scores if self.places is None else scores[self.places]


@dataclass(slots=True)
class Scores:
    """The scores that candidates give to both sides, by side. fresh: draws that no candidate
    has learned from; old: draws on which candidates that are not fitted are judged as well.
    kept: scores of the last candidates for which that was asked. gains: for every candidate that
    was judged, how much likelier it makes the sides of a draw (``gain_by_levels``).
    """

    fresh: list[list[Scored]]
    old: list[list[Scored]]
    kept: dict[int, list[Floats]] = field(default_factory=dict)
    gains: dict[int, float] = field(default_factory=dict)

    def by(self, candidate: Candidate) -> list[Floats]:
        """Return the scores of all draws on which the candidate is judged, by side."""
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
        """Keep these scores, and forget those that were kept long before."""
        self.kept[id(candidate)] = scores
        while len(self.kept) > 2 * CONTENDERS:
            del self.kept[next(iter(self.kept))]


def judged(
    scores: Scores, candidates: Iterable[Candidate], task: Task
) -> tuple[tuple[list[Witness], list[Witness]], list[Witness | None]]:
    """Return every candidate at the threshold that promises most, for either direction; and the
    largest signed roots.
    """
    witnesses: tuple[list[Witness], list[Witness]] = ([], [])
    suspects: list[Witness | None] = [None, None]
    most_yet = [-np.inf, -np.inf]
    one_point = len(task.points) == 1
    handicap = LEARNED[task.refute] if one_point else _OF_A_PROFILE
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
                if witness.promise > most_yet[side] - CLOSE:
                    most_yet[side] = max(witness.promise, most_yet[side])
                    scores.keep(candidate, given)
                if one_point:
                    other_one = _witness(candidate, sign, suspicious, _ROOT)
                    suspects[side] = _larger(suspects[side], other_one)
    return witnesses, suspects


def _witness(candidate: Candidate, sign: int, chosen: Chosen, handicap: float) -> Witness:
    aim = chosen.aim
    if candidate.both_signs is False and chosen.threshold == np.inf:
        aim = replace(aim, impossible=True)
    promise = chosen.promise - handicap * candidate.fitted
    return Witness(candidate, sign, chosen.threshold, aim, promise)


def _larger(before: Witness | None, now: Witness) -> Witness | None:
    """Return the one of the larger promise, the plainer one first; only positive ones count."""
    least = 0.0 if before is None else before.promise + PLAINER
    return now if now.promise > least and now.threshold < np.inf else before
