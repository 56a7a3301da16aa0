"""Spec of ``stability_histogram``: noisy counts of the bins that occur, small ones withheld."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, SourceStatus, states

from .theory import discrete_laws
from .theory.discrete_laws import KOLMOGOROV, PAIRS, VARIATION
from .theory.laws import DiscreteLaplaceLaw, TranscriptLaw, closed, least_tail, real
from .theory.laws import real_exponential as e
from .theory.many_hypotheses import LOCATION, least_misses, least_records
from .theory.obligations import Departure, neighbors, require
from .theory.profiles import gaussian_profile
from .theory.tables import (
    ThresholdedGaussianLaw,
    ThresholdedLaplaceLaw,
    ThresholdedLaw,
    bin_of,
    keyed_counts,
)

Parameters = Mapping[str, Any]

ROOT = Fraction(1414213563, 10**9)
"""Rational that is at least the square root of 2: two counts of one each, in Euclidean distance."""
FARTHEST_CELL = 2**60

DEPARTURES = (
    Departure(
        "KKMN09, thresholded histograms",
        "the threshold is the least for which 1 + Z >= threshold has probability at most delta, "
        "for the noise Z that is drawn",
        "noise is an integer here, and the tail of real Laplace noise is up to twice as thin: "
        "with its threshold, or with >= where > was meant, more than delta would surface",
    ),
    Departure(
        "KV18, Lemma 2.3",
        "bins are floors of records on a public grid, computed record by record; delta has no "
        "additional factor for the number of bins",
        "a record lies in one bin, so neighbors differ in one bin (add-remove) or two "
        "(replace), of which each has one that it does not share",
    ),
)


def grid(parameters: Parameters) -> tuple[int, int, Fraction]:
    """Return (width, origin, cell): in cells, rounded to the nearest, and the cell itself.

    The cell is the largest power of two that is at most 2^-30 of the width.
    """
    width, origin = Fraction(parameters["width"]), Fraction(parameters["origin"])
    cell, target = Fraction(1), width / 2**30
    while cell > target:
        cell /= 2
    while 2 * cell <= target:
        cell *= 2
    return round(width / cell), round(origin / cell), cell


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the sensitivity of the histogram: the number of keys of a record."""
    return {"histogram": 1}


def scale(parameters: Parameters) -> Fraction:
    """Return the noise scale: under replace a record moves two counts by one each."""
    noise: Fraction = parameters["noise_multiplier"]
    if parameters["adjacency"] is Adjacency.REPLACE:
        noise *= 2 if parameters["noise"] == "laplace" else ROOT
    return noise


def model(parameters: Parameters, counts: Any, threshold: int) -> ThresholdedLaw:
    """Return the law of the released histogram for these counts."""
    laplace = parameters["noise"] == "laplace"
    kind = ThresholdedLaplaceLaw if laplace else ThresholdedGaussianLaw
    return kind(counts, scale(parameters), threshold)


def surfaces(parameters: Parameters, threshold: int) -> Any:
    """Return P(1 + Z >= threshold), from the release predicate: Z >= threshold - 1 is -Z < 2 -
    threshold.
    """
    return model(parameters, (), threshold).below(2 - threshold, e)


def threshold_of(parameters: Parameters) -> int:
    """Return the least T >= 2 with 1 - (1 - surfaces(T))^1 <= delta: a record has one key."""
    delta, low, high = real(parameters["delta"]), 1, 2
    while surfaces(parameters, high) > delta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if surfaces(parameters, middle) <= delta else (middle, high)
    return high


@states(
    Source(
        "KKMN09",
        "thresholded histograms",
        SourceStatus.CHANGED_CONSTANTS,
        "delta from the predicate",
    ),
    Source("KV18", "Lemma 2.3, histograms over unbounded bins"),
)
def law(parameters: Parameters, records: Sequence[Fraction]) -> TranscriptLaw:
    """Return the law of (bin, count + Z) for every bin that occurs and has count + Z >=
    threshold.
    """
    cells = grid(parameters)
    bins = [bin_of(record, *cells, FARTHEST_CELL) for record in records]
    return closed("histogram", model(parameters, keyed_counts(bins), threshold_of(parameters)))


_UNIVERSE = tuple(map(Fraction, (-1, 0, 5)))
"""Records in three bins of width 2, the first two of them next to each other."""


def _models(noise: str, adjacency: Adjacency, **changed: Any) -> Parameters:
    base = {"noise": noise, "adjacency": adjacency, "width": Fraction(2), "origin": Fraction(0)}
    return base | {"noise_multiplier": Fraction(1), "delta": Fraction(1, 20)} | changed


