"""Filters that keep records with many friends: keep-probabilities, kept sets, and how far they move.

A predicate says which records are friends. It is symmetric and looks at the two records only, so a
dataset is a graph. A set of records is friendly if any two of it have a common friend, among the
records of the dataset or elsewhere. A filter keeps each record on its own with a probability that
its degree (the number of its friends in the dataset) decides. That is a transformation: it has no
claim, but lemmas, which spec/basic_filter.py and spec/gaussian_filter.py show on the graphs here.

Two records with 2 deg > n each have a common friend: two sets of more than n / 2 among n meet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from math import isqrt, prod
from typing import Any, TypeVar

import mpmath as mp

from dpverify.privacy import Adjacency, Source, SourceStatus, states

from .laws import Exponential, real, real_exponential
from .tables import ThresholdedGaussianLaw

Record = TypeVar("Record")
Friends = Callable[[Record, Record], bool]
BASIC = Source(
    "TCKMS22",
    "Algorithm 4.3, BasicFilter, with alpha = 0",
    SourceStatus.CHANGED_CONSTANTS,
    "keep-probabilities move by 2 in all, by 3 under replace",
)
GAUSSIAN = Source(
    "TCKMS22",
    "filter for zCDP",
    SourceStatus.CHANGED_CONSTANTS,
    "rounded Gaussian noise; the threshold from its tail",
)

# --- keep-probabilities -------------------------------------------------------------------------


def degrees(records: Sequence[Record], are_friends: Friends[Record]) -> tuple[int, ...]:
    """The number of each record's friends in the dataset, itself included where it is its own."""
    return tuple(sum(bool(are_friends(x, y)) for y in records) for x in records)


@states(BASIC)
@cache
def basic_probability(degree: int, n: int) -> Fraction:
    """max(0, 2 deg / n - 1): nothing for half of the records, certainty for all n."""
    return min(max(Fraction(2 * degree, n) - 1, Fraction(0)), Fraction(1))


def basic_probabilities(
    records: Sequence[Record], are_friends: Friends[Record]
) -> tuple[Fraction, ...]:
    """Of each record, by ``basic_probability``."""
    n = len(records)
    return tuple(basic_probability(degree, n) for degree in degrees(records, are_friends))


def noise_scale(adjacency: Adjacency, size: int, mu: Fraction) -> Fraction:
    """Standard deviation of the noise on 2 deg - n: the margins' L2 sensitivity over mu, rounded up
    to 2^-40 / mu.

    All margins but one move by 1 each under add-remove, where ``size`` is at least n - 1 (of the larger
    dataset), and by 0 or 2 under replace, where it is n.
    """
    step, moving = (1, size) if adjacency is Adjacency.ADD_REMOVE else (2, size - 1)
    root = Fraction(isqrt(max(moving, 1) * 4**40 - 1) + 1, 2**40)
    return step * root / mu


def least_shift(rare: Fraction, scale: Fraction) -> int:
    """The least integer t >= 0 with P(scale N(0, 1) > t) <= rare."""

    def is_rare(t: int) -> bool:
        return bool(mp.erfc(real(t / scale) / mp.sqrt(2)) / 2 <= real(rare))

    high = 1
    while not is_rare(high):
        high *= 2
    low = -1 if high == 1 else high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_rare(middle) else (middle, high)
    return high


def threshold(adjacency: Adjacency, size: int, scale: Fraction, rare: Fraction) -> int:
    """What the noisy margin must exceed: all records together whose margin is at most 1 (add-remove)
    or 2 (replace) are kept with probability at most ``rare``.

    ``size`` is at least n - 1 under add-remove, n under replace, as in ``noise_scale``.
    """
    if adjacency is Adjacency.ADD_REMOVE:
        return 1 + least_shift(rare / (size + 1), scale)
    return 2 + least_shift(rare / size, scale)


@states(GAUSSIAN)
def gaussian_probability(
    margin: int, scale: Fraction, threshold: int, e: Exponential = real_exponential
) -> Any:
    """P(margin + round(scale N(0, 1)) > threshold), margin = 2 deg - n."""
    return ThresholdedGaussianLaw((), scale, 0).below(margin - threshold, e)


def gaussian_probabilities(
    records: Sequence[Record],
    are_friends: Friends[Record],
    *,
    scale: Fraction,
    threshold: int,
    e: Exponential = real_exponential,
) -> tuple[Any, ...]:
    """Of each record, by ``gaussian_probability``."""
    margins = (2 * degree - len(records) for degree in degrees(records, are_friends))
    return tuple(gaussian_probability(margin, scale, threshold, e) for margin in margins)


def kept_sets(probabilities: Sequence[Any]) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Every set that may be kept, as increasing positions, and its probability: the product law."""
    choices = [
        [(kept, p if kept else 1 - p) for kept in (False, True) if (p if kept else 1 - p)]
        for p in probabilities
    ]
    for chosen in product(*choices):
        yield (
            tuple(i for i, (kept, _) in enumerate(chosen) if kept),
            prod((weight for _, weight in chosen), start=Fraction(1)),
        )
