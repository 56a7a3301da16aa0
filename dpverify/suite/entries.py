"""Loaders of a suite's files: a mechanism of three files, an exhibit, a file of black boxes.

They name everything that a file lacks at once, with its signature.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import ModuleType
from typing import Any, cast

from dpverify.audit import BlackBox, Configuration, Exhibit, SmallInstance
from dpverify.plans import Mechanism
from dpverify.rates import Experiment, RateClaim
from dpverify.suite import pieces
from dpverify.suite.pieces import class_name_of, told


class SuiteError(Exception):
    """Error of a suite: the trees do not fit together, or a file in them cannot be loaded."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One mechanism: its class, spec, configurations, small instances, rates and experiments."""

    name: str
    mechanism: type[Mechanism[Any]]
    spec: ModuleType
    configurations: tuple[Configuration, ...]
    small: tuple[SmallInstance, ...]
    rates: tuple[RateClaim, ...] = ()
    experiments: tuple[Experiment, ...] = ()

    @property
    def keyed(self) -> dict[str, Configuration]:
        """Configurations by ledger key, "mechanism:adjacency:name"."""
        return {key_of(self.name, one): one for one in self.configurations}

    @property
    def departures(self) -> tuple[Any, ...]:
        """Departures of the spec from its sources: objects with source, what and why."""
        return tuple(getattr(self.spec, "DEPARTURES", ()))


def key_of(name: str, configuration: Configuration) -> str:
    """Return the ledger key of a configuration."""
    return f"{name}:{configuration.mechanism.adjacency}:{configuration.name}"


def load_entry(name: str, mechanism_module: str, base: str) -> Entry:
    """Load one mechanism; SuiteError names every piece that its three files lack."""
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
        return import_file(path)
    except SuiteError as error:
        lacks.append((file, f"{error}".removeprefix(f"{file}: ")))
        return None


def _lacking(name: str, lacks: list[tuple[str, str]]) -> str:
    pieces_of = "1 piece is" if len(lacks) == 1 else f"{len(lacks)} pieces are"
    return f"{name}: {pieces_of} missing or wrong\n{told(lacks)}"


def load_exhibit(base: str, stem: str) -> Exhibit:
    """Load one exhibit; SuiteError names what its file lacks."""
    return cast(Exhibit, _only(f"{base}.audits.exhibits.{stem}", "EXHIBIT", Exhibit)[0])


def load_boxes(base: str, name: str) -> tuple[BlackBox, ...]:
    """Load the black boxes of a file; SuiteError names every piece that it lacks."""
    module = import_file(f"{base}.audits.{name}")
    lacks = [(f"audits/{name}.py", lack) for lack in pieces.lacks_of_boxes(name, module)]
    if lacks:
        raise SuiteError(_lacking(name, lacks))
    return pieces.all_of(module, "BLACK_BOXES", BlackBox) or ()


def _only(path: str, name: str, kind: type) -> tuple[Any, ...]:
    module = import_file(path)
    file = path.split(".", 1)[1].replace(".", "/")
    lacks = [(f"{file}.py", lack) for lack in pieces.lacks_of_export(module, name, kind)]
    if lacks:
        raise SuiteError(_lacking(path.rpartition(".")[2], lacks))
    return pieces.all_of(module, name, kind) or ()


def import_file(name: str) -> ModuleType:
    """Import a file of a suite by its private name; any failure is a SuiteError that names it."""
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        file = name.split(".", 1)[1].replace(".", "/") if name.startswith("_") else name
        raise SuiteError(f"{file}.py: {type(error).__name__}: {error}") from error
