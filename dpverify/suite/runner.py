"""Runs: units are chosen, done by an engine, and emitted as one stream of events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from dpverify.suite.engines import Engine
from dpverify.suite.entries import Entry
from dpverify.suite.events import Consumer, UnitFinished
from dpverify.suite.judges import (
    SHARED_LOOPS,
    TOTAL_ALPHA,
    Options,
    Unit,
    audited_keys,
    rests_on,
    run_unit,
    traced_keys,
)
from dpverify.suite.large import unit_results
from dpverify.suite.pieces import obligations_of
from dpverify.suite.reporting import report, started_by
from dpverify.suite.resuming import key_of_unit
from dpverify.suite.sharding import WHOLE, Shard
from dpverify.suite.trees import Suite, find_root, is_borrowed


def audit_units(suite: Suite, names: Sequence[str]) -> list[Unit]:
    """List the configurations and exhibits that these names select; no names: all of them."""
    units = [Unit("audit", key) for key in (*audited_keys(suite), *suite.black_boxes)]
    units += [Unit("tracing", key) for key in traced_keys(suite)]
    units += [Unit("exhibit", f"exhibits/{name}") for name in suite.exhibits]
    return [unit for unit in units if not names or selects(names, unit.name)]


def prove_units(suite: Suite, names: Sequence[str]) -> list[Unit]:
    """List, per mechanism, its obligations, those that its lemmas name, exact profiles, and the
    refinement.

    Without names the list has also every other obligation in the suite's own spec/theory and,
    for this package's suite, the parts that all mechanisms share. From the parts that a suite
    borrows from this package, only lemmas on which it rests are units.
    """
    units: list[Unit] = []
    if _is_ours(suite) and (not names or SHARED_LOOPS in names):
        units.append(Unit("refinement", SHARED_LOOPS))
    for entry in _asked(suite, names):
        chosen = [key for key in entry.keyed if not names or selects(names, key)]
        if not chosen:
            continue
        units += [Unit("obligation", f"{entry.name}:{o}") for o in obligations_of(entry.spec)]
        units += [Unit("profile", key) for key in chosen]
        for key in chosen:
            for lemma in entry.keyed[key].mechanism.derivation.lemmas:
                units.append(Unit("obligation", lemma.obligation.replace(".py:", ":")))
        units.append(Unit("refinement", entry.name))
    for path in _beside_mechanisms(suite):
        if not names or path in names:
            units += [Unit("obligation", f"{path}:{o}") for o in _obligations_in(suite, path)]
    return list(dict.fromkeys(units))


def _asked(suite: Suite, names: Sequence[str]) -> list[Entry]:
    """List the mechanisms that names are about, and load no other; no names: all of them."""
    files = {name.partition(":")[0] for name in names} if names else {*suite.entries}
    return [suite.entries[name] for name in suite.entries if name in files]


def _beside_mechanisms(suite: Suite) -> list[str]:
    """List the suite's own files of theory, as "theory/queries", and of transformations."""
    paths = [*(f"theory/{stem}" for stem in suite.theory), *suite.transformations]
    return [path for path in paths if not is_borrowed(suite.root, f"{path}.py")]


def _obligations_in(suite: Suite, path: str) -> Iterable[str]:
    stem = path.removeprefix("theory/")
    return obligations_of((suite.transformations if stem == path else suite.theory)[stem])


def _is_ours(suite: Suite) -> bool:
    return suite.root == find_root()


def selects(names: Sequence[str], key: str) -> bool:
    """Return whether one of these names is this key, or that of a mechanism or an adjacency
    before its colon.
    """
    return any(key == name or key.startswith(f"{name}:") for name in names)


def selectable(suite: Suite) -> list[str]:
    """List every name that a command takes: mechanisms, configurations, exhibits."""
    audited = [name for entry in suite.entries.values() for name in names_of(entry)]
    audited += [name for file, _ in suite.boxes.items() for name in names_of_boxes(suite, file)]
    return [*dict.fromkeys(audited), *(f"exhibits/{name}" for name in suite.exhibits)]


def names_of(entry: Entry) -> Iterator[str]:
    """Yield the mechanism, with each adjacency, and each of its audits."""
    return _names(entry.name, [*audited_keys(entry), *traced_keys(entry)])


def names_of_boxes(suite: Suite, file: str) -> Iterator[str]:
    """Yield the file, with each adjacency, and each of its black boxes."""
    return _names(file, suite.boxed(file))


def _names(name: str, keys: Iterable[str]) -> Iterator[str]:
    yield name
    for key in keys:
        yield ":".join(key.split(":")[:2])
        yield key


def provable(suite: Suite, names: Sequence[str] = ()) -> list[str]:
    """List every name that ``prove`` takes: mechanisms, configurations, the suite's own theory,
    of ours the shared loops.

    names: of mechanisms and configurations list only those about these mechanisms.
    """
    configured = dict.fromkeys(
        name for entry in _asked(suite, names) for name in _names(entry.name, entry.keyed)
    )
    beside = [path for path in _beside_mechanisms(suite) if [*_obligations_in(suite, path)]]
    return [*configured, *beside, *[SHARED_LOOPS] * _is_ours(suite)]


def run(
    command: str,
    suite: Suite,
    units: Sequence[Unit],
    options: Options,
    consumers: Sequence[Consumer],
    engine: Engine,
    *,
    known: Mapping[str, UnitFinished] | None = None,
    shard: Shard = WHOLE,
) -> int:
    """Do the shard's units but the ``known`` ones, by key, and return the exit code. A run that
    is stopped leaves a valid partial report.
    """
    alpha, own = TOTAL_ALPHA if command == "audit" else 0.0, shard.of(units)
    started = started_by(command, suite, units, options, alpha, shard)
    earlier = known_in(suite, known or {}, options)
    return report(started, unit_results(suite, own, options, run_unit, engine, earlier), consumers)


def known_in(
    suite: Suite, known: Mapping[str, UnitFinished], options: Any
) -> Callable[[Any], UnitFinished | None]:
    """Return a function that gives an earlier run's result of a unit, if it is among these, by
    key.
    """

    def find(unit: Any) -> UnitFinished | None:
        return known.get(key_of_unit(suite.root, unit, options, rests_on(suite, unit.name)))

    return find if known else lambda unit: None
