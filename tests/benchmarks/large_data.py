"""Ten columns in Parquet files larger than memory: a session's moments beside a bare pass.

    python -m tests.benchmarks.large_data write FOLDER --records 1e8
    python -m tests.benchmarks.large_data read FOLDER [--rounds 3] [--plan]
    python -m tests.benchmarks.large_data workers FOLDER [--rounds 3]

read: "moments" is one answer of a session about a table that is not in memory: the number of
records, their means and covariances, in one pass; "plan" asks a count, the means and the
covariances apart, in one pass too. "bare read" reads the same batches by pyarrow and drops them;
"bare Gram" maps them to cells and adds up exact second moments and sums. Each round runs all of
them, in turn, so that what else the machine does falls on all; given are seconds and ratios of
each round, the best and the median. The peak is of the whole process. workers: the same moments
by one worker process of Dask and by two, of one thread each.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import threadpoolctl

from dpverify import (
    Adjacency,
    ApproxDP,
    Chunks,
    MomentMatrix,
    Number,
    SeededBits,
    Session,
    Table,
)
from dpverify.grid import column_sums, quantize, second_moments
from dpverify.grid.linear import Integers
from tests.benchmarks.timing import clocked, header, table

D = 10
NAMES = [f"x{i}" for i in range(D)]
COLUMNS = {name: Number(-16, 16, missing=0) for name in NAMES}
BATCH, PIECE = (1 << 19) // D, -(-(1 << 17) // D)
_FILE = 10_000_000  # records in a file


def write(folder: Path, records: int) -> None:
    """Write files of normal records whose columns follow each other.

    They are as pyarrow writes them by default, but without dictionaries.
    """
    import pyarrow as pa
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    for k, start in enumerate(range(0, records, _FILE)):
        rng = np.random.default_rng(k)
        rows = rng.standard_normal((D, min(_FILE, records - start)))
        for i in range(1, D):
            rows[i] += rows[i - 1] / 2
        made = pa.table(dict(zip(NAMES, rows, strict=True)))
        parquet.write_table(made, folder / f"{k:03d}.parquet", use_dictionary=False)


def batches(folder: Path) -> Iterator[Any]:
    """Read all files as the library does."""
    from pyarrow import parquet

    for path in sorted(folder.glob("*.parquet")):
        with parquet.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=BATCH, columns=NAMES)


def bare_read(folder: Path) -> int:
    """Count the rows."""
    return sum(batch.num_rows for batch in batches(folder))


def bare_gram(folder: Path) -> Integers:
    """Add up exact sums and second moments of cells, without types, missing entries or bounds."""
    return gram_of(batches(folder))


def gram_of(given: Iterable[Any]) -> Integers:
    """Map numbers in one array that stays in the cache, column after column, as fast as was found.

    2^14 products of 2^32 are added exactly in floats.
    """
    total: Integers = np.zeros((D + 1, D), np.int64)
    cells, ones = np.empty((D, PIECE)), np.ones(PIECE)
    for batch in given:
        columns = [column.to_numpy() for column in batch.columns]
        for start in range(0, batch.num_rows, PIECE):
            rows = min(PIECE, batch.num_rows - start)
            z = cells[:, :rows]
            for row, column in zip(z, columns, strict=True):
                np.multiply(column[start : start + rows], 4096.0, out=row)
            np.rint(z, out=z)
            np.clip(z, -65536.0, 65536.0, out=z)
            total[:D] += (z @ z.T).astype(np.int64)
            total[D] += (z @ ones[:rows]).astype(np.int64)
    return total


def plain_gram(folder: Path) -> Integers:
    """Add up exact products in a few lines: records side by side, cells as integers."""
    total: Integers = np.zeros((D + 1, D), np.int64)
    for batch in batches(folder):
        columns = [column.to_numpy() for column in batch.columns]
        for start in range(0, batch.num_rows, PIECE):
            rows = np.column_stack([column[start : start + PIECE] for column in columns])
            cells = quantize(rows, -(1 << 16), 1 << 16, -12)
            total[:D] += second_moments(cells)
            total[D] += column_sums(cells)
    return total


def session_of(folder: Path) -> Session:
    """Open a session about the files."""
    opened = Table.read_parquet(folder, columns=COLUMNS, in_memory=False)
    near, budget = Adjacency.ADD_REMOVE, ApproxDP(1, "1e-6")
    return Session(opened, budget=budget, adjacency=near, bits=SeededBits(1))


def moments(folder: Path) -> Any:
    """Ask for the number, the means and the covariances."""
    return session_of(folder).moments(NAMES, share=1)


def plan(folder: Path) -> Any:
    """Ask for a count, the means and the covariances apart, in one pass."""
    asked = session_of(folder).plan()
    asked.count(), asked.mean(NAMES), asked.covariance(NAMES)
    return asked.answer()


def seconds(work: Callable[[Path], Any], folder: Path) -> tuple[float, float]:
    """Measure one run in wall-clock time, and in processor time of all threads."""
    _, wall, processor = clocked(work, folder)
    return wall, processor


def read(folder: Path, rounds: int, planned: bool) -> None:
    """Measure in turn, and print."""
    works = (bare_read, bare_gram, plain_gram, moments, *((plan,) if planned else ()))
    timings = [[seconds(work, folder) for work in works] for _ in range(rounds)]
    rows = bare_read(folder)
    print(f"{rows} records in {len(list(folder.glob('*.parquet')))} files")
    for place, clock in enumerate(("wall", "processor")):
        columns = [[one[place] for one in own] for own in zip(*timings, strict=True)]
        lines = [
            [
                work.__name__,
                f"{min(own):.1f}",
                f"{statistics.median(own):.1f}",
                *ratios(own, columns),
            ]
            for work, own in zip(works, columns, strict=True)
        ]
        print(f"\nseconds of {clock} time, and the median ratio (that of the best)")
        table(["what", "best", "median", "to bare read", "to bare Gram", "to plain Gram"], lines)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\npeak of the process: {peak:.0f} MB")


def ratios(own: list[float], columns: list[list[float]]) -> list[str]:
    """Return the median over rounds of bare time over this time, and the best of each."""
    return [
        f"{statistics.median(b / o for b, o in zip(bare, own, strict=True)):.2f} "
        f"({min(bare) / min(own):.2f})"
        for bare in columns[:3]
    ]


def one_thread() -> None:
    """Let this process compute and read by one thread."""
    import pyarrow

    threadpoolctl.threadpool_limits(1)
    pyarrow.set_cpu_count(1)
    pyarrow.set_io_thread_count(1)


def groups_of(folder: Path) -> list[tuple[Path, int]]:
    """List all row groups."""
    from pyarrow import parquet

    paths = sorted(folder.glob("*.parquet"))
    return [(path, i) for path in paths for i in range(parquet.read_metadata(path).num_row_groups)]


def bare_groups(groups: Sequence[tuple[Path, int]]) -> Integers:
    """Add up the bare Gram of some row groups."""
    from pyarrow import parquet

    one_thread()
    total: Integers = np.zeros((D + 1, D), np.int64)
    for path, group in groups:
        with parquet.ParquetFile(path) as file:
            options: dict[str, Any] = {"batch_size": BATCH, "columns": NAMES, "row_groups": [group]}
            total += gram_of(file.iter_batches(**options))
    return total


def bare_processes(folder: Path, count: int) -> float:
    """Measure processes that share the row groups and do nothing else: the machine's limit."""
    groups = groups_of(folder)
    with ProcessPoolExecutor(count, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(bare_groups, [groups[:1]] * (2 * count)))  # all have imported what they need
        start = time.perf_counter()
        list(pool.map(bare_groups, [groups[i::count] for i in range(count)]))
        return time.perf_counter() - start


