"""Numbers that a report draws of an audit: the claimed profile with certified bounds, and the
confidence region of each event beside the trade-off curve. Everything is rounded to the safe side.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dpverify.audit.certificates import Certificate, tested_points
from dpverify.audit.confidence_regions import ConfidenceRegion
from dpverify.audit.result import AuditResult

Points = list[list[float]]
_STEPS = 25
_BEYOND = Fraction(5, 4)  # times the largest epsilon that is tested
_CORNERS = 8  # corners that are shown of a region, which has several hundred
_DIGITS = 1e-5  # more than the relative error of six digits, 5e-6


def profile_points(result: AuditResult) -> Points:
    """List [epsilon, claimed delta, certified delta]: the claim is refuted where the last
    exceeds the second.

    The epsilons are those at which the claim is tested, and an even grid to a quarter beyond them.
    """
    tested = [Fraction(epsilon) for epsilon, _ in tested_points(result.guarantee)]
    end = _BEYOND * (max(tested) or 1)
    grid = {end * step / _STEPS for step in range(_STEPS + 1)}
    return [
        [
            float(epsilon),
            _up(float(result.guarantee.delta_at(epsilon).upper)),
            _down(result.delta_at(float(epsilon))),
        ]
        for epsilon in sorted(grid.union(tested))
    ]


def tradeoff_regions(certificates: Sequence[Certificate]) -> list[Points]:
    """Return, for each certificate, the outer corners of its confidence region, as [type I
    error, type II error].

    The two errors of its test are left of and below the line through the corners, but for the
    certificate's alpha. Bets, guesses at either side, and an event with an earlier one have no
    region of their own: an empty list.
    """
    return [_corners(None if one.earlier else one.region) for one in certificates]


def _corners(region: ConfidenceRegion | None) -> Points:
    """Return a staircase of fewer steps around the region: each has the widest end of the steps
    it replaces.
    """
    if region is None:
        return []
    last = len(region.upper) - 1
    chosen = np.unique(np.linspace(0, last, _CORNERS).round().astype(int))
    corners, height = Points(), 1 - float(region.lower[0])
    for index in chosen:
        corners.append([_up(float(region.upper[index])), _up(height)])
        height = 1 - float(region.lower[min(index + 1, last)])
    return corners


def _up(value: float) -> float:
    """Round up to six digits; a probability stays at most one."""
    return min(1.0, float(f"{value * (1 + _DIGITS):.6g}"))


def _down(value: float) -> float:
    """Round down to six digits."""
    return float(f"{value * (1 - _DIGITS):.6g}")


__all__ = ["profile_points", "tradeoff_regions"]
