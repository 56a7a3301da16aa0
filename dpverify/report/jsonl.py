"""One JSON object a line, written as the events come: a stopped run leaves a readable file, read back here."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, TextIO

from dpverify.suite.events import Event, RunFinished, from_json, to_json


class JsonLines:
    """A consumer that writes to a file; the file is closed after the last event."""

    def __init__(self, path: Path) -> None:
        self._file: TextIO = path.open("w", encoding="utf-8")

    def __call__(self, event: Event) -> None:
        """Take one event."""
        self._file.write(json.dumps(_finite(to_json(event)), allow_nan=False) + "\n")
        self._file.flush()
        if isinstance(event, RunFinished):
            self._file.close()


def events_in(path: Path) -> list[Event]:
    """Read a file that ``JsonLines`` wrote; a last line that was cut off is left out. Raises ValueError naming the
    first line that is no event, and OSError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no text; give a file that --jsonl wrote.") from None
    events = list[Event]()
    for number, line in enumerate(lines, 1):
        try:
            plain = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            if number == len(lines) > 1:
                break
            raise _foreign(path, number, error) from None
        try:
            events.append(from_json(plain))
        except (ValueError, AttributeError, TypeError) as error:
            raise _foreign(path, number, error) from None
    return events


def _foreign(path: Path, number: int, error: Exception) -> ValueError:
    return ValueError(f"{path}:{number} is no event ({error}); give a file that --jsonl wrote.")


def _finite(value: Any) -> Any:
    """JSON has no infinities: they become the strings "inf" and "-inf"."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    return value
