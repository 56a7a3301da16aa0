"""``audit``: try to prove a privacy claim wrong, and show that the attempt had power."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from numbers import Real
from typing import Any

from dpverify.audit.attack import FaultResult, FixedAttack, InvalidRun, study_sizes
from dpverify.audit.betting import Bet
from dpverify.audit.certificates import Certificate, fewest_draws, tested_points
from dpverify.audit.configuration import Exhibit
from dpverify.audit.faults import Fault
from dpverify.audit.friendly_core import KeptPart
from dpverify.audit.neighbors.pairs import Neighboring, NeighboringPair
from dpverify.audit.opening import Opening
from dpverify.audit.sequential import SequentialAttack
from dpverify.audit.staging import STAGES, StagedAttack
from dpverify.audit.subjects import claimed_of, is_ours, planted_in, target_of
from dpverify.plans import Mechanism
from dpverify.privacy import Derivation, Guarantee, PrivacyClaim
from dpverify.privacy.numbers import whole

DEFAULT_TRIALS = 100_000
DEFAULT_ALPHA = 1e-6
FEWEST_TRIALS = 100
FAULT_TRIALS = 400_000
"""Draws a side and pair for each planted fault of a sequential audit, at most."""


class Verdict(Enum):
    """What an audit found. Only VIOLATED is a proof (up to alpha)."""

    CONSISTENT = "CONSISTENT"
    VIOLATED = "VIOLATED"
    POWERLESS = "POWERLESS"

    def __str__(self) -> str:
        return self.value


_LEAST_ALPHA = 1e-280
_FIRST = 0.9  # of alpha; the rest is for another attack with as many draws as a planted fault needed
MEANING = {
    Verdict.CONSISTENT: "no event violates the claim, and every planted fault was caught by the "
    "same attempt; this is evidence, not a proof",
    Verdict.VIOLATED: "the claim is false: the event below is too likely on one side, up to the "
    "stated chance of a false alarm",
    Verdict.POWERLESS: "no event violates the claim, but a planted fault was missed as well (or "
    "none was planted), so this silence shows nothing",
}


@dataclass(frozen=True, slots=True)
class AuditResult:
    """An audit of one claim. ``alpha``: the chance that a sound mechanism is called VIOLATED.

    guarantee: what was tested: the claim's, or, of our mechanisms, the stronger one that their
    stages compose to and that the claim was converted from.
    certificates: at least one a pair and direction, and those of the curve; all hold together with
    probability 1 - alpha.
    bets: of a sequential audit, how the evidence was gathered; empty otherwise.
    trials: draws a side and pair, at most where the audit was sequential, four times as many as asked for where
    a fault needed more; draws: calls in all, on the subject itself.
    """

    verdict: Verdict
    guarantee: Guarantee
    adjacency: Neighboring
    certificates: tuple[Certificate, ...]
    faults: tuple[FaultResult, ...]
    alpha: float
    trials: int
    seed: int
    draws: int = 0
    bets: tuple[Bet, ...] = ()

    @property
    def strongest(self) -> Certificate:
        """The certificate whose epsilon is the most above the claimed one, or the least below."""
        return max(self.certificates, key=lambda one: (one.refuted, one.epsilon - one.claimed))

    @property
    def epsilon(self) -> float:
        """The certified lower bound on epsilon at the strongest certificate's delta, at least 0."""
        return max(0.0, self.strongest.epsilon)

    @property
    def mu(self) -> float:
        """The certified lower bound on mu of any Gaussian guarantee, over all certificates."""
        return max(certificate.mu for certificate in self.certificates)

    @property
    def rho(self) -> float:
        """The certified lower bound on rho of any zero-concentrated guarantee."""
        return max(certificate.rho for certificate in self.certificates)

    def delta_at(self, epsilon: float) -> float:
        """The certified lower bound on delta at any epsilon; all of them hold together."""
        return max(certificate.delta_at(epsilon) for certificate in self.certificates)

    def __str__(self) -> str:
        best = self.strongest
        shown = f"; mu >= {self.mu:.4g}; rho >= {self.rho:.4g}" if self.mu else ""
        lines = [
            f"{self.verdict}: {MEANING[self.verdict]}.",
            f"claim      {self.guarantee} under {self.adjacency}",
            f"certified  epsilon >= {self.epsilon:.4g} at delta {best.delta:.4g} (claimed: "
            f"{best.claimed:.4g}){shown} (false-alarm probability {self.alpha:g} over everything looked at)",
            *_refuted_elsewhere(self.guarantee, best),
            *_at_every_epsilon(self.certificates),
            f"on         {best}",
            *self._faults(),
            f"seed       {self.seed}, {self.draws} draws of at most {self.trials} a side and pair",
        ]
        return "\n".join(lines)

    def _faults(self) -> list[str]:
        """None where the claim is refuted: nothing was planted."""
        if self.verdict is Verdict.VIOLATED:
            return []
        caught = sum(fault.caught for fault in self.faults)
        missed = [f"; missed: {fault.name} ({needs(fault)})" for fault in self.missed]
        return [f"faults     {caught} of {len(self.faults)} planted faults caught{''.join(missed)}"]

    @property
    def missed(self) -> tuple[FaultResult, ...]:
        """The planted faults that were not caught."""
        return tuple(fault for fault in self.faults if not fault.caught)


