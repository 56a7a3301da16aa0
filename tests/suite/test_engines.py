"""Engines: the same results from each, and what remains when a worker, a scheduler or we
ourselves are killed."""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpverify.cli import main
from dpverify.suite.engines import ATTEMPTS, Engine, EngineRefused
from dpverify.suite.engines.cluster import Cluster
from dpverify.suite.engines.processes import Processes
from dpverify.suite.engines.serial import Serial
from dpverify.suite.events import Outcome, RunStarted, UnitFinished
from dpverify.suite.reporting import report
from dpverify.suite.resuming import code_of
from dpverify.suite.trees import find_root
from tests.suite.engine_units import Options, Scheduler, Unit, do

HELD = [Unit("held", f"held-{i}") for i in range(6)]
BAD = [Unit("dies once", "once"), Unit("always dies", "always"), Unit("raises", "raises")]


@pytest.fixture(scope="module")
def scheduler() -> Iterator[Scheduler]:
    started = Scheduler()
    yield started
    started.kill()


pytestmark = pytest.mark.usefixtures("forked")


@pytest.fixture
def options(tmp_path: Path) -> Options:
    (tmp_path / "marks").mkdir()
    return Options(tmp_path / "marks")


def _by_name(engine: Engine, units: list[Unit], options: Options) -> dict[str, UnitFinished]:
    finished = list(engine.run(units, do, options))
    assert sorted(one.name for one in finished) == sorted(unit.name for unit in units)
    return {one.name: one for one in finished}


def _check_bad(finished: dict[str, UnitFinished], options: Options) -> None:
    """Check that one unit died once and was done again and one always died; nothing else was
    lost, or done twice."""
    assert finished["once"].outcome is Outcome.HELD
    assert options.begun("once") == 2
    assert (finished["always"].outcome, finished["raises"].outcome) == (Outcome.INVALID,) * 2
    assert "every worker that it was given to died" in finished["always"].summary
    assert "could not be done: RuntimeError: a bug of ours" in finished["raises"].summary
    assert finished["always"].replay == "do always"
    assert {finished[unit.name].outcome for unit in HELD} == {Outcome.HELD}


