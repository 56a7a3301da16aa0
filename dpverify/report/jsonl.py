"""One JSON object a line, written as the events come: a stopped run leaves a readable file."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, TextIO

from dpverify.suite.events import Event, RunFinished, to_json


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


def _finite(value: Any) -> Any:
    """JSON has no infinities: they become the strings "inf" and "-inf"."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    return value
