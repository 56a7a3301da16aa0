"""Journals of accounts: lines in memory, or in a file from which no spend is lost.

A line is added in this order: lock the file, read all of it, check it, decide whether the line
may be added, write, sync, unlock. Only then is a record read. So the file may have a line without
an answer (its process was killed in between), but there is never an answer without its line.
Files must be on a local POSIX file system: over NFS and the like neither locks nor syncs promise
this. The file itself cannot tell whether it is a copy (two copies are two budgets), or an older
state that was put back while no process had it open; a process that has it open notices that.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

Line = dict[str, Any]
Decide = Callable[[list[Line]], Line]
_CHAIN = "chain"


class AccountError(RuntimeError):
    """A reason, of public facts only, why an account cannot be used or a request cannot be paid."""


class CorruptAccount(AccountError):
    """A file that no account has written in this form, or that has changed since."""


class Journal(ABC):
    """Lines in their order, none of which is ever changed or taken back; the first one is the
    header.
    """

    @abstractmethod
    def lines(self) -> list[Line]:
        """Read all lines."""

    @abstractmethod
    def add(self, decide: Decide) -> Line:
        """Add the line that ``decide`` makes of all lines so far; where it raises, nothing is
        added.
        """

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "An account is not copied or pickled: every copy would be a budget of its own."
        )


class InMemory(Journal):
    """Lines that live as long as this process, which alone may add to them."""

    def __init__(self, header: Line) -> None:
        self._lines = [header]
        self._mutex = threading.Lock()
        self._process = os.getpid()

    def lines(self) -> list[Line]:
        """Read all lines."""
        self._refuse_children()
        with self._mutex:
            return list(self._lines)

    def add(self, decide: Decide) -> Line:
        """Add the line that ``decide`` makes of all lines so far."""
        self._refuse_children()
        with self._mutex:
            line = decide(list(self._lines))
            self._lines.append(line)
            return line

    def _refuse_children(self) -> None:
        if os.getpid() != self._process:
            raise AccountError(
                "This account lives in the memory of the process that made it, and this is a child "
                "of that process: both could spend it. Give the account a path."
            )


class OnDisk(Journal):
    """Lines of JSON in a file, each with a digest of itself and of all before it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"account = {path!r:.80}; give the path of a file, a text.")
        self.path = Path(path).absolute()  # stays valid when the process changes its folder
        # Contents of the last reading.
        self._content, self._lines, self._chain = b"", list[Line](), ""

    @classmethod
    def start(cls, path: str | os.PathLike[str], header: Line) -> OnDisk:
        """Open the file, or make it with this header: whole and synced, or not at all."""
        made = cls(path)
        if not made.path.exists():
            made._make(header)
        return made.named()

    def named(self) -> OnDisk:
        """Sync the folder, so that the file keeps its name: its maker may not have done so yet."""
        if not self.path.parent.is_dir():
            raise AccountError(
                f"{self.path} cannot be opened (there is no such folder). Give the path of a file "
                "that a session wrote."
            )
        try:
            _sync_folder(self.path.parent)
        except OSError as error:
            raise AccountError(
                f"{self.path.parent} could not be synced ({error.strerror}): a crash might take "
                "the file's name, and what was spent with it. Give a path in a local folder that "
                "can be read and written."
            ) from None
        return self

    def lines(self) -> list[Line]:
        """Read all lines."""
        with self._locked() as file:
            return self._read(file)

    def add(self, decide: Decide) -> Line:
        """Add the line that ``decide`` makes of all lines so far, and sync it."""
        with self._locked() as file:
            before = self._read(file)
            line = decide(before)
            text = _text(line, self._chain)
            try:
                _write(file, text)
            except BaseException as error:
                with suppress(OSError):
                    os.ftruncate(file, len(self._content))
                if not isinstance(error, OSError):
                    raise
                raise AccountError(
                    f"{self.path} could not be written ({error.strerror}), so nothing was spent "
                    "and no record was read. Make room, then ask again."
                ) from None
            self._sync(file)
            self._check(self._content + text)
            return line

    @classmethod
    def mend(cls, path: str | os.PathLike[str]) -> str:
        """Finish or cut off a last line that a killed process left torn; say which, also in the
        file.

        No record was read for a torn line, because it was not synced. A line that lacks only its
        end of line is kept. Raises CorruptAccount where any other line is wrong.
        """
        journal = cls(path)
        with journal._locked() as file:
            content = _content(file)
            whole, _, torn = content.rpartition(b"\n")
            if not torn:
                return f"{path}: the last line is whole; nothing was changed."
            try:
                journal._check(content + b"\n")
            except CorruptAccount:
                journal._check(whole + b"\n")
                os.ftruncate(file, len(whole) + 1)
                line = {
                    "mended": f"cut off {len(torn)} bytes",
                    "digest": hashlib.sha256(torn).hexdigest(),
                }
                _write(file, _text(line, journal._chain))
                done = f"{path}: a torn last line was cut off; no record was read for it."
            else:
                _write(file, b"\n")
                done = f"{path}: the last line lacked its end; it was kept."
            journal._sync(file)
            return done

    def _make(self, header: Line) -> None:
        """Write the header to a temporary file in the same folder, then link it to the name,
        which fails if the name is taken.
        """
        folder = self.path.parent
        beside = folder / f".{self.path.name}.{os.getpid()}.{threading.get_ident()}.new"
        try:
            file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                _write(file, _text(header, ""))
                self._sync(file)
            finally:
                os.close(file)
            with suppress(FileExistsError):
                os.link(beside, self.path)
        except OSError as error:
            raise AccountError(
                f"{self.path} could not be made ({error.strerror}). Give a path in a local folder "
                "that can be written."
            ) from None
        finally:
            with suppress(OSError):
                os.unlink(beside)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Hold the file alone, against threads, forks and other processes, each of which opens it
        anew.
        """
        try:
            file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_NONBLOCK)
        except OSError as error:
            raise AccountError(
                f"{self.path} cannot be opened ({error.strerror}). Give the path of a file that a "
                "session wrote; Session(table, budget=..., account=path) begins one."
            ) from None
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise AccountError(f"{self.path} is no regular file, and cannot keep an account.")
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                self._refuse_another_file(file)
                yield file
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)
        finally:
            os.close(file)

    def _refuse_another_file(self, file: int) -> None:
        held = os.fstat(file)
        try:
            named = os.stat(self.path)
        except OSError:
            named = None
        if named is None or (named.st_dev, named.st_ino) != (held.st_dev, held.st_ino):
            raise CorruptAccount(f"{self.path} was replaced while it was being opened; ask again.")

    def _read(self, file: int) -> list[Line]:
        return self._check(_content(file))

    def _check(self, content: bytes) -> list[Line]:
        """Read lines, each of which must be as this module writes it and come after all that this
        process has seen.
        """
        known = content.startswith(self._content)  # then only the new part is checked
        lines, chain = (list(self._lines), self._chain) if known else (list[Line](), "")
        *new, torn = content[len(self._content) if known else 0 :].split(b"\n")
        for number, text in enumerate(new, len(lines) + 1):
            try:
                line = json.loads(text)
                del line[_CHAIN]
                if text + b"\n" != _text(line, chain):
                    raise ValueError
            except (ValueError, KeyError, TypeError, RecursionError):
                raise CorruptAccount(
                    f"{self.path}, line {number}: this is not what an account has written, or it "
                    "was changed since. What was spent is not known. Restore the file, or give "
                    "another path if this is no account."
                ) from None
            chain = _link(line, chain)
            lines.append(line)
        if torn:
            raise CorruptAccount(
                f"{self.path}: the last line is torn: a process ended while it wrote it, before a "
                f"record was read. Write Account.mend({str(self.path)!r}), which says in the file "
                "what it did."
            )
        if not lines:
            raise CorruptAccount(
                f"{self.path} is empty: an account has a first line. Restore the file, or give "
                "another path if this was no account."
            )
        if not known:
            raise CorruptAccount(
                f"{self.path} lacks lines that this process has seen in it: an older or another "
                "file was put in its place. Restore the file."
            )
        self._content, self._lines, self._chain = content, lines, chain
        return lines

    def _sync(self, file: int) -> None:
        try:
            os.fsync(file)
        except OSError as error:
            raise AccountError(
                f"{self.path} could not be synced ({error.strerror}): the line may count as spent, "
                "and no record was read."
            ) from None


def _sync_folder(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _content(file: int) -> bytes:
    with os.fdopen(os.dup(file), "rb") as reader:
        reader.seek(0)
        return reader.read()


def _write(file: int, text: bytes) -> None:
    while text:
        text = text[os.write(file, text) :]


def _link(line: Line, before: str) -> str:
    return hashlib.sha256(before.encode() + _plain(line)).hexdigest()


def _text(line: Line, before: str) -> bytes:
    return _plain({**line, _CHAIN: _link(line, before)}) + b"\n"


def _plain(line: Line) -> bytes:
    return json.dumps(line, sort_keys=True, ensure_ascii=True, separators=(",", ":")).encode()
