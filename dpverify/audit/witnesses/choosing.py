"""Witnesses: events that tell two neighbors apart, chosen on draws that are then put aside."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpverify.audit.certificates import Aim, Point
from dpverify.audit.outputs.draws import Floats
from dpverify.audit.outputs.laws import AuditedLaw, Draws
from dpverify.audit.regions import Counts, share_of
from dpverify.audit.witnesses.calibrating import linear_odds
from dpverify.audit.witnesses.events import fingerprints
from dpverify.audit.witnesses.features import Candidate

_THRESHOLDS = 400
_POWER = 1.3  # choose for a refutation that nine runs of ten would repeat
_SETTLED = 0.5  # where that is not in doubt, for a large bound
_OPTIMISM = 2.0  # the best of many looks better than it is, by about two standard errors
_DEFICITS = 1.05, 1.2, 1.5, 2, 4, 10, 30, 100, 1000  # of noise; a close look is for the first
_PLAIN = 3.0  # standard errors by which a larger one shows
_PLAINER = 0.002  # what a later candidate, harder to explain, must promise more
_LEARNED = 0.04, 0.01  # and one that learned; at a second look
_OF_A_PROFILE = 2.0  # likewise, in the standard errors of a whole profile
_EVIDENT = 2.5  # standard errors above the claim: hardly by chance, even of many events
_COMMON = 150  # hits; of rarer events there are so many that some are evident by chance
_A_STANDARD_ERROR = 0.005  # of epsilon, as promises are compared
_NARROW, _REPEATED = 64, 4
_BEYOND = 300.0
_TINY = 1e-12


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


@dataclass(frozen=True, slots=True)
class Task:
    """What a witness is chosen for.

    points: those of the claim. alpha, draws: of the certificate to come. refute: of one (epsilon,
    delta), look for what may refute it first, and for a large bound second.
    """

    points: Sequence[Point]
    alpha: float
    draws: int
    refute: bool = False


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
        if task.refute or witness.aim.impossible or witness.promise == -np.inf:
            return witness
        sides = kept.get(id(witness.candidate)) or scored(witness.candidate)
        return _calibrated(witness, sides[side], sides[1 - side], task)

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
        (p, _), (q, _) = (_estimate(np.asarray(h), len(own), 0.0) for h in happens)
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
    promise = _above_claimed if len(task.points) == 1 else _standard_errors
    promised = promise(hits, len(own), other_hits, len(other), task)
    which, best = divmod(int(np.argmax(promised)), len(thresholds))
    p, _ = _estimate(hits[best], len(own), 0.0)
    q, _ = _estimate(other_hits[best], len(other), 0.0)
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
        promised = _standard_errors(*counts, task, doubt=_OPTIMISM)
    else:
        power = _SETTLED if settled else _POWER
        promised = _above_claimed(*counts, task, power=power, optimism=0.0)
        if promised.max() < witness.promise:
            return witness  # a rare event apart from the rest, which a curve of two numbers cannot follow
    which, best = divmod(int(np.argmax(promised)), len(curve.thresholds))
    p, _ = _estimate(curve.hits[best], len(own), 0.0)
    q, _ = _estimate(curve.other_hits[best], len(other), 0.0)
    aim = _aimed(task.points[which], float(p), float(q))
    return replace(witness, threshold=float(curve.thresholds[best]), aim=aim)


def _aimed(point: Point, p: float, q: float) -> Aim:
    """At an event of these probabilities, by the spreads that they leave."""
    surplus = max(p - point[1], _TINY)
    return Aim(point, share_of(math.sqrt(p * (1 - p)) / surplus, math.sqrt((1 - q) / q)))


def _above_claimed(
    hits: Counts | Floats,
    draws: int,
    other_hits: Counts | Floats,
    other_draws: int,
    task: Task,
    *,
    power: float = _POWER,
    optimism: float = _OPTIMISM,
) -> Floats:
    """Of one (epsilon, delta): the epsilon to be certified at delta, less the claimed one."""
    cautious = (power - float(ndtri(task.alpha))) * np.sqrt(draws / task.draws) + optimism
    p, p_low = _estimate(hits, draws, -cautious)
    q, q_high = _estimate(other_hits, other_draws, cautious)
    ((epsilon, delta),) = task.points
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.hypot(np.log((p - delta) / (p_low - delta)), np.log(q_high / q))
        above = np.log((p - delta) / q) - error - epsilon
        if task.refute:
            # Bounds of rare events are noisy, so the largest prefers them, or shuns them altogether;
            # in standard errors all events are as noisy.
            spread = np.hypot(np.sqrt(p * (1 - p)) / (p - delta), np.sqrt((1 - q) / q))
            excess = (np.log((p - delta) / q) - epsilon) / spread * np.sqrt(draws)
            short = _A_STANDARD_ERROR * np.minimum(excess - cautious, 0.0)
            evident = (excess > _EVIDENT) & (np.asarray(hits) >= _COMMON)
            above = np.where(evident, np.maximum(above, short), above)
    return np.where(p_low > delta, above, -np.inf)[None, :]


def _standard_errors(
    hits: Counts | Floats,
    draws: int,
    other_hits: Counts | Floats,
    other_draws: int,
    task: Task,
    doubt: float = 1.0,
) -> Floats:
    """Of a whole profile: by how many standard errors the claim is to be refuted, less those needed.

    Most points of a profile are too noisy to compare on a few draws, and the best of many noisy ones
    is noise. So what is seen is averaged with what a deficit of noise would show at the best threshold,
    as if that were known to its own size (``_expected``). doubt: how many times as noisy what is seen is
    taken to be.
    """
    p, _ = _estimate(hits, draws, 0.0)
    q, _ = _estimate(other_hits, other_draws, 0.0)
    epsilon, delta = np.array(task.points).T[:, :, None]
    factor = np.exp(np.minimum(epsilon, _BEYOND))
    variance = p * (1 - p) / draws + factor**2 * q * (1 - q) / other_draws
    seen = p - factor * q - delta
    plain = (seen - _PLAIN * np.sqrt(variance)).max(axis=1)
    expected = _expected(epsilon[:, 0], delta[:, 0], plain)[:, None]
    believed = expected**2 / (expected**2 + doubt**2 * variance)
    beforehand = expected - (seen.max(axis=1, keepdims=True) - seen)
    fresh = np.sqrt(variance * draws / task.draws)
    needed = -float(ndtri(task.alpha))
    promised: Floats = (believed * seen + (1 - believed) * beforehand) / fresh - needed
    if promised.max() > -needed:
        return promised
    shares: Floats = (seen + delta - needed * fresh) / np.maximum(delta, _TINY)
    return np.minimum(shares - 1, 0.0) - needed  # nothing to refute: show most of what is claimed


def _expected(epsilon: Floats, delta: Floats, plain: Floats) -> Floats:
    """What a deficit of noise shows at each point: 5%, or the largest that is plainly there.

    With f times less noise about f delta(epsilon / f) - delta(epsilon). Under a claim much smaller than the
    truth, what 5% would show is nothing beside what is seen. plain: of each point, the largest excess that
    is hardly chance.
    """
    shown = np.array([f * np.interp(epsilon / f, epsilon, delta) - delta for f in _DEFICITS])
    at = int(np.argmax(plain))
    seen = np.flatnonzero(shown[:, at] <= plain[at])
    found: Floats = shown[seen[-1] if len(seen) else 0]
    return found


def _ranks(size: int) -> NDArray[np.intp]:
    """Evenly spaced ranks, and finely in both tails: rare events count."""
    if size <= _THRESHOLDS:
        return np.arange(size)
    tail = np.geomspace(1, size, _THRESHOLDS // 4).astype(np.intp) - 1
    even = np.linspace(0, size - 1, _THRESHOLDS // 2).astype(np.intp)
    return np.concatenate([tail, even, size - 1 - tail])


def _estimate(hits: Counts | Floats, draws: int, errors: float) -> tuple[Floats, Floats]:
    """The probability, and where it is that many standard errors away; good for few hits too."""
    middle = (hits + 0.5) / (draws + 1)
    shift = errors**2 / 2 / draws
    spread = errors * np.sqrt(middle * (1 - middle) / draws + (errors / 2 / draws) ** 2)
    end = (middle + shift + spread) / (1 + 2 * shift)
    return middle, np.clip(end, 0.0, 1.0)
