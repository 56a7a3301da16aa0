"""Resumption of runs: results in an earlier run's file of events are not computed again.

A result is reused if it has the same key: a digest of the request, of the seed, and of the
code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import dpverify
from dpverify.suite.dependencies import TRUSTED
from dpverify.suite.events import Outcome, UnitFinished
from dpverify.suite.stored import read
from dpverify.suite.trees import find_root

_TREES = ("mechanisms", "spec", "audits")
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "python-flint", "mpmath")


@dataclass(frozen=True, slots=True)
class Code:
    """Parts of the package that a result depends on: folders, and files of ``suite`` that join
    them.
    """

    folders: tuple[str, ...]
    joining: tuple[str, ...]


OF_RATES = Code(
    (*TRUSTED, "session", "rates"), ("rating.py", "refinement.py", "judges.py", "experimenting.py")
)
OF_AUDITS = Code(
    (*TRUSTED, "session", "audit"),
    (
        "judges.py",
        "audited.py",
        "latent_profiles.py",
        "refinement.py",
        "measuring.py",
        "black_boxes.py",
        "large.py",
    ),
)

EVERYTHING = Code((*TRUSTED, "session", "audit", "rates", "suite"), ())


def code_of(root: Path) -> str:
    """Return the digest of all code that any result of the suite in this folder can depend on.

    A user's suite may borrow from this package's, which then counts as well.
    """
    own = dict.fromkeys((root, find_root()))
    return hashlib.sha256("".join(_digest_of(one, EVERYTHING) for one in own).encode()).hexdigest()


def key_of(root: Path, code: Code, text: Sequence[str]) -> str:
    """Hash these words, this code of the package, and the suite in this folder."""
    return hashlib.sha256("\n".join([_digest_of(root, code), *text]).encode()).hexdigest()


@cache
def _digest_of(root: Path, code: Code) -> str:
    """Hash the code, with the versions of the libraries below it.

    Every file of the suite's three trees counts, since an audit or a spec may import any other.
    """
    package = Path(dpverify.__file__).parent
    digest = hashlib.sha256(" ".join(f"{name} {version(name)}" for name in _LIBRARIES).encode())
    for base, folders in ((package, code.folders), (root, _TREES)):
        files = [file for folder in folders for file in sorted((base / folder).rglob("*.py"))]
        if base is package:
            files += [package / "suite" / name for name in code.joining]
        for file in files:
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            digest.update(f"\n{file.relative_to(base).as_posix()} {content}".encode())
    return digest.hexdigest()


def keyed(root: Path, unit: UnitFinished, options: Any, besides: str = "") -> UnitFinished:
    """Attach the resume key to a finished unit. besides: as of ``key_of_unit``."""
    return replace(unit, data={**unit.data, "key": key_of_unit(root, unit, options, besides)})


def key_of_unit(root: Path, unit: Any, options: Any, besides: str = "") -> str:
    """Return the key of an audit, or of a measurement of the auditor, with these options (a
    dataclass with ``suite``).

    besides: a digest of code outside of the package and the suite, where the unit rests on any.
    """
    asked = repr(replace(options, suite=None))
    words = [unit.kind, unit.name, asked, *[besides] * bool(besides)]
    return key_of(root, OF_AUDITS, words)


def known_parts(path: Path, kind: str) -> dict[str, dict[str, Any]]:
    """Return the data of all units of this kind in a file of events, by key. Raises NotEvents."""
    units = (unit for unit in read(path).units if unit.kind == kind)
    return parts_by_key(units)


def parts_by_key(units: Iterable[UnitFinished]) -> dict[str, dict[str, Any]]:
    """Return the data of these units by key; those whose worker died have none."""
    return {unit.data["key"]: dict(unit.data) for unit in units if _is_keyed(unit)}


def known_units(path: Path) -> dict[str, UnitFinished]:
    """Return the units in a file of events, by key, but for invalid ones, which are to be done
    again. Raises NotEvents.
    """
    return {
        unit.data["key"]: unit
        for unit in read(path).units
        if unit.outcome is not Outcome.INVALID and _is_keyed(unit)
    }


def _is_keyed(unit: UnitFinished) -> bool:
    return isinstance(unit.data.get("key"), str)
