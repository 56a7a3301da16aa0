"""Private means of vectors of unknown covariance, side by side.

n = 200000 normal records about (1, ..., 1), (1, 1e-6)-DP under add-remove. Deviations of the
columns: j^-1 ("steep"), j^-1/2 ("mild"), 1 ("flat"). Public: n_max = n, and for methods that
need a range that all coordinates of the mean are within 100 of zero, and that no deviation is
below 10^-3 or (iterative) the norm of a record is below 100 sqrt(d). All methods get the same
data in a run.

error: of one release in L2 against the true mean. noise: against the records' own mean, and over
what ``expected_noise`` says of the released levels (target: between 1/2 and 3/2). Cells: the
median, and in brackets order statistics that hold the true median with probability 95%, and the
number of runs (fewer than 6 have no interval).

    python -m tests.benchmarks.unknown_covariance [--runs 6] [--dimensions 30 100]
    [--shapes steep mild flat]
        [--results FILE] [--keep] [--only METHOD...]

Results are appended to a file of JSON lines; a run that was stopped goes on from there. --runs 0
prints.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dpverify import Abstained, Adjacency, ApproxDP, SeededBits, UnknownCovarianceMean
from tests.benchmarks.errors import Floats, Method, Points, code, distance, seed_of, shown
from tests.benchmarks.timing import header, table

N = 200_000
BUDGET, ADD = ApproxDP(1, "1e-6"), Adjacency.ADD_REMOVE
POWERS = {"steep": 1.0, "mild": 0.5, "flat": 0.0}
OURS, NONE = "unknown covariance", "without privacy"
NOISE, RATIO = "noise of ours", "noise over prediction"


@cache
def ours(d: int) -> UnknownCovarianceMean:
    """Build our mechanism by for_budget, with its choices."""
    return UnknownCovarianceMean.for_budget(BUDGET, adjacency=ADD, d=d, n_max=N)


@cache
def baselines(d: int, shape: str) -> tuple[Method, ...]:
    """List methods of the same guarantee, with known deviations only where the name says so."""
    fixed: dict[str, Any] = {"budget": BUDGET, "adjacency": ADD}
    ball: dict[str, Any] = {"center": (0.0,) * d, "reach": 100, **fixed}
    deviations = tuple(np.arange(1.0, d + 1) ** -POWERS[shape])
    far: dict[str, Any] = {"center": (0.0,) * d, "radius": 100 * math.ceil(math.sqrt(d)), **fixed}
    return (
        Method("variance aware", "variance_aware_mean", {**ball, "least_deviation": "1/1000"}),
        Method("coordinatewise, known", "coordinatewise_mean", {**ball, "deviations": deviations}),
        Method("iterative", "iterative_mean", far),
        Method("variance aware, known", "variance_aware_mean", {**ball, "deviations": deviations}),
    )


def data_of(d: int, shape: str, run: int) -> Floats:
    """Draw the data, which are the same for all methods."""
    rng = np.random.default_rng(seed_of("data", d, shape, run))
    return np.asarray(1 + rng.normal(size=(N, d)) * np.arange(1.0, d + 1) ** -POWERS[shape])


def release(d: int, data: Floats, seed: int) -> Iterator[tuple[str, float]]:
    """Return error and noise of ours, and the noise over its prediction; infinite where it
    abstains."""
    mechanism = ours(d)
    transcript = mechanism.law(data).sample(SeededBits(seed), 1)[0]
    estimate = mechanism.estimate(transcript)
    if isinstance(estimate, Abstained):
        yield from ((name, math.inf) for name in (OURS, NOISE, RATIO))
        return
    row = mechanism.prefix().row(transcript)
    predicted = mechanism.expected_noise(mechanism.rough_for(row), N)
    noise = distance(estimate.value, data.mean(axis=0))
    yield OURS, distance(estimate.value, np.ones(d))
    yield NOISE, noise
    yield RATIO, noise / predicted


def measure(points: Points, d: int, shape: str, run: int, only: Sequence[str]) -> None:
    """Run every method on one dataset."""
    data = data_of(d, shape, run)
    at: dict[str, str | int] = {"d": d, "shape": shape, "run": run}
    points.get(lambda: distance(data.mean(axis=0), np.ones(d)), method=NONE, **at)
    mine: dict[str, float] = {}

    def of(name: str) -> Callable[[], float]:
        def make() -> float:
            if not mine:
                mine.update(release(d, data, seed_of("noise", d, shape, run)))
            return mine[name]

        return make

    for name in (OURS, NOISE, RATIO):
        points.get(of(name), method=name, **at)
    for method in baselines(d, shape):
        if only and not method.name.startswith(tuple(only)):
            continue
        seed = seed_of("noise", d, shape, run, method.name)

        def error(method: Method = method, seed: int = seed) -> float:
            return method.error(data, np.ones(d), seed)

        points.get(error, method=method.name, **at)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Private means of unknown covariance.")
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--dimensions", type=int, nargs="+", default=(30, 100))
    parser.add_argument("--shapes", nargs="+", default=tuple(POWERS))
    parser.add_argument("--results", type=Path, default=Path("unknown_covariance.jsonl"))
    parser.add_argument("--keep", action="store_true", help="also points of other code")
    parser.add_argument("--only", nargs="+", default=(), help="baselines, or how they begin")
    return parser.parse_args()


def main() -> None:
    """Measure what is missing, then print a table."""
    given = arguments()
    points, start = Points(given.results, given.keep), time.monotonic()
    for run in range(given.runs):
        for d in given.dimensions:
            for shape in given.shapes:
                measure(points, d, shape, run, given.only)
                passed = time.monotonic() - start
                print(
                    f"run {run + 1}: d = {d}, {shape}, {passed:.0f} s", file=sys.stderr, flush=True
                )
    header("Private means, covariance unknown", "python -m tests.benchmarks.unknown_covariance")
    print(f"# points by the code that made them: {points.codes()}; now {code()}\n")
    print(__doc__)
    for d in given.dimensions:
        names = [NONE, OURS, NOISE, RATIO, *(m.name for m in baselines(d, "flat"))]
        rows = [
            [name, *(shown(points.values(method=name, d=d, shape=shape)) for shape in POWERS)]
            for name in names
        ]
        print(f"\nd = {d}, {ours(d).reports} reports\n")
        table(("", *POWERS), rows)


if __name__ == "__main__":
    main()
