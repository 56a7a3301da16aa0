"""Reports of runs that are stopped, or that cannot be written: whole events, nothing lost, the
right exit code."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpverify.cli import main
from dpverify.report.evidence import Evidence
from dpverify.report.jsonl import InUse, JsonLines
from dpverify.suite.engines import Unfinished
from dpverify.suite.events import Consumer, Event, Outcome, RunFinished, RunStarted, UnitFinished
from dpverify.suite.reporting import ReportFailed, report
from dpverify.suite.stored import read

STARTED = RunStarted("audit", "0", "/suite", 3, 3, 1e-6, planned=("audit u",))


def _unit(name: str, outcome: Outcome = Outcome.HELD) -> UnitFinished:
    return UnitFinished("audit", name, outcome, "V", "", data={"key": f"key of {name}"})


UNITS = [_unit(f"u{i}") for i in range(3)]


class _Kept:
    """A consumer that keeps what it takes, and does something when it takes a certain unit."""

    def __init__(self, at: str = "", then: Any = None) -> None:
        self.events, self._at, self._then = list[Event](), at, then

    def __call__(self, event: Event) -> None:
        if isinstance(event, UnitFinished) and event.name == self._at:
            self._then()
        self.events.append(event)


@pytest.fixture
def listening() -> Iterator[None]:
    """A background job of a shell starts with Ctrl-C ignored, and so would its tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("listening")
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_never_cuts_an_event_in_two(sent: signal.Signals, code: int) -> None:
    """It comes while the first of two consumers takes the second unit: both have it, and neither
    has the third."""
    before = signal.getsignal(sent)
    first, second = _Kept("u1", lambda: os.kill(os.getpid(), sent)), _Kept()
    assert report(STARTED, UNITS, [first, second]) == code
    assert first.events == second.events
    assert first.events[:-1] == [STARTED, *UNITS[:2]]
    ended = first.events[-1]
    assert isinstance(ended, RunFinished)
    assert (ended.exit_code, ended.interrupted, ended.counts) == (code, True, {"held": 2})
    assert signal.getsignal(sent) is before


@pytest.mark.usefixtures("listening")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_unit_in_its_middle(sent: signal.Signals) -> None:
    def finishing() -> Iterator[UnitFinished]:
        yield UNITS[0]
        os.kill(os.getpid(), sent)
        yield UNITS[1]

    kept = _Kept()
    assert report(STARTED, finishing(), [kept]) in (130, 143)
    assert kept.events[:-1] == [STARTED, UNITS[0]]


def test_what_is_not_done_is_no_success_and_no_less_than_what_was_seen() -> None:
    """Exit code 4, unless something was refuted."""

    def stopped(*units: UnitFinished) -> Iterator[UnitFinished]:
        yield from units
        raise Unfinished("the workers left")

    kept = _Kept()
    assert report(STARTED, stopped(UNITS[0]), [kept]) == 4
    assert report(STARTED, stopped(_unit("bad", Outcome.REFUTED)), [kept]) == 1
    assert isinstance(kept.events[-1], RunFinished)
    assert "Not everything was done: the workers left" in kept.events[-1].ending


def test_parts_count_in_shards_alone_and_an_empty_shard_has_done_its_work() -> None:
    part = UnitFinished("rate-point", "p", Outcome.INVALID, "V", "")
    shard = RunStarted("rates", "0", "/suite", 3, 1, 1e-6, shard="1/2", planned=("rate-point p",))
    assert report(STARTED, [part], []) == 5
    assert report(shard, [part], []) == 3
    empty = RunStarted("rates", "0", "/suite", 3, 0, 1e-6, shard="2/2", planned=("rate-point p",))
    assert report(empty, [], []) == 0


# --- disks that are full ------------------------------------------------------------------------


