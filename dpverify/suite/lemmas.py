"""Records in lemmas.toml of the obligations that held: of how many cases, and the digest of the
code for which they held.

A lemma's statement is proved by its obligation, which a release does not run. This file lets a
reader of a claim see whether that was done for the code at hand. It is a record for people: no
claim, and nothing in the ledger, depends on it, and ``dpverify prove`` runs every obligation of
a suite's own files whatever it says. Only an obligation that a suite borrows from this package
is accepted as recorded there, if the record is of this code.

The digest of an obligation is that of its spec, of the modules of the trusted core that state a
lemma under its name, and of everything that these import (dpverify/suite/dependencies.py). It
is taken from sources alone, so it is the same in a checkout and in a wheel. It knows no
versions of Python and of libraries.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

import dpverify.transformations
from dpverify.suite.dependencies import Sources
from dpverify.suite.events import Event, Outcome, UnitFinished
from dpverify.suite.trees import Suite, find_root, is_borrowed, stems

FILE = "lemmas.toml"
_HEADER = """\
# The obligations of this suite that held: a digest of the code that each depends on, and how \
many cases
# it checked. Written by `dpverify prove --update`; no claim depends on this file.

"""
STALE, MISSING, STRAY = "STALE", "MISSING", "STRAY"
_WHY = {
    STALE: "the code that it depends on was changed since it was checked",
    MISSING: "it was not checked",
    STRAY: "there is no such obligation",
}


@dataclass(frozen=True, slots=True)
class Checked:
    """Record of an obligation that held. ``digest``: of the code that it depends on."""

    digest: str
    cases: int


@dataclass(frozen=True)
class Build:
    """The code at hand: the obligations of the suite in a folder, with their digests."""

    root: Path
    _trees: dict[str, Sources] = field(init=False, default_factory=dict)
    _digests: dict[str, str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Find the files of spec/ as ``trees`` does: theory and transformations are ours where
        none are given.
        """
        ours = find_root()
        own, shipped = Sources(self.root, ours), Sources(ours, ours)
        theory = self.root / "spec" / "theory"
        names = dict.fromkeys(stems(self.root / "spec"), own)
        borrowed = not theory.is_dir()
        names |= {
            f"theory/{stem}": own for stem in stems(ours / "spec/theory" if borrowed else theory)
        }
        transformations = stems(Path(dpverify.transformations.__path__[0]))
        if any(name not in names for name in transformations):
            names |= dict.fromkeys(transformations, shipped)
        self._trees.update({f"{name}.py": names[name] for name in sorted(names)})

    @cached_property
    def obligations(self) -> tuple[str, ...]:
        """Obligations of the suite's own files, as lemmas name them:
        "theory/queries.py:obligation_count".
        """
        return tuple(
            f"{path}:{name}"
            for path, sources in self._trees.items()
            if not is_borrowed(self.root, path)
            for name in sources.functions(_module(path))
            if name.startswith("obligation_")
        )

    def has(self, obligation: str) -> bool:
        """Return whether one of ``obligations`` has this name; only its own file is read."""
        path, _, name = obligation.partition(":")
        sources = self._trees.get(path)
        if sources is None or is_borrowed(self.root, path) or not name.startswith("obligation_"):
            return False
        return sources.defines(_module(path), name)

    @cached_property
    def digests(self) -> dict[str, str]:
        """Digests of all obligations."""
        return {name: self.digest(name) for name in self.obligations}

    def digest(self, obligation: str) -> str:
        """Return the digest of one obligation that is there."""
        if obligation not in self._digests:
            sources = self._trees[obligation.partition(":")[0]]
            self._digests[obligation] = sources.digest(self.modules(obligation))
        return self._digests[obligation]

    def modules(self, obligation: str) -> set[str]:
        """Return the modules that an obligation depends on: its file, those that state lemmas
        under it, all that they import.
        """
        path = obligation.partition(":")[0]
        return self._trees[path].closure({_module(path), *self.stating(obligation)})

    def stating(self, obligation: str) -> set[str]:
        """Return the modules that state a lemma under this obligation."""
        return self._trees[obligation.partition(":")[0]].stating(obligation)

    def status(self, recorded: Mapping[str, Checked], obligation: str) -> str:
        """Describe the state of an obligation to a reader of its lemma."""
        if is_borrowed(self.root, obligation.partition(":")[0]):
            checked = shipped(obligation)
            return _NOT_OURS if checked is None else _shown_checked(checked)
        known = recorded.get(obligation)
        if known is None or not self.has(obligation) or known.digest != self.digest(obligation):
            return _NOT_CHECKED
        return _shown_checked(known)


