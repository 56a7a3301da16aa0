"""The three trees: mechanisms, spec, audits. Discovery lists the folders; nothing is registered.

A suite is a folder with audits/, and for mechanisms of your own mechanisms/ and spec/ (with spec/ alone the mechanisms are
this package's). A file in audits/ without a mechanism and a spec of its name holds black boxes. Files are loaded by
path under a private package name, so a suite can lie anywhere and two suites never collide; each is loaded when it is
first asked for. A mechanism that is missing in one tree is an error.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar, cast

import dpverify.mechanisms
import dpverify.transformations
from dpverify.audit import BlackBox, Configuration, Exhibit, SmallInstance
from dpverify.plans import Mechanism
from dpverify.rates import Experiment, RateClaim
from dpverify.suite import pieces
from dpverify.suite.pieces import class_name_of, shapes_of, told


class SuiteError(Exception):
    """The trees do not fit together, or a file in them cannot be loaded."""


class NoSuite(SuiteError):
    """The folder that was given is no suite."""


T = TypeVar("T")


class LoadedLater(Mapping[str, T], Generic[T]):
    """Contents of files by name, each loaded when it is first asked for; that may raise SuiteError."""

    def __init__(self, names: Iterable[str], one: Callable[[str], T]) -> None:
        self._names = dict.fromkeys(names)
        self._one = cache(one)

    def __getitem__(self, name: str) -> T:
        if name not in self._names:
            raise KeyError(name)
        return self._one(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@dataclass(frozen=True, slots=True)
class Entry:
    """One mechanism: its class, its spec, its configurations, small instances, rates, experiments."""

    name: str
    mechanism: type[Mechanism[Any]]
    spec: ModuleType
    configurations: tuple[Configuration, ...]
    small: tuple[SmallInstance, ...]
    rates: tuple[RateClaim, ...] = ()
    experiments: tuple[Experiment, ...] = ()

    @property
    def keyed(self) -> dict[str, Configuration]:
        """The configurations by ledger key, "mechanism:adjacency:name"."""
        return {key_of(self.name, one): one for one in self.configurations}

    @property
    def departures(self) -> tuple[Any, ...]:
        """Where the spec says it differs from its sources: objects with source, what and why."""
        return tuple(getattr(self.spec, "DEPARTURES", ()))


@dataclass(frozen=True, slots=True)
class Suite:
    """Everything found in one root folder, by name. Whatever loads a file may raise SuiteError, which names it."""

    root: Path
    entries: Mapping[str, Entry]
    theory: Mapping[str, ModuleType]
    exhibits: Mapping[str, Exhibit]
    transformations: Mapping[str, ModuleType]
    boxes: Mapping[str, tuple[BlackBox, ...]] = field(default_factory=dict)

    def boxed(self, name: str) -> dict[str, BlackBox]:
        """The black boxes in the file of this name, by ledger key, "file:adjacency:name"; none of a mechanism's file."""
        return {
            f"{name}:{box.pairs[0].adjacency}:{box.name}": box for box in self.boxes.get(name, ())
        }

    @property
    def black_boxes(self) -> dict[str, BlackBox]:
        """All black boxes by ledger key."""
        return {key: box for name in self.boxes for key, box in self.boxed(name).items()}

    def configuration(self, key: str) -> Configuration:
        """The configuration of this ledger key; raises KeyError."""
        return self.entries[key.partition(":")[0]].keyed[key]

    @property
    def configurations(self) -> dict[str, Configuration]:
        """All configurations by ledger key, "mechanism:adjacency:name"."""
        return {
            key: configuration
            for entry in self.entries.values()
            for key, configuration in entry.keyed.items()
        }

    @property
    def rates(self) -> dict[str, tuple[Entry, RateClaim]]:
        """All claims about errors by name, "mechanism:name", each with its mechanism."""
        return {
            f"{entry.name}:{claim.name}": (entry, claim)
            for entry in self.entries.values()
            for claim in entry.rates
        }

    @property
    def experiments(self) -> dict[str, tuple[Entry, Experiment]]:
        """All experiments by name, "mechanism:name", each with its mechanism."""
        return {
            f"{entry.name}:{experiment.name}": (entry, experiment)
            for entry in self.entries.values()
            for experiment in entry.experiments
        }

    @property
    def measured(self) -> int:
        """How many rates and experiments there are: these share the false alarms of ``rates``."""
        return len(self.rates) + len(self.experiments)

    def obligation(self, where: str) -> Callable[[], int]:
        """The obligation that a lemma names, as "theory/queries.py:obligation_count"."""
        path, _, function = where.partition(":")
        stem = path.removesuffix(".py")
        module = (
            self.theory.get(stem.removeprefix("theory/"))
            if stem.startswith("theory/")
            else self.transformations.get(stem, getattr(self.entries.get(stem), "spec", None))
        )
        found = getattr(module, function, None)
        if not callable(found) or not function.startswith("obligation_"):
            raise SuiteError(f"a lemma names spec/{where}, and there is no such obligation")
        result: Callable[[], int] = found
        return result


