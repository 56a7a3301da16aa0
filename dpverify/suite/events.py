"""The one typed stream of events that every command emits and every report consumes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from time import perf_counter
from typing import Any


class Outcome(Enum):
    """How a unit of work ended; each has its exit code."""

    HELD = "held"
    REFUTED = "refuted"
    POWERLESS = "powerless"
    INVALID = "invalid"

    def __str__(self) -> str:
        return self.value


EXIT_HELD, EXIT_REFUTED, EXIT_USAGE, EXIT_INVALID, EXIT_POWERLESS, EXIT_EMPTY = 0, 1, 2, 3, 4, 5
EXIT_INTERRUPTED = 130
# When several hold the first wins.
_PRECEDENCE = (
    (Outcome.INVALID, EXIT_INVALID),
    (Outcome.REFUTED, EXIT_REFUTED),
    (Outcome.POWERLESS, EXIT_POWERLESS),
)


@dataclass(frozen=True, slots=True)
class RunStarted:
    """Before the first unit. alpha: the false-alarm probability of everything the suite certifies.

    expected: seconds that units took last time, by kind and name, where that is known.
    """

    command: str
    version: str
    suite: str
    seed: int
    units: int
    alpha: float
    expected: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UnitFinished:
    """One unit of work. ``summary`` is one line; ``details`` are more; ``data`` is for machines."""

    kind: str
    name: str
    outcome: Outcome
    verdict: str
    summary: str
    details: tuple[str, ...] = ()
    replay: str = ""
    seconds: float = 0.0
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Judgment:
    """What a judge says of a unit."""

    outcome: Outcome
    verdict: str
    summary: str
    details: tuple[str, ...] = ()
    data: Mapping[str, Any] | None = None


def finished(
    kind: str, name: str, replay: str, judge: Callable[[], Judgment], *, asked: str = "measured"
) -> UnitFinished:
    """The unit as judged, timed. Whatever goes wrong inside is an INVALID outcome, never a silent pass."""
    start = perf_counter()
    try:
        found = judge()
    except Exception as error:
        message = f"could not be {asked}: {type(error).__name__}: {error}"
        found = Judgment(Outcome.INVALID, "INVALID", message)
    seconds = perf_counter() - start
    said = found.outcome, found.verdict, found.summary, found.details
    return UnitFinished(kind, name, *said, replay, seconds, found.data or {})


@dataclass(frozen=True, slots=True)
class RunFinished:
    """After the last unit, or after Ctrl-C (``interrupted``): the counts so far are valid."""

    exit_code: int
    counts: Mapping[str, int]
    seconds: float
    interrupted: bool


Event = RunStarted | UnitFinished | RunFinished
Consumer = Callable[[Event], None]

_NAMES = {RunStarted: "run-started", UnitFinished: "unit-finished", RunFinished: "run-finished"}


def to_json(event: Event) -> dict[str, Any]:
    """The event as plain data, with its kind under "event"."""
    plain = asdict(event)
    if isinstance(event, UnitFinished):
        plain["outcome"] = str(event.outcome)
    return {"event": _NAMES[type(event)], **plain}


def from_json(plain: Mapping[str, Any]) -> Event:
    """Read what ``to_json`` wrote; what a later version has added is left out. Raises ValueError for anything else."""
    made = {name: of for of, name in _NAMES.items()}.get(plain.get("event", ""))
    if made is None:
        raise ValueError("no event of this name")
    given = {one.name: plain[one.name] for one in fields(made) if one.name in plain}
    if made is UnitFinished:
        given["outcome"] = Outcome(given.get("outcome"))
        given["details"] = tuple(map(str, given.get("details", ())))
        given["summary"] = str(given.get("summary", ""))
        if not all(isinstance(given.get(name), str) for name in ("kind", "name", "verdict")):
            raise ValueError("a unit without kind, name or verdict")
        if not isinstance(given.get("data", {}), dict):
            raise ValueError("a unit whose data is no object")
    try:
        event: Event = made(**given)
    except TypeError as error:
        raise ValueError(str(error)) from None
    return event


def exit_code(outcomes: list[Outcome]) -> int:
    """One exit code for all units: invalid, refuted, powerless, nothing collected, held."""
    for outcome, code in _PRECEDENCE:
        if outcome in outcomes:
            return code
    return EXIT_HELD if outcomes else EXIT_EMPTY
