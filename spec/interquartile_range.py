"""Spec of ``interquartile_range``: bins of the quartiles' distance, released where a noisy test
finds them stable."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, states

from . import stability_histogram
from .theory import quartiles, queries
from .theory.caches import cache
from .theory.laws import DiscreteLaplaceLaw, TranscriptLaw, closed, real
from .theory.laws import real_exponential as e
from .theory.obligations import Departure, require
from .theory.quartiles import BINS_OF_A_VALUE, LaplaceTestLaw

Parameters = Mapping[str, Any]
_TESTED = Source(
    "DL09", "propose-test-release", note="the noisy distance is released with the value"
)
_RANGE = Source("DL09", "the interquartile range", note="distances are exact, on a grid")

DEPARTURES = (
    Departure(
        "DL09, the interquartile range",
        "the threshold is the least for which one of two bins passes by chance (1 + Z >= T) "
        "with probability at most delta, for the noise that is drawn; it does not follow n",
        "the paper lets delta vanish as n grows, with no constants for a delta that is given",
    ),
    Departure(
        "DL09, the interquartile range",
        "two overlapping families of bins are tested at once, each with half of epsilon and delta; "
        "not the second one where the first fails",
        "both answers together name a bin of half the length, and the cost is the same",
    ),
    Departure(
        "DL09, the interquartile range",
        "the bin is the answer; no noise is added to the logarithm afterwards",
        "a bin that passed is right for certain; noise on it would spend epsilon for nothing",
    ),
    Departure(
        "DL09, the interquartile range",
        "bins have a public length, not 1 + 1 / ln n",
        "a length is a parameter, which may follow the public n",
    ),
)


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Give, by stage, how many values are tested."""
    return {"bins": BINS_OF_A_VALUE}


def scale(parameters: Parameters) -> Fraction:
    """Compute the noise's scale: two tests share epsilon."""
    noise: Fraction = BINS_OF_A_VALUE * parameters["noise_multiplier"]
    return noise


def passes(parameters: Parameters, threshold: int, distance: int = 1) -> Any:
    """Compute P(distance + Z >= threshold)."""
    return DiscreteLaplaceLaw(0, scale(parameters)).at_most(distance - threshold, e)


