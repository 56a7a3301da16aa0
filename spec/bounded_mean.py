"""Spec of ``bounded_mean``: a noisy count, and if it is large enough a noisy clamped sum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, SourceStatus, states

from .theory import lower_bounds, queries
from .theory.laws import (
    DiscreteLaplaceLaw,
    IntegerLaw,
    Outcome,
    PointLaw,
    TranscriptLaw,
    least_tail,
    real,
    real_exponential,
)
from .theory.obligations import Departure, neighbors, require

Parameters = Mapping[str, Any]

DEPARTURES = (
    Departure(
        "K19, An example",
        "the sum is taken about the middle of the bounds, so add-remove costs 40 cm, not 200",
        "the sensitivity of a sum under add-remove is the largest magnitude of a summand",
    ),
    Departure(
        "K19, An example",
        "the number of records is released with noise of its own under add-remove",
        "the slides divide by n as if it were public, which holds under replace only",
    ),
)


def grid(parameters: Parameters) -> tuple[int, int, int, Fraction]:
    """Return (lower, upper, center, cell): bounds in cells, the middle rounded down.

    The cell is the largest power of two that is at most 2^-20 of half the width.
    """
    lower, upper, cell = queries.grid(
        parameters["lower"], parameters["upper"], 2**21, parameters["cell"]
    )
    return lower, upper, (lower + upper) // 2, cell


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the sensitivity of each stage."""
    adjacency = parameters["adjacency"]
    lower, upper, center, _ = grid(parameters)
    return {
        "count": queries.count_sensitivity(None, adjacency),
        "sum": queries.clamped_sum_sensitivity(lower, upper, center, adjacency),
    }


def scales(parameters: Parameters) -> dict[str, Fraction]:
    """Return multiplier x sensitivity / share of epsilon for each stage; a count that cannot
    change takes no share.
    """
    multiplier, moves = parameters["noise_multiplier"], sensitivities(parameters)
    share = parameters["count_share"] if moves["count"] else Fraction(0)
    noise_scales = {"sum": multiplier * moves["sum"] / (1 - share)}
    if share:
        noise_scales["count"] = multiplier * moves["count"] / share
    return noise_scales


@states(
    Source(
        "K19",
        "An example: the sum clipped to [120, 200] cm, plus Laplace(80 / epsilon)",
        SourceStatus.CHANGED_CONSTANTS,
        note="80 is right under replace with n public; under add-remove 40, about the middle",
    ),
    Source("DMNS06", "Section 3, noise calibrated to L1 sensitivity"),
)
def law(parameters: Parameters, records: Sequence[Fraction]) -> TranscriptLaw:
    """Return the law: count + noise; stop below ``at_least``; then sum + noise."""
    lower, upper, center, cell = grid(parameters)
    noise = scales(parameters)
    n = len(records)
    total = queries.clamped_sum(records, lower, upper, center, cell)

    def count_stage(prefix: tuple[Outcome, ...]) -> IntegerLaw:
        return DiscreteLaplaceLaw(n, noise["count"]) if "count" in noise else PointLaw((n,))

    def sum_stage(prefix: tuple[Outcome, ...]) -> IntegerLaw | None:
        if not prefix or prefix[0][0] < parameters["at_least"]:
            return None
        return DiscreteLaplaceLaw(total, noise["sum"])

    example = ((max(parameters["at_least"], n),),)
    return TranscriptLaw((("count", count_stage), ("sum", sum_stage)), example)


