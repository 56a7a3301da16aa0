"""Refusals of calls that do not fit a function's parameters: an example says what to write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])
_VALUES = {
    "epsilon": "1",
    "mu": "1",
    "rho": "'0.1'",
    "delta": "'1e-6'",
    "budget": "ApproxDP(1, '1e-6')",
    "adjacency": "Adjacency.ADD_REMOVE",
}
"""Values in an example, by the parameter's name; other parameters have no value there."""
Remedy = Callable[[str], str]
"""Function that makes the end of a message from a call with every required parameter."""


def refuse_misfit(
    name: str,
    function: Callable[..., Any],
    given: Sequence[Any],
    named: Mapping[str, Any],
    remedy: Remedy = "{}".format,
) -> None:
    """Raise TypeError, with an example, if a call does not fit a function's parameters.

    name: the name of the function in the message.
    """
    fits = signature(function)
    try:
        fits.bind(*given, **named)
    except TypeError as error:
        own = [one for one in fits.parameters.values() if _is_own(one)]
        listed = f"; the parameters are {', '.join(one.name for one in own)}"
        why = f"{error}{'' if 'missing' in str(error) else listed}"
        needed = [_written(one) for one in own if one.default is Parameter.empty]
        example = remedy(f"{name}({', '.join(needed)})")
        raise TypeError(f"{name}: {why}. Write {example}.") from None


def fitting(name: str, remedy: Remedy = "{}".format) -> Callable[[_Function], _Function]:
    """Make a decorator: the function refuses calls that do not fit as ``refuse_misfit`` does."""

    def decorate(function: _Function) -> _Function:
        @wraps(function)
        def checked(*given: Any, **named: Any) -> Any:
            try:
                return function(*given, **named)
            except TypeError:  # of the call, or from inside of the function
                refuse_misfit(name, function, given, named, remedy)
                raise

        return checked  # type: ignore[return-value]

    return decorate


def _is_own(one: Parameter) -> bool:
    """Return whether a parameter has a name that a caller knows."""
    variable = one.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return not variable and one.name not in ("self", "cls")


def _written(one: Parameter) -> str:
    if one.kind is Parameter.KEYWORD_ONLY:
        return f"{one.name}={_VALUES.get(one.name, '...')}"
    return _VALUES.get(one.name, one.name)
