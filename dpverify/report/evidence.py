"""A file for every violation: its witness, to be checked by others."""

from __future__ import annotations

import json
import re
from pathlib import Path

from dpverify.suite.events import Event, UnitFinished


class Evidence:
    """A consumer that writes FOLDER/NAME.json for each unit with a witness; makes the folder at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def __call__(self, event: Event) -> None:
        """Take one event."""
        witness = event.data.get("witness") if isinstance(event, UnitFinished) else None
        if isinstance(event, UnitFinished) and witness is not None:
            name = re.sub(r"[^\w.-]+", "-", event.name)
            text = json.dumps(witness, sort_keys=True)
            (self._folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
