"""Test of whether a function can remember anything between its calls."""

from __future__ import annotations

import builtins
import dis
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from inspect import unwrap
from types import CodeType, FunctionType, ModuleType, NoneType
from typing import Any

_NUMERIC = frozenset(("math", "cmath", "numpy", "statistics", "fractions", "decimal"))
_WRITING = frozenset(("STORE_GLOBAL", "STORE_ATTR", "IMPORT_NAME"))
_HIDDEN = frozenset(("globals", "vars", "setattr", "exec", "eval", "open", "__import__"))
_PLAIN = (int, float, complex, str, bytes, bool, Fraction, Decimal, type(None))


def remembers_nothing(function: Callable[..., Any]) -> bool:
    """Return whether the function surely remembers nothing: it uses builtins, numeric libraries
    and constants, no closure and no default.

    False proves nothing. Noise drawn by numpy is fresh, or comes from a seed that is set anew,
    but is never kept.
    """
    function = unwrap(function)
    if not isinstance(function, FunctionType):
        unbound = isinstance(getattr(function, "__self__", None), (ModuleType, NoneType))
        return unbound and _is_plain(function)
    if function.__closure__ or function.__dict__:
        return False
    if function.__defaults__ or function.__kwdefaults__:
        return False
    known = {**vars(builtins), **function.__globals__}
    codes = list(_codes(function.__code__))
    names = {name for code in codes for name in code.co_names}
    writes = any(step.opname in _WRITING for code in codes for step in dis.get_instructions(code))
    hides = not names.isdisjoint(_HIDDEN)
    return not writes and not hides and all(_is_plain(known[n]) for n in names if n in known)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code, and that of functions made in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _is_plain(value: Any) -> bool:
    if isinstance(value, ModuleType):
        return value.__name__.partition(".")[0] in _NUMERIC
    if isinstance(value, _PLAIN):
        return True
    home = getattr(value, "__module__", None)
    return isinstance(home, str) and home.partition(".")[0] in _NUMERIC | {"builtins"}
