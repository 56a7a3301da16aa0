"""Histograms over keys that nobody lists: noise on every count that occurs, small ones withheld.

Likewise values that are released only where a noisy test finds them stable.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import chain, compress
from typing import Any, TypeVar

import numpy as np
import scipy
from numpy.typing import NDArray

from dpverify.grid.transcripts import each_tuple_once
from dpverify.plans.gaussian import RoundedGaussian
from dpverify.plans.noise import DiscreteLaplace, LogProbabilities, Noise, positive_scale
from dpverify.privacy import Derivation, PrivacyClaim, Sensitivity, rules
from dpverify.privacy.calibration import least_integer
from dpverify.privacy.numbers import Exact, settle, to_float
from dpverify.randomness import Bits
from dpverify.randomness.bits import IntArray
from dpverify.randomness.samplers import LARGEST_SCALE, SMALLEST_SCALE

_FEW = 128
Shown = tuple[int, ...]
"""Alternating keys and counts: key, count, key, count, ..."""


class _Thresholded(Noise):
    """Release of (key, count + noise) for every key that occurs and has count + noise >=
    threshold.

    A draw is the tuple key, count, key, count, ... in the order of the query's keys, which
    increase; a batch is an array of such tuples, shape (size,), dtype object.
    """

    __slots__ = ()
    threshold: int

    @property
    @abstractmethod
    def added(self) -> Noise:
        """Noise on a count."""

    def sample(self, bits: Bits, center: IntArray, size: int) -> IntArray:
        """Draw independent noise on every key that occurs."""
        keys, counts = center[:, 0], center[:, 1]
        if not len(keys):
            return as_tuples(keys, np.zeros((size, 0), np.int64), np.zeros((size, 0), np.bool_))
        noisy = self.added.sample(bits, counts, size)
        return as_tuples(keys, noisy, np.asarray(noisy >= self.threshold, dtype=np.bool_))

    def log_probability(self, outputs: IntArray, center: IntArray) -> LogProbabilities:
        """Compute log-probabilities, for witnesses only: float64. -inf for a key that does not
        occur, is out of place or twice, and for a count below the threshold. Many draws are
        alike, so each is looked at once.
        """
        distinct, which = each_tuple_once(outputs)
        return self.log_probability_of_distinct(distinct, center)[which]

    def log_probability_of_distinct(
        self, outputs: Sequence[Shown], center: IntArray
    ) -> LogProbabilities:
        """Compute ``log_probability``, one by one."""
        counts = center[:, 1]
        withheld = np.array([self._log_withheld(int(count)) for count in counts], dtype=np.float64)
        owner, places, values = shown_in(outputs, center)
        wrong = (places < 0) | np.asarray(values < self.threshold, dtype=np.bool_)
        wrong[1:] |= (owner[1:] == owner[:-1]) & (places[1:] <= places[:-1])
        terms = np.full(len(owner), -np.inf)
        right = np.flatnonzero(~wrong)
        noise = (values[right] - counts[places[right]])[:, np.newaxis]
        own = self.added.log_probability(noise, np.zeros(1, dtype=np.int64))
        terms[right] = own - withheld[places[right]]
        added = np.bincount(owner, weights=terms, minlength=len(outputs))
        return np.asarray(withheld.sum() + added, dtype=np.float64)

    def _log_withheld(self, count: int) -> float:
        """Compute ln P(count + noise < threshold)."""
        return float(np.log(max(self.below(self.threshold - count), 5e-324)))

    @abstractmethod
    def below(self, distance: int) -> float:
        """Compute P(noise < distance), for witnesses."""

    def dropped(self) -> Noise:
        """Return exact counts, the threshold kept."""
        return ExactCounts(self.threshold)


@dataclass(frozen=True, slots=True, init=False)
class _Scaled(_Thresholded):
    """Thresholded noise with a scale."""

    scale: Fraction
    threshold: int

    def __init__(self, scale: Exact, threshold: int) -> None:
        settle(self, scale=positive_scale(scale))
        settle(self, threshold=threshold)

    def rescaled(self, factor: Fraction) -> Noise:
        """Return the same threshold under noise of scale * factor."""
        return type(self)(self.scale * factor, self.threshold)


@dataclass(frozen=True, slots=True, init=False)
class ThresholdedLaplace(_Scaled):
    """Release with discrete Laplace noise of ``scale`` on every count."""

    @property
    def added(self) -> Noise:
        """Discrete Laplace."""
        return _on_counts(DiscreteLaplace, self.scale.numerator, self.scale.denominator)

    def below(self, distance: int) -> float:
        """Compute P(noise < distance): 1 - q^distance / (1 + q) from 1 on, q = e^(-1 / scale);
        q^(1 - distance) / (1 + q) below.
        """
        rate = float(min(1 / self.scale, Fraction(10**4)))
        tail = np.exp(-rate * max(distance, 1 - distance)) / (1 + np.exp(-rate))
        return float(1 - tail if distance >= 1 else tail)

    def claim(self, sensitivity: Derivation[Sensitivity]) -> Derivation[PrivacyClaim]:
        """Derive the claim by the rule of the stability histogram."""
        return rules.stability_histogram(sensitivity, scale=self.scale, threshold=self.threshold)


@lru_cache(maxsize=64)
def _on_counts(kind: Callable[[Fraction], Noise], numerator: int, denominator: int) -> Noise:
    """Return the noise of this kind, made once: every draw asks for it."""
    return kind(Fraction(numerator, denominator))


class LaplaceTest(ThresholdedLaplace):
    """Test with discrete Laplace noise of ``scale`` on how far each value is from being another
    one.

    Rows of the query's value are (value, distance): what passes is released with its noisy
    distance.
    """

    __slots__ = ()

    def claim(self, sensitivity: Derivation[Sensitivity]) -> Derivation[PrivacyClaim]:
        """Derive the claim by the rule propose-test-release."""
        return rules.propose_test_release(sensitivity, scale=self.scale, threshold=self.threshold)


@dataclass(frozen=True, slots=True, init=False)
class ThresholdedGaussian(_Scaled):
    """Release with noise round(scale N(0, 1)) on every count."""

    @property
    def added(self) -> Noise:
        """Rounded Gaussian."""
        return _on_counts(RoundedGaussian, self.scale.numerator, self.scale.denominator)

    def below(self, distance: int) -> float:
        """Compute P(noise < distance), which is Phi((distance - 1/2) / scale)."""
        return float(scipy.special.ndtr((distance - 0.5) / float(self.scale)))

    def undrawable(self) -> str:
        """Return why rounded Gaussian noise of this scale is not drawn; the empty text where it
        is.
        """
        return self.added.undrawable()

    def claim(self, sensitivity: Derivation[Sensitivity]) -> Derivation[PrivacyClaim]:
        """Derive the claim by the rule of the Gaussian stability histogram."""
        return rules.gaussian_stability_histogram(
            sensitivity, sigma=self.scale, threshold=self.threshold
        )


@dataclass(frozen=True, slots=True)
class ExactCounts(_Thresholded):
    """Release without noise, for planting a fault."""

    threshold: int

    @property
    def added(self) -> Noise:
        """None."""
        raise TypeError("exact counts have no noise")

    def sample(self, bits: Bits, center: IntArray, size: int) -> IntArray:
        """Return the counts that reach the threshold."""
        return np.fromiter([self._only(center)] * size, dtype=object, count=size)

    def log_probability(self, outputs: IntArray, center: IntArray) -> LogProbabilities:
        """Return 0 for the one possible output, -inf for others."""
        only = self._only(center)
        return np.array([0.0 if row == only else -np.inf for row in outputs])

    def below(self, distance: int) -> float:
        """Return P(0 < distance): 1 or 0, certain or impossible."""
        return float(distance > 0)

    def claim(self, sensitivity: Derivation[Sensitivity]) -> Derivation[PrivacyClaim]:
        """Refuse: exact counts have no claim."""
        raise ValueError("exact counts promise nothing")

    def _only(self, center: IntArray) -> Shown:
        rows: list[Any] = center[center[:, 1] >= self.threshold].ravel().tolist()
        return tuple(rows)


_Kind = TypeVar("_Kind", bound=_Scaled)


def rarely_surfacing(
    kind: type[_Kind], scale: Fraction, moves: Derivation[Sensitivity], delta: Fraction
) -> _Kind:
    """Build noise of this scale, with the least threshold for which the rule's delta is at most
    ``delta``.
    """

    def holds(threshold: int) -> bool:
        try:
            shown = kind(scale, threshold).claim(moves).conclusion.guarantee
        except ValueError:  # with this threshold a new key would surface almost surely
            return False
        return shown.delta_floor <= delta

    about = 2
    if SMALLEST_SCALE <= scale <= LARGEST_SCALE:  # floats are sure of nothing, and of no other one
        chance, allowed = kind(scale, 2).below, to_float(delta / moves.conclusion.value)
        about = 1 + least_integer(lambda more: chance(1 - more) <= allowed, above=0)
    return kind(scale, least_threshold(holds, about))


def as_tuples(keys: IntArray, values: IntArray, shown: NDArray[np.bool_]) -> IntArray:
    """Return each row's shown (key, value) pairs as one flat tuple, shape (size,), dtype object."""
    if max(values.shape) <= _FEW and values.size <= _FEW:  # calls of numpy alone would take longer
        flat = np.empty((len(values), 2 * len(keys)), np.result_type(keys, values))
        flat[:, ::2], flat[:, 1::2] = keys, values
        seen = shown.repeat(2, axis=1).tolist()
        each = map(tuple, map(compress, flat.tolist(), seen))
        return np.fromiter(each, dtype=object, count=len(values))
    rows, columns = np.nonzero(shown)
    pairs = np.stack([keys[columns], values[rows, columns]], axis=1)
    lengths, drawn = shown.sum(axis=1), np.empty(len(shown), dtype=object)
    for length in np.unique(lengths).tolist():
        where = np.flatnonzero(lengths == length)
        block = pairs[lengths[rows] == length].reshape(len(where), 2 * length)
        distinct, which = _distinct(block)
        tuples = np.fromiter(map(tuple, distinct.tolist()), dtype=object, count=len(distinct))
        drawn[where] = tuples[which]
    return drawn


