"""The attack on a claim with a number of draws fixed beforehand.

On every pair some draws choose an event for either direction, and the point of the claim that
it is to refute; fresh draws certify it. Most of the false-alarm probability goes to the
direction and pair that looked most promising on the first draws (``scouting``): that choice is
free, since the second draws are independent of the first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dpverify.audit.certificates import (
    DIRECTIONS,
    Certificate,
    certify_guesses,
)
from dpverify.audit.certificates import certify as certified
from dpverify.audit.counting import EITHER_SIDE, divided, hits_of, in_chunks
from dpverify.audit.independence import InvalidRun
from dpverify.audit.kept_noise import doubts, refuse_kept
from dpverify.audit.scouting import AGAIN, CERTIFYING, Scouting
from dpverify.audit.studies import MAIN, Shot, Study
from dpverify.audit.subjects import Target
from dpverify.audit.witnesses.guesses import Guess, said

_WITHOUT_CURVE = 0.9  # share of alpha; the rest is for the trade-off curve, if that is asked for


@dataclass(frozen=True, slots=True)
class FaultResult:
    """Result for one planted fault: whether it was detected, and its strongest certificate.

    trials: draws per side and pair with which the fault was detected, or missed. needs: for a
    missed fault, about how many draws would show it by that event; infinite where none would,
    NaN for a detected fault.
    """

    name: str
    caught: bool
    strongest: Certificate
    trials: int
    needs: float = math.nan


@dataclass(frozen=True, slots=True)
class Attempt:
    """Certificates of one fault, the strongest of its pair last, with the pairs in order of
    promise.
    """

    tried: list[Certificate]
    order: Sequence[int]

    @property
    def refuted(self) -> bool:
        """True if the last certificate refutes the claim."""
        return bool(self.tried) and self.tried[-1].refuted


@dataclass(frozen=True, slots=True)
class FixedAttack(Scouting):
    """Attack with ``trials`` draws per side and pair, and ``alpha`` for all that one call
    certifies.

    remarks: what a reader should know about a refutation; the attack adds to them.
    """

    remarks: list[str] = field(default_factory=list, compare=False)

    def all_pairs(self, target: Target, stream: int) -> tuple[Certificate, ...]:
        """Certify both directions of every pair, and the events of the curve."""
        studies = self.studies(target, stream)
        shots = self.shots(studies)
        by_study = [self.certify(stream, study, shots[study.index]) for study in studies]
        return tuple(certificate for certificates in by_study for certificate in certificates)

    def fault(self, name: str, target: Target, stream: int) -> FaultResult:
        """Attack a faulty mechanism, pair by pair, until one pair refutes its claim."""
        attempt = self.attempt(target, stream, range(len(self.pairs)))
        return FaultResult(name, attempt.refuted, max(attempt.tried, key=strength), self.trials)

    def attempt(
        self,
        target: Target,
        stream: int,
        order: Sequence[int],
        *,
        thorough: bool = True,
        learns: bool = True,
    ) -> Attempt:
        """Attack the pairs in this order until one refutes the claim.

        Pairs that promise nothing come last, and only if ``thorough``. learns: whether events are
        learned where the likelihood of a planted fault promises nothing.
        """
        tried: list[Certificate] = []
        promises: dict[int, float] = {}
        unpromising: list[Study] = []
        for index in order:
            study = self.study(target, stream, index, learns)
            promises[index] = study.promise
            if study.promise <= 0:
                unpromising.append(study)
            elif self._refuted(stream, study, tried):
                return Attempt(tried, order)
        for study in sorted(unpromising, key=lambda one: -one.promise) if thorough else ():
            if self._refuted(stream, study, tried):
                break
        return Attempt(tried, sorted(order, key=lambda index: -promises[index]))

    def _refuted(self, stream: int, study: Study, tried: list[Certificate]) -> bool:
        """Certify both directions; the stronger comes last in ``tried``."""
        sides = range(len(study.promises))
        each = self.alpha / (len(sides) * len(self.pairs))
        shots = [shot for side in sides for shot in study.shots(side, each)]
        tried += sorted(self.certify(stream, study, shots), key=strength)
        return tried[-1].refuted

    def shots(self, studies: Sequence[Study]) -> list[list[Shot]]:
        """Choose what is certified on every pair. Alpha is divided by the promises, before any
        certifying draw.
        """
        alpha = self.alpha * (_WITHOUT_CURVE if self.curve else 1)
        promises = {
            (study.index, side): study.hope(side)
            for study in studies
            for side in range(len(study.promises))
        }
        main = max(promises, key=lambda place: promises[place])
        rest = alpha * (1 - MAIN) / (len(promises) - 1)
        shots: list[list[Shot]] = [[] for _ in studies]
        for index, side in promises:
            share = alpha * MAIN if (index, side) == main else rest
            shots[index] += studies[index].shots(side, share)
        best = studies[main[0]]
        likelier = max((0, 1), key=lambda side: promises[best.index, side])
        side = likelier if main[1] == EITHER_SIDE else main[1]
        for witness in best.along[side]:
            shots[main[0]].append(Shot(side, witness, (self.alpha - alpha) / self.curve))
        return shots

    def redrawn(self, stream: int, study: Study) -> Study:
        """Return the study with other draws of its second look, if it had one. What was chosen
        stays.
        """
        if study.before is None:
            return study
        address, events = (self.seed, stream, study.index), study.before.events
        chunks = in_chunks(study.laws, address, study.before.draws, AGAIN)
        counts = hits_of(study.laws, events, chunks, study.watch.copied())
        return replace(study, before=replace(study.before, counts=counts))

    def certify(self, stream: int, study: Study, shots: Sequence[Shot]) -> list[Certificate]:
        """Certify these events on fresh draws; another seed or stream gives other draws.

        Raises InvalidRun where outputs share noise, or an event that would refute the claim comes
        in runs.
        """
        address = (self.seed, stream, study.index)
        witnesses = [shot.witness for shot in shots]
        if study.sizes[0] == study.sizes[1]:
            chunks = in_chunks(study.laws, address, study.draws, CERTIFYING)
        else:
            chunks = divided(study.laws, address, study.division, CERTIFYING)
        seen = hits_of(study.laws, witnesses, chunks, study.watch.copied())
        name, certificates = self.pairs[study.index].name, []
        for k, shot in enumerate(shots):
            where = (name, _direction(shot), said(shot.witness))
            aim = study.aim_of(shot)
            shown = where, seen.counted(k, shot.side), aim, shot.alpha, self.guarantee
            if study.guess is None:
                certificate = certified(*shown, shot.earlier)
            else:
                certificate = certify_guesses(*shown)
            if math.isnan(certificate.epsilon):
                raise InvalidRun(f"The counts of {certificate} give no bound.")
            if certificate.refuted:
                seen.watches[k].require_fresh()
                if shot.earlier is not None and study.before is not None:
                    study.before.counts.watches[shot.side].require_fresh()
            certificates.append(certificate)
        if any(one.refuted for one in certificates):
            refuse_kept(seen.watch)
            self.remarks.extend(doubts(seen.watch, name))
        return certificates


def _direction(shot: Shot) -> str:
    return shot.witness.direction if isinstance(shot.witness, Guess) else DIRECTIONS[shot.side]


def strength(certificate: Certificate) -> tuple[bool, float]:
    """Return a sort key of what a certificate shows: a refutation is stronger than anything
    else.
    """
    return certificate.refuted, certificate.epsilon - certificate.claimed
