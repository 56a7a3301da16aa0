"""The attack on a claim with a number of draws fixed beforehand.

On every pair some draws choose an event for either direction, and the point of the claim that it is to
refute; fresh draws certify it. Most of the false-alarm probability goes to the direction and pair
that looked most promising on the first draws: that choice is free, since the second are independent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc

from dpverify.audit.certificates import Certificate, fewest_draws, tested_points
from dpverify.audit.certificates import certify as certified
from dpverify.audit.neighbors.pairs import NeighboringPair
from dpverify.audit.outputs.draws import together
from dpverify.audit.outputs.laws import AuditedLaw, CallableDraws, Draws, all_failed, is_known
from dpverify.audit.regions import Counted, Counts
from dpverify.audit.subjects import Target
from dpverify.audit.witnesses.choosing import Witness, along_curve, likelihood_ratio, ranked
from dpverify.audit.witnesses.features import Candidate
from dpverify.audit.witnesses.learned import Effort, candidates
from dpverify.audit.witnesses.promises import Task
from dpverify.privacy import Guarantee
from dpverify.privacy.numbers import Floats
from dpverify.randomness import SeededBits

DIRECTIONS = ("left over right", "right over left")
_MAIN = 0.9  # of alpha for the most promising direction; the others share the rest
_SEVERAL = 0.8, 0.2  # of that, where a second look left it in doubt which event tells most
_WITHOUT_CURVE = 0.9  # of alpha; the rest is for the trade-off curve, if that is asked for
_CHUNK = 1 << 22  # numbers drawn at a time
_ENOUGH = 50_000  # draws a side from which some may be spent on a second look
_BATCHES = 16  # of a function that gives many outputs at once, compared with each other
_EXPECTED, _NEVER = 5, 1e-12
_LEARNING, _CHOOSING, _CERTIFYING, _AGAIN = range(4)


class InvalidRun(ValueError):
    """An audit that says nothing, because nothing was audited."""


@dataclass(frozen=True, slots=True)
class FaultResult:
    """Whether one planted fault was seen, and by which certificate (the strongest found).

    trials: draws a side and pair with which it was caught, or missed. needs: of a missed one, about how many show
    it by that event; infinite where none would, NaN of a caught one.
    """

    name: str
    caught: bool
    strongest: Certificate
    trials: int
    needs: float = math.nan


@dataclass(frozen=True, slots=True)
class Attempt:
    """What was certified of a fault, the strongest of its pair last; and the pairs, the most promising first."""

    tried: list[Certificate]
    order: Sequence[int]

    @property
    def refuted(self) -> bool:
        """Whether the last one refutes the claim."""
        return bool(self.tried) and self.tried[-1].refuted


@dataclass(frozen=True, slots=True)
class Study:
    """What the first draws on a pair led to.

    laws: of both sides. witnesses: an event for either direction; besides: after a second look, those that
    promised most after it; along: more of them on the curve. draws: how many are left to certify with.
    """

    index: int
    laws: tuple[AuditedLaw, AuditedLaw]
    witnesses: tuple[Witness, Witness]
    besides: tuple[tuple[Witness, ...], ...]
    along: tuple[tuple[Witness, ...], ...]
    draws: int

    @property
    def promise(self) -> float:
        """That of the better direction."""
        return max(witness.promise for witness in self.witnesses)

    def shots(self, side: int, alpha: float) -> list[Shot]:
        """In one direction; several events share ``alpha``."""
        several = (self.witnesses[side], *self.besides[side])
        shares = _SEVERAL[: len(several)]
        each = alpha / sum(shares)
        return [Shot(side, w, each * share) for w, share in zip(several, shares, strict=True)]


@dataclass(frozen=True, slots=True)
class Shot:
    """An event to be certified, the side that it is more likely on, and at which level."""

    side: int
    witness: Witness
    alpha: float


@dataclass(frozen=True, slots=True)
class FixedAttack:
    """``trials`` draws a side and pair; ``alpha`` for everything that one call certifies.

    curve: how many more events to certify on the most promising pair, along the trade-off curve.
    """

    guarantee: Guarantee
    pairs: Sequence[NeighboringPair]
    trials: int
    alpha: float
    seed: int
    curve: int = 0

    def all_pairs(self, target: Target, stream: int) -> tuple[Certificate, ...]:
        """Both directions of every pair, and the curve."""
        studies = [self.study(target, stream, index) for index in range(len(self.pairs))]
        shots = self.shots(studies)
        found = [self.certify(stream, study, shots[study.index]) for study in studies]
        return tuple(certificate for certificates in found for certificate in certificates)

    def fault(self, name: str, target: Target, stream: int) -> FaultResult:
        """Stops at the first pair that refutes the claim for the faulty mechanism."""
        found = self.attempt(target, stream, range(len(self.pairs)))
        return FaultResult(name, found.refuted, max(found.tried, key=strength), self.trials)

    def attempt(
        self, target: Target, stream: int, order: Sequence[int], *, thorough: bool = True
    ) -> Attempt:
        """On one pair after another, in this order, until one refutes the claim.

        Pairs that promise nothing come last, and only if ``thorough``.
        """
        tried: list[Certificate] = []
        promises: dict[int, float] = {}
        doubtful: list[Study] = []
        for index in order:
            study = self.study(target, stream, index)
            promises[index] = study.promise
            if study.promise <= 0:
                doubtful.append(study)
            elif self._refuted(stream, study, tried):
                return Attempt(tried, order)
        for study in sorted(doubtful, key=lambda one: -one.promise) if thorough else ():
            if self._refuted(stream, study, tried):
                break
        return Attempt(tried, sorted(order, key=lambda index: -promises[index]))

    def _refuted(self, stream: int, study: Study, tried: list[Certificate]) -> bool:
        """Certify both directions; the stronger comes last in ``tried``."""
        each = self.alpha / (2 * len(self.pairs))
        shots = [shot for side in (0, 1) for shot in study.shots(side, each)]
        tried += sorted(self.certify(stream, study, shots), key=strength)
        return tried[-1].refuted

    def shots(self, studies: Sequence[Study]) -> list[list[Shot]]:
        """What is certified on every pair. Alpha follows the promises, made before any such draw."""
        alpha = self.alpha * (_WITHOUT_CURVE if self.curve else 1)
        places = [(study.index, side) for study in studies for side in (0, 1)]
        main = max(places, key=lambda place: studies[place[0]].witnesses[place[1]].promise)
        rest = alpha * (1 - _MAIN) / (len(places) - 1)
        shots = [
            [
                *study.shots(0, alpha * _MAIN if (study.index, 0) == main else rest),
                *study.shots(1, alpha * _MAIN if (study.index, 1) == main else rest),
            ]
            for study in studies
        ]
        best, side = studies[main[0]], main[1]
        for witness in best.along[side]:
            shots[main[0]].append(Shot(side, witness, (self.alpha - alpha) / self.curve))
        return shots

    def study(self, target: Target, stream: int, index: int) -> Study:
        """The first draws on a pair, and the events that they led to."""
        pair = self.pairs[index]
        laws = target(pair.left), target(pair.right)
        address = (self.seed, stream, index)

        def drawn(part: int, size: int) -> list[Draws]:
            return [law.draw(SeededBits(*address, s, part), size) for s, law in enumerate(laws)]

        known, points = is_known(laws[0]), tested_points(self.guarantee)
        learning, choosing = study_sizes(self.trials, known, len(points))
        first, second = drawn(_LEARNING, learning), drawn(_CHOOSING, choosing)
        refuse_failures(pair.name, first)
        left = self.trials - learning - choosing

        def chosen(alpha: float, most: int = 1) -> list[tuple[Witness, ...]]:
            task = Task(points, alpha * _MAIN, left, refute=most > 1)
            found = self._candidates(pair, laws, first, known, weak=most > 1)
            learned_on = first[0], first[1]
            return [*ranked([second[0]], [second[1]], found, task, learned_on, most)]

        options = chosen(self.alpha)
        doubtful = max(one.promise for (one,) in options) <= 0
        least = fewest_draws(self.guarantee, self.alpha / 2)
        affordable = self.trials >= _ENOUGH and left - choosing >= least
        if doubtful and not known and len(points) == 1 and affordable:
            # Better fewer draws on the right event: all that was seen teaches, as many again choose.
            first = [together(batches) for batches in zip(first, second, strict=True)]
            second = drawn(_AGAIN, choosing)
            left -= choosing
            options = chosen(self.alpha * _SEVERAL[0], len(_SEVERAL))
        witnesses = options[0][0], options[1][0]
        task = Task(points, self.alpha * _MAIN, left)
        along = tuple(
            along_curve(witness, second[side], second[1 - side], task, self.curve)
            for side, witness in enumerate(witnesses)
        )
        besides = tuple(several[1:] for several in options)
        return Study(index, laws, witnesses, besides, along, left)

    def _candidates(
        self,
        pair: NeighboringPair,
        laws: tuple[AuditedLaw, AuditedLaw],
        draws: Sequence[Draws],
        known: bool,
        *,
        weak: bool,
    ) -> list[Candidate]:
        effort = Effort.QUICK if known else Effort.FULL
        learned = candidates(
            *draws,
            law_known=known,
            difference=suggested_direction(pair),
            seed=self.seed % 2**32,
            effort=effort,
            weak=weak,
        )
        return [likelihood_ratio(*laws), *learned] if known else learned

    def certify(self, stream: int, study: Study, shots: Sequence[Shot]) -> list[Certificate]:
        """Fresh draws on these events; another seed or stream gives other draws."""
        draws, address = study.draws, (self.seed, stream, study.index)
        witnesses = [shot.witness for shot in shots]
        counts = [
            _hits(law, witnesses, (*address, side, _CERTIFYING), draws)
            for side, law in enumerate(study.laws)
        ]
        name, found = self.pairs[study.index].name, []
        for k, shot in enumerate(shots):
            counted = Counted(counts[shot.side][k], draws, counts[1 - shot.side][k], draws)
            where = (name, DIRECTIONS[shot.side], str(shot.witness))
            certificate = certified(where, counted, shot.witness.aim, shot.alpha, self.guarantee)
            if math.isnan(certificate.epsilon):
                raise InvalidRun(f"The counts of {certificate} give no bound.")
            found.append(certificate)
        return found


def suggested_direction(pair: NeighboringPair) -> Floats | None:
    """The difference of the two datasets' column sums: where a sum or a mean would move."""
    try:
        sides = [np.asarray(data, dtype=np.float64) for data in (pair.left, pair.right)]
    except (TypeError, ValueError):
        return None
    rows = [side.reshape(len(side), -1) if side.size else None for side in sides]
    width = next((row.shape[1] for row in rows if row is not None), 0)
    with np.errstate(all="ignore"):
        sums = [np.zeros(width) if row is None else row.sum(axis=0) for row in rows]
        difference: Floats = sums[0] - sums[1] if len(sums[0]) == len(sums[1]) else np.zeros(0)
    told = np.isfinite(difference).all() and difference.any()
    return difference if told else None


