"""``functools``' caches, for functions of mpmath: a value is known at the precision that it was
computed at, and at no other.

With the caches of ``functools`` alone the digits of a value would depend on who asked first.
Specs and theory take no others; a test looks for those that do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar, cast

import mpmath as mp

Value = TypeVar("Value")
Shown = TypeVar("Shown", covariant=True)


class Cached(Protocol[Shown]):
    """A function that keeps its values until ``cache_clear`` is called."""

    def __call__(self, *given: Any, **named: Any) -> Shown:
        """Return the value, computed or kept."""

    def cache_clear(self) -> None:
        """Forget all values."""


def lru_cache(maxsize: int | None) -> Callable[[Callable[..., Value]], Cached[Value]]:
    """Return a decorator that keeps the last so many values, by precision and arguments."""

    def kept(function: Callable[..., Value]) -> Cached[Value]:
        @functools.lru_cache(maxsize=maxsize)
        def at(precisions: tuple[int, int], *given: Any, **named: Any) -> Value:
            return function(*given, **named)

        @functools.wraps(function)
        def asked(*given: Any, **named: Any) -> Value:
            return at((mp.mp.prec, mp.iv.prec), *given, **named)

        asked.cache_clear = at.cache_clear  # type: ignore[attr-defined]
        return cast(Cached[Value], asked)

    return kept


def cache(function: Callable[..., Value]) -> Cached[Value]:
    """Keep all values of a function, by precision and arguments."""
    return lru_cache(maxsize=None)(function)


def parameters_cache(function: Callable[..., Value]) -> Callable[..., Value]:
    """Keep all values of a function of parameters, which are no key, and other arguments."""
    values: dict[Any, Value] = {}

    @functools.wraps(function)
    def asked(parameters: Mapping[str, Any], *given: Any) -> Value:
        own = tuple(sorted((name, str(one)) for name, one in parameters.items()))
        key = mp.mp.prec, mp.iv.prec, own, given
        if key not in values:
            values[key] = function(parameters, *given)
        return values[key]

    return asked
