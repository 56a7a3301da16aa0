"""Attacks on ``robust_mean`` with votes for the farthest column: a soft core in a plane, under
replace.

In units of a deviation, friends are within 5 and the ball's radius is slightly more than 3. Half
of a crowd is on each axis, and so votes for it; a group at the end of the first axis is cut off
where its votes are too many.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from dpverify import Adjacency, ApproxDP, RobustMean
from dpverify.audit import Configuration, Fault, NeighboringPair, SmallInstance, replaced
from dpverify.audit.faults import plan_fault
from dpverify.grid import Transcripts, View
from dpverify.grid.farthest_columns import FarthestColumns
from dpverify.grid.region_queries import SlabSum
from dpverify.randomness.bits import IntArray

from ._moving import Faulty
from ._robust_faults import changed, query_of, with_exact

_N = 4000
_SHARES = tuple(map(Fraction, ("0.04", "0.92", "0.04")))
_GROUP = 156  # with one more vote in excess the column is cut, without noise

Row = tuple[float, float]


def _made(n_max: int, **own: Any) -> dict[str, Any]:
    return {
        "adjacency": Adjacency.REPLACE,
        "deviations": (1.0, 1.0),
        "radius": 5,
        "record_radius": 3.25,
        "n_max": n_max,
        "full": Fraction(3, 4),
        "directions": 0,
        "votes": True,
        **own,
    }


def _mechanism() -> RobustMean:
    """Build the mechanism with most of mu^2 for the votes, which are attacked here, with the sum
    in the boxes that they choose."""
    return RobustMean.for_budget(
        ApproxDP(8, "1e-6"), **_made(_N, gamma=Fraction(1, 10), shares=_SHARES)
    )


# --- pairs --------------------------------------------------------------------------------------


def _crowd(n: int, away: float = 1.0) -> list[Row]:
    """Place equally many records on either side of zero on each axis; the remainder goes on the
    second."""
    quarter = n // 4
    first = [(away, 0.0)] * quarter + [(-away, 0.0)] * quarter
    second = [(0.0, away)] * quarter + [(0.0, -away)] * (n - 3 * quarter)
    return [*first, *second]


def _group(count: int) -> list[Row]:
    """Place records at both ends of the first axis, outside the box of a cut column."""
    return [(3.1, 0.0)] * (count // 2) + [(-3.1, 0.0)] * (count - count // 2)


def _pairs() -> tuple[NeighboringPair, ...]:
    least = [(0.0, 3.1), *_group(_GROUP), *_crowd(_N - _GROUP - 1)]
    return (
        replaced("from axis to axis on the rim", [(3.1, 0.0), *_crowd(_N - 1)], (0.0, 3.1)),
        replaced("the vote for which a column is cut", least, (3.1, 0.0)),
        replaced("an outlier within two radii comes in", [(4.0, 4.0), *_crowd(_N - 1)], (3.1, 0.0)),
    )


# --- faults -------------------------------------------------------------------------------------


def _each_coordinate(mechanism: RobustMean) -> Fault:
    """Weigh a record's vote by the size of the coordinate it names, in half deviations."""
    query = query_of(mechanism, "votes")

    def value(base: FarthestColumns, view: View, before: Transcripts) -> IntArray:
        points = base.place(before)[0]
        images = view.images(base.nearness).distinct
        half = 2.0 ** (-1 - base.nearness.exponent)
        votes = np.zeros((len(points), base.width), np.int64)
        for row, point in zip(votes, points, strict=True):
            away = np.abs(images.vectors - point)
            named = away.argmax(axis=1)
            weights = (away.max(axis=1) / half).astype(np.int64).clip(0, 6) * images.counts
            np.add.at(row, named, weights)
        return votes

    wrong = Faulty.of(query, value)
    return plan_fault(
        "votes that weigh more the farther a record is",
        mechanism,
        changed(mechanism, "votes", query=wrong),
    )


def _exactly_named(mechanism: RobustMean) -> Fault:
    """Choose boxes by the exact votes, as if their release made them public."""
    query, votes = query_of(mechanism, "sum and count"), query_of(mechanism, "votes")

    def value(base: SlabSum, view: View, before: Transcripts) -> IntArray:
        return base.evaluate(view, with_exact(before, {"votes": votes.evaluate(view, before)}))

    wrong = Faulty.of(query, value, None, *votes.reads)
    return plan_fault(
        "boxes by the exact votes", mechanism, changed(mechanism, "sum and count", query=wrong)
    )


def configuration(name: str) -> Configuration:
    """Build the configuration; missing noise in the other stages shows in ``soft-core``."""
    mechanism = _mechanism()
    return Configuration(
        name=name,
        mechanism=mechanism,
        pairs=_pairs(),
        faults=[fault(mechanism) for fault in (_each_coordinate, _exactly_named)],
        quick_trials=24_000,
        target_stages=frozenset({"votes"}),
    )


def small() -> SmallInstance:
    """Return an instance in which some outcomes of the votes cut a column and others do not."""
    group = 38
    mechanism = RobustMean(
        **_made(
            150,
            noise_multiplier=Fraction(1, 8),
            tail=Fraction(1, 1000),
            gamma=Fraction(1, 5),
            shares=(Fraction(1, 3),) * 3,
        )
    )
    data = [*_group(group), *_crowd(150 - group)]
    return SmallInstance(name="plane, votes, replace", mechanism=mechanism, data=data)
