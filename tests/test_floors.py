"""The floors, a second time: what importing the core loads, what a spec may import, and that
mechanisms are leaves."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CORE = (
    "privacy",
    "randomness",
    "grid",
    "plans",
    "transformations",
    "families",
    "estimation",
    "mechanisms",
    "tables",
)
UPSTAIRS = ("audit", "rates", "suite", "ledger", "report", "cli")
NOT_IN_THE_CORE = (
    "rich",
    "tomli_w",
    "mpmath",
    "sklearn",
    "hypothesis",
    "pytest",
    "pandas",
    "polars",
    "pyarrow",
    "scipy.special",  # a third of the time that the core takes to load: where it is used
    "scipy.stats",  # a second to load, for what scipy.special does at once
    "spec",
    "audits",
)


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


def test_the_core_imports_nothing_that_is_slow_to_load() -> None:
    # import-linter knows no parts of other packages, so this is looked for here, in functions too
    for floor in CORE:
        for file in (ROOT / "dpverify" / floor).rglob("*.py"):
            assert not _slow(file.read_text(encoding="utf-8")), file


@pytest.mark.parametrize(
    "line",
    [
        "import scipy.stats",
        "import scipy.stats as st",
        "from scipy import special, stats",
        "from scipy.stats import binom",
        "def late():\n    from scipy.stats._distn import binom",
        "import scipy\nscipy.stats.binom",
    ],
)
def test_a_slow_import_is_found(line: str) -> None:
    assert _slow(f"from scipy.special import ndtr\n{line}\n")
    assert not _slow("from scipy.special import ndtr\nimport scipy.statistics\n")


def test_the_slow_parts_of_scipy_are_loaded_where_they_are_used() -> None:
    """Each takes a fifth of a second or more, for every process that imports dpverify's audits."""
    slow = "(linalg|optimize|special|stats)"
    at_once = re.compile(rf"^(from|import) scipy\.{slow}|^from scipy import .*{slow}", re.MULTILINE)
    assert at_once.search("import numpy\nfrom scipy.optimize import brentq")
    for folder in ("dpverify", "audits", "spec"):
        for file in (ROOT / folder).rglob("*.py"):
            assert not at_once.search(file.read_text(encoding="utf-8")), file


def _slow(source: str) -> bool:
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute):  # ``import scipy; scipy.stats`` loads it, too
            names.append(ast.unparse(node))
    return any(f"{name}.".startswith("scipy.stats.") for name in names)


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


def test_mechanisms_are_leaves() -> None:
    trees = _trees(ROOT / "dpverify")
    assert {"mechanisms.refined_mean", "estimation.clipping"} <= trees.keys()
    assert not [name for name in trees if name.rpartition(".")[2].startswith("_")]
    assert _broken(trees) == []


@pytest.mark.parametrize(
    ("file", "line", "broken"),
    [
        (
            "mechanisms/one.py",
            "from dpverify.mechanisms.two import half",
            "two.half is no mechanism",
        ),
        ("mechanisms/one.py", "import dpverify.mechanisms.two", "two is no mechanism"),
        ("mechanisms/one.py", "from dpverify.mechanisms import two", "two is no mechanism"),
        ("mechanisms/one.py", "from .two import half", "two.half is no mechanism"),
        ("mechanisms/one.py", "from dpverify.estimation.parts import _own", "_own is private"),
        ("estimation/parts.py", "if TYPE_CHECKING:\n    import dpverify.estimation.more", "circle"),
        ("estimation/parts.py", "def late():\n    from .more import whole", "circle"),
    ],
)
def test_a_mechanism_that_is_no_leaf_is_found(
    tmp_path: Path, file: str, line: str, broken: str
) -> None:
    texts = {
        "mechanisms/one.py": "from dpverify.mechanisms.two import Two",
        "mechanisms/two.py": "from dpverify.estimation.more import whole",
        "estimation/more.py": "from dpverify.estimation.parts import part",
        "estimation/parts.py": "",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert _broken(_trees(tmp_path)) == []
    (tmp_path / file).write_text(f"{texts[file]}\n{line}\n", encoding="utf-8")
    (fault,) = _broken(_trees(tmp_path))
    assert broken in fault


def _trees(package: Path) -> dict[str, ast.Module]:
    """Return the syntax trees of the mechanisms and of what they are made of,
    "mechanisms.noisy_count" and so on."""
    return {
        f"{folder}.{file.stem}": ast.parse(file.read_text(encoding="utf-8"))
        for folder in ("estimation", "mechanisms")
        for file in (package / folder).rglob("*.py")
        if file.name != "__init__.py"
    }


def _broken(trees: dict[str, ast.Module]) -> list[str]:
    """List what no mechanism may do: take more of another one than its class, take private
    names, go in a circle."""
    broken, uses = [], {name: set[str]() for name in trees}
    for name, tree in trees.items():
        for module, taken in _taken(name.partition(".")[0], tree):
            stem = module.rpartition(".")[2]
            if taken.startswith("_") or stem.startswith("_"):
                broken.append(f"{name}: {module}.{taken} is private")
            if module in trees:
                uses[name].add(module)
                mechanism = "".join(part.capitalize() for part in stem.split("_"))
                if module.startswith("mechanisms.") and taken != mechanism:
                    broken.append(f"{name}: {f'{module}.{taken}'.strip('.')} is no mechanism")
    try:
        TopologicalSorter(uses).prepare()
    except CycleError as circle:
        broken.append(f"a circle: {circle.args[1]}")
    return broken


def _taken(folder: str, tree: ast.Module) -> list[tuple[str, str]]:
    """Return the modules of the package that a file imports, wherever in it, each with a name of
    it, if any."""
    imports = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += [(a.name, "") for a in node.names if a.name.startswith("dpverify.")]
        elif isinstance(node, ast.ImportFrom) and (node.level or "dpverify" in (node.module or "")):
            above = ["", "dpverify", folder][: 4 - node.level if node.level else 0]
            base = ".".join([*above, *(node.module or "").split(".")]).strip(".")
            imports += [(base, alias.name) for alias in node.names]
    plain = [(base.removeprefix("dpverify").lstrip("."), name) for base, name in imports]
    return [(f"{base}.{name}", "") if "." not in base else (base, name) for base, name in plain]


def _imports(file: Path) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append("." * node.level + (node.module or ""))
    return names
