"""Judgments of black boxes: functions with a claim that nothing derives, attacked as any other
subject.

The ledger records that their claim is asserted. Of such a function no law, lemma or stage is known.
"""

from __future__ import annotations

import ast
import sys
import sysconfig
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from hashlib import sha256
from importlib.metadata import distributions
from importlib.util import resolve_name
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from dpverify.audit import AuditResult, BlackBox, OutOfReachWarning, Verdict, audit
from dpverify.audit.subjects import name_of
from dpverify.suite.audited import audited
from dpverify.suite.dependencies import imports_at_the_top
from dpverify.suite.events import Judgment, Outcome

ASSERTED = "asserted"
"""Status of a claim that nothing derives."""
LONGER = 5
"""Factor by which a black box gets more draws without --quick."""
_OUTCOMES = {
    Verdict.CONSISTENT: Outcome.HELD,
    Verdict.VIOLATED: Outcome.REFUTED,
    Verdict.POWERLESS: Outcome.POWERLESS,
}


def judge(
    box: BlackBox, unit: tuple[str, str], *, seed: int, alpha: float, extent: Mapping[str, Any]
) -> Judgment:
    """Attack a black box, and each of its faults. unit: its name, and the command that replays it.

    extent: the length of the attack, as arguments of ``audit``.
    """
    result = _attacked(box, seed, {"alpha": alpha, **extent})
    judged = audited(result, unit, _OUTCOMES[result.verdict], str(result.verdict))
    remarks = (f"the claim is {ASSERTED}, nothing derives it", *result.remarks)
    return replace(judged, summary="; ".join((judged.summary, *remarks)))


def _attacked(box: BlackBox, seed: int, how: Mapping[str, Any]) -> AuditResult:
    functions = (box.function, *box.faults)
    subject, *faults = (_callable(box, one, (seed, i)) for i, one in enumerate(functions))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutOfReachWarning)  # the warning is among the remarks
        return audit(
            subject,
            claim=box.claim,
            pairs=box.pairs,
            faults=faults,
            seed=seed,
            vectorized=box.vectorized,
            rounded=box.rounded,
            progress=False,
            **how,
        )


def _callable(
    box: BlackBox, function: Callable[..., Any], seed: tuple[int, int]
) -> Callable[..., Any]:
    """Wrap a function in the form that an audit calls, under its name; a seeded function gets
    its generator.
    """
    generators: tuple[np.random.Generator, ...] = ()
    if box.seeded:  # no other stream of the audit is seeded by these words
        words = sha256(f"noise of a black box, {seed}".encode()).digest()
        generators = (np.random.default_rng(np.frombuffer(words, dtype=np.uint32)),)

    def called(*given: Any) -> Any:
        return function(*given, *generators)

    called.__name__ = name_of(function)
    return called


def entry_of(box: BlackBox) -> dict[str, Any]:
    """Build the ledger's entry: what is asserted of a black box, and what it is attacked with."""
    rounded = {} if box.rounded is None else {"rounded": str(box.rounded)}
    return {
        "guarantee": str(box.claim),
        "adjacency": str(box.pairs[0].adjacency),
        "function": name_of(box.function),
        "pairs": [pair.name for pair in box.pairs],
        "faults": [name_of(fault) for fault in box.faults],
        "status": ASSERTED,
        "source": box.source,
        **rounded,
    }


def explained(key: str, box: BlackBox) -> str:
    """Describe in text what is known of a black box's claim."""
    entry = entry_of(box)
    return "\n".join(
        (
            key,
            "",
            f"{entry['guarantee']} under {entry['adjacency']} [{ASSERTED}]",
            f"   by {box.source}; nothing here derives it. An audit can refute the claim, and "
            "cannot show it.",
            "",
            f"function: {entry['function']}, of audits/{key.partition(':')[0]}.py",
            f"attacked on: {'; '.join(entry['pairs'])}",
            f"planted faults, which break the claim: {'; '.join(entry['faults'])}",
        )
    )


def digest_of(module: ModuleType) -> str:
    """Hash the code that the audits of a file rest on outside of the suite's own trees.

    The digest is that of ``text_digest_of``, and installed packages count by their versions.
    """
    return sha256(f"{_installed()}\n{text_digest_of(module)}".encode()).hexdigest()


def text_digest_of(module: ModuleType) -> str:
    """Hash the text of the modules that a file imports at its top, and of what these import.

    What a function imports when it is called is not followed.
    """
    modules, waiting = dict[str, ModuleType](), [module]
    while waiting:
        one = waiting.pop()
        if one.__name__ not in modules and _is_theirs(one):
            modules[one.__name__] = one
            waiting += _named_in(one)
    digest = sha256()
    for name in sorted(set(modules) - {module.__name__}):
        digest.update(f"\n{name} ".encode() + sha256(_text(modules[name])).digest())
    return digest.hexdigest()


def _named_in(module: ModuleType) -> Iterator[ModuleType]:
    """Yield the modules that a module's names are, or come from, and those that its text imports.

    Neither set contains the other: a name may be bound by no import, and a number does not say
    where it is from.
    """
    for value in list(vars(module).values()):
        kind = value if isinstance(value, (type, FunctionType)) else type(value)
        one = value if isinstance(value, ModuleType) else sys.modules.get(str(kind.__module__))
        if one is not None:
            yield one
    for name in _imported_by(module):
        if name in sys.modules:
            yield sys.modules[name]


def _imported_by(module: ModuleType) -> Iterator[str]:
    """Yield the names in a module's text, imported outside of functions, that may be modules."""
    for node in imports_at_the_top(_text(module)):
        if isinstance(node, ast.Import):
            below, base = [alias.name for alias in node.names], ""
        else:
            base = "." * node.level + (node.module or "")
            base = resolve_name(base, module.__package__ or "") if node.level else base
            below = [f"{base}.{alias.name}" for alias in node.names]
        for name in (base, *below):
            parts = name.split(".")
            yield from (".".join(parts[: i + 1]) for i in range(len(parts)))


def _is_theirs(module: ModuleType) -> bool:
    """Return whether a module is user code: not of this package, not installed, not Python's
    own.
    """
    file = getattr(module, "__file__", None)
    top = module.__name__.partition(".")[0]
    return file is not None and top != "dpverify" and not _is_installed(file)


@cache
def _is_installed(file: str) -> bool:
    return str(Path(file).resolve()).startswith(_folders_of_installed())


@cache
def _folders_of_installed() -> tuple[str, ...]:
    """Return the folders of installed packages and of Python itself; ``sysconfig`` computes
    them anew each time.
    """
    kinds = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple(f"{Path(sysconfig.get_path(kind)).resolve()}/" for kind in kinds)


def _text(module: ModuleType) -> bytes:
    try:
        return Path(str(module.__file__)).read_bytes()
    except OSError:
        return b""


@cache
def _installed() -> str:
    versions = {f"{one.metadata['Name']} {one.version}" for one in distributions()}
    return " ".join(sorted(versions))
