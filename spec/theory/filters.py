"""Filters that keep records with many friends: keep-probabilities, kept sets, and their change
between neighbors.

A predicate says which records are friends. It is symmetric and looks at the two records only,
so a dataset is a graph. A set of records is friendly if any two of it have a common friend,
among the records of the dataset or elsewhere. A filter keeps each record independently, with a
probability that depends on its degree (the number of its friends in the dataset). It is a
transformation: it has no claim, only lemmas, which spec/basic_filter.py and
spec/gaussian_filter.py show on the graphs here.

Two records with 2 deg > n each have a common friend: two sets of more than n / 2 among n meet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import floor, isqrt, prod
from statistics import NormalDist
from typing import Any, TypeVar

import mpmath as mp

from dpverify.privacy import (
    Adjacency,
    Assumed,
    AssumedPassed,
    Friendly,
    Norm,
    Relation,
    Sensitivity,
    Side,
    Source,
    SourceStatus,
    shows,
    states,
)

from .caches import cache
from .gaussian_laws import UNIT
from .laws import Exponential, real, real_exponential
from .obligations import require
from .tables import ThresholdedGaussianLaw
from .transcript_sums import unit_sensitivity

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
    "Section 4, the zCDP filter",
    SourceStatus.CHANGED_CONSTANTS,
    "rounded Gaussian noise; the threshold from its tail",
)

# --- keep-probabilities -------------------------------------------------------------------------


def degrees(records: Sequence[Record], are_friends: Friends[Record]) -> tuple[int, ...]:
    """Return the number of each record's friends in the dataset, itself included where it is its
    own friend.
    """
    return tuple(sum(bool(are_friends(x, y)) for y in records) for x in records)


@states(BASIC)
@cache
def basic_probability(degree: int, n: int) -> Fraction:
    """Return max(0, 2 deg / n - 1): 0 for half of the records as friends, 1 for all n."""
    return min(max(Fraction(2 * degree, n) - 1, Fraction(0)), Fraction(1))


def basic_probabilities(
    records: Sequence[Record], are_friends: Friends[Record]
) -> tuple[Fraction, ...]:
    """Return the keep-probability of each record, by ``basic_probability``."""
    n = len(records)
    return tuple(basic_probability(degree, n) for degree in degrees(records, are_friends))


def noise_scale(adjacency: Adjacency, size: int, mu: Fraction) -> Fraction:
    """Return the standard deviation of the noise on 2 deg - n: the margins' L2 sensitivity over
    mu, rounded up to 2^-40 / mu.

    All margins but one move by 1 each under add-remove, where ``size`` is at least n - 1 for the
    n of the larger dataset, and by 0 or 2 under replace, where it is n.
    """
    step, moving = (1, size) if adjacency is Adjacency.ADD_REMOVE else (2, size - 1)
    root = Fraction(isqrt(max(moving, 1) * 4**40 - 1) + 1, 2**40)
    return step * root / mu


def least_shift(rare: Fraction, scale: Fraction) -> int:
    """Return the least integer t >= 0 with P(scale N(0, 1) > t) <= rare."""

    @cache
    def is_rare(t: int) -> bool:
        return bool(mp.erfc(real(t / scale) / mp.sqrt(2)) / 2 <= real(rare))

    if 0 < float(rare) < 0.5:  # floats locate most values
        near = floor(-NormalDist().inv_cdf(float(rare)) * scale)
        for t in (near + 1, near):
            if is_rare(t) and (t == 0 or not is_rare(t - 1)):
                return t
    high = 1
    while not is_rare(high):
        high *= 2
    low = -1 if high == 1 else high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_rare(middle) else (middle, high)
    return high


def threshold(adjacency: Adjacency, size: int, scale: Fraction, rare: Fraction) -> int:
    """Return the value that the noisy margin must exceed.

    Then some record with a margin of at most 1 (add-remove) or 2 (replace) is kept with
    probability at most ``rare``.

    ``size`` is at least n - 1 under add-remove, n under replace, as in ``noise_scale``.
    """
    if adjacency is Adjacency.ADD_REMOVE:
        return 1 + least_shift(rare / (size + 1), scale)
    return 2 + least_shift(rare / size, scale)


@states(GAUSSIAN)
def gaussian_probability(
    margin: int, scale: Fraction, threshold: int, e: Exponential = real_exponential
) -> Any:
    """Return P(margin + round(scale N(0, 1)) > threshold), margin = 2 deg - n; stand-ins are not
    symmetric.
    """
    noise = ThresholdedGaussianLaw((), scale, 0)
    if e is real_exponential:
        return noise.below(margin - threshold, e)
    return 1 - noise.below(threshold - margin + 1, e)


def gaussian_probabilities(
    records: Sequence[Record],
    are_friends: Friends[Record],
    *,
    scale: Fraction,
    threshold: int,
    weights: tuple[int, int] = (1, 2),
    e: Exponential = real_exponential,
) -> tuple[Any, ...]:
    """Return the keep-probability of each record, by ``gaussian_probability``.

    The weights (p, q) are of the score q deg - (q - p) n, which is the margin for (1, 2).
    """
    (p, q), n = weights, len(records)
    scores = (q * degree - (q - p) * n for degree in degrees(records, are_friends))
    return tuple(gaussian_probability(score, scale, threshold, e) for score in scores)


def kept_sets(probabilities: Sequence[Any]) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Yield every set that may be kept, as increasing positions, and its probability: the product
    law.
    """
    choices = [
        [(kept, p if kept else 1 - p) for kept in (False, True) if (p if kept else 1 - p)]
        for p in probabilities
    ]
    for chosen in product(*choices):
        yield (
            tuple(i for i, (kept, _) in enumerate(chosen) if kept),
            prod((weight for _, weight in chosen), start=Fraction(1)),
        )


