"""Portable evidence: one JSON witness a violation, for a checker that shares no code with this program.

A witness says what was claimed, which point (epsilon, delta) of the claim is refuted, by which counts or
bets, on which neighbors, and how to replay the run. ``spec/theory/check_witness.py`` verifies it again.
It stays below 10 kB: what is too large is shortened and told by a digest.

    schema       name and version
    subject      what was audited
    claim        guarantee (as ``parse_guarantee`` reads it), adjacency
    points       [epsilon, delta] of the claim that the counts or the bets are about
    events       [pair, direction, event in words]
    certificate  method, alpha, certified: [[epsilon, delta]], what is shown besides, at this delta.
                 "joint": share, counts: [hits, draws, other hits, other draws] of the one event.
                 "betting": level, omitted: the log growth of bets that are left out, never above 0
    bets         [event, point, stake, both, own, other, neither], the first two by their position
    pairs        name, kinds; data: [left, right], or that as base64 of zlib of JSON, or null; then
                 digests (sha256 of an array's bytes in C order, little-endian, or of the records' JSON,
                 one after another), and differing: of the first records that differ the position, the
                 left one and the right one, each as a list of one or none
    run          alpha, seed, trials, draws, versions, replay: a command
    sha256       of the JSON with this entry "", keys in order, as Python's json.dumps writes it

Numbers are IEEE doubles, each written with as many digits as tell it from all others. In data a NaN, an
infinity or a fraction is a string, a text {"text": ...}, any other value {"repr": ...}.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import platform
import zlib
from collections.abc import Mapping, Sequence, Sized
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import scipy

import dpverify
from dpverify.audit.auditing import AuditResult, Verdict
from dpverify.audit.betting import Bet
from dpverify.audit.certificates import Certificate, Point, tested_points
from dpverify.audit.neighbors.pairs import NeighboringPair
from dpverify.privacy import Guarantee
from dpverify.privacy.adjacency import Dataset

SCHEMA = {"name": "dpverify witness", "version": 1}
LARGEST = 10_000
"""Bytes that a witness stays below, as compact JSON."""
_ROOMS = ((5000, 60), (2000, 60), (300, 60), (300, 30), (0, 12), (0, 6))  # bytes of data, bets
_MOST_VALUES = 100_000  # in datasets that are tried to be written out
_SHORT, _LONG = 150, 1500  # bytes of names, and of a claim and a command
_DIFFERING = 3  # records that are shown of data that are too large
_MOST_BITS = 13_000  # Python reads integers of up to 4300 digits


def witness_of(
    result: AuditResult, *, subject: str, pairs: Sequence[NeighboringPair], replay: str = ""
) -> dict[str, Any]:
    """The witness of a violation, as plain data for JSON; less than 10 kB when written compactly.

    subject: the name of what was audited. pairs: those of the audit. replay: the command that runs it
    again, at most 1500 bytes.
    Raises ValueError for a verdict other than VIOLATED, for pairs that are not those of the audit, for a
    longer command, and for a sequential audit that needed more bets than there is room for.
    """
    if result.verdict is not Verdict.VIOLATED:
        raise ValueError(
            f"The verdict is {result.verdict}; only a VIOLATED claim has a witness. Keep str(result)."
        )
    if _size(replay) > _LONG:
        raise ValueError(
            f"replay has {_size(replay)} bytes; give a command of at most {_LONG}, say a script's name."
        )
    known = {_shortened(pair.name, _SHORT): pair for pair in pairs}
    if len(known) < len(pairs):
        raise ValueError(
            "Two of the pairs have the same name; a witness tells pairs by their names."
        )
    for room, most_bets in _ROOMS:
        made: dict[str, Any] = {
            "schema": SCHEMA,
            "subject": _shortened(subject, _SHORT),
            "claim": {
                "guarantee": _shortened(str(result.guarantee), _LONG),
                "adjacency": _shortened(str(result.adjacency), _SHORT),
            },
            **(_betting(result, most_bets) if result.bets else _joint(result)),
            "run": _run(result, replay),
        }
        made["pairs"] = _pairs(made["events"], known, room)
        made["sha256"] = _checksum(made)
        if _size(made) < LARGEST:
            return made
    raise ValueError(
        f"No witness of less than {LARGEST} bytes: seed = {hex(result.seed)} is too long."
    )


def write_witness(
    path: str | Path,
    result: AuditResult,
    *,
    subject: str,
    pairs: Sequence[NeighboringPair],
    replay: str = "",
) -> Path:
    """Write the witness to a file of less than 10 kB; the path. Raises as ``witness_of`` does."""
    made = witness_of(result, subject=subject, pairs=pairs, replay=replay)
    file = Path(path)
    file.write_text(_compact(made), encoding="ascii")
    return file


def _joint(result: AuditResult) -> dict[str, Any]:
    best = result.strongest
    found = best.region
    assert found is not None
    excess, point = max((found.excess(*point), point) for point in tested_points(result.guarantee))
    assert excess > 0
    counts = [best.hits, best.draws, best.other_hits, best.other_draws]
    certificate = {**_certificate(best), "share": best.share, "counts": counts}
    return {
        "points": [list(_on_claim(result.guarantee, point))],
        "events": [list(_event(best))],
        "certificate": certificate,
    }


def _certificate(best: Certificate) -> dict[str, Any]:
    shown = [[best.epsilon, best.delta]] if best.epsilon > 0 else []
    return {"method": best.method, "alpha": best.alpha, "certified": shown}


def _event(seen: Certificate | Bet) -> tuple[str, str, str]:
    return _shortened(seen.pair, _SHORT), seen.direction, _shortened(seen.event, _SHORT)


def _betting(result: AuditResult, most: int) -> dict[str, Any]:
    """The bets until the wealth reached 1 / level: all, or those that won most and the rest's sum."""
    level = result.alpha if len(set(tested_points(result.guarantee))) == 1 else result.alpha / 2
    bets = _until(result.bets, -math.log(level))
    ranked = sorted(range(len(bets)), key=lambda at: -bets[at].log_growth)
    kept = [bets[at] for at in sorted(ranked[:most])]
    omitted = sum(bets[at].log_growth for at in ranked[most:])
    if omitted > 0 and sum(bet.log_growth for bet in kept) < -math.log(level):
        raise ValueError(
            f"The evidence is spread over {len(bets)} bets, too many for a witness of {LARGEST} bytes; "
            "audit this pair alone, or with a fixed number of draws (sequential=False)."
        )
    points = sorted({(bet.epsilon, bet.delta) for bet in kept})
    events = sorted({_event(bet) for bet in kept})
    written = [
        [
            events.index(_event(bet)),
            points.index((bet.epsilon, bet.delta)),
            bet.stake,
            *(bet.tally.both, bet.tally.own, bet.tally.other, bet.tally.neither),
        ]
        for bet in kept
    ]
    certificate = {**_certificate(result.strongest), "level": level, "omitted": min(0.0, omitted)}
    return {
        "points": [list(_on_claim(result.guarantee, point)) for point in points],
        "events": [list(event) for event in events],
        "certificate": certificate,
        "bets": written,
    }


