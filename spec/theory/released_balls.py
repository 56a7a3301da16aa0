"""The ball about a released mean, from what was released: its center and radius, in cells."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from .caches import cache
from .core_means import Basic, Gaussian, Weights
from .filters import Image, mean_noise
from .gaussian_laws import UNIT
from .laws import Outcome
from .rescaling import Rescaling

First = Weights | Basic | Gaussian
FARTHEST = 2**41
"""Largest radius, and largest coordinate of a center."""


@cache
def center_noise(first: First, radius: int, numbers: tuple[int, ...]) -> Fraction:
    """Return the standard deviation of the released mean, in cells, after these released numbers;
    ``radius`` is that of friends.
    """
    if isinstance(first, Weights):
        return first.noise(radius, numbers[-1])
    if isinstance(first, Basic):
        return mean_noise(radius, first.multiplier, numbers[-1])
    setting = first.setting(first.assumed(numbers[0]))
    assert setting is not None
    return mean_noise(radius, setting.spread, numbers[-1], setting.strangers)


def ball_radius(parameters: Mapping[str, Any], public: Rescaling, noise: Fraction) -> int:
    """Return sqrt(r^2 + d noise^2) in cells, rounded up, at most 2^41.

    r is the radius for records, in the proportion to that for friends that the public
    parameters have; ``noise`` is that of the center.
    """
    share = Fraction(parameters["record_radius"]) / Fraction(parameters["radius"])
    square = (share * public.radius) ** 2 + public.width * noise**2
    return min(math.isqrt(math.ceil(square) - 1) + 1, FARTHEST)


def center(mean: Outcome, noise: Fraction) -> Image:
    """Return the released mean in whole cells, ties to even, within 2^41 of 0 in each
    coordinate.
    """
    one = noise / UNIT
    return tuple(min(max(round(v * one), -FARTHEST), FARTHEST) for v in mean)
