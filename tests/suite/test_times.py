"""Memory of units: slow ones first, the time left, and a cache that may be anything."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from dpverify.cli.tables import table
from dpverify.report.terminal import Terminal
from dpverify.suite import doing
from dpverify.suite.engines.serial import Serial
from dpverify.suite.events import Outcome, RunStarted, UnitFinished
from dpverify.suite.judges import Options, Unit
from dpverify.suite.times import Times

UNITS = [Unit("audit", name) for name in ("quick", "slow", "new", "medium")]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "dpverify" / "times.json"


def _done(unit: Unit, options: Options, seconds: float = 1.0) -> UnitFinished:
    replay = options.replay(unit)
    return UnitFinished(
        unit.kind, unit.name, Outcome.HELD, "CONSISTENT", "", replay=replay, seconds=seconds
    )


def _remember(options: Options, **seconds: float) -> None:
    times = Times()
    for name, took in seconds.items():
        times.took(_done(Unit("audit", name), options, took))
    times.save()


@pytest.mark.usefixtures("cache")
def test_slow_ones_are_first_and_unknown_ones_before_them() -> None:
    _remember(Options(seed=3), quick=0.1, slow=20.0, medium=5.0)
    times, options = Times(), Options(seed=4)  # another seed takes as long
    names = [unit.name for unit in times.slow_first(UNITS, options)]
    assert names == ["new", "slow", "medium", "quick"]
    assert times.expected(UNITS, options) == {
        "audit quick": 0.1, "audit slow": 20.0, "audit medium": 5.0
    }  # fmt: skip
    assert times.expected(UNITS, Options(trials=5000)) == {}  # another size does not


@pytest.mark.usefixtures("cache")
def test_runs_add_to_what_others_wrote_meanwhile() -> None:
    first, second = Times(), Times()
    first.took(_done(UNITS[0], Options(), 2.0))
    second.took(_done(UNITS[1], Options(), 3.0))
    first.save()
    second.save()
    assert len(Times().expected(UNITS, Options())) == 2


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": "b", "c": -1}', "\x00"])
def test_a_cache_that_is_something_else_is_no_cache(cache: Path, text: str) -> None:
    cache.parent.mkdir()
    cache.write_text(text, encoding="utf-8")
    assert Times().expected(UNITS, Options()) == {}
    _remember(Options(), slow=2.0)
    assert Times().expected(UNITS, Options()) == {"audit slow": 2.0}


def test_a_cache_that_cannot_be_written_is_none(cache: Path) -> None:
    cache.parent.write_text("a file, not a folder", encoding="utf-8")
    _remember(Options(), slow=2.0)
    assert Times().expected(UNITS, Options()) == {}


@pytest.mark.usefixtures("cache")
def test_one_worker_keeps_the_order_and_an_interrupt_the_times() -> None:
    _remember(Options(), quick=0.1, slow=20.0)

    def do(unit: Unit, options: Options) -> UnitFinished:
        if unit.name == "medium":
            raise KeyboardInterrupt
        return _done(unit, options, 7.0)

    running = doing.results(UNITS, Options(), do, Serial())
    assert [next(running).name for _ in range(3)] == ["quick", "slow", "new"]
    with pytest.raises(KeyboardInterrupt):
        next(running)
    known = Times().expected(UNITS, Options())
    assert known == {"audit quick": 7.0, "audit slow": 7.0, "audit new": 7.0}


def _narrow() -> Console:
    return Console(force_terminal=True, width=60, file=io.StringIO())


def _plain(console: Console) -> list[str]:
    """Return what was printed, without colors, line by line."""
    assert isinstance(console.file, io.StringIO)
    return re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", console.file.getvalue()).splitlines()


def test_the_bar_fits_on_a_narrow_terminal() -> None:
    terminal, other = Terminal(_narrow()), _narrow()
    terminal(RunStarted("self-check", "0", "s", 1, 114, 0.0))
    assert terminal._progress is not None
    terminal._progress.stop()
    other.print(terminal._progress.get_renderable())
    (bar,) = _plain(other)
    assert re.fullmatch(r"self-check \S{8,} 0/114 0:00:00 left -:--:-- *", bar)


def test_a_unit_is_a_paragraph_on_a_narrow_terminal() -> None:
    """Whole words, indented below its name."""
    console, summary = _narrow(), "claim pure(1), certified epsilon >= 0.982; 3/3 planted faults"
    Terminal(console)(replace(_done(UNITS[0], Options()), name="a:add-remove:b", summary=summary))
    first, *others = _plain(console)
    assert first == "ok   audit      a:add-remove:b"
    assert len(others) == 2
    assert all(line.startswith("     ") and len(line) <= 60 for line in others)
    assert " ".join(" ".join(others).split()) == f"CONSISTENT {summary} 1.0s"


def test_tables_are_stacked_where_they_are_too_wide() -> None:
    rows = [
        ("configuration", "claim", "status"),
        ("bounded_mean:add-remove:height", "pure(1)", "proved"),
    ]
    whole = [
        "configuration                   claim    status",
        "bounded_mean:add-remove:height  pure(1)  proved",
    ]
    assert table(rows) == table(rows, 60) == whole
    assert table(rows, 40) == [
        "bounded_mean:add-remove:height", "    claim: pure(1)", "    status: proved"
    ]  # fmt: skip
    assert max(map(len, table([("a", "b"), ("x " * 90, "y " * 90)], 40))) <= 40


def test_the_bar_grows_by_seconds() -> None:
    """After the slow one of two, most is done."""
    console = Console(force_terminal=True, width=100, file=io.StringIO())
    terminal = Terminal(console)
    expected = {"audit quick": 1.0, "audit slow": 18.0}
    terminal(RunStarted("audit", "0", "s", 1, 3, 0.0, expected=expected))
    assert terminal._progress is not None
    (task,) = terminal._progress.tasks
    terminal(_done(UNITS[1], Options()))
    assert (task.completed, task.total, task.fields["done"]) == (18.0, 28.5, 1)
    terminal(_done(UNITS[2], Options()))
    assert (task.completed, task.fields["done"]) == (27.5, 2)
    terminal._progress.stop()
