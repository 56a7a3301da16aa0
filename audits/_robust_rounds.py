"""Attacks on ``robust_mean`` in rounds: a soft core in a plane, under replace.

In units of a deviation, friends are within 4, and the ball's radius is slightly more than 3. A
crowd is even in all directions; a group at the end of the first axis makes a large variance, so
that the rounds are in slices across it. Records there are drawn in to 9/16 of the radius.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify import Adjacency, ApproxDP, RobustMean
from dpverify.audit import Configuration, Fault, NeighboringPair, replaced
from dpverify.audit.faults import plan_fault
from dpverify.grid import Released, Transcripts, View
from dpverify.grid.slice_sums import SliceSum
from dpverify.privacy.numbers import to_float
from dpverify.randomness.bits import IntArray

from ._moving import Faulty
from ._robust_faults import changed, query_of

_N = 8000  # so many that the balls hardly depend on the noise in the agreement
_SHARES = tuple(map(Fraction, ("0.01", "0.004", "0.004", "0.4", "0.582")))
_GROUP = _N // 20
_MIDDLE = 0.147  # of all records, so that both ends of a slice are in the ball
_ROUND = "round 1"

Row = tuple[float, float]


def mechanism() -> RobustMean:
    """Build the mechanism with most of mu^2 for the signed count and the two rounds, which
    alone are attacked here."""
    given: dict[str, Any] = {
        "deviations": (1.0, 1.0),
        "radius": 4,
        "record_radius": 3,
        "n_max": _N,
        "gamma": Fraction(1, 20),
        "full": Fraction(3, 4),
        "directions": 1,
        "inner": 2,
        "rounds": 2,
        "bins": 6,
        "drawn": Fraction(3, 4),
        "shares": _SHARES,
    }
    return RobustMean.for_budget(ApproxDP(20, "1e-6"), adjacency=Adjacency.REPLACE, **given)


# --- pairs --------------------------------------------------------------------------------------


def _crowd(n: int, away: float = 0.5) -> list[Row]:
    """Place about a quarter of the records on either side of zero on each axis."""
    ends = [(away, 0.0), (0.0, away), (-away, 0.0), (0.0, -away)]
    return [ends[i % 4] for i in range(n)]


def pairs() -> tuple[NeighboringPair, ...]:
    """List pairs that move the signed count and the sum of either slice the most."""
    crowd = [*[(2.9, 0.0)] * _GROUP, *_crowd(_N - 1 - _GROUP)]
    ends = (_MIDDLE + 0.5, 2.88), (_MIDDLE - 0.5, -2.88)
    beyond = (1.35, 2.6), (1.85, -2.32)  # on either side of the signed count's last edge
    return (
        replaced("from end to end of one slice", [ends[0], *crowd], ends[1]),
        replaced("from end to end of the slice beyond the edge", [beyond[0], *crowd], beyond[1]),
    )


# --- faults -------------------------------------------------------------------------------------


def _in_two_slices(mechanism: RobustMean) -> Fault:
    """Count each record of the first slice in the second one too, with the noise for one."""

    def value(base: SliceSum, view: View, before: Transcripts) -> IntArray:
        right = base.evaluate(view, before).reshape(len(before), 2, -1)
        return np.cumsum(right, axis=1).reshape(len(before), -1)

    return _planted(mechanism, "records of one slice in both", _ROUND, value)


def _half_the_noise(mechanism: RobustMean) -> Fault:
    """Release the second slice with half of its noise."""

    def value(base: SliceSum, view: View, before: Transcripts) -> IntArray:
        right = base.evaluate(view, before).reshape(len(before), 2, -1)
        return np.asarray((right * np.array([[1], [2]])).reshape(len(before), -1))

    return _planted(mechanism, "half of the noise beyond the edge", _ROUND, value)


def _not_drawn_in(mechanism: RobustMean) -> Fault:
    """Sum the records as they are, with the noise for such as are drawn in."""

    def value(base: SliceSum, view: View, before: Transcripts) -> IntArray:
        radii = Released(base.place.reads, lambda batch: base.place(batch)[1])
        values = replace(base, lengths=radii).evaluate(view, before)
        both = np.column_stack([radii(before), base.lengths(before)])
        pairs, which = np.unique(both, axis=0, return_inverse=True)
        more = [to_float(base.unit(whole) / base.unit(drawn)) for whole, drawn in pairs.tolist()]
        return np.asarray(np.rint(values * np.array(more)[which.ravel(), np.newaxis]), np.int64)

    return _planted(mechanism, "records that are not drawn in", _ROUND, value)


def _planted(mechanism: RobustMean, name: str, stage: str, value: Any, *reads: str) -> Fault:
    wrong = Faulty.of(query_of(mechanism, stage), value, None, *reads)
    return plan_fault(name, mechanism, changed(mechanism, stage, query=wrong))


def configuration(name: str) -> Configuration:
    """Build the configuration."""
    made = mechanism()
    return Configuration(
        name=name,
        mechanism=made,
        pairs=pairs(),
        faults=[fault(made) for fault in (_in_two_slices, _half_the_noise, _not_drawn_in)],
        quick_trials=7_200,
        target_stages=frozenset({"sides", "round 1", "round 2"}),
    )