def needs(missed: FaultResult) -> str:
    """Of a missed fault: with how many draws it was attacked, and about how many would show it."""
    tried = f"in {missed.trials:,} draws a side"
    if math.isinf(missed.needs):
        return f"{tried} no event tells it"
    return f"{tried}; about {missed.needs:,.0f} would show it"


def _refuted_elsewhere(guarantee: Guarantee, best: Certificate) -> list[str]:
    """What refutes the claim, where the bound above does not: at another epsilon, or bets alone."""
    if not best.refuted or best.epsilon > best.claimed:
        return []
    found = best.region
    if found is None:
        return [f"refuted    by bets, which won 1 / {best.alpha:.2g} and more"]
    excess, (epsilon, delta) = max((found.excess(*p), p) for p in tested_points(guarantee))
    above = f"delta >= {delta + excess:.4g} at epsilon {epsilon:.4g} (claimed: {delta:.4g})"
    return [f"refuted    {above}"]


def _at_every_epsilon(certificates: Sequence[Certificate]) -> list[str]:
    """Of an event that never happens on the other side, by its law or as far as was seen."""
    everywhere = max(certificate.everywhere for certificate in certificates)
    if everywhere:
        return [f"           delta >= {everywhere:.4g} at every epsilon"]
    unseen = [one.region for one in certificates if one.refuted and one.other_hits == 0]
    ends = [(one.lower.min(), one.upper.max()) for one in unseen if one is not None]
    most = max(ends, default=(0.0, 1.0))
    if not most[0]:
        return []
    return [f"           delta >= {most[0]:.4g} - {most[1]:.2g} e^epsilon at every epsilon"]


def audit(
    subject: Mechanism[Any] | KeptPart | Opening | Exhibit | Callable[..., Any],
    *,
    pairs: Iterable[NeighboringPair],
    claim: PrivacyClaim | Derivation[PrivacyClaim] | Guarantee | None = None,
    faults: Iterable[Fault] | Iterable[Callable[..., Any]] | None = None,
    trials: int = DEFAULT_TRIALS,
    alpha: float = DEFAULT_ALPHA,
    seed: int | None = None,
    vectorized: bool = False,
    thorough: bool = False,
    sequential: bool = False,
    seconds: float | None = None,
    curve: int = 0,
) -> AuditResult:
    """Attack ``subject`` on every pair, in both directions, and unless that refutes its claim each planted
    fault likewise.

    subject: one of our mechanisms, or any function f(dataset) of its own randomness (with
    ``vectorized=True``: f(dataset, size), which returns ``size`` independent outputs, each with noise of its own;
    certificates mean nothing where outputs share a draw).
    claim: a guarantee or claim; by default a mechanism's own. The pairs carry the adjacency. With pairs of k
    steps (``QueryMoves(by=k)``) give ``guarantee.for_group(k)``: of pure DP a bound on that epsilon, divided
    by k, holds for some neighbors on the way, and its errors are divided as well.
    faults: for a mechanism, by default the generic ones; for a function, functions like it that
    are known to be broken. Without any the verdict can only be VIOLATED or POWERLESS.
    trials: draws a side and pair: a sixteenth at most to learn events, a tenth to a sixth to choose among
    them (twice where the first choice promises nothing), the rest to certify one or two. A fault gets a sixteenth
    of it, then a quarter, all, four times as many, until it is caught; where one took more than ``trials``, the
    subject is attacked with as many besides, at a tenth of alpha.
    alpha: the chance that a sound subject is called VIOLATED; that any planted fault is called
    caught by chance is at most alpha besides.
    thorough: plant the faults that need many draws (5% less noise) as well.
    sequential: stop as soon as the claim is refuted (``trials`` is then the most that is drawn); the
    evidence is valid whenever it stops. Faults get FAULT_TRIALS at most.

    seconds: a sequential audit stops after about so long, whatever it has found; seeds then do not
    fix where it stops, except that a violation is always found at the same draw.
    curve: certify so many more events on the most promising pair, along the trade-off curve.

    Raises TypeError or ValueError for a missing claim, no pairs, two of one name, pairs of another
    adjacency, too few trials (with how many are needed), a class for a mechanism, or a parameter of
    another type; nothing is drawn before. Raises InvalidRun if all calls
    fail, and ValueError if memory runs out while drawing: that says nothing of the subject.
    """
    _check_subject(subject, faults)
    listed = _listed(pairs)
    guarantee, adjacency = claimed_of(subject, claim, listed)
    alpha = _real(alpha, "alpha", "1e-6")
    _check_budget(trials, alpha, guarantee, is_ours(subject))
    if whole(curve, "curve") < 0 or (curve and sequential):
        raise ValueError(f"curve = {curve}; a number of events, and only without sequential=True.")
    limit = math.inf if seconds is None else _real(seconds, "seconds", "60.0")
    if not limit > 0 or (seconds is not None and not sequential):
        raise ValueError(f"seconds = {seconds}; a positive time, and only with sequential=True.")
    chosen = secrets.randbelow(2**32) if seed is None else whole(seed, "seed")
    if chosen < 0:
        raise ValueError(f"seed = {seed}; give a whole number of at least 0, or None.")
    planted = planted_in(subject, faults, vectorized, thorough)
    target = target_of(subject, vectorized)
    certificates: tuple[Certificate, ...]
    betting = SequentialAttack(guarantee, listed, trials, alpha, chosen, limit)
    if sequential:
        certificate, seen = betting.run(target, 0)
        certificates, draws = (certificate,), 2 * seen
    else:
        first = alpha * _FIRST if planted else alpha
        attack = FixedAttack(guarantee, listed, trials, first, chosen, curve)
        certificates = attack.all_pairs(target, 0)
        draws = 2 * trials * len(listed)
    tries = min(trials, FAULT_TRIALS) if sequential else trials
    share = alpha / max(1, len(planted))
    staged = StagedAttack(guarantee, listed, tries, share, chosen, beyond=not sequential)
    attacked = [] if _violated(certificates) else planted  # they show that silence means something
    results = tuple(staged.fault(*fault, i) for i, fault in enumerate(attacked))
    most = max((fault.trials for fault in results if fault.caught), default=trials)
    if most > trials and not sequential:  # what a fault needed, the subject gets as well
        again = FixedAttack(guarantee, listed, most, alpha * (1 - _FIRST), chosen)
        certificates += again.all_pairs(target, 1 + len(STAGES) * len(planted))
        draws, trials = draws + 2 * most * len(listed), most
    verdict = _verdict(certificates, results)
    said = (certificates, results, alpha, trials, chosen, draws, tuple(betting.bets))
    return AuditResult(verdict, guarantee, adjacency, *said)


