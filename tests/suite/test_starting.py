"""``dpverify init``: what it writes passes everything at once, and nothing that is there is
touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpverify.cli import main
from dpverify.suite.starting import template_files
from dpverify.suite.trees import load

pytest_plugins = "pytester"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("init") / "my" / "suite"
    assert main(["init", str(folder)]) == 0
    return folder


def test_it_is_the_template_and_nothing_else(written: Path) -> None:
    files = {p.relative_to(written).as_posix() for p in written.rglob("*") if p.is_file()}
    assert {name for name in files if "__pycache__" not in name} == {*template_files()}
    assert {*template_files()} == {
        "README.md",
        "audits/count_above.py",
        "audits/private_total.py",
        "claims.toml",
        "mechanisms/count_above.py",
        "spec/count_above.py",
        "tests/test_suite.py",
    }
    suite = load(written)
    assert [*suite.entries] == ["count_above"]
    assert [*suite.black_boxes] == ["private_total:add-remove:laplace"]


def test_everything_in_it_passes_at_once(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The false-alarm probability of the audits is 1e-6, and the seed is fixed."""
    suite = ("--suite", str(written))
    assert main(["audit", "--quick", "--seed", "1", "--workers", "1", *suite]) == 0
    assert capsys.readouterr().out.count("CONSISTENT  claim") == 3
    assert main(["prove", "--workers", "1", *suite]) == 0
    printed = capsys.readouterr().out
    assert "prove  5 units" in printed
    assert "EQUAL  36 outcomes" in printed
    assert main(["claims", "--check", *suite]) == 0
    assert main(["list", *suite]) == 0
    assert main(["papers", *suite]) == 0


def test_its_own_tests_pass(
    written: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(written)
    pytester.runpytest_inprocess("-p", "no:cacheprovider", "tests").assert_outcomes(passed=8)


@pytest.mark.parametrize(
    ("file", "old", "new", "command", "code"),
    [
        ("audits/private_total.py", "claim=PureDP(1)", "claim=PureDP(2)", ["claims", "--check"], 1),
        ("spec/count_above.py", "Fraction(1)) -> int", "Fraction(2)) -> int", ["prove"], 1),
        ("spec/count_above.py", "count_sensitivity(_above(parameters)", "count_sensitivity(None",
         ["prove"], 1),
        ("audits/private_total.py", "scale: float = LARGEST", "scale: float = 5.0",
         ["audit", "private_total", "--trials", "5000", "--seed", "1"], 1),
    ],
)  # fmt: skip
def test_what_it_checks_can_fail(
    tmp_path: Path,
    file: str,
    old: str,
    new: str,
    command: list[str],
    code: int,
) -> None:
    assert main(["init", str(tmp_path / "suite")]) == 0
    path = tmp_path / "suite" / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    workers = [] if command[0] == "claims" else ["--workers", "1"]
    assert main([*command, *workers, "--suite", str(tmp_path / "suite")]) == code


def test_nothing_that_is_there_is_touched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    for given, said in (
        (tmp_path, "is not empty, and nothing in it is overwritten"),
        (tmp_path / "notes.txt", "is a file; give a folder"),
        (tmp_path / "notes.txt" / "below", "cannot be written"),
    ):
        assert main(["init", str(given)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"dpverify: {given} {said}")
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "mine"
