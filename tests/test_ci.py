"""`.ci/run` with tools that do nothing: what it runs beside other steps is shown in order, and any
step that fails fails the run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOLS = ["pip", "pytest", "ruff", "mypy", "lint-imports", "mkdocs", "twine", "python", "dpverify"]
SHELL = [
    "bash",
    "basename",
    "cat",
    "cp",
    "dirname",
    "grep",
    "mkdir",
    "mktemp",
    "rm",
    "sed",
    "sleep",
]
STUB = """#!/bin/bash
echo "ran $(basename "$0") $*"
case "$(basename "$0") $*" in
    *"prove") sleep "${PROVE:-0}";;
    *coq) sleep "${COQ:-0}"; echo "the end of the theorems" >> log;;
esac
[[ -z "${FAILS:-}" || ! "$(basename "$0") $*" =~ $FAILS ]]
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Make a folder with .ci/run, stubs of all tools, and a README whose commands install them."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    stubs, path = tmp_path / "stubs", tmp_path / "path"
    path.mkdir()
    for name in SHELL:
        (path / name).symlink_to(shutil.which(name) or name)
    for folder, names in ((stubs, TOOLS), (path, ("apt-get",))):
        folder.mkdir(exist_ok=True)
        for name in names:
            (folder / name).write_text(STUB, encoding="utf-8")
            (folder / name).chmod(0o755)
    install = "mkdir -p .venv/bin && cp stubs/* .venv/bin && rm -f .venv/bin/$LACKS && .venv/bin/"
    commands = {"test": f"{install}pytest -q", "audit": ".venv/bin/dpverify audit --quick"}
    text = "".join(f"<!-- command: {k} -->\n```sh\n{v}\n```\n" for k, v in commands.items())
    (tmp_path / "README.md").write_text(text, encoding="utf-8")
    return tmp_path


def _run(checkout: Path, **asked: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": str(checkout / "path"), "LACKS": "nothing", **asked}
    command = [shutil.which("bash") or "bash", str(checkout / ".ci" / "run")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_all_steps_are_shown_in_order(checkout: Path) -> None:
    """Show the steps beside the obligations after them, although these steps end before."""
    done = _run(checkout, PROVE="0.3")
    assert done.returncode == 0, done.stderr
    wanted = (
        *("pytest", "pip", "dpverify prove --check", "dpverify prove", "ruff check"),
        *("ruff format", "mypy", "lint-imports", "mkdocs", "twine", "python -m tests.proofs.coq"),
        *("dpverify audit --quick --seed", "dpverify rates --quick", "dpverify claims --check"),
    )
    ran = [line[4:] for line in done.stdout.splitlines() if line.startswith("ran ")]
    assert len(ran) == len(wanted)
    assert all(one.startswith(name) for one, name in zip(ran, wanted, strict=True)), ran


def test_extras_that_cannot_be_installed_do_not_fail_the_run(checkout: Path) -> None:
    done = _run(checkout, FAILS="pip .*(docs|release)")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ran pip") == 4


def test_the_report_is_opened_where_there_is_a_browser(checkout: Path) -> None:
    for name in ("chromium", "chromedriver"):
        (checkout / "path" / name).symlink_to(checkout / "stubs" / "python")
    assert "ran pytest -q tests/report/test_browser.py" in _run(checkout).stdout
    assert _run(checkout, FAILS="test_browser").returncode != 0


@pytest.mark.parametrize(
    "step",
    [
        *("pytest -q", "prove --check", "ruff check", "ruff format", "mypy", "lint-imports"),
        *("mkdocs build", "twine check", "tests.proofs.coq", "dpverify prove$", "audit --quick"),
        *("rates --quick", "claims --check", r"pip .*\.\[lint"),
    ],
)
def test_any_step_that_fails_fails_the_run(checkout: Path, step: str) -> None:
    done = _run(checkout, FAILS=step)
    assert done.returncode != 0
    assert re.search(step, done.stdout)
    assert ("== claims" in done.stdout) is (step == "claims --check")


@pytest.mark.parametrize(
    ("tool", "said"), [("mkdocs", "the site was not built"), ("twine", "no distributions")]
)
def test_a_tool_that_cannot_be_installed_is_said_to_be_missing(
    checkout: Path, tool: str, said: str
) -> None:
    done = _run(checkout, LACKS=tool)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout


def test_a_failure_ends_what_runs_beside_it(checkout: Path) -> None:
    """The obligations fail at once, and the theorems, which would take a second more, are ended."""
    assert _run(checkout, FAILS="dpverify prove$", COQ="1", PROVE="0.3").returncode != 0
    time.sleep(1.5)
    assert not (checkout / "log").exists()
