"""The three trees: mechanisms, spec, audits. Discovery lists the folders; nothing is registered.

A suite is a folder with spec/ and audits/ (and mechanisms/, for mechanisms of your own; without it
they are this package's). Files are loaded by path under a private package name, so a suite can lie
anywhere and two suites never collide; each is loaded when it is first asked for. A name that is missing in one
tree is an error.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

import dpverify.mechanisms
import dpverify.transformations
from dpverify.audit import Configuration, Exhibit, SmallInstance
from dpverify.plans import Mechanism
from dpverify.plans.plan import is_filtered
from dpverify.rates import Experiment, RateClaim


class SuiteError(Exception):
    """The trees do not fit together, or a file in them cannot be loaded."""


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
    """``given``, else the checkout that contains this package, else the trees in the wheel."""
    package = Path(dpverify.__file__).resolve().parent
    candidates = [given] if given is not None else [package.parent, package / "_suite"]
    for root in candidates:
        if (root / "spec").is_dir() and (root / "audits").is_dir():
            return root.resolve()
    raise SuiteError(f"{candidates[-1]} has no spec/ and audits/ folders; give --suite PATH.")


def load(given: Path | None = None) -> Suite:
    """Find a suite. Raises SuiteError, naming a file that is missing; one that is broken is named when it is loaded."""
    root = find_root(given)
    base = _package_with_theory(root)
    own = (root / "mechanisms").is_dir()
    where = root / "mechanisms" if own else Path(dpverify.mechanisms.__path__[0])
    prefix = f"{base}.mechanisms" if own else "dpverify.mechanisms"
    transformations = _transformations(root, base)
    names = _paired_names(where, root / "spec", root / "audits", set(transformations))
    folder = Path(sys.modules[f"{base}.spec.theory"].__path__[0])
    return Suite(
        root,
        LoadedLater(names, lambda name: _entry(name, f"{prefix}.{name}", base)),
        LoadedLater(stems(folder), lambda stem: _import(f"{base}.spec.theory.{stem}")),
        LoadedLater(stems(root / "audits" / "exhibits"), partial(_exhibit, base)),
        transformations,
    )


def _paired_names(
    mechanisms: Path, spec: Path, audits: Path, transformations: set[str]
) -> list[str]:
    specs = [name for name in stems(spec) if name not in transformations]
    trees = {"mechanisms": stems(mechanisms), "spec": specs, "audits": stems(audits)}
    everything = sorted(set().union(*trees.values()))
    for name in everything:
        missing = [tree for tree, names in trees.items() if name not in names]
        if missing:
            raise SuiteError(
                f"{name} has no {missing[0]}/{name}.py; a mechanism is three files of one name."
            )
    return everything


def stems(folder: Path) -> list[str]:
    """The names of the files in a folder, without those that others of it share."""
    return sorted(p.stem for p in folder.glob("*.py") if not p.stem.startswith("_"))


def _private_package(root: Path) -> str:
    name = "_dpverify_suite_" + hashlib.sha256(str(root).encode()).hexdigest()[:12]
    if name not in sys.modules:
        package = ModuleType(name)
        package.__path__ = [str(root)]
        sys.modules[name] = package
    return name


def _provide_theory(base: str, root: Path) -> None:
    """A suite without spec/theory/ has ours, under the same name: ``from .theory import laws``."""
    importlib.import_module(f"{base}.spec")
    name = f"{base}.spec.theory"
    if (root / "spec" / "theory").is_dir():
        importlib.import_module(name)
    elif name not in sys.modules:
        package = ModuleType(name)
        package.__path__ = [str(find_root() / "spec" / "theory")]
        sys.modules[name] = package


def _transformations(root: Path, base: str) -> Mapping[str, ModuleType]:
    """The specs of this package's transformations: the suite's own, or else ours."""
    names = stems(Path(dpverify.transformations.__path__[0]))
    missing = [name for name in names if not (root / "spec" / f"{name}.py").is_file()]
    if missing and root != find_root():
        return _transformations(find_root(), _package_with_theory(find_root()))
    if missing:
        raise SuiteError(
            f"transformations/{missing[0]}.py has no spec/{missing[0]}.py; a transformation is two "
            "files of one name."
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
    module = _import(mechanism_module)
    class_name = "".join(part.capitalize() for part in name.split("_"))
    mechanism = getattr(module, class_name, None)
    if not (isinstance(mechanism, type) and issubclass(mechanism, Mechanism)):
        raise SuiteError(f"mechanisms/{name}.py has no mechanism class named {class_name}")
    spec = _import(f"{base}.spec.{name}")
    if not callable(getattr(spec, "law", None)) or not obligations_of(spec):
        raise SuiteError(f"spec/{name}.py needs a function law and at least one obligation_*")
    audits = _import(f"{base}.audits.{name}")
    configurations = _exported(audits, "CONFIGURATIONS", Configuration)
    small = _exported(audits, "SMALL", SmallInstance)
    for made in (*configurations, *small):
        if type(made.mechanism) is not mechanism:
            raise SuiteError(f"audits/{name}.py: {made.name!r} is not a {class_name}")
    for made in configurations:
        if is_filtered(made.mechanism.fixed_plan) and not made.friendly:
            raise SuiteError(
                f"audits/{name}.py: {made.name!r} has a filter and no friendly pairs; what runs "
                "behind a filter is attacked on those."
            )
    rates, experiments = (
        _exported(audits, exported, kind) if hasattr(audits, exported) else ()
        for exported, kind in (("RATES", RateClaim), ("EXPERIMENTS", Experiment))
    )
    found = Entry(name, mechanism, spec, configurations, small, rates, experiments)
    _refuse_same_names(found)
    return found


def _refuse_same_names(entry: Entry) -> None:
    if len(entry.keyed) != len(entry.configurations):
        raise SuiteError(
            f"audits/{entry.name}.py: two configurations of one mechanism and adjacency have the same name"
        )
    rated = [*(one.name for one in entry.rates), *(one.name for one in entry.experiments)]
    if len({*rated}) != len(rated):
        raise SuiteError(f"audits/{entry.name}.py: two rates of one mechanism have the same name")


def _exhibit(base: str, stem: str) -> Exhibit:
    exhibit: Exhibit = _exported(_import(f"{base}.audits.exhibits.{stem}"), "EXHIBIT", Exhibit)[0]
    return exhibit


def _exported(module: ModuleType, name: str, kind: type) -> Any:
    """What a file exports under this name, one or more of a kind, as a tuple."""
    found = getattr(module, name, None)
    if isinstance(found, kind):
        return (found,)
    if isinstance(found, (tuple, list)) and found and all(isinstance(x, kind) for x in found):
        return tuple(found)
    where = module.__name__.split(".", 1)[1].replace(".", "/")
    raise SuiteError(f"{where}.py needs {name}: one or more {kind.__name__}")


def obligations_of(module: ModuleType) -> dict[str, Callable[[], int]]:
    """The obligations defined in a module of spec/, by name."""
    return {
        name: value
        for name, value in vars(module).items()
        if name.startswith("obligation_")
        and callable(value)
        and getattr(value, "__module__", None) == module.__name__
    }
