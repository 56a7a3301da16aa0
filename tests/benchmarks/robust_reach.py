"""The fewest records for ``RobustMean``, and its time beside one product of all pairs.

Data as in audits/_corruption.py; replace, epsilon = 1, delta = 1e-6; ``for_budget`` with n_max = n.

First, 10 columns: how many of 100 releases of fresh data abstained; the median distance to the
true mean of all of them (infinite where one abstained), with order statistics that hold the true
median with probability 95%; ``minimum_n()``, from which on at most 1 in 1000 abstains, of
friends and a tenth of anything.

Then, 10,000 records of 100 columns: a release, and NumPy's x @ x.T in float64, by turns; medians
of 5. Target: at most three times as long, by the processor time of all threads.

    python -m tests.benchmarks.robust_reach [--runs 100] [--repeats 5] [--n 500,600,700,800,1000]
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np

from audits._corruption import records
from dpverify import Abstained, Adjacency, ApproxDP, RobustMean, SeededBits
from tests.benchmarks.errors import distance, shown
from tests.benchmarks.robust import KINDS
from tests.benchmarks.timing import clocked, header, peer, table

COLUMNS, TIMED, TARGET = 10, (10_000, 100), 3


def mean(n: int, d: int) -> RobustMean:
    """Build the mechanism as a user does."""
    return RobustMean.for_budget(
        ApproxDP(1, "1e-6"), adjacency=Adjacency.REPLACE, deviations=(1.0,) * d, n_max=n
    )


def abstentions(n: int, runs: int) -> Iterator[list[str]]:
    """Return a row for each kind of data."""
    made = mean(n, COLUMNS)
    for kind in KINDS:
        errors = []
        for run in range(runs):
            data = records(n, COLUMNS, kind, np.random.default_rng([n, COLUMNS, run]))
            release: Any = made.release(data, SeededBits(run))
            missing = isinstance(release, Abstained)
            errors.append(math.inf if missing else distance(release.value, np.ones(COLUMNS)))
        missed = sum(map(math.isinf, errors))
        yield [str(n), kind, f"{missed} of {runs}", shown(errors), str(made.minimum_n())]


def times(kind: str, threads: int, repeats: int) -> list[str]:
    """Return medians of both, and their ratios."""
    made, pools = mean(*TIMED), peer("threadpoolctl", "threadpoolctl")
    data = records(*TIMED, kind, np.random.default_rng(1))
    ours, products = [], []
    with pools.threadpool_limits(threads):
        for run in range(repeats + 1):  # the first is for what is made once
            ours.append(clocked(made.release, data, SeededBits(run))[1:])
            products.append(clocked(np.matmul, data, data.T)[1:])
    timings: list[Any] = [
        [statistics.median(column[1:]) for column in zip(*one, strict=True)]
        for one in (ours, products)
    ]
    wall, processor = (mine / theirs for mine, theirs in zip(*timings, strict=True))
    verdict = "ok" if processor <= TARGET else "miss"
    seconds = [f"{value:.2f}" for pair in timings for value in pair]
    return [kind, str(threads), *seconds, f"{wall:.2f}", f"{processor:.2f}", verdict]


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description="How few records, and how long.")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--n", default="500,600,700,800,1000")
    given = parser.parse_args()
    header("the reach and the time of a robust mean", "python -m tests.benchmarks.robust_reach")
    print(f"\n{__doc__}")
    rows = [row for n in map(int, given.n.split(",")) for row in abstentions(n, given.runs)]
    table(["n", "data", "abstained", "error", "minimum_n()"], rows)
    print()
    names = ["data", "threads", "ours s", "CPU", "x @ x.T s", "CPU", "ratio", "of CPU", "target"]
    table(names, [times(kind, k, given.repeats) for k in (1, 2) for kind in KINDS])


if __name__ == "__main__":
    main()