class _Disk:
    """``os.write`` onto a disk that has so many bytes left."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, left: int) -> None:
        self.left, self._write = left, os.write
        monkeypatch.setattr("dpverify.report.jsonl.os.write", self)

    def __call__(self, file: int, content: bytes) -> int:
        if not self.left:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self._write(file, content[: self.left])
        self.left -= written
        return written


def _written(path: Path, *besides: Consumer) -> int:
    return report(STARTED, UNITS, [JsonLines(path), *besides])


def test_a_full_disk_ends_no_run_and_what_was_kept_is_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Room for one unit and a half; the other consumer gets everything."""
    assert _written(tmp_path / "whole") == 0
    lines = (tmp_path / "whole").read_bytes().splitlines(keepends=True)
    _Disk(monkeypatch, len(lines[0]) + len(lines[1]) + len(lines[2]) // 2)
    kept = _Kept()
    with pytest.raises(ReportFailed, match="No space left on device: that report is not complete"):
        _written(tmp_path / "cut", kept)
    assert len(kept.events) == 5
    assert read(tmp_path / "cut").units == UNITS[:1]
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("cut cannot be written: No space left on device; the run goes on")


def test_a_disk_that_is_freed_gets_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _written(tmp_path / "whole")
    disk = _Disk(monkeypatch, 700)

    def free() -> None:
        disk.left = 10**6

    assert _written(tmp_path / "late", _Kept("u2", free)) == 0
    ours, whole = ((tmp_path / name).read_text(encoding="utf-8") for name in ("late", "whole"))
    assert ours.splitlines()[:-1] == whole.splitlines()[:-1]  # the last line has a time


def test_evidence_is_written_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evidence, right = Evidence(tmp_path), Path.write_text

    def full(*arguments: Any, **named: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    finished = UnitFinished("audit", "u", Outcome.REFUTED, "V", "", data={"witness": {"a": 1}})
    with pytest.raises(OSError, match="No space"):
        evidence(finished)
    monkeypatch.setattr(Path, "write_text", right)
    evidence(UNITS[0])
    assert (tmp_path / "u.json").read_text(encoding="utf-8") == '{"a": 1}\n'


def test_a_device_that_is_full_is_told_of_in_a_line(
    foreign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run itself is shown to its end; the exit code says that a report is missing."""
    run = ["audit", "my_count:replace", "--trials", "300", "--suite", str(foreign)]
    assert main([*run, "--workers", "1", "--jsonl", "/dev/full"]) == 3
    printed = capsys.readouterr()
    assert "my_count:replace:within" in printed.out
    first, last = printed.err.splitlines()
    assert (
        first == "dpverify: /dev/full cannot be written: No space left on device; the run goes on"
    )
    assert last.startswith("dpverify: /dev/full cannot be written: No space left on device: that")


# --- one file, one run --------------------------------------------------------------------------


def test_two_runs_do_not_write_one_file(
    tmp_path: Path, foreign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "events"
    first = JsonLines(path)
    first(STARTED)
    with pytest.raises(InUse):
        JsonLines(path)
    run = ["audit", "my_count", "--trials", "300", "--suite", str(foreign), "--workers", "1"]
    assert main([*run, "--jsonl", str(path)]) == 2
    assert "cannot be written: another run is writing it." in capsys.readouterr().err
    first(RunFinished(0, {}, 1.0, False))
    assert len(read(path).events) == 2
    again = JsonLines(path)
    again(RunFinished(0, {}, 1.0, False))


def test_several_runs_may_write_one_device() -> None:
    first, second = JsonLines(Path("/dev/null")), JsonLines(Path("/dev/null"))
    for run in (first, second):
        run(STARTED)
        run(RunFinished(0, {}, 1.0, False))


def test_a_run_that_goes_on_in_its_file_keeps_that_until_it_has_as_much(tmp_path: Path) -> None:
    """Killed before, it has lost nothing, and killed after, it has what is new as well."""
    path = tmp_path / "events"
    _written(path)
    old = path.read_bytes()
    lines = JsonLines(path, held={"key of u0", "key of u1"})
    events: list[Event] = [STARTED, *UNITS[:2]]
    for event in events:
        lines(event)
        assert path.read_bytes() == old
    lines(_unit("new"))
    assert [unit.name for unit in read(path).units] == ["u0", "u1", "new"]
    with pytest.raises(InUse):
        JsonLines(path)
    lines(RunFinished(0, {}, 1.0, False))
    assert list(tmp_path.iterdir()) == [path]


def test_a_run_that_is_stopped_before_it_has_as_much_leaves_its_file(tmp_path: Path) -> None:
    path = tmp_path / "events"
    _written(path)
    old = path.read_bytes()
    lines = JsonLines(path, held={"key of u0", "key of u1"})
    lines(STARTED)
    lines(UNITS[0])
    lines(RunFinished(130, {}, 1.0, True))
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]
