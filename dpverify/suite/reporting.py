"""Emission of a run's events to its reports, to the end of the run, however it ends."""

from __future__ import annotations

import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from time import perf_counter
from typing import Any

import dpverify
from dpverify.suite.engines import Unfinished, Work
from dpverify.suite.events import (
    EXIT_INTERRUPTED,
    EXIT_TERMINATED,
    Consumer,
    Event,
    Outcome,
    RunFinished,
    RunStarted,
    UnitFinished,
    exit_code,
)
from dpverify.suite.judges import code_behind
from dpverify.suite.sharding import WHOLE, Shard
from dpverify.suite.times import Times
from dpverify.suite.trees import Suite

PART = "rate-point"
"""Kind of a unit that is only a piece of another one, and is written down so that a run can be
resumed.
"""


def started_by(
    command: str,
    suite: Suite,
    units: Sequence[Work],
    options: Any,
    alpha: float,
    shard: Shard = WHOLE,
    *,
    reported: int | None = None,
    names: Sequence[str] | None = None,
) -> RunStarted:
    """Return the first event of a run.

    units: those of all shards. reported: the number of results that the run shows, if not one
    for each unit. names: the selected names, where they decide more than the units.
    """
    asked = {key: value for key, value in asdict(options).items() if key not in ("suite", "seed")}
    if names is not None:
        asked["names"] = list(names)
    own = shard.of(units)
    return RunStarted(
        command,
        dpverify.__version__,
        str(suite.root),
        options.seed,
        len(own) if reported is None else reported,
        alpha,
        expected=Times().expected(own, options) if reported is None else {},
        shard=str(shard),
        planned=tuple(f"{unit.kind} {unit.name}" for unit in units),
        code=code_behind(suite),
        asked=asked,
    )


class Terminated(KeyboardInterrupt):
    """Arrival of SIGTERM: the run ends as after Ctrl-C, with an exit code of its own."""


class ReportFailed(OSError):
    """Failure to write a report to the end; the message says which, and what to do."""


def report(
    started: RunStarted, finishing: Iterable[UnitFinished], consumers: Sequence[Consumer]
) -> int:
    """Emit a run's events as its units finish, and return the exit code.

    A unit of kind PART is a piece of another one. It does not count for the exit code or the
    counts, except in a shard, which judges nothing. A consumer that cannot write does not end
    the run; raises ReportFailed at the end if it still cannot.
    """
    start, outcomes, emit = perf_counter(), list[Outcome](), _Emitting(consumers)
    stopped: tuple[int, str] | None = None
    with _Stopping() as stopping:
        try:
            with stopping.held_back():
                emit(started)
            for finished in finishing:
                if finished.kind != PART or started.shard != str(WHOLE):
                    outcomes.append(finished.outcome)
                with stopping.held_back():
                    emit(finished)
        except Terminated:
            stopped = EXIT_TERMINATED, "Stopped by SIGTERM; what is above is valid."
        except KeyboardInterrupt:
            stopped = EXIT_INTERRUPTED, ""
        except Unfinished as lost:
            code = exit_code([*outcomes, Outcome.POWERLESS])
            stopped = code, f"Not everything was done: {lost}; what is above is valid."
        with stopping.held_back():
            nothing_to_do = bool(started.planned) and started.units == 0
            code = exit_code(outcomes or [Outcome.HELD] * nothing_to_do)
            code, ending = stopped or (code, "")
            counts = dict(Counter(str(outcome) for outcome in outcomes))
            seconds = perf_counter() - start
            emit(RunFinished(code, counts, seconds, stopped is not None, ending))
    emit.require_written()
    return code


class _Emitting:
    """All consumers. One that cannot write still gets the later events, and may have kept what
    it could not write.
    """

    def __init__(self, consumers: Sequence[Consumer]) -> None:
        self._consumers = consumers
        self._failing = dict[int, OSError]()

    def __call__(self, event: Event) -> None:
        for place, consumer in enumerate(self._consumers):
            try:
                consumer(event)
            except BrokenPipeError:
                raise
            except OSError as error:
                if place not in self._failing:
                    print(f"dpverify: {error}; the run goes on", file=sys.stderr)
                self._failing[place] = error
            else:
                self._failing.pop(place, None)

    def require_written(self) -> None:
        """Raise ReportFailed for a consumer that could not take the last event."""
        for error in self._failing.values():
            raise ReportFailed(
                f"{error}: that report is not complete; free space, and run it again, with "
                "--resume FILE where there is a file of events."
            )


class _Stopping:
    """Ctrl-C and SIGTERM while a run is reported: they raise exceptions, but never in the
    middle of an event.

    Outside of the main thread, and where Ctrl-C is ignored as in a shell's background job,
    nothing is changed.
    """

    def __init__(self) -> None:
        self._came: type[KeyboardInterrupt] | None = None
        self._held = False
        self._before = dict[int, Any]()

    def __enter__(self) -> _Stopping:
        if threading.current_thread() is threading.main_thread():
            self._before[signal.SIGTERM] = signal.signal(signal.SIGTERM, self._take)
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                self._before[signal.SIGINT] = signal.signal(signal.SIGINT, self._take)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _take(self, number: int, frame: object) -> None:
        self._came = Terminated if number == signal.SIGTERM else KeyboardInterrupt
        if not self._held:
            raise self._came

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Delay what arrives within the block, and raise it at the block's end."""
        self._held, self._came = True, None
        try:
            yield
        finally:
            self._held = False
        if self._came is not None:
            raise self._came
