"""Searches for where a profile reaches a delta, and for the trade-off curve.

Whatever points are asked for, the answers are proved.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial

import scipy
from flint import arb

from dpverify.privacy.balls import Enclosure, ball, enclose, shortened
from dpverify.privacy.guarantees.concentrated import ZeroConcentratedDP
from dpverify.privacy.guarantees.parts import Parts, total_of
from dpverify.privacy.guarantees.smooth import SmoothLaplace
from dpverify.privacy.numbers import to_float
from dpverify.privacy.numerics.composing import above, attained, below

_GAP = Fraction(1, 1 << 34)
_WIDE = Fraction(1, 1 << 14)  # gap to search to where the two sides are apart anyway
_MOST_STEPS = 120
_LEAST = -1e6
_FINE = 1 << 11
_WIDTHS = (2.0**-10, 2.0**-6, 2.0**-3, 1.0)
_ZERO, _ONE = Fraction(0), Fraction(1)
Side = Callable[[Fraction], Fraction]


@lru_cache(maxsize=64)
def epsilon(parts: Parts, goal: Fraction) -> Enclosure | None:
    """Return the least epsilon whose delta is at most ``goal`` > 0; None where none is found.

    At the upper end the profile is at most the goal, at the lower end it is above it.
    """
    loss, rho = total_of(parts, "largest_loss"), total_of(parts, "concentrated")
    upper: Side = lru_cache(maxsize=None)(lambda e: above(parts, e))
    lower: Side = lru_cache(maxsize=None)(lambda e: below(parts, e))
    if upper(_ZERO) <= goal:
        return Enclosure(_ZERO, _ZERO)
    high = ZeroConcentratedDP(shortened(rho)).epsilon_at(goal).upper if rho else _ONE
    if loss is not None:
        high = min(high, loss)
    while high != loss and upper(high) > goal:
        high *= 2
        if high > 1 << 64:
            return None
    bound = _crossing(upper, goal, _ZERO, high)[1]
    if lower(_ZERO) <= goal:
        return Enclosure(_ZERO, bound)
    near = bound * (1 - 2 * _GAP)
    low = near if lower(near) > goal else _crossing(lower, goal, _ZERO, near, _WIDE)[0]
    return Enclosure(low, bound)


def _crossing(
    side: Side, goal: Fraction, low: Fraction, high: Fraction, gap: Fraction = _GAP
) -> tuple[Fraction, Fraction]:
    """Return (a, b), close together, with side(a) > goal and side(b) <= goal (or b = ``high``).

    The search follows the secant through the logarithms at both ends (Illinois), and now and
    then takes the middle.
    """
    target, unit = _log(goal), Fraction(2) ** (_bits(high) - 60)
    left, right = _log(side(low)) - target, _log(side(high)) - target
    moved = 0
    for step in range(_MOST_STEPS):
        if high - low <= gap * high:
            break
        share = left / (left - right) if step % 8 < 6 and left > right else 0.5
        share = min(max(share, 2.0**-50), 1 - 2.0**-50)
        at = round((low + (high - low) * Fraction(share)) / unit) * unit
        at = min(max(at, low + gap * high / 3), high * (1 - gap / 3))
        value = side(at)
        if value > goal:
            low, left = at, _log(value) - target
            right, moved = right / 2 if moved < 0 else right, -1
        else:
            high, right = at, _log(value) - target
            left, moved = left / 2 if moved > 0 else left, 1
    return low, high


def _log(value: Fraction) -> float:
    """Return the logarithm; for 0 one below all others."""
    return math.log(value.numerator) - math.log(value.denominator) if value > 0 else _LEAST


def _bits(value: Fraction) -> int:
    return value.numerator.bit_length() - value.denominator.bit_length()


def tradeoff(parts: Parts, alpha: Fraction) -> Enclosure:
    """Return the supremum over all real x of T(x) = 1 - delta(x) - e^x alpha, 0 < alpha < 1.

    delta(-x) = 1 - e^-x + e^-x delta(x), so these are the lines of epsilon = |x| and their
    mirror images. Any of them is a lower end. The upper end is that of mechanisms with these
    guarantees.
    """
    if len(parts) == 1 and parts[0][1] == 1:
        return parts[0][0].tradeoff_at(alpha)
    low, high, scale = _range(parts, alpha)
    lower: Side = lru_cache(maxsize=None)(lambda e: above(parts, e))
    upper: Side = lru_cache(maxsize=None)(lambda e: below(parts, e))
    best = _best(lambda x: _line(x, lower(abs(x)), alpha).lower, alpha, low, high, scale)
    least = max(*(_line(x, lower(abs(x)), alpha).lower for x in (best, _ZERO)), _ZERO)
    best = _best(lambda x: _line(x, upper(abs(x)), alpha).upper, alpha, low, high, scale)
    return Enclosure(least, max(least, _summit(parts, alpha, best, scale)))


def _line(x: Fraction, delta: Fraction, alpha: Fraction) -> Enclosure:
    """Return T(x) with this delta at |x|."""
    growth = enclose(partial(_growth, x))
    if x < 0:
        left = 1 - delta - alpha
        ends = left * growth.lower, left * growth.upper
        return Enclosure(min(ends), max(ends))
    return Enclosure(1 - delta - growth.upper * alpha, 1 - delta - growth.lower * alpha)


def _range(parts: Parts, alpha: Fraction) -> tuple[float, float, float]:
    """Return about between which x the best line is, and how far it is from there to where T
    differs.
    """
    rest = tuple(p for p in parts if not isinstance(p[0], SmoothLaplace))
    rho = total_of(rest, "concentrated") or _ZERO
    for part, times in parts:
        if isinstance(
            part, SmoothLaplace
        ):  # about like noise that moves by its shift and its tail together
            rho += times * (part.shift + part.growth - 1) ** 2 / 2
    small, large = -_log(alpha), -_log(1 - alpha)
    mean = min(to_float(rho), 1e9)
    scale = math.sqrt(2 * mean)
    ends = [mean + scale * (3 + math.sqrt(2 * tail)) for tail in (large, small)]
    return -ends[0], min(ends[1], small), scale


def _best(
    line: Callable[[Fraction], Fraction], alpha: Fraction, low: float, high: float, scale: float
) -> Fraction:
    """Return where a line is about highest, in a scale that tells values near 0 and near 1 -
    alpha apart.
    """

    def objective(x: float) -> float:
        value = line(Fraction(float(x)))
        if value <= 0:
            return -_LEAST - to_float(value)
        return _log(1 - alpha - value) - _log(value)

    optimum = scipy.optimize.minimize_scalar(
        objective, bounds=(low, high), method="bounded", options={"xatol": scale / _FINE}
    )
    return Fraction(float(optimum.x))


def _summit(parts: Parts, alpha: Fraction, x: Fraction, scale: float) -> Fraction:
    """Return at least the largest T of mechanisms with these guarantees.

    Their T is concave in g = e^x. Of six points in a row let T not fall from the second to the
    third and not rise from the fourth to the fifth: then it is largest between the second and
    the fifth, or as large there. Between two neighbors it is below the lines through the two
    points on either side.
    """
    for width in _WIDTHS:
        points = [x + Fraction(i * width * scale) for i in (-6, -4, -1, 1, 4, 6)]
        ends = [attained(parts, abs(p)) for p in points]
        highs = [_line(p, e.lower, alpha).upper for p, e in zip(points, ends, strict=True)]
        lows = [_line(p, e.upper, alpha).lower for p, e in zip(points, ends, strict=True)]
        if highs[1] > lows[2] or highs[4] > lows[3]:
            continue
        growths = [enclose(partial(_growth, p)) for p in points]
        summits = [
            _below_lines(highs[i - 1 : i + 3], lows[i - 1 : i + 3], growths[i - 1 : i + 3])
            for i in (1, 2, 3)
        ]
        return min(max(summits), 1 - alpha)
    return 1 - alpha


def _growth(x: Fraction) -> arb:
    return ball(x).exp()


def _below_lines(highs: list[Fraction], lows: list[Fraction], growths: list[Enclosure]) -> Fraction:
    """Return at least the largest value between the second and the third point of a concave
    function of four.

    It is below the line through the first two, which rises at most by ``up`` there, and below
    that through the last two, which falls at most by ``down``; where they meet, both are
    highest.
    """
    a, b, c, d = growths
    across = c.upper - b.lower
    left, right = highs[1], highs[2]
    if b.lower <= a.upper or d.lower <= c.upper:
        return _ONE
    up = max(left - lows[0], _ZERO) / (b.lower - a.upper) * across
    down = max(right - lows[3], _ZERO) / (d.lower - c.upper) * across
    if not up or not down:
        return right if up else left
    meeting = (left * down + right * up + up * down) / (up + down)
    return min(meeting, left + up, right + down)
