"""Units that depend on what changed since the last commit, by imports, as sources show them.

A quick first answer, not a proof: what a file reads at run time, other files than modules and
the rates are not followed. CI runs everything.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import dpverify
from dpverify.suite.dependencies import Sources
from dpverify.suite.lemmas import Build, name_of
from dpverify.suite.trees import find_root

AnyUnit = TypeVar("AnyUnit", bound=Any)
_TOPS = ("dpverify", "spec", "audits", "mechanisms", "tests")
_EVERYTHING = ("pyproject.toml", "conftest.py", "__init__.py")
"""Files on which anything may depend."""
_ATTACKING = ("dpverify.audit.auditing", "dpverify.suite.audited", "dpverify.audit.audit_targets")
_PROVING = ("dpverify.suite.refinement", "dpverify.suite.exact_profiles")
_THEORY = ("spec.theory.profiles", "spec.theory.filtered_laws")  # judges load these modules by name


class Changed:
    """Files that changed in a suite's folder, and in this package where that is a checkout.

    Raises ValueError where git cannot say what changed.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        files = _changed_in(root) | _changed_in_the_package(root)
        self.everything = any(file.name in _EVERYTHING for file in files)
        self.modules = {_module(file) for file in files if _is_module(file)}
        self._sources = Sources(root, find_root())
        # the auditor and the judges import these packages for a version and a place, and no
        # mechanism
        places = dict.fromkeys(("dpverify", "dpverify.mechanisms"), frozenset[str]())
        self._judges = Sources(root, find_root(), _used=places)
        self._found = dict[tuple[str, str], set[str]]()

    def affected(self, units: Sequence[AnyUnit]) -> list[AnyUnit]:
        """Return the units that depend on a module that changed; of black boxes all, since
        their code is anywhere.
        """
        if self.everything:
            return list(units)
        # no audit and no proof rests on a rate, though rates are declared in the same files
        changed = {name for name in self.modules if not name.startswith("dpverify.rates")}
        return [
            unit
            for unit in units
            if self._is_boxed(unit) or not changed.isdisjoint(self._modules(unit))
        ]

    def _is_boxed(self, unit: Any) -> bool:
        """Return whether a unit is a black box: an audit without a spec."""
        name = unit.name.partition(":")[0]
        return unit.kind == "audit" and self._sources.file(f"spec.{name}") is None

    def affects(self, module: str) -> bool:
        """Return whether a module, or one of those that it imports, changed; what it loads by
        name is not followed.

        A module that imports the whole package depends on all of it, because it may read
        anything there; a helper that asks only for a version or a place does not.
        """
        closure = self._judges.closure({module})
        own = {name for name in closure if not name.startswith("dpverify.")}
        whole = {name for name in own if "dpverify" in self._judges.uses(name)}
        if any(
            name == module or not self._judges.asks_for_its_place(name, "dpverify")
            for name in whole
        ):
            closure = self._sources.closure({module})  # every module that the package has
        return self.everything or not self.modules.isdisjoint(closure)

    def _modules(self, unit: Any) -> set[str]:
        if unit.kind == "obligation":
            return self._under("obligation", unit.name)
        kind = "attack" if unit.kind in ("audit", "exhibit", "tracing") else "proof"
        return self._under(kind, unit.name.partition(":")[0].replace("/", "."))

    def _under(self, kind: str, name: str) -> set[str]:
        """Return the modules under an obligation, or under all attacks on a mechanism or all
        proofs of it.
        """
        if (kind, name) not in self._found:
            self._found[kind, name] = self._closure(kind, name)
        return self._found[kind, name]

    def _closure(self, kind: str, name: str) -> set[str]:
        if kind == "obligation":
            return self._build.modules(name_of(name))
        attacked = kind == "attack"
        own = {f"audits.{name}"} if attacked else {f"audits.{name}", f"spec.{name}", *_THEORY}
        closure = self._sources.closure({module for module in own if self._sources.file(module)})
        return closure | self._judges.closure({*(_ATTACKING if attacked else _PROVING)})

    @cached_property
    def _build(self) -> Build:
        return Build(self.root)


def _changed_in_the_package(root: Path) -> set[Path]:
    """Return the changed files of this package, where a checkout of it judges another suite."""
    checkout = Path(dpverify.__file__).resolve().parent.parent
    return _changed_in(checkout) if checkout != root and (checkout / ".git").exists() else set()


def _changed_in(folder: Path) -> set[Path]:
    """Return the files that differ from the last commit, or are not in it, from this folder on."""
    paths = set[Path]()
    for command in (
        ("diff", "--name-only", "--relative", "HEAD"),
        ("ls-files", "--others", "--exclude-standard"),
    ):
        try:
            run = subprocess.run(
                ["git", "-C", str(folder), *command], capture_output=True, text=True, check=True
            )
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", None) or error
            raise ValueError(
                f"--changed asks git what changed in {folder}, and it says: {str(said).strip()}. "
                "Leave --changed out, or give names."
            ) from None
        paths |= {Path(line) for line in run.stdout.splitlines()}
    return paths


def _is_module(file: Path) -> bool:
    return file.suffix == ".py" and file.parts[0] in _TOPS


def _module(file: Path) -> str:
    return ".".join(file.with_suffix("").parts)
