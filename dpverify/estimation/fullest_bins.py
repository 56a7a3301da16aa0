"""Bounds by moments on the probability that a released histogram names a bin of few records.

Source: spec/theory/pairs.py.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from dpverify.privacy.numbers import Floats, to_float

_PLACES = np.arange(64) / 64  # multiples of 1 / scale at which the bounds are computed


def log_ratio(things: int, failure: Fraction) -> float:
    """Compute ln(things / failure), also for failures that are no floats."""
    return math.log(things * failure.denominator) - math.log(failure.numerator)


def overtakes(things: int, share: float, other: float, scale: Fraction) -> float:
    """Bound the probability that a bin's noisy count is at least that of a fuller one.

    share, other: the probabilities with which each of so many things falls into the fuller and
    into the other bin. scale: of the discrete Laplace noise of either. Natural logarithms
    throughout, so that no number of things underflows.
    """
    t = _PLACES / to_float(scale)
    one = np.log(1 - share - other + share * np.exp(-t) + other * np.exp(t))
    return float(np.exp(min(0.0, float((things * one + 2 * _moments(t, scale)).min()))))


def sinks(things: int, share: float, threshold: int, scale: Fraction) -> float:
    """Bound the probability that the noisy count of a bin is below a threshold."""
    t = _PLACES / to_float(scale)
    one = np.log(1 - share + share * np.exp(-t))
    bounds = things * one + t * (threshold - 1) + _moments(t, scale)
    return float(np.exp(min(0.0, float(bounds.min()))))


def _moments(t: Floats, scale: Fraction) -> Floats:
    """Compute ln E e^(t Z) for discrete Laplace noise Z."""
    rate = 1 / to_float(scale)
    own = 2 * math.log(-math.expm1(-rate))
    return np.asarray(own - np.log(-np.expm1(t - rate)) - np.log(-np.expm1(-t - rate)))
