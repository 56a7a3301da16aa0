"""Iterators from which chunks were taken: they give their chunks once, and nothing when they
are asked again.

A second reading of such an iterator would release something about nobody, without a warning.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator
from inspect import isgenerator
from typing import Any

_weak: dict[int, weakref.ref[Any]] = {}
_strong: deque[Any] = deque(maxlen=64)  # Python's own iterators over lists and the like
REMEDY = (
    "These chunks came from an iterator and have been read. Give them anew: a list of chunks, or "
    "a function that returns a fresh iterator each time."
)


def take(chunks: Iterator[Any]) -> None:
    """Remember that an iterator was read, for as long as it lives; of those that have no weak
    references the last 64 are remembered.
    """
    key = id(chunks)
    try:
        _weak[key] = weakref.ref(chunks, lambda _: _weak.pop(key, None))
    except TypeError:
        _strong.append(chunks)


def is_taken(chunks: Any) -> bool:
    """Return whether an iterator was read before, or is a generator that has come to its end."""
    known = _weak.get(id(chunks))
    if known is not None and known() is chunks:
        return True
    ended = isgenerator(chunks) and chunks.gi_frame is None
    return ended or any(one is chunks for one in list(_strong))
