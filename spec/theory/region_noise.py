"""Public numbers of ``robust_mean``: map of records, noise and sensitivity of stages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from . import farthest_columns, queries, regions, transcript_sums
from .core_means import Soft, Weights
from .rescaling import Rescaling
from .shrinking import root_up

Parameters = Mapping[str, Any]


def public_map(parameters: Parameters) -> Rescaling:
    """Return the map of columns in deviations; a cell is the largest power of two that is at most
    2^-20 radii.
    """
    given = Fraction(parameters["radius"])
    cell = queries.largest_power(lambda c: c * 2**20 <= given)
    scales = tuple(1 / float(s) for s in parameters["deviations"])
    return Rescaling(math.floor(given / cell), cell, scales)


def multiplier(parameters: Parameters, part: int) -> Fraction:
    """Return noise_multiplier / sqrt(share), the root rounded up to 2^-40."""
    share = Fraction(parameters["shares"][part])
    return Fraction(parameters["noise_multiplier"]) * root_up(1 / share)


def last_multiplier(parameters: Parameters) -> Fraction:
    """Return noise_multiplier / sqrt(share / rounds) of the sum's share, the root rounded up to
    2^-40.
    """
    square = parameters["rounds"] / Fraction(parameters["shares"][-1])
    return Fraction(parameters["noise_multiplier"]) * root_up(square)


def round_names(parameters: Parameters) -> list[str]:
    """List the stages that release sums."""
    count = parameters["rounds"]
    return [f"round {i + 1}" for i in range(count)] if count > 1 else ["sum and count"]


def first_stage(parameters: Parameters) -> Weights:
    """Return the center's noise scales, for the records that are sure to agree."""
    gamma, full = Fraction(parameters["gamma"]), parameters["full"]
    weight = 1 - 2 * gamma
    if full is not None:
        weight = min(weight / (2 * full - 1), Fraction(1))
    sure = max(1, math.floor(parameters["n_max"] * (2 * (1 - gamma) * weight - 1)))
    width = len(parameters["deviations"])
    own = parameters["adjacency"], multiplier(parameters, 0), sure, Fraction(parameters["tail"])
    return Weights(*own, width) if full is None else Soft(*own, width, full)


def histogram_noise(parameters: Parameters) -> Fraction:
    """Return the standard deviation in a bin, at least a sixteenth."""
    moves = regions.histogram_moves(parameters["directions"], parameters["adjacency"])
    return max(Fraction(1, 16), multiplier(parameters, 2) * root_up(Fraction(moves)))


def votes_noise(parameters: Parameters) -> Fraction:
    """Return the standard deviation of a column's votes, at least a sixteenth."""
    moves = Fraction(farthest_columns.votes_moves(parameters["adjacency"]))
    part = multiplier(parameters, 3 if parameters["directions"] else 1)
    return max(Fraction(1, 16), part * root_up(moves))


def sides_noise(parameters: Parameters) -> Fraction:
    """Return the standard deviation of the signed count, at least a sixteenth."""
    moves = Fraction(regions.signed_moves(parameters["adjacency"]))
    return max(Fraction(1, 16), multiplier(parameters, -2) * root_up(moves))


def inner_reach(parameters: Parameters) -> int:
    """Return the length that is counted along directions: sqrt(inner + 1) deviations, rounded down,
    in cells; at least 1 and at most the radius.
    """
    public = public_map(parameters)
    square = math.floor((parameters["inner"] + 1) / public.cell**2)
    return max(1, min(math.isqrt(square), public.radius))


def inner_noise(parameters: Parameters) -> Fraction:
    """Return the standard deviation of the noise on inner moments, in squared cells."""
    own = parameters["adjacency"], multiplier(parameters, 2)
    return regions.moments_noise(inner_reach(parameters), *own)


def bins_noise(parameters: Parameters) -> Fraction:
    """Return the noise in a bin, 0 where there are no histograms."""
    histograms = parameters["directions"] and not parameters["inner"]
    return histogram_noise(parameters) if histograms else Fraction(0)


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the sensitivity of each stage; that of the agreement in L1, all others squared."""
    first, d = first_stage(parameters), len(parameters["deviations"])
    by_stage = {
        "agreement": first.moves,
        "mean": transcript_sums.unit_sensitivity(first.spread, d),
    }
    if parameters["directions"]:
        width = d * (d + 1) // 2
        by_stage["moments"] = transcript_sums.unit_sensitivity(multiplier(parameters, 1), width)
        inner = parameters["inner"]
        if inner:
            width = (inner + 1) * (inner + 2) // 2
            own = transcript_sums.unit_sensitivity(multiplier(parameters, 2), width)
            by_stage["inner moments"] = own
        else:
            moves = regions.histogram_moves(parameters["directions"], parameters["adjacency"])
            by_stage["histogram"] = moves
    if parameters["votes"]:
        by_stage["votes"] = farthest_columns.votes_moves(parameters["adjacency"])
    if parameters["rounds"] > 1:
        by_stage["sides"] = regions.signed_moves(parameters["adjacency"])
    width = (d + 1) * (2 if parameters["rounds"] > 1 else 1)
    own = transcript_sums.unit_sensitivity(last_multiplier(parameters), width)
    return by_stage | dict.fromkeys(round_names(parameters), own)
