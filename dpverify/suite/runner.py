"""Running units, here or in worker processes, and emitting one stream of events."""

from __future__ import annotations

import multiprocessing
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from time import perf_counter
from typing import Any, Protocol, TypeVar

import threadpoolctl

import dpverify
from dpverify.suite.events import (
    EXIT_INTERRUPTED,
    Consumer,
    Outcome,
    RunFinished,
    RunStarted,
    UnitFinished,
    exit_code,
)
from dpverify.suite.judges import (
    SHARED_LOOPS,
    TOTAL_ALPHA,
    Options,
    Unit,
    audited_keys,
    rests_on,
    run_unit,
)
from dpverify.suite.pieces import obligations_of
from dpverify.suite.resuming import key_of_unit
from dpverify.suite.times import Times
from dpverify.suite.trees import Entry, Suite, find_root, is_borrowed

PART = "rate-point"
"""The kind of what is only a piece of a unit, and is written down so that a run can be resumed."""


class Work(Protocol):
    """A unit of work, as plain data."""

    @property
    def kind(self) -> str:
        """Which judge it is for."""

    @property
    def name(self) -> str:
        """What it is about."""


AnyUnit = TypeVar("AnyUnit", bound=Work)
Contravariant = TypeVar("Contravariant", bound=Work, contravariant=True)


class Replays(Protocol[Contravariant]):
    """Options that know the command that does a unit again."""

    def replay(self, unit: Contravariant) -> str:
        """The command."""


def audit_units(suite: Suite, names: Sequence[str]) -> list[Unit]:
    """The configurations and exhibits that these names select; no names: all of them."""
    units = [Unit("audit", key) for key in (*audited_keys(suite), *suite.black_boxes)]
    units += [Unit("exhibit", f"exhibits/{name}") for name in suite.exhibits]
    return [unit for unit in units if not names or selects(names, unit.name)]


def prove_units(suite: Suite, names: Sequence[str]) -> list[Unit]:
    """Per mechanism: its obligations, those its lemmas name, exact profiles, the refinement.

    Without names also every other obligation in the suite's own spec/theory, and of this package's suite what all
    mechanisms share. Of what a suite borrows from this package only lemmas that it rests on are units.
    """
    units: list[Unit] = []
    if _is_ours(suite) and (not names or SHARED_LOOPS in names):
        units.append(Unit("refinement", SHARED_LOOPS))
    for entry in suite.entries.values():
        keys = [key for key in suite.configurations if key.partition(":")[0] == entry.name]
        chosen = [key for key in keys if not names or selects(names, key)]
        if not chosen:
            continue
        units += [Unit("obligation", f"{entry.name}:{o}") for o in obligations_of(entry.spec)]
        units += [Unit("profile", key) for key in chosen]
        for key in chosen:
            for lemma in suite.configurations[key].mechanism.derivation.lemmas:
                units.append(Unit("obligation", lemma.obligation.replace(".py:", ":")))
        units.append(Unit("refinement", entry.name))
    for path in _beside_mechanisms(suite):
        if not names or path in names:
            units += [Unit("obligation", f"{path}:{o}") for o in _obligations_in(suite, path)]
    return list(dict.fromkeys(units))


def _beside_mechanisms(suite: Suite) -> list[str]:
    """The suite's own files of theory, as "theory/queries", and of transformations."""
    paths = [*(f"theory/{stem}" for stem in suite.theory), *suite.transformations]
    return [path for path in paths if not is_borrowed(suite.root, f"{path}.py")]


def _obligations_in(suite: Suite, path: str) -> Iterable[str]:
    stem = path.removeprefix("theory/")
    return obligations_of((suite.transformations if stem == path else suite.theory)[stem])


def _is_ours(suite: Suite) -> bool:
    return suite.root == find_root()


def selects(names: Sequence[str], key: str) -> bool:
    """Whether one of these names is this key, or that of a mechanism or an adjacency before its colon."""
    return any(key == name or key.startswith(f"{name}:") for name in names)


def selectable(suite: Suite) -> list[str]:
    """Every name a command takes: mechanisms, configurations, exhibits."""
    audited = [name for entry in suite.entries.values() for name in names_of(entry)]
    audited += [name for file in suite.boxes for name in names_of_boxes(suite, file)]
    return [*dict.fromkeys(audited), *(f"exhibits/{name}" for name in suite.exhibits)]


def names_of(entry: Entry) -> Iterator[str]:
    """The mechanism, with each adjacency, and each of its audits."""
    return _names(entry.name, audited_keys(entry))


def names_of_boxes(suite: Suite, file: str) -> Iterator[str]:
    """The file, with each adjacency, and each of its black boxes."""
    return _names(file, suite.boxed(file))


