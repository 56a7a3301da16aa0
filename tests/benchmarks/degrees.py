"""Exact neighbor counts, against NumPy's float64 product of all pairs, which counts nothing.

10,000 rows of 1,000 integers: normal, of standard deviation 2^15 cells, about an offset of 2^40;
the radius is about the typical distance, where the decisions are closest, and then one and a
half of it. Then the same with rows that must not make it slow: one in twenty at the corners of
the outer box, two far clusters, thirty, scales from 2^15 to 2^39; and radii from 2^20 to 2^45
cells. NumPy's ``X @ X.T`` is timed once more beside each of them, in float64, on rows without
the offset. It fills n x n numbers, and takes half the multiplications, for it sees that the
result is symmetric.

Ours and NumPy's take turns, and a time is the median of WALL times: both use as many BLAS
threads as they are given. Also in processor time, of all threads, for other jobs run beside.
ratio: our wall time over NumPy's. memory: the most that was allocated at a time beyond the rows,
in copies of the rows.
"""

from __future__ import annotations

import statistics
import sys
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np

from dpverify.grid.degrees import degrees
from dpverify.grid.linear import squared_distances
from tests.benchmarks.timing import clocked, header, table

ROWS, COLUMNS, DEVIATION = 10_000, 1000, 1 << 15
REPEATS = 5
TARGET, LONG_TARGET = 3, 180
CHECKED = 20


def cases(rng: np.random.Generator, x: Any) -> Iterator[tuple[str, Any, int]]:
    """List rows of integers with a radius."""
    n, radius = len(x), round(DEVIATION * (2 * COLUMNS) ** 0.5)
    yield "all near each other", x + 2**40, radius
    yield "most within half the radius", x + 2**40, round(1.5 * radius)
    corners = x.copy()
    few = rng.choice(n, n // 20, replace=False)
    corners[few] = rng.choice([-(2**40), 2**40], (len(few), COLUMNS))
    yield "one in twenty far", corners, radius
    for clusters in (2, 30):
        centers = rng.integers(-1, 2, (clusters, COLUMNS)) << 40
        yield f"{clusters} far clusters", x + centers[rng.integers(0, clusters, n)], radius
    scales = rng.integers(0, 25, (n, 1))
    yield "scales of 2^15 to 2^39", x << scales, radius
    yield "spread 2^39, radius 2^20", x << 24, radius
    yield "spread 2^39, radius 2^45", x << 24, radius << 24


def wrong(rows: Any, radius: int, counts: Any) -> int:
    """Count how many of some counts differ from those of exact distances."""
    some = np.linspace(0, len(rows) - 1, CHECKED).astype(np.intp)
    expected = (squared_distances(rows[some], rows) <= radius**2).sum(axis=1)
    return int((counts[some] != expected).sum())


def row(name: str, rows: Any, radius: int, floats: Any) -> list[str]:
    """Measure times in turn, then memory in another run, which it slows down."""
    ours: list[tuple[float, float]] = []
    numpys: list[tuple[float, float]] = []
    for _ in range(REPEATS):
        counts, *times = clocked(degrees, rows, radius)
        ours.append((times[0], times[1]))
        _, *times = clocked(np.matmul, floats, floats.T)
        numpys.append((times[0], times[1]))
    tracemalloc.start()
    degrees(rows, radius)
    memory = tracemalloc.get_traced_memory()[1] / rows.nbytes
    tracemalloc.stop()
    mine, theirs = (
        [statistics.median(column) for column in zip(*times, strict=True)]
        for times in (ours, numpys)
    )
    ratio = mine[0] / theirs[0]
    target = "-" if name != "all near each other" else "ok" if ratio <= TARGET else "miss"
    seconds = [f"{value:.2f}" for value in (*mine, *theirs)]
    share = f"{counts.mean() / len(rows):.3f}"
    differing = str(wrong(rows, radius, counts))
    return [name, *seconds, f"{ratio:.2f}", target, f"{memory:.1f}", share, differing]


def long() -> None:
    """Measure 100,000 rows of 50 integers, once."""
    rng = np.random.default_rng(1)
    rows = np.rint(rng.normal(size=(100_000, 50)) * DEVIATION).astype(np.int64)
    radius = round(DEVIATION * 100**0.5)
    counts, wall, processor = clocked(degrees, rows, radius)
    verdict = "ok" if wall <= LONG_TARGET else "miss"
    print(
        f"\n100,000 rows of 50 integers, once: {wall:.0f} s, {processor:.0f} s of processor time;"
    )
    print(f"target {LONG_TARGET} s: {verdict}; wrong counts of {CHECKED}: ", end="")
    print(wrong(rows, radius, counts))


def main() -> None:
    """Print times, ratios, memory, and wrong counts (none), in some four minutes.

    ``--long`` adds 100,000 rows.
    """
    header("Exact neighbor counts", "python -m tests.benchmarks.degrees [--long]")
    print(f"# here: the median of {REPEATS} for every call, ours and NumPy's in turn\n")
    print(__doc__)
    print(f"target: at most {TARGET} times NumPy's time where all are near each other\n")
    rng = np.random.default_rng(0)
    x = np.rint(rng.normal(size=(ROWS, COLUMNS)) * DEVIATION).astype(np.int64)
    floats = x.astype(np.float64)
    rows = [row(name, data, radius, floats) for name, data, radius in cases(rng, x)]
    columns = (
        "",
        "ours s",
        "CPU",
        "NumPy s",
        "CPU",
        "ratio",
        "target",
        "memory",
        "friends",
        "wrong",
    )
    table(columns, rows)
    if "--long" in sys.argv[1:]:
        long()


if __name__ == "__main__":
    main()
