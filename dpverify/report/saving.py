"""Files that appear at once and whole, or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path


def check_writable(path: Path) -> None:
    """Raise OSError now for a path that could not be written at the end of a run."""
    folder = path.resolve().parent
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    if path.exists() and not path.is_file():
        raise FileExistsError(errno.EEXIST, "it is no file, and would be replaced by one")
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, "its folder does not exist")
    if not os.access(folder, os.W_OK):
        raise PermissionError(errno.EACCES, "its folder cannot be written to")


def save(path: Path, text: str) -> None:
    """Replace the file by this text in one step, so that nobody reads a part of it.

    Raises OSError naming the file.
    """
    try:
        _replace(path.resolve(), text)  # a link stays a link
    except OSError as error:
        raise OSError(f"{path} cannot be written: {error.strerror}") from error


def _replace(path: Path, text: str) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _umask() -> int:
    """Return the process's mask, which can be read only by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
