"""The wheel, the editable install, and a foreign folder, in fresh virtual environments.

The environments take third-party packages from the one that runs the tests, so that nothing is
downloaded; dpverify itself is what was just built.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pip
import pytest

ROOT = Path(__file__).parents[1]


def _run(*command: str | Path, cwd: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    _run(
        sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation",
        "--disable-pip-version-check", "-w", folder, ROOT, cwd=folder,
    )  # fmt: skip
    (built,) = folder.glob("dpverify-*.whl")
    return built


def _fresh(folder: Path, *install: str | Path) -> Path:
    """Return a new environment with dpverify installed as told, and third parties by path."""
    venv.create(folder)
    python = folder / "bin" / "python"
    site = Path(_run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))",
                     cwd=folder).strip())  # fmt: skip
    # A line in a .pth file adds the folder alone: the .pth files inside it (an editable dpverify
    # among them) are not processed.
    (site / "third_parties.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    # this pip's folder, run by that Python: as `pip --python` does, which starts a second one
    _run(
        python, Path(str(pip.__file__)).parent, "install", "-q", "--no-deps", "--no-compile",
        "--no-build-isolation", "--disable-pip-version-check", *install, cwd=folder,
    )  # fmt: skip
    return python


_COMMAND = """
import runpy, sys
from pathlib import Path

sys.argv = [str(Path(sys.executable).with_name("dpverify")), "list"]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")  # the script that was installed
except SystemExit as ended:
    assert ended.code == 0, ended.code

from dpverify.suite.trees import find_root, load
"""
"""Each program is one process: to load dpverify takes seconds."""

_WORKS = """
from dataclasses import replace

import pytest

from dpverify import ledger
from dpverify.cli import main
from dpverify.suite import lemmas

few = ["--trials", "20000", "--seed", "1", "--workers", "1"]
assert main(["audit", "noisy_count:replace:within", *few, "--report", "page.html"]) == 0
assert main(["prove", "randomized_response", "--workers", "1"]) == 0

suite, build = load(), lemmas.Build(find_root())
name, false = "noisy_count", "count_silent_when_empty"
one = replace(
    suite, entries={name: suite.entries[name]}, boxes={}, exhibits={false: suite.exhibits[false]}
)
recorded = ledger.read(ledger.path_of(suite))
current = ledger.promised(one, {}, recorded)
assert len(current) > 3
assert ledger.compare({key: recorded[key] for key in current}, current) == []
refused = [one.key for one in ledger.unshown(one, recorded) if one.key.startswith("exhibits/")]
assert refused == []
proved = lemmas.read(lemmas.path_of(build.root))
for key in (
    "noisy_count.py:obligation_loss",
    "theory/queries.py:obligation_count",
    "basic_filter.py:obligation_law",
):
    assert build.digest(key) == proved[key].digest, key
assert pytest.main(["-q", "test_one.py"]) == 0
"""

_A_TEST = """
from dpverify import ApproxDP
from dpverify.testing import assert_calibrated

def test(audited):
    assert_calibrated(5, ApproxDP(1, "1e-5"), 1)
"""


def _root(python: Path, folder: Path, program: str = "") -> tuple[str, str]:
    """Return the suite that a program finds from a folder, after the installed command has found
    its ledger from there; and all that is printed."""
    program = f"{_COMMAND}{program}\nprint(find_root())"
    printed = _run(python, "-c", program, cwd=folder)
    assert "noisy_count:add-remove:all" in printed
    return printed.splitlines()[-1], printed


def _of_checkout(folder: str) -> dict[str, bytes]:
    """Return the contents of the files of a folder, by the names that they have below it."""
    files = [path for path in (ROOT / folder).rglob("[!.]*") if path.is_file()]
    return {
        path.relative_to(ROOT / folder).as_posix(): path.read_bytes()
        for path in files
        if path.parent.name != "__pycache__"
    }


def test_the_wheel_carries_its_trees_and_types(wheel: Path) -> None:
    """And nothing else, so what CI checks of the checkout's ledger, lemmas and audits is so of
    the wheel's."""
    wanted = {
        f"{place}/{name}": content
        for folder, place in (
            ("dpverify", "dpverify"),
            ("_dpverify_pytest", "_dpverify_pytest"),
            ("spec", "dpverify/_suite/spec"),
            ("audits", "dpverify/_suite/audits"),
        )
        for name, content in _of_checkout(folder).items()
    }
    for ledger in ("claims.toml", "lemmas.toml"):
        wanted[f"dpverify/_suite/{ledger}"] = (ROOT / ledger).read_bytes()
    with zipfile.ZipFile(wheel) as archive:
        carried = {name: archive.read(name) for name in archive.namelist()}
    for needed in (
        "dpverify/py.typed",
        "dpverify/report/page.css",
        "dpverify/report/page.js",
        "dpverify/_suite/spec/bounded_mean.py",
        "dpverify/_suite/spec/theory/laws.py",
        "dpverify/_suite/audits/exhibits/count_silent_when_empty.py",
        "dpverify/_suite/audits/exhibits/witnesses/count_silent_when_empty.json",
        "dpverify/_suite/claims.toml",
        "dpverify/_suite/lemmas.toml",
        "dpverify/_template/README.md",
        "dpverify/_template/claims.toml",
        "dpverify/_template/audits/private_total.py",
    ):
        assert needed in carried
    assert {name: carried[name] for name in carried if ".dist-info/" not in name} == wanted


def test_the_wheel_works_from_a_foreign_folder(wheel: Path, tmp_path: Path) -> None:
    """One of each kind is run, proved, compared with the ledger, or looked up in the lemmas."""
    python = _fresh(tmp_path / "venv", wheel)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "test_one.py").write_text(_A_TEST, encoding="utf-8")
    root, printed = _root(python, elsewhere, _WORKS)
    assert root.endswith("dpverify/_suite")
    assert str(tmp_path / "venv") in root
    assert (elsewhere / "page.html").is_file()
    assert "dpverify: 1 CONSISTENT; " in printed  # the plugin, by its entry point


def test_the_editable_install_works_from_a_foreign_folder(tmp_path: Path) -> None:
    """Install with the checkout's own suite, on which every other test runs the commands."""
    python = _fresh(tmp_path / "venv", "-e", ROOT)
    assert _root(python, tmp_path)[0] == str(ROOT)