def key_of(name: str, configuration: Configuration) -> str:
    """The ledger key of a configuration."""
    return f"{name}:{configuration.mechanism.adjacency}:{configuration.name}"


def find_root(given: Path | None = None) -> Path:
    """``given``, else the checkout that contains this package, else the trees in the wheel. Raises NoSuite."""
    if given is not None:
        if not (given / "audits").is_dir():
            raise NoSuite(
                f"{given} is no suite: it has no folder audits/. `dpverify init DIR` writes a suite of your own."
            )
        return given.resolve()
    package = Path(dpverify.__file__).resolve().parent
    for root in (package.parent, package / "_suite"):
        if (root / "spec").is_dir() and (root / "audits").is_dir():
            return root.resolve()
    raise NoSuite(f"{package} has no suite with spec/ and audits/ beside it; give --suite PATH.")


def load(given: Path | None = None) -> Suite:
    """Find a suite. Raises SuiteError, naming a file that is missing; one that is broken is named when it is loaded."""
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
        LoadedLater(names, lambda name: _entry(name, f"{prefix}.{name}", base)),
        LoadedLater(stems(folder), lambda stem: _import(f"{base}.spec.theory.{stem}")),
        LoadedLater(stems(root / "audits" / "exhibits"), partial(_exhibit, base)),
        transformations,
        LoadedLater(boxes, partial(_boxes, base)),
    )


def is_borrowed(root: Path, path: str) -> bool:
    """Whether a file of a suite's spec/, as "theory/queries.py", is this package's, for want of one in its folder."""
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
    """The names of mechanisms, and of files of black boxes. Raises SuiteError, naming every file that is missing."""
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
    """The names of the files in a folder, without those that others of it share."""
    return sorted(p.stem for p in folder.glob("*.py") if not p.stem.startswith("_"))


def _private_package(root: Path) -> str:
    name = "_dpverify_suite_" + hashlib.sha256(str(root).encode()).hexdigest()[:12]
    _provide(name, [str(root)])
    return name


def _provide_theory(base: str, root: Path) -> None:
    """A suite without spec/theory/ has ours, under the same name: ``from .theory import laws``."""
    name = f"{base}.spec.theory"
    if (root / "spec").is_dir():
        _import(f"{base}.spec")
    else:
        _provide(f"{base}.spec", [])
    if (root / "spec" / "theory").is_dir():
        _import(name)
    else:
        _provide(name, [str(find_root() / "spec" / "theory")])


def _provide(name: str, path: list[str]) -> None:
    """A package of this name, whose modules are in the folders of ``path``."""
    if name not in sys.modules:
        package = ModuleType(name)
        package.__path__ = path
        sys.modules[name] = package


