"""The floors, a second time: what importing the core loads, and what a spec may import."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CORE = ("privacy", "randomness", "grid", "plans", "transformations", "mechanisms")
UPSTAIRS = ("audit", "rates", "suite", "ledger", "report", "cli")
NOT_IN_THE_CORE = ("rich", "tomli_w", "mpmath", "sklearn", "hypothesis", "pytest", "spec", "audits")


def _loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_the_trusted_core_loads_nothing_from_upstairs() -> None:
    loaded = _loaded_by("import dpverify")
    assert {f"dpverify.{floor}" for floor in CORE} <= loaded
    assert not {f"dpverify.{floor}" for floor in UPSTAIRS} & loaded
    assert not set(NOT_IN_THE_CORE) & loaded


@pytest.mark.parametrize("floor", range(len(CORE)))
def test_each_floor_loads_only_what_is_below(floor: int) -> None:
    # importing a subpackage runs dpverify/__init__.py, which imports the core: look at the sources
    above = {f"dpverify.{name}" for name in (*CORE[floor + 1 :], *UPSTAIRS)}
    if CORE[floor] == "randomness":
        above.add("dpverify.grid")
    files = list((ROOT / "dpverify" / CORE[floor]).rglob("*.py"))
    assert files
    for file in files:
        for name in _imports(file):
            assert not any(name == a or name.startswith(f"{a}.") for a in above), (file, name)


def test_a_spec_imports_the_kernels_words_and_mpmath_only() -> None:
    allowed = {"mpmath", "dpverify.privacy", *sys.stdlib_module_names}
    files = list((ROOT / "spec").rglob("*.py"))
    assert len(files) >= 9
    for file in files:
        for name in _imports(file):
            top = name if name.startswith("dpverify") else name.split(".")[0]
            assert top in allowed or name.startswith("."), (file, name)


def test_the_check_can_fail(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("import numpy\nfrom dpverify.mechanisms import noisy_count\n", encoding="utf-8")
    assert _imports(bad) == ["numpy", "dpverify.mechanisms"]


def _imports(file: Path) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append("." * node.level + (node.module or ""))
    return names
