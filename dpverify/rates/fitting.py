"""Slopes: dependence of a measured quantity on a variable, on a log-log scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import scipy

from dpverify.rates.measuring import SHOWN_ALPHA, Point
from dpverify.rates.metrics import alpha_of_few

_STOPS = 10
"""Divisor of a slope's alpha where its points stopped at different looks: two points whose stops
were chosen against the claim would refute it up to 4.8 times as often at 1e-6, and 6.3 times at
1e-9 (joint normal law of eleven looks each). Points that stop together share alpha among their
looks. So stops against the claim would refute a true one with probability 1.6 alpha at most, for
two points; ``looking`` stops each point by its own errors alone.
"""


@dataclass(frozen=True, slots=True)
class Slope:
    """Fitted exponent, with its 95% interval and that of level 1 - alpha.

    robust: the median of the slopes of all pairs of points (Theil, Sen), as a check by eye.
    misfit: the weighted mean square of the residuals, 1 where they are only chance.
    """

    value: float
    low: float
    high: float
    surely_low: float
    surely_high: float
    alpha: float
    robust: float
    misfit: float


def fit(points: Sequence[Point]) -> Slope:
    """Fit the slope of ln(measured) against ln(value) by weighted least squares.

    The standard error of each logarithm is its 95% interval's length over that of a t interval,
    so the slope's is propagated from them, and not guessed from how the few points scatter:
    curvature is left to the tolerance (``misfit`` shows it). Interval: t with the releases of a
    point, less 1, as degrees of freedom, at the points' least ``alpha_of_few``; a
    tenth of that where their releases differ in number, as they may stop at different looks.
    Coverage: nominal, as far as the logarithms are normal. Raises ValueError for fewer than 3
    points, or where a point's interval is not positive and finite.
    """
    if len(points) < 3:
        raise ValueError(f"{len(points)} points have no slope to speak of; give at least 3.")
    for point in points:
        if not 0 < point.low < point.high < math.inf:
            raise ValueError(
                f"At {point.value:g} the interval is {point.low:g}..{point.high:g}, which has no "
                "length in logarithms; take more releases, or another regime."
            )
    x = np.log([point.value for point in points])
    y = np.log([point.measured for point in points])
    freedom = min(point.repeats for point in points) - 1
    shown = -float(scipy.special.stdtrit(freedom, SHOWN_ALPHA / 2))
    lengths = np.log([point.high / point.low for point in points])
    weights = (lengths / (2 * shown)) ** -2
    centered = x - (weights @ x) / weights.sum()
    spread = float(weights @ centered**2)
    value, deviation = float(weights @ (centered * y)) / spread, spread**-0.5
    left = y - (weights @ y) / weights.sum() - value * centered
    alpha = min(alpha_of_few(point.alpha, point.repeats) for point in points)
    if len({point.repeats for point in points}) > 1:
        alpha /= _STOPS
    surely = -float(scipy.special.stdtrit(freedom, alpha / 2))
    pairs = [(y[j] - y[i]) / (x[j] - x[i]) for i, j in combinations(range(len(points)), 2)]
    return Slope(
        value,
        value - shown * deviation,
        value + shown * deviation,
        value - surely * deviation,
        value + surely * deviation,
        alpha,
        float(np.median(pairs)),
        float(weights @ left**2) / (len(points) - 2),
    )
