"""Spec of ``coordinatewise_mean``: medians by noisy search, then a sum in a public ball about
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, SourceStatus, states

from .theory import centered
from .theory.centered import GRAIN, TYPICAL, Prefix
from .theory.coordinates import (
    Stretch,
    rows_of,
    side_counts_sensitivity,
    stretch_about,
)
from .theory.gaussian_laws import UNIT
from .theory.group_events import PACKING, changed_gaussian
from .theory.laws import TranscriptLaw, real
from .theory.many_hypotheses import means_in_box, records_needed
from .theory.obligations import Departure, require
from .theory.tracing_bound import BOUND
from .theory.vectors import Record

Parameters = Mapping[str, Any]

DEPARTURES = (
    Departure(
        "KV18, ranges by stability histograms",
        "medians come from one noisy binary search for all columns at once, a vector a step",
        "d histograms need an event of probability delta each; the search is Gaussian DP alone",
    ),
    Departure(
        "DJYZZ24, Section 1.2, the folklore estimator",
        "its radius has ln(1 / clipped) for a public share of clipped records, not ln(2 n / beta)",
        "under add-remove the radius may not follow the private number of records",
    ),
)
_FOLKLORE = Source(
    "DJYZZ24",
    "Section 1.2, the folklore estimator: a range for every column, then spherical noise",
    SourceStatus.CHANGED_CONSTANTS,
    note="one ball in place of the ranges; Gaussian DP",
)
_GAUSSIAN = Source("DRS22", "Gaussian noise on a query of known L2 sensitivity is mu-GDP")


def steps(parameters: Parameters) -> int:
    """Return the number of steps of the search."""
    return centered.halvings(parameters, min(map(Fraction, parameters["deviations"])))


def trace(parameters: Parameters) -> Fraction:
    """Return the sum of the variances, t."""
    return sum((Fraction(s) ** 2 for s in parameters["deviations"]), Fraction(0))


def multiple(parameters: Parameters) -> Any:
    """Return the radius over sqrt(t): 2 + sqrt(2 s^2 ln(1 / clipped) / t), s the largest
    deviation.

    A normal record is beyond it with probability at most ``clipped``: by Gaussian concentration
    its distance from the mean exceeds sqrt(t) + sqrt(2 s^2 ln(1 / clipped)) with at most that
    probability (the distance is s-Lipschitz in the standard normal vector), and another sqrt(t)
    is left for the distance of the center from the mean.
    """
    part = real(Fraction(max(parameters["deviations"])) ** 2 / trace(parameters))
    return 2 + mp.sqrt(-2 * part * mp.log(real(Fraction(parameters["clipped"]))))


def radius(parameters: Parameters) -> int:
    """Return the radius in grains, rounded down."""
    return int(mp.floor(multiple(parameters) * TYPICAL))


def sum_share(parameters: Parameters) -> Fraction:
    """Return the part of mu^2 that is left for the sum."""
    return 1 - Fraction(parameters["search_share"])


def ball(parameters: Parameters, prefix: Prefix) -> tuple[Stretch, int]:
    """Return the map with all columns in one unit about the medians, and the public radius."""
    weights = [Fraction(1)] * centered.width(parameters)
    medians = centered.medians(parameters, prefix, steps(parameters))
    return stretch_about(medians, weights, trace(parameters), TYPICAL * GRAIN), radius(parameters)


@states(_FOLKLORE, _GAUSSIAN)
def law(parameters: Parameters, records: Sequence[Fraction | Record]) -> TranscriptLaw:
    """Return the law of side 1, side 2, ...; then of sum and number, or of the number and then the
    sum.
    """
    rows, count = rows_of(records), steps(parameters)
    stages = [
        *centered.side_stages(parameters, rows, count, count),
        *centered.sum_stages(
            parameters, rows, sum_share(parameters), lambda prefix: ball(parameters, prefix)
        ),
    ]
    widths = [centered.width(parameters)] * count
    return TranscriptLaw(tuple(stages), centered.example(parameters, widths, len(rows)))


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the squared sensitivity of each stage, in one unit."""
    d, adjacency = centered.width(parameters), parameters["adjacency"]
    scale = centered.step_scale(parameters, steps(parameters))
    step = centered.unit_sensitivity(side_counts_sensitivity(d, adjacency), scale, d)
    return {
        **{f"side {k + 1}": step for k in range(steps(parameters))},
        **centered.sum_sensitivities(parameters, sum_share(parameters)),
    }


@states(_FOLKLORE)
def expected_error(parameters: Parameters, n: int) -> Any:
    """Return the root mean squared distance from the mean of n normal records of the given
    deviations, to first order: of noise, 2 multiple sqrt(d t) / (n mu) under replace, mu^2
    being the sum's share.

    The noise of the number, under add-remove, is left out: it counts times the distance of
    median and mean. The mean of the records is sqrt(t / n) from that of their law besides.
    """
    energy, ones = real(trace(parameters)), [mp.mpf(1)] * centered.width(parameters)
    scale, share = multiple(parameters), sum_share(parameters)
    return centered.spread_of_noise(parameters, share, scale, ones, energy) / n


@states(Source("OURS", "error of a noisy sum over a noisy count, normal tails"))
def error_bound(parameters: Parameters, n: int, beta: Fraction) -> Any:
    """Return a bound on the distance of the estimate from the mean of the clipped records, in
    units of the released map, that fails with probability at most beta.
    """
    share = sum_share(parameters)
    return centered.sum_error(parameters, share, radius(parameters), n, beta)


