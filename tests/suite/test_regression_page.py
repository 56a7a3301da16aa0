"""docs/how_to/regression.md does what it says, and the files for CI that it names are what their
readers expect."""

from __future__ import annotations

import os
import re
import shlex
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpverify import ledger
from dpverify.cli import _parser, main
from dpverify.suite.regressions import METRICS
from tests import pages

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how_to" / "regression.md").read_text(encoding="utf-8")
ACTION_FILE = ROOT / ".github" / "actions" / "privacy" / "action.yml"
ACTION: dict[str, Any] = yaml.safe_load(ACTION_FILE.read_text(encoding="utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
_STUB = '#!/bin/sh\nprintf "%s\\n" "$(basename "$0")" "$@" --- >> "$ASKED"\n'


def test_the_page_does_what_it_says(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    forget: Callable[[], None],
) -> None:
    """Run the page, whose seeds are fixed."""
    monkeypatch.chdir(tmp_path)
    assert len(list(pages.follow(PAGE, capsys, forget))) >= 9


def test_every_difference_and_metric_is_on_the_page_and_in_the_help(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for command, words in (("claims", ledger.KINDS), ("compare", METRICS)):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        printed = " ".join(capsys.readouterr().out.split())
        for word in words:
            assert word in printed
    for kind, meaning in ledger.KINDS.items():
        if kind != "a field":
            said = meaning.partition(";")[0]
            assert f"| {kind} | {said} |" in PAGE
            assert ("; breaking" in meaning) == bool(
                re.search(rf"^\| {kind} .*(yes|weaker) \|$", PAGE, re.M)
            )
    for metric in METRICS:
        assert re.search(rf"^\| `{metric}:\d+%` \|", PAGE, re.MULTILINE)


# --- the action -----------------------------------------------------------------------------------


def test_the_action_has_the_form_of_a_composite_action() -> None:
    assert {*ACTION} == {"name", "description", "inputs", "outputs", "runs"}
    assert {*ACTION["runs"]} == {"using", "steps"}
    assert ACTION["runs"]["using"] == "composite"
    for told in ACTION["inputs"].values():
        assert {"description"} < {*told} <= {"description", "required", "default"}
        assert isinstance(told.get("default", ""), str)
    for told in ACTION["outputs"].values():
        assert {*told} == {"description", "value"}
    for step in STEPS:
        assert {"name", "shell", "env", "run"} <= {*step} <= {"name", "if", "shell", "env", "run"}
        assert step["shell"] == "bash"
        assert all(isinstance(value, str) for value in step["env"].values())


def test_every_input_of_the_action_is_used_and_none_is_put_into_a_script() -> None:
    used = set(re.findall(r"\binputs\.(\w+)", str(STEPS)))
    assert used == {*ACTION["inputs"]}
    for step in STEPS:
        assert "${{" not in step["run"]  # it would be run as code, whatever it holds
        for variable in step["env"]:
            assert f"${variable}" in step["run"]


def _asked(step: dict[str, Any], folder: Path, inputs: dict[str, str]) -> list[list[str]]:
    """Return the commands that a step's script runs, with programs that only write down how they
    are called."""
    for program in ("dpverify", "python"):
        file = folder / program
        file.write_text(_STUB, encoding="utf-8")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
    log = folder / "asked"
    log.write_text("", encoding="utf-8")
    given = {
        name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda match: inputs[match[1]], value)
        for name, value in step["env"].items()
    }
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "ASKED": str(log), **given}
    environment["GITHUB_ACTION_PATH"] = str(ACTION_FILE.parent)
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    subprocess.run(command, check=True, env=environment)
    return [one.split("\n") for one in log.read_text(encoding="utf-8").split("\n---\n") if one]


def test_the_scripts_of_the_action_call_commands_that_exist(tmp_path: Path) -> None:
    inputs = {name: str(told.get("default", "")) for name, told in ACTION["inputs"].items()}
    inputs |= {"suite": "my suite", "baseline": "old runs.jsonl", "install": "."}
    install, *others = (_asked(step, tmp_path, inputs) for step in STEPS)
    pip = ["python", "-m", "pip", "install"]
    assert install == [[*pip, f"{ACTION_FILE.parent}/../../.."], [*pip, "."]]
    assert (ACTION_FILE.parent / ".." / ".." / ".." / "pyproject.toml").is_file()
    (claims,), (audit,), (compare,) = others
    for words in (claims, audit, compare):
        assert words[0] == "dpverify"
        _, unknown = _parser().parse_known_args(words[1:])
        assert unknown == []
    assert claims[1:] == ["claims", "--check", "--suite", "my suite"]
    assert audit[1:4] == ["audit", "--quick", "--seed"]
    assert compare[1:] == [
        "compare", "old runs.jsonl", ACTION["outputs"]["events"]["value"], "--fail", "epsilon:0%",
        "--fail", "delta:0%",
    ]  # fmt: skip
    inputs["install"] = ""
    assert _asked(STEPS[0], tmp_path, inputs) == install[:1]


def test_the_page_uses_the_action_and_the_hook_as_they_are() -> None:
    workflow, hooks = map(yaml.safe_load, pages.blocks(PAGE, "yaml"))
    *_, step = workflow["jobs"]["privacy"]["steps"]
    folder = step["uses"].partition("@")[0].removeprefix("OWNER/dpverify/")
    assert (ROOT / folder / "action.yml") == ACTION_FILE
    assert {*step["with"]} <= {*ACTION["inputs"]}
    needed = {name for name, told in ACTION["inputs"].items() if told.get("required")}
    assert needed <= {*step["with"]}
    (hook,) = hooks["repos"][0]["hooks"]
    assert hook["id"] == HOOK["id"]
    words = [*shlex.split(HOOK["entry"]), *hook["args"]]
    assert words[0] == "dpverify"
    assert _parser().parse_known_args(words[1:])[1] == []


# --- the hook -------------------------------------------------------------------------------------


def test_the_hook_has_the_form_of_one_and_runs_for_the_files_of_a_suite() -> None:
    assert {"id", "name", "entry", "language"} <= {*HOOK}
    assert {*HOOK} <= {"id", "name", "description", "entry", "language", "files", "pass_filenames"}
    assert HOOK["pass_filenames"] is False
    files = re.compile(HOOK["files"])
    for file in (
        "audits/a.py",
        "privacy/audits/a.py",
        "privacy/spec/a.py",
        "claims.toml",
        "x/claims.toml",
    ):
        assert files.search(file), file
    for file in ("README.md", "tests/a.py", "audits/a.json", "myaudits/a.py", "noclaims.toml"):
        assert not files.search(file), file