_NOT_CHECKED = "not checked for this build: run dpverify prove --update"
_NOT_OURS = (
    "a lemma of dpverify, whose lemmas.toml is of another build: dpverify prove runs it beside "
    "the obligations of this suite"
)


def _shown_checked(known: Checked) -> str:
    return f"checked for this build ({known.cases:,} cases)"


@cache
def _ours() -> tuple[Build, Mapping[str, Checked]]:
    root = find_root()
    return Build(root), read(path_of(root))


def shipped(obligation: str) -> Checked | None:
    """Return the record of an obligation of this package's own spec/ in its lemmas.toml; None
    unless the record is of this code.
    """
    build, recorded = _ours()
    known = recorded.get(obligation)
    if known is None or not build.has(obligation):
        return None
    return known if known.digest == build.digest(obligation) else None


def _module(path: str) -> str:
    return f"spec.{path.removesuffix('.py').replace('/', '.')}"


def name_of(unit: str) -> str:
    """Return the obligation, as lemmas name it, that a unit of this name runs."""
    return unit.replace(":", ".py:")


def path_of(root: Path) -> Path:
    """Return the path where a suite keeps the file: beside its ledger."""
    return root / FILE


def read(path: Path) -> dict[str, Checked]:
    """Return the recorded obligations, by name; none if there is no file yet.

    Raises ValueError when the file is not what ``write`` writes.
    """
    if not path.exists():
        return {}
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path} cannot be read: {error}; delete it and run {updating(path)}."
        ) from None
    checked = dict[str, Checked]()
    for name, entry in entries.items():
        match entry:
            case {"digest": str(digest), "cases": int(cases)} if cases >= 1 and len(entry) == 2:
                checked[name] = Checked(digest, cases)
            case _:
                raise ValueError(
                    f"{path}: {name} = {entry!r}, and an entry is a digest and a number of cases; "
                    f"delete it and run {updating(path)}."
                )
    return checked


def updating(path: Path) -> str:
    """Return the command that writes this file, with the suite where it is not dpverify's own."""
    own = path.parent == find_root()
    return (
        "`dpverify prove --update`" if own else f"`dpverify prove --update --suite {path.parent}`"
    )


def write(path: Path, entries: Mapping[str, Checked]) -> None:
    """Replace the file, with one line for each obligation, so that versions of the file merge
    well.
    """
    lines = [
        f"{json.dumps(name)} = {{ cases = {entries[name].cases}, digest = "
        f"{json.dumps(entries[name].digest)} }}\n"
        for name in sorted(entries)
    ]
    path.write_text(_HEADER + "".join(lines), encoding="utf-8", newline="\n")


def differences(recorded: Mapping[str, Checked], build: Build) -> dict[str, str]:
    """Return how the file differs from the code: STALE, MISSING or STRAY for each obligation
    that is not up to date.
    """
    kinds = {}
    for name in sorted({*recorded, *build.obligations}):
        if name not in build.digests:
            kinds[name] = STRAY
        elif name not in recorded:
            kinds[name] = MISSING
        elif recorded[name].digest != build.digests[name]:
            kinds[name] = STALE
    return kinds


def check_readable(build: Build, suite: Suite, obligations: Iterable[str]) -> None:
    """Raise ValueError unless the sources show these obligations, and the modules that state
    the lemmas of the suite's claims.
    """
    for name in obligations:
        if name not in build.digests:
            raise ValueError(
                f"spec/{name} is not defined by a def at the top of its file, so what it depends "
                "on is not known; define it there."
            )
    for configuration in suite.configurations.values():
        for lemma in configuration.mechanism.derivation.lemmas:
            if not build.stating(lemma.obligation):
                raise ValueError(
                    f"a lemma names spec/{lemma.obligation}, and no module of the trusted core or "
                    "of mechanisms/ has that name in a string, so what the lemma depends on is "
                    "not known; write the name out there."
                )


def shown(name: str, kind: str) -> str:
    """Describe a difference, for people."""
    return f"{kind:<8} {name}: {_WHY[kind]}"


class Recorder:
    """Consumer that writes down each obligation that held, and removes each that did not, as it
    finishes.
    """

    def __init__(self, path: Path, build: Build) -> None:
        """Read the recorded obligations of ``path``, and drop at once those that no longer
        exist.
        """
        self.path, self._digests = path, dict(build.digests)
        recorded = read(path)
        self.entries = {name: recorded[name] for name in recorded if name in self._digests}
        write(path, self.entries)

    def __call__(self, event: Event) -> None:
        """Take one event."""
        if not (isinstance(event, UnitFinished) and event.kind == "obligation"):
            return
        name = name_of(event.name)
        if event.outcome is Outcome.HELD:
            self.entries[name] = Checked(self._digests[name], int(event.data["cases"]))
        else:
            self.entries.pop(name, None)
        write(self.path, self.entries)
