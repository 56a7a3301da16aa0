"""Means about privately estimated medians: their common stages, and their errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, states

from . import vectors
from .coordinates import (
    Stretch,
    middle,
    missed,
    scaled_sum,
    scaled_sum_sensitivity,
    side_counts,
    side_counts_sensitivity,
)
from .gaussian_laws import UNIT, RoundedGaussianLaw, one_unit
from .joint import default_weight, normal_length, with_count_sensitivity
from .laws import IntegerLaw, Outcome, PointLaw, TranscriptLaw, real
from .obligations import neighbors, require
from .tracing_bound import least_gaussian_error
from .vectors import Record, Vector

Parameters = Mapping[str, Any]
Prefix = tuple[Outcome, ...]
Stage = tuple[str, Callable[[Prefix], IntegerLaw | None]]
GRAIN, TYPICAL = 2**10, 2**14
"""Resolution of radii: a radius is a number of grains, and TYPICAL grains are the expected root
mean square norm.
"""
_LARGEST = Fraction(2**1024 - 2**971)


def width(parameters: Parameters) -> int:
    """Return the number of columns d."""
    return len(parameters["center"])


def root(square: Fraction) -> Fraction:
    """Return the square root, rounded down to 2^-40."""
    return Fraction(math.isqrt(math.floor(square * 4**40)), 2**40)


def noisy(value: Vector, scale: Fraction) -> RoundedGaussianLaw:
    """Return the law of a value with noise, in one unit."""
    return RoundedGaussianLaw(one_unit(value, scale), UNIT)


def unit_sensitivity(square: int, scale: Fraction, d: int) -> int:
    """Return the squared sensitivity of a value in one unit."""
    return vectors.one_unit_sensitivity(square, scale, d, int(UNIT))


# --- the search for medians ---------------------------------------------------------------------


def halvings(parameters: Parameters, least: Fraction) -> int:
    """Return the number of search steps: halvings of reach until it is at most ``least``, at least
    one, and the extra steps.
    """
    k, reach = 1, Fraction(parameters["reach"])
    while reach > least * 2**k:
        k += 1
    return k + int(parameters["extra_steps"])


def step_scale(parameters: Parameters, steps: int) -> Fraction:
    """Return the noise of one of ``steps`` steps, in records: together they have ``search_share``
    of mu^2.
    """
    square = side_counts_sensitivity(width(parameters), parameters["adjacency"])
    share = Fraction(parameters["search_share"])
    return Fraction(parameters["noise_multiplier"]) * root(square * steps / share)


def columns_of(prefix: Prefix, first: int, steps: int, d: int) -> list[list[int]]:
    """Return what the steps from number ``first`` on released for each coordinate."""
    return [[outcome[j] for outcome in prefix[first : first + steps]] for j in range(d)]


def medians(parameters: Parameters, prefix: Prefix, steps: int) -> list[Fraction]:
    """Return the thresholds that the first ``steps`` values lead to, in the data's units."""
    reach = Fraction(parameters["reach"])
    values = columns_of(prefix, 0, steps, width(parameters))
    return [
        Fraction(c) + reach * middle(v) for c, v in zip(parameters["center"], values, strict=True)
    ]


def as_floats(values: Sequence[Fraction]) -> list[Fraction]:
    """Return the nearest float64 numbers; beyond the largest one, that."""
    return [Fraction(float(min(max(value, -_LARGEST), _LARGEST))) for value in values]


def side_stages(
    parameters: Parameters, rows: Sequence[Record], steps: int, shared: int
) -> list[Stage]:
    """Return the stages of the search; ``shared`` steps have its share of the budget."""
    scale = step_scale(parameters, shared)

    def stage(k: int) -> Stage:
        def law(prefix: Prefix) -> IntegerLaw:
            return noisy(side_counts(rows, as_floats(medians(parameters, prefix, k))), scale)

        return f"side {k + 1}", law

    return [stage(k) for k in range(steps)]


# --- the sum ------------------------------------------------------------------------------------


def weight(parameters: Parameters) -> int:
    """Return the weight of one record in the joint release, for a radius of one grain."""
    return default_weight(GRAIN, width(parameters))


def sum_scale(parameters: Parameters, share: Fraction) -> Fraction:
    """Return the noise of the sum for a radius of one grain; it has ``share`` of mu^2."""
    if parameters["adjacency"] is Adjacency.REPLACE:
        square = scaled_sum_sensitivity(GRAIN, Adjacency.REPLACE)
    else:
        square = with_count_sensitivity(GRAIN, weight(parameters), Adjacency.ADD_REMOVE)
    return Fraction(parameters["noise_multiplier"]) * root(square / share)


def sum_stages(
    parameters: Parameters,
    rows: Sequence[Record],
    share: Fraction,
    ball: Callable[[Prefix], tuple[Stretch, int]],
) -> list[Stage]:
    """Return the stages of the sum and the number: one noisy stage, or the public number and then
    the sum.
    """
    scale = sum_scale(parameters, share)

    def law(prefix: Prefix) -> IntegerLaw:
        stretch, radius = ball(prefix)
        value = scaled_sum(rows, stretch, radius * GRAIN)
        if parameters["adjacency"] is Adjacency.ADD_REMOVE:
            value = (*value, radius * weight(parameters) * len(rows))
        return noisy(value, radius * scale)

    if parameters["adjacency"] is Adjacency.ADD_REMOVE:
        return [("sum and count", law)]
    return [("count", lambda prefix: PointLaw((len(rows),))), ("sum", law)]


