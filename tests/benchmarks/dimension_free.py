"""Private means of anisotropic vectors, side by side.

d = 1000, mean (1, ..., 1), (1, 1e-6)-DP. Variances: instance 1 has 1 / i^2 (trace of Sigma^(1/2)
7.5), instance 2 has 1 / i (61.8), instance 3 has max(exp(-(i - 1) / 10), 1e-6) (21.3); normal
data. Public: the variances where a method is said to know them, n_max = n, and for methods that
need a range that all coordinates of the mean are within 100 of zero. All methods get the same
data in a run. An error is that of one release, in L2 against the true mean. Cells: the median,
and in brackets order statistics that hold the true median with probability 95%, and the number
of runs (fewer than 6 have no interval).

figure: what prototypes of Algorithm 1 of DJYZZ24 with a Gaussian filter, and of its refinement,
reached in floats, which 1.10 times the upper end of ours must not exceed. best: the least error
of any private method that those prototypes were compared with, both adjacencies, replace alone
for some (Algorithm 1 with a basic filter, with M = I, a coordinatewise mean, PLAN with known
variances and as its authors published it, CoinPress): means of 2 to 5 runs.

    python -m tests.benchmarks.dimension_free [--runs 40 40 12 8] [--instances 1 2 3]
        [--sizes 2000 5000 10000 20000] [--results FILE] [--keep] [--only METHOD...]

Results are appended to a file of JSON lines; a run that was stopped goes on from there. --runs 0
prints.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from dpverify import Adjacency, ApproxDP
from tests.benchmarks.errors import (
    Floats,
    Method,
    Points,
    code,
    degrees_once,
    digits,
    distance,
    interval,
    seed_of,
    shown,
)
from tests.benchmarks.timing import header, table

D = 1000
BUDGET = ApproxDP(1, "1e-6")
SIZES, RUNS = (2000, 5000, 10_000, 20_000), (40, 40, 12, 8)
WITHIN = 1.10
NONE = "without privacy"
_INDEX = np.arange(1, D + 1)
VARIANCES = {
    1: 1 / _INDEX**2.0,
    2: 1 / _INDEX,
    3: np.maximum(np.exp(-(_INDEX - 1) / 10), 1e-6),
}
FIGURES = {
    ("rescaled", 1): {2000: 0.53, 5000: 0.094, 10_000: 0.040, 20_000: 0.0195},
    ("refined", 1): {2000: 0.30, 5000: 0.04, 10_000: 0.016, 20_000: 0.011},
    ("refined", 2): {10_000: 0.07, 20_000: 0.036},
    ("refined", 3): {10_000: 0.048},
}
BEST = {
    1: {2000: 0.525, 5000: 0.183, 10_000: 0.0726, 20_000: 0.0174},
    2: {2000: 2.26, 5000: 0.818, 10_000: 0.0994, 20_000: 0.0523},
    3: {2000: 1.07, 5000: 0.371, 10_000: 0.146, 20_000: 0.0393},
}
OURS = ("rescaled", "refined")
_RANGE = 100.0


@cache
def methods(instance: int, n: int) -> tuple[Method, ...]:
    """List all methods, under both adjacencies."""
    return tuple(_methods(instance, n))


def _methods(instance: int, n: int) -> Iterator[Method]:
    variances = VARIANCES[instance]
    known, deviations = {"covariance": variances, "n_max": n}, tuple(np.sqrt(variances).tolist())
    trace = {"columns": D, "trace": float(variances.sum()), "largest": float(variances.max())}
    origin = (0.0,) * D
    box = {"center": origin, "reach": _RANGE}
    ball = {"center": origin, "radius": _RANGE * math.sqrt(D)}
    kinds = (
        ("rescaled", "rescaled_mean", known),
        ("rescaled, gaussian filter", "rescaled_mean", {**known, "filter": "gaussian"}),
        ("rescaled, basic filter", "rescaled_mean", {**known, "filter": "basic"}),
        ("rescaled, M = I, trace known", "rescaled_mean", {**trace, "n_max": n}),
        ("refined", "refined_mean", known),
        ("coordinatewise", "coordinatewise_mean", {**box, "deviations": deviations}),
        ("variance aware, known", "variance_aware_mean", {**box, "deviations": deviations}),
        ("variance aware", "variance_aware_mean", {**box, "least_deviation": "1e-3"}),
        ("iterative", "iterative_mean", {**ball, "deviation": 1.0}),
        ("clipped", "clipped_mean", ball),
    )
    for adjacency in Adjacency.ADD_REMOVE, Adjacency.REPLACE:
        for name, module, parameters in kinds:
            fixed = {"budget": BUDGET, "adjacency": adjacency}
            yield Method(f"{name} ({adjacency})", module, {**fixed, **parameters})


def data_of(instance: int, n: int, run: int) -> Floats:
    """Draw the data, which are the same for all methods."""
    rng = np.random.default_rng(seed_of("data", instance, n, run))
    return np.asarray(1 + rng.normal(size=(n, D)) * np.sqrt(VARIANCES[instance]))


def measure(points: Points, instance: int, n: int, run: int, only: Sequence[str]) -> None:
    """Run every method on one dataset."""
    data, truth = data_of(instance, n, run), np.ones(D)
    at: dict[str, str | int] = {"instance": instance, "n": n, "run": run}
    points.get(lambda: distance(data.mean(axis=0), truth), method=NONE, **at)
    with degrees_once():
        for method in methods(instance, n):
            if method.kind is None or (only and not method.name.startswith(tuple(only))):
                continue
            seed = seed_of("noise", instance, n, run, method.name)

            def error(method: Method = method, seed: int = seed) -> float:
                return method.error(data, truth, seed)

            points.get(error, method=method.name, **at)


def row(points: Points, name: str, instance: int, sizes: Sequence[int]) -> list[str]:
    """Return one method's cells."""
    cells = (points.values(method=name, instance=instance, n=n) for n in sizes)
    return [name, *map(shown, cells)]


