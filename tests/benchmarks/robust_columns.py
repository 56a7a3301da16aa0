"""Outliers along a few columns: ``RobustMean`` with votes for the farthest column, and without;
with --part drawn, with records drawn in to a share of the ball, and without; with --part inner,
with inner moments, and with histograms; with --part rounds, with the sum in rounds, and in one.

Normal records of deviation 1 about (1, ..., 1), a tenth of them outliers. "k columns, a": a k-th
of these moved by a in each of the first k columns. "three directions": the same along random
orthogonal ones. "slab": 3/2 to 3 deviations away along a random direction, uniform; "both sides":
half of these on either side; "direction, a": all moved by a along it. "point": all of them at 5/2
in the first five columns, 0 elsewhere. "hidden", "mixed" and "far" as in audits/_corruption.py.
"skewed": no outliers; all columns exponential, or the first three, of mean 1 and deviation 1.

Replace, epsilon = 1, delta = 1e-6, ``for_budget`` as it is. Distance to the true mean: medians over
runs, with order statistics that hold the true median with probability 95%, the same data and seeds
for both. mean, trimmed: not private, of all records; trimmed: of each column without a tenth on
either side. The difference of the squared errors with and without votes over the squared error
without, by the means over runs, and its standard error: what that costs, or saves. cut: columns and
directions on average.

    python -m tests.benchmarks.robust_columns [--cells 10000x50] [--runs 40] [--seed 11]
    [--part votes]
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import numpy as np
from scipy.stats import trim_mean

from audits._corruption import CORRUPTIONS, SHARE, Floats, corrupted
from dpverify import Adjacency, ApproxDP, RobustMean, SeededBits
from tests.benchmarks.errors import distance, shown
from tests.benchmarks.timing import header, table

KINDS = (
    "clean",
    *(f"3 columns, {a}" for a in ("2", "2.5", "3", "4", "5", "6.4")),
    "1 column, 3",
    "6 columns, 4",
    "three directions",
    "slab",
    "both sides",
    "direction, 4",
    "point",
    *CORRUPTIONS,
    "skewed",
    "three skewed",
)


def _along(rows: Floats, axes: Floats, away: float) -> None:
    """Move a tenth of the records, as many along each axis."""
    for part, axis in zip(
        np.array_split(np.arange(round(SHARE * len(rows))), len(axes)), axes, strict=True
    ):
        rows[part] += away * axis


def records(n: int, d: int, kind: str, rng: np.random.Generator) -> Floats:
    """Draw records, shape (n, d); the mean is (1, ..., 1) but for outliers."""
    rows = rng.normal(1.0, 1.0, (n, d))
    outliers = rows[: round(SHARE * n)]
    if "column" in kind:
        count, away = kind.replace("columns", "column").split(" column, ")
        _along(rows, np.eye(d)[: int(count)], float(away))
    elif kind == "three directions":
        _along(rows, np.linalg.qr(rng.normal(size=(d, 3)))[0].T, 4.0)
    elif kind in ("slab", "both sides"):
        axis = rng.normal(size=d)
        axis /= np.linalg.norm(axis)
        places = rng.uniform(1.5, 3, len(outliers))
        if kind == "both sides":
            places[::2] *= -1
        outliers += (places - (outliers - 1) @ axis)[:, np.newaxis] * axis
    elif kind.startswith("direction, "):
        _along(rows, np.linalg.qr(rng.normal(size=(d, 1)))[0].T, float(kind.split()[1]))
    elif kind == "point":
        outliers[:] = 1 + 2.5 * (np.arange(d) < 5)
    elif kind in CORRUPTIONS:
        return corrupted(rows, kind, rng)
    elif "skewed" in kind:
        own = rng.exponential(1.0, (n, d))
        rows[:, : 3 if kind == "three skewed" else d] = own[:, : 3 if "three" in kind else d]
    return rows


def made(n: int, d: int, **own: Any) -> RobustMean:
    """Build the mechanism as a user does."""
    given: dict[str, Any] = {"deviations": (1.0,) * d, "n_max": n, **own}
    return RobustMean.for_budget(ApproxDP(1, "1e-6"), adjacency=Adjacency.REPLACE, **given)


WITHOUT: dict[str, dict[str, Any]] = {
    "votes": {"votes": False},
    "drawn": {"drawn": 1},
    "inner": {"inner": 0},
    "rounds": {"rounds": 1},
}
"""Parameters of the mechanism that does without each thing that is looked at."""

WITH: dict[str, dict[str, Any]] = {"rounds": {"rounds": 4}}
"""Parameters of the mechanism that does with each thing that is not a default."""


def row(n: int, d: int, kind: str, runs: int, seed: int, part: str) -> list[str]:
    """Return the errors of both mechanisms on the same data."""
    methods = made(n, d, **WITHOUT[part]), made(n, d, **WITH.get(part, {}))
    errors: list[list[float]] = [[], [], [], []]
    cut = [0, 0]
    for run in range(runs):
        data = records(n, d, kind, np.random.default_rng([seed, n, d, run]))
        for i, method in enumerate(methods):
            estimate: Any = method.release(data, SeededBits(1000 * seed + run))
            errors[i].append(distance(estimate.value, np.ones(d)))
            cut[i] += estimate.slabs
        for i, value in enumerate((data.mean(axis=0), trim_mean(data, 0.1, axis=0)), 2):
            errors[i].append(distance(value, np.ones(d)))
    squares = np.square(errors[:2])
    change, base = squares[1] - squares[0], float(squares[0].mean())
    off = float(change.std(ddof=1)) / math.sqrt(runs) / base
    means = (f"{c / runs:.1f}" for c in cut)
    changed = f"{100 * float(change.mean()) / base:+.1f}% +- {100 * off:.1f}%"
    return [f"{n}", f"{d}", kind, *map(shown, errors), changed, *means]


def main() -> None:
    """Print the table, a row at a time."""
    parser = argparse.ArgumentParser(description="Outliers along a few columns.")
    parser.add_argument("--cells", default="10000x50")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--kinds", default=";".join(KINDS))
    parser.add_argument("--part", choices=WITHOUT, default="votes")
    given = parser.parse_args()
    header("outliers along columns", "python -m tests.benchmarks.robust_columns")
    print(f"\n{__doc__}")
    names = ["n", "d", "data", f"without {given.part}", f"with {given.part}", "mean", "trimmed"]
    cells = [tuple(map(int, cell.split("x"))) for cell in given.cells.split(",")]
    rows = [
        row(n, d, kind, given.runs, given.seed, given.part)
        for n, d in cells
        for kind in given.kinds.split(";")
    ]
    table([*names, "squared error", "cut", "with"], rows)


if __name__ == "__main__":
    main()
