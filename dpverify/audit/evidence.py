"""Portable evidence: one JSON witness a violation, for a checker that shares no code with this
program.

A witness says what was claimed, which point (epsilon, delta) of the claim is refuted, by which
counts or bets, on which neighbors, and how to replay the run. ``spec/theory/check_witness.py``
verifies it again. It stays below 10 kB: what is too large is shortened and told by a digest.

    schema       name and version
    subject      what was audited
    claim        guarantee (as ``parse_guarantee`` reads it), adjacency
    points       [epsilon, delta] of the claim that the counts or the bets are about
    events       [pair, direction, event in words]
    certificate  method, alpha, certified: [[epsilon, delta]], what is shown besides, rounded
                 down; of bets [].
                 "joint": share, counts: [hits, draws, other hits, other draws] of the one event;
                 odds, where share is 0: the least ratio of odds that is not rejected;
                 earlier, if an event of the draws that chose it counts besides: event, share,
                 counts, odds, weight, scores: what the sums of both have to reach.
                 "guesses": counts: [right guesses, wrong ones] at the sides of single calls.
                 "betting": level, single: whether bets are on single calls, omitted: the log
                 growth of bets that are left out, never above 0
    bets         [event, point, stake, both, own, other, neither], the first two by their position
    pairs        name, kinds; data: [left, right], or that as base64 of zlib of JSON, or null; then
                 digests (sha256 of an array's bytes in C order, little-endian, or of the
                 records' JSON, one after another), and differing: of the first records that
                 differ the position, the left one and the right one, each as a list of one or
                 none
    run          alpha, seed, trials, draws, versions, replay: a command
    sha256       of the JSON with this entry "", keys in order, as Python's json.dumps writes it

Numbers are IEEE doubles, each written with as many digits as tell it from all others. In data a
NaN, an infinity or a fraction that is no double is a string, a text {"text": ...}, any other
value {"repr": ...}.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import scipy

import dpverify
from dpverify.audit.betting import Bet
from dpverify.audit.certificates import Certificate, Earlier, Point, tested_points
from dpverify.audit.confidence_regions import OF_ODDS, Counted, log_odds_of, score_of
from dpverify.audit.neighbors.pairs import NeighboringPair
from dpverify.audit.portable import compact, datasets_as_json, shortened, size_of
from dpverify.audit.result import AuditResult
from dpverify.audit.verdicts import Verdict
from dpverify.privacy import Guarantee

SCHEMA = {"name": "dpverify witness", "version": 1}
LARGEST = 10_000
"""Size in bytes that a witness stays below, as compact JSON."""
_ROOMS = ((5000, 60), (2000, 60), (300, 60), (300, 30), (0, 12), (0, 6))  # bytes of data, bets
_MARGIN = 1e-8  # subtracted from the certified epsilon, for the rounding of a checker
_SHORT, _LONG = 150, 1500  # bytes of names, and of a claim and a command


def witness_of(
    result: AuditResult, *, subject: str | None = None, replay: str = ""
) -> dict[str, Any]:
    """Make the witness of a violation, as plain data for JSON; less than 10 kB when written
    compactly.

    subject: the name of what was audited, by default the result's. replay: the command that
    runs the audit again, at most 1500 bytes.
    Raises ValueError for a verdict other than VIOLATED, for a result without its pairs (one
    loaded from plain data), for a longer command, and for a sequential audit that needed more
    bets than there is room for.
    """
    if not isinstance(result, AuditResult):
        raise TypeError(f"result = {result!r:.80}; give what audit(...) returned.")
    if result.verdict is not Verdict.VIOLATED:
        raise ValueError(
            f"The verdict is {result.verdict}; only a VIOLATED claim has a witness. Keep "
            "str(result)."
        )
    if size_of(replay) > _LONG:
        raise ValueError(
            f"replay has {size_of(replay)} bytes; give a command of at most {_LONG}, say a "
            "script's name."
        )
    known = {shortened(pair.name, _SHORT): pair for pair in result.pairs}
    if len(known) < len(result.pairs):
        raise ValueError(
            "Two of the pairs have the same name; a witness tells pairs by their names."
        )
    for room, most_bets in _ROOMS:
        made: dict[str, Any] = {
            "schema": SCHEMA,
            "subject": shortened(result.subject if subject is None else subject, _SHORT),
            "claim": {
                "guarantee": shortened(str(result.guarantee), _LONG),
                "adjacency": shortened(str(result.adjacency), _SHORT),
            },
            **_proof(result, most_bets),
            "run": _run(result, replay),
        }
        made["pairs"] = _pairs(made["events"], known, room)
        made["sha256"] = _checksum(made)
        if size_of(made) < LARGEST:
            return made
    raise ValueError(
        f"No witness of less than {LARGEST} bytes: seed = {hex(result.seed)} is too long."
    )


def write_witness(
    result: AuditResult, path: str | Path, *, subject: str | None = None, replay: str = ""
) -> Path:
    """Write the witness of a violation to a file of less than 10 kB, and return its path.
    Arguments as in ``witness_of``.
    """
    made = witness_of(result, subject=subject, replay=replay)
    file = Path(path)
    file.write_text(compact(made), encoding="ascii")
    return file


def _proof(result: AuditResult, most_bets: int) -> dict[str, Any]:
    if result.bets:
        return _betting(result, most_bets)
    return _guesses(result) if result.strongest.method == "guesses" else _joint(result)


def _guesses(result: AuditResult) -> dict[str, Any]:
    best = result.strongest
    (point,) = tested_points(result.guarantee)
    return {
        "points": [list(_on_claim(result.guarantee, point))],
        "events": [list(_event(best))],
        "certificate": {**_certificate(best), "counts": [best.hits, best.other_hits]},
    }


def _joint(result: AuditResult) -> dict[str, Any]:
    best = result.strongest
    region = best.region
    assert region is not None
    excess, point = max((region.excess(*point), point) for point in tested_points(result.guarantee))
    assert excess > 0
    counts = [best.hits, best.draws, best.other_hits, best.other_draws]
    certificate = {**_certificate(best), "share": best.share, "counts": counts}
    scores = best.scores or (score_of(best.alpha),)
    certificate |= _odds(Counted(*counts), best.share, scores[-1])
    if best.earlier is not None:
        certificate["earlier"] = _earlier(best.earlier, scores)
    return {
        "points": [list(_on_claim(result.guarantee, point))],
        "events": [list(_event(best))],
        "certificate": certificate,
    }


def _earlier(earlier: Earlier, scores: Sequence[float]) -> dict[str, Any]:
    return {
        "event": shortened(earlier.event, _SHORT),
        "share": earlier.share,
        "weight": earlier.weight,
        "counts": [earlier.hits, earlier.draws, earlier.other_hits, earlier.other_draws],
        "scores": list(scores),
        **_odds(earlier.counted, earlier.share, scores[0]),
    }


def _odds(counted: Counted, share: float, score: float) -> dict[str, float]:
    """Return what the test of odds rejects up to, where that is the test."""
    return {} if share != OF_ODDS else {"odds": math.exp(log_odds_of(counted, score))}


def _certificate(best: Certificate) -> dict[str, Any]:
    epsilon = best.epsilon - _MARGIN * (1 + abs(best.epsilon))
    shown = [[epsilon, best.delta]] if epsilon > 0 else []
    return {"method": best.method, "alpha": best.alpha, "certified": shown}


def _event(seen: Certificate | Bet) -> tuple[str, str, str]:
    return shortened(seen.pair, _SHORT), seen.direction, shortened(seen.event, _SHORT)


def _betting(result: AuditResult, most: int) -> dict[str, Any]:
    """Return the bets until the wealth reached 1 / level: all, or those that won most and the
    rest's sum.
    """
    level = result.alpha if len(set(tested_points(result.guarantee))) == 1 else result.alpha / 2
    bets = _until(result.bets, -math.log(level))
    ranked = sorted(range(len(bets)), key=lambda at: -bets[at].log_growth)
    kept = [bets[at] for at in sorted(ranked[:most])]
    omitted = sum(bets[at].log_growth for at in ranked[most:])
    if omitted > 0 and sum(bet.log_growth for bet in kept) < -math.log(level):
        raise ValueError(
            f"The evidence is spread over {len(bets)} bets, too many for a witness of {LARGEST} "
            "bytes; audit this pair alone, or with a fixed number of draws (sequential=False)."
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
    single = any(bet.share for bet in kept)
    own = {"certified": [], "level": level, "single": single, "omitted": min(0.0, omitted)}
    certificate = {**_certificate(result.strongest), **own}
    return {
        "points": [list(_on_claim(result.guarantee, point)) for point in points],
        "events": [list(event) for event in events],
        "certificate": certificate,
        "bets": written,
    }


def _until(bets: Sequence[Bet], bar: float) -> list[Bet]:
    """Return the bets up to the one that brought the wealth to the bar."""
    total, taken = 0.0, []
    for bet in bets:
        taken.append(bet)
        total += bet.log_growth
        if total >= bar:
            break
    return taken


def _on_claim(guarantee: Guarantee, point: Point) -> Point:
    """Return a point in floats that the claim surely promises: an ulp or so away, within the
    error bars.
    """
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
            f"The violation was seen on {missing[0]!r}, which is not among the result's pairs; "
            "take the result that audit() returned (one that was loaded from plain data has no "
            "pairs)."
        )
    return [{"name": name, **datasets_as_json(known[name], room // len(names))} for name in names]


def _checksum(made: Mapping[str, Any]) -> str:
    text = json.dumps({**made, "sha256": ""}, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
