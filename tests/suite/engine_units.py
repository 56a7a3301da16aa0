"""Units for tests of engines, and a cluster to do them: processes look both up by name."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpverify.suite.events import Outcome, UnitFinished


@dataclass(frozen=True, slots=True)
class Unit:
    """What happens to it is its kind: "held", "dies once", "always dies", "raises", "unsendable", "waits"."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Options:
    """marks: a folder in which units leave a file for each time that they were begun."""

    marks: Path
    suite: Path | None = None
    seed: int = 0

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
    data: dict[str, Any] = {"process": os.getpid()}
    if unit.kind == "unsendable":
        data["function"] = lambda: None
    held = Outcome.HELD, "HELD", ""
    return UnitFinished(unit.kind, unit.name, *held, replay=options.replay(unit), data=data)


def serve() -> None:
    """Run a scheduler and two worker processes until somebody kills this one."""
    import dask
    from distributed import LocalCluster

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
    ):
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    serve()
