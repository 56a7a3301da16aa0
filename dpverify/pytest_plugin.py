"""Reports of the audits that tests made: the events of ``dpverify audit --jsonl``, one for each
audit.

``_dpverify_pytest`` is what pytest loads; it imports this module when a test audits something.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dpverify
from dpverify.audit import AuditResult
from dpverify.report.jsonl import JsonLines
from dpverify.suite.audited import audited
from dpverify.suite.events import (
    EXIT_INTERRUPTED,
    Judgment,
    Outcome,
    RunFinished,
    RunStarted,
    UnitFinished,
    exit_code,
    from_json,
    to_json,
)
from dpverify.testing import Finding

_OUTCOMES = {
    "CONSISTENT": Outcome.HELD,
    "nothing found": Outcome.HELD,
    "VIOLATED": Outcome.REFUTED,
    "POWERLESS": Outcome.POWERLESS,
    "INVALID": Outcome.INVALID,
}


def event_of(finding: Finding, name: str) -> dict[str, Any]:
    """Return what was found as an event in plain data, which can be sent between processes."""
    judgment = _judged(finding, name)
    data = {**(judgment.data or {}), "facts": finding.facts}
    event = UnitFinished(
        finding.kind,
        name,
        judgment.outcome,
        judgment.verdict,
        judgment.summary,
        judgment.details,
        finding.facts["replay"],
        finding.seconds,
        data,
    )
    plain: dict[str, Any] = json.loads(json.dumps(to_json(event)))
    return plain


def _judged(finding: Finding, name: str) -> Judgment:
    outcome, facts = _OUTCOMES[finding.verdict], finding.facts
    said = tuple(f"{key}: {text}" for key, text in facts.items() if key != "replay")
    details = () if outcome is Outcome.HELD else said
    result = finding.result
    if isinstance(result, AuditResult):
        try:
            return audited(result, (name, facts["replay"]), outcome, finding.verdict)
        except ValueError as error:  # of the witness, which has no room for some
            details = (*details, f"no witness: {error}")
    data = None if result is None else result.to_dict()
    return Judgment(
        outcome, finding.verdict, f"claim {facts['claim']}; {facts['seen']}", details, data
    )


def write_report(
    path: Path,
    units: Sequence[Mapping[str, Any]],
    root: str,
    seed: int,
    seconds: float,
    *,
    interrupted: bool,
) -> None:
    """Write the audits of a run, in the order of their names, as a run of its own in JSON lines.

    seed: of ``--dp-seed``, 0 without it; each unit's command says its own.
    """
    read = map(from_json, sorted(units, key=lambda unit: str(unit["name"])))
    finished = [unit for unit in read if isinstance(unit, UnitFinished)]
    alpha = sum(float(unit.data.get("alpha", 0.0)) for unit in finished)
    counts = Counter(str(unit.outcome) for unit in finished)
    code = EXIT_INTERRUPTED if interrupted else exit_code([unit.outcome for unit in finished])
    lines = JsonLines(path)
    lines(RunStarted("pytest", dpverify.__version__, root, seed, len(finished), alpha))
    for unit in finished:
        lines(unit)
    lines(RunFinished(code, dict(counts), seconds, interrupted))
