"""``GaussianMean`` without a prior beside ``IterativeMean`` (CoinPress' steps) and no privacy.

Root mean squares of |estimate - mean| over the runs, each with records and noise of its own, at
(1, 1e-6); means are 8 sqrt(d) deviations away. CoinPress is told a ball of 10 sqrt(d) and has
three steps, as its authors have it; VarianceAwareMean a reach of 16 sqrt(d). Targets are what
was predicted before any of this was built. Records that were kept in a public set before are in
``kept_means``.

    python -m tests.benchmarks.gaussian_means [--runs 100]
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from dpverify import (
    Adjacency,
    ApproxDP,
    GaussianMean,
    IterativeMean,
    SeededBits,
    VarianceAwareMean,
    VectorMeanEstimate,
)
from tests.benchmarks.errors import seed_of
from tests.benchmarks.timing import header, table

REPLACE, ADD = Adjacency.REPLACE, Adjacency.ADD_REMOVE
STRICT = ApproxDP(1, "1e-6")
TARGETS = {
    (5, 1000): 0.088,
    (5, 4000): 0.040,
    (20, 1500): None,
    (20, 4000): 0.087,
    (20, 16_000): 0.037,
    (50, 2500): None,
    (50, 4000): 0.164,
    (50, 8000): 0.101,
    (50, 64_000): 0.029,
}


def direction(d: int, seed: int) -> Any:
    """Return a unit vector."""
    drawn = np.random.default_rng(seed).normal(size=d)
    return drawn / np.linalg.norm(drawn)


def methods(d: int, adjacency: Adjacency) -> dict[str, Any]:
    """List the methods, all with the same claim."""
    center, ones = (0.0,) * d, (1.0,) * d
    far = math.sqrt(d)
    shared: dict[str, Any] = {"adjacency": adjacency, "center": center}
    return {
        "clip": GaussianMean.for_budget(STRICT, deviations=ones, **shared),
        "mask": GaussianMean.for_budget(STRICT, deviations=ones, outside="mask", **shared),
        "coinpress": IterativeMean.for_budget(
            STRICT, radius=10 * far, steps=3, shares=("1/8", "1/8", "3/4"), **shared
        ),
        "aware": VarianceAwareMean.for_budget(
            STRICT, deviations=ones, reach=16 * far, extra_steps=9, **shared
        ),
    }


def off(mechanism: Any, data: Any, mean: Any, run: int) -> float:
    """Return the error; infinite where there is no estimate."""
    if len(data) < mechanism.fewest_records():
        return math.inf
    estimate = mechanism.release(data, SeededBits(run))
    return (
        float(np.linalg.norm(estimate.value - mean))
        if isinstance(estimate, VectorMeanEstimate)
        else math.inf
    )


def root(errors: Any) -> float:
    """Return the root mean square of the finite errors."""
    kept = [e for e in errors if math.isfinite(e)]
    return math.sqrt(np.mean(np.square(kept))) if kept else math.nan


def whole(runs: int) -> Iterator[list[str]]:
    """Return the rows of the first table."""
    for adjacency in (REPLACE, ADD):
        for (d, n), target in TARGETS.items():
            all_of = methods(d, adjacency)
            errors: dict[str, list[float]] = {name: [] for name in ("without", *all_of)}
            for run in range(runs if n * d < 10**6 else max(20, runs // 5)):
                mean = 8 * math.sqrt(d) * direction(d, run)
                rng = np.random.default_rng(seed_of("gaussian mean", d, n, run))
                data = rng.normal(size=(n, d)) + mean
                errors["without"].append(float(np.linalg.norm(data.mean(axis=0) - mean)))
                for name, mechanism in all_of.items():
                    errors[name].append(off(mechanism, data, mean, run))
            own, theirs = root(errors["clip"]), root(errors["coinpress"])
            met = ""
            if target is not None and adjacency is REPLACE:
                met = "met" if own <= 1.1 * target else "MISSED"
            yield [
                str(adjacency),
                str(d),
                str(n),
                *(f"{root(errors[name]):.4f}" for name in errors),
                f"{own / theirs:.3f}",
                "" if target is None or adjacency is ADD else f"{target:.3f}",
                met,
                f"{sum(map(math.isinf, errors['clip']))}/{len(errors['clip'])}",
            ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Means of normal records.")
    parser.add_argument("--runs", type=int, default=100)
    given = parser.parse_args()
    header(
        "normal means, without a prior", "python -m tests.benchmarks.gaussian_means", "No times."
    )
    print(f"\n{__doc__}", flush=True)
    kinds = ["without", "clip", "mask", "coinpress", "aware"]
    lines = []
    for row in whole(given.runs):
        print(*row, file=sys.stderr, flush=True)
        lines.append(row)
    table(["adjacency", "d", "n", *kinds, "clip / coinpress", "target", "", "lost"], lines)


if __name__ == "__main__":
    main()
