"""Times that units took last time on this machine: slow ones begin first, and the time left is
known.

Kept in the user's cache, $XDG_CACHE_HOME or ~/.cache; where that cannot be read or written,
nothing is known.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from dpverify.suite.events import UnitFinished

AnyUnit = TypeVar("AnyUnit", bound=Any)


class Times:
    """Seconds that units took, by request; the seed is left out."""

    def __init__(self) -> None:
        """Load the times as the last run left them."""
        self._path = _path()
        self._known = _read(self._path)
        self._new = dict[str, float]()

    def slow_first(self, units: Sequence[AnyUnit], options: Any) -> list[AnyUnit]:
        """Sort the units, slow ones first; those of unknown time come before all others, in
        their order.
        """
        return sorted(
            units, key=lambda unit: -self._known.get(_asked(unit, options.replay(unit)), math.inf)
        )

    def expected(self, units: Sequence[Any], options: Any) -> dict[str, float]:
        """Return the times of those units of which something is known, by kind and name."""
        asked = {f"{one.kind} {one.name}": _asked(one, options.replay(one)) for one in units}
        return {name: self._known[one] for name, one in asked.items() if one in self._known}

    def took(self, done: UnitFinished) -> None:
        """Remember a unit's time, until ``save``."""
        self._new[_asked(done, done.replay)] = round(done.seconds, 2)

    def save(self) -> None:
        """Write the times together with those that other runs have written meanwhile; at once
        or not at all.
        """
        if not self._new:
            return
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps({**_read(self._path), **self._new}, indent=0, sort_keys=True)
            written = self._path.with_name(f"{self._path.name}.{os.getpid()}")
            written.write_text(text, encoding="utf-8")
            written.replace(self._path)


def _asked(unit: Any, replay: str) -> str:
    return f"{unit.kind} {unit.name}: {re.sub(r' --seed [0-9]+', '', replay)}"


def _path() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "dpverify" / "times.json"


def _read(path: Path) -> dict[str, float]:
    """Return the recorded times; nothing if there is no such file, or another one."""
    try:
        times: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(times, Mapping):
        return {}
    return {str(k): float(v) for k, v in times.items() if isinstance(v, (int, float)) and v >= 0}
