"""Spec of ``variance_aware_mean``: medians, deviations, a radius, and a scaled sum, all by
noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, states

from .theory import centered
from .theory.centered import GRAIN, TYPICAL, Prefix, Stage, noisy, root
from .theory.coordinates import (
    Stretch,
    middle,
    norm_counts,
    norm_counts_sensitivity,
    rows_of,
    side_counts,
    side_counts_sensitivity,
    stretch_about,
)
from .theory.gaussian_laws import UNIT
from .theory.laws import IntegerLaw, TranscriptLaw, real
from .theory.obligations import Departure, require
from .theory.tracing_bound import BOUND
from .theory.vectors import Record

Parameters = Mapping[str, Any]

DEPARTURES = (
    Departure(
        "ALNP23, Algorithm 1 (PLAN)",
        "medians come from one noisy binary search for all columns, a vector of d differences a "
        "step, each the records above a threshold minus those below; no number of records is "
        "compared with",
        "a search for each column would take d times as many stages; a difference moves by 1, "
        "its d together by sqrt(d), and under add-remove no threshold may follow the private "
        "number of records",
    ),
    Departure(
        "ALNP23, Algorithm 1 (PLAN)",
        "a step whose value is below two standard deviations is repeated, up to three values "
        "together",
        "a wrong side is then taken with probability about Phi(-2 - r) instead of Phi(-r), so "
        "that half as many records suffice",
    ),
    Departure(
        "ALNP23, Algorithm 1 (PLAN)",
        "the radius is the least of fixed multiples of the expected norm that few records "
        "exceed: one in 1000 and what noise hides, not sqrt(n) of them; by a noisy histogram of "
        "norms, not a search",
        "one stage serves all radii, and the number of records is private under add-remove",
    ),
    Departure(
        "ALNP23, experiments",
        "deviations are 2^k (1 + f) times a public least one, from the medians of |x - median|; "
        "not from chi-square medians of groups of squared differences; nothing is added to them",
        "one more record moves one group under replace and all groups under add-remove; a "
        "median of distances has the same sensitivity for both, and noise hardly follows a "
        "factor of 2",
    ),
    Departure(
        "ALNP23, experiments",
        "1/4 of mu^2 is for both searches and 1/20 for the radius, by default",
        "theirs: 1/4 for centers and deviations, and 1/4 of the rest for the radius",
    ),
)
_PLAN = Source(
    "ALNP23", "Algorithm 1, PLAN", note="other searches, same scaling, clipping and noise"
)
_GAUSSIAN = Source("DRS22", "Gaussian noise on a query of known L2 sensitivity is mu-GDP")
_HALF_NORMAL = Fraction(6745, 10000)


# --- the parts ----------------------------------------------------------------------------------


def side_steps(parameters: Parameters) -> int:
    """Return the number of steps of the search for medians."""
    given = parameters["deviations"]
    least = parameters["least_deviation"] if given is None else min(map(Fraction, given))
    return centered.halvings(parameters, Fraction(least))


def doublings(parameters: Parameters) -> int:
    """Return the least power of two, 2 or more, of doublings of the least deviation that exceed
    the reach.
    """
    k = 2
    while Fraction(parameters["least_deviation"]) * 2**k <= Fraction(parameters["reach"]):
        k *= 2
    return k


def spread_steps(parameters: Parameters) -> int:
    """Return log2 of the doublings, and half of the extra steps; 0 for given deviations."""
    if parameters["deviations"] is not None:
        return 0
    return doublings(parameters).bit_length() - 1 + int(parameters["extra_steps"]) // 2


def deviations(parameters: Parameters, prefix: Prefix, steps: int) -> list[Fraction]:
    """Return the given deviations, or those that ``steps`` values of the second search lead to.

    For 0 to ``doublings`` doublings of the least one, k whole ones and a part f of the next
    give the factor 2^k (1 + f), which is 2^(k + f) to within 7%. None is larger than the reach.
    """
    if parameters["deviations"] is not None:
        return [Fraction(s) for s in parameters["deviations"]]
    most, capped = doublings(parameters), []
    columns = centered.columns_of(prefix, side_steps(parameters), steps, centered.width(parameters))
    for values in columns:
        doubled = (middle(values) + 1) / 2 * most
        k = math.floor(doubled)
        deviation = Fraction(parameters["least_deviation"]) * 2**k * (1 + doubled - k)
        capped.append(min(deviation, Fraction(parameters["reach"])))
    return capped


def edges(parameters: Parameters) -> list[int]:
    """Return the radii in grains."""
    return [math.floor(Fraction(radius) * TYPICAL) for radius in parameters["radii"]]


def chosen(parameters: Parameters, counts: Sequence[int]) -> int:
    """Return the first radius that few records exceed, by the released numbers; the last if there
    is none.

    Few means one in ``one_in`` of all that were released, and three standard deviations of the
    noise in the numbers beyond.
    """
    last = len(parameters["radii"]) - 1
    for b in range(last):
        hidden = math.isqrt(9 * (last + 1 - b) * int(UNIT) ** 2)
        if sum(counts[b + 1 :]) <= sum(counts) // parameters["one_in"] + hidden:
            return b
    return last


def norm_scale(parameters: Parameters) -> Fraction:
    """Return the noise of each number of records by norm."""
    square = norm_counts_sensitivity(parameters["adjacency"])
    share = Fraction(parameters["norm_share"])
    return Fraction(parameters["noise_multiplier"]) * root(square / share)


def sum_share(parameters: Parameters) -> Fraction:
    """Return the part of mu^2 that is left for the sum."""
    return 1 - Fraction(parameters["search_share"]) - Fraction(parameters["norm_share"])


def stretch(parameters: Parameters, prefix: Prefix) -> Stretch:
    """Return the map of column j about its median in units of sqrt(deviation_j)."""
    weights = deviations(parameters, prefix, spread_steps(parameters))
    medians = centered.medians(parameters, prefix, side_steps(parameters))
    return stretch_about(medians, weights, sum(weights, Fraction(0)), TYPICAL * GRAIN)


def ball(parameters: Parameters, prefix: Prefix) -> tuple[Stretch, int]:
    """Return the map and the chosen radius in grains."""
    counts = prefix[side_steps(parameters) + spread_steps(parameters)]
    return stretch(parameters, prefix), edges(parameters)[chosen(parameters, counts)]


# --- the law ------------------------------------------------------------------------------------


@states(_PLAN, _GAUSSIAN)
def law(parameters: Parameters, records: Sequence[Fraction | Record]) -> TranscriptLaw:
    """Return the law of side 1, side 2, ...; spread 1, ...; norms; then of sum and number, or of
    the number and then the sum.
    """
    rows = rows_of(records)
    sides, spreads = side_steps(parameters), spread_steps(parameters)
    d, radii = centered.width(parameters), edges(parameters)

    def norms(prefix: Prefix) -> IntegerLaw:
        counts = norm_counts(rows, stretch(parameters, prefix), [r * GRAIN for r in radii])
        return noisy(counts, norm_scale(parameters))

    stages = [
        *centered.side_stages(parameters, rows, sides, sides + spreads),
        *(_spread_stage(parameters, rows, k, sides + spreads) for k in range(spreads)),
        ("norms", norms),
        *centered.sum_stages(
            parameters, rows, sum_share(parameters), lambda prefix: ball(parameters, prefix)
        ),
    ]
    widths = [*[d] * (sides + spreads), len(radii) + 1]
    return TranscriptLaw(tuple(stages), centered.example(parameters, widths, len(rows)))


def _spread_stage(parameters: Parameters, rows: Sequence[Record], k: int, shared: int) -> Stage:
    """Return the number of records outside median +- 0.6745 deviation minus those inside: about 0
    for normal ones.
    """

    def law(prefix: Prefix) -> IntegerLaw:
        middles = centered.medians(parameters, prefix, side_steps(parameters))
        halves = [_HALF_NORMAL * s for s in deviations(parameters, prefix, k)]
        highs = centered.as_floats([m + h for m, h in zip(middles, halves, strict=True)])
        lows = centered.as_floats([m - h for m, h in zip(middles, halves, strict=True)])
        return noisy(side_counts(rows, highs, lows), centered.step_scale(parameters, shared))

    return f"spread {k + 1}", law


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the squared sensitivity of each stage, in one unit."""
    d, adjacency = centered.width(parameters), parameters["adjacency"]
    sides, spreads = side_steps(parameters), spread_steps(parameters)
    scale = centered.step_scale(parameters, sides + spreads)
    step = centered.unit_sensitivity(side_counts_sensitivity(d, adjacency), scale, d)
    width, square = len(edges(parameters)) + 1, norm_counts_sensitivity(adjacency)
    return {
        **{f"side {k + 1}": step for k in range(sides)},
        **{f"spread {k + 1}": step for k in range(spreads)},
        "norms": centered.unit_sensitivity(square, norm_scale(parameters), width),
        **centered.sum_sensitivities(parameters, sum_share(parameters)),
    }


