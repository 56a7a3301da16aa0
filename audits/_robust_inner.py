"""Attacks on ``robust_mean`` with inner moments: a soft core in a plane, under replace.

In units of a deviation, friends are within 4, the ball's radius is slightly more than 3, and
records count by at most sqrt(3) in the inner moments. A crowd is even in all directions; a group
at the end of the first axis makes a large variance, so that a slab is cut.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from dpverify import Adjacency, ApproxDP, RobustMean
from dpverify.audit import Configuration, Fault, NeighboringPair, replaced
from dpverify.audit.faults import plan_fault
from dpverify.grid import Transcripts, View
from dpverify.grid.inner_moments import InnerMoments
from dpverify.grid.region_queries import SlabSum
from dpverify.randomness.bits import IntArray

from ._moving import Faulty
from ._robust_faults import changed, query_of, with_exact

_N = 4000
_SHARES = tuple(map(Fraction, ("0.04", "0.04", "0.88", "0.04")))
_GROUP = 80  # with one more record there a slab is cut, without noise

Row = tuple[float, float]


def _made(n_max: int, **own: Any) -> dict[str, Any]:
    return {
        "adjacency": Adjacency.REPLACE,
        "deviations": (1.0, 1.0),
        "radius": 4,
        "record_radius": 3,
        "n_max": n_max,
        "full": Fraction(3, 4),
        "directions": 1,
        "inner": 2,
        "bins": 6,
        **own,
    }


def mechanism() -> RobustMean:
    """Build the mechanism with most of mu^2 for the inner moments, the only ones attacked here."""
    return RobustMean.for_budget(
        ApproxDP(8, "1e-6"), **_made(_N, gamma=Fraction(1, 10), shares=_SHARES)
    )


# --- pairs --------------------------------------------------------------------------------------


def _crowd(n: int, away: float = 0.5) -> list[Row]:
    """Place about a quarter of the records on either side of zero on each axis."""
    ends = [(away, 0.0), (0.0, away), (-away, 0.0), (0.0, -away)]
    return [ends[i % 4] for i in range(n)]


def pairs() -> tuple[NeighboringPair, ...]:
    """List pairs that move the inner moments the most, and one that decides about a slab."""
    ends = [(2.8 if i % 2 else -2.8, 0.0) for i in range(_GROUP)]
    return (
        replaced("from axis to axis on the rim", [(2.95, 0.0), *_crowd(_N - 1)], (0.0, 2.95)),
        replaced(
            "the record for which a slab is cut",
            [(0.0, 0.5), *ends, *_crowd(_N - 1 - _GROUP)],
            (2.8, 0.0),
        ),
        replaced(
            "all equal, but for one on the rim", [(2.1, 2.1), *[(0.0, 0.0)] * (_N - 1)], (3.0, 3.0)
        ),
    )


# --- faults -------------------------------------------------------------------------------------


def _as_they_are(mechanism: RobustMean) -> Fault:
    """Take the inner moments of records as long as they are, with the noise for such as are drawn
    in."""
    query = query_of(mechanism, "inner moments")

    def value(base: InnerMoments, view: View, before: Transcripts) -> IntArray:
        images = view.images(base.nearness).distinct
        points, along = base.place(before)[0], base.along(before)
        unit = 2.0**40 / float(base.unit())
        rows, columns = np.triu_indices(base.count + 1, 1)
        values = []
        for point, axes in zip(points, along, strict=True):
            places = (images.vectors - point) @ axes.T / 4096
            inner = np.column_stack([places, np.full(len(places), base.reach / 4)])
            moments = (inner * images.counts[:, np.newaxis]).T @ inner * unit
            values.append([*np.diag(moments), *(moments[rows, columns] * 239 / 169)])
        return np.rint(np.array(values)).astype(np.int64)

    wrong = Faulty.of(query, value)
    return plan_fault(
        "inner moments of records that are not drawn in",
        mechanism,
        changed(mechanism, "inner moments", query=wrong),
    )


def _exactly_seen(mechanism: RobustMean) -> Fault:
    """Cut slabs by the exact inner moments, as if their release made them public."""
    query, inner = query_of(mechanism, "sum and count"), query_of(mechanism, "inner moments")

    def value(base: SlabSum, view: View, before: Transcripts) -> IntArray:
        exact = {"inner moments": inner.evaluate(view, before)}
        return base.evaluate(view, with_exact(before, exact))

    wrong = Faulty.of(query, value, None, *inner.reads)
    return plan_fault(
        "slabs by the exact inner moments",
        mechanism,
        changed(mechanism, "sum and count", query=wrong),
    )


def configuration(name: str) -> Configuration:
    """Build the configuration."""
    made = mechanism()
    return Configuration(
        name=name,
        mechanism=made,
        pairs=pairs(),
        faults=[fault(made) for fault in (_as_they_are, _exactly_seen)],
        quick_trials=14_000,
        target_stages=frozenset({"inner moments"}),
    )
