"""Which decay of smooth scales has the least noise for a budget. Floats: they choose, and prove nothing."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify.privacy import ApproxDP
from dpverify.privacy.numbers import to_float

_Floats = NDArray[np.float64]
_CANDIDATES, _STEPS, _ORDERS = 160, 40, 48
_SIGNIFICANT, _LARGEST = 6, 1e6


@lru_cache(maxsize=64)
def best_decay(budget: ApproxDP, columns: int) -> Fraction | None:
    """Of so many columns together; None if no decay from 1/2 to 1 - 2^-12 leaves room for a shift.

    Where records are even about the median, a distance h apart, the scale is h times the largest
    decay^k (k + 1), about 1 / (e decay ln(1 / decay)); times 1 / shift it is the noise's. The shift is what
    the budget leaves: one column's exact profile, or Chernoff's bound for the losses of several.
    """
    losses = -np.log1p(-np.geomspace(2.0**-12, 0.5, _CANDIDATES))  # ln of the growth
    epsilon = min(to_float(budget.epsilon), _LARGEST)
    log_delta = math.log(budget.delta.numerator) - math.log(budget.delta.denominator)
    one = columns == 1
    shifts = np.array(
        [
            (_shift if one else _shift_of_many)(epsilon, log_delta, float(loss), columns)
            for loss in losses
        ]
    )
    noise = np.where(shifts > 0, np.exp(losses) / (np.maximum(shifts, 1e-300) * losses), np.inf)
    if not np.isfinite(noise.min()):
        return None
    return _rounded(float(losses[int(np.argmin(noise))]))


def _shift(epsilon: float, log_delta: float, loss: float, columns: int) -> float:
    """From the exact profile: growth e^loss, and cosh(shift / (growth - 1)) is all that has the shift."""
    rise = np.expm1(loss)
    y = float(log_delta - np.log(-np.expm1(-loss)) + (epsilon + loss) / rise)
    if y <= 0:
        return 0.0
    found = rise * (y + np.log1p(np.sqrt(-np.expm1(-2 * y))))
    return float(max(0.0, min(found, epsilon - loss)))


def _shift_of_many(epsilon: float, log_delta: float, loss: float, columns: int) -> float:
    """The largest shift for which some order a has columns ln M(a) - a epsilon <= ln delta."""
    orders = np.geomspace(0.01, 0.98, _ORDERS) / np.expm1(loss)

    def holds(shift: float) -> bool:
        bounds = columns * _log_moments(orders, shift, loss) - orders * epsilon
        return bool(bounds.min() <= log_delta)

    low, high = 0.0, epsilon
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _log_moments(orders: _Floats, shift: float, loss: float) -> _Floats:
    """ln E e^(a L), the larger of two: L the loss of Laplace noise of scale e^loss at 0 against scale 1 at
    ``shift``, and that of randomized response of shift + loss, for the bound below that epsilon."""
    most = shift + loss
    response = np.logaddexp((orders + 1) * most, -orders * most) - np.logaddexp(0, most)
    slow = (1 + orders) * np.exp(-loss)
    beyond, between = (
        slow - orders,
        slow + orders,
    )  # rates outside 0..shift and inside; both positive
    pieces: list[Any] = [
        orders * shift - np.log(beyond),
        orders * shift + np.log(-np.expm1(-between * shift) / between + 1e-300),
        -slow * shift - np.log(beyond),
    ]
    found: _Floats = np.logaddexp.reduce(pieces) - np.log(2) - (1 + orders) * loss
    larger: _Floats = np.maximum(found, response)
    return larger


def _rounded(loss: float) -> Fraction:
    """e^-loss, of which 1 minus that has six significant bits."""
    mantissa, exponent = np.frexp(-np.expm1(-loss))
    part = round(float(mantissa) * 2**_SIGNIFICANT)
    return 1 - Fraction(part) * Fraction(2) ** (int(exponent) - _SIGNIFICANT)
