"""JSON lines: one object a line, written as the events come.

A stopped run leaves a readable file, which ``dpverify.suite`` reads back.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Collection
from pathlib import Path
from typing import Any

from dpverify.suite.events import Event, RunFinished, UnitFinished, to_json

try:
    import fcntl
except ImportError:  # not on Windows; there two runs are not kept out of one file
    fcntl = None  # type: ignore[assignment]


class InUse(OSError):
    """A file that another run is writing."""

    def __init__(self) -> None:
        super().__init__("another run is writing it")
        self.strerror = "another run is writing it"


class JsonLines:
    """A consumer that writes to a file, which no other run may write meanwhile.

    The file is closed after the last event. Lines that cannot be written, since the disk is
    full, say, are kept and tried again with each event.

    held: keys of results that the file has and that this run emits first. Until they are
    written, the run writes beside the file and leaves that as it is.
    """

    def __init__(self, path: Path, held: Collection[str] = ()) -> None:
        self._path, self._held = path, set(held)
        self._locked = _opened(path)
        self._beside = path.with_name(f"{path.name}.{os.getpid()}") if self._held else None
        self._file = self._locked if self._beside is None else _opened(self._beside)
        self._left, self._begun = b"", False

    def __call__(self, event: Event) -> None:
        """Take one event. Raises OSError where it, or one before it, cannot be written."""
        if (
            not self._begun
        ):  # a run that is refused before its first event leaves the file as it was
            self._begun = True
            if stat.S_ISREG(os.fstat(self._file).st_mode):
                os.ftruncate(self._file, 0)
        if self._beside is not None:
            self._look(event, self._beside)
        line = json.dumps(_finite(to_json(event)), allow_nan=False) + "\n"
        self._left += line.encode()
        self._write()
        if isinstance(event, RunFinished):
            if self._beside is not None:  # stopped before it had the results that the file has
                self._beside.unlink()
                os.close(self._locked)
            os.close(self._file)

    def _look(self, event: Event, beside: Path) -> None:
        """Put the file that was written beside in its place, as soon as it has all results that
        are held.
        """
        key = event.data.get("key") if isinstance(event, UnitFinished) else None
        ended = isinstance(event, RunFinished) and not event.interrupted
        if not self._held or ended or (key is not None and key not in self._held):
            self._write()
            os.replace(beside, self._path)
            os.close(self._locked)
            self._beside = None
        self._held.discard(key)

    def _write(self) -> None:
        while self._left:
            try:
                written = os.write(self._file, self._left)
            except BrokenPipeError:
                raise
            except OSError as error:
                message = f"{self._path} cannot be written: {error.strerror}"
                raise OSError(message) from None
            self._left = self._left[written:]


def _opened(path: Path) -> int:
    """Open a file and lock it; not a device or a pipe, which several runs may write.

    Raises InUse where another run has it, and OSError where it cannot be written.
    """
    file = os.open(path, os.O_WRONLY | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
    if fcntl is None or not stat.S_ISREG(os.fstat(file).st_mode):
        return file
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        raise InUse from None
    except OSError:
        pass  # a file system without locks
    return file


def _finite(value: Any) -> Any:
    """Replace infinities, which JSON has not, by the strings "inf" and "-inf"."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    return value
