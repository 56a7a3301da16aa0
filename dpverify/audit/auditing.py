"""``audit``: try to prove a privacy claim wrong, and show that the attempt had power."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from dpverify.audit.certificates import (
    Certificate,
    at_least,
    at_most,
    certified_epsilon,
    tested_points,
)
from dpverify.audit.configuration import Exhibit
from dpverify.audit.faults import Fault
from dpverify.audit.outputs import (
    Draws,
    all_failed,
)
from dpverify.audit.pairs import NeighboringPair
from dpverify.audit.subjects import Target, claimed_of, planted_in, target_of
from dpverify.audit.witnesses import choose
from dpverify.plans import Mechanism
from dpverify.privacy import (
    Adjacency,
    Derivation,
    Guarantee,
    PrivacyClaim,
)
from dpverify.privacy.numbers import whole
from dpverify.randomness import SeededBits

DEFAULT_TRIALS = 100_000
DEFAULT_ALPHA = 1e-6
FEWEST_TRIALS = 100


class Verdict(Enum):
    """What an audit found. Only VIOLATED is a proof (up to alpha)."""

    CONSISTENT = "CONSISTENT"
    VIOLATED = "VIOLATED"
    POWERLESS = "POWERLESS"

    def __str__(self) -> str:
        return self.value


MEANING = {
    Verdict.CONSISTENT: "no event violates the claim, and every planted fault was caught by the "
    "same attempt; this is evidence, not a proof",
    Verdict.VIOLATED: "the claim is false: the event below is too likely on one side, up to the "
    "stated chance of a false alarm",
    Verdict.POWERLESS: "no event violates the claim, but a planted fault was missed as well (or "
    "none was planted), so this silence shows nothing",
}


@dataclass(frozen=True, slots=True)
class FaultResult:
    """Whether one planted fault was seen, and by which certificate (the strongest found)."""

    name: str
    caught: bool
    strongest: Certificate


@dataclass(frozen=True, slots=True)
class AuditResult:
    """An audit of one claim. ``alpha``: the chance that a sound mechanism is called VIOLATED.

    ``guarantee`` is what was tested: the claim's, or, of our mechanisms, the stronger one that their
    stages compose to and that the claim was converted from. ``epsilon`` is the certified lower bound
    that comes nearest to what is claimed at the same delta, over all pairs and both directions; all
    certificates hold together with probability 1 - alpha.
    """

    verdict: Verdict
    guarantee: Guarantee
    adjacency: Adjacency
    certificates: tuple[Certificate, ...]
    faults: tuple[FaultResult, ...]
    alpha: float
    trials: int
    seed: int

    @property
    def strongest(self) -> Certificate:
        """The certificate whose epsilon is the most above the claimed one, or the least below."""
        return max(self.certificates, key=lambda one: one.epsilon - one.claimed)

    @property
    def epsilon(self) -> float:
        """The certified lower bound on epsilon at the strongest certificate's delta, at least 0."""
        return max(0.0, self.strongest.epsilon)

    def __str__(self) -> str:
        best = self.strongest
        caught = sum(fault.caught for fault in self.faults)
        lines = [
            f"{self.verdict}: {MEANING[self.verdict]}.",
            f"claim      {self.guarantee} under {self.adjacency}",
            f"certified  epsilon >= {self.epsilon:.4g} at delta {best.delta:.4g} (claimed: "
            f"{best.claimed:.4g}) "
            f"(false-alarm probability {self.alpha:g} over everything looked at)",
            f"on         pair {best.pair!r}, {best.direction}, event: {best.event}; "
            f"{best.hits}/{best.draws} against {best.other_hits}/{best.other_draws}",
            f"faults     {caught} of {len(self.faults)} planted faults caught"
            + "".join(f"; missed: {f.name}" for f in self.faults if not f.caught),
            f"seed       {self.seed}, {self.trials} draws a side and pair",
        ]
        return "\n".join(lines)


