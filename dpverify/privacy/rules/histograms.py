"""Rules for thresholds: on histograms over unlisted keys, and on how stable a value is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from dpverify.privacy.adjacency import Adjacency
from dpverify.privacy.balls import enclose, round_up
from dpverify.privacy.derivation import Derivation, Norm, PrivacyClaim, Sensitivity
from dpverify.privacy.guarantees import ApproximateGaussianDP
from dpverify.privacy.numbers import Exact, render, whole
from dpverify.privacy.rules.making import (
    approximate,
    claim_of,
    derive,
    positive_scale,
    require_norm,
)
from dpverify.privacy.sources import Source, SourceStatus, states
from dpverify.privacy.tails import Tail

_HISTOGRAM = Source(
    "KKMN09", "thresholded histograms", SourceStatus.CHANGED_CONSTANTS, "delta from the predicate"
)
_GAUSSIAN_HISTOGRAM = Source(
    "OURS", "thresholded Gaussian histograms are approximately GDP", note="no shift of epsilon"
)
_TESTED = Source(
    "DL09", "propose-test-release", note="the noisy distance is released with the value"
)


@states(_HISTOGRAM)
def stability_histogram(
    keys: Derivation[Sensitivity], *, scale: Exact, threshold: int
) -> Derivation[PrivacyClaim]:
    """Release (key, count + Z) for every key that occurs and has count + Z >= threshold.

    The order is one that the keys decide; Z is discrete Laplace noise of ``scale``. With q =
    e^(-1 / scale) a key that one record holds surfaces with probability d =
    P(1 + Z >= threshold) = q^(threshold - 1) / (1 + q), from the predicate itself. A record
    touches at most k keys, once each (the premise). Restricted to outputs without a key that
    only one of the neighbors has, both laws are at least (1 - d)^k times laws of ratio
    e^epsilon, so (epsilon, 1 - (1 - d)^k)-DP with epsilon = k / scale (add-remove) or
    2 k / scale (replace). Where k of a public number of things move to other keys (MOVED),
    several may meet at a key that is new: epsilon = 2 k / scale, and delta is that of the worst
    partition of k into counts.
    """
    change = _change(keys)
    scale, least = positive_scale(scale), _threshold(threshold, change)
    epsilon = change.total / scale

    def surfaces(count: int) -> arb:
        return Tail.DISCRETE_LAPLACE.at_least(least - count, scale)

    delta = _surfacing(surfaces, change)
    rule = f"key threshold {least} under discrete Laplace noise of scale {render(scale)}"
    return derive(claim_of(approximate(epsilon, delta), keys), rule, (keys,), _HISTOGRAM)


@states(_GAUSSIAN_HISTOGRAM, Source("KV18", "Lemma 2.3, histograms over unbounded bins"))
def gaussian_stability_histogram(
    keys: Derivation[Sensitivity], *, sigma: Exact, threshold: int
) -> Derivation[PrivacyClaim]:
    """Release as ``stability_histogram`` does, with noise round(sigma N(0, 1)): approximate GDP.

    A key that one record holds surfaces with probability Phi(-(threshold - 3/2) / sigma); mu =
    sqrt(k) / sigma (add-remove) or sqrt(2 k) / sigma (replace), delta = 1 - (1 - that)^k. Where
    k things move, all may go from one key to another: mu = sqrt(2) k / sigma.
    """
    change = _change(keys)
    sigma, least = positive_scale(sigma, "sigma"), _threshold(threshold, change)

    def surfaces(count: int) -> arb:
        return Tail.ROUNDED_GAUSSIAN.at_least(least - count, sigma)

    delta = _surfacing(surfaces, change)
    guarantee = ApproximateGaussianDP.of_square(change.squares / sigma**2, delta)
    rule = f"key threshold {least} under rounded Gaussian noise of deviation {render(sigma)}"
    return derive(claim_of(guarantee, keys), rule, (keys,), _GAUSSIAN_HISTOGRAM)


@states(_TESTED)
def propose_test_release(
    values: Derivation[Sensitivity], *, scale: Exact, threshold: int
) -> Derivation[PrivacyClaim]:
    """Release (value, distance + Z) for every value with distance + Z >= threshold.

    Z is discrete Laplace noise of ``scale``. A value's distance is the least number of records
    that have to change before the value does. Let neighbors differ in j of the k values
    (the premise). These have distance 1 on both sides, so each passes with the probability d =
    P(1 + Z >= threshold), and what is said of one that does not pass is the same. The other k -
    j have distances that differ by at most 1. On outputs without any of the j both laws are
    (1 - d)^j times laws of ratio e^((k - j) / scale): so (k / scale, 1 - (1 - d)^k)-DP,
    whatever j is.
    """
    require_norm(values, (Norm.STABLE,), "propose-test-release")
    premise = values.conclusion
    if premise.value.denominator != 1 or premise.value < 1:
        raise ValueError(f"{premise}; there is a whole number of values, at least 1.")
    if not isinstance(premise.adjacency, Adjacency):
        raise ValueError(f"propose-test-release has no claim under {premise.adjacency}.")
    number = premise.value.numerator
    change = _Change(Fraction(number), Fraction(number), ((1,) * number,))
    scale, least = positive_scale(scale), _threshold(threshold, change)
    delta = _surfacing(lambda _: Tail.DISCRETE_LAPLACE.at_least(least - 1, scale), change)
    rule = f"distance threshold {least} under discrete Laplace noise of scale {render(scale)}"
    claim = claim_of(approximate(change.total / scale, delta), values)
    return derive(claim, rule, (values,), _TESTED)


_MOST_MOVED = 16  # largest total whose partitions are listed


@dataclass(frozen=True, slots=True)
class _Change:
    """The change of the counts between neighbors.

    The sum of all changes, the sum of their squares, and what the keys that only one of the
    neighbors has may hold together.
    """

    total: Fraction
    squares: Fraction
    alone: tuple[tuple[int, ...], ...]


def _change(keys: Derivation[Sensitivity]) -> _Change:
    require_norm(keys, (Norm.KEYS, Norm.MOVED), "a thresholded histogram")
    premise = keys.conclusion
    moved = premise.norm is Norm.MOVED
    if premise.value.denominator != 1 or premise.value < 1:
        what = (
            "a whole number of things move" if moved else "a record touches a whole number of keys"
        )
        raise ValueError(f"{premise}; {what}, at least 1.")
    if not isinstance(premise.adjacency, Adjacency):
        raise ValueError(f"a thresholded histogram has no claim under {premise.adjacency}.")
    most = premise.value.numerator
    if not moved:
        steps = 2 if premise.adjacency is Adjacency.REPLACE else 1
        return _Change(Fraction(steps * most), Fraction(steps * most), ((1,) * most,))
    if most > _MOST_MOVED:
        raise ValueError(f"{premise}; a thresholded histogram is for up to {_MOST_MOVED}.")
    return _Change(Fraction(2 * most), Fraction(2 * most**2), tuple(_partitions(most, most)))


def _partitions(total: int, largest: int) -> Iterator[tuple[int, ...]]:
    """Yield the ways to write the total as a sum of positive integers up to the largest."""
    if not total:
        yield ()
    for first in range(min(total, largest), 0, -1):
        for rest in _partitions(total - first, first):
            yield first, *rest


def _threshold(threshold: int, change: _Change) -> int:
    least, alone = whole(threshold, "threshold"), max(map(max, change.alone))
    if least <= alone:
        held = "one record holds" if alone == 1 else f"{alone} things that move hold"
        raise ValueError(
            f"threshold = {least}: a key that {held} would surface about every other time. "
            f"Give a threshold of {alone + 1} or more, as large as the data allow."
        )
    return least


def _surfacing(single: Callable[[int], arb], change: _Change) -> Fraction:
    """Bound the probability that a key of only one of the neighbors surfaces, in the worst case.

    That is 1 minus the product of 1 - single(count), without cancellation, rounded up.
    """

    def one_of(counts: tuple[int, ...]) -> Fraction:
        def chance() -> arb:
            return -sum(((-single(count)).log1p() for count in counts), arb(0)).expm1()

        return round_up(enclose(chance).upper)

    delta = max(map(one_of, change.alone))
    if delta >= 1:
        raise ValueError(
            f"one of {len(change.alone[-1])} keys that only one record holds would surface almost "
            "surely; raise the threshold or the noise."
        )
    return delta
