"""Typed stream of events that every command emits and every report consumes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from enum import Enum
from time import perf_counter
from typing import Any


class Outcome(Enum):
    """Outcome of a unit of work; each outcome has its exit code."""

    HELD = "held"
    REFUTED = "refuted"
    POWERLESS = "powerless"
    INVALID = "invalid"

    def __str__(self) -> str:
        return self.value


EXIT_HELD, EXIT_REFUTED, EXIT_USAGE, EXIT_INVALID, EXIT_POWERLESS, EXIT_EMPTY = 0, 1, 2, 3, 4, 5
EXIT_INTERRUPTED, EXIT_TERMINATED = 130, 143
# When several hold, the first wins.
_PRECEDENCE = (
    (Outcome.INVALID, EXIT_INVALID),
    (Outcome.REFUTED, EXIT_REFUTED),
    (Outcome.POWERLESS, EXIT_POWERLESS),
)


@dataclass(frozen=True, slots=True)
class RunStarted:
    """Event before the first unit. alpha: the false-alarm probability of everything the suite
    certifies.

    expected: seconds that units took last time, by kind and name, where that is known. shard:
    which of how many this run is, "2/8". planned: every unit of all shards, by kind and name.
    code: digest of the package and of the suite. asked: options that decide results, beside the
    seed.
    """

    command: str
    version: str
    suite: str
    seed: int
    units: int
    alpha: float
    expected: Mapping[str, float] = field(default_factory=dict)
    shard: str = "1/1"
    planned: tuple[str, ...] = ()
    code: str = ""
    asked: Mapping[str, Any] = field(default_factory=dict)


def units_of(number: int) -> str:
    """Return a number of units in words."""
    return f"{number} unit" if number == 1 else f"{number} units"


@dataclass(frozen=True, slots=True)
class UnitFinished:
    """Event of one finished unit of work. ``summary`` is one line; ``details`` are more;
    ``data`` is for machines.
    """

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
    """A judge's verdict on a unit, with its lines for people and its data."""

    outcome: Outcome
    verdict: str
    summary: str
    details: tuple[str, ...] = ()
    data: Mapping[str, Any] | None = None


def finished(
    kind: str, name: str, replay: str, judge: Callable[[], Judgment], *, asked: str = "measured"
) -> UnitFinished:
    """Return the unit as judged, timed. Whatever goes wrong inside is an INVALID outcome, never
    a silent pass.
    """
    start = perf_counter()
    try:
        judgment = judge()
    except Exception as error:
        message = f"could not be {asked}: {type(error).__name__}: {error}"
        judgment = Judgment(Outcome.INVALID, "INVALID", message)
    seconds = perf_counter() - start
    said = judgment.outcome, judgment.verdict, judgment.summary, judgment.details
    return UnitFinished(kind, name, *said, replay, seconds, judgment.data or {})


@dataclass(frozen=True, slots=True)
class RunFinished:
    """Event after the last unit, or where a run was stopped (``interrupted``): the counts so
    far are valid.

    ending: why it was stopped, where the exit code does not say so.
    """

    exit_code: int
    counts: Mapping[str, int]
    seconds: float
    interrupted: bool
    ending: str = ""


Event = RunStarted | UnitFinished | RunFinished
Consumer = Callable[[Event], None]

_NAMES = {RunStarted: "run-started", UnitFinished: "unit-finished", RunFinished: "run-finished"}


def to_json(event: Event) -> dict[str, Any]:
    """Return the event as plain data, with its kind under "event"."""
    plain = asdict(event)
    if isinstance(event, UnitFinished):
        plain["outcome"] = str(event.outcome)
    return {"event": _NAMES[type(event)], **plain}


_READ: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "Outcome": (Outcome,),
    "tuple[str, ...]": (tuple,),
    "Mapping[str, Any]": (dict,),
    "Mapping[str, int]": (dict,),
    "Mapping[str, float]": (dict,),
}
"""Types by the annotation of an event's field, to read it back from JSON."""
_MAY_BE_MISSING = ("summary",)


def from_json(plain: Any) -> Event:
    """Read what ``to_json`` wrote; fields that a later version has added are left out. Raises
    ValueError for anything else.
    """
    name = plain.get("event") if isinstance(plain, dict) else None
    made = {name: of for of, name in _NAMES.items()}.get(name if isinstance(name, str) else "")
    if made is None:
        raise ValueError("no event of this name")
    given = {}
    for one in fields(made):
        if one.name in plain:
            given[one.name] = _read_back(one.name, str(one.type), plain[one.name])
        elif one.name in _MAY_BE_MISSING:
            given[one.name] = ""
        elif one.default is MISSING and one.default_factory is MISSING:
            raise ValueError(f"it has no {one.name!r}")
    event: Event = made(**given)
    return event


def _read_back(name: str, annotation: str, value: Any) -> Any:
    if annotation == "Outcome":
        value = Outcome(value)
    elif annotation.startswith("tuple") and isinstance(value, list):
        value = tuple(map(str, value))
    kinds = _READ[annotation]
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise ValueError(f"its {name!r} is a {type(value).__name__}")
    if annotation == "float" and isinstance(value, int) and abs(value) > sys.float_info.max:
        raise ValueError(f"its {name!r} is beyond all floats")
    return value


def exit_code(outcomes: list[Outcome]) -> int:
    """Return one exit code for all units: invalid, refuted, powerless, nothing collected, held."""
    for outcome, code in _PRECEDENCE:
        if outcome in outcomes:
            return code
    return EXIT_HELD if outcomes else EXIT_EMPTY
