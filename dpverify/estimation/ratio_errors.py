"""Expected squares of ratios of a noisy sum to a noisy number: public mathematics, before any
release.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

_FEW = np.linspace(-4.8, 4.8, 25)
_SHARES = np.exp(-(_FEW**2) / 2)
_PLACES = np.linspace(-8.0, 8.0, 3201)
_CHANCES = np.exp(-(_PLACES**2) / 2) / np.exp(-(_PLACES**2) / 2).sum()


def noisy_integers(mean: int, deviation: float, least: int) -> Iterator[tuple[int, float]]:
    """Yield integers near ``mean`` with shares that add up to 1, over which averages are nearly
    those over normal noise; none below ``least``, which ``mean`` is not.
    """
    moves = (math.floor(deviation * g + 0.5) for g in _FEW)
    near = zip(moves, _SHARES, strict=True)
    kept = [(mean + move, float(share)) for move, share in near if mean + move >= least]
    total = sum(share for _, share in kept)
    for one, share in kept:
        yield one, share / total


def ratio_square(noise: float, part: float, offset: float, least: float) -> float:
    """Compute the expected square of a coordinate's error.

    The estimate is a center, off by normal noise of deviation ``offset``, plus a sum about it over
    a number. Of that number, noise of the sum has the deviation ``noise`` and the number's own the
    deviation ``part``. Where the noisy number is below ``least`` of itself, it is the center.
    """
    left = 1 + part * _PLACES
    divided = np.where(left >= least, left, 1.0)
    with np.errstate(over="ignore"):  # infinite where no float is as large
        squares = (noise / divided) ** 2 + (offset * (part * _PLACES / divided)) ** 2
        return float(_CHANCES @ np.where(left >= least, squares, offset**2))
