"""Iterators from which chunks were taken: they give their chunks once, and nothing when they
are asked again.

A second reading of such an iterator would release something about nobody, without a warning.
"""

from __future__ import annotations

import gc
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
    """Remember that an iterator was read, with those that it reads, for as long as they live; of
    those that have no weak references the last 64 are remembered.
    """
    for one in _with_sources(chunks):
        _take(one)


def is_taken(chunks: Any) -> bool:
    """Return whether an iterator, or one that it reads, was read before or is a generator that
    has come to its end.
    """
    return any(_is_taken(one) for one in _with_sources(chunks))


def _take(one: Any) -> None:
    key = id(one)
    try:
        _weak[key] = weakref.ref(one, lambda _: _weak.pop(key, None))
    except TypeError:
        _strong.append(one)


def _is_taken(one: Any) -> bool:
    known = _weak.get(id(one))
    if known is not None and known() is one:
        return True
    ended = isgenerator(one) and one.gi_frame is None
    return ended or any(other is one for other in list(_strong))


def _with_sources(chunks: Any) -> Iterator[Any]:
    """Yield the object, and the iterators that it reads where it is one of Python's own: a map, a
    filter, a zip, a generator expression and the like.
    """
    yield chunks
    if isgenerator(chunks):
        read = [] if chunks.gi_frame is None else [chunks.gi_frame.f_locals.get(".0")]
    elif isinstance(chunks, Iterator) and type(chunks).__module__ in ("builtins", "itertools"):
        read = gc.get_referents(chunks)
        read += [one for several in read if isinstance(several, tuple) for one in several]
    else:
        return
    for one in read:
        if isinstance(one, Iterator) and not hasattr(one, "seek"):  # a file can be read again
            yield from _with_sources(one)
