"""Trees of a suite: mechanisms, spec, audits. Discovery lists the folders; nothing is
registered.

A suite is a folder with audits/, and for mechanisms of your own mechanisms/ and spec/ (with spec/
alone the mechanisms are this package's). A file in audits/ without a mechanism and a spec of its
name holds black boxes. Files are loaded by path under a private package name, so a suite can lie
anywhere and two suites never collide; each is loaded when it is first asked for. A mechanism that
is missing in one tree is an error.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, ValuesView
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Generic, TypeVar

import dpverify.mechanisms
import dpverify.transformations
from dpverify.audit import BlackBox, Configuration, Exhibit
from dpverify.rates import Experiment, RateClaim
from dpverify.suite.entries import (
    Entry,
    SuiteError,
    import_file,
    load_boxes,
    load_entry,
    load_exhibit,
)
from dpverify.suite.pieces import shapes_of


class NoSuite(SuiteError):
    """Refusal of a folder that is no suite."""


T = TypeVar("T")


class LoadedLater(Mapping[str, T], Generic[T]):
    """Contents of files by name, each loaded when it is first used (or SuiteError raised)."""

    def __init__(self, names: Iterable[str], one: Callable[[str], T]) -> None:
        self._names = dict.fromkeys(names)
        self._one = cache(one)

    def __getitem__(self, name: str) -> T:
        if name not in self._names:
            raise KeyError(name)
        return self._one(name)

    def __contains__(self, name: object) -> bool:
        """Return whether there is a file of this name; it is not loaded."""
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def values(self) -> ValuesView[T]:
        """Load everything; SuiteError says what is wrong with each broken file."""
        self._load_all()
        return super().values()

    def items(self) -> ItemsView[str, T]:
        """Load everything; SuiteError says what is wrong with each broken file."""
        self._load_all()
        return super().items()

    def _load_all(self) -> None:
        wrong = list[str]()
        for name in self:
            try:
                self[name]
            except SuiteError as error:
                wrong.append(str(error))
        if wrong:
            raise SuiteError("\n".join(wrong))


@dataclass(frozen=True, slots=True)
class Suite:
    """Everything in one root folder, by name; loading a broken file raises SuiteError."""

    root: Path
    entries: Mapping[str, Entry]
    theory: Mapping[str, ModuleType]
    exhibits: Mapping[str, Exhibit]
    transformations: Mapping[str, ModuleType]
    boxes: Mapping[str, tuple[BlackBox, ...]] = field(default_factory=dict)

    def boxed(self, name: str) -> dict[str, BlackBox]:
        """Collect the black boxes in a file by ledger key, "file:adjacency:name".

        A mechanism's file has none.
        """
        return {
            f"{name}:{box.pairs[0].adjacency}:{box.name}": box for box in self.boxes.get(name, ())
        }

    @property
    def black_boxes(self) -> dict[str, BlackBox]:
        """Black boxes by ledger key."""
        return {key: box for name, _ in self.boxes.items() for key, box in self.boxed(name).items()}

    def configuration(self, key: str) -> Configuration:
        """Return the configuration of this ledger key; raises KeyError."""
        return self.entries[key.partition(":")[0]].keyed[key]

    @property
    def configurations(self) -> dict[str, Configuration]:
        """Configurations by ledger key, "mechanism:adjacency:name"."""
        return {
            key: configuration
            for entry in self.entries.values()
            for key, configuration in entry.keyed.items()
        }

    @property
    def rates(self) -> dict[str, tuple[Entry, RateClaim]]:
        """Claims about errors by name, "mechanism:name", each with its mechanism."""
        return {
            f"{entry.name}:{claim.name}": (entry, claim)
            for entry in self.entries.values()
            for claim in entry.rates
        }

    @property
    def experiments(self) -> dict[str, tuple[Entry, Experiment]]:
        """Experiments by name, "mechanism:name", each with its mechanism."""
        return {
            f"{entry.name}:{experiment.name}": (entry, experiment)
            for entry in self.entries.values()
            for experiment in entry.experiments
        }

    def rate(self, key: str) -> tuple[Entry, RateClaim]:
        """Return one of ``rates`` with no other mechanism loaded; raises KeyError."""
        entry = self.entries[key.partition(":")[0]]
        return entry, {f"{entry.name}:{claim.name}": claim for claim in entry.rates}[key]

    def experiment(self, key: str) -> tuple[Entry, Experiment]:
        """Return one of ``experiments`` with no other mechanism loaded; raises KeyError."""
        entry = self.entries[key.partition(":")[0]]
        return entry, {f"{entry.name}:{one.name}": one for one in entry.experiments}[key]

    @property
    def measured(self) -> int:
        """Number of rates and experiments: these share the false alarms of ``rates``."""
        return len(self.rates) + len(self.experiments)

    def obligation(self, where: str) -> Callable[[], int]:
        """Return the obligation that a lemma names, as "theory/queries.py:obligation_count"."""
        path, _, function = where.partition(":")
        stem = path.removesuffix(".py")
        module = (
            self.theory.get(stem.removeprefix("theory/"))
            if stem.startswith("theory/")
            else self.transformations.get(stem, getattr(self.entries.get(stem), "spec", None))
        )
        candidate = getattr(module, function, None)
        if not callable(candidate) or not function.startswith("obligation_"):
            raise SuiteError(f"a lemma names spec/{where}, and there is no such obligation")
        result: Callable[[], int] = candidate
        return result


def find_root(given: Path | None = None) -> Path:
    """Find the suite: ``given``, else the checkout that contains this package, else the wheel's.

    Raises NoSuite.
    """
    if given is not None:
        if not (given / "audits").is_dir():
            raise NoSuite(
                f"{given} is no suite: it has no folder audits/. `dpverify init DIR` writes a "
                "suite of your own."
            )
        return given.resolve()
    package = Path(dpverify.__file__).resolve().parent
    for root in (package.parent, package / "_suite"):
        if (root / "spec").is_dir() and (root / "audits").is_dir():
            return root.resolve()
    raise NoSuite(f"{package} has no suite with spec/ and audits/ beside it; give --suite PATH.")


def load(given: Path | None = None) -> Suite:
    """Find a suite and list its files; a missing one is a SuiteError that names it.

    A broken file is named when it is loaded.
    """
    root = find_root(given)
    base = _package_with_theory(root)
    transformations = _transformations(root, base)
    specs = [name for name in stems(root / "spec") if name not in transformations]
    own = (root / "mechanisms").is_dir() or not specs
    where = root / "mechanisms" if own else Path(dpverify.mechanisms.__path__[0])
    prefix = f"{base}.mechanisms" if own else "dpverify.mechanisms"
    names, boxes = _by_kind(stems(where), specs, stems(root / "audits"))
    folder = Path(sys.modules[f"{base}.spec.theory"].__path__[0])
    return Suite(
        root,
        LoadedLater(names, lambda name: load_entry(name, f"{prefix}.{name}", base)),
        LoadedLater(stems(folder), lambda stem: import_file(f"{base}.spec.theory.{stem}")),
        LoadedLater(stems(root / "audits" / "exhibits"), partial(load_exhibit, base)),
        transformations,
        LoadedLater(boxes, partial(load_boxes, base)),
    )


def is_borrowed(root: Path, path: str) -> bool:
    """Return whether the suite uses a file of this package's spec/, because it has none itself.

    path: relative to spec/, as "theory/queries.py".
    """
    if root == find_root():
        return False
    if path.startswith("theory/"):
        return not (root / "spec" / "theory").is_dir()
    names = stems(Path(dpverify.transformations.__path__[0]))
    return path.removesuffix(".py") in names and not _has_specs(root, names)


def _has_specs(root: Path, names: Iterable[str]) -> bool:
    return all((root / "spec" / f"{name}.py").is_file() for name in names)


def _by_kind(
    mechanisms: list[str], specs: list[str], audits: list[str]
) -> tuple[list[str], list[str]]:
    """Split names into mechanisms and files of black boxes; SuiteError names every missing file."""
    names = sorted({*mechanisms, *specs})
    trees = {"mechanisms": mechanisms, "spec": specs, "audits": audits}
    missing = [(name, tree) for name in names for tree, has in trees.items() if name not in has]
    if missing:
        lines = (
            "\n      ".join((f"  {name} has no {tree}/{name}.py; write", *shapes_of(tree, name)))
            for name, tree in missing
        )
        raise SuiteError("\n".join(("a mechanism is three files of one name:", *lines)))
    return names, [name for name in audits if name not in names]


def stems(folder: Path) -> list[str]:
    """List the names of the files in a folder, without those that others of it share."""
    return sorted(p.stem for p in folder.glob("*.py") if not p.stem.startswith("_"))


def _private_package(root: Path) -> str:
    name = "_dpverify_suite_" + hashlib.sha256(str(root).encode()).hexdigest()[:12]
    _provide(name, [str(root)])
    return name


def _provide_theory(base: str, root: Path) -> None:
    """Provide our spec/theory/ for a suite without one, under the same name: ``from .theory
    import laws``.
    """
    name = f"{base}.spec.theory"
    if (root / "spec").is_dir():
        import_file(f"{base}.spec")
    else:
        _provide(f"{base}.spec", [])
    if (root / "spec" / "theory").is_dir():
        import_file(name)
    else:
        _provide(name, [str(find_root() / "spec" / "theory")])


def _provide(name: str, path: list[str]) -> None:
    """Create a package of this name, whose modules are in the folders of ``path``."""
    if name not in sys.modules:
        package = ModuleType(name)
        package.__path__ = path
        sys.modules[name] = package


def _transformations(root: Path, base: str) -> Mapping[str, ModuleType]:
    """Return the specs of this package's transformations: the suite's own, or else ours."""
    names = stems(Path(dpverify.transformations.__path__[0]))
    if not _has_specs(root, names):
        if root != find_root():
            return _transformations(find_root(), _package_with_theory(find_root()))
        missing = next(name for name in names if not _has_specs(root, [name]))
        raise SuiteError(
            f"transformations/{missing}.py has no spec/{missing}.py; a transformation is two "
            "files of one name."
        )
    return LoadedLater(names, lambda name: import_file(f"{base}.spec.{name}"))


def _package_with_theory(root: Path) -> str:
    base = _private_package(root)
    _provide_theory(base, root)
    return base


def module_of_audits(suite: Suite, name: str) -> ModuleType:
    """Import the file audits/NAME.py of a mechanism or of black boxes, or of "exhibits/NAME"."""
    return import_file(f"{_private_package(suite.root)}.audits.{name.replace('/', '.')}")