# --- errors -------------------------------------------------------------------------------------


@states(_PLAN)
def expected_error(parameters: Parameters, n: int, multiple: Any) -> Any:
    """Return the root mean squared distance from the mean of n records of the given deviations, to
    first order, where the radius is ``multiple`` times the expected norm and clips none.

    It is of noise, 2 multiple sum s_j / (n mu) under replace, mu^2 being the sum's share. The
    noise of the number, under add-remove, is left out: it counts times the distance of median
    and mean. The mean of the records is sqrt(sum s_j^2 / n) from that of their law besides.
    """
    given = [real(Fraction(s)) for s in parameters["deviations"]]
    share, energy = sum_share(parameters), mp.fsum(given)
    return centered.spread_of_noise(parameters, share, mp.mpf(multiple), given, energy) / n


@states(_PLAN, Source("OURS", "error of a noisy sum about privately found medians"))
def population_error(parameters: Parameters, n: int, multiple: Any) -> Any:
    """Return the root mean squared distance from the mean of the normal law that the records come
    from.
    """
    variances = mp.fsum(real(Fraction(s)) ** 2 for s in parameters["deviations"])
    return mp.sqrt(variances / n + expected_error(parameters, n, multiple) ** 2)


@states(Source("OURS", "error of a noisy sum over a noisy count, normal tails"))
def error_bound(parameters: Parameters, radius: int, n: int, beta: Fraction) -> Any:
    """Return a bound on the distance of the estimate from the mean of the clipped records, in
    units of the released map, that fails with probability at most beta, given the released
    radius in grains.
    """
    return centered.sum_error(parameters, sum_share(parameters), radius, n, beta)


