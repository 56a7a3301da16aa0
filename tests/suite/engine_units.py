"""Units for tests of engines, and a cluster to do them: processes look both up by name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpverify.suite.events import Outcome, UnitFinished

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit whose kind says what happens to it: "held", "dies once", "always dies", "raises",
    "unsendable", "waits", "sleeps"."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Options:
    """marks: a folder in which units leave a file for each time that they were begun. seconds:
    of those that sleep."""

    marks: Path
    suite: Path | None = None
    seed: int = 0
    seconds: float = 0.0

    def replay(self, unit: Unit) -> str:
        """Say how the unit is done again."""
        return f"do {unit.name}"

    def begun(self, name: str) -> int:
        """Count how often a unit was begun."""
        return len(list(self.marks.glob(f"{name}.*")))


def do(unit: Unit, options: Options) -> UnitFinished:
    """Do a unit, in whatever process this is."""
    (options.marks / f"{unit.name}.{time.monotonic_ns()}").touch()
    if unit.kind == "always dies" or (unit.kind == "dies once" and options.begun(unit.name) == 1):
        os.kill(os.getpid(), signal.SIGKILL)
    if unit.kind == "raises":
        raise RuntimeError("a bug of ours")
    if unit.kind == "waits":
        time.sleep(60)
    if unit.kind == "sleeps":
        time.sleep(options.seconds)
    data: dict[str, Any] = {"process": os.getpid()}
    if unit.kind == "unsendable":
        data["function"] = lambda: None
    held = Outcome.HELD, "HELD", ""
    return UnitFinished(unit.kind, unit.name, *held, replay=options.replay(unit), data=data)


class Scheduler:
    """A LocalCluster of processes in a process of its own, started when it is asked for and not
    there."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._address = ""

    @property
    def address(self) -> str:
        """Address of the scheduler, which runs."""
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.suite.engine_units"], cwd=ROOT, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            assert self._process.stdout is not None
            self._address = self._process.stdout.readline().strip()
        return self._address

    def kill(self) -> None:
        """End it at once, by SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


@contextmanager
def local_cluster() -> Iterator[str]:
    """Run a scheduler with two workers, and yield its address."""
    scheduler = Scheduler()
    try:
        yield scheduler.address
    finally:
        scheduler.kill()


def serve() -> None:
    """Run a scheduler and two worker processes until somebody kills this one."""
    import dask
    from distributed import LocalCluster
    from distributed.utils import get_mp_context

    settings = {
        "distributed.scheduler.allowed-failures": 0,
        "distributed.worker.multiprocessing-method": "forkserver",
    }
    with dask.config.set(settings):
        preloaded = ["distributed", "dpverify.suite.engines.cluster", "tests.suite.engine_units"]
        get_mp_context().set_forkserver_preload(preloaded)  # once, not in each of several workers
        with LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster:
            print(cluster.scheduler_address, flush=True)
            sys.stdin.read()


if __name__ == "__main__":
    serve()
