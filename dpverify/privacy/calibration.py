"""Searches for the point where a monotone condition begins to hold, on the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

_LARGEST_EXPONENT = 1 << 13
_GAP = Fraction(1, 1 << 40)
_NARROW = Fraction(1, 1 << 50)
_CLOSE = Fraction(1, 1 << 44)
_MOST_SECANTS = 20
_FINE = 1 << 52


class Unreachable(ValueError):
    """The condition holds nowhere, or everywhere, in the range that is searched."""


def boundary(
    holds: Callable[[Fraction], bool],
    *,
    gap: Fraction = _GAP,
    signed: Callable[[Fraction], float] | None = None,
) -> tuple[Fraction, Fraction]:
    """Return (low, high) with ``holds(high)``, not ``holds(low)`` and high <= (1 + gap) low.

    ``holds`` is monotone: once true, true for every larger positive number. Raises Unreachable
    when it is false at 2^8192 or true at 2^-8192. ``signed`` is about a smooth function that is
    positive where the condition does not hold and negative where it does: its root is tried
    first. The answer is the same without it, after more tests.
    """
    exponent = _bracket(holds)
    bracket = _power(exponent - 1), _power(exponent)
    if signed is not None:
        low, high = _cell(_root(signed, *bracket), *bracket, gap)
        if holds(high) and not holds(low):
            return low, high
    return _halved(*bracket, holds, gap)


def _halved(
    low: Fraction, high: Fraction, holds: Callable[[Fraction], bool], gap: Fraction
) -> tuple[Fraction, Fraction]:
    """Halve the interval until it is short enough; ``holds`` tells which half."""
    while high - low > gap * low:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high


def _cell(
    root: Fraction, start: Fraction, end: Fraction, gap: Fraction
) -> tuple[Fraction, Fraction]:
    """Return the interval that ``_halved`` ends with where the condition holds from ``root`` on."""
    parts = 1 << max((int((end - start) / (gap * end))).bit_length() - 1, 0)
    while True:
        width = (end - start) / parts
        low = start + width * min(max(-((start - root) // width) - 1, 0), parts - 1)
        if width <= gap * low:
            return low, low + width
        parts *= 2


def _root(signed: Callable[[Fraction], float], low: Fraction, high: Fraction) -> Fraction:
    """Return about the root of a falling function, by its secants (Illinois); nothing rests on
    it.
    """
    unit = high / _FINE
    left, right = signed(low), signed(high)
    moved, at = 0, high
    for _ in range(_MOST_SECANTS):
        share = left / (left - right) if math.inf > left > right > -math.inf else 0.5
        last, at = at, low + unit * round((high - low) / unit * Fraction(min(max(share, 0.0), 1.0)))
        if abs(at - last) <= _CLOSE * at:
            break
        value = signed(at)
        if value > 0:
            low, left, right, moved = at, value, right / 2 if moved < 0 else right, -1
        else:
            high, right, left, moved = at, value, left / 2 if moved > 0 else left, 1
    return at


def _bracket(holds: Callable[[Fraction], bool]) -> int:
    """Return the least e with holds(2^e), by doubling steps away from 0 and bisection."""
    start = holds(Fraction(1))
    near, far = 0, -1 if start else 1
    while holds(_power(far)) is start:
        if abs(far) >= _LARGEST_EXPONENT:
            raise Unreachable(
                "it holds for every positive number" if start else "no number is large enough"
            )
        near, far = far, 2 * far
    low, high = (far, near) if start else (near, far)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(_power(middle)) else (middle, high)
    return high


def _power(exponent: int) -> Fraction:
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def smallest_sufficient(holds: Callable[[Fraction], bool], *, gap: Fraction = _NARROW) -> Fraction:
    """Return the least m with ``holds(m)``, within a factor 1 + gap, from above.

    ``holds`` is monotone. The simplest fraction near the boundary is taken when it holds, so
    that a budget of 0.3 gives 10/3 and no rounding. Raises Unreachable (a ValueError) when
    nothing or everything holds.
    """
    low, high = boundary(holds, gap=gap)
    simple = simplest_between(low, high)
    return simple if holds(simple) else high


def largest_sufficient(holds: Callable[[Fraction], bool], *, gap: Fraction = _NARROW) -> Fraction:
    """Return the largest m with ``holds(m)``, within a factor 1 + gap; once false, false above."""
    return 1 / smallest_sufficient(lambda inverse: holds(1 / inverse), gap=gap)


def least_integer(
    holds: Callable[[int], bool],
    *,
    above: int,
    first: int | None = None,
    most: int | None = None,
    about: int | None = None,
) -> int:
    """Find the least integer above ``above`` for which a condition holds.

    Once true, the condition is true from there on. It is tested at ``first``
    (by default the next integer), at twice as much again and again until it holds, and then by
    bisection; never at ``above``. Raises Unreachable where it does not hold for ``most``;
    without a ``most``, the search for a condition that never holds does not end. ``about`` is a
    guess of the answer; if it is right, two tests are enough.
    """
    if about is not None:
        tried = (low for low in (about - 1, about - 3) if low > above)
        above = next((low for low in tried if not holds(low)), above)
    low, high = above, above + 1 if first is None else first
    while not holds(high):
        if most is not None and high >= most:
            raise Unreachable(f"no integer up to {most} is large enough")
        double = max(1, 2 * high)
        low, high = high, double if most is None else min(double, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def simplest_between(low: Fraction, high: Fraction) -> Fraction:
    """Return the fraction of least denominator in [low, high], 0 < low <= high (Stern-Brocot)."""
    whole = low.numerator // low.denominator
    if low == whole:
        return Fraction(whole)
    if whole + 1 <= high:
        return Fraction(whole + 1)
    return whole + 1 / simplest_between(1 / (high - whole), 1 / (low - whole))