def study_sizes(trials: int, law_known: bool, points: int = 1) -> tuple[int, int]:
    """How many of these draws learn events, and choose among them.

    Fewer where the law is known, or where a whole profile is claimed: what to expect is known then.
    """
    share = 10 if points > 1 else 8 if law_known else 6
    learning = min(max(trials // 16, min(trials // 5, 500)), 10_000 if law_known else 60_000)
    choosing = min(max(trials // share, min(trials // 5, 500)), 200_000)
    return learning, choosing


def refuse_failures(pair: str, batches: Sequence[Draws]) -> None:
    """Raises InvalidRun if every call on both sides raised one and the same exception.

    One whose text depends on the dataset is an outcome like any other.
    """
    said = {label for draws in batches for label in draws.coded.counts()}
    failed = all_failed(batches[0])
    if len(said) == 1 and failed is not None:
        text = str(next(iter(said))).partition(": ")[2] or "none"
        raise InvalidRun(
            f"Every call on both sides of the pair {pair!r} raised {failed}: nothing was "
            f"audited. Its message: {text}. Call the function once by hand on pair.left."
        )


def strength(certificate: Certificate) -> tuple[bool, float]:
    """How much it shows: a refutation more than any other."""
    return certificate.refuted, certificate.epsilon - certificate.claimed


def _hits(
    law: AuditedLaw, witnesses: Sequence[Witness], address: tuple[int, ...], size: int
) -> list[int]:
    """How often each event happens in ``size`` draws."""
    hits: list[list[int]] = []
    sizes: list[int] = []
    for draws in _in_chunks(law, address, size):
        scores: dict[int, Floats] = {}
        found = []
        for witness in witnesses:
            key = id(witness.candidate)
            if key not in scores:
                scores[key] = witness.candidate.score(draws)
            found.append(int(np.count_nonzero(witness.happens(scores[key]))))
        hits.append(found)
        sizes.append(len(draws))
    counts = np.array(hits).reshape(len(sizes), len(witnesses))
    for k, witness in enumerate(witnesses):
        _require_independent(counts[:, k], np.array(sizes), str(witness))
    return [int(total) for total in counts.sum(axis=0)]


def _require_independent(hits: Counts, sizes: Counts, event: str) -> None:
    """Raises InvalidRun where an event is common in some batches and rare in others, as if outputs shared a draw.

    A chi-square test at level 1e-12, where at least 5 hits and 5 others are expected in each batch.
    """
    share = hits.sum() / sizes.sum()
    expected = sizes * share
    if len(sizes) < 2 or min(expected.min(), (sizes - expected).min()) < _EXPECTED:
        return
    misfit = float(((hits - expected) ** 2 / (expected * (1 - share))).sum())
    if chdtrc(len(sizes) - 1, misfit) < _NEVER:
        raise InvalidRun(
            f"The event {event} happened {hits[np.argmin(hits / sizes)]} times in one batch and "
            f"{hits[np.argmax(hits / sizes)]} times in another of about {int(sizes[0])} outputs: they are not "
            "independent, and nothing can be certified. Give each output noise of its own, or audit f(dataset)."
        )


def _in_chunks(law: AuditedLaw, address: tuple[int, ...], size: int) -> Iterator[Draws]:
    """A million draws at a time, or fewer where outputs are wide; of a function of a size, in several batches."""
    batches = _BATCHES if isinstance(law, CallableDraws) and law.vectorized else 1
    most = max(1, -(-size // batches))
    done, part, chunk = 0, 0, min(most, 10_000)
    while done < size:
        chunk = min(chunk, size - done)
        draws = law.draw(SeededBits(*address, part), chunk)
        yield draws
        done, part = done + chunk, part + 1
        chunk = min(most, max(1000, _CHUNK // max(4, draws.numbers.shape[1])))