def test_a_process_that_dies_loses_its_unit_only(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL in the middle of a unit; afterwards the same engine does more, and none of its
    processes is left."""
    assert ATTEMPTS == 3
    monkeypatch.setattr("dpverify.suite.engines.processes.ATTEMPTS", 2)  # a process takes a second
    with Processes(2) as engine:
        finished = _by_name(engine, [*BAD, Unit("unsendable", "unsendable"), *HELD], options)
        again = _by_name(engine, [Unit("held", "later"), Unit("held", "last")], options)
        monkeypatch.setattr("dpverify.suite.engines.processes.ATTEMPTS", 1)
        alone = _by_name(engine, [Unit("always dies", "alone")], options)
    with Processes(2, one_here=True) as engine:
        here = _by_name(engine, [Unit("held", "here")], options)
    _check_bad(finished, options)
    assert options.begun("always") == 2
    assert [options.begun(unit.name) for unit in HELD] == [1] * len(HELD)
    assert finished["unsendable"].outcome is Outcome.INVALID
    processes = {finished[unit.name].data["process"] for unit in HELD}
    assert os.getpid() not in processes
    assert alone["alone"].outcome is Outcome.INVALID
    assert here["here"].data["process"] == os.getpid()
    for process in {*processes, again["later"].data["process"]}:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def test_here_what_raises_is_invalid_and_the_rest_is_done(options: Options) -> None:
    finished = _by_name(Serial(), [BAD[2], *HELD], options)
    assert finished["raises"].outcome is Outcome.INVALID
    assert {finished[unit.name].data["process"] for unit in HELD} == {os.getpid()}


def _prefixes(dask_scheduler: Any) -> set[str]:
    """Return the names by which the dashboard groups tasks."""
    return set(dask_scheduler.task_prefixes)


def test_a_cluster_that_loses_workers_loses_their_units_only(
    scheduler: Scheduler, options: Options
) -> None:
    """Lose their units only: the scheduler blames all units of a worker that dies; those that
    did nothing are cleared."""
    with Cluster(scheduler.address, code_of(find_root())) as engine:
        assert engine.workers == 2
        finished = _by_name(engine, [*BAD, *HELD], options)
        shown = engine._client.run_on_scheduler(_prefixes)
    assert {"held", "raises"} <= shown
    _check_bad(finished, options)
    assert os.getpid() not in {finished[unit.name].data["process"] for unit in HELD}


def test_workers_with_other_code_do_nothing(scheduler: Scheduler, options: Options) -> None:
    with Cluster(scheduler.address, "another digest") as engine:
        finished = _by_name(engine, HELD[:1], options)
    assert "has another version of the code" in finished["held-0"].summary
    assert options.begun("held-0") == 0


def test_all_engines_have_the_same_results(
    foreign: Path, tmp_path: Path, scheduler: Scheduler
) -> None:
    """Here, in processes, on a cluster, and in three shards that are merged."""
    run = ["audit", "--trials", "2000", "--seed", "4", "--suite", str(foreign)]
    here = ["--workers", "1"]

    def lines(name: str, *engine: str) -> list[str]:
        assert main([*run, *engine, "--jsonl", str(tmp_path / name)]) == 0
        return _lines(tmp_path / name)

    serial = lines("serial", *here)
    assert len(serial) == 4
    assert lines("processes", "--workers", "2") == serial
    assert lines("cluster", "--cluster", scheduler.address) == serial
    shards = [str(tmp_path / f"shard-{i}") for i in (1, 2, 3)]
    for i, file in enumerate(shards, 1):
        main([*run, *here, "--shard", f"{i}/3", "--jsonl", file])
        assert len(_lines(Path(file))) in (1, 2)
    assert main(["merge", *shards, "-o", str(tmp_path / "merged")]) == 0
    assert _lines(tmp_path / "merged") == serial


def _lines(path: Path) -> list[str]:
    """Return the results as text, without how long they took, in an order of their own."""
    units = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return sorted(
        json.dumps({**unit, "seconds": 0}, sort_keys=True)
        for unit in units
        if unit["event"] == "unit-finished"
    )


def _shows_errors(name: str) -> bool:
    return logging.getLogger(f"distributed.{name}").isEnabledFor(logging.ERROR)


def test_a_scheduler_that_is_killed_leaves_a_valid_partial_report(
    scheduler: Scheduler, options: Options
) -> None:
    """After the first result: the run ends with exit code 4, and says so."""
    events: list[Any] = []

    def take(event: Any) -> None:
        events.append(event)
        if isinstance(event, UnitFinished):
            scheduler.kill()

    units = [HELD[0], *(Unit("waits", f"waits-{i}") for i in range(3))]
    started = RunStarted("audit", "0", "s", 1, len(units), 0.0)
    with Cluster(scheduler.address, code_of(find_root())) as engine:
        assert report(started, engine.run(units, do, options), [take]) == 4
    assert [type(event).__name__ for event in events] == [
        "RunStarted", "UnitFinished", "RunFinished"
    ]  # fmt: skip
    assert events[-1].interrupted
    assert "went away" in events[-1].ending
    assert events[-1].counts == {"held": 1}
    shown = [name for name in ("client", "core", "scheduler") if _shows_errors(name)]
    assert shown == []  # a traceback of the lost connection, beside our line


def test_a_cluster_that_is_not_there_is_wrong_usage(
    foreign: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dpverify.suite.engines.cluster.REACHED_WITHIN", 0.5)
    for address, said in (
        ("tcp://127.0.0.1:9", "did not answer within 0.5 seconds"),
        ("nowhere", "is no address"),
        ("tls://127.0.0.1:9", "is encrypted: name its certificates"),
    ):
        assert main(["audit", "--suite", str(foreign), "--cluster", address]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"--cluster {address} {said}" in line


def test_what_answers_and_is_no_scheduler_is_wrong_usage(
    foreign: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The port of a dashboard, say: Dask's own client waits for it without end."""
    monkeypatch.setattr("dpverify.suite.engines.cluster.REACHED_WITHIN", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        assert main(["audit", "--suite", str(foreign), "--cluster", address]) == 2
    assert f"--cluster {address} did not answer within 0.5 s" in capsys.readouterr().err


def test_a_cluster_without_dask_is_wrong_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(EngineRefused, match=r"run `pip install 'dpverify\[cluster\]'`"):
        Cluster("tcp://127.0.0.1:9", "code")
