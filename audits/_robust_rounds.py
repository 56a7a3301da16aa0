"""Attacks on ``robust_mean`` in rounds: a soft core in a plane, under replace.

In units of a deviation, friends are within 4, and the ball's radius is slightly more than 3. A
crowd is even in all directions; a group at the end of the first axis makes a large variance, so
that the rounds are in slices across it.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from dpverify import Adjacency, ApproxDP, RobustMean
from dpverify.audit import Configuration, Fault, NeighboringPair, replaced
from dpverify.audit.faults import plan_fault
from dpverify.grid import Transcripts, View
from dpverify.grid.slice_sums import SliceSum
from dpverify.randomness.bits import IntArray

from ._moving import Faulty
from ._robust_faults import changed, query_of

_N = 4000
_SHARES = tuple(map(Fraction, ("0.03", "0.01", "0.01", "0.95")))
_GROUP = 200
_MIDDLE = 0.147  # of all records, so that both ends of a slice are in the ball
_ROUND = "round 1"

Row = tuple[float, float]


def mechanism() -> RobustMean:
    """Build the mechanism with most of mu^2 for the two rounds, which alone are attacked here."""
    given: dict[str, Any] = {
        "deviations": (1.0, 1.0),
        "radius": 4,
        "record_radius": 3,
        "n_max": _N,
        "gamma": Fraction(0),  # so that a fit has one choice, and is quick
        "full": Fraction(3, 4),
        "directions": 1,
        "inner": 2,
        "rounds": 2,
        "bins": 6,
        "shares": _SHARES,
    }
    return RobustMean.for_budget(ApproxDP(8, "1e-6"), adjacency=Adjacency.REPLACE, **given)


# --- pairs --------------------------------------------------------------------------------------


def _crowd(n: int, away: float = 0.5) -> list[Row]:
    """Place about a quarter of the records on either side of zero on each axis."""
    ends = [(away, 0.0), (0.0, away), (-away, 0.0), (0.0, -away)]
    return [ends[i % 4] for i in range(n)]


def pairs() -> tuple[NeighboringPair, ...]:
    """List pairs that move the sum of one slice, or of two, the most."""
    crowd = [*[(2.9, 0.0)] * _GROUP, *_crowd(_N - 1 - _GROUP)]
    return (
        replaced("from end to end of one slice", [(_MIDDLE, 2.93), *crowd], (_MIDDLE, -2.93)),
        replaced("from slice to slice", [(2.95, 0.0), *crowd], (-2.75, 0.0)),
    )


# --- faults -------------------------------------------------------------------------------------


def _exact_numbers(mechanism: RobustMean) -> Fault:
    """Have the numbers of records in slices in units of a 64th of the noise: their weight is taken
    for one."""
    query = query_of(mechanism, _ROUND)

    def value(base: SliceSum, view: View, before: Transcripts) -> IntArray:
        right = base.evaluate(view, before).reshape(len(before), base.count, -1)
        right[..., -1] *= 64
        return right.reshape(len(before), -1)

    wrong = Faulty.of(query, value)
    return plan_fault(
        "numbers in slices with a 64th of the noise",
        mechanism,
        changed(mechanism, _ROUND, query=wrong),
    )


def _in_two_slices(mechanism: RobustMean) -> Fault:
    """Count each record in all slices up to its own, with the noise for one."""
    query = query_of(mechanism, _ROUND)

    def value(base: SliceSum, view: View, before: Transcripts) -> IntArray:
        right = base.evaluate(view, before).reshape(len(before), base.count, -1)
        return np.cumsum(right[:, ::-1], axis=1)[:, ::-1].reshape(len(before), -1)

    wrong = Faulty.of(query, value)
    return plan_fault(
        "sums of all slices up to each", mechanism, changed(mechanism, _ROUND, query=wrong)
    )


def configuration(name: str) -> Configuration:
    """Build the configuration."""
    made = mechanism()
    return Configuration(
        name=name,
        mechanism=made,
        pairs=pairs(),
        faults=[fault(made) for fault in (_exact_numbers, _in_two_slices)],
        quick_trials=14_000,
        target_stages=frozenset({"round 1", "round 2"}),
    )