def _until(bets: Sequence[Bet], bar: float) -> list[Bet]:
    """The bets up to the one that brought the wealth to the bar."""
    total, taken = 0.0, []
    for bet in bets:
        taken.append(bet)
        total += bet.log_growth
        if total >= bar:
            break
    return taken


def _on_claim(guarantee: Guarantee, point: Point) -> Point:
    """The point in floats that the claim surely promises: an ulp or so away, within the error bars."""
    epsilon, delta = point
    for near in (epsilon, math.nextafter(epsilon, math.inf)):
        if _least_delta(guarantee, near) <= delta:
            return near, delta
    return epsilon, _least_delta(guarantee, epsilon)


def _least_delta(guarantee: Guarantee, epsilon: float) -> float:
    exact = guarantee.delta_at(Fraction(epsilon)).upper
    rounded = float(exact)
    return rounded if rounded >= exact else math.nextafter(rounded, math.inf)


def _run(result: AuditResult, replay: str) -> dict[str, Any]:
    versions = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "dpverify": dpverify.__version__,
    }
    return {
        "alpha": result.alpha,
        "seed": result.seed,
        "trials": result.trials,
        "draws": result.draws,
        "versions": versions,
        "replay": replay,
    }


def _pairs(
    events: Sequence[Sequence[str]], known: Mapping[str, NeighboringPair], room: int
) -> list[dict[str, Any]]:
    names = list(dict.fromkeys(event[0] for event in events))
    missing = [name for name in names if name not in known]
    if missing:
        raise ValueError(
            f"The violation was seen on {missing[0]!r}, which is not among the pairs; give those of the "
            "audit."
        )
    return [{"name": name, **_data(known[name], room // len(names))} for name in names]


def _data(pair: NeighboringPair, room: int) -> dict[str, Any]:
    """The datasets, where they fit; otherwise digests and the records that differ."""
    left, right = _rows(pair.left), _rows(pair.right)
    kinds = [_kind(left), _kind(right)]
    if _values(left) + _values(right) <= _MOST_VALUES:
        both = [_plain(left), _plain(right)]
        packed = base64.b64encode(zlib.compress(_compact(both).encode(), 9)).decode()
        for data in (both, packed):
            if _size(data) <= room:
                return {"kinds": kinds, "data": data}
    digests = [_digest(left), _digest(right)]
    differing: list[Any] = []
    for at, *records in _differing(left, right)[:_DIFFERING]:
        written = [at, *([_record(one, room // 6) for one in record] for record in records)]
        if _size([*differing, written]) <= room:
            differing.append(written)
    return {"kinds": kinds, "data": None, "digests": digests, "differing": differing}


def _rows(data: Dataset) -> Any:
    """A list or an array of rows."""
    return data.to_numpy() if hasattr(data, "to_numpy") else data


def _kind(rows: Any) -> str:
    if isinstance(rows, np.ndarray):
        return f"{rows.dtype} array of shape {rows.shape}"[:_SHORT]
    return f"{type(rows).__name__} of {len(rows)}"[:_SHORT]


def _values(rows: Any) -> int:
    if isinstance(rows, np.ndarray):
        return rows.size
    return sum(len(row) if isinstance(row, Sized) else 1 for row in rows)


def _differing(left: Any, right: Any) -> list[tuple[int, list[Any], list[Any]]]:
    """The first positions whose records differ; of unequal sizes, the record that is one more."""
    shared = min(len(left), len(right))
    apart = (at for at in range(shared) if not _same(left[at], right[at]))
    if len(left) != len(right):
        at = next(apart, shared)
        return [(at, [left[at]], []) if len(left) > shared else (at, [], [right[at]])]
    return [(at, [left[at]], [right[at]]) for at in islice(apart, _DIFFERING)]


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and one.dtype.kind in "biuf":
        return np.array_equal(one, other, equal_nan=one.dtype.kind == other.dtype.kind == "f")
    return bool(_plain(one) == _plain(other))


def _record(given: Any, room: int) -> Any:
    text = _compact(_plain(given))
    if len(text) <= room:
        return _plain(given)
    return {"sha256": hashlib.sha256(text.encode()).hexdigest(), "start": _shortened(text, room)}


def _digest(rows: Any) -> str:
    if isinstance(rows, np.ndarray) and rows.dtype.kind in "biufc":
        return hashlib.sha256(rows.astype(rows.dtype.newbyteorder("<")).tobytes()).hexdigest()
    digest = hashlib.sha256()
    for row in rows:
        digest.update(_compact(_plain(row)).encode())
    return digest.hexdigest()


def _plain(given: Any) -> Any:
    """As JSON has it: see the module's text."""
    value = given.tolist() if hasattr(given, "tolist") else given
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if value is None or type(value) is bool or (type(value) is float and math.isfinite(value)):
        return value
    if isinstance(value, str):
        return {"text": str(value)}
    if not hasattr(value, "as_integer_ratio"):
        return {"repr": repr(value)}
    try:
        over, under = (int(part) for part in value.as_integer_ratio())
    except (ValueError, OverflowError):  # a NaN, an infinity
        return str(float(value))
    if max(over.bit_length(), under.bit_length()) > _MOST_BITS:
        return {"repr": f"{over:#x}/{under:#x}"}
    if isinstance(value, float):
        return float(value)
    return over if under == 1 else f"{over}/{under}"


def _shortened(text: str, most: int) -> str:
    """At most so many bytes of JSON; what was longer ends with a digest of all of it."""
    if _size(text) <= most:
        return text
    end = f"... sha256 {hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
    kept = text[:most]
    while kept and _size(kept + end) > most:
        kept = kept[: len(kept) * 9 // 10]
    return kept + end


def _compact(given: Any) -> str:
    return json.dumps(given, separators=(",", ":"), allow_nan=False)


def _size(given: Any) -> int:
    return len(_compact(given))


def _checksum(made: Mapping[str, Any]) -> str:
    text = json.dumps({**made, "sha256": ""}, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
