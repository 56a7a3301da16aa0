"""The README's code runs and prints what it says; its commands are the ones CI runs."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from dpverify.audit import Verdict
from dpverify.cli import main
from dpverify.suite.trees import load

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def test_the_readme_does_what_it_says() -> None:
    results = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert results.attempted >= 20
    assert results.failed == 0


def test_the_two_commands_are_where_ci_looks_for_them() -> None:
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for name in ("audit", "test"):
        assert re.search(rf"<!-- command: {name} -->\n```sh\n.+\n```", README)
        assert f"readme_command {name}" in ci


def test_every_verdict_is_explained() -> None:
    for verdict in Verdict:
        assert f"| {verdict} |" in README


def test_every_mechanism_is_in_the_readme() -> None:
    for entry in load().entries.values():
        assert f"`{entry.mechanism.__name__}`" in README


def test_the_readme_commands_exist(capsys: object) -> None:
    for name in re.findall(r"^dpverify (?:audit|prove|explain) (\S+)", README, re.MULTILINE):
        if name.startswith("bounded_mean"):
            assert main(["explain", name]) == 0


def test_the_architecture_names_every_floor_and_file() -> None:
    for folder in sorted((ROOT / "dpverify").iterdir()):
        if folder.is_dir() and (folder / "__init__.py").exists():
            assert f"{folder.name}/" in ARCHITECTURE, folder.name
            for file in folder.glob("[!_]*.py"):
                if folder.name != "mechanisms":
                    assert file.stem in ARCHITECTURE, file