# --- what is asked of the kept records ----------------------------------------------------------

MEAN = Source("OURS", "the mean of friendly records, in the unit of its noise")
Image = tuple[int, ...]
"""A record as integers. Friends are within a radius of each other, so any two of a friendly set are
within two radii."""


def reach(released: int, strangers: int | None = None) -> Fraction:
    """Return a, the largest distance of a record from the mean of the others, in radii.

    It is 2, or 1 + strangers / released for a record with at most so many strangers.
    """
    if strangers is None or released < 1:
        return Fraction(2)
    return 1 + min(Fraction(1), Fraction(strangers, released))


def mean_noise(
    radius: int, spread: Fraction, released: int, strangers: int | None = None
) -> Fraction:
    """Return the standard deviation of the mean's noise: radius spread / released."""
    return reach(released, strangers) * radius * spread / max(1, released)


def exact_mean(images: Sequence[Image]) -> tuple[Fraction, ...]:
    """Return the mean of at least one image."""
    return tuple(Fraction(sum(column), len(images)) for column in zip(*images, strict=True))


def in_noise(mean: Sequence[Fraction], noise: Fraction) -> Image:
    """Return a mean in 2^-40 of its noise, ties to even."""
    return tuple(round(UNIT * value / noise) for value in mean)


def kept_mean(images: Sequence[Image], noise: Fraction) -> Image:
    """Return the exact mean in 2^-40 of its noise, ties to even."""
    return in_noise(exact_mean(images), noise)


@states(MEAN)
def mean_sensitivity(spread: Fraction, width: int) -> int:
    """Return (2^40 / spread + sqrt(width))^2, rounded up: the squared L2 sensitivity, for friendly
    neighbors.

    The released number is below the larger of their numbers N >= 2.

    Proof. The record that goes is within b R of the mean of the N - 1 others, b = 2, or 1 +
    k / (N - 1) with k strangers, which is at most a as released <= N - 1. The mean moves by at
    most b R / N, so by at most released / (N spread) <= 1 / spread deviations. Both values are
    rounded, by 1/2 each. QED.
    With released = N and a stranger this would be false: then a = 1 + k / N < b.
    """
    return unit_sensitivity(spread, width)


def _friendly_neighbors(radius: int) -> Iterator[tuple[tuple[Image, ...], Image, int]]:
    """Yield the others, the record that goes and its number of strangers: small sets, and larger
    cliques.
    """
    half = radius // 2
    line = [(half * i,) for i in range(5)]
    plane = [(half * x, half * y) for x, y in ((0, 0), (2, 0), (4, 0), (2, 2), (3, 1))]
    for universe in (line, plane):
        for n in range(1, 4):
            for others in combinations_with_replacement(universe, n):
                for x in universe:
                    if all(_distance(y, z) <= 4 * radius**2 for y in (*others, x) for z in others):
                        yield others, x, sum(_distance(x, y) > radius**2 for y in others)
    for strangers in (0, 1, 20, 40):
        others = ((0,),) * strangers + ((radius,),) * (40 - strangers)
        yield others, (2 * radius,), strangers


def _distance(x: Image, y: Image) -> int:
    return sum((a - b) ** 2 for a, b in zip(x, y, strict=True))


def _stated_mean(statement: Sensitivity) -> int | None:
    """Return the sensitivity for records that are friends by the query's own predicate, if one of
    them comes or goes.
    """
    given: Any = statement.query
    near: Any = statement.adjacency
    if not _is_of_friends(statement, exchange=False):
        return None
    few = given["strangers"]
    if few is not None and (near.strangers is None or near.strangers > few):
        return None
    return mean_sensitivity(given["spread"], given["width"])


def _is_of_friends(statement: Sensitivity, exchange: bool) -> bool:
    near = statement.adjacency
    own = isinstance(near, Friendly) and near.predicate == statement.query["predicate"]
    return own and isinstance(near, Friendly) and near.exchange is exchange


def _under(statement: Sensitivity) -> tuple[Assumed | AssumedPassed, ...]:
    """Return the assumption that the number used for the mean is at least 1 and below the larger
    number of kept records.
    """
    known = (Relation.AT_MOST, Side.LARGER, "KeptCount")
    return AssumedPassed(1), Assumed(*known, slack=1, same=("predicate",), bounds="released")


