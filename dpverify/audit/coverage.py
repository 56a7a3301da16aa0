"""Coverage of the auditor: how often it is wrong, measured where the truth is known and the
claim is tight.

Every audit of a case is of a sound subject, so a verdict VIOLATED is a false alarm, and so is any
certified bound above the truth: all bounds of one audit are promised to hold together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from dpverify.audit.attack import FixedAttack
from dpverify.audit.auditing import audit
from dpverify.audit.cases import STRICT, USUAL, Case
from dpverify.audit.certificates import Certificate
from dpverify.audit.confidence_regions import at_least, at_most
from dpverify.audit.independence import InvalidRun
from dpverify.audit.subjects import target_of
from dpverify.audit.truths import Truth
from dpverify.plans import Mechanism

REPEATS = {USUAL: 2000, STRICT: 20_000}
QUICK_REPEATS = {USUAL: 200, STRICT: 1000}
LIMIT = 0.999
"""A case passes with at most this quantile of the alarms that alpha allows."""
_EPSILONS = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0)  # where the bounds on delta are compared


@dataclass(frozen=True, slots=True)
class Coverage:
    """Number of false alarms among audits of one case.

    repeats: number of audits. choices: number of choices of an event, which audits may share.
    kinds: what was wrong, and in how many audits ("verdict", or a bound that exceeded the truth).
    """

    case: str
    alpha: float
    repeats: int
    choices: int
    alarms: int
    kinds: Mapping[str, int]

    @property
    def limit(self) -> int:
        """Largest number of alarms with which the case passes."""
        return limit_of(self.repeats, self.alpha)

    @property
    def passed(self) -> bool:
        """True if the false alarms are within the limit."""
        return self.alarms <= self.limit

    @property
    def interval(self) -> tuple[float, float]:
        """95% confidence interval for the probability of an alarm. Clopper, Pearson 1934."""
        low, high = (end(self.alarms, self.repeats, 0.025) for end in (at_least, at_most))
        return float(low), float(high)


def limit_of(repeats: int, alpha: float) -> int:
    """Return the quantile LIMIT of the number of alarms of an auditor with false-alarm
    probability alpha.
    """
    return int(scipy.stats.binom.ppf(LIMIT, repeats, alpha))


def chance_of_failing(repeats: int, alpha: float) -> float:
    """Return the probability that a sound auditor (of alarm probability alpha) exceeds the
    limit.
    """
    return float(scipy.stats.binom.sf(limit_of(repeats, alpha), repeats, alpha))


def repeats_of(case: Case, quick: bool) -> int:
    """Return how many audits of this case are measured."""
    return (QUICK_REPEATS if quick else REPEATS)[case.alpha]


def measure(case: Case, *, repeats: int, seed: int) -> Coverage:
    """Audit the case ``repeats`` times and count the false alarms."""
    wrong: Counter[str] = Counter()
    alarms = done = choices = 0
    seeds = np.random.default_rng(seed).integers(2**32, size=repeats).tolist()
    while done < repeats:
        choices += 1
        for certificates in _audits(case, seeds[done]):
            kinds = set(mistakes(certificates, case.truth))
            wrong.update(kinds)
            alarms += bool(kinds)
            done += 1
            if done == repeats:
                break
    return Coverage(case.name, case.alpha, repeats, choices, alarms, dict(wrong))


def _audits(case: Case, seed: int) -> Iterator[Sequence[Certificate]]:
    """Yield what one audit certifies, or several that share a choice of events; nothing where a
    run is invalid.
    """
    try:
        yield from _certified(case, seed)
    except InvalidRun:
        yield ()


def _certified(case: Case, seed: int) -> Iterator[Sequence[Certificate]]:
    subject = case.subject(seed)
    vectorized = not (case.single or isinstance(subject, Mechanism))
    if case.certified > 1:
        attack = FixedAttack(case.claim, case.pairs, case.trials, case.alpha, seed, case.curve)
        target = target_of(subject, vectorized)
        studies = attack.studies(target, 0)
        for stream in range(case.certified):
            # Each of them is wrong with probability alpha at most: the first as a whole, the others
            # given what was chosen.
            others = [attack.redrawn(stream, study) for study in studies] if stream else studies
            shots = attack.shots(others)
            yield [c for study in others for c in attack.certify(stream, study, shots[study.index])]
        return
    result = audit(
        subject,
        pairs=case.pairs,
        claim=case.claim,
        faults=(),
        trials=case.trials,
        alpha=case.alpha,
        seed=seed,
        vectorized=vectorized,
        sequential=case.sequential,
        curve=case.curve,
    )
    yield result.certificates


def mistakes(certificates: Sequence[Certificate], truth: Truth) -> Iterator[str]:
    """Yield the false statements of an audit of a sound subject: its verdict, and bounds above
    the truth.
    """
    for certificate in certificates:
        if certificate.refuted:
            yield "verdict"
        if certificate.epsilon > truth.epsilon_at(certificate.delta):
            yield "epsilon"
        if certificate.everywhere > truth.everywhere:
            yield "everywhere"
        if certificate.mu > truth.mu:
            yield "mu"
        if certificate.rho > truth.rho:
            yield "rho"
        if any(certificate.delta_at(epsilon) > truth.delta_at(epsilon) for epsilon in _EPSILONS):
            yield "delta"
