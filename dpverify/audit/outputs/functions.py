"""Functions, methods, classes and generators of random numbers: what they hold.

Only what differs between equal ones is left out: addresses, files and line numbers. The code of
what a module has under its own name is not looked at, since it is the same in every call.
"""

from __future__ import annotations

import random
import sys
import zlib
from collections.abc import Callable
from functools import lru_cache, partial
from types import (
    BuiltinMethodType,
    CellType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from dpverify.audit.outputs.showing import shown_of
from dpverify.audit.outputs.unseen import note

_USUAL = frozenset(
    ("__module__", "__qualname__", "__dict__", "__weakref__", "__annotations__", "__annotate__",
     "__annotate_func__", "__annotations_cache__", "__dataclass_fields__", "__dataclass_params__",
     "__match_args__", "__static_attributes__", "__firstlineno__", "__slots__",
     "__abstractmethods__", "_abc_impl", "__parameters__", "__orig_bases__")
)  # fmt: skip
"""Attributes that every class has, or that are told by the rest of it."""
_AT_RUN_TIME = 1 << 9  # the flag of types that are made while a program runs (Py_TPFLAGS_HEAPTYPE)


def held_by_code(value: Any) -> dict[str, Any] | None:
    """Return what a function or the like holds; None for anything else, and where there is
    nothing to read.
    """
    for kinds, held in _HELD:
        if isinstance(value, kinds):
            return held(value)
    return None


def is_named(value: Any) -> bool:
    """Return whether a module that is imported has this function or class under its own name."""
    place: Any = sys.modules.get(getattr(value, "__module__", None) or "")
    try:
        for name in str(getattr(value, "__qualname__", "")).split("."):
            place = getattr(place, name, None)
    except Exception:  # a module may raise whatever it likes
        return False
    return place is value


def is_made(kind: type) -> bool:
    """Return whether a class was made by Python, and by no module under its own name."""
    if is_named(kind) or not kind.__flags__ & _AT_RUN_TIME:
        return False
    return not any(
        isinstance(value, (WrapperDescriptorType, MethodDescriptorType))
        and value.__objclass__ is kind
        for value in vars(kind).values()
    )


def _of_function(function: Any) -> dict[str, Any]:
    code = function.__code__
    held: dict[str, Any] = {"name": f"{function.__module__}.{function.__qualname__}"}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        held[f"closure {name}"] = cell
    for i, value in enumerate(function.__defaults__ or ()):
        held[f"default {i}"] = value
    for name, value in (function.__kwdefaults__ or {}).items():
        held[f"default {name}"] = value
    held |= {f".{name}": value for name, value in vars(function).items()}
    if is_named(function):
        return held
    if function.__doc__ not in (None, *code.co_consts):
        held["doc"] = function.__doc__
    return {**held, **_globals(function), **_of_code(code)}


def _globals(function: Any) -> dict[str, Any]:
    """Return the global variables that a function reads, where they are of no module: it was
    made with variables of its own.
    """
    values = function.__globals__
    module = sys.modules.get(str(values.get("__name__")))
    if getattr(module, "__dict__", None) is values:
        return {}
    return {f"global {name}": values[name] for name in _names(function.__code__) if name in values}


def _names(code: CodeType) -> list[str]:
    inner = [name for c in code.co_consts if isinstance(c, CodeType) for name in _names(c)]
    return list(dict.fromkeys([*code.co_names, *inner]))


def _of_code(code: CodeType) -> dict[str, Any]:
    numbers = _numbers(code)
    return {"code": _digest(code), **({"constants": numbers} if numbers else {})}


@lru_cache(maxsize=1000)
def _digest(code: CodeType) -> str:
    """Return a checksum of what code does, wherever it stands."""
    constants = [
        _digest(one) if isinstance(one, CodeType) else shown_of(one) for one in code.co_consts
    ]
    names = (code.co_name, code.co_names, code.co_varnames, code.co_flags)
    return f"CRC {zlib.crc32(repr((code.co_code, names, constants)).encode()):08x}"


def _numbers(code: CodeType) -> list[Any]:
    """Return the numbers that stand in code, and in what it makes."""
    numbers: list[Any] = []
    for one in code.co_consts:
        if isinstance(one, CodeType):
            numbers += _numbers(one)
        elif isinstance(one, (int, float, complex)) and not isinstance(one, bool):
            numbers.append(one)
    return numbers


def _of_cell(cell: CellType) -> dict[str, Any]:
    try:
        return {"": cell.cell_contents}
    except ValueError:  # nothing was assigned yet
        return {}


def _of_built_in(method: Any) -> dict[str, Any] | None:
    owner = method.__self__
    if owner is None or isinstance(owner, ModuleType):
        return None
    return {"name": method.__name__, "self": owner}


def _of_class(kind: type) -> dict[str, Any] | None:
    """Return the attributes of a class that was made while the program ran."""
    if not is_made(kind):
        return None
    hidden = (GetSetDescriptorType, MemberDescriptorType)
    own = {
        name: value
        for name, value in vars(kind).items()
        if name not in _USUAL and not isinstance(value, hidden)
    }
    own = {name: value for name, value in own.items() if value is not None or name[:2] != "__"}
    codes = {name: _digest(value.__code__) for name, value in own.items() if _is_bare(value)}
    held = {name: value for name, value in own.items() if name not in codes}
    told = {"methods": f"{codes}"} if codes else {}
    bases = list(filter(is_made, kind.__bases__))
    more = {"its bases": bases} if bases else {}
    return {"class name": kind.__qualname__, **told, **held, **more}


def _is_bare(method: Any) -> bool:
    """Return whether a method is told by its code: it holds nothing but perhaps its class."""
    return (
        type(method) is FunctionType
        and {"__class__"}.issuperset(method.__code__.co_freevars)
        and not (method.__defaults__ or method.__kwdefaults__ or vars(method))
        and method.__doc__ in (None, *method.__code__.co_consts)
        and not _globals(method)
    )


def _of_method(method: Any) -> dict[str, Any]:
    return {"function": method.__func__, "self": method.__self__}


def _of_partial(made: Any) -> dict[str, Any]:
    held = {"function": made.func, "arguments": list(made.args)}
    held |= {f"keyword {name}": value for name, value in made.keywords.items()}
    return {**held, **{f".{name}": value for name, value in vars(made).items()}}


def _of_property(made: Any) -> dict[str, Any]:
    return {"get": made.fget, "set": made.fset, "delete": made.fdel, "doc": made.__doc__}


def _of_random(source: random.Random) -> dict[str, Any] | None:
    if isinstance(source, random.SystemRandom):
        return None
    version, words, *more = source.getstate()
    key = {"version": version, "state": _told(np.array(words[:-1])), "position": words[-1]}
    return {**key, "more": more, **vars(source)}


def _of_bits(source: np.random.BitGenerator) -> dict[str, Any]:
    return {"state": _told(source.state), "seed": source.seed_seq}


def _of_random_state(source: np.random.RandomState) -> dict[str, Any]:
    return {"state": _told(source.get_state(legacy=False))}


def _told(state: Any) -> Any:
    """Return a generator's state with a checksum for each array: 624 words would be columns."""
    if isinstance(state, dict):
        return {name: _told(one) for name, one in state.items()}
    return f"CRC {zlib.crc32(state.tobytes()):08x}" if isinstance(state, np.ndarray) else state


def _of_cached(made: Any) -> dict[str, Any]:
    size = made.cache_info().currsize
    if size:
        note("lru_cache")
    return {"function": made.__wrapped__, "cached": size}


def _of_ufunc(made: np.ufunc) -> None:
    if made.__name__.endswith("(vectorized)"):  # as np.frompyfunc names what it makes
        note("ufunc")


_HELD: list[tuple[Any, Callable[[Any], dict[str, Any] | None]]] = [
    (FunctionType, _of_function),
    (MethodType, _of_method),
    ((BuiltinMethodType, MethodWrapperType), _of_built_in),
    (type, _of_class),
    (partial, _of_partial),
    (property, _of_property),
    ((staticmethod, classmethod), lambda made: {"function": made.__func__}),
    (CellType, _of_cell),
    (CodeType, _of_code),
    (random.Random, _of_random),
    (np.random.BitGenerator, _of_bits),
    (np.random.RandomState, _of_random_state),
    (type(lru_cache(len)), _of_cached),
    (np.ufunc, _of_ufunc),
]
HOLDING_CODE = tuple(kinds for kinds, _ in _HELD)