@states(MEAN)
@shows("KeptMean", Norm.SQUARED_L2, value=_stated_mean, under=_under, friendly=True)
def obligation_kept_mean(
    claimed: Callable[[Fraction, int], int] = mean_sensitivity, below: int = 1
) -> int:
    """Check on friendly neighbors of up to 4 records, and of 41, that the mean moves by at most
    ``claimed``, for every released number up to N - ``below``, with strangers unknown and
    known; and by 9/10 of it for some.
    """
    cases, radius = 0, 2**20
    for spread in (Fraction(1, 3), Fraction(7)):
        largest = Fraction(0)
        for others, x, strangers in _friendly_neighbors(radius):
            most, n = claimed(spread, len(x)), len(others) + 1
            for released in {*range(1, min(n, 4)), n - below}:
                for known in (None, strangers):
                    noise = mean_noise(radius, spread, released, known)
                    moved = _distance(kept_mean(others, noise), kept_mean((*others, x), noise))
                    largest = max(largest, Fraction(moved, most))
                    case = f"{others} and {x}, released {released}, strangers {known}"
                    require(moved <= most, f"{case}: moved by {moved}, claimed {most}")
                    cases += 1
        attained = f"spread {spread}: at most {float(largest)} of what is claimed"
        require(largest >= Fraction(9, 10), attained)
    return cases


@states(MEAN)
def swapped_sensitivity(spread: Fraction, width: int, reach: Fraction) -> int:
    """Return (2 / reach 2^40 / spread + sqrt(width))^2, rounded up: the squared L2 sensitivity
    when a kept record is replaced.

    The two records have a common friend, so they are at most two radii apart, and released is
    at most N.

    That is ``mean_sensitivity`` for a reach of 2 only. With few strangers the noise is smaller,
    and two friends of all, one on each side of them, are two reaches apart: a replacement then
    costs up to 4 / s^2.
    """
    return unit_sensitivity(spread * reach / 2, width)


def _stated_swap(statement: Sensitivity) -> int | None:
    """Return the larger of both steps, with strangers unknown: a removal, and a replacement at a
    reach of 2.
    """
    given: Any = statement.query
    if not _is_of_friends(statement, exchange=True) or given["strangers"] is not None:
        return None
    spread, width = given["spread"], given["width"]
    return max(mean_sensitivity(spread, width), swapped_sensitivity(spread, width, reach(1)))


@states(MEAN)
@shows("KeptMean", Norm.SQUARED_L2, value=_stated_swap, under=_under, friendly=True)
def obligation_swapped_mean(
    claimed: Callable[[Fraction, int, Fraction], int] = swapped_sensitivity,
) -> int:
    """Check on friendly sets of up to 4 records, one of them replaced, that the mean moves by at
    most ``claimed``, with strangers unknown and known; exactly so, up to rounding, where both
    are two radii apart.

    Where a record may be replaced, one may also come or go, so ``obligation_kept_mean`` holds
    too.
    """
    cases, radius, spread = obligation_kept_mean(), 2**20, Fraction(7)
    largest: dict[Fraction, Fraction] = {}
    sides: dict[tuple[Image, ...], list[tuple[Image, int]]] = {}
    for others, x, strangers in _friendly_neighbors(radius):
        sides.setdefault(others, []).append((x, strangers))
    for others, choices in sides.items():
        n = len(others) + 1
        for (x, far), (y, also) in product(choices, repeat=2):
            if _distance(x, y) > 4 * radius**2:
                continue
            for known in (None, max(far, also)):
                a, noise = reach(n, known), mean_noise(radius, spread, n, known)
                images = [kept_mean((*others, z), noise) for z in (x, y)]
                moved, most = _distance(*images), claimed(spread, len(x), a)
                case = f"{others} with {x} or {y}, strangers {known}: moved by {moved}, {most}"
                require(moved <= most, case)
                largest[a] = max(largest.get(a, Fraction(0)), Fraction(moved, most))
                cases += 1
    attained = {1, 2} <= {a for a, share in largest.items() if share >= Fraction(999, 1000)}
    require(attained, f"by reach, of what is claimed: {largest}")
    return cases


KEPT_COUNT = 1
"""Maximum change in the number of kept records."""


@states(MEAN)
@shows("KeptCount", Norm.L1, value=lambda s: KEPT_COUNT, friendly=True)
def obligation_kept_count(claimed: int = KEPT_COUNT) -> int:
    """Check that the number moves by 1 when a record comes or goes, on the same neighbors, and
    stays when one replaces another.
    """
    cases = 0
    for others, x, _ in _friendly_neighbors(2):
        moved = len((*others, x)) - len(others)
        require(moved == claimed, f"{others} and {x}: the number moves by {moved}, not {claimed}")
        exchanged = len((*others, x)) - len((*others, others[0]))
        require(exchanged == 0, f"{others} and {x}: an exchange moves the number by {exchanged}")
        cases += 1
    return cases
