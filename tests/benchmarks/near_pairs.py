"""Friends of each record, n = 10^4 to 10^6, d = 10: ours beside all pairs and SciPy's tree.

    python -m tests.benchmarks.near_pairs [--rows 10000 100000 1000000] [--mechanisms | --middle]

Rows: normal, of deviation 2^18 cells; "clusters": a thousand of them of deviation 2^14, centers
normal of deviation 2^18. Radii in deviations of a coordinate. friends: the share of pairs that
are. ours: all rows, ``degrees``, exact. all pairs: float64 products of blocks, a comparison and
two sums, for some rows against all (of the pairs, each once); its time for all rows is scaled
up. It is what ``degrees`` did before with every row beyond half of the radius of the median (at
13, hardly any). cKDTree: built for all rows, asked for the numbers of some
(``query_ball_point``, float64, where a boundary may round); scaled up. Seconds of processor
time, one thread. ratios: theirs over ours. wrong: counts of some rows that differ from those of
exact distances.

With ``--middle`` radii in the middle alone, of normal rows: ours beside a comparison of every
pair once, whose seconds are measured in full, and all counts are compared.

With ``--mechanisms`` releases end to end instead: add-remove, (1, 1e-6), a public covariance
that is right, a twentieth of the records 6 deviations off in "outliers"; peak: memory of the
process so far.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dpverify import (
    Abstained,
    Adjacency,
    ApproxDP,
    RefinedMean,
    RescaledMean,
    RobustMean,
    SeededBits,
)
from dpverify.grid.degrees import degrees
from dpverify.grid.linear import squared_distances
from tests.benchmarks.timing import clocked, header

COLUMNS, UNIT = 10, 1 << 18
CHECKED, ASKED, COMPARED, BLOCK = 20, 100, 512, 1 << 13
RADII, CLUSTERED = (0.25, 0.5, 8.0, 9.0, 13.0), (0.1, 0.5)
MIDDLE, MOST_MIDDLE = (1.0, 2.0, 4.5, 6.2, 7.0), 10**5
"""Radii in the middle leave many pairs to be looked at: not measured beyond so many rows."""


def data(kind: str, n: int) -> Any:
    """Draw integer rows."""
    rng = np.random.default_rng(n)
    rows = rng.normal(size=(n, COLUMNS))
    if kind == "clusters":
        rows = rows / 16 + rng.normal(size=(1000, COLUMNS))[rng.integers(0, 1000, n)]
    return np.rint(rows * UNIT).astype(np.int64)


def all_pairs(rows: Any, radius: int) -> float:
    """Compare some rows with all, as before, and scale the seconds up to every pair once."""
    n = len(rows)
    some = rows[:: max(1, n // COMPARED)]
    vectors = np.hstack([rows, np.ones((n, 1)), -(rows**2).sum(axis=1, keepdims=True)]) * 1.0
    left = np.hstack([2 * some, -(some**2).sum(axis=1, keepdims=True), np.ones((len(some), 1))])

    def compare() -> None:
        for at in range(0, n, BLOCK):
            near = left * 1.0 @ vectors[at : at + BLOCK].T >= -float(radius**2)
            near.sum(axis=0, dtype=np.uint16)
            near.sum(axis=1, dtype=np.uint16)

    return clocked(compare)[2] * n / (2 * len(some))


def every_pair(rows: Any, radius: int) -> Any:
    """Count the friends of all rows by exact float64 products of blocks, each pair once."""
    sizes = (rows**2).sum(axis=1)[:, np.newaxis]
    left = np.hstack([2 * rows, -sizes, np.ones_like(sizes)]) * 1.0
    right = np.hstack([rows, np.ones_like(sizes), -sizes]) * 1.0
    counts = np.zeros(len(rows), np.int64)
    for i in range(0, len(rows), BLOCK):
        for j in range(i, len(rows), BLOCK):
            near = left[i : i + BLOCK] @ right[j : j + BLOCK].T >= -float(radius**2)
            counts[i : i + BLOCK] += near.sum(axis=1, dtype=np.uint16)
            if j > i:
                counts[j : j + BLOCK] += near.sum(axis=0, dtype=np.uint16)
    return counts


def middle(sizes: Sequence[int]) -> Iterator[list[str]]:
    """Measure radii in the middle, and compare every count."""
    for n in sizes:
        rows = data("normal", n)
        for deviations in MIDDLE:
            radius = round(deviations * UNIT)
            ours, _, seconds = clocked(degrees, rows, radius)
            right, _, pairs = clocked(every_pair, rows, radius)
            times = [f"{value:.3g}" for value in (seconds, pairs, pairs / seconds)]
            share = f"{ours.mean() / n:.3g}"
            yield [f"{n} normal {deviations:g}", share, *times, str(int((ours != right).sum()))]


def tree_seconds(rows: Any, radius: int) -> float:
    """Build SciPy's tree, and ask it for the numbers of some rows; scaled up to all of them."""
    tree_of: Callable[..., Any] = importlib.import_module("scipy.spatial").cKDTree
    floats = rows.astype(np.float64)
    tree, _, build = clocked(tree_of, floats)
    some = floats[:: max(1, len(rows) // ASKED)]
    _, _, asked = clocked(lambda: tree.query_ball_point(some, radius, return_length=True))
    return build + asked * len(rows) / len(some)


def cells(sizes: Sequence[int]) -> Iterator[list[str]]:
    """Measure each case."""
    for n in sizes:
        for kind, radii in (("normal", sorted(RADII + MIDDLE)), ("clusters", CLUSTERED)):
            for deviations in radii:
                if deviations in MIDDLE and n > MOST_MIDDLE:
                    continue
                rows, radius = data(kind, n), round(deviations * UNIT)
                counts, _, ours = clocked(degrees, rows, radius)
                pairs = all_pairs(rows, radius)
                tree = tree_seconds(rows, radius)
                some = np.linspace(0, n - 1, CHECKED).astype(np.intp)
                right = (squared_distances(rows[some], rows) <= radius**2).sum(axis=1)
                wrong = int((counts[some] != right).sum())
                times = [f"{value:.3g}" for value in (ours, pairs, tree, pairs / ours, tree / ours)]
                share = f"{counts.mean() / n:.3g}"
                yield [f"{n} {kind} {deviations:g}", share, *times, str(wrong)]


def mechanisms(sizes: Sequence[int]) -> Iterator[list[str]]:
    """Release end to end."""
    ones = (1.0,) * COLUMNS
    budget, add = ApproxDP(1, "1e-6"), Adjacency.ADD_REMOVE
    for n in sizes:
        made = (
            RescaledMean.for_budget(budget, adjacency=add, covariance=ones, n_max=n),
            RefinedMean.for_budget(budget, adjacency=add, covariance=ones, n_max=n),
            RobustMean.for_budget(budget, adjacency=add, deviations=ones, n_max=n),
        )
        for mechanism in made:
            for kind in ("normal", "outliers"):
                rng = np.random.default_rng(5)
                records = rng.normal(size=(n, COLUMNS)) + 7
                if kind == "outliers":
                    few = rng.normal(size=(n // 20, COLUMNS)) / 10 + 7
                    few[:, 0] += 6
                    records[: n // 20] = few
                release, _, seconds = clocked(mechanism.release, records, SeededBits(1))
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
                error = (
                    "abstained"
                    if isinstance(release, Abstained)
                    else f"{float(np.linalg.norm(release.value - 7)):.4f}"
                )
                name = f"{type(mechanism).__name__} {n} {kind}"
                yield [name, f"{seconds:.2f}", f"{peak:.0f}", error]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, nargs="+", default=[10**4, 10**5, 10**6])
    parser.add_argument("--mechanisms", action="store_true")
    parser.add_argument("--middle", action="store_true")
    given = parser.parse_args()
    header(
        "Friends of each record", "python -m tests.benchmarks.near_pairs " + " ".join(sys.argv[1:])
    )
    print(f"\n{__doc__}")
    columns = ["", "friends", "ours s", "all pairs", "cKDTree", "ratio", "ratio", "wrong"]
    lines = cells(given.rows)
    if given.mechanisms:
        columns, lines = ["", "seconds", "peak MB", "error"], mechanisms(given.rows)
    if given.middle:
        columns = ["", "friends", "ours s", "all pairs", "ratio", "wrong"]
        lines = middle(given.rows)
    for first, *others in itertools.chain([columns], lines):  # each as soon as it is measured
        print(first.ljust(30), *(cell.rjust(10) for cell in others), flush=True)


if __name__ == "__main__":
    main()
