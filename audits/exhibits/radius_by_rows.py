"""A radius that grows with the number of rows: one record more, and everybody agrees.

"Pairs are within lambda(n) with high probability" is a statement about the data, so lambda looks
like a number to compute from n. Under add-remove it tells n, and decides for all pairs at once
who is friends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpverify import Adjacency, ApproxDP, RescaledMean, conjecture
from dpverify.audit import Exhibit, added
from dpverify.plans.law import Law
from dpverify.privacy import Domain, Source, SourceStatus
from dpverify.randomness import Bits

_N = 1000


def _radius(n: int) -> float:
    """Return sqrt(2) + 2 sqrt(ln(n^2 / beta)), beta = 1/20, for normal records of variance 1 in
    one dimension."""
    return math.sqrt(2) + 2 * math.sqrt(math.log(20 * max(n, 1) ** 2))


def radius_by_rows(data: Sequence[Any], size: int, bits: Bits) -> Sequence[Any]:
    """Return whether ``RescaledMean`` with that radius releases a mean."""
    records = np.asarray(data, dtype=np.float64).reshape(-1, 1)
    mechanism = RescaledMean.for_budget(
        ApproxDP(1, "1e-6"),
        adjacency=Adjacency.ADD_REMOVE,
        matrix=(1.0,),
        radius=_radius(len(records)),
        ladder_multiplier=None,
        n_max=_N,
    )
    law: Law = mechanism.law(records)
    released: list[bool] = (law.sample(bits, size).stopped_by < 0).tolist()
    return released


_APART = (_radius(_N) + _radius(_N + 1)) / 2
EXHIBIT = Exhibit(
    name="radius_by_rows",
    function=radius_by_rows,
    claim=conjecture(
        ApproxDP(1, "1e-6"),
        adjacency=Adjacency.ADD_REMOVE,
        domain=Domain(columns=1),
        source=Source(
            "DJYZZ24",
            "Algorithm 1 with lambda from the number of records",
            SourceStatus.REFUTED,
            "n_max, a public number, in its place",
        ),
    ),
    pairs=(added("half of them apart by lambda", [0.0] * (_N // 2) + [_APART] * (_N // 2), 0.0),),
    why="the two halves are friends with the record and strangers without it: only with it a "
    "mean is released",
)
