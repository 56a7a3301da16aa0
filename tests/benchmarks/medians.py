"""Medians by smooth sensitivity beside the exponential mechanism's, at equal budgets, by hand.

    python -m tests.benchmarks.medians [--runs 400] [--epsilon 1] [--delta 1e-6]
    [--n 50,200,1000,10000]

Under replace, bounds -1000..1000 (2^20 cells). Printed is the median distance from the median of
the data over all runs, each with data of its own: "normal", of variance 1; "wide", uniform on
the bounds; "steps", whole numbers near a normal of variance 9; "two", half of the records about
-500 and half about 500, and one at 0; "ties", nine tenths of the records equal. The last column
is a Winsorized mean's distance from 0, for normal records.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify import Adjacency, ApproxDP, PrivateQuantile, SeededBits, SmoothMedian, WinsorizedMean

Floats = NDArray[np.float64]
KINDS = ("normal", "wide", "steps", "two", "ties")
BOUND = 1000.0


def records(kind: str, rng: np.random.Generator, n: int) -> Floats:
    """Draw records of one kind, shape (n,)."""
    if kind == "wide":
        return rng.uniform(-BOUND, BOUND, n)
    if kind == "steps":
        return np.rint(3 * rng.normal(size=n))
    if kind == "two":
        data = rng.normal(size=n) + np.where(np.arange(n) % 2, 500.0, -500.0)
        data[0] = 0.0
        return data
    data = rng.normal(size=n)
    if kind == "ties":
        data[: 9 * n // 10] = 0.5
    return data


def main() -> None:
    """Print a line for each setting."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--delta", default="1e-6")
    parser.add_argument("--n", default="50,200,1000,10000")
    given = parser.parse_args()
    budget = ApproxDP(given.epsilon, given.delta)
    public: dict[str, Any] = {"adjacency": Adjacency.REPLACE}
    box: dict[str, Any] = {"lower": (-BOUND,), "upper": (BOUND,)}
    smooth: Any = SmoothMedian.for_budget(budget, **public, **box)
    choice: Any = PrivateQuantile.for_budget(budget, **public, lower=-BOUND, upper=BOUND)
    mean: Any = WinsorizedMean.for_budget(budget, **public, **box)
    for n in map(int, given.n.split(",")):
        for kind in KINDS:
            rng, errors = np.random.default_rng(9), []
            for run in range(given.runs):
                data, bits = records(kind, rng, n), SeededBits(10, run)
                middle = np.sort(data)[(n + 1) // 2 - 1]
                errors.append(
                    (
                        abs(smooth.release(data, bits).value[0] - middle),
                        abs(choice.release(data, bits).value - middle),
                        abs(mean.release(data, bits).value[0]) if kind == "normal" else np.nan,
                    )
                )
            medians = [f"{value:10.3g}" for value in np.median(errors, axis=0)]
            print(
                f"n {n:6} {kind:7} smooth {medians[0]}  exponential {medians[1]}  "
                f"winsorized {medians[2]}",
                flush=True,
            )


if __name__ == "__main__":
    main()
