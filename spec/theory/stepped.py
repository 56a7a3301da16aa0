"""Quantities shared by estimates of one parameter by steps of a statistic: shares, noise, the
number of records.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency

from . import centered, shrinking, steps
from .coordinates import side_counts_sensitivity
from .laws import real

Parameters = Mapping[str, Any]
CELLS = 2**12


def counts(parameters: Parameters) -> bool:
    """Return whether the number of records is private."""
    return parameters["adjacency"] is Adjacency.ADD_REMOVE


def shares(parameters: Parameters) -> tuple[Fraction, Fraction, Fraction]:
    """Return the shares of mu^2: the number, the search, the statistics."""
    search = Fraction(parameters["search_share"])
    number = search / 5 if counts(parameters) else Fraction(0)
    return number, search, 1 - search - number


def scale(
    parameters: Parameters, place: int, weight: int, searched: int, share: Fraction
) -> Fraction:
    """Return the noise of the number, of one of ``searched`` steps of the search, or of the
    statistics, in their units.
    """
    moved: Any = (
        1,
        side_counts_sensitivity(1, parameters["adjacency"]) * searched,
        steps.moved_squared(CELLS, weight, parameters["outside"], parameters["adjacency"]),
    )[place]
    root = shrinking.root_up(Fraction(moved) / share)
    return Fraction(parameters["noise_multiplier"]) * root


def at_least(parameters: Parameters) -> int:
    """Return the least number of records: 60 multipliers under replace, 30 under add-remove; up to
    2^60.
    """
    if parameters["at_least"] is not None:
        return int(parameters["at_least"])
    times = 30 if counts(parameters) else 60
    least = -(-times * Fraction(parameters["noise_multiplier"]) // 1)
    return min(max(1, int(least)), 1 << 60)


def sum_noise(last: Fraction, weight: int, mean: Any) -> Any:
    """Return the deviation of the noise in a sum of statistics over the interval, where their mean
    in it is ``mean``.
    """
    one = real(last) / CELLS / 2
    return mp.hypot(one, 2 * one * CELLS / weight * abs(mean - 0.5)) if weight else one


def sensitivities(
    parameters: Parameters, weight: int, searched: int, name: str, scales: tuple[Fraction, ...]
) -> dict[str, int]:
    """Return the squared sensitivities by stage, in one unit; ``name`` is that of the search's
    stages.
    """
    stated = {"count": 0}
    if counts(parameters):
        stated["count"] = centered.unit_sensitivity(1, scales[0], 1)
    square = side_counts_sensitivity(1, parameters["adjacency"])
    one = centered.unit_sensitivity(square, scales[1], 1)
    stated |= {f"{name} {k + 1}": one for k in range(searched)}
    moved = steps.moved_squared(CELLS, weight, parameters["outside"], parameters["adjacency"])
    stated["statistics"] = centered.unit_sensitivity(moved, scales[2], 1 + bool(weight))
    return stated
