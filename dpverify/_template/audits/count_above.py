"""Attacks on ``count_above``."""

from __future__ import annotations

from fractions import Fraction

from dpverify import Adjacency, PureDP
from dpverify.audit import Configuration, SmallInstance, added, replaced

from ..mechanisms.count_above import CountAbove

CONFIGURATIONS = (
    Configuration(
        name="adults",
        mechanism=CountAbove.for_budget(PureDP(1), adjacency=Adjacency.ADD_REMOVE, threshold=18.0),
        pairs=(
            added("one more of age", [17.0, 40.0], 30.0),
            added("exactly on the threshold", [17.0] * 3, 18.0),
            added("nobody against somebody", [], 90.0),
        ),
    ),
    Configuration(
        name="adults",
        mechanism=CountAbove.for_budget(PureDP("0.5"), adjacency=Adjacency.REPLACE, threshold=18.0),
        pairs=(replaced("a minor comes of age", [17.0, 40.0], 18.0),),
    ),
)

SMALL = (
    SmallInstance(
        name="scale 1",
        mechanism=CountAbove(
            adjacency=Adjacency.ADD_REMOVE, noise_multiplier=Fraction(1), threshold=1.0
        ),
        data=(0.5, 1.0, 1e308),
        max_choices=16,
    ),
)
