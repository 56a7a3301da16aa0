"""Refutations that are kept: an exhibit's witness lies in the suite, and the independent
checker checks it.

The checker, spec/theory/check_witness.py, runs as anybody would run it. The ledger says what it
cannot check, because data are given by digests; here these digests are compared with those of
the exhibit's pairs.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from math import floor
from pathlib import Path
from typing import Any

from dpverify.audit import AuditResult, Exhibit, Verdict, audit, witness_of
from dpverify.audit.portable import compact, tells
from dpverify.suite.trees import Suite, find_root

FOLDER = "audits/exhibits/witnesses"
FOUND = ("refuted_on", "certified_epsilon")
"""Fields of an entry that an attack finds."""
DIGEST, OPEN = "witness_sha256", "witness_leaves_open"
_CHECKER = "spec/theory/check_witness.py"
_REPLAY = "dpverify claims --update"
_ACCEPTED, _IN_PART = 0, 2  # exit codes of the checker
_ALPHA = 1e-6
_OPEN_WORDS = ("NOT CHECKED", "TAKEN FROM")


@dataclass(frozen=True, slots=True)
class Refutation:
    """Exhibit attacked from a fixed seed: its inputs are integers, so the bound is the same
    everywhere.
    """

    name: str
    exhibit: Exhibit
    result: AuditResult

    @property
    def refuted(self) -> bool:
        """The outcome of the attack: True if it refuted the exhibit's claim."""
        return self.result.verdict is Verdict.VIOLATED

    @property
    def path(self) -> str:
        """Path of the witness, from the suite's root."""
        return path_of(self.name)

    def entry(self) -> dict[str, Any]:
        """Return the ledger's entry, but for the witness's digest and what that leaves open."""
        fields = facts(self.name, self.exhibit)
        if not self.refuted:
            del fields["witness"]
            fields["status"] = "not refuted"
        bound = _rounded_down(self.result.epsilon)
        return {**fields, **dict(zip(FOUND, (self.result.strongest.pair, bound), strict=True))}


class Unsound(Exception):
    """Refusal of a witness that does not show what the ledger says; the message gives the
    reason.
    """


def facts(name: str, exhibit: Exhibit) -> dict[str, Any]:
    """Return the ledger's fields of an exhibit that is refuted, but for those that an attack
    finds.
    """
    claim = exhibit.claim.conclusion
    return {
        "guarantee": str(claim.guarantee),
        "adjacency": str(claim.adjacency),
        "domain": str(claim.domain),
        "status": "refuted",
        "why": exhibit.why,
        "source": str(exhibit.claim.source),
        "witness": path_of(name),
    }


def path_of(name: str) -> str:
    """Return the path of an exhibit's witness, from the suite's root."""
    return f"{FOLDER}/{name}.json"


def witnessed(suite: Suite, name: str) -> float:
    """Return the epsilon of an exhibit's witness, in whole tenths as the ledger has it; 0 where
    none is kept.
    """
    try:
        witness = json.loads((suite.root / path_of(name)).read_text(encoding="ascii"))
        return float(_rounded_down(witness["certificate"]["certified"][0][0]))
    except (OSError, ValueError, LookupError, TypeError):  # the file may contain anything
        return 0.0


def attack(suite: Suite) -> dict[str, Refutation]:
    """Attack every exhibit with its quick draws, and return the results by name."""
    return {name: _attacked(name, exhibit) for name, exhibit in suite.exhibits.items()}


def keep(suite: Suite, refutation: Refutation) -> dict[str, Any]:
    """Return the ledger's entry with the digest of a witness in the suite; a file that shows it
    is left as it is.
    """
    entry = refutation.entry()
    if not refutation.refuted:
        return entry
    file = suite.root / refutation.path
    try:
        left = shown(suite, refutation.name, {**entry, DIGEST: _digest(file)})
    except Unsound:
        made = witness_of(refutation.result, subject=f"exhibits/{refutation.name}", replay=_REPLAY)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(compact(made).encode("ascii"))
        left = shown(suite, refutation.name, {**entry, DIGEST: _digest(file)})
    kept = {**entry, DIGEST: _digest(file)}
    return {**kept, OPEN: left} if left else kept


def shown(suite: Suite, name: str, entry: Mapping[str, Any]) -> list[str]:
    """Return what the checker leaves open about the witness of a refuted entry; raises Unsound
    if the witness does not show the entry.
    """
    file = suite.root / path_of(name)
    if DIGEST not in entry:
        raise Unsound("refuted, but no witness is recorded")
    if (digest := _digest(file)) != entry[DIGEST]:
        raise Unsound(f"{file} has the digest {digest}, and {entry[DIGEST]} is recorded")
    try:
        witness = json.loads(file.read_text(encoding="ascii"))
        _require_same(witness, name, entry, suite.exhibits[name])
    except Exception as error:  # the file may contain anything
        raise Unsound(f"{file} is no witness of this claim: {error}") from None
    return _checked(file)


def strays(suite: Suite) -> list[str]:
    """List files among the witnesses that are of no exhibit, from the suite's root."""
    known = {path_of(name) for name in suite.exhibits}
    files = (f"{FOLDER}/{file.name}" for file in sorted((suite.root / FOLDER).glob("*")))
    return [file for file in files if file not in known]


def _attacked(name: str, exhibit: Exhibit) -> Refutation:
    claim, pairs = exhibit.claim.conclusion, exhibit.pairs
    trials = exhibit.quick_trials or 20_000
    result = audit(exhibit, claim=claim, pairs=pairs, trials=trials, alpha=_ALPHA, seed=0)
    return Refutation(name, exhibit, result)


def _rounded_down(epsilon: float) -> str:
    return f"{floor(epsilon * 10) / 10:.1f}"


def _digest(file: Path) -> str:
    """Hash the file's bytes; raises Unsound if there is no file."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        raise Unsound(f"there is no witness {file}") from None


def _require_same(witness: Any, name: str, entry: Mapping[str, Any], exhibit: Exhibit) -> None:
    """Require that a witness is of this exhibit, claim, pair and bound; raises ValueError
    otherwise.
    """
    (epsilon, _), *_ = witness["certificate"]["certified"]
    for what, said, own in (
        ("subject", witness["subject"], f"exhibits/{name}"),
        ("guarantee", witness["claim"]["guarantee"], entry["guarantee"]),
        ("adjacency", witness["claim"]["adjacency"], entry["adjacency"]),
        ("pair", [event[0] for event in witness["events"]], [entry["refuted_on"]]),
        ("alpha", witness["run"]["alpha"], _ALPHA),
        ("certified epsilon", _rounded_down(epsilon), entry["certified_epsilon"]),
    ):
        if said != own:
            raise ValueError(f"its {what} is {said!r}, not {own!r}")
    pairs = {pair.name: pair for pair in exhibit.pairs}
    for written in witness["pairs"]:
        if not tells(written, pairs[written["name"]]):
            raise ValueError(f"its pair {written['name']!r} has other records than the exhibit's")


def _checked(file: Path) -> list[str]:
    """List what the checker could not check; raises Unsound if it refuses the witness."""
    command = [sys.executable, str(find_root() / _CHECKER), str(file)]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode == _ACCEPTED:
        return []
    left = [line for line in run.stdout.splitlines() if line.startswith(_OPEN_WORDS)]
    if run.returncode != _IN_PART or not left:
        raise Unsound(f"the checker says: {(run.stderr or run.stdout).strip()}")
    return left
