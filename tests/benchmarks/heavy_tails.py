"""Means of records with heavy tails, for a known second moment or deviation.

At (1, 1e-6) under replace, n = 4000 records of 10 columns: t with three degrees of freedom about
0, and log-normal ones. Errors are root mean squares in the Euclidean norm about the law's mean,
as they are and with a share of 5% outliers 8 above the mean in every column. "sampling" is that
of the mean without privacy or outliers. ``ClippedMean`` is told the second moment about 0 (and
the share of outliers), ``RobustMean`` the columns' deviations, ``WinsorizedMean`` that quartiles
are in -50..50. The log-normal law is skewed, so estimates that cut its long side are biased.

    python -m tests.benchmarks.heavy_tails [--runs 40]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dpverify import (
    Abstained,
    Adjacency,
    ApproxDP,
    ClippedMean,
    RobustMean,
    SeededBits,
    WinsorizedMean,
)
from tests.benchmarks.errors import seed_of
from tests.benchmarks.timing import header, table

N, D, SHARE, FAR = 4000, 10, "0.05", 8.0
BUDGET = ApproxDP(1, "1e-6")
Law = Callable[[np.random.Generator], Any]
LAWS: dict[str, tuple[Law, float, float]] = {
    "t, 3 degrees": (lambda rng: rng.standard_t(3, (N, D)), 0.0, math.sqrt(3)),
    "log-normal": (
        lambda rng: np.exp(rng.normal(size=(N, D))),
        math.exp(0.5),
        math.sqrt(math.e * (math.e - 1)),
    ),
}


def ways(mean: float, deviation: float) -> dict[str, Any]:
    """Make the mechanisms for a law of this mean and deviation in every column."""
    replace, center = Adjacency.REPLACE, (0.0,) * D
    second: dict[str, Any] = {"second_moment": D * (deviation**2 + mean**2), "n_max": N}
    return {
        "clipped": ClippedMean.for_budget(BUDGET, adjacency=replace, center=center, **second),
        "clipped, 5%": ClippedMean.for_budget(
            BUDGET, adjacency=replace, center=center, outliers=SHARE, **second
        ),
        "winsorized": WinsorizedMean.for_budget(
            BUDGET, adjacency=replace, lower=(-50.0,) * D, upper=(50.0,) * D, clipped="1e-3"
        ),
        "robust": RobustMean.for_budget(
            BUDGET, adjacency=replace, deviations=(deviation,) * D, n_max=N
        ),
    }


def rows(runs: int) -> Iterator[list[str]]:
    """Measure every mechanism on every law, with and without outliers."""
    for law, (draw, mean, deviation) in LAWS.items():
        for name, mechanism in ways(mean, deviation).items():
            errors = [
                error(mechanism, law, draw, mean, run, outliers)
                for outliers in (0, round(float(SHARE) * N))
                for run in range(runs)
            ]
            halves = errors[:runs], errors[runs:]
            shown = [f"{math.sqrt(np.mean(np.square(half))):.3f}" for half in halves]
            yield [law, name, *shown, f"{deviation * math.sqrt(D / N):.3f}"]


def error(mechanism: Any, law: str, draw: Law, mean: float, run: int, outliers: int) -> float:
    """Measure one release's distance from the law's mean; infinite where there is none."""
    data = draw(np.random.default_rng(seed_of(law, run)))
    data[:outliers] = mean + FAR
    estimate = mechanism.release(data, SeededBits(run))
    return (
        math.inf
        if isinstance(estimate, Abstained)
        else float(np.linalg.norm(estimate.value - mean))
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Means of records with heavy tails.")
    parser.add_argument("--runs", type=int, default=40)
    given = parser.parse_args()
    header("heavy tails", "python -m tests.benchmarks.heavy_tails", "No times.")
    print(f"\n{__doc__}", flush=True)
    table(["law", "mechanism", "error", "with outliers", "sampling"], list(rows(given.runs)))


if __name__ == "__main__":
    main()
