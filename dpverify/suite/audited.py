"""Judgments of audits: one line for people, everything for machines."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from dpverify.audit import AuditResult, Verdict
from dpverify.audit.curves import profile_points, tradeoff_regions
from dpverify.audit.evidence import witness_of
from dpverify.audit.staging import needs
from dpverify.audit.verdicts import MEANING
from dpverify.privacy import ApproxDP, Derivation, PerfectPrivacy, PureDP
from dpverify.privacy.numbers import brief
from dpverify.suite.events import Judgment, Outcome


def audited(result: AuditResult, unit: tuple[str, str], outcome: Outcome, verdict: str) -> Judgment:
    """Return the judgment of an audit, with everything for machines. unit: its name, and the
    command that replays it.
    """
    caught = sum(fault.caught for fault in result.faults)
    faults = f"; {caught}/{len(result.faults)} planted faults caught" if result.faults else ""
    best = result.strongest
    shown = f"certified epsilon >= {result.epsilon:.3f}"
    if not isinstance(result.guarantee, (PureDP, ApproxDP, PerfectPrivacy)):
        at = f"at epsilon {best.claimed:.3g}"
        shown = (
            f"certified mu >= {result.mu:.3f}, delta >= {best.certified_delta:.4g} {at} "
            f"(claimed {best.delta:.4g})"
        )
    summary = f"claim {brief(str(result.guarantee))}, {shown}{faults}"
    if result.unsettled:
        summary += "; UNSETTLED events"
    open_questions = tuple(f"unsettled: {line}" for line in result.unsettled_lines)
    details = (*(() if outcome is Outcome.HELD else _explained(result)), *open_questions)
    data: dict[str, Any] = {
        "guarantee": str(result.guarantee),
        "adjacency": str(result.adjacency),
        "alpha": result.alpha,
        "trials": result.trials,
        "seed": result.seed,
        "draws": result.draws,
        "epsilon": result.epsilon,
        "mu": result.mu,
        "rho": result.rho,
        "curve": [asdict(one) for one in result.certificates],
        "regions": tradeoff_regions(result.certificates),
        "profile": profile_points(result),
        "strongest": asdict(best),
        "faults": [asdict(fault) for fault in result.faults],
    }
    if result.verdict is Verdict.VIOLATED:
        name, replay = unit
        data["witness"] = witness_of(result, subject=name, replay=replay)
    return Judgment(outcome, verdict, summary, details, data)


def _explained(result: AuditResult) -> tuple[str, ...]:
    best = result.strongest
    # an exhibit has no faults
    meaning = result.meaning if result.faults else MEANING[result.verdict]
    return (
        f"{result.verdict}: {meaning}",
        str(best),
        f"a sound mechanism shows this with probability at most {best.alpha:.1e}",
        *(
            f"missed fault: {fault.name} ({needs(fault, result.is_sequential)})"
            for fault in result.missed
        ),
    )


def proof_of(derivation: Derivation[Any]) -> dict[str, Any]:
    """Return the derivation tree as plain data: for each node its statement, the rule that gave
    it, and its premises.
    """
    shown = f"; shown by spec/{derivation.obligation}" if derivation.obligation else ""
    return {
        "statement": brief(str(derivation.conclusion)),
        "rule": f"{derivation.rule} ({derivation.source}{shown})",
        "premises": [proof_of(premise) for premise in derivation.premises],
    }
