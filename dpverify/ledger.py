"""The ledger claims.toml: the promises, reviewed by people; and the code compared with it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import tomli_w

from dpverify.audit import Configuration
from dpverify.privacy import Guarantee, exact, parse_guarantee, render, sources_of
from dpverify.suite import black_boxes, refutations
from dpverify.suite.black_boxes import ASSERTED
from dpverify.suite.refutations import DIGEST, FOUND, OPEN, Refutation
from dpverify.suite.trees import Suite

Entry = dict[str, Any]
_SKIPPED = {"adjacency", "noise_multiplier", "budget"}
_HEADER = """\
# The promises of this suite, one entry a configuration. Written by `dpverify claims --update`,
# reviewed by people: a diff of this file is a change of what is promised.

"""


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between the code and the ledger in one entry.

    breaking: a promise got weaker.
    """

    key: str
    kind: str
    detail: str
    breaking: bool = False


KINDS = {
    "NEW": "promised by the code and not recorded",
    "DROPPED": "recorded and not in the code; breaking",
    "LOOSENED": "the guarantee promises less; breaking",
    "TIGHTENED": "the guarantee promises more",
    "INCOMPARABLE": "neither guarantee implies the other, or one cannot be read; breaking",
    "STATUS": "proved, conjectured, asserted or refuted; breaking where it got weaker",
    "NOISIER": "the noise multiplier is more than 1% larger",
    "NOISE": "another noise multiplier",
    "WITNESS": "a refuted claim's witness is missing, changed or refused; breaking",
    "a field": "of any other field its name, as DOMAIN or LEMMAS; breaking for ADJACENCY, DOMAIN, "
    "REFUTED_ON, ROUNDED, and where one of FAULTS or PAIRS is gone or CERTIFIED_EPSILON is less",
}
"""Names of differences, and their meanings. Each makes ``claims --check`` exit with 1."""
_ALWAYS_BREAKING = {"adjacency", "domain", "refuted_on", "rounded"}
_ATTACKED_WITH = ("faults", "pairs")
"""Parts of a black box, and what a check of its claim loses where one of them is gone."""
_TRUST = ["refuted", ASSERTED, "conjectured", "proved"]


def path_of(suite: Suite) -> Path:
    """Return where a suite keeps its ledger."""
    return suite.root / "claims.toml"


def read(path: Path) -> dict[str, Entry]:
    """Return the recorded entries by key; none if there is no ledger yet.

    Raises ValueError when the file is not TOML.
    """
    if not path.exists():
        return {}
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a ledger: {error}. {_RESTORE}") from None
    for key, entry in entries.items():
        if not isinstance(entry, dict):
            raise ValueError(f"{path} is not a ledger: {key} is not a table. {_RESTORE}")
    return entries


_RESTORE = (
    "Take the file from version control, or delete it and let `dpverify claims --update` write it "
    "again, which accepts every claim of the code as it is."
)


def write(path: Path, entries: Mapping[str, Entry]) -> None:
    """Replace the ledger."""
    text = tomli_w.dumps({key: entries[key] for key in sorted(entries)})
    path.write_text(_HEADER + text, encoding="utf-8")


def promised(
    suite: Suite, refuted: Mapping[str, Refutation], recorded: Mapping[str, Entry]
) -> dict[str, Entry]:
    """Return the entries as the code has them now.

    False claims are as they are ``refuted``, or else on the pair and beyond the bound that are
    recorded, which are the witness's (``unshown``).
    """
    names = (*suite.entries, *suite.boxes)
    entries = {key: one for name in names for key, one in claims_of(suite, name).items()}
    for name, exhibit in suite.exhibits.items():
        key = f"exhibits/{name}"
        fields = {k: v for k, v in recorded.get(key, {}).items() if k in FOUND}
        one = refuted.get(name)
        entries[key] = one.entry() if one else {**fields, **refutations.facts(name, exhibit)}
    return entries


def claims_of(suite: Suite, name: str) -> dict[str, Entry]:
    """Return the entries of one mechanism, or of one file of black boxes, as the code has them."""
    if name in suite.boxes:
        return {key: black_boxes.entry_of(box) for key, box in suite.boxed(name).items()}
    entry = suite.entries[name]
    return {key: _claim_entry(entry.spec, one) for key, one in entry.keyed.items()}


def with_witnesses(
    suite: Suite, current: Mapping[str, Entry], refuted: Mapping[str, Refutation]
) -> dict[str, Entry]:
    """Return the same entries with the digests of the witnesses.

    Witnesses are written where none shows what is promised.
    """
    kept = {f"exhibits/{name}": refutations.keep(suite, one) for name, one in refuted.items()}
    return {**current, **kept}