def chance_of_missing(parameters: Parameters, n: int) -> Any:
    """Return a bound on the probability that the search leaves a median that all n records
    share.
    """
    sides = side_steps(parameters)
    return centered.chance_of_missing(parameters, n, sides, sides + spread_steps(parameters))


@states(BOUND)
def lower_bound(parameters: Parameters, n: int) -> Any:
    """Return a lower bound on the root mean squared error, for all means of n normal records of
    the given deviations, of every estimate of this privacy.
    """
    given = [real(Fraction(s)) for s in parameters["deviations"]]
    return centered.lower_bound(parameters, n, given)


# --- obligations --------------------------------------------------------------------------------

_PLANE = tuple((Fraction(x), Fraction(x)) for x in ("2/5", 10**30, -(10**30)))
"""Records just below the center of the search, and far on either side of it."""


def _settings() -> list[dict[str, Any]]:
    settings = []
    for adjacency, d in product(Adjacency, (1, 2)):
        for given in ((1.0,) * d, None):
            settings.append(
                {
                    "adjacency": adjacency,
                    "noise_multiplier": Fraction(3, 2),
                    "center": (0.5,) * d,
                    "reach": Fraction(2),
                    "search_share": Fraction(1, 4),
                    "norm_share": Fraction(1, 20),
                    "extra_steps": 0,
                    "at_least": 1,
                    "deviations": given,
                    "least_deviation": None if given else Fraction(1),
                    "radii": (Fraction(1, 2), Fraction(1), Fraction(2)),
                    "one_in": 1000,
                }
            )
    return settings