def _transformations(root: Path, base: str) -> Mapping[str, ModuleType]:
    """The specs of this package's transformations: the suite's own, or else ours."""
    names = stems(Path(dpverify.transformations.__path__[0]))
    if not _has_specs(root, names):
        if root != find_root():
            return _transformations(find_root(), _package_with_theory(find_root()))
        missing = next(name for name in names if not _has_specs(root, [name]))
        raise SuiteError(
            f"transformations/{missing}.py has no spec/{missing}.py; a transformation is two files of one name."
        )
    return LoadedLater(names, lambda name: _import(f"{base}.spec.{name}"))


def _package_with_theory(root: Path) -> str:
    base = _private_package(root)
    _provide_theory(base, root)
    return base


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        file = name.split(".", 1)[1].replace(".", "/") if name.startswith("_") else name
        raise SuiteError(f"{file}.py: {type(error).__name__}: {error}") from error


def _entry(name: str, mechanism_module: str, base: str) -> Entry:
    """One mechanism. Raises SuiteError, naming every piece that is missing or wrong in its three files."""
    files = {tree: f"{tree}/{name}.py" for tree in ("mechanisms", "spec", "audits")}
    lacks = list[tuple[str, str]]()
    module, spec, audits = (
        _tried(path, file, lacks)
        for path, file in zip(
            (mechanism_module, f"{base}.spec.{name}", f"{base}.audits.{name}"),
            files.values(),
            strict=True,
        )
    )
    mechanism: type[Mechanism[Any]] | None = getattr(module, class_name_of(name), None)
    if module is not None:
        lacks += ((files["mechanisms"], lack) for lack in pieces.lacks_of_mechanism(name, module))
    if spec is not None:
        lacks += ((files["spec"], lack) for lack in pieces.lacks_of_spec(spec))
    if audits is not None:
        known = mechanism if isinstance(mechanism, type) else None
        lacks += ((files["audits"], one) for one in pieces.lacks_of_audits(name, audits, known))
    if lacks or mechanism is None or spec is None or audits is None:
        raise SuiteError(_lacking(name, lacks))

    def exported(what: str, kind: type) -> Any:
        return pieces.all_of(audits, what, kind) or ()

    return Entry(
        name,
        mechanism,
        spec,
        exported("CONFIGURATIONS", Configuration),
        exported("SMALL", SmallInstance),
        exported("RATES", RateClaim),
        exported("EXPERIMENTS", Experiment),
    )


def _tried(path: str, file: str, lacks: list[tuple[str, str]]) -> ModuleType | None:
    try:
        return _import(path)
    except SuiteError as error:
        lacks.append((file, f"{error}".removeprefix(f"{file}: ")))
        return None


def _lacking(name: str, lacks: list[tuple[str, str]]) -> str:
    pieces_of = "1 piece is" if len(lacks) == 1 else f"{len(lacks)} pieces are"
    return f"{name}: {pieces_of} missing or wrong\n{told(lacks)}"


def _exhibit(base: str, stem: str) -> Exhibit:
    return cast(Exhibit, _only(f"{base}.audits.exhibits.{stem}", "EXHIBIT", Exhibit)[0])


def _boxes(base: str, name: str) -> tuple[BlackBox, ...]:
    module = _import(f"{base}.audits.{name}")
    lacks = [(f"audits/{name}.py", lack) for lack in pieces.lacks_of_boxes(name, module)]
    if lacks:
        raise SuiteError(_lacking(name, lacks))
    return pieces.all_of(module, "BLACK_BOXES", BlackBox) or ()


def module_of_boxes(suite: Suite, name: str) -> ModuleType:
    """The file audits/NAME.py of black boxes."""
    return _import(f"{_private_package(suite.root)}.audits.{name}")


def _only(path: str, name: str, kind: type) -> tuple[Any, ...]:
    module = _import(path)
    file = path.split(".", 1)[1].replace(".", "/")
    lacks = [(f"{file}.py", lack) for lack in pieces.lacks_of_export(module, name, kind)]
    if lacks:
        raise SuiteError(_lacking(path.rpartition(".")[2], lacks))
    return pieces.all_of(module, name, kind) or ()
