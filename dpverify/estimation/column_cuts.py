"""Cuts of columns that more records name than chance explains: from released votes to boxes.

Each record has named the column in which it is farthest off. Inliers of known deviations name all
alike; outliers along few columns name these. All is in integers, so that a spec can say the same.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from dpverify.grid.linear import Integers
from dpverify.privacy import Adjacency
from dpverify.privacy.numbers import root_up, to_float
from dpverify.randomness.bits import IntArray

VOTES = Fraction(1, 25)
"""Share of mu^2 that the votes have by default."""
HALF_WIDTH = Fraction(11, 4)
"""Half the width of a cut column, in deviations about the center."""
OPEN = 1 << 60
"""The half width of a column that is not cut, in cells: no ball is as large."""
_SURPRISE = Fraction(7, 2)  # standard deviations of noise and sampling
_SLACK = Fraction(5, 4)  # factor on gamma: up to so many votes in excess are attributed to outliers
_FEWEST = 8  # columns that make the middle one of their counts that of inliers
_LARGEST_COUNT, _LARGEST_EXCESS, _BITS = 1 << 30, 1 << 29, 16


def worthwhile(
    columns: int, n_max: int, gamma: Fraction, noise: Fraction, adjacency: Adjacency
) -> bool:
    """Return, from public numbers, whether n_max records would show a quarter of the outliers
    in one column; noise: the noise of a count of sensitivity 1.
    """
    if columns < _FEWEST:
        return False
    moves = 2 if adjacency is Adjacency.REPLACE else 1
    chance = math.hypot(to_float(noise) * math.sqrt(moves), math.sqrt(n_max / columns))
    return float(gamma) * n_max / 4 >= float(_SURPRISE) * chance


def votes_noise(multiplier: Fraction, moves: int, bits: int) -> Fraction:
    """Return the standard deviation of a count; at least a sixteenth, for which there is a
    sampler.
    """
    return max(Fraction(1, 16), multiplier * root_up(Fraction(moves), bits))


def half_width(exponent: int) -> int:
    """Return ``HALF_WIDTH`` in cells, of which 2^-exponent are a deviation."""
    return min(math.floor(HALF_WIDTH / Fraction(2) ** exponent), OPEN)


def boxes(votes: IntArray, noise: Fraction, gamma: Fraction, half: int) -> Integers:
    """Find the half widths of boxes, shape (rows, d): ``half`` in cut columns, ``OPEN`` elsewhere.

    votes: noisy counts, shape (rows, d). noise: their standard deviation. A column is cut if
    its count is 7/2 standard deviations above the middle one, of noise and sampling together.
    No column is cut where these columns together have more votes in excess than 5/4 gamma of
    all: then the records that differ from their stated deviations are not a share gamma of
    outliers.
    """
    kept = np.clip(votes, -_LARGEST_COUNT, _LARGEST_COUNT).astype(np.int64)
    middle = np.sort(kept, axis=1)[:, (kept.shape[1] - 1) // 2, np.newaxis]
    excess = np.minimum(kept - middle, _LARGEST_EXCESS)
    variance = min(math.ceil(4 * _SURPRISE**2 * noise**2), 1 << 61)
    likely = variance + int(4 * _SURPRISE**2) * np.maximum(middle, 0)
    cut = (excess > 0) & (4 * excess**2 > likely)
    part = math.ceil(_SLACK * gamma * 2**_BITS)
    many = ((excess * cut).sum(axis=1) << _BITS) > part * np.maximum(kept.sum(axis=1), 0)
    return np.where(cut & ~many[:, np.newaxis], half, OPEN)