@states(_PLAN, _GAUSSIAN)
def obligation_loss(claimed: Fraction = Fraction(1)) -> int:
    """Check that every stage's mu^2 is at most the stated one, on all neighbors of at most 2
    records along the example transcript.

    For some pair it is within 2^-18 of it. The stated ones add up to (claimed / multiplier)^2,
    up to the grid's 2^-18.
    """
    cases = 0
    for parameters in _settings():
        universe = [r[: centered.width(parameters)] for r in _PLANE]
        stated = sum(sensitivities(parameters).values()) / UNIT**2
        square, slack = (claimed / parameters["noise_multiplier"]) ** 2, 1 + Fraction(1, 2**18)
        case = f"{parameters}: mu^2 = {float(stated)}, not {float(square)}"
        require(stated <= square * slack and square <= stated * slack, case)
        cases += centered.stages_move(
            lambda records, p=parameters: law(p, records),  # type: ignore[misc]
            universe,
            parameters["adjacency"],
            sensitivities(parameters),
        )
    return cases


def obligation_radius(rule: Any = chosen) -> int:
    """Check that without noise the radius is the least one that at most one record in ``one_in``
    and three standard deviations exceed, and that noise of three standard deviations in one
    number moves it by at most that.
    """
    cases = 0
    base = _settings()[0]
    unit = int(UNIT)
    for inside, beyond, far in product((0, 10, 5000), (0, 2, 4, 8, 100), (0, 2, 100)):
        counts = [0, inside * unit, beyond * unit, far * unit]
        total = inside + beyond + far
        few = [total / 1000 + 3 * math.sqrt(m) for m in (3, 2, 1)]
        fits = [tail <= most for tail, most in zip((total, beyond + far, far), few, strict=True)]
        expected = fits.index(True) if True in fits[:2] else 2
        choice = rule(base, counts)
        require(choice == expected, f"{inside}, {beyond}, {far}: {choice}, not {expected}")
        cases += 1
    return cases


def obligation_lower_bound_is_below_error(within: int = 4) -> int:
    """Check for the radius 1.2 times the expected norm that the noise alone is above the lower
    bound and at most 4 times it.
    """
    cases = 0
    for adjacency, d, n in product(Adjacency, (1, 10, 1000), (10**3, 10**4)):
        given = tuple(1.0 / (j + 1) for j in range(d))
        parameters = _settings()[0] | {
            "adjacency": adjacency,
            "center": (0.0,) * d,
            "deviations": given,
            "noise_multiplier": Fraction(10) * (1 if d > 1 else 10),
        }
        bound = lower_bound(parameters, n)
        error = expected_error(parameters, n, mp.mpf(6) / 5)
        case = f"{adjacency}, d = {d}, n = {n}: {bound}, {error}"
        require(bound <= error <= within * bound, case)
        cases += 1
    return cases


def obligation_collapse(records: int = 75) -> int:
    """Check that the bound on missing a median is 1 at 10 sqrt(d) / mu records, and below 1e-3 at
    ``records`` times sqrt(d) / mu, whatever d and mu.

    There are 16 halvings and 4 extra steps, on a quarter of mu^2.
    """
    cases = 0
    for d, multiplier in ((100, Fraction(4)), (1000, Fraction(4)), (1000, Fraction(1, 2))):
        parameters = _settings()[4] | {
            "adjacency": Adjacency.REPLACE,
            "center": (0.0,) * d,
            "deviations": (1.0,) * d,
            "reach": Fraction(2**16),
            "extra_steps": 4,
            "noise_multiplier": multiplier,
        }
        unit = float(mp.sqrt(d) * real(multiplier))
        few, many = (chance_of_missing(parameters, round(unit * k)) for k in (10, records))
        require(few == 1, f"d = {d}: {few} at 10 sqrt(d) / mu")
        require(many < 1e-3, f"d = {d}: {many} at {records} times sqrt(d) / mu")
        cases += 1
    return cases