def sum_sensitivities(parameters: Parameters, share: Fraction) -> dict[str, int]:
    """Return the squared sensitivities in one unit: the same for every radius, to which the noise
    is in proportion.
    """
    d, scale = width(parameters), sum_scale(parameters, share)
    if parameters["adjacency"] is Adjacency.REPLACE:
        square = scaled_sum_sensitivity(GRAIN, Adjacency.REPLACE)
        return {"count": 0, "sum": unit_sensitivity(square, scale, d)}
    square = with_count_sensitivity(GRAIN, weight(parameters), Adjacency.ADD_REMOVE)
    return {"sum and count": unit_sensitivity(square, scale, d + 1)}


def example(parameters: Parameters, released: Sequence[int], n: int) -> Prefix:
    """Return zeros for every stage of so many numbers, and the number of records where it is
    public.
    """
    zeros = tuple((0,) * count for count in released)
    return (*zeros, (n,)) if parameters["adjacency"] is Adjacency.REPLACE else zeros


# --- errors -------------------------------------------------------------------------------------


def spread_of_noise(
    parameters: Parameters, share: Fraction, multiple: Any, weights: Sequence[Any], energy: Any
) -> Any:
    """Return n times the root mean square length of the noise of the mean, in the data's units.

    The noise of the sum has sum_scale per unit of the radius, which is multiple sqrt(energy) in
    units of sqrt(weight_j); so its length in the data's units has the mean square
    sum_j weight_j (sum_scale / grain)^2 multiple^2 energy.
    """
    per_radius = real(sum_scale(parameters, share)) / GRAIN
    return per_radius * multiple * mp.sqrt(energy * mp.fsum(weights))


@states(Source("OURS", "noisy binary search that repeats what is not decisive"))
def chance_of_missing(parameters: Parameters, n: int, steps: int, shared: int) -> Any:
    """Return a bound on the probability that some coordinate leaves some threshold to the wrong
    side, where all of n records lie on the other: a union bound over coordinates and steps.
    """
    r = n / real(step_scale(parameters, shared))
    return min(mp.mpf(1), width(parameters) * steps * missed(r))


@states(Source("OURS", "error of a noisy sum over a noisy count, normal tails"))
def sum_error(parameters: Parameters, share: Fraction, radius: int, n: int, beta: Fraction) -> Any:
    """Return a bound on the length of the estimate's error, in units of the map, that fails with
    probability at most beta.

    The released radius is ``radius`` grains, and the error is about the mean of the clipped
    records.

    (S + e) / (n + t) - S / n, moved into the ball, has the length (|e| + R |t|) / (n + t) at
    most.
    """
    d, scale = width(parameters), real(radius * sum_scale(parameters, share))
    if parameters["adjacency"] is Adjacency.REPLACE:
        return (scale * normal_length(d, beta) + mp.sqrt(d) * scale / real(UNIT)) / n
    per_record = real(Fraction(radius * weight(parameters)))
    t = scale / per_record * (mp.sqrt(-2 * mp.log(real(beta) / 2)) + 1 / real(UNIT))
    if n - t < parameters["at_least"]:
        raise ValueError(f"n = {n} is within the count's noise {mp.nstr(t, 3)} of the least number")
    from_sum = scale * (normal_length(d, beta / 2) + mp.sqrt(d) / real(UNIT))
    return (from_sum + radius * GRAIN * t) / (n - t)


def lower_bound(parameters: Parameters, n: int, deviations: Sequence[Any]) -> Any:
    """Return the bound by tracing, at this privacy. Replacing is removing and adding: under
    add-remove, it is for 2 mu.
    """
    twice = 2 if parameters["adjacency"] is Adjacency.ADD_REMOVE else 1
    square = (twice / Fraction(parameters["noise_multiplier"])) ** 2
    return least_gaussian_error(mu_squared=square, variances=[s**2 for s in deviations], n=n)


def stages_move(
    law: Callable[[Sequence[Record]], TranscriptLaw],
    universe: Sequence[Record],
    adjacency: Adjacency,
    stated: Mapping[str, int],
    slack: Fraction = Fraction(1, 2**18),
) -> int:
    """Check, for every stage along the example transcript, that the largest mu^2 over all
    neighbors of at most 2 records (1 to 2 under replace) is what is stated, or less by at most
    ``slack``; what is public stays.
    """
    cases, largest = 0, dict.fromkeys(stated, Fraction(0))
    known: dict[Any, list[tuple[str, IntegerLaw]]] = {}
    for pair in neighbors(universe, 2, adjacency):
        for records in pair:
            if records not in known:
                known[records] = law(records).stage_laws()
        for (name, ours), (_, theirs) in zip(*(known[records] for records in pair), strict=True):
            if isinstance(ours, RoundedGaussianLaw) and isinstance(theirs, RoundedGaussianLaw):
                largest[name] = max(largest[name], ours.mu_squared(theirs))
            else:
                require(ours == theirs, f"{name} is public and differs: {ours}, {theirs}")
        cases += 1
    for name, square in largest.items():
        most = stated[name] / UNIT**2
        case = f"{name}, {adjacency}: mu^2 = {float(square)}, {float(most)} stated"
        require(square <= most <= square * (1 + slack), case)
    return cases