def threshold_of(parameters: Parameters) -> int:
    """Find the least T >= 2 with 1 - (1 - passes(T))^2 <= delta: both bins may change."""

    def rare(threshold: int) -> bool:
        kept = 1 - passes(parameters, threshold)
        return bool(1 - kept**BINS_OF_A_VALUE <= real(parameters["delta"]))

    low, high = 1, 2
    while not rare(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if rare(middle) else (middle, high)
    return high


def counts(parameters: Parameters, records: Sequence[Fraction]) -> Any:
    """List (bin, distance) for both bins."""
    lower, upper, cell = queries.grid(parameters["lower"], parameters["upper"], parameters["cells"])
    cells = [queries.to_cells(record, lower, upper, cell) for record in records]
    return quartiles.bins(cells, lower, upper, Fraction(parameters["step"]))


@states(_TESTED, _RANGE)
def law(parameters: Parameters, records: Sequence[Fraction]) -> TranscriptLaw:
    """State (bin, distance + Z) for each of the two bins with distance + Z >= threshold."""
    tested = LaplaceTestLaw(
        counts(parameters, records), scale(parameters), threshold_of(parameters)
    )
    return closed("bins", tested)


# --- obligations --------------------------------------------------------------------------------


def _settings(**own: Any) -> dict[str, Any]:
    return {
        "adjacency": Adjacency.REPLACE,
        "noise_multiplier": Fraction(1, 2),
        "delta": Fraction(1, 20),
        "lower": 0.0,
        "upper": 4.0,
        "cells": 4,
        "step": Fraction(2),
        "budget": None,
        **own,
    }


@cache
def _rows() -> list[tuple[Any, Any]]:
    """List the different rows of all neighbors of two to four records on five cells."""
    universe, pairs = range(5), set()
    for n in (2, 3, 4):
        known = {
            cells: quartiles.bins(cells, 0, 4, Fraction(2))
            for cells in combinations_with_replacement(universe, n)
        }
        for cells, i, other in product(known, range(n), universe):
            near = tuple(sorted((*cells[:i], other, *cells[i + 1 :])))
            pairs.add((known[cells], known[near]))
    return sorted(pairs)


def _pairs(parameters: Parameters, threshold: int) -> list[tuple[Any, Any]]:
    """Return the laws of the rows on both sides of each pair."""
    noise = scale(parameters), threshold
    return [(LaplaceTestLaw(a, *noise), LaplaceTestLaw(b, *noise)) for a, b in _rows()]


@states(_TESTED, _RANGE)
def obligation_delta(claimed: Callable[[Parameters], int] = threshold_of) -> int:
    """Check that with the threshold ``claimed`` no small pair of neighbors has more than delta at
    1 / multiplier.

    A pair in which both bins change has all of 1 - (1 - passes(threshold))^2; with a threshold
    lower by one, some pair has more than delta.
    """
    cases = 0
    for delta, multiplier in product(
        (Fraction(1, 20), Fraction(1, 4), Fraction(1, 10**6)), (Fraction(1, 2), Fraction(2))
    ):
        parameters = _settings(delta=delta, noise_multiplier=multiplier)
        threshold, epsilon = claimed(parameters), 1 / multiplier
        deltas = [p.profile(q, epsilon) for p, q in _pairs(parameters, threshold)]
        stated = 1 - (1 - passes(parameters, threshold)) ** BINS_OF_A_VALUE
        worst = mp.nstr(max(deltas), 8)
        case = f"delta {delta}, multiplier {multiplier}, threshold {threshold}: {worst}"
        require(max(deltas) <= real(delta), case)
        require(abs(max(deltas) - stated) < mp.mpf(10) ** -20, case)
        lower = [p.profile(q, epsilon) for p, q in _pairs(parameters, threshold - 1)]
        require(threshold == 2 or max(lower) > real(delta), f"{case}: a lower one would do")
        cases += len(deltas) + len(lower)
    return cases


@states(_TESTED)
def obligation_loss(claimed: Fraction = Fraction(1)) -> int:
    """Check that where no bin changes the largest loss is at most claimed / multiplier, and
    exactly that for some pair; where both change, no withheld value distinguishes the
    neighbors.
    """
    cases, largest = 0, mp.mpf(0)
    parameters = _settings()
    allowed = real(claimed / parameters["noise_multiplier"])
    for own, other in _pairs(parameters, threshold_of(parameters)):
        loss, rare = own.tested_part(other)
        shared = {key for key, _ in own.counts} & {key for key, _ in other.counts}
        require(loss <= allowed + mp.mpf(10) ** -20, f"{own.counts}, {other.counts}: {loss}")
        require((rare == 0) is (len(shared) == BINS_OF_A_VALUE), f"{own.counts}, {other.counts}")
        largest, cases = max(largest, loss), cases + 1
    require(abs(largest - allowed) < mp.mpf(10) ** -20, f"the largest loss is {largest}")
    return cases


# --- errors -------------------------------------------------------------------------------------


def abstains(parameters: Parameters, records: Sequence[Fraction]) -> Any:
    """Compute the probability that neither bin passes, exactly."""
    threshold = threshold_of(parameters)
    withheld = (1 - passes(parameters, threshold, far) for _, far in counts(parameters, records))
    return mp.fprod(withheld)


@states(_TESTED)
def error_bound(parameters: Parameters, beta: Fraction) -> int:
    """Find the least distance from which on a bin passes with probability at least 1 - beta.

    A released bin is never wrong: the quartiles of the clamped records, on the grid, are as far
    apart as every released bin says.
    """
    threshold, low, high = threshold_of(parameters), 0, 1
    while 1 - passes(parameters, threshold, high) > real(beta):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        rare = 1 - passes(parameters, threshold, middle) <= real(beta)
        low, high = (low, middle) if rare else (middle, high)
    return high


@states(Source("OURS", "no mechanism shows a key much earlier", note="bins in place of keys"))
def lower_bound(epsilon: Fraction, delta: Fraction, beta: Fraction) -> int:
    """Bound the distance below which no (epsilon, delta)-DP mechanism that never names a wrong bin
    names either of the two with probability 1 - beta.

    Proof. A bin that is D away from being wrong is named with probability 0 on a dataset D
    replacements away. So on the way back its probabilities rise as those of a key that one more
    record holds each time (see ``stability_histogram.lower_bound``), and those of the two bins
    together at most twice as fast. QED
    """
    return stability_histogram.lower_bound(epsilon, BINS_OF_A_VALUE * delta, beta)


def obligation_lower_bound_is_below_error(claimed: int = 6) -> int:
    """Check that the distance from which on a bin surely passes is above the lower bound and at
    most 6 times it.
    """
    cases, beta = 0, Fraction(1, 100)
    for epsilon, delta in product(
        map(Fraction, ("1/10", "1", "3")), map(Fraction, ("1e-3", "1e-9"))
    ):
        parameters = _settings(noise_multiplier=1 / epsilon, delta=delta)
        bound, shown = lower_bound(epsilon, delta, beta), error_bound(parameters, beta)
        require(bound <= shown <= claimed * bound, f"{epsilon}, {delta}: {bound}, {shown}")
        cases += 1
    return cases


def obligation_right() -> int:
    """Check on all small datasets that every released bin contains the quartiles' distance, that
    the two bins overlap in half of each, and that a dataset abstains with the product of two
    tail probabilities, which falls with every distance.
    """
    cases, universe = 0, tuple(map(Fraction, range(5)))
    parameters = _settings()
    ends = quartiles.edges(4, parameters["step"])
    for records in _datasets(universe):
        rows, own = counts(parameters, records), quartiles.apart(list(map(int, records)))
        for key, far in rows:
            require(ends[key] <= own < ends[key + 2] and far >= 1, f"{records}: {rows}, {own}")
        (a, _), (b, _) = rows
        require(b == a + 1 and ends[b] <= own < ends[a + 2], f"{records}: bins {a} and {b}")
        least = (1 - passes(parameters, threshold_of(parameters), len(records))) ** 2
        most = (1 - passes(parameters, threshold_of(parameters), 1)) ** 2
        require(least <= abstains(parameters, records) <= most, f"{records}: {rows}")
        cases += 1
    return cases


def _datasets(universe: Sequence[Fraction]) -> Iterator[tuple[Fraction, ...]]:
    for n in (2, 3, 4):
        yield from product(universe, repeat=n)
