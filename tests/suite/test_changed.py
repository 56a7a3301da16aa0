"""``--changed``: what depends on a change is run, by imports; what git cannot say is refused."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dpverify.cli import main
from dpverify.suite import changed
from dpverify.suite.changed import Changed
from dpverify.suite.runner import audit_units, prove_units
from dpverify.suite.trees import load
from tests import conftest

ROOT = Path(__file__).parents[2]


def _git(folder: Path, *command: str) -> None:
    own = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(folder), *own, *command], check=True, capture_output=True)


@pytest.fixture
def repository(foreign: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the foreign suite with two counts, committed; of this package nothing changed."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    monkeypatch.setattr(changed, "_changed_in_the_package", lambda root: set())
    for tree in ("mechanisms", "spec", "audits"):
        text = (foreign / tree / "my_count.py").read_text(encoding="utf-8")
        for old, new in (("MyCount", "YourCount"), ("my_count", "your_count")):
            text = text.replace(old, new)
        (foreign / tree / "your_count.py").write_text(text, encoding="utf-8")
    _git(foreign, "init", "-q")
    _git(foreign, "add", ".")
    _git(foreign, "commit", "-q", "-m", "both")
    return foreign


def _affected(repository: Path) -> set[str]:
    """Units that are, by kind and mechanism."""
    suite = load(repository)
    units = Changed(repository).affected([*audit_units(suite, []), *prove_units(suite, [])])
    return {f"{unit.kind} {unit.name.split(':')[0]}" for unit in units}


def _append(file: Path) -> None:
    with file.open("a", encoding="utf-8") as out:
        out.write("\n# changed\n")


_AUDIT, _SPEC = ["audit my_count"], ["profile my_count", "refinement my_count"]
CASES = [
    ("audits/my_count.py", {*_AUDIT, *_SPEC}),
    ("mechanisms/my_count.py", {*_AUDIT, *_SPEC}),
    ("spec/my_count.py", {"obligation my_count", *_SPEC}),
    ("README.md", set[str]()),
]


@pytest.mark.parametrize(("file", "expected"), CASES)
def test_what_depends_on_a_file_is_run(repository: Path, file: str, expected: set[str]) -> None:
    _append(repository / file)
    assert _affected(repository) == expected


def test_a_file_that_git_does_not_know_and_one_that_all_share(repository: Path) -> None:
    (repository / "audits" / "_shared.py").write_text("N = 3\n", encoding="utf-8")
    file = repository / "audits" / "my_count.py"
    text = file.read_text(encoding="utf-8")
    file.write_text(f"{text}\nfrom ._shared import N\n", encoding="utf-8")
    _git(repository, "add", "audits/my_count.py")
    _git(repository, "commit", "-q", "-m", "shared")
    assert "audit my_count" in _affected(repository)  # through a file that is not committed
    (repository / "audits" / "_shared.py").unlink()
    _append(repository / "spec" / "theory" / "laws.py")
    affected = _affected(repository)
    assert {"refinement my_count", "refinement your_count"} <= affected
    assert "audit my_count" not in affected
    (repository / "pyproject.toml").write_text("", encoding="utf-8")
    assert "audit your_count" in _affected(repository)


def test_an_auditor_or_a_sampler_is_under_every_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed, "_changed_in", lambda folder: set())
    suite, of_ours = load(), Changed(ROOT)
    proofs, boxes = prove_units(suite, []), suite.black_boxes  # of which all are always done
    audits = [unit for unit in audit_units(suite, []) if unit.name not in boxes]
    for module, every in (
        ("dpverify.audit.attack", True),
        ("dpverify.randomness.samplers", True),
        ("dpverify.plans.law", True),
        ("dpverify.mechanisms.bounded_mean", False),
        ("dpverify.rates.fitting", False),
    ):
        of_ours.modules = {module}
        affected = of_ours.affected(audits)
        configured = [unit for unit in audits if unit.kind == "audit"]
        assert ({*configured} <= {*affected}) is every, module
        assert len(affected) < 10 or every
    of_ours.modules = {"dpverify.mechanisms.bounded_mean"}
    names = {unit.name for unit in of_ours.affected(audits)}
    assert names == {key for key in suite.configurations if key.startswith("bounded_mean:")}
    assert "bounded_mean" in {unit.name for unit in of_ours.affected(proofs)}
    assert of_ours.affects("tests.mechanisms.test_bounded_mean")
    assert of_ours.affects("tests.privacy.test_forging")  # it imports the whole package
    assert not of_ours.affects("tests.suite.test_times")  # the suite loads mechanisms by name
    assert not of_ours.affects("tests.benchmarks.test_tables")  # it asks where the package is
    of_ours.modules = {"dpverify.rates.fitting"}
    assert of_ours.affected(audits) == of_ours.affected(proofs) == []
    assert of_ours.affects("tests.rates.test_fitting")


class _Item:
    """A test about an obligation or a module, or about none."""

    def __init__(self, *names: str, mark: str = "of_spec") -> None:
        self.names, self.mark = names, mark

    def get_closest_marker(self, name: str) -> Any:
        return SimpleNamespace(args=self.names) if self.names and name == self.mark else None


@pytest.mark.parametrize(
    ("changes", "fewer"),
    [({"spec.theory.levels"}, True), ({"spec.theory.levels", "tests.spec.level_twins"}, False)],
)
def test_twins_of_other_specs_are_left_out_where_specs_alone_changed(
    changes: set[str], fewer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changed, "_changed_in", lambda folder: set())
    of_ours, out = Changed(ROOT), list[Any]()
    of_ours.modules = changes
    items: list[Any] = [
        _Item("theory.levels:obligation_identified"), _Item("large_variances:obligation_loss"),
        _Item(), other := _Item("noisy_count:obligation_loss"),
    ]  # fmt: skip
    hook = SimpleNamespace(pytest_deselected=lambda items: out.extend(items))
    config: Any = SimpleNamespace(stash={conftest._CHANGED: of_ours}, hook=hook)
    conftest.pytest_collection_modifyitems(config, items)
    assert (out == [other], other in items) == (fewer, not fewer)
    assert len(items) == 4 - fewer


@pytest.mark.parametrize(
    ("changes", "fewer"),
    [({"dpverify.grid.levels"}, True), ({"dpverify.grid.levels", "tests.mechanisms.made"}, False)],
)
def test_cases_of_other_mechanisms_are_left_out_where_the_package_alone_changed(
    changes: set[str], fewer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changed, "_changed_in", lambda folder: set())
    of_ours, out = Changed(ROOT), list[Any]()
    of_ours.modules = changes
    items: list[Any] = [
        _Item("dpverify.mechanisms.large_variances", mark="of_module"),
        _Item(), _Item("noisy_count:obligation_loss"),
        other := _Item("dpverify.mechanisms.noisy_count", mark="of_module"),
    ]  # fmt: skip
    hook = SimpleNamespace(pytest_deselected=lambda items: out.extend(items))
    config: Any = SimpleNamespace(stash={conftest._CHANGED: of_ours}, hook=hook)
    conftest.pytest_collection_modifyitems(config, items)
    assert out == [other] * fewer
    assert len(items) == 4 - fewer


def test_the_command_says_that_nothing_changed(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = ["--suite", str(repository), "--changed", "--workers", "1"]
    assert main(["prove", *suite]) == 5
    assert "Nothing was collected" in capsys.readouterr().out
    _append(repository / "audits" / "my_count.py")
    assert main(["audit", "--trials", "20000", "--seed", "1", *suite]) == 0
    printed = capsys.readouterr().out
    assert "my_count:add-remove:all" in printed
    assert "your_count" not in printed


def test_without_a_repository_it_is_refused(
    foreign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["prove", "--changed", "--suite", str(foreign)]) == 3
    assert "--changed asks git what changed" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", [["audit", "--self-check"], ["audit", "--power"], ["prove", "--update"]]
)
def test_where_it_makes_no_sense_it_is_refused(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--changed"]) == 2
    assert "leave --changed out" in capsys.readouterr().err
