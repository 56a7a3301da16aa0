"""Engines: places where the units of a run are done, each with the same results bit for bit.

A unit is plain data, its seed follows from the run's seed and its name, and every engine
computes in one thread, so an engine decides only when a unit is done. ``serial`` does units
here, ``processes`` in worker processes of this machine, and ``cluster`` on a Dask cluster.
``concurrent.futures`` and the cluster's scheduler choose which unit goes where.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Protocol, TypeVar

from dpverify.suite.events import Outcome, UnitFinished

ATTEMPTS = 3
"""Workers that a unit may kill before it counts as INVALID."""


class Work(Protocol):
    """A unit of work, as plain data."""

    @property
    def kind(self) -> str:
        """Judge that the unit is for."""

    @property
    def name(self) -> str:
        """Subject of the unit."""


AnyUnit = TypeVar("AnyUnit", bound=Work)
Contravariant = TypeVar("Contravariant", bound=Work, contravariant=True)
AnyEngine = TypeVar("AnyEngine", bound="Engine")


class Replays(Protocol[Contravariant]):
    """Options that know the command that does a unit again."""

    def replay(self, unit: Contravariant) -> str:
        """Return the command."""


class Unfinished(Exception):
    """Failure to do all units, for example because the workers are gone; the message names the
    cause.
    """


class EngineRefused(ValueError):
    """Refusal of an engine that is not available; the message says why, and what to do."""


class Engine(Protocol):
    """Place where units are done. It is closed at the end of a command, not at the end of each
    run.
    """

    @property
    def workers(self) -> int:
        """Number of units done at a time."""

    def run(
        self,
        units: Sequence[AnyUnit],
        do: Callable[[AnyUnit, Any], UnitFinished],
        options: Replays[AnyUnit],
    ) -> Iterator[UnitFinished]:
        """Do all units, begun in this order, and yield each result as soon as it is there.

        ``do`` is a function of a module, since other processes look it up by name. A unit that
        kills its worker ATTEMPTS times is INVALID. Raises Unfinished if no worker is left.
        """

    def __enter__(self: AnyEngine) -> AnyEngine:
        """Return the engine."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Give up what is not done, and end what the engine started."""


def failed(unit: AnyUnit, options: Replays[AnyUnit], reason: str) -> UnitFinished:
    """Return the INVALID result of a unit that no worker finished."""
    said = Outcome.INVALID, "INVALID", reason
    return UnitFinished(unit.kind, unit.name, *said, replay=options.replay(unit))


def killed(unit: AnyUnit, options: Replays[AnyUnit], hint: str) -> UnitFinished:
    """Return the INVALID result of a unit whose workers died, out of memory or by a crash."""
    reason = f"every worker that it was given to died before it finished (out of memory?); {hint}"
    return failed(unit, options, reason)


def crashed(unit: AnyUnit, options: Replays[AnyUnit], error: BaseException) -> UnitFinished:
    """Return the INVALID result of a unit that raised outside of its judge."""
    return failed(unit, options, f"could not be done: {type(error).__name__}: {error}")
