"""Values that are made once and never again: the subject of a proof must not change afterwards."""

from __future__ import annotations

from functools import wraps
from typing import Any, TypeVar

from dpverify.privacy.calls import refuse_misfit

_Class = TypeVar("_Class", bound=type)


def sealed(cls: _Class) -> _Class:
    """Refuse a second ``__init__`` or ``__setstate__`` on an object of a frozen class with slots.

    Put it above ``@dataclass(frozen=True, slots=True)``. The second call raises TypeError
    before anything changes.
    """
    guard(cls, "__init__")
    guard(cls, "__setstate__")
    return cls


def guard(cls: type, name: str) -> None:
    """Let a class's method that sets fields be called on an object without any, and on no other.

    Does nothing for a class that has no such method of its own.
    """
    initialize = cls.__dict__.get(name)
    if initialize is None or getattr(initialize, "_is_guarded", False):
        return

    @wraps(initialize)
    def once(self: Any, *given: Any, **named: Any) -> None:
        if _is_made(self):
            raise TypeError(
                f"This {type(self).__name__} is made already, and a claim may rest on it; make "
                f"another one instead of calling {initialize.__name__} again."
            )
        try:
            initialize(self, *given, **named)
        except TypeError:  # of the call, or from inside of the method
            refuse_misfit(type(self).__name__, initialize, (self, *given), named)
            raise

    once._is_guarded = True  # type: ignore[attr-defined]
    setattr(cls, name, once)


_SLOTS: dict[type, str | None] = {}


def _is_made(item: object) -> bool:
    """Return whether the fields of an object are set: all of them are, or none, so one slot
    tells.
    """
    cls = type(item)
    if cls not in _SLOTS:
        _SLOTS[cls] = next(
            (n for base in cls.__mro__ for n in getattr(base, "__slots__", ())), None
        )
    name = _SLOTS[cls]
    if name is None:
        return False
    try:
        object.__getattribute__(item, name)
    except AttributeError:
        return False
    return True
