"""Certified bounds of functions with unknown law: now, before, and with the best event known.

Run by hand: python -m tests.benchmarks.power_tables [--seeds 20] [--before CHECKOUT] [--groups
NAME...]

"known": the event {log-likelihood ratio >= t}, for the t that certifies most of the laws
themselves, on the very draws that certify what the auditor chose, at nine tenths of alpha. Bounds
are medians over the seeds, in which the two sides' noise differs too; refuted: in how many of the
runs. The setting of every row is in power_subjects. CHECKOUT: another state of the project, whose
auditor is measured on the same seeds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpverify.audit import added
from dpverify.audit.attack import FixedAttack
from dpverify.audit.certificates import Aim
from dpverify.audit.confidence_regions import Counted, confidence_region, share_of
from dpverify.audit.outputs.laws import encode
from dpverify.audit.studies import Shot
from dpverify.audit.subjects import target_of
from dpverify.audit.witnesses.choosing import Witness
from dpverify.audit.witnesses.features import Candidate
from dpverify.privacy import PureDP

if __name__ == "__main__" and not __package__:  # for the auditor of another checkout
    sys.path.append(str(Path(__file__).parent))
    from power_subjects import SUBJECTS, Subject  # type: ignore[import-not-found, unused-ignore]
else:
    from tests.benchmarks.power_subjects import SUBJECTS, Subject
    from tests.benchmarks.timing import header, table

PAIR = added("a record", [], 1.0)
MAIN = 0.9
SAMPLE, SHOWN = 400_000, 120
FIRST_SEED = 5000
GROUPS = ("built", "fresh", "unseen", "noise", "secret", "entries", "plain")


def point_of(subject: Subject) -> tuple[float, float]:
    """Return epsilon and delta of the claim."""
    claim: Any = subject.claim
    return float(claim.epsilon), 0.0 if isinstance(claim, PureDP) else float(claim.delta)


def known_event(subject: Subject, draws: int) -> Witness:
    """Find the event that certifies most with so many draws a side, by importance weights."""
    rng, batches = np.random.default_rng(2), []
    for _ in range(8):
        batches.append(subject.best(encode(subject.draw(rng, SAMPLE // 8, 1))))
    scores = np.sort(np.concatenate(batches))[::-1]
    others = np.cumsum(np.exp(-scores)) / SAMPLE
    point, best = point_of(subject), (-np.inf, np.inf, Aim((0.0, 0.0), 1))
    last = np.flatnonzero(np.append(scores[1:] != scores[:-1], True))
    ranks = np.unique(last[np.searchsorted(last, np.geomspace(20, SAMPLE - 1, SHOWN).astype(int))])
    for rank in ranks:
        p, q = (rank + 1) / SAMPLE, min(1.0, float(others[rank]))
        if p <= point[1] or p >= 1:
            continue
        spread = np.sqrt(p * (1 - p)) / (p - point[1])
        share = share_of(spread, np.sqrt((1 - q) / q)) if q else 40
        counted = Counted(round(p * draws), draws, round(q * draws), draws)
        shown = confidence_region(counted, share, subject.alpha * MAIN).epsilon_at(point[1])
        best = max(best, (shown, float(scores[rank]), Aim(point, share)), key=lambda one: one[0])
    score = Candidate("the best score >= {threshold}", subject.best, False, False)
    return Witness(score, 1, best[1], best[2], 0.0)


def measured(subject: Subject, seed: int, known: dict[int, Witness]) -> dict[str, Any]:
    """Audit one pair, and certify the known event on the same draws."""
    attack = FixedAttack(subject.claim, [PAIR], subject.trials, subject.alpha, seed)
    start = time.process_time()
    study = attack.study(target_of(subject.function(seed), True), 0, 0)
    (shots,) = attack.shots([study])
    seconds = time.process_time() - start
    if study.draws not in known:
        known[study.draws] = known_event(subject, study.draws)
    side = [len(data) for data in (PAIR.left, PAIR.right)].index(1)
    best = Shot(side, known[study.draws], subject.alpha * MAIN)
    *ours, informed = attack.certify(0, study, [*shots, best])
    shown = max(ours, key=lambda one: (one.refuted, one.epsilon))
    return {
        "ours": shown.epsilon,
        "refuted": any(one.refuted for one in ours),
        "known": informed.epsilon,
        "known refuted": informed.refuted,
        "draws": study.draws,
        "event": f"{shown.event} [{shown.hits}:{shown.other_hits}]",
        "best": f"{informed.event} [{informed.hits}:{informed.other_hits}]",
        "seconds": seconds,
    }


def runs(name: str, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Run all seeds of a row."""
    known: dict[int, Witness] = {}
    return [measured(SUBJECTS[name], seed, known) for seed in seeds]


def before(checkout: str, name: str, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Run the auditor of another checkout on the same seeds."""
    command = [sys.executable, __file__, "--raw", name, "--first", str(seeds[0])]
    command += ["--seeds", str(len(seeds))]
    said = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": checkout},
        cwd=checkout,
        check=True,
        capture_output=True,
        text=True,
    )
    outcomes: list[dict[str, Any]] = json.loads(said.stdout)
    return outcomes


def cells(outcomes: Sequence[dict[str, Any]]) -> list[str]:
    """Return the median bound, the known event's bound, their ratio, refutations, seconds."""
    ours, known = (float(np.median([one[key] for one in outcomes])) for key in ("ours", "known"))
    refuted, best = (sum(one[key] for one in outcomes) for key in ("refuted", "known refuted"))
    seconds = float(np.median([one["seconds"] for one in outcomes]))
    bounds = [f"{ours:.3f}", f"{known:.3f}", f"{ours / known:.3f}"]
    return [*bounds, f"{refuted}", f"{best}", f"{seconds:.1f}"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=FIRST_SEED)
    parser.add_argument("--before", metavar="CHECKOUT")
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=GROUPS)
    parser.add_argument("--rows", nargs="+", choices=SUBJECTS)
    parser.add_argument("--raw", choices=SUBJECTS, help="one row, as JSON")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    if given.raw:
        print(json.dumps(runs(given.raw, seeds)))
        return
    rows = given.rows or [name for name, one in SUBJECTS.items() if one.group in given.groups]
    command = f"--seeds {given.seeds} --first {given.first} --groups {' '.join(given.groups)}"
    header("Power on functions", f"python -m tests.benchmarks.power_tables {command}")
    print(f"\n{__doc__}")
    columns = ["what", "draws", "alpha", "when", "ours", "known", "ratio", "refuted", "known", "s"]
    lines = []
    for name in rows:
        subject = SUBJECTS[name]
        number = seeds[: max(1, given.seeds // (5 if subject.trials > 500_000 else 1))]
        start = [name, f"{subject.trials:,}", f"{subject.alpha:g}"]
        if given.before:
            lines.append([*start, "before", *cells(before(given.before, name, number))])
            print("  ".join(lines[-1]), file=sys.stderr, flush=True)
        outcomes = runs(name, number)
        lines.append([*start, f"now, {len(number)} seeds", *cells(outcomes)])
        print("  ".join(lines[-1]), outcomes[0]["event"], file=sys.stderr, flush=True)
    table(columns, lines)


if __name__ == "__main__":
    main()
