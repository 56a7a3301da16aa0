"""Votes of groups: the release, its privacy loss between neighbors, and the accuracy of its
estimate.

Groups and their votes are defined in ``groups``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import comb
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, SourceStatus, states

from .chi_square import interval, tail, upper
from .groups import Cells, Hash, members, moved, votes
from .laws import TranscriptLaw, closed, real
from .laws import real_exponential as e
from .many_hypotheses import least_records
from .obligations import require
from .queries import of_each
from .tables import Counts, ThresholdedGaussianLaw, ThresholdedLaplaceLaw, ThresholdedLaw

Parameters = Mapping[str, Any]

FARTHEST = 2**40
ROOT = Fraction(1414213563, 10**9)
"""Rational that is at least the square root of 2."""
PER_THRESHOLD = 10
BAD = Fraction(1, 20)
"""Allowed probabilities, for one group, of too few records and of variances that are off."""


def scale(parameters: Parameters) -> Fraction:
    """Return the noise scale: every group that changes moves two counts by one, and all may move
    the same two.
    """
    noise: Fraction = parameters["noise_multiplier"] * moved(parameters["adjacency"])
    return noise * (2 if parameters["noise"] == "laplace" else ROOT)


def model(parameters: Parameters, counts: Counts, threshold: int) -> ThresholdedLaw:
    """Return the law of the released votes for these counts."""
    laplace = parameters["noise"] == "laplace"
    kind = ThresholdedLaplaceLaw if laplace else ThresholdedGaussianLaw
    return kind(counts, scale(parameters), threshold)


def surfaces(parameters: Parameters, threshold: int) -> Any:
    """Return the largest probability that a bucket surfaces that only one of two neighbors has.

    It has one vote; or, under replace, there are two such buckets with one vote each, or one
    with two.
    """
    law = model(parameters, (), threshold)
    one, two = (law.below(1 + votes - threshold, e) for votes in (1, 2))
    return max(2 * one - one**2, two) if moved(parameters["adjacency"]) == 2 else one


def threshold_of(parameters: Parameters) -> int:
    """Return the least threshold with surfaces(threshold) <= delta, above the number that can
    surface alone.
    """
    delta, low = real(parameters["delta"]), moved(parameters["adjacency"])
    high = low + 1
    while surfaces(parameters, high) > delta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if surfaces(parameters, middle) <= delta else (middle, high)
    return high


def groups_of(parameters: Parameters) -> int:
    """Return the given number of groups, or 10 times the threshold, and no more than half the
    records expected.
    """
    if parameters["groups"] is not None:
        return int(parameters["groups"])
    groups = PER_THRESHOLD * threshold_of(parameters)
    return groups if parameters["records"] is None else min(groups, parameters["records"] // 2)


def cells_of(record: Any, cell: Fraction) -> Cells:
    """Return each number in cells, rounded to the nearest, ties to even, and clamped."""
    numbers = (record,) if isinstance(record, Fraction) else record
    return tuple(min(max(round(number / cell), -FARTHEST), FARTHEST) for number in numbers)


def law_of(parameters: Parameters, records: Sequence[Any], statistic: Any) -> TranscriptLaw:
    """Return the law of (bucket, groups + Z) for every bucket that groups name and that has groups
    + Z >= threshold.
    """
    cell = Fraction(parameters["cell"])
    cells = of_each(lambda record: cells_of(record, cell), records)
    grouped = members(cells, Hash(groups_of(parameters), parameters["key"]))
    counts = Counter(votes(grouped, parameters["d"], statistic))
    table = tuple(sorted(counts.items()))
    return closed("votes", model(parameters, table, threshold_of(parameters)))


def _tables(things: int, keys: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to give the things keys, as the number of things with each key."""
    return (t for t in product(range(things + 1), repeat=keys) if sum(t) == things)


def moved_pairs(
    parameters: Parameters, threshold: int
) -> list[tuple[ThresholdedLaw, ThresholdedLaw]]:
    """Return the pairs of laws of all votes of 5 groups for 4 buckets in which as many votes as
    may change differ; one pair for each set of counts on the buckets that differ.
    """
    law_pairs = {}
    for left, right in product(_tables(5, 4), repeat=2):
        if sum(abs(a - b) for a, b in zip(left, right, strict=True)) <= 2 * moved(
            parameters["adjacency"]
        ):
            sides = [tuple((i, c) for i, c in enumerate(t) if c) for t in (left, right)]
            own, other = (model(parameters, side, threshold) for side in sides)
            law_pairs[tuple(own.differing(other))] = own, other
    return list(law_pairs.values())


def base(adjacency: Adjacency, noise: str, delta: str) -> dict[str, Any]:
    """Return parameters of a small model."""
    given: dict[str, Any] = {"adjacency": adjacency, "noise": noise, "delta": Fraction(delta)}
    return given | {"noise_multiplier": Fraction(1), "groups": None, "records": None}


# --- how good it is -----------------------------------------------------------------------------


def off_by_two(pairs: int) -> Any:
    """Return Chernoff's bounds on P(chi2_l <= l / 2) and P(chi2_l >= 2 l), l = ``pairs``, added.

    They are e^(-l (ln 2 - 1/2) / 2) + e^(-l (1 - ln 2) / 2).

    They hold for every weighted mean of chi2_1 / 1 as well, sum w_j chi_j: ln E e^(t chi_j w_j)
    = -ln(1 - 2 t w_j) / 2 is convex in w_j and 0 at 0, so the sum over j is at most what it is
    with all weight on one. The sum of the variances of normal records, whatever their
    covariance, is such a mean by an orthogonal change of coordinates.
    """
    half = real(Fraction(pairs, 2))
    return mp.exp(-half * (mp.log(2) - mp.mpf(1) / 2)) + mp.exp(-half * (1 - mp.log(2)))


