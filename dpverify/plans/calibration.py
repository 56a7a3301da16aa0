"""The smallest noise that meets a budget, found on the safe side."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

_DOUBLINGS = 1100
_HALVINGS = 60


def smallest_sufficient(holds: Callable[[Fraction], bool]) -> Fraction:
    """The least multiplier m with ``holds(m)``, to 2^-50 relative, from above.

    ``holds`` is monotone: once true, true for every larger m. The simplest fraction near the
    boundary is taken when it holds, so that a budget of 0.3 gives 10/3 and no rounding.
    Raises ValueError when no m up to 2^1100 holds.
    """
    high = Fraction(1)
    for _ in range(_DOUBLINGS):
        if holds(high):
            break
        high *= 2
    else:
        raise ValueError("no noise multiplier up to 2^1100 meets this budget")
    low = high / 2
    for _ in range(_DOUBLINGS):
        if not holds(low):
            break
        low, high = low / 2, low
    else:
        raise ValueError("a noise multiplier of 2^-1100 still meets this budget: it is too large")
    for _ in range(_HALVINGS):
        if high - low <= high / 2**50:
            break
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    simple = simplest_between(low, high)
    return simple if holds(simple) else high


def simplest_between(low: Fraction, high: Fraction) -> Fraction:
    """The fraction of least denominator in [low, high], 0 < low <= high (Stern-Brocot)."""
    whole = low.numerator // low.denominator
    if low == whole:
        return Fraction(whole)
    if whole + 1 <= high:
        return Fraction(whole + 1)
    return whole + 1 / simplest_between(1 / (high - whole), 1 / (low - whole))
