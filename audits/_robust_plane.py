"""Attacks on ``robust_mean`` as it is shipped: a soft core in a plane, under replace, along two
directions.

In units of a deviation, friends are within 4, the ball's radius is slightly more than 3, and
records are drawn in to three quarters of it. A crowd on the first axis makes the axes the
directions; a group at its end makes a tail, so that a slab is cut.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dpverify import Adjacency, ApproxDP, RobustMean
from dpverify.audit import Configuration, NeighboringPair, replaced

from ._robust_faults import as_they_are, exactly_cut

_N, _BINS = 4000, 6
_RADIUS, _BALL = 4, 3.0
_SHARES = tuple(map(Fraction, ("0.04", "0.47", "0.45", "0.04")))
_TAIL = [(0.9 * _BALL, 0.0)] * 234  # without noise a slab is cut from this number on

Row = tuple[float, float]


def _mechanism() -> RobustMean:
    """Build the mechanism with most of mu^2 for the middle stages, the only ones attacked here."""
    return RobustMean.for_budget(
        ApproxDP(8, "1e-6"),
        adjacency=Adjacency.REPLACE,
        deviations=(1.0, 1.0),
        radius=_RADIUS,
        record_radius=_BALL,
        n_max=_N,
        gamma=Fraction(1, 10),
        full=Fraction(3, 4),
        directions=2,
        bins=_BINS,
        shares=_SHARES,
        drawn=Fraction(3, 4),
    )


# --- pairs --------------------------------------------------------------------------------------


def _at(degrees: float, length: float = 0.982 * _BALL) -> Row:
    angle = math.radians(degrees)
    return length * math.cos(angle), length * math.sin(angle)


def _crowd(others: int = 1) -> list[Row]:
    """Place nearly all records on either side of zero on the first axis, leaving ``others`` out."""
    half, odd = divmod(_N - others, 2)
    return [(-0.5, 0.0)] * half + [(0.5, 0.0)] * half + [(0.0, 0.0)] * odd


def _pairs() -> tuple[NeighboringPair, ...]:
    """List pairs from axis to axis, which change all second moments and the bins along both
    axes, also with signs changed."""
    far = [_at(45, 1.9 * _RADIUS)] * (_N // 10)
    same = [(0.0, 0.0)] * (_N - 1)
    return (
        replaced("from axis to axis on the rim", [_at(92), *_crowd()], _at(-2)),
        replaced("the record for which a slab is cut", [*_TAIL, *_crowd(len(_TAIL))], (0.5, 0.0)),
        replaced("a far outlier becomes an inlier", [*far, *_crowd(len(far))], _at(45)),
        replaced("all equal, but for one on the rim", [_at(45), *same], _at(45, 1.05 * _BALL)),
    )


def configuration(name: str) -> Configuration:
    """Build the configuration; missing noise in the first two stages shows in ``soft-core``, and
    missing noise in the sum shows there and in ``line``."""
    mechanism = _mechanism()
    return Configuration(
        name=name,
        mechanism=mechanism,
        pairs=_pairs(),
        faults=[fault(mechanism) for fault in (exactly_cut, as_they_are)],
        quick_trials=24_000,
        target_stages=frozenset({"moments", "histogram"}),
    )