def by_workers(folder: Path, count: int, mechanism: MomentMatrix) -> tuple[float, Any, float]:
    """Measure a release by workers of one thread: seconds, the release, the workers' processor
    seconds."""
    import dask.dataframe
    from distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with LocalCluster(n_workers=count, **options) as cluster, Client(cluster) as client:
        client.run(one_thread)
        frame = dask.dataframe.read_parquet(folder, columns=NAMES, split_row_groups=True)
        mechanism.law(frame.partitions[: 2 * count])  # workers have imported what they need
        before = client.run(time.process_time)
        start = time.perf_counter()
        answer = mechanism.release(Chunks(frame, columns=NAMES), SeededBits(1))
        wall = time.perf_counter() - start
        after = client.run(time.process_time)
    return wall, answer, sum(after[key] - before[key] for key in before)


def workers(folder: Path, rounds: int) -> None:
    """Measure one worker and two, and bare processes, in turn, and print."""
    mechanism = MomentMatrix.for_budget(
        ApproxDP(1, "1e-6"), adjacency=Adjacency.ADD_REMOVE, lower=(-16,) * D, upper=(16,) * D
    )
    timings: dict[str, list[float]] = {}
    answers = []
    for _ in range(rounds):
        for count in (1, 2):
            wall, answer, processor = by_workers(folder, count, mechanism)
            answers.append(answer)
            timings.setdefault(f"workers: {count}", []).append(wall)
            timings.setdefault(f"workers: {count}, processor seconds", []).append(processor)
            bare = bare_processes(folder, count)
            timings.setdefault(f"bare processes: {count}", []).append(bare)
    assert all(answer == answers[0] for answer in answers)
    table(
        ["what", "best", "median"],
        [[k, f"{min(own):.2f}", f"{statistics.median(own):.2f}"] for k, own in timings.items()],
    )
    for kind in ("workers", "bare processes"):
        one, two = timings[f"{kind}: 1"], timings[f"{kind}: 2"]
        each = [a / b for a, b in zip(one, two, strict=True)]
        print(
            f"\n{kind}, one to two: median {statistics.median(each):.2f} of {rounds} rounds, ",
            end="",
        )
        print(f"of the best {min(one) / min(two):.2f}", end="")
    print()


def main() -> None:
    """Write or measure."""
    parser = argparse.ArgumentParser(description="Data larger than memory.")
    parser.add_argument("what", choices=["write", "read", "workers"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--records", type=float, default=1e8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--plan", action="store_true", help="measure a plan of three questions too")
    given = parser.parse_args()
    if given.what == "write":
        write(given.folder, int(given.records))
        return
    threadpoolctl.threadpool_limits(1)
    header("data larger than memory", " ".join(sys.argv[1:2]))
    if given.what == "read":
        read(given.folder, given.rounds, given.plan)
    else:
        workers(given.folder, given.rounds)


if __name__ == "__main__":
    main()
