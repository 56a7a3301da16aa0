"""Noise that releases the first of many answers above a noisy threshold, and nothing else of
them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpverify.plans.noise import DiscreteLaplace, LogProbabilities, Noise, positive_scale
from dpverify.privacy import Derivation, PrivacyClaim, Sensitivity, rules
from dpverify.privacy.numbers import Floats, settle
from dpverify.randomness import Bits
from dpverify.randomness.bits import IntArray
from dpverify.randomness.enumeration import Atoms, Formal

_AT_ONCE = 1 << 16  # number of noises for queries that are drawn together
_FINEST = 256  # witnesses see a larger scale in units of its 256th part
_FAR = 45  # scales of noise beyond which nothing is considered
_FARTHEST = 300  # likewise, for gaps
_TABLE = 1 << 21
_STEEPEST = 1e6
_WORD = 1 << 61
_LONG, _SHORT = 64, 100  # columns are compared one by one: so many rows for each, so few columns


@dataclass(frozen=True, slots=True)
class AboveThreshold(Noise):
    """Index i >= start of the first answer with answer + Y_i >= threshold + Z; their number if
    there is none.

    Z is discrete Laplace of ``scale``, drawn once; each Y_i is drawn anew, of ``query_scale``.
    by_range: claim a bounded range instead of a profile (see the rule); it changes nothing that
    is drawn.
    """

    threshold: int
    scale: Fraction
    query_scale: Fraction
    start: int = 0
    by_range: bool = False

    def __post_init__(self) -> None:
        for name in ("scale", "query_scale"):
            settle(self, **{name: positive_scale(getattr(self, name))})

    def sample(self, bits: Bits, center: IntArray, size: int) -> IntArray:
        """Draw exactly, shape (size, 1)."""
        indices: IntArray = bits.noise(self.round_of(center), size) + self.start
        return indices[:, np.newaxis]

    def round_of(self, center: IntArray) -> Round:
        """Return the law of the index, counted from ``start``, on these answers."""
        gaps = tuple(self.threshold - int(answer) for answer in center[self.start :])
        return Round(gaps, DiscreteLaplace(self.scale), DiscreteLaplace(self.query_scale))

    def log_probability(self, outputs: IntArray, center: IntArray) -> LogProbabilities:
        """Compute log-probabilities, for witnesses only: float64; scales above 256 are seen in
        coarser units.
        """
        masses = self.round_of(center).log_masses()
        places = outputs[:, 0] - self.start
        possible = (places >= 0) & (places < len(masses))
        return np.where(possible, masses[np.where(possible, places, 0).astype(np.intp)], -np.inf)

    def claim(self, sensitivity: Derivation[Sensitivity]) -> Derivation[PrivacyClaim]:
        """Derive the claim by the rule AboveThreshold."""
        return rules.above_threshold(
            sensitivity, scale=self.scale, query_scale=self.query_scale, by_range=self.by_range
        )

    def rescaled(self, factor: Fraction) -> Noise:
        """Return the noise with both scales times the factor."""
        return replace(self, scale=self.scale * factor, query_scale=self.query_scale * factor)

    def dropped(self) -> Noise:
        """Return noise of scales so small that the first answer at the threshold or above is
        reported.
        """
        return self.rescaled(Fraction(1, 2**9) / self.query_scale)

    @property
    def is_added(self) -> bool:
        """False: two numbers are drawn for every answer, and none of them is released."""
        return False


@dataclass(frozen=True, slots=True)
class Round:
    """Law of the least i with Y_i >= gaps[i] + Z, or len(gaps); gaps: threshold - answer."""

    gaps: tuple[int, ...]
    common: DiscreteLaplace
    own: DiscreteLaplace

    def draw(self, bits: Bits, size: int) -> IntArray:
        """Draw ``size`` indices. Those found are not looked for further, so the time follows
        the index.
        """
        return self.given(bits.noise(self.common, size), bits)

    def given(self, levels: IntArray, bits: Bits) -> IntArray:
        """Return the indices for these values of Z, shape (size,)."""
        wide = max(map(abs, self.gaps), default=0) >= _WORD
        gaps = np.array(self.gaps, dtype=object if wide else np.int64)
        indices, running, at = np.full(len(levels), len(gaps)), np.arange(len(levels)), 0
        while at < len(gaps) and len(running):
            block = gaps[at : at + max(1, _AT_ONCE // len(running))]
            noise = bits.noise(self.own, len(running) * len(block)).reshape(len(running), -1)
            first, end = at + first_above(noise, block, levels), at + len(block)
            if len(running) == len(indices):
                indices = first
            else:
                indices[running] = first
            left = np.flatnonzero(first == end)
            running, levels, at = running[left], levels[left], end
        return indices

    def atoms(self, formal: Formal) -> Atoms:
        """Return every index with its exact mass under stand-ins for exponentials.

        At levels z of Z far up and far down each factor is geometric in z, so their products
        are sums of geometric series; between that, level by level.
        """
        scale, own = self.common.scale, self.own.scale
        u, v = formal(1 / scale), formal(1 / own)
        high, low = max(0, -min(self.gaps, default=0)), min(0, -max(self.gaps, default=0)) - 1

        def tail(distance: int) -> Fraction:  # P(Y >= distance), distance >= 0
            return formal(Fraction(distance) / own) / (1 + v)

        def below(distance: int) -> Fraction:
            return 1 - tail(distance) if distance >= 0 else tail(1 - distance)

        up = [Fraction(1)]  # not above so far, from ``high`` on: a polynomial in v^(z - high)
        down = Fraction(1)  # at ``low``; each step further down is a factor v^(number of queries)
        between = {z: formal(Fraction(abs(z)) / scale) for z in range(low + 1, high)}
        ends = formal(Fraction(high) / scale), formal(Fraction(-low) / scale)

        def mass() -> Fraction:
            upper = sum((c / (1 - u * v**j) for j, c in enumerate(up)), Fraction(0))
            lower = down / (1 - u * v ** (len(up) - 1))
            inside = sum(between.values(), Fraction(0))
            return (1 - u) / (1 + u) * (ends[0] * upper + ends[1] * lower + inside)

        left = [mass()]
        for gap in self.gaps:
            far = tail(gap + high)
            up = [a - far * b for a, b in zip([*up, Fraction(0)], [Fraction(0), *up], strict=True)]
            down *= below(gap + low)
            between = {z: part * below(gap + z) for z, part in between.items()}
            left.append(mass())
        return list(enumerate([*(a - b for a, b in pairwise(left)), left[-1]]))

    def log_masses(self) -> Floats:
        """Compute the natural logarithm of each index's mass, shape (len(gaps) + 1,); for
        witnesses.
        """
        values, log_level, gaps, rate = self.levels()
        logs = np.full(len(gaps) + 1, -np.inf)
        step = max(1, _TABLE // (len(gaps) + 1))
        for at in range(0, len(values), step):
            rows = slice(at, at + step)
            below, above = log_sides(gaps + values[rows, np.newaxis], rate)
            masses = np.zeros((len(below), len(gaps) + 1))
            masses[:, 1:] = np.cumsum(below, axis=1)
            masses[:, :-1] += above
            masses += log_level[rows, np.newaxis]
            logs = np.logaddexp(logs, np.logaddexp.reduce(masses, axis=0))
        return logs

    def levels(self) -> tuple[Floats, Floats, Floats, float]:
        """Return the values of Z that matter, their log-masses, the gaps, and 1 / scale of the
        queries' noise.

        For witnesses: floats, in units of 1 unless a scale is above 256.
        """
        scale, own = float(self.common.scale), float(self.own.scale)
        unit = max(1.0, scale / _FINEST, own / _FINEST)
        scale, own = scale / unit, own / unit
        most = math.ceil(_FARTHEST * max(scale, own))
        gaps = np.clip(np.rint(np.array(self.gaps, dtype=np.float64) / unit), -most, most)
        reach = math.ceil(_FAR * max(scale, own))
        low, high = (int(f(-gaps, initial=0.0)) for f in (np.min, np.max))
        levels = np.arange(low - reach, high + reach + 1, dtype=np.float64)
        rate = min(1 / scale, _STEEPEST)
        return levels, math.log(math.tanh(rate / 2)) - rate * np.abs(levels), gaps, 1 / own


def first_above(noise: IntArray, block: IntArray, levels: IntArray) -> NDArray[np.intp]:
    """Return for each row of noise the first place where it is at least the gap and the level of
    the row, or the number of gaps.

    Many short rows are compared column by column, as numpy takes long over each row; not those
    of gaps that are Python integers, to which nothing may be added in words.
    """
    if len(noise) < _LONG * len(block) or len(block) > _SHORT or block.dtype == object:
        above = np.asarray(noise >= block + levels[:, np.newaxis], dtype=np.bool_)
        return np.where(above.any(axis=1), above.argmax(axis=1), len(block))
    places = np.zeros(len(noise), np.int8)  # counted from behind
    for j, gap in enumerate(block[::-1].tolist()):
        above = np.asarray(noise[:, -1 - j] >= levels + gap, dtype=np.bool_)
        np.maximum(places, above * np.int8(j + 1), out=places)
    return len(block) - places.astype(np.intp)


def log_sides(distance: Floats, rate: float) -> tuple[Floats, Floats]:
    """Compute ln P(Y < distance) and ln P(Y >= distance), Y discrete Laplace of scale 1 / rate;
    for witnesses.
    """
    rate = min(rate, _STEEPEST)
    upper = distance >= 1
    small = -rate * np.where(upper, distance, 1 - distance) - math.log1p(math.exp(-rate))
    large = np.log1p(-np.exp(small))
    return np.where(upper, large, small), np.where(upper, small, large)
