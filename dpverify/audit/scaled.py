"""Planted faults of a function whose noise can be scaled by an argument: the same with too
little noise.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from numbers import Real
from typing import Any

from dpverify.audit.faults import QUICK_FACTORS

_USUAL = tuple(map(float, QUICK_FACTORS))


def scaled_faults(
    function: Callable[..., Any],
    *,
    scale: float | None = None,
    by: str = "scale",
    factors: Sequence[float] = _USUAL,
) -> list[Callable[..., Any]]:
    """Make planted faults for ``audit``: the function with its noise times each of these
    factors below 1.

    function: f(dataset), or f(dataset, size), that takes the scale of its noise as an argument
    as well.
    by: the name of that argument. scale: the scale that the claim is about; by default the
    argument's default.
    factors: each in [0, 1); 0 drops the noise.

    Raises TypeError for a function without that argument, or without a number to scale;
    ValueError for another factor, or a scale of 0.

    >>> def noisy_sum(data, scale=2.0): ...
    >>> [fault.__name__ for fault in scaled_faults(noisy_sum)]
    ['noisy_sum, scale x 0.7', 'noisy_sum, scale x 0.5']
    """
    if not callable(function):
        raise TypeError(f"{function!r} is no function; give one that takes {by}= besides the data.")
    if not isinstance(factors, Iterable) or not all(isinstance(one, Real) for one in factors):
        raise TypeError(f"factors = {factors!r:.80}; give a list of numbers, factors=[0.5].")
    if not factors:
        raise ValueError(
            "factors is empty; give at least one below 1, or leave it out for 0.7 and 0.5."
        )
    usual = _usual(function, by) if scale is None else scale
    if isinstance(usual, bool) or not isinstance(usual, Real):
        raise TypeError(f"scale = {usual!r} is no number; give the scale that the claim is about.")
    if not usual:
        raise ValueError(
            f"scale = {usual!r}: 0 times a factor is 0 again, so no fault would be planted; give "
            "the scale that the claim is about, as scale=1.0."
        )
    for factor in factors:
        if not 0 <= factor < 1:
            raise ValueError(
                f"factor = {factor}; a fault has less noise than claimed: give factors from 0 to "
                "below 1."
            )
    return [_scaled(function, by, usual, factor) for factor in factors]


def _usual(function: Callable[..., Any], by: str) -> Any:
    """Return the default of the argument. Raises TypeError where there is no such argument, or
    no default.
    """
    name = getattr(function, "__name__", repr(function))
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        raise TypeError(f"{name} shows no signature; say its scale: scale=1.0.") from None
    if by not in parameters:
        raise TypeError(
            f"{name} has no argument {by!r}; name the one that scales its noise, as by='sigma'."
        )
    default = parameters[by].default
    if default is inspect.Parameter.empty:
        raise TypeError(
            f"{by!r} has no default in {name}; say the scale that the claim is about: scale=1.0."
        )
    return default


def _scaled(function: Callable[..., Any], by: str, scale: Any, factor: float) -> Callable[..., Any]:
    def fault(*given: Any) -> Any:
        return function(*given, **{by: scale * factor})

    fault.__name__ = f"{getattr(function, '__name__', 'function')}, {by} x {factor:g}"
    return fault


__all__ = ["scaled_faults"]
