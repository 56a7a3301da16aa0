"""The classical benchmark of auditors: sound and broken mechanisms of the literature.

A row is one mechanism of audits/classical, with as many seeds as asked. All calls count: both
sides, the choice among the pairs, the choice of the event, and its certificate. The bounds hold
at 95%.

steps: how many, each to a neighbor, lead from one side of a pair to the other. For k of them the
claim is k times as large, and what is certified is divided by k: it holds for some neighbors on
the way. truth: the largest epsilon of any event on the pairs, a step, exactly. published: the
best bound in print, at 90% from 2 * 10^8 final draws a side. median, 5%: of our certified
epsilons. flagged: in how many runs the claim was refuted; a sound mechanism may be at most in 5%
of them. seconds: of processor time on one core, a run.

ok: every broken one flagged in 90% of the runs or more, a sound one in no more than chance
explains (the 99.9% binomial limit at 5%), and the median not below reach, where there is one.

With --search the pairs are not given: the mechanisms with query vectors are searched from a box
alone, among neighbors and several steps apart, as ``search`` does by itself.

    python -m tests.benchmarks.classical [--seeds 100] [--calls 2000000] [--search] [names]
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binom
from threadpoolctl import threadpool_limits

from audits.classical import CLASSICAL, Classical
from dpverify import PureDP
from dpverify.audit import Verdict
from dpverify.audit.neighbors.boxes import Box
from dpverify.audit.neighbors.pairs import QueryMoves
from dpverify.audit.neighbors.search import SearchResult, search
from tests.benchmarks.timing import header, table

ALPHA = 0.05
CALLS = 2_000_000
SEEDS = 100
_BOX = 10.0
_SECONDS = 30.0
COLUMNS = "mechanism,claim,steps,truth,published,reach,median,5%,flagged,calls,seconds,most,"


@dataclass(frozen=True)
class Run:
    """One run: the certified bound, whether the claim was refuted, calls, seconds of processor
    time."""

    epsilon: float
    flagged: bool
    calls: int
    seconds: float


def run(mechanism: Classical, seed: int, calls: int, searching: bool) -> tuple[Run, SearchResult]:
    """Run one seed, for the mechanism's noise and for the audit."""
    start = time.process_time()
    options: dict[str, Any] = {"calls": calls, "alpha": ALPHA, "seed": seed, "vectorized": True}
    if searching:
        claim: PureDP = PureDP(mechanism.epsilon)  # of neighbors; what is claimed of groups follows
        options |= {"domain": _box(mechanism), "adjacency": _neighbors(mechanism)}
    else:
        claim = mechanism.claim
        options |= {"pairs": mechanism.pairs}
    report = search(mechanism.subject(seed), claim=claim, **options)
    flagged = report.result is not None and report.result.verdict is Verdict.VIOLATED
    epsilon = report.epsilon / (1 if searching else mechanism.steps)
    return Run(epsilon, flagged, report.calls, time.process_time() - start), report


def _box(mechanism: Classical) -> Box:
    return Box(low=-_BOX, high=_BOX, columns=len(mechanism.pairs[0].left))


def _neighbors(mechanism: Classical) -> QueryMoves:
    """Return neighbors of a single step, whatever the pairs are."""
    relation = mechanism.pairs[0].adjacency
    assert isinstance(relation, QueryMoves)
    return QueryMoves(1, relation.at_once)


def row(mechanism: Classical, runs: Sequence[Run]) -> list[str]:
    """Return the cells of the table."""
    epsilons = [one.epsilon for one in runs]
    flagged = sum(one.flagged for one in runs)
    seconds = [one.seconds for one in runs]
    return [
        mechanism.name,
        f"{float(mechanism.claim.epsilon) / mechanism.steps:g}",
        f"{mechanism.steps}",
        f"{mechanism.truth:.4g}",
        "-" if mechanism.published is None else f"{mechanism.published:g}",
        "-" if mechanism.reach is None else f"{mechanism.reach:g}",
        f"{np.median(epsilons):.4f}",
        f"{np.quantile(epsilons, 0.05):.4f}",
        f"{flagged}/{len(runs)}",
        f"{max(one.calls for one in runs)}",
        f"{np.median(seconds):.1f}",
        f"{max(seconds):.1f}",
        "; ".join(misses(mechanism, runs)) or "ok",
    ]


def misses(mechanism: Classical, runs: Sequence[Run]) -> list[str]:
    """Name the figures that fall short."""
    shortfalls = []
    flagged = sum(one.flagged for one in runs)
    if mechanism.correct and flagged > binom.ppf(0.999, len(runs), ALPHA):
        shortfalls.append("FALSE ALARMS")
    if not mechanism.correct and flagged < math.ceil(0.9 * len(runs)):
        shortfalls.append("NOT FLAGGED")
    median = float(np.median([one.epsilon for one in runs]))
    if mechanism.reach is not None and median < mechanism.reach:
        shortfalls.append(f"reach missed by {mechanism.reach - median:.2g}")
    if np.median([one.seconds for one in runs]) > _SECONDS:
        shortfalls.append("slow")
    return shortfalls


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="The classical benchmark of auditors.")
    parser.add_argument("names", nargs="*", help="mechanisms, by default all")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--calls", type=int, default=CALLS)
    parser.add_argument("--search", action="store_true", help="from a box alone")
    given = parser.parse_args()
    unknown = set(given.names) - {mechanism.name for mechanism in CLASSICAL}
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    return given


def chosen(names: Sequence[str], searching: bool) -> list[Classical]:
    """Return the mechanisms of these names; without names, all, or all that can be searched."""
    return [
        mechanism
        for mechanism in CLASSICAL
        if mechanism.name in (names or [mechanism.name])
        and (not searching or isinstance(mechanism.pairs[0].adjacency, QueryMoves))
    ]


def main() -> None:
    """Print the table, and one run's findings for each row."""
    given = arguments()
    command = f"--seeds {given.seeds} --calls {given.calls}{' --search' * given.search}"
    header("The classical benchmark", f"python -m tests.benchmarks.classical {command}")
    print(f"\n{__doc__}", flush=True)
    rows, texts = [], []
    for mechanism in chosen(given.names, given.search):
        runs, shown = [], ""
        for seed in range(given.seeds):
            with threadpool_limits(limits=1):
                one, report = run(mechanism, seed, given.calls, given.search)
            runs.append(one)
            shown = shown or str(report)
        rows.append(row(mechanism, runs))
        texts.append(f"{mechanism.name}, seed 0:\n  " + shown.replace("\n", "\n  "))
    table(COLUMNS.split(","), rows)
    print("\n" + "\n".join(texts), flush=True)


if __name__ == "__main__":
    main()
