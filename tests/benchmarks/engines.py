"""Costs of engines: wall time of equal units against the sum of their times over the workers.

    python -m tests.benchmarks.engines [SECONDS] [UNITS]

A unit sleeps, so that what other programs do to the cores does not count as a cost of the
engine. The first run of an engine starts its workers, which is shown apart: that is paid once a
command.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

from dpverify.suite.engines import Engine
from dpverify.suite.engines.cluster import Cluster
from dpverify.suite.engines.processes import Processes
from dpverify.suite.engines.serial import Serial
from dpverify.suite.resuming import code_of
from dpverify.suite.trees import find_root
from tests.suite.engine_units import Options, Unit, do, local_cluster

REPEATS = 5
TARGET = 1.05


def measured(engine: Engine, seconds: float, units: int) -> tuple[float, float, list[float]]:
    """Return seconds of the first run with one unit a worker, CPU seconds a unit here, and
    ratios of later runs."""
    with tempfile.TemporaryDirectory() as folder:
        options = Options(Path(folder), seconds=seconds)
        start = perf_counter()
        list(engine.run(_units(engine.workers), do, options))
        first, busy, ratios = perf_counter() - start - seconds, process_time(), list[float]()
        for _ in range(REPEATS):
            start = perf_counter()
            done = list(engine.run(_units(units), do, options))
            assert len(done) == units
            ratios.append((perf_counter() - start) / (units * seconds / engine.workers))
        return first, (process_time() - busy) / (REPEATS * units), ratios


def _units(count: int) -> list[Unit]:
    return [Unit("sleeps", f"u{i}") for i in range(count)]


def main() -> None:
    """Print a line for each engine."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 0.5
    units = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    print(
        f"{units} units of {seconds} s; median (range) of {REPEATS} ratios, "
        f"at most {TARGET} asked for"
    )
    with local_cluster() as address:
        engines: list[Engine] = [Serial(), Processes(2), Cluster(address, code_of(find_root()))]
        for engine in engines:
            with engine:
                first, busy, ratios = measured(engine, seconds, units)
            print(
                f"{type(engine).__name__:<10} {engine.workers} workers: {median(ratios):.3f} "
                f"({min(ratios):.3f}..{max(ratios):.3f}), {1000 * busy:.1f} ms of CPU here a unit, "
                f"workers ready after {first:.1f} s"
            )


if __name__ == "__main__":
    main()
