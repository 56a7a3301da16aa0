"""Counts from released products with a public matrix, and the noise of ranges of bins.

All is post-processing in floats. The answers are those of least squares, so ranges add up; of a
tree they are found in two passes, from single bins up and back down (Hay, Rastogi, Miklau, Suciu
2010, for any weights and any number of bins).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.strategies import Circulant, Levels, Strategy, paired
from dpverify.privacy.numbers import Floats


def solved(strategy: Strategy, released: Floats) -> Floats:
    """Estimate the counts, shape (m, bins), from released products of shape (m, rows), by least
    squares."""
    if isinstance(strategy, Circulant):
        spectrum = np.fft.rfft(np.array(strategy.kernel, np.float64))
        return np.asarray(np.fft.irfft(np.fft.rfft(released) / spectrum, strategy.bins))
    assert isinstance(strategy, Levels)
    if strategy.weights == (1,):
        return released
    return _from_levels(strategy, released)


def range_variances(
    strategy: Strategy, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> Floats:
    """Compute the variances of sums of the bins from ``starts`` to before ``ends``, for noise of
    variance 1."""
    if isinstance(strategy, Circulant):
        return np.asarray(_of_lengths(strategy.kernel)[ends - starts])
    assert isinstance(strategy, Levels)
    return _of_tree(strategy, starts, ends)


@lru_cache(maxsize=8)
def _of_lengths(kernel: tuple[int, ...]) -> Floats:
    """Compute the variance of a range of each length from 0 on: it does not matter where it
    begins."""
    spectrum = np.fft.rfft(np.array(kernel, np.float64))
    between = np.fft.irfft(1 / np.abs(spectrum) ** 2, len(kernel))
    steps = between[0] + 2 * np.concatenate([[0.0], np.cumsum(between[1:])])
    return np.concatenate([[0.0], np.cumsum(steps)])


# --- trees ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Level:
    """Known sums of a level, from the level itself and from below.

    children: the variance of the two children's estimates together. own: the variance with the
    level's released sums besides.
    """

    weight: int
    children: Floats
    own: Floats


@lru_cache(maxsize=8)
def _levels(strategy: Levels) -> tuple[_Level, ...]:
    """Compute the variances of the pass upwards."""
    bins = strategy.bins
    own = np.full((1, bins), 1 / strategy.weights[0] ** 2)
    levels = [_Level(strategy.weights[0], np.full((1, bins), np.inf), own)]
    for weight in strategy.weights[1:]:
        children = paired(own)
        own = 1 / (1 / children + weight**2)
        levels.append(_Level(weight, children, own))
    return tuple(levels)


def _from_levels(strategy: Levels, released: Floats) -> Floats:
    """Go up with the best estimate of each sum from below and from itself, and down with what is
    left over."""
    levels, at = _levels(strategy), strategy.bins
    estimates = [released[:, :at] / strategy.weights[0]]
    below = []
    for height, level in enumerate(levels[1:], 1):
        sums = paired(estimates[-1])
        below.append(sums)
        if level.weight:
            nodes = strategy.nodes(height)
            measured = released[:, at : at + nodes]
            at += nodes
            sums = (sums / level.children + level.weight * measured) * level.own
        estimates.append(sums)
    best = estimates[-1]
    for height in range(len(levels) - 1, 0, -1):
        rest = (best - below[height - 1]) / levels[height].children
        lower = levels[height - 1].own
        spread = np.repeat(rest, 2, axis=1)[:, : lower.shape[1]]
        best = estimates[height - 1] + lower * spread
    return best


def _of_tree(strategy: Levels, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Floats:
    """Follow the nodes of each range's first and last bin from single bins up.

    Given the true sum T of a node, the range's part in it is ``slope`` T and noise of variance
    ``noise``: for a node inside these are 1 and 0, for one outside 0 and 0. Its two children's
    sums are independent but that they add up to T.
    """
    levels = _levels(strategy)
    first, last = starts.copy(), np.maximum(starts, ends - 1)
    left = right = _Part(np.ones(len(starts)), np.zeros(len(starts)))
    joined = first == last
    for height in range(len(levels) - 1):
        own = np.append(levels[height].own[0], 0.0)  # a missing sibling is known to be 0
        sizes = own[first], own[last]
        meeting = ~joined & ((first ^ 1) == last)
        inside = ~joined & (first % 2 == 0), ~joined & (last % 2 == 1)
        beside = [own[np.minimum(at ^ 1, len(own) - 1)] for at in (first, last)]
        left, right = (
            left.joined(sizes[0], right.where(meeting, inside[0]), beside[0]),
            right.joined(sizes[1], left.where(meeting, inside[1]), beside[1]),
        )
        joined, first, last = joined | meeting, first >> 1, last >> 1
    own = levels[-1].own[0]
    upto = np.concatenate([[0.0], np.cumsum(own)])
    between = upto[last] - upto[np.minimum(first + 1, last)]
    alone = left.noise + left.slope**2 * own[first]
    apart = alone + between + right.noise + right.slope**2 * own[last]
    return np.where(starts == ends, 0.0, np.where(joined, alone, apart))


@dataclass(frozen=True, slots=True)
class _Part:
    """The parts of ranges in one node each."""

    slope: Floats
    noise: Floats

    def where(self, here: NDArray[np.bool_], inside: NDArray[np.bool_]) -> _Part:
        """Return this part where it is the sibling, and else a sibling that is wholly inside or
        outside.
        """
        return _Part(np.where(here, self.slope, inside), np.where(here, self.noise, 0.0))

    def joined(self, own: Floats, sibling: _Part, size: Floats) -> _Part:
        """Return the part in the parent; own, size: variances of the two nodes' sums."""
        both = own + size
        slope = (self.slope * own + sibling.slope * size) / both
        spread = (self.slope - sibling.slope) ** 2 * own * size / both
        return _Part(slope, self.noise + sibling.noise + spread)
