"""``AuditResult``: the result of an audit of one claim, for people and for machines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from dpverify.audit.attack import FaultResult
from dpverify.audit.betting import Bet, Tally
from dpverify.audit.certificates import Certificate, Earlier, tested_points
from dpverify.audit.neighbors.pairs import Neighboring, NeighboringPair
from dpverify.audit.neighbors.reading import adjacency_as_json, adjacency_from
from dpverify.audit.portable import datasets_as_json, plain_floats, read_floats
from dpverify.audit.staging import needs
from dpverify.audit.unsettled import shown, unsettled
from dpverify.audit.verdicts import MEANING, NOTHING_SEEN, Asked, Verdict
from dpverify.audit.witnesses.events import is_about_kinds
from dpverify.privacy import Guarantee, parse_guarantee

_MOST_SHOWN = 3  # unsettled events
_ROOM = 5000  # bytes of JSON for the datasets of a pair
_UNPLANTED = (
    f"{NOTHING_SEEN}, but no fault was planted, so this says little; plant one, for example "
    "faults=[the same function with half the noise], or faults=scaled_faults(function) where its "
    "noise is a parameter scale="
)


@dataclass(frozen=True, slots=True, repr=False)
class AuditResult(Asked):
    """An audit of one claim. ``alpha``: the chance that a sound mechanism is called VIOLATED.

    guarantee: the tested one: the claim's or, for our mechanisms, the stronger one that their
    stages compose to and that the claim was converted from.
    certificates: at least one a pair and direction, and those of the curve; all hold together
    with probability 1 - alpha.
    bets: for a sequential audit, how the evidence was gathered; empty otherwise.
    trials: draws per side and pair, of a function of a size on average; at most so many where the
    audit was sequential, four times as many as asked for where a fault needed more. draws: all
    calls on the subject itself, but for those that look at the bits of rounded outputs: their
    remark has the number.
    pairs: the neighbors that were compared; they take no part in comparisons of results.
    subject: the name of what was audited. remarks: what a reader should know about the claim or
    the run.
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
    pairs: tuple[NeighboringPair, ...] = field(default=(), compare=False)
    subject: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def is_consistent(self) -> bool:
        """True if the verdict is CONSISTENT."""
        return self.verdict is Verdict.CONSISTENT

    @property
    def meaning(self) -> str:
        """Meaning of the verdict here, in words; for POWERLESS, the reason. It says first where
        events are unsettled.
        """
        if not self.unsettled:
            return self._meaning
        needed = self._shown[0][1]
        more = "no audit has draws enough to decide"
        if not math.isinf(needed):
            more = f"to decide, audit again with trials={needed:_}"
        number = "an event is" if len(self.unsettled) == 1 else f"{len(self.unsettled)} events are"
        first = (
            f"{NOTHING_SEEN}, but {number} unsettled: seen more often than the claim allows, in "
            f"too few draws to refute it ({more})"
        )
        return self._meaning.replace(NOTHING_SEEN, first, 1)

    @property
    def _meaning(self) -> str:
        if self.verdict is not Verdict.POWERLESS:
            return MEANING[self.verdict]
        if not self.faults:
            return _UNPLANTED
        names = ", ".join(fault.name for fault in self.missed)
        return (
            f"{NOTHING_SEEN}, but a planted fault was missed: {names}; so this silence shows "
            "nothing"
        )

    @property
    def is_sequential(self) -> bool:
        """True if the claim was bet against."""
        return any(one.method == "betting" for one in self.certificates)

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
        """Return the certified lower bound on delta at epsilon; the bounds at all epsilon hold
        together.
        """
        return max(certificate.delta_at(epsilon) for certificate in self.certificates)

    @property
    def missed(self) -> tuple[FaultResult, ...]:
        """The planted faults that were not detected."""
        return tuple(fault for fault in self.faults if not fault.caught)

    def __str__(self) -> str:
        best = self.strongest
        shown = f"; mu >= {self.mu:.4g}; rho >= {self.rho:.4g}" if self.mu else ""
        lines = [
            f"{self.verdict}: {self.meaning}.",
            f"claim      {self.guarantee} under {self.adjacency}",
            f"certified  epsilon >= {self.epsilon:.4g} at delta {best.delta:.4g} (claimed: "
            f"{best.claimed:.4g}){shown} (false-alarm probability {self.alpha:g} over everything "
            "looked at)",
            *_refuted_elsewhere(self.guarantee, best),
            *_at_every_epsilon(self.certificates),
            f"on         {best}",
            *_on_wrappers(best),
            *(f"unsettled  {line}" for line in self.unsettled_lines),
            *self._faults(),
            *(f"remark     {remark}" for remark in self.remarks),
            f"seed       {self.seed}, {self.draws} draws, at most {self.trials} a side and pair on "
            "average",
        ]
        return "\n".join(lines)

    @property
    def unsettled(self) -> tuple[Certificate, ...]:
        """Events that refute nothing and break the claim if they are as common as they were
        counted: on one side alone, or hardly by chance. Each stands in the report with the
        ``trials=`` that would decide.
        """
        return () if self.verdict is Verdict.VIOLATED else unsettled(self.certificates)

    @property
    def unsettled_lines(self) -> list[str]:
        """The most striking unsettled events, in words."""
        return [line for line, _ in self._shown][:_MOST_SHOWN]

    @property
    def _shown(self) -> list[tuple[str, float]]:
        return [*shown(self.unsettled, self.guarantee, self.trials)]

    def _faults(self) -> list[str]:
        """Return the lines on planted faults; none where the claim is refuted, because nothing
        was planted.
        """
        if self.verdict is Verdict.VIOLATED:
            return []
        caught = len(self.faults) - len(self.missed)
        missed = [
            f"; missed: {fault.name} ({needs(fault, self.is_sequential)})" for fault in self.missed
        ]
        return [f"faults     {caught} of {len(self.faults)} planted faults caught{''.join(missed)}"]

    def __repr__(self) -> str:
        best, caught = self.strongest, len(self.faults) - len(self.missed)
        return (
            f"<AuditResult {self.verdict}: {self.subject or 'subject'} as {self.guarantee} under "
            f"{self.adjacency}, epsilon >= {self.epsilon:.4g} at delta {best.delta:.4g} on "
            f"{best.pair!r} of {max(1, len(self.pairs))} pairs, faults "
            f"{caught}/{len(self.faults)}, alpha {self.alpha:g}, {self.draws} draws, seed "
            f"{self.seed}>"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that JSON keeps as it is; ``AuditResult.from_dict`` reads it back,
        but for the pairs.

        Numbers that are not finite are strings that ``float`` reads. Datasets that are too
        large for 5000 bytes are told by digests and the records that differ.
        """
        made: dict[str, Any] = {
            "result": "AuditResult",
            "verdict": str(self.verdict),
            "meaning": self.meaning,
            "subject": self.subject,
            "guarantee": str(self.guarantee),
            "adjacency": adjacency_as_json(self.adjacency),
            "epsilon": self.epsilon,
            "delta": self.strongest.delta,
            "claimed": self.strongest.claimed,
            "mu": self.mu,
            "rho": self.rho,
            "certificates": [asdict(one) for one in self.certificates],
            "faults": [asdict(fault) for fault in self.faults],
            "bets": [asdict(bet) for bet in self.bets],
            "pairs": [{"name": pair.name, **datasets_as_json(pair, _ROOM)} for pair in self.pairs],
            "unsettled": [asdict(one) for one in self.unsettled],
            "remarks": list(self.remarks),
        }
        for name in ("alpha", "trials", "draws", "seed"):
            made[name] = getattr(self, name)
        plain: dict[str, Any] = plain_floats(made)
        return plain

    @staticmethod
    def from_dict(given: Mapping[str, Any]) -> AuditResult:
        """Load what ``to_dict`` gave: an equal result, without pairs. Raises ValueError for
        anything else.
        """
        wrong = f"{given!r:.60} is no audit's result; give what to_dict() gave."
        if not isinstance(given, Mapping) or given.get("result") != "AuditResult":
            raise ValueError(wrong)
        try:
            made = _loaded(given)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{wrong} ({type(error).__name__}: {error})") from None
        if not made.certificates:
            raise ValueError(f"{wrong} (no certificates)")
        return made


def _loaded(given: Mapping[str, Any]) -> AuditResult:
    """Load a result. Raises KeyError or TypeError where something is missing."""
    faults = [
        FaultResult(**{**_numbers(one), "strongest": _certificate(one["strongest"])})
        for one in given["faults"]
    ]
    bets = [Bet(**{**_numbers(one), "tally": Tally(**one["tally"])}) for one in given["bets"]]
    return AuditResult(
        Verdict(given["verdict"]),
        parse_guarantee(given["guarantee"]),
        adjacency_from(given["adjacency"]),
        tuple(map(_certificate, given["certificates"])),
        tuple(faults),
        given["alpha"],
        given["trials"],
        given["seed"],
        given["draws"],
        tuple(bets),
        subject=given["subject"],
        remarks=tuple(given["remarks"]),
    )


_TEXTS = frozenset(("pair", "direction", "event", "method", "name"))


def _numbers(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record's fields, with numbers that are not finite read back."""
    return {key: one if key in _TEXTS else read_floats(one) for key, one in given.items()}


def _certificate(given: Mapping[str, Any]) -> Certificate:
    fields = dict(given)
    earlier = fields.pop("earlier", None)
    read = None if earlier is None else Earlier(**_numbers(earlier))
    return Certificate(**_numbers(fields), earlier=read)


def _refuted_elsewhere(guarantee: Guarantee, best: Certificate) -> list[str]:
    """Return what refutes the claim, where the bound above does not: at another epsilon, or
    bets alone.
    """
    if not best.refuted or best.epsilon > best.claimed:
        return []
    region = best.region
    if region is None:
        return [f"refuted    by bets, which won 1 / {best.alpha:.2g} and more"]
    excess, (epsilon, delta) = max((region.excess(*p), p) for p in tested_points(guarantee))
    above = f"delta >= {delta + excess:.4g} at epsilon {epsilon:.4g} (claimed: {delta:.4g})"
    return [f"refuted    {above}"]


def _on_wrappers(best: Certificate) -> list[str]:
    """Return advice where an exception, a type or a shape refutes the claim: it may not be the
    mechanism's.
    """
    if not (best.refuted and is_about_kinds(best.event)):
        return []
    return [
        "           if this comes from your wrapper, or from how the two datasets were made (one "
        "of integers, one of floats), and not from the mechanism, make both sides alike there "
        "and audit again"
    ]


def _at_every_epsilon(certificates: Sequence[Certificate]) -> list[str]:
    """Return remarks on an event that never happens on the other side, by its law or as far as
    was seen.
    """
    everywhere = max(certificate.everywhere for certificate in certificates)
    if everywhere:
        return [f"           delta >= {everywhere:.4g} at every epsilon"]
    unseen = [one.region for one in certificates if one.refuted and one.other_hits == 0]
    ends = [(one.lower.min(), one.upper.max()) for one in unseen if one is not None]
    most = max(ends, default=(0.0, 1.0))
    if not most[0]:
        return []
    return [f"           delta >= {most[0]:.4g} - {most[1]:.2g} e^epsilon at every epsilon"]


__all__ = ["AuditResult"]
