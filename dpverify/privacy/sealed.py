"""Values that are made once and never again: what a proof is about must not change afterwards."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

_Class = TypeVar("_Class", bound=type)


def sealed(cls: _Class) -> _Class:
    """Refuse a second ``__init__`` on an object of a frozen dataclass with slots, which would change it.

    Put it above ``@dataclass(frozen=True, slots=True)``. Raises TypeError in the second call, before
    anything changes.
    """
    guard(cls, cls.__dict__["__init__"])
    return cls


def guard(cls: type, initialize: Callable[..., None]) -> None:
    """Let ``initialize`` be the class's ``__init__``, once for each object."""
    if getattr(initialize, "_is_guarded", False):
        return

    @wraps(initialize)
    def once(self: Any, *given: Any, **named: Any) -> None:
        if any(_is_set(self, name) for name in _slots(type(self))):
            raise TypeError(
                f"This {type(self).__name__} is made already, and a claim may rest on it; make another "
                "one instead of calling __init__ again."
            )
        initialize(self, *given, **named)

    once._is_guarded = True  # type: ignore[attr-defined]
    cls.__init__ = once  # type: ignore[misc]


_SLOTS: dict[type, tuple[str, ...]] = {}


def _slots(cls: type) -> tuple[str, ...]:
    if cls not in _SLOTS:
        _SLOTS[cls] = tuple(n for base in cls.__mro__ for n in getattr(base, "__slots__", ()))
    return _SLOTS[cls]


def _is_set(item: object, name: str) -> bool:
    try:
        object.__getattribute__(item, name)
    except AttributeError:
        return False
    return True