def _names(name: str, keys: Iterable[str]) -> Iterator[str]:
    yield name
    for key in keys:
        yield ":".join(key.split(":")[:2])
        yield key


def provable(suite: Suite) -> list[str]:
    """Every name ``prove`` takes: mechanisms, configurations, the suite's own theory, of ours the shared loops."""
    configured = dict.fromkeys(
        name for entry in suite.entries.values() for name in _names(entry.name, entry.keyed)
    )
    beside = [path for path in _beside_mechanisms(suite) if [*_obligations_in(suite, path)]]
    return [*configured, *beside, *[SHARED_LOOPS] * _is_ours(suite)]


def run(
    command: str,
    suite: Suite,
    units: Sequence[Unit],
    options: Options,
    consumers: Sequence[Consumer],
    *,
    workers: int = 1,
    known: Mapping[str, UnitFinished] | None = None,
) -> int:
    """Do all units but the ``known`` ones, by key, and return the exit code. Ctrl-C ends the run with a valid
    partial report."""
    alpha = TOTAL_ALPHA if command == "audit" else 0.0
    about = command, dpverify.__version__, str(suite.root), options.seed, len(units), alpha
    started = RunStarted(*about, expected=Times().expected(units, options))
    finishing = results(units, options, run_unit, workers, known_in(suite, known or {}, options))
    return report(started, finishing, consumers)


def known_in(
    suite: Suite, known: Mapping[str, UnitFinished], options: Any
) -> Callable[[Any], UnitFinished | None]:
    """What an earlier run did of a unit, if it is among these, by key."""

    def find(unit: Any) -> UnitFinished | None:
        return known.get(key_of_unit(suite.root, unit, options, rests_on(suite, unit)))

    return find if known else lambda unit: None


def report(
    started: RunStarted, finishing: Iterable[UnitFinished], consumers: Sequence[Consumer]
) -> int:
    """Emit a run's events as its units finish, and return the exit code.

    A unit of kind PART is a piece of another one: it has no say in the exit code or the counts.
    """
    start, outcomes, interrupted = perf_counter(), list[Outcome](), False

    def emit(event: RunStarted | UnitFinished | RunFinished) -> None:
        for consumer in consumers:
            consumer(event)

    emit(started)
    try:
        for finished in finishing:
            if finished.kind != PART:
                outcomes.append(finished.outcome)
            emit(finished)
    except KeyboardInterrupt:
        interrupted = True
    code = EXIT_INTERRUPTED if interrupted else exit_code(outcomes)
    counts = Counter(str(outcome) for outcome in outcomes)
    emit(RunFinished(code, dict(counts), perf_counter() - start, interrupted))
    return code


def results(
    units: Sequence[AnyUnit],
    options: Replays[AnyUnit],
    do: Callable[[AnyUnit, Any], UnitFinished],
    workers: int,
    known: Callable[[AnyUnit], UnitFinished | None] = lambda unit: None,
) -> Iterator[UnitFinished]:
    """Do all units, here or in worker processes, after those that are known; ``do`` is a function that a module
    has by name. Workers begin with those that were slow last time, so that none of them waits at the end."""
    earlier = {unit: found for unit in units if (found := known(unit)) is not None}
    yield from earlier.values()
    units, times = [unit for unit in units if unit not in earlier], Times()
    doing = (
        (do(unit, options) for unit in units)
        if workers <= 1 or len(units) <= 1
        else _by_workers(times.slow_first(units, options), options, do, workers)
    )
    try:
        for found in doing:
            times.took(found)
            yield found
    finally:
        times.save()


def _by_workers(
    units: Sequence[AnyUnit],
    options: Replays[AnyUnit],
    do: Callable[[AnyUnit, Any], UnitFinished],
    workers: int,
) -> Iterator[UnitFinished]:
    """As they finish, in no order."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_set_up_worker)
    try:
        of = {pool.submit(do, unit, options): unit for unit in units}
        pending: set[Future[UnitFinished]] = set(of)
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                yield _finished(future, of[future], options)
    except KeyboardInterrupt:
        for process in list(pool._processes.values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _finished(
    future: Future[UnitFinished], unit: AnyUnit, options: Replays[AnyUnit]
) -> UnitFinished:
    """The unit's result; a worker that died (out of memory, killed) makes it INVALID."""
    try:
        return future.result()
    except BrokenProcessPool:
        summary = "the worker process died before it finished; try --workers 1"
        return UnitFinished(
            unit.kind,
            unit.name,
            Outcome.INVALID,
            "INVALID",
            summary,
            replay=options.replay(unit),
        )


def _set_up_worker() -> None:
    """The parent alone decides what Ctrl-C means, and each worker computes in one thread.

    Ctrl-C reaches the whole process group. Workers whose linear algebra takes all cores each slow one
    another down up to twentyfold.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threadpoolctl.threadpool_limits(1)