def figures(points: Points, instances: Sequence[int], sizes: Sequence[int]) -> None:
    """Name the figures that are met, and the cells below every method compared with."""
    rows = []
    for (name, instance), targets in FIGURES.items():
        for n in (n for n in sizes if n in targets and instance in instances):
            rows.append(
                _judged(points, f"{name} ({Adjacency.ADD_REMOVE})", instance, n, targets[n])
            )
    print(f"\nfigures: upper end at most {WITHIN} times the figure\n")
    table(("", "instance", "n", "median", "figure", ""), rows)
    rows = [
        _judged(points, f"{name} ({adjacency})", instance, n, BEST[instance][n] / WITHIN)
        for name in OURS
        for adjacency in (Adjacency.ADD_REMOVE, Adjacency.REPLACE)
        for instance in instances
        for n in sizes
        if n in BEST[instance]
    ]
    print("\nbest: upper end below the best private method compared with\n")
    table(("", "instance", "n", "median", "best / 1.10", ""), rows)


def _judged(points: Points, name: str, instance: int, n: int, figure: float) -> list[str]:
    values = points.values(method=name, instance=instance, n=n)
    if not values:
        return [name, str(instance), str(n), "not measured", digits(figure), "-"]
    _, middle, high = interval(values)
    verdict = "met" if high < WITHIN * figure else "MISSED"
    if math.isfinite(middle) and math.isinf(high):
        verdict = "too few runs"
    return [name, str(instance), str(n), shown(values), digits(figure), verdict]


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Private means of anisotropic vectors.")
    parser.add_argument("--runs", type=int, nargs="+", default=RUNS, help="one for each size")
    parser.add_argument("--instances", type=int, nargs="+", default=tuple(VARIANCES))
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--results", type=Path, default=Path("dimension_free.jsonl"))
    parser.add_argument("--keep", action="store_true", help="also points of other code")
    parser.add_argument("--only", nargs="+", default=(), help="names, or how they begin")
    given = parser.parse_args()
    if len(given.runs) == 1:
        given.runs = list(given.runs) * len(given.sizes)
    if len(given.runs) != len(given.sizes):
        parser.error("give one number of runs, or one for each size")
    return given


def main() -> None:
    """Measure what is missing, then print the tables."""
    given = arguments()
    points, start = Points(given.results, given.keep), time.monotonic()
    for n, runs in zip(given.sizes, given.runs, strict=True):
        for run in range(runs):
            for instance in given.instances:
                measure(points, instance, n, run, given.only)
            passed = time.monotonic() - start
            print(f"n = {n}: {run + 1} of {runs} runs, {passed:.0f} s", file=sys.stderr, flush=True)
    header("Private means of anisotropic vectors", "python -m tests.benchmarks.dimension_free")
    print(f"# points by the code that made them: {points.codes()}; now {code()}\n")
    print(__doc__)
    for instance in given.instances:
        names = [NONE, *(method.name for method in methods(instance, 1))]
        columns = ("", *(f"n = {n}" for n in given.sizes))
        print(f"\ninstance {instance}\n")
        table(columns, [row(points, name, instance, given.sizes) for name in names])
    figures(points, given.instances, given.sizes)


if __name__ == "__main__":
    main()
