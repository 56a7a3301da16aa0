"""The one typed stream of events that every command emits and every report consumes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
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
    """Before the first unit. alpha: the false-alarm probability of everything the suite certifies."""

    command: str
    version: str
    suite: str
    seed: int
    units: int
    alpha: float


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
    data: dict[str, Any] | None = None


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


def exit_code(outcomes: list[Outcome]) -> int:
    """One exit code for all units: invalid, refuted, powerless, nothing collected, held."""
    for outcome, code in _PRECEDENCE:
        if outcome in outcomes:
            return code
    return EXIT_HELD if outcomes else EXIT_EMPTY