@states(BOUND)
def lower_bound(parameters: Parameters, n: int) -> Any:
    """Return a lower bound on the root mean squared error, for all means of n normal records of
    the given deviations, of every estimate of this privacy.
    """
    given = [real(Fraction(s)) for s in parameters["deviations"]]
    return centered.lower_bound(parameters, n, given)


# --- obligations --------------------------------------------------------------------------------

_PLANE = tuple((Fraction(x), Fraction(x)) for x in (0, 10**30, -(10**30)))


def _settings(adjacency: Adjacency, d: int, **own: Any) -> dict[str, Any]:
    return {
        "adjacency": adjacency,
        "noise_multiplier": Fraction(3, 2),
        "center": (0.5,) * d,
        "reach": Fraction(2),
        "search_share": Fraction(1, 4),
        "extra_steps": 0,
        "at_least": 1,
        "deviations": (1.0,) * d,
        "clipped": Fraction(1, 10**6),
        **own,
    }


@states(_FOLKLORE, _GAUSSIAN)
def obligation_loss(claimed: Fraction = Fraction(1)) -> int:
    """Check that every stage's mu^2 is at most the stated one, on all neighbors of at most 2
    records along the example transcript.

    For some pair it is within 2^-18 of it. The stated ones add up to (claimed / multiplier)^2,
    up to the grid's 2^-18.
    """
    cases = 0
    for adjacency, d in product(Adjacency, (1, 2)):
        parameters = _settings(adjacency, d)
        stated = sum(sensitivities(parameters).values()) / UNIT**2
        square, slack = (claimed / parameters["noise_multiplier"]) ** 2, 1 + Fraction(1, 2**18)
        case = f"{parameters}: mu^2 = {float(stated)}, not {float(square)}"
        require(stated <= square * slack and square <= stated * slack, case)
        cases += centered.stages_move(
            lambda records, p=parameters: law(p, records),  # type: ignore[misc]
            [r[:d] for r in _PLANE],
            adjacency,
            sensitivities(parameters),
        )
    return cases


def obligation_ball() -> int:
    """Check for equal deviations that the exact probability that a normal record is beyond the
    radius, about a center that is sqrt(t) from its mean in the worst case, is at most
    ``clipped`` (incomplete gamma).
    """
    cases = 0
    for d, share in product((1, 2, 10, 100), ("1/10", "1/1000", "1/1000000")):
        parameters = _settings(Adjacency.REPLACE, d, clipped=Fraction(share))
        left = (multiple(parameters) - 1) * mp.sqrt(d)
        beyond = mp.gammainc(mp.mpf(d) / 2, left**2 / 2, mp.inf, regularized=True)
        require(beyond <= real(Fraction(share)), f"d = {d}, {share}: {beyond}")
        cases += 1
    return cases


def obligation_lower_bound_is_below_error(within: int = 10) -> int:
    """Check that the noise alone is above the lower bound and at most 10 times it where deviations
    are alike.
    """
    cases = 0
    for adjacency, d, n in product(Adjacency, (10, 1000), (10**3, 10**4)):
        parameters = _settings(adjacency, d, noise_multiplier=Fraction(10))
        bound, error = lower_bound(parameters, n), expected_error(parameters, n)
        require(bound <= error, f"{adjacency}, d = {d}, n = {n}: {bound}, {error}")
        require(error <= within * bound, f"{adjacency}, d = {d}, n = {n}: {error}, {bound}")
        cases += 1
    return cases


@states(PACKING)
def least_for_reach(parameters: Parameters, beta: Fraction) -> int:
    """Compute the number of records that any estimate of this privacy needs to be within a
    deviation (1, in every column) of every mean within ``reach``, except with probability beta.

    It is about sqrt(2 d ln reach) / mu, by packing.
    """
    mu = 1 / real(Fraction(parameters["noise_multiplier"]))
    means = means_in_box(centered.width(parameters), Fraction(parameters["reach"]), Fraction(1))
    return records_needed(lambda n: changed_gaussian(mu, n), means, parameters["adjacency"], beta)


@states(PACKING)
def obligation_reach(claimed: Callable[[Parameters, Fraction], int] = least_for_reach) -> int:
    """Check that the number of records for which the search misses with probability at most 1/100
    is above the lower bound and at most 12 times it, at every reach from 2^10 to 2^1000 and
    every number of columns.

    Both grow as sqrt(d ln reach).
    """
    cases, beta = 0, Fraction(1, 100)
    for adjacency, d, power in product(Adjacency, (1, 16), (10, 1000)):
        least = claimed(_far(adjacency, d, power), beta)
        needed = _needed(adjacency, d, power, beta)
        case = f"{adjacency}, d = {d}, reach 2^{power}: {least}, {needed}"
        require(least <= needed <= 12 * least, case)
        cases += 1
    return cases


def _far(adjacency: Adjacency, d: int, power: int) -> Parameters:
    return _settings(adjacency, d, reach=Fraction(2) ** power, noise_multiplier=Fraction(10))


def _needed(adjacency: Adjacency, d: int, power: int, beta: Fraction) -> int:
    """Return the number of records from which the search misses with probability at most beta."""
    parameters = _far(adjacency, d, power)
    low, high, own = 0, 1 << 20, steps(parameters)
    while high - low > 1:
        n = (low + high) // 2
        missed = centered.chance_of_missing(parameters, n, own, own)
        low, high = (low, n) if missed <= real(beta) else (n, high)
    return high