def unshown(suite: Suite, recorded: Mapping[str, Entry]) -> list[Difference]:
    """Return refuted entries without a witness of theirs: missing, changed, of something else,
    refused.
    """
    diffs: list[Difference] = []
    for name in sorted(suite.exhibits):
        key = f"exhibits/{name}"
        entry = recorded.get(key, {})
        if entry.get("status") != "refuted":
            continue  # differences from the code are reported by compare
        try:
            left, known = refutations.shown(suite, name, entry), entry.get(OPEN, [])
        except refutations.Unsound as error:
            diffs.append(Difference(key, "WITNESS", str(error), True))
            continue
        if left != known:
            detail = f"the checker leaves open {left}, and {known} is recorded"
            diffs.append(Difference(key, "WITNESS", detail, True))
    stray = refutations.strays(suite)
    return diffs + [Difference(file, "WITNESS", "is of no exhibit; delete it") for file in stray]


def compare(recorded: Mapping[str, Entry], current: Mapping[str, Entry]) -> list[Difference]:
    """Return every difference, by key."""
    diffs: list[Difference] = []
    for key in sorted({*recorded, *current}):
        if key not in current:
            diffs.append(Difference(key, "DROPPED", "recorded, but absent in the code", True))
        elif key not in recorded:
            diffs.append(Difference(key, "NEW", f"promises {current[key]['guarantee']}"))
        else:
            diffs += _compare_entry(key, recorded[key], current[key])
    return diffs


def _claim_entry(spec: ModuleType, configuration: Configuration) -> Entry:
    mechanism = configuration.mechanism
    claim = mechanism.claim
    events = [f"{event.conclusion}" for event in mechanism.derivation.events]
    return ({"events": events} if events else {}) | {
        "parameters": {
            name: _plain(value)
            for name, value in mechanism.parameters.items()
            if name not in _SKIPPED and value is not None
        },
        "guarantee": str(claim.guarantee),
        "adjacency": str(claim.adjacency),
        "domain": str(claim.domain),
        "noise_multiplier": render(mechanism.noise_multiplier),
        "lemmas": [f"{lemma.conclusion}" for lemma in mechanism.derivation.lemmas],
        "obligations": sorted({lemma.obligation for lemma in mechanism.derivation.lemmas}),
        "status": str(claim.status),
        "source": "; ".join(str(source) for source in sources_of(spec.law)),
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Fraction):
        return render(value)
    if isinstance(value, Enum):
        return str(value)
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value if isinstance(value, (bool, int, float, str)) else str(value)


def _compare_entry(key: str, old: Entry, new: Entry) -> list[Difference]:
    diffs: list[Difference] = []
    if old.get("guarantee") != new["guarantee"]:
        diffs.append(_compare_guarantees(key, str(old.get("guarantee")), new["guarantee"]))
    if old.get("status") != new["status"]:
        diffs.append(_compare_statuses(key, old.get("status"), new["status"]))
    if old.get("noise_multiplier") != new.get("noise_multiplier"):
        diffs.append(_compare_noise(key, str(old.get("noise_multiplier")), new))
    known = {"guarantee", "status", "noise_multiplier", DIGEST, OPEN}
    for name in sorted({*old, *new} - known):
        if old.get(name) != new.get(name):
            detail = f"{old.get(name)!r} became {new.get(name)!r}"
            diffs.append(Difference(key, name.upper(), detail, _breaks(name, old, new)))
    return diffs


def _breaks(name: str, old: Entry, new: Entry) -> bool:
    if name == "certified_epsilon":  # an exhibit is refuted less strongly than before
        try:
            return float(new[name]) < float(old[name])
        except (KeyError, TypeError, ValueError):
            return True
    if name in _ATTACKED_WITH:
        had, has = old.get(name), new.get(name)
        return not (isinstance(had, list) and isinstance(has, list) and all(x in has for x in had))
    return name in _ALWAYS_BREAKING


def _compare_statuses(key: str, old: object, new: str) -> Difference:
    known = old in _TRUST and new in _TRUST
    weaker = not known or _TRUST.index(new) < _TRUST.index(str(old))
    return Difference(key, "STATUS", f"{old} became {new}", weaker)


def _compare_guarantees(key: str, old_text: str, new_text: str) -> Difference:
    detail = f"{old_text} became {new_text}"
    try:
        old, new = parse_guarantee(old_text), parse_guarantee(new_text)
    except ValueError as error:
        return Difference(key, "INCOMPARABLE", str(error), True)
    kind = _direction(old, new)
    return Difference(key, kind, detail, kind != "TIGHTENED")


def _direction(old: Guarantee, new: Guarantee) -> str:
    if new.implies(old):
        return "TIGHTENED"
    return "LOOSENED" if old.implies(new) else "INCOMPARABLE"


def _compare_noise(key: str, old_text: str, new: Entry) -> Difference:
    detail = f"noise_multiplier {old_text} became {new.get('noise_multiplier')}"
    try:
        old_value = exact(old_text, "noise_multiplier")
        noisier = exact(new["noise_multiplier"], "noise_multiplier") > old_value * Fraction(
            101, 100
        )
    except (KeyError, ValueError):
        noisier = False
    return Difference(key, "NOISIER" if noisier else "NOISE", detail)
