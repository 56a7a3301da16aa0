"""Map from items of papers to the code that states them, generated from the code."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import ModuleType

from dpverify import transformations
from dpverify.privacy import Source, SourceStatus, guarantees, rules, sources_of
from dpverify.randomness import samplers
from dpverify.suite.trees import Suite, find_root


@dataclass(frozen=True, slots=True)
class Statement:
    """One item of one paper, its status, and every place that states it."""

    paper: str
    item: str
    status: SourceStatus
    note: str
    places: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NumberedItem:
    """One numbered item of a paper that this project implements, as ``numbered_items.toml``
    lists it.

    stated_as: "" if code states the item; else the item under which it is stated, of this paper
    or "KEY, item". why: the reason why the item is not stated, in place of ``stated_as``.
    """

    paper: str
    item: str
    stated_as: str
    why: str


@cache
def numbered_items() -> tuple[NumberedItem, ...]:
    """Return every numbered item of the implemented papers, in the papers' order."""
    text = (files("dpverify.suite") / "numbered_items.toml").read_text(encoding="utf-8")
    return tuple(
        NumberedItem(paper, item, entry.get("as", ""), entry.get("why", ""))
        for paper, items in tomllib.loads(text).items()
        for item, entry in items.items()
    )


@cache
def theorems() -> dict[str, tuple[str, ...]]:
    """Return, for each rule, the theorems that Coq has checked and that are tied to it; a rule
    that is missing rests on prose.

    ``theorems.toml`` is written from the ties, in the checkout's tests.
    """
    text = (files("dpverify.suite") / "theorems.toml").read_text(encoding="utf-8")
    return {rule: tuple(names) for rule, names in tomllib.loads(text).items()}


IN_PROSE = frozenset(
    {
        ("BS16", "composition of zCDP"),
        ("OURS", "AboveThreshold of queries that move one way has a bounded range"),
    }
)
"""Items of rules that have theorems, none of which is about this item."""


def proof_at(place: str, paper: str, item: str) -> str:
    """Name the theorems of a kernel's rule that Coq has checked, or say that an item that the
    rule states is proved in prose; "" for any other place.
    """
    path, _, name = place.rpartition(":")
    if not path.startswith("dpverify/privacy/rules/"):
        return ""
    names = () if (paper, item) in IN_PROSE else theorems().get(name)
    return f"in Coq: {', '.join(names)}; the rest in prose" if names else "proved in prose"


def missing_items(stated: Sequence[Statement]) -> list[str]:
    """List numbered items that are neither stated nor explained, and statements of items that
    no paper has.
    """
    listed = {(item.paper, item.item) for item in numbered_items()}
    missing = []
    for item in numbered_items():
        if item.why and item.stated_as:
            missing.append(f"{item.paper}, {item.item} is stated elsewhere and is not stated")
        elif not item.why and not _stated_by(item, stated):
            missing.append(
                f"{item.paper}, {item.item} is stated nowhere ({item.stated_as or 'no alias'})"
            )
    for statement in stated:
        number = _NUMBER.match(statement.item)
        implemented = statement.paper in {paper for paper, _ in listed}
        if number and implemented and (statement.paper, number[0]) not in listed:
            missing.append(f"{statement.paper}, {statement.item}: the paper has no {number[0]}")
    return missing


_NUMBER = re.compile(
    r"(Theorem|Lemma|Proposition|Corollary|Definition|Algorithm|Remark|Fact) [\w.]+\b"
)


def _stated_by(item: NumberedItem, stated: Sequence[Statement]) -> bool:
    """Return whether a statement begins with the item, or with the item under which it is
    stated.
    """
    paper, begins = item.paper, item.stated_as or item.item
    key, _, rest = begins.partition(", ")
    if item.stated_as and rest and key in {statement.paper for statement in stated}:
        paper, begins = key, rest
    pattern = re.compile(rf"{re.escape(begins)}(?![\w.]*\w)")
    return any(s.paper == paper and pattern.match(s.item) for s in stated)


def statements(suite: Suite) -> list[Statement]:
    """List every item marked with ``states`` in the rules and in spec/, and every exhibit, by
    paper.

    An item's status is the worst that any place gives it.
    """
    sources = [*_in_package(guarantees), *_in_package(rules), *_in_package(transformations)]
    sources += _in_module(samplers, "dpverify/randomness/samplers.py")
    for entry in suite.entries.values():
        sources += _in_module(entry.spec, f"spec/{entry.name}.py")
    for stem, module in suite.transformations.items():
        sources += _in_module(module, f"spec/{stem}.py")
    for stem, module in suite.theory.items():
        sources += _in_module(module, f"spec/theory/{stem}.py")
    for name, exhibit in suite.exhibits.items():
        sources.append((exhibit.claim.source, f"audits/exhibits/{name}.py"))
    items: dict[tuple[str, str], list[tuple[Source, str]]] = defaultdict(list)
    for source, where in sources:
        items[source.paper, source.item].append((source, where))
    return [_statement(items[key]) for key in sorted(items)]


def _statement(stated: list[tuple[Source, str]]) -> Statement:
    order = list(SourceStatus)
    worst = max((source.status for source, _ in stated), key=order.index)
    notes = dict.fromkeys(source.note for source, _ in stated if source.note)
    places = dict.fromkeys(where for _, where in stated)
    first = stated[0][0]
    return Statement(first.paper, first.item, worst, "; ".join(notes), tuple(places))


def unsourced(suite: Suite) -> list[str]:
    """List laws and bounds that name no source: there should be none. Our own suite has to have
    bounds for every mechanism; another suite need not.
    """
    missing, has_all = [], suite.root == find_root()
    for entry in suite.entries.values():
        for name in ("law", "error_bound", "lower_bound"):
            item = getattr(entry.spec, name, None)
            if has_all if item is None else not sources_of(item):
                missing.append(f"spec/{entry.name}.py:{name}")
    return missing


def _in_package(package: ModuleType) -> Iterator[tuple[Source, str]]:
    """Yield the sources that a package exports, at the module that defines them."""
    for name in package.__all__:
        item = getattr(package, name)
        path = f"{item.__module__.replace('.', '/')}.py" if hasattr(item, "__module__") else ""
        for source in sources_of(item):
            yield source, f"{path}:{name}"


def _in_module(module: ModuleType, path: str) -> Iterator[tuple[Source, str]]:
    for name, item in vars(module).items():
        if inspect.getmodule(item) is module:
            for source in sources_of(item):
                yield source, f"{path}:{name}"