def _pairs(parameters: Parameters, threshold: int) -> list[tuple[ThresholdedLaw, ThresholdedLaw]]:
    """Return the laws of all neighbors of at most 4 records, with a crowd of 7 beside them or not;
    one pair for each set of counts on the bins that differ.
    """
    law_pairs, cells = {}, grid(parameters)
    bins = [bin_of(record, *cells, FARTHEST_CELL) for record in _UNIVERSE]
    for crowd in ((), (bins[1],) * 7):
        for pair in neighbors(bins, 4, parameters["adjacency"]):
            own, other = (model(parameters, keyed_counts((*z, *crowd)), threshold) for z in pair)
            law_pairs[tuple(own.differing(other))] = own, other
    return list(law_pairs.values())


@states(Source("KKMN09", "thresholded histograms"))
def obligation_delta(claimed: Callable[[Parameters], int] = threshold_of) -> int:
    """Check that with the threshold ``claimed`` no small pair of neighbors has more than delta at
    epsilon, and some pair has all of surfaces(threshold); with a threshold lower by one, some
    pair has more than delta.
    """
    cases = 0
    for adjacency, delta in product(
        Adjacency, (Fraction(1, 20), Fraction(1, 4), Fraction(1, 10**6))
    ):
        parameters = _models("laplace", adjacency, delta=delta)
        threshold = claimed(parameters)
        deltas = [p.profile(q, Fraction(1)) for p, q in _pairs(parameters, threshold)]
        case = f"{adjacency}, delta {delta}, threshold {threshold}: {mp.nstr(max(deltas), 8)}"
        require(max(deltas) <= real(delta), case)
        require(abs(max(deltas) - surfaces(parameters, threshold)) < mp.mpf(10) ** -20, case)
        lower = [p.profile(q, Fraction(1)) for p, q in _pairs(parameters, threshold - 1)]
        require(threshold == 2 or max(lower) > real(delta), f"{case}: a lower one would do")
        cases += len(deltas) + len(lower)
    return cases


@states(Source("OURS", "thresholded Gaussian histograms are approximately GDP"))
def obligation_gaussian_delta(claimed: Fraction = Fraction(1)) -> int:
    """Check that no small pair of neighbors has more than delta plus the profile of mu =
    claimed / multiplier, at any of several epsilons, and that some pair has more than half of
    the profile.
    """
    cases = 0
    require(ROOT**2 >= 2, f"{ROOT} is below the square root of 2")
    for adjacency, epsilon in product(Adjacency, map(Fraction, ("0", "1/2", "2"))):
        parameters = _models("gaussian", adjacency)
        threshold = threshold_of(parameters)
        exact = gaussian_profile(claimed**2, epsilon)
        most = exact + real(parameters["delta"])
        deltas = [p.profile(q, epsilon) for p, q in _pairs(parameters, threshold)]
        require(exact / 2 < max(deltas) <= most, f"{adjacency}, {epsilon}: {max(deltas)}, {most}")
        cases += len(deltas)
    return cases


@states(Source("OURS", "the threshold of real Laplace noise is too low for integers"))
def obligation_real_tail() -> int:
    """Check that the threshold for real Laplace noise of scale 1, the least T with
    e^-(T - 1) / 2 <= delta, T = 1 + ln(1 / (2 delta)), is too small for integer noise.

    For some delta the integer above T lets more than delta surface, and the integer below T
    does for every delta.
    """
    cases, exceeding = 0, 0
    for delta in (Fraction(1, k) for k in range(3, 60)):
        parameters = _models("laplace", Adjacency.ADD_REMOVE, delta=delta)
        real_threshold = 1 - mp.log(2 * real(delta))
        exceeding += bool(surfaces(parameters, int(mp.ceil(real_threshold))) > real(delta))
        low = surfaces(parameters, int(mp.floor(real_threshold)))
        require(low > real(delta), f"{delta}: rounded down, {low} surfaces")
        cases += 1
    require(exceeding > 0, "the threshold of real noise would do")
    return cases


def obligation_mass() -> int:
    """Check that all outputs' masses add up to 1 fraction for fraction, for stand-in noise on -1,
    0, 1.
    """
    cases, threshold = 0, 2
    for counts in ((), ((0, 1),), ((-3, 2), (4, 1)), ((-3, 1), (0, 3), (9, 2))):
        made = ThresholdedGaussianLaw(counts, Fraction(1), threshold)
        choices = [
            [(), *((key, v) for v in range(count - 1, count + 2) if v >= threshold)]
            for key, count in counts
        ]
        outputs = [sum(chosen, ()) for chosen in product(*choices)]
        masses = [made.probability(output, _StandIn()) for output in outputs]
        require(sum(masses) == 1, f"{counts}: {masses}")
        impossible = ((7, 5), (4, 2, -3, 2), (4, 1), (4, 3, 4, 3), (4,))
        require(not any(made.probability(o, _StandIn()) for o in impossible), f"{counts}")
        cases += len(outputs) + len(impossible)
    return cases


