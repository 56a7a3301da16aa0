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
    run_unit,
)
from dpverify.suite.resuming import key_of_unit
from dpverify.suite.times import Times
from dpverify.suite.trees import Entry, Suite, obligations_of

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
    units = [Unit("audit", key) for key in audited_keys(suite)]
    units += [Unit("exhibit", f"exhibits/{name}") for name in suite.exhibits]
    return [unit for unit in units if not names or _selects(names, unit.name)]


def prove_units(suite: Suite, names: Sequence[str]) -> list[Unit]:
    """Per mechanism: its obligations, those its lemmas name, exact profiles, the refinement.

    Without names also every other obligation in spec/theory.
    """
    units: list[Unit] = []
    if not names or SHARED_LOOPS in names:
        units.append(Unit("refinement", SHARED_LOOPS))
    for entry in suite.entries.values():
        keys = [key for key in suite.configurations if key.partition(":")[0] == entry.name]
        chosen = [key for key in keys if not names or _selects(names, key)]
        if not chosen:
            continue
        units += [Unit("obligation", f"{entry.name}:{o}") for o in obligations_of(entry.spec)]
        units += [Unit("profile", key) for key in chosen]
        for key in chosen:
            for lemma in suite.configurations[key].mechanism.derivation.lemmas:
                units.append(Unit("obligation", lemma.obligation.replace(".py:", ":")))
        units.append(Unit("refinement", entry.name))
    for stem, module in suite.theory.items():
        if not names or f"theory/{stem}" in names:
            units += [Unit("obligation", f"theory/{stem}:{o}") for o in obligations_of(module)]
    for stem, module in suite.transformations.items():
        if not names or stem in names:
            units += [Unit("obligation", f"{stem}:{o}") for o in obligations_of(module)]
    return list(dict.fromkeys(units))


def _selects(names: Sequence[str], key: str) -> bool:
    return any(key == name or key.startswith(f"{name}:") for name in names)


def selectable(suite: Suite) -> list[str]:
    """Every name a command takes: mechanisms, configurations, exhibits."""
    audited = [name for entry in suite.entries.values() for name in names_of(entry)]
    return [*dict.fromkeys(audited), *(f"exhibits/{name}" for name in suite.exhibits)]


def names_of(entry: Entry) -> Iterator[str]:
    """The mechanism, with each adjacency, and each of its audits."""
    yield entry.name
    for key in audited_keys(entry):
        yield ":".join(key.split(":")[:2])
        yield key


def provable(suite: Suite) -> list[str]:
    """Every name ``prove`` takes: mechanisms, configurations, modules of theory, shared loops."""
    theory = [f"theory/{stem}" for stem, module in suite.theory.items() if obligations_of(module)]
    elsewhere = [name for name in selectable(suite) if name.startswith("exhibits/")]
    elsewhere += [name for name in audited_keys(suite) if name not in suite.configurations]
    configured = [name for name in selectable(suite) if name not in elsewhere]
    return [*configured, *theory, *suite.transformations, SHARED_LOOPS]


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
    return lambda unit: known.get(key_of_unit(suite.root, unit, options)) if known else None


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
