"""Readers of files of events that ``--jsonl`` wrote; anything else is refused with a clear
message.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dpverify.suite.events import Event, RunFinished, RunStarted, UnitFinished, from_json


class NotEvents(ValueError):
    """Refusal of a file that --jsonl did not write, or that was changed since; the message
    names file and line.
    """


@dataclass(frozen=True, slots=True)
class Stored:
    """Events of a file, in their order."""

    path: Path
    events: tuple[Event, ...]

    @property
    def started(self) -> list[RunStarted]:
        """Beginnings of runs; several, where files were put together."""
        return [event for event in self.events if isinstance(event, RunStarted)]

    @property
    def units(self) -> list[UnitFinished]:
        """Units that finished."""
        return [event for event in self.events if isinstance(event, UnitFinished)]

    @property
    def finished(self) -> list[RunFinished]:
        """Ends of runs; none of a run that was killed."""
        return [event for event in self.events if isinstance(event, RunFinished)]


def read(path: Path) -> Stored:
    """Read a file of events. Raises NotEvents; a last line that was cut off, as a killed run
    leaves it, is left out.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise NotEvents(f"{path} cannot be read: {error.strerror}.") from None
    return Stored(path, tuple(_events(path, content)))


def _events(path: Path, content: bytes) -> Iterator[Event]:
    lines = content.split(b"\n")
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, 1):
        try:
            plain = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines) > 1:
                return
            raise _foreign(path, number, error) from None
        try:
            yield from_json(plain)
        except ValueError as error:
            raise _foreign(path, number, error) from None


def _foreign(path: Path, number: int, error: Exception) -> NotEvents:
    said = str(error).splitlines()[0][:80] if str(error) else type(error).__name__
    return NotEvents(f"{path}:{number} is no event ({said}); give a file that --jsonl wrote.")
