"""Shards: how units are dealt, and what ``merge`` takes, refuses and misses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpverify.cli import _parser, main
from dpverify.cli.shared import EXIT_CODES
from dpverify.report.jsonl import JsonLines
from dpverify.suite.events import Event, Outcome, RunFinished, RunStarted, UnitFinished
from dpverify.suite.judges import Unit
from dpverify.suite.merging import NotOneRun, merge
from dpverify.suite.sharding import WHOLE, Shard
from dpverify.suite.stored import read

UNITS = [Unit("audit", f"u{i}") for i in range(7)]
PLANNED = tuple(f"audit {unit.name}" for unit in UNITS)
STARTED = RunStarted(
    "audit", "0", "/suite", 3, 7, 1e-6, planned=PLANNED, code="c", asked={"trials": 5}
)
RATES = ["rates", "my_count:error-against-n", "--quick", "--seed", "5", "--workers", "1"]


@pytest.mark.parametrize("seconds", [{}, {"audit u3": 50.0, "audit u5": 1.0}])
@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_every_unit_is_in_one_shard(count: int, seconds: dict[str, float]) -> None:
    dealt = [Shard(i, count, seconds).of(UNITS) for i in range(1, count + 1)]
    assert sorted(unit.name for own in dealt for unit in own) == [unit.name for unit in UNITS]
    assert all(own == sorted(own, key=UNITS.index) for own in dealt)
    assert max(map(len, dealt)) - min(map(len, dealt)) <= 1 or seconds


def test_times_balance_shards() -> None:
    """The long one is alone; the unit of which nothing is known counts as the others do on
    average."""
    seconds = {f"audit u{i}": float(2 + 10 * (i == 3)) for i in range(6)}
    first, second = (Shard(i, 2, seconds).of(UNITS) for i in (1, 2))
    assert [unit.name for unit in first] == ["u3"]
    assert len(second) == 6
    assert WHOLE.of(UNITS) == UNITS


def _result(name: str, outcome: Outcome = Outcome.HELD, **data: Any) -> UnitFinished:
    return UnitFinished("audit", name, outcome, "V", "", seconds=1.0, data=data)


@pytest.fixture
def stored(tmp_path: Path) -> Callable[..., Path]:
    """Return a file of a run with these units."""
    made = list[Path]()

    def store(*units: UnitFinished, started: RunStarted = STARTED) -> Path:
        path = tmp_path / f"run-{len(made)}.jsonl"
        made.append(path)
        lines = JsonLines(path)
        events: list[Event] = [started, *units, RunFinished(0, {}, 1.0, False)]
        for event in events:
            lines(event)
        return path

    return store


def test_merged_runs_have_every_unit_once_in_the_order_of_one_run(
    stored: Callable[..., Path],
) -> None:
    """Merge runs: what a dead worker left invalid, and another run did, counts as done; times
    may differ."""
    invalid, again = _result("u1", Outcome.INVALID), _result("u1")
    slow = replace(_result("u2"), seconds=9.0)
    first = stored(_result("u2"), invalid, _result("u0"))
    second = stored(slow, again, *(_result(f"u{i}") for i in (6, 5, 4, 3)))
    for files in ([first, second], [second, first]):
        merged = merge(files)
        assert [unit.name for unit in merged.results()] == [unit.name for unit in UNITS]
        assert merged.missing == []
        assert merged.started.units == 7
        assert {unit.outcome for unit in merged.units.values()} == {Outcome.HELD}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"seed": 4}, "seed is 3 in the one and 4 in the other"),
        ({"code": "d"}, "their code or their suite is not the same"),
        ({"asked": {"trials": 6}}, "asked is {'trials': 5} in the one and {'trials': 6}"),
        ({"command": "prove"}, "command is audit in the one and prove"),
        ({"version": "1"}, "version is 0 in the one and 1"),
        ({"code": ""}, "does not say what was planned"),
    ],
)
def test_runs_of_something_else_are_not_merged(
    changed: dict[str, Any], said: str, stored: Callable[..., Path]
) -> None:
    files = [stored(), stored(started=replace(STARTED, **changed))]
    with pytest.raises(NotOneRun) as refused:
        merge(files)
    assert said in str(refused.value)
    assert all(str(file) in str(refused.value) for file in files[1:])


def test_two_results_of_one_unit_are_not_merged(stored: Callable[..., Path]) -> None:
    """One code and seed give one result; so one of the files is not what it says."""
    files = [stored(_result("u1", epsilon=1.0)), stored(_result("u1", epsilon=1.5))]
    with pytest.raises(NotOneRun, match="another file has another result of audit u1"):
        merge(files)


def test_missing_units_are_named_and_the_rest_is_kept(
    stored: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "merged.jsonl"
    assert main(["merge", str(stored(_result("u2"))), "-o", str(output)]) == 4
    assert "6 of 7 units are in none of the files (audit u0, audit u1," in capsys.readouterr().out
    assert [unit.name for unit in read(output).units] == ["u2"]
    refuted = stored(_result("u2", Outcome.REFUTED))
    assert main(["merge", str(refuted)]) == 1  # as one run: what is refuted stays so


def test_what_merge_cannot_take_is_wrong_usage(
    stored: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, other = str(stored(_result("u2"))), tmp_path / "other"
    other.write_text('{"event": "unit-finished"}\n', encoding="utf-8")
    for arguments, said in (
        ([file, str(other)], "other:1 is no event (it has no 'kind')"),
        ([file, str(tmp_path / "none")], "none cannot be read: No such file"),
        ([file, str(tmp_path)], "cannot be read: Is a directory"),
        ([file, "-o", file], "is one of the files that are merged"),
        ([file, "-o", str(tmp_path)], "cannot be written"),
    ):
        assert main(["merge", *arguments]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert said in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--shard", "1/2", "--seed", "3"], "--shard I/N needs --jsonl FILE"),
        (["--shard", "1/2", "--jsonl", "unused"], "--shard I/N needs --seed N"),
        (["--times", "unused"], "--times balances shards"),
    ],
)
def test_shards_need_a_file_and_a_seed(
    arguments: list[str], said: str, foreign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "--suite", str(foreign), *arguments]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0/2", "3/2", "2", "a/b", "1/0"])
def test_other_shards_are_wrong_usage(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["audit", "--shard", text])
    assert ended.value.code == 2
    assert "write 2/8 for the second of eight" in capsys.readouterr().err


def test_rates_are_measured_in_shards_and_judged_when_merged(foreign: Path, tmp_path: Path) -> None:
    """Judge as one run judges them, and balanced by its times; without one of the shards nothing
    is judged."""
    run = [*RATES, "--suite", str(foreign)]
    whole, merged = tmp_path / "whole", tmp_path / "merged"
    assert main([*run, "--jsonl", str(whole)]) == 0
    shards = [tmp_path / "1", tmp_path / "2"]
    for i, file in enumerate(shards, 1):
        balanced = ["--shard", f"{i}/2", "--times", str(whole)]
        assert main([*run, *balanced, "--jsonl", str(file)]) == 0
        assert {unit.kind for unit in read(file).units} == {"rate-point"}
    files = [str(file) for file in shards]
    assert main(["merge", *files, "-o", str(merged), "--suite", str(foreign)]) == 0
    assert _results(merged) == _results(whole)
    assert len([unit for unit in read(merged).units if unit.kind == "rate"]) == 1
    assert main(["merge", files[0], "--suite", str(foreign)]) == 4
    assert main(["merge", *files]) == 2  # judged by other code than measured


def test_the_page_about_running_is_right(
    foreign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check the page: its options exist; its shards, on a small suite, are merged to what the
    whole run has."""
    text = (Path(__file__).parents[2] / "docs" / "how_to" / "running.md").read_text(
        encoding="utf-8"
    )
    lines = re.findall(r"^dpverify (.+)$", text, re.MULTILINE)
    assert len(lines) == 6
    for line in lines:
        assert _parser().parse_known_args(line.split())[1] == []
    monkeypatch.chdir(tmp_path)
    few = ["--suite", str(foreign)]
    for line in lines:
        if "--cluster" in line:
            continue
        command = line.replace("--quick", "--trials 2000").replace("--workers 2", "").split()
        here = [] if command[0] == "merge" else ["--workers", "1"]
        assert main([*command, *few, *here]) in (0, 4)
    assert _results(Path("both.jsonl")) == _results(Path("audit.jsonl"))
    for code in EXIT_CODES.splitlines()[1:]:
        assert re.search(rf"^\| .*\b{code.split()[0]}\b", text, re.MULTILINE), code


def _results(path: Path) -> list[str]:
    units = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return sorted(
        json.dumps({**unit, "seconds": 0}, sort_keys=True)
        for unit in units
        if unit["event"] == "unit-finished"
    )