class _StandIn:
    """Noise on -1, 0, 1 that is not symmetric."""

    def __call__(self, exponent: Fraction) -> Fraction:
        raise ValueError("no exponential is needed")

    def rounded_gaussian(self, z: int, scale: Fraction) -> Fraction:
        return {-1: Fraction(1, 6), 0: Fraction(1, 2), 1: Fraction(1, 3)}.get(z, Fraction(0))


@states(Source("KKMN09", "thresholded histograms", note="all bins together, by a union bound"))
def error_bound(parameters: Parameters, bins: int, beta: Fraction) -> int:
    """Return t such that |noise| >= t on any of ``bins`` bins with probability at most beta.

    So every count that surfaces is within t - 1, and every bin of threshold + t - 1 records
    surfaces.
    """
    share = beta / bins
    if parameters["noise"] == "laplace":
        return least_tail(DiscreteLaplaceLaw(0, scale(parameters)), share)
    noise = ThresholdedGaussianLaw((), scale(parameters), 2)
    low, high = 0, 1
    while 2 * noise.below(1 - high, e) > real(share):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        rare = 2 * noise.below(1 - middle, e) <= real(share)
        low, high = (low, middle) if rare else (middle, high)
    return high


def expected_error(parameters: Parameters) -> Any:
    """Return the root mean squared error of the count of a bin that surely surfaces: the noise's
    deviation.

    Laplace: sqrt(2 w) / (1 - w), w = e^(-1 / scale). Gaussian: sqrt(scale^2 + 1/12), for
    rounding adds the variance of a uniform cell up to 4 e^(-2 pi^2 scale^2) (1 + scale^2),
    nothing from scale 1 on.
    """
    if parameters["noise"] == "laplace":
        w = e(1 / scale(parameters))
        return mp.sqrt(2 * w) / (1 - w)
    return mp.sqrt(real(scale(parameters)) ** 2 + mp.mpf(1) / 12)


lower_bound = least_records


@states(LOCATION)
def withheld(parameters: Parameters, n: int) -> Any:
    """Compute the probability that a bin of n records does not surface, exactly: that of no
    estimate for a mean of unknown location, with all records in one bin.
    """
    threshold = threshold_of(parameters)
    return model(parameters, (), threshold).below(threshold - n, e)


@states(LOCATION)
def least_withheld(parameters: Parameters, n: int) -> Any:
    """Bound from below the probability that a mechanism of this claim misses the mean by more than
    any stated distance.
    """
    return least_misses(_epsilon(parameters), Fraction(parameters["delta"]), n)


def _epsilon(parameters: Parameters) -> Fraction:
    """Return epsilon, with Laplace noise."""
    return 1 / Fraction(parameters["noise_multiplier"])


@states(VARIATION)
def variation_error(parameters: Parameters, n: int, bins: int) -> Any:
    """Predict the total variation (root mean square) from a uniform law on ``bins`` bins, of
    Laplace counts that surface, as shares of their sum.
    """
    return discrete_laws.variation_error(n, bins, real(scale(parameters)))


@states(KOLMOGOROV)
def kolmogorov_error(parameters: Parameters, n: int, bins: int) -> Any:
    """Predict the Kolmogorov distance (root mean square) from a uniform law on ``bins`` bins, of
    Laplace counts as shares of their sum.
    """
    return discrete_laws.kolmogorov_error(n, bins, real(scale(parameters)))


@states(VARIATION, PAIRS)
def least_variation(parameters: Parameters, n: int, bins: int) -> Any:
    """Bound from below the total variation error of ``variation_error``, at some law, for any
    mechanism of this claim.
    """
    return _least(discrete_laws.least_variation, parameters, n, bins)


@states(KOLMOGOROV)
def least_kolmogorov(parameters: Parameters, n: int, bins: int) -> Any:
    """Bound from below the Kolmogorov error of ``kolmogorov_error``, at some law, for any
    mechanism of this claim.
    """
    return _least(discrete_laws.least_kolmogorov, parameters, n, bins)


def _least(bound: discrete_laws.Least, parameters: Parameters, n: int, bins: int) -> Any:
    delta = Fraction(parameters["delta"])
    return bound(_epsilon(parameters), delta, parameters["adjacency"], n, bins)


def obligation_lower_bound_is_below_error() -> int:
    """Check that the bin size that error_bound promises to show is above the bound and at most 3
    times it.
    """
    cases, beta = 0, Fraction(1, 100)
    for epsilon, delta in product(
        map(Fraction, ("1/10", "1", "3")), map(Fraction, ("1e-3", "1e-9"))
    ):
        parameters = _models(
            "laplace", Adjacency.ADD_REMOVE, noise_multiplier=1 / epsilon, delta=delta
        )
        least = lower_bound(epsilon, delta, beta)
        shown = threshold_of(parameters) + error_bound(parameters, 1, beta) - 1
        require(least <= shown <= 3 * least, f"{epsilon}, {delta}: {least}, {shown}")
        cases += 1
    return cases
