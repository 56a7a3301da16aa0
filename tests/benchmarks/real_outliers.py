"""Means of real data a tenth of which are gross errors: private and not, side by side.

1797 handwritten digits of 8 x 8 pixels from 0 to 16 (scikit-learn's copy). A tenth of the
images, drawn at random, are replaced: "times 100" (a wrong unit), "inverted" (16 minus each
pixel: still in range). An error is the L2 distance from the mean of the images as they were, in
gray levels.

mean, trimmed: without privacy; trimmed leaves out a tenth of each column on either side.
winsorized: ``WinsorizedMean``, within the public range. robust: ``RobustMean``, told a rough
spread alone (4 levels a pixel), no range: friends are within two, and records within one and a
half, of the spread of all pixels together; no directions, whose slabs are for normal inliers.
Replace, delta = 1e-6. Medians over runs, of fresh rows and noise, with order statistics that
hold the true median with probability 95%. A dash: it abstains, or refuses so few records.

    python -m tests.benchmarks.real_outliers [--runs 40] [--results FILE] [--keep]
"""

from __future__ import annotations

import argparse
import math
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import trim_mean
from sklearn.datasets import load_digits

from dpverify import Adjacency, ApproxDP
from tests.benchmarks.errors import Floats, Method, Points, code, distance, seed_of, shown
from tests.benchmarks.timing import header, table

EPSILONS, DELTA = ("1", "4"), "1e-6"
KINDS = ("as they are", "times 100", "inverted")
TOP, SPREAD = 16.0, 4.0


def replaced(kind: str, run: int) -> Floats:
    """Return the images, a tenth of them gross errors."""
    data = np.asarray(load_digits().data, np.float64)
    rows = np.random.default_rng(seed_of("digits", run)).permutation(len(data))[: len(data) // 10]
    if kind != "as they are":
        data[rows] = 100 * data[rows] if kind == "times 100" else TOP - data[rows]
    return data


@cache
def method(name: str, epsilon: str) -> Method:
    """Build the method of this name."""
    n, d = load_digits().data.shape
    own: dict[str, Any] = {
        "winsorized": {"lower": (0.0,) * d, "upper": (TOP,) * d, "clipped": f"1/{n}"},
        "robust": {
            "deviations": (SPREAD,) * d,
            "radius": 2 * math.sqrt(d),
            "record_radius": 1.5 * math.sqrt(d),
            "n_max": n,
            "directions": 0,
        },
    }
    shared = {"budget": ApproxDP(epsilon, DELTA), "adjacency": Adjacency.REPLACE}
    return Method(name, f"{name}_mean", {**shared, **own[name]})


def error(name: str, kind: str, epsilon: str, run: int) -> float:
    """Return the error of one release, from the mean of the images as they were."""
    data, truth = replaced(kind, run), np.asarray(load_digits().data).mean(axis=0)
    if name == "mean":
        return distance(data.mean(axis=0), truth)
    if name == "trimmed":
        return distance(np.asarray(trim_mean(data, 0.1)), truth)
    return method(name, epsilon).error(data, truth, seed_of(name, kind, run))


def row(points: Points, kind: str, name: str, runs: int) -> list[str]:
    """Return a row of the table, for both budgets."""
    cells = [kind, name]
    for epsilon in EPSILONS:
        values = []
        for run in range(runs):
            make = partial(error, name, kind, epsilon, run)
            values.append(points.get(make, kind=kind, method=name, epsilon=epsilon, run=run))
        cells.append(shown(values))
    return cells


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Means of real data with gross errors.")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--results", type=Path, default=Path("real_outliers.jsonl"))
    parser.add_argument("--keep", action="store_true", help="also points of other code")
    given = parser.parse_args()
    points = Points(given.results, given.keep)
    names = ("mean", "trimmed", "winsorized", "robust")
    rows = [row(points, kind, name, given.runs) for kind in KINDS for name in names]
    header(
        "Means of real data with a tenth of gross errors",
        "python -m tests.benchmarks.real_outliers",
    )
    print(f"# points by the code that made them: {points.codes()}; now {code()}\n\n{__doc__}")
    table(["images", "method", *(f"epsilon = {epsilon}" for epsilon in EPSILONS)], rows)


if __name__ == "__main__":
    main()
