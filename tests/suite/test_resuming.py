"""Audits, and measurements of the auditor, that go on where an earlier run stopped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpverify.cli import main
from dpverify.suite import measuring, resuming, runner
from dpverify.suite.events import UnitFinished
from dpverify.suite.resuming import known_units

NAMES = [
    "noisy_count:replace:within",
    "noisy_count:add-remove:within",
    "exhibits/displayed_constants",
]
AUDIT = ["audit", *NAMES, "--trials", "20000", "--workers", "1"]
CASES = ["four values", "a rare event"]
SELF_CHECK = ["audit", *CASES, "--self-check", "--quick", "--workers", "1"]
SEED = ["--seed", "4"]


def _finished(file: Path) -> list[dict[str, Any]]:
    lines = file.read_text(encoding="utf-8").splitlines()
    return [e for e in map(json.loads, lines) if e["event"] == "unit-finished"]


@pytest.fixture(scope="module", autouse=True)
def _few_repeats() -> Iterator[None]:
    """Reduce repeats: the measurements do not matter here, only whether they are made again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring, "repeats_of", lambda case, quick: 20)
        yield


@pytest.fixture(scope="module", params=[AUDIT, SELF_CHECK], ids=["audit", "self-check"])
def whole(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[str], Path]:
    """Return a command, and the events of a whole run."""
    file = tmp_path_factory.mktemp("whole") / "events.jsonl"
    assert main([*request.param, *SEED, "--jsonl", str(file)]) in (0, 4)
    return request.param, file


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """List the units that are done, not taken from a file."""
    names = list[str]()

    def count(module: Any, called: str) -> None:
        right = getattr(module, called)

        def counted(unit: Any, options: Any) -> UnitFinished:
            names.append(unit.name)
            finished: UnitFinished = right(unit, options)
            return finished

        monkeypatch.setattr(module, called, counted)

    count(runner, "run_unit")
    count(measuring, "measure_unit")
    return names


def _cut(whole: Path, tmp_path: Path) -> Path:
    """After one unit and a half, as a killed run leaves it."""
    lines = whole.read_text(encoding="utf-8").splitlines()
    file = tmp_path / "again.jsonl"
    file.write_text("\n".join([*lines[:2], lines[2][:60]]), encoding="utf-8")
    return file


def test_a_stopped_run_goes_on(
    whole: tuple[list[str], Path],
    tmp_path: Path,
    done: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Into the same file; then it is all there, exit code and lines alike."""
    command, file = whole
    units = _finished(file)
    again = _cut(file, tmp_path)
    code = main([*command, *SEED, "--resume", str(again), "--jsonl", str(again)])
    assert done == [unit["name"] for unit in units[1:]]
    assert [{**e, "seconds": 0} for e in _finished(again)] == [{**e, "seconds": 0} for e in units]
    capsys.readouterr()
    assert main([*command, *SEED, "--resume", str(again)]) == code
    assert len(done) == len(units) - 1
    printed = capsys.readouterr().out
    assert all(f"{unit['name']}  {unit['verdict']}" in printed for unit in units)


def test_another_seed_or_size_or_code_is_done_again(
    whole: tuple[list[str], Path], done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command, file = whole
    first = [part for part in command if part not in (*NAMES[1:], *CASES[1:])]
    main([*first, "--seed", "5", "--resume", str(file)])
    assert len(done) == 1
    size = [part for part in first if part != "--quick"]
    if "--trials" in first:
        size[size.index("20000")] = "21000"
        main([*size, *SEED, "--resume", str(file)])
        assert len(done) == 2
    monkeypatch.setattr(resuming, "_digest_of", lambda root, code: "other code")
    before = len(done)
    main([*first, *SEED, "--resume", str(file)])
    assert len(done) == before + 1


def test_what_was_invalid_is_done_again(
    whole: tuple[list[str], Path], tmp_path: Path, done: list[str]
) -> None:
    command, file = whole
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    lines[1]["outcome"] = "invalid"
    again = tmp_path / "again.jsonl"
    again.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert len(known_units(again)) == len(known_units(file)) - 1
    main([*command, *SEED, "--resume", str(again)])
    assert done == [lines[1]["name"]]


@pytest.mark.parametrize("text", ["[1]\n{}\n", '{"event": 1}\nx\ny\n', "3\n4\n"])
def test_other_files_are_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "other.jsonl"
    file.write_text(text, encoding="utf-8")
    assert main([*AUDIT, *SEED, "--resume", str(file)]) == 2
    assert "is no event (" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--jsonl", "--evidence"])
def test_what_cannot_be_written_is_wrong_usage(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert main([*AUDIT, *SEED, option, str(tmp_path / "file" / "in")]) == 2
    assert "cannot be written: Not a directory." in capsys.readouterr().err


def test_what_is_refused_leaves_the_file_as_it_was(
    whole: tuple[list[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Refuse where another output cannot be written, and where a run in the same file is of
    another seed."""
    command, file = whole
    again = tmp_path / "again.jsonl"
    again.write_bytes(file.read_bytes())
    evidence = tmp_path / "evidence"
    evidence.touch()
    into = ["--jsonl", str(again)]
    if command[0] == "audit" and "--power" not in command:
        assert main([*command, *SEED, *into, "--evidence", str(evidence)]) == 2
        assert "cannot be written" in capsys.readouterr().err
    assert main([*command, "--seed", "5", *into, "--resume", str(again)]) == 2
    assert "give --seed 4, or --jsonl another file" in capsys.readouterr().err
    assert again.read_bytes() == file.read_bytes()
    assert not list(tmp_path.glob("again.jsonl.*"))


def test_a_file_is_no_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "mine.py"]) == 2
    assert "a function is audited from Python" in capsys.readouterr().err


def test_a_missing_file_or_seed_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "events.jsonl"
    assert main([*AUDIT, *SEED, "--resume", str(file)]) == 2
    assert "is not a file" in capsys.readouterr().err
    file.write_text("", encoding="utf-8")
    assert main([*AUDIT, "--resume", str(file)]) == 2
    assert "--resume needs --seed N" in capsys.readouterr().err