@states(Source("DR14", "Theorem B.1", note="checked here on whole transcripts"))
def obligation_loss(claimed: Fraction = Fraction(1)) -> int:
    """Check on all neighbors of at most 2 records, over transcripts in a window, that the loss is
    at most claimed / multiplier, and for some pair exactly that.
    """
    cases = 0
    for adjacency in Adjacency:
        parameters = {
            "adjacency": adjacency,
            "noise_multiplier": Fraction(3, 2),
            "lower": -1.0,
            "upper": 2.0,
            "count_share": Fraction(1, 3),
            "at_least": 1,
            "cell": Fraction(1),
        }
        largest = mp.mpf(0)
        for left, right in neighbors((Fraction(-2), Fraction(1), Fraction(2)), 2, adjacency):
            p, q = law(parameters, left), law(parameters, right)
            for transcript in _window():
                mass = p.probability(transcript, real_exponential)
                if mass == 0:
                    continue
                other = q.probability(transcript, real_exponential)
                require(other > 0, f"{transcript} is possible on one side only")
                largest = max(largest, mp.log(mass / other) * real(Fraction(3, 2)))
                cases += 1
        gap = abs(largest - real(claimed))
        require(gap < mp.mpf(10) ** -12, f"{adjacency}: the largest loss is {largest}, {claimed}")
    return cases


def _window() -> list[tuple[Outcome, ...]]:
    stopped: list[tuple[Outcome, ...]] = [((c,),) for c in range(-2, 1)]
    return stopped + [((c,), (s,)) for c in range(1, 4) for s in range(-5, 7)]


@states(Source("OURS", "error of a ratio of two noisy sums"))
def error_bound(parameters: Parameters, n: int, beta: Fraction) -> Any:
    """Return a bound on |estimate - clamped mean| that fails with probability at most beta.

    Let |count noise| < t and |sum noise| < u, each except with probability beta / 2, and n > t
    with n - t >= at_least (so no abstention). Then |(S + z) / (n + c) - S / n| <=
    (u + |S / n| t) / (n - t) <= (u + radius t) / (n - t) cells; rounding a record to its cell
    adds half a cell. Raises ValueError when n is too small for the bound to say anything.
    """
    lower, upper, center, cell = grid(parameters)
    noise, half = scales(parameters), beta / 2
    radius = max(upper - center, center - lower)
    t = least_tail(DiscreteLaplaceLaw(0, noise["count"]), half) if "count" in noise else 0
    u = least_tail(DiscreteLaplaceLaw(0, noise["sum"]), half)
    if n - t < parameters["at_least"]:
        raise ValueError(f"n = {n} is within the count's noise {t} of {parameters['at_least']}")
    return (mp.mpf(u + radius * t) / (n - t) + mp.mpf(1) / 2) * real(cell)


def expected_error(parameters: Parameters, n: int, mean: float) -> Any:
    """Return the root mean squared error to first order in 1/n: the rate (radius / (n epsilon))."""
    _, _, center, cell = grid(parameters)
    noise = scales(parameters)
    from_sum = _deviation(noise["sum"])
    offset = mp.mpf(mean) / real(cell) - center
    from_count = offset * _deviation(noise["count"]) if "count" in noise else mp.mpf(0)
    return mp.sqrt(from_sum**2 + from_count**2) / n * real(cell)


@states(Source("HT10", "packing argument", note="for two datasets at distance k"))
def lower_bound(parameters: Parameters, epsilon: Fraction, n: int) -> Any:
    """Return a lower bound on the expected error, on some dataset of n records, of every
    epsilon-DP estimate (replace).

    Moving k records from one bound to the other moves the mean by k (upper - lower) / n.
    """
    step = (Fraction(parameters["upper"]) - Fraction(parameters["lower"])) / n
    return lower_bounds.two_point(epsilon, step, n)


def obligation_lower_bound_is_below_error() -> int:
    """Check under replace that the root mean squared error is above the bound and at most 12 times
    it.
    """
    cases = 0
    for n, epsilon in ((100, Fraction(1)), (1000, Fraction(1, 10)), (10**4, Fraction(1, 100))):
        parameters = {
            "adjacency": Adjacency.REPLACE,
            "noise_multiplier": 1 / epsilon,
            "lower": 120.0,
            "upper": 200.0,
            "count_share": Fraction(1, 4),
            "at_least": 1,
            "cell": None,
        }
        bound, error = lower_bound(parameters, epsilon, n), expected_error(parameters, n, 160.0)
        require(bound <= error <= 12 * bound, f"n = {n}: bound {bound}, error {error}")
        cases += 1
    return cases


def _deviation(scale: Fraction) -> Any:
    w = real_exponential(1 / scale)
    return mp.sqrt(2 * w) / (1 - w)
