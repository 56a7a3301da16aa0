"""Gauss's rule between given places, for integrals that are compared to a dozen digits or fewer.

An integrand is analytic between neighboring places, at most a few of its own lengths apart. No
error is estimated: the value that an integral is compared with comes from elsewhere, and would
have to be off by as much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import mpmath as mp
from mpmath.calculus.quadrature import GaussLegendre

from .caches import cache

DIGITS = 20
_LEVEL = 4


def integral(f: Callable[..., Any], places: Sequence[Any]) -> Any:
    """Return the integral of f from the first place to the last, with 24 nodes between
    neighbors.
    """
    with mp.workdps(DIGITS):
        return mp.fsum(weight * f(x) for x, weight in nodes(places))


def nodes(places: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return the nodes between all neighboring places, each with its weight, at ``DIGITS``
    digits.
    """
    points = []
    with mp.workdps(DIGITS):
        for low, high in pairwise(map(mp.mpf, places)):
            middle, half = (low + high) / 2, (high - low) / 2
            points += [(middle + half * x, half * weight) for x, weight in rule(_LEVEL)]
    return points


def in_panels(low: float, high: float, panels: int, level: int) -> list[tuple[float, float]]:
    """Return the nodes of so many equal panels, each with its weight, in floats."""
    half = (high - low) / (2 * max(panels, 1))
    middles = [low + (2 * i + 1) * half for i in range(panels)]
    return [(middle + half * x, half * w) for middle in middles for x, w in _in_floats(level)]


@cache
def _in_floats(level: int) -> list[tuple[float, float]]:
    return [(float(x), float(w)) for x, w in rule(level)]


@cache
def rule(level: int) -> tuple[tuple[Any, Any], ...]:
    """Return the 3 * 2^(level - 1) nodes in [-1, 1] and their weights, at ``DIGITS`` digits."""
    with mp.workdps(DIGITS):
        return tuple(GaussLegendre(mp.mp).calc_nodes(level, mp.mp.prec))
