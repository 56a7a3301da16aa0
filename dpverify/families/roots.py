"""Roots of increasing functions whose derivative is known, in an interval that contains them."""

from __future__ import annotations

from collections.abc import Callable

_STEPS = 100
_NEAR = 1e-14  # of the root's size and the interval's: some rounding errors


def root_in(
    missed: Callable[[float], tuple[float, float]], low: float, high: float, start: float
) -> float:
    """Find the root between ``low`` and ``high`` of an increasing function, by Newton's method.

    missed: the function's value and its derivative. A step that leaves the interval, which
    shrinks with each value, halves it instead.
    """
    at, width = min(max(start, low), high), high - low
    for _ in range(_STEPS):
        value, slope = missed(at)
        if value == 0:
            break
        low, high = (low, at) if value > 0 else (at, high)
        ahead = at - value / slope if slope > 0 else low
        if not low < ahead < high:
            ahead = low + (high - low) / 2
        step, at = abs(ahead - at), ahead
        if step <= _NEAR * (abs(at) + width):
            break
    return at
