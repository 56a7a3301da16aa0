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
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
Run = Callable[..., str]


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
    _run(
        sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps",
        "--no-compile",
        "--no-build-isolation", "--disable-pip-version-check", *install, cwd=folder,
    )  # fmt: skip
    return folder / "bin" / "dpverify"


_WORKS = """
from dpverify.cli import main
from dpverify.suite.trees import find_root

here = ["--workers", "1"]
few = ["--trials", "20000", "--seed", "1"]
assert main(["audit", "noisy_count", *few, "--report", "page.html", *here]) == 0
assert main(["prove", "randomized_response", *here]) == 0
assert main(["claims", "--check"]) == 0
assert main(["prove", "--check"]) == 0
print(find_root())
"""


_A_TEST = """
from dpverify import ApproxDP
from dpverify.testing import assert_calibrated

def test(audited):
    assert_calibrated(5, ApproxDP(1, "1e-5"), 1)
"""


def _root(dpverify: Path, folder: Path, program: str) -> str:
    """Return the suite that a program finds from another folder; the command itself finds its
    ledger from there."""
    folder.mkdir()
    assert "noisy_count:add-remove:all" in _run(dpverify, "list", cwd=folder)
    return _run(dpverify.parent / "python", "-c", program, cwd=folder).splitlines()[-1]


def test_the_wheel_carries_its_trees_and_types(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
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
        assert needed in names
    tops = {name.split("/")[0].split("-")[0] for name in names}
    assert tops == {"dpverify", "_dpverify_pytest"}


def test_the_wheel_works_from_a_foreign_folder(wheel: Path, tmp_path: Path) -> None:
    dpverify = _fresh(tmp_path / "venv", wheel)
    root = _root(dpverify, tmp_path / "elsewhere", _WORKS)
    assert root.endswith("dpverify/_suite")
    assert str(tmp_path / "venv") in root
    (tmp_path / "elsewhere" / "test_one.py").write_text(_A_TEST, encoding="utf-8")
    python = dpverify.parent / "python"
    told = _run(python, "-m", "pytest", "-q", cwd=tmp_path / "elsewhere")
    assert "dpverify: 1 CONSISTENT; " in told  # found by its entry point


def test_the_editable_install_works_from_a_foreign_folder(tmp_path: Path) -> None:
    """Install with the checkout's own suite, on which every other test runs the commands."""
    dpverify = _fresh(tmp_path / "venv", "-e", ROOT)
    program = "from dpverify.suite.trees import find_root; print(find_root())"
    assert _root(dpverify, tmp_path / "elsewhere", program) == str(ROOT)