def _violated(certificates: Sequence[Certificate]) -> bool:
    return any(certificate.refuted for certificate in certificates)


def _verdict(certificates: Sequence[Certificate], faults: Sequence[FaultResult]) -> Verdict:
    if _violated(certificates):
        return Verdict.VIOLATED
    seen = bool(faults) and all(fault.caught for fault in faults)
    return Verdict.CONSISTENT if seen else Verdict.POWERLESS


def _check_subject(subject: Any, faults: Any) -> None:
    if isinstance(subject, type) and issubclass(subject, Mechanism):
        raise TypeError(
            f"{subject.__name__} is a class; audit a mechanism: write "
            f"{subject.__name__}.for_budget(...)."
        )
    if callable(faults) or isinstance(faults, Fault):
        raise TypeError("faults is a single fault; write faults=[fault].")


def _listed(pairs: Any) -> list[NeighboringPair]:
    """The pairs, of different names: a certificate and a fault name theirs."""
    if isinstance(pairs, NeighboringPair):
        raise TypeError("pairs is a single NeighboringPair; write pairs=[pair].")
    if not isinstance(pairs, Iterable):
        raise TypeError(f"pairs = {pairs!r}; write pairs=[added(name, base, record)].")
    listed = list(pairs)
    names = [pair.name for pair in listed if isinstance(pair, NeighboringPair)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"Two pairs are named {twice!r}; give each a name of its own.")
    return listed


def _real(value: Any, name: str, example: str) -> float:
    """Raises TypeError for what is not a real number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        kind = type(value).__name__
        raise TypeError(f"{name} = {value!r} is a {kind}; write a number, as {name}={example}.")
    return float(value)


def _check_budget(trials: int, alpha: float, guarantee: Guarantee, law_known: bool) -> None:
    if not 0 < alpha < 1:
        raise ValueError(f"alpha = {alpha} is outside (0, 1); give a probability, say 1e-6.")
    if alpha < _LEAST_ALPHA:
        raise ValueError(
            f"alpha = {alpha} is below {_LEAST_ALPHA}: no tail is computed that far. Give more, say 1e-6."
        )
    if whole(trials, "trials") < FEWEST_TRIALS:
        raise ValueError(f"trials = {trials}; at least {FEWEST_TRIALS} are needed to say a thing.")
    needed = fewest_draws(guarantee, alpha / 2)
    if trials - sum(study_sizes(trials, law_known)) < needed:
        enough = needed * 5 // 3 + 1
        raise ValueError(
            f"trials = {trials} can refute {guarantee} at alpha = {alpha:g} on no outcome whatever; "
            f"give at least {enough}, or a larger alpha."
        )


__all__ = ["DEFAULT_ALPHA", "AuditResult", "FaultResult", "InvalidRun", "Verdict", "audit"]