def audit(
    subject: Mechanism[Any] | Exhibit | Callable[..., Any],
    *,
    pairs: Iterable[NeighboringPair],
    claim: PrivacyClaim | Derivation[PrivacyClaim] | Guarantee | None = None,
    faults: Iterable[Fault] | Iterable[Callable[..., Any]] | None = None,
    trials: int = DEFAULT_TRIALS,
    alpha: float = DEFAULT_ALPHA,
    seed: int | None = None,
    vectorized: bool = False,
    thorough: bool = False,
) -> AuditResult:
    """Attack ``subject`` on every pair, in both directions, and then each planted fault likewise.

    subject: one of our mechanisms, or any function f(dataset) of its own randomness (with
    ``vectorized=True``: f(dataset, size), which returns ``size`` outputs).
    claim: a guarantee or claim; by default a mechanism's own. The pairs carry the adjacency.
    faults: for a mechanism, by default the generic ones; for a function, functions like it that
    are known to be broken. Without any the verdict can only be VIOLATED or POWERLESS.
    trials: draws a side and pair, half to choose the event and half to certify it.
    alpha: the false-alarm probability of the whole audit.
    thorough: plant the faults that need many draws (5% less noise) as well.

    Raises TypeError or ValueError for a missing claim, no pairs, pairs of another adjacency, or too
    few trials; nothing is drawn before.
    """
    if isinstance(pairs, NeighboringPair):
        raise TypeError("pairs is a single NeighboringPair; write pairs=[pair].")
    listed = list(pairs)
    guarantee, adjacency = claimed_of(subject, claim, listed)
    _check_budget(trials, alpha)
    chosen = secrets.randbelow(2**32) if seed is None else seed
    planted = planted_in(subject, faults, vectorized, thorough)
    share = alpha / (1 + len(planted))
    attack = _Attack(guarantee, listed, trials, share, chosen)
    certificates = attack.all_pairs(target_of(subject, vectorized), 0)
    results = tuple(attack.fault(name, target, 1 + i) for i, (name, target) in enumerate(planted))
    violated = any(certificate.refutes(guarantee) for certificate in certificates)
    verdict = _verdict(violated, results)
    return AuditResult(verdict, guarantee, adjacency, certificates, results, alpha, trials, chosen)


def _verdict(violated: bool, faults: Sequence[FaultResult]) -> Verdict:
    if violated:
        return Verdict.VIOLATED
    seen = bool(faults) and all(fault.caught for fault in faults)
    return Verdict.CONSISTENT if seen else Verdict.POWERLESS


@dataclass(frozen=True, slots=True)
class _Attack:
    guarantee: Guarantee
    pairs: Sequence[NeighboringPair]
    trials: int
    alpha: float
    seed: int

    def all_pairs(self, target: Target, stream: int) -> tuple[Certificate, ...]:
        """Both directions of every pair."""
        return tuple(
            certificate
            for index in range(len(self.pairs))
            for certificate in self._pair(target, stream, index)
        )

    def fault(self, name: str, target: Target, stream: int) -> FaultResult:
        """Stops at the first pair that refutes the claim for the faulty mechanism."""
        strongest: Certificate | None = None
        for index in range(len(self.pairs)):
            for certificate in self._pair(target, stream, index):
                if certificate.refutes(self.guarantee):
                    return FaultResult(name, True, certificate)
                if strongest is None or certificate.epsilon > strongest.epsilon:
                    strongest = certificate
        assert strongest is not None
        return FaultResult(name, False, strongest)

    def _pair(self, target: Target, stream: int, index: int) -> list[Certificate]:
        pair = self.pairs[index]
        laws = target(pair.left), target(pair.right)
        half = self.trials // 2
        alpha = self.alpha / (2 * len(self.pairs))
        batches = [
            [law.draw(SeededBits(self.seed, stream, index, side, part), half) for part in (0, 1)]
            for side, law in enumerate(laws)
        ]
        _refuse_failures(pair.name, batches)
        found = []
        for own, direction in ((0, "left over right"), (1, "right over left")):
            other = 1 - own
            sides = batches[own][0], batches[other][0], laws[own], laws[other]
            witness = choose(*sides, tested_points(self.guarantee), alpha)
            claimed, delta = witness.point
            hits, other_hits = witness.hits(batches[own][1]), witness.hits(batches[other][1])
            epsilon = certified_epsilon(
                at_least(hits, half, alpha / 2), at_most(other_hits, half, alpha / 2), delta
            )
            counts = (hits, half, other_hits, half)
            found.append(
                Certificate(
                    pair.name,
                    direction,
                    str(witness),
                    *counts,
                    delta,
                    float(epsilon),
                    claimed,
                    alpha,
                )
            )
        return found


def _refuse_failures(pair: str, batches: Sequence[Sequence[Draws]]) -> None:
    failed = {all_failed(draws) for side in batches for draws in side}
    if len(failed) == 1 and None not in failed:
        raise ValueError(
            f"Every call on both sides of the pair {pair!r} raised {failed.pop()}: nothing was "
            "audited. Call the function once by hand on pair.left."
        )


def _check_budget(trials: int, alpha: float) -> None:
    if not 0 < alpha < 1:
        raise ValueError(f"alpha = {alpha} is outside (0, 1); give a probability, say 1e-6.")
    if whole(trials, "trials") < FEWEST_TRIALS:
        raise ValueError(f"trials = {trials}; at least {FEWEST_TRIALS} are needed to say a thing.")


__all__ = ["DEFAULT_ALPHA", "AuditResult", "FaultResult", "Verdict", "audit"]
