"""Planted faults in stages: few draws first, more only for what they missed.

Most faults are coarse. An audit of 400,000 draws per side shows them with 25,000, and each
stage has draws and a share of alpha of its own, so what a stage catches stands whatever the
others saw.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import scipy

from dpverify.audit.attack import FaultResult, FixedAttack, strength
from dpverify.audit.certificates import Certificate, fewest_draws, tested_points
from dpverify.audit.independence import InvalidRun
from dpverify.audit.neighbors.pairs import NeighboringPair
from dpverify.audit.outputs.laws import AuditedLaw
from dpverify.audit.scouting import study_sizes
from dpverify.audit.subjects import Target
from dpverify.audit.unsettled import two_digits
from dpverify.privacy import Guarantee

STAGES = (Fraction(1, 16), Fraction(1, 4), Fraction(1), Fraction(4))
"""Draws of each stage, in units of the audit's; those beyond 1 come before a fault counts as
missed.
"""
_LARGEST = 700.0  # an epsilon whose exponential is a number
FAULT_TRIALS = 400_000
"""Largest number of draws per side and pair for each planted fault of a sequential audit."""
POWER = 0.9
"""Power with which the draws that a missed fault needs would show it."""


@dataclass(frozen=True, slots=True)
class StagedAttack:
    """Attack on planted faults in stages; ``alpha`` for all stages of one fault.

    trials: the audit's draws per side and pair. beyond: whether a fault is attacked with more
    than those before it counts as missed.
    """

    guarantee: Guarantee
    pairs: Sequence[NeighboringPair]
    trials: int
    alpha: float
    seed: int
    beyond: bool = True

    def fault(self, name: str, target: Target, number: int) -> FaultResult:
        """Attack a fault until a stage and a pair refute the claim for the faulty mechanism.

        number: the fault's number; another one gives other draws.
        """
        target = _remembered(target)
        order: Sequence[int] = range(len(self.pairs))
        stages = list(self.stages())
        alpha = self.alpha / len(stages)
        for stage, trials in stages:
            attack = FixedAttack(self.guarantee, self.pairs, trials, alpha, self.seed, planted=True)
            stream, last = 1 + number * len(STAGES) + stage, trials == stages[-1][1]
            # Where a fault's law is known, nothing learned from its draws tells more.
            learns = trials >= self.trials
            try:
                attempt = attack.attempt(target, stream, order, thorough=last, learns=learns)
            except InvalidRun as error:
                raise InvalidRun(
                    f"Of the planted fault {name!r}, not of the audited function: {error}"
                ) from error
            if attempt.refuted:
                return FaultResult(name, True, attempt.tried[-1], trials)
            order = attempt.order
        best = max(attempt.tried, key=strength)
        return FaultResult(
            name, False, best, stages[-1][1], _needed(best, self.guarantee, stages[-1][1])
        )

    def stages(self) -> Iterator[tuple[int, int]]:
        """Yield positions in ``STAGES`` with their draws, without those in which no outcome
        would refute the claim.
        """
        least = fewest_draws(self.guarantee, self.alpha / len(STAGES) / len(self.pairs))
        for stage, share in enumerate(STAGES):
            trials = math.ceil(share * self.trials)
            enough = trials - sum(study_sizes(trials, law_known=True)) >= least
            if share == 1 or (enough and (share < 1 or self.beyond)):
                yield stage, trials


def _remembered(target: Target) -> Target:
    """Remember laws, so that all stages have the same ones without making them again."""
    made: dict[int, tuple[Any, AuditedLaw]] = {}

    def law(data: Any) -> AuditedLaw:
        if id(data) not in made:
            made[id(data)] = data, target(data)
        return made[id(data)][1]

    return law


def _needed(seen: Certificate, guarantee: Guarantee, trials: int) -> float:
    """Estimate how many draws per side and pair, in place of ``trials``, this event takes to
    refute the claim with ``POWER``, as if counts were normal; infinite where its shares tell
    nothing.
    """
    bar = -float(scipy.special.ndtri(seen.alpha))
    excess = (standardized(seen, guarantee) + bar) / math.sqrt(seen.draws)
    certifying = (
        ((float(scipy.special.ndtri(POWER)) + bar) / excess) ** 2 if excess > 0 else math.inf
    )
    needed = certifying * trials / seen.draws
    # ``trials`` were tried: the event was seen too rarely to tell
    return needed if needed > trials else math.inf


def needs(missed: FaultResult, sequential: bool = False) -> str:
    """Describe a missed fault: with how many draws it was attacked, and with which ``trials=`` an
    audit would show it. sequential: whether the claim was bet against.
    """
    tried = f"in {missed.trials:,} draws a side"
    if not missed.needs < math.inf:
        return f"{tried} no event tells it"
    if sequential and missed.needs <= FAULT_TRIALS:
        return f"{tried}; about trials={two_digits(missed.needs):_} would show it"
    without = ", without sequential=True," if sequential else ""
    trials = two_digits(missed.needs / float(STAGES[-1]))  # a fault gets so many times as many
    return f"{tried}; about trials={trials:_}{without} would show it"


def standardized(seen: Certificate, guarantee: Guarantee) -> float:
    """Return by how many standard errors the event's shares are above what refutes the claim,
    as if counts were normal.
    """
    p, q = seen.hits / seen.draws, seen.other_hits / seen.other_draws
    most = -math.inf
    for epsilon, delta in tested_points(guarantee):
        factor = math.exp(min(epsilon, _LARGEST))
        spread = math.sqrt((p * (1 - p) + factor**2 * q * (1 - q)) / seen.draws) + 1 / seen.draws
        most = max(most, (p - factor * q - delta) / spread)
    return most + float(scipy.special.ndtri(seen.alpha))
