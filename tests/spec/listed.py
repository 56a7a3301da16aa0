"""The page docs/explanation/obligations.md: what each obligation shows, and what makes it fail,
from the tests.

python -m tests.spec.listed            the page
python -m tests.spec.listed --update   write it
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections import defaultdict
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

from . import test_obligations as tests
from .more_twins import ELSEWHERE

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "obligations.md"
HEAD = """# What is proved by running it, and what would make it fail

`dpverify prove` runs every obligation below: a statement about all small cases (or about enclosed
numbers), whose failure names the case. One that could not fail would show nothing, so the tests
make each of them fail: by a false twin of its statement ("it says ..."), or by a change in what it
looks at ("wrong: ..."), each of them a test of its own.

<!-- written by `python -m tests.spec.listed --update` -->
"""


class _Recorder:
    """A stand-in for monkeypatch that notes what would be replaced, and replaces nothing."""

    def __init__(self) -> None:
        self.replaced: list[str] = []

    def setattr(self, where: Any, name: str, new: Any, raising: bool = True) -> None:
        """Note an attribute of a module or a class."""
        owner = where.__name__.removeprefix("spec.")
        shown = name if isinstance(where, ModuleType) else f"{owner}.{name}"
        self.replaced.append(shown)

    def setitem(self, where: Any, name: Any, new: Any) -> None:
        """Note an entry of a table."""
        self.replaced.append(f"an entry {name!r}")


def fails_for(name: str) -> list[str]:
    """List what makes the obligation fail, in the order of the tests."""
    reasons = [f"it says: {twin}" for twin in tests._TWINS.get(name, {})]
    for plant in tests._FAULTS.get(name, []):
        recorder = _Recorder()
        plant(cast(pytest.MonkeyPatch, recorder))
        reasons.append("wrong: " + ", ".join(f"`{part}`" for part in recorder.replaced))
    if name in ELSEWHERE:
        reasons += [f"`{test}`" for test in _tests_that_call(name.partition(":")[2])]
    return list(dict.fromkeys(reasons))


def _tests_that_call(obligation: str) -> list[str]:
    """Return the tests of tests/spec/test_joint.py that expect a call of the obligation to
    raise."""
    tree = ast.parse((Path(__file__).parent / "test_joint.py").read_text(encoding="utf-8"))
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and f".{obligation}(" in ast.unparse(node)
        and "raises" in ast.unparse(node)
    ]


def page() -> str:
    """Return the whole page."""
    by_file: dict[str, list[str]] = defaultdict(list)
    for name, obligation in tests._OBLIGATIONS.items():
        file, _, function = name.partition(":")
        says = " ".join((inspect.getdoc(obligation) or "").split())
        says = says.replace("|", "\\|")
        why = "; ".join(fails_for(name)).replace("|", "\\|")
        label = function.removeprefix("obligation_").replace("_", " ")
        by_file[file].append(f"| {label} | {says} | {why} |")
    lines = [HEAD]
    for file in sorted(by_file, key=lambda name: ("." in name, name)):
        lines += [
            f"## spec/{file.replace('.', '/')}.py",
            "",
            "| obligation | what it shows | fails if |",
        ]
        lines += ["|---|---|---|", *by_file[file], ""]
    return "\n".join(lines)


if __name__ == "__main__":
    if "--update" in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page())