def obligation_off_by_two(claimed: Callable[[int], Any] = off_by_two) -> int:
    """Check that the bound is at least the two exact tails and at most 40 times their sum up to
    100 pairs; and that it falls.
    """
    cases, before = 0, mp.inf
    for pairs in (1, 2, 3, 5, 13, 31, 52, 100):
        exact = exactly_off(1, 1, pairs)
        require(exact < before, f"{pairs} pairs are off more often than fewer: {exact}")
        bound, before = claimed(pairs), exact
        require(exact <= bound <= 40 * exact, f"{pairs} pairs: {exact}, said to be {bound}")
        cases += 1
    return cases


def exactly_off(k: int, d: int, pairs: int) -> Any:
    """Return k P(chi2_l <= l / 2) + (d - k + 1) P(chi2_l >= 2 l), a bound on the probability that
    the k-th largest variance of a group is off by more than a factor of 2.

    Otherwise the k largest are at least half of the k-th largest variance, and all but k - 1 at
    most twice.
    """
    low = 1 - tail(pairs, interval(Fraction(pairs, 2)))
    return upper(k * low + (d - k + 1) * tail(pairs, interval(2 * pairs)))


def failure(parameters: Parameters, n: int, off: Callable[[int], Any]) -> Any:
    """Return a bound on the probability that the estimate from n normal records is not within a
    factor of 4.

    ``off`` bounds the probability that the statistic of a group of so many pairs is off by more
    than a factor of 2.

    Proof, for a hash that is a uniform choice for each slot. Let l be the least with
    off(l) <= 1/20; off falls. A group is valid with probability 9/10 at least, if it has 2 l
    records except with probability 1/20: its size is binomial. Sizes are negatively associated,
    and given them groups are independent, so the number of valid groups has Chernoff's bound
    e^(-m KL(4/5 || 9/10)) for at most 4 m / 5. The valid ones are within a factor 2 of the
    truth s, in [s / 2, 2 s): that meets at most two buckets [4^b, 4^(b + 1)). The fuller of
    them has best >= (m - m/5) / 2 votes; all other buckets together have others <= m/5. It
    surfaces and wins unless its noise is below threshold - best, or at most -h, or the noise of
    another bucket is at least best - others - h; there are at most m/5 others. If either bucket
    wins, the value 2 4^b is within a factor 4 of s: s / 2 < 4^(b + 1) and 2 s >= 4^b. QED.
    """
    m, pairs = groups_of(parameters), 1
    while off(pairs) > real(BAD):
        pairs += 1
    small = sum(_binomial(n, m, i) for i in range(min(2 * pairs, n + 1)))
    if small > real(BAD):
        return mp.mpf(1)
    others = m // 5
    best = -((others - m) // 2)
    half = -((others - best) // 2)
    law = model(parameters, (), threshold_of(parameters))
    valid = mp.exp(-m * (mp.log(mp.mpf(8) / 9) * 4 + mp.log(2)) / 5)
    wrong = law.below(law.threshold - best, e) + law.below(1 - half, e)
    return valid + wrong + others * law.below(1 - (best - others - half), e)


def _binomial(n: int, m: int, i: int) -> Any:
    return comb(n, i) * mp.power(mp.mpf(1) / m, i) * mp.power(1 - mp.mpf(1) / m, n - i)


def allowed(t: float) -> Any:
    """Return beta, the probability with which an answer may be off by more than a factor of 4, for
    t = ln(1 / beta).
    """
    return mp.exp(-mp.mpf(t))


@states(
    Source("DJYZZ24", "Lemma 4.5, KthLargest within a factor 4", SourceStatus.CHANGED_CONSTANTS)
)
def enough(epsilon: Fraction, delta: Fraction, beta: Fraction) -> int:
    """Return a number of groups with one common bucket that show it except with probability beta:
    about ln(1 / (delta beta)) times 2 / epsilon.

    Under add-remove, for Laplace noise of scale s = 2 / epsilon: with w = e^(-1 / s) it is
    below -t with probability w^(t + 1) / (1 + w) <= beta for t >= s ln(1 / beta), and the
    threshold is at most 2 + s ln(1 / delta).
    """
    return 3 + int(mp.ceil(2 * mp.log(1 / (real(delta) * real(beta))) / real(epsilon)))


def obligation_enough(
    claimed: Callable[[Fraction, Fraction, Fraction], int] = enough,
) -> int:
    """Check that with ``claimed`` groups the bucket is withheld with probability at most beta, and
    with 2 / epsilon fewer than nine tenths of them with more.

    ``lower_bound`` is at most ``claimed`` and at least a 40th of it.
    """
    cases = 0
    for epsilon, delta, beta in product(
        map(Fraction, ("1/100", "1/8", "1")), ("1e-12", "1e-6", "1/100"), ("1/1000", "1/10")
    ):
        given = base(Adjacency.ADD_REMOVE, "laplace", delta) | {"noise_multiplier": 1 / epsilon}
        law, share = model(given, (), threshold_of(given)), Fraction(beta)
        m = claimed(epsilon, Fraction(delta), share)
        case = f"{epsilon}, {delta}, {beta}: {m} groups"
        require(law.below(law.threshold - m, e) <= real(share), case)
        fewer = m * 9 // 10 - 3 - int(2 / epsilon)
        require(law.below(law.threshold - fewer, e) > real(share), f"{case} are too many")
        least = lower_bound(epsilon, Fraction(delta), share)
        require(least <= m <= 40 * least, f"{case}, but at least {least}")
        cases += 1
    return cases


lower_bound = least_records
"""Number of groups below which any mechanism that never names a bucket without groups abstains or
errs with probability above beta on some data: all groups in one bucket, against all in another.
"""
