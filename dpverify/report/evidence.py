"""The evidence consumer: a file for every violation, with its witness, to be checked by others."""

from __future__ import annotations

import json
import re
from pathlib import Path

from dpverify.suite.events import Event, UnitFinished


class Evidence:
    """A consumer that writes FOLDER/NAME.json for each unit with a witness.

    It makes the folder at once. A file that cannot be written is kept and tried again with each
    event.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._left = dict[Path, str]()
        folder.mkdir(parents=True, exist_ok=True)

    def __call__(self, event: Event) -> None:
        """Take one event."""
        witness = event.data.get("witness") if isinstance(event, UnitFinished) else None
        if isinstance(event, UnitFinished) and witness is not None:
            name = re.sub(r"[^\w.-]+", "-", event.name)
            text = json.dumps(witness, sort_keys=True)
            self._left[self._folder / f"{name}.json"] = text + "\n"
        for path, text in list(self._left.items()):
            path.write_text(text, encoding="utf-8")
            del self._left[path]
