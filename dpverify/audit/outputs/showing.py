"""Texts that stand for outputs: equal ones have equal texts, without addresses, safe to print."""

from __future__ import annotations

import re
import zlib
from collections.abc import Hashable
from typing import Any

import numpy as np

EXCEPTION = "exception "
# addresses in default reprs: "<A object at 0x7f>", and in numpy's generators: "A(B) at 0x7F000000"
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+(?=[>,;])|(?<=\)) at 0x[0-9A-F]{8,}")
_LONGEST, _LAST = 4000, 800  # characters of a text that are kept, and how many of them from its end
_CAUSES = 5  # exceptions that are shown before one
BYTES = (bytes, bytearray, memoryview)


def kind_of(value: Any) -> str:
    """Return a value's type; for None, True and False the value itself."""
    if value is None or isinstance(value, (bool, np.bool_)):
        return shown_of(value)
    name = type(value).__name__.removesuffix("_")  # numpy's str_ and bytes_ are ordinary texts
    return EXCEPTION + name if isinstance(value, BaseException) else name


def shown_of(value: Hashable) -> str:
    """Return a text that equal objects share: without addresses."""
    try:
        if isinstance(value, (bool, np.bool_)):
            return str(bool(value))
        if isinstance(value, str):
            return shortened(repr(str(value)))
        if isinstance(value, BYTES):  # every byte at a place of its own
            return shortened(f"{kind_of(value)} {bytes(value).hex()}")
        text = repr(value)
        if isinstance(value, BaseException):
            text = EXCEPTION + _told(value) + _cause(value)
        if isinstance(value, BaseExceptionGroup):
            text += f" [{', '.join(map(shown_of, value.exceptions))}]"
    except MemoryError:
        raise
    except Exception:  # a repr may raise whatever it likes
        return f"<{type(value).__name__} that cannot be shown>"
    return shortened(_ADDRESS.sub("", text))


def says_nothing(value: Any) -> bool:
    """Return whether an object's text has an address, so that it says no more than the type."""
    try:
        return _ADDRESS.search(repr(value)) is not None
    except MemoryError:
        raise
    except Exception:  # a repr may raise whatever it likes
        return True


def _told(error: BaseException) -> str:
    """Return an exception's type, message and notes."""
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    return f"{type(error).__name__}: {error}".removesuffix(": ") + notes


def _cause(error: BaseException) -> str:
    """Return what a traceback shows besides: the exception that this one was raised from, or
    while handling.
    """
    before, text = error, ""
    for _ in range(_CAUSES):
        hidden = before.__cause__ is None and before.__suppress_context__
        cause = None if hidden else before.__cause__ or before.__context__
        if cause is None:
            break
        text += f" (after {_told(cause)})"
        before = cause
    return text


def shortened(text: str) -> str:
    """Shorten a long text to its ends and a checksum of all of it. What would move a terminal's
    cursor is escaped.
    """
    text = text if text.isprintable() else repr(text)
    if len(text) <= _LONGEST:
        return text
    middle = f"{len(text)} characters, CRC {zlib.crc32(text.encode('utf-8', 'replace')):08x}"
    return f"{text[: _LONGEST - _LAST]}... ({middle}) ...{text[-_LAST:]}"