def _distinct(block: IntArray) -> tuple[IntArray, NDArray[np.intp]]:
    """Return the different rows of a table, and which of them each row is; all rows if they may
    be many.
    """
    low = block.min(axis=0)
    spans = [int(span) + 1 for span in block.max(axis=0) - low]
    possible = math.prod(spans)
    if possible >= 1 << 62:
        return block, np.arange(len(block))
    codes = np.zeros(len(block), dtype=np.int64)
    for column, span in zip((block - low).T, spans, strict=True):
        codes = codes * span + column.astype(np.int64)
    if possible <= len(block):  # a table of all possible rows is faster than sorting
        place = np.full(possible, -1)
        place[codes] = np.arange(len(block))
        occurs = place >= 0
        return block[place[occurs]], (np.cumsum(occurs) - 1)[codes]
    _, first, which = np.unique(codes, return_index=True, return_inverse=True)
    return block[first], which


def shown_in(
    outputs: Sequence[Shown], center: IntArray
) -> tuple[NDArray[np.intp], NDArray[np.intp], IntArray]:
    """Return, for every shown pair, the output it is in, its key's row in the center (or -1),
    and its value.
    """
    flat = list(chain.from_iterable(outputs))
    row_of = {key: row for row, key in enumerate(center[:, 0].tolist())}
    places = np.array([row_of.get(key, -1) for key in flat[::2]], dtype=np.intp)
    lengths = np.array([len(row) // 2 for row in outputs], dtype=np.intp)
    large = max(map(abs, flat), default=0) >= 1 << 62
    values = np.array(flat[1::2], dtype=object if large else np.int64)
    return np.repeat(np.arange(len(outputs)), lengths), places, values


def least_threshold(holds: Callable[[int], bool], about: int = 2) -> int:
    """Find the least threshold >= 2 for which a monotone condition holds, soon if ``about`` it."""
    return least_integer(holds, above=1, about=about)
