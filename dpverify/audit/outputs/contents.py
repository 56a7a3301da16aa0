"""Contents of objects: the fields of each, and of all that these hold in turn.

An object may hold itself, or the same one in many places. What is on the way to itself is not
entered again, and no more than 3000 objects are entered for one output.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping
from enum import Enum
from numbers import Number
from types import CellType, ModuleType, NoneType
from typing import Any

import numpy as np

from dpverify.audit.outputs.functions import HOLDING_CODE, held_by_code, is_made
from dpverify.audit.outputs.showing import BYTES, says_nothing
from dpverify.audit.outputs.tables import held_by_table
from dpverify.audit.outputs.unseen import note

DEEPEST = 12
"""Number of containers within each other beyond which values are told apart by their text."""
LEAVES = (bool, np.bool_, NoneType, str, *BYTES, Enum, BaseException)
"""Types of values that are told apart by their text alone."""
CARRIERS = (list, tuple, dict, set, frozenset, float, int, str, bytes)
"""Built-in types whose subclasses may carry attributes."""
UNFINISHED = (Iterator, AsyncIterator, Coroutine)
"""Types of values that come only when they are asked for."""
_MOST = 3000  # objects that are entered for one output
_PLAIN = frozenset((float, int, str, bool, bytes, NoneType))
_AS_THEY_ARE = (*LEAVES, Number, np.generic, set, frozenset, Mapping, list, tuple)


@dataclasses.dataclass(frozen=True, slots=True)
class Held:
    """Fields of an object, by name."""

    name: str
    fields: Mapping[str, Any]


def contents(value: Any, depth: int) -> Any:
    """Return what an object holds; itself if that is nothing that can be read. depth: in how
    many containers it is.
    """
    return _Walk().of(value, depth)


def carries(value: Any) -> bool:
    """Return whether a value of a subclass of a built-in type carries attributes."""
    return bool(vars(value)) and not isinstance(value, (Enum, BaseException))


def carried(value: Any, depth: int) -> Held:
    """Return such a value as a built-in one, with its attributes."""
    base = next(kind for kind in type(value).__mro__ if kind in CARRIERS)
    own = {name: contents(one, depth + 1) for name, one in vars(value).items()}
    return Held(type(value).__name__, {"its value": base(value), **own})


class _Walk:
    """The way through the objects of one output."""

    def __init__(self) -> None:
        self._path: list[int] = []
        self._left = _MOST
        self._code = 0  # functions and the like on the path

    def of(self, value: Any, depth: int) -> Any:
        """Return a value with every object in it as ``Held``, and what cannot be as it is."""
        kind = type(value)
        if kind in _PLAIN or kind is np.ndarray:
            return value
        is_container = kind in (list, tuple, dict)
        if depth >= DEEPEST or (isinstance(value, _AS_THEY_ARE) and not is_container):
            return value
        if isinstance(value, UNFINISHED):
            return self._unfinished(value)
        if id(value) in self._path:
            up = len(self._path) - self._path.index(id(value))
            return Held(f"{kind.__name__} {up} further out", {})
        if not self._left:
            note(f"more than {_MOST} objects in one output")
            return Held("more", {})
        self._left -= 1
        holds_code = isinstance(value, HOLDING_CODE)
        self._path.append(id(value))
        self._code += holds_code
        try:
            return self._inside(value, depth) if is_container else self._object(value, depth)
        finally:
            self._path.pop()
            self._code -= holds_code

    def _unfinished(self, value: Any) -> Any:
        """Leave it to be refused; within a function it need not be what the function gives."""
        if not self._code:
            return value
        note(type(value).__name__)
        return Held(type(value).__name__, {})

    def _inside(self, value: Any, depth: int) -> Any:
        if _PLAIN.issuperset(map(type, value.values() if type(value) is dict else value)):
            return value
        if type(value) is dict:
            return {key: self.of(one, depth + 1) for key, one in value.items()}
        return type(value)(self.of(one, depth + 1) for one in value)

    def _object(self, value: Any, depth: int) -> Any:
        try:
            fields = _fields(value)
        except MemoryError:
            raise
        except Exception:  # an object that cannot be taken apart is still an outcome
            fields = None
            note(type(value).__name__)
        if fields is None:
            return value
        if type(value) is CellType:  # only what is in it is shown
            return self.of(fields[""], depth) if fields else Held("nothing", {})
        inside = {name: self.of(one, depth + 1) for name, one in fields.items()}
        return Held(type(value).__name__, inside)


def _fields(value: Any) -> dict[str, Any] | None:
    """Return an object's fields; None for one without fields, with a note if its text says
    nothing either.
    """
    if isinstance(value, HOLDING_CODE):
        return held_by_code(value)
    if isinstance(value, ModuleType):
        return {"name": value.__name__}
    table = held_by_table(value)
    if table is not None:
        return table
    fields = _of_array(value) if _is_array(value) else _of_object(value)
    if not fields and says_nothing(value):
        fields = _pickled(value)
    if is_made(type(value)):
        fields["its class"] = type(value)
    return fields or None


def _is_array(value: Any) -> bool:
    return hasattr(value, "__array__") and not isinstance(value, (type, np.generic))


def _of_array(value: Any) -> dict[str, Any]:
    """Return an array-like object's array, the names of its rows and columns, and its other
    fields.
    """
    is_masked = isinstance(value, np.ma.MaskedArray)
    array = value.tolist() if is_masked else np.asarray(value)
    held = {} if is_masked else _of_object(value)
    return {**held, "array": array, **_axes(value)}


def _axes(value: Any) -> dict[str, Any]:
    """Return what names the rows and columns of a table, as pandas has it."""
    axes = {name: getattr(value, name, None) for name in ("index", "columns", "name")}
    return {
        name: list(axis) if isinstance(axis, Iterable) and not isinstance(axis, str) else axis
        for name, axis in axes.items()
        if axis is not None and not callable(axis)
    }


def _of_object(value: Any) -> dict[str, Any]:
    """Return what an object has in its fields and slots."""
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        fields = {name: getattr(value, name) for name in names if hasattr(value, name)}
    else:
        fields = {}
    fields |= getattr(value, "__dict__", {})
    for parent in type(value).__mro__:
        slots = parent.__dict__.get("__slots__", ())
        for slot in [slots] if isinstance(slots, str) else slots:
            is_private = slot.startswith("__") and not slot.endswith("__")
            name = f"_{parent.__name__.lstrip('_')}{slot}" if is_private else slot
            if hasattr(value, name) and name not in ("__weakref__", "__dict__"):
                fields[name] = getattr(value, name)
    return fields


def _pickled(value: Any) -> dict[str, Any]:
    """Return what pickle would write of an object of an extension, such as a generator of
    random numbers. Raises TypeError, or whatever else, where it has no way to.
    """
    made = value.__reduce_ex__(4)
    if isinstance(made, str):
        return {}
    _, arguments, *more = made
    parts = ([one for one in arguments if not isinstance(one, type)], *more)
    read = [list(part) if isinstance(part, Iterator) else part for part in parts]
    names = ("arguments", "state", "items", "pairs")
    named = zip(names, read, strict=False)
    return {name: part for name, part in named if part is not None and part != []}


__all__ = ["CARRIERS", "DEEPEST", "LEAVES", "UNFINISHED", "Held", "carried", "carries", "contents"]
